"""Where a command speaks: data to stdout, talk to stderr, a question to a person.

Everything said passes `safe` here, part by part, and only a `Styled` part gets colour: there is no
way for what was stored to reach the terminal as more than text. rich is not imported here; tables
are in `gitcp.cli.table`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, TextIO

from gitcp import wire
from gitcp.cli.failure import writing
from gitcp.cli.safe import safe

BOLD = "1"
DIM = "2"
RED = "31"
GREEN = "32"
YELLOW = "33"
CYAN = "36"


class Styled(NamedTuple):
    """Text, and the colour it is shown in where colours are shown."""

    text: str
    colour: str


Part = str | Styled


class Output:
    """The standard streams of this process, as its environment wants them used."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.paging = True
        self.terminal = _is_terminal(sys.stdout)
        self.colour = _wants_colour(env, terminal=self.terminal)

    @property
    def width(self) -> int | None:
        """Columns to write in; None where nobody looks (a pipe, a file), and nothing needs to be
        cut.
        """
        columns = self._env.get("COLUMNS", "")
        if columns.isdecimal() and int(columns):
            return int(columns)
        if not self.terminal:
            return None
        try:
            return os.get_terminal_size(sys.stdout.fileno()).columns or 80
        except (OSError, ValueError):
            return 80

    def line(self, *parts: Part) -> None:
        """One line (or more, where a part has line ends) to stdout."""
        self.data(encoded("".join(map(self.shown, parts)) + "\n", sys.stdout))

    def data(self, data: bytes) -> None:
        """Bytes as they are to stdout."""
        rest = memoryview(data)
        with writing():
            while rest:
                rest = rest[sys.stdout.buffer.write(rest) :]  # an unbuffered stream may take a part

    def document(self, fields: wire.Json) -> None:
        """One JSON document on one line to stdout."""
        self.data(wire.dumps(fields) + b"\n")

    def say(self, *parts: Part) -> None:
        """A line of talk to stderr."""
        with writing():
            sys.stdout.flush()
        colour = _wants_colour(self._env, terminal=_is_terminal(sys.stderr))
        text = "".join(_painted(part, colour=colour) for part in parts)
        sys.stderr.buffer.write(encoded(text + "\n", sys.stderr))
        sys.stderr.flush()

    def progress(self, text: str) -> None:
        """A line of talk that the next one replaces; only where a person looks on."""
        if _is_terminal(sys.stderr) and self._env.get("TERM", "dumb") != "dumb":
            sys.stderr.write(f"\r{safe(text)}\x1b[K")
            sys.stderr.flush()

    def ask(self, question: str) -> bool | None:
        """A person's yes or no; no is what a bare return means. None if there is nobody to ask."""
        if not (_is_terminal(sys.stdin) and _is_terminal(sys.stderr)):
            return None
        with writing():
            sys.stdout.flush()
        sys.stderr.write(f"{safe(question)} [y/N] ")
        sys.stderr.flush()
        answer = sys.stdin.readline()
        if not answer.endswith("\n"):
            sys.stderr.write("\n")
        return answer.strip().lower() in ("y", "yes")

    def shown(self, part: Part) -> str:
        """A part as it is written."""
        return _painted(part, colour=self.colour)

    @contextmanager
    def paged(self, core_pager: str | None) -> Iterator[None]:
        """What is written inside goes through the user's pager, where a person looks on."""
        if not (self.terminal and self.paging):
            yield
            return
        from gitcp.cli.pager import through  # subprocess: only for a terminal

        with through(self._env, core_pager):
            yield


def _painted(part: Part, *, colour: bool) -> str:
    if isinstance(part, str):
        return safe(part)
    text = safe(part.text)
    return f"\x1b[{part.colour}m{text}\x1b[0m" if colour and text and part.colour else text


def encoded(text: str, stream: TextIO) -> bytes:
    """Text as the stream wants it; what its encoding cannot say is escaped."""
    return text.encode(stream.encoding or "utf-8", "backslashreplace")


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def _wants_colour(env: Mapping[str, str], *, terminal: bool) -> bool:
    """NO_COLOR wins, then FORCE_COLOR; else only for a terminal that has colours."""
    if env.get("NO_COLOR"):
        return False
    forced = env.get("FORCE_COLOR", "")
    if forced:
        return forced not in ("0", "false")
    return terminal and env.get("TERM", "dumb") != "dumb"
