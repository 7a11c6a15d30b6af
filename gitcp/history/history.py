"""What each checkpoint of whole chains changed: found by git in one go, where comparing tree by
tree takes too long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gitcp.model import RESERVED, Entry, FileChange, Oid
from gitcp.store import Store

RAW = re.compile(rb":([0-7]+) ([0-7]+) ([0-9a-f]{40}) ([0-9a-f]{40}) [A-Z]")


class Changed(NamedTuple):
    """A checkpoint's commit, and the paths that it changed against the one before it, those in
    `.gitcp` too.
    """

    commit: Oid
    changes: tuple[FileChange, ...]

    @property
    def files(self) -> tuple[FileChange, ...]:
        """Those of the files half."""
        return tuple(
            change for change in self.changes if not change.path.startswith(RESERVED + b"/")
        )


def changed(store: Store, tips: Iterable[Oid], after: Oid | None = None) -> Iterator[Changed]:
    """Every checkpoint behind `tips`, once, the oldest first and parents before children; none up
    to `after`.

    A first checkpoint changed everything that it holds. Reads commits and trees, no blob.
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
    return of(store, listed)


def of(store: Store, listed: bytes) -> Iterator[Changed]:
    """What each of these commits changed, given one a line; a merge nothing."""
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
    commit, found = None, []
    for field in fields:
        raw = RAW.fullmatch(field)
        if raw is not None:
            found.append(FileChange(next(fields), _entry(raw[1], raw[3]), _entry(raw[2], raw[4])))
            continue
        if commit is not None:
            yield Changed(commit, tuple(found))
        commit, found = Oid(field.strip().decode("ascii")), []


def _entry(mode: bytes, oid: bytes) -> Entry | None:
    return Entry(int(mode, 8), Oid(oid.decode("ascii"))) if int(mode, 8) else None
