"""Sessions as versions of files: which checkpoint gave each path which content; own sessions and
fetched ones.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import NamedTuple

from gitcp.errors import StoreDamaged
from gitcp.git import refs, segmented, trees
from gitcp.git.trees import is_content
from gitcp.history import diff, history
from gitcp.model import RESERVED, Entry, FileChange, Oid
from gitcp.store import Store, Summary

BINARY_HEAD = 8000
LARGEST = 4 << 20
"""Largest text, in bytes, whose lines are compared."""


class Version(NamedTuple):
    """The entry of a path from one checkpoint on. `place` counts checkpoints from 0; -1 stands for
    the state before the first.
    """

    place: int
    entry: Entry | None


class Chain:
    """The checkpoints of one session, oldest first, and every version of every path that they
    changed.

    `name` is `SESSION` or `REMOTE/SESSION`. `floor` is the tree below the first checkpoint; None if
    that is another session's checkpoint.
    """

    def __init__(
        self,
        name: str,
        floor: Oid | None,
        summaries: list[Summary],
        changes: list[tuple[FileChange, ...]],
    ) -> None:
        self.name = name
        self.floor = floor
        self.summaries = summaries
        self.changes = changes
        self.versions: dict[bytes, list[Version]] = {}
        for position, file_changes in enumerate(changes):
            for change in file_changes:
                versions = self.versions.setdefault(change.path, [Version(-1, change.old)])
                versions.append(Version(position, change.new))


def load(store: Store, floor: Oid | None, only: str | None = None) -> list[Chain]:
    """Return every session, own and fetched, without those that are the beginning of another; a
    fork has only its own checkpoints.

    A first checkpoint is compared with the commit it is based on, or with the tree `floor` if that
    commit is gone. `only` limits the result to one session.
    """
    tips = _tips(store, only)
    forest = {summary.commit: summary for summary in store.forest(set(tips.values()))}
    changed = (
        {
            checkpoint.commit: checkpoint.files
            for checkpoint in history.changed(store, set(tips.values()))
        }
        if tips
        else {}
    )
    walked = sorted(
        ((name, _walk(forest, tip)) for name, tip in tips.items()),
        key=lambda each: (-len(each[1]), each[0]),
    )
    chains: list[Chain] = []
    seen: set[Oid] = set()
    for name, summaries in walked:
        own = [summary for summary in summaries if summary.commit not in seen]
        if not own:
            continue
        seen.update(summary.commit for summary in own)
        base = _base_tree(store, own[0], floor) if own[0].parent is None else None
        changes = [
            changed[each.commit]
            if each.parent and not diff.is_without_files(forest[each.parent])
            else _first_changes(store, _base_tree(store, each, floor), each)
            for each in own
        ]
        chains.append(Chain(name, base, own, changes))
    return sorted(chains, key=lambda chain: (chain.summaries[0].created, chain.name))


def _tips(store: Store, only: str | None) -> dict[str, Oid]:
    tips = dict(store.sessions())
    for ref, tip in store.repo.refs.list(refs.REMOTES).items():
        remote, kind, name = (*ref.removeprefix(refs.REMOTES).split("/", 2), "", "")[:3]
        if kind == "sessions":
            tips[f"{remote}/{name}"] = tip
    return {name: tip for name, tip in tips.items() if only in (None, name)}


def _walk(forest: dict[Oid, Summary], tip: Oid) -> list[Summary]:
    summaries: list[Summary] = []
    commit: Oid | None = tip
    while commit is not None:
        summaries.append(forest[commit])
        commit = forest[commit].parent
    return summaries[::-1]


def _base_tree(store: Store, first: Summary, floor: Oid | None) -> Oid | None:
    if diff.is_without_files(first):
        return None
    base = first.trailers.get("Gitcp-Base")
    return (store.base_tree(Oid(base)) if base else None) or floor


def _first_changes(store: Store, base: Oid | None, first: Summary) -> tuple[FileChange, ...]:
    changes = trees.diff(store.reader, base, first.root)
    return tuple(change for change in changes if not change.path.startswith(RESERVED + b"/"))


# ---------------------------------------------------------------- lines


class ChainLines:
    """The lines of blobs and their sums: two changes that add and remove the same lines have the
    same sum, whatever surrounds them. So a change is recognized after a rebase.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.of = cache(self._read)
        self.sum = cache(self._sum)

    def change(self, old: Entry | None, new: Entry | None) -> int | None:
        """Return the sum of a change; None if a side is no text or cannot be read."""
        before, after = (self.sum(entry) for entry in (old, new))
        return None if before is None or after is None else (after - before) & (2**64 - 1)

    def added(self, old: Entry | None, new: Entry | None) -> tuple[bytes, ...]:
        """Return the lines longer than three characters that only the new side has."""
        old_lines = set(self.of(old) or ())
        return tuple(
            line
            for line in dict.fromkeys(self.of(new) or ())
            if line not in old_lines and len(line.strip()) > 3
        )

    def _read(self, entry: Entry | None) -> tuple[bytes, ...] | None:
        if entry is None:
            return ()
        if not is_content(entry.mode):
            return None
        try:
            data = self._store.reader.read_blob(entry.oid)
        # missing in a partial clone, or collected: its lines are unknown
        except StoreDamaged:
            return None
        if len(data) > LARGEST or b"\0" in data[:BINARY_HEAD] or segmented.decode(data):
            return None
        return tuple(data.removesuffix(b"\n").split(b"\n")) if data else ()

    def _sum(self, entry: Entry | None) -> int | None:
        lines = self._read(entry)
        if lines is None:
            return None
        return sum(map(_number, lines)) & (2**64 - 1)


@cache
def _number(line: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(line, digest_size=8).digest()) if line.strip() else 0
