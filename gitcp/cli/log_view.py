"""Two-line rows of `gitcp log`: the title, then how much changed, when, and which agent. The steps
of one prompt are one row, and so are consecutive restores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from gitcp.cli import humanize, rendering
from gitcp.cli.context import Context
from gitcp.cli.output import BOLD, DIM, GREEN, RED, YELLOW, Part, Styled
from gitcp.errors import GitcpError, StoreDamaged
from gitcp.git.trees import EMPTY_TREE
from gitcp.history import folding
from gitcp.history.diffstat import Pair, Total, totals
from gitcp.history.folding import Row
from gitcp.model import Oid, Trigger
from gitcp.store import Store, Summary, is_generated

PAGE = 20
"""Rows whose changed lines are counted together: the first page appears before the rest is read."""

NO_LABEL = "(no label)"

UNLIMITED = 10_000
"""Columns if the output is not a terminal."""

MOST_FILES = 1000
"""Rows with more changed files than this have no line counts: git would read every file."""

ORIGINS = (
    ("Gitcp-Restored-From", "restored from"),
    ("Gitcp-Forked-From", "forked from"),
    ("Gitcp-Reverted", "reverted"),
)


class Counted(NamedTuple):
    """A row and its totals; None if they were not counted."""

    row: Row
    total: Total | None


def counted(store: Store, rows: Iterable[Row]) -> Iterator[Counted]:
    """Count what each row changed, a page of rows at a time. Where reading a chain fails, the rows
    before that come first; a row is not counted where what it is compared with is damaged.
    """
    for page in _pages(rows):
        pairs: dict[int, Pair] = {}
        for row in page:
            with suppress(StoreDamaged):
                if changed_files(row) <= MOST_FILES:
                    pairs[id(row)] = _trees(store, row)
        found = totals(store, pairs.values())
        for row in page:
            pair = pairs.get(id(row))
            yield Counted(row, found.get(pair) if pair else None)


def changed_files(row: Row) -> int:
    """Return the sum of the files changed by each checkpoint of a row."""
    return sum(rendering.changed_files(each) for each in (row.newest, *row.folded))


class View:
    """Prints rows of two lines. Checkpoints of the session `current` are shown by number only."""

    def __init__(self, context: Context, current: str | None) -> None:
        self._context = context
        self._current = current
        self._now = context.host.now()
        self._indent = 0

    def show(self, counted: Counted) -> None:
        """Print one row."""
        context, summary = self._context, counted.row.newest
        id = self._id(summary)
        self._indent = max(self._indent, len(id) + 2)
        tags = rendering.decoration(context.shown_tags.get(summary.commit, ()))
        room = (context.output.width or UNLIMITED) - self._indent - len(tags.text)
        title = _title(summary, room)
        context.output.line(Styled(id.ljust(self._indent), YELLOW), title, tags)
        context.output.line(" " * self._indent, *_details(counted, self._now))

    def _id(self, summary: Summary) -> str:
        id = self._context.id_of(summary.commit, summary.id)
        own = id == f"{self._current}@{summary.id.number}"
        return str(summary.id.number) if own else id


def _title(summary: Summary, room: int) -> Styled:
    """The title, cut to fit; a label is bold."""
    text = title(summary)
    if text == NO_LABEL:
        return Styled(text, DIM)
    return Styled(humanize.cut(text, room), "" if is_generated(summary) else BOLD)


def title(summary: Summary) -> str:
    """Return the label, the prompt or the generated subject."""
    prompt = folding.prompt(summary)
    if prompt is not None:
        return prompt
    return (
        NO_LABEL if summary.subject == f"{Trigger.MANUAL.value} {summary.id}" else summary.subject
    )


def _details(found: Counted, now: datetime) -> Iterator[Part]:
    yield from _extent(found)
    summary, trailer = found.row.newest, found.row.newest.trailers.get
    trigger, phase = trailer("Gitcp-Trigger", ""), trailer("Gitcp-Phase")
    facts = [
        humanize.ago(summary.created, now),
        trailer("Gitcp-Agent", ""),
        "" if trigger == Trigger.MANUAL or summary.subject.startswith("restored ") else trigger,
        f"phase {phase}" if phase else "",
        *_origins(summary),
        f"{trailer('Gitcp-Skipped')} not captured" if trailer("Gitcp-Skipped") else "",
    ]
    yield Styled("".join(f", {fact}" for fact in facts if fact), DIM)
    if found.row.folded:
        yield Styled(f", +{humanize.count(len(found.row.folded), 'step')}", DIM)


def _extent(found: Counted) -> Iterator[Part]:
    """Yield `3 files +12 -4`, without line counts if they are unknown."""
    total = found.total
    files = total.files if total else changed_files(found.row)
    if not files:
        yield "no files changed"
        return
    yield humanize.count(files, "file")
    if total and total.added:
        yield Styled(f" +{total.added:,}", GREEN)
    if total and total.removed:
        yield Styled(f" -{total.removed:,}", RED)


def _origins(summary: Summary) -> Iterator[str]:
    """Yield the origin of a checkpoint, unless its subject contains it."""
    for trailer, words in ORIGINS:
        origin = summary.trailers.get(trailer)
        if origin and not is_generated(summary):
            yield f"{words} {origin}"


def _pages(rows: Iterable[Row]) -> Iterator[list[Row]]:
    page: list[Row] = []
    try:
        for row in rows:
            page.append(row)
            if len(page) == PAGE:
                yield page
                page = []
    except GitcpError:
        yield page
        raise
    yield page


def _trees(store: Store, row: Row) -> Pair:
    """Return the trees before and after a row. Before a first checkpoint: its base commit's."""
    oldest = row.oldest
    if oldest.parent is not None:
        before: Oid | None = store.summary(oldest.parent).root
    else:
        from gitcp.history.diff import base_tree  # the whole of saving is behind it

        before = base_tree(store, Oid(oldest.trailers.get("Gitcp-Base", "")) or None)
    return before or EMPTY_TREE, row.newest.root
