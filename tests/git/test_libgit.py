"""What libgit2 reads is what git reads; what would crash it, or what it cannot open, git reads."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from kinds import FORMAT

from gitcp.errors import StoreDamaged
from gitcp.git import libgit
from gitcp.git.libgit import LibgitObjects, objects_in
from gitcp.git.object_format import MOST_WHOLE, SHA1
from gitcp.git.reader import MOST_BY_GIT
from gitcp.model import Oid

from driver import SOURCE, Project
from samples import open_store

pytestmark = pytest.mark.skipif(FORMAT is not SHA1, reason="libgit2 reads SHA-1 names")


@pytest.fixture
def packed(project: Project) -> Project:
    """A project with objects of every kind in one pack."""
    for number in range(40):
        project.write(f"d{number % 3}/{number}", f"file {number}\n" * 50)
    project.commit()
    project.git("tag", "-a", "-m", "one", "v1")
    project.git("repack", "-adq")
    project.git("pack-refs", "--all")
    return project


def names(project: Project) -> list[Oid]:
    return [
        Oid(line.split()[0])
        for line in project.git("cat-file", "--batch-all-objects", "--batch-check").splitlines()
    ]


def by_git(project: Project, oid: Oid) -> tuple[str, bytes]:
    return open_store(project).reader.read(oid)


def objects(project: Project) -> LibgitObjects:
    return LibgitObjects(project.git_dir / "objects")


def index_of(project: Project) -> Path:
    (path,) = project.git_dir.joinpath("objects/pack").glob("*.idx")
    return path


def test_what_git_reads(packed: Project) -> None:
    """Every packed object, the same as by git; a loose one is not libgit2's to read."""
    known = names(packed)
    read = objects(packed)

    assert {(read.read(oid) or ("",))[0] for oid in known} == {"blob", "commit", "tag", "tree"}
    assert [read.read(oid) for oid in known] == [by_git(packed, oid) for oid in known]
    packed.write("loose", "loose\n")
    assert read.read(Oid(packed.git("hash-object", "-w", "loose"))) is None


@pytest.mark.parametrize("left", range(1, 140, 6))
def test_a_loose_object_that_is_cut_off(packed: Project, left: int) -> None:
    """It keeps libgit2 1.9.7 busy for ever."""
    packed.write("loose", "".join(f"{number} " for number in range(300)))
    loose = Oid(packed.git("hash-object", "-w", "loose"))
    path = packed.git_dir / "objects" / loose[:2] / loose[2:]
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:left])
    store = open_store(packed)
    store.repo.read_by_libgit2()
    with pytest.raises(StoreDamaged):
        store.reader.read(loose)


def test_what_git_has_to_say(packed: Project) -> None:
    """A missing object, and one whose content is not that of its name: errors in git's words."""
    store = open_store(packed)
    store.repo.read_by_libgit2()
    assert store.repo.libgit is not None
    with pytest.raises(StoreDamaged, match="is missing"):
        store.reader.read(Oid("1" * 40))

    packed.write("loose", "loose\n")
    loose = Oid(packed.git("hash-object", "-w", "loose"))
    path = packed.git_dir / "objects" / loose[:2] / loose[2:]
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-4] + b"\0\0\0\0")
    assert store.repo.libgit.read(loose) is None
    with pytest.raises(StoreDamaged):
        store.reader.read(loose)


def test_a_large_blob_is_left_to_git(packed: Project) -> None:
    """libgit2 would hold it as a whole."""
    packed.write("large", "x" * (MOST_WHOLE + 1))
    large = Oid(packed.git("hash-object", "-w", "large"))
    assert objects(packed).small_blob(large) is None
    store = open_store(packed)
    store.repo.read_by_libgit2()
    assert dict(store.reader.verify_blobs([large], 100)) == {large: None}
    assert sum(map(len, store.reader.stream_blob(large))) == MOST_WHOLE + 1


READING = """
import sys
from pathlib import Path
from gitcp.git import libgit
from gitcp.model import Oid
objects = libgit.LibgitObjects(Path(sys.argv[1]))
print(sum(objects.read(Oid(name)) is None for name in sys.argv[2].split()))
"""


def test_an_offset_behind_the_pack(packed: Project) -> None:
    """The index that crashes libgit2 1.9.7, with a right checksum, is left to git, which says that
    the object is damaged.
    """
    path, known = index_of(packed), names(packed)
    data = bytearray(path.read_bytes())
    count = int.from_bytes(data[8 + 255 * 4 : 8 + 256 * 4])
    offsets = 8 + 1024 + count * 24
    for number in range(count):
        data[offsets + 4 * number : offsets + 4 * number + 4] = (53_454_791).to_bytes(4)
    data[-20:] = hashlib.sha1(data[:-20], usedforsecurity=False).digest()
    path.chmod(0o600)
    path.write_bytes(data)

    done = subprocess.run(
        [sys.executable, "-c", READING, packed.git_dir / "objects", " ".join(known)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, f"{len(known)}\n"), done.stderr
    store = open_store(packed)
    store.repo.read_by_libgit2()
    with pytest.raises(StoreDamaged):
        store.reader.read(known[0])


@pytest.mark.parametrize("change", ["checksum", "cut off", "empty", "version"])
def test_a_damaged_index(packed: Project, change: str) -> None:
    """It is never opened by libgit2."""
    path, known = index_of(packed), names(packed)
    data = bytearray(path.read_bytes())
    path.chmod(0o600)
    if change == "checksum":
        data[-1] ^= 1
    elif change == "version":
        data[7] = 1
    path.write_bytes({"cut off": bytes(data[:-30]), "empty": b""}.get(change, bytes(data)))
    read = objects(packed)
    assert [read.read(oid) for oid in known] == [None] * len(known)


def test_a_multi_pack_index(packed: Project) -> None:
    """It has offsets of its own, and is git's to read."""
    known = names(packed)
    packed.git("multi-pack-index", "write")
    assert objects(packed).read(known[0]) is None


def test_packs_come_and_go(packed: Project) -> None:
    """What is packed meanwhile is read, by whoever has read before."""
    read, (first, *_) = objects(packed), names(packed)
    assert read.read(first) == by_git(packed, first)
    packed.write("new", "new\n")
    packed.commit()
    packed.git("repack", "-adfq", "--depth=3")
    packed.git("prune-packed")
    for oid in names(packed):
        assert read.read(oid) == by_git(packed, oid)


def test_an_alternate(packed: Project, tmp_path: Path) -> None:
    """Objects of the repository from which one was cloned are read; if its index is damaged, all
    are git's to read.
    """
    packed.git("clone", "-qs", str(packed.root), str(tmp_path / "clone"))
    clone, known = Project(tmp_path / "clone"), names(packed)
    assert objects(clone).read(known[0]) == by_git(packed, known[0])
    path = index_of(packed)
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    assert objects(clone).read(known[0]) is None


def test_threads_and_children(packed: Project) -> None:
    """Eight threads, and a forked child that reads after its parent has."""
    read, known = objects_in(packed.git_dir / "objects"), names(packed)
    expected = [by_git(packed, oid) for oid in known]
    wrong: list[object] = []

    def compare() -> None:
        for _ in range(20):
            wrong.extend(
                oid for oid, whole in zip(known, expected, strict=True) if read.read(oid) != whole
            )

    threads = [threading.Thread(target=compare) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []

    if (child := os.fork()) == 0:
        os._exit(0 if [read.read(oid) for oid in known] == expected else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert [read.read(oid) for oid in known] == expected


IMPORTING = """
import os, sys
from pathlib import Path
from gitcp.git import libgit
from gitcp.model import Oid
before = dict(os.environ)
print(libgit.LibgitObjects(Path(sys.argv[1])).read(Oid(sys.argv[2]))[0], dict(os.environ) == before)
"""


@pytest.mark.parametrize("content", [None, "", "no certificate\n"])
def test_no_certificates(packed: Project, tmp_path: Path, content: str | None) -> None:
    """pygit2 raises when it is imported where OpenSSL finds none: here it is, all the same, and the
    environment stays as it was.
    """
    file = tmp_path / "certificates"
    if content is not None:
        file.write_text(content)
    env = {
        **os.environ,
        "PYTHONPATH": str(SOURCE),
        "SSL_CERT_FILE": str(file),
        "SSL_CERT_DIR": str(tmp_path / "missing"),
    }
    known = names(packed)
    plain = subprocess.run([sys.executable, "-c", "import pygit2"], env=env, capture_output=True)
    assert plain.returncode == 1
    done = subprocess.run(
        [sys.executable, "-c", IMPORTING, packed.git_dir / "objects", known[0]],
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"{by_git(packed, known[0])[0]} True\n", done.stderr


def test_without_pygit2(packed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its import raises, git reads."""
    monkeypatch.setitem(sys.modules, "pygit2", None)
    store, known = open_store(packed), names(packed)
    monkeypatch.setattr(libgit, "objects_in", LibgitObjects)
    store.repo.read_by_libgit2()
    assert store.reader.read(known[0]) == by_git(packed, known[0])


def test_after_a_hundred_objects(packed: Project) -> None:
    """A command that reads few packed objects does not load it; one that reads many goes on by
    it.
    """
    oids = [
        Oid(oid)
        for oid in packed.git("rev-list", "--objects", "--all", "--no-object-names").split()
    ]
    store = open_store(packed)
    for number in range(MOST_BY_GIT - 1):
        store.reader.read(oids[number % len(oids)])
    assert store.repo.libgit is None
    store.reader.read(oids[0])
    assert store.repo.libgit is not None
