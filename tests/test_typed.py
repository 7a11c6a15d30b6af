"""gitcp.typed stands in for typing at run time, and gitcp.hashes for hashlib."""

from __future__ import annotations

import hashlib
import pickle
import typing

import pytest

from gitcp import typed
from gitcp.hashes import LARGE, sha1
from gitcp.typed import NamedTuple


class Pair(NamedTuple):
    """Two fields, one with a default, and a method."""

    first: int
    second: str = "none"

    @property
    def both(self) -> str:
        """The fields, as one."""
        return f"{self.first}{self.second}"


def test_a_named_tuple() -> None:
    """It is made, read, replaced, compared, shown and pickled as typing's is."""
    pair = Pair(1)

    assert pair == (1, "none") == Pair(first=1, second="none")
    assert pair.both == "1none"
    assert pair._replace(second="x").both == "1x"
    assert Pair._fields == ("first", "second")
    assert (Pair.__name__, Pair.__module__, Pair.__doc__) == (
        "Pair", __name__, "Two fields, one with a default, and a method.",
    )  # fmt: skip
    assert repr(pair) == "Pair(first=1, second='none')"
    assert pickle.loads(pickle.dumps(pair)) == pair
    with pytest.raises(TypeError):
        Pair()  # type: ignore[call-arg]


@pytest.mark.parametrize("name", typed.__all__)
def test_every_name_is_one_of_typing(name: str) -> None:
    """What type checkers take for typing's has the same name there."""
    assert hasattr(typed, name)
    assert hasattr(typing, name)


@pytest.mark.parametrize("size", [0, 1, LARGE - 1, LARGE, LARGE + 1])
def test_sha1(size: int) -> None:
    """Small or large, in one part or in two, it is SHA-1."""
    data = bytes(size)

    assert sha1(data) == sha1(data[:7], memoryview(data)[7:]) == hashlib.sha1(data).digest()
