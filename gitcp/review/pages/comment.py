"""Render a story (gitcp.review.review) as Markdown for a pull request comment. Pure and
deterministic.

Text from users and agents is only ever put in code spans and fences (gitcp.readme), or escaped in
`<code>`, so it cannot contain HTML, links, images, mentions or issue references on any forge.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import NamedTuple

from gitcp.git.object_format import FULL_NAME
from gitcp.history.activity import CommandRun
from gitcp.history.diffstat import FileStat
from gitcp.humanize import count
from gitcp.readme import code, fence, printable
from gitcp.restoring.installed import written
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
MOST_ROWS = 10
"""Commits in the table, so that little stands before the fold."""

LONGEST_TITLE = 100

BEGINNING = "<!-- gitcp:review v1"
MARKER = re.compile(rf"\A{re.escape(BEGINNING)} head=({FULL_NAME})? checkpoint=(\S{{0,200}}) -->")
HOW = {
    "trailer": "by its trailer",
    "tree": "exact match",
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
    """Return the comment in at most `most` bytes: what a reviewer wants first, then, folded, every
    checkpoint. Those that do not fit are counted.
    """
    last = story.steps[-1].id if story.steps else ""
    head = [
        f"{BEGINNING} head={story.head or ''} checkpoint={last} -->",
        f"## {heading(story, code)}",
        *filter(None, (_asked(story), _paragraph(story))),
        *filter(None, (_since_line(story.since),)),
        *filter(None, (_table(story),)),
    ]
    steps = [_folded(step) for step in story.steps]
    details = [*filter(None, (_since(story.since), _commits(story.commits[MOST_ROWS:]))), *steps]
    if details:
        head.append(f"<details><summary>{count(len(steps), 'checkpoint')}</summary>")
        details.append("</details>")
    shown = _fitting([*head, *details[:-1]], most - 300)
    missing = min(len(steps), len(head) + len(details) - 1 - len(shown)) if details else 0
    if missing:
        shown.append(
            f"{missing} of {len(steps)} checkpoints do not fit here; the HTML page has all of them."
        )
    return "\n\n".join([*shown, *details[-1:]]) + "\n"


def terminal(story: Story) -> str:
    """Return the story as Markdown without any HTML, to be read on a terminal."""
    parts = [
        f"## {heading(story, code)}",
        *filter(None, (_asked(story), _paragraph(story))),
        *filter(None, (_since(story.since), _commits(story.commits))),
        *(["### Checkpoints"] if story.steps else []),
        *(f"#### {_heading(step)}\n\n{_body(step)}" for step in story.steps),
    ]
    return "\n\n".join(parts) + "\n"


def _fitting(blocks: Sequence[str], most: int) -> list[str]:
    shown: list[str] = []
    for block in blocks:
        most -= len(block.encode("utf-8", "replace")) + 2
        if most < 0:
            break
        shown.append(block)
    return shown


def paragraph(story: Story) -> list[tuple[str, str]]:
    """Return the change in one paragraph, as ("text", our words) and ("item", somebody's)."""
    if not story.steps:
        return [("text", "No checkpoints are related to these commits.")]
    linked = sum(bool(commit.how) for commit in story.commits)
    sessions = len({step.id.rpartition("@")[0] for step in story.steps})
    prompts = sum(len(step.activity.prompts) for step in story.steps)
    words = f"{count(len(story.steps), 'checkpoint')} of {count(sessions, 'session')}"
    words += f" with {count(prompts, 'prompt')}" if prompts else ""
    if story.commits:
        words = f"{linked} of {count(len(story.commits), 'commit')} came from {words}"
    parts = [("text", f"{words}.")]
    decided = tuple(item for step in story.steps for item in step.decided)
    failed = tuple(item for step in story.steps for item in step.failed)
    for title, items in ((" Decided: ", decided), (" Tried and dropped: ", failed)):
        if items:
            parts += [("text", title), *_listed(tuple(dict.fromkeys(items)))]
    parts.append(("text", _tested(story) + _spent(story)))
    return parts


def _spent(story: Story) -> str:
    """Return how many tokens the work took, and how many of them for nothing."""
    spent = story.tokens
    if spent is None:
        return ""
    words = f" Tokens: {spent.total:,} in {count(spent.requests, 'request')}"
    kept = spent.total - spent.abandoned
    split = f": {kept:,} for what was kept, {spent.abandoned:,} for attempts that were taken back"
    return f"{words}{split if spent.abandoned else ''}."


def _tested(story: Story) -> str:
    """Return how the tests of the last commit ended; without commits, those that ran last."""
    if not story.commits:
        result = result_of(story.steps)
        return f" The last tests {result}." if result else ""
    last = story.commits[-1]
    if not last.how:
        return ""
    result = _outcome(last.tests)
    if not result:
        return " No test run of the last commit is recorded."
    return f" Tests of the last commit: {result}."


def heading(story: Story, quoted: Callable[[str], str] = str) -> str:
    """Return what was made: the branch, and what it is compared with."""
    what = quoted(_shortened(story.branch)) if story.branch else "this change"
    since = f", since {quoted(_shortened(story.onto))}" if story.onto else ""
    return f"How {what} was made{since}"


def _listed(items: Sequence[str]) -> Iterator[tuple[str, str]]:
    for number, item in enumerate(items[-MOST_ITEMS:]):
        if number:
            yield "text", "; "
        yield "item", item
    more = len(items) - MOST_ITEMS
    yield "text", f"; and {more} earlier." if more > 0 else "."


# ---------------------------------------------------------------- commits


def _asked(story: Story) -> str:
    """Return what the work was to reach, and the prompt that it began with."""
    texts = (("Objective", story.objective), ("Request", story.request[0]))
    return "\n".join(f"{name}: {code(text)}" for name, text in texts if text)


def _paragraph(story: Story) -> str:
    return "".join(words if kind == "text" else code(words) for kind, words in paragraph(story))


def _since_line(since: Since | None) -> str:
    if since is None:
        return ""
    states = Counter(each.state for each in since.commits if each.state != "same")
    facts = [f"{number} {state}" for state, number in states.items()]
    facts += [count(len(since.steps), "new checkpoint")] if since.steps else []
    facts += [f"{count(len(since.files), 'file')} with other changes"] if since.files else []
    if since.reviewed and not since.known:
        facts.append("the reviewed commit is no longer in the repository")
    return f"Since the last review: {', '.join(facts) or 'nothing changed'}."


def _table(story: Story) -> str:
    """Return the first commits as a table."""
    if not story.commits:
        return ""
    rows = ["| commit | subject | checkpoints | tests |", "| --- | --- | --- | --- |"]
    for commit in story.commits[:MOST_ROWS]:
        texts = (code(commit.subject), _checkpoints(commit))
        cells = (
            commit.commit[:10],
            *(text.replace("|", "\\|") for text in texts),
            _outcome(commit.tests),
        )
        rows.append(f"| {' | '.join(cells)} |")
    more = len(story.commits) - MOST_ROWS
    return "\n".join(rows) + (f"\n\nand {count(more, 'more commit')}" if more > 0 else "")


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
            f"- {count(len(since.steps), 'new checkpoint')}"
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
    lines += [f"- unchanged except for a rebase: {count(same, 'commit')}"] if same else []
    lines += [
        f"- {code(display(each.path))}: {each.more} changed lines new, {each.less} gone"
        for each in since.files
    ]
    return f"{head}\n\n{_list(lines[:MOST_COMMITS], len(lines))}"


# ---------------------------------------------------------------- checkpoints


def _body(step: ReviewStep) -> str:
    activity = step.activity
    parts = [
        _about(step),
        *_prompts(activity.prompts),
        _items("Decided", step.decided),
        _items("Tried and failed", step.failed),
        _files(step.files),
        *_commands(step),
        _line("Tools", [f"{code(name)} × {count}" for name, count in activity.tools]),
        _line("Led to", [oid[:10] for oid in step.commits]),
    ]
    return "\n\n".join(filter(None, parts))


def _folded(step: ReviewStep) -> str:
    """Return a checkpoint's folded block, reduced to its header if it is too long for a comment."""
    body = _body(step)
    if len(body.encode("utf-8", "replace")) > MOST_STEP:
        body = f"{_about(step)}, too long to show here"
    texts = " ".join(map(_html, (step.id, _title(step))))
    summary = ", ".join([texts, *_extent(step, _html)])
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def _heading(step: ReviewStep) -> str:
    return ", ".join([f"{code(step.id)} {code(_title(step))}", *_extent(step, code)])


def _title(step: ReviewStep) -> str:
    return _shortened(printable(" ".join(step.title.split())))


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_TITLE else text[:LONGEST_TITLE] + "…"


def _html(text: str) -> str:
    return f"<code>{escape(printable(text))}</code>"


def _extent(step: ReviewStep, quoted: Callable[[str], str]) -> list[str]:
    """Return the files, by path if there is one, and the result of tests."""
    tests = result_of([step])
    which = count(len(step.files), "file")
    if len(step.files) == 1:
        which = quoted(_shortened(display(step.files[0].path)))
    files = f"{which} {_counts(step.files)}".rstrip()
    return [*([files] if step.files else []), *([f"tests {tests}"] if tests else [])]


def result_of(steps: Sequence[ReviewStep]) -> str:
    """Return how the last tests of these checkpoints ended, "" if no tests ran or it is unknown."""
    runs = [ran for step in steps for ran in step.activity.commands if ran.is_test]
    return RESULTS[runs[-1].failed] if runs and runs[-1].failed is not None else ""


def _outcome(runs: Sequence[CommandRun]) -> str:
    """Return how the last test run with a known result ended, "" if there was no run."""
    known = [ran.failed for ran in runs if ran.failed is not None]
    return RESULTS[known[-1] if known else None] if runs else ""


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
    own = written([file.path for file in files])
    others = [file for file in files if file.path not in own]
    lines = [
        f"- {file.kind} {code(display(file.path), 200)} {_counts([file])}".rstrip()
        + (f", {file.by}" if file.by else "")
        for file in others[:MOST_FILES]
    ]
    listed = _list(lines, len(others))
    written_by = f"- {count(len(own), 'file')} that `gitcp enable` writes" if own else ""
    return "Files:\n\n" + "\n".join(filter(None, (listed, written_by)))


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
