"""Secrets that a remote has already: they are let through to that remote, and to no other."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tokens import tokens

from gitcp.secrets.scan import fingerprint
from gitcp.sharing import push_queue, remotes
from gitcp.sharing.push_queue import Timing
from gitcp.state.push_policy import PushPolicy

from driver import Project
from samples import open_store, save

KEY, NEW = tokens()["github-token"], tokens()["npm-token"]
ID, NEW_ID = fingerprint("github-token", KEY.encode()), fingerprint("npm-token", NEW.encode())
HAS = "passed over 1 secret: origin has it already"
FILE = "tests/keys.py"


def bare(path: Path) -> Path:
    """An empty repository that everybody can push to."""
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", path], check=True)
    return path


def clone(origin: Path, root: Path) -> Project:
    """A clone with `origin` enabled for checkpoints."""
    subprocess.run(["git", "clone", "-q", origin, root], check=True)
    project = Project(root)
    project.gitcp("remote", "origin", check=0)
    return project


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A remote whose branch main has a test key in a file, and another file."""
    hub = bare(tmp_path / "origin.git")
    first = Project(tmp_path / "first", own_store=False)
    first.write(FILE, f"A = '{KEY}'\n")
    first.write("a.txt", "one\n")
    first.commit()
    first.git("push", "-q", str(hub), "HEAD:refs/heads/main")
    return hub


@pytest.fixture
def ada(origin: Path, tmp_path: Path) -> Project:
    """Somebody's clone."""
    return clone(origin, tmp_path / "ada")


def test_unchanged(ada: Project) -> None:
    """What the branch has is sent with the first push, which says so; so does `secrets`."""
    ada.gitcp("save", "one", check=0)
    listed = ada.gitcp("secrets", check=0)
    assert ID not in listed.out
    assert f"{HAS}, by the last fetch" in listed.err
    planned = ada.gitcp("push", "--dry-run", "--json", check=0)
    assert [each["id"] for each in json.loads(planned.out)["known"]] == [ID]
    assert HAS + "\n" in ada.gitcp("push", check=0).err


@pytest.mark.parametrize("kind", ["edited", "moved", "quoted", "said"])
def test_the_same_secret_elsewhere(ada: Project, kind: str) -> None:
    """The same secret in an edited or moved file, in another file, or in a conversation is no
    news.
    """
    talk = None
    match kind:
        case "edited":
            ada.write(FILE, f"import os\nA = '{KEY}'\nB = 1\n")
        case "moved":
            ada.root.joinpath(FILE).rename(ada.root / "moved.py")
        case "quoted":
            ada.root.joinpath(FILE).unlink()
            ada.write("notes.md", f"the key is {KEY}, see there\n")
        case _:
            ada.root.joinpath(FILE).unlink()
            talk = {"main": json.dumps({"role": "user", "text": f"use {KEY}"}).encode() + b"\n"}
    if talk is None:
        ada.gitcp("save", "one", "--session", "alpha", check=0)
    else:
        save(open_store(ada), "alpha", {b"a.txt": b"one\n"}, talk)
    assert HAS in ada.gitcp("push", "--session", "alpha", check=0).err


def test_only_in_history(ada: Project) -> None:
    """A key that the branch once had is still there for everybody who has the branch."""
    ada.git("rm", "-q", FILE)
    ada.commit()
    ada.git("push", "-q", "origin", "main")
    ada.write(FILE, f"A = '{KEY}'\n")
    ada.gitcp("save", "one", check=0)
    assert HAS in ada.gitcp("push", check=0).err


def test_what_is_not_pushed_is_news(ada: Project) -> None:
    """A secret in a local commit, or beside the key that the remote has, stops the push, and it
    alone is named.
    """
    ada.write("env", f"T={NEW}\n")
    ada.commit()
    ada.gitcp("save", "one", check=0)
    for typed in (("push",), ("secrets",)):
        done = ada.gitcp(*typed, check=15)
        assert HAS in done.err
        assert NEW_ID in done.out + done.err
        assert ID not in done.out + done.err
        assert "1 secret found" in done.err


def test_another_url(ada: Project, tmp_path: Path) -> None:
    """What origin has says nothing of another remote, nor of another URL under the same name."""
    backup = bare(tmp_path / "backup.git")
    ada.gitcp("save", "one", check=0)
    ada.gitcp("remote", "backup", str(backup), check=0)
    assert ID in ada.gitcp("push", "backup", check=15).err
    assert ID in ada.gitcp("secrets", check=15).out
    ada.git("remote", "set-url", "origin", str(backup))
    assert ID in ada.gitcp("push", "origin", check=15).err
    ada.git("remote", "set-url", "--push", "backup", str(tmp_path / "origin.git"))
    assert "backup has it" in ada.gitcp("push", "backup", check=0).err


def test_a_branch_that_is_not_here(ada: Project, origin: Path, tmp_path: Path) -> None:
    """If the only branch moved on, it is not known what it has; after a fetch it is."""
    bob = clone(origin, tmp_path / "bob")
    bob.write("b.txt", "b\n")
    bob.commit()
    bob.git("push", "-q", "origin", "main")
    ada.gitcp("save", "one", check=0)
    done = ada.gitcp("push", check=15).err
    assert "origin has branches that are not here, which may contain them: git fetch origin" in done
    ada.git("fetch", "-q", "origin")
    assert HAS in ada.gitcp("push", check=0).err


def test_a_colleague(ada: Project, origin: Path, tmp_path: Path) -> None:
    """After fetch, restore and undo, nothing stops the colleague's push: neither the key of the
    branch nor what was sent with an answer.
    """
    ada.write("env", f"T={NEW}\n")
    ada.gitcp("save", "one", "--session", "alpha", check=0)
    ada.gitcp("push", "--allow", NEW_ID, "--session", "alpha", check=0)
    bob = clone(origin, tmp_path / "bob")
    bob.gitcp("fetch", check=0)
    bob.gitcp("restore", "origin/alpha", "--trust", "--yes", check=0)
    bob.gitcp("undo", "--yes", check=0)
    bob.gitcp("restore", "origin/alpha", "--trust", "--yes", check=0)
    done = bob.gitcp("push", "--all", check=0)
    assert "origin has them already" in done.err


def test_in_the_background(ada: Project) -> None:
    """A background push decides the same."""
    store = open_store(ada)
    (origin,) = remotes.listing(store.repo)
    remotes.allow_pushes(store.repo, origin, PushPolicy.ALWAYS)
    ada.gitcp("save", "one", "--session", "alpha", check=0)
    push_queue.drain(open_store(ada), "origin", Timing(apart=0))
    assert "alpha" in ada.git("ls-remote", "origin")


def test_publish(ada: Project) -> None:
    """What the base of a branch has in a file goes with the branch anyway."""
    ada.write(FILE, f"import os\nA = '{KEY}'\n")
    ada.gitcp("save", "one", check=0)
    done = ada.gitcp("publish", "--branch", "topic", "--yes", check=0)
    assert "passed over 1 secret: its base " in done.err
    ada.write("env", f"T={NEW}\n")
    ada.gitcp("save", "two", check=0)
    refused = ada.gitcp("publish", "--branch", "other", "--yes", check=15).err
    assert NEW_ID in refused
    assert ID not in refused
