"""Count added and removed lines by file, with one git command for many checkpoints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import NamedTuple

from gitcp.errors import GitFailed, StoreDamaged
from gitcp.git import trees
from gitcp.git.object_format import FULL_NAME
from gitcp.history import appended
from gitcp.model import RESERVED, FileChange, Oid
from gitcp.store import Store, Summary
from gitcp.value import Value

COUNT = re.compile(rb"\n?(\d+|-)\t(\d+|-)\t(.+)", re.DOTALL)
PAIR = re.compile(rb"(%s) (%s)\n" % ((FULL_NAME.encode("ascii"),) * 2))
NOT_OURS = (b":/", b":(top,exclude).gitcp")
"""Pathspecs for everything but what gitcp adds to a tree."""

MOST_TOPS = 500
OPTIONS = ("-r", "-z", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")


class FileStat(Value):
    """A path that changed. `added` and `removed` count lines; None for content that is not text.
    `by` is who else changed it, in words; "" if only the checkpoint's session did, or nobody known.
    """

    path: bytes
    kind: str
    added: int | None = None
    removed: int | None = None
    by: str = ""


class Total(NamedTuple):
    """The number of changed files, and of lines added and removed in text files. `path` is that of
    the only file; b"" if there are more.
    """

    files: int
    added: int
    removed: int
    path: bytes = b""


Counts = dict[bytes, tuple[bytes, bytes]]
Pair = tuple[Oid, Oid]


def with_segments(summaries: Iterable[Summary | None]) -> frozenset[Oid]:
    """Return the trees of those checkpoints that have files stored as segments."""
    return frozenset(each.root for each in summaries if each is not None and each.has_segments)


def file_stats(
    store: Store, checkpoints: Sequence[tuple[Summary, Sequence[FileChange]]], floor: Oid | None
) -> list[tuple[FileStat, ...]]:
    """Return the line counts of the changes of each checkpoint; each is the parent of the next one.
    `floor` is the tree below the first one if it has no parent. Raises StoreDamaged.

    Where git cannot read everything, only lines appended to files stored as segments are counted.
    """
    if not checkpoints:
        return []
    tops = sorted(
        {change.path.split(b"/", 1)[0] for _, changes in checkpoints for change in changes}
    )
    only: list[str | bytes] = ["--", *tops] if len(tops) <= MOST_TOPS else []
    summaries = [summary for summary, _ in checkpoints]
    commits = [each.commit for each in summaries]
    counts: dict[Oid, Counts] = {}
    with suppress(GitFailed):  # an object is missing; `gitcp doctor --store` reports it
        if tops:
            counts = _count(store, commits, only) | _count_first(store, floor, commits[0], only)
    parent = summaries[0].parent
    first = store.summary(parent) if parent else None
    growing = with_segments((first, *summaries))
    before = first.root if first else floor or store.repo.object_format.empty_tree
    stats = []
    for summary, changes in checkpoints:
        is_growing = bool(changes) and not growing.isdisjoint((before, summary.root))
        lines = _appended(store, (before, summary.root)) if is_growing else {}
        stats.append(tuple(_stat(each, counts.get(summary.commit, {}), lines) for each in changes))
        before = summary.root
    return stats


def between(store: Store, old: Oid, new: Oid) -> tuple[FileStat, ...]:
    """Return the line counts of the files that differ between the trees of two checkpoints."""
    changes = [
        change
        for change in trees.diff(store.reader, old, new)
        if not change.path.startswith(RESERVED + b"/")
    ]
    counts: Counts = {}
    with suppress(GitFailed):  # an object is missing; `gitcp doctor --store` reports it
        output = store.repo.git("diff-tree", *OPTIONS, old, new)
        matches = filter(None, map(COUNT.fullmatch, output.split(b"\0")))
        counts = {count[3]: (count[1], count[2]) for count in matches}
    lines = _appended(store, (old, new))
    return tuple(_stat(change, counts, lines) for change in changes)


def _appended(store: Store, pair: Pair) -> appended.Counts:
    """Return the lines of files whose counts by git are those of a pointer to segments."""
    with suppress(StoreDamaged):  # `gitcp doctor --store` reports it
        return appended.between(store, *pair)
    return {}


def _stat(change: FileChange, counts: Counts, lines: appended.Counts) -> FileStat:
    added, removed = (
        int(n) if n.isdigit() else None for n in counts.get(change.path, (b"-", b"-"))
    )
    if change.path in lines:
        added, removed = lines[change.path] or (None, None)
    return FileStat(change.path, change.kind.value, added, removed)


def _count_first(
    store: Store, floor: Oid | None, first: Oid, only: list[str | bytes]
) -> dict[Oid, Counts]:
    if floor is None:
        return {}
    output = store.repo.git("diff-tree", *OPTIONS, floor, first, *only)
    counts = (count for count in map(COUNT.fullmatch, output.split(b"\0")) if count)
    return {first: {count[3]: (count[1], count[2]) for count in counts}}


def _count(store: Store, commits: list[Oid], only: list[str | bytes]) -> dict[Oid, Counts]:
    """Return the counts by commit and path; none for a first checkpoint, whose base is not its
    parent.
    """
    listed = "".join(f"{commit}\n" for commit in commits).encode("ascii")
    output = store.repo.git("diff-tree", "--stdin", "--always", *OPTIONS, *only, input=listed)
    counts: dict[Oid, Counts] = {}
    of_commit: Counts = {}
    for field in output.split(b"\0"):
        count = COUNT.fullmatch(field)
        if count is not None:
            of_commit[count[3]] = (count[1], count[2])
        elif field.strip():
            of_commit = counts.setdefault(Oid(field.strip().decode("ascii")), {})
    return counts


def totals(
    store: Store, pairs: Iterable[Pair], growing: AbstractSet[Oid], paths: Sequence[bytes] = ()
) -> dict[Pair, Total]:
    """Return the totals for many pairs of checkpoint trees, of `paths` if given; none if git cannot
    read everything. `growing` are those trees that have files stored as segments.
    """
    pairs = list(dict.fromkeys(pairs))
    if not pairs:
        return {}
    listed = "".join(f"{old} {new}\n" for old, new in pairs).encode("ascii")
    command = ("--no-literal-pathspecs", "diff-tree", "--stdin", *OPTIONS, "--")
    limits = [b":(top,literal)" + path for path in paths] or [NOT_OURS[0]]
    try:
        output = store.repo.git(*command, *limits, NOT_OURS[1], input=listed)
    except GitFailed:  # an object is missing; `gitcp doctor --store` reports it
        return {}
    lines = {pair: _appended(store, pair) for pair in pairs if not growing.isdisjoint(pair)}
    return {**dict.fromkeys(pairs, Total(0, 0, 0)), **_parse_totals(output, lines)}


def _parse_totals(output: bytes, lines: Mapping[Pair, appended.Counts]) -> dict[Pair, Total]:
    """Return the totals in git's output: for each pair `OLD NEW`, a line feed, and its counts.
    `lines` are the counts of files of which git has compared pointers.
    """
    totals: dict[Pair, Total] = {}
    total = Total(0, 0, 0)
    of_pair: appended.Counts = {}
    for field in output.split(b"\0"):
        end = 0
        while (header := PAIR.match(field, end)) is not None:
            pair = Oid(header[1].decode("ascii")), Oid(header[2].decode("ascii"))
            total, end = Total(0, 0, 0), header.end()
            totals[pair], of_pair = total, lines.get(pair, {})
        count = COUNT.fullmatch(field, end)
        if count is not None:
            added, removed = (int(n) if n.isdigit() else 0 for n in (count[1], count[2]))
            if count[3] in of_pair:
                added, removed = of_pair[count[3]] or (0, 0)
            path = b"" if total.files else count[3]
            total = Total(total.files + 1, total.added + added, total.removed + removed, path)
            totals[pair] = total
    return totals
