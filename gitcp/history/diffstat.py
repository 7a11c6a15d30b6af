"""How many lines came and went, file by file: counted by git, for many checkpoints in one go. Reads
only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gitcp.errors import GitFailed
from gitcp.model import FileChange, Oid
from gitcp.store import Store
from gitcp.value import Value

COUNT = re.compile(rb"\n?(\d+|-)\t(\d+|-)\t(.+)", re.DOTALL)
MOST_TOPS = 500
OPTIONS = ("-r", "-z", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")


class FileStat(Value):
    """A path that changed. `added` and `removed` are None where lines are not counted: in what is
    no text.
    """

    path: bytes
    kind: str
    added: int | None = None
    removed: int | None = None


Counts = dict[bytes, tuple[bytes, bytes]]


def of(
    store: Store, checkpoints: Sequence[tuple[Oid, Sequence[FileChange]]], floor: Oid | None
) -> list[tuple[FileStat, ...]]:
    """For each checkpoint what it changed, given what that is. `floor` is the tree below a first
    one.

    Nothing is counted where git cannot read all of it.
    """
    tops = sorted(
        {change.path.split(b"/", 1)[0] for _, changes in checkpoints for change in changes}
    )
    only: list[str | bytes] = ["--", *tops] if len(tops) <= MOST_TOPS else []
    commits = [commit for commit, _ in checkpoints]
    try:
        counts = (
            {**_counted(store, commits, only), **_first(store, floor, commits[0], only)}
            if tops
            else {}
        )
    except GitFailed:  # an object is missing: `check` names it
        counts = {}
    return [
        tuple(_stat(change, counts.get(commit, {})) for change in changes)
        for commit, changes in checkpoints
    ]


def _stat(change: FileChange, counts: Counts) -> FileStat:
    added, removed = (
        int(n) if n.isdigit() else None for n in counts.get(change.path, (b"-", b"-"))
    )
    return FileStat(change.path, change.kind.value, added, removed)


def _first(
    store: Store, floor: Oid | None, first: Oid, only: list[str | bytes]
) -> dict[Oid, Counts]:
    if floor is None:
        return {}
    said = store.repo.git("diff-tree", *OPTIONS, floor, first, *only)
    found = (count for count in map(COUNT.fullmatch, said.split(b"\0")) if count)
    return {first: {count[3]: (count[1], count[2]) for count in found}}


def _counted(store: Store, commits: list[Oid], only: list[str | bytes]) -> dict[Oid, Counts]:
    """The counts by commit and path. A first checkpoint has none: it stands on a commit that is not
    its parent.
    """
    listed = "".join(f"{commit}\n" for commit in commits).encode("ascii")
    said = store.repo.git("diff-tree", "--stdin", "--always", *OPTIONS, *only, input=listed)
    found: dict[Oid, Counts] = {}
    here: Counts = {}
    for field in said.split(b"\0"):
        count = COUNT.fullmatch(field)
        if count is not None:
            here[count[3]] = (count[1], count[2])
        elif field.strip():
            here = found.setdefault(Oid(field.strip().decode("ascii")), {})
    return found
