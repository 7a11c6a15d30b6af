"""Sessions as versions of files: which checkpoint gave each path which content. Own sessions and
fetched ones.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import NamedTuple

from gitcp.errors import StoreDamaged
from gitcp.git import refs, trees
from gitcp.git.trees import is_content
from gitcp.history import diff, history
from gitcp.model import RESERVED, Entry, FileChange, Oid
from gitcp.store import Store, Summary

BINARY_HEAD = 8000
LARGEST = 4 << 20
"""Bytes of a text whose lines are compared."""


class Version(NamedTuple):
    """What a path was from one checkpoint on. `place` counts from 0; -1 is what there was before
    the first one.
    """

    place: int
    entry: Entry | None


class Chain:
    """The checkpoints of one session, the oldest first, and every version of every path that they
    changed.

    `name` is how the last one is meant: `SESSION`, or `REMOTE/SESSION`. `floor` is the tree that
    they stand on, None where they stand on another session's checkpoint.
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
        for place, found in enumerate(changes):
            for change in found:
                known = self.versions.setdefault(change.path, [Version(-1, change.old)])
                known.append(Version(place, change.new))


def load(store: Store, floor: Oid | None, only: str | None = None) -> list[Chain]:
    """Every session, ours and fetched; one that is the beginning of another is left out, as are
    forks' beginnings.

    What a first checkpoint changed is seen against the commit that it stands on, or against the
    tree `floor` where that commit is gone. `only` is the name of the one session that is wanted.
    """
    tips = _tips(store, only)
    forest = {summary.commit: summary for summary in store.forest(set(tips.values()))}
    changed = (
        {found.commit: found.files for found in history.changed(store, set(tips.values()))}
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
        below = _below(store, own[0], floor) if own[0].parent is None else None
        changes = [
            changed[each.commit] if each.parent else _first(store, below, each) for each in own
        ]
        chains.append(Chain(name, below, own, changes))
    return sorted(chains, key=lambda chain: (chain.summaries[0].created, chain.name))


def _tips(store: Store, only: str | None) -> dict[str, Oid]:
    found = dict(store.sessions())
    for ref, tip in refs.list_refs(store.repo.common_dir, refs.REMOTES).items():
        remote, kind, name = (*ref.removeprefix(refs.REMOTES).split("/", 2), "", "")[:3]
        if kind == "sessions":
            found[f"{remote}/{name}"] = tip
    return {name: tip for name, tip in found.items() if only in (None, name)}


def _walk(forest: dict[Oid, Summary], tip: Oid) -> list[Summary]:
    found: list[Summary] = []
    at: Oid | None = tip
    while at is not None:
        found.append(forest[at])
        at = forest[at].parent
    return found[::-1]


def _below(store: Store, first: Summary, floor: Oid | None) -> Oid | None:
    base = first.trailers.get("Gitcp-Base")
    return (diff.base_tree(store, Oid(base)) if base else None) or floor


def _first(store: Store, below: Oid | None, first: Summary) -> tuple[FileChange, ...]:
    found = trees.diff(store.objects, below, first.root)
    return tuple(change for change in found if not change.path.startswith(RESERVED + b"/"))


# ---------------------------------------------------------------- lines


class Lines:
    """The lines of blobs, and what they add up to: where two changes have the same sum, the same
    lines came and went, whatever stands around them. So a change is known again after a rebase.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.of = cache(self._read)
        self.sum = cache(self._sum)

    def change(self, old: Entry | None, new: Entry | None) -> int | None:
        """The sum of a change; None where a side is no text, or is not there to be read."""
        before, after = (self.sum(entry) for entry in (old, new))
        return None if before is None or after is None else (after - before) & (2**64 - 1)

    def added(self, old: Entry | None, new: Entry | None) -> tuple[bytes, ...]:
        """The lines that say something and that only the new side has."""
        known = set(self.of(old) or ())
        return tuple(
            line
            for line in dict.fromkeys(self.of(new) or ())
            if line not in known and len(line.strip()) > 3
        )

    def _read(self, entry: Entry | None) -> tuple[bytes, ...] | None:
        if entry is None:
            return ()
        if not is_content(entry.mode):
            return None
        try:
            data = self._store.objects.read_blob(entry.oid)
        # a partial clone, or collected: no line is known, and nothing is claimed
        except StoreDamaged:
            return None
        if len(data) > LARGEST or b"\0" in data[:BINARY_HEAD]:
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
