"""Explain lines and paths: the checkpoint that added a line, those that changed a path, and why a
path is in no checkpoint.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gitcp.errors import BadValue, GitFailed
from gitcp.git import scratch, trees
from gitcp.history import authors, history
from gitcp.model import GITLINK, NOBODY, RESERVED, TREE, Checkpoint, Claim, Entry, Oid, Trigger
from gitcp.store import Store, Summary
from gitcp.value import Value
from gitcp.worktree import convert, rules
from gitcp.worktree.paths import display
from gitcp.worktree.view import WorktreeView
from gitcp.worktree.writer import Writer

BLAME = ("blame", "--porcelain", "--no-textconv", "--first-parent")


class LineOrigin(Value):
    """The origin of a line: the checkpoint that added it; None if none has it yet.

    `began`: the session's first checkpoint has it already, so gitcp does not know who added it;
    `base` is then the commit that has an older version of the file, if there is one. `by` is who
    wrote it, None if that is not recorded: sessions in one working tree save each other's changes.
    """

    number: int
    text: str
    made: Checkpoint | None
    began: bool = False
    by: Claim | None = None
    base: Oid | None = None
    path: bytes = b""

    @property
    def prompt(self) -> str | None:
        """The prompt that the line was written for; None if another session wrote it."""
        return prompt_behind(self.made, self.by) if self.made is not None else None

    def to_json(self) -> dict[str, Any]:
        """Return the fields that `gitcp why --json` prints."""
        from gitcp import documents  # only for programs

        return documents.encode(
            documents.Origin(
                path=self.path,
                line=self.number,
                text=documents.utf8(self.text),
                checkpoint=self.made.id if self.made else None,
                began=self.began,
                prompt=self.prompt,
                by=self.by,
            )
        )


class PathHistory(Value):
    """The checkpoints that changed a path, newest first, and why it is not in the last one."""

    changed: tuple[Summary, ...]
    missing: str
    path: bytes = b""

    def to_json(self) -> dict[str, Any]:
        """Return the fields that `gitcp why --json` prints."""
        from gitcp import documents  # only for programs

        ids = tuple(summary.id for summary in self.changed)
        return documents.encode(
            documents.Origin(
                path=self.path,
                line=None,
                text=None,
                checkpoint=ids[0] if ids else None,
                changed=ids,
                missing=self.missing or None,
            )
        )


def prompt_behind(made: Checkpoint, by: Claim | None) -> str | None:
    """Return the prompt of a checkpoint for what `by` changed in it; None if that was another
    session.
    """
    if made.conversation is None:
        return None
    names = by.sessions | by.possible if by is not None else frozenset()
    is_others = bool(names - {NOBODY}) and made.id.session not in names
    return None if is_others else made.conversation.digest.last_prompt


def line(store: Store, last: Checkpoint, path: bytes, number: int) -> LineOrigin:
    """Return the origin of a line of a file, as it is on disk, or in `last` if it is deleted.

    Raises BadValue if there is no such file or line.
    """
    entry = trees.lookup(store.reader, last.root, path)
    conversion = next((each for each in last.snapshot.converted if each.path == path), None)
    if conversion is not None and (conversion.segments or conversion.lfs):
        kind = "a large file that a program appends to" if conversion.segments else "in Git LFS"
        raise BadValue(
            f"{display(path)} is {kind}: who added its lines is not known",
            hint=f"gitcp why {shlex.quote(display(path))}",
        )
    stored = _lines(store.reader.read_blob(entry.oid)) if entry and is_file(entry.mode) else None
    with Writer(store.repo.root) as tree:
        data = WorktreeView(tree).read(path)
    if data is not None and conversion is not None:
        data = convert.blob_of(data, conversion)
    current = stored if data is None else _lines(data)
    if current is None:
        raise BadValue(
            f"{display(path)} is not a file, on disk or in {last.id}",
            hint=f"gitcp show --files {last.id}",
        )
    if not 1 <= number <= len(current):
        raise BadValue(f"{display(path)} has {len(current):,} lines: no line {number:,}")
    text = current[number - 1].decode("utf-8", "surrogateescape")
    position = _stored_position(stored, current, number - 1) if stored is not None else None
    if position is None:
        return LineOrigin(number, text, None, path=path)
    made, first, by = _origin(store, last, path, position)
    if made.parent is not None or first is not None:
        return LineOrigin(number, text, first or made, by=by, path=path)
    commit = made.snapshot.base.commit
    base = store.base_tree(commit)
    is_older = base is not None and trees.lookup(store.reader, base, path) is not None
    return LineOrigin(number, text, made, True, by, commit if is_older else None, path)


def _origin(
    store: Store, last: Checkpoint, path: bytes, position: int
) -> tuple[Checkpoint, Checkpoint | None, Claim | None]:
    """Return the checkpoint of the session that added a line of `last`, the first checkpoint of the
    working tree that has it, and who wrote it; None for what is not recorded.

    A restore wrote nothing: the line is followed to where the restore got it from.
    """
    followed: set[Oid] = set()
    while True:
        commit, position = _blame(store, last, path, position + 1)
        made = store.read(commit)
        first, by, position = _written(store, made, path, position)
        maker = first or made
        before = None
        if maker.trigger is Trigger.RESTORE and maker.commit not in followed:
            before = _before_restore(store, maker, path, position)
        if before is None:
            return made, first, by
        followed.add(maker.commit)
        last, position = before


def _before_restore(
    store: Store, restore: Checkpoint, path: bytes, position: int
) -> tuple[Checkpoint, int] | None:
    """Return the checkpoint that a restore got a line from, and the line's index there; None if it
    did not get it from any, as with conflict markers.

    If that checkpoint was dropped, any older one of the session that has the line will do.
    """
    lines = _lines_of(store, restore, path)
    source = authors.restored_source(store, restore)
    candidates: Iterable[Checkpoint] = [source] if source else _older(store, restore, path)
    for each in candidates:
        earlier = _stored_position(_lines_of(store, each, path), lines, position)
        if earlier is not None:
            return each, earlier
    return None


def _older(store: Store, last: Checkpoint, path: bytes) -> Iterator[Checkpoint]:
    """Yield the checkpoints before `last` that changed a path, the newest first."""
    changed = [
        commit
        for commit, changes in history.changed(store, [last.commit])
        if commit != last.commit and any(change.path == path for change in changes)
    ]
    return map(store.read, reversed(changed))


def _lines_of(store: Store, checkpoint: Checkpoint, path: bytes) -> list[bytes]:
    """Return the lines of a file, none if the checkpoint does not have it."""
    entry = trees.lookup(store.reader, checkpoint.root, path)
    return _lines(store.reader.read_blob(entry.oid)) if entry and is_file(entry.mode) else []


def _written(
    store: Store, made: Checkpoint, name: bytes, position: int
) -> tuple[Checkpoint | None, Claim | None, int]:
    """Return the first checkpoint of any session in the working tree that has a line of `made`, who
    wrote it, and the line's index there; None for what is not recorded.
    """
    in_made = position
    for step in authors.WorktreeHistory(store).steps(made.commit):
        if made.parent == step.after.commit or not step.is_recorded:
            break
        sides = [each and trees.lookup(store.reader, each.root, name) for each in step.sides]
        if sides[0] == sides[1]:
            continue
        before, after = (_lines_of(store, each, name) if each else [] for each in step.sides)
        earlier = _stored_position(before, after, position)
        if earlier is None:
            if step.before is None and made.parent is None:
                break
            return step.after, step.claims().get(name), position
        position = earlier
    return None, None, in_made


def is_file(mode: int) -> bool:
    """Return whether an entry of this mode is a blob."""
    return mode not in (TREE, GITLINK)


def path(store: Store, last: Checkpoint, name: bytes) -> PathHistory:
    """Return which checkpoints up to `last` changed a path or something below it, and why `last`
    does not have it ("" if it has).

    A restore of what an earlier one of these had wrote nothing, and is left out.
    """
    changed = []
    shown = []
    seen: set[Entry | None] = {None}
    for commit, changes in history.changed(store, [last.commit]):
        if any(change.path == name or change.path.startswith(name + b"/") for change in changes):
            changed.append(store.summary(commit))
            entry = trees.lookup(store.reader, changed[-1].root, name)
            if entry not in seen or not authors.is_restore(changed[-1]):
                shown.append(changed[-1])
            seen.add(entry)
    exists = trees.lookup(store.reader, last.root, name) is not None
    missing = "" if exists else _why_missing(store, last, name, changed[-1] if changed else None)
    return PathHistory(tuple(reversed(shown)), missing, name)


def _lines(data: bytes) -> list[bytes]:
    return [each.rstrip(b"\r") for each in data.removesuffix(b"\n").split(b"\n")] if data else []


def _stored_position(stored: list[bytes], current: list[bytes], number: int) -> int | None:
    """Return the index of a line in the stored file; None if it is not in it."""
    if stored == current:
        return number
    matcher = difflib.SequenceMatcher(None, stored, current, autojunk=len(current) > 10_000)
    for start, position, size in matcher.get_matching_blocks():
        if position <= number < position + size:
            return start + number - position
    return None


def _blame(store: Store, last: Checkpoint, name: bytes, number: int) -> tuple[Oid, int]:
    """Return the checkpoint of the session that added a line, and the line's index there.

    git runs without the user's settings: it stops where `blame.ignoreRevsFile` names a file that
    this repository does not have, and no option overrides that.
    """
    span = f"{number},{number}"
    try:
        with TemporaryDirectory(prefix="gitcp-") as directory:
            git = scratch.alone(scratch.create(store.repo, Path(directory))).git
            output = git(*BLAME, "-L", span, last.commit, "--", name)
    except GitFailed as error:
        raise BadValue(
            f"git cannot find the origin of line {number} of {display(name)}: {error}"
        ) from None
    commit, original = output.split(b" ", 2)[:2]
    return Oid(commit.decode("ascii")), int(original) - 1


def _why_missing(store: Store, last: Checkpoint, name: bytes, changed: Summary | None) -> str:
    """Return why a path is not in a checkpoint: skipped, ignored, deleted or never there.

    `changed` is the newest checkpoint that changed it.
    """
    for skip in last.snapshot.skipped:
        if name == skip.path.rstrip(b"/") or name.startswith(skip.path.rstrip(b"/") + b"/"):
            return (
                f"skipped in {last.id}: "
                f"{skip.reason.value}{', ' + skip.detail if skip.detail else ''}"
            )
    if name in last.snapshot.empty_directories:
        return f"an empty directory: recorded in {last.id}"
    if name.split(b"/")[0] in (RESERVED, b".git"):
        return "never saved: it belongs to gitcp or git"
    if any(name == each.path or name.startswith(each.path + b"/") for each in last.snapshot.nested):
        return "inside another repository, which is not saved"
    with Writer(store.repo.root) as tree:
        disk = WorktreeView(tree)
        kind = disk.kind(name)
        if not kind:
            return _why_deleted(store, last, name, changed)
        pattern = name + b"/" if kind == "directory" else name
        if rules.ignored(store.repo, [pattern], disk.read):
            return (
                f"ignored (git check-ignore -v {display(name)} shows the rule; gitcp save "
                "--include saves it anyway)"
            )
    return f"did not exist when {last.id} was saved: gitcp save includes it"


def _why_deleted(store: Store, last: Checkpoint, name: bytes, changed: Summary | None) -> str:
    """Return what happened to a path that is neither in a checkpoint nor on disk."""
    if changed is not None:
        command = f"gitcp restore {changed.id}~1 -- {shlex.quote(display(name))}"
        return f"deleted in {changed.id} ({command})"
    base = last.snapshot.base.commit
    tree = store.base_tree(base)
    if base and tree is not None and trees.lookup(store.reader, tree, name) is not None:
        return f"deleted before the first checkpoint; commit {base[:10]} has it"
    return "not on disk and in no checkpoint"
