"""`gitcp restore`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from gitcp.cli import objects, restoring, words
from gitcp.cli.context import Context
from gitcp.cli.options import (
    REVISION,
    WORDS,
    WithPaths,
    json_option,
    pass_context,
    paths_given,
    session_option,
    trust_option,
    yes_option,
)
from gitcp.model import Checkpoint
from gitcp.ops import restore as op
from gitcp.ops.plan import FilePlan
from gitcp.ops.restore import Plan, Request
from gitcp.value import replace


@click.command(cls=WithPaths)
@click.argument("revision", required=False, type=REVISION, metavar="[REV]")
@click.option("--at", metavar="TIME", type=WORDS, help="the last checkpoint of this time or before")
@click.option("--phase", metavar="NAME", type=WORDS, help="the last checkpoint of this phase")
@click.option("--message", metavar="ID", type=WORDS, help="the state just before this message of the user's")
@click.option("--files", is_flag=True, help="only the files")
@click.option("--conversation", is_flag=True, help="only the conversation")
@click.option("--index", is_flag=True, help="also what was staged (git's index)")
@click.option("--to", metavar="DIR", help="write into DIR, which must be empty or absent, and touch nothing else")
@click.option("--dry-run", "-n", is_flag=True, help="show the plan and change nothing")
@click.option("--force", is_flag=True, help="go on during a merge or rebase")
@click.option("--continue", "forward", flag_value=True, default=None, help="finish an interrupted restore")
@click.option("--abort", "forward", flag_value=False, help="take an interrupted restore back")
@trust_option
@yes_option
@session_option
@json_option
@pass_context
def command(context: Context, /, **given: Any) -> None:
    """Bring files and conversation back from a checkpoint

    What you have now is saved first, so every restore can be undone. Only files that differ are written; a file is
    removed only if the checkpoint looked where it lies and it is saved now. HEAD, branches and the index stay.

      gitcp restore 12
      gitcp restore before-migration --dry-run
      gitcp restore --at "yesterday 17:00" --yes
      gitcp restore @~2 -- src/app.py
      gitcp restore 12 --to ../look
    """
    if given["forward"] is not None:
        _finish(context, given)
        return
    request = _request(context, given)
    if given["dry_run"]:
        _print_plan(context, request, given)
    elif given["to"] is not None:
        _materialise(context, request, given)
    else:
        restoring.carry_out(
            context,
            request,
            lambda agreed: op.restore(context.store, request, agreed),
            lambda: op.plan(context.store, request),
            yes=given["yes"],
            as_json=given["as_json"],
        )


def _request(context: Context, given: dict[str, Any]) -> Request:
    scope, paths = paths_given(), context.inside(paths_given())
    if scope and given["conversation"]:
        raise click.UsageError("paths are of files: leave out --conversation")
    both = given["files"] == given["conversation"] and not scope
    target, rewound = _target(context, given)
    return Request(
        target=target,
        cwd=context.cwd,
        files=both or not given["conversation"],
        conversation=both or given["conversation"],
        paths=paths,
        index=given["index"],
        force=given["force"],
        limits=context.limits(),
        rewound=rewound,
        trust=given["trust"],
    )


def _target(context: Context, given: dict[str, Any]) -> tuple[Checkpoint, Any]:
    """The checkpoint that is meant, and the earlier part of its conversation where a message is."""
    from gitcp import dates, revisions

    ways = [name for name in ("revision", "at", "phase", "message") if given[name] is not None]
    if len(ways) > 1:
        raise click.UsageError("a revision, --at, --phase and --message each say which checkpoint: give one")
    if ways in ([], ["revision"]):
        return context.checkpoint(given["revision"] or "@", given["session"]), None
    store, session = context.store, context.session(given["session"])
    if given["message"] is not None:
        from gitcp.ops.message import before_message

        found, rewound = before_message(store, session, given["message"])
        return found, rewound
    if given["at"] is not None:
        time = dates.parse(given["at"], context.host.now(), end=True)
        target = store.read(revisions.at(store, session, time))
        context.output.say(f"at {words.moment(time)}: {target.id}, of {words.moment(target.created)}")
        return target, None
    target = store.read(revisions.in_phase(store, session, given["phase"]))
    context.output.say(f"phase {given['phase']}: {target.id}, of {words.moment(target.created)}")
    return target, None


def _print_plan(context: Context, request: Request, given: dict[str, Any]) -> None:
    if given["to"] is not None:
        from gitcp.ops.materialise import whole

        files = whole(context.store, request.target.snapshot, request.paths) if request.files else FilePlan()
        plan = Plan(request.target, files, None, (), ())
    else:
        plan = op.plan(context.store, request)
    if given["as_json"]:
        context.output.document(restoring.plan_document(plan, request))
    else:
        restoring.print_plan(context, plan, request, context.output.line)


def _materialise(context: Context, request: Request, given: dict[str, Any]) -> None:
    from gitcp.ops.materialise import materialise

    if given["index"]:
        raise click.UsageError("a directory of its own has no index: leave out --index or --to")
    report = materialise(context.store, request, Path(os.path.join(context.cwd, given["to"])))
    if given["as_json"]:
        fields = objects.report(report, request.stored[0], (), saved_first=False)
        context.output.document(objects.document("restore", fields))
    else:
        restoring.print_report(context, report, (), back="", directory=given["to"])
    restoring.end(report)


def _finish(context: Context, given: dict[str, Any]) -> None:
    """Carry an interrupted restore on, or back."""
    if any(given[name] for name in ("revision", "at", "phase", "message", "to", "dry_run")) or paths_given():
        raise click.UsageError("--continue and --abort go on with the restore that was begun: give nothing else")
    context.finishing = True
    blank = Request(target=None, cwd=context.cwd, limits=context.limits())  # type: ignore[arg-type]
    report = op.finish(context.store, lambda id: replace(blank, target=context.numbered(id)), forward=given["forward"])
    if given["as_json"]:
        fields = objects.report(report, report.target.conversation, (), saved_first=True)
        context.output.document(objects.document("restore", fields))
    else:
        restoring.print_report(context, report, (), back="undo")
    restoring.end(report)
