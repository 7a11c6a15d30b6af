"""The list of sessions, as lines: those of this repository, of other working trees, and fetched
ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from gitcp.humanize import age
from gitcp.tui.lines import Line, Part


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
