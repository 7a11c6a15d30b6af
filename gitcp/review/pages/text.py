"""Jinja filters for the pages: texts, the Markdown of agents' answers, and rows. Pure.

Results are escaped like any text, except for `trusted`, which is only applied to our own style and
script. Markdown (code, tables, headings, emphasis) makes no HTML: the templates do, and escape
every piece. Links and images are left as text. A call with its result is one row.
"""

from __future__ import annotations

import re
import shlex
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any

from markupsafe import Markup

from gitcp import humanize, wire
from gitcp.adapters.base import Message
from gitcp.humanize import count
from gitcp.model import Note
from gitcp.model import Run as Ran
from gitcp.restoring.installed import written
from gitcp.review.patches import FilePatch, Hunk, Run
from gitcp.review.view import ViewStep, ViewStory
from gitcp.value import Value, replace

MARKUP = {
    "bash-input": "Shell command",
    "bash-stderr": "Errors",
    "bash-stdout": "Output",
    "command-args": "Arguments",
    "command-message": "Running",
    "command-name": "Command",
    "ide_opened_file": "Open in the editor",
    "ide_selection": "Selected in the editor",
    "local-command-caveat": "Note",
    "local-command-stderr": "Errors",
    "local-command-stdout": "Output",
    "system-reminder": "Reminder",
    "task-notification": "Notification",
    "user-memory-input": "To remember",
}
"""Elements that Claude Code puts into prompts, and what they are."""

ELEMENT = re.compile(rf"<({'|'.join(MARKUP)})>(.*?)</\1>", re.DOTALL)


class PageRow(Value):
    """A message of the page; for a call of a tool, its `result` if that is on the page too.

    `prompt` numbers the user's prompts of a checkpoint from 1; 0 for other messages.
    """

    message: Message
    result: Message | None = None
    prompt: int = 0


class Part(Value):
    """A part of a message: plain text, or an element of markup with its name in words."""

    name: str
    text: str


def rows(messages: Sequence[Message]) -> list[PageRow]:
    """Return the rows of a checkpoint's messages, in order."""
    made: list[PageRow] = []
    waiting: dict[str, int] = {}
    prompts = 0
    for message in messages:
        at = waiting.pop(message.call, None) if message.role == "tool" and message.call else None
        if at is not None:
            made[at] = replace(made[at], result=message)
            continue
        if message.role == "user":
            prompts += 1
        if message.tool and message.role == "assistant" and message.call:
            waiting[message.call] = len(made)
        made.append(PageRow(message, prompt=prompts if message.role == "user" else 0))
    return made


def prompts(messages: Sequence[Message]) -> list[tuple[int, str]]:
    """Return the number and the text of each prompt of a checkpoint."""
    texts = (message.text for message in messages if message.role == "user")
    return list(enumerate(texts, start=1))


def parts(text: str) -> list[Part]:
    """Return the parts of a message: text has the name ""."""
    return list(_parts(text))


def _parts(text: str) -> Iterator[Part]:
    at = 0
    for match in ELEMENT.finditer(text):
        if before := text[at : match.start()].strip():
            yield Part("", before)
        if match[2].strip():
            yield Part(MARKUP[match[1]], match[2].strip())
        at = match.end()
    if rest := text[at:].strip():
        yield Part("", rest)


FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^`\n]*)$")
HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.+?)[ \t#]*$")
ITEM = re.compile(r"[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]+\S")
PIECE = re.compile(
    r"(?<!`)(`{1,2})(?!`)([^\n]{1,400}?)(?<!`)\1(?!`)|\*\*(?=\S)([^*\n]{1,200}?)(?<=\S)\*\*"
)


class Fragment(Value):
    """A part of a paragraph. `kind` is "plain", "code" or "strong"."""

    kind: str
    text: str


class ProseBlock(Value):
    """A part of a message. `kind` is "code", "table", "heading", "item" (of a list) or "text"; the
    last three consist of `pieces`.
    """

    kind: str
    text: str = ""
    pieces: tuple[Fragment, ...] = ()


def blocks(text: str) -> Iterator[ProseBlock]:
    """Yield the blocks of a message, in order."""
    lines = text.strip("\n").split("\n")
    paragraph: list[str] = []
    at = 0
    while at < len(lines):
        match = _code(lines, at) or _table(lines, at) or _heading(lines, at)
        if match is None:
            paragraph.append(lines[at])
            at += 1
            continue
        yield from _paragraphs(paragraph)
        paragraph = []
        block, at = match
        yield block
    yield from _paragraphs(paragraph)


def _code(lines: list[str], at: int) -> tuple[ProseBlock, int] | None:
    """Parse a fenced block. Without a closing fence it extends to the end."""
    opened = FENCE.match(lines[at])
    if opened is None:
        return None
    closes = re.compile(rf" {{0,3}}{re.escape(opened[1])}+[ \t]*")
    end = next((n for n in range(at + 1, len(lines)) if closes.fullmatch(lines[n])), len(lines))
    return ProseBlock("code", "\n".join(lines[at + 1 : end])), end + 1


def _table(lines: list[str], start: int) -> tuple[ProseBlock, int] | None:
    end = start
    while end < len(lines) and lines[end].lstrip().startswith("|"):
        end += 1
    return (ProseBlock("table", "\n".join(lines[start:end])), end) if end - start > 1 else None


def _heading(lines: list[str], at: int) -> tuple[ProseBlock, int] | None:
    match = HEADING.match(lines[at])
    return (ProseBlock("heading", pieces=tuple(_pieces(match[1]))), at + 1) if match else None


def _paragraphs(lines: list[str]) -> Iterator[ProseBlock]:
    """Yield paragraphs and list items. An item ends at the next one or at an empty line."""
    kind = "text"
    paragraph: list[str] = []
    for line in [*lines, ""]:
        item = ITEM.match(line) is not None
        if paragraph and (item or not line.strip()):
            yield ProseBlock(kind, pieces=tuple(_pieces("\n".join(paragraph))))
            paragraph = []
        if not paragraph:
            kind = "item" if item else "text"
        if line.strip():
            paragraph.append(line)


def _pieces(text: str) -> Iterator[Fragment]:
    at = 0
    for match in PIECE.finditer(text):
        if match.start() > at:
            yield Fragment("plain", text[at : match.start()])
        yield Fragment("code", match[2]) if match[2] is not None else Fragment("strong", match[3])
        at = match.end()
    if at < len(text):
        yield Fragment("plain", text[at:])


LONGEST = 40_000
LONGEST_LINE = 2_000
BRIEF = 160
FEW_LINES = 300

COLORS = re.compile(r"\x1b\[[0-9;:]*m")
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2028\u2029\u2060-\u2069\ufeff\ufff0-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Invisible characters, bidi controls and lone surrogates. Joiners, as in emoji
and some scripts, are left alone.
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
"""The fields of a tool's input that describe a call best, in order."""


def shown(value: Any) -> Any:
    """Return a value for the page, with invisible and misleading characters made visible."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return UNSEEN.sub(_visible, value.replace("\r\n", "\n"))
    return value


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20 or code == 0x7F:
        return chr(0x2421 if code == 0x7F else 0x2400 + code)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def cut(text: str) -> tuple[str, str]:
    """Truncate a text to what the page shows; return it with a note on the rest ("" if
    complete).
    """
    if len(text) <= LONGEST:
        return text, ""
    return text[:LONGEST], f"{count(len(text) - LONGEST, 'character')} more in the checkpoint"


def brief(text: str) -> str:
    """Return the start of a text on one line."""
    flat = " ".join(text[: BRIEF * 4].split())
    return flat if len(flat) <= BRIEF else flat[: BRIEF - 1] + "…"


def lines(text: str) -> str:
    """Format the number of lines."""
    return count(text.rstrip("\n").count("\n") + 1, "line")


def plain(text: str) -> str:
    """Remove color codes from a program's output."""
    return COLORS.sub("", text)


def clock(time: str | None) -> str:
    """Return the HH:MM of an agent's timestamp, or its start if it is in another format."""
    match = CLOCK.match(time or "")
    return match[1] if match else (time or "")[:30]


def input(text: str, root: str = "") -> list[tuple[str, str]]:
    """Return the fields of a tool's input as (name, value), a path below `root` relative to it.
    Input that is no object has the name "".
    """
    fields = wire.parse_line(text.encode("utf-8", "surrogatepass")) or {}
    values = ((name, _value(value)) for name, value in fields.items())
    return [(name, value.removeprefix(f"{root}/")) for name, value in values] or [("", text)]


def is_word(value: str) -> bool:
    """Return whether a value is short enough to need no block of its own."""
    return len(value) <= 60 and "\n" not in value


def _value(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return shlex.join(value)
    return value if isinstance(value, str) else wire.dumps(value).decode("utf-8", "replace")


def gist(fields: list[tuple[str, str]]) -> str:
    """Summarize a tool call in one line."""
    values = dict(fields)
    name = next((name for name in TELLING if values.get(name)), None)
    return brief(values[name] if name else next((value for _, value in fields if value), ""))


def size(step: ViewStep) -> str:
    """Format trigger, messages and files of a checkpoint for the timeline."""
    paths = [*(patch.path for patch in step.patches), *step.others]
    messages = f"{len(step.turn.messages):,} msg" if step.turn.messages else ""
    files = paths[0] if len(paths) == 1 else count(len(paths), "file") if paths else ""
    return " · ".join(filter(None, (step.checkpoint.trigger.value, messages, files)))


def continues(step: ViewStep, before: ViewStep | None) -> bool:
    """Return whether a checkpoint is of the same prompt as the one before it."""
    return before is not None and before.title == step.title and not step.checkpoint.note.label


def noted(step: ViewStep, before: ViewStep | None) -> bool:
    """Return whether a checkpoint has notes that the one `before` it has not."""
    now, old = (each and (_notes(each), each.skipped) for each in (step, before))
    return bool(step.checkpoint.run) or now != (old or (_notes(None), ()))


def _notes(step: ViewStep | None) -> Note:
    """Return the note without what other parts of the page show."""
    return replace(step.checkpoint.note, label=None, phase=None) if step else Note()


def installed(patches: Sequence[FilePatch]) -> list[FilePatch]:
    """Return the files of a change that `gitcp enable` writes to."""
    written = _written(patches)
    return [patch for patch in patches if patch.path.encode("utf-8", "replace") in written]


def authored(patches: Sequence[FilePatch]) -> list[FilePatch]:
    """Return the other files of a change."""
    written = _written(patches)
    return [patch for patch in patches if patch.path.encode("utf-8", "replace") not in written]


def _written(patches: Sequence[FilePatch]) -> frozenset[bytes]:
    return written([patch.path.encode("utf-8", "replace") for patch in patches])


def about(story: ViewStory) -> list[str]:
    """Return the items of the page's header."""
    last = story.steps[-1].checkpoint
    agent = (
        [part for part in (last.agent.name, last.agent.version, last.agent.model) if part]
        if last.agent
        else []
    )
    messages = sum(len(step.turn.messages) for step in story.steps)
    return [
        f"session {story.session}",
        *([" ".join(agent)] if agent else []),
        count(messages, "message"),
    ]


def is_both(step: ViewStep) -> bool:
    """Return whether a checkpoint has both messages and changes, to be shown side by side."""
    talk = step.turn.messages or step.turn.back or step.turn.asides
    return bool(talk and (step.patches or step.others))


def ran(run: Ran) -> str:
    """Format a command with its exit code and duration."""
    ended = "result unknown" if run.code is None else f"exit code {run.code}"
    return (
        f"{shlex.join(run.command) or 'step of a program'}  ({ended}, "
        f"{run.milliseconds / 1000:.2f} s)"
    )


# ---------------------------------------------------------------- patches


def is_short(patch: FilePatch) -> bool:
    """Return whether a file's changes are unfolded initially."""
    return (
        bool(patch.hunks)
        and sum(run.lines for hunk in patch.hunks for run in hunk.runs) <= FEW_LINES
    )


def shortened(patch: FilePatch, most: int) -> tuple[list[Hunk], str]:
    """Truncate a file's hunks to `most` lines; return them with a note on the rest."""
    hunks, room = [], most
    for hunk in patch.hunks:
        runs = []
        for run in hunk.runs if room > 0 else ():
            runs.append(_first(run, room))
            room -= run.lines
            if room <= 0:
                break
        if runs:
            hunks.append(Hunk(hunk.old, hunk.new, hunk.heading, tuple(runs)))
    whole = sum(run.lines for hunk in patch.hunks for run in hunk.runs)
    return (
        hunks,
        f"{count(whole - most, 'line')} more in the checkpoint" if whole > most else "",
    )


def shortened_hunk(hunk: Hunk, most: int) -> tuple[list[Hunk], str]:
    """Truncate one hunk to `most` lines, as `shortened` does."""
    return shortened(FilePatch("", hunks=(hunk,)), max(most, 0))


def line_count(hunk: Hunk) -> int:
    """Return the number of a hunk's lines."""
    return sum(run.lines for run in hunk.runs)


def _first(run: Run, most: int) -> Run:
    if run.lines <= most:
        return run
    return Run(run.sign, "\n".join(run.text.split("\n", most)[:most]))


def numbers(hunk: Hunk) -> str:
    """Return a hunk's line numbers, one per line: new numbers, or old ones for removed lines."""
    old, new = hunk.old, hunk.new
    numbers_shown: list[str] = []
    for run in hunk.runs:
        first = old if run.sign == "-" else new
        numbers_shown += [str(number) for number in range(first, first + run.lines)]
        old += run.lines if run.sign != "+" else 0
        new += run.lines if run.sign != "-" else 0
    return "\n".join(numbers_shown)


def signed(run: Run) -> str:
    """Return the lines of a run with their signs, long lines truncated."""
    return "\n".join(run.sign + _readable(line) for line in run.text.split("\n"))


def _readable(line: str) -> str:
    if len(line) <= LONGEST_LINE:
        return line
    return f"{line[:LONGEST_LINE]}… {count(len(line) - LONGEST_LINE, 'character')} more"


# ---------------------------------------------------------------- our own


def hashed(source: str) -> str:
    """Return the checksum of our own style or script for the content security policy."""
    return f"sha256-{b64encode(sha256(source.encode('utf-8')).digest()).decode('ascii')}"


def trusted(source: str) -> Markup:
    """Mark our own style or script as safe."""
    return Markup(source)  # noqa: S704 -- a file of this package, and nothing else


FILTERS: dict[str, Callable[..., Any]] = {
    "about": about,
    "authored": authored,
    "blocks": blocks,
    "brief": brief,
    "bytes": humanize.size,
    "clock": clock,
    "continues": continues,
    "count": count,
    "cut": cut,
    "gist": gist,
    "hash": hashed,
    "input": input,
    "installed": installed,
    "is_both": is_both,
    "is_short": is_short,
    "is_word": is_word,
    "line_count": line_count,
    "lines": lines,
    "noted": noted,
    "numbers": numbers,
    "parts": parts,
    "plain": plain,
    "prompts": prompts,
    "ran": ran,
    "rows": rows,
    "shortened": shortened,
    "shortened_hunk": shortened_hunk,
    "signed": signed,
    "size": size,
    "trusted": trusted,
    "written": written,
}
