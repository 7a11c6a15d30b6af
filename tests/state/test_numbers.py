"""A number means one checkpoint forever, also where a session begins again."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitcp.lifecycle import delete
from gitcp.state import numbers
from gitcp.state.numbers import Highest
from gitcp.store import Store

from driver import Project
from samples import open_store, save


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
