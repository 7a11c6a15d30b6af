"""`gitcp revert`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from typing import Any

import click

from gitcp import documents, humanize
from gitcp.cli import confirm, restore_view
from gitcp.cli.context import Context
from gitcp.cli.failure import IN_PART, end
from gitcp.cli.options import (
    CHANGED_PATHS,
    REVISION,
    Command,
    dry_run_option,
    json_option,
    rare,
    session_option,
    yes_option,
)
from gitcp.cli.output import BOLD, GREEN, RED, YELLOW, Styled
from gitcp.errors import BadValue, Refused
from gitcp.restoring import revert as op
from gitcp.restoring.request import RestoreRequest
from gitcp.restoring.restore import Report
from gitcp.restoring.revert import RevertPlan
from gitcp.value import Value
from gitcp.worktree.paths import display


class Options(Value):
    """What was typed."""

    paths: tuple[bytes, ...]
    revision: str | None
    keep: bool
    markers: bool
    mine: bool
    dry_run: bool
    force: bool
    yes: bool
    session: str | None
    as_json: bool


@click.command(cls=Command, rest=CHANGED_PATHS)
@click.argument("revision", type=REVISION, metavar="REV|A..B")
@click.option("--keep", is_flag=True, help="skip paths in conflict and revert the rest")
@click.option("--markers", is_flag=True, help="write conflict markers into files in conflict")
@click.option("--mine", is_flag=True, help="undo only what this session changed")
@dry_run_option
@rare(click.option("--force", is_flag=True, help="revert even during a merge or rebase"))
@yes_option
@rare(session_option)
@json_option
@click.pass_obj
def command(context: Context, /, **values: Any) -> None:
    """Undo the changes of one checkpoint, keeping later ones

    Undoes what REV changed, or what changed after A up to B, merged line by line; on a conflict
    nothing is changed. Your current state is saved first. The conversation is unchanged.

      gitcp revert 7 --dry-run
      gitcp revert 7
      gitcp revert 7..9 --yes -- src
    """
    given = Options(**values)
    if given.keep and given.markers:
        raise BadValue("--keep and --markers cannot be used together", hint="gitcp revert -h")
    plan = op.plan(context.store, _request(context, given))
    if given.dry_run:
        if given.as_json:
            context.output.document(documents.document("revert-plan", plan.to_json()))
        else:
            _print_plan(context, plan, context.output.line)
        return
    if plan.conflicts and not (given.keep or given.markers):
        _refuse(context, plan, given)
    if plan.files and not given.yes:
        _print_plan(context, plan, context.output.say)
        confirm.ask(
            context, "Revert?", nobody="nothing was changed", no="not reverted: nothing was changed"
        )
    elif not given.as_json:
        restore_view.print_turns(context, plan.turns, context.output.say)
    report = op.revert(context.store, plan)
    if given.as_json:
        context.output.document(documents.document("revert", plan.to_json(report)))
    else:
        _print_report(context, plan, report)
    end(IN_PART if report.failed or plan.conflicts else 0)


def _request(context: Context, given: Options) -> RestoreRequest:
    if given.revision is None:  # the word that was there is a path
        path = os.fsdecode(given.paths[0])
        raise BadValue(
            f"{path} is a path, and REV is required: nothing was changed",
            hint=shlex.join(["gitcp", "log", "--", path]),
        )
    current = context.viewed(given.session)
    within = current if given.session is not None else None
    context.require_here(given.session, given.revision)
    target, before = op.resolve_step(context.store, given.revision, current, within)
    context.say_ends(given.revision, (before.commit, target.commit))
    return RestoreRequest(
        target=target,
        cwd=context.cwd,
        conversation=False,
        paths=context.inside(given.paths, target, before),
        force=given.force,
        limits=context.limits(),
        reverted=before,
        markers=given.markers,
        mine=given.mine,
    )


def _refuse(context: Context, plan: RevertPlan, given: Options) -> None:
    if not given.as_json:
        _print_plan(context, plan, context.output.say)
    paths = ", ".join(display(conflict.path) for conflict in plan.conflicts[:3])
    more = ", …" if len(plan.conflicts) > 3 else ""
    raise Refused(
        f"{plan.request.span} cannot be reverted: later changes to {paths}{more} conflict with it; "
        "nothing was changed. Keep these with --keep, write --markers, or name other paths",
        hint=context.with_option("--keep"),
    )


def _print_plan(context: Context, plan: RevertPlan, line: Callable[..., None]) -> None:
    target, files = plan.request.target, plan.files
    line("revert ", Styled(str(plan.request.span), YELLOW), restore_view.quoted(target))
    if plan.affected:
        line("  changed again by")
        for text in humanize.listed([_said(each) for each in plan.affected], restore_view.MOST):
            line(f"    {text}")
    restore_view.print_conflicts(line, plan.conflicts)
    restore_view.changes(files, line)
    restore_view.kept(line, "kept", files.kept)
    restore_view.print_turns(context, plan.turns, line)
    if not files and not plan.conflicts:
        line("  nothing to revert: the files have no changes of it")


def _said(touched: op.AffectedCheckpoint) -> str:
    paths = ", ".join(humanize.listed([display(path) for path in touched.paths], 3))
    return f"{touched.summary.id}  {touched.summary.subject}: {paths}"


def _print_report(context: Context, plan: RevertPlan, report: Report) -> None:
    output, target = context.output, plan.request.target
    what = Styled(f"{plan.request.span}{restore_view.quoted(target)}", BOLD)
    if report.checkpoint is None:
        output.line("nothing of ", what, " is left to revert: nothing was changed")
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
    restore_view.print_conflicts(output.line, plan.conflicts)
    restore_view.kept(output.line, "kept", report.kept)
    if report.checkpoint is not None:
        output.line("undo with: gitcp undo")
