"""`gitcp publish`."""

from __future__ import annotations

from typing import Any

import click

from gitcp import wire
from gitcp.cli import confirm, humanize, objects
from gitcp.cli.context import Context
from gitcp.cli.options import (
    REVISION,
    WORDS,
    Command,
    json_option,
    pass_context,
    session_option,
    trust_option,
    yes_option,
)
from gitcp.cli.output import BOLD, GREEN, Styled
from gitcp.errors import Refused
from gitcp.review import publish as op
from gitcp.review.publish import Plan
from gitcp.state import settings


@click.command(cls=Command)
@click.argument("revision", default="@", type=REVISION, metavar="[REV]")
@click.option("--branch", metavar="NAME", required=True, type=WORDS, help="the branch to make")
@click.option(
    "--base",
    metavar="COMMIT",
    type=WORDS,
    help="put it on top of COMMIT, not of where the session began",
)
@click.option("--redact", is_flag=True, help="put [REDACTED:…] where a secret is in a file")
@click.option(
    "--allow",
    multiple=True,
    metavar="ID",
    type=WORDS,
    help="let this secret pass, this time (can be repeated)",
)
@click.option("--force", is_flag=True, help="move the branch if it exists")
@click.option("--dry-run", "-n", is_flag=True, help="show the branch and make none")
@yes_option
@trust_option
@session_option
@json_option
@pass_context
def command(context: Context, /, **given: Any) -> None:
    """Make a branch of a session, for a pull request

    One commit for each checkpoint that changed files, up to REV, and a last one with the
    conversation in .gitcp/, which forges fold. What is new is scanned for secrets first. HEAD and
    your files stay as they are, and nothing is pushed.

      gitcp publish --branch feature
      gitcp publish 12 --branch feature --base main
      git push origin feature
    """
    plan = op.plan(context.store, _request(context, given))
    if given["dry_run"]:
        _show(context, plan, as_json=given["as_json"])
        return
    if not given["yes"]:
        try:
            said = "no branch was made"
            confirm.ask(context, "Make the branch?", _lines(plan), nobody=said, no=said)
        except Refused:
            context.store.objects.discard()
            raise
    op.publish(context.store, plan)
    if given["as_json"]:
        context.output.document(objects.document("publish", _fields(plan)))
        return
    name, count = plan.request.branch, humanize.count(len(plan.commits), "commit")
    what = Styled(str(plan.request.checkpoint.id), BOLD)
    context.output.line(Styled("published", GREEN), " ", what, f" as branch {name}  ({count})")
    context.output.line(f"send it with: git push REMOTE {name}")


def _request(context: Context, given: dict[str, Any]) -> op.Request:
    return op.Request(
        checkpoint=context.checkpoint(given["revision"], given["session"]),
        branch=given["branch"],
        base=given["base"],
        force=given["force"],
        trust=given["trust"],
        allowed=settings.allowed_secrets(context.store.repo) | set(given["allow"]),
        redact=given["redact"],
    )


def _show(context: Context, plan: Plan, *, as_json: bool) -> None:
    context.store.objects.discard()
    if as_json:
        context.output.document(objects.document("publish-plan", _fields(plan)))
        return
    for line in _lines(plan):
        context.output.line(line)


def _lines(plan: Plan) -> list[str]:
    moved = f", which is at {plan.old[:10]} now" if plan.old else ""
    lines = [f"branch {plan.request.branch}{moved}, on top of {plan.base[:10]}:"]
    lines += [
        f"  {each.commit[:10]}  {humanize.count(each.files, 'file')}  {each.subject}"
        for each in plan.commits
    ]
    if plan.masked:
        lines.append(f"  {humanize.count(plan.masked, 'secret')} in the conversation left out")
    return lines


def _fields(plan: Plan) -> wire.Json:
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
    }
