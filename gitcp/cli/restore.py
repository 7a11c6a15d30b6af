"""`gitcp restore`."""

from __future__ import annotations

import os
import re
from itertools import islice
from pathlib import Path
from typing import Any

import click

from gitcp import humanize
from gitcp.cli import rendering, restore_view
from gitcp.cli.context import Context
from gitcp.cli.options import (
    CHANGED_PATHS,
    PHASE,
    REVISION,
    WORDS,
    Command,
    dry_run_option,
    json_option,
    mine_option,
    rare,
    session_option,
    state_option,
    trust_option,
    whole_tree_option,
    yes_option,
)
from gitcp.cli.output import DIM, YELLOW, Styled
from gitcp.errors import BadValue, RevisionNotFound
from gitcp.history.folding import RESTORES, fold
from gitcp.history.rows import Counted, counted, title
from gitcp.model import Checkpoint
from gitcp.restoring import restore as op
from gitcp.restoring.restore import RestorePlan, RestoreRequest
from gitcp.value import Value, replace

LONGEST_PATH = 28
"""Characters of the only file of a checkpoint, in the list to choose from."""
MOST_OFFERED = 10
DIFF = re.compile(r"d(?: +(.+)|([0-9]+))?")

HELP = "gitcp restore -h"


NAMING = (
    *("revision", "at", "phase", "message", "paths", "to", "worktree"),
    *("dry_run", "yes", "as_json"),
)
"""Options that name a checkpoint or exclude a question."""


class Options(Value):
    """What was typed."""

    paths: tuple[bytes, ...]
    revision: str | None
    at: str | None
    phase: str | None
    message: str | None
    files: bool
    conversation: bool
    index: bool
    no_memory: bool
    state: bool
    to: str | None
    mine: bool
    whole_tree: bool
    markers: bool
    worktree: str | None
    branch: str | None
    dry_run: bool
    force: bool
    forward: bool | None
    trust: bool
    yes: bool
    session: str | None
    as_json: bool


@click.command(cls=Command, rest=CHANGED_PATHS)
@click.argument("revision", type=REVISION, required=False, metavar="[REV]")
@click.option("--at", type=WORDS, metavar="TIME", help="the last checkpoint at or before this time")
@click.option("--phase", type=PHASE, metavar="NAME", help="the last checkpoint of this phase")
@rare(click.option("--message", type=WORDS, metavar="ID", help="the state before this message"))
@click.option("--files", is_flag=True, help="only the files")
@rare(click.option("--conversation", is_flag=True, help="only the conversation"))
@rare(click.option("--index", is_flag=True, help="also git's index (what was staged)"))
@rare(click.option("--no-memory", is_flag=True, help="leave the agent's memory as it is"))
@state_option
@click.option("--to", metavar="DIR", help="write to DIR instead (empty or new)")
@mine_option
@whole_tree_option
@rare(
    click.option(
        "--markers", is_flag=True, help="with --mine: write conflict markers into files in conflict"
    )
)
@rare(
    click.option(
        "--worktree", metavar="DIR", help="create a git worktree in DIR instead, as REV recorded it"
    )
)
@rare(click.option("--branch", type=WORDS, metavar="NAME", help="with --worktree: a new branch"))
@dry_run_option
@rare(click.option("--force", is_flag=True, help="restore even during a merge or rebase"))
@rare(
    click.option(
        "--continue", "forward", flag_value=True, default=None, help="finish an interrupted restore"
    )
)
@rare(
    click.option(
        "--abort", "forward", flag_value=False, default=None, help="undo an interrupted restore"
    )
)
@rare(trust_option)
@yes_option
@rare(session_option)
@json_option
@click.pass_obj
def command(context: Context, /, **values: Any) -> None:
    """Restore files and conversation from a checkpoint

    Saves your current state first, so that it can be undone; writes only what differs. Without
    REV: the last checkpoint; on a terminal, one that you pick.

      gitcp restore 12
      gitcp restore --at "yesterday 17:00" --yes
      gitcp restore @~2 src/app.py
    """
    given = Options(**values)
    if given.forward is not None:
        _finish(context, given, forward=given.forward)
        return
    if context.output.can_ask and not any(getattr(given, name) for name in NAMING):
        _restore_picked(context, given)
    else:
        _restore(context, given)


def _restore_picked(context: Context, given: Options) -> None:
    """Restore a checkpoint picked from a list. Picking none or declining is not an error."""
    from gitcp.cli.confirm import Declined  # only for a terminal

    checkpoint = _pick(context, given.session)
    if checkpoint is None:
        context.output.say("not restored: nothing was changed")
        return
    try:
        revision = context.id_of(checkpoint.commit, checkpoint.id)
        _restore(context, replace(given, revision=revision))
    except Declined as declined:
        context.output.say(str(declined))


def _restore(context: Context, given: Options) -> None:
    request = _request(context, given)
    if given.worktree is not None:
        _recreate(context, request, given, given.worktree)
    elif given.dry_run:
        _print_plan(context, request, given)
    elif given.to is not None:
        _materialise(context, request, given, given.to)
    else:
        restore_view.carry_out(
            context,
            request,
            lambda decided, agreed: op.restore(context.store, decided, agreed),
            lambda decided: op.plan(context.store, decided),
            yes=given.yes,
            as_json=given.as_json,
        )


def _request(context: Context, given: Options) -> RestoreRequest:
    if given.branch is not None and given.worktree is None:
        raise BadValue("--branch is used together with --worktree", hint=HELP)
    scope = given.paths
    if scope and given.conversation:
        raise BadValue("PATH and --conversation cannot be used together", hint=HELP)
    _check_mine(given)
    _check_state(given)
    both = given.files == given.conversation and not scope
    target, rewound = _target(context, given)
    paths = context.inside(scope, target)
    return RestoreRequest(
        target=target,
        cwd=context.cwd,
        files=both or not given.conversation,
        conversation=both or given.conversation,
        paths=paths,
        index=given.index,
        memory="" if given.no_memory else None,
        state=given.state,
        force=given.force,
        limits=context.limits(),
        rewound=rewound,
        trust=given.trust,
        markers=given.markers,
        mine=given.mine,
        whole_tree=given.whole_tree,
    )


def _check_mine(given: Options) -> None:
    """Raise BadValue for options that make no sense together."""
    if given.markers and not given.mine:
        raise BadValue("--markers needs --mine", hint=HELP)
    excluded = ("whole_tree", "conversation", "index", "to")
    other = next((name for name in excluded if getattr(given, name)), None)
    if given.mine and other is not None:
        name = other.replace("_", "-")
        raise BadValue(f"--mine and --{name} cannot be used together", hint=HELP)


def _check_state(given: Options) -> None:
    """Raise BadValue for --state with what restores only a part, or elsewhere."""
    excluded = ("paths", "to", "worktree", "mine")
    other = next((name for name in excluded if getattr(given, name)), None)
    if given.state and other is not None:
        name = "PATH" if other == "paths" else f"--{other}"
        raise BadValue(f"--state and {name} cannot be used together", hint=HELP)


def _target(context: Context, given: Options) -> tuple[Checkpoint, Any]:
    """Return the target checkpoint and, for --message, the conversation up to that message."""
    ways = [
        name for name in ("revision", "at", "phase", "message") if getattr(given, name) is not None
    ]
    if len(ways) > 1 and ways != ["at", "phase"]:
        raise BadValue("REV, --message, and --at or --phase cannot be used together", hint=HELP)
    if ways in ([], ["revision"]):
        checkpoint = context.to_change(given.revision or "@", given.session)
        if given.revision is None and not given.mine:
            checkpoint = context.having(checkpoint, given.paths)
        return checkpoint, None
    session = context.viewed_session(given.session)
    context.require_here(given.session)
    if given.message is not None:
        from gitcp.restoring.message import before_message

        checkpoint, rewound = before_message(context.store, session, given.message)
        return checkpoint, rewound
    return _newest(context, session, given.at, given.phase), None


def _newest(context: Context, session: str, at: str | None, phase: str | None) -> Checkpoint:
    """Return the newest checkpoint up to a time, of a phase, or both. Prints which one it is."""
    from gitcp.history import dates, revisions

    time = dates.parse(at, context.host.now(), end=True) if at is not None else None
    checkpoint = context.store.read(
        revisions.newest(context.store, session, until=time, phase=phase)
    )
    criteria = (
        f"phase {phase}" if phase is not None else "",
        f"at {humanize.moment(time)}" if time else "",
    )
    context.say_meant(" ".join(filter(None, criteria)), checkpoint)
    return checkpoint


def _print_plan(context: Context, request: RestoreRequest, given: Options) -> None:
    if given.to is not None:
        from gitcp.restoring.materialise import planned

        files = planned(context.store, request, _directory(context, given, given.to))
        plan = RestorePlan(request.target, files, None, (), ())
    else:
        plan = op.plan(context.store, request)
    if given.as_json:
        context.output.document(restore_view.plan_document(plan))
    else:
        restore_view.print_plan(context, plan, request, context.output.line)


def _materialise(context: Context, request: RestoreRequest, given: Options, directory: str) -> None:
    from gitcp.restoring.materialise import materialise

    report = materialise(context.store, request, _directory(context, given, directory))
    if given.as_json:
        restore_view.print_json(context, report)
    else:
        restore_view.print_report(context, report, (), back="", directory=directory)
    restore_view.end_as(report)


def _directory(context: Context, given: Options, name: str) -> Path:
    """Return the directory that --to names. Raises BadValue."""
    if given.index:
        raise BadValue("--index and --to cannot be used together", hint=HELP)
    if not name:  # the empty directory that the command runs in, or a refusal that named it
        raise BadValue("--to is empty: nothing was written", hint="gitcp restore --to DIR")
    return Path(os.path.join(context.cwd, name))


def _recreate(context: Context, request: RestoreRequest, given: Options, directory: str) -> None:
    """Create the worktree of a checkpoint anew."""
    from gitcp.cli import recreating  # rarely needed
    from gitcp.restoring.recreate import recreate

    parts = ("paths", "files", "conversation", "index", "to", "message", "mine", "whole_tree")
    others = [name for name in parts if getattr(given, name)]
    if others:
        other = "PATH" if others[0] == "paths" else f"--{others[0].replace('_', '-')}"
        raise BadValue(f"{other} and --worktree cannot be used together", hint=HELP)
    plan = recreating.planned(context, request, directory, given.branch)
    if given.dry_run:
        recreating.print_plan(context, plan, as_json=given.as_json)
        return
    done = recreate(context.store, request, plan)
    recreating.print_done(context, done, directory, as_json=given.as_json)
    restore_view.end_as(done.report)


def _finish(context: Context, given: Options, *, forward: bool) -> None:
    """Finish or abort an interrupted restore."""
    if (
        any(
            getattr(given, name)
            for name in ("revision", "at", "phase", "message", "to", "worktree", "dry_run")
        )
        or given.paths
    ):
        raise BadValue(
            "--continue and --abort take no revision, path or other restore option",
            hint=HELP,
        )
    context.finishing = True
    blank = RestoreRequest(target=None, cwd=context.cwd, limits=context.limits())  # type: ignore[arg-type]
    report = op.finish(
        context.store,
        lambda id: replace(blank, target=context.numbered(id)),
        forward=forward,
    )
    if given.as_json:
        restore_view.print_json(context, report)
    else:
        restore_view.print_report(context, report, (), back="undo")
    restore_view.end_as(report)


def _pick(context: Context, session: str | None) -> Checkpoint | None:
    """Show the last checkpoints and return the one that is chosen; None where nobody chooses one.

    Any revision can be typed. `d REV` shows what differs between it and the files as they are.
    """
    _print_offered(context, _last_rows(context, session))
    while answer := context.output.prompt("Restore which? (number; d NUMBER: diff; Enter: none) "):
        diff = DIFF.fullmatch(answer)
        revision = (diff[1] or diff[2]) if diff else answer
        if answer in ("q", "n", "no", "quit"):
            return None
        if not revision:
            context.output.say("d NUMBER shows what a restore would change, e.g. d 3")
            continue
        try:
            checkpoint = context.checkpoint(revision, session)
        except RevisionNotFound as error:
            context.output.say("error: ", str(error))
            continue
        if not diff:
            return checkpoint
        _show_diff(context, checkpoint)
    return None


def _last_rows(context: Context, session: str | None) -> list[Counted]:
    """Return the newest rows of `log`, oldest first, without checkpoints that restores made."""
    chain = context.store.readable(context.viewed_tip(session))
    own = (s for s in chain if s.trailers.get("Gitcp-Trigger") not in RESTORES)
    rows = list(islice(fold(own, context.shown_tags), MOST_OFFERED))
    return list(counted(context.store, rows[::-1]))


def _print_offered(context: Context, offered: list[Counted]) -> None:
    now = context.host.now()
    rows = [
        (
            str(each.row.newest.id.number),
            title(each.row.newest),
            humanize.ago(each.row.newest.created, now),
            humanize.cut(each.extent, LONGEST_PATH),
        )
        for each in offered
    ]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
    room = max((context.output.width or 80) - widths[0] - widths[2] - widths[3] - 8, 12)
    for number, about, ago, files in rows:
        context.output.say(
            "  ",
            Styled(number.rjust(widths[0]), YELLOW),
            f"  {humanize.cut(about, room).ljust(min(room, widths[1]))}",
            Styled(f"  {ago.ljust(widths[2])}  {files}", DIM),
        )


def _show_diff(context: Context, checkpoint: Checkpoint) -> None:
    from gitcp.history import diff_now  # only where it is asked for

    with (
        context.output.paged(context.core_pager),
        diff_now.compare(context.store, checkpoint, context.limits(), text=True) as changes,
    ):
        rendering.patch(context.output, changes.text())
