"""The lines below the panes: what the last act did, and the keys of the focused pane."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.strip import Strip
from textual.widget import Widget

from gitcp.tui.keys import Key
from gitcp.tui.lines import STYLES, Line, Part, fitted


def bindings(table: Iterable[Key]) -> list[BindingType]:
    """Return textual's bindings for keys."""
    unique = {(each.names, each.action): each for each in table}
    return [Binding(each.names, each.action, each.about, show=False) for each in unique.values()]


class Bar(Widget):
    """One line of text."""

    DEFAULT_CSS = "Bar { height: 1; }"
    line = Line(())

    def tell(self, line: Line) -> None:
        """Show a line."""
        self.line = line
        self.refresh()

    def render_line(self, y: int) -> Strip:  # noqa: ARG002
        width = self.size.width
        parts = fitted(self.line, width)
        return Strip([Segment(text, STYLES[role]) for text, role in parts], width)


class Keybar(Bar):
    """The keys that matter here."""

    DEFAULT_CSS = "Keybar { height: 1; }"

    def __init__(self, keys: Sequence[Key] = ()) -> None:
        super().__init__()
        self.show(keys)

    def show(self, keys: Sequence[Key], last: Sequence[Key] = ()) -> None:
        """Show these keys, as many as fit, and the `last` ones at the right."""
        self.tell(Line(((" ", ""), *_words(keys)), _words(last)))


def _words(keys: Sequence[Key]) -> tuple[Part, ...]:
    return tuple(
        part
        for key in keys
        for part in ((key.written.split(" ")[0], "accent"), (f" {key.footer}  ", "dim"))
    )
