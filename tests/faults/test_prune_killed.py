"""A prune that dies: at whichever change to the file system, the store is whole, nothing is lost,
and it is finished.

The process that prunes is a real one and is killed for good at its n-th change, for every n. With
GITCP_FULL=1 the store has a thousand checkpoints.
"""

from __future__ import annotations

import os
from collections.abc import Set as AbstractSet
from pathlib import Path

import pytest
from dying import die, finish, is_whole, shrink
from pruned import Refs, all_refs, holdings, in_trash, own_refs, story
from thorough import FULL

from gitcp.model import CheckpointId, Oid
from gitcp.state import rewrite

from driver import Project
from samples import open_store

COUNT = 570 if FULL else 8
"""Checkpoints of the longest session; with those that fork from it a thousand."""

MOST = 10_000 if FULL else 15
"""So many of the places where it could die are tried, evenly spread."""

Trees = dict[CheckpointId, Oid]


@pytest.mark.parametrize(("what", "packed"), [("prune", False), ("delete", True), ("back", True)])
def test_killed(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, packed: bool
) -> None:
    """Killed at each of its changes: sound and complete at once, all or nothing after the next
    command.
    """
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # no power fails here
    story(project, COUNT)
    first, before = holdings(project), own_refs(project)
    if what == "back":
        die(project, "prune", tmp_path / "pruned", 0)
        project = Project(tmp_path / "pruned/0")
        before = own_refs(project)
    shrink(project, packed=packed)
    copies = tmp_path / "copies"
    changes = die(project, what, copies, MOST)
    after = own_refs(Project(copies / "0"))
    kept = holdings(Project(copies / "0")).keys() & holdings(project).keys()
    assert changes > 20
    assert before != after
    (copies / "0").rename(tmp_path / "alive")

    done = [_judge(Project(copy), before, after, first, kept) for copy in sorted(copies.iterdir())]

    assert set(done) == {False, True}


def _judge(
    dying: Project, before: Refs, after: Refs, first: Trees, kept: AbstractSet[CheckpointId]
) -> bool:
    """Insist on a store that is sound and has everything; whether the next command found it to be
    finished.
    """
    is_whole(dying)
    held = holdings(dying)
    assert all(first[id] == tree for id, tree in held.items()), dying.root
    assert held.keys() >= kept, dying.root
    assert first.items() <= {**in_trash(dying), **held}.items(), dying.root
    cut_off, there = rewrite.is_unfinished(open_store(dying)), all_refs(dying)
    finish(dying)
    assert own_refs(dying) in (before, after), dying.root
    assert not rewrite.is_unfinished(open_store(dying))
    if cut_off:
        is_whole(dying)
    else:
        assert all_refs(dying) == there
    return own_refs(dying) == after
