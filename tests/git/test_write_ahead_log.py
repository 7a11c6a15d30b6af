"""Saves in a hurry: one turn of the disk each, and yet what was reported survives a power cut, and
`kill -9` anyway.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Thread

import pytest
from capturing import host
from faults import tracer
from faults.durable import Disk, everything
from faults.tracer import Call, Fault
from hypothesis import given
from hypothesis import strategies as st
from kinds import FORMAT, REFS, oid

from gitcp.errors import DiskFull, FormatTooNew
from gitcp.git import write_ahead_log
from gitcp.git.gathering import Gathering
from gitcp.git.packs import SmallPack, packed
from gitcp.git.repo import Repository
from gitcp.git.write_ahead_log import (
    PREALLOCATED,
    SETTLE_AFTER,
    Move,
    Record,
    WriteAheadLog,
    decode,
    encode,
)
from gitcp.integrations.fast_store import FastStore
from gitcp.model import Oid

from driver import SOURCE, Project
from samples import open_store, save

REF = "refs/gitcp/sessions/s"
A, B, C = (Oid(oid(digit)) for digit in "abc")

if write_ahead_log.running() is None:
    pytest.skip("nothing here tells one run of the system from another", allow_module_level=True)


def command(project: Project, count: int, session: str = "s") -> list[str]:
    return [
        sys.executable,
        "-P",
        str(SOURCE / "tests/support/hurried.py"),
        str(project.root),
        session,
        str(count),
    ]


def hurried(project: Project, count: int, session: str = "s") -> None:
    """So many saves by a process of its own."""
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    subprocess.run(
        command(project, count, session),
        env=env,
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=120,
    )


def file(project: Project) -> Path:
    return project.git_dir / "gitcp" / write_ahead_log.NAME


def moves(data: bytes) -> list[Record]:
    """The moves of refs among the entries."""
    return [entry for entry in decode(data) if isinstance(entry, Record)]


def recorded(project: Project) -> list[Record]:
    return moves(file(project).read_bytes())


def whole(project: Project) -> bytes:
    """The records as they stand in the file."""
    data = file(project).read_bytes()
    found = b"".join(encode(each) for each in decode(data))
    assert data[: len(found)] == found
    assert not data[len(found) :].strip(b"\0")
    return found


def restarted(project: Project) -> None:
    """As if the system had been started anew since the records were made."""
    file(project).write_bytes(
        b"".join(encode(each._replace(boot="before")) for each in recorded(project))
    )


def numbers(project: Project, session: str = "s") -> list[int]:
    return [each["number"] for each in project.json_lines("log", session)]


def sound(project: Project) -> None:
    """git and gitcp have nothing to say against the store, and nothing is recorded any more."""
    assert project.json("check")["ok"]
    project.git("fsck", "--strict", "--no-dangling")
    assert not file(project).read_bytes()


# ---------------------------------------------------------------- a power cut


def packs_gone(project: Project) -> None:
    for path in project.git_dir.glob("objects/pack/pack-*"):
        path.unlink()


def packs_empty(project: Project) -> None:
    for path in project.git_dir.glob("objects/pack/pack-*"):
        path.chmod(0o644)
        path.write_bytes(b"")


def packs_of_zeros(project: Project) -> None:
    for path in project.git_dir.glob("objects/pack/pack-*"):
        path.chmod(0o644)
        path.write_bytes(bytes(path.stat().st_size))


def ref_empty(project: Project) -> None:
    """In reftable each change is a table of its own, which is listed or not."""
    if REFS == "files":
        (project.git_dir / REF).write_bytes(b"")
    else:
        ref_gone(project)


def ref_gone(project: Project) -> None:
    if REFS == "files":
        (project.git_dir / REF).unlink()
    else:
        project.git("update-ref", "-d", REF)


def ref_directory_gone(project: Project) -> None:
    if REFS == "files":
        shutil.rmtree(project.git_dir / "refs/gitcp")
    else:
        ref_gone(project)


def nothing(_: Project) -> None:
    """The disk was quicker than the power cut."""


@pytest.mark.parametrize(
    ("packs", "ref"),
    [
        (packs_gone, ref_gone),
        (packs_gone, ref_directory_gone),
        (packs_empty, ref_empty),
        (packs_of_zeros, nothing),
        (nothing, ref_empty),
        (nothing, nothing),
    ],
)
def test_power_cut(
    project: Project, packs: Callable[[Project], None], ref: Callable[[Project], None]
) -> None:
    """Whatever of packs and refs did not reach the disk, the next command has every checkpoint."""
    hurried(project, 3)
    assert len(recorded(project)) == 3
    restarted(project)
    packs(project)
    ref(project)

    assert numbers(project) == [3, 2, 1]
    sound(project)


def test_power_cut_with_an_older_ref(project: Project) -> None:
    """The ref stands at an earlier one of the checkpoints that were recorded: it is taken to the
    last one.
    """
    hurried(project, 3)
    restarted(project)
    project.git("update-ref", REF, recorded(project)[0].new)

    assert numbers(project) == [3, 2, 1]
    sound(project)


def test_power_cut_after_packs_were_put_together(project: Project) -> None:
    """More saves than are recorded at a time: what was settled is on disk where it belongs."""
    hurried(project, SETTLE_AFTER + 3)
    assert len(recorded(project)) == 3
    late = {
        f"pack-{pack.content[-FORMAT.raw :].hex()}"
        for each in recorded(project)
        for pack in each.packs
    }
    restarted(project)
    for name in late:
        for ending in (".pack", ".idx"):
            path = project.git_dir / "objects/pack" / (name + ending)
            path.unlink(missing_ok=True)  # it may have been joined with others

    assert numbers(project) == list(range(SETTLE_AFTER + 3, 0, -1))
    sound(project)


def test_what_moved_since_stays(project: Project) -> None:
    """A ref that somebody moved afterwards is left where it is."""
    hurried(project, 2, "a")
    first = project.git("rev-parse", "refs/gitcp/sessions/a~1").strip()
    kept = file(project).read_bytes()
    project.gitcp("save", "by hand", "--session", "a", check=0)
    assert not file(project).read_bytes()
    # emptying it did not reach the disk, which it does: worse than can be
    file(project).write_bytes(kept)
    restarted(project)

    assert numbers(project, "a") == [3, 2, 1]
    assert project.git("rev-parse", "refs/gitcp/sessions/a~2").strip() == first
    sound(project)


def test_any_command_that_writes_settles(project: Project) -> None:
    """Whoever takes the store's lock finds nothing recorded."""
    hurried(project, 2)
    assert recorded(project)
    with open_store(project).lock():
        assert not file(project).read_bytes()
    hurried(project, 1)
    assert numbers(project) == [3, 2, 1]
    assert len(recorded(project)) == 1


def test_settled_while_another_is_recorded(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that settles may come when a save is recorded and its pack and ref are not there
    yet: that record stays, as nothing else would survive a power cut.
    """
    late: list[Callable[[], None]] = []

    def start(work: Callable[[], None]) -> Thread:
        late.append(work)
        return Thread()

    sync = os.fdatasync

    def settle_first(descriptor: int) -> None:
        while late:
            late.pop()()
        sync(descriptor)

    store = FastStore(open_store(project).repo, Gathering())
    monkeypatch.setattr(write_ahead_log, "started", start)
    monkeypatch.setattr(write_ahead_log, "SETTLE_AFTER", 2)
    monkeypatch.setattr(os, "fdatasync", settle_first)
    for number in range(1, 4):
        save(store, "s", {b"a.txt": b"%d\n" % number})

    assert [each.new for each in recorded(project)] == there(project)[:1]


def test_a_reader_who_may_not_write(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking does not fail where nothing can be written."""
    hurried(project, 2)
    restarted(project)
    monkeypatch.setattr(
        "gitcp.store.open_shared",
        lambda *_: (_ for _ in ()).throw(PermissionError(errno.EACCES, "no")),
    )
    assert open_store(project).tip("s")
    assert recorded(project)


def test_a_newer_file(project: Project) -> None:
    """What a newer gitcp recorded is not passed over."""
    hurried(project, 1)
    data = whole(project)
    file(project).write_bytes(data + b"gitcp-ahead 3 something else\n")
    done = project.gitcp("save", "x", check=13)
    assert "newer gitcp" in done.err
    assert file(project).read_bytes().startswith(data)


# ---------------------------------------------------------------- torn and full


def pack_of(text: bytes) -> SmallPack:
    return packed({Oid(f"{len(text):0{FORMAT.digits}x}"): ("blob", text)}, FORMAT)


PROMISES = st.builds(
    Record,
    st.sampled_from(["x", "y-z"]),
    st.sampled_from([REF, REF + "2"]),
    st.sampled_from([None, A]),
    st.sampled_from([B, C]),
    st.lists(st.builds(pack_of, st.binary(max_size=300)), max_size=3).map(tuple),
)


@given(st.lists(PROMISES, max_size=4), st.data())
def test_a_file_that_was_cut_off(records: list[Record], data: st.DataObject) -> None:
    """Wherever it ends, the whole records are read and nothing else; so too if a byte is another
    one.
    """
    written = [encode(each) for each in records]
    whole = b"".join(written)
    assert list(decode(whole)) == records
    end = data.draw(st.integers(0, len(whole)))
    count = sum(len(b"".join(written[: n + 1])) <= end for n in range(len(written)))
    assert list(decode(whole[:end])) == records[:count]
    if end < len(whole):
        wrong = whole[:end] + bytes([whole[end] ^ 1]) + whole[end + 1 :]
        with suppress(FormatTooNew):  # it looks as if a newer gitcp had written it
            assert list(decode(wrong)) == records[:count]


@pytest.mark.parametrize("sign", [b"+", b","])
def test_a_sign_between_sizes_that_is_another(sign: bytes) -> None:
    """A header with a damaged sign is no header."""
    packs = (pack_of(b"one"), pack_of(b"two"))
    data = encode(Record("x", REF, A, B, packs))

    at = data.index(sign)

    assert list(decode(data[:at] + bytes([sign[0] ^ 1]) + data[at + 1 :])) == []


def test_a_promise_that_was_cut_off(project: Project) -> None:
    """The next one takes its place; those before and after it are kept."""
    hurried(project, 2)
    before = whole(project)
    file(project).write_bytes(before + encode(recorded(project)[0])[:-1])
    hurried(project, 1)
    assert whole(project).startswith(before)
    assert len(recorded(project)) == 3
    assert numbers(project) == [3, 2, 1]


def test_a_full_disk(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that cannot be written is none, and what was recorded before stays."""
    (project.git_dir / "gitcp").mkdir(mode=0o700)
    given = WriteAheadLog(open_store(project).repo)
    given.append([Move(REF, None, A)], [pack_of(b"one")])
    before = whole(project)
    pwrite = os.pwrite

    def full(descriptor: int, data: bytes, place: int) -> int:
        if place > len(before):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return pwrite(descriptor, data[:50], place)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(DiskFull):
            given.append([Move(REF, A, B)], [pack_of(b"two")])
    assert whole(project) == before
    given.append([Move(REF, A, B)], [pack_of(b"two")])
    assert [each.new for each in recorded(project)] == [A, B]


def test_room(project: Project) -> None:
    """The file grows once in many records, and has room for the next ones."""
    (project.git_dir / "gitcp").mkdir(mode=0o700)
    given, sizes = WriteAheadLog(open_store(project).repo), []
    for number in range(30):
        given.append([Move(REF, None, A)], [pack_of(os.urandom(8000))])
        assert len(recorded(project)) == number + 1
        sizes.append(file(project).stat().st_size)
    assert {size % PREALLOCATED for size in sizes} == {0}
    assert len(set(sizes)) == -(-len(whole(project)) // PREALLOCATED) < 4


STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["record", "settle", "crash", "full"])),
    max_size=25,
)


@given(STEPS, st.randoms(use_true_random=False))
def test_several_programs(steps: list[tuple[int, str]], chance: Random) -> None:
    """Whoever records, settles or dies in between: what stands in the file is all that was
    recorded since.
    """
    with TemporaryDirectory() as place:
        common = Path(place)
        (common / "gitcp").mkdir()
        (common / "objects/pack").mkdir(parents=True)
        path, wanted = common / "gitcp" / write_ahead_log.NAME, []
        programs = [WriteAheadLog(Repository(common, common, host())) for _ in range(3)]
        for number, (who, what) in enumerate(steps):
            pack, oid = (
                pack_of(chance.randbytes(chance.choice((10, 50_000)))),
                Oid(f"{number:0{FORMAT.digits}x}"),
            )
            if what == "record":
                programs[who].append([Move(REF, None, oid)], [pack])
                wanted.append(oid)
            elif what == "settle":
                programs[who].settle()
                wanted = []
            elif path.exists():
                data = encode(Record("x", REF, None, oid, (pack,)))
                half = data[: chance.randrange(len(data))]
                end = len(b"".join(encode(each) for each in decode(path.read_bytes())))
                with path.open("r+b") as file:
                    file.seek(end)
                    file.write(half)
                    if what == "full":
                        file.truncate()
            assert [
                each.new for each in moves(path.read_bytes() if path.exists() else b"")
            ] == wanted


# ---------------------------------------------------------------- as the system sees it

why_not = tracer.unusable() or ("" if REFS == "files" else "git's calls: see test_reftable.py")
traced = pytest.mark.skipif(bool(why_not), reason=why_not)


def run(project: Project, count: int, fault: Fault | None = None) -> tracer.Traced:
    become = partial(os.execv, sys.executable, command(project, count))
    return tracer.run(become, project.root, [project.root], fault, {"PYTHONPATH": str(SOURCE)})


@traced
def test_promised_before_the_ref_moves(project: Project) -> None:
    """On the strictest disk: when a ref moves, and when a save is reported, the record could not
    be lost.
    """
    hurried(project, 1)
    disk = Disk(everything(project.root))
    done = run(project, SETTLE_AFTER + 2)
    assert done.code == 0, done
    moves = words = syncs = settled = 0
    for call in done.calls:
        if call.name.startswith("rename") and f"/{REF}" in call.paths[1]:
            moves += 1
            assert not disk.would_lose(file(project))
            assert str(file(project)) not in disk.bytes
        syncs += call.name in ("fsync", "fdatasync")
        if call.name == "ftruncate":
            settled += 1
            assert not disk.would_lose(project.git_dir / REF)
            unsynced = {
                path for path in disk.bytes | disk.names if path.endswith((".pack", ".idx"))
            }
            assert not {path for path in unsynced if "/objects/" in path}
        words += call == Call("write", ("stdout",))
        disk.play(call)
    assert moves == words == SETTLE_AFTER + 2
    assert settled == 1
    assert syncs < 3 * moves


@traced
def test_killed_at_any_call(project: Project) -> None:
    """Killed before any call of a save, it is there as a whole or not at all, with or without a
    power cut after.
    """
    hurried(project, 1)
    calls = len(run(project, 1).calls)
    assert calls > 10
    for number in range(1, calls + 1, 2):
        before = there(project)
        done = run(project, 1, Fault(number))
        restarted(project)
        after = there(project)
        assert after[-len(before) :] == before
        assert len(after) - len(before) in ({1} if done.out else {0, 1})
    sound(project)


@traced
@pytest.mark.parametrize("spoilt", [b"", bytes(100)], ids=["empty", "zeros"])
def test_power_cut_at_any_call(project: Project, spoilt: bytes) -> None:
    """Whatever the disk had not kept before any call of a save is spoilt: git and gitcp find
    nothing to complain of.
    """
    hurried(project, 1)
    spoilt_packs = 0
    for number in count(9, 2):  # the first calls write nothing that is git's
        before, disk = there(project), Disk(everything(project.root))
        done = run(project, 1, Fault(number))
        for call in done.calls:
            disk.play(call)
        for path in map(Path, disk.would_lose(project.git_dir)):
            if path.is_file() and path != file(project):
                spoilt_packs += path.suffix in (".pack", ".idx")
                mode = path.stat().st_mode  # by which a lock of ours is known
                path.chmod(0o644)
                path.write_bytes(spoilt)
                path.chmod(mode)
        restarted(project)
        after = there(project)
        assert after[-len(before) :] == before
        assert len(after) - len(before) in ({1} if done.out else {0, 1})
        assert project.json("check")["ok"]
        project.git("fsck", "--strict", "--no-dangling")
        if done.code == 0:
            break
    assert spoilt_packs


def there(project: Project) -> list[Oid]:
    """The checkpoints, the newest first, as who opens the store finds them."""
    store = open_store(project)
    return [each.commit for each in store.history(store.tip("s") or C)]
