"""The names of `typing` for modules that every save loads: `typing` itself takes three milliseconds of a few dozen.

Type checkers see the real ones. At run time an annotation is a string, so only what stands outside of annotations has
to work: a NamedTuple is made as usual, anything else is as good as a plain class.
"""

from __future__ import annotations

from operator import itemgetter

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

    class _Tuple(tuple):
        """What every named tuple can do. `collections.namedtuple` writes and compiles a `__new__` for each class; here
        it is written when the first one is made, which of most classes a save never is.
        """

        __slots__ = ()

        def __new__(cls, *values, **named):
            kind = next(one for one in cls.__mro__ if "_fields" in one.__dict__)
            names = ", ".join(kind._fields)
            new = eval(f"lambda cls, {names}: make(cls, ({names},))", {"make": tuple.__new__})  # noqa: S307 -- our own
            new.__defaults__ = tuple(kind._field_defaults.values())
            kind.__new__ = new
            return new(cls, *values, **named)

        @classmethod
        def _make(cls, values):
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"{cls.__name__} has {len(cls._fields)} fields, not {len(made)}")
            return made

        def _replace(self, **changes):
            made = self._make(map(changes.pop, self._fields, self))
            if changes:
                raise ValueError(f"{type(self).__name__} has no field {next(iter(changes))}")
            return made

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            said = (f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({', '.join(said)})"

        def __getnewargs__(self):
            return tuple(self)

    class _Meta(type):
        """Makes a named tuple of a class whose annotations are its fields."""

        def __new__(cls, name, bases, space):  # noqa: ARG004 -- a metaclass's
            fields = tuple(space.get("__annotations__", ()))
            own = {"_fields": fields, "_field_defaults": {field: space[field] for field in fields if field in space}}
            own |= {"__slots__": (), "__match_args__": fields}
            places = {field: property(itemgetter(place)) for place, field in enumerate(fields)}
            return type(name, (_Tuple,), {**space, **own, **places})

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
