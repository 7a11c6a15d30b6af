"""Parts of what several look commands show: checkpoints' heads, paths and patches, messages, the
note.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from gitcp import humanize, wire
from gitcp.cli.output import BOLD, CYAN, DIM, GREEN, PLAIN, RED, YELLOW, Color, Output, Styled
from gitcp.model import Claim, FileChange, Handoff, Kind, Note, Run, States, Unlocked
from gitcp.value import EMPTY
from gitcp.worktree.paths import display

if TYPE_CHECKING:
    from gitcp.adapters.base import Message
    from gitcp.cli.context import Context
    from gitcp.history.tokens import Tokens
    from gitcp.saving.save import Unread
    from gitcp.store import Summary

SIGNS = {Kind.ADDED: "A", Kind.MODIFIED: "M", Kind.DELETED: "D", Kind.MODE: "m", Kind.TYPE: "T"}
COLOURS = {Kind.ADDED: GREEN, Kind.DELETED: RED}
LAST_LINES = 20
LONGEST = 2000
"""Characters of one message that are shown, unless the whole conversation is asked for."""

WIDE = 120
"""Columns of a terminal from which lists have tokens, and dates beside ages."""


def write_page(context: Context, name: str, page: str, *, force: bool) -> None:
    """Write a page to the file that was asked for, or to stdout. Raises as `output_file.write`."""
    from gitcp.sharing import output_file  # only for pages

    data = page.encode("utf-8")
    if name == output_file.STDOUT:
        context.output.data(data)
        return
    output_file.write(context.cwd / name, [data], force=force)
    context.output.say(f"wrote {name}")


def say_unread(output: Output, unread: Unread | None) -> None:
    """Say what a save could not read of the conversation, and what to run; nothing if it could."""
    if unread is not None:
        output.say(f"note: {unread.what}")
        if unread.hint:
            output.say(f"hint: {unread.hint}")


def decoration(tags: Sequence[str]) -> Styled:
    """Return ` (tag: a, b)`, or nothing without tags."""
    return Styled(f" (tag: {', '.join(tags)})" if tags else "", YELLOW)


def head(output: Output, summary: Summary, tags: Sequence[str], now: datetime, id: str) -> None:
    """What a commit says of its checkpoint, as git log says it of a commit; `id` as it can be
    typed.
    """
    trailer = summary.trailers.get
    output.line(Styled(f"checkpoint {id}", YELLOW), decoration(tags))
    output.line(
        f"Date:     {humanize.moment(summary.created)}  ({humanize.ago(summary.created, now)})"
    )
    phase = f"phase {trailer('Gitcp-Phase')}" if trailer("Gitcp-Phase") else ""
    why = [trailer("Gitcp-Trigger", ""), trailer("Gitcp-Agent", ""), phase]
    output.line(f"Trigger:  {', '.join(filter(None, why))}")
    messages = (
        f", {humanize.count(int(trailer('Gitcp-Messages', '0')), 'message')}"
        if trailer("Gitcp-Messages")
        else ""
    )
    skipped = f", {trailer('Gitcp-Skipped')} not captured" if trailer("Gitcp-Skipped") else ""
    output.line(f"Files:    {trailer('Gitcp-Files', '')}{skipped}{messages}")
    if trailer("Gitcp-Step"):
        output.line(f"Step:     {trailer('Gitcp-Step')}")
    if trailer("Gitcp-Restored-From"):
        output.line(f"Restored: from {trailer('Gitcp-Restored-From')}")
    if trailer("Gitcp-Forked-From"):
        output.line(f"Forked:   from {trailer('Gitcp-Forked-From')}")
    if trailer("Gitcp-Reverted"):
        output.line(f"Reverted: {trailer('Gitcp-Reverted')}")
    output.line()
    output.line(f"    {summary.subject}")


def note(output: Output, note: Note) -> None:
    """Print a note: facts, handoff, position, compensations; nothing for an empty note."""
    pairs(output, "Facts", note.facts.items())
    handoff(output, note.handoff)
    pairs(output, "Position", wire.position_texts(note.position).items())
    items(output, "Compensations", note.compensations)


def run(output: Output, run: Run | None) -> None:
    """Print a run: the command, how it ended, and the last lines of its output."""
    if run is None:
        return
    ended = "exit code unknown" if run.code is None else f"exit code {run.code}"
    import shlex  # for a run

    what = shlex.join(run.command) or "(a block of code)"
    items(output, "Ran", [f"{what}  ({ended}, {run.milliseconds / 1000:.2f} s)"])
    for text in run.output.splitlines()[-LAST_LINES:]:
        output.line("    ", text)


def handoff(output: Output, handoff: Handoff) -> None:
    """Print a handoff."""
    items(output, "Task", [handoff.task] if handoff.task else [])
    items(output, "Decided", handoff.decisions)
    items(output, "Tried and failed", handoff.failed)
    items(output, "Next", handoff.next)
    items(output, "Active files", handoff.active)


def pairs(output: Output, title: str, values: Iterable[tuple[str, str]]) -> None:
    """Print a block of `key = value` lines under a title."""
    items(output, title, [f"{key} = {value}" for key, value in values])


def items(output: Output, title: str, texts: Sequence[str]) -> None:
    """Print a block of lines under a title; nothing without lines."""
    if texts:
        output.line(Styled(title, BOLD))
        for text in texts:
            output.line("  " + text.replace("\n", "\n  "))


def changed(
    output: Output,
    changes: Sequence[FileChange],
    most: int | None = None,
    by: Mapping[bytes, Claim] = EMPTY,
) -> None:
    """Print changed paths, one a line, each with its kind of change, and who made it."""
    for change in changes if most is None else changes[:most]:
        path = f"{SIGNS[change.kind]}  {display(change.path)}"
        output.line(
            "  ",
            Styled(path, COLOURS.get(change.kind, PLAIN)),
            Styled(f"  {by[change.path]}" if change.path in by else "", DIM),
        )
    if most is not None and len(changes) > most:
        output.line(f"  … and {len(changes) - most:,} more")


def others(output: Output, by: Mapping[bytes, Claim]) -> None:
    """Print the paths that others changed as well, or instead; nothing if there are none."""
    width = max((len(display(path)) for path in by), default=0)
    lines = [f"{display(path).ljust(width)}  {by[path]}" for path in sorted(by)]
    items(output, "Changed by others", humanize.listed(lines, LAST_LINES))


def unlocked(database: Unlocked) -> str:
    """Return a database that was captured without its locks, on one line."""
    why = f"{database.holder} held its locks: it may be captured in mid-transaction"
    return f"{display(database.path)}  ({why})"


def states(states: States | None) -> list[str]:
    """Return the states outside the files in a checkpoint, a line each."""
    return [
        f"{each.name}  not saved: {each.missing}"
        if each.missing
        else f"{each.name}  {humanize.size(each.bytes)}, saved in {each.milliseconds / 1000:.1f} s"
        for each in (states.each if states else ())
    ]


def patch(output: Output, text: bytes) -> None:
    """git's patch: to a terminal safe and coloured, into a pipe byte for byte, so that it can be
    applied.
    """
    if not (output.terminal or output.colour):
        output.data(text)
        return
    in_hunk = False
    for line in text.decode("utf-8", "surrogateescape").split("\n")[:-1]:
        in_hunk = line.startswith("@@") or (in_hunk and not line.startswith("diff "))
        output.line(Styled(line, _patch_colour(line, in_hunk=in_hunk)))


def _patch_colour(line: str, *, in_hunk: bool) -> Color:
    if not in_hunk:
        return BOLD
    return {"+": GREEN, "-": RED, "@": CYAN}.get(line[:1], PLAIN)


def messages(output: Output, shown: Iterable[Message], longest: int | None = None) -> None:
    """Each message under its role, indented; those of the user with the id that `restore --message`
    takes.
    """
    for message in shown:
        who = f"{message.role} ({message.tool})" if message.tool else message.role
        id = message.id if message.role == "user" and not message.tool else ""
        about = "".join(f"  {fact}" for fact in (message.time, id) if fact)
        output.line(Styled(who, CYAN), Styled(about, DIM))
        text = message.text
        if longest is not None and len(text) > longest:
            text = f"{text[:longest]}\n… {humanize.count(len(text) - longest, 'character')} more"
        for line in text.rstrip("\n").split("\n"):
            output.line("    " + line)
        output.line()


def short_tokens(spent: Tokens | None) -> str:
    """Return the sum of tokens in a few characters: `21k`, `—` if it was not counted, "" if there
    are none.
    """
    if spent is None:
        return "—"
    return humanize.short(spent.total) if spent.requests else ""


def tokens(spent: Tokens) -> str:
    """Return tokens on one line: `12,345 in (10,000 from the cache), 678 out, 9 requests`."""
    read = spent.input + spent.cache_read + spent.cache_write
    cached = f" ({spent.cache_read:,} from the cache)" if spent.cache_read else ""
    requests = humanize.count(spent.requests, "request")
    return f"{read:,} in{cached}, {spent.output:,} out, {requests}"


def missed(directory: bytes) -> str:
    """Return what a watcher of the working tree did not report, in words."""
    return f"it did not report a change in {display(directory or b'.')}"
