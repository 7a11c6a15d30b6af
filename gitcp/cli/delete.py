"""`gitcp delete`."""

from __future__ import annotations

from collections.abc import Mapping

import click

from gitcp import documents, humanize
from gitcp.cli import confirm
from gitcp.cli.context import Context
from gitcp.cli.options import (
    SESSION,
    Command,
    dry_run_option,
    json_option,
    session_option,
    yes_option,
)
from gitcp.cli.output import GREEN, Styled
from gitcp.errors import GitcpError, Refused, RevisionNotFound
from gitcp.lifecycle import delete as op
from gitcp.lifecycle import prune
from gitcp.lifecycle.delete import DeletePlan, DeleteReport
from gitcp.model import CheckpointId, Oid
from gitcp.saving import session as session_op
from gitcp.state.oplog import Operation
from gitcp.wire import Json


@click.command(cls=Command)
@click.argument("name", type=SESSION, metavar="SESSION[@N]")
@dry_run_option
@yes_option
@session_option
@json_option
@click.pass_obj
def command(
    context: Context,
    name: str,
    session: str | None,
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete a session, a checkpoint, or old checkpoints

    A session is deleted with its tags; checkpoints that a fork shares stay with the fork. A
    checkpoint is not deleted if it has a tag, is the last of its session, or if a fork, undo or a
    run needs it. Deleted ones stay in the trash for 14 days; `gitcp undo` restores them. Your
    files, the agent's conversation and remotes are not changed.

      gitcp delete e7ba
      gitcp delete e7ba@3 --dry-run
      gitcp delete --old --keep-last 20 --dry-run
      gitcp delete origin/e7ba
    """
    if "@" in name:
        id = _named(context, name, session)
        _delete_one(context, id, dry_run=dry_run, yes=yes, as_json=as_json)
        return
    known = context.store.fetched() if "/" in name else context.store.sessions()
    if whole_name := _checkpoint_named(context, name, known, session):
        raise RevisionNotFound(
            f"{name!r} is no session, but checkpoint {whole_name}: nothing was deleted",
            hint=f"gitcp delete {whole_name}",
        )
    is_local = "/" not in name or any(each.startswith(name) for each in known)
    whole = session_op.expand(context.store, name, known) if is_local else name
    if dry_run:
        plan = op.plan(context.store, whole)
        _show(context, plan, _lines(plan), as_json=as_json)
    else:
        carry_out(context, whole, yes=yes, as_json=as_json)


def _checkpoint_named(
    context: Context, name: str, known: Mapping[str, Oid], session: str | None
) -> str | None:
    """Return the id of the checkpoint that a number, a tag or a label means; None for the name of a
    session, or for nothing.
    """
    if any(each.startswith(name) for each in known) or session_op.of_conversation(
        context.store, name
    ):
        return None
    try:
        return str(context.checkpoint(name, session).id)
    except GitcpError:
        return None


def carry_out(
    context: Context, session: str, *, yes: bool, as_json: bool, of: Operation | None = None
) -> None:
    """Delete a session, asking first unless `yes`. `of` is the operation that this redoes."""
    agreed = None if yes else op.plan(context.store, session, of)
    if agreed is not None:
        no = "not deleted: nothing was changed"
        confirm.ask(context, "Delete?", _lines(agreed), nobody="nothing was deleted", no=no)
    done = op.delete(context.store, session, agreed, of)
    count = humanize.count(len(done.plan.checkpoints), "checkpoint")
    _report(context, done, f" session {session}: {count}", as_json=as_json)


def _named(context: Context, name: str, session: str | None) -> CheckpointId:
    """Return the id of a checkpoint of this repository. Raises RevisionNotFound and Refused."""
    checkpoint = context.to_change(name, session)
    given = name.partition("@")[0]
    # A session that was pushed has the same commits here: `delete hub/alpha@1` dropped alpha@1.
    of_remote = "/" in given and any(each.startswith(given) for each in context.store.fetched())
    if of_remote or context.store.find(checkpoint.id) != checkpoint.commit:
        raise Refused(
            f"{name} was fetched: only its whole session can be deleted; nothing was deleted",
            hint=f"gitcp delete {given}",
        )
    return checkpoint.id


def _delete_one(
    context: Context, id: CheckpointId, *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    ((node, _),) = prune.plan_one(context.store, id).dropped
    plan = DeletePlan(id.session, (id,), (), (), ())
    when = humanize.ago(node.created, context.host.now())
    lines = [f"delete checkpoint {id}  {when}  {node.subject}"]
    if dry_run:
        _show(context, plan, lines, as_json=as_json)
        return
    if not yes:
        no = "not deleted: nothing was changed"
        confirm.ask(context, "Delete?", lines, nobody="nothing was deleted", no=no)
    operation = prune.drop_one(context.store, id).operation
    assert operation is not None
    _report(context, DeleteReport(plan, operation), f" checkpoint {id}", as_json=as_json)


def _show(context: Context, plan: DeletePlan, lines: list[str], *, as_json: bool) -> None:
    if as_json:
        context.output.document(documents.document("delete-plan", _fields(plan, None)))
        return
    for line in lines:
        context.output.line(line)


def _lines(plan: DeletePlan) -> list[str]:
    lines = [
        f"delete session {plan.session}: {humanize.count(len(plan.checkpoints), 'checkpoint')}"
    ]
    lines += [f"  tags to delete: {', '.join(plan.tags)}"] if plan.tags else []
    lines += (
        [f"  {humanize.count(len(plan.shared), 'checkpoint')} shared with a fork would stay"]
        if plan.shared
        else []
    )
    return lines + [f"  {id} is the next target of undo or redo" for id in plan.needed]


def _report(context: Context, done: DeleteReport, what: str, *, as_json: bool) -> None:
    if as_json:
        context.output.document(
            documents.document("delete", _fields(done.plan, done.operation.trash))
        )
        return
    context.output.line(Styled("deleted", GREEN), what)
    context.output.line("undo with: gitcp undo")


def _fields(plan: DeletePlan, trash: str | None) -> Json:
    return {
        "session": plan.session,
        "checkpoints": [str(id) for id in plan.checkpoints],
        "shared": [str(id) for id in plan.shared],
        "tags": list(plan.tags),
        "trash": trash,
    }
