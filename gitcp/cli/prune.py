"""`gitcp prune`."""

from __future__ import annotations

from typing import Any

import click

from gitcp.cli import prune_view
from gitcp.cli.context import Context
from gitcp.cli.options import Command, json_option, pass_context, session_option, yes_option
from gitcp.history import dates
from gitcp.lifecycle import prune as op
from gitcp.lifecycle.prune import Request
from gitcp.retention import Policy

COUNT = click.IntRange(0)


class Length(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """A length of time, like 24h or 14d."""

    name = "length"

    # click's
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ARG002
        return dates.parse_length(value) if isinstance(value, str) else value


@click.command(cls=Command)
@click.option(
    "--keep-last", metavar="N", type=COUNT, default=10, help="keep the last N of each session (10)"
)
@click.option(
    "--keep-within",
    metavar="TIME",
    type=Length(),
    help="keep what is no older than, say, 24h or 14d",
)
@click.option(
    "--keep-hourly", metavar="N", type=COUNT, default=0, help="keep the last of each of N hours"
)
@click.option(
    "--keep-daily", metavar="N", type=COUNT, default=0, help="keep the last of each of N days"
)
@click.option(
    "--keep-weekly", metavar="N", type=COUNT, default=0, help="keep the last of each of N weeks"
)
@click.option(
    "--keep-monthly", metavar="N", type=COUNT, default=0, help="keep the last of each of N months"
)
@click.option("--keep-labelled", is_flag=True, help="keep what has a label")
@click.option(
    "--expire",
    metavar="TIME",
    type=Length(),
    default="14d",
    help="forget what was dropped so long ago (14d)",
)
@click.option("--dry-run", "-n", is_flag=True, help="show what would be kept and dropped, and why")
@yes_option
@session_option
@json_option
@pass_context
def command(context: Context, /, **given: Any) -> None:
    """Drop checkpoints that no rule keeps

    Of all sessions, or of the one that --session names. What is tagged, where a fork begins, the
    last one of a session and what a restore saved in the last 7 days always stay. Ids and numbers
    do not change. What is dropped stays in the trash for 14 days: `gitcp undo` brings it back. git
    frees the space later, by itself.

      gitcp prune --dry-run
      gitcp prune --keep-last 20 --keep-daily 14
      gitcp prune --keep-last 0 --keep-within 24h --session e7ba
    """
    request = Request(
        _policy(given),
        context.session(given["session"]) if given["session"] else None,
        given["expire"],
    )
    if given["dry_run"]:
        prune_view.show(context, op.plan(context.store, request), as_json=given["as_json"])
        return
    agreed = None if given["yes"] else op.plan(context.store, request)
    if agreed:
        prune_view.agree(context, agreed)
    prune_view.report(context, op.prune(context.store, request, agreed), as_json=given["as_json"])


def _policy(given: dict[str, Any]) -> Policy:
    return Policy(
        last=given["keep_last"],
        within=given["keep_within"],
        hourly=given["keep_hourly"],
        daily=given["keep_daily"],
        weekly=given["keep_weekly"],
        monthly=given["keep_monthly"],
        labelled=given["keep_labelled"],
    )
