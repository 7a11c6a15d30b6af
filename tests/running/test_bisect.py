"""`gitcp bisect`: which checkpoints are candidates, and what a search of them finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from back import SESSION, restore, save
from hypothesis import given
from hypothesis import strategies as st
from kinds import FORMAT

from gitcp.errors import BadValue, GitcpError, Refused, RevisionNotFound
from gitcp.lifecycle.fork import ForkRequest, fork
from gitcp.model import Base, Checkpoint, Run, Skip, SkipReason, Snapshot
from gitcp.running.bisect import BisectRequest, Culprit, Try, bisect, by_command, candidates
from gitcp.running.search import Verdict
from gitcp.store import Store, Summary

from driver import Project
from samples import open_store
from samples import save as stored


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting for the next second."""
    monkeypatch.setattr("gitcp.restoring.scratch_tree.time.sleep", lambda _: None)


def chain(project: Project, *contents: str) -> list[Checkpoint]:
    """A checkpoint for each content of a file."""
    made = []
    for content in contents:
        project.write("f", content)
        made.append(save(project))
    return made


def judge(directory: Path) -> Run:
    """By the file: its exit code is its content."""
    return Run(("judge",), int(directory.joinpath("f").read_text() or 0), 1, "why\n")


def numbers(store: Store, first: int | None = None, last: int | None = None) -> list[int]:
    """The candidates of the session, by number."""
    return [each.id.number for each in listed(store, first, last)]


def listed(store: Store, first: int | None = None, last: int | None = None) -> Sequence[Summary]:
    tip = store.tip(SESSION)
    assert tip is not None
    commits = {each.id.number: each.commit for each in store.history(tip)}
    return candidates(store, commits[first] if first else None, commits[last] if last else tip)


def found(project: Project, judge: Callable[[Path], Run] = judge, **fields: object) -> Culprit:
    """Search the whole session."""
    store = open_store(project)
    states = tuple(listed(store))
    return bisect(store, BisectRequest(states, judge, **fields))  # type: ignore[arg-type]


# ---------------------------------------------------------------- candidates


def test_unchanged(project: Project) -> None:
    """A checkpoint without a changed file is none."""
    chain(project, "0", "0", "1")
    assert numbers(open_store(project)) == [1, 3]


def test_taken_back(project: Project) -> None:
    """What a restore took back is none: the files did not come from it."""
    first = chain(project, "0", "1", "2")[0]
    restore(project, first)
    chain(project, "3")
    store = open_store(project)
    assert numbers(store)[0] == 1
    assert len(numbers(store)) == 2


def test_ends(project: Project) -> None:
    """From one to another; the other way round is an error."""
    chain(project, "0", "1", "2", "3")
    store = open_store(project)
    assert numbers(store, 2, 3) == [2, 3]
    with pytest.raises(RevisionNotFound, match="work@3 is not before work@2"):
        listed(store, 3, 2)
    with pytest.raises(RevisionNotFound, match="no file differs"):
        listed(store, 2, 2)


def test_fork(project: Project) -> None:
    """A fork begins with the checkpoints before it, and has no others of its session."""
    made = chain(project, "0", "1", "2")
    store = open_store(project)
    fork(store, ForkRequest(made[1], project.root, "other"))
    project.write("f", "3")
    last = save(project, "other")
    ids = [str(each.id) for each in candidates(open_store(project), None, last.commit)]
    assert ids == ["work@1", "work@2", str(last.id)]


def test_without_files(project: Project) -> None:
    """A conversation alone, as of an imported session, is no candidate."""
    store = open_store(project)
    skipped = (Skip(b".", SkipReason.NOT_HELD),)
    snapshot = Snapshot(FORMAT.empty_tree, Base(None, None), skipped=skipped)
    stored(store, "alone", snapshot=snapshot)
    tip = store.tip("alone")
    assert tip is not None
    with pytest.raises(RevisionNotFound, match="have no files"):
        candidates(store, None, tip)


# ---------------------------------------------------------------- the search


def test_culprit(project: Project) -> None:
    """The first that fails, the last that passes, what changed between them and why it fails."""
    chain(project, "", "0", "00", "1", "2", "3")
    with project.guard():
        culprit = found(project)
    assert (culprit.good.id.number, culprit.bad.id.number) == (3, 4)
    assert [(each.path, each.added, each.removed) for each in culprit.files] == [(b"f", 1, 1)]
    assert (culprit.failure.code, culprit.failure.output) == (1, "why\n")
    assert (culprit.count, len(culprit.tries), culprit.between) == (6, 4, ())


def test_skipped(project: Project) -> None:
    """Where those before it cannot be judged, they are named, too."""
    chain(project, "0", "125", "125 ", "1", "2")
    culprit = found(project)
    assert (culprit.good.id.number, culprit.bad.id.number) == (1, 4)
    assert [each.id.number for each in culprit.between] == [2, 3]
    assert culprit.files == ()


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        (("0", "00"), "passes on work@1 and on work@2"),
        (("1", "2"), "fails on work@2, and already on work@1"),
        (("1", "0"), "fails on work@1 and passes on work@2"),
        (("125", "1"), "cannot judge work@1"),
        (("0", "125"), "cannot judge work@2"),
    ],
)
def test_nothing_between(project: Project, contents: tuple[str, ...], expected: str) -> None:
    """Both ends are tried before anything else, and the answer says how they ended."""
    chain(project, *contents)
    with pytest.raises(Refused, match=expected) as refused:
        found(project)
    assert ("why" in refused.value.candidates) == ("passes on work@1 and" not in expected)


@pytest.mark.parametrize("code", ["128", "255"])
def test_stop(project: Project, code: str) -> None:
    """A command that was killed ends the search."""
    chain(project, "0", code)
    with pytest.raises(GitcpError, match=f"exit code {code} on work@2, which stops"):
        found(project)


def test_repeat(project: Project) -> None:
    """A state is bad if any run fails, and runs that disagree are said."""
    chain(project, "0", "1", "2")
    told: list[Try] = []
    runs: list[int] = []

    def flaky(directory: Path) -> Run:
        runs.append(1)
        is_bad = directory.joinpath("f").read_text() != "0" and len(runs) % 2 == 0
        return Run((), int(is_bad), 0)

    store = open_store(project)
    culprit = bisect(store, BisectRequest(tuple(listed(store)), flaky, 2), told.append)
    assert culprit.bad.id.number == 2
    assert [(each.verdict, each.disagree) for each in told] == [
        (Verdict.GOOD, False),
        (Verdict.BAD, True),
        (Verdict.BAD, True),
    ]
    assert len(runs) == 6


@given(st.data())
def test_random(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Over random histories with forks and restores: as a linear search of the way to the last
    checkpoint.
    """
    project = Project(tmp_path_factory.mktemp("random") / "project")
    store = open_store(project)
    fault = data.draw(st.integers(1, 6))
    values = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=8))
    contents = [0, *values, 6]
    for value in contents:
        stored(store, SESSION, {b"f": b"%d" % value})
    way: list[int] = []
    for value in contents:
        way = way[: way.index(value) + 1] if value in way else [*way, value]
    runs: list[int] = []

    def judge(directory: Path) -> Run:
        runs.append(int(directory.joinpath("f").read_text()))
        return Run((), int(runs[-1] >= fault), 0)

    states = tuple(listed(store))
    culprit = bisect(store, BisectRequest(states, judge))
    good, bad = (
        int(store.reader.read_blob(store.reader.read_tree(each.snapshot.tree)[0].oid))
        for each in (culprit.good, culprit.bad)
    )
    assert way.index(bad) == way.index(good) + 1
    assert good < fault <= bad
    if [each >= fault for each in way] == sorted(each >= fault for each in way):
        assert bad == next(each for each in way if each >= fault)
    assert len(runs) <= (len(way) - 1).bit_length() + 2


# ---------------------------------------------------------------- commands


def test_command(project: Project) -> None:
    """A command runs in the directory, with the exit code of a shell; its output is both streams'
    end.
    """
    store = open_store(project)
    script = "cat f; echo error >&2; pwd; exit 3"
    run = by_command(store, ("sh", "-c", script))(_directory(project))
    assert (run.code, run.output) == (3, f"texterror\n{project.root.parent / 'tried'}")
    killed = by_command(store, ("sh", "-c", "kill -9 $$"))(project.root.parent / "tried")
    assert killed.code == 137
    missing = by_command(store, ("./none",))(project.root.parent / "tried")
    assert (missing.code, missing.output) == (127, "./none: No such file or directory")


def test_prepare(project: Project) -> None:
    """Where the preparation fails, nothing is judged."""
    store, directory = open_store(project), _directory(project)
    assert by_command(store, ("cat", "made"), "cp f made")(directory).output == "text"
    assert by_command(store, ("true",), "exit 7")(directory).code == 125


def test_no_such_program(project: Project) -> None:
    """A misspelled program is no failing test."""
    with pytest.raises(BadValue, match="pytset: command not found; nothing was run"):
        by_command(open_store(project), ("pytset",))


def _directory(project: Project) -> Path:
    directory = project.root.parent / "tried"
    directory.mkdir()
    directory.joinpath("f").write_text("text")
    return directory
