"""The progress of a command on stderr, for a person who waits.

Nothing is drawn in the first half second, and rich is imported only then. There is no thread that
redraws: gitcp forks while it looks at files, and a fork with threads can deadlock.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gitcp import humanize
from gitcp.progress import BYTES

if TYPE_CHECKING:
    from rich.progress import Progress, Task, TaskID

DELAY = 0.5
"""Seconds before anything is drawn, unless GITCP_PROGRESS_DELAY sets another number."""

BAR_FROM = 80
"""Columns of the terminal from which on there is room for a bar beside the numbers."""

PERIOD = 0.1
"""Seconds between two drawings."""


class Bars:
    """A line on stderr for each task under way: what is done, of how much, how fast. See
    gitcp.progress.Meter.
    """

    def __init__(self, delay: float) -> None:
        self._first = self._next = time.monotonic() + delay
        self._bars: list[_Bar] = []
        self._progress: Progress | None = None

    def begin(self, name: str, unit: str, total: int | None) -> _Bar:
        """A task begins."""
        bar = _Bar(self, name, unit, total)
        self._bars.append(bar)
        if time.monotonic() >= self._first:
            self._draw()
        return bar

    def drop(self, bar: _Bar) -> None:
        """A task is done: its line goes."""
        self._bars.remove(bar)
        if self._progress is not None and bar.id is not None:
            self._progress.remove_task(bar.id)

    def clear(self) -> None:
        """Remove what is drawn, so that something else can be written. The next report draws it
        again.
        """
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
            for bar in self._bars:
                bar.id = None

    def draw_when_due(self) -> None:
        """Draw, unless nobody has waited long enough yet, or the last drawing is too recent."""
        if time.monotonic() >= self._next:
            self._draw()

    def _draw(self) -> None:
        self._next = time.monotonic() + PERIOD
        if self._progress is None:
            self._progress = _progress()
            self._progress.start()
        for bar in self._bars:
            if bar.id is None:
                bar.id = self._progress.add_task(bar.name, total=bar.total, unit=bar.unit)
            self._progress.update(bar.id, completed=bar.done, detail=bar.text)
        self._progress.refresh()


class _Bar:
    """One task under way. `id` is rich's, once it is drawn."""

    def __init__(self, bars: Bars, name: str, unit: str, total: int | None) -> None:
        self.name, self.unit, self.total = name, unit, total
        self.done = 0
        self.text = ""
        self.id: TaskID | None = None
        self._bars = bars

    def advance(self, amount: int) -> None:
        """`amount` units more are done."""
        self.done += amount
        self._bars.draw_when_due()

    def detail(self, text: str) -> None:
        """Show this where the rate would be shown."""
        self.text = text
        self._bars.draw_when_due()

    def end(self) -> None:
        """The task is done, or was given up."""
        self._bars.drop(self)


def _progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
    from rich.text import Text

    class Extent(ProgressColumn):
        """Done, of how much, and how fast."""

        def render(self, task: Task) -> Text:
            unit = task.fields["unit"]
            detail = task.fields.get("detail") or rate(task.speed, unit)
            done = extent(task.completed, task.total, unit)
            return Text(", ".join(filter(None, (done, detail))), no_wrap=True, overflow="ellipsis")

    console = Console(stderr=True)
    bar = BarColumn(bar_width=10, style="dim", complete_style="green", finished_style="green")
    return Progress(
        TextColumn("{task.description}", markup=False),
        *([bar] if console.width >= BAR_FROM else []),
        Extent(),
        console=console,
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )


def delay(env: Mapping[str, str]) -> float:
    """Seconds before anything is drawn."""
    try:
        return max(0.0, float(env.get("GITCP_PROGRESS_DELAY", DELAY)))
    except ValueError:
        return DELAY


def extent(done: float, total: float | None, unit: str) -> str:
    """How far a task is: `1,200 of 4,000 files`, `12.0 MiB of 500.0 MiB`."""
    numbers = [int(number) for number in (done, total) if number is not None]
    if unit == BYTES:
        return " of ".join(map(humanize.size, numbers))
    noun = unit.removesuffix("s") if numbers[-1] == 1 else unit
    return " of ".join(f"{number:,}" for number in numbers) + f" {noun}"


def rate(speed: float | None, unit: str) -> str:
    """How fast it goes: `300/s`, `25.0 MiB/s`; "" while that is unknown."""
    if not speed:
        return ""
    return f"{humanize.size(int(speed))}/s" if unit == BYTES else f"{int(speed):,}/s"
