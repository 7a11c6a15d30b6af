"""What `gitcp restore` does once its options are read. Loads no click: the plain forms come here
directly.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gitcp.cli import humanize, restore_view
from gitcp.cli.context import Context
from gitcp.errors import BadValue, RevisionNotFound
from gitcp.model import Checkpoint
from gitcp.restoring import restore as op
from gitcp.restoring.plan import FilePlan
from gitcp.restoring.restore import Plan, Request
from gitcp.value import replace

HELP = "gitcp restore -h"

DEFAULTS: Mapping[str, Any] = {
    "revision": None,
    "paths": (),
    "at": None,
    "phase": None,
    "message": None,
    "files": False,
    "conversation": False,
    "index": False,
    "to": None,
    "dry_run": False,
    "force": False,
    "forward": None,
    "trust": False,
    "yes": False,
    "session": None,
    "as_json": False,
}
"""Every option of `gitcp restore` as it is when it is not given."""


def perform(context: Context, given: Mapping[str, Any]) -> None:
    """Restore as the options say, and tell."""
    if given["forward"] is not None:
        _finish(context, given)
        return
    try:
        request = _request(context, given)
    except RevisionNotFound as error:
        raise context.with_path(error, given.values(), "gitcp restore") from None
    if given["dry_run"]:
        _print_plan(context, request, given)
    elif given["to"] is not None:
        _materialise(context, request, given)
    else:
        restore_view.carry_out(
            context,
            request,
            lambda agreed: op.restore(context.store, request, agreed),
            lambda: op.plan(context.store, request),
            yes=given["yes"],
            as_json=given["as_json"],
        )


def _request(context: Context, given: Mapping[str, Any]) -> Request:
    scope, paths = given["paths"], context.inside(given["paths"])
    if scope and given["conversation"]:
        raise BadValue("paths are of files: leave out --conversation", hint=HELP)
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


def _target(context: Context, given: Mapping[str, Any]) -> tuple[Checkpoint, Any]:
    """The checkpoint that is meant, and the earlier part of its conversation where a message is."""
    ways = [name for name in ("revision", "at", "phase", "message") if given[name] is not None]
    if len(ways) > 1:
        raise BadValue(
            "a revision, --at, --phase and --message each say which checkpoint: give one", hint=HELP
        )
    if ways in ([], ["revision"]):
        return context.checkpoint(given["revision"] or "@", given["session"]), None
    from gitcp.history import dates, revisions

    store, session = context.store, context.session(given["session"])
    if given["message"] is not None:
        from gitcp.restoring.message import before_message

        found, rewound = before_message(store, session, given["message"])
        return found, rewound
    if given["at"] is not None:
        time = dates.parse(given["at"], context.host.now(), end=True)
        target = store.read(revisions.at(store, session, time))
        context.output.say(
            f"at {humanize.moment(time)}: {target.id}, of {humanize.moment(target.created)}"
        )
        return target, None
    target = store.read(revisions.in_phase(store, session, given["phase"]))
    context.output.say(f"phase {given['phase']}: {target.id}, of {humanize.moment(target.created)}")
    return target, None


def _print_plan(context: Context, request: Request, given: Mapping[str, Any]) -> None:
    if given["to"] is not None:
        from gitcp.restoring.materialise import whole

        files = (
            whole(context.store, request.target.snapshot, request.paths)
            if request.files
            else FilePlan()
        )
        plan = Plan(request.target, files, None, (), ())
    else:
        plan = op.plan(context.store, request)
    if given["as_json"]:
        context.output.document(restore_view.plan_document(plan, request))
    else:
        restore_view.print_plan(context, plan, request, context.output.line)


def _materialise(context: Context, request: Request, given: Mapping[str, Any]) -> None:
    from gitcp.restoring.materialise import materialise

    if given["index"]:
        raise BadValue("a directory of its own has no index: leave out --index or --to", hint=HELP)
    report = materialise(context.store, request, Path(os.path.join(context.cwd, given["to"])))
    if given["as_json"]:
        from gitcp.cli import objects  # only for programs

        fields = objects.report(report, request.stored[0], (), saved_first=False)
        context.output.document(objects.document("restore", fields))
    else:
        restore_view.print_report(context, report, (), back="", directory=given["to"])
    restore_view.end_as(report)


def _finish(context: Context, given: Mapping[str, Any]) -> None:
    """Carry an interrupted restore on, or back."""
    if (
        any(given[name] for name in ("revision", "at", "phase", "message", "to", "dry_run"))
        or given["paths"]
    ):
        raise BadValue(
            "--continue and --abort go on with the restore that was begun: give nothing else",
            hint=HELP,
        )
    context.finishing = True
    blank = Request(target=None, cwd=context.cwd, limits=context.limits())  # type: ignore[arg-type]
    report = op.finish(
        context.store,
        lambda id: replace(blank, target=context.numbered(id)),
        forward=given["forward"],
    )
    if given["as_json"]:
        from gitcp.cli import objects  # only for programs

        fields = objects.report(report, report.target.conversation, (), saved_first=True)
        context.output.document(objects.document("restore", fields))
    else:
        restore_view.print_report(context, report, (), back="undo")
    restore_view.end_as(report)
