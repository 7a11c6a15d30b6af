"""Long lines, read in parts: the same JSON, with long strings cut; short lines as they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitcp.adapters import base, long_lines

LONG, KEPT = 300, 60

TEXTS = st.text(st.sampled_from('a\\"\n\u00e9\u4e2d\U0001f600 '), max_size=200)
VALUES = st.recursive(
    TEXTS | st.integers() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


def chunked(data: bytes, size: int) -> Iterator[bytes]:
    """The bytes in parts."""
    return (data[at : at + size] for at in range(0, len(data), size))


def agrees(full: Any, short: Any) -> bool:
    """Whether these are the same, apart from strings that end early."""
    if isinstance(full, str) and isinstance(short, str):
        return full == short or (len(full) > 5 and full.startswith(short))
    if isinstance(full, list):
        return len(full) == len(short) and all(map(agrees, full, short))
    if isinstance(full, dict):
        return len(full) == len(short) and all(map(agrees, full.values(), short.values()))
    return bool(full == short)


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    """Limits that hypothesis reaches."""
    before = long_lines.LONG, long_lines.KEPT
    long_lines.LONG, long_lines.KEPT = LONG, KEPT
    yield
    long_lines.LONG, long_lines.KEPT = before


@given(st.lists(VALUES, min_size=1, max_size=4), st.integers(1, 90), st.booleans())
def test_every_line_stays_json(values: list[Any], size: int, is_ascii: bool) -> None:
    """Whatever is in a line and wherever it is divided, it means the same; what is short is the
    same bytes.
    """
    whole = [json.dumps(each, ensure_ascii=is_ascii).encode() for each in values]
    data = b"\n".join(whole) + b"\n"

    shortened = list(long_lines.lines(chunked(data, size)))

    assert len(shortened) == len(whole)
    for full, short in zip(whole, shortened, strict=True):
        if len(full) <= LONG:
            assert short == full + b"\n"
        assert agrees(json.loads(full), json.loads(short)), short


@given(st.binary(max_size=900), st.integers(1, 200))
def test_what_is_no_json(data: bytes, size: int) -> None:
    """Any bytes give as many lines; those without a long one are as `base.lines` gives them."""
    plain = list(base.lines(chunked(data, size)))
    shortened = list(long_lines.lines(chunked(data, size)))
    assert len(shortened) == len(plain)
    if all(len(line) <= LONG for line in plain):
        assert shortened == plain


def test_a_long_text_is_not_kept() -> None:
    """Of a text of a megabyte in a line, its beginning is left."""
    line = b'{"a":"' + b"x" * (1 << 20) + b'","b":"end"}\n'
    (short,) = long_lines.lines(chunked(line, 1 << 12))
    assert len(short) < 2 * KEPT
    assert json.loads(short)["b"] == "end"
