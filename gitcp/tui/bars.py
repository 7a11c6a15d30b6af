"""The lines below the panes: what the last act did, the keys of the pane, and a field for text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.strip import Strip
from textual.widget import Widget

from gitcp.tui.keys import Key
from gitcp.tui.lines import STYLES, Line, Part, fitted


def bindings(table: Iterable[Key]) -> list[BindingType]:
    """Return textual's bindings for keys. They are checked when a key arrives, before any widget
    sees it: so what is typed ahead meets the screen that the keys before it have made.
    """
    unique = {(each.names, each.action): each for each in table}
    return [
        Binding(each.names, each.action, each.about, show=False, priority=True)
        for each in unique.values()
    ]


MOVES = {"down": 1, "up": -1, "ctrl+n": 1, "ctrl+p": -1}


class Bar(Widget):
    """One line of text."""

    DEFAULT_CSS = "Bar { height: 1; }"
    line = Line(())

    def tell(self, line: Line) -> None:
        """Show a line."""
        self.line = line
        self.refresh()

    def fit(self, width: int) -> Line:  # noqa: ARG002
        return self.line

    def render_line(self, y: int) -> Strip:  # noqa: ARG002
        width = self.size.width
        parts = fitted(self.fit(width), width)
        return Strip([Segment(text, STYLES[role]) for text, role in parts], width)


class StatusBar(Bar):
    """What the last act did: a line, or as many as an error takes."""

    def tell_all(self, lines: Sequence[Line]) -> None:
        """Show lines."""
        self._lines = tuple(lines)
        self.styles.height = max(len(lines), 1)
        self.refresh(layout=True)

    def render_line(self, y: int) -> Strip:
        self.line = self._lines[y] if y < len(self._lines) else Line(())
        return super().render_line(y)

    _lines: tuple[Line, ...] = ()


class Keybar(Bar):
    """The keys that matter here."""

    DEFAULT_CSS = "Keybar { height: 1; }"

    def __init__(self, keys: Sequence[Key] = ()) -> None:
        super().__init__()
        self.show(keys)

    def show(self, keys: Sequence[Key], last: Sequence[Key] = ()) -> None:
        """Show these keys, as many as fit, and the `last` ones at the right."""
        self._keys, self._last = tuple(keys), tuple(last)
        self.refresh()

    def fit(self, width: int) -> Line:
        """Return as many keys as have room, each whole."""
        right = _words(self._last)
        room = width - 1 - _size(right)
        fitting = tuple(accumulate(map(_words, ((key,) for key in self._keys))))
        left = next((parts for parts in reversed(fitting) if _size(parts) <= room), ())
        return Line(((" ", ""), *left), right)


def _size(parts: Iterable[Part]) -> int:
    return sum(cell_len(text) for text, _ in parts)


def _words(keys: Sequence[Key]) -> tuple[Part, ...]:
    return tuple(
        part
        for key in keys
        for part in ((key.written.split(" ")[0], "accent"), (f" {key.footer}  ", "dim"))
    )


class Typed(NamedTuple):
    """What a field calls: with the text after each change, at Enter and Esc, and to move a list."""

    changed: Callable[[str], object]
    entered: Callable[[str], object]
    left: Callable[[], object]
    moved: Callable[[int], object] = lambda _: None


class Field(Bar):
    """A line of text that is typed. While it is the `typing` of the app, it gets every key."""

    DEFAULT_CSS = "Field { height: 1; }"

    def __init__(self, hint: str, typed: Typed, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._hint, self._typed = hint, typed
        self.text = ""
        self._show()

    def begin(self, hint: str) -> None:
        """Show a hint as long as there is no text."""
        self._hint = hint
        self._show()

    def type(self, event: events.Key | events.Paste) -> None:
        """Take a key, or pasted text."""
        if isinstance(event, events.Paste):
            self.set(self.text + " ".join(event.text.split()))
        elif event.key in ("enter", "escape"):
            self._typed.entered(self.text) if event.key == "enter" else self._typed.left()
        elif event.key in MOVES:
            self._typed.moved(MOVES[event.key])
        elif event.key == "backspace":
            self.set(self.text[:-1])
        elif event.key == "ctrl+w":
            self.set(self.text.rstrip().rpartition(" ")[0])
        elif event.key in ("ctrl+u", "ctrl+c"):
            self.set("")
        elif event.character is not None and event.is_printable:
            self.set(self.text + event.character)

    def set(self, text: str) -> None:
        """Change the text."""
        if text != self.text:
            self.text = text
            self._show()
            self._typed.changed(text)

    def _show(self) -> None:
        hint = () if self.text else ((self._hint, "dim"),)
        self.tell(Line(((" › ", "accent"), (self.text, ""), ("▏", "accent"), *hint)))
