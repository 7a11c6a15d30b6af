"""Blocks of gitcp's own at the end of a text, and their removal, with every other byte left as it
is.

A text that did not end in a line end does not end in one afterwards, and a block is kept from what
stands before it by an empty line, unless it is all there is: so removing is the exact inverse, and
nothing has to be remembered.
"""

from __future__ import annotations

import re
from collections.abc import Callable


def appended(text: str | None, block: str) -> str:
    """`text` with a block at its end, which ends in a line end itself. None is a file that is not
    there.
    """
    if text is None:
        return block
    newline = "\r\n" if "\r\n" in text else "\n"
    block = newline + block.replace("\n", newline)
    if not text or text.endswith("\n"):
        return text + block
    return text + newline + block.removesuffix(newline)


def cut(text: str, block: re.Pattern[str], chosen: Callable[[re.Match[str]], bool]) -> str | None:
    """`text` without the chosen blocks; None if it was made of nothing else.

    `block` matches from the beginning of a line to the end of one, with the empty line before it.
    """
    made = block.sub(lambda found: "" if chosen(found) else found[0], text)
    if made == text:
        return text
    if not text.startswith(("\n", "\r\n")):
        if not made:
            return None
        made = re.sub(r"\A\r?\n", "", made)
    return made if text.endswith("\n") else re.sub(r"\r?\n\Z", "", made)
