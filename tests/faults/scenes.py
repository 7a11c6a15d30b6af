"""A project with a past, a command in it, and how everything must be after a fault in the midst of that command."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple

from back import contents, last
from pruned import holdings, in_trash, tagged
from talk import Talk

from faults import tracer
from faults.tracer import SHORT, Call, Fault, Traced
from gitcp.model import CheckpointId, Oid
from gitcp.ops import journal
from gitcp.ops.check import check
from gitcp.store import Store
from gitcp.worktree.writer import is_temporary

from driver import SOURCE, File, Project
from samples import open_store

TALK = "e7baae82"

KINDS = {
    "kill": (None, False),
    "ENOSPC": (errno.ENOSPC, False),
    "full": (errno.ENOSPC, True),
    "EIO": (errno.EIO, False),
    "EACCES": (errno.EACCES, False),
    "EROFS": (errno.EROFS, True),
    "EINTR": (errno.EINTR, False),
    "short": (SHORT, False),
}
"""What can happen at a call: an error number (None: killed), and whether it lasts."""

CAUSES = {
    "ENOSPC": ("disk is full", "No space left"),
    "full": ("disk is full", "No space left"),
    "EIO": ("Input/output error",),
    "EACCES": ("Permission denied",),
    "EROFS": ("Read-only file system",),
    "EINTR": ("Interrupted system call",),
}
"""One of these must be said where a command failed."""


class Scene(NamedTuple):
    """A command, what is done before it, and how to tell afterwards that it was done.

    `goes_back`: it changes files, so that they are the old ones or the new ones afterwards, and the new ones or the
    old ones in the end.
    """

    command: tuple[str, ...]
    is_done: Callable[[Stage], bool]
    before: Callable[[Stage], object] = lambda stage: None
    goes_back: bool = False


class State(NamedTuple):
    """All that may not be lost: checkpoints with their trees, tags, files and the conversation."""

    held: dict[CheckpointId, Oid]
    tags: dict[str, CheckpointId]
    files: dict[bytes, File]
    said: bytes


class Stage:
    """One scene's project at one place, put back to how it was before each attempt."""

    def __init__(self, directory: Path, scene: Scene) -> None:
        self.scene = scene
        self.place, self._kept = directory / "stage", directory / "kept"
        self.place.mkdir(parents=True)
        os.environ["HOME"] = str(self.place / "home")
        os.environ["GIT_CONFIG_GLOBAL"] = str(self.place / "home/.gitconfig")
        self.place.joinpath("home").mkdir()
        self.place.joinpath("home/.gitconfig").touch()
        self.project = Project(self.place / "project")
        self.talk = Talk(self.project)
        self._tell_the_past()
        scene.before(self)
        shutil.copytree(self.place, self._kept, symlinks=True)
        self.before = self.look()
        self.calls = self._rehearse()
        self.after = self.look()

    @property
    def store(self) -> Store:
        """The project's store, as the next process opens it."""
        return open_store(self.project)

    def _tell_the_past(self) -> None:
        project, talk = self.project, self.talk
        project.write(".gitignore", "*.log\n")
        project.write("ignored.log", "nobody keeps this\n")
        for number in range(12):
            project.write(f"d{number % 3}/{number}", f"first {number}\n" * 40, mode=0o600 if number == 5 else 0o644)
        project.write("run.sh", "#!/bin/sh\n", mode=0o755)
        project.symlink("link", "d0")
        project.commit()
        project.git("branch", "other")
        project.write("d0/0", "put away\n")
        project.git("stash")
        talk.say("one", "two")
        project.gitcp("save", "one", "--tag", "v1", check=0)
        for number in range(0, 12, 2):
            project.write(f"d{number % 3}/{number}", f"second {number}\n" * 60)
        project.write("made/here", "made\n")
        project.remove("d1/1")
        talk.say("three", "four")
        project.gitcp("save", "two", check=0)
        project.write("d2/2", "third\n")
        project.git("add", "d2/2")
        project.gitcp("save", "three", check=0)
        project.gitcp("save", "beside", "--session", "beta", "--force", check=0)
        project.gitcp("save", "beside two", "--session", "beta", "--force", check=0)
        project.gitcp("save", "two and a half", "--session", TALK, "--force", check=0)
        project.write("d0/3", "not saved yet\n")
        project.write("new/new", "not saved yet\n")
        project.remove("link")
        project.write("link", "now a file\n")
        talk.say("five", "six")

    def _rehearse(self) -> tuple[Call, ...]:
        """Do it without a fault, and see that it is done; the calls at which a fault can happen."""
        self.reset()
        with self._guard():
            done = self.perform(None)
        assert done.code == 0, done
        assert self.scene.is_done(self), done
        assert done.calls
        return done.calls

    def _guard(self) -> AbstractContextManager[None]:
        return nullcontext() if "--index" in self.scene.command else self.project.guard()

    def reset(self) -> None:
        """Everything as it was before the command. The directory stays, and so does its name."""
        for path in self.place.iterdir():
            shutil.rmtree(path)
        shutil.copytree(self._kept, self.place, symlinks=True, dirs_exist_ok=True)

    def look(self) -> State:
        """What is there now, in sessions and in the trash."""
        project = self.project
        held = {**in_trash(project), **holdings(project)}
        return State(held, tagged(project), contents(project), self.talk.path.read_bytes())

    def perform(self, fault: Fault | None) -> Traced:
        """Run the scene's command, with a fault in it."""
        command = [sys.executable, "-P", "-m", "gitcp", *self.scene.command]
        env = {"PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}
        return tracer.run(command, self.project.root, [self.place], fault, env)

    def attempt(self, kind: str, at: int) -> str:
        """Let one fault happen, and insist on everything that is promised of it. How the command ended.

        The command that failed may have left anything that the next one deals with by itself, and nothing else.
        """
        self.reset()
        error, lasting = KINDS[kind]
        with self._guard():
            done = self.perform(Fault(at, error, lasting))
            self._judge_what_it_said(kind, done)
            self._judge_files()
            self._next_command()
            if self.scene.goes_back:
                self._finish(forward=bool(at % 2), in_part=done.code == 3)
        self._judge_store()
        return "killed" if done.code == -9 else "done" if done.code == 0 else "failed"

    def _judge_what_it_said(self, kind: str, done: Traced) -> None:
        if kind == "kill":
            # What a background process does is its own: the command itself may have ended before.
            assert done.code in (-9, 0), done
            return
        assert done.code >= 0, done
        assert not any(word in done.err for word in ("Traceback", "internal error")), done.err
        if done.code == 0:
            assert self.scene.is_done(self), f"it said it was done: {done}"
        else:
            # What was done in part is said in the report, with the reasons.
            said = done.out + done.err if done.code == 3 else done.err
            assert any(cause in said for cause in CAUSES.get(kind, ())), f"{kind}, {done.code}: {said}"

    def _judge_files(self) -> None:
        """Each file is the old one; where files go back, the old one or the new one. None is cut short."""
        now = contents(self.project)
        if not self.scene.goes_back:
            assert now == self.before.files
            assert self.talk.path.read_bytes() == self.before.said
            return
        for path, file in now.items():
            if not is_temporary(path.rpartition(b"/")[2]) and file.kind != "directory":
                known = (self.before.files.get(path), self.after.files.get(path))
                assert any(one and (one.kind, one.data) == (file.kind, file.data) for one in known), (path, file)
        assert self.talk.path.read_bytes().startswith(self.before.said)

    def _next_command(self) -> None:
        """The next command works, by itself and at once, and says what it knows of an unfinished restore."""
        done = self.project.gitcp("save", "the next command", "--session", "next", "--force")
        assert done.code == 0, done
        begun = journal.unfinished(self.store.repo)
        assert ("--continue" in done.err) == bool(begun), done.err

    def _finish(self, *, forward: bool, in_part: bool) -> None:
        """Go on or back, to the byte, from wherever it stopped."""
        wanted = [self.before.files]
        if journal.unfinished(self.store.repo) is not None:
            self.project.gitcp("restore", "--continue" if forward else "--abort", "--yes", check=0)
            wanted = [self.after.files if forward else self.before.files]
        elif in_part:
            self.project.gitcp("undo", "--yes", check=0)
        else:
            wanted.append(self.after.files)
        now = contents(self.project)
        assert now in wanted, sorted(
            path for path in now.keys() | wanted[0].keys() if now.get(path) != wanted[0].get(path)
        )

    def _judge_store(self) -> None:
        """Every checkpoint that was there is there, or in the trash; nothing is damaged or left behind."""
        now = self.look()
        lost = [str(id) for id, tree in self.before.held.items() if now.held.get(id) != tree]
        assert not lost, lost
        assert set(now.tags) >= set(self.before.tags) - set(self.before.tags.keys() - self.after.tags.keys())
        found = check(self.store)
        assert found.ok, found
        left = [path for path in contents(self.project) if is_temporary(path.rpartition(b"/")[2])]
        assert not left, left
        own = [path.name for path in (self.project.root / ".git/gitcp").iterdir()]
        assert "moves.json" not in own, own


def _last_label(stage: Stage, session: str = TALK) -> str | None:
    return last(stage.project, session).note.label


def _is_saved(stage: Stage) -> bool:
    return _last_label(stage) == "four"


def _is_back(stage: Stage) -> bool:
    """Whether the files are those of the first checkpoint (what was never captured stays)."""
    files = contents(stage.project)
    return files[b"d0/0"].data.startswith(b"first 0") and files[b"link"].kind == "symlink" and b"made/here" not in files


def _is_forth(stage: Stage) -> bool:
    return stage.project.read("new/new") == b"not saved yet\n" and not _is_back(stage)


def _is_reverted(stage: Stage) -> bool:
    return stage.project.read("d2/2").startswith(b"second")


def _go_back(stage: Stage) -> None:
    stage.project.gitcp("restore", "1", "--yes", check=0)


def _make_many(stage: Stage) -> None:
    for number in range(100):
        stage.project.write(f"many/{number % 7}/{number}", f"one of many: {number}\n")


def _are_saved(stage: Stage) -> bool:
    return _is_saved(stage) and "many" in tagged(stage.project)


def _pruned(stage: Stage) -> bool:
    return {id.number for id in holdings(stage.project) if id.session == "beta"} == {2}


def _is_gone(stage: Stage) -> bool:
    return "beta" not in stage.store.sessions()


def _delete(stage: Stage) -> None:
    stage.project.gitcp("delete", "beta", "--yes", check=0)


SCENES = {
    "save": Scene(("save", "four"), _is_saved),
    "save many": Scene(("save", "four", "--tag", "many"), _are_saved, _make_many),
    "restore": Scene(("restore", "1", "--yes"), _is_back, goes_back=True),
    "restore index": Scene(("restore", "1", "--index", "--yes"), _is_back, goes_back=True),
    "undo": Scene(("undo", "--yes"), _is_forth, _go_back, goes_back=True),
    "revert": Scene(("revert", "3", "--yes"), _is_reverted, goes_back=True),
    "tag": Scene(("tag", "v2", "2"), lambda s: "v2" in tagged(s.project)),
    "untag": Scene(("tag", "--delete", "v1"), lambda s: "v1" not in tagged(s.project)),
    "prune": Scene(("prune", "--keep-last", "1", "--yes"), _pruned),
    "delete": Scene(("delete", "beta", "--yes"), _is_gone),
    "undelete": Scene(("undo", "--yes"), lambda s: not _is_gone(s), _delete),
    "fork": Scene(("fork", "2", "--name", "branched"), lambda s: "branched" in s.store.sessions()),
}
