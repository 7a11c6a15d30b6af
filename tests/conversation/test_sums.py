"""Checksums of stored streams: the same as of the bytes, and only what is new is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256

import pytest

from gitcp.conversation import segments
from gitcp.conversation.segments import Cut, Segment
from gitcp.conversation.sums import Sums
from gitcp.errors import StoreDamaged
from gitcp.git import trees
from gitcp.git.objects import Objects
from gitcp.git.reader import ObjectReader
from gitcp.model import FILE, Entry, Oid, Source

from driver import Project
from samples import open_store

LINE = b'{"text":"%s"}\n' % (b"x" * 5000)


@pytest.fixture
def objects(project: Project) -> Iterator[Objects]:
    """The object store of a new repository."""
    store = open_store(project).objects
    yield store
    store.writer.discard()


def stored(objects: Objects, data: bytes, parent: Sequence[Segment] = ()) -> Cut:
    return segments.cut(objects, Source("main", data=data), parent)


def versions() -> Iterator[bytes]:
    """A stream that is empty, grows over several directories, stays, shrinks and is edited."""
    yield b""
    yield b""
    data = b""
    for number in range(60):
        data += b"%d" % number + LINE
        yield data
    yield data
    yield data[: len(data) // 2]
    yield b"edited" + data
    yield b"edited" + data + LINE
    yield b""


def test_every_version_of_a_stream(objects: Objects) -> None:
    """Whatever the stream before was, the result is that of the bytes."""
    sums = Sums()
    parent: Sequence[Segment] = ()
    for data in versions():
        cut = stored(objects, data, parent)
        parent = cut.segments
        assert sums.of_tree(objects.reader, "main", cut.tree, len(data)) == (
            len(data),
            sha256(data).hexdigest(),
        )


def test_only_what_is_new_is_read(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a stream that it continues, one segment is read of a stream."""
    before = stored(objects, LINE * 40)
    after = stored(objects, LINE * 41, before.segments)
    sums, read = Sums(), list[Oid]()
    sums.of_tree(objects.reader, "main", before.tree, before.bytes)
    read_blob = ObjectReader.read_blob

    def noting(self: ObjectReader, oid: Oid) -> bytes:
        read.append(oid)
        return read_blob(self, oid)

    monkeypatch.setattr(ObjectReader, "read_blob", noting)
    sums.of_tree(objects.reader, "main", after.tree, after.bytes)

    assert read == [after.segments[-1].oid]


@pytest.mark.parametrize("wrong", [-1, 1])
@pytest.mark.parametrize("lines", [3, 4])
def test_a_length_that_the_segments_do_not_have(objects: Objects, lines: int, wrong: int) -> None:
    """It is damage, also where the stream is the one before."""
    before = stored(objects, LINE * 3)
    sums = Sums()
    sums.of_tree(objects.reader, "main", before.tree, before.bytes)
    after = stored(objects, LINE * lines, before.segments)

    with pytest.raises(StoreDamaged):
        sums.of_tree(objects.reader, "main", after.tree, after.bytes + wrong)


def test_a_gap_after_the_stream_before(objects: Objects) -> None:
    """A segment that begins later than the stream before ended is damage."""
    before = stored(objects, LINE * 3)
    sums = Sums()
    sums.of_tree(objects.reader, "main", before.tree, before.bytes)
    blob = objects.writer.write_blob(LINE)
    path = b"a/%012d.jsonl" % (before.bytes + 1)
    tree = trees.put(objects, before.tree, path, Entry(FILE, blob))

    with pytest.raises(StoreDamaged):
        sums.of_tree(objects.reader, "main", tree, before.bytes + 1 + len(LINE))
