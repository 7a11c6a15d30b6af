"""Entries put into JSON as people write it, and taken out again, with every other byte left as it
is.

Comments and trailing commas are understood, as the agents' own readers understand them. Two rules
make taking out the exact inverse of putting in: what gitcp makes begins on a line of its own, and
what it puts into something empty of the user's stands right behind the bracket. So both can be told
apart afterwards without anything being written down.
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


class Item(NamedTuple):
    """One entry of an object or array: its `key` ("" in an array), its value, and where it stands.

    It begins at `start` (an object's at its key); `lead` is the end of what stands before it but
    white space; `comma` is where the comma behind it is.
    """

    key: str
    node: Node
    start: int
    lead: int
    comma: int | None


class Node(NamedTuple):
    """A value and where it stands. `gap` is the end of the last comment inside, or of the last
    entry, if any.
    """

    value: Json
    start: int
    end: int
    items: tuple[Item, ...] = ()
    gap: int = 0

    def find(self, key: str) -> Item | None:
        """The entry of this key: the last one, as readers of JSON take it."""
        return next((item for item in reversed(self.items) if item.key == key), None)


def parse(text: str) -> Node:
    """The document in a text. Raises BadValue, saying where it stops to be one."""
    reader = _Reader(text)
    start, _ = reader.skip(len(BOM) if text.startswith(BOM) else 0)
    root = reader.value(start, 0)
    end, _ = reader.skip(root.end)
    if end != len(text):
        raise reader.failure(end)
    return root


def append(text: str, path: tuple[str, ...], value: Json) -> str:
    """`text` with `value` at the end of the array at `path`; the array, and what is around it, is
    made where missing.

    An empty `text` stands for a file that is not there. Raises BadValue where something else stands
    in the way.
    """
    if not text:
        return _rendered(_nested(path, value), "", "  ", "\n") + "\n"
    node = root = parse(text)
    _expect(root, dict, "the document")
    for depth, key in enumerate(path):
        found = node.find(key)
        if found is None:
            return _insert(text, node, _nested(path[depth + 1 :], value), key)
        node = found.node
        _expect(node, list if depth == len(path) - 1 else dict, ".".join(path[: depth + 1]))
    return _insert(text, node, value)


def remove(text: str, path: tuple[str | int, ...]) -> str:
    """`text` without the entry at `path`, and without what was made around it by `append`; "" if
    nothing is left.
    """
    node, way = parse(text), list[tuple[Node, int]]()
    for step in path:
        item = node.items[step] if isinstance(step, int) else node.find(step)
        assert item is not None
        way.append((node, node.items.index(item)))
        node = item.node
    while way:
        node, index = way.pop()
        if len(node.items) > 1 or node.items[0].start == node.start + 1 or _commented(node):
            return _without(text, node, index)
    outside = text[: node.start], text[node.end :]
    return "{}".join(outside) if "".join(outside).strip(SPACE) else ""


def _expect(node: Node, kind: type, where: str) -> None:
    if not isinstance(node.value, kind):
        raise BadValue(f"{where} is no {'object' if kind is dict else 'array'}")


def _nested(path: tuple[str, ...], value: Json) -> Json:
    """The array of `value`, in as many objects as there are keys in `path`."""
    made: Json = [value]
    for key in reversed(path):
        made = {key: made}
    return made


def _commented(node: Node) -> bool:
    """Whether an entry's container holds a comment of its own."""
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
    """A new last entry of a container."""
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = found[1] if (found := INDENT.search(text)) else "  "
    outer = _indent(text, node.start)
    head = f"{wire.dumps(key).decode()}: " if key else ""
    if not node.items:
        at = node.start + 1
        return text[:at] + head + _rendered(value, outer, unit, newline) + text[at:]
    own = _indent(text, node.items[0].start)
    inner = own if text[: node.items[0].start].endswith(newline + own) else outer + unit
    piece = newline + inner + head + _rendered(value, inner, unit, newline)
    last = node.items[-1]
    if last.comma is not None:
        return text[: node.gap] + piece + "," + text[node.gap :]
    end = last.node.end
    return text[:end] + "," + text[end : node.gap] + piece + text[node.gap :]


def _indent(text: str, position: int) -> str:
    """The white space at the beginning of the line that holds this position."""
    line = text[max(text.rfind("\n", 0, position), text.rfind("\r", 0, position)) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _rendered(value: Json, indent: str, unit: str, newline: str) -> str:
    """A value over several lines, the first of them without its indent."""
    if not isinstance(value, dict | list) or not value:
        return wire.dumps(value).decode()
    inner = indent + unit
    if isinstance(value, dict):
        parts = [
            f"{wire.dumps(k).decode()}: {_rendered(v, inner, unit, newline)}"
            for k, v in value.items()
        ]
    else:
        parts = [_rendered(item, inner, unit, newline) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}{newline}{inner}{f',{newline}{inner}'.join(parts)}{newline}{indent}{closing}"


class _Reader:
    """Reads one text; every method takes where to begin."""

    def __init__(self, text: str) -> None:
        self._text = text

    def failure(self, position: int) -> BadValue:
        line = self._text.count("\n", 0, position) + 1
        return BadValue(f"line {line} is no JSON")

    def skip(self, position: int) -> tuple[int, int | None]:
        """Past white space and comments: where the next token begins, and where the last comment
        ended.
        """
        commented = None
        while True:
            position = self._match(BLANKS, position)
            found = COMMENT.match(self._text, position)
            if found is None:
                return position, commented
            position = commented = found.end()

    def value(self, start: int, depth: int) -> Node:
        first = self._text[start : start + 1]
        if depth > DEEPEST:
            raise self.failure(start)
        if first in ("{", "["):
            return self._container(start, depth)
        found = STRING.match(self._text, start) or SCALAR.match(self._text, start)
        if found is None:
            raise self.failure(start)
        return Node(self._scalar(found[0], start), start, found.end())

    def _scalar(self, token: str, start: int) -> Json:
        try:
            return wire.loads(token.encode("utf-8", "surrogatepass"))
        except ValueError:
            raise self.failure(start) from None

    def _container(self, start: int, depth: int) -> Node:
        closing = "}" if self._text[start] == "{" else "]"
        items: list[Item] = []
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

    def _item(self, start: int, lead: int, depth: int, *, keyed: bool) -> Item:
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
        return Item(key, node, start, lead, comma)

    def _match(self, pattern: re.Pattern[str], position: int) -> int:
        found = pattern.match(self._text, position)
        return found.end() if found else position
