"""List what each checkpoint of whole chains changed, with one git command: comparing tree by tree
takes too long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from gitcp.git import trees
from gitcp.model import RESERVED, Entry, FileChange, Oid
from gitcp.store import Store, Summary

SEARCHED = 2000
"""Checkpoints in which a path is looked for."""

RAW = re.compile(rb":([0-7]+) ([0-7]+) ([0-9a-f]+) ([0-9a-f]+) [A-Z]")


class Changed(NamedTuple):
    """A checkpoint's commit, and the paths that it changed against its parent, including those in
    `.gitcp`.
    """

    commit: Oid
    changes: tuple[FileChange, ...]

    @property
    def files(self) -> tuple[FileChange, ...]:
        """The changes without those in `.gitcp`."""
        return tuple(
            change for change in self.changes if not change.path.startswith(RESERVED + b"/")
        )


def changed(store: Store, tips: Iterable[Oid], after: Oid | None = None) -> Iterator[Changed]:
    """Yield every checkpoint behind `tips` once, oldest first and parents before children,
    excluding `after` and older ones.

    A first checkpoint changed everything that it contains. Reads commits and trees, no blobs.
    """
    ends = [*tips, *([f"^{after}"] if after else [])]
    listed = store.repo.git(
        "rev-list",
        "--first-parent",
        "--date-order",
        "--reverse",
        "--stdin",
        input="\n".join(ends).encode("ascii"),
    )
    return changes_of(store, listed)


def newest_with(store: Store, tip: Oid | None, paths: Sequence[bytes]) -> Summary | None:
    """Return the newest checkpoint from `tip` back that has all these paths, None if none of the
    nearest has.
    """
    nearest = islice(store.readable(tip), SEARCHED)
    return next(
        (s for s in nearest if all(trees.lookup(store.reader, s.root, path) for path in paths)),
        None,
    )


def changes_of(store: Store, listed: bytes) -> Iterator[Changed]:
    """Yield what each of these commits changed, given one id a line; nothing for a merge."""
    options = (
        "--stdin",
        "--root",
        "-r",
        "-z",
        "--raw",
        "--no-renames",
        "--no-abbrev",
        "--no-color",
        "--always",
    )
    fields = iter(store.repo.git("diff-tree", *options, input=listed).split(b"\0"))
    commit, changes = None, []
    for field in fields:
        raw = RAW.fullmatch(field)
        if raw is not None:
            changes.append(FileChange(next(fields), _entry(raw[1], raw[3]), _entry(raw[2], raw[4])))
            continue
        if commit is not None:
            yield Changed(commit, tuple(changes))
        commit, changes = Oid(field.strip().decode("ascii")), []


def _entry(mode: bytes, oid: bytes) -> Entry | None:
    return Entry(int(mode, 8), Oid(oid.decode("ascii"))) if int(mode, 8) else None
