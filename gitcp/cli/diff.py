"""`gitcp diff`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from difflib import unified_diff
from itertools import islice
from typing import Any

import click

from gitcp import documents, humanize
from gitcp.adapters.base import Message
from gitcp.cli import rendering
from gitcp.cli.context import Context
from gitcp.cli.failure import end
from gitcp.cli.options import LOOKED, PATHS, WORDS, Command, json_option, session_option
from gitcp.cli.output import BOLD, GREEN, RED, Color, Styled
from gitcp.history import authors, diff_now, memory, revisions, states
from gitcp.history import diff as op
from gitcp.history.databases import DatabaseChange
from gitcp.history.memory import MemoryChange
from gitcp.history.states import StateChange
from gitcp.model import Capture, Checkpoint, Claim, Conversation
from gitcp.value import Value
from gitcp.wire import Json
from gitcp.worktree.paths import display


class Options(Value):
    """What was typed."""

    paths: tuple[bytes, ...]
    stat: bool
    name_only: bool
    conversation: bool
    exit_code: bool
    options: tuple[str, ...]
    as_json: bool


@click.command(cls=Command, rest=PATHS)
@click.argument("old", type=LOOKED, metavar="[A]", default="@")
@click.argument("new", type=LOOKED, required=False, metavar="[B]")
@click.option("--stat", is_flag=True, help="show the number of changed lines in each file")
@click.option("--name-only", is_flag=True, help="show only the paths")
@click.option("--conversation", is_flag=True, help="compare the conversations instead")
@click.option("--option", "options", type=WORDS, multiple=True, hidden=True, help="of git diff")
@click.option("--exit-code", is_flag=True, help="exit with 1 if anything differs")
@session_option
@json_option
@click.pass_obj
def command(
    context: Context, /, old: str, new: str | None, session: str | None, **values: Any
) -> None:
    """Compare a checkpoint with your files, or with another one

    Compares A (default: the last checkpoint) with B, or with the working tree.

      gitcp diff
      gitcp diff 12 --stat
      gitcp diff before-migration @ -- src
    """
    given = Options(**values)
    if new is None and revisions.is_range(context.store, old):
        old, new = revisions.split_range(old)
    a = context.checkpoint(old or "@", session)
    context.mention_elsewhere(old or "@", session)
    if new is None:
        a = context.having(a, given.paths)
    b = context.checkpoint(new or "@", session) if new is not None else None
    shown = _messages if given.conversation else _files
    with nullcontext() if given.as_json else context.output.paged(context.core_pager):
        differs = shown(context, a, b, given)
    end(1 if differs and given.exit_code else 0)


def _files(context: Context, a: Checkpoint, b: Checkpoint | None, given: Options) -> bool:
    paths = context.inside(given.paths)
    with _compared(context, a, b, paths, text=not given.name_only) as difference:
        by = authors.between(context.store, a, b) if b is not None else {}
        remembered = () if paths else tuple(memory.compare(context.store, a, b))
        stated = () if paths or b is None else tuple(states.compare(context.store, a, b))
        changes = (
            *difference.changes,
            *(each.as_file(context.store) for each in remembered),
            *(each.as_file for each in stated),
        )
        tables = {each.path: each for each in difference.databases()} if given.as_json else {}
        sizes = {each.as_file.path: each for each in stated}
        for change in changes if given.as_json else ():
            fields = documents.change(change, by.get(change.path))
            fields["tables"] = _tables(tables.get(change.path))
            fields["state"] = _state(sizes.get(change.path))
            context.output.document(documents.document("diff", fields))
        if given.as_json:
            return bool(changes)
        if given.name_only:
            for change in changes:
                context.output.line(display(change.path))
        else:
            width = context.output.width
            options = [f"--stat={width}" if width else "--stat"] if given.stat else []
            options += given.options
            rendering.patch(context.output, difference.text(*options))
            _print_memory(context, remembered, stat=given.stat)
            _print_states(context, stated, stat=given.stat)
            if b is not None and (given.stat or context.output.terminal):
                _print_others(context, difference, authors.others(by, b.id.session))
        return bool(changes)


def _tables(database: DatabaseChange | None) -> list[Json] | None:
    """Return the tables of a database that differ; None if the path is none."""
    if database is None:
        return None
    return [
        {
            "name": table.name,
            **{
                side: {"rows": each.rows, "schema": list(each.schema)} if each else None
                for side, each in (("old", table.old), ("new", table.new))
            },
        }
        for table in database.tables
    ]


def _state(change: StateChange | None) -> Json | None:
    """Return the sizes and checksums of a state that differs; None if the path is none."""
    if change is None:
        return None
    sides = (("old", change.old), ("new", change.new))
    return {
        "name": change.name,
        **{side: {"bytes": each.bytes, "sha256": each.sha256} for side, each in sides},
    }


def _print_memory(context: Context, changes: Sequence[MemoryChange], *, stat: bool) -> None:
    """Print what differs in agents' memories. It is in no patch: git has no such file."""
    for change in changes:
        if change.problem:
            what = f"memory {change.agent}/{change.path}: {change.problem}"
            context.output.line(Styled(what, RED))
            continue
        texts = ((text or b"").decode("utf-8", "replace") for text in (change.old, change.new))
        _print_lines(context, f"memory {change.agent}/{change.path}", *texts, stat=stat)


def _print_states(context: Context, changes: Sequence[StateChange], *, stat: bool) -> None:
    """Print which states outside the files differ. They are in no patch, either."""
    for change in changes:
        sizes = [humanize.size(each.bytes) for each in (change.old, change.new)]
        what = f"state {change.name}  {' -> '.join(sizes)}"
        if change.problem:
            context.output.line(Styled(f"{what}: {change.problem}", RED))
        elif change.texts is None:
            context.output.line(Styled(what, BOLD))
        else:
            _print_lines(context, what, *change.texts, stat=stat)


def _print_lines(context: Context, what: str, old: str, new: str, *, stat: bool) -> None:
    """Print what differs, and the lines that do, or how many."""
    # `ndiff` took 40 seconds for 1,500 lines that are alike.
    patch = unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm="")
    lines = [f"{line[0]} {line[1:]}" for line in islice(patch, 2, None) if line[0] in "-+"]
    gone = sum(line[0] == "-" for line in lines)
    counts = f"  +{len(lines) - gone} -{gone}" if stat else ""
    context.output.line(Styled(f"{what}{counts}", BOLD))
    for line in () if stat else lines:
        context.output.line(Styled(line, RED if line[0] == "-" else GREEN))


def _print_others(context: Context, difference: op.Comparison, by: dict[bytes, Claim]) -> None:
    """Print who else changed the paths that differ: not into a pipe that expects a patch."""
    paths = {change.path for change in difference.changes}
    rendering.others(context.output, {path: by[path] for path in by.keys() & paths})


def _compared(
    context: Context, a: Checkpoint, b: Checkpoint | None, paths: tuple[bytes, ...], *, text: bool
) -> AbstractContextManager[op.Comparison]:
    if b is not None:
        return nullcontext(op.compare(context.store, a.root, b.root, paths))
    return diff_now.compare(context.store, a, context.limits(), paths, text=text)


def _messages(context: Context, a: Checkpoint, b: Checkpoint | None, given: Options) -> bool:
    now = b.conversation if b is not None else _conversation_now(context, a)
    gone, come = op.compare_conversations(context.store, a.conversation, now)
    if given.as_json:
        for kind, messages in (("deleted", gone), ("added", come)):
            for message in messages:
                context.output.document(documents.document("diff", message.to_json(kind)))
    else:
        _print_messages(context, "-", RED, gone)
        _print_messages(context, "+", GREEN, come)
    return bool(gone or come)


def _conversation_now(context: Context, a: Checkpoint) -> Conversation | Capture | None:
    """Return the agent's current conversation if it can be found, else the one saved last."""
    from gitcp.saving.session import choose

    capture = choose(context.store, context.cwd, session=a.id.session).capture
    if capture is not None:
        return capture
    tip = context.store.tip(a.id.session)
    return context.store.read(tip).conversation if tip else None


def _print_messages(
    context: Context, sign: str, colour: Color, messages: Sequence[Message]
) -> None:
    for message in messages:
        who = f"{message.role} ({message.tool})" if message.tool else message.role
        for line in f"{who}: {message.text}".rstrip("\n").split("\n"):
            context.output.line(Styled(f"{sign} {line}", colour))
