"""A number means one checkpoint forever, also where a session begins again."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitcp.errors import GitcpError
from gitcp.git import refs
from gitcp.lifecycle import amend, delete, prune
from gitcp.lifecycle.prune import PruneRequest
from gitcp.model import CheckpointId
from gitcp.restoring import trust
from gitcp.restoring.undo import to_undo
from gitcp.retention import Policy
from gitcp.state import numbers, oplog, trash
from gitcp.state.numbers import Highest
from gitcp.store import Store

from driver import Project
from samples import START, open_store, save


def looked(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many commits each look listed."""
    listed: list[int] = []
    forest = store.forest

    def count(tips: Any, *limits: str) -> list[Any]:
        found = list(forest(tips, *limits))
        listed.append(len(found))
        return found

    monkeypatch.setattr(store, "forest", count)
    return listed


def test_only_what_is_new_is_read(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what was there at the last look, nor what this process itself has saved."""
    store, highest = open_store(project), Highest()
    for number in range(1, 4):
        save(store, "old", {b"a": b"%d" % number})
    listed = looked(store, monkeypatch)

    assert highest.first_of(store, ["old", "new"]) == {"old": 4, "new": 1}
    made = save(store, "new", {b"a": b"1"})
    highest.add(None, made.commit, made.id)
    again = save(store, "new", {b"a": b"2"})
    highest.add(made.commit, again.commit, again.id)
    assert highest.first_of(store, ["new", "newer"]) == {"new": 3, "newer": 1}
    assert listed == [3]

    save(store, "others", {b"a": b"3"})
    assert highest.first_of(store, ["others", "new"]) == {"others": 2, "new": 3}
    assert listed == [3, 1]

    save(store, "others", {b"a": b"4"})
    assert highest.first_of(store, ["others"]) == {"others": 3}
    assert listed == [3, 1, 1]


def test_what_another_process_saved_between(project: Project) -> None:
    """A ref that has moved on is read, though this process moved it before and after."""
    store, highest = open_store(project), Highest()
    assert highest.first_of(store, ["s"]) == {"s": 1}
    first = save(store, "s", {b"a": b"1"})
    highest.add(None, first.commit, first.id)
    project.gitcp("fork", "s@1", "--name", "other", check=0)
    project.gitcp("save", "theirs", "--session", "other", "--force", check=0)
    tip = store.tip("other")
    theirs = save(store, "other", {b"a": b"2"})
    highest.add(tip, theirs.commit, theirs.id)

    assert highest.first_of(store, ["s", "other"]) == numbers.first_of(store, ["s", "other"])


def test_reserved_numbers(project: Project) -> None:
    """They follow a new name, and only grow; without the file, a session goes on from its last."""
    store = open_store(project)
    last = save(store, "old", {b"a": b"1"})
    with store.lock():
        numbers.reserve(store, {"old": 9, "other": 2})
        numbers.reserve(store, {"old": 5, "old2": 3})
    assert numbers.following(store, "old", last) == 9
    project.gitcp("rename", "old", "new", check=0)

    assert numbers.reserved(store) == {"new": 9, "old2": 3, "other": 2}
    assert project.json("save", "--session", "new", "--force")["checkpoint"]["id"] == "new@9"
    assert project.json("save", "--session", "new", "--force")["checkpoint"]["id"] == "new@10"
    project.git_dir.joinpath("gitcp/numbers").write_text("[")
    assert project.json("save", "--session", "new", "--force")["checkpoint"]["id"] == "new@11"


def reached(store: Store) -> dict[CheckpointId, set[datetime]]:
    """Every checkpoint that any ref of gitcp has, with when it was made: its label may change."""
    made: dict[CheckpointId, set[datetime]] = {}
    for node in store.forest(sorted(store.repo.refs.list(refs.PREFIX).values())):
        made.setdefault(node.id, set()).add(node.created)
    return made


def bring_back(store: Store, number: int) -> None:
    """As `gitcp undo NUMBER` does."""
    operation = to_undo(store, number)
    assert operation is not None
    trash.bring_back(store, operation)


def act(store: Store, what: str, session: str, picked: int, now: datetime) -> None:
    """One thing that somebody may do to a session."""
    tip, pushed = store.tip(session), store.fetched().get(f"hub/{session}")
    if what == "save":
        number = numbers.following(store, session, store.read(tip) if tip else None)
        save(store, session, {b"a": str(now).encode()}, number=number, created=now)
    elif what == "take over" and pushed:
        with suppress(GitcpError):
            trust.admit(store, store.read(pushed), trusted=True)
    elif what == "undo":
        with suppress(GitcpError):
            bring_back(store, picked)
    elif what == "amend" and tip and not pushed:
        amend.amend(store, session, str(now))
    elif what == "push" and tip:
        store.refs.update(f"{refs.REMOTES}hub/sessions/{session}", tip, pushed)
    elif what == "delete" and tip:
        delete.delete(store, session)
    elif what == "prune":
        prune.prune(store, PruneRequest(Policy(last=picked)))
    elif what == "drop":  # as a graph drops a run
        delete.drop(store, session, lambda all: [n.commit for n in all if n.id.number >= picked])


ACTS = st.tuples(
    st.sampled_from(
        [*["save"] * 3, "amend", "push", "take over", "delete", "prune", "drop", *["undo"] * 2]
    ),
    st.sampled_from("ab"),
    st.integers(1, 9),
)


@settings(max_examples=20, deadline=None, suppress_health_check=[*HealthCheck])
@given(acts=st.lists(ACTS, min_size=5, max_size=25))
def test_an_id_means_one_checkpoint(
    tmp_path: Path, sealed: Path, acts: list[tuple[str, str, int]]
) -> None:
    """Whatever is deleted, dropped, taken over again and brought back, in whichever order; and what
    the trash has can be brought back in the end.
    """
    project = Project(Path(tempfile.mkdtemp(dir=tmp_path)))
    for step, (what, session, picked) in enumerate(acts):
        act(open_store(project), what, session, picked, START + timedelta(minutes=step))
        store = open_store(project)
        doubled = {id: made for id, made in reached(store).items() if len(made) > 1}
        assert not doubled, (acts[: step + 1], doubled)

    everything = reached(store)
    for operation in reversed(oplog.entries(store.repo)):
        if operation.trash in {entry.name for entry in trash.entries(store)}:
            bring_back(store, operation.number)
    assert reached(store) == everything
    assert trash.entries(store) == ()


STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["own", "other", "delete"])))


@settings(max_examples=12, deadline=None, suppress_health_check=[*HealthCheck])
@given(steps=STEPS)
def test_it_is_what_all_refs_tell(
    tmp_path: Path, sealed: Path, steps: list[tuple[str, str]]
) -> None:
    """Whatever this process and others save and delete: the same as without remembering."""
    project = Project(Path(tempfile.mkdtemp(dir=tmp_path)))
    store, highest = open_store(project), Highest()
    for step, (session, what) in enumerate(steps):
        tip = store.tip(session)
        if what == "delete":
            if tip is not None:
                delete.delete(store, session)
            continue
        number = store.read(tip).id.number + 1 if tip else numbers.first(store, session)
        made = save(store, session, {b"a": b"%d" % step}, number=number)
        if what == "own":
            highest.add(tip, made.commit, made.id)
        assert highest.first_of(store, [*"abc"]) == numbers.first_of(store, [*"abc"])
