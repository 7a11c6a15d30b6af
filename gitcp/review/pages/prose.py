"""Parse the Markdown that agents' answers use: code, tables, headings, emphasis. Pure.

Makes no HTML: the templates do, and escape every piece. Links and images are left as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gitcp.value import Value

FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^`\n]*)$")
HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.+?)[ \t#]*$")
ITEM = re.compile(r"[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]+\S")
PIECE = re.compile(
    r"(?<!`)(`{1,2})(?!`)([^\n]{1,400}?)(?<!`)\1(?!`)|\*\*(?=\S)([^*\n]{1,200}?)(?<=\S)\*\*"
)


class Fragment(Value):
    """A part of a paragraph. `kind` is "plain", "code" or "strong"."""

    kind: str
    text: str


class ProseBlock(Value):
    """A part of a message. `kind` is "code", "table", "heading", "item" (of a list) or "text"; the
    last three consist of `pieces`.
    """

    kind: str
    text: str = ""
    pieces: tuple[Fragment, ...] = ()


def blocks(text: str) -> Iterator[ProseBlock]:
    """Yield the blocks of a message, in order."""
    lines = text.strip("\n").split("\n")
    paragraph: list[str] = []
    at = 0
    while at < len(lines):
        match = _code(lines, at) or _table(lines, at) or _heading(lines, at)
        if match is None:
            paragraph.append(lines[at])
            at += 1
            continue
        yield from _paragraphs(paragraph)
        paragraph = []
        block, at = match
        yield block
    yield from _paragraphs(paragraph)


def _code(lines: list[str], at: int) -> tuple[ProseBlock, int] | None:
    """Parse a fenced block. Without a closing fence it extends to the end."""
    opened = FENCE.match(lines[at])
    if opened is None:
        return None
    closes = re.compile(rf" {{0,3}}{re.escape(opened[1])}+[ \t]*")
    end = next((n for n in range(at + 1, len(lines)) if closes.fullmatch(lines[n])), len(lines))
    return ProseBlock("code", "\n".join(lines[at + 1 : end])), end + 1


def _table(lines: list[str], start: int) -> tuple[ProseBlock, int] | None:
    end = start
    while end < len(lines) and lines[end].lstrip().startswith("|"):
        end += 1
    return (ProseBlock("table", "\n".join(lines[start:end])), end) if end - start > 1 else None


def _heading(lines: list[str], at: int) -> tuple[ProseBlock, int] | None:
    match = HEADING.match(lines[at])
    return (ProseBlock("heading", pieces=tuple(_pieces(match[1]))), at + 1) if match else None


def _paragraphs(lines: list[str]) -> Iterator[ProseBlock]:
    """Yield paragraphs and list items. An item ends at the next one or at an empty line."""
    kind = "text"
    paragraph: list[str] = []
    for line in [*lines, ""]:
        item = ITEM.match(line) is not None
        if paragraph and (item or not line.strip()):
            yield ProseBlock(kind, pieces=tuple(_pieces("\n".join(paragraph))))
            paragraph = []
        if not paragraph:
            kind = "item" if item else "text"
        if line.strip():
            paragraph.append(line)


def _pieces(text: str) -> Iterator[Fragment]:
    at = 0
    for match in PIECE.finditer(text):
        if match.start() > at:
            yield Fragment("plain", text[at : match.start()])
        yield Fragment("code", match[2]) if match[2] is not None else Fragment("strong", match[3])
        at = match.end()
    if at < len(text):
        yield Fragment("plain", text[at:])
