"""Output of commands: data to stdout, messages to stderr, questions to the terminal.

All text passes `safe`, part by part, and only a `Styled` part is colored, so stored text never
reaches the terminal as more than text. Does not import rich; tables are in `gitcp.cli.table`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, NewType, TextIO

from gitcp import wire
from gitcp.cli.failure import writing
from gitcp.progress import shown_by
from gitcp.safe import is_plain, safe

if TYPE_CHECKING:
    from gitcp.cli.progress import Bars

Color = NewType("Color", str)
"""The parameters of the escape sequence. A name of a color would be printed as it is."""

PLAIN = Color("")
BOLD = Color("1")
DIM = Color("2")
RED = Color("31")
GREEN = Color("32")
YELLOW = Color("33")
CYAN = Color("36")


class Styled(NamedTuple):
    """Text and its color, used if colors are enabled."""

    text: str
    colour: Color


Part = str | Styled


class Output:
    """The standard streams of this process, configured by its environment."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.paging = True
        self._bars: Bars | None = None
        self.terminal = _is_terminal(sys.stdout)
        self.colour = _wants_colour(env, terminal=self.terminal)

    @property
    def width(self) -> int | None:
        """The width in columns; None for a pipe or a file, where nothing is cut."""
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
        """Print the parts as a line to stdout."""
        self.text(self.joined(parts) + "\n")

    def text(self, text: str) -> None:
        """Print text that `joined` returned to stdout."""
        self.data(encoded(text, sys.stdout))

    def data(self, data: bytes) -> None:
        """Write bytes unchanged to stdout."""
        self._clear_progress()
        rest = memoryview(data)
        with writing():
            while rest:
                rest = rest[sys.stdout.buffer.write(rest) :]  # an unbuffered stream may take a part

    def document(self, fields: wire.Json) -> None:
        """Print a JSON document on one line to stdout."""
        self.data(wire.dumps(fields) + b"\n")

    def say(self, *parts: Part) -> None:
        """Print the parts as a line to stderr."""
        self._clear_progress()
        with writing():
            sys.stdout.flush()
        colour = _wants_colour(self._env, terminal=_is_terminal(sys.stderr))
        text = "".join(_painted(part, colour=colour) for part in parts)
        sys.stderr.buffer.write(encoded(text + "\n", sys.stderr))
        sys.stderr.flush()

    @contextmanager
    def progress(self) -> Iterator[None]:
        """Show the progress of long work inside, on stderr if it is a terminal."""
        if not _is_terminal(sys.stderr) or self._env.get("TERM", "dumb") == "dumb":
            yield
            return
        from gitcp.cli.progress import Bars, delay  # only for a terminal

        self._bars = Bars(delay(self._env))
        try:
            with shown_by(self._bars):
                yield
        finally:
            self._clear_progress()

    def _clear_progress(self) -> None:
        if self._bars is not None:
            self._bars.clear()

    def ask(self, question: str) -> bool | None:
        """Ask yes or no (default: no). Returns None without a terminal."""
        answer = self.prompt(f"{question} [y/N] ")
        return None if answer is None else answer.lower() in ("y", "yes")

    @property
    def can_ask(self) -> bool:
        """Whether there is a terminal to ask on."""
        return _is_terminal(sys.stdin) and _is_terminal(sys.stderr)

    def prompt(self, question: str) -> str | None:
        """Ask and return the answer, stripped. Returns None without a terminal."""
        if not self.can_ask:
            return None
        self._clear_progress()
        with writing():
            sys.stdout.flush()
        sys.stderr.write(safe(question))
        sys.stderr.flush()
        answer = sys.stdin.readline()
        if not answer.endswith("\n"):
            sys.stderr.write("\n")
        return answer.strip()

    def shown(self, part: Part) -> str:
        """Return a part as it is written."""
        return _painted(part, colour=self.colour)

    def joined(self, parts: Sequence[Part]) -> str:
        """Return parts as they are written, one after the other."""
        if not self.colour:
            text = "".join([part if isinstance(part, str) else part.text for part in parts])
            if is_plain(text):
                return text
        return "".join(map(self.shown, parts))

    @contextmanager
    def paged(self, core_pager: str | None) -> Iterator[None]:
        """Send stdout through the user's pager, if it is a terminal."""
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
    """Encode text for a stream; characters that its encoding lacks are escaped."""
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
