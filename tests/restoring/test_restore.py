"""Going back: what comes back to the byte, what is never deleted, when it is refused."""

from __future__ import annotations

import errno
import os
import random
import shutil
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from back import (
    contents,
    finish,
    identities,
    kept,
    last,
    numbered,
    outside,
    plan,
    redo,
    restore,
    save,
    undo,
)

from gitcp.errors import BadValue, DiskFull, Refused, StoreBusy, StoreDamaged
from gitcp.fastpath import answer, stat_check
from gitcp.git import trees
from gitcp.model import Checkpoint, NestedRepository, Note, Oid, Skip, SkipReason, Trigger
from gitcp.restoring import restore as op
from gitcp.restoring.apply import BATCH
from gitcp.restoring.plan import Side
from gitcp.restoring.restore import RestoreRequest
from gitcp.state import journal
from gitcp.value import replace
from gitcp.worktree.blobs import WrittenFile
from gitcp.worktree.paths import problem
from gitcp.worktree.snapshot import Limits
from gitcp.worktree.writer import PreparedWrite, Writer

from driver import Project
from samples import open_store

ODD = (
    b"caf\xc3\xa9",
    b"\xff\xfe",
    b"new\nline",
    b"-n",
    b"sp ace",
    b'quo"te',
    b"tab\t",
    b"*.py",
    b"\xf0\x9f\x8e\x89",
)


def bring_back(project: Project, target: Checkpoint, **fields: Any) -> dict[bytes, str]:
    """Restore under guard, insist that all came back, and return what was left alone."""
    with project.guard():
        report = restore(project, target, **fields)
    assert not report.failed, report.kept
    return kept(report)


# ---------------------------------------------------------------- byte for byte


def test_edited_deleted_created(project: Project) -> None:
    """An edited file comes back, a deleted one too, and a created one goes with its directory."""
    project.write("edited", "old\n")
    project.write("src/deleted", "here\n")
    project.commit()
    project.write("untracked", "also\n")
    before, target = contents(project), save(project)
    project.write("edited", "new\n")
    project.remove("src")
    project.remove("untracked")
    project.write("made/deep/created", "x\n")

    assert bring_back(project, target) == {}
    assert contents(project) == before


def test_modes(project: Project) -> None:
    """Permission bits come back, with the content and without it: 0600, 0755, 0640, and from an odd
    mode to none.
    """
    project.write("secret", "s\n", mode=0o600)
    project.write("run", "r\n", mode=0o755)
    project.write("group", "g\n", mode=0o640)
    project.write("plain", "p\n")
    project.write("locked", "l\n", mode=0o400)
    before, target = contents(project), save(project)
    os.chmod(project.path("secret"), 0o644)
    project.write("run", "other\n", mode=0o644)
    project.remove("group")
    os.chmod(project.path("plain"), 0o600)
    project.remove("locked")
    project.write("locked", "longer\n", mode=0o666)

    assert sorted(plan(project, target).paths) == [b"group", b"locked", b"plain", b"run", b"secret"]
    bring_back(project, target)

    assert contents(project) == before


def test_owner(project: Project) -> None:
    """A file that is replaced stays its owner's: root in a container, say, takes nobody's files
    away.
    """
    others = os.geteuid() == 0
    project.write("a", "old\n")
    project.write("ours", "old\n")
    target = save(project)
    project.write("a", "new\n", mode=0o640)
    project.write("ours", "new\n")
    if others:
        os.chown(project.path("a"), 4711, 815)

    bring_back(project, target)

    found = os.stat(project.path("a"))
    assert (found.st_uid, found.st_gid) == (
        (4711, 815) if others else (os.geteuid(), os.stat(project.root).st_gid)
    )
    assert project.read("a") == b"old\n"
    assert os.stat(project.path("ours")).st_uid == os.geteuid()


def test_symlinks(project: Project) -> None:
    """Links come back as links, wherever they point, and what they point to is not touched."""
    away = outside(project, "away")
    for name, to in {
        "good": "a",
        "broken": "nowhere",
        "absolute": str(away),
        "up": "../away",
    }.items():
        project.symlink(name, to)
    project.write("a", "a\n")
    before, target = contents(project), save(project)
    for name in ("good", "broken"):
        project.remove(name)
        project.symlink(name, "elsewhere")
    project.remove("absolute")
    project.remove("up")
    project.write("up", "a file now\n")

    bring_back(project, target)

    assert contents(project) == before
    assert away.read_text() == "outside\n"


def test_empty_directories(project: Project) -> None:
    """Empty directories come back, and those made since go again; one that has got files is
    emptied.
    """
    os.makedirs(project.path("a/b/c"))
    os.makedirs(project.path("filled"))
    before, target = contents(project), save(project)
    shutil.rmtree(project.root / "a")
    os.makedirs(project.path("later/on"))
    project.write("filled/file", "x\n")

    bring_back(project, target)

    assert contents(project) == before


@pytest.mark.parametrize("first", ["file", "directory", "symlink", "empty"])
@pytest.mark.parametrize("second", ["file", "directory", "symlink", "empty", "nothing"])
def test_type_swaps(project: Project, first: str, second: str) -> None:
    """A name that was one kind of thing and is another becomes the first again, and the second by
    undo.
    """
    if first == second:
        pytest.skip("no swap")
    outside(project, "target/file")
    make: dict[str, Callable[[], object]] = {
        "file": lambda: project.write("name", "file\n"),
        "directory": lambda: project.write("name/deep/file", "in it\n"),
        "symlink": lambda: project.symlink("name", "../target"),
        "empty": lambda: os.makedirs(project.path("name/empty")),
        "nothing": lambda: None,
    }
    project.write("other", "x\n")
    make[first]()
    before, target = contents(project), save(project)
    project.remove("name")
    make[second]()
    after = contents(project)

    bring_back(project, target)
    assert contents(project) == before
    with project.guard():
        undo(project)
    assert contents(project) == after
    assert (project.root.parent / "target/file").read_text() == "outside\n"


def test_odd_names(project: Project) -> None:
    """Names of any bytes, tracked and not, in odd directories too: edited, deleted, created."""
    for name in ODD:
        project.write(name, b"in " + name)
        project.write(b"dir-" + name + b"/" + name, name)
    project.commit()
    before, target = contents(project), save(project)
    for name in ODD[::2]:
        project.remove(name)
        project.write(b"dir-" + name + b"/" + name, b"changed")
    for name in ODD[1::2]:
        project.write(name, b"changed")
        project.write(name + b".new/" + name, b"created")

    bring_back(project, target)

    assert contents(project) == before


@pytest.mark.parametrize(
    ("attributes", "data"),
    [
        ("*.t text eol=crlf\n", b"one\r\ntwo\r\n"),
        ("*.t text eol=crlf\n", b"mixed\r\nlines\n"),
        ("*.t text=auto\n", b"crlf\r\nkept\r\n"),
        ("*.t ident\n", b"$Id$\n"),
        ("*.t ident\n", b"$Id: 0123456789012345678901234567890123456789 $\n"),
        ("*.t working-tree-encoding=UTF-16\n", b"\xff\xfe" + "grün\n".encode("utf-16-le")),
        ("*.t filter=other\n", b"filtered\n"),
    ],
)
def test_conversions(project: Project, attributes: str, data: bytes) -> None:
    """What git would convert comes back with the bytes it had, whatever git's attributes say
    today.
    """
    project.write(".gitattributes", attributes)
    project.write("file.t", data)
    project.commit()
    target = save(project)
    project.write("file.t", b"something else\n")
    project.write(".gitattributes", "* -text\n")

    bring_back(project, target)

    assert project.read("file.t") == data
    assert project.read(".gitattributes") == attributes.encode()


def test_autocrlf_set_later(project: Project) -> None:
    """A setting changed after the save changes nothing of what comes back."""
    project.write("file", "one\ntwo\n")
    project.commit()
    target = save(project)
    project.remove("file")
    project.git("config", "core.autocrlf", "true")

    bring_back(project, target)

    assert project.read("file") == b"one\ntwo\n"


def lfs_project(project: Project, data: bytes) -> tuple[Path, bytes]:
    """A tracked file that git has as an LFS pointer, with its object in the repository; the object,
    and the pointer.
    """
    from hashlib import sha256

    name = sha256(data).hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{name}\nsize {len(data)}\n".encode()  # noqa: E501
    held = project.git_dir / "lfs/objects" / name[:2] / name[2:4] / name
    held.parent.mkdir(parents=True)
    held.write_bytes(data)
    project.write(".gitattributes", "*.big filter=lfs -text\n")
    project.write("file.big", pointer)
    project.git("-c", "filter.lfs.clean=", "add", "--all")
    project.git("commit", "--quiet", "--message", "a pointer")
    project.write("file.big", data)
    return held, pointer


def test_lfs(project: Project) -> None:
    """A file that git has as an LFS pointer comes back from the LFS store."""
    data = bytes(range(256)) * 400
    _, pointer = lfs_project(project, data)
    target = save(project)
    project.write("file.big", b"other")

    assert [c.lfs for c in target.snapshot.converted] == [True], pointer
    report = restore(project, target)

    assert not report.failed
    assert project.read("file.big") == data


def test_lfs_object_is_gone(project: Project) -> None:
    """Without its LFS object a file stays as it is, which is said before and after, and the others
    come back.
    """
    held, _ = lfs_project(project, b"large\n" * 1000)
    os.chmod(project.path("file.big"), 0o600)
    project.write("other", "old\n")
    target = save(project)
    project.write("file.big", b"other", 0o644)
    project.write("other", "new\n")
    held.unlink()

    assert "LFS" in kept(plan(project, target))[b"file.big"]
    report = restore(project, target)

    assert report.failed
    assert "LFS" in kept(report)[b"file.big"]
    assert (project.read("file.big"), project.files()[b"file.big"].mode) == (b"other", 0o644)
    assert project.read("other") == b"old\n"


def test_lfs_object_is_damaged(project: Project) -> None:
    """An LFS object of the right size with other bytes is not written."""
    held, _ = lfs_project(project, b"large\n" * 1000)
    target = save(project)
    project.write("file.big", b"other")
    held.write_bytes(b"LARGE\n" * 1000)

    report = restore(project, target)

    assert report.failed
    assert project.read("file.big") == b"other"
    assert not [name for name in os.listdir(project.root) if name.startswith(".gitcp-tmp")]


def test_untouched_files_keep_inode_and_mtime(project: Project) -> None:
    """Only files that differ are written."""
    for number in range(30):
        project.write(f"d{number % 3}/{number}", f"{number}\n")
    target = save(project)
    project.write("d0/0", "changed\n")
    project.remove("d1/1")
    before = identities(project)

    report = restore(project, target)
    after = identities(project)

    assert sorted(report.written) == [b"d0/0", b"d1/1"]
    assert {path for path in after if after[path] != before.get(path)} == {b"d0/0", b"d1/1"}


def test_hard_links(project: Project) -> None:
    """A file with another name outside is not written through; two names inside come back as two
    files.
    """
    project.write("one", "old\n")
    project.write("two", "old\n")
    project.write("three", "old\n")
    target = save(project)
    away = outside(project, "away", "new\n")
    for name in ("one", "two"):
        project.remove(name)
        os.link(away, project.path(name))
    project.remove("three")
    os.link(project.path("two"), project.path("created"))
    project.write("made", "made\n")
    os.link(project.path("made"), project.path("made too"))

    bring_back(project, target)

    assert {name: project.read(name) for name in ("one", "two", "three")} == dict.fromkeys(
        ("one", "two", "three"), b"old\n"
    )
    assert not {b"created", b"made", b"made too"} & project.files().keys()
    assert away.read_text() == "new\n"
    assert away.stat().st_nlink == 1


def test_everything_as_it_was(project: Project) -> None:
    """A restore that has nothing to do does nothing: no checkpoint, nothing to undo."""
    project.write("a", "a\n")
    target = save(project)

    with project.guard():
        report = restore(project, target)

    assert (report.checkpoint, report.written, report.failed) == (None, (), False)
    assert last(project) == target
    with pytest.raises(Refused, match="no restore to undo"):
        undo(project)


@pytest.mark.faults
def test_a_large_file_is_streamed(project: Project) -> None:
    """A tracked file of many chunks comes back; in the object store it is loose, and then in a
    pack.
    """
    data = os.urandom(1 << 20) * 9
    project.write("large", data)
    project.write("small", "s\n")
    project.commit()
    target = save(project)
    for packed in (False, True):
        if packed:
            project.git("gc", "--quiet")
        project.write("large", b"cut")
        bring_back(project, target)
        assert project.read("large") == data


# ---------------------------------------------------------------- never deleted


def test_ignored_by_rules_of_now(project: Project) -> None:
    """A file ignored now, though not then, stays, and so does everything in an ignored
    directory.
    """
    project.write("a", "a\n")
    target = save(project)
    project.write(".gitignore", ".env\nbuild/\n")
    project.write(".env", "SECRET\n")
    project.write("build/out", "o\n")

    bring_back(project, target)

    assert project.read(".env") == b"SECRET\n"
    assert project.read("build/out") == b"o\n"
    assert b".gitignore" not in project.files()


def test_ignored_by_rules_of_then(project: Project) -> None:
    """A file that the rules of then would have left out may have been there then: it stays, and it
    is said.
    """
    project.write(".gitignore", "*.log\n")
    target = save(project)
    project.write(".gitignore", "")
    project.write("app.log", "now captured\n")
    project.write("sub/deep.log", "too\n")

    left = bring_back(project, target)

    assert left == {b"app.log": "ignored", b"sub/deep.log": "ignored"}
    assert project.read("app.log") == b"now captured\n"
    assert project.read(".gitignore") == b"*.log\n"


def test_nested_rules_of_then(project: Project) -> None:
    """The rules of then are those of all its .gitignore files, negations too."""
    project.write(".gitignore", "*.log\n")
    project.write("sub/.gitignore", "!kept.log\n")
    target = save(project)
    project.remove(".gitignore")
    project.remove("sub")
    project.write("sub/kept.log", "k\n")
    project.write("sub/other.log", "o\n")

    assert bring_back(project, target) == {b"sub/other.log": "ignored"}
    assert b"sub/kept.log" not in project.files()


def test_rules_for_directories_alone(project: Project) -> None:
    """A rule that ends with `/` covers a directory, an empty one too, and no file of that name."""
    project.write(".gitignore", "file/\nempty/\n")
    target = save(project)
    project.write(".gitignore", "")
    project.write("file", "captured\n")
    os.makedirs(project.path("empty"))

    assert bring_back(project, target) == {}
    assert set(contents(project)) == {b".gitignore", b"empty"}


def test_tracked_but_ignored(project: Project) -> None:
    """A tracked file that the rules ignore is brought back, and is not removed where the target
    lacks it.
    """
    project.write("a", "a\n")
    early = save(project)
    project.write(".gitignore", "*.log\n")
    project.write("t.log", "tracked\n")
    project.git("add", "--force", "t.log", ".gitignore")
    late = save(project)
    project.write("t.log", "edited\n")

    bring_back(project, late)
    assert project.read("t.log") == b"tracked\n"
    assert bring_back(project, early) == {b"t.log": "ignored"}
    assert project.read("t.log") == b"tracked\n"


def test_ignored_in_a_directory_that_was_a_file(project: Project) -> None:
    """Where a file must come back and a directory with something ignored stands, the directory
    stays with it.
    """
    project.write("name", "a file\n")
    target = save(project)
    project.remove("name")
    project.write(".gitignore", "*.o\n")
    project.write("name/kept.o", "object\n")
    project.write("name/gone.c", "source\n")

    with project.guard():
        report = restore(project, target)

    assert report.failed
    assert "name/kept.o" in kept(report)[b"name"]
    assert project.read("name/kept.o") == b"object\n"


def test_ignored_file_in_the_way_of_a_directory(project: Project) -> None:
    """An ignored file stands where a directory was: it stays, the files below cannot come back, the
    rest does.
    """
    project.write("name/file", "in it\n")
    project.write("other", "old\n")
    target = save(project)
    project.remove("name")
    project.write("name", "ignored now\n")
    project.write(".gitignore", "/name\n")
    project.write("other", "new\n")

    with project.guard():
        report = restore(project, target)

    assert report.failed
    assert kept(report) == {b"name/file": "name is in the way and not captured"}
    assert project.read("name") == b"ignored now\n"
    assert project.read("other") == b"old\n"


def test_what_is_in_the_way_keeps_its_permissions(project: Project) -> None:
    """An ignored file where the checkpoint has a directory does not get the directory's."""
    project.write("e/k", "k\n")
    os.chmod(project.path("e"), 0o711)
    project.gitcp("save", "one", check=0)
    project.remove("e")
    project.write("e", "mine\n", 0o640)
    project.write(project.git_dir / "info/exclude", "e\n")
    done = project.gitcp("restore", "1", "--yes", check=3)
    assert "e/k  (e is in the way and not captured)" in done.out
    assert os.stat(project.path("e")).st_mode & 0o777 == 0o640


def test_ignored_symlink_in_the_way_of_a_directory(project: Project) -> None:
    """An ignored link that leads outside is not followed and not replaced."""
    away = outside(project, "away/file")
    project.write("name/file", "in it\n")
    target = save(project)
    project.remove("name")
    project.symlink("name", "../away")
    project.write(".gitignore", "/name\n")

    with project.guard():
        report = restore(project, target)

    assert report.failed
    assert kept(report) == {b"name/file": "name is in the way and not captured"}
    assert os.readlink(project.path("name")) == b"../away"
    assert away.read_text() == "outside\n"


def test_symlinked_parent_leading_outside(project: Project) -> None:
    """A captured link in the place of a directory is replaced; nothing is written or removed
    through it.
    """
    away = outside(project, "away/file")
    outside(project, "away/new")
    project.write("name/file", "in it\n")
    target = save(project)
    project.remove("name")
    project.symlink("name", "../away")

    bring_back(project, target)

    assert project.read("name/file") == b"in it\n"
    assert not os.path.islink(project.path("name"))
    assert away.read_text() == "outside\n"
    assert sorted(os.listdir(away.parent)) == ["file", "new"]


def test_ignored_file_where_a_captured_one_was(project: Project) -> None:
    """An ignored file is not overwritten by what was captured under its name; if it is the same,
    nothing is said.
    """
    project.write("data", "captured\n")
    project.write("same", "same\n")
    target = save(project)
    project.write(".gitignore", "data\nsame\n")
    project.write("data", "not captured\n")

    with project.guard():
        report = restore(project, target)

    assert report.failed
    assert kept(report) == {b"data": "something that is not captured is there"}
    assert project.read("data") == b"not captured\n"


def test_too_large_now(project: Project) -> None:
    """An untracked file that has grown past the limit is not in the safety checkpoint: it is not
    overwritten.
    """
    project.write("data", "small\n")
    target = save(project)
    project.write("data", b"x" * 2000)

    report = restore(project, target, limits=Limits(max_untracked_file=1000))

    assert report.failed
    assert kept(report) == {b"data": "not captured now (too-large)"}
    assert len(project.read("data")) == 2000


def test_too_large_then(project: Project) -> None:
    """A path that was skipped then is not removed for being absent."""
    project.write("data", b"x" * 2000)
    target = save(project, limits=Limits(max_untracked_file=1000))
    project.write("data", "small now\n")

    assert bring_back(project, target) == {b"data": "not captured then (too-large)"}
    assert project.read("data") == b"small now\n"


def test_unreadable_file(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be read now is neither overwritten nor removed."""
    project.write("secret", "old\n")
    target = save(project)
    project.write("secret", "newer\n")
    project.write("also", "made\n")
    with monkeypatch.context() as patch:
        refuse_reading(patch, b"secret", b"also")
        report = restore(project, target)

    assert report.failed
    assert kept(report) == {b"secret": "not captured now (unreadable)"}
    assert project.read("secret") == b"newer\n"
    assert project.read("also") == b"made\n"


def refuse_reading(monkeypatch: pytest.MonkeyPatch, *names: bytes) -> None:
    """Let files of these names be unreadable, which for root no permission makes them."""
    plain = os.open

    def refusing(path: Any, *args: Any, **named: Any) -> int:
        if isinstance(path, bytes | str) and os.path.basename(os.fsencode(path)) in names:
            raise PermissionError(13, "Permission denied", path)
        return plain(path, *args, **named)

    monkeypatch.setattr(os, "open", refusing)


def test_nested_repository(project: Project) -> None:
    """A repository inside is neither entered nor replaced: whether it is there now, or was there
    then.
    """
    project.write("lib/file", "plain then\n")
    plain = save(project)
    project.remove("lib")
    nested = Project(project.root / "lib", own_store=False)
    nested.write("file", "of the nested one\n")
    nested.commit()
    nesting = save(project)
    before = nested.files()

    with project.guard():
        report = restore(project, plain)
    assert report.failed
    assert kept(report) == {b"lib/file": "inside another repository"}
    assert nested.files() == before

    shutil.rmtree(project.root / "lib")
    project.write("lib/file", "plain again\n")
    assert bring_back(project, nesting) == {b"lib/file": "inside what was then another repository"}
    assert project.read("lib/file") == b"plain again\n"


def test_empty_directory_where_a_nested_repository_is(project: Project) -> None:
    """An empty directory is not made inside another repository."""
    os.makedirs(project.path("lib/empty"))
    target = save(project)
    shutil.rmtree(project.root / "lib")
    nested = Project(project.root / "lib", own_store=False)
    nested.commit()

    report = restore(project, target)

    assert report.failed
    assert kept(report) == {b"lib/empty": "inside another repository"}
    assert nested.files() == {}


def test_file_where_a_nested_repository_is(project: Project) -> None:
    """A repository is not removed for a file that was captured in its place, nor where it lies
    deeper.
    """
    project.write("lib", "a file then\n")
    project.write("deep", "too\n")
    target = save(project)
    for place in ("lib", "deep/down"):
        project.remove(place.partition("/")[0])
        nested = Project(project.root / place, own_store=False)
        nested.write("file", "nested\n")
        nested.commit()

    with project.guard():
        report = restore(project, target)

    assert report.failed
    assert kept(report)[b"lib"] == "inside another repository"
    assert "not captured" in kept(report)[b"deep"]
    for place in ("lib", "deep/down"):
        assert project.read(f"{place}/file") == b"nested\n"


def test_submodule(project: Project) -> None:
    """A submodule stays at its commit with its files, whether a restore goes to before it or to an
    older one.
    """
    library = Project(project.root.parent / "library", own_store=False)
    library.write("file", "one\n")
    first = library.commit()
    project.write("sub/file", "no submodule yet\n")
    before = save(project)
    project.remove("sub")
    project.git(
        "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library.root), "sub"
    )
    project.commit()
    old = save(project)
    library.write("file", "two\n")
    library.commit()
    sub = Project(project.root / "sub")
    sub.git("pull", "--quiet")
    sub.write("untracked", "mine\n")

    assert bring_back(project, old) == {b"sub": "a submodule: kept as it is"}
    assert sub.git("rev-parse", "HEAD") != first
    report = restore(project, before)
    assert report.failed
    assert kept(report)[b"sub/file"] == "inside a submodule"
    assert sub.read("file") == b"two\n"
    assert sub.read("untracked") == b"mine\n"


def test_a_file_that_stands_for_a_link(project: Project) -> None:
    """Where git has no links, one is restored as the file that stands for it; where there are
    links, as a link.
    """
    project.symlink("link", "target")
    project.commit()
    project.git("config", "core.symlinks", "false")
    project.remove("link")
    project.write("link", "target")
    target = save(project)
    project.write("link", "another")
    other = save(project)

    assert bring_back(project, target) == {}
    assert project.files()[b"link"].kind == "file"
    assert project.read("link") == b"target"
    project.remove("link")
    assert bring_back(project, other) == {}
    assert project.read("link") == b"another"
    project.git("config", "core.symlinks", "true")
    assert bring_back(project, target) == {}
    assert os.readlink(project.path("link")) == b"target"


def test_a_removed_submodule(project: Project) -> None:
    """A submodule that was removed is a change, and a restore says how git brings it back."""
    library = Project(project.root.parent / "library", own_store=False)
    library.write("file", "one\n")
    library.commit()
    project.git(
        *("-c", "protocol.file.allow=always", "submodule", "--quiet", "add"),
        *(str(library.root), "vendor/sub"),
    )
    project.commit()
    target = save(project)
    project.remove("vendor")

    hint = "a submodule, restored by: git submodule update --init -- vendor/sub"
    assert bring_back(project, target) == {b"vendor/sub": hint}


def test_files_where_a_submodule_was(project: Project) -> None:
    """Where a submodule was then, files of now are not removed: then nobody looked inside it."""
    library = Project(project.root.parent / "library", own_store=False)
    library.write("file", "one\n")
    library.commit()
    project.git(
        "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library.root), "sub"
    )
    project.commit()
    target = save(project)
    project.git("rm", "--quiet", "--force", "--cached", "sub")
    shutil.rmtree(project.root / "sub")
    project.write("sub/file", "mine\n")

    assert set(bring_back(project, target)) == {b"sub", b"sub/file"}
    assert project.read("sub/file") == b"mine\n"


def test_node_modules_skipped_as_a_unit(project: Project) -> None:
    """What lies in a skipped node_modules is neither removed nor overwritten, whichever side
    skipped it.
    """
    limits = Limits(max_dependency_files=3)
    project.write("node_modules/a", "few\n")
    few = save(project, limits=limits)
    for number in range(5):
        project.write(f"node_modules/{number}", "many\n")
    project.write("node_modules/a", "changed\n")
    many = save(project, limits=limits)

    report = restore(project, few, limits=limits)
    assert kept(report) == {b"node_modules/a": "not captured now (too-many)"}
    assert len(os.listdir(project.path("node_modules"))) == 6

    for number in range(5):
        project.remove(f"node_modules/{number}")
    assert bring_back(project, many, limits=limits) == {
        b"node_modules/a": "not captured then (too-many)"
    }
    assert project.read("node_modules/a") == b"changed\n"


def test_directories_written_with_a_slash(project: Project) -> None:
    """What was not looked at then is not removed now, if whoever saved it ended the names of
    directories with `/`.
    """
    project.write("a", "a\n")
    saved = save(project).snapshot
    side = Side(
        open_store(project).reader,
        replace(
            saved,
            skipped=(Skip(b"many/", SkipReason.TOO_MANY),),
            nested=(NestedRepository(b"lib/", None),),
        ),
    )

    assert [
        side.unknown(path, past=True)
        for path in (b"many", b"many/deep/file", b"lib/file", b"a", b"man")
    ] == [
        "not captured then (too-many)",
        "not captured then (too-many)",
        "inside what was then another repository",
        "",
        "",
    ]


def test_sparse_checkout(project: Project) -> None:
    """A path outside the sparse checkout is not materialised, and one materialised since is not
    removed.
    """
    project.write("in/file", "in\n")
    project.write("out/file", "out\n")
    project.commit()
    full = save(project)
    project.git("sparse-checkout", "set", "in")
    project.write("in/file", "edited\n")
    sparse = save(project)
    assert b"out/file" not in project.files()

    bring_back(project, full)
    assert project.read("in/file") == b"in\n"
    assert b"out/file" not in project.files()

    project.git("sparse-checkout", "disable")
    project.write("out/file", "edited outside\n")
    assert bring_back(project, sparse) == {b"out/file": "outside the sparse checkout"}
    assert project.read("out/file") == b"edited outside\n"


@pytest.mark.parametrize("index", ["--sparse-index", "--no-sparse-index"])
def test_new_file_in_an_absent_directory(project: Project, index: str) -> None:
    """A directory that sparse checkout keeps from the disk hides only what it has: another file in
    it is written and removed as anywhere else.
    """
    project.write("in/file", "in\n")
    project.write("out/file", "out\n")
    project.commit()
    project.write("out/new", "new\n")
    full = save(project)
    project.remove("out/new")
    project.git("sparse-checkout", "set", "--cone", index, "in")
    sparse = save(project)
    assert sparse.snapshot.absent == (b"out/",)

    bring_back(project, full)
    assert project.read("out/new") == b"new\n"
    assert b"out/file" not in project.files()
    bring_back(project, sparse)
    assert b"out/new" not in project.files()
    assert project.git("ls-files", "-t") == "H in/file\nS out/file"


def test_special_files(project: Project) -> None:
    """A FIFO and a socket stay, even where a file was."""
    project.write("file", "was a file\n")
    target = save(project)
    project.remove("file")
    os.mkfifo(project.path("file"))
    os.mkfifo(project.path("pipe"))
    here = os.open(project.root, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"/proc/self/fd/{here}/socket")
    os.close(here)

    with project.guard():
        report = restore(project, target)

    assert report.failed
    assert kept(report) == {b"file": "not captured now (special)"}
    assert {path: file.kind for path, file in project.files().items()} == {
        b"file": "fifo",
        b"pipe": "fifo",
        b"socket": "socket",
    }


def test_a_file_that_appears_before_its_place_is_taken(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file made after the safety checkpoint, where one is to come back, is kept and reported."""
    project.write("a", "old\n")
    project.write("b", "old\n")
    target = save(project)
    project.remove("a")
    project.remove("b")
    before_writing(monkeypatch, b"a", lambda: project.write("a", "somebody's\n"))

    with project.guard():
        report = restore(project, target)

    assert report.failed
    assert "changed during" in kept(report)[b"a"]
    assert project.read("a") == b"somebody's\n"
    assert project.read("b") == b"old\n"


def before_writing(monkeypatch: pytest.MonkeyPatch, path: bytes, act: Callable[[], object]) -> None:
    """Let something happen between the look at a path and the making of its new file."""
    plain = Writer.prepare

    def prepare(self: Writer, given: bytes, *how: Any) -> PreparedWrite:
        if given == path:
            act()
        return plain(self, given, *how)

    monkeypatch.setattr(Writer, "prepare", prepare)


def before_placing(monkeypatch: pytest.MonkeyPatch, path: bytes, act: Callable[[], object]) -> None:
    """Let something happen just before a new file gets its name."""
    plain = Writer.place

    def place(
        self: Writer, prepared: PreparedWrite, admit: Callable[[os.stat_result | None], object]
    ) -> os.stat_result:
        if prepared.path == path:
            act()
        return plain(self, prepared, admit)

    monkeypatch.setattr(Writer, "place", place)


def test_a_file_that_changes_before_it_is_written(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit made after the safety checkpoint, to a file that is about to be replaced, is kept and
    reported.
    """
    project.write("a", "old\n")
    project.write("b", "old\n")
    target = save(project)
    project.write("a", "new\n")
    project.write("b", "new\n")
    before_writing(monkeypatch, b"a", lambda: project.write("a", "edit\n"))

    with project.guard():
        report = restore(project, target)

    assert report.failed
    assert "changed during" in kept(report)[b"a"]
    assert project.read("a") == b"edit\n"
    assert project.read("b") == b"old\n"
    assert not [name for name in os.listdir(project.root) if name.startswith(".gitcp-tmp")]


def test_a_file_that_changes_before_it_is_removed(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit made after the safety checkpoint keeps a file from being removed."""
    project.write("a", "old\n")
    target = save(project)
    project.write("a", "new\n")
    project.write("made", "captured\n")
    before_writing(monkeypatch, b"a", lambda: project.write("made", "edited since\n"))

    report = restore(project, target)

    assert report.failed
    assert set(kept(report)) == {b"made"}
    assert project.read("made") == b"edited since\n"


def test_a_change_just_after_is_reported(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another program makes of a restored file before the restore ends is noticed, and not
    called restored.
    """
    project.write("a", "old\n")
    project.write("b", "old\n")
    target = save(project)
    project.write("a", "new\n")
    project.write("b", "new\n")
    before_placing(monkeypatch, b"b", lambda: project.write("a", "formatted\n"))

    report = restore(project, target)

    assert report.failed
    assert kept(report) == {b"a": "changed just after it was restored"}


@pytest.mark.parametrize("moved", ["a", "a/d"])
def test_a_directory_moved_out_between_two_of_its_files(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: str
) -> None:
    """A directory that leaves the working tree after the first of its files was restored takes that
    one with it; nothing more is written there.
    """
    project.write("a/d/1", "old\n")
    project.write("a/d/2", "old\n")
    target = save(project)
    project.write("a/d/1", "new\n")
    project.write("a/d/2", "new\n")
    outside = tmp_path / "outside"
    before_placing(monkeypatch, b"a/d/2", lambda: (project.root / moved).rename(outside))

    report = restore(project, target)

    assert report.failed
    assert "was moved while" in kept(report)[b"a/d/2"]
    files = {path.name: path.read_text() for path in outside.rglob("*") if path.is_file()}
    assert files == {"1": "old\n", "2": "new\n"}


def test_more_files_than_wait_at_a_time(project: Project) -> None:
    """Files are written in batches; all of them come back, those in directories that are gone
    too.
    """
    for number in range(2 * BATCH + 3):
        project.write(f"{number % 7}/{number}", "old\n")
    target, before = save(project), project.files()
    for number in range(2 * BATCH + 3):
        project.write(f"{number % 7}/{number}", "new\n")
    for gone in ("1", "3", "5"):
        project.remove(gone)

    with project.guard():
        report = restore(project, target)

    assert not report.failed
    assert len(report.written) == 2 * BATCH + 3
    assert project.files() == before


def test_a_disk_that_fills_up_in_a_batch(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk is full at one of the files, none of those that wait is left beside its place."""
    for number in range(5):
        project.write(f"dir{number}/file", "old\n")
    target = save(project)
    for number in range(5):
        project.remove(f"dir{number}")
    before = project.files()

    def full() -> None:
        raise DiskFull("the disk is full")

    before_writing(monkeypatch, b"dir3/file", full)

    with project.guard(), pytest.raises(DiskFull):
        restore(project, target)

    assert project.files() == before


def test_a_file_that_cannot_be_synced(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file whose content does not get to the disk is left as it was, and said; the others come
    back.
    """
    for number in range(5):
        project.write(f"dir/{number}", "old\n")
    target = save(project)
    for number in range(5):
        project.write(f"dir/{number}", f"new {number}\n")
    real = os.fsync
    held = os.lstat(project.path("dir")).st_dev, len(b"old\n")
    failing = [True]

    def fsync(descriptor: int) -> None:
        found = os.fstat(descriptor)
        if (found.st_dev, found.st_size) == held and found.st_nlink == 1:
            with suppress(IndexError):  # the first of the threads alone
                failing.pop()
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    report = restore(project, target)

    assert report.failed
    ((path, said),) = kept(report).items()
    name = path.decode()
    assert said == f"cannot write {name}: Input/output error. It was not changed"
    assert project.read(name) == b"new %c\n" % name[-1].encode()
    assert {project.read(f"dir/{number}") for number in range(5) if f"dir/{number}" != name} == {
        b"old\n"
    }


def test_a_program_that_writes_all_the_time(project: Project) -> None:
    """With a program appending to a file the whole time, it is either restored or kept, and never
    lost.
    """
    project.write("log", "old\n")
    project.write("other", "old\n")
    target = save(project)
    project.write("log", "new\n")
    project.write("other", "new\n")
    stop = threading.Event()

    def write() -> None:
        with open(project.path("log"), "ab", buffering=0) as file:
            while not stop.is_set():
                file.write(b"line\n")

    writing = threading.Thread(target=write)
    writing.start()
    try:
        report = restore(project, target)
    finally:
        stop.set()
        writing.join()

    assert project.read("other") == b"old\n"
    if b"log" in kept(report):
        assert report.failed
        assert project.read("log").startswith(b"new\nline\n")
    else:
        assert project.read("log") == b"old\n"


# ---------------------------------------------------------------- gates


@pytest.mark.parametrize("operation", ["merge", "rebase", "cherry-pick"])
def test_operation_in_progress(project: Project, operation: str) -> None:
    """During a merge, rebase or cherry-pick a restore is refused, with nothing changed, unless
    forced.
    """
    project.write("a", "base\n")
    project.commit()
    target = save(project)
    conflict(project, operation)
    before, tip = contents(project), last(project)

    with project.guard(), pytest.raises(Refused, match=f"a {operation} is in progress") as caught:
        restore(project, target)

    assert caught.value.option == ("--force",)
    assert contents(project) == before
    assert last(project) == tip
    with project.guard():
        restore(project, target, force=True)
    assert project.read("a") == b"base\n"
    assert project.git("status").count("unmerged") or operation in project.git("status")


def conflict(project: Project, operation: str) -> None:
    """Two branches that changed the same line, and the operation stopped at that."""
    project.git("checkout", "--quiet", "-b", "side")
    project.write("a", "side\n")
    side = project.commit()
    project.git("checkout", "--quiet", "main")
    project.write("a", "main\n")
    project.commit()
    project.git(operation, side if operation != "rebase" else "side", check=False)
    assert open_store(project).repo.head().operation == operation


def test_conversation_alone_in_a_merge(project: Project) -> None:
    """What touches no file is not refused during a merge."""
    project.write("a", "base\n")
    project.commit()
    target = save(project, conversation=b'{"role":"user","content":"hello"}\n')
    conflict(project, "merge")

    report = restore(project, target, files=False)

    assert not report.failed
    assert report.placed is not None


def test_files_changed_since_the_plan(project: Project) -> None:
    """A plan that was agreed to holds for the files it was made for; else nothing is changed and no
    journal left.
    """
    project.write("a", "old\n")
    target = save(project)
    project.write("a", "new\n")
    store = open_store(project)
    request = RestoreRequest(target, project.root)
    agreed = op.plan(store, request)
    project.write("a", "newer\n")
    before = contents(project)

    with (
        project.guard(),
        pytest.raises(Refused, match="changed after the plan was shown") as refused,
    ):
        op.restore(store, request, agreed)

    # the last one is the safety checkpoint now
    assert refused.value.hint == "run the command again, for work@1"
    assert contents(project) == before
    assert journal.unfinished(store.repo) is None
    op.restore(store, request, op.plan(store, request))
    assert project.read("a") == b"old\n"


def test_files_changed_while_it_asks(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """What changes between the plan and the yes is seen, though the look at the tree began before
    the plan.
    """
    project.write("a", "old\n")
    project.write("b", "old\n")
    target = save(project, "other")
    project.write("a", "new\n")
    time.sleep(0.02)  # until what is remembered is trusted
    save(project)
    store = open_store(project)
    monkeypatch.setattr(stat_check, "may_fork", lambda: True)
    store.repo.look = answer.look_at(str(project.root), str(store.repo.git_dir))
    store.repo.look.begin()
    request = RestoreRequest(target, project.root)
    agreed = op.plan(store, request)
    project.write("b", "mine\n")

    with pytest.raises(Refused, match="changed after the plan was shown"):
        op.restore(store, request, agreed)

    assert (project.read("a"), project.read("b")) == (b"new\n", b"mine\n")


def test_plan_writes_nothing(project: Project) -> None:
    """A plan leaves every byte of the git directory as it was."""
    project.write("a", "old\n")
    target = save(project)
    project.write("a", "new\n")
    project.write("b", b"large" * 1000)
    before = {path: path.stat().st_mtime_ns for path in project.git_dir.rglob("*")}

    assert plan(project, target).paths == (b"a", b"b")

    assert {path: path.stat().st_mtime_ns for path in project.git_dir.rglob("*")} == before


def test_another_restore_is_running(project: Project) -> None:
    """Two restores at once in one working tree: the second is refused with nothing changed."""
    project.write("a", "old\n")
    target = save(project)
    project.write("a", "new\n")
    with journal.lock(open_store(project).repo), pytest.raises(StoreBusy):
        restore(project, target)
    assert project.read("a") == b"new\n"
    restore(project, target)
    assert project.read("a") == b"old\n"


def blob_of(project: Project, target: Checkpoint, path: bytes) -> Path:
    """The file of the loose object that a checkpoint has at `path`."""
    entry = trees.lookup(open_store(project).reader, target.root, path)
    assert entry is not None
    return project.git_dir / "objects" / entry.oid[:2] / entry.oid[2:]


@pytest.mark.parametrize("how", ["missing", "damaged", "cut"])
def test_a_blob_is_lost(project: Project, how: str) -> None:
    """If one blob that is needed cannot be read, nothing is changed; other paths can still be
    restored alone.
    """
    for name in ("a", "b", "c"):
        project.write(name, f"old {name}\n" * 100)
    target = save(project)
    for name in ("a", "b", "c"):
        project.write(name, "new\n")
    blob = blob_of(project, target, b"b")
    whole = blob.read_bytes()
    blob.chmod(0o644)
    blob.unlink()
    if how != "missing":
        blob.write_bytes(whole[:-3] if how == "cut" else whole[:20] + b"XX" + whole[22:])
    before = contents(project)

    with pytest.raises(StoreDamaged, match="cannot restore b from work@1") as caught:
        restore(project, target)

    assert "other paths: gitcp restore REV -- PATH" in str(caught.value)
    assert caught.value.hint == "gitcp doctor --store"
    assert contents(project) == before
    assert journal.unfinished(open_store(project).repo) is None
    restore(project, target, paths=(b"a", b"c"))
    assert project.read("a") == b"old a\n" * 100
    assert project.read("b") == b"new\n"


def test_a_large_blob_is_damaged_at_its_end(project: Project) -> None:
    """A blob that is too large to be kept is proved ahead too."""
    project.write("a", "old\n")
    project.write("large", os.urandom(3 << 20))
    target = save(project)
    project.loosen()
    project.write("a", "new\n")
    project.write("large", "new\n")
    blob = blob_of(project, target, b"large")
    data = blob.read_bytes()
    blob.chmod(0o644)
    blob.write_bytes(data[:-40] + bytes(40))

    with pytest.raises(StoreDamaged, match="large from work@1"):
        restore(project, target)

    assert project.read("a") == b"new\n"


BAD = (
    b".git/config",
    b"sub/.GIT/hooks/x",
    b"sub/.gitcp/store.git/config",
    b".GITCP/store.git/config",
    b"..",
    b"d/../../x",
    b"git~1/config",
    b"d/" * 2100 + b"x",
)


@pytest.mark.parametrize("name", BAD, ids=range(len(BAD)))
def test_hostile_paths(project: Project, name: bytes) -> None:
    """A tree from elsewhere that would write into a git directory or outside is refused as a
    whole.
    """
    from samples import save as save_by_hand

    project.write("a", "mine\n")
    target = save_by_hand(open_store(project), "hostile", {b"a": b"theirs\n", name: b"bad\n"})
    before = contents(project)

    with pytest.raises(Refused, match="cannot restore the checkpoint: its path"):
        restore(project, target)

    assert contents(project) == before
    assert journal.unfinished(open_store(project).repo) is None


# ---------------------------------------------------------------- parts


def test_paths(project: Project) -> None:
    """A file, a directory, an odd name: only these come back, with what was made in them since
    removed.
    """
    for name in ("one", "two", "dir/a", "dir/b", "dirt"):
        project.write(name, "old\n")
    target = save(project)
    for name in ("one", "two", "dir/a", "dirt", "dir/made", "made"):
        project.write(name, "new\n")
    project.remove("dir/b")
    before = contents(project)

    bring_back(project, target, paths=(b"one", b"dir"))

    changed = {
        path: file.data for path, file in contents(project).items() if before.get(path) != file
    }
    assert changed == {b"one": b"old\n", b"dir/a": b"old\n", b"dir/b": b"old\n"}
    assert before.keys() - contents(project).keys() == {b"dir/made"}


@pytest.mark.parametrize("path", [b"nowhere", b"a/below", b"dir/none"])
def test_path_that_is_nowhere(project: Project, path: bytes) -> None:
    """A path that is neither in the checkpoint nor on disk is a slip, and nothing is changed for
    it.
    """
    project.write("a", "old\n")
    project.write("dir/b", "old\n")
    target = save(project)
    project.write("a", "new\n")

    with (
        project.guard(),
        pytest.raises(BadValue, match=f"{path.decode()} is neither in work@1 nor on disk"),
    ):
        restore(project, target, paths=(b"a", path))

    assert project.read("a") == b"new\n"
    assert last(project) == target


def test_path_made_since(project: Project) -> None:
    """A path that only exists now is removed when it is asked for; one that is ignored is left
    alone.
    """
    project.write("a", "a\n")
    target = save(project)
    project.write("made", "x\n")

    bring_back(project, target, paths=(b"made",))

    assert set(contents(project)) == {b"a"}


def test_words_of_the_target(project: Project) -> None:
    """With the conversation come facts, handoff, phase and position of then; with files or paths
    alone they stay.
    """
    project.write("a", "old\n")
    then = Note(phase="schema", facts={"db": "sqlite"}, position={"record": "7"}, label="first")
    target = save(project, note=then, conversation=b'{"role":"user","content":"one"}\n')
    project.write("a", "new\n")
    now = Note(phase="wiring", facts={"db": "postgres"}, position={"record": "9"})
    save(
        project,
        note=now,
        conversation=b'{"role":"user","content":"one"}\n{"role":"user","content":"two"}\n',
    )

    restore(project, target, paths=(b"a",), conversation=False)
    note = last(project).note
    assert (note.phase, note.facts, note.position, note.label) == (
        "wiring",
        {"db": "postgres"},
        {"record": "9"},
        None,
    )
    restore(project, target)
    note = last(project).note
    assert (note.phase, note.facts, note.position, note.label) == (
        "schema",
        {"db": "sqlite"},
        {"record": "7"},
        None,
    )


def test_report_and_checkpoints(project: Project) -> None:
    """A restore appends two checkpoints: what was there, and what was restored, which names where
    from.
    """
    project.write("a", "old\n")
    target = save(project)
    project.write("a", "new\n")
    project.write("b", "made\n")

    report = restore(project, target)

    assert (report.written, report.removed) == ((b"a",), (b"b",))
    store = open_store(project)
    assert report.checkpoint is not None
    assert report.safety is not None
    safety, after = (numbered(store, id) for id in (report.safety, report.checkpoint))
    assert (safety.id.number, safety.trigger) == (2, Trigger.BEFORE_RESTORE)
    assert (after.id.number, after.trigger, after.restored_from) == (3, Trigger.RESTORE, target.id)
    assert after.snapshot.tree == target.snapshot.tree


def test_linked_worktree(project: Project) -> None:
    """In a linked working tree a restore changes that tree alone, and is undone there alone."""
    project.write("a", "old\n")
    project.commit()
    target = save(project)
    other_root = project.root.parent / "linked"
    project.git("worktree", "add", "--quiet", str(other_root))
    other = Project(other_root)
    other.write("a", "new\n")
    project.write("a", "main's own\n")

    with project.guard():
        restore(other, target)

    assert other.read("a") == b"old\n"
    assert project.read("a") == b"main's own\n"
    with pytest.raises(Refused, match="no restore to undo"):
        undo(project)
    undo(other)
    assert other.read("a") == b"new\n"


def test_unborn_head(project: Project) -> None:
    """Before the first commit a restore works, and HEAD stays unborn."""
    project.write("a", "old\n")
    target = save(project)
    project.write("a", "new\n")

    bring_back(project, target)

    assert project.read("a") == b"old\n"
    assert project.git("rev-parse", "--verify", "HEAD", check=False) == ""


def test_detached_head(project: Project) -> None:
    """HEAD may be detached, and at another commit than then: it stays."""
    project.write("a", "one\n")
    project.commit()
    target = save(project)
    project.write("a", "two\n")
    second = project.commit()
    project.git("checkout", "--quiet", "--detach")

    bring_back(project, target)

    assert project.git("rev-parse", "HEAD") == second
    assert project.read("a") == b"one\n"


def test_another_session(project: Project) -> None:
    """Going to another session's checkpoint saves what is here in the session at work, and goes on
    in the other.
    """
    project.write("a", "alpha\n")
    alpha = save(project, "alpha")
    project.write("a", "beta\n")
    save(project, "beta")
    project.write("a", "beta, unsaved\n")

    report = restore(project, alpha)

    assert report.safety is not None
    assert report.safety.session == "beta"
    assert report.checkpoint is not None
    assert report.checkpoint.session == "alpha"
    assert project.read("a") == b"alpha\n"
    undo(project)
    assert project.read("a") == b"beta, unsaved\n"
    assert last(project, "beta").restored_from == report.safety


def test_finish_without_a_beginning(project: Project) -> None:
    """There is nothing to continue or to abort where nothing was interrupted."""
    project.write("a", "a\n")
    save(project)

    with project.guard():
        for forward in (True, False):
            with pytest.raises(Refused, match="no interrupted restore"):
                finish(project, forward=forward)


def test_redo_without_undo(project: Project) -> None:
    """There is nothing to redo after a new restore."""
    project.write("a", "one\n")
    target = save(project)
    project.write("a", "two\n")
    restore(project, target)
    undo(project)
    restore(project, target)

    with pytest.raises(Refused, match="no undo to redo"):
        redo(project)


def test_a_written_file_is_taken_for_the_same_only_if_nothing_changed_it(tmp_path: Path) -> None:
    """The checkpoint after a restore trusts the status of what was written. A write in the clock
    tick of the rename would show in no other way, so the file is read then.
    """
    path = tmp_path / "file"
    path.write_bytes(b"old\n")
    time.sleep(0.05)
    path.rename(tmp_path / "named")
    path = tmp_path / "named"
    written = WrittenFile(path.lstat(), Oid("0" * 40), b"old\n")
    if written.status.st_ctime_ns > written.status.st_mtime_ns:  # the rename gave it a ctime
        assert written.is_still(path.lstat())
    time.sleep(0.05)
    path.write_bytes(b"new\n")
    assert not written.is_still(path.lstat())
    fresh = WrittenFile(path.lstat(), Oid("0" * 40), b"new\n")
    assert not fresh.is_still(path.lstat())


def test_two_thousand_random_names(project: Project) -> None:
    """Whatever bytes a name is made of, files and links under it come back, and nothing else is
    there.
    """
    number = random.Random(8)
    made: dict[bytes, bytes] = {}
    while len(made) < 2000:
        words = [
            number.randbytes(number.choice((1, 2, 5, 60))).translate(None, b"/\0") for _ in range(2)
        ]
        path = b"/".join(words[: number.choice((1, 1, 2))])
        if problem(path) is None:
            made.setdefault(words[0], path)
    for path in made.values():
        project.write(path, number.randbytes(20))
        if number.random() < 0.1:
            project.remove(path)
            os.symlink(number.randbytes(9).replace(b"\0", b"x"), project.path(path))
    before = contents(project)
    target = save(project)
    assert target.snapshot.total == 2000
    for path in list(made.values())[::2]:
        project.remove(path)
        project.write(path + b".new", b"x")

    restore(project, target)

    assert contents(project) == before
