"""Objects come out of packs as git put them in, whatever deltas lie between; what is damaged is
left to others.
"""

from __future__ import annotations

import random
import subprocess

import pytest

from gitcp.git.packs import indexes, oid_of
from gitcp.git.unpack import read_packed
from gitcp.model import Oid

from driver import Project
from samples import open_store


@pytest.fixture
def packed(project: Project) -> Project:
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


def every_object(project: Project) -> dict[str, tuple[str, bytes]]:
    """What git says of every object it has."""
    listed = project.git(
        "cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)"
    ).split("\n")
    pairs = (line.split(" ") for line in listed)
    return {
        oid: (
            kind,
            subprocess.run(
                ["git", "cat-file", kind, oid], cwd=project.root, capture_output=True
            ).stdout,
        )
        for oid, kind in pairs
    }


def test_every_object_of_a_pack(packed: Project) -> None:
    """Byte for byte what `git cat-file` prints, deltas by offset and large objects included."""
    (index,) = indexes(packed.root / ".git/objects")
    objects = every_object(packed)
    assert {kind for kind, _ in objects.values()} == {"blob", "commit", "tag", "tree"}
    verified = packed.git("verify-pack", "-v", str(index.pack))
    assert "chain length = 10" in verified

    def base(oid: Oid) -> tuple[str, bytes]:
        raise AssertionError(f"{oid} was not to be asked for")

    for oid, expected in objects.items():
        assert read_packed(index, Oid(oid), base) == expected
    assert read_packed(index, Oid("0" * 40), base) is None


def test_deltas_by_name(packed: Project) -> None:
    """A thin pack, completed, names its bases by oid."""
    objects = every_object(packed)
    made = subprocess.run(
        ["git", "pack-objects", "--revs", "--no-delta-base-offset", "--all", "--stdout", "-q"],
        cwd=packed.root,
        input=b"",
        capture_output=True,
        check=True,
    )
    other = Project(packed.root.parent / "other")
    other.git("index-pack", "--stdin", input=made.stdout)
    store = open_store(other)
    asked = []
    (index,) = indexes(other.root / ".git/objects")

    def base(oid: Oid) -> tuple[str, bytes]:
        asked.append(oid)
        return store.objects.read(oid)

    for oid, expected in objects.items():
        assert read_packed(index, Oid(oid), base) == expected
    assert asked


def test_a_store_reads_packs_without_git(packed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ordinary way never needs it."""
    store = open_store(packed)
    monkeypatch.setattr("gitcp.git.objects.Objects._ask_git", None)
    for oid, expected in every_object(packed).items():
        assert store.objects.read(Oid(oid)) == expected


def test_a_damaged_pack_gives_nothing_wrong(packed: Project) -> None:
    """Whatever byte is changed, an object is what its name says or it is not given at all."""
    (index,) = indexes(packed.root / ".git/objects")
    objects = every_object(packed)
    data = bytearray(index.pack.read_bytes())
    index.pack.chmod(0o644)
    rng = random.Random(2)

    def base(oid: Oid) -> tuple[str, bytes]:
        return objects[oid]

    for _ in range(60):
        place = rng.randrange(12, len(data) - 20)
        changed = (
            bytes(data[:place])
            + bytes([data[place] ^ rng.randrange(1, 256)])
            + bytes(data[place + 1 :])
        )
        index.pack.write_bytes(changed)
        for oid in rng.sample(sorted(objects), 40):
            found = read_packed(index, Oid(oid), base)
            assert found is None or oid_of(*found) == oid


def test_an_index_that_leads_out_of_itself(packed: Project) -> None:
    """An index that says of an object that its place stands further on, where nothing is, gives
    nothing.
    """
    idx = next(packed.root.glob(".git/objects/pack/*.idx"))
    data = bytearray(idx.read_bytes())
    count = int.from_bytes(data[8 + 1020 : 8 + 1024], "big")
    offsets = 8 + 1024 + 24 * count
    data[offsets : offsets + 4 * count] = b"\xff\xff\xff\xf0" * count
    idx.chmod(0o644)
    idx.write_bytes(data)
    (index,) = indexes(packed.root / ".git/objects")

    for name in index.names():
        assert read_packed(index, Oid(name.hex()), open_store(packed).objects.read) is None
