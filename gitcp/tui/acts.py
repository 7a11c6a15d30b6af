"""Acts as command lines. What they do is decided by the commands; here is only how to say it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from gitcp.errors import BadValue

NOTE_KINDS = ("decided", "failed", "next", "active", "task", "objective", "phase", "fact")
"""What a note can be about: options of `gitcp note`."""


class Console(Protocol):
    """Where a command that the interface runs prints and asks."""

    def line(self, text: str) -> None:
        """Show a line."""

    def ask(self, question: str) -> bool:
        """Return whether the person agrees. Waits for the answer."""


Perform = Callable[[Sequence[str], Console], int]
"""Runs `gitcp ARGS` and returns its exit code; errors are lines."""


class Proposal(NamedTuple):
    """An act that is proposed: its title and its command line.

    `asks`: the command shows its plan and asks. `first` is a command that shows what would happen,
    for one that asks nothing, or not if nothing would change. `about` says it in words. `answers`:
    what it prints is read afterwards.
    """

    title: str
    args: tuple[str, ...]
    asks: bool = False
    first: tuple[str, ...] = ()
    about: str = ""
    undo: str = ""
    answers: bool = False

    @property
    def command(self) -> str:
        """The command line, as one would type it."""
        return shlex.join(["gitcp", *self.args])

    @property
    def trusting(self) -> Proposal:
        """The same act, allowed for a checkpoint from another repository."""
        return self.with_option(TRUST)

    def with_option(self, option: str) -> Proposal:
        """The same act with an option of its command."""
        args, first = (
            (each[0], option, *each[1:]) if each else () for each in (self.args, self.first)
        )
        return self._replace(args=args, first=first)


UNDO = "u undoes it"
TRUST = "--trust"
MINE, WHOLE_TREE = "--mine", "--whole-tree"
SCOPES = {
    "both": ("files and conversation", ()),
    "files": ("files", ("--files",)),
    "conversation": ("conversation", ("--conversation",)),
}


def restore(revision: str, scope: str) -> Proposal:
    """Restore files, conversation, or both."""
    words, options = SCOPES[scope]
    args = ("restore", revision, *options)
    return Proposal(f"Restore {revision}: {words}", args, True, (*args, "--dry-run"), undo=UNDO)


def restore_file(revision: str, path: str, shown: str) -> Proposal:
    """Restore one file; `path` is relative to the current directory."""
    args = ("restore", revision, "--", path)
    first = ("restore", revision, "--dry-run", "--", path)
    return Proposal(f"Restore {shown} from {revision}", args, True, first, undo=UNDO)


def to_directory(revision: str, directory: str) -> Proposal:
    """Write the files of a checkpoint to a directory."""
    args = ("restore", revision, "--to", directory)
    return Proposal(f"Write {revision} to {directory}", args, first=(*args, "--dry-run"))


def to_worktree(revision: str, directory: str) -> Proposal:
    """Start a new session in a new working tree."""
    args = ("fork", revision, "--worktree", directory)
    about = "A git worktree with the files of this checkpoint, and a new session in it."
    title = f"Fork {revision} to the working tree {directory}"
    return Proposal(title, args, first=_described(revision), about=about)


def fork(revision: str, name: str) -> Proposal:
    """Start a new session."""
    args = ("fork", revision, *(("--name", name) if name else ()))
    about = "A new session starts from this checkpoint. Your files and branches are unchanged."
    return Proposal(f"Fork {revision}", args, first=_described(revision), about=about)


def _described(revision: str) -> tuple[str, ...]:
    """Return the command that shows what kind of checkpoint this is."""
    return ("log", "-n", "1", revision)


def save(label: str, session: str | None) -> Proposal:
    """Save files and conversation, in a session if one is named."""
    where = ("--session", session) if session else ()
    args = ("save", *((label,) if label else ()), *where)
    return Proposal("Save a checkpoint", args, first=("status", *where))


def tag(revision: str, name: str) -> Proposal:
    """Name a checkpoint."""
    about = "Prune never drops a tagged checkpoint. The name can be used as a revision."
    args = ("tag", name, revision)
    return Proposal(f"Tag {revision} as {name}", args, first=_described(revision), about=about)


def revert(revision: str) -> Proposal:
    """Undo the changes of one checkpoint."""
    return Proposal(f"Revert {revision}", ("revert", revision), asks=True, undo=UNDO)


def bisect(good: str | None, bad: str, command: str) -> Proposal:
    """Find the first checkpoint on which a command fails. Raises BadValue."""
    try:
        program = shlex.split(command)
    except ValueError as error:
        raise BadValue(str(error)) from None
    start = ("--from", good) if good else ()
    about = "Checkpoints are tried in a scratch directory. Your files are unchanged."
    args = ("bisect", *start, "--to", bad, "--", *program)
    return Proposal(f"Find what broke {command}", args, about=about, answers=True)


def note(text: str) -> Proposal:
    """Add to the pending note: `decided: one file per change`."""
    kind, colon, content = text.partition(":")
    if not colon or kind.strip() not in NOTE_KINDS or not content.strip():
        raise BadValue(f"begin with one of {', '.join(NOTE_KINDS)} and a colon")
    args = ("note", f"--{kind.strip()}", content.strip())
    about = "The next checkpoint gets this note. Pending now:"
    return Proposal("Add a note", args, first=("note", "--show"), about=about)


def delete(name: str) -> Proposal:
    """Delete a session, or a checkpoint."""
    return Proposal(f"Delete {name}", ("delete", name), asks=True, undo=UNDO)


def prune(session: str) -> Proposal:
    """Drop the checkpoints of a session that no rule keeps."""
    args = ("prune", "--session", session)
    return Proposal(f"Prune session {session}", args, asks=True, undo=UNDO)


def view(revision: str) -> Proposal:
    """Open the browser."""
    return Proposal("Open in the browser", ("view", revision))


def undo() -> Proposal:
    """Undo the last operation."""
    return Proposal("Undo", ("undo",), asks=True, undo="U redoes it")


def undo_all() -> Proposal:
    """Undo the last restore and later changes, which the plan lists."""
    return Proposal(
        "Undo the restore and later changes", ("undo", WHOLE_TREE), asks=True, undo="U redoes it"
    )


def redo() -> Proposal:
    """Redo what was undone."""
    return Proposal("Redo", ("redo",), asks=True, undo=UNDO)
