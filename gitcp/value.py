"""Immutable values, compared by content, like frozen dataclasses but without loading `dataclasses`.

A save takes a few dozen milliseconds, and each class made by `dataclass` costs half a
millisecond, since it generates and compiles its methods. Here they exist once. Type checkers
treat a subclass as a frozen dataclass.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar, dataclass_transform

EMPTY: Mapping[Any, Any] = MappingProxyType({})
"""The default of fields that are mappings."""

V = TypeVar("V", bound="Value")


class _ClassSignature:
    """The signature of a class by its fields, for `help` and editors: __init__ takes anything."""

    def __get__(self, instance: object, cls: type[Value]) -> Any:
        from inspect import Parameter, Signature  # only for people

        hints: dict[str, Any] = {}
        for each in reversed(cls.__mro__):
            hints |= each.__dict__.get("__annotations__", {})  # noqa: RUF063
        return Signature(
            [
                Parameter(
                    name,
                    Parameter.POSITIONAL_OR_KEYWORD,
                    default=cls.defaults.get(name, Parameter.empty),
                    annotation=hints[name],
                )
                for name in cls.fields
            ]
        )


@dataclass_transform(frozen_default=True)
class Value:
    """The base of all values: its annotated attributes are its fields, passed by position or name.

    Raises TypeError for a missing, unknown or repeated field, and AttributeError for assignment.
    """

    fields: ClassVar[tuple[str, ...]] = ()
    _known: ClassVar[frozenset[str]] = frozenset()
    defaults: ClassVar[Mapping[str, Any]] = EMPTY
    __signature__: ClassVar[Any] = _ClassSignature()

    def __init_subclass__(cls) -> None:
        # RUF063: inspect would have to be loaded
        own = cls.__dict__.get("__annotations__", {})  # noqa: RUF063
        cls.fields = (*cls.fields, *own)
        cls._known = frozenset(cls.fields)
        cls.defaults = {name: getattr(cls, name) for name in cls.fields if hasattr(cls, name)}

    def __init__(self, *args: Any, **named: Any) -> None:
        names, given = self.fields, self.__dict__
        if len(args) == len(names) and not named:  # listings make 10,000 of them
            given.update(zip(names, args, strict=True))
            return
        given.update(self.defaults)
        twice = False
        if args:
            given.update(zip(names, args, strict=False))
            twice = len(args) > len(names) or not named.keys().isdisjoint(names[: len(args)])
        given.update(named)
        if twice or not named.keys() <= self._known:
            raise TypeError(f"{type(self).__name__} has the fields {', '.join(names)}")
        if len(given) < len(names):
            raise TypeError(
                f"{type(self).__name__} needs {next(name for name in names if name not in given)}"
            )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping proxy, such as EMPTY, cannot be pickled, nor copied deeply.
        fields = (
            dict(value) if isinstance(value, MappingProxyType) else value
            for value in map(self.__dict__.__getitem__, self.fields)
        )
        return type(self), tuple(fields)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *(self.__dict__[name] for name in self.fields)))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={self.__dict__[name]!r}" for name in self.fields)
        return f"{type(self).__name__}({fields})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002
        """Let a notebook show what `print` shows: a plan as all its fields was 3,000 characters."""
        printer.text(str(self))


def replace(value: V, **changes: Any) -> V:
    """Return a copy of a value with some fields changed."""
    return type(value)(**{**value.__dict__, **changes})
