"""A program says that it only appends to a file. That holds for its own saves while it runs: every
other one has the bytes on disk, and what anybody wrote comes back.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gitcp
from gitcp.fastpath import nodes, stat_check
from gitcp.git import segmented
from gitcp.worktree import blobs

from driver import Project

NAME = "out.bin"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of 1000 bytes, for files of more than 2000."""
    monkeypatch.setattr(segmented, "SEGMENT", 1000)
    monkeypatch.setattr(blobs, "SEGMENT_ABOVE", 2000)


@pytest.fixture
def path(project: Project, small: None) -> Path:
    """A file of ten segments that a program has just saved, and appended to."""
    path = project.root / NAME
    path.write_bytes(random.Random(1).randbytes(10_000))
    return path


def append(path: Path, data: bytes = b"more\n") -> None:
    """What the program does."""
    with path.open("ab") as file:
        file.write(data)


def edit(path: Path, at: int = 5000, data: bytes = b"EDITED") -> None:
    """What a person does."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def stored(project: Project, revision: str) -> bytes:
    """The bytes of the file in a checkpoint."""
    found = gitcp.open(project.root).file(revision, NAME)
    assert isinstance(found, bytes)
    return found


def test_of_one_save(project: Project, path: Path) -> None:
    """Whoever saves after a save that promised reads what nobody has read, once: also if nothing
    seems to have changed since.
    """
    session = gitcp.open(project.root).session("program")
    session.save(appends=NAME)
    edit(path)
    append(path)
    promised = session.save(appends=NAME).checkpoint
    assert b"EDITED" not in stored(project, str(promised.id))  # it said so
    assert stored(project, str(promised.id)).endswith(b"more\n")

    time.sleep(0.05)
    others = gitcp.open(project.root)
    assert [change.path for change in others.diff()] == [NAME.encode()]
    assert others.save(session="hand").saved
    assert stored(project, "hand") == path.read_bytes()
    assert not others.save(session="hand").saved
    assert not others.diff()
    append(path)
    session.save()
    assert stored(project, "program") == path.read_bytes()


def test_of_one_run(project: Project, path: Path) -> None:
    """What was changed before a program named the file is in its first checkpoint."""
    gitcp.open(project.root).session("program").save(appends=NAME)
    edit(path)
    append(path)
    session = gitcp.open(project.root).session("program")
    session.save(appends=NAME)
    assert stored(project, "program") == path.read_bytes()
    edit(path, 3000)
    assert session.resume(appends=NAME) is not None
    gitcp.open(project.root).undo()
    assert b"EDITED" in path.read_bytes()[3000:3006]


def cut_and_grown(path: Path) -> None:
    """A file is longer than before, with the same first and last segment of those stored."""
    data = bytearray(path.read_bytes())
    data[4000:6000] = bytes(2000)
    os.truncate(path, 0)
    append(path, bytes(data) + b"more")


def of_the_same_size(path: Path) -> None:
    """A file is rewritten, and its mtime set back."""
    before = path.stat()
    edit(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replaced(path: Path) -> None:
    """Another file takes its name."""
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    edit(other)
    append(other)
    other.replace(path)


def with_a_hole(path: Path) -> None:
    """A part of it becomes a hole, and its end one, too."""
    edit(path, 4000, bytes(2000))
    os.truncate(path, 30_000)


def by_another_name(path: Path) -> None:
    """It has another name outside of the working tree, by which it is changed."""
    other = path.parent.parent / "other-name"
    other.unlink(missing_ok=True)
    other.hardlink_to(path)
    edit(other)
    append(other)


KINDS = (edit, cut_and_grown, of_the_same_size, replaced, with_a_hole, by_another_name)


@pytest.mark.parametrize("change", KINDS, ids=lambda change: change.__name__)
def test_changed_otherwise(
    change: Callable[[Path], None], project: Project, path: Path, small: None
) -> None:
    """However the file is changed, the next save by anybody else has it, `restore` saves it before
    it is overwritten, and `undo` restores it.
    """
    program = gitcp.open(project.root).session("program")
    program.save(appends=NAME)
    first = path.read_bytes()
    append(path)
    program.save(appends=NAME)
    time.sleep(0.05)
    change(path)
    changed = path.read_bytes()
    person = gitcp.open(project.root)
    person.restore("program@1")
    assert path.read_bytes() == first
    person.undo()
    assert path.read_bytes() == changed
    change(path)
    person.save(session="hand")
    assert stored(project, "hand") == path.read_bytes()
    assert person.check().ok


def test_a_silent_watcher(project: Project, path: Path) -> None:
    """A directory with a file that was not read as a whole is compared although a watcher reports
    nothing there, until somebody has read it.
    """
    session = gitcp.open(project.root).session("program")
    session.save(appends=NAME)
    append(path)
    session.save(appends=NAME)
    state = str(project.git_dir / "gitcp/worktree-state")
    assert stat_check.always(nodes.opened(state)) == [b""]
    time.sleep(0.05)
    gitcp.open(project.root).save(session="hand")
    assert stat_check.always(nodes.opened(state)) == []


def test_a_run_from_the_shell(project: Project) -> None:
    """`--appends` of a run is about what its command does, and that of a save about that save."""
    path, words = project.root / NAME, ("--session", "s", "--appends", NAME)
    path.write_bytes(random.Random(1).randbytes(2 << 20))
    project.gitcp("save", *words, check=0)
    append(path)
    project.gitcp("save", *words, check=0)
    edit(path, 1 << 20)
    edited = path.read_bytes()
    project.gitcp("run", "more", *words, "--", "sh", "-c", f"echo more >> {NAME}", check=0)
    assert stored(project, "s@3") == edited
    assert stored(project, "s@4") == path.read_bytes() == edited + b"more\n"
    edit(path, 1 << 19)
    changed = path.read_bytes()
    assert NAME in project.gitcp("diff", "--stat", check=0).out
    assert "no unsaved changes" not in project.gitcp("status", check=0).out
    code = f"echo less > {NAME}; exit 1"
    project.gitcp("run", "fails", *words, "--rollback", "--", "sh", "-c", code)
    assert path.read_bytes() == changed


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            "append append append edit cut grow replace program program hand restore undo".split()
        ),
        st.integers(1, 4000),
    ),
    max_size=14,
)


class Life:
    """A program and a person at one file. `saved` are checkpoints with what they must have."""

    def __init__(self, root: Path, seed: str) -> None:
        self.project = Project(root)
        self.path = self.project.root / NAME
        self.path.write_bytes(b"begin\n" * 500)
        self.chance = random.Random(seed)
        self.by_program, self.by_person = gitcp.open(root), gitcp.open(root)
        self.is_promise_kept = True
        self.saved: list[tuple[str, bytes]] = []

    def append(self, size: int) -> None:
        """Somebody appends."""
        append(self.path, self.chance.randbytes(size))

    def edit(self, size: int) -> None:
        """Somebody changes some bytes in place."""
        at = self.chance.randrange(max(1, self.path.stat().st_size))
        edit(self.path, at, self.chance.randbytes(size % 50 + 1))
        self.is_promise_kept = False

    def cut(self, size: int) -> None:
        """Somebody truncates it."""
        os.truncate(self.path, min(size, self.path.stat().st_size))
        self.is_promise_kept = False

    def grow(self, size: int) -> None:
        """Somebody truncates it and goes on."""
        self.cut(size)
        self.append(self.chance.randrange(20_000))

    def replace(self, size: int) -> None:
        """Somebody puts another file there."""
        other = self.path.with_name("other")
        other.write_bytes(self.chance.randbytes(size * 3))
        other.replace(self.path)
        self.is_promise_kept = False

    def program(self, _: int) -> None:
        """The program saves; what it promised in vain is its own fault."""
        made = self.by_program.save(session="program", appends=NAME, force=True).checkpoint
        if self.is_promise_kept:
            self.saved.append((str(made.id), self.path.read_bytes()))

    def hand(self, _: int) -> None:
        """A person saves, as hooks do."""
        made = self.by_person.save(session="hand", force=True).checkpoint
        self.saved.append((str(made.id), self.path.read_bytes()))
        self.is_promise_kept = True

    def restore(self, _: int) -> None:
        """A person restores something: what is overwritten is in the safety checkpoint."""
        if not self.saved:
            return
        before = self.path.read_bytes()
        id, data = self.chance.choice(self.saved)
        report = self.by_person.restore(id)
        assert self.path.read_bytes() == data
        if report.safety is not None:
            self.saved.append((str(report.safety), before))
        self.is_promise_kept = True

    def undo(self, _: int) -> None:
        """A person restores something, and undoes that."""
        before = self.path.read_bytes()
        self.restore(0)
        if self.path.read_bytes() != before:
            self.by_person.undo()
        assert self.path.read_bytes() == before


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(STEPS)
def test_any_history(
    tmp_path: Path, sealed: Path, small: None, steps: list[tuple[str, int]]
) -> None:
    """Whatever a program and a person do in turn, each checkpoint has the bytes that were there,
    except where the program promised otherwise in that call, and nothing is lost.
    """
    life = Life(Path(tempfile.mkdtemp(dir=tmp_path)), repr(steps))
    for kind, size in (*steps, ("undo", 0)):
        getattr(life, kind)(size)
    for id, data in life.saved:
        assert stored(life.project, id) == data
    assert life.by_person.check().ok
