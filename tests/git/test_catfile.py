"""Objects that git reads for gitcp: all that are packed. Damage is said to be that, whatever
happens to git or to its packs, and no process stays behind.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any

import pytest
from kinds import FORMAT

import gitcp
from gitcp.errors import GitFailed, StoreDamaged
from gitcp.git import catfile, process
from gitcp.git.catfile import MOST_IDLE
from gitcp.git.gathering import MANY, Gathering, GatheringObjects
from gitcp.git.object_format import MOST_WHOLE
from gitcp.git.objects import Objects
from gitcp.git.packs import indexes
from gitcp.model import Oid

from driver import SOURCE, Project
from samples import open_store

SIZES = (0, 1, 1 << 20, MOST_WHOLE, MOST_WHOLE + 1, MOST_WHOLE + (3 << 20))


@pytest.fixture
def history(project: Project) -> Project:
    """A history of large, similar files and many names, packed by git with deltas."""
    rng = random.Random(1)
    lines = [rng.randbytes(30).hex() for _ in range(3000)]
    for number in range(25):
        lines[rng.randrange(3000)] = f"changed {number}"
        project.write("large.txt", "\n".join(lines))
        for name in range(60):
            project.write(f"dir{name % 5}/file{name}.txt", f"{name} {number // (1 + name % 9)}\n")
        project.commit(f"number {number}")
    project.write("empty", "")
    project.write("noise.bin", rng.randbytes(200_000))
    project.commit("with noise")
    project.git("tag", "-a", "-m", "a tag", "one")
    project.git("repack", "-adq", "--depth=50", "--window=50")
    return project


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes that are started from now on."""
    start, pids = process.start, []

    def listing_start(*args: Any, **given: Any) -> subprocess.Popen[bytes]:
        git = start(*args, **given)
        pids.append(git.pid)
        return git

    monkeypatch.setattr(process, "start", listing_start)
    return pids


def every_object(project: Project) -> dict[Oid, tuple[str, bytes]]:
    """What git says of every object it has."""
    listed = project.git(
        "cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)"
    ).split("\n")
    pairs = (line.split(" ") for line in listed)
    return {
        Oid(oid): (
            kind,
            subprocess.run(
                ["git", "cat-file", kind, oid], cwd=project.root, capture_output=True
            ).stdout,
        )
        for oid, kind in pairs
    }


def packed(project: Project) -> dict[Oid, bytes]:
    """Blobs of many sizes, all in one pack."""
    contents = [random.Random(size).randbytes(size) for size in SIZES]
    for number, data in enumerate(contents):
        project.write(f"blob{number}", data)
    project.commit()
    project.git("repack", "-adq")
    return {FORMAT.oid_of("blob", data): data for data in contents}


def problem_of(objects: Objects, oid: Oid, expected: tuple[str, bytes]) -> StoreDamaged | None:
    """The error of reading it, which names it; None if it comes back as it was."""
    try:
        actual = objects.reader.read(oid)
    except StoreDamaged as error:
        assert oid in str(error), error  # noqa: PT017
        assert error.objects == (oid,)  # noqa: PT017
        return error
    assert actual == expected
    return None


def few(project: Project) -> list[Oid]:
    """The blobs of ten small files, packed."""
    contents = [f"file {number}\n" * 9 for number in range(10)]
    for number, text in enumerate(contents):
        project.write(f"file{number}", text)
    project.commit()
    project.git("repack", "-adq")
    return [FORMAT.oid_of("blob", text.encode()) for text in contents]


def is_running(pid: int) -> bool:
    """Whether there is such a process, a zombie included."""
    return Path(f"/proc/{pid}").exists()


def files_of(pid: int | str) -> list[str]:
    """What the descriptors of a process are."""
    return [os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()]


def scripted(directory: Path, script: str) -> dict[str, str]:
    """An environment in which `git` is this shell script; $GIT is the real one."""
    real = subprocess.run(["sh", "-c", "command -v git"], capture_output=True).stdout.strip()
    directory.mkdir(exist_ok=True)
    path = directory / "git"
    path.write_text(f"#!/bin/sh\nGIT={os.fsdecode(real)}\n{script}\n")
    path.chmod(0o755)
    return {**os.environ, "PATH": f"{directory}{os.pathsep}{os.environ['PATH']}"}


# ---------------------------------------------------------------- what is read


def test_every_object_of_a_pack(history: Project, started: list[int]) -> None:
    """Byte for byte what `git cat-file` prints, whatever deltas lie between, by one process."""
    (index,) = indexes(history.git_dir / "objects", FORMAT)
    assert "chain length = 10" in history.git("verify-pack", "-v", str(index.pack))
    expected = every_object(history)
    assert {kind for kind, _ in expected.values()} == {"blob", "commit", "tag", "tree"}
    store = open_store(history)

    assert {oid: store.reader.read(oid) for oid in expected} == expected
    assert len(started) == 1


def test_whatever_size_it_has(project: Project, started: list[int]) -> None:
    """A packed blob comes back whole, and in chunks that are bounded."""
    expected, objects = packed(project), open_store(project).objects
    for oid, data in expected.items():
        chunks = list(objects.reader.stream_blob(oid))
        assert b"".join(chunks) == data
        assert max(map(len, chunks), default=0) <= MOST_WHOLE
        assert objects.reader.read(oid) == ("blob", data)
    assert len(started) == 1


@pytest.mark.parametrize("by_libgit2", [False, True])
def test_blobs_that_are_verified(project: Project, *, by_libgit2: bool) -> None:
    """Small ones come with their bytes, larger ones without, and what is missing, damaged or no
    blob with the error; those after it are read all the same.
    """
    expected, objects = packed(project), open_store(project).objects
    if by_libgit2:
        objects.repo.read_by_libgit2()
    missing, tree = Oid("1" * FORMAT.digits), FORMAT.empty_tree
    project.write("loose", "loose\n")
    loose = Oid(project.git("hash-object", "-w", "loose").strip())
    names = [missing, tree, *expected, loose]

    verified = dict(objects.reader.verify_blobs(names, 1 << 20))

    assert isinstance(verified.pop(missing), StoreDamaged)
    assert isinstance(verified.pop(tree), StoreDamaged)
    assert verified.pop(loose) == b"loose\n"
    assert verified == {
        oid: data if len(data) <= 1 << 20 else None for oid, data in expected.items()
    }

    (index,) = indexes(project.root / ".git/objects", FORMAT)
    index.pack.chmod(0o600)
    whole, half = index.pack.read_bytes(), index.pack.stat().st_size // 2  # in a large blob
    index.pack.write_bytes(whole[:half] + bytes([whole[half] ^ 1]) + whole[half + 1 :])
    objects = open_store(project).objects
    if by_libgit2:
        objects.repo.read_by_libgit2()
    again = dict(objects.reader.verify_blobs(expected, 1 << 20))
    assert [type(data) for data in again.values()].count(StoreDamaged) == 1
    for oid, data in again.items():
        assert isinstance(data, StoreDamaged) or data == verified[oid]


def test_git_holds_no_large_blob_in_memory(project: Project) -> None:
    """It passes through git in pieces, too."""
    size = 200 << 20
    with project.root.joinpath("large").open("wb") as file:
        file.truncate(size)
    project.git("add", "large")
    project.git("-c", "core.bigFileThreshold=1m", "repack", "-adq")
    project.git("-c", "core.bigFileThreshold=1m", "commit", "-qm", "large")
    project.git("-c", "core.bigFileThreshold=1m", "repack", "-adq")
    others = [*catfile._running]  # of tests before
    store = open_store(project)
    stream = store.reader.stream_blob(Oid(project.git("rev-parse", "HEAD:large")))
    seen = len(next(stream))
    (git,) = (each for each in catfile._running if each not in others)
    seen += sum(map(len, stream))

    assert seen == size
    status = Path(f"/proc/{git._process.pid}/status").read_text()
    peak = int(status.partition("VmHWM:")[2].split()[0])
    assert peak < 64 << 10


def test_what_is_not_there(project: Project) -> None:
    """A missing object, and one of another kind, are said to be that."""
    packed(project)
    repo, tree = open_store(project).repo, Oid(project.git("rev-parse", "HEAD^{tree}"))
    with pytest.raises(StoreDamaged, match="is missing"):
        repo.cat_file.read(Oid("1" * FORMAT.digits))
    with pytest.raises(StoreDamaged, match="is missing"):
        list(repo.cat_file.stream(Oid("1" * FORMAT.digits)))
    with pytest.raises(StoreDamaged, match="is a tree, not a blob"):
        list(repo.cat_file.stream(tree))
    assert repo.cat_file.read(tree)[0] == "tree"


def test_fresh_objects_need_no_git(project: Project, started: list[int]) -> None:
    """What is loose, and what is not there at all, is known without it."""
    objects = open_store(project).objects
    oid = objects.writer.write_blob(b"fresh")
    objects.writer.flush()
    assert objects.reader.read_blob(oid) == b"fresh"
    with pytest.raises(StoreDamaged, match="is missing"):
        objects.reader.read(Oid("1" * FORMAT.digits))
    assert started == []


def test_a_callers_git_variables(project: Project, tmp_path: Path) -> None:
    """Neither another repository that the environment names, nor a replacement is read."""
    oids = few(project)
    other = Project(tmp_path / "other")
    project.git("replace", oids[0], oids[1])
    elsewhere = str(other.git_dir)
    store = open_store(project)
    env = {
        **store.repo.host.env,
        "GIT_DIR": elsewhere,
        "GIT_OBJECT_DIRECTORY": f"{elsewhere}/objects",
        "GIT_WORK_TREE": str(other.root),
    }
    git = catfile.CatFile((), str(project.root), env, FORMAT)
    assert git.read(oids[0]) == ("blob", b"file 0\n" * 9)


def test_what_is_borrowed(project: Project, tmp_path: Path) -> None:
    """Packed objects of another repository are read by the same process."""
    oids = few(project)
    other = Project(tmp_path / "other")
    other.git_dir.joinpath("objects/info/alternates").write_text(f"{project.git_dir}/objects\n")
    objects = open_store(other).objects
    assert [objects.reader.read(oid)[0] for oid in oids] == ["blob"] * 10


# ---------------------------------------------------------------- damage


def test_a_damaged_pack_gives_nothing_wrong(history: Project) -> None:
    """Whatever byte is changed, an object is what its name says, or it is named as damaged."""
    (index,) = indexes(history.git_dir / "objects", FORMAT)
    expected = every_object(history)
    data = bytearray(index.pack.read_bytes())
    index.pack.chmod(0o644)
    rng, damaged = random.Random(2), 0
    for _ in range(20):
        place = rng.randrange(12, len(data) - 20)
        changed = data.copy()
        changed[place] ^= rng.randrange(1, 256)
        index.pack.write_bytes(changed)
        objects = open_store(history).objects
        for oid in rng.sample(sorted(expected), 30):
            problem = problem_of(objects, oid, expected[oid])
            damaged += problem is not None
    assert damaged


def test_a_pack_that_was_cut_off(history: Project) -> None:
    """The rest of its objects are damaged, each by name; another one can be read after each."""
    (index,) = indexes(history.git_dir / "objects", FORMAT)
    expected = every_object(history)
    data = index.pack.read_bytes()
    index.pack.chmod(0o644)
    for size in (0, 12, len(data) // 2):
        index.pack.write_bytes(data[:size])
        objects = open_store(history).objects
        loose = objects.writer.write_blob(b"loose")
        objects.writer.flush()
        for oid in random.Random(3).sample(sorted(expected), 20):
            problem_of(objects, oid, expected[oid])
            assert objects.reader.read_blob(loose) == b"loose"


def test_an_index_that_leads_out_of_itself(history: Project) -> None:
    """An index that says of every object that its place stands further on, where nothing is."""
    idx = next(history.git_dir.glob("objects/pack/*.idx"))
    data = bytearray(idx.read_bytes())
    count = int.from_bytes(data[8 + 1020 : 8 + 1024], "big")
    offsets = 8 + 1024 + (FORMAT.raw + 4) * count
    data[offsets : offsets + 4 * count] = b"\xff\xff\xff\xf0" * count
    idx.chmod(0o644)
    idx.write_bytes(data)
    (index,) = indexes(history.git_dir / "objects", FORMAT)
    objects = open_store(history).objects
    for name in list(index.names())[::20]:
        with pytest.raises(StoreDamaged, match=name.hex()):
            objects.reader.read(Oid(name.hex()))


def test_a_large_blob_that_is_damaged(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made of it is void: an error follows the last chunk, whichever byte was changed."""
    large = max(packed(project).items(), key=lambda pair: len(pair[1]))[0]
    [index] = project.git_dir.glob("objects/pack/*.idx")
    rows = [line.split() for line in project.git("verify-pack", "-v", str(index)).splitlines()]
    [(size, start)] = [(int(row[3]), int(row[4])) for row in rows if row[0] == large]
    pack = index.with_suffix(".pack")
    pack.chmod(0o644)
    whole = pack.read_bytes()
    monkeypatch.setattr(catfile, "STALL", 100)
    for place in (start + 1, start + size // 2, start + size - 1):
        pack.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        with pytest.raises(StoreDamaged, match=large):
            list(open_store(project).reader.stream_blob(large))


def test_a_damaged_loose_object_that_is_packed_too(project: Project) -> None:
    """The sound copy is read."""
    oids = few(project)
    path = project.git_dir / "objects" / oids[0][:2] / oids[0][2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"no object")
    assert open_store(project).reader.read_blob(oids[0]) == b"file 0\n" * 9


# ---------------------------------------------------------------- what happens to git


def test_git_is_killed_between_two_reads(project: Project, started: list[int]) -> None:
    """Another one goes on."""
    oids, objects = few(project), open_store(project).objects
    for oid in oids:
        assert objects.reader.read(oid)[0] == "blob"
        os.kill(started[-1], signal.SIGKILL)
    assert len(started) == len(oids)
    for oid in oids:
        os.kill(started[-1], signal.SIGTERM)
        assert b"".join(objects.reader.stream_blob(oid)).startswith(b"file")


def test_git_is_killed_at_every_object(project: Project, tmp_path: Path) -> None:
    """That says nothing about the object: it is no damage."""
    oids = few(project)
    greeting = 'read a && echo "$a tree 0" && echo && read b'
    for number, name in ((2, "INT"), (9, "KILL")):
        env = scripted(tmp_path / name, f"{greeting}; kill -{name} $$")
        with pytest.raises(GitFailed, match=f"ended .exit code -{number}. while it read"):
            catfile.CatFile((), str(project.root), env, FORMAT).read(oids[0])
    env = scripted(tmp_path / "cut", f'{greeting}; echo "$b blob 63"; echo file; kill -TERM $$')
    with pytest.raises(GitFailed, match="ended"):
        catfile.CatFile((), str(project.root), env, FORMAT).read(oids[0])
    with pytest.raises(GitFailed, match="ended"):
        list(catfile.CatFile((), str(project.root), env, FORMAT).stream(oids[0]))


def test_git_does_not_work_here(project: Project, tmp_path: Path) -> None:
    """What it says is said, and no object is called damaged for it."""
    oids = few(project)
    env = scripted(tmp_path / "bin", "echo 'fatal: dubious ownership' >&2; exit 128")
    with pytest.raises(GitFailed, match="exit code 128: fatal: dubious ownership"):
        catfile.CatFile((), str(project.root), env, FORMAT).read(oids[0])
    with pytest.raises(GitFailed, match="was not found"):
        catfile.CatFile((), str(project.root), {**os.environ, "PATH": str(tmp_path)}, FORMAT).read(
            oids[0]
        )
    before = len(files_of("self"))
    with pytest.raises(GitFailed):
        catfile.CatFile((), str(project.root), env, FORMAT).read(oids[0])
    assert len(files_of("self")) == before


def test_git_says_something_else(project: Project, tmp_path: Path) -> None:
    """An answer about another object, or none that git gives, is not believed."""
    oids = few(project)
    for answer in (f"{oids[1]} blob 63", "$b blob x", "$b commit", "$b ambiguous", "hello"):
        script = f'read a && echo "$a tree 0" && echo && read b; echo "{answer}"; cat'
        git = catfile.CatFile((), str(project.root), scripted(tmp_path / "bin", script), FORMAT)
        with pytest.raises(StoreDamaged, match=oids[0]):
            git.read(oids[0])


@pytest.mark.parametrize("size", [1, 62, 64, 6000, 10**15, 10**30])
def test_an_answer_of_another_length(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """It is damage, and nobody waits for what does not come."""
    oids = few(project)
    monkeypatch.setattr(catfile, "STALL", 100)
    answers = f'echo "$b blob {size}"; printf "file 0\\n%.0s" 1 2 3 4 5 6 7 8 9; echo; cat'
    script = f'read a && echo "$a tree 0" && echo && read b; {answers}'
    env = scripted(tmp_path / "bin", script)
    with pytest.raises(StoreDamaged, match=oids[0]):
        catfile.CatFile((), str(project.root), env, FORMAT).read(oids[0])
    with pytest.raises(StoreDamaged, match=oids[0]):
        list(catfile.CatFile((), str(project.root), env, FORMAT).stream(oids[0]))


def test_a_slow_answer(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[int]
) -> None:
    """It is waited for, however slow git starts, and if it stops in the middle."""
    oids = few(project)
    monkeypatch.setattr(catfile, "STALL", 10)
    env = scripted(tmp_path / "start", 'sleep 0.2; exec "$GIT" "$@"')
    git = catfile.CatFile((), str(project.root), env, FORMAT)
    assert [git.read(oid)[0] for oid in oids] == ["blob"] * 10
    assert len(started) == 1
    slow = '"$GIT" "$@" | (while read line; do echo "$line"; sleep 0.1; done)'
    git = catfile.CatFile((), str(project.root), scripted(tmp_path / "slow", slow), FORMAT)
    assert [git.read(oid)[0] for oid in oids[:3]] == ["blob"] * 3


def test_an_interrupt_in_the_middle(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of that answer is never taken for the next one."""
    oids, objects = few(project), open_store(project).objects
    objects.reader.read(oids[0])
    running = len(catfile._running)

    def interrupt(*_: object) -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(catfile._Git, "content", interrupt)
        with pytest.raises(KeyboardInterrupt):
            objects.reader.read(oids[1])
    assert objects.reader.read(oids[2]) == ("blob", b"file 2\n" * 9)
    assert len(catfile._running) == running


# ---------------------------------------------------------------- packs come and go


def test_git_puts_packs_together_meanwhile(project: Project, started: list[int]) -> None:
    """A process that has the old ones open finds every object, whether its pack is gone or new."""
    oids, store = few(project), open_store(project)
    assert store.reader.read(oids[0])[0] == "blob"
    project.write("more", "more\n")
    project.commit()
    more = Oid(project.git("rev-parse", "HEAD:more"))
    project.git("gc", "--quiet", "--prune=now")
    project.git("repack", "-adfq")

    assert store.reader.read(more) == ("blob", b"more\n")
    assert [store.reader.read(oid)[0] for oid in oids] == ["blob"] * 10
    assert len(started) == 1


def test_a_pack_that_is_gone(project: Project) -> None:
    """A process that has it open still reads it; for a new one its objects are missing, and said to
    be that. Brought back, they are read.
    """
    oids, store = few(project), open_store(project)
    assert store.reader.read(oids[0])[0] == "blob"
    directory = project.git_dir / "objects/pack"
    directory.rename(directory.with_name("away"))
    directory.mkdir()
    assert store.reader.read(oids[1])[0] == "blob"
    store.repo.close()
    for objects in (store.objects, open_store(project).objects):
        with pytest.raises(StoreDamaged, match=f"{oids[1]} is missing"):
            objects.reader.read(oids[1])
    directory.rmdir()
    directory.with_name("away").rename(directory)
    assert store.reader.read(oids[1])[0] == "blob"


def test_an_older_process_is_not_believed(project: Project, started: list[int]) -> None:
    """What it calls missing is asked of a new one: the repository may be another one by now."""
    oids, store = few(project), open_store(project)
    assert store.repo.cat_file.read(oids[0])[0] == "blob"
    moved = project.root.with_name("moved")
    project.root.rename(moved)
    project.root.mkdir()
    project.git("init", "-q")
    project.write("new", "new\n")
    project.commit()
    project.git("repack", "-adq")
    oid = Oid(project.git("rev-parse", "HEAD:new"))
    assert store.repo.cat_file.read(oid) == ("blob", b"new\n")
    assert len(started) == 2


@pytest.mark.parametrize("name", ["commondir", "HEAD"])
def test_where_git_refuses_to_work(project: Project, tmp_path: Path, name: str) -> None:
    """Packed objects are read where a crash left a file of git's broken, also if the settings are
    known and git was not asked before: nothing could be saved in such a linked working tree.
    """
    oids = few(project)
    project.git("worktree", "add", "-q", str(tmp_path / "side"))
    side = Project(tmp_path / "side")
    store, program = open_store(side), gitcp.open(side.root)
    assert store.repo.config
    assert program.repository().cat_file.read(oids[0])
    project.git_dir.joinpath("worktrees/side", name).write_bytes(bytes(100))

    assert store.reader.read(oids[0])[0] == "blob"
    assert name in store.repo.faults[0].what
    assert b"".join(open_store(side).reader.stream_blob(oids[1])) == b"file 1\n" * 9
    program.close()
    assert program.repository().read_by_git(lambda git: git.read(oids[2]))[0] == "blob"


def test_packs_that_were_joined_are_let_go(project: Project) -> None:
    """A program that saves all day does not hold the packs that it has put together: at the first
    write after that they are let go.
    """
    objects = GatheringObjects(open_store(project).repo, Gathering())

    def write(number: int) -> None:
        oid = objects.writer.write_blob(b"%d" % number)
        objects.writer.flush()
        objects.writer.release()
        assert objects.reader.read_blob(oid) == b"%d" % number

    for start in range(0, 3 * MANY, MANY):
        for number in range(start, start + MANY):
            write(number)
        objects.gathering.wait()
        write(-1 - start)
        maps = [Path(f"/proc/{git._process.pid}/maps").read_text() for git in catfile._running]
        assert maps
        assert not any(
            "(deleted)" in line and ".pack" in line for line in "".join(maps).split("\n")
        )


# ---------------------------------------------------------------- partial clones


def test_nothing_is_fetched_by_looking(project: Project, tmp_path: Path) -> None:
    """What a remote has promised is missing, although it could be had."""
    oids = few(project)
    project.git("config", "uploadpack.allowFilter", "true")
    project.git("config", "uploadpack.allowAnySHA1InWant", "true")
    clone = Project(tmp_path / "clone")
    clone.git("remote", "add", "origin", project.root.as_uri())
    clone.git("fetch", "--quiet", "--filter=blob:none", "origin", "main")
    objects = open_store(clone).objects
    commit = Oid(clone.git("rev-parse", "FETCH_HEAD"))
    for _ in range(2):
        assert objects.reader.read(commit)[0] == "commit"
        with pytest.raises(StoreDamaged, match="is missing"):
            objects.reader.read(oids[0])
        with pytest.raises(StoreDamaged, match="is missing"):
            list(objects.reader.stream_blob(oids[0]))
    listed = clone.git("rev-list", "--objects", "--missing=print", commit).splitlines()
    assert f"?{oids[0]}" in listed


# ---------------------------------------------------------------- lifetime


def test_it_ends_with_the_store(project: Project, started: list[int]) -> None:
    """No process and no descriptor is left by a store that is gone, closed, or failed to read."""
    oids = few(project)
    gc.collect()
    before = files_of("self")
    for number in range(9):
        store = open_store(project)
        store.reader.read(oids[number])
        if number % 3 == 1:
            store.repo.close()
        if number % 3 == 2:
            next(store.reader.stream_blob(oids[0]))
            with pytest.raises(StoreDamaged):
                store.repo.cat_file.read(Oid("1" * FORMAT.digits))
        del store
        gc.collect()
        assert not any(map(is_running, started))
    assert len(files_of("self")) == len(before)


def test_closed_and_used_again(project: Project, started: list[int]) -> None:
    """A closed store is no broken one."""
    oids, store = few(project), open_store(project)
    for oid in oids[:3]:
        assert store.reader.read(oid)[0] == "blob"
        store.repo.close()
        store.repo.close()
    assert len(started) == 3


def test_a_stream_that_is_left(project: Project, started: list[int]) -> None:
    """Others are read while one is streamed, and after it was left in the middle."""
    expected, objects = packed(project), open_store(project).objects
    large = max(expected, key=lambda oid: len(expected[oid]))
    streams: list[Iterator[bytes]] = []
    for oid in expected:
        streams.append(objects.reader.stream_blob(large))
        next(streams[-1])
        assert objects.reader.read_blob(oid) == expected[oid]
    streams.clear()
    gc.collect()
    assert [objects.reader.read_blob(oid) for oid in expected] == list(expected.values())
    assert sum(map(is_running, started)) <= MOST_IDLE


def test_threads(history: Project, started: list[int]) -> None:
    """Each gets what it asked for; few processes wait afterwards."""
    expected, git = every_object(history), open_store(history).repo.cat_file
    wrong: list[object] = []

    def read(seed: int) -> None:
        order = random.Random(seed).sample(sorted(expected), len(expected))
        wrong.extend(oid for oid in order if git.read(oid) != expected[oid])

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(MOST_IDLE + 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert sum(map(is_running, started)) <= MOST_IDLE


def test_a_forked_child(project: Project, started: list[int]) -> None:
    """It reads by a process of its own, and its end does not touch the parent's."""
    oids, store = few(project), open_store(project)
    store.reader.read(oids[0])
    stream = store.reader.stream_blob(oids[1])
    child = os.fork()
    if child == 0:
        code = 1
        try:
            assert b"".join(stream) == b"file 1\n" * 9
            assert store.reader.read(oids[2]) == ("blob", b"file 2\n" * 9)
            code = len(started)
            store.repo.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert store.reader.read(oids[3]) == ("blob", b"file 3\n" * 9)
    assert len(started) == 1

    reading, writing = os.pipe()
    idle = os.fork()
    if idle == 0:  # it lives on, and never reads
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.close(reading)
    store.repo.cat_file._idle[0]._requests.close()  # as if the parent had been killed
    store.repo.cat_file._idle[0]._requests = FileIO(os.devnull, "w")
    assert os.waitpid(started[0], 0)[0] == started[0]
    os.close(writing)
    os.waitpid(idle, 0)


def test_descriptors_of_the_program(project: Project, started: list[int]) -> None:
    """git holds none of them, also not one that other children are to get."""
    oids, store = few(project), open_store(project)
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    assert store.reader.read(oids[0])[0] == "blob"
    os.close(writing)
    assert os.read(reading, 1) == b""
    os.close(reading)
    assert sorted(map(int, os.listdir(f"/proc/{started[0]}/fd")))[:3] == [0, 1, 2]


def test_a_program_that_waits_for_all_children(project: Project, started: list[int]) -> None:
    """Where somebody else has waited for it, reading goes on."""
    oids, store = few(project), open_store(project)
    for oid in oids[:3]:
        assert store.reader.read(oid)[0] == "blob"
        os.kill(started[-1], signal.SIGKILL)
        assert os.wait()[0] == started[-1]
    store.repo.close()


PROGRAM = """
import gitcp, sys
from gitcp.git import catfile
checkpoints = gitcp.open(".")
store = checkpoints.store()
store.repo.libgit = None
store.objects.reader.read(sys.argv[1])
print(*[git._process.pid for git in catfile._running])
"""


def test_it_ends_with_the_program(project: Project, tmp_path: Path) -> None:
    """Neither a program nor a command leaves a process behind, not even for an instant."""
    oids = few(project)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, oids[0]],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        check=True,
    )
    assert done.stderr == b""
    (pid,) = map(int, done.stdout.split())
    assert not is_running(pid)

    project.gitcp("save", "one", check=0)
    project.git("repack", "-adq")
    env = scripted(tmp_path / "bin", f'echo $$ >> {tmp_path}/pids; exec "$GIT" "$@"')
    for command in (("show",), ("log",), ("show", "nothing"), ("check",)):
        project.gitcp(*command, env=env)
    pids = tmp_path.joinpath("pids").read_text().split()
    assert pids
    assert not any(is_running(int(pid)) for pid in pids)


def test_a_program_shares_one(project: Project, started: list[int]) -> None:
    """Whatever it calls, and for how many sessions, it is one process, until it is closed."""
    few(project)
    checkpoints = gitcp.open(project.root)
    checkpoints.save("one", session="s")
    project.git("repack", "-adq")
    for _ in range(3):
        checkpoints.show("s@1")
        checkpoints.log(session="s")
        assert checkpoints.session("s").last is not None
    assert len(started) <= 2  # a session is an object of its own
    checkpoints.close()
    checkpoints.show("s@1")
    del checkpoints
    gc.collect()
    assert not any(map(is_running, started))


BROKEN = "class GitError(Exception): pass\n\nraise GitError('failed to load certificates')\n"


def test_no_library_is_needed(project: Project, tmp_path: Path) -> None:
    """Every command works where no Git library can be imported, and where there are no
    certificates.
    """
    away = tmp_path / "broken"
    for name in ("pygit2", "_pygit2", "certifi"):
        away.joinpath(name).mkdir(parents=True)
        away.joinpath(name, "__init__.py").write_text(BROKEN)
    nowhere = str(tmp_path / "nowhere")
    env = {"PYTHONPATH": f"{away}{os.pathsep}{Path(__file__).parents[2]}"}
    env |= {"SSL_CERT_FILE": nowhere, "SSL_CERT_DIR": nowhere, "GITCP_SESSION": "main"}
    large = random.Random(4).randbytes(MOST_WHOLE + (1 << 20))
    project.write("large", large)
    project.write("small", "one\n")
    project.git("init", "--quiet", "--bare", f"{tmp_path}/hub.git")
    project.git("remote", "add", "hub", f"file://{tmp_path}/hub.git")
    project.gitcp("remote", "hub", env=env, check=0)
    with project.guard():
        project.gitcp("save", "one", env=env, check=0)
        project.git("repack", "-adqn")
        project.write("large", "wrecked\n")
        for command in (
            ("save", "two"),
            ("log",),
            ("list",),
            ("show", "1"),
            ("diff", "1", "2"),
            ("find", "small"),
            ("status",),
            ("sessions",),
            ("stats",),
            ("why", "small"),
            ("check",),
            ("export", f"--output={tmp_path}/one.bundle"),
            ("push", "hub"),
            ("tag", "first", "1"),
            ("fork", "1", "--name", "branch"),
            ("restore", "1", "--yes"),
            ("undo", "--yes"),
            ("redo", "--yes"),
            ("prune", "--keep-last", "1", "--yes"),
            ("doctor",),
            ("delete", "branch", "--yes"),
        ):
            said = project.gitcp(*command, env=env)
            assert "internal error" not in said.err, (command, said)
            assert said.code == 0, (command, said)
    assert project.root.joinpath("large").read_bytes() == large
