"""Render a story (gitcp.review.review) as one self-contained HTML file without scripts.

Jinja escapes every text, and the page's content security policy allows nothing but its own style,
by checksum. The output is deterministic. The picture shows checkpoints as dots on time, commits,
results of tests and restores; a pause of a night takes little more room than one of an hour.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from math import log2

from gitcp.history.activity import CommandRun
from gitcp.review.pages import comment
from gitcp.review.pages.templating import source, templates
from gitcp.review.pages.text import installed
from gitcp.review.patches import FilePatch, Hunk
from gitcp.review.review import ReviewedCommit, ReviewStep, Story
from gitcp.review.sources import SourcedFile
from gitcp.value import Value
from gitcp.worktree.paths import display

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


MOST_LINES = 400
"""Lines of a file's diff that are shown."""

OPEN = 12
"""Up to this many checkpoints are unfolded."""


class PromptLink(Value):
    """A prompt beside a hunk: its anchor, and the checkpoint it led to."""

    anchor: str
    id: str


class ShownHunk(Value):
    """A hunk with its anchor and the prompts its lines came from."""

    hunk: Hunk
    anchor: str
    prompts: tuple[PromptLink, ...]


class ShownFile(Value):
    """A changed file of a commit."""

    patch: FilePatch
    anchor: str
    hunks: tuple[ShownHunk, ...]


class ShownPrompt(Value):
    """A prompt of a commit, with the hunks it led to as (anchor, label)."""

    anchor: str
    id: str
    text: str
    hunks: tuple[tuple[str, str], ...]


class ShownCommit(Value):
    """A commit with what a reviewer wants to know of it. `own` are the files that `gitcp enable`
    writes to.
    """

    commit: ReviewedCommit
    anchor: str
    prompts: tuple[ShownPrompt, ...]
    files: tuple[ShownFile, ...]
    others: tuple[str, ...]
    tests: tuple[CommandRun, ...]
    added: int
    removed: int
    own: tuple[FilePatch, ...]


def render(story: Story) -> str:
    """Return the page as HTML that loads nothing else: its style is in it."""
    linked = {id for commit in story.commits for id in commit.checkpoints}
    page = templates().get_template("review.html")
    return page.render(
        story=story,
        heading=comment.heading(story),
        paragraph=comment.paragraph(story),
        timeline=timeline(story) if story.steps else None,
        commits=tuple(_commits(story)),
        unlinked=[
            step for step in story.steps if step.id not in linked and (step.files or step.failed)
        ],
        how=comment.HOW,
        results=comment.RESULTS,
        subjects={commit.commit: commit.subject for commit in story.commits},
        style=source("base.css", "review.css"),
        path=display,
        most_open=OPEN,
        most_lines=MOST_LINES,
    )


def _commits(story: Story) -> Iterator[ShownCommit]:
    prompted = dict(_prompted(story.steps))
    steps = {step.id: step for step in story.steps}
    for commit in story.commits:
        own = [steps[id] for id in commit.checkpoints if id in steps]
        anchor = f"commit-{commit.commit}"
        ids = list(dict.fromkeys(prompted[step.id] for step in own if step.id in prompted))
        links = {id: PromptLink(f"{anchor}-prompt-{n}", id) for n, id in enumerate(ids)}
        files = tuple(
            _file(each, f"{anchor}-file-{n}", prompted, links)
            for n, each in enumerate(commit.diff.files)
        )
        setup = installed([file.patch for file in files])
        authored = [file for file in files if file.patch not in setup]
        yield ShownCommit(
            commit,
            anchor,
            prompts=tuple(_prompts([steps[id] for id in ids], links, authored)),
            files=files,
            others=tuple(map(display, commit.diff.others)),
            tests=commit.tests,
            added=sum(file.patch.added for file in files),
            removed=sum(file.patch.removed for file in files),
            own=tuple(setup),
        )


def _prompted(steps: Sequence[ReviewStep]) -> Iterator[tuple[str, str]]:
    """Yield the id of each checkpoint with that of the one whose prompt led to it: itself, or the
    last one of its session that has a prompt.
    """
    last: dict[str, str] = {}
    for step in steps:
        session = step.id.rpartition("@")[0]
        if step.activity.prompts:
            last[session] = step.id
        if session in last:
            yield step.id, last[session]


def _file(
    file: SourcedFile, anchor: str, prompted: Mapping[str, str], links: Mapping[str, PromptLink]
) -> ShownFile:
    hunks = []
    for number, (hunk, ids) in enumerate(zip(file.patch.hunks, file.sources, strict=True)):
        causes = dict.fromkeys(prompted[id] for id in ids if id in prompted)
        prompts = tuple(links[id] for id in causes if id in links)
        hunks.append(ShownHunk(hunk, f"{anchor}-hunk-{number}", prompts))
    return ShownFile(file.patch, anchor, tuple(hunks))


def _prompts(
    steps: Sequence[ReviewStep], links: Mapping[str, PromptLink], files: Sequence[ShownFile]
) -> Iterator[ShownPrompt]:
    for step in steps:
        link = links[step.id]
        hunks = tuple(
            (hunk.anchor, f"{file.patch.path}:{hunk.hunk.new or hunk.hunk.old}")
            for file in files
            for hunk in file.hunks
            if link in hunk.prompts
        )
        yield ShownPrompt(link.anchor, step.id, "\n\n".join(step.activity.prompts), hunks)
