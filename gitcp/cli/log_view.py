"""Two-line rows of `gitcp log`: the title, then how much changed, when, and which agent. The steps
of one prompt are one row, and so are consecutive restores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from gitcp import humanize
from gitcp.cli import rendering
from gitcp.cli.context import Context
from gitcp.cli.output import BOLD, DIM, GREEN, PLAIN, RED, YELLOW, Part, Styled
from gitcp.history.rows import NO_LABEL, Counted, changed_in, title
from gitcp.model import Trigger
from gitcp.store import Summary, is_generated

UNLIMITED = 10_000
"""Columns if the output is not a terminal."""

ORIGINS = (
    ("Gitcp-Restored-From", "restored from"),
    ("Gitcp-Forked-From", "forked from"),
    ("Gitcp-Reverted", "reverted"),
)


class View:
    """Prints rows of two lines. Checkpoints of the session `current` are shown by number only."""

    def __init__(self, context: Context, current: str | None) -> None:
        self._context = context
        self._current = current
        self._now = context.host.now()
        self._width = context.output.width or UNLIMITED
        self._indent = 0

    def show(self, rows: Iterable[Counted]) -> None:
        """Print rows, all with one write."""
        self._context.output.text("".join(map(self._text, rows)))

    def _text(self, counted: Counted) -> str:
        """Return the two lines of a row."""
        context, summary = self._context, counted.row.newest
        id = self._id(summary)
        self._indent = max(self._indent, len(id) + 2)
        tags = rendering.decoration(context.shown_tags.get(summary.commit, ()))
        room = self._width - self._indent - len(tags.text)
        title = _title(summary, room)
        head = context.output.joined((Styled(id.ljust(self._indent), YELLOW), title, tags))
        details = context.output.joined([*_details(counted, self._now)])
        return f"{head}\n{' ' * self._indent}{details}\n"

    def _id(self, summary: Summary) -> str:
        id = self._context.id_of(summary.commit, summary.id)
        own = id == f"{self._current}@{summary.id.number}"
        return str(summary.id.number) if own else id


def _title(summary: Summary, room: int) -> Styled:
    """The title, cut to fit; a label is bold."""
    text = title(summary)
    if text == NO_LABEL:
        return Styled(text, DIM)
    return Styled(humanize.cut(text, room), PLAIN if is_generated(summary) else BOLD)


def _details(counted: Counted, now: datetime) -> Iterator[Part]:
    yield from _extent(counted)
    summary, trailer = counted.row.newest, counted.row.newest.trailers.get
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
    if counted.row.folded:
        yield Styled(f", +{humanize.count(len(counted.row.folded), 'step')}", DIM)


def _extent(counted: Counted) -> Iterator[Part]:
    """Yield `3 files +12 -4`, without line counts if they are unknown."""
    total = counted.total
    files = total.files if total else changed_in(counted.row)
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
    origins = [(words, summary.trailers.get(trailer)) for trailer, words in ORIGINS]
    if any(origin for _, origin in origins) and not is_generated(summary):
        yield from (f"{words} {origin}" for words, origin in origins if origin)
