"""Render a story (gitcp.review.review) as Markdown for a pull request comment. Pure and
deterministic.

Text from users and agents is only ever put in code spans and fences (gitcp.readme), or escaped in
`<code>`, so it cannot contain HTML, links, images, mentions or issue references on any forge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from gitcp.history.activity import CommandRun
from gitcp.history.diffstat import FileStat
from gitcp.readme import code, fence, printable
from gitcp.review.interdiff import Since
from gitcp.review.review import ReviewedCommit, ReviewStep, Story
from gitcp.worktree.paths import display

MOST_BYTES = 60_000
"""Size limit of a comment. GitHub's is 65,536 characters, some of which it counts as bytes."""

MOST_STEP = 8_000
MOST_PROMPTS = 5
LONGEST_PROMPT = 600
MOST_ITEMS = 8
MOST_FILES = 15
MOST_COMMITS = 60
LONGEST_TITLE = 100

BEGINNING = "<!-- gitcp:review v1"
MARKER = re.compile(
    rf"\A{re.escape(BEGINNING)} head=([0-9a-f]{{40}})? checkpoint=(\S{{0,200}}) -->"
)
HOW = {
    "trailer": "by its trailer",
    "tree": "the same content",
    "patch": "the same lines",
    "part": "in part",
    "base": "by its position",
}
RESULTS = {True: "failed", False: "passed", None: "result unknown"}


class Mark(NamedTuple):
    """The marker of a comment: the last commit and checkpoint of its story."""

    head: str | None
    checkpoint: str


def marked(text: str) -> Mark | None:
    """Parse the marker at the start of a comment. Return None if it is not gitcp's."""
    match = MARKER.match(text)
    return Mark(match[1], match[2]) if match else None


def render(story: Story, most: int = MOST_BYTES) -> str:
    """Return the comment in at most `most` bytes. Checkpoints that do not fit are counted."""
    last = story.steps[-1].id if story.steps else ""
    head = [
        f"{BEGINNING} head={story.head or ''} checkpoint={last} -->",
        "## How this change came about",
        totals(story),
    ]
    parts = [*filter(None, (_since(story.since), _commits(story.commits)))]
    steps = list(map(_block, story.steps))
    blocks = [*head, *parts, *(["### Checkpoints"] if steps else []), *steps]
    shown = _fitting(blocks, most - 200)
    missing = min(len(steps), len(blocks) - len(shown))
    if missing:
        shown.append(
            f"{missing} of {len(steps)} checkpoints do not fit here; the HTML page has all of them."
        )
    return "\n\n".join(shown) + "\n"


def _fitting(blocks: Sequence[str], most: int) -> list[str]:
    shown: list[str] = []
    for block in blocks:
        most -= len(block.encode("utf-8", "replace")) + 2
        if most < 0:
            break
        shown.append(block)
    return shown


def totals(story: Story) -> str:
    """Summarize the story in one line."""
    runs = [ran for step in story.steps for ran in step.activity.commands if ran.is_test]
    failed = sum(ran.failed is True for ran in runs)
    linked = sum(bool(commit.how) for commit in story.commits)
    return ", ".join(
        (
            _count(len(story.steps), "checkpoint"),
            _count(sum(len(step.activity.prompts) for step in story.steps), "prompt"),
            f"{linked} of {_count(len(story.commits), 'commit')} linked",
            f"tests ran {_count(len(runs), 'time')}, {failed} failed" if runs else "no tests ran",
        )
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


# ---------------------------------------------------------------- commits


def _commits(commits: Sequence[ReviewedCommit]) -> str:
    if not commits:
        return ""
    lines = [
        f"- {commit.commit[:10]} {code(commit.subject)}: {_checkpoints(commit)}"
        for commit in commits[:MOST_COMMITS]
    ]
    return "### Commits\n\n" + _list(lines, len(commits))


def _checkpoints(commit: ReviewedCommit) -> str:
    if not commit.how:
        return "no checkpoint"
    shown = [code(id) for id in commit.checkpoints[-MOST_ITEMS:]]
    more = len(commit.checkpoints) - len(shown)
    return ", ".join([*([f"{more} earlier"] if more else []), *shown]) + f" ({HOW[commit.how]})"


def _since(since: Since | None) -> str:
    if since is None:
        return ""
    head = "### Since the last review"
    lines = []
    if since.steps is not None:
        lines.append(
            f"- {_count(len(since.steps), 'new checkpoint')}"
            + (f", the last {code(since.steps[-1])}" if since.steps else "")
        )
    if since.reviewed and not since.known:
        lines.append("- the reviewed commit is no longer in the repository; cannot compare")
    lines += [
        f"- {each.state}: {each.commit[:10]} {code(each.subject)}"
        for each in since.commits
        if each.state != "same"
    ]
    same = sum(each.state == "same" for each in since.commits)
    lines += [f"- unchanged except for a rebase: {_count(same, 'commit')}"] if same else []
    lines += [
        f"- {code(display(each.path))}: {each.more} changed lines new, {each.less} gone"
        for each in since.files
    ]
    return f"{head}\n\n{_list(lines[:MOST_COMMITS], len(lines))}"


# ---------------------------------------------------------------- checkpoints


def _step(step: ReviewStep) -> str:
    activity = step.activity
    parts = [
        _about(step),
        *_prompts(activity.prompts),
        _items("Decided", step.decided),
        _items("Tried and failed", step.failed),
        *_commands(step),
        _line("Tools", [f"{code(name)} × {count}" for name, count in activity.tools]),
        _files(step.files),
        _line("Led to", [oid[:10] for oid in step.commits]),
    ]
    return "\n\n".join([_summary(step), *filter(None, parts), "</details>"])


def _block(step: ReviewStep) -> str:
    """Return a checkpoint's block, reduced to its header if it is too long for a comment."""
    block = _step(step)
    if len(block.encode("utf-8", "replace")) <= MOST_STEP:
        return block
    return f"{_summary(step)}\n\n{_about(step)}, too long to show here\n\n</details>"


def _summary(step: ReviewStep) -> str:
    """Return the one line of HTML. Its texts are in `<code>`, which forges do not interpret."""
    title = printable(" ".join(step.title.split()))
    title = title if len(title) <= LONGEST_TITLE else title[:LONGEST_TITLE] + "…"
    tests = [ran.failed for ran in step.activity.commands if ran.is_test and ran.failed is not None]
    extra = [
        *(
            [f"{_count(len(step.files), 'file')} {_counts(step.files)}".rstrip()]
            if step.files
            else []
        ),
        *([f"tests {RESULTS[tests[-1]]}"] if tests else []),
    ]
    texts = " ".join(f"<code>{escape(text)}</code>" for text in (step.id, title))
    return f"<details><summary>{', '.join([texts, *extra])}</summary>"


def _about(step: ReviewStep) -> str:
    named = [
        *([f"phase {code(step.phase)}"] if step.phase else []),
        *([code(step.agent)] if step.agent else []),
    ]
    return ", ".join([step.created, step.trigger, *named])


def _prompts(prompts: Sequence[str]) -> Iterator[str]:
    if prompts:
        yield "Prompts:"
        yield from (fence(prompt.strip(), LONGEST_PROMPT) for prompt in prompts[:MOST_PROMPTS])
    if len(prompts) > MOST_PROMPTS:
        yield f"and {len(prompts) - MOST_PROMPTS} more prompts"


def _commands(step: ReviewStep) -> Iterator[str]:
    tests = [ran for ran in step.activity.commands if ran.is_test]
    others = [ran for ran in step.activity.commands if not ran.is_test]
    if step.run:
        command, exit_code = step.run
        result = "result unknown" if exit_code is None else f"exit code {exit_code}"
        yield f"Run: {code(command)}, {result}"
    if tests:
        yield "Tests:\n\n" + _list([_test(ran) for ran in tests[-MOST_ITEMS:]], len(tests))
    if others:
        yield "Commands:\n\n" + _list([_command(ran) for ran in others[:MOST_ITEMS]], len(others))


def _test(ran: CommandRun) -> str:
    return f"- {RESULTS[ran.failed]}: {code(ran.command)}" + (
        f": {code(ran.said)}" if ran.said else ""
    )


def _command(ran: CommandRun) -> str:
    return f"- {code(ran.command)}" + (", failed" if ran.failed else "")


def _files(files: Sequence[FileStat]) -> str:
    if not files:
        return ""
    lines = [
        f"- {file.kind} {code(display(file.path), 200)} {_counts([file])}".rstrip()
        for file in files[:MOST_FILES]
    ]
    return "Files:\n\n" + _list(lines, len(files))


def _counts(files: Sequence[FileStat]) -> str:
    """Format added and removed lines, empty if none were counted."""
    if all(file.added is None for file in files):
        return ""
    return f"+{sum(file.added or 0 for file in files)} −{sum(file.removed or 0 for file in files)}"


def _items(title: str, items: Sequence[str]) -> str:
    return (
        f"{title}:\n\n" + _list([f"- {code(item)}" for item in items[-MOST_ITEMS:]], len(items))
        if items
        else ""
    )


def _line(title: str, parts: Sequence[str]) -> str:
    return f"{title}: {', '.join(parts[:MOST_ITEMS])}" if parts else ""


def _list(lines: Sequence[str], total: int) -> str:
    return "\n".join([*lines, f"- and {total - len(lines)} more"] if total > len(lines) else lines)
