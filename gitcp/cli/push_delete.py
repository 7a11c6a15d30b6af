"""`gitcp push --delete`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gitcp import humanize, wire
from gitcp.cli import confirm, objects
from gitcp.cli.context import Context
from gitcp.cli.failure import IN_PART, end
from gitcp.cli.output import GREEN, RED, Styled
from gitcp.errors import BadValue, GitcpError
from gitcp.sharing import push_delete as op
from gitcp.sharing.push_delete import DeletePlan, DeleteReport, Deletion
from gitcp.sharing.remotes import Remote

OTHERS = {"every": "--all", "session": "--session", "redact": "--redact", "allow": "--allow"}
"""Options of a push that say nothing about a deletion."""


def command(context: Context, to: Remote, given: Mapping[str, Any]) -> None:
    """Delete sessions on a remote, after the plan and a question."""
    _check(given)
    plan = op.plan(context.store, to, given["sessions"], force=given["force"])
    if given["dry_run"]:
        _show(context, plan, DeleteReport((), {}), as_json=given["as_json"])
        return
    if not given["yes"]:
        no = "not deleted: nothing was changed"
        confirm.ask(context, "Delete?", _lines(context, plan), nobody=op.NOTHING, no=no)
    report = op.delete(context.store, plan)
    _show(context, plan, report, as_json=given["as_json"], done=True)
    _end(plan, report)


def _check(given: Mapping[str, Any]) -> None:
    other = next((name for target, name in OTHERS.items() if given[target]), None)
    if other:
        raise BadValue(f"--delete and {other} cannot be used together", hint="gitcp push -h")
    if not given["sessions"]:
        raise BadValue(
            f"name the sessions to delete; {op.NOTHING}",
            hint=f"gitcp fetch {given['remote'] or ''}".rstrip() + " --list",
        )


def _show(
    context: Context, plan: DeletePlan, report: DeleteReport, *, as_json: bool, done: bool = False
) -> None:
    if as_json:
        context.output.document(objects.document("push-delete", _fields(plan, report)))
    elif done:
        _print(context, plan, report)
    else:
        for line in _lines(context, plan):
            context.output.line(line)


def _lines(context: Context, plan: DeletePlan) -> Iterator[str]:
    for each in plan.deletions:
        yield f"delete session {each.session} on {plan.remote.name}: {_description(context, each)}"
        if each.tags:
            yield f"  tags to delete: {', '.join(each.tags)}"
        if not each.chain and plan.listed.tags:
            yield "  its tags would stay: gitcp cannot tell which they are"
        if each.shared:
            count = humanize.count(each.shared, "checkpoint")
            yield f"  {count} of another session there would stay"


def _description(context: Context, each: Deletion) -> str:
    """Return whose a session is, and when it was saved last, as far as that is known here."""
    now = context.host.now()
    if each.chain:
        count = humanize.count(len(each.chain), "checkpoint")
        return f"{count}, last saved {humanize.ago(each.chain[0].created, now)} by {each.author}"
    if each.entry and each.entry.time:
        saved = humanize.ago(wire.decode_time(each.entry.time), now)
        return f"not in this repository, last saved {saved}: {each.entry.title}"
    return "not in this repository"


def _print(context: Context, plan: DeletePlan, report: DeleteReport) -> None:
    name = plan.remote.name
    for session in report.deleted:
        context.output.line(Styled("deleted", GREEN), f" session {session} on {name}")
    for ref, why in report.refused.items():
        context.output.line(Styled("refused", RED), f" {ref}: {why}")
    if report.catalogue:
        context.output.say(f"note: the list of sessions on {name} is old: {report.catalogue}")
    local = context.store.sessions()
    again = next((session for session in report.deleted if session in local), None)
    if again:
        context.output.line(f"push it again with: gitcp push {name} {again}")
    if report.deleted:
        context.output.say(
            "note: the host may keep the objects for a while, and whoever fetched them has them"
        )


def _end(plan: DeletePlan, report: DeleteReport) -> None:
    if report.refused and not report.deleted:
        ref, why = next(iter(report.refused.items()))
        raise GitcpError(
            f"{plan.remote.name} refused to delete {ref}: {why}",
            hint=f"gitcp fetch {plan.remote.name}",
        )
    end(IN_PART if report.refused else 0)


def _fields(plan: DeletePlan, report: DeleteReport) -> wire.Json:
    return {
        "remote": plan.remote.name,
        "sessions": [
            {**_session(each), "deleted": each.session in report.deleted} for each in plan.deletions
        ],
        "refused": [{"ref": ref, "reason": why} for ref, why in report.refused.items()],
        "catalogue": report.catalogue or None,
    }


def _session(each: Deletion) -> wire.Json:
    last = each.chain[0].created if each.chain else None
    return {
        "session": each.session,
        "refs": list(each.refs),
        "tags": list(each.tags),
        "checkpoints": len(each.chain) or None,
        "shared": each.shared,
        "saved": wire.encode_time(last) if last else (each.entry and each.entry.time) or None,
        "author": each.author or None,
        "title": each.entry.title if each.entry else None,
    }
