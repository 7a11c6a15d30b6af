"""Which checkpoints have a row of their own in a listing, and how much a row changed."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinds import FORMAT

from gitcp.history import diffstat
from gitcp.history.diffstat import Total
from gitcp.history.folding import FoldedRow, fold
from gitcp.model import CheckpointId, Oid, Trigger
from gitcp.store import Summary

from driver import Project
from samples import START, open_store, save


def summary(number: int, trigger: str, subject: str = "", **trailers: str) -> Summary:
    """A checkpoint as its commit alone shows it."""
    return Summary(
        Oid(f"{number:0{FORMAT.digits}x}"),
        Oid("1" * FORMAT.digits),
        Oid(f"{number - 1:0{FORMAT.digits}x}"),
        START,
        subject or f"{trigger} alpha@{number}",
        {
            "Gitcp-Session": "alpha",
            "Gitcp-Number": str(number),
            "Gitcp-Trigger": trigger,
            **{f"Gitcp-{name}": value for name, value in trailers.items()},
        },
        CheckpointId("alpha", number),
    )


def shape(rows: Iterable[FoldedRow]) -> list[list[int]]:
    """The numbers in each row."""
    return [[s.id.number for s in (row.newest, *row.folded)] for row in rows]


def test_prompts_and_restores() -> None:
    """The checkpoints of one prompt make one row, and so do restores in a row."""
    listing = [
        summary(9, "restore", "restored alpha@2", **{"Restored-From": "alpha@2"}),
        summary(8, "restore", "restored alpha@3", **{"Restored-From": "alpha@3"}),
        summary(7, "before-restore", "before-restore: add a test"),
        summary(6, "turn", "turn: add a test"),
        summary(5, "tools", "tools: add a test"),
        summary(4, "prompt", "prompt: add a column"),
        summary(3, "turn", "turn: add a column"),
        summary(2, "manual", "before migration"),
        summary(1, "turn"),
    ]

    assert shape(fold(listing, ())) == [[9, 8, 7], [6, 5], [4, 3], [2], [1]]


@pytest.mark.parametrize(
    "special",
    [
        summary(2, "turn", "a label"),
        summary(2, "manual", "manual: add a test"),
        summary(2, "turn", "forked from beta@4", **{"Forked-From": "beta@4"}),
        summary(2, "turn", "reverted alpha@1", Reverted="alpha@1"),
    ],
    ids=lambda each: each.subject,
)
def test_a_row_of_its_own(special: Summary) -> None:
    """Labels, manual saves, forks and reverts are never hidden, nor do they hide anything."""
    around = [summary(3, "turn", "turn: add a test"), summary(1, "turn", "turn: add a test")]

    assert shape(fold([around[0], special, around[1]], ())) == [[3], [2], [1]]


def test_tags_are_in_sight() -> None:
    """A tagged checkpoint has a row, whatever it is."""
    listing = [summary(n, "turn", "turn: add a test") for n in (4, 3, 2, 1)]

    assert shape(fold(listing, {listing[1].commit})) == [[4], [3], [2, 1]]


@given(st.lists(st.tuples(st.sampled_from(list(Trigger)), st.sampled_from(["", "one", "two"]))))
def test_nothing_is_lost(made: list[tuple[Trigger, str]]) -> None:
    """Every checkpoint is in one row, in the order of the listing."""
    listing = [
        summary(n, trigger.value, f"{trigger.value}: {text}" if text else "")
        for n, (trigger, text) in reversed(list(enumerate(made, 1)))
    ]
    rows = list(fold(listing, ()))

    assert [each for row in rows for each in (row.newest, *row.folded)] == listing
    assert all(row.oldest is (row.folded or [row.newest])[-1] for row in rows)


def test_totals(project: Project) -> None:
    """Files and lines that differ between pairs of trees, in one go; gitcp's own do not count."""
    store = open_store(project)
    made = [
        save(store, "alpha", {b"a": b"1\n2\n", b"bin": b"\0"}, {"main": b"{}\n"}),
        save(
            store, "alpha", {b"a": b"1\n3\n4\n", b"d/new\n1\t1\tx": b"x\n"}, {"main": b"{}\n{}\n"}
        ),
    ]
    first, second = (each.root for each in made)
    pairs = [
        (second, second),
        (first, first),
        (FORMAT.empty_tree, first),
        (first, second),
        (second, first),
    ]

    nothing = Total(0, 0, 0)
    expected = [nothing, nothing, Total(2, 2, 0), Total(3, 3, 1), Total(3, 1, 3)]
    assert diffstat.totals(store, pairs, frozenset()) == dict(zip(pairs, expected, strict=True))
    assert diffstat.totals(store, [], frozenset()) == {}


def test_totals_of_what_is_missing(project: Project) -> None:
    """A listing does not fail where an object is gone."""
    store = open_store(project)
    first = save(store, "alpha", {b"a": b"1\n"})
    second = save(store, "alpha", {b"a": b"2\n"})
    blob = project.git("rev-parse", f"{second.commit}:a")
    (project.git_dir / "objects" / blob[:2] / blob[2:]).unlink()

    assert diffstat.totals(store, [(first.root, second.root)], frozenset()) == {}
