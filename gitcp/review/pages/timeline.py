"""The picture of a story: checkpoints as dots on time, commits, results of tests, restores. Pure.

Positions are in the units of an SVG. Time is compressed: a pause of a night takes little more room
than one of an hour.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from math import log2

from gitcp.review.review import ReviewStep, Story
from gitcp.value import Value

WIDTH = 1000
MARGIN = 24
LANE = 46
TOP = 58
LABEL = 112
"""The room that the label of a time takes."""

RESULTS = {True: "failed", False: "passed", None: ""}


class Dot(Value):
    """A checkpoint. `result` is "passed" or "failed" as its last tests, "" if unknown."""

    id: str
    title: str
    result: str
    x: float
    y: float


class Diamond(Value):
    """A commit, below the last checkpoint it came from. `depth` counts those in one place."""

    commit: str
    subject: str
    x: float
    depth: int


class Arc(Value):
    """A restore: from its checkpoint back to the one it restored."""

    start: float
    end: float
    y: float
    height: float


class Tick(Value):
    """A time on the axis."""

    x: float
    text: str


class TimelineDrawing(Value):
    """The picture. A session has a lane of its own, named at its left."""

    height: float
    lanes: tuple[tuple[str, float], ...]
    dots: tuple[Dot, ...]
    arcs: tuple[Arc, ...]
    diamonds: tuple[Diamond, ...]
    ticks: tuple[Tick, ...]
    radius: float

    @property
    def legend(self) -> list[tuple[str, str, str]]:
        """The kinds of marks in the picture: class, sign, meaning."""
        results = {dot.result for dot in self.dots}
        return [
            ("plain", "○", "checkpoint"),
            *([("passed", "●", "tests passed")] if "passed" in results else []),
            *([("failed", "●", "tests failed")] if "failed" in results else []),
            *([("commit", "◆", "commit")] if self.diamonds else []),
            *([("arc", "↶", "restore")] if self.arcs else []),
        ]


def timeline(story: Story) -> TimelineDrawing:
    """Return the picture of a story with at least one checkpoint."""
    steps = sorted(story.steps, key=lambda step: step.created)
    xs = _positions([datetime.fromisoformat(step.created) for step in steps])
    names = list(dict.fromkeys(_session(step) for step in story.steps))
    lanes = {name: TOP + LANE * number for number, name in enumerate(names)}
    dots = {
        step.id: Dot(step.id, step.title, _result(step), x, lanes[_session(step)])
        for step, x in zip(steps, xs, strict=True)
    }
    bottom = TOP + LANE * (len(lanes) - 1)
    diamonds = tuple(_diamonds(story, dots))
    depth = max((diamond.depth for diamond in diamonds), default=0)
    return TimelineDrawing(
        height=bottom + 62 + 16 * depth,
        lanes=tuple(lanes.items()) if len(lanes) > 1 else (),
        dots=tuple(dots.values()),
        arcs=tuple(_arcs(steps, dots)),
        diamonds=diamonds,
        ticks=tuple(_ticks(steps, xs)),
        radius=6 if len(dots) <= 60 else 4 if len(dots) <= 150 else 2.5,
    )


def _session(step: ReviewStep) -> str:
    return step.id.rpartition("@")[0]


def _result(step: ReviewStep) -> str:
    ran = [run.failed for run in step.activity.commands if run.is_test]
    return RESULTS[ran[-1]] if ran else ""


def _positions(times: Sequence[datetime]) -> list[float]:
    gaps = [1 + log2(1 + max(0.0, (b - a).total_seconds()) / 60) for a, b in pairwise(times)]
    room = WIDTH - 2 * MARGIN
    unit = room / sum(gaps) if gaps else 0
    xs = [float(MARGIN if gaps else WIDTH / 2)]
    for gap in gaps:
        xs.append(xs[-1] + gap * unit)
    return [round(x, 1) for x in xs]


def _arcs(steps: Sequence[ReviewStep], dots: dict[str, Dot]) -> Iterator[Arc]:
    for step in steps:
        start, end = dots[step.id], dots.get(step.restored_from)
        if end is not None and end.y == start.y:
            height = min(40.0, 12 + (start.x - end.x) / 8)
            yield Arc(start.x, end.x, start.y, height)


def _diamonds(story: Story, dots: dict[str, Dot]) -> Iterator[Diamond]:
    taken: dict[float, int] = {}
    for commit in story.commits:
        last = max((dots[id].x for id in commit.checkpoints if id in dots), default=None)
        if last is not None:
            yield Diamond(commit.commit, commit.subject, last, taken.get(last, 0))
            taken[last] = taken.get(last, 0) + 1


def _ticks(steps: Sequence[ReviewStep], xs: Sequence[float]) -> Iterator[Tick]:
    free, day, last = float("-inf"), "", ""
    for step, x in zip(steps, xs, strict=True):
        time = datetime.fromisoformat(step.created)
        if x >= free and x <= WIDTH - LABEL / 2:
            date = f"{time:%Y-%m-%d}"
            text = f"{time:%H:%M}" if date == day else f"{date} {time:%H:%M}"
            if f"{date} {time:%H:%M}" != last:
                yield Tick(x, text)
                free, day, last = x + LABEL + 24, date, f"{date} {time:%H:%M}"
