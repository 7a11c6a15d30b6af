"""Check the arguments of public methods against their type hints.

A wrong type is refused before anything is read or written, with the parameter and what is expected:
otherwise it would surface as an AttributeError from inside of gitcp, or be stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, wraps
from types import NoneType, UnionType
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from gitcp.errors import BadValue
from gitcp.value import Value

P = ParamSpec("P")
R = TypeVar("R")

LONGEST = 80
"""Characters of a value that an error shows."""

SCALARS = {float: (int, float), int: (int,)}
"""Types for which a subclass that is a truth value does not fit."""


def checked(nothing: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for a function: arguments that do not fit their type hints raise BadValue,
    with `nothing` (what was not done) in the message.
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        code = function.__code__
        names = code.co_varnames[: code.co_argcount]
        hints: dict[str, Any] = {}

        @wraps(function)
        def call(*args: P.args, **named: P.kwargs) -> R:
            if not hints:  # reading them costs more than a call
                hints.update(get_type_hints(function))
            for name, value in (*zip(names, args, strict=False), *named.items()):
                if name in hints:
                    require(name, value, hints[name], nothing)
            return function(*args, **named)

        return call

    return decorated


def require(name: str, value: object, hint: Any, nothing: str) -> None:
    """Raise BadValue if a value does not fit a type hint."""
    if not fits(value, hint):
        raise BadValue(f"{name} is {shown(value)}: {nothing}", hint=f"pass {expected(hint)}")


def shown(value: object) -> str:
    """Return a value as an error shows it."""
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def fits(value: object, hint: Any) -> bool:
    """Return whether a value is of a type. What can be read only once is not looked into, and the
    values of records that gitcp made are trusted.
    """
    origin, inner = _parts(hint)
    if origin in (Union, UnionType):
        return any(fits(value, each) for each in inner)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            fits(key, inner[0]) and fits(item, inner[1]) for key, item in value.items()
        )
    if origin in (Sequence, Iterable):
        return _is_several(value, origin, inner[0])
    if origin is tuple:
        return (
            isinstance(value, tuple) and len(value) == len(inner) and all(map(fits, value, inner))
        )
    kind = origin or hint
    if kind is Callable:
        return callable(value)
    if kind in SCALARS:
        return isinstance(value, SCALARS[kind]) and not isinstance(value, bool)
    return not isinstance(kind, type) or (isinstance(value, kind) and _has_fields(value))


@cache
def _parts(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    return get_origin(hint), get_args(hint)


def _is_several(value: object, kind: Any, item: Any) -> bool:
    """Return whether a value has several items. A text is one, not its letters."""
    if isinstance(value, str | bytes) or not isinstance(value, kind):
        return False
    return not isinstance(value, Collection) or all(fits(each, item) for each in value)


def _has_fields(value: object) -> bool:
    """Return whether the fields of a value that programs make are of their types."""
    if not isinstance(value, Value) or type(value).__name__ not in {"Agent", "Policy"}:
        return True
    hints = get_type_hints(type(value))
    return all(fits(getattr(value, name), hints[name]) for name in value.fields)


def expected(hint: Any) -> str:
    """Return a type in words: `str, Path, a list of dicts or None`."""
    origin, inner = _parts(hint)
    if origin in (Union, UnionType):
        words = [*dict.fromkeys(expected(each) for each in inner)]
        return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
    if origin in (Sequence, Iterable):
        items = expected(inner[0])
        return f"a list of {'dicts' if items == 'a dict' else items}"
    if origin is tuple:
        return f"a tuple ({', '.join(map(expected, inner))})"
    kind = origin or hint
    names = {Callable: "a function", Mapping: "a dict", NoneType: "None"}
    return names.get(kind) or str(kind.__name__)
