"""Add and remove entries in JSON files written by people, leaving every other byte alone.

Supports comments and trailing commas, as the agents' own parsers do. Two rules make removal the
exact inverse: what gitcp creates starts on a line of its own, and what it adds to an empty
container of the user's follows the bracket directly. So the two cases can be distinguished
later without storing anything.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from gitcp import wire
from gitcp.errors import BadValue

SPACE = " \t\n\r"
BLANKS = re.compile(r"[ \t\n\r]*")
COMMENT = re.compile(r"//[^\n\r]*|/\*.*?\*/", re.DOTALL)
STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
SCALAR = re.compile(r"-?\d[\d.eE+-]*|true|false|null")
INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)
DEEPEST = 100
BOM = "\ufeff"

Json = Any


class Member(NamedTuple):
    """One entry of an object or array: its `key` ("" in an array), value and position.

    It starts at `start` (at the key in an object); `lead` is the end of the token before it;
    `comma` is the position of the comma after it.
    """

    key: str
    node: Node
    start: int
    lead: int
    comma: int | None


class Node(NamedTuple):
    """A value and its position. `gap` is the end of the last comment or entry inside, if any."""

    value: Json
    start: int
    end: int
    items: tuple[Member, ...] = ()
    gap: int = 0

    def find(self, key: str) -> Member | None:
        """Return the entry with this key, the last one if there are several, as parsers do."""
        return next((item for item in reversed(self.items) if item.key == key), None)


def parse(text: str) -> Node:
    """Parse a document. Raises BadValue with the line of the first error."""
    reader = _Reader(text)
    start, _ = reader.skip(len(BOM) if text.startswith(BOM) else 0)
    root = reader.value(start, 0)
    end, _ = reader.skip(root.end)
    if end != len(text):
        raise reader.failure(end)
    return root


def append(text: str, path: tuple[str, ...], value: Json) -> str:
    """Return `text` with `value` appended to the array at `path`, which is created if missing.

    An empty `text` stands for a missing file. Raises BadValue if `path` leads to something else.
    """
    if not text:
        return _render(_nest(path, value), "", "  ", "\n") + "\n"
    node = root = parse(text)
    _expect(root, dict, "the document")
    for depth, key in enumerate(path):
        entry = node.find(key)
        if entry is None:
            return _insert(text, node, _nest(path[depth + 1 :], value), key)
        node = entry.node
        _expect(node, list if depth == len(path) - 1 else dict, ".".join(path[: depth + 1]))
    return _insert(text, node, value)


def add(text: str, key: str, value: Json) -> str:
    """Return `text` with a new last entry in the document, which is an object without this key."""
    return _insert(text, parse(text), value, key)


def remove(text: str, path: tuple[str | int, ...]) -> str:
    """Return `text` without the entry at `path`, and without what `append` created
    around it; "" if nothing is left.
    """
    node, ancestors = parse(text), list[tuple[Node, int]]()
    for step in path:
        item = node.items[step] if isinstance(step, int) else node.find(step)
        assert item is not None
        ancestors.append((node, node.items.index(item)))
        node = item.node
    while ancestors:
        node, index = ancestors.pop()
        if len(node.items) > 1 or node.items[0].start == node.start + 1 or _has_comment(node):
            return _without(text, node, index)
    outside = text[: node.start], text[node.end :]
    return "{}".join(outside) if "".join(outside).strip(SPACE) else ""


def _expect(node: Node, kind: type, location: str) -> None:
    if not isinstance(node.value, kind):
        raise BadValue(f"{location} is not an {'object' if kind is dict else 'array'}")


def _nest(path: tuple[str, ...], value: Json) -> Json:
    """Return an array of `value`, nested in objects with the keys of `path`."""
    result: Json = [value]
    for key in reversed(path):
        result = {key: result}
    return result


def _has_comment(node: Node) -> bool:
    """Return whether an entry's container has a comment of its own."""
    (item,) = node.items
    return item.lead != node.start + 1 or node.gap != max(item.node.end, (item.comma or 0) + 1)


def _without(text: str, node: Node, index: int) -> str:
    item = node.items[index]
    if item.comma is not None:
        return text[: item.lead] + text[item.comma + 1 :]
    text = text[: item.lead] + text[item.node.end :]
    if index == 0:
        return text
    comma = node.items[index - 1].comma
    assert comma is not None
    return text[:comma] + text[comma + 1 :]


def _insert(text: str, node: Node, value: Json, key: str = "") -> str:
    """Insert a new last entry into a container."""
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = match[1] if (match := INDENT.search(text)) else "  "
    outer = _indent(text, node.start)
    head = f"{wire.dumps(key).decode()}: " if key else ""
    if not node.items:
        at = node.start + 1
        return text[:at] + head + _render(value, outer, unit, newline) + text[at:]
    item_indent = _indent(text, node.items[0].start)
    inner = (
        item_indent if text[: node.items[0].start].endswith(newline + item_indent) else outer + unit
    )
    piece = newline + inner + head + _render(value, inner, unit, newline)
    last = node.items[-1]
    if last.comma is not None:
        return text[: node.gap] + piece + "," + text[node.gap :]
    end = last.node.end
    return text[:end] + "," + text[end : node.gap] + piece + text[node.gap :]


def _indent(text: str, position: int) -> str:
    """Return the indentation of the line at this position."""
    line = text[max(text.rfind("\n", 0, position), text.rfind("\r", 0, position)) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _render(value: Json, indent: str, unit: str, newline: str) -> str:
    """Format a value over several lines; the first has no indentation."""
    if not isinstance(value, dict | list) or not value:
        return wire.dumps(value).decode()
    inner = indent + unit
    if isinstance(value, dict):
        parts = [
            f"{wire.dumps(k).decode()}: {_render(v, inner, unit, newline)}"
            for k, v in value.items()
        ]
    else:
        parts = [_render(item, inner, unit, newline) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}{newline}{inner}{f',{newline}{inner}'.join(parts)}{newline}{indent}{closing}"


class _Reader:
    """A parser; each method takes the position to start at."""

    def __init__(self, text: str) -> None:
        self._text = text

    def failure(self, position: int) -> BadValue:
        line = self._text.count("\n", 0, position) + 1
        return BadValue(f"invalid JSON in line {line}")

    def skip(self, position: int) -> tuple[int, int | None]:
        """Skip white space and comments. Return the position of the next token
        and the end of the last comment.
        """
        commented = None
        while True:
            position = self._match(BLANKS, position)
            match = COMMENT.match(self._text, position)
            if match is None:
                return position, commented
            position = commented = match.end()

    def value(self, start: int, depth: int) -> Node:
        first = self._text[start : start + 1]
        if depth > DEEPEST:
            raise self.failure(start)
        if first in ("{", "["):
            return self._container(start, depth)
        match = STRING.match(self._text, start) or SCALAR.match(self._text, start)
        if match is None:
            raise self.failure(start)
        try:
            scalar = wire.loads(match[0].encode("utf-8", "surrogatepass"))
        except ValueError:
            raise self.failure(start) from None
        return Node(scalar, start, match.end())

    def _container(self, start: int, depth: int) -> Node:
        closing = "}" if self._text[start] == "{" else "]"
        items: list[Member] = []
        gap = start + 1
        while True:
            position, commented = self.skip(gap)
            gap = commented or gap
            if self._text[position : position + 1] == closing:
                break
            if items and items[-1].comma is None:
                raise self.failure(position)
            items.append(self._item(position, gap, depth, keyed=closing == "}"))
            gap = items[-1].node.end if items[-1].comma is None else items[-1].comma + 1
        value = (
            {item.key: item.node.value for item in items}
            if closing == "}"
            else [i.node.value for i in items]
        )
        return Node(value, start, position + 1, tuple(items), gap)

    def _item(self, start: int, lead: int, depth: int, *, keyed: bool) -> Member:
        key, position = "", start
        if keyed:
            name = self.value(start, depth)
            position, _ = self.skip(name.end)
            if not isinstance(name.value, str) or self._text[position : position + 1] != ":":
                raise self.failure(position)
            key = name.value
            position, _ = self.skip(position + 1)
        node = self.value(position, depth + 1)
        position, _ = self.skip(node.end)
        comma = position if self._text[position : position + 1] == "," else None
        return Member(key, node, start, lead, comma)

    def _match(self, pattern: re.Pattern[str], position: int) -> int:
        match = pattern.match(self._text, position)
        return match.end() if match else position
