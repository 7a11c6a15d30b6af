"""What restore, rollback, undo and redo share: the plan is shown, a person agrees, the report
follows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gitcp.cli import confirm, humanize, rendering
from gitcp.cli.context import Context
from gitcp.cli.failure import IN_PART, end
from gitcp.cli.output import BOLD, GREEN, RED, YELLOW, Styled
from gitcp.model import Agent, Checkpoint, CheckpointId, Conversation
from gitcp.restoring import restore
from gitcp.restoring.plan import FilePlan, Kept
from gitcp.restoring.restore import Plan, Report, Request
from gitcp.state import effects, journal
from gitcp.state.journal import Restores
from gitcp.wire import Json
from gitcp.worktree.paths import display

if TYPE_CHECKING:
    from gitcp.restoring.placing import Placed
    from gitcp.restoring.rollback import Choice
    from gitcp.store import Store

MOST = 20

Apply = Callable[[Plan | None], Report]


def carry_out(
    context: Context,
    request: Request,
    apply: Apply,
    plan: Callable[[], Plan],
    *,
    yes: bool,
    as_json: bool,
    back: str = "undo",
    choice: Choice | None = None,
) -> None:
    """Show the plan and ask, unless `yes`; apply; report. Raises Refused if nobody agreed. Ends the
    command.

    `choice` says why a rollback restores this checkpoint.
    """
    agreed = None
    if not yes:
        agreed = plan()
        if agreed or request.index:
            agree(context, request, agreed, choice)
    found = (
        effects.open_commands(context.store, request.target) if agreed is None else agreed.effects
    )
    report = apply(agreed)
    if as_json:
        from gitcp.cli import objects  # only for programs

        fields = objects.report(report, request.stored[0], found, saved_first=True, choice=choice)
        context.output.document(objects.document("restore", fields))
    else:
        print_report(context, report, found, back=back)
        if choice is not None:
            explain(context, choice, context.output.line)
    end_as(report)


def walk(
    context: Context,
    step: Callable[[Store, Callable[[CheckpointId], Request]], Report],
    stack: Callable[[Restores], tuple[CheckpointId, ...]],
    *,
    yes: bool,
    as_json: bool,
    back: str,
) -> None:
    """`undo` or `redo`: a restore of the checkpoint on top of a stack."""
    store = context.store

    def request_for(id: CheckpointId) -> Request:
        return Request(context.numbered(id), context.cwd, limits=context.limits())

    top = stack(journal.restores(store.repo))
    if not top:
        step(store, request_for)  # refuses, and says what there is none of
        return
    request = restore.stepping(store, request_for(top[-1]))
    carry_out(
        context,
        request,
        lambda _: step(store, request_for),
        lambda: restore.plan(store, request),
        yes=yes,
        as_json=as_json,
        back=back,
    )


def end_as(report: Report) -> None:
    """End the command with the exit code that the report deserves."""
    end(IN_PART if report.failed else 0)


def agree(context: Context, request: Request, plan: Plan, choice: Choice | None = None) -> None:
    """Show the plan and ask. Raises Refused if nobody agreed."""
    print_plan(context, plan, request, context.output.say)
    if choice is not None:
        explain(context, choice, context.output.say)
    confirm.ask(
        context, "Restore?", nobody="nothing was changed", no="not restored: nothing was changed"
    )


def print_plan(context: Context, plan: Plan, request: Request, line: Callable[..., None]) -> None:
    """What would be done, to stdout or, when somebody is to be asked, to stderr."""
    line(
        "restore ",
        Styled(str(plan.target.id), YELLOW),
        quoted(plan.target),
        f"  ({_when(context, plan.target)})",
    )
    changes(plan.files, line)
    kept(line, "left alone", plan.files.kept)
    if request.index:
        line("  the index would be set to what was staged then")
    if plan.placed is not None:
        _print_conversation_plan(plan, plan.placed, request.stored, line)
    for command in plan.effects:
        line(Styled("  not undone: ", BOLD), command)
    if not plan and not request.index:
        line("  nothing: " + _as_it_was(plan.files.kept, "then"))


def explain(context: Context, choice: Choice, line: Callable[..., None]) -> None:
    """Why a rollback restores this checkpoint, and which older ones could be meant."""
    line(f"  {choice.point.id} is {choice.why}")
    if choice.others:
        line("  to go further back: gitcp restore REV")
    for point in choice.others:
        line(
            "    ",
            Styled(str(point.id), YELLOW),
            f"  {point.subject}  ({humanize.ago(point.created, context.host.now())})",
        )


def changes(files: FilePlan, line: Callable[..., None]) -> None:
    """What would be done to files and directories."""
    removed = [step.path for step in (*files.clear, *files.remove)]
    group(
        line,
        humanize.count(len(files.write), "file") + " would be written",
        [s.path for s in files.write],
    )
    group(line, humanize.count(len(removed), "file") + " would be removed", removed)
    group(line, "permissions would be set", [path for path, _ in files.permissions])
    group(line, "directories would be made", files.make_directories)
    group(line, "directories would be removed, if empty", files.remove_directories)


def _print_conversation_plan(
    plan: Plan,
    placed: Placed,
    stored: tuple[Conversation | None, Agent | None],
    line: Callable[..., None],
) -> None:
    if not placed.changes:
        line("  the conversation stays as the agent has it")
        return
    brought, agent = stored
    messages = brought.digest.messages if brought else 0
    now = int(plan.later[0].trailers.get("Gitcp-Messages", "0")) if plan.later else messages
    past = f", past {humanize.count(len(plan.later), 'later checkpoint')}" if plan.later else ""
    saved = f" (the last one saved has {now:,})" if now != messages else ""
    line(f"  the conversation goes back to {humanize.count(messages, 'message')}{saved}{past}")
    if placed.session_id is None:
        line(f"  it is written to {placed.path}")
    elif _moves_on(placed, agent):
        line(
            f"  session {agent and agent.session_id} of the agent has gone on and stays; this one "
            "gets a new id"
        )


def plan_document(plan: Plan, request: Request, choice: Choice | None = None) -> Json:
    """The plan for programs. An id that only the restore itself gives out is not in it."""
    from gitcp.cli import objects

    fields = objects.plan(plan, request.stored[0], choice)
    if plan.placed is not None and _moves_on(plan.placed, request.stored[1]):
        fields["resume"] = {
            **objects.resume(plan.placed),
            "session_id": None,
            "prepare": [],
            "command": [],
            "path": None,
        }
    return objects.document("restore-plan", fields)


def _moves_on(placed: Placed, agent: Agent | None) -> bool:
    """Whether the conversation goes under a new id of the agent's."""
    return agent is not None and placed.session_id not in (None, agent.session_id)


def print_report(
    context: Context, report: Report, undone: Sequence[str], *, back: str, directory: str = ""
) -> None:
    """What was done (in `directory`, unless here), what the next reader must know, and the ways on
    and back.
    """
    output, target = context.output, report.target
    if report.checkpoint is None and not directory:
        output.line(
            _as_it_was(report.kept, f"in {target.id}{quoted(target)}") + ": nothing was restored"
        )
    else:
        what = Styled(f"{target.id}{quoted(target)}", BOLD)
        done = Styled("restored in part", RED) if report.failed else Styled("restored", GREEN)
        output.line(done, " ", what, f"  ({_done(report)})")
    group(output.line, humanize.count(len(report.written), "file") + " written", report.written)
    group(output.line, humanize.count(len(report.removed), "file") + " removed", report.removed)
    kept(output.line, "left alone", report.kept)
    for command in undone:
        output.line(Styled("  not undone: ", BOLD), command)
    if undone:
        output.line(f"  undo that with: gitcp compensate {target.id}")
    rendering.pairs(output, "Facts", target.note.facts.items())
    rendering.handoff(output, target.note.handoff)
    if report.checkpoint is not None:
        output.line(f"{back} with: gitcp {back}")
    if report.placed is not None:
        print_resume(context, report.placed, directory)


def print_resume(context: Context, placed: Placed, directory: str) -> None:
    """How the agent continues; `directory` is the working tree it is in, as it was typed, unless it
    is this one.
    """
    if placed.placement.note:
        context.output.line(placed.placement.note)
    if placed.command:
        context.output.line(
            "continue with: ", Styled(continuation(context, placed, directory), BOLD)
        )
    latest = placed.placement.latest
    if latest is not None:
        context.output.line(
            f"`{' '.join(latest.command)}` continues another session: {latest.session_id}"
        )


def continuation(context: Context, placed: Placed, directory: str = "") -> str:
    """What to type so that the agent continues, from where this command was typed."""
    import shlex

    way = _way(context, placed.directory, directory)
    missing = way and not placed.directory.is_dir()
    there = [*([("mkdir", "-p", way)] if missing else []), *([("cd", way)] if way else [])]
    return " && ".join(map(shlex.join, (*there, *placed.prepare, placed.command)))


def _way(context: Context, place: Path, directory: str) -> str:
    """The way from here to a directory: as short as it can be, "" where it is this one."""
    here = os.path.realpath(os.path.join(context.cwd, directory) if directory else os.getcwd())
    below = os.path.relpath(place, here)
    if below == os.curdir:
        return directory
    return os.path.join(directory, below) if not below.startswith(os.pardir) else str(place)


def _as_it_was(left: Sequence[Kept], when: str) -> str:
    """Why there is nothing to do: all is as it was, or what is not must be left alone."""
    if any(one.missing for one in left):
        return f"what is not as it was {when} must be left alone"
    return f"everything is as it was {when}"


def _done(report: Report) -> str:
    done = [
        humanize.count(len(report.written), "file") + " written",
        f"{len(report.removed):,} removed",
    ]
    done += [humanize.count(report.placed.messages, "message")] if report.placed else []
    return ", ".join(done)


def group(line: Callable[..., None], title: str, paths: Sequence[bytes]) -> None:
    """Paths under a title; nothing where there are none."""
    if paths:
        line(f"  {title}")
        for text in humanize.listed([display(path) for path in paths], MOST):
            line(f"    {text}")


def kept(line: Callable[..., None], title: str, found: Sequence[Kept]) -> None:
    """Paths that are not as wanted, and why."""
    if found:
        line(f"  {humanize.count(len(found), 'path')} {title}")
        for text in humanize.listed(
            [f"{display(one.path)}  ({one.reason})" for one in found], MOST
        ):
            line(f"    {text}")


def _when(context: Context, target: Checkpoint) -> str:
    return f"{humanize.moment(target.created)}, {humanize.ago(target.created, context.host.now())}"


def quoted(target: Checkpoint) -> str:
    """A checkpoint's label, as it follows its id."""
    return f' "{target.note.label}"' if target.note.label else ""
