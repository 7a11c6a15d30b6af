"""A project with a past, a command in it, and how everything must be after a fault in the midst of
that command.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple

from back import contents
from talk import Talk

from faults import tracer
from faults.process import Forking, forked, typed
from faults.tracer import SHORT, Call, Fault, Traced
from gitcp.git.reftable import TABLES
from gitcp.lifecycle.check import check
from gitcp.model import CheckpointId, Oid
from gitcp.state import journal, trash
from gitcp.store import Store
from gitcp.worktree.paths import is_temporary

from driver import File, Project
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

NAMING = frozenset(
    "open openat mkdir mkdirat rename renameat link unlink unlinkat rmdir symlink symlinkat".split()
)
FILLING = frozenset("write pwrite64 writev fsync ftruncate".split())
POSSIBLE = {
    "ENOSPC": NAMING | FILLING,
    "full": NAMING | FILLING,
    "EACCES": NAMING | {"chmod", "fchmod", "utimensat"},
    "EROFS": NAMING | {"chmod", "fchmod", "utimensat"},
    "EINTR": FILLING | {"open", "openat"},
    "short": frozenset(("write", "pwrite64")),
}
"""The calls at which a kind of fault can happen; where nothing is said, at all."""

REMOVING = frozenset(("unlink", "unlinkat", "rmdir"))
LEFT = re.compile(
    r"(?:^|/)tmp_[a-z]+_gitcp_|^reftable/.*\.lock$|^objects/pack/.*\.keep$|^refs/gitcp/.*\.lock$|^(?:worktrees/[^/]+/)?gitcp/"
    r"(?!compensations/[^/]+$)(?:.*\.\d+|index.*)$"
)
"""Paths in the git directory that only a command that is running has."""

TABLES_FAILED = (
    "I/O error",
    "reftable: transaction failure: general error",
    "cannot lock references",  # it could not remove its lock before
)
"""All that git says where it cannot write tables of refs."""

CAUSES = {
    # git says no more of a rename
    "ENOSPC": ("disk is full", "No space left", "Unable to write new index file", *TABLES_FAILED),
    # where it is the remote's disk
    "full": ("disk is full", "No space left", "the remote refused", *TABLES_FAILED),
    "EIO": ("Input/output error", "Unable to write new index file", *TABLES_FAILED),
    "EACCES": ("Permission denied", *TABLES_FAILED),
    "EROFS": ("Read-only file system", *TABLES_FAILED),
    "EINTR": ("Interrupted system call", *TABLES_FAILED),
}
"""One of these must be said where a command failed."""


FAR = "hub.git"
"""A repository beside the project that stands for another machine: no fault happens there."""

ENV = {"PYTHONDONTWRITEBYTECODE": "1"}


def can_happen(scene: Scene, kind: str, call: Call) -> bool:
    """Whether a kind of fault can happen at a call."""
    said = call.paths[:1] == ("stdout",) or call.paths[:1] == ("stderr",)
    if kind != "kill" and call.paths[-1].endswith(scene.others or "\n"):
        return False
    return call.name in POSSIBLE.get(kind, {call.name}) and not (kind == "short" and said)


class Scene(NamedTuple):
    """A command, what is done before it, and how to tell afterwards that it was done.

    `goes_back`: it changes files, so that they are the old ones or the new ones afterwards, and the
    new ones or the old ones in the end (`undone`: then it is undone as well); but for those that a
    command `runs`, which are its own. `given` is its standard input, `code` its exit code when all
    goes well. `silent`: it ends with 0 whatever happens. `writes_git`: what is git's may change.
    `finish` is typed after a fault and must end with 0 (or, after a run, find that there is nothing
    to do); `judge` sees what else must hold. Paths that end as in `others` are written by a program
    that is run for the user: what it makes of an error is its own. `back` takes back what was done
    in part.
    """

    command: tuple[str, ...]
    is_done: Callable[[Stage], bool]
    before: Callable[[Stage], object] = lambda stage: None
    goes_back: bool = False
    undone: bool = False
    given: Callable[[Stage], str] = lambda stage: ""
    code: int = 0
    silent: bool = False
    writes_git: bool = False
    finish: tuple[str, ...] = ()
    judge: Callable[[Stage], object] = lambda stage: None
    runs: frozenset[bytes] = frozenset()
    others: tuple[str, ...] = ()
    back: str = "undo"


class State(NamedTuple):
    """All that may not be lost: checkpoints with their trees, tags, files and the conversation."""

    held: dict[CheckpointId, Oid]
    tags: dict[str, CheckpointId]
    files: dict[bytes, File]
    said: bytes


class Stage:
    """One scene's project at one place, put back to how it was before each attempt.

    `forking`: each command is a fork of this process, and not typed (see faults.process).
    `in_a_row`: so often the scene's command was done since it last was not.
    """

    def __init__(self, directory: Path, scene: Scene, *, forking: bool = False) -> None:
        self.scene = scene
        self.in_a_row = 0
        self.place, self._kept = directory / "stage", directory / "kept"
        self.place.mkdir(parents=True)
        os.environ["HOME"] = str(self.place / "home")
        os.environ["GIT_CONFIG_GLOBAL"] = str(self.place / "home/.gitconfig")
        self.place.joinpath("home").mkdir()
        self.place.joinpath("home/.gitconfig").touch()
        self.project = (Forking if forking else Project)(self.place / "project")
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
            project.write(
                f"d{number % 3}/{number}",
                f"first {number}\n" * 40,
                mode=0o600 if number == 5 else 0o644,
            )
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
        assert done.code == self.scene.code, done
        assert self.scene.is_done(self), done
        assert done.calls
        return done.calls

    def _guard(self) -> AbstractContextManager[None]:
        return nullcontext() if self.scene.writes_git else self.project.guard()

    def reset(self) -> None:
        """Everything as it was before the command. The directory stays, and so does its name."""
        for path in self.place.iterdir():
            shutil.rmtree(path)
        shutil.copytree(
            self._kept, self.place, symlinks=True, copy_function=_copy, dirs_exist_ok=True
        )

    def look(self, store: Store | None = None) -> State:
        """What is there now, in sessions and in the trash."""
        store = store or self.store
        tips = {
            *store.sessions().values(),
            *(tip for one in trash.entries(store) for tip in one.sessions.values()),
        }
        held = {node.id: node.root for tip in sorted(tips) for node in store.history(tip)}
        tags = {name: store.summary(commit).id for name, commit in store.tags().items()}
        return State(held, tags, contents(self.project), self.talk.path.read_bytes())

    def perform(self, fault: Fault | None) -> Traced:
        """Run the scene's command, with a fault in it."""
        become = (forked if isinstance(self.project, Forking) else typed)(self.scene.command)
        roots = [path for path in self.place.iterdir() if path.name != FAR]
        return tracer.run(
            become, self.project.root, roots, fault, ENV, self.scene.given(self).encode()
        )

    def attempt(self, kind: str, at: int) -> str:
        """Let one fault happen, and insist on everything that is promised of it. How the command
        ended.
        """
        error, lasting = KINDS[kind]
        return self.survive(kind, lambda: self.perform(Fault(at, error, lasting)), at)

    def survive(self, kind: str, perform: Callable[[], Traced], turn: int) -> str:
        """Put everything back, let the command run into trouble, and insist on what is promised.

        It may have left anything that the next command deals with by itself, and nothing else. What
        was begun is finished forward, backward, or forward and undone, by `turn`.
        """
        self.reset()
        with self._guard():
            done = perform()
            self._remove_locks(kind, done, turn, f"{TABLES}.lock")
            if self._met_another(kind, done, turn):
                return "another's"
            self._judge_what_it_said(kind, done)
            self._judge_files()
            self._judge_leftovers(kind, done, turn)
            self._next_command()
            if self.scene.finish:
                end = self.project.gitcp(*self.scene.finish)
                assert end.code in ((0, 12) if self.scene.runs else (0,)), end
            if self.scene.goes_back:
                self._finish(turn, in_part=done.code == 3)
            self._remove_locks(kind, done, turn, "reftable/*.lock")
        self._judge_store()
        self.scene.judge(self)
        self.in_a_row = self.in_a_row + 1 if done.code == self.scene.code else 0
        return "killed" if done.code == -9 else "done" if done.code == self.scene.code else "failed"

    def _remove_locks(self, kind: str, done: Traced, at: int, pattern: str) -> None:
        """Remove locks that a git which was killed, or could not remove a file, left on tables of
        refs, here and on the remote: the one thing that is for the user to remove. Only the lock of
        all tables is in the way.
        """
        met = done.calls[at - 1 : at]
        if kind == "kill" or any(call.name in REMOVING for call in met):
            for lock in self.place.rglob(pattern):
                lock.unlink()

    def _met_another(self, kind: str, done: Traced, at: int) -> bool:
        """Whether it was another's call that failed: who of two processes comes first is not always
        the same.
        """
        met = done.calls[at - 1 : at] if kind != "kill" and self.scene.others else ()
        return any(call.paths[-1].endswith(self.scene.others) for call in met)

    def _judge_what_it_said(self, kind: str, done: Traced) -> None:
        if kind == "kill":
            # What a background process does is its own: the command itself may have ended before.
            assert done.code in (-9, self.scene.code), done
            return
        assert done.code >= 0, done
        assert not any(word in done.err for word in ("Traceback", "internal error")), done.err
        if self.scene.silent:
            assert done.code == 0, done
        elif done.code == self.scene.code:
            assert self.scene.is_done(self), f"it said it was done: {done}"
        else:
            # What was done in part is said in the report, with the reasons.
            said = done.out + done.err if done.code == 3 else done.err
            assert any(cause in said for cause in CAUSES.get(kind, ())), (
                f"{kind}, {done.code}: {said}"
            )

    def _judge_files(self) -> None:
        """Each file is the old one; where files go back, the old one or the new one. None is cut
        short.
        """
        now = contents(self.project)
        if not self.scene.goes_back:
            assert now == self.before.files
            assert self.talk.path.read_bytes() == self.before.said
            return
        for path, file in now.items():
            own = is_temporary(path.rpartition(b"/")[2]) or path in self.scene.runs
            if not own and file.kind != "directory":
                known = (self.before.files.get(path), self.after.files.get(path))
                assert any(
                    one and (one.kind, one.data) == (file.kind, file.data) for one in known
                ), (path, file)
        assert self.talk.path.read_bytes().startswith(self.before.said)

    def _judge_leftovers(self, kind: str, done: Traced, at: int) -> None:
        """A command that failed leaves no temporary file of gitcp's, unless it was kept from
        removing it.
        """
        if kind in ("kill", "EROFS") or (kind == "full" and done.calls):
            # `full` under watch: nothing can be removed any more, which a real disk that is full
            # allows
            return
        if done.calls and done.calls[at - 1].name in REMOVING:
            return
        git = self.project.git_dir
        left = [
            str(path.relative_to(git))
            for path in git.rglob("*")
            if LEFT.search(str(path.relative_to(git)))
        ]
        assert not left, (
            f"left behind by {done.calls[at - 1] if done.calls else 'a full disk'}: {left}"
        )

    def _next_command(self) -> None:
        """The next command works, by itself and at once, and says what it knows of an unfinished
        restore.
        """
        done = self.project.gitcp("save", "the next command", "--session", "next", "--force")
        assert done.code == 0, done
        assert ("--continue" in done.err) == self._is_unfinished(), done.err

    def _is_unfinished(self) -> bool:
        """Whether a restore is; one that is in the operation log is not."""
        return journal.unfinished(self.store.repo) is not None

    def _finish(self, turn: int, *, in_part: bool) -> None:
        """Go on or back, to the byte, from wherever it stopped."""
        wanted = [self.before.files]
        forward = bool(turn % 2)
        if self._is_unfinished():
            self.project.gitcp("restore", "--continue" if forward else "--abort", "--yes", check=0)
            wanted = [self.after.files if forward else self.before.files]
        elif in_part:
            self.project.gitcp(self.scene.back, "--yes", check=0)
        else:
            wanted.append(self.after.files)
        self._insist_on_files(wanted)
        if forward and self.scene.undone and contents(self.project) == self.after.files:
            self.project.gitcp("undo", "--yes", check=0)
            self._insist_on_files([self.before.files])

    def _insist_on_files(self, wanted: list[dict[bytes, File]]) -> None:
        now = contents(self.project)
        assert now in wanted, sorted(
            path for path in now.keys() | wanted[0].keys() if now.get(path) != wanted[0].get(path)
        )

    def _judge_store(self) -> None:
        """Every checkpoint that was there is there, or in the trash; nothing is damaged or left
        behind.
        """
        store = self.store
        now = self.look(store)
        ways = [
            [str(id) for id, tree in way.held.items() if now.held.get(id) != tree]
            for way in (self.before, self.after)
        ]
        assert not all(ways), ways
        assert set(now.tags) >= set(self.before.tags) - set(
            self.before.tags.keys() - self.after.tags.keys()
        )
        found = check(store)
        assert found.ok, found
        left = [path for path in now.files if is_temporary(path.rpartition(b"/")[2])]
        assert not left, left
        own = [path.name for path in (self.project.git_dir / "gitcp").iterdir()]
        assert "moves.json" not in own, own


def _copy(old: str, new: str) -> None:
    """Copy a file; an object of git's, which nobody changes, need only be linked."""
    if "/.git/objects/" in old:
        os.link(old, new)
    else:
        shutil.copy2(old, new, follow_symlinks=False)
