"""`gitcp publish`."""

from __future__ import annotations

from typing import Any

import click

from gitcp import documents, humanize, wire
from gitcp.cli import allowing, confirm
from gitcp.cli.context import Context
from gitcp.cli.options import (
    REVISION,
    WORDS,
    Command,
    allow_option,
    dry_run_option,
    json_option,
    rare,
    session_option,
    trust_option,
    yes_option,
)
from gitcp.cli.output import BOLD, GREEN, Styled
from gitcp.errors import Refused
from gitcp.review import publish as op
from gitcp.review.publish import PublishPlan
from gitcp.sharing import filtered
from gitcp.value import Value


class Options(Value):
    """What was typed."""

    revision: str
    branch: str
    base: str | None
    redact: bool
    allow: tuple[str, ...]
    force: bool
    dry_run: bool
    yes: bool
    trust: bool
    session: str | None
    as_json: bool


@click.command(cls=Command)
@click.argument("revision", type=REVISION, metavar="[REV]", default="@")
@click.option("--branch", type=WORDS, metavar="NAME", required=True, help="the branch to create")
@click.option(
    "--base", type=WORDS, metavar="COMMIT", help="base of the branch (default: the session's base)"
)
@click.option("--redact", is_flag=True, help="replace secrets in files with [REDACTED:…]")
@rare(allow_option)
@click.option("--force", is_flag=True, help="move the branch if it exists")
@dry_run_option
@yes_option
@rare(trust_option)
@rare(session_option)
@json_option
@click.pass_obj
def command(context: Context, /, **values: Any) -> None:
    """Make a branch from a session, for a pull request

    Creates one commit for each checkpoint up to REV that changed files, and a last one with the
    conversation in .gitcp/. Git runs your filters. New content is scanned for secrets first. HEAD
    and your files are unchanged, and nothing is pushed.

      gitcp publish --branch feature
      gitcp publish 12 --branch feature --base main
      git push origin feature
    """
    given = Options(**values)
    plan = op.plan(context.store, _request(context, given))
    allowing.say_known(context, plan.known, [f"its base {plan.base[:10]}"])
    if given.dry_run:
        _show(context, plan, as_json=given.as_json)
        return
    if not given.yes:
        try:
            outcome = "no branch was created"
            confirm.ask(context, "Create the branch?", _lines(plan), nobody=outcome, no=outcome)
        except Refused:
            context.store.writer.discard()
            raise
    op.publish(context.store, plan)
    if given.as_json:
        context.output.document(documents.document("publish", _fields(plan)))
        return
    name, count = plan.request.branch, humanize.count(len(plan.commits), "commit")
    what = Styled(str(plan.request.checkpoint.id), BOLD)
    context.output.line(Styled("published", GREEN), " ", what, f" as branch {name}  ({count})")
    context.output.line(f"push it with: git push REMOTE {name}")


def _request(context: Context, given: Options) -> op.PublishRequest:
    return op.PublishRequest(
        checkpoint=context.checkpoint(given.revision, given.session),
        branch=given.branch,
        base=given.base,
        force=given.force,
        trust=given.trust,
        allowed=allowing.answered(context, given.allow, dry_run=given.dry_run),
        redact=given.redact,
    )


def _show(context: Context, plan: PublishPlan, *, as_json: bool) -> None:
    context.store.writer.discard()
    if as_json:
        context.output.document(documents.document("publish-plan", _fields(plan)))
        return
    for line in _lines(plan):
        context.output.line(line)


def _lines(plan: PublishPlan) -> list[str]:
    moved = f", which is at {plan.old[:10]} now" if plan.old else ""
    lines = [f"branch {plan.request.branch}{moved}, on top of {plan.base[:10]}:"]
    lines += [
        f"  {each.commit[:10]}  {humanize.count(each.files, 'file')}  {each.subject}"
        for each in plan.commits
    ]
    lines += [f"  as git commits it: {line}" for line in filtered.lines(plan.filtered)]
    if plan.masked:
        lines.append(f"  {humanize.count(plan.masked, 'secret')} in the conversation redacted")
    return lines


def _fields(plan: PublishPlan) -> wire.Json:
    return {
        "branch": plan.request.branch,
        "checkpoint": str(plan.request.checkpoint.id),
        "base": plan.base,
        "old": plan.old,
        "tip": plan.tip,
        "commits": [
            {
                "commit": each.commit,
                "checkpoint": str(each.checkpoint) if each.checkpoint else None,
                "subject": each.subject,
                "files": each.files,
            }
            for each in plan.commits
        ],
        "masked": plan.masked,
        "filtered": [wire.encode_path(path) for path in sorted(plan.filtered)],
    }
