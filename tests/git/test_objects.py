"""The object store: what is written is what git would have written, and what is read is what was
written.
"""

from __future__ import annotations

import errno
import os
import random
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kinds import FORMAT

from gitcp.errors import DiskFull, GitcpError, StoreDamaged
from gitcp.git import packs, trees
from gitcp.git.objects import Objects
from gitcp.git.packs import PackIndex, PackWriter
from gitcp.git.trees import TreeEntry
from gitcp.git.writer import MOST_LOOSE
from gitcp.model import EXECUTABLE, FILE, GITLINK, SYMLINK, TREE, Entry, Oid

from driver import Project
from samples import open_store


def fresh(project: Project, *, dry: bool = False) -> Objects:
    return Objects(open_store(project).repo, dry=dry)


def directory(project: Project) -> Path:
    return project.git_dir / "objects"


def files(project: Project) -> set[str]:
    return {
        str(path.relative_to(directory(project)))
        for path in directory(project).rglob("*")
        if path.is_file()
    }


def blobs(count: int, size: int = 50) -> list[bytes]:
    return [random.Random(n).randbytes(size) for n in range(count)]


# ---------------------------------------------------------------- few objects, and many


@pytest.mark.parametrize("count", [1, MOST_LOOSE, MOST_LOOSE + 1, 3 * MOST_LOOSE])
def test_what_is_written_is_what_git_finds(project: Project, count: int) -> None:
    """Few objects go loose, more into one pack; git finds them sound, and so do we, even before
    they are visible.
    """
    objects = fresh(project)
    contents = blobs(count)
    names = [objects.writer.write_blob(data) for data in contents]
    assert [objects.reader.read(name) for name in names] == [("blob", data) for data in contents]
    assert not any(
        name in project.git("cat-file", "--batch-all-objects", "--batch-check") for name in names
    )

    objects.writer.flush()

    assert project.git("fsck", "--strict", "--no-dangling") == ""
    assert [project.git("hash-object", "--stdin", input=data) for data in contents[:3]] == names[:3]
    for each in (objects, fresh(project)):
        assert [each.reader.read(name) for name in names] == [("blob", data) for data in contents]
    assert sorted(
        project.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
    ) == sorted(names)
    assert sum(name.endswith(".pack") for name in files(project)) == (count > MOST_LOOSE)
    assert not any("tmp" in name for name in files(project))


def test_a_pack_is_sound(project: Project) -> None:
    """Pack and index pass git's own inspection, name by name, and are read-only like git's."""
    objects = fresh(project)
    names = {
        objects.writer.write("tree", b""),
        *(objects.writer.write_blob(data) for data in blobs(200, 3000)),
    }
    names.add(objects.writer.write("blob", b"x" * (5 << 20)))
    objects.writer.flush()
    (index,) = directory(project).glob("pack/*.idx")
    listed = project.git("verify-pack", "-v", str(index)).splitlines()

    assert {
        line.split()[0] for line in listed if " " in line[FORMAT.digits : FORMAT.digits + 1]
    } == names - {FORMAT.empty_tree}
    assert {path.suffix for path in directory(project).joinpath("pack").iterdir()} == {
        ".idx",
        ".pack",
    }
    assert all(
        path.stat().st_mode & 0o777 == 0o444
        for path in directory(project).joinpath("pack").iterdir()
    )
    checked = project.git("index-pack", "--strict", "--verify", str(index.with_suffix(".pack")))
    assert checked == ""


def test_a_large_object_goes_into_a_pack(project: Project) -> None:
    """One object of many megabytes is enough for a pack; it comes back whole."""
    data = b"large " * (1 << 20)
    objects = fresh(project)
    name = objects.writer.write_blob(data)
    assert objects.reader.read_blob(name) == data
    objects.writer.flush()

    assert fresh(project).reader.read_blob(name) == data
    assert project.git("cat-file", "-s", name) == str(len(data))


def test_what_is_stored_is_not_stored_again(project: Project) -> None:
    """The same content is one object, whether it is loose, packed, borrowed, or not yet visible."""
    project.write("a", b"loose")
    project.commit()
    objects = fresh(project)
    before = files(project)
    assert objects.writer.write_blob(b"loose") == project.git("rev-parse", "HEAD:a")
    assert objects.writer.write_blob(b"new") == objects.writer.write_blob(b"new")
    assert objects.writer.new_objects == 1
    assert objects.writer.new_bytes == 3
    objects.writer.discard()

    project.git("gc", "--quiet")
    objects = fresh(project)
    objects.writer.write_blob(b"loose")
    objects.writer.flush()
    assert objects.writer.new_objects == 0
    assert not any(name[2:3] == "/" for name in files(project)), before


def test_what_is_found_is_kept_young(project: Project) -> None:
    """An object that is used again gets a new time, so that a prune by age leaves it alone."""
    objects = fresh(project)
    loose = objects.writer.write_blob(b"loose")
    objects.writer.flush()
    names = [objects.writer.write_blob(data) for data in blobs(100)]
    objects.writer.flush()
    (pack,) = directory(project).glob("pack/*.pack")
    path = directory(project) / loose[:2] / loose[2:]
    for place in (pack, path):
        os.utime(place, (1, 1))
    objects = fresh(project)
    objects.writer.write_blob(b"loose")
    objects.writer.write_blob(blobs(1)[0])

    assert objects.reader.exists(names[50])
    assert path.stat().st_mtime > 1
    assert pack.stat().st_mtime > 1
    assert not objects.reader.exists(Oid("1" * FORMAT.digits))


@pytest.mark.parametrize("number", [errno.EROFS, errno.EPERM, errno.EACCES])
def test_what_cannot_be_touched_is_still_found(
    project: Project, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """An object on a disk that is only read, or of another user, is there all the same."""
    objects = fresh(project)
    name = objects.writer.write_blob(b"x")
    objects.writer.flush()

    def refuse(path: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "utime", refuse)

    assert fresh(project).reader.exists(name)
    assert not fresh(project).reader.exists(Oid("1" * FORMAT.digits))


def test_a_directory_that_git_takes_away(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """git removes directories that it has emptied while it packs: before an object is named, and
    after.
    """
    rename, names = os.rename, []

    def rename_in_between(source: Path, target: Path) -> None:
        names.append(target)
        if len(names) % 2:
            Path(target).parent.rmdir()
        rename(source, target)

    objects = fresh(project)
    name = objects.writer.write_blob(b"x")
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", rename_in_between)
        objects.writer.flush()
    assert len(names) == 2
    assert fresh(project).reader.read_blob(name) == b"x"

    def rename_and_take_away(source: Path, target: Path) -> None:
        rename(source, target)
        os.unlink(target)
        Path(target).parent.rmdir()
        names.append(target)

    objects.writer.write_blob(b"y")
    monkeypatch.setattr(os, "rename", rename_and_take_away)
    objects.writer.flush()
    assert len(names) == 3
    assert not Path(names[-1]).parent.exists()


def test_nothing_is_visible_that_was_discarded(project: Project) -> None:
    """What was written and then given up leaves no file, not even a temporary one."""
    for count in (3, 200):
        objects = fresh(project)
        for data in blobs(count):
            objects.writer.write_blob(data)
        objects.writer.write_stream(4, [b"abcd"])
        objects.writer.discard()
        objects.writer.flush()

        assert files(project) == set()


def test_dry_objects_write_nothing(project: Project) -> None:
    """They name everything as it would be named, remember trees, and leave the disk alone."""
    dry, wet = fresh(project, dry=True), fresh(project)
    written = []
    for objects in (dry, wet):
        names = [objects.writer.write_blob(data) for data in blobs(100)]
        names.append(objects.writer.write_stream(9, [b"abc", b"defghi"]) or Oid(""))
        tree = objects.writer.write_tree(
            [TreeEntry(b"%d" % n, FILE, name) for n, name in enumerate(names)]
        )
        assert len(objects.reader.read_tree(tree)) == len(names)
        written.append((names, tree))
    dry.writer.flush()
    assert written[0] == written[1]
    wet.writer.discard()
    assert files(project) == set()

    wet.writer.write_blob(b"x")
    wet.writer.flush()
    assert dry.reader.exists(FORMAT.oid_of("blob", b"x"))


# ---------------------------------------------------------------- streams


@pytest.mark.parametrize("size", [0, 1, 70_000, 9 << 20])
def test_a_stream_is_a_blob(project: Project, size: int) -> None:
    """A blob written in pieces is the blob, in the store of git, and read back in pieces too."""
    data = random.Random(size).randbytes(size)
    pieces = [data[place : place + 65536] for place in range(0, size, 65536)]
    objects = fresh(project)
    name = objects.writer.write_stream(size, pieces)
    objects.writer.flush()

    assert name == FORMAT.oid_of("blob", data)
    assert project.git("cat-file", "-s", name) == str(size)
    assert b"".join(fresh(project).reader.stream_blob(name)) == data
    assert project.git("fsck", "--strict", "--no-dangling") == ""
    project.git("gc", "--quiet", "--prune=never")
    assert b"".join(fresh(project).reader.stream_blob(name)) == data


@pytest.mark.parametrize("pieces", [[], [b"abc"], [b"abcde", b"f"], [b"", b"abcdefgh"]])
def test_a_stream_of_another_length(project: Project, pieces: list[bytes]) -> None:
    """What turns out shorter or longer than it was said to be is not stored, and leaves nothing
    behind.
    """
    objects = fresh(project)
    assert objects.writer.write_stream(5, pieces) is None
    objects.writer.flush()

    assert files(project) == set()


def test_a_stream_that_fails(project: Project) -> None:
    """A source that cannot be read to its end leaves nothing behind."""

    def source() -> Iterator[bytes]:
        yield b"abc"
        raise StoreDamaged("the source is gone")

    with pytest.raises(StoreDamaged, match="gone"):
        fresh(project).writer.write_stream(5, source())
    assert files(project) == set()


@pytest.mark.faults
def test_a_large_stream_is_not_held_in_memory(project: Project) -> None:
    """A hundred megabytes pass through in pieces."""
    tracemalloc = pytest.importorskip("tracemalloc")
    block = random.Random(1).randbytes(1 << 20)
    objects = fresh(project)
    tracemalloc.start()
    name = objects.writer.write_stream(100 << 20, (block for _ in range(100)))
    assert name is not None
    objects.writer.flush()
    digest = FORMAT.hasher(b"blob %d\0" % (100 << 20))
    for piece in fresh(project).reader.stream_blob(name):
        digest.update(piece)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert digest.hexdigest() == name
    assert peak < 16 << 20


# ---------------------------------------------------------------- damage


def damages(data: bytes) -> Iterator[bytes]:
    yield from (
        data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :] for place in range(len(data))
    )
    yield from (data[:-1], data[: len(data) // 2], b"", data + b"x", data + data)


def test_damage_of_a_loose_object(project: Project) -> None:
    """Every changed byte of a loose object is noticed by every way of reading it."""
    objects = fresh(project)
    name = objects.writer.write_blob(b"some content, not too short\n" * 3)
    objects.writer.flush()
    path = directory(project) / name[:2] / name[2:]
    path.chmod(0o644)
    for data in damages(path.read_bytes()):
        path.write_bytes(data)
        with pytest.raises(StoreDamaged, match=name):
            fresh(project).reader.read(name)
        with pytest.raises(StoreDamaged, match=name):
            list(fresh(project).reader.stream_blob(name))


def test_an_object_that_lies_about_itself(project: Project) -> None:
    """A well-packed file whose content, length or kind is not what its name says is damaged."""
    name = FORMAT.oid_of("blob", b"content")
    path = directory(project) / name[:2] / name[2:]
    path.parent.mkdir()
    for raw in (
        b"blob 7\0contenT",
        b"blob 8\0content",
        b"tree 7\0content",
        b"blob 7content",
        b"blob\0content",
        b"\0",
        b"",
    ):
        path.write_bytes(zlib.compress(raw))
        with pytest.raises(StoreDamaged, match=name):
            fresh(project).reader.read(name)
        with pytest.raises(StoreDamaged, match=name):
            list(fresh(project).reader.stream_blob(name))


def test_an_object_that_is_missing(project: Project) -> None:
    """What is not there is said to be missing, by every way of reading it."""
    name = Oid("1" * FORMAT.digits)
    objects = fresh(project)
    with pytest.raises(StoreDamaged, match=f"{name} is missing"):
        objects.reader.read(name)
    with pytest.raises(StoreDamaged, match=f"{name} is missing"):
        list(objects.reader.stream_blob(name))
    assert not objects.reader.exists(name)


def test_an_object_of_another_kind(project: Project) -> None:
    """A blob is no tree and no commit, whatever asks for it."""
    objects = fresh(project)
    name = objects.writer.write_blob(b"blob")
    for flushed in (False, True):
        with pytest.raises(StoreDamaged, match="is a blob"):
            objects.reader.read_tree(name)
        with pytest.raises(StoreDamaged, match="is a blob"):
            objects.reader.read_commit(name)
        if not flushed:
            objects.writer.flush()
    project.write("a", "a")
    project.commit()
    project.git("gc", "--quiet")
    tree = Oid(project.git("rev-parse", "HEAD^{tree}"))
    with pytest.raises(StoreDamaged, match=tree):
        list(fresh(project).reader.stream_blob(tree))


def test_a_damaged_index_is_survived(project: Project) -> None:
    """A truncated or garbled index of a pack hides its objects, and keeps nobody from saving."""
    objects = fresh(project)
    names = [objects.writer.write_blob(data) for data in blobs(100)]
    objects.writer.flush()
    (index,) = directory(project).glob("pack/*.idx")
    good = index.read_bytes()
    index.chmod(0o644)
    huge = good[:8] + struct.pack(">256I", *[1 << 30] * 256) + good[1032:]
    for data in (
        b"",
        good[:4],
        good[:8],
        good[:100],
        good[:1032],
        good[:1500],
        b"x" * len(good),
        huge,
    ):
        index.write_bytes(data)
        objects = fresh(project)
        assert all(objects.reader.exists(name) in {True, False} for name in names)
        assert objects.writer.write_blob(b"still works") == FORMAT.oid_of("blob", b"still works")
        objects.writer.flush()
        assert (
            fresh(project).reader.read_blob(FORMAT.oid_of("blob", b"still works")) == b"still works"
        )


def test_an_alternate(project: Project, tmp_path: Path) -> None:
    """What is borrowed from another store is found there, read from there and not copied; damage
    there is noticed.
    """
    lender = Project(tmp_path / "lender")
    objects = fresh(lender)
    loose = objects.writer.write_blob(b"loose")
    objects.writer.flush()
    packed = [objects.writer.write_blob(data) for data in blobs(100)][7]
    objects.writer.flush()
    info = directory(project) / "info"
    info.mkdir(exist_ok=True)
    info.joinpath("alternates").write_text(f"# a comment\n\n{directory(lender)}\n")
    objects = fresh(project)

    assert objects.writer.write_blob(b"loose") == loose
    assert objects.writer.write_blob(blobs(8)[7]) == packed
    assert objects.writer.new_objects == 0
    assert objects.reader.read_blob(loose) == b"loose"
    assert (
        objects.reader.read_blob(packed)
        == b"".join(objects.reader.stream_blob(packed))
        == blobs(8)[7]
    )

    path = directory(lender) / loose[:2] / loose[2:]
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StoreDamaged, match=loose):
        fresh(project).reader.read_blob(loose)
    with pytest.raises(StoreDamaged, match=loose):
        list(fresh(project).reader.stream_blob(loose))


# ---------------------------------------------------------------- failures


class Full:
    """The disk is full from the n-th write on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
        self.left = number
        monkeypatch.setattr(os, "fsync", self._fail)

    def _fail(self, descriptor: int) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("count", [3, 200])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_full_disk(
    project: Project, monkeypatch: pytest.MonkeyPatch, count: int, number: int
) -> None:
    """It is named as what it is, nothing unsound stays, and the same can be written again when
    there is room.
    """
    with monkeypatch.context() as patch:
        Full(patch, number)
        objects = fresh(project)
        for data in blobs(count):
            objects.writer.write_blob(data)
        with pytest.raises(DiskFull, match="disk is full"):
            objects.writer.flush()
        objects.writer.discard()
    assert project.git("fsck", "--strict", "--no-dangling") == ""
    assert not any("tmp_obj_gitcp" in name for name in files(project))

    objects = fresh(project)
    names = [objects.writer.write_blob(data) for data in blobs(count)]
    objects.writer.flush()
    assert [fresh(project).reader.read_blob(name) for name in names] == blobs(count)


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.EACCES])
def test_a_store_that_cannot_be_written(
    project: Project, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Another failure of the system is an error of ours with the system's words."""

    def fail(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    objects = fresh(project)
    objects.writer.write_blob(b"x")
    with pytest.raises(GitcpError, match="No checkpoint was made"):
        objects.writer.flush()


def test_everything_is_synced_before_it_is_named(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each new file is on disk before it gets its name, and each directory after."""
    if not os.path.exists("/proc/self/fd"):
        pytest.skip("no /proc to see files by")
    events: list[tuple[str, str]] = []
    fsync, rename = os.fsync, os.rename

    def noted_fsync(descriptor: int) -> None:
        events.append(("sync", os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def noted_rename(source: Path, target: Path) -> None:
        events.append(("name", str(source)))
        rename(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "rename", noted_rename)
    for count in (3, 200):
        objects = fresh(project)
        for data in blobs(count, 60 + count):
            objects.writer.write_blob(data)
        objects.writer.write_stream(4, [b"%04d" % count])
        objects.writer.flush()
    synced = {path for kind, path in events if kind == "sync"}
    named = [path for kind, path in events if kind == "name"]

    assert len(named) == 4 + 3
    for path in named:
        assert events.index(("sync", path)) < events.index(("name", path))
    assert {str(path) for path in directory(project).glob("??") if path.name != "pack"} <= synced
    assert str(directory(project) / "pack") in synced


# ---------------------------------------------------------------- packs and trees themselves


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    contents=st.lists(st.binary(max_size=300), min_size=1, max_size=60, unique=True),
    first=st.integers(0, 255),
)
def test_an_index_knows_its_objects_and_no_others(
    tmp_path: Path, contents: list[bytes], first: int
) -> None:
    """Exactly what was put in is found in the index, whatever the names begin with."""
    place = tmp_path / "pack"
    place.mkdir(exist_ok=True)
    writer = PackWriter(place, FORMAT)
    names = [bytes.fromhex(FORMAT.oid_of("blob", data)) for data in contents]
    for name, data in zip(names, contents, strict=True):
        writer.add(name, "blob", data)
    assert [writer.read(name) for name in names] == [("blob", data) for data in contents]
    writer.close()
    (index,) = packs.indexes(tmp_path, FORMAT)
    assert isinstance(index, PackIndex)

    assert all(name in index for name in names)
    for other in (
        bytes([first]) + b"\0" * (FORMAT.raw - 1),
        bytes([first]) + b"\xff" * (FORMAT.raw - 1),
        b"\0" * FORMAT.raw,
        b"\xff" * FORMAT.raw,
    ):
        assert other not in index
    for path in place.iterdir():
        path.unlink()


tree_names = st.binary(min_size=1, max_size=8).filter(
    lambda n: not set(n) & set(b"/\0") and n not in {b".", b"..", b".git"}
)
entries = st.tuples(
    st.sampled_from((FILE, EXECUTABLE, SYMLINK, GITLINK, TREE)),
    st.binary(min_size=FORMAT.raw, max_size=FORMAT.raw),
)


@given(st.dictionaries(tree_names, entries, max_size=12))
def test_trees_come_back(nested: dict[bytes, tuple[int, bytes]]) -> None:
    """A tree that is written is read as it was, in git's order."""
    found = [TreeEntry(name, mode, Oid(oid.hex())) for name, (mode, oid) in nested.items()]
    ordered, data = trees.serialised(found)

    assert trees.parse(data, FORMAT) == ordered


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    nested=st.dictionaries(
        tree_names, st.sampled_from((FILE, EXECUTABLE, SYMLINK, TREE)), max_size=8
    )
)
def test_git_agrees_on_the_order_of_trees(project: Project, nested: dict[bytes, int]) -> None:
    """The same entries give git's own tree, `a`, `a.b` and `a/` in their right order."""
    objects = fresh(project)
    blob = objects.writer.write_blob(b"x")
    inner = objects.writer.write_tree([TreeEntry(b"f", FILE, blob)])
    found = [
        TreeEntry(name, mode, inner if mode == TREE else blob) for name, mode in nested.items()
    ]
    name = objects.writer.write_tree(found)
    objects.writer.flush()
    listing = b"".join(
        b"%06o %s %s\t%s\0" % (mode, b"tree" if mode == TREE else b"blob", oid.encode(), path)
        for path, mode, oid in found
    )

    assert project.git("mktree", "-z", input=listing) == name
    assert found == [] or "bad" not in project.git("fsck", "--strict", "--no-dangling", check=False)


@pytest.mark.parametrize(
    "data",
    [b"x", b"100644", b"100644 a", b"100644 a\0", b"100644 a\0" + b"1" * 19, b"x a\0" + b"1" * 20],
)
def test_what_is_no_tree(data: bytes) -> None:
    """Bytes that are no tree object are damage."""
    with pytest.raises(StoreDamaged):
        trees.parse(data, FORMAT)


def test_differences_are_found_path_by_path(project: Project) -> None:
    """Added, changed, deleted, a file for a directory and the other way round: each path once,
    files only.
    """
    objects = fresh(project)
    blob = [objects.writer.write_blob(b"%d" % n) for n in range(3)]

    def tree(**paths: int) -> Oid:
        return trees.build(
            objects.writer,
            trees.nest(
                {k.replace("_", "/").encode(): Entry(FILE, blob[v]) for k, v in paths.items()}
            ),
        )

    old, new = (
        tree(same=0, changed=0, gone_a=0, d_b=0, f=0),
        tree(same=0, changed=1, new_a=0, d=1, f_x=2),
    )
    found = [(change.path, change.kind.value) for change in trees.diff(objects.reader, old, new)]

    assert found == [
        (b"changed", "modified"),
        (b"d", "added"),
        (b"d/b", "deleted"),
        (b"f", "deleted"),
        (b"f/x", "added"),
        (b"gone/a", "deleted"),
        (b"new/a", "added"),
    ]
    assert list(trees.diff(objects.reader, old, old)) == []
    assert [c.path for c in trees.diff(objects.reader, None, old)] == [
        p for p, _ in trees.walk(objects.reader, old)
    ]
    assert [c.kind.value for c in trees.diff(objects.reader, old, None)] == ["deleted"] * 5
    for one, other in (
        (old, new),
        (old, new),
        (new, old),
        (None, new),
        (new, None),
        (new, new),
        (old, new),
    ):
        assert list(objects.reader.compare(one, other)) == list(
            trees.diff(objects.reader, one, other)
        )


@pytest.mark.parametrize("beside", [0, 400], ids=["searched", "bisected"])
def test_a_name_that_lies_across_two_others_is_not_taken_for_one(
    tmp_path: Path, beside: int
) -> None:
    """The end of one name and the beginning of the next are no name, whichever way they are looked
    through.
    """
    half = FORMAT.raw // 2
    low = b"\x07" + b"\0" * (half - 1) + b"\x07" + b"\x0a" * (half - 1)
    high = b"\x07" + b"\x01" * (FORMAT.raw - 1)
    across = low[half:] + high[:half]
    others = [b"\x07\xff" + n.to_bytes(FORMAT.raw - 2, "big") for n in range(beside)]

    def index_of(*names: bytes) -> PackIndex:
        writer = PackWriter(tmp_path / f"pack{len(names)}", FORMAT)
        for name in (*names, *others):
            writer.add(name, "blob", name)
        return PackIndex(writer.close().with_suffix(".idx"), FORMAT)

    assert across not in index_of(low, high)
    index = index_of(low, high, across)
    assert [name in index for name in (low, high, across, *others)] == [True] * (3 + beside)


def test_names_are_found_where_they_would_be(tmp_path: Path) -> None:
    """Of many names that begin alike, as a large pack has, each is found, and none that is not
    there.
    """
    number = random.Random(5)
    names = [b"\x07" + number.randbytes(FORMAT.raw - 1) for _ in range(2000)]
    writer = PackWriter(tmp_path / "pack", FORMAT)
    for name in names[::2]:
        writer.add(name, "blob", b"")
    index = PackIndex(writer.close().with_suffix(".idx"), FORMAT)

    assert [name in index for name in names] == [True, False] * 1000


def test_what_a_group_shares(project: Project) -> None:
    """Where git lets a group write, the others can add objects beside ours."""
    project.git("init", "--quiet", "--shared=group", "shared")
    shared = Project(project.root / "shared")
    objects = fresh(shared)
    for number in range(MOST_LOOSE):
        objects.writer.write("blob", b"%d\n" % number)
    objects.writer.flush()

    modes = {path.name: path.stat().st_mode & 0o7777 for path in directory(shared).glob("??")}
    assert modes
    assert set(modes.values()) == {0o2775}


@pytest.mark.parametrize("umask", [0o002, 0o077])
def test_what_a_group_reads(project: Project, umask: int) -> None:
    """Whatever the umask of who saved: a pack and its index are for all who may look into the
    repository.
    """
    before = os.umask(umask)
    try:
        objects = fresh(project)
        for data in blobs(MOST_LOOSE + 1):
            objects.writer.write_blob(data)
        objects.writer.flush()
    finally:
        os.umask(before)

    found = {
        path.suffix: path.stat().st_mode & 0o777 for path in (directory(project) / "pack").iterdir()
    }
    assert found == {".pack": 0o444, ".idx": 0o444}


@pytest.mark.parametrize("count", [MOST_LOOSE + 1, 1000])
@pytest.mark.parametrize("step", ["keep", "sync", "index", "directory"])
def test_a_pack_that_cannot_be_made_is_not_held(
    project: Project, monkeypatch: pytest.MonkeyPatch, count: int, step: str
) -> None:
    """Nothing that `git repack` would leave alone stays behind, wherever the disk fails."""
    place = directory(project) / "pack"
    place.mkdir(exist_ok=True)
    fsync, rename, write = os.fsync, os.rename, os.write

    def failing_fsync(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if (step == "sync" and "tmp_pack" in path) or (step == "directory" and path == str(place)):
            raise OSError(errno.EIO, "broken")
        fsync(descriptor)

    def failing_rename(source: str, target: str) -> None:
        if step == "index" and str(target).endswith(".idx"):
            raise OSError(errno.EIO, "broken")
        rename(source, target)

    def failing_write(descriptor: int, data: memoryview) -> int:
        if step == "keep" and bytes(data) == packs.KEEP:
            raise OSError(errno.ENOSPC, "full")
        return write(descriptor, data)

    objects = fresh(project)
    for data in blobs(count, 2000):
        objects.writer.write_blob(data)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing_fsync)
        patch.setattr(os, "rename", failing_rename)
        patch.setattr(os, "write", failing_write)
        with pytest.raises(GitcpError):
            objects.writer.flush(keep=True)
        objects.writer.discard()

    assert not list(place.glob("*.keep"))
    assert not list(place.glob("tmp_*"))


def test_what_housekeeping_moves_is_still_there(project: Project) -> None:
    """Another process puts packs together: who listed them before finds every object in the new
    one.
    """
    store = open_store(project)
    oids = []
    for number in range(2):
        oids += [
            store.writer.write_blob(b"%d of %d" % (each, number)) for each in range(MOST_LOOSE + 1)
        ]
        store.writer.flush()
    known = fresh(project)
    assert known.reader.exists(oids[0])
    assert not known.reader.exists(Oid("1" * FORMAT.digits))

    listed = "".join(f"{oid}\n" for oid in oids).encode()
    packs = directory(project) / "pack"
    name = project.git("pack-objects", "-q", str(packs / "pack"), input=listed)
    for path in packs.iterdir():
        if name not in path.name:
            path.unlink()

    assert all(map(known.reader.exists, oids))
    assert not known.reader.exists(Oid("1" * FORMAT.digits))
