"""`gitcp diff`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

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
from gitcp.history.states import StateChange
from gitcp.model import RESERVED, Capture, Checkpoint, Claim, Conversation, FileChange
from gitcp.value import Value
from gitcp.wire import Json
from gitcp.worktree.paths import display

OF_FILES = {"--check", "--shortstat", "--summary"}
"""Options of git with which it prints no changes, but something about those of files."""


class Beside(NamedTuple):
    """What differs beside the files: in no patch, because git has no such file. `texts` are both
    contents, None if they are not compared.
    """

    file: FileChange
    what: str
    texts: tuple[bytes, bytes] | None
    problem: str


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
        stated = tuple(states.compare(context.store, a, b, paths)) if b is not None else ()
        beside = (*_remembered(context, a, b, paths), *map(_stated, stated))
        changes = (*difference.changes, *(each.file for each in beside))
        if given.as_json:
            tables = {each.path: _tables(each) for each in difference.databases()}
            state = {each.as_file.path: each.to_json() for each in stated}
            problems = {each.file.path: each.problem for each in beside}
            for change in changes:
                fields = documents.change(change, by.get(change.path))
                fields["tables"] = tables.get(change.path)
                fields["state"] = state.get(change.path)
                fields["problem"] = problems.get(change.path, "")
                context.output.document(documents.document("diff", fields))
        elif given.name_only:
            for change in changes:
                context.output.line(display(change.path))
        else:
            width = context.output.width
            options = [f"--stat={width}" if width else "--stat"] if given.stat else []
            options += given.options
            rendering.patch(context.output, difference.text(*options))
            _print_beside(context, beside, given)
            if b is not None and (given.stat or context.output.terminal):
                _print_others(context, difference, authors.others(by, b.id.session))
        return bool(changes)


def _tables(database: DatabaseChange) -> list[Json]:
    """Return the tables of a database that differ."""
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


def _remembered(
    context: Context, a: Checkpoint, b: Checkpoint | None, paths: tuple[bytes, ...]
) -> Iterator[Beside]:
    """Yield what differs in agents' memories."""
    if paths and not any(op.is_below(path, (RESERVED,)) for path in paths):
        return
    for change in memory.compare(context.store, a, b):
        file = change.as_file(context.store)
        texts = None if change.problem else (change.old or b"", change.new or b"")
        if op.is_below(file.path, paths):
            what = f"memory {change.agent}/{change.path}"
            yield Beside(file, what, texts, change.problem)


def _stated(change: StateChange) -> Beside:
    """Return how a state outside the files differs."""
    sizes = [humanize.size(each.bytes) for each in (change.old, change.new)]
    what = f"state {change.name}  {' -> '.join(sizes)}"
    return Beside(change.as_file, what, change.texts, change.problem)


def _print_beside(context: Context, changes: Iterable[Beside], given: Options) -> None:
    """Print what is in no patch: in the rows that git was asked for, or its lines."""
    for change in changes:
        if "--name-status" in given.options:
            _print_row(context, change, rendering.SIGNS[change.file.kind])
        elif "--numstat" in given.options:
            counts = _counts(_lines(context, change)) if change.texts else ("-", "-")
            _print_row(context, change, *counts)
        elif not OF_FILES & {*given.options}:
            _print_lines(context, change, stat=given.stat)


def _print_row(context: Context, change: Beside, *cells: str | int) -> None:
    """Print a row as git does, with tabs."""
    row = "\t".join(map(str, (*cells, display(change.file.path))))
    rendering.patch(context.output, f"{row}\n".encode())


def _print_lines(context: Context, change: Beside, *, stat: bool) -> None:
    """Print what differs, and the lines that do, or how many."""
    if change.problem:
        context.output.line(Styled(f"{change.what}: {change.problem}", RED))
        return
    lines = _lines(context, change)
    added, removed = _counts(lines)
    counts = f"  +{added} -{removed}" if stat and change.texts else ""
    context.output.line(Styled(f"{change.what}{counts}", BOLD))
    for line in () if stat else lines:
        text = line.decode("utf-8", "replace")
        context.output.line(Styled(f"{text[0]} {text[1:]}", RED if text[0] == "-" else GREEN))


def _lines(context: Context, change: Beside) -> tuple[bytes, ...]:
    return op.lines(context.store.repo, *change.texts) if change.texts else ()


def _counts(lines: Sequence[bytes]) -> tuple[int, int]:
    """Return how many lines were added, and removed."""
    removed = sum(line.startswith(b"-") for line in lines)
    return len(lines) - removed, removed


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
