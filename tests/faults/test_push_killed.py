"""A background push that dies: at whichever change to the file system, the next one sends what is
left, and nothing that was sent is sent otherwise.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from dying import die, is_whole
from test_share import refs_of
from thorough import FULL

from gitcp.sharing import catalogue, push_queue, remote_refs, remotes
from gitcp.sharing.push_queue import Timing
from gitcp.state import tag
from gitcp.state.push_policy import PushPolicy

from driver import Project
from samples import START, open_store, save

MOST = 10_000 if FULL else 25
"""So many of the places where it could die are tried, evenly spread."""


def test_killed(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The remote is inside of the project, so each of the copies has its own."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # no power fails here
    store = open_store(project)
    subprocess.run(["git", "init", "--quiet", "--bare", project.root / "hub.git"], check=True)
    hub = remotes.enable(store.repo, "hub", "./hub.git", as_branches=False)
    remotes.allow_pushes(store.repo, hub, PushPolicy.ALWAYS)
    save(store, "alpha", {b"a.txt": b"one\n"}, label="first")
    made = save(store, "beta", {b"a.txt": b"two\n"}, label="second")
    tag.create(store, "good", made, text=None, force=False, now=START)
    sent = {"alpha", "beta", "good", "catalogue"}
    copies = tmp_path / "copies"

    changes = die(project, "push", copies, MOST)

    assert changes > 10
    began = set()
    for copy in sorted(copies.iterdir()):
        began.add(_judge(Project(copy), dict(project_refs(project)), sent))
    assert began == {False, True}


def project_refs(project: Project) -> dict[str, str]:
    """The sessions and tags of a project by name."""
    listed = refs_of(project.root)
    kinds = ("refs/gitcp/sessions/", "refs/gitcp/tags/")
    return {ref.rpartition("/")[2]: oid for ref, oid in listed.items() if ref.startswith(kinds)}


def _judge(dying: Project, own: dict[str, str], sent: set[str]) -> bool:
    """Insist that the next process ends what the killed one began. Whether it had sent
    something.
    """
    is_whole(dying)
    store, path = open_store(dying), dying.root / "hub.git"
    begun = {ref.rpartition("/")[2]: oid for ref, oid in refs_of(path).items()}
    assert all(own[name] == oid for name, oid in begun.items() if name in own), dying.root

    push_queue.drain(store, "hub", Timing(apart=0, wait=0))

    ended = {ref.rpartition("/")[2]: oid for ref, oid in refs_of(path).items()}
    assert ended.keys() == sent, dying.root
    assert {name: ended[name] for name in own} == own, dying.root
    assert push_queue.states(store)[0].queue.items == (), dying.root
    hub = remotes.choose(store.repo, "hub")
    listed = remote_refs.read(store, hub, hub.url)
    assert listed.catalogue
    assert {name: entry.tip for name, entry in catalogue.read(store, listed.catalogue).items()} == {
        name: tip for name, (_, tip) in listed.sessions.items()
    }, dying.root
    dying.git("fsck", "--strict")
    return bool(begun)
