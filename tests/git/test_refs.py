"""Refs: compare-and-swap that loses nothing, beside git's own commands, and after crashes."""

from __future__ import annotations

import errno
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinds import FORMAT, oid

from gitcp.errors import BadValue, DiskFull, GitcpError, Refused, StoreBusy, StoreDamaged
from gitcp.git import locks, refs
from gitcp.git.refs import FileRefs, Update
from gitcp.model import Oid

from driver import Project
from samples import open_store, save

A, B, C = (Oid(oid(digit)) for digit in "abc")
NAME, OTHER = (refs.SESSIONS + name for name in ("alpha", "other"))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """With refs in files: those in reftable git moves alone."""
    monkeypatch.setenv("GIT_DEFAULT_REF_FORMAT", "files")
    return Project(tmp_path / "project")


@pytest.fixture
def common(project: Project) -> Path:
    return project.git_dir


# ---------------------------------------------------------------- one at a time


def test_compare_and_swap(project: Project, common: Path) -> None:
    """A ref moves only from what it is believed to be; git sees what was written."""
    assert refs.read_ref(common, NAME) is None
    assert not refs.update_ref(common, NAME, A, B)
    assert refs.update_ref(common, NAME, A, None)
    assert not refs.update_ref(common, NAME, B, None)
    assert not refs.update_ref(common, NAME, B, C)
    assert refs.read_ref(common, NAME) == A
    assert refs.update_ref(common, NAME, B, A)

    assert refs.read_ref(common, NAME) == B
    assert common.joinpath(NAME).read_bytes() == b"b" * FORMAT.digits + b"\n"
    assert not list(common.rglob("*.lock"))


def test_git_and_gitcp_see_the_same(project: Project, common: Path) -> None:
    """What git writes is read, loose or packed, and what is written is git's, loose over packed."""
    project.commit()
    head = Oid(project.git("rev-parse", "HEAD"))
    other = Oid(project.git("commit-tree", "-m", "x", "HEAD^{tree}"))
    project.git("update-ref", NAME, head)
    for pack in (False, True):
        if pack:
            project.git("pack-refs", "--all", "--prune")
            assert not common.joinpath(NAME).exists()
        assert refs.read_ref(common, NAME) == head
        assert not refs.update_ref(common, NAME, other, None)
        assert refs.update_ref(common, NAME, other, head)
        assert project.git("rev-parse", NAME) == other
        assert refs.update_ref(common, NAME, head, other)
    assert refs.list_refs(common, refs.PREFIX) == {NAME: head}


def test_listing(project: Project, common: Path) -> None:
    """Every ref below a prefix, loose or packed, in order, each with its newest value, and no lock
    files.
    """
    project.commit()
    head = Oid(project.git("rev-parse", "HEAD"))
    other = Oid(project.git("commit-tree", "-m", "x", "HEAD^{tree}"))
    names = [
        refs.SESSIONS + "b",
        refs.SESSIONS + "a",
        refs.TAGS + "v1",
        refs.PREFIX + "remotes/o/sessions/a",
    ]
    for name in names[:3]:
        project.git("update-ref", name, head)
    project.git("pack-refs", "--all")
    for name in names[2:]:
        project.git("update-ref", name, other)
    common.joinpath(refs.SESSIONS).mkdir(parents=True, exist_ok=True)
    common.joinpath(refs.SESSIONS, "c.lock").touch()

    assert list(refs.list_refs(common, refs.PREFIX).items()) == [
        (names[3], other),
        (names[1], head),
        (names[0], head),
        (names[2], other),
    ]
    assert refs.list_refs(common, refs.TAGS) == {names[2]: other}
    assert refs.list_refs(common, refs.PREFIX + "nothing/") == {}


def test_odd_lines_of_packed_refs(project: Project, common: Path) -> None:
    """A branch may be named so that a text reader would see two lines, or no text at all."""
    project.commit()
    head = project.git("rev-parse", "HEAD")
    for odd in ("x\u2028refs", "x\u0085y", b"x\xffy"):
        name = b"refs/heads/" + (odd if isinstance(odd, bytes) else odd.encode())
        project.git("update-ref", name, head)
    project.git("update-ref", NAME, head)
    project.git("pack-refs", "--all")

    assert refs.list_refs(common, refs.PREFIX) == {NAME: head}
    assert refs.read_ref(common, os.fsdecode(b"refs/heads/x\xffy")) == head
    assert refs.read_ref(common, "refs/heads/x\u2028refs") == head
    assert refs.read_ref(common, "refs/heads/x") is None


def test_symbolic_refs(project: Project, common: Path) -> None:
    """HEAD leads to its branch; a circle is damage and not for ever."""
    project.commit()
    assert refs.read_ref(common, "HEAD") == project.git("rev-parse", "HEAD")

    common.joinpath("refs/heads/one").write_text("ref: refs/heads/two\n")
    common.joinpath("refs/heads/two").write_text("ref: refs/heads/one\n")
    with pytest.raises(StoreDamaged):
        refs.read_ref(common, "refs/heads/one")


def test_links(project: Project, common: Path) -> None:
    """A branch may be a link, as old versions of git made HEAD; one of our refs is not read through
    one.
    """
    project.commit()
    head = project.git("rev-parse", "HEAD")
    common.joinpath("refs/heads/alias").symlink_to(project.git("symbolic-ref", "--short", "HEAD"))
    common.joinpath(refs.SESSIONS).mkdir(parents=True)
    common.joinpath(NAME).symlink_to(common / project.git("symbolic-ref", "HEAD"))

    assert refs.read_ref(common, "refs/heads/alias") == head
    with pytest.raises(Refused, match=f"{NAME} is a symbolic link"):
        refs.read_ref(common, NAME)


@pytest.mark.parametrize("linked", ["refs/gitcp", "refs/gitcp/sessions", NAME])
def test_nothing_is_written_through_links(common: Path, tmp_path: Path, linked: str) -> None:
    """Neither a ref nor a directory above it may be a link to somewhere else; nothing is made or
    deleted there.
    """
    refs.update_ref(common, NAME, A, None)
    target = tmp_path / "elsewhere"
    common.joinpath(linked).rename(target)
    common.joinpath(linked).symlink_to(target)
    before = {path: path.is_dir() or path.read_bytes() for path in (target, *target.rglob("*"))}

    with pytest.raises(Refused, match=f"{linked} is a symbolic link"):
        refs.update_ref(common, NAME, B, A)
    with pytest.raises(Refused, match=f"{linked} is a symbolic link"):
        refs.delete_ref(common, NAME, A)
    assert {
        path: path.is_dir() or path.read_bytes() for path in (target, *target.rglob("*"))
    } == before


def test_a_directory_that_cannot_be_looked_at(
    common: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it cannot be told whether a link is above a ref, the ref stays, and the error says
    why.
    """
    refs.update_ref(common, NAME, A, None)

    def refuse(path: str) -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "lstat", refuse)
        with pytest.raises(
            StoreBusy, match=r"could not be written \(Permission denied\): it was not changed"
        ):
            refs.update_ref(common, NAME, B, A)
    assert refs.read_ref(common, NAME) == A


def test_a_directory_that_cannot_be_listed(common: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that cannot be seen are not taken for none: a new one would begin where there is one
    already.
    """
    refs.update_ref(common, NAME, A, None)
    scandir = os.scandir

    def refuse(path: str) -> Any:
        if path.endswith("sessions"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)

    with pytest.raises(
        Refused, match=r"sessions cannot be read: Permission denied\. Nothing was changed"
    ):
        refs.list_refs(common, refs.PREFIX)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"garbage",
        *(
            c * n
            for c, n in (
                (b"a", FORMAT.digits - 1),
                (b"a", FORMAT.digits + 1),
                (b"A", FORMAT.digits),
                (b"\xff", FORMAT.digits),
                (b"g", FORMAT.digits),
            )
        ),
    ],
)
def test_garbage(common: Path, data: bytes) -> None:
    """A ref that holds something else is damage, is named, and is not overwritten. A list leaves it
    out.
    """
    common.joinpath(refs.SESSIONS).mkdir(parents=True)
    common.joinpath(NAME).write_bytes(data)
    with pytest.raises(StoreDamaged, match=NAME):
        refs.read_ref(common, NAME)
    assert refs.list_refs(common, refs.PREFIX) == {}
    assert refs.list_refs(common, refs.PREFIX, refs.UNREADABLE_REF) == {NAME: refs.UNREADABLE_REF}
    assert not refs.update_ref(common, NAME, A, None)
    assert not refs.delete_ref(common, NAME, A)

    assert common.joinpath(NAME).read_bytes() == data
    assert refs.delete_ref(common, NAME, refs.UNREADABLE_REF)
    assert refs.read_ref(common, NAME) is None
    assert not list(common.rglob("*.lock"))


def test_a_fifo_in_the_place_of_a_ref(common: Path) -> None:
    """Nobody waits for who might write into it: it is damage as any other garbage."""
    common.joinpath(refs.SESSIONS).mkdir(parents=True)
    os.mkfifo(common / NAME)

    with pytest.raises(StoreDamaged, match=NAME):
        refs.read_ref(common, NAME)
    assert refs.list_refs(common, refs.PREFIX, refs.UNREADABLE_REF) == {NAME: refs.UNREADABLE_REF}


def test_a_directory_in_the_way(common: Path) -> None:
    """A ref cannot be made where there are refs below that name, or where its directory is a
    ref.
    """
    assert refs.update_ref(common, NAME + "/below", A, None)
    with pytest.raises(StoreBusy, match="not changed"):
        refs.update_ref(common, NAME, A, None)
    with pytest.raises(StoreBusy, match="not changed"):
        refs.update_ref(common, NAME + "/below/more", A, None)

    assert refs.list_refs(common, refs.PREFIX) == {NAME + "/below": A}
    assert not list(common.rglob("*.lock"))


def test_delete(project: Project, common: Path) -> None:
    """A loose ref is deleted if it is what it is believed to be; a packed one is left to git."""
    project.commit()
    head = Oid(project.git("rev-parse", "HEAD"))
    refs.update_ref(common, NAME, head, None)
    assert not refs.delete_ref(common, NAME, A)
    assert refs.delete_ref(common, NAME, head)
    assert refs.read_ref(common, NAME) is None

    refs.update_ref(common, NAME, head, None)
    project.git("pack-refs", "--all")
    refs.update_ref(common, NAME, A, head)
    assert not refs.delete_ref(common, NAME, A)
    assert refs.read_ref(common, NAME) == A


GOOD = ["a", "A1", "v1.0", "e7baae82", "before-migration", "a_b+c", "0", "x" * 100]
BAD = [
    "",
    ".",
    "..",
    "-a",
    ".a",
    "_a",
    "a..b",
    "a.lock",
    "a.",
    "a b",
    "a/b",
    "a~1",
    "a^",
    "a:b",
    "a?",
    "a*",
    "a[",
    "a\\b",
]
BAD += ["@", "a@", "a@{1}", "é", "a\n", "a\0", "\udcff", "x" * 101, "٢", "a\u200b"]


@pytest.mark.parametrize("name", GOOD)
def test_names_that_can_be(project: Project, name: str) -> None:
    """A name that is allowed is one that git allows too."""
    assert refs.check_name(name, "tag") == name
    assert project.git("check-ref-format", "--normalize", refs.TAGS + name) == refs.TAGS + name


@pytest.mark.parametrize("name", BAD, ids=ascii)
def test_names_that_cannot_be(name: str) -> None:
    """Another is refused, and what is offered instead is allowed."""
    with pytest.raises(BadValue) as caught:
        refs.check_name(name, "session")

    assert "session" in str(caught.value)
    if caught.value.hint:
        assert refs.check_name(caught.value.hint, "session") == caught.value.hint


@given(st.text(max_size=120))
def test_any_name_is_allowed_or_refused(name: str) -> None:
    """Whatever the name: it is returned as it is, or refused with nothing or an allowed one as the
    hint.
    """
    try:
        assert refs.check_name(name, "tag") == name
    except BadValue as error:
        hint = error.hint
    else:
        hint = name

    assert hint == "" or refs.check_name(hint, "tag") == hint


# ---------------------------------------------------------------- crashes and failures


@pytest.mark.parametrize("size", [0, 41])
def test_a_lock_that_a_crash_left(common: Path, size: int) -> None:
    """An old lock file in our own namespace is taken away, and the ref moves."""
    common.joinpath(refs.SESSIONS).mkdir(parents=True)
    lock = common / f"{NAME}.lock"
    lock.write_bytes(b"a" * size)
    os.utime(lock, (time.time() - 2 * refs.STALE,) * 2)
    started = time.monotonic()

    assert refs.update_ref(common, NAME, A, None)
    assert time.monotonic() - started < 1
    assert not lock.exists()


def test_a_lock_of_a_slow_git(common: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of git's that is some seconds old is respected: git, which was held up, goes on as if it
    had held it.
    """
    monkeypatch.setattr(refs, "TRIES", 4)
    common.joinpath(refs.SESSIONS).mkdir(parents=True)
    lock = common / f"{NAME}.lock"
    lock.touch()
    os.utime(lock, (time.time() - 10,) * 2)

    with pytest.raises(StoreBusy, match="not changed"):
        refs.update_ref(common, NAME, A, None)
    assert lock.exists()


def test_a_lock_of_our_own(common: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of gitcp's has no owner any more, however fresh it is: who finds it holds the store's
    lock.
    """
    monkeypatch.setattr(refs, "PAUSE", 0)
    monkeypatch.setattr(refs, "TRIES", 2)
    common.joinpath(refs.SESSIONS).mkdir(parents=True)
    lock = common / f"{NAME}.lock"
    os.close(os.open(lock, os.O_CREAT, refs.LOCK_MODE))

    assert refs.update_ref(common, NAME, A, None)
    assert sorted(path.name for path in lock.parent.iterdir()) == [Path(NAME).name]


def test_a_lock_that_is_held(common: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that somebody keeps alive, or that holds something else, is respected; the ref
    stays.
    """
    monkeypatch.setattr(refs, "TRIES", 8)
    common.joinpath(refs.SESSIONS).mkdir(parents=True)
    lock = common / f"{NAME}.lock"
    lock.write_bytes(b"something else")
    os.utime(lock, (1, 1))
    with pytest.raises(StoreBusy, match="not changed"):
        refs.update_ref(common, NAME, A, None)
    with pytest.raises(StoreBusy, match="not changed"):
        refs.delete_ref(common, NAME, A)

    assert lock.read_bytes() == b"something else"
    assert refs.read_ref(common, NAME) is None


def test_how_long_a_lock_is_waited_for(common: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For ten seconds, looking many times a second: git beside it is done by then, and nobody waits
    for ever.
    """
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    common.joinpath(refs.SESSIONS).mkdir(parents=True)
    common.joinpath(f"{NAME}.lock").touch()

    with pytest.raises(StoreBusy, match="stays locked") as caught:
        refs.update_ref(common, NAME, A, None)
    assert caught.value.hint == f"ls -l {common / NAME}.lock"
    assert 5 < sum(waited) < 20
    assert 0 < min(waited) <= max(waited) <= 0.1


def test_the_lock_is_held_until_the_ref_has_moved(
    common: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can take the lock before the new value is in its place, and it is gone afterwards."""
    rename, held = os.rename, []

    def rename_and_look(source: Path, target: Path) -> None:
        rename(source, target)
        held.append(common.joinpath(f"{NAME}.lock").exists())

    monkeypatch.setattr(os, "rename", rename_and_look)
    assert refs.update_ref(common, NAME, A, None)

    assert held == [True]
    assert not common.joinpath(f"{NAME}.lock").exists()


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ENOSPC, DiskFull), (errno.EDQUOT, DiskFull), (errno.EIO, StoreBusy)]
)
@pytest.mark.parametrize("call", ["fsync", "rename", "open"])
def test_a_write_that_fails(
    common: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception], call: str
) -> None:
    """The ref stays what it was, no lock stays behind, and the error says so."""
    refs.update_ref(common, NAME, A, None)

    def fail(*args: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(kind, match="not changed"):
            refs.update_ref(common, NAME, B, A)

    assert refs.read_ref(common, NAME) == A
    assert not list(common.rglob("*.lock"))
    assert refs.update_ref(common, NAME, B, A)


@pytest.mark.parametrize(
    ("number", "kind", "reason"),
    [
        (errno.ENOSPC, DiskFull, "the disk is full"),
        (errno.EDQUOT, DiskFull, "the disk is full"),
        (errno.EACCES, StoreBusy, "Permission denied"),
        (errno.EROFS, StoreBusy, "Read-only file system"),
    ],
)
def test_a_directory_that_cannot_be_made(
    common: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[GitcpError], reason: str
) -> None:
    """The first ref of its kind needs a directory: without one it is not made, and the error says
    why.
    """

    def fail(path: Path, **options: object) -> None:
        raise OSError(number, os.strerror(number), os.fspath(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", fail)
        with pytest.raises(kind, match=reason) as caught:
            refs.update_ref(common, NAME, A, None)

    assert "not changed" in str(caught.value)
    assert not common.joinpath(refs.PREFIX).exists()
    assert refs.update_ref(common, NAME, A, None)


def test_a_directory_that_cannot_be_synced(common: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ref that moved and may not last is said to have moved."""

    def fail(path: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(refs, "sync_directory", fail)
    with pytest.raises(GitcpError, match="was moved"):
        refs.update_ref(common, NAME, A, None)

    assert refs.read_ref(common, NAME) == A


def test_a_deletion_is_on_the_disk(common: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was deleted does not come back after a power cut: the directory is synced while the lock
    is held.
    """
    refs.update_ref(common, NAME, A, None)
    synced: list[tuple[Path, bool, bool]] = []

    def look(path: Path) -> None:
        synced.append(
            (path, common.joinpath(NAME).exists(), common.joinpath(f"{NAME}.lock").exists())
        )

    monkeypatch.setattr(refs, "sync_directory", look)

    assert refs.delete_ref(common, NAME, A)
    assert synced == [(common / refs.SESSIONS, False, True)]


def test_a_promise_is_made_before_refs_move(common: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make_durable` is called once, before any ref moves, and nothing is
    synced here.
    """
    refs.update_ref(common, NAME, A, None)
    seen: list[tuple[Oid | None, Oid | None]] = []
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("synced"))

    def look() -> None:
        seen.append((refs.read_ref(common, NAME), refs.read_ref(common, OTHER)))

    files = FileRefs(common, common, lambda *_: b"")
    assert files.update_all([Update(NAME, B, A), Update(OTHER, C, None)], look)
    look()
    assert seen == [(A, None), (B, C)]
    assert not list(common.rglob("*.lock"))


@pytest.mark.parametrize("stays", [0, 1])
def test_all_refs_move_or_none(stays: int, common: Path) -> None:
    """If one is not where it was, nothing is promised, no ref moves, and no lock is left."""
    for name in (NAME, OTHER):
        refs.update_ref(common, name, A, None)
    files = FileRefs(common, common, lambda *_: b"")
    moves = [Update(NAME, B, A), Update(OTHER, B, A)]
    moves[stays] = moves[stays]._replace(old=C)

    assert not files.update_all(moves, lambda: pytest.fail("promised"))

    assert refs.list_refs(common, refs.PREFIX) == {NAME: A, OTHER: A}
    assert not list(common.rglob("*.lock"))


def test_a_promise_that_cannot_be_made(common: Path) -> None:
    """No ref moves then, and no lock is left."""
    refs.update_ref(common, NAME, A, None)

    def fail() -> None:
        raise DiskFull("full")

    files = FileRefs(common, common, lambda *_: b"")
    with pytest.raises(DiskFull):
        files.update_all([Update(NAME, B, A), Update(OTHER, C, None)], fail)

    assert refs.list_refs(common, refs.PREFIX) == {NAME: A}
    assert not list(common.rglob("*.lock"))


KILLED = """
import os, sys
from pathlib import Path
from typing import Any
from gitcp.git import refs
real = {name: getattr(os, name) for name in ("open", "fsync", "rename", "close")}
left = int(sys.argv[2])
def stub(name):
    def call(*args, **named):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), 9)
        return real[name](*args, **named)
    return call
for name in real:
    setattr(os, name, stub(name))
refs.update_ref(Path(sys.argv[1]), sys.argv[3], sys.argv[4], sys.argv[5])
"""


def test_a_crash_at_every_step(common: Path) -> None:
    """Killed before any call to the system, the ref is the old or the new one, and the next writer
    is not held up.
    """
    refs.update_ref(common, NAME, A, None)
    seen = set()
    for step in range(1, 13):
        now = refs.read_ref(common, NAME) or A
        new = B if now == A else A
        subprocess.run(
            [sys.executable, "-c", KILLED, str(common), str(step), NAME, new, now],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        found = refs.read_ref(common, NAME)
        seen.add(found == new)
        assert found in {now, new}
        assert refs.update_ref(common, NAME, C, found)
        assert refs.update_ref(common, NAME, A, C)

    assert seen == {True, False}


# ---------------------------------------------------------------- many at a time


def count_up(root: Path, times: int, name: str) -> None:
    """Move a ref `times` steps on, each from what it is found to be, under the store's lock."""
    store = open_store(Project(root))
    for _ in range(times):
        with store.lock():
            old = refs.read_ref(store.repo.common_dir, name)
            new = Oid(f"{int(old or '0', 16) + 1:040x}")
            assert refs.update_ref(store.repo.common_dir, name, new, old)


def test_eight_processes_lose_nothing(project: Project, common: Path) -> None:
    """8 processes of 25 steps each make 200 steps."""
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=count_up, args=(project.root, 25, NAME)) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)

    assert [worker.exitcode for worker in workers] == [0] * 8
    assert refs.read_ref(common, NAME) == f"{200:040x}"


def test_saves_beside_git_packing_refs(project: Project, common: Path) -> None:
    """While git packs refs again and again, no step is lost and none fails, and listings always
    show every session.
    """
    project.commit()
    head = project.git("rev-parse", "HEAD")
    for number in range(20):
        project.git("update-ref", f"{refs.SESSIONS}s{number}", head)
    store = open_store(project)
    done = threading.Event()
    packed = 0
    missing: list[int] = []

    def pack() -> None:
        nonlocal packed
        while not done.is_set():
            packed += project.git("pack-refs", "--all", "--prune", check=False) == ""

    def look() -> None:
        while not done.is_set():
            found = refs.list_refs(common, refs.SESSIONS)
            missing.extend(n for n in range(20) if f"{refs.SESSIONS}s{n}" not in found)

    threads = [threading.Thread(target=pack), threading.Thread(target=look)]
    for thread in threads:
        thread.start()
    try:
        for number in range(300):
            name = f"{refs.SESSIONS}s{number % 20}"
            with store.lock():
                old = refs.read_ref(common, name)
                assert old is not None
                new = Oid(project_commit(project, old) if number < 40 else old)
                assert refs.update_ref(common, name, new, old)
                assert refs.read_ref(common, name) == new
    finally:
        done.set()
        for thread in threads:
            thread.join()

    assert packed > 3
    assert missing == []
    assert project.git("for-each-ref", refs.SESSIONS).count("\n") == 19


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_listing_while_git_packs(
    project: Project, common: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """What git packs before or after we look for files is listed all the same."""
    project.commit()
    head = Oid(project.git("rev-parse", "HEAD"))
    project.git("update-ref", NAME, head)
    walk = os.walk

    def packing_walk(top: Path, **options: Any) -> Iterator[tuple[str, list[str], list[str]]]:
        if when == "before":
            project.git("pack-refs", "--all", "--prune")
        yield from walk(top, **options)
        if when == "after":
            project.git("pack-refs", "--all", "--prune")

    monkeypatch.setattr(os, "walk", packing_walk)

    assert refs.list_refs(common, refs.PREFIX) == {NAME: head}


def project_commit(project: Project, parent: str) -> str:
    return project.git("commit-tree", "-p", parent, "-m", "next", f"{parent}^{{tree}}")


HOLD = """
import fcntl, os, sys, time
fcntl.flock(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


def test_the_store_is_held_by_one(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who holds the store keeps others out until done, and one who died does not."""
    monkeypatch.setattr(locks, "LOCK_WAIT", 0.1)
    one, two = open_store(project), open_store(project)
    with one.lock(), pytest.raises(StoreBusy, match="nothing was changed"), two.lock():
        pass
    with two.lock():
        pass

    lock = one.repo.store_dir / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock)], stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreBusy), one.lock():
            pass
        holder.kill()
    assert save(one, "alpha").id.number == 1
