"""The little of Markdown that makes an agent's answers readable, as values: code, tables, headings,
what is said.

Pure. It makes no HTML: the templates do, and escape every piece. There are no links and no images.
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


class Piece(Value):
    """A part of a paragraph: `kind` is "plain", "code" or "strong"."""

    kind: str
    text: str


class Block(Value):
    """A part of a message: `kind` is "code", "table", "heading", "item" (of a list) or "text".

    The last three consist of `pieces`.
    """

    kind: str
    text: str = ""
    pieces: tuple[Piece, ...] = ()


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a message, in order."""
    lines = text.strip("\n").split("\n")
    said: list[str] = []
    place = 0
    while place < len(lines):
        taken = _code(lines, place) or _table(lines, place) or _heading(lines, place)
        if taken is None:
            said.append(lines[place])
            place += 1
            continue
        yield from _paragraphs(said)
        said = []
        block, place = taken
        yield block
    yield from _paragraphs(said)


def _code(lines: list[str], place: int) -> tuple[Block, int] | None:
    """A fenced block; one that is not closed goes to the end."""
    opened = FENCE.match(lines[place])
    if opened is None:
        return None
    closes = re.compile(rf" {{0,3}}{re.escape(opened[1])}+[ \t]*")
    end = next((n for n in range(place + 1, len(lines)) if closes.fullmatch(lines[n])), len(lines))
    return Block("code", "\n".join(lines[place + 1 : end])), end + 1


def _table(lines: list[str], place: int) -> tuple[Block, int] | None:
    end = place
    while end < len(lines) and lines[end].lstrip().startswith("|"):
        end += 1
    return (Block("table", "\n".join(lines[place:end])), end) if end - place > 1 else None


def _heading(lines: list[str], place: int) -> tuple[Block, int] | None:
    found = HEADING.match(lines[place])
    return (Block("heading", pieces=tuple(_pieces(found[1]))), place + 1) if found else None


def _paragraphs(lines: list[str]) -> Iterator[Block]:
    """Paragraphs and the items of lists: an item goes on until the next one, or an empty line."""
    kind = "text"
    said: list[str] = []
    for line in [*lines, ""]:
        item = ITEM.match(line) is not None
        if said and (item or not line.strip()):
            yield Block(kind, pieces=tuple(_pieces("\n".join(said))))
            said = []
        if not said:
            kind = "item" if item else "text"
        if line.strip():
            said.append(line)


def _pieces(text: str) -> Iterator[Piece]:
    place = 0
    for found in PIECE.finditer(text):
        if found.start() > place:
            yield Piece("plain", text[place : found.start()])
        yield Piece("code", found[2]) if found[2] is not None else Piece("strong", found[3])
        place = found.end()
    if place < len(text):
        yield Piece("plain", text[place:])
