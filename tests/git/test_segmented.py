"""Files that are only appended to are stored by what is new, and come back byte for byte."""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
import time
from pathlib import Path

import programs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gitcp
from gitcp.git import segmented
from gitcp.model import Checkpoint
from gitcp.worktree import blobs

from driver import Project

NAME = "out.bin"
RECORD = b"%015d\n"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of 1000 bytes, for files of more than 2000."""
    monkeypatch.setattr(segmented, "SEGMENT", 1000)
    monkeypatch.setattr(blobs, "SEGMENT_ABOVE", 2000)


@pytest.fixture
def session(project: Project) -> gitcp.Session:
    """A session of a project where untracked files of over 1000 bytes are left out."""
    project.write("a.txt", "one\n")
    project.commit()
    project.git("config", "gitcp.maxFileSize", "1000")
    return gitcp.open(project.root).session("work")


def grow(project: Project, start: int, end: int, name: str = NAME) -> None:
    """Append these records."""
    with (project.root / name).open("ab") as out:
        out.write(b"".join(RECORD % number for number in range(start, end)))


def content(project: Project, revision: str, name: str = NAME) -> bytes:
    """The bytes of a file in a checkpoint."""
    found = gitcp.open(project.root).file(revision, name)
    assert isinstance(found, bytes)
    return found


def by_plain_git(project: Project, revision: str, name: str = NAME) -> bytes:
    """The same, as docs/format.md says."""
    command = (
        f"git ls-tree -r {revision}:.gitcp/outputs/{name} | "
        "while read mode type oid path; do git cat-file blob $oid; done"
    )
    return subprocess.run(
        ["sh", "-c", command], cwd=project.root, check=True, capture_output=True
    ).stdout


def test_grows(session: gitcp.Session, project: Project) -> None:
    """Each save has the file as it was; what was stored stays, so that it costs what is new."""
    ids, wanted = list[tuple[Checkpoint, int]](), list[bytes]()
    for end in (100, 130, 131, 500, 1000):
        grow(project, ids[-1][1] if ids else 0, end)
        with project.guard():
            saved = session.save(position={"record": end}, appends=NAME)
        ids.append((saved.checkpoint, end))
        wanted.append(project.read(NAME))

    for (checkpoint, _), data in zip(ids, wanted, strict=True):
        assert content(project, str(checkpoint.id)) == data
        segmented_since = len(data) > 2000
        assert checkpoint.snapshot.outputs == (NAME.encode(),)
        assert [each.segments for each in checkpoint.snapshot.converted] == [True] * segmented_since
    ref = "refs/gitcp/sessions/work"
    assert by_plain_git(project, ref) == wanted[-1]
    assert project.git("show", f"{ref}:{NAME}").startswith(
        "gitcp segments 1\nsize 16000\nsegment 1000\ntree "
    )
    trees = [
        set(project.git("ls-tree", "-r", f"{each.commit}:.gitcp/outputs/{NAME}").splitlines())
        for each, _ in ids[2:]
    ]
    assert len(trees[0] - trees[1]) == 1  # the last one, which was not full
    assert gitcp.open(project.root).check().ok
    assert project.git("fsck", "--strict", "--no-dangling") == ""


def test_formats(session: gitcp.Session, project: Project) -> None:
    """Only a checkpoint with segments has format 2; a reader of format 1 refuses it."""
    grow(project, 0, 100)
    session.save(position={"record": 100}, appends=NAME)
    grow(project, 100, 200)
    session.save(position={"record": 200})
    shown = [
        project.git("show", f"refs/gitcp/sessions/work{back}:.gitcp/checkpoint.json")
        for back in ("~1", "")
    ]
    assert [each.splitlines()[1] for each in shown] == ['  "format": 1,', '  "format": 2,']
    assert "Gitcp-Format: 2" in project.git("log", "-1", "refs/gitcp/sessions/work")


def test_only_the_end_is_read(
    session: gitcp.Session, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A save reads the first segment, the last one and what is new, not the whole file."""
    grow(project, 0, 10_000)
    session.save(position={"record": 1}, appends=NAME)
    time.sleep(0.05)  # its stamps must be settled
    read, plain = [0], os.pread

    def counting(descriptor: int, size: int, start: int) -> bytes:
        data = plain(descriptor, size, start)
        read[0] += len(data) if size in range(1, 1001) else 0
        return data

    monkeypatch.setattr(os, "pread", counting)
    grow(project, 10_000, 10_010)
    session.save(position={"record": 2})
    assert 0 < read[0] < 5000
    assert content(project, "work") == project.read(NAME)


@pytest.mark.parametrize("times", [1, 99])
def test_cut_short(
    times: int, session: gitcp.Session, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read that returns less than was asked for is tried again; if that goes on, the file is left
    out, and the position is not saved without it. Never is a part stored as the whole.
    """
    grow(project, 0, 500)
    left, plain = [times], os.pread

    def short(descriptor: int, size: int, start: int) -> bytes:
        data = plain(descriptor, size, start)
        is_short = size == 1000 and start == 3000 and left[0] > 0
        left[0] -= is_short
        return data[:-10] if is_short else data

    monkeypatch.setattr(os, "pread", short)
    if times == 1:
        session.save(position={"record": 500}, appends=NAME)
        assert content(project, "work") == project.read(NAME)
        return
    with pytest.raises(gitcp.GitcpError, match="cannot be saved"):
        session.save(position={"record": 500}, appends=NAME)
    assert session.last is None


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("append", "append", "append", "shorten", "rewrite", "replace", "restore")),
        st.integers(1, 4000),
    ),
    max_size=8,
)


def change(kind: str, size: int, path: Path, chance: random.Random) -> None:
    """Change a file in one of the ways that a program has."""
    if kind == "append":
        with path.open("ab") as file:
            file.write(chance.randbytes(size))
    elif kind == "shorten":
        os.truncate(path, min(size, path.stat().st_size))
    elif kind == "rewrite":  # in place, so that its inode stays
        with path.open("wb") as file:
            file.write(chance.randbytes(size * 2))
    elif kind == "replace":
        other = path.with_name("other")
        other.write_bytes(chance.randbytes(size * 2))
        other.replace(path)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(STEPS)
def test_whatever_happens(tmp_path: Path, sealed: Path, steps: list[tuple[str, int]]) -> None:
    """However a file is appended to, cut, rewritten or restored, each checkpoint has its bytes."""
    project = Project(Path(tempfile.mkdtemp(dir=tmp_path)))
    chance, path, saved = (
        random.Random(repr(steps)),
        (project.root / NAME),
        list[tuple[str, bytes]](),
    )
    opened = gitcp.open(project.root)
    path.write_bytes(b"begin\n")
    for kind, size in steps:
        if kind == "restore" and saved:
            id, data = chance.choice(saved)
            opened.restore(id)
            assert path.read_bytes() == data
        change(kind, size, path, chance)
        made = opened.session("work").save(appends=NAME, force=True).checkpoint
        saved.append((str(made.id), path.read_bytes()))
    for id, data in saved:
        assert content(project, id) == data
    assert opened.check().ok


def test_rewritten_before_its_stored_end(session: gitcp.Session, project: Project) -> None:
    """A file that was cut and is longer again, and one with another start, are read as a whole."""
    grow(project, 0, 1000)
    session.save(position={"record": 1}, appends=NAME)
    for is_end in (False, True):
        data = bytearray(project.read(NAME))
        start = (len(data) - 10) * is_end
        data[start : start + 5] = b"other"
        with (project.root / NAME).open("r+b") as file:
            file.write(data)
        grow(project, 0, 100)
        session.save(position={"record": 1})
        assert content(project, "work") == project.read(NAME)


def test_resume_and_undo(session: gitcp.Session, project: Project) -> None:
    """A resume cuts the file back to its position, an undo brings the rest back, and a program
    goes on from either.
    """
    assert session.resume(appends=NAME) is None
    grow(project, 0, 500)
    session.save(position={"record": 500}, appends=NAME)
    at_position = project.read(NAME)
    grow(project, 500, 777)
    whole = project.read(NAME)
    with project.guard():
        report = session.resume(appends=[NAME])
    assert report is not None
    assert not report.failed
    assert project.read(NAME) == at_position
    gitcp.open(project.root).undo()
    assert project.read(NAME) == whole
    session.resume()
    grow(project, 500, 600)
    session.save(position={"record": 600}, appends=NAME)
    assert content(project, "work") == project.read(NAME) == whole[: 600 * 16]
    target = project.root.parent / "elsewhere"
    project.gitcp("restore", "work", "--to", str(target), check=0)
    assert target.joinpath(NAME).read_bytes() == whole[: 600 * 16]


BATCH = """
    from gitcp.git import segmented
    from gitcp.worktree import blobs
    segmented.SEGMENT, blobs.SEGMENT_ABOVE = 1000, 2000
    session = checkpoints.session("batch")
    session.resume(appends="out.txt")
    start, end, stop = int(session.position.get("record", 0)), 4000, int(sys.argv[1])
    with open("out.txt", "ab", buffering=0) as out:
        for record in range(start, end):
            if record == stop:
                out.write(b"par")
                os.kill(os.getpid(), signal.SIGKILL)
            out.write(b"%d\\n" % record)
            if record % 200 == 199:
                session.save(position={"record": record + 1}, appends="out.txt")
"""


def test_killed(session: gitcp.Session, project: Project) -> None:
    """A batch that is killed in the middle of a record and started again has each record once."""
    for stop in (0, 450, 451, 1999, 2000, 3333, 3999):
        programs.run(project, BATCH, str(stop), code=-9)
    programs.run(project, BATCH, "-1")

    assert project.read("out.txt") == b"".join(b"%d\n" % record for record in range(4000))
    assert by_plain_git(project, "refs/gitcp/sessions/batch", "out.txt") == project.read("out.txt")
    assert gitcp.open(project.root).check().ok


def test_elsewhere(session: gitcp.Session, project: Project, tmp_path: Path) -> None:
    """Pushed, and fetched by another repository, it is restored there."""
    grow(project, 0, 500)
    session.save(position={"record": 500}, appends=NAME)
    project.git("init", "--quiet", "--bare", str(tmp_path / "hub.git"))
    project.git("remote", "add", "hub", str(tmp_path / "hub.git"))
    project.gitcp("remote", "hub", check=0)
    project.gitcp("push", check=0)
    other = Project(tmp_path / "other")
    other.git("remote", "add", "hub", str(tmp_path / "hub.git"))
    other.gitcp("remote", "hub", check=0)
    other.gitcp("fetch", check=0)
    other.gitcp("restore", "hub/work", "--yes", "--trust", check=0)
    assert other.read(NAME) == project.read(NAME)
    assert gitcp.open(other.root).check().ok


LARGE = 3 << 17
GROW = "import sys; open('out.bin', 'ab').write(bytes(range(256)) * (int(sys.argv[1]) // 256))"


def stored(project: Project, revision: str) -> set[str]:
    """The segments of the file in a checkpoint."""
    return {*project.git("ls-tree", "-r", f"{revision}:.gitcp/outputs/{NAME}").splitlines()}


def test_from_the_shell(project: Project) -> None:
    """`--appends` of `save` and `run` stores the tail of a file, whatever its size, ignored or not;
    what is outside of the working tree, and no file, is refused.
    """
    project.write(".gitignore", "out.bin\n")
    project.git("config", "gitcp.maxFileSize", "1000")
    grown = ("python3", "-c", GROW, str(LARGE))
    words = ("--session", "s", "--appends", NAME)
    project.gitcp("run", "first", *words, "--", *grown, check=0)
    first = project.read(NAME)
    assert len(first) == LARGE
    subprocess.run(grown, cwd=project.root, check=True)
    with project.guard():
        project.gitcp("save", *words, check=0)
    project.gitcp("run", "last", "--session", "s", "--", *grown, check=0)

    session, whole = "refs/gitcp/sessions/s", project.read(NAME)
    assert len(whole) == 3 * LARGE
    assert by_plain_git(project, session) == whole
    assert by_plain_git(project, f"{session}~2") == whole[: 2 * LARGE]
    assert len(stored(project, f"{session}~2") - stored(project, session)) <= 1
    project.gitcp("restore", "s@2", "--yes", check=0)
    assert project.read(NAME) == first
    assert gitcp.open(project.root).check().ok
    with project.guard():
        assert "not a file" in project.gitcp("save", "--appends", ".git", check=2).err
        assert project.gitcp("save", "--appends", "../x", check=2).err.startswith("error: ")


@pytest.mark.parametrize("kind", ["bundle", "publish"])
def test_exported_and_published(
    kind: str, session: gitcp.Session, project: Project, tmp_path: Path
) -> None:
    """A bundle that is imported elsewhere, and a branch that is published, have the whole file, of
    each checkpoint.
    """
    grow(project, 0, 500)
    session.save(position={"record": 500}, appends=NAME)
    first = project.read(NAME)
    grow(project, 500, 1500)
    session.save(position={"record": 1500})
    if kind == "publish":
        project.gitcp("publish", "work", "--branch", "story", "--yes", check=0)
        command = ("git", "cat-file", "blob", f"story:{NAME}")
        done = subprocess.run(command, cwd=project.root, check=True, capture_output=True)
        assert done.stdout == project.read(NAME)
        return
    bundle = str(tmp_path / "work.bundle")
    project.gitcp("export", "work", "-o", bundle, check=0)
    other = Project(tmp_path / "other")
    other.gitcp("import", bundle, check=0)
    for number, data in ((1, first), (2, project.read(NAME))):
        other.gitcp("restore", f"imported/work@{number}", "--yes", "--trust", check=0)
        assert other.read(NAME) == data
    assert gitcp.open(other.root).check().ok


def test_forged(session: gitcp.Session, project: Project, tmp_path: Path) -> None:
    """A checkpoint whose segments are not in its tree is damaged, and is not fetched."""
    grow(project, 0, 500)
    session.save(position={"record": 500}, appends=NAME)
    ref = "refs/gitcp/sessions/work"
    reserved = project.git("ls-tree", f"{ref}:.gitcp").splitlines()
    others = "\n".join(line for line in reserved if not line.endswith("\toutputs"))
    holder = project.git("mktree", input=others.encode() + b"\n")
    root = project.git("ls-tree", ref).splitlines()
    files = [line for line in root if not line.endswith("\t.gitcp")]
    tree = project.git(
        "mktree", input="\n".join([*files, f"040000 tree {holder}\t.gitcp\n"]).encode()
    )
    old = project.git("rev-parse", f"{ref}^{{tree}}")
    commit = project.git("cat-file", "commit", ref).replace(old, tree) + "\n"
    forged = project.git("hash-object", "-t", "commit", "-w", "--stdin", input=commit.encode())
    project.git("update-ref", ref, forged)
    checked = project.gitcp("check")
    assert checked.code != 0
    assert f"lacks the segments of {NAME}" in checked.out + checked.err

    other = Project(tmp_path / "other")
    other.git("remote", "add", "hub", str(project.root))
    other.gitcp("remote", "hub", check=0)
    refused = other.gitcp("fetch")
    assert f"work@1 lacks the segments of {NAME}; rejected" in refused.err


def test_purged_and_scanned(session: gitcp.Session, project: Project) -> None:
    """A secret in a segment, or across two of them, is found before it leaves, and is purged."""
    secret = "ghp_" + "a1B2c3D4" * 4 + "e5F6"
    grow(project, 0, 62)
    with (project.root / NAME).open("a") as out:
        out.write(f"{secret}\n")  # from byte 992 on
    grow(project, 62, 500)
    session.save(position={"record": 500}, appends=NAME)
    session.save(force=True, facts={"a": "segments"})
    project.git("init", "--quiet", "--bare", str(project.root.parent / "hub.git"))
    project.git("remote", "add", "hub", str(project.root.parent / "hub.git"))
    project.gitcp("remote", "hub", check=0)
    refused = project.gitcp("push")
    assert refused.code != 0
    assert f"file .gitcp/outputs/{NAME}" in refused.err + refused.out
    before = project.read(NAME)

    project.gitcp("purge", "--text", secret, "--yes", check=0)
    project.gitcp("purge", "--text", "gitcp segments", "--yes")
    assert content(project, "work").count(b"ghp_") == 0
    assert len(content(project, "work").splitlines()) == len(before.splitlines())
    assert project.git("fsck", "--strict", "--no-dangling") == ""
    assert gitcp.open(project.root).check().ok
    project.gitcp("push", check=0)
    session.save(position={"record": 500})
    assert content(project, "work") == before
    project.gitcp("purge", "--path", NAME, "--yes", check=0)
    assert project.git("ls-tree", "refs/gitcp/sessions/work:.gitcp").count("outputs") == 0
    assert gitcp.open(project.root).check().ok


def test_looked_at(session: gitcp.Session, project: Project) -> None:
    """Lines are found in it, its pointer is not; who added a line is not known; a revert does not
    merge it.
    """
    grow(project, 0, 500)
    first = session.save(position={"record": 500}, appends=NAME).checkpoint
    grow(project, 500, 600)
    second = session.save(position={"record": 600}).checkpoint
    grow(project, 600, 700)
    third = session.save(position={"record": 700}).checkpoint
    time.sleep(0.05)  # its stamps must be settled: the commands below have other segments
    assert not gitcp.open(project.root).session("work").save().saved

    found = project.gitcp("find", "000000000000555", check=0).out
    assert NAME in found
    assert str(second.id) in found
    assert "segments" not in project.gitcp("find", "gitcp segments").out
    largest = project.json("stats")["largest"][0]
    assert (largest["path"], largest["versions"]) == (NAME, 3)
    assert largest["bytes"] > 1000
    shown = project.gitcp("show", "work", check=0).out
    assert f"Stored as segments (1)\n  {NAME}\n" in shown
    assert "Converted" not in shown
    assert "appends to: who added its lines" in project.gitcp("why", f"{NAME}:3").err
    reverted = project.gitcp("revert", str(second.id), "--yes")
    assert NAME in reverted.out + reverted.err
    assert project.read(NAME) == content(project, str(third.id))
    project.gitcp("revert", f"{first.id}..{third.id}", "--yes", check=0)
    assert project.read(NAME) == content(project, str(first.id))
