"""`gitcp push`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from gitcp import documents, humanize, wire
from gitcp.cli import allowing, confirm
from gitcp.cli.context import Context
from gitcp.cli.failure import IN_PART, end
from gitcp.cli.options import (
    SESSION,
    WORDS,
    Command,
    allow_filtered_option,
    allow_option,
    json_option,
    session_option,
    yes_option,
)
from gitcp.cli.output import GREEN, RED, Styled
from gitcp.errors import BadValue, GitcpError
from gitcp.saving import session as session_op
from gitcp.sharing import push as op
from gitcp.sharing import push_delete, remotes
from gitcp.sharing.push import PushReport, RefState
from gitcp.sharing.push_delete import Deletion, RemoteDeletePlan, RemoteDeleteReport
from gitcp.sharing.remotes import Remote
from gitcp.value import Value

NOT_WITH_DELETE = {
    "every": "--all",
    "session": "--session",
    "redact": "--redact",
    "allow": "--allow",
}
"""Options of a push that say nothing about a deletion."""

RESULTS = {
    RefState.SAME: "is up to date",
    RefState.BEHIND: "has newer checkpoints there: gitcp fetch {remote}",
    RefState.DIVERGED: "has diverged: gitcp fetch {remote}",
}
"""What git says of a ref that is no longer where it was seen."""


class Options(Value):
    """What was typed."""

    remote: str | None
    sessions: tuple[str, ...]
    every: bool
    allow: tuple[str, ...]
    unfiltered: bool
    redact: bool
    force: bool
    delete: bool
    dry_run: bool
    yes: bool
    session: str | None
    as_json: bool


@click.command(cls=Command)
@click.argument("remote", type=WORDS, required=False, metavar="[REMOTE]")
@click.argument("sessions", type=SESSION, nargs=-1, required=False, metavar="[SESSION]...")
@click.option("--all", "every", is_flag=True, help="push all sessions")
@allow_option
@allow_filtered_option
@click.option("--redact", is_flag=True, help="push a copy with the secrets redacted")
@click.option("--force", is_flag=True, help="overwrite the remote copy after a prune or purge")
@click.option("--delete", "-d", is_flag=True, help="delete the sessions from the remote only")
@click.option("--dry-run", "-n", is_flag=True, help="compare and scan, push nothing")
@yes_option
@session_option
@json_option
@click.pass_obj
def command(context: Context, /, **values: Any) -> None:
    """Send a session and its tags to a remote

    Pushes files and conversation, no branches. If new content has secrets, or files
    that git would filter in a commit (git-crypt), nothing is sent.

      gitcp push
      gitcp push private --all
      gitcp push origin --delete e7ba
    """
    given = Options(**values)
    store = context.store
    to = remotes.choose(store.repo, given.remote)
    if given.delete:
        _delete(context, to, given)
        return
    names = _names(context, given)
    allowed = allowing.answered(context, given.allow, dry_run=given.dry_run)
    plan = op.plan(
        store,
        to,
        names,
        allowed,
        force=given.force,
        redacted=given.redact,
        unfiltered=given.unfiltered,
    )
    allowing.say_known(context, plan.known, [to.name])
    report = PushReport(plan, (), ()) if given.dry_run else op.push(store, plan)
    if given.as_json:
        context.output.document(documents.document("push", report.to_json()))
    else:
        _print(context, plan, report, dry=given.dry_run)
    if given.dry_run:
        op.require_clean(plan)
    op.require_accepted(report)
    end(IN_PART if report.refused or (plan.left and not given.dry_run) else 0)


def _names(context: Context, given: Options) -> list[str]:
    """Return the sessions to push."""
    known = context.store.sessions()
    if sum(map(bool, (given.every, given.session, given.sessions))) > 1:
        raise BadValue(
            "--all, --session and names of sessions cannot be used together", hint="gitcp push -h"
        )
    if given.sessions:
        return list(
            dict.fromkeys(session_op.expand(context.store, name) for name in given.sessions)
        )
    return sorted(known) if given.every else [context.session(given.session)]


def _print(context: Context, plan: op.PushPlan, report: PushReport, *, dry: bool) -> None:
    refused, left = dict(report.refused), plan.left
    secrets = {finding.id for finding in plan.redacted}
    if secrets and plan.sending:
        context.output.say(
            f"without {humanize.count(len(secrets), 'secret')}: sending a redacted copy"
        )
    for item in plan.items:
        what = f"{item.kind} {item.name}"
        new = (
            f"  ({humanize.count(item.checkpoints, 'new checkpoint')})"
            if item.kind == "session"
            else ""
        )
        if item in refused:
            context.output.line(Styled("refused", RED), f" {what}: {refused[item]}")
        elif item in report.sent:
            context.output.line(Styled("sent", GREEN), f" {what} to {plan.remote.name}{new}")
        elif dry and item in plan.sending:
            context.output.line(f"would send {what} to {plan.remote.name}{new}")
        elif item in left:
            context.output.line(Styled("not sent:", RED), f" {what}: {left[item]}")
        elif item.kind == "session":
            result = RESULTS.get(item.state, "").format(remote=plan.remote.name)
            context.output.line(f"{what} {result}")
    for each in report.trashed:
        name = next(iter(each.dropped))
        context.output.say(
            f"what was fetched of {name} before is in the trash: gitcp undo {each.number}"
        )
    if report.catalogue:
        context.output.say(
            f"note: `gitcp fetch --list` shows no titles of these sessions: {report.catalogue}"
        )


def _delete(context: Context, to: Remote, given: Options) -> None:
    """Delete sessions on a remote, after the plan and a question."""
    _check_delete(given)
    plan = push_delete.plan(context.store, to, given.sessions, force=given.force)
    if given.dry_run:
        _show_delete(context, plan, RemoteDeleteReport((), {}), as_json=given.as_json)
        return
    if not given.yes:
        no = "not deleted: nothing was changed"
        nobody = push_delete.NOTHING
        confirm.ask(context, "Delete?", _delete_lines(context, plan), nobody=nobody, no=no)
    report = push_delete.delete(context.store, plan)
    _show_delete(context, plan, report, as_json=given.as_json, done=True)
    if report.refused and not report.deleted:
        ref, why = next(iter(report.refused.items()))
        raise GitcpError(
            f"{plan.remote.name} refused to delete {ref}: {why}",
            hint=f"gitcp fetch {plan.remote.name}",
        )
    end(IN_PART if report.refused else 0)


def _check_delete(given: Options) -> None:
    other = next((name for target, name in NOT_WITH_DELETE.items() if getattr(given, target)), None)
    if other:
        raise BadValue(f"--delete and {other} cannot be used together", hint="gitcp push -h")
    if not given.sessions:
        raise BadValue(
            f"name the sessions to delete; {push_delete.NOTHING}",
            hint=f"gitcp fetch {given.remote or ''}".rstrip() + " --list",
        )


def _show_delete(
    context: Context,
    plan: RemoteDeletePlan,
    report: RemoteDeleteReport,
    *,
    as_json: bool,
    done: bool = False,
) -> None:
    if as_json:
        context.output.document(documents.document("push-delete", _delete_fields(plan, report)))
    elif done:
        _print_delete(context, plan, report)
    else:
        for line in _delete_lines(context, plan):
            context.output.line(line)


def _delete_lines(context: Context, plan: RemoteDeletePlan) -> Iterator[str]:
    for each in plan.deletions:
        yield f"delete session {each.session} on {plan.remote.name}: {_deletion(context, each)}"
        if each.tags:
            yield f"  tags to delete: {', '.join(each.tags)}"
        if not each.chain and plan.listed.tags:
            yield "  its tags would stay: gitcp cannot tell which they are"
        if each.shared:
            count = humanize.count(each.shared, "checkpoint")
            yield f"  {count} of another session there would stay"


def _deletion(context: Context, each: Deletion) -> str:
    """Return whose a session is, and when it was saved last, as far as that is known here."""
    now = context.host.now()
    if each.chain:
        count = humanize.count(len(each.chain), "checkpoint")
        return f"{count}, last saved {humanize.ago(each.chain[0].created, now)} by {each.author}"
    if each.entry and each.entry.time:
        saved = humanize.ago(wire.decode_time(each.entry.time), now)
        return f"not in this repository, last saved {saved}: {each.entry.title}"
    return "not in this repository"


def _print_delete(context: Context, plan: RemoteDeletePlan, report: RemoteDeleteReport) -> None:
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


def _delete_fields(plan: RemoteDeletePlan, report: RemoteDeleteReport) -> wire.Json:
    return {
        "remote": plan.remote.name,
        "sessions": [
            {**_deleted_session(each), "deleted": each.session in report.deleted}
            for each in plan.deletions
        ],
        "refused": [{"ref": ref, "reason": why} for ref, why in report.refused.items()],
        "catalogue": report.catalogue or None,
    }


def _deleted_session(each: Deletion) -> wire.Json:
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
