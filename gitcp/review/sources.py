"""The diff of a commit as a review shows it: each hunk with the checkpoints its lines came from.
Reads only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from gitcp.errors import GitFailed
from gitcp.history.authors import is_restore
from gitcp.history.chains import Chain, ChainLines
from gitcp.model import Entry, Oid
from gitcp.review.links import Commit, Link
from gitcp.review.page_diff import PageDiff, page_diffs
from gitcp.review.patches import FilePatch, Hunk, decoded
from gitcp.store import Store
from gitcp.value import Value
from gitcp.worktree.paths import display

SIGNS = ("+", "-")


class SourcedFile(Value):
    """A changed file of a commit. `sources` has the ids of the checkpoints that each hunk's lines
    came from, oldest first; none for lines that no linked checkpoint wrote.
    """

    patch: FilePatch
    sources: tuple[tuple[str, ...], ...] = ()


class SourcedDiff(Value):
    """A commit's diff: the `files` that are shown, and the paths of those too large or too many."""

    files: tuple[SourcedFile, ...] = ()
    others: tuple[bytes, ...] = ()


def diffs(
    store: Store,
    commits: Sequence[Commit],
    linked: Mapping[Oid, Link],
    chains: Sequence[Chain],
    lines: ChainLines,
) -> list[SourcedDiff]:
    """Return the diff of each commit with its parent; an empty one for a merge, and where a tree is
    missing. All are empty if git cannot read everything.
    """
    pairs = [_trees(store, commit) for commit in commits]
    try:
        shown = iter(page_diffs(store, [pair for pair in pairs if pair is not None]))
    except GitFailed:  # an object is missing; `gitcp doctor --store` reports it
        return [SourcedDiff()] * len(commits)
    return [
        SourcedDiff()
        if pair is None
        else _sourced(commit, next(shown), writers_of(linked.get(commit.oid), chains), lines)
        for commit, pair in zip(commits, pairs, strict=True)
    ]


def _trees(store: Store, commit: Commit) -> tuple[Oid | None, Oid] | None:
    new = store.base_tree(commit.oid)
    old = store.base_tree(commit.parents[0]) if commit.parents else None
    if len(commit.parents) > 1 or new is None or (commit.parents and old is None):
        return None
    return old, new


class Writers(Value):
    """The linked checkpoints of a commit in one chain, by their index in it."""

    chain: Chain
    indexes: frozenset[int]


def writers_of(link: Link | None, chains: Sequence[Chain]) -> tuple[Writers, ...]:
    """Return where the checkpoints that a commit came from are in their chains."""
    oids = set(link.checkpoints) if link else set()
    return tuple(
        Writers(chain, frozenset(indexes))
        for chain in chains
        if (indexes := [n for n, each in enumerate(chain.summaries) if each.commit in oids])
    )


def _sourced(
    commit: Commit, page_diff: PageDiff, writers: Sequence[Writers], lines: ChainLines
) -> SourcedDiff:
    paths = {display(change.path): change.path for change in commit.changes}
    files = []
    for patch in page_diff.files:
        path = paths.get(patch.path)
        origins = origins_of(path, writers, lines) if path is not None else {}
        files.append(SourcedFile(patch, tuple(_of_hunk(hunk, origins) for hunk in patch.hunks)))
    return SourcedDiff(tuple(files), page_diff.others)


Origins = dict[tuple[str, str], str]
"""The id of the last checkpoint that added ("+") or removed ("-") a line."""


def origins_of(path: bytes, writers: Sequence[Writers], lines: ChainLines) -> Origins:
    """Return which of these checkpoints wrote each line of a path, and which removed it."""
    origins: Origins = {}
    for each in writers:
        for before, version in pairwise(each.chain.versions.get(path, [])):
            if version.place not in each.indexes:
                continue
            summary = each.chain.summaries[version.place]
            restored = is_restore(summary)
            for sign, line in _changed(before.entry, version.entry, lines):
                if not (restored and (sign, line) in origins):  # a restore writes nothing new
                    origins[sign, line] = str(summary.id)
    return origins


def times_written(
    path: bytes, writers: Sequence[Writers], lines: ChainLines, counts: Callable[[Oid], bool]
) -> Counter[str]:
    """Return how often these checkpoints added each line of a path, those that `counts` accepts."""
    times = Counter[str]()
    for each in writers:
        for before, version in pairwise(each.chain.versions.get(path, [])):
            if version.place not in each.indexes:
                continue
            summary = each.chain.summaries[version.place]
            if not is_restore(summary) and counts(summary.commit):
                old, new = (map(decoded, lines.of(v.entry) or ()) for v in (before, version))
                times += Counter(new) - Counter(old)
    return times


def _changed(old: Entry | None, new: Entry | None, lines: ChainLines) -> Iterator[tuple[str, str]]:
    for sign, changed in zip(SIGNS, (lines.added(old, new), lines.added(new, old)), strict=True):
        yield from ((sign, decoded(line)) for line in changed)


def _of_hunk(hunk: Hunk, origins: Origins) -> tuple[str, ...]:
    """Return the sources of a hunk's lines, each once, in the order of the lines."""
    ids = (
        origins.get((run.sign, line))
        for run in hunk.runs
        if run.sign in SIGNS
        for line in run.text.split("\n")
    )
    return tuple(dict.fromkeys(id for id in ids if id is not None))
