"""`gitcp rollback`."""

from __future__ import annotations

import click

from gitcp.cli import restore_view
from gitcp.cli.context import Context
from gitcp.cli.options import (
    Command,
    dry_run_option,
    json_option,
    mine_option,
    session_option,
    whole_tree_option,
    yes_option,
)
from gitcp.restoring import restore as op
from gitcp.restoring import rollback
from gitcp.restoring.planned import RollbackChoice


@click.command(cls=Command)
@dry_run_option
@mine_option
@whole_tree_option
@yes_option
@session_option
@json_option
@click.pass_obj
def command(
    context: Context,
    session: str | None,
    *,
    dry_run: bool,
    mine: bool,
    whole_tree: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Restore the state before the last prompt

    The last prompt that changed files. Without prompts, restores the last checkpoint that differs
    from your files. Your current state is saved first; `gitcp undo` restores it. A second rollback
    goes further back.

      gitcp rollback
      gitcp rollback --dry-run
      gitcp rollback --yes
    """
    name = context.session(session)
    context.require_here(session)
    choice = rollback.required(context.store, name, context.cwd, context.limits(), mine=mine)
    request = op.RestoreRequest(
        context.store.read(choice.point.commit),
        context.cwd,
        limits=context.limits(),
        mine=mine,
        whole_tree=whole_tree,
    )
    if dry_run:
        _print_plan(context, request, choice, as_json=as_json)
        return
    restore_view.carry_out(
        context,
        request,
        lambda decided, agreed: op.restore(context.store, decided, agreed),
        lambda decided: op.plan(context.store, decided),
        yes=yes,
        as_json=as_json,
        choice=choice,
    )


def _print_plan(
    context: Context, request: op.RestoreRequest, choice: RollbackChoice, *, as_json: bool
) -> None:
    plan = op.plan(context.store, request)
    if as_json:
        context.output.document(restore_view.plan_document(plan, choice))
        return
    restore_view.print_plan(context, plan, request, context.output.line)
    restore_view.explain(context, choice, context.output.line)
