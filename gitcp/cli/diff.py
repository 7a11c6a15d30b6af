"""`gitcp diff`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import click

from gitcp.adapters.base import Message
from gitcp.cli import objects, rendering
from gitcp.cli.context import Context
from gitcp.cli.failure import end
from gitcp.cli.options import (
    REVISION,
    WithPaths,
    json_option,
    pass_context,
    paths_given,
    session_option,
)
from gitcp.cli.output import GREEN, RED, Styled
from gitcp.history import diff as op
from gitcp.model import Capture, Checkpoint, Conversation
from gitcp.worktree.paths import display


@click.command(cls=WithPaths)
@click.argument("old", default="@", type=REVISION, metavar="[A]")
@click.argument("new", required=False, type=REVISION, metavar="[B]")
@click.option("--stat", is_flag=True, help="show how much differs in which files")
@click.option("--name-only", is_flag=True, help="show the paths alone")
@click.option("--conversation", is_flag=True, help="show the messages that only one side has")
@click.option("--exit-code", is_flag=True, help="exit with 1 if anything differs")
@session_option
@json_option
@pass_context
def command(
    context: Context, /, old: str, new: str | None, session: str | None, **given: Any
) -> None:
    """Show what differs between a checkpoint and now, or another checkpoint

    From A (the last checkpoint, unless it is said) to B, or to what is in the working tree now.

      gitcp diff
      gitcp diff 12 --stat
      gitcp diff before-migration @ -- src
    """
    if new is None and ".." in old and not old.startswith(":/"):
        old, _, new = old.partition("..")
    a = context.checkpoint(old or "@", session)
    b = context.checkpoint(new or "@", session) if new is not None else None
    shown = _messages if given["conversation"] else _files
    with nullcontext() if given["as_json"] else context.output.paged(context.core_pager):
        differs = shown(context, a, b, given)
    end(1 if differs and given["exit_code"] else 0)


def _files(context: Context, a: Checkpoint, b: Checkpoint | None, given: dict[str, Any]) -> bool:
    paths = context.inside(paths_given())
    with _compared(
        context, a, b, paths, text=not (given["as_json"] or given["name_only"])
    ) as found:
        for change in found.changes if given["as_json"] else ():
            context.output.document(objects.document("diff", objects.change(change)))
        if given["as_json"]:
            return bool(found.changes)
        if given["name_only"]:
            for change in found.changes:
                context.output.line(display(change.path))
        else:
            width = context.output.width
            options = [f"--stat={width}" if width else "--stat"] if given["stat"] else []
            rendering.patch(context.output, found.text(*options))
        return bool(found.changes)


def _compared(
    context: Context, a: Checkpoint, b: Checkpoint | None, paths: tuple[bytes, ...], *, text: bool
) -> AbstractContextManager[op.Comparison]:
    if b is not None:
        return nullcontext(op.compare(context.store, a.root, b.root, paths))
    return op.compare_with_now(context.store, a, context.limits(), paths, text=text)


def _messages(context: Context, a: Checkpoint, b: Checkpoint | None, given: dict[str, Any]) -> bool:
    now = b.conversation if b is not None else _conversation_now(context, a)
    gone, come = op.compare_conversations(context.store, a.conversation, now)
    if given["as_json"]:
        for kind, found in (("deleted", gone), ("added", come)):
            for message in found:
                context.output.document(objects.document("diff", objects.message(kind, message)))
    else:
        _print_messages(context, "-", RED, gone)
        _print_messages(context, "+", GREEN, come)
    return bool(gone or come)


def _conversation_now(context: Context, a: Checkpoint) -> Conversation | Capture | None:
    """The conversation as its agent has it, where that can be found; else the one stored last."""
    from gitcp.saving.session import choose

    capture = choose(context.store, context.cwd, session=a.id.session).capture
    if capture is not None:
        return capture
    tip = context.store.tip(a.id.session)
    return context.store.read(tip).conversation if tip else None


def _print_messages(context: Context, sign: str, colour: str, found: Sequence[Message]) -> None:
    for message in found:
        who = f"{message.role} ({message.tool})" if message.tool else message.role
        for line in f"{who}: {message.text}".rstrip("\n").split("\n"):
            context.output.line(Styled(f"{sign} {line}", colour))
