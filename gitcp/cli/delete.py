"""`gitcp delete`."""

from __future__ import annotations

import click

from gitcp.cli import confirm, humanize, objects
from gitcp.cli.context import Context
from gitcp.cli.options import WORDS, Command, json_option, pass_context, session_option, yes_option
from gitcp.cli.output import GREEN, Styled
from gitcp.lifecycle import delete as op
from gitcp.lifecycle.delete import Plan, Report
from gitcp.saving import session as session_op
from gitcp.state.oplog import Operation
from gitcp.wire import Json


@click.command(cls=Command)
@click.argument("name", type=WORDS, metavar="SESSION")
@click.option("--dry-run", "-n", is_flag=True, help="show what would go and change nothing")
@yes_option
@session_option
@json_option
@pass_context
def command(
    context: Context,
    name: str,
    session: str | None,  # noqa: ARG001 -- it is on every command
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Drop a whole session

    With its checkpoints and the tags on them. What another session was forked from stays with that
    one. It is in the trash for 14 days: `gitcp undo` brings it back. Your files and the agent's
    conversation are not touched, nor is what a remote has.

      gitcp delete e7ba
      gitcp delete e7ba --dry-run
      gitcp delete origin/e7ba
    """
    known = op.fetched(context.store) if "/" in name else context.store.sessions()
    found = "/" not in name or any(each.startswith(name) for each in known)
    whole = session_op.expand(known, name) if found else name
    if dry_run:
        _show(context, op.plan(context.store, whole), as_json=as_json)
    else:
        carry_out(context, whole, yes=yes, as_json=as_json)


def carry_out(
    context: Context, session: str, *, yes: bool, as_json: bool, of: Operation | None = None
) -> None:
    """Delete a session, after asking. `of`: the operation that this redoes."""
    agreed = None if yes else op.plan(context.store, session)
    if agreed is not None:
        no = "not deleted: nothing was changed"
        confirm.ask(context, "Delete?", _lines(agreed), nobody="nothing was deleted", no=no)
    _report(context, op.delete(context.store, session, agreed, of), as_json=as_json)


def _show(context: Context, plan: Plan, *, as_json: bool) -> None:
    if as_json:
        context.output.document(objects.document("delete-plan", _fields(plan, None)))
        return
    for line in _lines(plan):
        context.output.line(line)


def _lines(plan: Plan) -> list[str]:
    lines = [
        f"delete session {plan.session}: {humanize.count(len(plan.checkpoints), 'checkpoint')}"
    ]
    lines += [f"  tags that go with it: {', '.join(plan.tags)}"] if plan.tags else []
    lines += (
        [f"  {humanize.count(len(plan.shared), 'checkpoint')} that a fork begins with would stay"]
        if plan.shared
        else []
    )
    return lines + [f"  {id} is what undo or redo go to next" for id in plan.needed]


def _report(context: Context, done: Report, *, as_json: bool) -> None:
    if as_json:
        context.output.document(
            objects.document("delete", _fields(done.plan, done.operation.trash))
        )
        return
    count = humanize.count(len(done.plan.checkpoints), "checkpoint")
    context.output.line(Styled("deleted", GREEN), f" session {done.plan.session}: {count}")
    context.output.line("undo with: gitcp undo")


def _fields(plan: Plan, trash: str | None) -> Json:
    """A deletion for programs."""
    return {
        "session": plan.session,
        "checkpoints": [str(id) for id in plan.checkpoints],
        "shared": [str(id) for id in plan.shared],
        "tags": list(plan.tags),
        "trash": trash,
    }
