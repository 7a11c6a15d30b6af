"""What stands in for the standard library: gitcp.typed, gitcp.hashes, gitcp.patterns, gitcp.cli.lean."""

from __future__ import annotations

import copy
import hashlib
import pickle
import re
import subprocess
import sys
import typing

import pytest

from gitcp import typed
from gitcp.hashes import LARGE, sha1
from gitcp.patterns import pattern
from gitcp.typed import NamedTuple

from driver import SOURCE


class Pair(NamedTuple):
    """Two fields, one with a default, and a method."""

    first: int
    second: str = "none"

    @property
    def both(self) -> str:
        """The fields, as one."""
        return f"{self.first}{self.second}"


class Of(Pair):
    """One that is derived, and made first, in a way of its own."""

    def __new__(cls, first: int) -> typing.Self:
        return super().__new__(cls, first)


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
    assert pair._asdict() == {"first": 1, "second": "none"}
    assert Pair._make([2, "y"]) == (2, "y")
    assert Of(1).both == "1none"
    for values, named in (((), {}), ((1, "x", 2), {}), ((), {"third": 1})):
        with pytest.raises(TypeError):
            Pair(*values, **named)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Pair._make([1])
    with pytest.raises(ValueError, match="no field third"):
        pair._replace(third=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        pair.first = 2  # type: ignore[misc]


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


def test_a_pattern() -> None:
    """It is compiled once, when it is first used, and says what a compiled one says."""
    digits = pattern(r"(\d+)x", re.IGNORECASE)

    found = digits.fullmatch("12X")

    assert found is not None
    assert found[1] == "12"
    assert digits.sub("-", "a1x2X") == "a--"
    assert digits.pattern == r"(\d+)x"
    assert digits.match == digits.match
    with pytest.raises(AttributeError):
        digits.splits("1x")  # type: ignore[attr-defined]
    assert copy.copy(digits).match("1x")


LEAN = """
import pickle, sys
from gitcp.cli import lean
lean.prepare()
import datetime, pathlib
print(sorted({"ipaddress", "urllib.parse"} & set(sys.modules)), pathlib.Path("/a b").as_uri())
from urllib.parse import urlsplit
print(urlsplit("https://host/path").netloc, datetime.datetime.strptime("2026-01-02", "%Y-%m-%d"))
moment = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
print(pickle.loads(pickle.dumps(moment)).isoformat())
import orjson, email.utils, http.client
print(orjson.dumps(moment).decode(), email.utils.format_datetime(moment))
"""


def test_lean() -> None:
    """What was left out comes when it is asked for; who knows nothing of it finds everything as ever."""
    done = subprocess.run([sys.executable, "-c", LEAN], cwd=SOURCE, capture_output=True, text=True, check=True)

    assert done.stdout.splitlines() == [
        "[] file:///a%20b",
        "host 2026-01-02 00:00:00",
        "2026-01-02T00:00:00+00:00",
        '"2026-01-02T00:00:00+00:00" Fri, 02 Jan 2026 00:00:00 +0000',
    ]
