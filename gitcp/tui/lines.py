"""A scrolling list that renders only the lines in sight, and the text of one line.

All text passes `safe` here, as the last step before it is painted: whatever a checkpoint contains
is shown as text.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gitcp.safe import safe

Part = tuple[str, str]
"""Text, and its role: a key of STYLES."""

LONGEST = 2000
"""Characters of one line that are shown."""

KEPT = 1000
"""Painted lines that are kept."""

STYLES = {
    "": Style(),
    "dim": Style(dim=True),
    "bold": Style(bold=True),
    "added": Style(color="green"),
    "removed": Style(color="red"),
    "tag": Style(color="yellow"),
    "head": Style(color="cyan"),
    "accent": Style(color="cyan", bold=True),
    "error": Style(color="red", bold=True),
    "keyword": Style(color="magenta"),
    "string": Style(color="yellow"),
    "number": Style(color="cyan"),
    "name": Style(color="blue"),
    "comment": Style(dim=True, italic=True),
}
"""The terminal's own colors, so that they fit its background."""

CURSOR = Style(reverse=True)


class Line(NamedTuple):
    """A line: what is at its left, cut to fit, and what stays at its right."""

    left: tuple[Part, ...]
    right: tuple[Part, ...] = ()


class Source(Protocol):
    """What a list shows: lines, rendered when they come into sight."""

    def __len__(self) -> int: ...

    def key(self, index: int) -> str | None:
        """Return what the cursor on this line selects; None: the cursor skips the line."""

    def line(self, index: int, width: int) -> Line:
        """Return a line for this width."""


class Empty:
    """A source that has one line: why there is nothing else."""

    def __init__(self, text: str = "") -> None:
        self._text = text

    def __len__(self) -> int:
        return 1

    def key(self, index: int) -> str | None:  # noqa: ARG002
        return None

    def line(self, index: int, width: int) -> Line:  # noqa: ARG002
        return Line(((self._text, "dim"),))


def shown(text: str) -> str:
    """Return text as one line that a terminal only displays."""
    if len(text) > LONGEST:
        text = text[:LONGEST] + "…"
    return safe(text).replace("\n", "␊")


def fitted(line: Line, width: int) -> list[Part]:
    """Return the parts of a line, exactly `width` cells wide."""
    right = [(shown(text), role) for text, role in line.right]
    room = width - sum(cell_len(text) for text, _ in right)
    if room < min(width, 8):
        right, room = [], width
    parts: list[Part] = []
    for text, role in ((shown(text), role) for text, role in line.left):
        size = cell_len(text)
        if size > room:
            cut = set_cell_size(text, room - 1) + "…" if room > 1 else set_cell_size(text, room)
            parts.append((cut, role))
            room = 0
            break
        parts.append((text, role))
        room -= size
    return [*parts, (" " * room, ""), *right]


@lru_cache(maxsize=512)
def _style(role: str) -> Style:
    return sum((STYLES[name] for name in role.split()), Style())


def _under(role: str) -> Style:
    """Return the style of a part under the cursor: one color, whatever it has elsewhere."""
    return CURSOR + Style(bold=_style(role).bold)


class Lines(ScrollView, can_focus=True, inherit_bindings=False):
    """A list with a cursor, shown if `marks`. Lines with one key are one item: the cursor covers
    all of them.
    """

    DEFAULT_CSS = "Lines { overflow-x: hidden; scrollbar-size-vertical: 1; }"

    class Moved(Message):
        """The cursor is on another item; `by_hand` unless the list changed under it."""

        def __init__(self, lines: Lines, key: str | None) -> None:
            super().__init__()
            self.lines, self.key = lines, key

        @property
        def control(self) -> Lines:
            return self.lines

    class Opened(Moved):
        """The item under the cursor was opened: by Enter, or by a click on it."""

    class Scrolled(Message):
        """Other lines came into sight."""

    def __init__(self, *, id: str, source: Source | None = None, marks: bool = True) -> None:
        super().__init__(id=id)
        self._marks = marks
        self.source: Source = source or Empty()
        self.cursor = 0
        self._selected: str | None = None
        self._painted: OrderedDict[tuple[int, bool, int], Strip] = OrderedDict()

    # ------------------------------------------------------------ what it shows

    @property
    def key(self) -> str | None:
        """The item under the cursor."""
        return self.source.key(self.cursor) if 0 <= self.cursor < len(self.source) else None

    @property
    def in_sight(self) -> range:
        """The indexes of the lines in sight."""
        top = self.scroll_offset.y
        return range(top, min(top + max(self.size.height, 1), len(self.source)))

    def show(self, source: Source, *, reset: bool = False) -> None:
        """Show another source, or this one after it changed. The item under the cursor keeps its
        place on the screen, unless `reset`, which goes to the first item.
        """
        key, before = self._selected, self.cursor  # the source may have changed already
        self.source = source
        size = Size(0, len(source))
        if size != self.virtual_size:
            self.virtual_size = size
        if reset:
            self.cursor = self._next(-1, 1)
            self.scroll_to(y=0, animate=False, force=True, immediate=True)
        else:
            self._keep(key, before)
        self._selected = self.key
        self.repaint()
        if reset or self.key != key:
            self.post_message(self.Moved(self, self.key))

    def _keep(self, key: str | None, before: int) -> None:
        """Find the cursor's item again, and move the view by as much as the item moved."""
        if key is None:
            self.cursor = self._next(-1, 1)
            return
        after = self._place_of(key, before)
        if after is None:
            self.cursor = self._selectable(min(before, len(self.source) - 1))
            self._reveal()
        elif after != before:
            self.cursor = after
            offset = self.scroll_offset.y + after - before
            self.scroll_to(y=offset, animate=False, force=True, immediate=True)

    def _place_of(self, key: str, near: int) -> int | None:
        """Return the index of an item, looked for around `near` first."""
        size = len(self.source)
        if near < size and self.source.key(near) == key:
            return near
        return next((index for index in range(size) if self.source.key(index) == key), None)

    def repaint(self) -> None:
        """Render again what is in sight."""
        self._painted.clear()
        self.refresh()

    def on_resize(self) -> None:
        self.repaint()
        self._reveal()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.Scrolled())

    # ------------------------------------------------------------ painting

    def render_line(self, y: int) -> Strip:
        index, width = self.scroll_offset.y + y, self.scrollable_content_region.width
        if index >= len(self.source):
            return Strip.blank(width)
        key = (index, self._is_selected(index), width)
        strip = self._painted.get(key)
        if strip is None:
            strip = self._painted[key] = self._paint(*key)
            if len(self._painted) > KEPT:
                self._painted.popitem(last=False)
        return strip

    def _is_selected(self, index: int) -> bool:
        return index == self.cursor or (
            abs(index - self.cursor) < 4
            and self.key is not None
            and self.source.key(index) == self.key
        )

    def _paint(self, index: int, selected: bool, width: int) -> Strip:
        marked = selected and self._marks and self.key is not None
        mark = ("▌", "accent") if marked else (" ", "")
        parts = [mark, *fitted(self.source.line(index, width - 1), width - 1)]
        if not (marked and self.has_focus):
            return Strip([Segment(text, _style(role)) for text, role in parts], width)
        return Strip([Segment(text, _under(role)) for text, role in parts], width)

    def on_focus(self) -> None:
        self.repaint()

    def on_blur(self) -> None:
        self.repaint()

    # ------------------------------------------------------------ moving

    def move(self, steps: int) -> None:
        """Move the cursor by items: down, or up if `steps` is negative."""
        way = 1 if steps > 0 else -1
        index = self.cursor
        for _ in range(abs(steps)):
            index = self._next(index, way)
        self.go(index)

    def page(self, way: int) -> None:
        """Move by what is in sight."""
        height = max(self.size.height - 1, 1)
        self.go(self._selectable(min(max(self.cursor + way * height, 0), len(self.source) - 1)))

    def end(self, way: int) -> None:
        """Go to the first (-1) or the last (1) item."""
        self.go(self._selectable(0 if way < 0 else len(self.source) - 1))
        if way < 0:
            self.scroll_to(y=0, animate=False, force=True, immediate=True)

    def seek(self, way: int, matches: Callable[[int], bool]) -> bool:
        """Go to the next (1) or previous (-1) line that matches, from the other end if need be;
        return whether there is one.
        """
        size = len(self.source)
        for distance in range(1, size + 1):
            index = (self.cursor + way * distance) % size
            if self.source.key(index) is not None and matches(index):
                self.go(index)
                return True
        return False

    def go(self, index: int) -> None:
        """Put the cursor on a line."""
        before = self._selected
        self.cursor = index
        self._selected = self.key
        self._reveal()
        self.repaint()
        if self.key != before:
            self.post_message(self.Moved(self, self.key))

    def go_to(self, key: str) -> bool:
        """Put the cursor on an item; return whether there is one."""
        index = self._place_of(key, self.cursor)
        if index is not None:
            self.go(index)
        return index is not None

    def _next(self, start: int, way: int) -> int:
        """Return the first line of the next item, else `start`."""
        here = self.source.key(start) if 0 <= start < len(self.source) else None
        index = start + way
        while 0 <= index < len(self.source):
            key = self.source.key(index)
            if key is not None and key != here:
                return self._first_line(index, key)
            index += way
        return max(start, 0)

    def _first_line(self, index: int, key: str) -> int:
        while index and self.source.key(index - 1) == key:
            index -= 1
        return index

    def _selectable(self, index: int) -> int:
        """Return the line of an item that is nearest to `index`, above it or else below."""
        for way in (-1, 1):
            at = index
            while 0 <= at < len(self.source):
                key = self.source.key(at)
                if key is not None:
                    return self._first_line(at, key)
                at += way
        return 0

    def _reveal(self) -> None:
        """Scroll as little as brings the cursor's item into sight, with a heading above it."""
        last = self.cursor
        while last + 1 < len(self.source) and self.key is not None:
            if self.source.key(last + 1) != self.key:
                break
            last += 1
        first = self.cursor
        while first and first > self.cursor - 3 and self.source.key(first - 1) is None:
            first -= 1
        self.scroll_to_region(
            Region(0, first, 1, last - first + 1), animate=False, force=True, immediate=True
        )

    def on_click(self, event: events.Click) -> None:
        index = self.scroll_offset.y + event.get_content_offset_capture(self).y
        if not 0 <= index < len(self.source) or self.source.key(index) is None:
            return
        again = self.source.key(index) == self.key
        self.go(self._first_line(index, self.source.key(index) or ""))
        if again:
            self.open()

    def open(self) -> None:
        """Report that the item under the cursor was opened."""
        self.post_message(self.Opened(self, self.key))


def wrapped(text: str, width: int) -> Iterable[str]:
    """Yield the lines of a text, broken at blanks to fit `width` cells."""
    for paragraph in text.split("\n"):
        text = shown(paragraph).rstrip()
        line = text[: len(text) - len(text.lstrip(" "))][: width // 2]
        for number, word in enumerate(text.lstrip(" ").split(" ")):
            if number and cell_len(line) + 1 + cell_len(word) > width:
                yield line
                line = ""
            line = f"{line} {word}" if number and line else line + word
            while cell_len(line) > width:
                yield (head := _head(line, width))
                line = line[len(head) :]
        yield line


def _head(text: str, width: int) -> str:
    """Return as many characters as fit, at least one."""
    taken = 0
    for index, character in enumerate(text):
        taken += cell_len(character)
        if taken > width and index:
            return text[:index]
    return text


class Prepared:
    """A source of lines that are there: each with its key."""

    def __init__(self, lines: Sequence[tuple[str | None, Line]]) -> None:
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines)

    def key(self, index: int) -> str | None:
        return self._lines[index][0]

    def line(self, index: int, width: int) -> Line:  # noqa: ARG002
        return self._lines[index][1]
