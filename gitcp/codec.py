"""Values to JSON and back, and their JSON schema, by the type hints of their fields.

A record (a `Value` or a `NamedTuple`) is an object with a key for each field, a tuple an array, a
mapping an object, an enumeration its value. A `Codec` is told how other types are written, and of
the fields that are written in another way. Whatever does not fit its type is refused, in both
directions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin

from gitcp.value import EMPTY, Value

T = TypeVar("T")

NATURAL = range(1 << 63)
"""The whole numbers that a field may have unless its rule says otherwise."""

OPTIONAL = (UnionType, Union)  # of a class and of a NewType
_REQUIRED = object()
UNFIT = (ValueError, TypeError, KeyError, AttributeError)
"""What a form raises for a value that does not fit."""


class Invalid(ValueError):
    """A value that does not fit its type, and where it is: `.files.raw[2]`."""


class Form(NamedTuple):
    """How the values of a type are written. For any other value both functions raise ValueError,
    TypeError, KeyError or AttributeError.
    """

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    schema: Mapping[str, Any] = EMPTY


class FieldRule(NamedTuple):
    """How a field is written that is not written under its name, in the form of its type.

    `key` is another name. `inline`: its own fields stand beside the record's, or with a `form`
    the `keys` that this reads and writes. `always`: also if it is empty. `written` is false for a
    field that is not in the JSON: a record with one that has no default is decoded to its other
    fields.
    """

    key: str = ""
    form: Form | None = None
    inline: bool = False
    keys: tuple[str, ...] = ()
    always: bool = False
    written: bool = True


NOT_WRITTEN = FieldRule(written=False)
INLINE = FieldRule(inline=True)
ALWAYS = FieldRule(always=True)


def number(allowed: range = NATURAL) -> Form:
    """Return the form of whole numbers in a range."""

    def checked(value: Any) -> int:
        if type(value) is not int or value not in allowed:
            raise Invalid
        return value

    return Form(checked, checked, {"type": "integer"})


def text(fits: Callable[[str], object] = lambda _: True) -> Form:
    """Return the form of strings for which `fits` is true, as with `re.Pattern.fullmatch`."""

    def checked(value: Any) -> str:
        if not isinstance(value, str) or not fits(value):
            raise Invalid
        return value

    return Form(checked, checked, {"type": "string"})


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise Invalid
    return value


BASIC: Mapping[Any, Form] = {
    str: text(),
    int: number(),
    bool: Form(_boolean, _boolean, {"type": "boolean"}),
    Any: Form(lambda value: value, lambda value: value),
}


class _Field(NamedTuple):
    name: str
    key: str
    form: Form
    absent: Any  # its value where the key is missing; _REQUIRED if it has to be there
    rule: FieldRule

    def is_left_out(self, value: object, encoded: object) -> bool:
        if encoded or self.rule.always:
            return False
        return encoded != 0 or bool(value == self.absent)


class Codec:
    """`forms` has how types are written, `rules` how fields are, by record.

    Empty fields are left out, and zeros that are the default. With `in_full` nothing is, and None
    is null.
    """

    def __init__(
        self,
        forms: Mapping[Any, Form],
        rules: Mapping[type, Mapping[str, FieldRule]] = EMPTY,
        *,
        in_full: bool = False,
    ) -> None:
        self._forms = {**BASIC, **forms}
        self._rules = rules
        self._given = forms
        self._in_full = in_full
        self._records: dict[type, tuple[_Field, ...]] = {}

    def encode(self, value: Any) -> Any:
        """Return a value as JSON has it. Raises Invalid if a part does not fit its type."""
        return self.form(type(value)).encode(value)

    def decode(self, kind: type[T], value: Any) -> T:
        """Return the record that `encode` wrote. Unknown keys are ignored. Raises Invalid."""
        return kind(**self.decode_fields(kind, value))

    def decode_fields(self, kind: type, value: Any) -> dict[str, Any]:
        """Return the fields of a record, except those that are not written. Raises Invalid."""
        if type(value) is not dict:
            raise Invalid
        fields = {}
        for name, key, form, absent, rule in self._fields(kind):
            if rule.inline:
                fields[name] = form.decode(value)
            elif key not in value:
                if absent is _REQUIRED:
                    raise Invalid(f".{key}")
                fields[name] = absent
            elif self._in_full and absent is None and value[key] is None:
                fields[name] = None
            else:
                try:
                    fields[name] = form.decode(value[key])
                except UNFIT as error:
                    raise _located(f".{key}", error) from None
        return fields

    def keys(self, kind: type) -> frozenset[str]:
        """Return the keys of a record."""
        keys: set[str] = set()
        for field in self._fields(kind):
            if not field.rule.inline:
                keys.add(field.key)
            else:
                keys.update(field.rule.keys or self.keys(_hints(kind)[field.name]))
        return frozenset(keys)

    def schema(self, kind: type) -> dict[str, Any]:
        """Return the JSON schema of a record that is written in full; `$defs` has its parts'."""
        parts: dict[str, Any] = {}
        whole = self._schema(kind, parts)
        return {**whole, "$defs": parts} if parts else whole

    def _schema(self, kind: type, parts: dict[str, Any]) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        for field in self._fields(kind):
            hint = _hints(kind)[field.name]
            if field.rule.inline:
                properties |= self._schema(hint, parts)["properties"]
                continue
            properties[field.key] = dict(field.form.schema)
            for part in _records_in(hint):
                if field.rule.form is None and part not in self._given:
                    parts.setdefault(part.__name__, self._schema(part, parts))
        described = {"description": " ".join((kind.__doc__ or "").split())}
        return {
            "type": "object",
            **described,
            "properties": properties,
            "required": list(properties),
        }

    def form(self, hint: Any) -> Form:
        """Return how values with a type hint are written."""
        form = self._forms.get(hint)
        if form is None:
            form = self._forms[hint] = self._form(hint)
        return form

    def _form(self, hint: Any) -> Form:
        origin, inner = get_origin(hint), get_args(hint)
        if origin in OPTIONAL:
            form = self.form(next(each for each in inner if each is not NoneType))
            return form._replace(schema=_or_null(form.schema))
        if origin is tuple:
            items = [self.form(each) for each in inner if each is not Ellipsis]
            return array(items[0]) if Ellipsis in inner else row(items)
        if origin is frozenset:
            return array(self.form(inner[0]), frozenset, sorted)
        if origin is not None and issubclass(origin, Mapping):
            return _object(self.form(inner[1]))
        if issubclass(hint, Enum):
            return Form(
                lambda value: hint(value).value,
                lambda value: hint(BASIC[str].decode(value)),
                BASIC[str].schema,
            )
        return self._record(hint)

    def _record(self, kind: type) -> Form:
        self._fields(kind)  # not while a value is read: what is wrong with a hint is no bad value
        rules = self._rules.get(kind, EMPTY)
        is_whole = all(rules[name].written or name in _defaults(kind) for name in rules)
        return Form(
            lambda value: self._encode_record(kind, value),
            lambda value: (self.decode if is_whole else self.decode_fields)(kind, value),
            {"$ref": f"#/$defs/{kind.__name__}"},
        )

    def _encode_record(self, kind: type, value: Any) -> dict[str, Any]:
        if type(value) is not kind:
            raise Invalid
        fields: dict[str, Any] = {}
        for field in self._fields(kind):
            part = getattr(value, field.name)
            if part is None:
                if self._in_full:
                    fields[field.key] = None
            elif field.rule.inline:
                fields |= field.form.encode(part)
            else:
                encoded = _at(f".{field.key}", field.form.encode, part)
                if self._in_full or not field.is_left_out(part, encoded):
                    fields[field.key] = encoded
        return fields

    def _fields(self, kind: type) -> tuple[_Field, ...]:
        fields = self._records.get(kind)
        if fields is None:
            rules = self._rules.get(kind, EMPTY)
            fields = self._records[kind] = tuple(
                self._field(kind, name, hint, rules.get(name, FieldRule()))
                for name, hint in _hints(kind).items()
                if rules.get(name, FieldRule()).written
            )
        return fields

    def _field(self, kind: type, name: str, hint: Any, rule: FieldRule) -> _Field:
        form = rule.form or (self._record(hint) if rule.inline else self.form(hint))
        defaults = _defaults(kind)
        absent = defaults[name] if name in defaults else self._absent(hint)
        return _Field(name, rule.key or name, form, absent, rule)

    def _absent(self, hint: Any) -> Any:
        """Return the value of a field that is not there and has no default."""
        origin = get_origin(hint)
        if origin in OPTIONAL:
            return None
        if origin in (tuple, frozenset):
            return origin()
        if origin is not None:
            return EMPTY
        if not isinstance(hint, type) or not issubclass(hint, Value):
            return _REQUIRED
        try:
            return self.form(hint).decode({})
        except Invalid:
            return _REQUIRED


def _or_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if [*schema] == ["type"]:
        return {"type": [schema["type"], "null"]}
    return {"anyOf": [dict(schema), {"type": "null"}]}


def _records_in(hint: Any) -> Iterable[type]:
    if get_origin(hint) is not None:
        for inner in get_args(hint):
            yield from _records_in(inner)
    elif isinstance(hint, type) and (issubclass(hint, Value) or hasattr(hint, "_fields")):
        yield hint


def _defaults(kind: Any) -> Mapping[str, Any]:
    defaults: Mapping[str, Any] = kind.defaults if issubclass(kind, Value) else kind._field_defaults
    return defaults


def _hints(kind: Any) -> dict[str, Any]:
    fields = kind.fields if issubclass(kind, Value) else kind._fields
    hints = {}
    for each in reversed(kind.__mro__):
        for name, hint in each.__dict__.get("__annotations__", {}).items():  # noqa: RUF063
            if name in fields:
                text = getattr(hint, "__forward_arg__", hint)  # as a NamedTuple has them
                hints[name] = _evaluated(each.__module__, text) if isinstance(text, str) else text
    return {name: hints[name] for name in fields}


@cache
def _evaluated(module: str, hint: str) -> Any:
    """Evaluate a hint among a module's names alone: some classes have a field `bytes`. Remembered,
    since one costs 20 µs, and a hundred fields have a dozen hints.
    """
    return eval(hint, vars(sys.modules[module]))  # noqa: S307


def _at(location: str, convert: Callable[[Any], Any], value: Any) -> Any:
    try:
        return convert(value)
    except UNFIT as error:
        raise _located(location, error) from None


def _located(location: str, error: Exception) -> Invalid:
    return Invalid(f"{location}{error if isinstance(error, Invalid) else ''}")


def array(
    item: Form,
    collect: Callable[[Iterable[Any]], Any] = tuple,
    ordered: Callable[[Any], Iterable[Any]] = iter,
) -> Form:
    """Return the form of arrays that are read into a collection, and written in its order."""

    def encode(values: Any) -> list[Any]:
        if not isinstance(values, tuple | list | frozenset):
            raise Invalid
        items = enumerate(ordered(values))
        return [_at(f"[{index}]", item.encode, value) for index, value in items]

    def decode(values: Any) -> Any:
        if type(values) is not list:
            raise Invalid
        try:
            return collect([item.decode(value) for value in values])
        except UNFIT:  # again, to tell where
            each = enumerate(values)
            return collect([_at(f"[{index}]", item.decode, value) for index, value in each])

    return Form(encode, decode, {"type": "array", "items": dict(item.schema)})


def row(items: Sequence[Form]) -> Form:
    """Return the form of arrays that have one value of each form, and are read into a tuple."""

    def converted(values: Any, converts: Iterable[Callable[[Any], Any]]) -> list[Any]:
        if not isinstance(values, tuple | list) or len(values) != len(items):
            raise Invalid
        pairs = enumerate(zip(converts, values, strict=True))
        return [_at(f"[{index}]", convert, value) for index, (convert, value) in pairs]

    return Form(
        lambda values: converted(values, [item.encode for item in items]),
        lambda values: tuple(converted(values, [item.decode for item in items])),
        {"type": "array", "items": dict(items[0].schema)},
    )


def _object(item: Form) -> Form:
    def converted(values: Any, convert: Callable[[Any], Any]) -> dict[str, Any]:
        if not isinstance(values, Mapping) or not all(type(key) is str for key in values):
            raise Invalid
        return {key: _at(f".{key}", convert, value) for key, value in values.items()}

    return Form(
        lambda values: converted(values, item.encode),
        lambda values: converted(values, item.decode),
        {"type": "object", "additionalProperties": dict(item.schema)},
    )
