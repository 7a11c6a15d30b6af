"""A save that began to look earlier than another ends later: its checkpoint is not of older files
than the one before, whichever session that is of.
"""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from gitcp.fastpath.stat_check import Look
from gitcp.git.trees import TreeEntry
from gitcp.model import FILE, State
from gitcp.saving import save as saving
from gitcp.saving.save import Records, SaveRequest, save
from gitcp.worktree import snapshot

from driver import Project
from samples import open_store


@pytest.mark.parametrize("session", ["s", "other"])
def test_files_are_those_of_the_later_scan(
    project: Project, monkeypatch: pytest.MonkeyPatch, session: str
) -> None:
    """Another process edits and saves, between this one's scan and its lock."""
    project.write("a.txt", "one\n")
    project.commit()
    project.gitcp("save", "--session", "s", check=0)
    project.write("a.txt", "two\n")
    take, taken = saving._take, list[int]()

    def overtaken(*given: Any) -> Any:
        made = take(*given)
        taken.append(1)
        if len(taken) == 1:
            project.write("a.txt", "three\n")
            project.gitcp("save", "by the other", "--session", session, check=0)
        return made

    monkeypatch.setattr(saving, "_take", overtaken)
    request = SaveRequest(cwd=project.root, session="s", force=True)
    made = save(open_store(project), request).checkpoint

    assert project.git("show", f"{made.commit}:a.txt") == "three"
    assert len(taken) == 2
    project.git("fsck", "--strict")
    assert project.json("check")["ok"]


def test_a_look_that_was_begun_before(project: Project) -> None:
    """`gitcp save` looks while it loads: what another process saves before the scan counts, too."""
    project.write("a.txt", "one\n")
    project.commit()
    project.gitcp("save", "--session", "s", check=0)
    project.write("a.txt", "two\n")
    store = open_store(project)
    look = store.repo.look = Look(
        os.fsencode(project.root), str(project.git_dir / "gitcp/worktree-state")
    )
    look.begin()
    project.write("a.txt", "three\n")
    project.gitcp("save", "by the other", "--session", "s", check=0)
    request = SaveRequest(cwd=project.root, session="s", force=True)

    made = save(store, request).checkpoint
    assert project.git("show", f"{made.commit}:a.txt") == "three"
    assert project.git("show", f"{made.parent}:a.txt") == "three"


def test_what_was_written_before_is_kept(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program writes a state, then saves it with the files: a second look loses nothing of it,
    even if all happens within one tick of the clock.
    """
    project.write("a.txt", "one\n")
    project.commit()
    monkeypatch.setattr(snapshot, "tick", lambda: 1)
    store = open_store(project)
    for number in range(3):
        blob = store.writer.write_blob(b"%d" % number)
        tree = store.writer.write_tree([TreeEntry(b"state", FILE, blob)])
        request = SaveRequest(
            cwd=project.root,
            session="s",
            force=True,
            records=Records(state=State(tree, str(number))),
        )
        made = save(store, request).checkpoint
        assert project.git("show", f"{made.commit}:.gitcp/state/state") == str(number)
    project.git("fsck", "--strict")
    assert project.json("check")["ok"]


def test_one_process_looks_once(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own last save is no reason to look again."""
    project.write("a.txt", "one\n")
    project.commit()
    take, taken = saving._take, list[int]()

    def count(*given: Any) -> Any:
        taken.append(1)
        return take(*given)

    monkeypatch.setattr(saving, "_take", count)
    store = open_store(project)
    for number in range(5):
        project.write("a.txt", f"{number}\n")
        time.sleep(0.02)  # within one tick of the clock, it cannot know, and looks again
        save(store, SaveRequest(cwd=project.root, session="s"))
    assert len(taken) == 5
