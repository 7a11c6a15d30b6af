"""Shared by enable and disable: the agents, the plan, the confirmation, the report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from gitcp import documents, humanize
from gitcp.adapters import described
from gitcp.agents import KNOWN, KnownAgent, called
from gitcp.automation.install import command, scripts
from gitcp.automation.install.plan import (
    InstallChange,
    InstallPlan,
    InstallReport,
    Left,
    Scope,
    apply,
)
from gitcp.automation.install.targets import GIT, NAMES, detected, named
from gitcp.cli import confirm
from gitcp.cli.context import Context
from gitcp.cli.failure import IN_PART, end
from gitcp.cli.options import OneOf, dry_run_option, json_option, together, yes_option
from gitcp.cli.output import BOLD, CYAN, GREEN, PLAIN, RED, YELLOW, Part, Styled
from gitcp.errors import BadValue, DiskFull, GitcpError
from gitcp.value import Value
from gitcp.wire import Json

COLOURS = {"+": GREEN, "-": RED, "@": CYAN}


class InstallName(OneOf):
    """An agent to enable or disable, by any of its names."""

    def read(self, text: str) -> str:
        if text == "all":
            raise ValueError("without an agent, it is done for every installed one")
        known = called(text)
        if known is None and text in described.paths():
            raise ValueError(
                f"{text} has no hooks to install: gitcp save and gitcp watch save its conversations"
            )
        return super().read(known.command if known else text)


options = together(
    click.argument(
        "agents", type=InstallName(NAMES), nargs=-1, required=False, metavar="[AGENT]..."
    ),
    click.option("--user", is_flag=True, help="for all your projects, not only this one"),
    dry_run_option,
    yes_option,
    json_option,
)
"""The argument and the options of enable and disable."""


class Options(Value):
    """What was typed after enable or disable."""

    agents: tuple[str, ...]
    user: bool
    dry_run: bool
    yes: bool
    as_json: bool


def meant(
    context: Context, agents: tuple[str, ...], *, user: bool, all_known: bool = False
) -> tuple[tuple[KnownAgent, ...], Scope]:
    """Return the agents and the scope. Raises BadValue if no agent is installed."""
    scope = (
        Scope(None, user=True)
        if user
        else Scope(context.store.repo.root, user, scripts.directory(context.store.repo))
    )
    if agents:
        return tuple(map(named, dict.fromkeys(agents))), scope
    if all_known:
        return tuple(target for target in (*KNOWN, GIT) if target.home or not user), scope
    here = detected(context.host)
    if not here:
        raise BadValue(
            "no agent with hooks is installed: nothing was changed",
            hint="gitcp enable -h",
        )
    return here, scope


def require_program(context: Context) -> None:
    """Raise BadValue if agents could not run gitcp: its hooks would do nothing, silently."""
    if command.on_path(context.host) is None:
        raise BadValue(
            "gitcp is not on your PATH, so no agent could run it: nothing was changed",
            hint=command.fix(),
        )


def carry_out(context: Context, plan: InstallPlan, given: Options, *, verb: str) -> None:
    """Show the plan, ask, apply and report. Ends the command if only part of it was done. Raises
    Refused without consent, DiskFull or GitcpError if nothing could be done.
    """
    as_json, changes = given.as_json, plan.changes
    report = None
    if not given.dry_run:
        if changes and not given.yes:
            print_plan(context, plan, context.output.say)
            no = f"not {verb}d: nothing was changed"
            confirm.ask(context, f"{verb.capitalize()}?", nobody="nothing was changed", no=no)
        report = apply(plan)
    if as_json:
        context.output.document(documents.document("enable", _fields(plan, report)))
    elif not plan.steps:
        context.output.line("gitcp is not set up here")
    elif report is None:
        print_plan(context, plan, context.output.line)
    else:
        listed = f"{verb}d" if not given.yes and context.output.terminal else ""
        _print_report(context, plan, report, listed=listed)
    if report is not None and report.left:
        if not report.done:
            raise _nothing_done(context, report.left)
        end(IN_PART)


def _nothing_done(context: Context, left: tuple[Left, ...]) -> GitcpError:
    reasons = tuple(f"{_shown(context, each.path)}: {each.why}" for each in left)
    if any(each.full for each in left):
        return DiskFull("the disk is full: nothing was changed", reasons, hint="free some space")
    return GitcpError(
        f"{humanize.count(len(left), 'file')} cannot be changed: nothing was changed", reasons
    )


def print_plan(context: Context, plan: InstallPlan, line: Callable[..., None]) -> None:
    """Print the plan: changed lines of the user's files, and the names of gitcp's own files."""
    for step in plan.steps:
        line(
            Styled(step.target.title, BOLD),
            *([] if step.changes or step.left else [": nothing to do"]),
        )
        for change in step.changes:
            line("  ", Styled(f"{change.kind:8}", YELLOW), " ", *_where(context, change))
            if change.kind == "changed":
                for text in _difference(change):
                    line("    ", Styled(text, COLOURS.get(text[:1], PLAIN)))
        _print_left(context, step.left, line)
        for note in step.notes:
            line("  note: ", note)


def _print_report(
    context: Context, plan: InstallPlan, report: InstallReport, *, listed: str
) -> None:
    """Print what was done: one word, `listed`, where the plan just above names it all."""
    line = context.output.line
    if listed and report.done and not report.left:
        line(Styled(listed, GREEN), ": restart running sessions to apply this")
        return
    for step in plan.steps:
        done = [change for change in step.changes if change in report.done]
        left = [
            left
            for left in report.left
            if any(left.path == c.path for c in step.changes) or left in step.left
        ]
        line(Styled(step.target.title, BOLD), *([] if done or left else [": nothing to do"]))
        for change in done:
            line("  ", Styled(f"{change.kind:8}", GREEN), " ", *_where(context, change))
        _print_left(context, tuple(left), line)
        for note in step.notes:
            line("  note: ", note)
    if report.done:
        line("restart running sessions to apply this")


def _print_left(context: Context, left: tuple[Left, ...], line: Callable[..., None]) -> None:
    for each in left:
        line("  ", Styled(f"{'left':8}", RED), " ", _shown(context, each.path), f": {each.why}")


def _where(context: Context, change: InstallChange) -> Iterator[Part]:
    yield _shown(context, change.path)
    if change.seen.target != Path(os.path.realpath(change.path.parent), change.path.name):
        yield f"  (a link to {change.seen.target})"


def _shown(context: Context, path: Path) -> str:
    """Return a path relative to the current directory or to the home directory, if inside."""
    home = context.host.home
    if path.is_relative_to(context.cwd):
        return str(path.relative_to(context.cwd))
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def _difference(change: InstallChange) -> Iterator[str]:
    from difflib import unified_diff  # only for a plan that is shown

    old, new = (
        (data or b"").decode("utf-8", "replace").splitlines()
        for data in (change.seen.data, change.after)
    )
    lines = unified_diff(old, new, n=1, lineterm="")
    return (line for number, line in enumerate(lines) if number > 1)


def _fields(plan: InstallPlan, report: InstallReport | None) -> Json:
    left = plan.left if report is None else report.left
    return {
        "scope": "user" if plan.scope.user else "project",
        "applied": report is not None,
        "agents": [
            {
                "agent": step.target.command,
                "changes": [
                    {"path": str(change.path), "kind": change.kind}
                    for change in step.changes
                    if report is None or change in report.done
                ],
                "left": [
                    {"path": str(each.path), "reason": each.why}
                    for each in left
                    if each in step.left or any(each.path == change.path for change in step.changes)
                ],
                "notes": list(step.notes),
            }
            for step in plan.steps
        ],
    }
