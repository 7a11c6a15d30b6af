"""Parse the JSON that an agent passes to a hook, as far as it is complete.

Python's own decoder takes as long to load as Python itself. Payloads are small, or truncated: a
tool's output can exceed what a hook reads, and the relevant fields come first.
"""

from __future__ import annotations

from _json import scanstring

DEEPEST = 50
BLANK = " \t\n\r"
ENDS = ",]} \t\n\r"
LITERALS = {"true": True, "false": False, "null": None}
BROKEN = (IndexError, ValueError, SystemError)
"""Raised for invalid text. SystemError: the scanner needs a module for its message that is not
loaded.
"""

Fields = dict[str, object]


def fields(text: str) -> Fields:
    """Return the fields of the object, as many as can be parsed; none if it is no object."""
    members: Fields = {}
    try:
        at = _blank(text, 0)
        if text[at] == "{":
            _members(text, at + 1, 0, members)
    except BROKEN:
        pass
    return members


def value(text: str) -> object:
    """Return the JSON value, None if it is invalid."""
    try:
        return _value(text, _blank(text, 0), 0)[0]
    except BROKEN:
        return None


def _value(text: str, at: int, depth: int) -> tuple[object, int]:
    if depth > DEEPEST:
        raise ValueError
    if text[at] == '"':
        return scanstring(text, at + 1, False)
    if text[at] == "{":
        members: Fields = {}
        return members, _members(text, at + 1, depth, members)
    if text[at] == "[":
        return _items(text, at + 1, depth)
    return _plain(text, at)


def _members(text: str, at: int, depth: int, members: Fields) -> int:
    """Read the members of an object into `members`; return the offset after it."""
    at = _blank(text, at)
    while text[at] != "}":
        if text[at] != '"':
            raise ValueError
        name, at = scanstring(text, at + 1, False)
        at = _blank(text, at)
        if text[at] != ":":
            raise ValueError
        members[name], at = _value(text, _blank(text, at + 1), depth + 1)
        at = _next(text, at, "}")
    return at + 1


def _items(text: str, at: int, depth: int) -> tuple[list[object], int]:
    items = []
    at = _blank(text, at)
    while text[at] != "]":
        item, at = _value(text, at, depth + 1)
        items.append(item)
        at = _next(text, at, "]")
    return items, at + 1


def _next(text: str, at: int, end: str) -> int:
    """Return the offset of the next member or of the end."""
    at = _blank(text, at)
    if text[at] == ",":
        return _blank(text, at + 1)
    if text[at] != end:
        raise ValueError
    return at


def _plain(text: str, at: int) -> tuple[object, int]:
    """Parse a number or literal."""
    end = at
    while end < len(text) and text[end] not in ENDS:
        end += 1
    word = text[at:end]
    if word in LITERALS:
        return LITERALS[word], end
    return (int(word) if word.lstrip("-").isdecimal() and len(word) < 20 else float(word)), end


def _blank(text: str, at: int) -> int:
    while text[at] in BLANK:
        at += 1
    return at
