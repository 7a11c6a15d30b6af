"""`gitcp rollback`."""

from __future__ import annotations

import click

from gitcp.cli import restore_view
from gitcp.cli.context import Context
from gitcp.cli.options import Command, json_option, pass_context, session_option, yes_option
from gitcp.errors import Refused
from gitcp.restoring import restore as op
from gitcp.restoring import rollback
from gitcp.restoring.rollback import Choice


@click.command(cls=Command)
@click.option("--dry-run", "-n", is_flag=True, help="show the plan and change nothing")
@yes_option
@session_option
@json_option
@pass_context
def command(
    context: Context, session: str | None, *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Go back to the state before the last prompt

    Restores the state before the last prompt that changed files. Without an agent's prompts, it
    restores the last checkpoint that differs from the files here. The plan shows which checkpoint
    that is, and older ones. What you have now is saved first: `gitcp undo` restores it. A second
    rollback goes further back.

      gitcp rollback
      gitcp rollback --dry-run
      gitcp rollback --yes
    """
    choice = _choice(context, session)
    request = op.Request(
        context.store.read(choice.point.commit), context.cwd, limits=context.limits()
    )
    if dry_run:
        _print_plan(context, request, choice, as_json=as_json)
        return
    restore_view.carry_out(
        context,
        request,
        lambda agreed: op.restore(context.store, request, agreed),
        lambda: op.plan(context.store, request),
        yes=yes,
        as_json=as_json,
        choice=choice,
    )


def _choice(context: Context, given: str | None) -> Choice:
    session = context.session(given)
    choice = rollback.plan(context.store, session, context.cwd, context.limits())
    if choice is None:
        raise Refused(
            f"no earlier checkpoint of session {session} differs from the files here: nothing was "
            "changed",
            hint="gitcp log --all",
        )
    return choice


def _print_plan(context: Context, request: op.Request, choice: Choice, *, as_json: bool) -> None:
    plan = op.plan(context.store, request)
    if as_json:
        context.output.document(restore_view.plan_document(plan, request, choice))
        return
    restore_view.print_plan(context, plan, request, context.output.line)
    restore_view.explain(context, choice, context.output.line)
