"""What a row of a listing shows: its title, and how much it changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

from gitcp import humanize
from gitcp.errors import GitcpError, StoreDamaged
from gitcp.history import folding
from gitcp.history.diff import tree_before_commit
from gitcp.history.diffstat import Pair, Total, totals, with_segments
from gitcp.history.folding import FoldedRow
from gitcp.model import Oid
from gitcp.store import NO_LABEL, Store, Summary
from gitcp.worktree.paths import display

PAGE = 20
"""Rows whose changed lines are counted together: the first page appears before the rest is read."""

LARGEST_PAGE = 2560
"""So many of them at most; a log of 10,000 checkpoints then starts 10 processes instead of 500."""

MOST_FILES = 1000
"""Rows with more changed files than this have no line counts: git would read every file."""


class Counted(NamedTuple):
    """A row and its totals; None if they were not counted. `limited`: of some paths only."""

    row: FoldedRow
    total: Total | None
    limited: bool = False

    @property
    def files(self) -> int:
        """The number of files that the row changed."""
        return self.total.files if self.total else changed_in(self.row)

    @property
    def extent(self) -> str:
        """`3 files`, or the path of the only one; "no files changed". A first checkpoint can be of
        a path without having changed it.
        """
        base = self.row.oldest.trailers.get("Gitcp-Base", "")
        if not self.files and self.limited and base and not self.row.oldest.parent:
            return f"unchanged from commit {base[:10]}"
        if not self.files:
            return "no files changed"
        if self.total and self.total.path:
            return display(self.total.path)
        return humanize.count(self.files, "file")


def title(summary: Summary) -> str:
    """Return the label, the prompt or the generated subject."""
    prompt = folding.prompt(summary)
    if prompt is not None:
        return prompt
    trigger = summary.trailers.get("Gitcp-Trigger", "")
    return NO_LABEL if summary.subject == f"{trigger} {summary.id}" else summary.subject


def changed_files(summary: Summary) -> int:
    """Return how many files a checkpoint changed: the number in `7 (3 changed)`."""
    number = summary.trailers.get("Gitcp-Files", "").partition("(")[2].partition(" ")[0]
    return int(number) if number.isdecimal() and len(number) < 20 else 0


def changed_in(row: FoldedRow) -> int:
    """Return the sum of the files changed by each checkpoint of a row."""
    return changed_files(row.newest) + sum(map(changed_files, row.folded))


def counted(store: Store, rows: Iterable[FoldedRow]) -> Iterator[Counted]:
    """Count what each row changed, as `pages` does."""
    return chain.from_iterable(pages(store, rows))


def pages(
    store: Store, rows: Iterable[FoldedRow], paths: Sequence[bytes] = ()
) -> Iterator[list[Counted]]:
    """Count what each row changed, of `paths` if given, a page of rows at a time. Where reading a
    chain fails, the rows before that come first; a row is not counted where what it is compared
    with is damaged.
    """
    for page in _pages(rows):
        pairs: dict[int, Pair] = {}
        growing: set[Oid] = set()
        listed = {row.newest.commit: row.newest for row in page}
        for row in page:
            with suppress(StoreDamaged):
                if changed_in(row) <= MOST_FILES:
                    parent = _parent(store, row, listed)
                    before = tree_before_commit(store, row.oldest, parent)
                    before = before or store.repo.object_format.empty_tree
                    pairs[id(row)] = before, row.newest.root
                    growing |= with_segments((parent, row.newest))
        counts = totals(store, pairs.values(), growing, paths)
        each_pair = ((row, pairs.get(id(row))) for row in page)
        yield [
            Counted(row, counts.get(pair) if pair else None, bool(paths)) for row, pair in each_pair
        ]


def _pages(rows: Iterable[FoldedRow]) -> Iterator[list[FoldedRow]]:
    """Yield rows together, few at first and then more: for each page a git is started."""
    page: list[FoldedRow] = []
    size = PAGE
    try:
        for row in rows:
            page.append(row)
            if len(page) == size:
                yield page
                page, size = [], min(2 * size, LARGEST_PAGE)
    except GitcpError:
        yield page
        raise
    yield page


def _parent(store: Store, row: FoldedRow, listed: Mapping[Oid, Summary]) -> Summary | None:
    """Return the checkpoint before a row, None before a first one. `listed` are checkpoints that
    need not be read again, by commit. Raises StoreDamaged.
    """
    commit = row.oldest.parent
    return (listed.get(commit) or store.summary(commit)) if commit else None
