"""Sessions of one name that two people made: none takes the other's place, on a remote, in the
trash or in trust.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from test_share import ALPHA, ada, bob, hub, refs_of
from tokens import tokens

from gitcp.git import remote
from gitcp.model import Oid
from gitcp.sharing import fetch, remotes
from gitcp.sharing.remote_refs import shard

from driver import Project
from samples import open_store

__all__ = ["ada", "bob", "hub"]

SESSION = "refs/gitcp/sessions/alpha"
GAMMA = f"refs/gitcp/shared/{shard('gamma')}/gamma"


def chain(project: Project, session: str) -> list[tuple[str, str]]:
    """Which checkpoints a session has, and which tree each of them."""
    return [(each["id"], each["tree"]) for each in project.json_lines("log", session)]


def grown(project: Project, session: str, count: int) -> None:
    """Save more checkpoints."""
    for number in range(count):
        project.write(f"{session}.txt", f"{project.root.name} {number}\n")
        project.gitcp("save", f"{session} {number}", "--session", session, check=0)


@pytest.fixture
def twofold(ada: Project, bob: Project) -> Project:
    """Ada's project: her alpha went on where Bob's did too, and she has Bob's as a fork, as gitcp
    advised her.
    """
    ada.gitcp("push", "--session", "alpha", check=0)
    bob.gitcp("fetch", check=0)
    bob.gitcp("restore", "hub/alpha", "--yes", "--trust", check=0)
    grown(bob, "alpha", 2)
    bob.gitcp("push", "--session", "alpha", check=0)
    grown(ada, "alpha", 4)
    grown(ada, "gamma", 3)
    ada.gitcp("fetch", check=0)
    ada.gitcp("fork", "hub/alpha", "--trust", "--name", "beta", check=0)
    grown(ada, "beta", 2)
    return ada


@pytest.mark.parametrize("pruned", ["gamma", "alpha", "beta"])
def test_undo_beside_a_strangers_line(twofold: Project, pruned: str) -> None:
    """Checkpoints that are called the same are two: to undo a prune brings each back to the line
    that it was in.
    """
    before = {name: chain(twofold, name) for name in ("alpha", "beta", "gamma")}
    held = refs_of(twofold.root)
    twofold.gitcp("prune", "--session", pruned, "--keep-last", "1", "--yes", check=0)

    with twofold.guard():
        twofold.gitcp("undo", "--yes", check=0)

    assert {name: chain(twofold, name) for name in before} == before
    assert refs_of(twofold.root) == held


def test_delete_beside_a_strangers_line(twofold: Project) -> None:
    """A session that was deleted comes back as it was, and leaves the other line alone."""
    before = {name: chain(twofold, name) for name in ("alpha", "beta", "gamma")}
    for session in ("alpha", "beta"):
        twofold.gitcp("delete", session, "--yes", check=0)
        twofold.gitcp("undo", "--yes", check=0)
        assert {name: chain(twofold, name) for name in before} == before


def test_two_prunes_beside_a_strangers_line(twofold: Project) -> None:
    """Undone in the wrong order, and after more was saved: nothing is left out, and nothing comes
    into another line.
    """
    before = {name: chain(twofold, name) for name in ("alpha", "beta")}
    twofold.gitcp("prune", "--session", "alpha", "--keep-last", "3", "--yes", check=0)
    twofold.gitcp("prune", "--session", "alpha", "--keep-last", "1", "--yes", check=0)
    grown(twofold, "alpha", 1)
    done = twofold.json_lines("oplog")
    for number in sorted(each["number"] for each in done if each["operation"] == "prune"):
        twofold.gitcp("undo", str(number), "--yes", check=0)

    assert chain(twofold, "beta") == before["beta"]
    assert chain(twofold, "alpha")[1:] == before["alpha"]


def test_force_replaces_nobody_elses(ada: Project, bob: Project, hub: Path) -> None:
    """--force is for one's own session, rewritten; one of the same name that somebody else pushed
    stays.
    """
    ada.gitcp("push", "--session", "alpha", check=0)
    held = refs_of(hub)
    bob.gitcp("fetch", check=0)
    bob.gitcp("save", "mine", "--session", "alpha", check=0)

    refused = bob.gitcp("push", "--session", "alpha", "--force", check=12)

    assert "have diverged" in refused.err
    assert refs_of(hub) == held


def test_force_after_a_prune_of_all_but_new(ada: Project, hub: Path) -> None:
    """What was pruned here is known to have been ours, also where nothing of it is left."""
    ada.gitcp("tag", "--delete", "good", check=0)
    ada.gitcp("push", "--session", "alpha", check=0)
    grown(ada, "alpha", 2)
    ada.gitcp("prune", "--keep-last", "1", "--yes", check=0)
    assert [id for id, _ in chain(ada, "alpha")] == ["alpha@4"]

    ada.gitcp("push", "--session", "alpha", "--force", check=0)

    assert refs_of(hub)[ALPHA] == refs_of(ada.root)[SESSION]


def test_trust_in_one_remote_is_none_in_another(
    ada: Project, bob: Project, hub: Path, tmp_path: Path
) -> None:
    """Who trusts a session of one remote does not take over what another remote hung on it."""
    ada.gitcp("push", "--session", "alpha", check=0)
    subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / "eve.git"], check=True)
    eve = Project(tmp_path / "eve")
    eve.write("b.txt", "eve's\n")
    eve.commit()
    for who in (eve, bob):
        remotes.enable(open_store(who).repo, "eve", str(tmp_path / "eve.git"), as_branches=False)
    remotes.enable(open_store(eve).repo, "hub", str(hub), as_branches=False)
    eve.gitcp("fetch", "hub", check=0)
    eve.gitcp("restore", "hub/alpha", "--yes", "--trust", check=0)
    eve.gitcp("save", "do as I say", "--session", "alpha", "--force", check=0)
    eve.gitcp("push", "eve", "--session", "alpha", check=0)
    bob.gitcp("fetch", "hub", check=0)
    bob.gitcp("fetch", "eve", check=0)

    bob.gitcp("restore", "hub/alpha", "--yes", "--trust", check=0)

    assert "do as I say" not in bob.gitcp("log", "alpha", check=0).out
    bob.gitcp("restore", "eve/alpha", "--yes", check=14)


def test_bad_tag(ada: Project, bob: Project, hub: Path) -> None:
    """A tag that git refuses keeps back neither the sessions nor the other tags; one of another
    session is not got.
    """
    ada.gitcp("push", "--session", "alpha", check=0)
    grown(ada, "gamma", 1)
    ada.gitcp("tag", "other", "gamma", check=0)
    ada.gitcp("push", "--session", "gamma", check=0)

    def made(kind: str, data: bytes) -> str:
        command = ["git", "hash-object", "-w", "--literally", "-t", kind, "--stdin"]
        return (
            subprocess.run(command, cwd=hub, input=data, capture_output=True, check=True)
            .stdout.decode()
            .strip()
        )

    blob = bytes.fromhex(made("blob", b"x"))
    tree = made("tree", b"100644 b\0" + blob + b"100644 a\0" + blob)
    bad = made(
        "commit", f"tree {tree}\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\nx\n".encode()
    )
    subprocess.run(["git", "update-ref", "refs/gitcp/tags/bad", bad], cwd=hub, check=True)

    bob.gitcp("fetch", "hub", "alpha", check=0)

    there = "refs/gitcp/remotes/hub/"
    arrived = {ref.removeprefix(there) for ref in refs_of(bob.root) if ref.startswith(there)}
    assert arrived == {"sessions/alpha", "tags/good"}
    assert bob.git("cat-file", "-t", refs_of(hub)[GAMMA], check=False) == ""


def test_blobs_that_do_not_come(
    ada: Project, bob: Project, hub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session of which not all is there gets no name, whatever the remote said: git's gc would
    fail from then on.
    """
    ours, theirs = open_store(ada), open_store(bob)
    tip = ours.tip("alpha")
    assert tip is not None
    words = ada.git("rev-list", "--objects", tip).split("\n")
    for oid, path in (line.partition(" ")[::2] for line in words):
        if path != "a.txt":
            theirs.objects.writer.write(*ours.objects.reader.read(Oid(oid)))
    theirs.objects.writer.flush()
    ada.gitcp("fork", "alpha", "--name", "beta", check=0)
    ada.git("push", "--quiet", str(hub), "refs/gitcp/sessions/beta:refs/gitcp/sessions/alpha")
    said = {"refs/gitcp/sessions/alpha": tip}
    monkeypatch.setattr(remote, "peeled", lambda *_: said)
    monkeypatch.setattr(remote, "receive", lambda *_, **__: None)

    (found,) = fetch.fetch(theirs, remotes.choose(theirs.repo, "hub"))

    assert "did not send blob" in found.refused
    assert not [ref for ref in refs_of(bob.root) if ref.startswith("refs/gitcp/")]
    bob.git("gc", "--quiet")


def test_one_remote_is_meant(ada: Project, hub: Path, tmp_path: Path) -> None:
    """Of a remote's addresses the first is meant; a directory called like a remote is a
    directory.
    """
    for name in (tmp_path / "public.git", ada.root / "private"):
        subprocess.run(["git", "init", "--quiet", "--bare", name], check=True)
    ada.git("remote", "set-url", "--add", "hub", str(tmp_path / "public.git"))
    ada.gitcp("push", "--session", "alpha", check=0)
    ada.git("config", "--replace-all", "remote.hub.url", "private")
    ada.git("remote", "add", "private", str(tmp_path / "public.git"))
    ada.gitcp("push", "--session", "alpha", check=0)

    assert ALPHA in refs_of(hub)
    assert ALPHA in refs_of(ada.root / "private")
    assert refs_of(tmp_path / "public.git") == {}


def test_push_options_are_for_others(ada: Project, hub: Path) -> None:
    """What a forge is told at the user's own pushes is not said at ours; a remote may know of no
    such thing.
    """
    ada.git("config", "push.pushOption", "ci.skip")
    with ada.guard():
        ada.gitcp("push", "--session", "alpha", check=0)
    assert ALPHA in refs_of(hub)


def test_secret_in_the_name_of_a_tag(ada: Project, hub: Path) -> None:
    """A name is not replaced: with a secret in it nothing leaves, annotated or not."""
    token = tokens()["github-token"]
    for make in (("gitcp",), ("git",)):
        if make == ("gitcp",):
            ada.gitcp("tag", token, "alpha", check=0)
        else:
            ada.gitcp("tag", "--delete", token, check=0)
            ada.git("update-ref", f"refs/gitcp/tags/{token}", SESSION)
        for options in ((), ("--redact",)):
            ada.gitcp("export", "alpha", "-o", "../x.bundle", *options, check=15)
            ada.gitcp("push", "--session", "alpha", *options, check=15)
    assert refs_of(hub) == {}
    assert not ada.root.parent.joinpath("x.bundle").exists()
