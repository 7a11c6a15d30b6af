"""`gitcp push --redact`: what arrives is whole and without secrets, what is here stays, only what
is new is sent.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tokens import tokens

from gitcp.model import Note, Oid
from gitcp.secrets import checkpoint_scan
from gitcp.secrets.checkpoint_scan import Sieve
from gitcp.sharing import redact
from gitcp.state import tag
from gitcp.store import Store, Summary

from driver import Project
from samples import START, open_store, save

TOKENS = tokens()
TOKEN = TOKENS["github-token"]
OTHER = TOKENS["npm-token"]


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """An empty bare repository."""
    subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / "hub.git"], check=True)
    return tmp_path / "hub.git"


def said(text: str) -> bytes:
    """A line of a transcript."""
    return (
        json.dumps({"type": "user", "message": {"role": "user", "content": text}}).encode() + b"\n"
    )


def leaky(project: Project) -> Store:
    """Three checkpoints with secrets in a file, a path, the conversation, words and a tag; one file
    is clean.
    """
    store = open_store(project)
    talk = b""
    for number in range(3):
        talk += said(f"{number} take {TOKEN}")
        files = {
            b"env": f"K={TOKEN}\n".encode(),
            b"clean": b"%d\n" % number,
            OTHER.encode(): b"x\n",
        }
        made = save(
            store,
            "alpha",
            files,
            {"main": talk},
            note=Note(label=f"with {TOKEN}", facts={"k": OTHER}),
        )
    tag.create(store, "mark", made, text=f"mark {TOKEN}", force=False, now=START)
    return open_store(project)


def objects(repository: Path) -> list[str]:
    """All objects of a repository, by name."""
    listed = ["git", "cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]
    return (
        subprocess.run(listed, cwd=repository, capture_output=True, check=True)
        .stdout.decode()
        .split()
    )


def contents(repository: Path) -> bytes:
    """What all objects of a repository hold."""
    everything = ["git", "cat-file", "--batch-all-objects", "--batch"]
    return subprocess.run(everything, cwd=repository, capture_output=True, check=True).stdout


def test_redacted_push(project: Project, hub: Path, tmp_path: Path) -> None:
    """The remote gets no secret; who fetches has whole checkpoints under the same ids; here nothing
    changed.
    """
    leaky(project)
    project.gitcp("remote", "hub", str(hub), check=0)
    before = project.git("for-each-ref")
    assert project.gitcp("push", "--session", "alpha").code == 15
    with project.guard():
        planned = project.json("push", "--session", "alpha", "--redact", "--dry-run")
        assert project.git("for-each-ref") == before
        sent = project.gitcp("push", "--session", "alpha", "--redact", check=0)
    assert {finding["rule"] for finding in planned["redacted"]} == {"github-token", "npm-token"}
    assert planned["findings"] == []
    assert "without 2 secrets" in sent.err
    kept = [line for line in project.git("for-each-ref").splitlines() if "/remotes/" not in line]
    assert kept == before.splitlines()
    assert project.gitcp("show", "alpha@3:env", check=0).out == f"K={TOKEN}\n"

    held = contents(hub)
    assert TOKEN.encode() not in held
    assert OTHER.encode() not in held
    bob = Project(tmp_path / "bob")
    bob.gitcp("remote", "hub", str(hub), check=0)
    bob.gitcp("fetch", check=0)
    assert [c["id"] for c in bob.json_lines("log", "hub/alpha")] == [
        "alpha@3",
        "alpha@2",
        "alpha@1",
    ]
    assert bob.gitcp("show", "hub/alpha@3:env", check=0).out == "K=[REDACTED:github-token]\n"
    bob.gitcp("check", check=0)
    bob.gitcp("restore", "hub/alpha@3", "--trust", "--yes", check=0)
    assert bob.read("[REDACTED:npm-token]") == b"x\n"
    assert (
        "0 take [REDACTED:github-token]"
        in bob.gitcp("show", "hub/alpha@3", "--conversation", check=0).out
    )


def test_only_what_is_new(project: Project, hub: Path) -> None:
    """A second redacted push sends nothing, one after another save only what that added; a plain
    one is refused.
    """
    store = leaky(project)
    project.gitcp("remote", "hub", str(hub), check=0)
    project.gitcp("push", "--session", "alpha", "--redact", check=0)
    first = set(objects(hub))
    assert "is up to date" in project.gitcp("push", "--session", "alpha", "--redact", check=0).out
    save(store, "alpha", {b"env": f"K={TOKEN}\n".encode(), b"clean": b"new\n"}, {"main": b"{}\n"})

    assert (
        "(1 new checkpoint)" in project.gitcp("push", "--session", "alpha", "--redact", check=0).out
    )
    assert set(objects(hub)) > first
    assert len(set(objects(hub)) - first) < 12 + len(("commit", "tree", "shard of the catalogue"))
    assert "rewritten there or here" in project.gitcp("fetch", check=0).out
    allowed = [
        option
        for finding in checkpoint_scan.texts(store, list(store.sessions().values()))
        for option in ("--allow", finding)
    ]
    refused = project.gitcp("push", "--session", "alpha", *allowed)
    assert refused.code in (12, 15)


def searched(store: Store, tip: Oid) -> list[Summary]:
    """A chain, the oldest first, that was searched for secrets."""
    nodes = list(store.history(tip))[::-1]
    checkpoint_scan.findings(store, (node.commit for node in nodes))
    return nodes


def test_same_every_time(project: Project) -> None:
    """The same checkpoints become the same commits in another process, with or without the scan's
    cache.
    """
    store = leaky(project)
    tip = store.tip("alpha")
    assert tip is not None
    first = redact.chains(store, searched(store, tip), Sieve()).becomes
    (store.repo.store_dir / "scanned").unlink()
    again = open_store(project)

    assert redact.chains(again, searched(again, tip), Sieve()).becomes == first
    assert checkpoint_scan.findings(again, first.values()) == ()
    assert all(old != new for old, new in first.items())


def test_clean_stays(project: Project) -> None:
    """Without a secret, or with it allowed, the copy is the original: nothing is written."""
    store = open_store(project)
    save(store, "alpha", {b"a": b"clean\n"}, {"main": b'{"role":"user"}\n'})
    made = save(store, "alpha", {b"a": f"K={TOKEN}\n".encode()}, {"main": b'{"role":"user"}\n'})
    nodes = list(store.history(made.commit))[::-1]
    allowed = {found.id for found in checkpoint_scan.findings(store, [made.commit])}
    before = objects(project.root)

    for allow, same in ((allowed, 2), (set[str](), 1)):
        becomes = redact.chains(store, nodes, Sieve(allow)).becomes
        assert sum(old == new for old, new in becomes.items()) == same
        assert (objects(project.root) == before) == (same == 2)


EVERYWHERE = (
    ("--fact", f"k={TOKEN}"),
    ("--fact", f"{TOKEN}=v"),
    ("--objective", TOKEN),
    ("--phase", TOKEN),
    ("--position", f"at={TOKEN}"),
)


def whose_name_is_a_token(project: Project) -> None:
    """A session with a token wherever a user can write: as the author, the branch and the tagger
    too.
    """
    project.write("a.txt", "1\n")
    project.commit()
    project.git("checkout", "--quiet", "-b", f"fix/{TOKEN}")
    project.git("config", "user.name", TOKEN)
    project.git("config", "user.email", f"{OTHER}@example.org")
    project.write(f"below/{TOKEN}/a.txt", "1\n")
    project.write("staged.txt", TOKEN)
    project.git("add", "staged.txt")
    project.write("staged.txt", "2\n")
    os.symlink(TOKEN, project.path("link"))
    words = [word for pair in EVERYWHERE for word in pair]
    project.gitcp("save", f"label {TOKEN}", "--session", "alpha", *words, check=0)
    project.gitcp("tag", "good", "-m", f"tag {TOKEN}", check=0)


def test_every_place(project: Project, hub: Path, tmp_path: Path) -> None:
    """What leaves has a token in no object: not as the author or the tagger, and not in the
    catalogue, whose author is today's.
    """
    whose_name_is_a_token(project)
    project.gitcp("remote", "hub", str(hub), check=0)
    assert ", author, line" in project.gitcp("push", "--session", "alpha", check=15).err
    assert contents(hub) == b""
    project.gitcp("push", "--session", "alpha", "--redact", check=0)
    project.gitcp("export", "--redact", "-o", str(tmp_path / "x.bundle"), check=0)

    from_bundle = Project(tmp_path / "carol")
    from_bundle.git("fetch", "--quiet", str(tmp_path / "x.bundle"), "refs/gitcp/*:refs/gitcp/*")
    for held in (contents(hub), contents(from_bundle.git_dir)):
        assert b"[REDACTED:npm-token]@example.org" in held
        assert TOKEN.encode() not in held
        assert OTHER.encode() not in held
    tagged = from_bundle.git("cat-file", "tag", "refs/gitcp/tags/good")
    assert "tagger [REDACTED:github-token]" in tagged


def test_author_of_the_catalogue(project: Project, hub: Path) -> None:
    """The catalogue is written under the name that the user has now: its secrets are replaced,
    though the checkpoints are clean.
    """
    project.gitcp("remote", "hub", str(hub), check=0)
    save(open_store(project), "alpha", {b"a": b"1\n"})
    project.git("config", "user.name", TOKEN)
    project.gitcp("push", "--session", "alpha", check=0)
    assert TOKEN.encode() not in contents(hub)
    project.gitcp("push", "hub", "--delete", "alpha", "--yes", check=0)
    assert TOKEN.encode() not in contents(hub)


def test_what_is_not_replaced(project: Project, hub: Path) -> None:
    """A tag that is called like a secret is refused with --redact too, and does not suggest it."""
    store = open_store(project)
    made = save(store, "alpha", {b"a": b"1\n"})
    tag.create(store, OTHER, made, text=None, force=False, now=START)
    project.gitcp("remote", "hub", str(hub), check=0)
    done = project.gitcp("push", "--session", "alpha", "--redact", check=15)
    assert "tag" in done.err
    assert "they cannot be redacted" in done.err
    assert "hint: --redact" not in done.err
