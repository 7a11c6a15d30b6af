"""Values: frozen, equal by content, as a dataclass would be."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from typing import Any

import pytest

from gitcp.value import EMPTY, Value, replace


class Point(Value):
    """Two fields, one with a default."""

    x: int
    y: int = 2


class Named(Point):
    """One field more."""

    name: str = ""


class Labeled(Value):
    """A field that is a mapping."""

    labels: Mapping[str, Any] = EMPTY


def test_fields_by_place_and_by_name() -> None:
    """A field that is not given has its default; a subclass adds its own at the end."""
    assert Point(1) == Point(x=1, y=2) == Point(1, y=2)
    assert Named(1, 3, "a").fields == ("x", "y", "name")
    assert (Named(1, 3, "a").x, Named(1, 3, "a").name) == (1, "a")


def test_copies() -> None:
    """A value travels to another process, also with the default of a mapping."""
    assert pickle.loads(pickle.dumps(Labeled())) == copy.deepcopy(Labeled()) == Labeled()
    assert copy.deepcopy(Labeled({"a": [1]})) == Labeled({"a": [1]})


@pytest.mark.parametrize("wrong", [{}, {"x": 1, "z": 2}, {"y": 1}])
def test_what_does_not_fit_is_refused(wrong: dict[str, int]) -> None:
    """Missing and unknown fields are errors."""
    with pytest.raises(TypeError, match="Point"):
        Point(**wrong)
    with pytest.raises(TypeError, match="has the fields"):
        Named(y=1, z=2, name="as many as there are fields")  # type: ignore[call-arg]


def test_a_field_is_given_once() -> None:
    """Neither too many, nor one by place and by name."""
    with pytest.raises(TypeError):
        Point(1, 2, 3)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Point(1, x=2)  # type: ignore[misc]


def test_frozen() -> None:
    """Nothing is set or deleted later; a changed value is another one."""
    point = Point(1)
    with pytest.raises(AttributeError, match="frozen"):
        point.x = 5  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen"):
        del point.x
    assert replace(point, y=9) == Point(1, 9)
    assert point == Point(1, 2)


def test_equal_by_content_and_type() -> None:
    """Two of a kind with the same content are one; a subclass is another kind."""
    assert Point(1) != Named(1)
    assert hash(Point(1)) == hash(Point(1))
    assert {Point(1), Point(1), Point(2)} == {Point(1), Point(2)}
    assert repr(Point(1)) == "Point(x=1, y=2)"
    assert pickle.loads(pickle.dumps(Point(1))) == Point(1)


def test_the_empty_mapping_cannot_be_filled() -> None:
    """It is shared by every value that has nothing to say."""
    with pytest.raises(TypeError):
        EMPTY["a"] = 1  # type: ignore[index]
    assert EMPTY == {}
