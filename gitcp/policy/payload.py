"""Reads the JSON that an agent hands to a hook, as far as it is whole.

Python's own decoder takes as long to load as Python itself. What is read here is small, and may be
cut short: a tool's output can be larger than a hook wants to read, and the fields that matter stand
before it.
"""

from __future__ import annotations

from _json import scanstring

DEEPEST = 50
BLANK = " \t\n\r"
ENDS = ",]} \t\n\r"
LITERALS = {"true": True, "false": False, "null": None}
BROKEN = (IndexError, ValueError, SystemError)
"""What reading broken text raises. SystemError: the scanner would name the place, by a module that
is not loaded.
"""

Fields = dict[str, object]


def fields(text: str) -> Fields:
    """The fields of the object that `text` is, those before it breaks off or goes wrong; none if it
    is no object.
    """
    found: Fields = {}
    try:
        at = _blank(text, 0)
        if text[at] == "{":
            _members(text, at + 1, 0, found)
    except BROKEN:
        pass
    return found


def value(text: str) -> object:
    """The JSON value that `text` is, None if it is none."""
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
        found: Fields = {}
        return found, _members(text, at + 1, depth, found)
    if text[at] == "[":
        return _items(text, at + 1, depth)
    return _plain(text, at)


def _members(text: str, at: int, depth: int, found: Fields) -> int:
    """Read the members of an object into `found`; where the object ends."""
    at = _blank(text, at)
    while text[at] != "}":
        if text[at] != '"':
            raise ValueError
        name, at = scanstring(text, at + 1, False)
        at = _blank(text, at)
        if text[at] != ":":
            raise ValueError
        found[name], at = _value(text, _blank(text, at + 1), depth + 1)
        at = _next(text, at, "}")
    return at + 1


def _items(text: str, at: int, depth: int) -> tuple[list[object], int]:
    found = []
    at = _blank(text, at)
    while text[at] != "]":
        item, at = _value(text, at, depth + 1)
        found.append(item)
        at = _next(text, at, "]")
    return found, at + 1


def _next(text: str, at: int, end: str) -> int:
    """Where the next member begins, or the end stands."""
    at = _blank(text, at)
    if text[at] == ",":
        return _blank(text, at + 1)
    if text[at] != end:
        raise ValueError
    return at


def _plain(text: str, at: int) -> tuple[object, int]:
    """A number or one of the three words."""
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
