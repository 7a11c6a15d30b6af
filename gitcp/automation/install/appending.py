"""Append blocks to a text and remove them again, leaving every other byte alone.

A text without a final line feed has none afterwards either, and a block is separated
by an empty line, unless it is the whole text. So removal is the exact inverse, and
nothing needs to be remembered.
"""

from __future__ import annotations

import re
from collections.abc import Callable


def appended(text: str | None, block: str) -> str:
    """Return `text` with a block appended, which ends with a line feed. None stands for a missing
    file.
    """
    if text is None:
        return block
    newline = "\r\n" if "\r\n" in text else "\n"
    block = newline + block.replace("\n", newline)
    if not text or text.endswith("\n"):
        return text + block
    return text + newline + block.removesuffix(newline)


def cut(text: str, block: re.Pattern[str], chosen: Callable[[re.Match[str]], bool]) -> str | None:
    """Return `text` without the chosen blocks; None if nothing else is left.

    `block` matches whole lines, including the empty line before it.
    """
    result = block.sub(lambda match: "" if chosen(match) else match[0], text)
    if result == text:
        return text
    if not text.startswith(("\n", "\r\n")):
        if not result:
            return None
        result = re.sub(r"\A\r?\n", "", result)
    return result if text.endswith("\n") else re.sub(r"\r?\n\Z", "", result)
