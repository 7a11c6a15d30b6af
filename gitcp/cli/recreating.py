"""`gitcp restore --worktree DIR` and `gitcp resume --worktree DIR`: a worktree is created anew."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from gitcp import wire
from gitcp.cli import restore_view
from gitcp.cli.context import Context
from gitcp.cli.output import BOLD, Styled
from gitcp.errors import BadValue
from gitcp.restoring import recreate as op
from gitcp.restoring.recreate import Recreated, WorktreePlan
from gitcp.restoring.restore import RestoreRequest


def planned(
    context: Context, request: RestoreRequest, directory: str, branch: str | None
) -> WorktreePlan:
    """Return the plan for a worktree in `directory`, as it was typed."""
    if not directory:
        raise BadValue("--worktree is empty: nothing was changed", hint="gitcp restore -h")
    return op.plan(context.store, request, Path(os.path.join(context.cwd, directory)), branch)


def print_plan(context: Context, plan: WorktreePlan, *, as_json: bool) -> None:
    """Print what would be created."""
    if as_json:
        _document(context, plan, None)
        return
    context.output.line(f"restore {plan.target.id}{restore_view.quoted(plan.target)}")
    _describe(context, plan)


def print_done(context: Context, done: Recreated, typed: str, *, as_json: bool) -> None:
    """Print what was created, how to undo that, and how the agent continues."""
    if as_json:
        _document(context, done.plan, done)
        return
    restore_view.print_done(context, done.report)
    _describe(context, done.plan)
    restore_view.kept(context.output.line, "kept", done.report.kept)
    remove = shlex.join(["gitcp", "fork", "--remove", typed])
    context.output.line("undo with: ", remove)
    if done.report.placed is not None:
        restore_view.print_resume(context, done.report.placed, typed)
    else:
        context.output.line("continue with: ", Styled(f"cd {shlex.quote(typed)}", BOLD))


def _describe(context: Context, plan: WorktreePlan) -> None:
    where = "a detached HEAD" if plan.branch is None else f"branch {plan.branch}"
    created = " (new)" if plan.branch is not None and plan.new else ""
    path = os.path.relpath(plan.directory, context.cwd)
    context.output.line(f"  worktree {path}, on {where}{created}, at {plan.base[:10]}")
    if plan.why:
        context.output.line(f"  {plan.why}")


def _document(context: Context, plan: WorktreePlan, done: Recreated | None) -> None:
    from gitcp import documents  # only for programs

    report = done.report if done else None
    fields: wire.Json = {
        "path": documents.path(plan.directory),
        "session": plan.session,
        "base": plan.base,
        "branch": plan.branch,
        "branch_created": plan.new and plan.branch is not None,
        "why": plan.why or None,
        "report": report.to_json() if report else None,
    }
    context.output.document(documents.document("restore-worktree", fields))
