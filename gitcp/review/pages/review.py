"""Render a story (gitcp.review.review) as one self-contained HTML file without scripts.

Jinja escapes every text, and the page's content security policy allows nothing but its own style,
by checksum. The output is deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gitcp.history.activity import CommandRun
from gitcp.review.pages import comment
from gitcp.review.pages.templating import source, templates
from gitcp.review.pages.text import installed
from gitcp.review.pages.timeline import timeline
from gitcp.review.patches import FilePatch, Hunk
from gitcp.review.review import ReviewedCommit, ReviewStep, Story
from gitcp.review.sources import SourcedFile
from gitcp.value import Value
from gitcp.worktree.paths import display

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
    """Return the page."""
    linked = {id for commit in story.commits for id in commit.checkpoints}
    page = templates().get_template("review.html")
    return page.render(
        story=story,
        heading=comment.heading(story),
        paragraph=comment.paragraph(story),
        timeline=timeline(story) if story.steps else None,
        commits=tuple(_commits(story)),
        unlinked=[step for step in story.steps if step.id not in linked and _is_attempt(step)],
        how=comment.HOW,
        results=comment.RESULTS,
        subjects={commit.commit: commit.subject for commit in story.commits},
        style=source("base.css", "review.css"),
        path=display,
        most_open=OPEN,
        most_lines=MOST_LINES,
    )


def _is_attempt(step: ReviewStep) -> bool:
    """Return whether a checkpoint changed files or says what failed."""
    return bool(step.files or step.failed)


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
