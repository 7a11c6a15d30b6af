"""Why: which checkpoint made a line, which ones changed a path, and why a path is in no checkpoint.
Reads only.
"""

from __future__ import annotations

import difflib

from gitcp.errors import BadValue, GitFailed
from gitcp.git import trees
from gitcp.history import history
from gitcp.model import GITLINK, RESERVED, TREE, Checkpoint, Oid
from gitcp.store import Store, Summary
from gitcp.value import Value
from gitcp.worktree import rules
from gitcp.worktree.paths import display
from gitcp.worktree.view import WorktreeView
from gitcp.worktree.writer import Writer

BLAME = ("blame", "--porcelain", "--no-textconv", "--first-parent", "--ignore-revs-file=")


class Line(Value):
    """Where a line comes from: the checkpoint that made it, None if no checkpoint has it yet.

    `began`: it was there when the session began, so that gitcp does not know who made it.
    """

    number: int
    text: str
    made: Checkpoint | None
    began: bool = False


class Known(Value):
    """What the checkpoints know of a path: those that changed it, newest first, and why it is not
    in the last one.
    """

    changed: tuple[Summary, ...]
    missing: str


def line(store: Store, last: Checkpoint, path: bytes, number: int) -> Line:
    """Which checkpoint made a line of a file, as the file is now, or as `last` has it where it is
    gone.

    Raises BadValue where there is no such file or line.
    """
    entry = trees.lookup(store.objects, last.root, path)
    stored = (
        _lines(store.objects.read_blob(entry.oid))
        if entry and entry.mode not in (TREE, GITLINK)
        else None
    )
    with Writer(store.repo.root) as tree:
        data = WorktreeView(tree).read(path)
    here = stored if data is None else _lines(data)
    if here is None:
        raise BadValue(
            f"{display(path)} is no file, here or in {last.id}",
            hint=f"gitcp show --files {last.id}",
        )
    if not 1 <= number <= len(here):
        raise BadValue(f"{display(path)} has {len(here):,} lines, and no line {number:,}")
    text = here[number - 1].decode("utf-8", "surrogateescape")
    then = _place(stored, here, number - 1) if stored is not None else None
    if then is None:
        return Line(number, text, None)
    made = store.read(_blamed(store, last, path, then + 1))
    return Line(number, text, made, began=made.parent is None)


def path(store: Store, last: Checkpoint, name: bytes) -> Known:
    """Which checkpoints up to `last` changed a path or what is below it, and why `last` does not
    have it ("" if so).
    """
    found = []
    for commit, changes in history.changed(store, [last.commit]):
        if any(change.path == name or change.path.startswith(name + b"/") for change in changes):
            found.append(store.summary(commit))
    there = trees.lookup(store.objects, last.root, name) is not None
    return Known(tuple(reversed(found)), "" if there else _missing(store, last, name))


def _lines(data: bytes) -> list[bytes]:
    return [each.rstrip(b"\r") for each in data.removesuffix(b"\n").split(b"\n")] if data else []


def _place(then: list[bytes], here: list[bytes], number: int) -> int | None:
    """Where a line was in the stored file; None if it is not in it."""
    if then == here:
        return number
    matcher = difflib.SequenceMatcher(None, then, here, autojunk=len(here) > 10_000)
    for start, place, size in matcher.get_matching_blocks():
        if place <= number < place + size:
            return start + number - place
    return None


def _blamed(store: Store, last: Checkpoint, name: bytes, number: int) -> Oid:
    span = f"{number},{number}"
    try:
        said = store.repo.git(*BLAME, "-L", span, last.commit, "--", name)
    except GitFailed as error:
        raise BadValue(
            f"git cannot tell where line {number} of {display(name)} comes from: {error}"
        ) from None
    return Oid(said[:40].decode("ascii"))


def _missing(store: Store, last: Checkpoint, name: bytes) -> str:
    """Why a path is not in a checkpoint: left out then, ignored now, or not there."""
    for skip in last.snapshot.skipped:
        if name == skip.path.rstrip(b"/") or name.startswith(skip.path.rstrip(b"/") + b"/"):
            return (
                f"left out of {last.id}: "
                f"{skip.reason.value}{', ' + skip.detail if skip.detail else ''}"
            )
    if name in last.snapshot.empty_directories:
        return f"an empty directory: it is written down in {last.id}"
    if name.split(b"/")[0] in (RESERVED, b".git"):
        return "never saved: it is gitcp's or git's own"
    if any(name == each.path or name.startswith(each.path + b"/") for each in last.snapshot.nested):
        return "inside another repository, which is not entered"
    with Writer(store.repo.root) as tree:
        disk = WorktreeView(tree)
        kind = disk.kind(name)
        if not kind:
            return "not there, neither now nor then"
        asked = name + b"/" if kind == "directory" else name
        if rules.ignored(store.repo, [asked], disk.read):
            return (
                f"ignored (git check-ignore -v {display(name)} says why; gitcp save --include "
                "takes it all the same)"
            )
    return f"not there when {last.id} was saved: gitcp save takes it"
