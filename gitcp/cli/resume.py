"""`gitcp resume`."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING, Any, NoReturn

import click

from gitcp import documents, wire
from gitcp.adapters import CONVERTIBLE
from gitcp.cli import restore_view
from gitcp.cli.agent_names import OneRecorded
from gitcp.cli.context import Context
from gitcp.cli.options import (
    REVISION,
    Command,
    json_option,
    session_option,
    trust_option,
    yes_option,
)
from gitcp.errors import BadValue, GitcpError
from gitcp.restoring import recreate, resume, trust
from gitcp.restoring import restore as op
from gitcp.restoring.placing import Placed
from gitcp.restoring.restore import RestorePlan, RestoreRequest
from gitcp.value import Value, replace

if TYPE_CHECKING:
    from gitcp.restoring.converting import Handover


class Options(Value):
    """What was typed."""

    revision: str | None
    agent: str | None
    worktree: str | None
    only_print: bool
    yes: bool
    trust: bool
    session: str | None
    as_json: bool


@click.command(cls=Command)
@click.argument("revision", type=REVISION, required=False, metavar="[REV]")
@click.option(
    "--with",
    "agent",
    type=OneRecorded(CONVERTIBLE),
    metavar="AGENT",
    help="convert the conversation for another agent",
)
@click.option(
    "--worktree", metavar="DIR", help="create a git worktree in DIR if the session's is gone"
)
@click.option("--print", "only_print", is_flag=True, help="print the command and change nothing")
@yes_option
@trust_option
@session_option
@json_option
@click.pass_obj
def command(context: Context, /, **values: Any) -> None:
    """Resume the agent from a checkpoint

    Without REV, continues the session: files are unchanged, and the conversation is restored only
    if it is missing. With REV, restores both first, after asking. --with continues in another
    agent, in a new session, and lists what could not be converted.

      gitcp resume
      gitcp resume 12
      gitcp resume --with codex
    """
    given = Options(**values)
    if given.worktree is None:
        _resume(context, given)
    else:
        _resume_in_worktree(context, given, given.worktree)


def _resume(context: Context, given: Options) -> None:
    request = _request(context, given)
    if not given.only_print:
        trust.require(context.store, request.target, trusted=given.trust)
    if given.agent:
        _run_with(context, replace(request, conversation=False), given, given.agent)
        return
    plan = op.plan(context.store, request)
    placed = resume.continuing(context.store, plan.placed, request.target)
    if given.only_print:
        here = (
            None
            if given.revision
            else resume.ongoing(context.store, request.target, placed, context.cwd)
        )
        _print(context, request, here or placed, given, needed=bool(plan) and here is None)
        return
    if not given.as_json:
        _require_programs(context, placed)
    if plan:
        _agree(context, request, plan, given)
        report = op.restore(context.store, request, plan)
        if not given.as_json:
            restore_view.print_report(context, report, plan.effects, back="undo")
        if report.failed or report.placed is None:
            context.output.say("the agent was not started: not everything was restored")
            restore_view.end_as(report)
        placed = resume.continuing(context.store, report.placed, request.target)
    if given.as_json:
        _print(context, request, placed, given, needed=False)
    else:
        _start(context, placed)


def _agree(context: Context, request: RestoreRequest, plan: RestorePlan, given: Options) -> None:
    """Show the plan and ask, unless `--yes`: then name the agents in mid-turn. Raises Refused if
    nobody agreed.
    """
    if not given.yes:
        restore_view.agree(context, request, plan)
    elif not given.as_json:
        restore_view.print_turns(context, plan.turns, context.output.say)


def _resume_in_worktree(context: Context, given: Options, directory: str) -> None:
    """Create the session's worktree anew, and start its agent there."""
    from gitcp.cli import recreating  # rarely needed

    target = context.checkpoint(given.revision or "@", given.session)
    if given.only_print or given.agent:
        other = "--print" if given.only_print else "--with"
        raise BadValue(f"{other} and --worktree cannot be used together", hint="gitcp resume -h")
    request = RestoreRequest(target, context.cwd, limits=context.limits(), trust=given.trust)
    plan = recreating.planned(context, request, directory, None)
    if not given.as_json:
        _require_programs(context, resume.planned_in(context.store, target, plan.directory))
    done = recreate.recreate(context.store, request, plan)
    if given.as_json:
        recreating.print_done(context, done, directory, as_json=True)
        restore_view.end_as(done.report)
        return
    recreating.print_done(context, done, directory, as_json=False)
    if done.report.failed:
        context.output.say("the agent was not started: not everything was restored")
        restore_view.end_as(done.report)
    _start(context, resume.continuing(context.store, done.report.placed, target))


def _request(context: Context, given: Options) -> RestoreRequest:
    store, limits = context.store, context.limits()
    if given.revision is not None:
        target = context.to_change(given.revision, given.session)
        return replace(resume.request(store, target, context.cwd, limits), trust=given.trust)
    last = context.checkpoint("@", given.session)
    resume.check_worktree(store, last)
    context.require_here(given.session)
    if given.only_print:
        return replace(resume.request(store, last, context.cwd, limits), files=False)
    return resume.request_here(store, last, context.cwd, limits)


def _print(
    context: Context,
    request: RestoreRequest,
    placed: Placed,
    given: Options,
    *,
    needed: bool,
) -> None:
    """The command; with what comes before it, if something must be restored."""
    if given.as_json:
        context.output.document(_document(request, placed, needed=needed))
    elif needed:
        context.output.say("gitcp must restore the conversation first; the command may differ")
        context.output.line(_again(context, request, given))
    else:
        context.output.line(restore_view.continuation(context, placed))


def _again(context: Context, request: RestoreRequest, given: Options) -> str:
    """Return the command that resumes what was asked for."""
    if given.revision is None:
        return shlex.join(["gitcp", "resume", "--session", request.target.id.session])
    return trust.command("resume", context.store, request.target)


def _document(
    request: RestoreRequest, placed: Placed, *, needed: bool, converted: wire.Json | None = None
) -> wire.Json:
    """Return what `--json` prints."""
    fields: wire.Json = {
        "checkpoint": str(request.target.id),
        "restore": needed,
        "directory": documents.path(placed.directory),
        "resume": placed.to_json(),
        "converted": converted,
    }
    return documents.document("resume", fields)


def _require_programs(context: Context, placed: Placed) -> None:
    """Raise GitcpError if a command that resumes the agent is not on PATH."""
    for program, *_ in (*placed.prepare, placed.command):
        if shutil.which(program, path=context.host.env.get("PATH")) is None:
            raise GitcpError(
                f"{program} is not on PATH: nothing was restored and no agent was started",
                hint=context.with_option("--print"),
            )


def _start(context: Context, placed: Placed) -> NoReturn:
    """Become the agent, in the directory in which its session ran. What must be done before it is
    done first.
    """
    try:
        placed.directory.mkdir(parents=True, exist_ok=True)
        os.chdir(placed.directory)
    except OSError as error:
        cannot = f"{placed.directory} cannot be entered ({error.strerror})"
        raise GitcpError(
            f"{cannot}: the agent was not started", hint=shlex.join(placed.command)
        ) from None
    env = dict(context.host.env)
    for each in placed.prepare:
        code = subprocess.run(each, env=env, check=False).returncode
        if code:
            ended = f"`{shlex.join(each)}` exited with {code}"
            raise GitcpError(f"{ended}: the agent was not started", hint=shlex.join(placed.command))
    context.output.say("starting: ", shlex.join(placed.command))
    try:
        os.execvpe(placed.command[0], placed.command, env)  # noqa: S606 -- a list, and no shell
    except OSError as error:
        raise GitcpError(f"{placed.command[0]} cannot be started: {error.strerror}") from None


# ---------------------------------------------------------------- with another agent


def _run_with(context: Context, request: RestoreRequest, given: Options, agent: str) -> None:
    """Restore the files that are requested, convert the conversation, and start the other agent."""
    from gitcp.cli import conversion_view  # rarely used
    from gitcp.restoring import converting

    handover = converting.plan(context.store, request.target, agent, request.cwd)
    plan = op.plan(context.store, request)
    if given.only_print:
        _print_with(context, request, handover, given, needed=bool(plan) or handover.placed.changes)
        return
    if not given.as_json:
        _require_programs(context, handover.placed)
        conversion_view.say_omitted(context, handover.converted)
    if plan:
        _agree(context, request, plan, given)
        report = op.restore(context.store, request, plan)
        if not given.as_json:
            restore_view.print_report(context, report, plan.effects, back="undo")
        if report.failed:
            context.output.say("the agent was not started: not everything was restored")
            restore_view.end_as(report)
    converting.write(context.store, handover)
    if given.as_json:
        _print_with(context, request, handover, given, needed=False)
    else:
        _start(context, handover.placed)


def _print_with(
    context: Context,
    request: RestoreRequest,
    handover: Handover,
    given: Options,
    *,
    needed: bool,
) -> None:
    """Print the command; if something must be written first, the one that does both."""
    from gitcp.cli import conversion_view

    if given.as_json:
        converted = handover.converted.to_json()
        placed = handover.placed
        context.output.document(_document(request, placed, needed=needed, converted=converted))
        return
    conversion_view.say_omitted(context, handover.converted)
    if not needed:
        context.output.line(restore_view.continuation(context, handover.placed))
        return
    context.output.line(f"{_again(context, request, given)} --with {handover.placed.agent}")
