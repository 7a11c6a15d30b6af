"""The timeline of a session and the list of sessions, as lines: pure, apart from what was read.

The timeline is newest first, as `gitcp log` folds it: one row for the steps of a prompt, and one
for consecutive restores. Between them days, phases and the sessions that were forked here.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import NamedTuple

from rich.cells import cell_len

from gitcp.history.diffstat import Total
from gitcp.history.folding import RESTORES, FoldedRow
from gitcp.history.rows import changed_in, title
from gitcp.humanize import age, short
from gitcp.model import Oid, Trigger
from gitcp.store import Summary, is_generated
from gitcp.tui.lines import Line, Part
from gitcp.worktree.paths import display


class Known(NamedTuple):
    """What is known of a session. `about` is its title, last prompt or label; `place` the other
    working tree it was last used in, or the remote it was fetched from.
    """

    name: str
    tip: str
    when: datetime
    agent: str = ""
    about: str = ""
    checkpoints: int | None = None
    forked_from: str | None = None
    place: str = ""
    running: bool = False


class Sessions:
    """Sessions, the last saved first; two lines each, under headings."""

    def __init__(self, known: Sequence[Known], current: str | None, now: datetime) -> None:
        self.known, self.current, self.now = tuple(known), current, now
        self._words, self._matches = "", dict[str, str]()
        self._lines: list[tuple[str, Known | None]] = list(self._arranged())

    def filter(self, words: str, matches: Mapping[str, str]) -> None:
        """Show only sessions whose agent, name or title contains the words, or that have one of the
        matches `matches`, which are shown instead of the title.
        """
        self._words, self._matches = words, dict(matches)
        self._lines = list(self._arranged())

    @property
    def matching(self) -> list[Known]:
        """The sessions that are shown."""
        return [each for each in self.known if each.name in self._matches or self._names(each)]

    def _names(self, known: Known) -> bool:
        return self._words in f"{known.agent} {known.name} {known.about}".lower()

    def _arranged(self) -> Iterator[tuple[str, Known | None]]:
        previous = ""
        for each in sorted(self.matching, key=lambda known: known.place):
            if each.place != previous:
                previous = each.place
                yield previous, None
            yield "head", each
            yield "about", each

    def named(self, name: str) -> Known | None:
        return next((each for each in self.known if each.name == name), None)

    def __len__(self) -> int:
        return max(len(self._lines), 1)

    def key(self, index: int) -> str | None:
        """Return the session's name; None for a heading."""
        known = self._lines[index][1] if index < len(self._lines) else None
        return known.name if known else None

    def line(self, index: int, width: int) -> Line:
        """Return one line."""
        if index >= len(self._lines):
            return Line((("no session matches" if self.known else "no sessions", "dim"),))
        kind, known = self._lines[index]
        if known is None:
            return Line((("── ", "dim"), (kind, "head"), (" " + "─" * width, "dim")))
        return self._head(known) if kind == "head" else self._about(known)

    def _head(self, known: Known) -> Line:
        own = known.name == self.current
        sign = ("●", "added") if known.running else ("○", "dim")
        title: Part = (known.about.strip() or known.name, "bold" if own else "")
        marks: tuple[Part, ...] = (("*" if own else " ", "accent"), sign, (" ", ""), title)
        return Line(marks, ((f" {age(known.when, self.now):>4}", "dim"),))

    def _about(self, known: Known) -> Line:
        """Return what matches, else the agent and the name."""
        names = " ".join(filter(None, (known.agent, known.name)))
        match = self._matches.get(known.name, "").strip()
        return Line((("   ", ""), (match or names, "dim")))


def placed(
    known: Sequence[Known], worktrees: Mapping[str, Sequence[Path]], root: Path
) -> list[Known]:
    """Set the place of each session: a linked working tree, or `fetched: REMOTE`."""
    sessions = []
    for each in known:
        location = f"fetched: {each.name.partition('/')[0]}" if "/" in each.name else ""
        for path in worktrees.get(each.name, ()):
            location = f"working tree {os.path.relpath(path, root)}"
        sessions.append(each._replace(place=location))
    return sessions


SIGNS = {
    Trigger.MANUAL.value: "◆",
    Trigger.PROMPT.value: "●",
    Trigger.TURN.value: "●",
    Trigger.TOOLS.value: "○",
    Trigger.INTERVAL.value: "○",
    Trigger.COMPACTION.value: "◇",
    Trigger.SESSION_END.value: "◇",
    Trigger.BEFORE_RISKY_CHANGE.value: "▲",
    Trigger.BEFORE_REFACTOR.value: "▲",
    Trigger.AFTER_BUG_FOUND.value: "x",
    Trigger.ON_TEST_FAILURE.value: "x",
    Trigger.BEFORE_RESTORE.value: "□",
    Trigger.RESTORE.value: "□",
}
"""The sign of each trigger."""

UNKNOWN_SIGN = "•"
BAR = 5
JOINT = 500
"""Rows among which a timeline that is read again joins the one that is shown."""

WIDE = 68
"""Columns from which a row has a bar."""


def bar(total: Total) -> tuple[Part, ...]:
    """Return a bar of up to five cells: ■ for added, □ for removed lines."""
    lines = total.added + total.removed
    size = min(BAR, len(str(lines)) + 1 if lines > 1 else lines)
    removed = round(size * total.removed / lines) if lines else 0
    if total.removed and total.added and size > 1:
        removed = min(max(removed, 1), size - 1)
    return (
        ("■" * (size - removed), "added"),
        ("□" * removed, "removed"),
        ("·" * (BAR - size), "dim"),
    )


class Fork(NamedTuple):
    """A session that was forked from a checkpoint: its name and what it is about."""

    session: str
    about: str
    when: datetime


class Query(NamedTuple):
    """What a filter asks for: words, and values of `tag:`, `phase:` and `trigger:`."""

    words: str = ""
    tag: str | None = None
    phase: str | None = None
    trigger: str | None = None

    @classmethod
    def parse(cls, text: str) -> Query:
        """Read a filter: `tag:v1 phase:design words`."""
        named: dict[str, str] = {}
        words: list[str] = []
        for word in text.split():
            name, colon, value = word.partition(":")
            if colon and name in cls._fields[1:]:
                named[name] = value.lower()
            else:
                words.append(word.lower())
        return cls(" ".join(words), **named)

    def matches(self, summary: Summary, tags: Sequence[str], text: str) -> bool:
        """Return whether a checkpoint matches; `text` is its own, in lower case."""
        trailer = summary.trailers.get
        return (
            (not self.words or self.words in text)
            and (self.tag is None or any(self.tag in tag.lower() for tag in tags))
            and (self.phase is None or self.phase in trailer("Gitcp-Phase", "").lower())
            and (self.trigger is None or self.trigger in trailer("Gitcp-Trigger", "").lower())
        )


class Entry(NamedTuple):
    """One line of the timeline. `key` is None for a heading; `step` is inside an unfolded row."""

    kind: str
    key: str | None
    row: FoldedRow | None = None
    text: str = ""
    fork: Fork | None = None


class Timeline:
    """The rows of one session, and the lines that show them."""

    def __init__(self, session: str, now: datetime) -> None:
        self.session, self.now = session, now
        self.rows: list[FoldedRow] = []
        self.tags: Mapping[Oid, Sequence[str]] = {}
        self.forks: Mapping[str, Sequence[Fork]] = {}
        self.totals: dict[tuple[Oid, Oid], Total | None] = {}
        self.unfolded: set[str] = set()
        self.marked: str | None = None
        self.current: str | None = None
        self.found: Collection[str] = ()
        self.entries: list[Entry] = []
        self.complete = False
        self._query = Query()
        self.sought = Query()
        self._whole: list[Entry] = []
        self._texts: dict[Oid, str] = {}
        self._found_at: dict[str | None, tuple[FoldedRow, Summary]] = {}

    # ------------------------------------------------------------ what it holds

    def extend(self, rows: Sequence[FoldedRow]) -> None:
        """Add older rows."""
        before = self.rows[-1] if self.rows else None
        self.rows += rows
        self._index(rows)
        self._whole += self._arranged(rows, before)
        self._select()

    def replace(self, rows: list[FoldedRow]) -> None:
        """Hold these rows instead."""
        self.rows = rows
        self._found_at.clear()
        self._index(rows)
        self.arrange()

    def _index(self, rows: Sequence[FoldedRow]) -> None:
        for row in rows:
            for each in (row.newest, *row.folded):
                self._found_at[each.commit] = row, each
                phase, tags = each.trailers.get("Gitcp-Phase", ""), self.tags.get(each.commit, ())
                words = (f"#{each.id.number}", each.subject, *tags, phase)
                self._texts[each.commit] = " ".join(words).lower()

    def arrange(self) -> None:
        """Make the lines anew, after something other than the rows changed."""
        self._whole = list(self._arranged(self.rows, None))
        self._select()

    def filter(self, text: str, commits: Collection[str] = ()) -> None:
        """Show only rows that match, or that have one of the commits `commits`. What was `sought`
        last is remembered.
        """
        self._query = Query.parse(text)
        if self._query != Query():
            self.sought, self.found = self._query, commits
        self._select()

    @property
    def is_filtered(self) -> bool:
        """Whether only rows that match are shown."""
        return self._query != Query()

    def is_match(self, index: int) -> bool:
        """Return whether a line is a row that matches what was sought last."""
        entry = self.entries[index]
        is_row = entry.kind == "row" and self.sought != Query()
        return is_row and entry.row is not None and self._matches(entry.row)

    def _select(self) -> None:
        if self._query == Query():
            self.entries = self._whole
        else:
            matching = filter(self._matches, self.rows)
            self.entries = [Entry("row", row.newest.commit, row) for row in matching]

    def joint(self, older: Timeline) -> tuple[int, int] | None:
        """Return where these rows continue as those of `older` do: an index here, and one there."""
        known = {span(row): position for position, row in enumerate(older.rows[:JOINT])}
        places = ((n, known.get(span(row))) for n, row in enumerate(self.rows))
        return next(((n, position) for n, position in places if position is not None), None)

    def row(self, key: str | None) -> FoldedRow | None:
        """Return the row that has a checkpoint; None for a fork and a heading."""
        return self._found_at[key][0] if key in self._found_at else None

    def summary(self, key: str | None) -> Summary | None:
        """Return the checkpoint of a line; None for a fork and a heading."""
        return self._found_at[key][1] if key in self._found_at else None

    def is_folded(self, key: str) -> bool:
        """Return whether a line stands for several checkpoints."""
        row = self.row(key)
        return row is not None and bool(row.folded) and row.newest.commit == key

    def oldest(self, summary: Summary) -> Oid:
        """Return the commit of the oldest checkpoint that the line of this one stands for."""
        row = self.row(summary.commit)
        if row is None or row.newest is not summary or summary.commit in self.unfolded:
            return summary.commit
        return row.oldest.commit

    # ------------------------------------------------------------ arranging

    def _arranged(self, rows: Sequence[FoldedRow], before: FoldedRow | None) -> Iterator[Entry]:
        for row in rows:
            yield from self._headings(row, before)
            yield from self._row(row)
            before = row

    def _matches(self, row: FoldedRow) -> bool:
        """Return whether a checkpoint of a row matches: its words may be in what was `found`."""
        named = self.sought._replace(words="")
        return any(
            (named if each.commit in self.found else self.sought).matches(
                each, self.tags.get(each.commit, ()), self._texts[each.commit]
            )
            for each in (row.newest, *row.folded)
        )

    def _headings(self, row: FoldedRow, before: FoldedRow | None) -> Iterator[Entry]:
        """Yield one heading where the day or the phase is another one than above."""
        day, phase = _day(row.newest), row.newest.trailers.get("Gitcp-Phase", "")
        new_day = before is None or day != _day(before.newest)
        above = before.newest.trailers.get("Gitcp-Phase", "") if before is not None else ""
        texts = (
            _named(day, self.now) if new_day else "",
            f"phase: {phase}" if phase and (new_day or phase != above) else "",
        )
        if any(texts):
            yield Entry("heading", None, row, "\n".join(texts))

    def _row(self, row: FoldedRow) -> Iterator[Entry]:
        yield Entry("row", row.newest.commit, row)
        if row.folded and row.newest.commit in self.unfolded:
            yield from (Entry("step", each.commit, FoldedRow(each)) for each in row.folded)
        for each in (row.newest, *row.folded):
            for fork in self.forks.get(str(each.id), ()):
                if fork.session != self.session:
                    yield Entry("fork", f"fork:{fork.session}", row, fork=fork)

    # ------------------------------------------------------------ as lines

    def __len__(self) -> int:
        return max(len(self.entries), 1)

    def key(self, index: int) -> str | None:
        """Return the commit of a line, `fork:SESSION`, or None for a heading."""
        return self.entries[index].key if index < len(self.entries) else None

    def line(self, index: int, width: int) -> Line:
        """Return one line."""
        if index >= len(self.entries):
            return Line(((self._nothing(), "dim"),))
        entry = self.entries[index]
        if entry.kind == "heading":
            return _heading(entry.text, width)
        if entry.fork is not None:
            return self._fork_line(entry.fork)
        assert entry.row is not None
        return self._row_line(entry, entry.row, width)

    def _nothing(self) -> str:
        if not self.complete:
            return "reading …"
        return "no checkpoint matches" if self.rows else "no checkpoints yet: s saves one"

    def _fork_line(self, fork: Fork) -> Line:
        parts = (("├─", "dim"), ("● ", "head"), (f"fork {fork.session}", "head"))
        about = ((f"  {fork.about}", "dim"),) if fork.about else ()
        return Line((*parts, *about), ((f" {age(fork.when, self.now):>4}", "dim"),))

    def _row_line(self, entry: Entry, row: FoldedRow, width: int) -> Line:
        summary = row.newest
        own = ((" │ ", "dim"),) if entry.kind == "step" else ()
        mark = (("▪ ", "tag"),) if summary.commit == self.marked else ()
        left = (*own, *self._sign(row), *mark, *self._title(row), *self._marks(row))
        total = self.totals.get(span(row))
        left = (*left, (f"  {display(total.path)}", "dim")) if total and total.path else left
        return Line(left, self._right(row, width))

    def _sign(self, row: FoldedRow) -> tuple[Part, ...]:
        summary = row.newest
        trigger = summary.trailers.get("Gitcp-Trigger", "")
        sign = SIGNS.get(trigger, UNKNOWN_SIGN)
        role = "error" if sign == "x" else "dim" if trigger in RESTORES else "accent"
        digits = len(str(self.rows[0].newest.id.number)) if self.rows else 1
        return (f"{sign} ", role), (f"{summary.id.number:>{digits}} ", "dim")

    def _title(self, row: FoldedRow) -> tuple[Part, ...]:
        summary = row.newest
        trigger = summary.trailers.get("Gitcp-Trigger", "")
        if len(row.folded) > 0 and trigger in RESTORES:
            return ((f"{self._fold(row)}{len(row.folded) + 1} restores", "dim"),)
        role = "dim" if trigger in RESTORES else "" if is_generated(summary) else "bold"
        fold: tuple[Part, ...] = ((self._fold(row), "dim"),) if row.folded else ()
        return (*fold, (title(summary), role))

    def _fold(self, row: FoldedRow) -> str:
        return "▾ " if row.newest.commit in self.unfolded else "▸ "

    def _marks(self, row: FoldedRow) -> tuple[Part, ...]:
        tags = [tag for each in (row.newest, *row.folded) for tag in self.tags.get(each.commit, ())]
        if row.newest.commit == self.current:
            tags.insert(0, "@")
        return (("  " + " ".join(f"[{tag}]" for tag in tags), "tag"),) if tags else ()

    def _right(self, row: FoldedRow, width: int) -> tuple[Part, ...]:
        """Return age, bar and counts, in columns of their own: a late count moves nothing."""
        total = self.totals.get(span(row))
        when = (f" {age(row.newest.created, self.now):>4} ", "dim")
        drawn = bar(total) if total else ((" " * BAR, ""),)
        files = total.files if total else changed_in(row)
        added = f"+{short(total.added)}" if total and total.added else ""
        removed = f"−{short(total.removed)}" if total and total.removed else ""
        return (
            when,
            *(drawn if width >= WIDE else ()),
            (f"{added:>6}" if width >= WIDE else f"{added:>5}", "added"),
            (f"{removed:>6}", "removed"),
            *(((f"{short(files) + 'f' if files else '':>5}", "dim"),) if width >= WIDE else ()),
        )


def _heading(text: str, width: int) -> Line:
    day, _, phase = text.partition("\n")
    rest = "─" * max(width - cell_len(day) - cell_len(phase) - (6 if day and phase else 4), 0)
    join = (("  ", ""),) if day and phase else ()
    return Line((("── ", "dim"), (day, "bold"), *join, (phase, "head"), (f" {rest}", "dim")))


def span(row: FoldedRow) -> tuple[Oid, Oid]:
    """Return the first and the last commit of a row."""
    return row.oldest.commit, row.newest.commit


def _day(summary: Summary) -> date:
    return summary.created.astimezone().date()


def _named(day: date, now: datetime) -> str:
    today = now.astimezone().date()
    passed = (today - day).days
    return {0: "today", 1: "yesterday"}.get(passed, f"{day:%A} {day.isoformat()}")
