"""`gitcp push --scan`: what is found in checkpoints, where, and what was looked at once is not
looked at again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from tokens import tokens

from gitcp.conversation.segments import LARGEST
from gitcp.errors import StoreDamaged
from gitcp.model import Oid
from gitcp.secrets import checkpoint_scan, scan_cache
from gitcp.secrets.checkpoint_scan import Sieve
from gitcp.secrets.scan import VERSION, fingerprint
from gitcp.store import Store

from driver import Project
from samples import open_store, save

KINDS = tokens()
TOKEN = KINDS["github-token"]
OTHER = KINDS["npm-token"]
ID = fingerprint("github-token", TOKEN.encode())


@pytest.fixture
def store(project: Project) -> Store:
    """The store of an empty project."""
    return open_store(project)


def found(
    store: Store, session: str = "alpha", allowed: tuple[str, ...] = ()
) -> tuple[checkpoint_scan.Finding, ...]:
    """What a scan of a whole session finds."""
    tip = store.tip(session)
    assert tip is not None
    return checkpoint_scan.findings(
        store, [s.commit for s in reversed(list(store.history(tip)))], allowed
    )


def test_places(store: Store) -> None:
    """A secret is found in a file, in the conversation, in the label and in a path, each time with
    its place.
    """
    talk = json.dumps({"role": "user", "text": f"use {TOKEN}\n"}).encode() + b"\n"
    save(store, "alpha", {b"a.txt": b"nothing\n"})
    save(store, "alpha", {b"src/x.py": f"\nkey = '{TOKEN}'\n".encode()}, {"main": talk})
    save(store, "alpha", {b"d/" + TOKEN.encode(): b""}, label=f"with {OTHER}")

    places = {(f.place, f.path, f.line, str(f.checkpoint), f.id == ID) for f in found(store)}

    assert ("file", b"src/x.py", 2, "alpha@2", True) in places
    assert (
        "conversation",
        b".gitcp/conversation/main/a/000000000000.jsonl",
        1,
        "alpha@2",
        True,
    ) in places
    assert ("path", b"d/", 1, "alpha@3", True) in places
    assert ("message", "alpha@3", False) in {(p[0], p[3], p[4]) for p in places}
    assert any(p[0] == "metadata" and p[1] == b".gitcp/checkpoint.json" for p in places)
    assert not any(p[3] == "alpha@1" for p in places)


def test_across_segments(store: Store) -> None:
    """A token that the end of a segment cuts in two is found."""
    line = b'{"text":"' + b"a " * (LARGEST // 2 - 15) + TOKEN.encode() + b" and on" * 50 + b'"}\n'
    save(store, "alpha", {b"a": b"1"}, {"main": line})

    assert [f.id for f in found(store)] == [ID]
    assert [f.id for f in found(store)] == [ID]


def test_allowed(store: Store) -> None:
    """What is allowed by its ID is left out, and nothing else."""
    save(store, "alpha", {b"a": f"{TOKEN} {OTHER}".encode()})

    assert {f.rule for f in found(store)} == {"github-token", "npm-token"}
    assert {f.rule for f in found(store, allowed=(ID,))} == {"npm-token"}


def test_cache(store: Store, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was clean is not read again, what was not is found again, and other rules look at
    everything anew.
    """
    save(store, "alpha", {b"clean": b"nothing\n", b"not": TOKEN.encode()})
    first = found(store)
    before = len(scan_cache.load(store.repo))
    read = blobs_read(store, monkeypatch)

    assert found(store) == first
    assert len(read) == 1
    save(store, "alpha", {b"clean": b"nothing\n", b"not": TOKEN.encode(), b"new": b"new\n"})
    read.clear()
    assert [f.path for f in found(store)] == [b"not"]
    assert len(read) == 4  # the one with the token, the new file, metadata and README
    assert len(scan_cache.load(store.repo)) > before
    path = store.repo.store_dir / scan_cache.NAME
    path.write_bytes(b"\0" * 32 + path.read_bytes()[len(VERSION) // 2 :])
    assert scan_cache.load(store.repo) == frozenset()


def blobs_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> set[Oid]:
    """Return a set to which each blob is added that is read from now on."""
    read: set[Oid] = set()
    one, many = store.reader.read_blob, store.reader.read_each

    def noted(oid: Oid) -> bytes:
        read.add(oid)
        return one(oid)

    def noted_each(
        oids: Iterable[Oid],
    ) -> Iterator[tuple[Oid, tuple[str, bytes] | StoreDamaged]]:
        for oid, content in many(oids):
            if not isinstance(content, StoreDamaged) and content[0] == "blob":
                read.add(oid)
            yield oid, content

    monkeypatch.setattr(store.reader, "read_blob", noted)
    monkeypatch.setattr(store.reader, "read_each", noted_each)
    return read


def test_clean_checkpoints_are_not_read_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of checkpoints without secrets nothing is read again, not even the commit, and those with
    some are still found, in their message too.
    """
    save(store, "alpha", {b"a": b"nothing\n"})
    save(store, "alpha", {b"a": b"nothing\n"}, label=f"with {OTHER}")
    save(store, "alpha", {b"a": b"nothing new\n"})
    first = found(store)
    commits = [summary.commit for summary in store.history(store.tip("alpha") or Oid(""))]
    read: list[Oid] = []
    real = store.reader.read_commit

    def noted(oid: Oid) -> bytes:
        read.append(oid)
        return real(oid)

    monkeypatch.setattr(store.reader, "read_commit", noted)

    assert checkpoint_scan.findings(store, commits[::-1]) == first
    assert {(f.place, str(f.checkpoint)) for f in first} >= {("message", "alpha@2")}
    assert read == [commits[1]]


def test_many_checkpoints(project: Project, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints are read many at a time: a secret is still found in the oldest that has it, at
    each path, whichever of the groups that is in.
    """
    monkeypatch.setattr(checkpoint_scan, "BATCH", 2)
    key = f"key = {TOKEN}\n".encode()
    for number in range(1, 8):
        files = {b"a": b"%d\n" % number}
        files |= {b"x": key} if number >= 3 else {}
        files |= {b"y": key} if number >= 6 else {}
        save(store, "alpha", files)

    places = {(f.path, str(f.checkpoint)) for f in found(open_store(project))}

    assert places == {(b"x", "alpha@3"), (b"y", "alpha@6")}


def test_cache_cannot_be_written(store: Store) -> None:
    """Without a cache everything is scanned, and found."""
    save(store, "alpha", {b"a": TOKEN.encode()})
    (store.repo.store_dir / scan_cache.NAME).mkdir()

    assert [f.id for f in found(store)] == [ID]


def test_unreadable(store: Store, project: Project) -> None:
    """What cannot be read was not seen: no all-clear."""
    made = save(store, "alpha", {b"a": b"some text\n"})
    blob = project.git("rev-parse", f"{made.commit}:a")
    project.remove(project.git_dir / f"objects/{blob[:2]}/{blob[2:]}")

    with pytest.raises(StoreDamaged, match=blob):
        found(open_store(project))


def test_redacted() -> None:
    """Text that is to leave is scanned and redacted by the same rules, with the same IDs."""
    text = f"a {TOKEN} b {OTHER}".encode()

    assert {f.id for f in checkpoint_scan.in_text(text, "report")} > {ID}
    assert checkpoint_scan.in_text(text, "report", sieve=Sieve({ID}))[0].rule == "npm-token"
    assert (
        checkpoint_scan.redacted(text, Sieve({ID})) == f"a {TOKEN} b [REDACTED:npm-token]".encode()
    )


def test_command(project: Project, tmp_path: Path) -> None:
    """The command lists, masks, ends with 15, and lets pass what is allowed here or by the team."""
    project.write("env", f"A={TOKEN}\n")
    project.gitcp("save", "one", check=0)
    with project.guard():
        done = project.gitcp("secrets", check=15)

    assert f"{ID}  github-token  ghp_" in done.out
    assert "file env:1" in done.out
    assert TOKEN not in done.out + done.err
    assert "1 secret found" in done.err
    documents = [
        json.loads(line)
        for line in project.gitcp("secrets", "@", "--json", check=15).out.splitlines()
    ]
    assert [(d["schema"], d["id"], d["path"], d["line"]) for d in documents] == [
        ("gitcp.finding/1", ID, "env", 1)
    ]

    project.gitcp("secrets", "--allow", ID, check=0)
    assert "no secrets found" in project.gitcp("secrets", "--all", check=0).out
    project.gitcp("secrets", "--revoke", ID, check=0)
    project.write(".gitcp.toml", f'[secrets]\nallow_secrets = ["{ID}"]\n')
    project.gitcp("secrets", check=0)


@pytest.mark.parametrize("id", ["x", "0123456789ab\n", "--global", "ABCDEF012345", ""])
def test_bad_id(project: Project, id: str) -> None:
    """What is no ID is not written into anybody's config."""
    with project.guard():
        project.gitcp("secrets", f"--allow={id}", check=2)


def test_nothing_here(project: Project) -> None:
    """Without a checkpoint there is nothing to scan, and it is said so."""
    assert "no checkpoints yet" in project.gitcp("secrets", check=16).err
    project.gitcp("secrets", "--all", check=0)
    assert "cannot be used together" in project.gitcp("secrets", "@", "--all", check=2).err


def test_names(project: Project, tmp_path: Path) -> None:
    """A session or a branch that is called like a secret does not leave: a name is not
    rewritten.
    """
    project.write("a", "1")
    project.commit()
    project.write("a", "2")
    project.gitcp("save", "one", "--session", OTHER, check=0)
    project.git("init", "--bare", "--quiet", str(tmp_path / "hub.git"))
    project.gitcp("remote", "hub", str(tmp_path / "hub.git"), check=0)
    bundle = str(tmp_path / "out.bundle")
    for redact in ((), ("--redact",)):
        for typed in (
            ("push", "--session", OTHER),
            ("export", "@", "--format", "bundle", "-o", bundle),
            ("publish", "--branch", "topic", "--yes"),
        ):
            with project.guard():
                done = project.gitcp(*typed, *redact, check=15)
            assert "session" in done.err, typed
            assert OTHER not in done.out, typed
    assert not Path(bundle).exists()
    assert project.git("--git-dir", str(tmp_path / "hub.git"), "for-each-ref") == ""
    project.gitcp("rename", OTHER, "plain", check=0)
    with project.guard():
        assert (
            "branch"
            in project.gitcp("publish", "--branch", f"topic/{OTHER}", "--yes", check=15).err
        )
    project.gitcp(
        "publish",
        "--branch",
        f"topic/{OTHER}",
        "--yes",
        "--allow",
        fingerprint("npm-token", OTHER.encode()),
        check=0,
    )


def test_note(store: Store, project: Project) -> None:
    """What a checkpoint says of itself is looked through: objective, facts, and the branch that it
    was made on.
    """
    project.git("checkout", "--quiet", "--orphan", f"fix/{OTHER}")
    project.write("a", "1")
    project.gitcp(
        "save",
        "x",
        "--objective",
        f"use {TOKEN}",
        "--fact",
        f"key=v {KINDS['stripe-key']}",
        check=0,
    )

    listed = [
        json.loads(line)
        for line in project.gitcp("secrets", "--all", "--json", check=15).out.splitlines()
    ]

    assert {finding["rule"] for finding in listed} == {"github-token", "npm-token", "stripe-key"}


def test_encoded(project: Project, tmp_path: Path) -> None:
    """A token in a color or in base64 does not leave; redacted it is gone, and purged by its ID it
    is gone here.
    """
    forms = (
        f"\x1b[01;31m\x1b[K{TOKEN}\x1b[m",
        base64.b64encode(f"machine {TOKEN} ".encode()).decode(),
        f" {TOKEN[:9]}\x1b[m{TOKEN[9:]}",
    )
    for number, form in enumerate(forms):
        project.write(f"f{number}", f"key{form}\n" if number != 1 else f"auth: {form}\n")
    project.gitcp("save", "one", check=0)
    project.git("init", "--bare", "--quiet", str(tmp_path / "hub.git"))
    project.gitcp("remote", "hub", str(tmp_path / "hub.git"), check=0)

    assert project.gitcp("secrets", check=15).out.count(ID) == 3
    project.gitcp("push", check=15)
    project.gitcp("push", "--redact", check=0)
    tip = project.git(
        "--git-dir",
        str(tmp_path / "hub.git"),
        "for-each-ref",
        "--format=%(refname)",
        "refs/gitcp/shared/*/*",
    )
    for number, form in enumerate(forms):
        sent = project.git("--git-dir", str(tmp_path / "hub.git"), "show", f"{tip}:f{number}")
        assert "[REDACTED:github-token]" in sent
        assert form not in sent
    project.gitcp("purge", "--secret", ID, "--yes", check=0)
    assert "no secrets found" in project.gitcp("secrets", "--all", check=0).out
    for number in range(3):
        assert "[PURGED]" in project.gitcp("show", f"@:f{number}", check=0).out


def test_a_long_text_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the chunks of a long text end: found once or twice, in its line."""
    monkeypatch.setattr(checkpoint_scan, "WINDOW", 1 << 14)
    token = tokens()["github-token"].encode()
    for place in range(0, 60_000, 977):
        text = b"x\n" * (place // 2) + token + b"\n" + b"x\n" * 10_000
        for size in (333, 5000, 20_000):
            chunks = [text[at : at + size] for at in range(0, len(text), size)]
            found = set(checkpoint_scan.in_chunks(chunks, "conversation", b"main", Sieve()))
            assert found == set(checkpoint_scan.in_text(text, "conversation", b"main"))
