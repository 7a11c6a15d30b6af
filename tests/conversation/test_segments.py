"""Streams ⇄ segments: every byte back, only what is new stored, and an agent that writes
meanwhile.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kinds import FORMAT

from gitcp.conversation import segments
from gitcp.conversation.segments import Cut, Segment, content, cut, read_segments
from gitcp.errors import ConversationUnreadable, StoreDamaged
from gitcp.git import growing, trees
from gitcp.git.objects import Objects
from gitcp.git.packs import LEVEL
from gitcp.git.repo import Repository
from gitcp.git.writer import ObjectWriter
from gitcp.model import FILE, Entry, Host, Oid, Source

from driver import Project

FIXED = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


class MeddlingWriter(ObjectWriter):
    """Does something to the agent's file each time a segment is stored."""

    meddle: Callable[[], object] = bool

    def write_blob(self, data: bytes, *, new: bool = False, level: int = LEVEL) -> Oid:
        self.meddle()
        return super().write_blob(data, new=new, level=level)


class Meddling(Objects):
    """An object store with that writer."""

    writer: MeddlingWriter

    def __init__(self, repo: Repository) -> None:
        super().__init__(repo)
        self.writer = MeddlingWriter(
            self.repo, self.stored, self.pending, self.reader, self.freshener
        )


@pytest.fixture
def objects(project: Project) -> Iterator[Meddling]:
    """The object store of a new repository."""
    host = Host(dict(os.environ), Path(os.environ["HOME"]), lambda: FIXED)
    store = Meddling(Repository.open(project.root, host))
    yield store
    store.writer.discard()


def given_bytes(objects: Objects, data: bytes, parent: Sequence[Segment] = ()) -> Cut:
    return cut(objects, Source("main", data=data), parent)


def joined(objects: Objects, done: Cut) -> bytes:
    """The stream as it comes back out of its tree alone."""
    found = read_segments(objects.reader, done.tree, done.bytes)
    assert found == done.segments
    return b"".join(content(objects.reader, found))


def numbered(start: int, count: int, width: int = 100) -> bytes:
    return b"".join(b'{"n":%d,"x":"%s"}\n' % (n, b"x" * width) for n in range(start, start + count))


def paths(objects: Objects, tree: Oid) -> dict[bytes, Oid]:
    return {path: entry.oid for path, entry in trees.walk(objects.reader, tree)}


# ---------------------------------------------------------------- any bytes in, the same bytes out

ODD = {
    "empty": b"",
    "one newline": b"\n",
    "no final newline": b'{"a":1}\n{"b":2}',
    "glued objects": b'{"a":1}{"b":2}\n{"c":3}{"d"\n',
    "invalid utf-8": b'{"a":"\xff\xfe\xc3"}\n\x80\x81\n',
    "nul bytes": b"\0\0\n\0",
    "carriage returns": b'{"a":1}\r\n\r\r\n{"b":2}\r',
    "big integers": b'{"a":123456789012345678901234567890,"b":1e400}\n',
    "duplicate keys": b'{"a":1,"a":2,"a":1}\n',
    "one document": b'{\n  "messages": [\n    {"role": "user"}\n  ]\n}',
    "a megabyte on one line": b'{"x":"' + b"y" * (1 << 20) + b'"}\n{"z":1}\n',
    "megabyte without any newline": b"z" * (1 << 20),
    "exactly one segment": b"q" * segments.LARGEST,
    "one byte more than a segment": b"q" * segments.LARGEST + b"\n",
    "line ends at the border": b"r" * (segments.LARGEST - 1) + b"\n" + b"s" * 10,
}


@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
def test_odd_bytes_come_back(objects: Objects, data: bytes) -> None:
    """Whatever a file holds, its segments joined are the file, after a flush too."""
    done = given_bytes(objects, data)
    objects.writer.flush()

    assert joined(Objects(objects.repo), done) == data
    assert (done.bytes, done.sha256, done.torn) == (len(data), hashlib.sha256(data).hexdigest(), 0)
    assert all(0 < s.size <= segments.LARGEST for s in done.segments) or data == b""


chunk = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"\n", b"\n\n", b'{"a":1}\n', b"x" * 70 + b"\n", b"y" * 200, b"\r\n"]),
)
body = st.lists(chunk, max_size=12).map(b"".join)
edit = st.tuples(st.floats(0, 1), st.floats(0, 1), body)


def edited(data: bytes, how: tuple[float, float, bytes]) -> bytes:
    """`data` with a part of it replaced; appended to, cut short and rewritten are cases of it."""
    start, end = sorted(round(place * len(data)) for place in how[:2])
    return data[:start] + how[2] + data[end:]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=body, edits=st.lists(st.one_of(edit, body.map(lambda b: (1.0, 1.0, b))), max_size=6))
def test_any_history_comes_back(
    objects: Objects,
    monkeypatch: pytest.MonkeyPatch,
    first: bytes,
    edits: list[tuple[float, float, bytes]],
) -> None:
    """Through any edits, each version comes back, and `kept` says exactly whether it begins with
    the one before.
    """
    monkeypatch.setattr(segments, "LARGEST", 64)
    monkeypatch.setattr(segments, "SMALL", 16)
    before, done = b"", given_bytes(objects, b"")
    for data in [first, *(edited(first, how) for how in edits)]:
        done = given_bytes(objects, data, done.segments)

        assert joined(objects, done) == data
        assert done.sha256 == hashlib.sha256(data).hexdigest()
        assert done.kept == (len(before) if data.startswith(before) else 0)
        assert max(s.size for s in done.segments) <= 64
        before = data


def test_plain_git_reads_it(project: Project, objects: Objects) -> None:
    """In the order in which git lists them, the files are the stream; git has nothing to complain
    of.
    """
    data, done = b"", given_bytes(objects, b"")
    for number in range(40):
        data += numbered(number * 50, 50)
        done = given_bytes(objects, data, done.segments)
    objects.writer.flush()
    names = project.git("ls-tree", "-r", "--name-only", done.tree).splitlines()
    blobs = [project.git("cat-file", "blob", f"{done.tree}:{name}") + "\n" for name in names]

    assert names[0] == "a/000000000000.jsonl"
    assert names[16].startswith("b/0/")
    assert names == sorted(names)
    assert "".join(blobs).encode() == data
    assert project.git("fsck", "--strict", "--no-dangling", "--no-progress") == ""


def test_content_from_an_offset(objects: Objects) -> None:
    """`content` can begin anywhere, inside a segment and at its border."""
    data = numbered(0, 6000)
    done = given_bytes(objects, data)
    border = done.segments[1].start

    assert len(done.segments) > 2
    for start in (0, 1, border - 1, border, border + 1, len(data) - 1, len(data)):
        assert b"".join(content(objects.reader, done.segments, start)) == data[start:]


# ---------------------------------------------------------------- only what is new


def test_segments_end_with_lines(objects: Objects) -> None:
    """New bytes are cut at line ends, as large as may be; a line that is too long is cut inside."""
    done = given_bytes(objects, numbered(0, 6000))
    long = given_bytes(objects, b"short\n" + b"x" * (segments.LARGEST + 5) + b"\nend\n")

    assert all(objects.reader.read_blob(s.oid).endswith(b"\n") for s in done.segments)
    assert all(s.size > segments.LARGEST - 200 for s in done.segments[:-1])
    assert [s.size for s in long.segments] == [6, segments.LARGEST, 10]
    empty = given_bytes(objects, b"\n" + b"x" * segments.LARGEST + b"\nend\n")
    assert [s.size for s in empty.segments] == [1, segments.LARGEST, 5]


def test_growth_shares_what_was_there(objects: Objects) -> None:
    """What is appended becomes one new segment; the old ones keep their ids and places."""
    old = numbered(0, 6000)
    first = given_bytes(objects, old)
    stored = objects.writer.new_bytes
    new = numbered(6000, 100)
    second = given_bytes(objects, old + new, first.segments)

    assert second.segments == (
        *first.segments,
        Segment(FORMAT.oid_of("blob", new), len(old), len(new)),
    )
    assert objects.writer.new_bytes - stored < len(new) + 500
    assert second.kept == len(old)


def test_same_again_stores_nothing(objects: Objects) -> None:
    """The same bytes give the same tree and no new object."""
    data = numbered(0, 6000)
    first = given_bytes(objects, data)
    stored = objects.writer.new_objects
    second = given_bytes(objects, data, first.segments)

    assert second == first._replace(kept=len(data))
    assert objects.writer.new_objects == stored


def test_short_last_segment_is_merged(objects: Objects) -> None:
    """A last segment under 4 KiB is taken up by what follows it, a larger one stays."""
    lines = [numbered(n, 1) for n in range(100)]
    done = given_bytes(objects, b"")
    for count in range(1, 101):
        done = given_bytes(objects, b"".join(lines[:count]), done.segments)

    assert joined(objects, done) == b"".join(lines)
    assert [s.size >= segments.SMALL for s in done.segments] == [True] * (
        len(done.segments) - 1
    ) + [False]
    assert 2 < len(done.segments) <= len(b"".join(lines)) // segments.SMALL + 1


def test_edit_in_the_middle_shares_both_ends(objects: Objects) -> None:
    """A line changed in the middle costs the segments around it; what lies behind is shared at its
    new offset.
    """
    lines = numbered(0, 20_000).splitlines(keepends=True)
    first = given_bytes(objects, b"".join(lines))
    lines[10_000] = b'{"edited":true}\n'
    lines.insert(10_001, b'{"and":"longer","than":"before, by some bytes"}\n' * 5)
    second = given_bytes(objects, b"".join(lines), first.segments)
    shared = {s.oid for s in first.segments} & {s.oid for s in second.segments}

    assert joined(objects, second) == b"".join(lines)
    assert len(first.segments) > 8
    assert len(shared) == len(first.segments) - 1
    assert second.segments[-1].oid == first.segments[-1].oid
    assert second.segments[-1].start != first.segments[-1].start
    assert second.kept == 0


def test_shared_segments_that_were_lost(
    project: Project, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What both have in common and the store has lost is written anew: the agent's file still has
    it.
    """
    monkeypatch.setattr(segments, "LARGEST", 64)
    monkeypatch.setattr(segments, "SMALL", 16)
    lines = [numbered(number, 1, 40) for number in range(5)]
    first = given_bytes(objects, b"".join(lines))
    objects.writer.flush()
    for segment in first.segments:
        project.git_dir.joinpath("objects", segment.oid[:2], segment.oid[2:]).unlink()

    lines[2] = b"changed\n"
    later = Objects(objects.repo)
    second = given_bytes(later, b"".join(lines), first.segments)
    later.writer.flush()

    shared = {segment.oid for segment in first.segments} & {
        segment.oid for segment in second.segments
    }
    assert shared > {first.segments[0].oid, first.segments[-1].oid}
    assert joined(Objects(objects.repo), second) == b"".join(lines)


def test_truncation_shares_the_front(objects: Objects) -> None:
    """A stream cut short keeps the segments it still has whole."""
    data = numbered(0, 10_000)
    first = given_bytes(objects, data)
    second = given_bytes(objects, data[: len(data) // 2], first.segments)

    assert joined(objects, second) == data[: len(data) // 2]
    assert second.segments[:-1] == first.segments[: len(second.segments) - 1]
    assert len(second.segments) > 1


def test_lost_beginning_shares_the_end(objects: Objects) -> None:
    """A stream without its first segment is the segments behind it, at their new offsets, and
    nothing new.
    """
    data = numbered(0, 10_000)
    first = given_bytes(objects, data)
    gone = first.segments[0].size
    second = given_bytes(objects, data[gone:], first.segments)

    assert len(first.segments) > 2
    assert joined(objects, second) == data[gone:]
    assert [(s.oid, s.start) for s in second.segments] == [
        (s.oid, s.start - gone) for s in first.segments[1:]
    ]


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(body, min_size=1, max_size=5), share=st.floats(0, 1))
def test_shortened(
    objects: Objects, monkeypatch: pytest.MonkeyPatch, parts: list[bytes], share: float
) -> None:
    """The first bytes of a stored stream are a stream, whose segments but the last are those that
    were there.
    """
    monkeypatch.setattr(segments, "LARGEST", 64)
    monkeypatch.setattr(segments, "SMALL", 16)
    done = given_bytes(objects, b"")
    for count in range(1, len(parts) + 1):
        done = given_bytes(objects, b"".join(parts[:count]), done.segments)
    size = round(share * done.bytes)
    short = segments.shorten(objects, done.segments, size)

    assert joined(objects, short) == b"".join(parts)[:size]
    assert (short.bytes, short.sha256) == (size, hashlib.sha256(b"".join(parts)[:size]).hexdigest())
    assert short.segments[:-1] == done.segments[: len(short.segments) - 1]
    assert (short.kept, short.torn) == (0, 0)


def test_shortened_everywhere(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it is cut, also right between two segments and at both ends, what comes back is the
    beginning.
    """
    monkeypatch.setattr(segments, "LARGEST", 8)
    data = b"one\ntwo\nthree\nfour and more\n"
    done = given_bytes(objects, data)
    assert len(done.segments) > 3

    for size in range(len(data) + 1):
        assert joined(objects, segments.shorten(objects, done.segments, size)) == data[:size]


def regrown(objects: Objects, data: bytes, parent: Cut) -> Cut | None:
    """What `grow` makes of a stream whose parent this is."""
    stored = (parent.tree, parent.bytes, parent.sha256)
    return segments.grow(objects, Source("main", data=data), *stored)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=body, edits=st.lists(st.one_of(edit, body.map(lambda b: (1.0, 1.0, b))), max_size=12))
def test_grown(
    objects: Objects,
    monkeypatch: pytest.MonkeyPatch,
    first: bytes,
    edits: list[tuple[float, float, bytes]],
) -> None:
    """What begins with its parent becomes the very tree that cutting it makes; anything else is
    left to that.
    """
    monkeypatch.setattr(segments, "LARGEST", 64)
    monkeypatch.setattr(segments, "SMALL", 16)
    before, parent = b"", given_bytes(objects, b"")
    for data in [first, *(edited(first, how) for how in edits), first * 30]:
        expected = given_bytes(objects, data, parent.segments)
        grown = regrown(objects, data, parent)

        if before and data.startswith(before):
            assert grown is not None
            count = len(grown.segments)
            assert grown == expected._replace(segments=expected.segments[-count:])
            assert grown.segments[0].start <= len(before)
        else:
            assert grown is None
        before, parent = data, expected


def test_growth_depends_on_what_is_new(objects: Meddling, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many segments there are, as many trees are read and objects written; each comes to
    lie where cutting the whole puts it.
    """
    monkeypatch.setattr(segments, "SMALL", 8)
    data = b"".join(b"line %04d\n" % number for number in range(600))
    small = [given_bytes(objects, b"")]
    for number in range(600):
        small.append(given_bytes(objects, data[: 10 * number + 10], small[-1].segments))
    costs = []
    for count in (20, 599):
        fresh, reads = Meddling(objects.repo), list[Oid]()
        objects.writer.flush()
        read_tree = fresh.reader.read_tree

        def noted(oid: Oid, read: Any = read_tree, reads: list[Oid] = reads) -> Any:
            reads.append(oid)
            return read(oid)

        def missing(oid: Oid, reads: list[Oid] = reads) -> bool:
            reads.append(oid)
            return False

        monkeypatch.setattr(fresh.reader, "read_tree", noted)
        monkeypatch.setattr(fresh.freshener, "freshen", missing)
        grown = regrown(fresh, data[: 10 * count + 10], small[count])
        assert grown is not None
        assert grown.tree == small[count + 1].tree
        assert grown.segments == small[count + 1].segments[-2:]
        costs.append(len(reads))
    assert costs[1] <= costs[0] + 4  # a tree deeper, read and written


def test_growth_of_what_others_wrote(objects: Objects) -> None:
    """A parent whose tree has other names, or none, is cut anew."""
    data = numbered(0, 100)
    blob = objects.writer.write_blob(data)
    for leaves in (
        {b"a/000000000007.jsonl": blob},
        {b"b/1/000000000000.jsonl": blob},
        {b"x": blob},
    ):
        tree = trees.build(
            objects.writer, trees.nest({path: Entry(FILE, oid) for path, oid in leaves.items()})
        )
        digest = hashlib.sha256(data).hexdigest()
        source = Source("main", data=data + b"more\n")
        assert segments.grow(objects, source, tree, len(data), digest) is None


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(body.filter(bool), min_size=1, max_size=8))
def test_appended(objects: Objects, monkeypatch: pytest.MonkeyPatch, parts: list[bytes]) -> None:
    """What is appended bit by bit is the stream that it would be if it had been given whole."""
    monkeypatch.setattr(segments, "LARGEST", 64)
    monkeypatch.setattr(segments, "SMALL", 16)
    tree, last = segments.write_tree(objects.writer, ()), b""
    known: tuple[Segment, ...] = ()
    for data in parts:
        tree, known, last = segments.append(objects, tree, known, last, data)
        assert last == objects.reader.read_blob(known[-1].oid)

    whole = b"".join(parts)
    assert (
        b"".join(content(objects.reader, read_segments(objects.reader, tree, len(whole)))) == whole
    )
    assert [segment.start for segment in known] == [
        sum(s.size for s in known[:n]) for n in range(len(known))
    ]


def test_emptied_and_filled_again(objects: Objects) -> None:
    """An empty stream is one empty leaf, and is replaced by what comes."""
    first = given_bytes(objects, b"something\n")
    second = given_bytes(objects, b"", first.segments)
    third = given_bytes(objects, b"else\n", second.segments)

    assert paths(objects, second.tree) == {b"a/000000000000.jsonl": FORMAT.oid_of("blob", b"")}
    assert joined(objects, second) == b""
    assert [s.size for s in third.segments] == [5]


def test_size_and_time_are_not_trusted(objects: Objects, tmp_path: Path) -> None:
    """A rewrite of the same size, with the time put back, is seen: segments are compared by their
    bytes.
    """
    path = tmp_path / "t.jsonl"
    path.write_bytes(numbered(0, 100))
    os.utime(path, ns=(10**18, 10**18))
    first = cut(objects, Source("main", path=path), ())
    path.write_bytes(numbered(0, 100).replace(b'"n":50', b'"n":99'))
    os.utime(path, ns=(10**18, 10**18))
    second = cut(objects, Source("main", path=path), first.segments)

    assert second.bytes == first.bytes
    assert joined(objects, second) == path.read_bytes()
    assert second.sha256 != first.sha256


def test_streams_do_not_mix(objects: Objects) -> None:
    """Streams that hold the same bytes share every object, and each comes back by itself."""
    data = numbered(0, 500)
    main = given_bytes(objects, data)
    stored = objects.writer.new_objects
    other = given_bytes(objects, data)
    tree = trees.build(
        objects.writer,
        trees.nest({b"main": Entry(0o040000, main.tree), b"agents/1": Entry(0o040000, other.tree)}),
    )
    found = trees.lookup(objects.reader, tree, b"agents/1")

    assert objects.writer.new_objects == stored + 2  # the two trees that hold the names
    assert found is not None
    assert (
        b"".join(content(objects.reader, read_segments(objects.reader, found.oid, len(data))))
        == data
    )


# ---------------------------------------------------------------- the tree


def test_depth_grows_and_places_stay(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    """16 segments lie in a/, the next 256 in b/, the next in c/; none ever moves, and a save
    rewrites a few trees.
    """
    monkeypatch.setattr(segments, "SMALL", 8)
    data, done, seen = b"", given_bytes(objects, b""), dict[bytes, Oid]()
    most = 0
    for number in range(300):
        data += b"line %04d\n" % number
        before = objects.writer.new_objects
        done = given_bytes(objects, data, done.segments)
        most = max(most, objects.writer.new_objects - before)
        now = paths(objects, done.tree)

        assert seen.items() <= now.items()
        seen = now

    assert len(done.segments) == 300
    assert list(seen) == sorted(seen)
    groups = [path.rpartition(b"/")[0] for path in seen]
    assert groups[:17] == [b"a"] * 16 + [b"b/0"]
    assert groups[271:273] == [b"b/f", b"c/0/0"]
    assert groups[-1] == b"c/0/1"
    # a blob, and trees on the way to it: the group, one above it, the level, the stream
    assert most <= 5
    assert joined(objects, done) == data


def test_place_of_a_far_segment() -> None:
    """The place follows from the number alone: capacities are 16, 256, 4096, 65536."""
    assert segments._path(16 + 256 + 4095, 7) == b"c/f/f/000000000007.jsonl"
    assert segments._path(16 + 256 + 4096, 7) == b"d/0/0/0/000000000007.jsonl"
    assert segments._path(16 + 256 + 4096 + 65535, 7) == b"d/f/f/f/000000000007.jsonl"


def tree_of(objects: Objects, leaves: dict[bytes, bytes]) -> Oid:
    return trees.build(
        objects.writer,
        trees.nest({p: Entry(FILE, objects.writer.write_blob(d)) for p, d in leaves.items()}),
    )


@pytest.mark.parametrize(
    ("leaves", "size"),
    [
        ({b"a/000000000000.jsonl": b"one\n"}, 0),
        ({b"a/000000000004.jsonl": b"one\n"}, 8),
        ({b"a/000000000000.jsonl": b"one\n", b"b/0/000000000000.jsonl": b"two\n"}, 8),
        ({b"a/000000000000.jsonl": b"one\n", b"a/000000000008.jsonl": b"two\n"}, 8),
        ({b"a/000000000009.jsonl": b"one\n", b"b/0/000000000000.jsonl": b"two\n"}, 8),
        ({b"a/000000000000.txt": b"one\n"}, 4),
        ({b"a/0.jsonl": b"one\n"}, 4),
        ({b"000000000000.jsonl": b"one\n"}, 4),
        ({}, 4),
        ({}, 0),
    ],
)
def test_tree_that_is_no_stream_is_refused(
    objects: Objects, leaves: dict[bytes, bytes], size: int
) -> None:
    """Names that do not cover the stream are damage, and never become a shorter or a shuffled
    conversation.
    """
    tree = tree_of(objects, leaves)
    with pytest.raises(StoreDamaged):
        read_segments(objects.reader, tree, size)


def test_segment_of_another_length_is_refused(objects: Objects) -> None:
    """A blob that is longer or shorter than its place says is damage."""
    tree = tree_of(objects, {b"a/000000000000.jsonl": b"one\n", b"a/000000000009.jsonl": b"two\n"})
    with pytest.raises(StoreDamaged, match="has 4 bytes instead of 9"):
        list(content(objects.reader, read_segments(objects.reader, tree, 13)))


def test_segment_is_read_up_to_its_size(objects: Objects) -> None:
    """A blob that is larger than its segment is not held in memory: a stranger may have sent it."""
    objects.writer.write_blob(bytes(64 << 20))
    objects.writer.flush()
    oid = objects.repo.object_format.oid_of("blob", bytes(64 << 20))
    tracemalloc.start()
    with pytest.raises(StoreDamaged, match="has more bytes than 13"):
        list(content(Objects(objects.repo).reader, [Segment(oid, 0, 13)]))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 16 << 20


def test_parent_with_enormous_segments_is_cut_anew(objects: Objects) -> None:
    """A segment larger than ours can be is not read into memory for the sake of sharing it."""
    data = b"x" * (segments.LARGEST + 1)
    foreign = Segment(objects.writer.write_blob(data), 0, len(data))
    done = given_bytes(objects, data, (foreign,))

    assert joined(objects, done) == data
    assert foreign not in done.segments


# ---------------------------------------------------------------- live transcripts


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        (b"one\ntwo\nthr", b"one\ntwo\n"),
        (b"one\n", b"one\n"),
        (b"torn", b""),
        (b"", b""),
        (b"\ntorn", b"\n"),
        (b"a\n" + b"x" * 600_000, b"a\n"),
        (b"\n" + b"x" * segments.LARGEST, b"\n"),
    ],
)
def test_torn_last_line_is_left_out(
    objects: Objects, tmp_path: Path, data: bytes, kept: bytes
) -> None:
    """A live transcript ends at its last complete line, and what was left out is counted; by hand
    it is kept.
    """
    path = tmp_path / "t.jsonl"
    path.write_bytes(data)
    live = cut(objects, Source("main", path=path, live=True), ())
    by_hand = cut(objects, Source("main", path=path), ())

    assert joined(objects, live) == kept
    assert (live.bytes, live.torn) == (len(kept), len(data) - len(kept))
    assert (joined(objects, by_hand), by_hand.torn) == (data, 0)


def test_torn_line_completed_later(objects: Objects, tmp_path: Path) -> None:
    """The line that was torn is whole in the next checkpoint, which begins with the one before."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"one\ntwo")
    first = cut(objects, Source("main", path=path, live=True), ())
    path.write_bytes(b"one\ntwo and more\n")
    second = cut(objects, Source("main", path=path, live=True), first.segments)

    assert joined(objects, second) == b"one\ntwo and more\n"
    assert (second.kept, second.torn) == (4, 0)


def test_an_end_that_is_given(objects: Objects, tmp_path: Path) -> None:
    """What the file has behind it is left out, and not called torn; a file that is shorter by now
    is not read.
    """
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"one\ntwo\nthree\n")
    done = cut(objects, Source("main", path=path, live=True, end=8), ())

    assert (joined(objects, done), done.torn) == (b"one\ntwo\n", 0)
    path.write_bytes(b"one\n")
    with pytest.raises(ConversationUnreadable, match="kept changing"):
        cut(objects, Source("main", path=path, live=True, end=8), ())


WRITER = """
import sys, time
with open(sys.argv[1], "ab", buffering=0) as file:
    for number in range(100_000):
        line = b'{"n":%d,"x":"%s"}\\n' % (number, b"x" * (number * 37 % 3000))
        half = len(line) // 2
        file.write(line[:half])
        if number % 7 == 0:
            time.sleep(0.0005)
        file.write(line[half:])
"""


def test_agent_writes_meanwhile(objects: Objects, tmp_path: Path) -> None:
    """While another process appends in halves of lines, each cut is whole lines that were really
    there, ever longer.
    """
    path = tmp_path / "t.jsonl"
    path.touch()
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)])
    cuts = [cut(objects, Source("main", path=path, live=True), ())]
    try:
        deadline = time.monotonic() + 200
        while not (len(cuts) > 40 and cuts[-1].bytes > 100_000 and any(c.torn for c in cuts)):
            assert time.monotonic() < deadline
            cuts.append(cut(objects, Source("main", path=path, live=True), cuts[-1].segments))
            time.sleep(0.005)
    finally:
        writer.kill()
        writer.wait()
    final = path.read_bytes()

    for before, done in pairwise(cuts):
        assert joined(objects, done) == final[: done.bytes]
        assert final[: done.bytes].endswith(b"\n") or done.bytes == 0
        assert done.kept == before.bytes


def test_file_rewritten_while_read(objects: Meddling, tmp_path: Path) -> None:
    """A file that becomes shorter under our eyes is read again, and what is stored is what it holds
    then.
    """
    path = tmp_path / "t.jsonl"
    path.write_bytes(numbered(0, 9000))
    objects.writer.meddle = lambda: path.write_bytes(b"rewritten\n")

    done = cut(objects, Source("main", path=path, live=True), ())

    assert joined(objects, done) == b"rewritten\n"


def test_file_that_never_stands_still(objects: Meddling, tmp_path: Path) -> None:
    """A file that keeps shrinking is given up after a few attempts, in words and without a
    checkpoint.
    """
    path = tmp_path / "t.jsonl"
    path.write_bytes(numbered(0, 30_000))
    objects.writer.meddle = lambda: os.truncate(path, path.stat().st_size - 1000)

    with pytest.raises(ConversationUnreadable, match="kept changing while it was read"):
        cut(objects, Source("main", path=path), ())


def test_file_that_vanishes_while_read(objects: Meddling, tmp_path: Path) -> None:
    """A file taken away while it is read is read to its end: what was opened is still there."""
    path = tmp_path / "t.jsonl"
    data = numbered(0, 9000)
    path.write_bytes(data)
    objects.writer.meddle = lambda: path.unlink(missing_ok=True)

    assert joined(objects, cut(objects, Source("main", path=path), ())) == data


def test_file_cut_short_and_taken_away(objects: Meddling, tmp_path: Path) -> None:
    """A file that was cut short and is gone at the next attempt is unreadable, not empty."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(numbered(0, 9000))

    def wreck() -> None:
        if path.exists():
            os.truncate(path, 10)
            path.unlink()

    objects.writer.meddle = wreck

    with pytest.raises(ConversationUnreadable):
        cut(objects, Source("main", path=path), ())


def test_tail_that_changes_while_the_middle_is_stored(objects: Meddling, tmp_path: Path) -> None:
    """A tail recognised from the back is read again before it is believed."""
    lines = numbered(0, 9000).splitlines(keepends=True)
    path = tmp_path / "t.jsonl"
    first = given_bytes(objects, b"".join(lines))
    lines[10] = b"edited\n"
    path.write_bytes(b"".join(lines))
    lines[-1] = lines[-1].replace(b"x", b"y")
    objects.writer.meddle = lambda: path.write_bytes(b"".join(lines))

    done = cut(objects, Source("main", path=path), first.segments)

    assert joined(objects, done) == b"".join(lines)
    assert done.sha256 == hashlib.sha256(b"".join(lines)).hexdigest()


# ---------------------------------------------------------------- what cannot be read


def test_missing_file(objects: Objects, tmp_path: Path) -> None:
    """A transcript that is not there is an error that names it and says what to do."""
    with pytest.raises(ConversationUnreadable, match=r"none\.jsonl does not exist") as caught:
        cut(objects, Source("main", path=tmp_path / "none.jsonl", live=True), ())

    assert caught.value.hint


def test_directory_fifo_and_loop(objects: Objects, tmp_path: Path) -> None:
    """A directory, a pipe that nobody writes to and a link in a circle are refused at once, in
    words.
    """
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    for name, reason in (
        (".", "is a directory"),
        ("pipe", "is not a regular file"),
        ("loop", "cannot be read"),
    ):
        with pytest.raises(ConversationUnreadable, match=reason):
            cut(objects, Source("main", path=tmp_path / name), ())


def test_source_of_nothing(objects: Objects) -> None:
    """A source with neither a file nor bytes is an error, not an empty conversation."""
    with pytest.raises(ConversationUnreadable, match="stream agents/1 has neither"):
        cut(objects, Source("agents/1"), ())


# ---------------------------------------------------------------- bounds


def test_memory_is_bounded(objects: Objects, tmp_path: Path) -> None:
    """A file of 100 MB is stored, and stored again with an edit in the middle, in less than 20 MB
    of memory.
    """
    path = tmp_path / "large.jsonl"
    block = numbered(0, 8000)
    with path.open("wb") as file:
        for number in range(100_000_000 // len(block)):
            file.write(b"%d\n" % number + block)
    tracemalloc.start()
    first = cut(objects, Source("main", path=path, live=True), ())
    with path.open("r+b") as file:
        file.seek(50_000_000)
        file.write(b"edited")
    second = cut(objects, Source("main", path=path, live=True), first.segments)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert first.bytes > 99_000_000
    assert len({s.oid for s in second.segments} - {s.oid for s in first.segments}) == 1
    assert peak < 20_000_000


def test_cost_of_many_small_saves(objects: Objects) -> None:
    """200 saves of a growing stream store less than three times what one save of the whole would,
    trees and all.
    """
    data = numbered(0, 8000)
    done = given_bytes(objects, b"")
    for number in range(1, 201):
        end = data.rindex(b"\n", 0, len(data) * number // 200) + 1
        done = given_bytes(objects, data[:end], done.segments)

    assert joined(objects, done) == data
    assert objects.writer.new_bytes < 3 * len(data)


@pytest.mark.parametrize("others", [0, 20, 400])
def test_segments_are_compressed_well(objects: Meddling, project: Project, others: int) -> None:
    """Segments take less space than other objects with the same bytes, loose, in a pack and in a
    pack that is streamed, and have the same names.
    """
    rng = random.Random(3)
    words = [rng.randbytes(3).hex() for _ in range(300)]
    sentences = [" ".join(rng.choices(words, k=8)) for _ in range(300)]
    data = "".join(f"{'. '.join(rng.choices(sentences, k=4))}\n" for _ in range(300)).encode()
    for number in range(others):
        objects.writer.write_blob(b"%d\n" % number * 1000)
    talk = cut(objects, Source("main", data=data), ()).segments[0].oid
    other = objects.writer.write_blob(data + b"\n")
    objects.writer.flush()

    lines = project.git(
        "cat-file",
        "--batch-check=%(objectname) %(objectsize:disk)",
        input=f"{talk}\n{other}\n".encode(),
    )
    sizes = dict(line.split() for line in lines.splitlines())

    assert talk == project.git("hash-object", "--stdin", input=data)
    assert int(sizes[talk]) < 0.9 * int(sizes[other])
    assert project.git("cat-file", "blob", talk).encode() == data.rstrip(b"\n")


def test_the_beginning_is_hashed_once(objects: Meddling, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that begin with those of the last save are compared with them, and only what is new is
    hashed; a changed beginning is noticed all the same.
    """
    monkeypatch.setattr(growing, "MOST", 50_000)
    objects.repo.growing_sum = growing.GrowingSum()
    hashed: list[int] = []
    monkeypatch.setattr(segments, "_blocks", counting_blocks(hashed))
    line = b"a line of the conversation\n"

    def grown(last: Cut, data: bytes) -> tuple[Cut | None, int]:
        hashed.clear()
        made = segments.grow(objects, Source("main", data=data), last.tree, last.bytes, last.sha256)
        return made, sum(hashed)

    first = cut(objects, Source("main", data=line * 1000), ())
    second, all_bytes = grown(first, line * 1010)
    assert second is not None
    assert all_bytes == len(line) * 1010
    third, new = grown(second, line * 1020)
    assert third is not None
    assert new == len(line) * 10
    assert third.sha256 == hashlib.sha256(line * 1020).hexdigest()
    assert grown(third, b"A" + line[1:] + line * 1029)[0] is None
    large, _ = grown(third, line * 2000)
    assert large is not None
    again, all_bytes = grown(large, line * 2001)
    assert again is not None
    assert again.sha256 == hashlib.sha256(line * 2001).hexdigest()
    assert all_bytes == len(line) * 2001


def counting_blocks(hashed: list[int]) -> Callable[..., Iterator[bytes]]:
    """Return `segments._blocks`, which also notes how many bytes it hashes."""
    real = segments._blocks

    def blocks(*args: Any) -> Iterator[bytes]:
        for data in real(*args):
            hashed.append(len(data))
            yield data

    return blocks
