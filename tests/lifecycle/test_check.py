"""Check: every changed byte is found, with the checkpoints it affects, and an untouched store is
clean.
"""

from __future__ import annotations

import gc
import os
import random
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from kinds import FORMAT, REFS, in_files
from thorough import sample

from gitcp import fingerprint, wire
from gitcp.git import refs, trees
from gitcp.git.reader import ObjectReader
from gitcp.lifecycle.check import CheckReport, StoreProblem, check
from gitcp.model import (
    FILE,
    GITLINK,
    TREE,
    Base,
    Checkpoint,
    CheckpointId,
    Entry,
    IndexEntry,
    Oid,
    Snapshot,
    Stream,
)
from gitcp.state import tag
from gitcp.store import METADATA, Store
from gitcp.value import replace

from driver import Project
from samples import START, open_store, plain, save, talk

LINES = [
    b'{"uuid":"%04d","text":"%s"}\n' % (n, bytes(random.Random(n).choices(b"abcdef ", k=400)))
    for n in range(40)
]

LOST = {
    "alpha@1": {"alpha@1"},
    "alpha@2": {"alpha@1", "alpha@2", "forked@1", "forked@2"},
    "alpha@3": {"alpha@"},
    "forked@3": {"forked@"},
    "manual-1@1": {"manual-1@1"},
    "manual-1@2": {"manual-1@"},
}
"""What is lost with a checkpoint's commit: itself, and those that only it leads to."""


@dataclass
class Kept:
    """A store with three sessions, one of them a fork, two tags, conversations of two streams, and
    staged files.
    """

    project: Project
    store: Store

    def check(self) -> CheckReport:
        """What is found when everything is read; what is read after the last check must be enough
        to find the same.
        """
        rest = check(open_store(self.project))
        whole = check(open_store(self.project), everything=True)
        assert replace(rest, unchanged=0) == whole
        return whole

    def path(self, oid: str) -> Path:
        return self.store.repo.common_dir / "objects" / oid[:2] / oid[2:]

    def tip(self, session: str) -> Checkpoint:
        tip = self.store.tip(session)
        assert tip is not None
        return self.store.read(tip)

    def holders(self) -> dict[Oid, set[str]]:
        """Every object that git finds in a checkpoint, and the ids of the checkpoints that hold
        it.
        """
        found: dict[Oid, set[str]] = defaultdict(set)
        for session in self.store.sessions():
            for commit in self.project.git("rev-list", f"refs/gitcp/sessions/{session}").split():
                listed = self.project.git(
                    "ls-tree", "-r", "-t", "--format=%(objecttype) %(objectname)", commit
                )
                below = [
                    line.split()[1] for line in listed.splitlines() if not line.startswith("commit")
                ]
                for oid in (commit, self.project.git("rev-parse", f"{commit}^{{tree}}"), *below):
                    found[Oid(oid)].add(str(self.store.read(Oid(commit)).id))
        return found


@pytest.fixture
def kept(project: Project) -> Kept:
    store = open_store(project)
    found = Kept(project, store)
    for number in range(1, 4):
        files = {
            b"same.txt": b"same\n",
            b"src/a.py": b"a = %d\n" % number,
            b"src/deep/b.py": b"b\n",
        }
        streams = {"main": b"".join(LINES[: number * 10]), "agents/one": b"".join(LINES[:number])}
        made = save(store, "alpha", files, streams, label=f"step {number}")
        if number == 2:
            tag.create(store, "v1", made, text="words", force=False, now=START)
            assert store.move_ref(refs.SESSIONS + "forked", None, made.commit)
            save(
                store,
                "forked",
                {b"own.txt": b"own\n"},
                {"main": b"".join(LINES[:25])},
                forked_from=made.id,
            )
    staged = IndexEntry(b"s/t.txt", FILE, store.writer.write_blob(b"staged\n"))
    conflict = IndexEntry(b"s/u.txt", FILE, store.writer.write_blob(b"theirs\n"), 3)
    blob = Entry(FILE, store.writer.write_blob(b"f"))
    tree = trees.build(store.writer, {b"m": Entry(GITLINK, Oid("5" * FORMAT.digits)), b"f": blob})
    save(
        store,
        "manual-1",
        snapshot=Snapshot(tree, Base(None, "main"), 1, staged=(staged,), conflicts=(conflict,)),
    )
    tag.create(store, "v2", save(store, "manual-1", {}), text="words", force=False, now=START)
    return found


@contextmanager
def changed(path: Path, data: bytes | None) -> Iterator[None]:
    """The file with other bytes, or gone; afterwards as it was."""
    before, mode = path.read_bytes(), path.stat().st_mode
    path.unlink()
    if data is not None:
        path.write_bytes(data)
    yield
    path.unlink(missing_ok=True)
    path.write_bytes(before)
    path.chmod(mode)


def flipped(data: bytes, place: int, mask: int) -> bytes:
    place %= len(data)
    return data[:place] + bytes([data[place] ^ mask]) + data[place + 1 :]


def damages(data: bytes) -> Iterator[bytes | None]:
    """The file with one byte changed, here and there; cut off; empty; gone."""
    half = len(data) // 2
    yield from (flipped(data, place, 0xFF) for place in (1, half, -1))
    yield from (flipped(data, place, 0x01) for place in (0, half + 1, -5))
    yield from (data[:-1], data[:half], b"", None)


def named(report: CheckReport, name: str) -> set[str]:
    """The checkpoints that are said to be affected by `name`, about which alone there is a
    problem.
    """
    assert {problem.object for problem in report.problems} == {name}
    return {id for problem in report.problems for id in problem.checkpoints}


# ---------------------------------------------------------------- sound


def test_an_untouched_store(kept: Kept) -> None:
    """Nothing is wrong, only that is recorded, and what is counted is what git counts."""
    with kept.project.guard():
        before = set(kept.store.repo.common_dir.rglob("*"))
        report = check(kept.store)
        written = set(kept.store.repo.common_dir.rglob("*")) - before
        assert [path.name for path in written] == ["verified"]

    assert report == CheckReport(checkpoints=6, objects=len(kept.holders()) + 2, problems=())
    assert report.ok


@pytest.mark.parametrize(
    "how", [["repack", "-adq"], ["gc", "--quiet"], ["pack-refs", "--all"]], ids=" ".join
)
def test_a_packed_store(kept: Kept, how: list[str]) -> None:
    """Packing objects and refs changes nothing about what is found."""
    before = kept.check()
    kept.project.git(*how)

    assert kept.check() == before


def test_what_did_not_change_is_not_read_again(kept: Kept) -> None:
    """Of a pack that was verified nothing is read, touched or not; what came since is."""
    kept.project.git("-c", "gc.cruftPacks=false", "gc", "--quiet")
    first = check(open_store(kept.project))
    assert (first.ok, first.unchanged) == (True, 0)
    [pack] = kept.project.git_dir.glob("objects/pack/*.pack")
    os.utime(pack)
    kept.project.write("new.txt", "new\n")
    kept.project.gitcp("save", "--session", "alpha", check=0)

    names: list[Oid] = []
    read_each = ObjectReader.read_each

    def noting(reader: ObjectReader, oids: Iterable[Oid]) -> Iterator[object]:
        names.extend(wanted := list(oids))
        return read_each(reader, wanted)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ObjectReader, "read_each", noting)
        report = check(open_store(kept.project))

    assert (report.ok, report.checkpoints, report.unchanged) == (True, 7, first.objects)
    assert 0 < len(names) < 20


def test_a_bit_that_changed_with_its_times_unchanged(kept: Kept) -> None:
    """A disk that forgets tells nobody: reading everything finds it, and it alone can."""
    kept.project.git("-c", "gc.cruftPacks=false", "gc", "--quiet")
    assert check(open_store(kept.project)).ok
    known = fingerprint.at
    [pack] = kept.project.git_dir.glob("objects/pack/*.pack")
    before = known(str(pack))
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 1
    pack.chmod(0o644)
    pack.write_bytes(data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprint, "at", lambda path: before if path == str(pack) else known(path))
        assert check(open_store(kept.project)).ok
        assert not check(open_store(kept.project), everything=True).ok
    assert not check(open_store(kept.project)).ok


def test_objects_that_vanished_since(kept: Kept) -> None:
    """What was intact and is gone is missed, though no new checkpoint needs it."""
    kept.project.git("-c", "gc.cruftPacks=false", "gc", "--quiet")
    assert check(open_store(kept.project)).ok
    for path in kept.project.git_dir.glob("objects/pack/*.idx"):
        path.rename(path.with_suffix(".away"))
    assert not check(open_store(kept.project)).ok


def test_a_repository_without_checkpoints(project: Project) -> None:
    """There is nothing to read and nothing wrong."""
    project.write("a", "a")
    project.commit()

    assert check(open_store(project)) == CheckReport(0, 0, ())


def test_gcs_own_refs_are_sound(kept: Kept) -> None:
    """Fetched sessions and tags, and the trash, are checked as well; a ref's lock that a crash left
    is no damage.
    """
    git = kept.project.git
    git("update-ref", "refs/gitcp/remotes/origin/sessions/alpha", kept.tip("alpha").commit)
    git("update-ref", "refs/gitcp/remotes/origin/tags/v1", git("rev-parse", "refs/gitcp/tags/v1"))
    git("update-ref", "refs/gitcp/trash/20261102T090000/manual-1", kept.tip("manual-1").commit)
    if REFS == "files":
        kept.store.repo.common_dir.joinpath("refs/gitcp/sessions/alpha.lock").touch()

    assert kept.check().problems == ()
    assert kept.check().checkpoints == 6


# ---------------------------------------------------------------- damaged objects


@pytest.mark.faults
def test_every_damage_of_every_loose_object(kept: Kept) -> None:
    """Whatever byte of whatever object is changed, it is found, and exactly its checkpoints are
    named.
    """
    kept.project.loosen()
    for oid, ids in kept.holders().items():
        path = kept.path(oid)
        commit = kept.project.git("cat-file", "-t", oid) == "commit"
        wanted = LOST[next(iter(ids))] if commit else ids
        for data in sample(damages(path.read_bytes()), 3):
            with changed(path, data):
                assert named(kept.check(), oid) == wanted

    assert kept.check().ok


def test_every_damage_of_a_tag(kept: Kept) -> None:
    """A tag object that is damaged is found; its checkpoint is not affected."""
    for name in ("v1", "v2"):
        oid = kept.project.git("rev-parse", f"refs/gitcp/tags/{name}")
        for data in damages(kept.path(oid).read_bytes()):
            with changed(kept.path(oid), data):
                assert named(kept.check(), oid) == set()

    assert kept.check().ok


@pytest.mark.faults
def test_every_bit_of_a_loose_object(project: Project) -> None:
    """Also the bits that compression leaves unused, which reading cannot see."""
    store = open_store(project)
    kept, unused = Kept(project, store), 0
    contents = (b"same\n", random.Random(7).randbytes(40))
    save(store, "bits", {b"%d" % number: content for number, content in enumerate(contents)})
    for content in contents:
        path = kept.path(oid := store.writer.write_blob(content))
        data = path.read_bytes()
        for place in sample(range(len(data)), 12):
            for bit in range(8):
                new = flipped(data, place, 1 << bit)
                unused += _unpacked(new) == _unpacked(data)
                with changed(path, new):
                    assert named(kept.check(), oid) == {"bits@1"}

    assert unused > 0
    assert kept.check().ok


def _unpacked(data: bytes) -> bytes | None:
    try:
        return zlib.decompress(data)
    except zlib.error:
        return None


@pytest.mark.parametrize(
    "strategy", [zlib.Z_DEFAULT_STRATEGY, zlib.Z_FIXED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE]
)
def test_objects_that_others_compressed(kept: Kept, strategy: int) -> None:
    """An object that another program packed in another way is not taken for a damaged one."""
    kept.project.loosen()
    objects = kept.holders()
    for level in sample(range(10), 4):
        for oid in objects:
            content = zlib.decompress(kept.path(oid).read_bytes())
            packer = zlib.compressobj(level, strategy=strategy, memLevel=level or 9)
            kept.path(oid).chmod(0o644)
            kept.path(oid).write_bytes(
                packer.compress(content[:9]) + packer.compress(content[9:]) + packer.flush()
            )

        assert kept.check().problems == ()


@pytest.mark.faults
def test_every_part_of_a_pack_and_its_index(kept: Kept) -> None:
    """In packs too every changed byte is found, whether an object of ours uses it or not."""
    kept.project.git("-c", "gc.cruftPacks=false", "gc", "--quiet")
    packs = kept.store.repo.common_dir / "objects" / "pack"
    files = [*packs.glob("*.pack"), *packs.glob("*.idx"), *packs.parent.glob("info/commit-graph")]
    assert len(files) == 3
    choose = random.Random(3)
    for path in files:
        data = path.read_bytes()
        for place in [
            0,
            5,
            9,
            *choose.sample(range(12, len(data) - 20), 8),
            len(data) - 20,
            len(data) - 1,
        ]:
            for mask in (0xFF, 0x01):
                with changed(path, flipped(data, place, mask)):
                    problems = kept.check().problems
                    assert str(path.relative_to(kept.store.repo.common_dir)) in {
                        p.object for p in problems
                    }
        for new in (data[:-1], data[: len(data) // 2], data[:10], b""):
            with changed(path, new):
                assert not kept.check().ok

    assert kept.check().ok


def test_a_pack_names_whom_it_affects(kept: Kept) -> None:
    """An object in a pack that cannot be read is named like a loose one, with its checkpoints."""
    kept.project.git("-c", "gc.cruftPacks=false", "gc", "--quiet")
    place = next((kept.store.repo.common_dir / "objects" / "pack").glob("*.idx"))
    oid = kept.project.git("rev-parse", "refs/gitcp/sessions/alpha:src/a.py")
    listed = kept.project.git("verify-pack", "-v", str(place)).splitlines()
    offset = next(int(line.split()[4]) for line in listed if line.startswith(oid))
    path = place.with_suffix(".pack")
    gc.collect()
    with changed(path, flipped(path.read_bytes(), offset + 4, 0xFF)):
        problems = {problem.object: set(problem.checkpoints) for problem in kept.check().problems}

    assert problems == {oid: {"alpha@3"}, str(path.relative_to(kept.store.repo.common_dir)): set()}


@pytest.mark.faults
def test_every_unused_bit_of_a_packed_object(project: Project) -> None:
    """A bit of a pack that reading cannot see is found, with the checkpoints whose object it lies
    in.
    """
    store = open_store(project)
    kept, tried = Kept(project, store), 0
    contents = (b"same\n", random.Random(7).randbytes(40), b"long " * 99)
    save(store, "bits", {b"%d" % number: content for number, content in enumerate(contents)})
    project.git("repack", "-adq")
    index = next((store.repo.common_dir / "objects" / "pack").glob("*.idx"))
    path = index.with_suffix(".pack")
    data = path.read_bytes()
    rows = [line.split() for line in project.git("verify-pack", "-v", str(index)).splitlines()]
    for oid, size, start in [
        (row[0], int(row[3]), int(row[4])) for row in rows if row[1:2] == ["blob"]
    ]:
        packed = data[start : start + size]
        body = next(place for place, byte in enumerate(packed) if byte < 0x80) + 1
        for place in range(body, size):
            for bit in range(8):
                if _unpacked(flipped(packed, place, 1 << bit)[body:]) == _unpacked(packed[body:]):
                    tried += 1
                    gc.collect()
                    with changed(path, flipped(data, start + place, 1 << bit)):
                        problems = {
                            problem.object: set(problem.checkpoints)
                            for problem in kept.check().problems
                        }
                    assert problems == {
                        oid: {"bits@1"},
                        str(path.relative_to(store.repo.common_dir)): set(),
                    }

    assert tried > 0
    assert kept.check().ok


def test_a_damaged_pack_of_somebody_else(kept: Kept) -> None:
    """A pack without a single object of ours is the user's own business."""
    kept.project.write("a", random.Random(1).randbytes(999))
    oid = kept.project.git("rev-parse", f"{kept.project.commit()}:a")
    packs = kept.store.repo.common_dir / "objects" / "pack"
    name = kept.project.git("pack-objects", "-q", str(packs / "pack"), input=oid.encode())
    path = packs / f"pack-{name}.pack"
    with changed(path, flipped(path.read_bytes(), 100, 0xFF)):
        assert kept.check().ok


def test_objects_that_lie_in_an_alternate(kept: Kept, tmp_path: Path) -> None:
    """What a store borrows from another repository is read and checked there."""
    clone = Project(tmp_path / "clone")
    clone.git(
        "fetch",
        "--quiet",
        str(kept.project.root),
        "refs/gitcp/sessions/alpha:refs/gitcp/sessions/alpha",
    )
    objects = clone.git_dir / "objects"
    borrowed = tmp_path / "borrowed"
    objects.rename(borrowed)
    objects.joinpath("info").mkdir(parents=True)
    objects.joinpath("info", "alternates").write_text(f"{borrowed}\n")
    assert check(open_store(clone)).problems == ()

    oid = clone.git("rev-parse", "refs/gitcp/sessions/alpha:src/a.py")
    path = borrowed / oid[:2] / oid[2:]
    for data in damages(path.read_bytes()):
        with changed(path, data):
            assert named(check(open_store(clone)), oid) == {"alpha@3"}


def test_nothing_stops_at_the_first_damage(kept: Kept) -> None:
    """Many kinds of damage at once are as many problems, each with its own checkpoints."""
    kept.project.loosen()
    git = kept.project.git
    gone = {
        git("rev-parse", f"refs/gitcp/sessions/alpha:{name}"): name
        for name in ("same.txt", "src/a.py", "src/deep")
    }
    gone[git("rev-parse", "refs/gitcp/sessions/alpha:.gitcp/checkpoint.json")] = "metadata"
    gone[git("rev-parse", "refs/gitcp/sessions/manual-1~1:.gitcp/staged/s/t.txt")] = "staged"
    gone[git("rev-parse", "refs/gitcp/sessions/forked")] = "commit"
    gone[git("rev-parse", "refs/gitcp/tags/v2")] = "tag"
    for oid in gone:
        kept.path(oid).unlink()
    git("update-ref", "refs/gitcp/other", kept.tip("manual-1").commit)
    garbage: dict[str, set[str]] = {}
    if REFS == "files":
        sessions = kept.store.repo.common_dir / "refs/gitcp/sessions"
        sessions.joinpath("garbage").write_text("garbage\n")
        sessions.joinpath("dangling").write_text("1" * FORMAT.digits + "\n")
        garbage["refs/gitcp/sessions/garbage"] = {"garbage@"}
        garbage["1" * FORMAT.digits] = {"dangling@"}
    found = {
        gone.get(problem.object, problem.object): set(problem.checkpoints)
        for problem in kept.check().problems
    }

    assert found == {
        "same.txt": {"alpha@1", "alpha@2", "alpha@3"},
        "src/deep": {"alpha@1", "alpha@2", "alpha@3"},
        "src/a.py": {"alpha@3"},
        "metadata": {"alpha@3"},
        "staged": {"manual-1@1"},
        "commit": {"forked@"},
        "tag": set(),
        "refs/gitcp/other": set(),
        **garbage,
    }


# ---------------------------------------------------------------- damaged refs


@in_files
@pytest.mark.faults
@pytest.mark.parametrize("name", ["sessions/alpha", "sessions/forked", "tags/v1"])
def test_every_byte_of_a_ref(kept: Kept, name: str) -> None:
    """A ref that holds garbage, or an object that is not there, is found; other sessions are not
    affected.
    """
    path = kept.store.repo.common_dir / "refs" / "gitcp" / name
    data = path.read_bytes()
    every = [flipped(data, place, mask) for place in range(len(data)) for mask in (0xFF, 0x01)]
    for new in (
        *sample(every, 15),
        data[:20],
        b"",
    ):
        with changed(path, new):
            problems = kept.check().problems
            assert len(problems) == 1
            assert set(problems[0].checkpoints) == (
                {f"{path.name}@"} if name.startswith("sessions") else set()
            )

    assert kept.check().ok


@in_files
@pytest.mark.faults
def test_every_byte_of_packed_refs(kept: Kept) -> None:
    """A changed byte in any of our lines of packed-refs is found, wherever in the line it is."""
    kept.project.git("pack-refs", "--all")
    path = kept.store.repo.common_dir / "packed-refs"
    data = path.read_bytes()
    for place in sample(range(data.index(b"\n"), len(data)), 80):
        with changed(path, flipped(data, place, (0xFF, 0x01)[place % 2])):
            assert not kept.check().ok, place
    with changed(path, data[:-1]):
        assert not kept.check().ok

    assert kept.check().ok


@in_files
def test_a_ref_hides_what_is_packed(kept: Kept) -> None:
    """What packed-refs says of a ref that has moved since does not count, as it does not count for
    git.
    """
    kept.project.git("pack-refs", "--all")
    path = kept.store.repo.common_dir / "packed-refs"
    old = kept.tip("alpha").commit
    save(kept.store, "alpha", {b"a": b"new"})
    path.write_bytes(path.read_bytes().replace(old.encode(), b"1" * FORMAT.digits))

    assert kept.check().ok


def test_a_session_under_another_name(kept: Kept) -> None:
    """A ref that is on another session's checkpoint is found; a tag object under another name
    too.
    """
    git = kept.project.git
    git("update-ref", "refs/gitcp/sessions/other", kept.tip("alpha").commit)
    git("update-ref", "refs/gitcp/remotes/origin/sessions/other", kept.tip("alpha").commit)
    git("update-ref", "refs/gitcp/tags/v9", git("rev-parse", "refs/gitcp/tags/v1"))
    problems = {problem.object: problem.checkpoints for problem in kept.check().problems}

    assert problems == {
        "refs/gitcp/sessions/other": ("alpha@3",),
        "refs/gitcp/remotes/origin/sessions/other": ("alpha@3",),
        "refs/gitcp/tags/v9": (),
    }


def test_a_ref_on_something_else(kept: Kept) -> None:
    """A commit of the user's own, a tree and a blob are no checkpoints."""
    kept.project.write("a", "a")
    commit = kept.project.commit()
    for rev in (commit, f"{commit}^{{tree}}", f"{commit}:a"):
        oid = kept.project.git("rev-parse", rev)
        before = kept.store.repo.refs.read("refs/gitcp/sessions/odd")
        assert kept.store.repo.refs.update("refs/gitcp/sessions/odd", Oid(oid), before)

        assert named(kept.check(), oid) == {"odd@"}


# ---------------------------------------------------------------- whole objects that do not agree


def problems_of(
    kept: Kept, checkpoint: Checkpoint, metadata: bytes | None = None
) -> tuple[StoreProblem, ...]:
    """What is wrong when this checkpoint is what a session of its own holds, with other metadata if
    given.
    """
    store = kept.store
    made = store.commit(checkpoint, "")
    if metadata is not None:
        holder = trees.lookup(store.reader, made.root, b".gitcp")
        assert holder is not None
        inside = [e for e in store.reader.read_tree(holder.oid) if e.name != METADATA]
        tree = store.writer.write_tree(
            [*inside, trees.TreeEntry(METADATA, FILE, store.writer.write_blob(metadata))]
        )
        root = store.writer.write_tree([trees.TreeEntry(b".gitcp", TREE, tree)])
        commit = store.writer.write("commit", store._commit_object(made, root))
        store.writer.flush()
        made = replace(made, commit=commit)
    kept.project.git("update-ref", f"refs/gitcp/sessions/{checkpoint.id.session}", made.commit)
    return kept.check().problems


def test_numbers_must_rise(kept: Kept) -> None:
    """A number that is not greater than the one before is found."""
    before = kept.tip("manual-1")
    for number in (2, 1):
        (problem,) = problems_of(kept, plain("manual-1", number, parent=before.commit))

        assert problem.checkpoints == (f"manual-1@{number}",)
        assert "increase" in problem.what


def test_a_chain_stays_in_its_session(kept: Kept) -> None:
    """A checkpoint that comes after another session's without being its fork is found."""
    before = kept.tip("alpha")
    (problem,) = problems_of(kept, plain("stranger", 9, parent=before.commit))
    assert problem.checkpoints == ("stranger@9",)

    assert (
        problems_of(kept, plain("stranger", 9, parent=before.commit, forked_from=before.id)) == ()
    )


def test_metadata_of_another_checkpoint(kept: Kept) -> None:
    """Metadata and trailers must be of one checkpoint."""
    made = plain("mixed")
    (problem,) = problems_of(
        kept, made, wire.encode_checkpoint(replace(made, id=CheckpointId("mixed", 7)))
    )

    assert problem.checkpoints == ("mixed@1",)
    assert "mixed@7" in problem.what


@pytest.mark.parametrize("metadata", [b"", b"{}", b"[]", b"\xff", b'{"format": 99}', b"[" * 9999])
def test_metadata_that_is_none(kept: Kept, metadata: bytes) -> None:
    """Metadata that is garbage, or of a later format, is a problem of its checkpoint and stops
    nothing.
    """
    (problem,) = problems_of(kept, plain("mixed"), metadata)

    assert problem.checkpoints == ("mixed@1",)
    assert kept.check().checkpoints == 7


def streams_of(kept: Kept, stream: Stream | None) -> tuple[StoreProblem, ...]:
    made = talk(kept.store, {"main": LINES[0], "agents/one": LINES[1]})
    streams = (made.streams[0], stream or made.streams[1])
    return problems_of(kept, plain("talk", conversation=replace(made, streams=streams)))


def test_streams_match_their_checksums(kept: Kept) -> None:
    """A conversation whose length or checksum is another one, or of which a stream is missing, is
    found.
    """
    assert streams_of(kept, None) == ()
    good = talk(kept.store, {"agents/one": LINES[1]}).streams[0]
    for bad in (
        replace(good, bytes=good.bytes + 1),
        replace(good, bytes=0),
        replace(good, sha256="0" * 64),
        replace(good, name="agents/two"),
        replace(good, name="agents"),
    ):
        (problem,) = streams_of(kept, bad)

        assert problem.checkpoints == ("talk@1",)


def test_a_grown_stream_is_checked_to_its_end(kept: Kept) -> None:
    """What is known of the checkpoint before is used only as far as it is the same."""
    store = kept.store
    long, edited = b"".join(LINES) * 40, b"x" + b"".join(LINES) * 40
    for number, data in enumerate((long, long + LINES[0], edited, edited[:-9], long), 1):
        save(store, "grown", {}, {"main": data, "agents/one": data[:99]}, label=f"{number}")
    assert kept.check().ok

    last = kept.tip("grown")
    assert last.conversation is not None
    streams = (
        replace(last.conversation.streams[0], sha256="1" * 64),
        *last.conversation.streams[1:],
    )
    draft = replace(last, id=CheckpointId("grown", 6), parent=last.commit)
    (problem,) = problems_of(
        kept, replace(draft, conversation=replace(last.conversation, streams=streams))
    )
    assert problem.checkpoints == ("grown@6",)


def test_a_segment_twice(project: Project) -> None:
    """A conversation's tree with two entries of one name is damage, wherever the second one is."""
    store = open_store(project)
    save(store, "alpha", streams={"main": b"".join(LINES)})
    before = store.read(store.sessions()["alpha"])
    assert before.conversation is not None
    (main,) = store.reader.read_tree(before.conversation.tree)
    (level,) = store.reader.read_tree(main.oid)
    entries = store.reader.read_tree(level.oid)
    twice = store.writer.write("tree", trees.serialised([*entries, entries[-1]])[1])
    for name in (level.name, main.name):
        twice = store.writer.write_tree([trees.TreeEntry(name, TREE, twice)])
    talked = replace(before.conversation, tree=twice)
    draft = replace(before, id=CheckpointId("alpha", 2), parent=before.commit)
    store.advance(store.commit(replace(draft, conversation=talked), "", None))

    report = check(open_store(project))
    assert [each.what for each in report.problems] == ["the tree has two entries of one name"]
    assert report.problems[0].checkpoints == ("alpha@2",)


def test_an_empty_conversation(project: Project) -> None:
    """A conversation without a byte is whole, and so are those that go on from it."""
    store = open_store(project)
    for lines in range(3):
        save(store, "alpha", streams={"main": b"".join(LINES[:lines])})

    assert check(open_store(project)).ok
