"""The names of `typing` for modules that every save loads: `typing` itself takes three milliseconds of a few dozen.

Type checkers see the real ones. At run time an annotation is a string, so only what stands outside of annotations has
to work: a NamedTuple is made as usual, anything else is as good as a plain class.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import (
        Any,
        BinaryIO,
        ClassVar,
        Literal,
        NamedTuple,
        NewType,
        Protocol,
        TextIO,
        TypeVar,
        Union,
        dataclass_transform,
    )
else:

    class _Meta(type):
        """Makes a named tuple of a class whose annotations are its fields."""

        def __new__(cls, name, bases, space):  # noqa: ARG004 -- a metaclass's
            fields = tuple(space.get("__annotations__", ()))
            defaults = [space.pop(field) for field in fields if field in space]
            made = namedtuple(name, fields, defaults=defaults, module=space["__module__"])  # noqa: PYI024 -- our own
            for key, value in space.items():
                if key not in {"__dict__", "__module__", "__weakref__"}:
                    setattr(made, key, value)
            return made

    class _Fields:
        def __mro_entries__(self, bases):
            return (_BASE,)

    _BASE = type.__new__(_Meta, "NamedTuple", (), {})
    NamedTuple = _Fields()

    class Plain:
        """Whatever is only said to type checkers; it may be given parameters."""

        def __class_getitem__(cls, item):
            return cls

    Any = BinaryIO = ClassVar = Literal = Protocol = TextIO = Union = Plain

    def TypeVar(name, **_):  # noqa: N802 -- typing's
        """A name for type checkers."""
        return name

    def NewType(name, kind):  # noqa: ARG001, N802 -- typing's
        """The type itself."""
        return kind

    def dataclass_transform(**_):
        """Leaves the class as it is."""
        return lambda cls: cls


__all__ = [
    "TYPE_CHECKING",
    "Any",
    "BinaryIO",
    "ClassVar",
    "Literal",
    "NamedTuple",
    "NewType",
    "Protocol",
    "TextIO",
    "TypeVar",
    "Union",
    "dataclass_transform",
]
