"""`gitcp revert`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from gitcp.cli import confirm, humanize, objects, restore_view
from gitcp.cli.context import Context
from gitcp.cli.failure import IN_PART, end
from gitcp.cli.options import (
    REVISION,
    WithPaths,
    json_option,
    pass_context,
    paths_given,
    session_option,
    yes_option,
)
from gitcp.cli.output import BOLD, GREEN, RED, YELLOW, Styled
from gitcp.errors import Refused
from gitcp.restoring import revert as op
from gitcp.restoring.request import Request
from gitcp.restoring.restore import Report
from gitcp.restoring.revert import Plan
from gitcp.worktree.paths import display


@click.command(cls=WithPaths)
@click.argument("revision", type=REVISION, metavar="REV|A..B")
@click.option(
    "--keep", is_flag=True, help="leave what is in conflict as it is, and take back the rest"
)
@click.option(
    "--markers", is_flag=True, help="write conflict markers where the same lines were changed since"
)
@click.option("--dry-run", "-n", is_flag=True, help="show the plan and change nothing")
@click.option("--force", is_flag=True, help="go on during a merge or rebase")
@yes_option
@session_option
@json_option
@pass_context
def command(context: Context, /, **given: Any) -> None:
    """Take back what one step changed, and keep everything later

    What REV changed against the checkpoint before it, or what was changed after A up to B. Files
    that were changed since are merged line by line; where that cannot be, nothing is done at all.
    What you have now is saved first. The conversation goes on as it is.

      gitcp revert 7 --dry-run
      gitcp revert 7
      gitcp revert 7..9 --yes -- src
    """
    if given["keep"] and given["markers"]:
        raise click.UsageError("--keep and --markers are two ways to meet a conflict: give one")
    plan = op.plan(context.store, _request(context, given))
    if given["dry_run"]:
        if given["as_json"]:
            context.output.document(objects.document("revert-plan", objects.revert_plan(plan)))
        else:
            _print_plan(plan, context.output.line)
        return
    if plan.conflicts and not (given["keep"] or given["markers"]):
        _refuse(context, plan, given)
    if plan.files and not given["yes"]:
        _print_plan(plan, context.output.say)
        confirm.ask(
            context, "Revert?", nobody="nothing was changed", no="not reverted: nothing was changed"
        )
    report = op.revert(context.store, plan)
    if given["as_json"]:
        context.output.document(objects.document("revert", objects.revert(plan, report)))
    else:
        _print_report(context, plan, report)
    end(IN_PART if report.failed or plan.conflicts else 0)


def _request(context: Context, given: dict[str, Any]) -> Request:
    target, before = op.meant(context.store, given["revision"], context.current(given["session"]))
    return Request(
        target=target,
        cwd=context.cwd,
        conversation=False,
        paths=context.inside(paths_given()),
        force=given["force"],
        limits=context.limits(),
        reverted=before,
        markers=given["markers"],
    )


def _refuse(context: Context, plan: Plan, given: dict[str, Any]) -> None:
    if not given["as_json"]:
        _print_plan(plan, context.output.say)
    paths = ", ".join(display(conflict.path) for conflict in plan.conflicts[:3])
    more = ", …" if len(plan.conflicts) > 3 else ""
    raise Refused(
        f"{plan.request.span} cannot be taken back: {paths}{more} changed since in a way that "
        "cannot be both. "
        "Nothing was changed",
        hint=f"{context.with_option('--keep')}  (or --markers, or only some paths: -- PATH)",
    )


def _print_plan(plan: Plan, line: Callable[..., None]) -> None:
    target, files = plan.request.target, plan.files
    line("take back ", Styled(str(plan.request.span), YELLOW), restore_view.quoted(target))
    if plan.affected:
        line("  changed again since by")
        for text in humanize.listed([_said(each) for each in plan.affected], restore_view.MOST):
            line(f"    {text}")
    _conflicts(plan, line)
    restore_view.changes(files, line)
    restore_view.kept(line, "left alone", files.kept)
    if not files and not plan.conflicts:
        line("  nothing: what it changed is not there any more")


def _said(touched: op.Touched) -> str:
    paths = ", ".join(humanize.listed([display(path) for path in touched.paths], 3))
    return f"{touched.summary.id}  {touched.summary.subject}: {paths}"


def _conflicts(plan: Plan, line: Callable[..., None]) -> None:
    if plan.conflicts:
        line(Styled(f"  {humanize.count(len(plan.conflicts), 'conflict')}", RED))
        for text in humanize.listed(
            [f"{display(c.path)}  ({c.why})" for c in plan.conflicts], restore_view.MOST
        ):
            line(f"    {text}")


def _print_report(context: Context, plan: Plan, report: Report) -> None:
    output, target = context.output, plan.request.target
    what = Styled(f"{plan.request.span}{restore_view.quoted(target)}", BOLD)
    if report.checkpoint is None:
        output.line("nothing of ", what, " is there to take back: nothing was changed")
    else:
        in_part = report.failed or plan.conflicts
        output.line(
            Styled("reverted in part", RED) if in_part else Styled("reverted", GREEN), " ", what
        )
    restore_view.group(
        output.line, humanize.count(len(report.written), "file") + " written", report.written
    )
    restore_view.group(
        output.line, humanize.count(len(report.removed), "file") + " removed", report.removed
    )
    _conflicts(plan, output.line)
    restore_view.kept(output.line, "left alone", report.kept)
    if report.checkpoint is not None:
        output.line("undo with: gitcp undo")
