"""What the templates do with values: text from text, and from parts of a story. Pure.

What these return is escaped like all else, but for `trusted`, which is given our own style and
script alone.
"""

from __future__ import annotations

import re
import shlex
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from markupsafe import Markup

from gitcp import wire
from gitcp.model import Run as Ran
from gitcp.review.pages.prose import blocks
from gitcp.review.patches import FilePatch, Hunk, Run
from gitcp.review.view import Step, Story

LONGEST = 40_000
LONGEST_LINE = 2_000
BRIEF = 160
FEW_LINES = 300

COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2028\u2029\u2060-\u2069\ufeff\ufff0-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""What is invisible, turns the direction of writing, or is half a character. What joins emoji and
letters is let be.
"""
CLOCK = re.compile(r"\d{4}-\d\d-\d\dT(\d\d:\d\d)")
TELLING = (
    "command",
    "cmd",
    "file_path",
    "path",
    "pattern",
    "query",
    "url",
    "description",
    "prompt",
)
"""Fields of a tool's input that say most about the call."""


def shown(value: Any) -> Any:
    """Any value as the page has it: what would be invisible or misleading in a text is made
    visible.
    """
    if isinstance(value, str) and not isinstance(value, Markup):
        return UNSEEN.sub(_visible, value.replace("\r\n", "\n"))
    return value


def _visible(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20 or code == 0x7F:
        return chr(0x2421 if code == 0x7F else 0x2400 + code)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def count(number: int, what: str) -> str:
    """`1 file`, `3 files`."""
    return f"{number:,} {what if number == 1 else what + 's'}"


def cut(text: str) -> tuple[str, str]:
    """As much of a text as the page has, and what is said of the rest."""
    if len(text) <= LONGEST:
        return text, ""
    return text[:LONGEST], f"{count(len(text) - LONGEST, 'character')} more, in the checkpoint"


def brief(text: str) -> str:
    """The beginning of a text on one line."""
    flat = " ".join(text[: BRIEF * 4].split())
    return flat if len(flat) <= BRIEF else flat[: BRIEF - 1] + "…"


def lines(text: str) -> str:
    """How many lines it has."""
    return count(text.rstrip("\n").count("\n") + 1, "line")


def plain(text: str) -> str:
    """What a program said, without its colours."""
    return COLOURS.sub("", text)


def clock(time: str | None) -> str:
    """The hour of a time as an agent wrote it, or what it wrote instead."""
    found = CLOCK.match(time or "")
    return found[1] if found else (time or "")[:30]


def input(text: str) -> list[tuple[str, str]]:
    """The fields of a tool's input, by name; what has no fields is one without a name."""
    fields = wire.parse_line(text.encode("utf-8", "surrogatepass")) or {}
    return [(name, _value(value)) for name, value in fields.items()] or [("", text)]


def is_word(value: str) -> bool:
    """Whether a field of a tool's input is so short that it needs no block of its own."""
    return len(value) <= 60 and "\n" not in value


def _value(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return shlex.join(value)
    return value if isinstance(value, str) else wire.dumps(value).decode("utf-8", "replace")


def gist(fields: list[tuple[str, str]]) -> str:
    """What a tool's call was about, on one line."""
    found = dict(fields)
    name = next((name for name in TELLING if found.get(name)), None)
    return brief(found[name] if name else next((value for _, value in fields if value), ""))


def size(step: Step) -> str:
    """What a checkpoint added, for the timeline: messages and files."""
    files = len(step.patches) + len(step.others)
    trigger = step.checkpoint.trigger.value
    why = "" if step.subject.startswith(trigger) else trigger
    said = f"{len(step.turn.messages):,} msg" if step.turn.messages else ""
    return " · ".join(filter(None, (why, said, count(files, "file") if files else "")))


def about(story: Story) -> list[str]:
    """What is said of the whole story at its head."""
    last = story.steps[-1].checkpoint
    agent = (
        [part for part in (last.agent.name, last.agent.version, last.agent.model) if part]
        if last.agent
        else []
    )
    said = sum(len(step.turn.messages) for step in story.steps)
    return [
        f"session {story.session}",
        *([" ".join(agent)] if agent else []),
        count(said, "message"),
    ]


def is_both(step: Step) -> bool:
    """Whether there are two halves to show side by side."""
    said = step.turn.messages or step.turn.back or step.turn.asides
    return bool(said and (step.patches or step.others))


def ran(run: Ran) -> str:
    """What was run, and how it ended."""
    ended = "its end was not seen" if run.code is None else f"exit code {run.code}"
    return (
        f"{shlex.join(run.command) or 'a part of a program'}  ({ended}, "
        f"{run.milliseconds / 1000:.2f} s)"
    )


# ---------------------------------------------------------------- patches


def is_short(patch: FilePatch) -> bool:
    """Whether a file's changes are unfolded from the start."""
    return (
        bool(patch.hunks)
        and sum(run.lines for hunk in patch.hunks for run in hunk.runs) <= FEW_LINES
    )


def shortened(patch: FilePatch, most: int) -> tuple[list[Hunk], str]:
    """As many hunks of a file as the page has, the last one cut, and what is said of the rest."""
    hunks, left = [], most
    for hunk in patch.hunks:
        runs = []
        for run in hunk.runs if left > 0 else ():
            runs.append(_first(run, left))
            left -= run.lines
            if left <= 0:
                break
        if runs:
            hunks.append(Hunk(hunk.old, hunk.new, hunk.heading, tuple(runs)))
    whole = sum(run.lines for hunk in patch.hunks for run in hunk.runs)
    return hunks, f"{count(whole - most, 'line')} more, in the checkpoint" if whole > most else ""


def _first(run: Run, most: int) -> Run:
    if run.lines <= most:
        return run
    return Run(run.sign, "\n".join(run.text.split("\n", most)[:most]))


def numbers(hunk: Hunk) -> str:
    """The numbers of a hunk's lines, one a line: as they are now, of what was removed as they
    were.
    """
    old, new = hunk.old, hunk.new
    found: list[str] = []
    for run in hunk.runs:
        first = old if run.sign == "-" else new
        found += [str(number) for number in range(first, first + run.lines)]
        old += run.lines if run.sign != "+" else 0
        new += run.lines if run.sign != "-" else 0
    return "\n".join(found)


def signed(run: Run) -> str:
    """The lines of a run, each behind its sign, none longer than anyone reads."""
    return "\n".join(run.sign + _readable(line) for line in run.text.split("\n"))


def _readable(line: str) -> str:
    if len(line) <= LONGEST_LINE:
        return line
    return f"{line[:LONGEST_LINE]}… {count(len(line) - LONGEST_LINE, 'character')} more"


# ---------------------------------------------------------------- our own


def hashed(own: str) -> str:
    """The checksum by which the page's policy knows our own style or script."""
    return f"sha256-{b64encode(sha256(own.encode('utf-8')).digest()).decode('ascii')}"


def trusted(own: str) -> Markup:
    """Our own style or script, as it is."""
    return Markup(own)  # noqa: S704 -- a file of this package, and nothing else


FILTERS: dict[str, Callable[..., Any]] = {
    "about": about,
    "blocks": blocks,
    "brief": brief,
    "clock": clock,
    "count": count,
    "cut": cut,
    "gist": gist,
    "hash": hashed,
    "input": input,
    "is_both": is_both,
    "is_short": is_short,
    "is_word": is_word,
    "lines": lines,
    "numbers": numbers,
    "plain": plain,
    "ran": ran,
    "shortened": shortened,
    "signed": signed,
    "size": size,
    "trusted": trusted,
}
