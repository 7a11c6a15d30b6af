"""A story (gitcp.review.review) as Markdown for a comment in a pull request. Pure: the same story
gives the same bytes.

Whatever somebody wrote stands in a code span or a fenced block (gitcp.readme), or escaped in
`<code>`: there is no HTML in it, no link, no image, no mention and no reference to an issue, on any
forge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from gitcp.history.activity import Ran
from gitcp.history.diffstat import FileStat
from gitcp.readme import code, fence, printable
from gitcp.review.interdiff import Since
from gitcp.review.review import Step, Story, Told
from gitcp.worktree.paths import display

MOST_BYTES = 60_000
"""Of a comment: GitHub takes 65,536 characters, and counts some of them as bytes."""

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
    "base": "made after it",
}
SAID = {True: "failed", False: "passed", None: "not seen to end"}


class Mark(NamedTuple):
    """What a comment says of itself: up to where it tells the story."""

    head: str | None
    checkpoint: str


def marked(text: str) -> Mark | None:
    """What the mark at the beginning of a comment says; None if it is no review of ours."""
    found = MARKER.match(text)
    return Mark(found[1], found[2]) if found else None


def render(story: Story, most: int = MOST_BYTES) -> str:
    """The comment, of at most `most` bytes: what does not fit is counted, and no block is cut."""
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
            f"{missing} of {len(steps)} checkpoints are not shown here: the page beside this has "
            "all of them."
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
    """One line about all of it."""
    runs = [ran for step in story.steps for ran in step.activity.commands if ran.is_test]
    failed = sum(ran.failed is True for ran in runs)
    linked = sum(bool(told.how) for told in story.commits)
    return ", ".join(
        (
            _count(len(story.steps), "checkpoint"),
            _count(sum(len(step.activity.prompts) for step in story.steps), "prompt"),
            f"{linked} of {_count(len(story.commits), 'commit')} linked",
            f"tests ran {_count(len(runs), 'time')}, {failed} failed"
            if runs
            else "no tests were run",
        )
    )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


# ---------------------------------------------------------------- commits


def _commits(commits: Sequence[Told]) -> str:
    if not commits:
        return ""
    lines = [
        f"- {told.commit[:10]} {code(told.subject)}: {_led(told)}"
        for told in commits[:MOST_COMMITS]
    ]
    return "### Commits\n\n" + _list(lines, len(commits))


def _led(told: Told) -> str:
    if not told.how:
        return "no checkpoint"
    shown = [code(id) for id in told.checkpoints[-MOST_ITEMS:]]
    more = len(told.checkpoints) - len(shown)
    return ", ".join([*([f"{more} more"] if more else []), *shown]) + f" ({HOW[told.how]})"


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
        lines.append(
            "- the commit that was reviewed is not here any more: what differs cannot be said"
        )
    lines += [
        f"- {each.state}: {each.commit[:10]} {code(each.subject)}"
        for each in since.commits
        if each.state != "same"
    ]
    same = sum(each.state == "same" for each in since.commits)
    lines += [f"- as it was, but for a rebase: {_count(same, 'commit')}"] if same else []
    lines += [
        f"- {code(display(each.path))}: {each.more} lines of the change are new, {each.less} are "
        "gone"
        for each in since.files
    ]
    return f"{head}\n\n{_list(lines[:MOST_COMMITS], len(lines))}"


# ---------------------------------------------------------------- checkpoints


def _step(step: Step) -> str:
    done = step.activity
    parts = [
        _about(step),
        *_prompts(done.prompts),
        _items("Decided", step.decided),
        _items("Tried, and failed", step.failed),
        *_commands(step),
        _line("Tools", [f"{code(name)} × {count}" for name, count in done.tools]),
        _files(step.files),
        _line("Led to", [oid[:10] for oid in step.commits]),
    ]
    return "\n\n".join([_summary(step), *filter(None, parts), "</details>"])


def _block(step: Step) -> str:
    """A step, or what there is room for where its texts are too long for a comment."""
    made = _step(step)
    if len(made.encode("utf-8", "replace")) <= MOST_STEP:
        return made
    return f"{_summary(step)}\n\n{_about(step)}, more than fits here\n\n</details>"


def _summary(step: Step) -> str:
    """The one line of HTML: its texts stand in `<code>`, where forges look for nothing."""
    title = printable(" ".join(step.title.split()))
    title = title if len(title) <= LONGEST_TITLE else title[:LONGEST_TITLE] + "…"
    tests = [ran.failed for ran in step.activity.commands if ran.is_test and ran.failed is not None]
    extra = [
        *(
            [f"{_count(len(step.files), 'file')} {_counts(step.files)}".rstrip()]
            if step.files
            else []
        ),
        *([f"tests {SAID[tests[-1]]}"] if tests else []),
    ]
    texts = " ".join(f"<code>{escape(text)}</code>" for text in (step.id, title))
    return f"<details><summary>{', '.join([texts, *extra])}</summary>"


def _about(step: Step) -> str:
    named = [
        *([f"phase {code(step.phase)}"] if step.phase else []),
        *([code(step.agent)] if step.agent else []),
    ]
    return ", ".join([step.created, step.trigger, *named])


def _prompts(prompts: Sequence[str]) -> Iterator[str]:
    if prompts:
        yield "Asked:"
        yield from (fence(prompt.strip(), LONGEST_PROMPT) for prompt in prompts[:MOST_PROMPTS])
    if len(prompts) > MOST_PROMPTS:
        yield f"and {len(prompts) - MOST_PROMPTS} more prompts"


def _commands(step: Step) -> Iterator[str]:
    tests = [ran for ran in step.activity.commands if ran.is_test]
    others = [ran for ran in step.activity.commands if not ran.is_test]
    if step.run:
        command, exit_code = step.run
        ended = "not seen to end" if exit_code is None else f"ended with {exit_code}"
        yield f"Run: {code(command)}, {ended}"
    if tests:
        yield "Tests:\n\n" + _list([_test(ran) for ran in tests[-MOST_ITEMS:]], len(tests))
    if others:
        yield "Commands:\n\n" + _list([_command(ran) for ran in others[:MOST_ITEMS]], len(others))


def _test(ran: Ran) -> str:
    return f"- {SAID[ran.failed]}: {code(ran.command)}" + (
        f": {code(ran.said)}" if ran.said else ""
    )


def _command(ran: Ran) -> str:
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
    """Lines that came and went, where any were counted."""
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
