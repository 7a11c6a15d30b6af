"""Shared by restore, rollback, undo and redo: print the plan, ask, apply, print the report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gitcp import humanize
from gitcp.cli import confirm, rendering
from gitcp.cli.context import Context
from gitcp.cli.failure import IN_PART, end
from gitcp.cli.output import BOLD, GREEN, PLAIN, RED, YELLOW, Styled
from gitcp.errors import OthersAffected
from gitcp.history.live import OpenTurn
from gitcp.model import Agent, Checkpoint, CheckpointId, Conversation
from gitcp.restoring import others, placing, restore, states
from gitcp.restoring.memory import MemoryPlan
from gitcp.restoring.merge import Conflict
from gitcp.restoring.others import OtherSession
from gitcp.restoring.plan import FilePlan, Kept
from gitcp.restoring.planned import offered_lines, state_lines
from gitcp.restoring.restore import Report, RestorePlan, RestoreRequest
from gitcp.restoring.states import StateStep
from gitcp.state import undo_stack
from gitcp.state.extent import Restores
from gitcp.store import one_line
from gitcp.value import replace
from gitcp.wire import Json
from gitcp.worktree.paths import display

if TYPE_CHECKING:
    from gitcp.restoring.placing import Placed
    from gitcp.restoring.planned import OpenFile, RollbackChoice
    from gitcp.store import Store

MOST = 20
DECLINED = "not restored: nothing was changed"
ALL_MATCHES = "everything already matches"

Apply = Callable[[RestoreRequest, RestorePlan | None], Report]
Plan = Callable[[RestoreRequest], RestorePlan]
AT_WORK = "changed by sessions at work"
"""Begins the part of a plan that names live sessions; gitcp.tui.dialogs looks for it."""


def carry_out(
    context: Context,
    request: RestoreRequest,
    apply: Apply,
    plan: Plan,
    *,
    yes: bool,
    as_json: bool,
    back: str = "undo",
    choice: RollbackChoice | None = None,
) -> None:
    """Show the plan and ask, unless `yes`; apply; report. Raises Refused if nobody agreed. Ends the
    command.

    `choice` says why a rollback restores this checkpoint.
    """
    agreed = None
    request = replace(request, name_others=as_json)
    if not yes and not as_json and context.output.can_ask:
        request = _with_state(context, request)
    if request.mine or not yes:
        agreed = plan(request)
    if agreed is not None and not yes:
        request, agreed = _agreed(context, request, agreed, plan, choice)
    with _hinting(context):
        report = apply(request, agreed)
    if yes and not as_json:
        print_turns(context, report.turns, context.output.say)
        print_open(report.open_files, context.output.say)
    conflicts = report.conflicts
    if as_json:
        print_json(context, replace(report, choice=choice))
    elif request.paths and _is_one_file(report) and not (report.effects or conflicts):
        _print_file(context, report, back)
    else:
        is_listed = agreed is not None and not yes and context.output.terminal
        print_report(
            context, report, report.effects, back=back, paths=request.paths, is_listed=is_listed
        )
        if yes:
            _print_left_states(report, context.output.line)
        print_conflicts(context.output.line, conflicts)
        if choice is not None:
            explain(context, choice, context.output.line)
    end(IN_PART if report.failed or conflicts else 0)


def _with_state(context: Context, request: RestoreRequest) -> RestoreRequest:
    """Ask whether the states outside the files are restored as well."""
    steps = states.offered(context.store, request)
    if not steps:
        return request
    for line in state_lines(steps):
        context.output.say(line)
    which = "this state" if len(steps) == 1 else f"these {len(steps)} states"
    is_wanted = context.output.ask(f"Restore {which} as well?")
    return replace(request, state=True) if is_wanted else request


@contextmanager
def _hinting(context: Context) -> Iterator[None]:
    """Let a refusal because of others' changes name this command with its options."""
    try:
        yield
    except OthersAffected as refused:
        if "--mine" not in context.arguments:
            refused.args = (f"{refused}; --whole-tree undoes these, too",)
            refused.hint = context.with_option("--mine")
        elif "restore" in context.arguments:
            refused.hint = context.with_option("--markers")
        raise


def _agreed(
    context: Context,
    request: RestoreRequest,
    plan: RestorePlan,
    make: Plan,
    choice: RollbackChoice | None,
) -> tuple[RestoreRequest, RestorePlan]:
    """Show the plan and ask. Return what was agreed to: where live sessions are affected, either
    of two plans. Raises Refused if nobody agreed.
    """
    is_open = any(each.live for each in plan.others) and not (request.mine or request.whole_tree)
    if is_open:
        print_plan(context, plan, request, context.output.say)
        if not context.output.can_ask:
            with _hinting(context):
                others.require_allowed(request, plan.others)
        if context.output.ask("Restore only what this session changed?"):
            request = replace(request, mine=True)
            plan = make(request)
        elif context.output.ask("Restore everything, also what they changed?"):
            return replace(request, whole_tree=True), plan
        else:
            raise confirm.Declined(DECLINED)
    others.require_merged(request, plan.conflicts, plan.conflicting)
    if plan or plan.instead_of or request.index:
        agree(context, request, plan, choice)
    return request, plan


def walk(
    context: Context,
    step: Callable[[Store, Callable[[CheckpointId], RestoreRequest]], Report],
    stack: Callable[[Restores], tuple[CheckpointId, ...]],
    *,
    mine: bool,
    whole_tree: bool,
    state: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    back: str,
) -> None:
    """Run `undo` or `redo`: restore the checkpoint on top of its stack; with `dry_run`, print the
    plan.
    """
    store = context.store

    def request_for(id: CheckpointId) -> RestoreRequest:
        return RestoreRequest(
            context.numbered(id),
            context.cwd,
            limits=context.limits(),
            mine=mine,
            whole_tree=whole_tree,
            state=state,
        )

    def apply(decided: RestoreRequest, _: RestorePlan | None) -> Report:
        names = ("mine", "whole_tree", "name_others", "state")
        flags = {name: getattr(decided, name) for name in names}
        return step(store, lambda id: replace(request_for(id), **flags))

    top = stack(undo_stack.restores(store.repo))
    if not top:
        step(store, request_for)  # refuses, and says what there is none of
        return
    request = _limited(context, request_for(top[-1]), back)
    if dry_run:
        _print_dry_run(context, request, as_json=as_json)
        return
    make = partial(restore.plan, store)
    carry_out(context, request, apply, make, yes=yes, as_json=as_json, back=back)


def _limited(context: Context, asked: RestoreRequest, back: str) -> RestoreRequest:
    """Return a request limited to what is undone or redone. Says if --state has no effect."""
    request = restore.limited_to_extent(context.store, asked)
    if asked.state and not request.state_names:
        last = "restore to undo" if back == "redo" else "undo to redo"
        context.output.say(f"note: the {last} changed no state, and --state changes none")
    return request


def _print_dry_run(context: Context, request: RestoreRequest, *, as_json: bool) -> None:
    plan = restore.plan(context.store, request)
    if as_json:
        context.output.document(plan_document(plan))
    else:
        print_plan(context, plan, request, context.output.line)


def end_as(report: Report) -> None:
    """End the command with the exit code for this report."""
    end(IN_PART if report.failed else 0)


def agree(
    context: Context,
    request: RestoreRequest,
    plan: RestorePlan,
    choice: RollbackChoice | None = None,
) -> None:
    """Show the plan and ask. Raises Refused if nobody agreed."""
    print_plan(context, plan, request, context.output.say)
    if choice is not None:
        explain(context, choice, context.output.say)
    confirm.ask(context, "Restore?", nobody="nothing was changed", no=DECLINED)


def print_plan(
    context: Context, plan: RestorePlan, request: RestoreRequest, line: Callable[..., None]
) -> None:
    """Print the plan: to stdout, or to stderr if a question follows."""
    only = ", only what this session changed" if request.mine else ""
    created = plan.target.created
    when = f"{humanize.moment(created)}, {humanize.ago(created, context.host.now())}"
    line(
        "restore ",
        Styled(str(plan.target.id), YELLOW),
        quoted(plan.target),
        f"  ({when}){only}",
    )
    if request.files and not plan.target.snapshot.has_files:
        line("  the checkpoint has no files: yours stay as they are")
    changes(plan.files, line)
    kept(line, "kept", plan.kept)
    print_others(line, plan.others, request)
    print_turns(context, plan.turns, line)
    print_open(plan.open_files, line)
    print_conflicts(line, plan.conflicts)
    if request.index:
        line("  the index would be restored as well")
    if plan.placed is not None:
        _print_conversation_plan(plan, plan.placed, request.stored, line)
        _print_context(context, plan.placed, request.stored[0], line)
    print_memory(plan.memory, line)
    for text in state_lines(plan.states):
        line(f"  {text}")
    if not context.output.can_ask:
        _print_left_states(plan, line)
    for command in plan.effects:
        line(Styled("  not undone: ", BOLD), command)
    operation = context.store.repo.head().operation
    if operation and (request.files or request.index) and not request.force:
        line(Styled(f"  refused while a {operation} is in progress", RED))
    if not (plan or plan.instead_of or plan.conflicts or request.index):
        nothing = "this session changed nothing since" if request.mine else ""
        why = nothing or f"{_why_nothing(plan.files.kept, request.paths)} it"
        line(f"  nothing to restore: {why}")


def _print_left_states(done: RestorePlan | Report, line: Callable[..., None]) -> None:
    """Print that states outside the files are in the checkpoint, and stay as they are."""
    for text in offered_lines(done.target, done.offered):
        line(f"  {text}")


def print_states(steps: Iterable[StateStep], line: Callable[..., None]) -> None:
    """Print which states outside the files were restored, and which were not."""
    for step in steps:
        if step.is_current:
            line(f"  state {step.name} was as in the checkpoint already")
        elif step.failure:
            line(Styled(f"  state {step.name} not restored: ", RED), step.explained)
        else:
            line(f"  state {step.name} restored by your command: {one_line(step.command, 70)}")
        if step.unsaved:
            line(Styled("    its content before the restore is not saved", RED))


def print_memory(plan: MemoryPlan | None, line: Callable[..., None], *, done: bool = False) -> None:
    """Print what becomes of an agent's memory, and the lines of other sessions in it that stay."""
    if not plan:
        return
    would = "" if done else "would be "
    written = humanize.count(len(plan.written), "file")
    changed = [f"{written} {would}written"] if plan.written else []
    removed = humanize.count(len(plan.removed), "file")
    changed += [f"{removed} {would}removed"] if plan.removed else []
    if changed:
        line(f"  {plan.agent} memory in {plan.directory}: {', '.join(changed)}")
    for text in humanize.listed([*plan.written, *plan.removed], MOST):
        line(f"    {text}")
    if plan.kept:
        line(f"  {humanize.count(len(plan.kept), 'line')} of other sessions kept in the memory")
    lines = [f"{path}: {one_line(text, 70)}  ({id[:8]})" for path, text, id in plan.kept]
    for text in humanize.listed(lines, MOST):
        line(f"    {text}")


def print_others(
    line: Callable[..., None], changed_by: Sequence[OtherSession], request: RestoreRequest
) -> None:
    """Print which paths other sessions changed since the target, live ones first."""
    for live, title in ((True, AT_WORK), (False, "changed by sessions that have ended")):
        sessions = [each for each in changed_by if each.live is live]
        if sessions:
            merged = ", and merged" if request.mine else ", and undone as well"
            line(Styled(f"  {title}{merged}", RED if live and not request.mine else PLAIN))
        for each in sessions:
            agent = f" ({each.agent.name})" if each.agent else ""
            line(f"    {each.session}{agent}")
            for text in humanize.listed([display(path) for path in each.paths], MOST):
                line(f"      {text}")


def print_open(files: Sequence[OpenFile], line: Callable[..., None]) -> None:
    """Print which replaced files programs have open, and write to in vain from then on."""
    for each in files[:MOST]:
        line(
            Styled(f"  {display(each.path)} is open for writing: ", RED),
            f"{', '.join(each.users)} would go on writing to the replaced file",
        )


def print_turns(context: Context, turns: Iterable[OpenTurn], line: Callable[..., None]) -> None:
    """Print which agents are in mid-turn in this working tree. One wrote its next files into a tree
    that was restored meanwhile, and nothing had said so.
    """
    now = context.host.now()
    for turn in turns:
        last = humanize.ago(turn.last, now)
        if turn.began is None:
            known, when = "in mid-turn, as its conversation tells", f"last message {last}"
        else:
            known = "in mid-turn, as its hooks tell"
            when = f"begun {humanize.ago(turn.began, now)}, last event {last}"
        line(
            Styled(f"  {known}: ", RED),
            f"{turn.agent} in session {turn.session} ({when}); ",
            "it may write into the restored files",
        )


def print_conflicts(line: Callable[..., None], conflicts: Sequence[Conflict]) -> None:
    """Print the paths in conflict, with the reasons."""
    if conflicts:
        line(Styled(f"  {humanize.count(len(conflicts), 'conflict')}", RED))
        for text in humanize.listed([f"{display(c.path)}  ({c.why})" for c in conflicts], MOST):
            line(f"    {text}")


def explain(context: Context, choice: RollbackChoice, line: Callable[..., None]) -> None:
    """Print why a rollback restores this checkpoint, and older candidates."""
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
    """Print what would be done to files and directories."""
    removed = [step.path for step in (*files.clear, *files.remove)]
    group(
        line,
        humanize.count(len(files.write), "file") + " would be written",
        [s.path for s in files.write],
    )
    group(line, humanize.count(len(removed), "file") + " would be removed", removed)
    for database in files.databases:
        users = ", ".join(database.users)
        line(f"  {display(database.path)} would be restored through SQLite: {users} has it open")
    group(line, "permissions would be set", [each.path for each in files.permissions])
    group(line, "directories would be created", files.make_directories)
    group(line, "directories would be removed, if empty", files.remove_directories)


def _print_conversation_plan(
    plan: RestorePlan,
    placed: Placed,
    stored: tuple[Conversation | None, Agent | None],
    line: Callable[..., None],
) -> None:
    if not placed.changes:
        line("  the conversation is unchanged")
        if plan.instead_of and placed.session_id is not None:
            line(f"  {placed.session_id} would continue, instead of {plan.instead_of}")
        return
    conversation, agent = stored
    messages = conversation.digest.messages if conversation else 0
    now = int(plan.later[0].trailers.get("Gitcp-Messages", "0")) if plan.later else messages
    past = f", past {humanize.count(len(plan.later), 'later checkpoint')}" if plan.later else ""
    saved = f" (the last one saved has {now:,})" if now != messages else ""
    line(f"  the conversation would return to {humanize.count(messages, 'message')}{saved}{past}")
    if placed.session_id is None:
        line(f"  it would be written to {placed.path}")
    elif placed.moves_on(agent):
        newer = "" if placed.mended else "has newer messages and "
        copy = "a repaired copy is restored" if placed.mended else "the restored copy gets a new id"
        line(f"  the agent's session {newer}is kept; {copy}")
    if placed.elsewhere:
        line(f"  {placed.elsewhere}")


def _print_context(
    context: Context,
    placed: Placed,
    conversation: Conversation | None,
    line: Callable[..., None],
) -> None:
    """Print how much the agent would read again, if it is known."""
    if conversation is None or not placed.changes or placed.session_id is None:
        return
    from gitcp.history import tokens  # of a conversation that is restored

    if spent := tokens.context(context.store, conversation):
        line(f"  resuming it would read about {humanize.count(spent, 'token')} again")


def plan_document(plan: RestorePlan, choice: RollbackChoice | None = None) -> Json:
    """Return the plan as JSON fields, without ids that only the restore itself assigns."""
    from gitcp import documents

    return documents.document("restore-plan", replace(plan, choice=choice).to_json())


def print_json(context: Context, report: Report) -> None:
    """Print what a restore did, for a program."""
    from gitcp import documents

    context.output.document(documents.document("restore", report.to_json()))


def print_report(
    context: Context,
    report: Report,
    undone: Sequence[str],
    *,
    back: str,
    directory: str = "",
    paths: Sequence[bytes] = (),
    is_listed: bool = False,
) -> None:
    """Print what was restored, the checkpoint's facts and handoff, and the commands that undo it
    and resume the agent. `directory` is where it was restored to, "" for the current working tree;
    `paths` are those it was limited to; `is_listed`: the plan just above has listed the files.
    """
    output, target = context.output, report.target
    if report.checkpoint is None and not directory:
        why = _why_nothing((*report.kept, *states.left(report.states)), paths)
        output.line(f"nothing to restore: {why} {target.id}{quoted(target)}")
        if report.current:
            output.line(f"the current session is now {report.current}")
    else:
        print_done(context, report)
    if report.failed or not is_listed:
        group(output.line, humanize.count(len(report.written), "file") + " written", report.written)
        group(output.line, humanize.count(len(report.removed), "file") + " removed", report.removed)
    if report.index:
        output.line("  index restored")
    print_memory(report.memory, output.line, done=True)
    print_states(report.states, output.line)
    kept(output.line, "kept", report.kept)
    for command in undone:
        output.line(Styled("  not undone: ", BOLD), command)
    if undone:
        output.line(f"  undo that with: gitcp run --compensations {target.id}")
    rendering.pairs(output, "Facts", target.note.facts.items())
    rendering.handoff(output, target.note.handoff)
    if report.checkpoint is not None:
        with_state = " --state" if any(step.can_undo for step in report.states) else ""
        output.line(f"{back} with: gitcp {back}{with_state}")
    if report.placed is not None:
        print_resume(context, report.placed, directory)


def _is_one_file(report: Report) -> bool:
    """Return whether a single file was restored, and nothing else is to be said."""
    is_complete = report.checkpoint is not None and not report.failed
    is_alone = not (report.kept or report.index or report.placed)
    return is_complete and is_alone and len(report.written) + len(report.removed) == 1


def _print_file(context: Context, report: Report, back: str) -> None:
    """Print one line for one file."""
    path = display((*report.written, *report.removed)[0])
    done, which = ("restored", " from") if report.written else ("removed", ", which is not in")
    context.output.line(
        Styled(done, GREEN),
        f" {path}{which} ",
        Styled(f"{report.target.id}{quoted(report.target)}", BOLD),
        f"  ({back} with: gitcp {back})",
    )


def print_done(context: Context, report: Report) -> None:
    """Print one line: what was restored, and how much."""
    what = Styled(f"{report.target.id}{quoted(report.target)}", BOLD)
    done = Styled("restored in part", RED) if report.failed else Styled("restored", GREEN)
    counts = [
        humanize.count(len(report.written), "file") + " written",
        f"{len(report.removed):,} removed",
    ]
    if report.placed:
        counts.append(humanize.count(report.placed.messages, "message"))
    context.output.line(done, " ", what, f"  ({', '.join(counts)})")


def print_resume(context: Context, placed: Placed, directory: str) -> None:
    """Print how the agent continues. `directory` is its working tree as it was typed, "" for the
    current one.
    """
    if placed.placement.note:
        context.output.line(placed.placement.note)
    if placed.elsewhere:
        context.output.line(placed.elsewhere)
    if placed.mended:
        context.output.line(f"repaired in the conversation: {placing.in_words(placed.mended)}")
    if placed.command:
        context.output.line(
            "continue with: ", Styled(continuation(context, placed, directory), BOLD)
        )
    latest = placed.placement.latest
    if latest is not None:
        context.output.line(
            f"`{' '.join(latest.command)}` would resume another session: {latest.session_id}"
        )


def continuation(context: Context, placed: Placed, directory: str = "") -> str:
    """Return the command that continues the agent, for the current directory."""
    import shlex

    way = _way(context, placed.directory, directory)
    missing = way and not placed.directory.is_dir()
    there = [*([("mkdir", "-p", way)] if missing else []), *([("cd", way)] if way else [])]
    return " && ".join(map(shlex.join, (*there, *placed.prepare, placed.command)))


def _way(context: Context, target: Path, directory: str) -> str:
    """Return the shortest path to a directory from here, "" if it is this one."""
    here = os.path.realpath(os.path.join(context.cwd, directory) if directory else os.getcwd())
    below = os.path.relpath(target, here)
    if below == os.curdir:
        return directory
    return os.path.join(directory, below) if not below.startswith(os.pardir) else str(target)


def _why_nothing(kept: Sequence[Kept], paths: Sequence[bytes]) -> str:
    """Return why there is nothing to restore, of `paths` alone if given; the checkpoint's name
    follows.
    """
    if any(path.missing for path in kept):
        return "only paths that must be kept differ from"
    if kept:
        return "everything else already matches"
    if len(paths) == 1:
        return f"{display(paths[0])} already matches"
    return f"{humanize.count(len(paths), 'path')} already match" if paths else ALL_MATCHES


def group(line: Callable[..., None], title: str, paths: Sequence[bytes]) -> None:
    """Print paths under a title; nothing without paths."""
    if paths:
        line(f"  {title}")
        for text in humanize.listed([display(path) for path in paths], MOST):
            line(f"    {text}")


def kept(line: Callable[..., None], title: str, paths: Sequence[Kept]) -> None:
    """Print the paths that were not restored, with the reasons."""
    if paths:
        line(f"  {humanize.count(len(paths), 'path')} {title}")
        for text in humanize.listed(
            [f"{display(one.path)}  ({one.reason})" for one in paths], MOST
        ):
            line(f"    {text}")


def quoted(target: Checkpoint) -> str:
    """Return a checkpoint's label as it is printed after its id."""
    return f' "{target.note.label}"' if target.note.label else ""
