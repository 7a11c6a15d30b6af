"""`gitcp delete --old`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from gitcp.cli import prune_view
from gitcp.cli.context import Context
from gitcp.cli.options import NUMBER, Command, Type, json_option, rare, session_option, yes_option
from gitcp.history import dates
from gitcp.lifecycle import prune as op
from gitcp.lifecycle.prune import PruneRequest
from gitcp.retention import Policy
from gitcp.value import Value


class Length(Type):
    """A length of time, like 24h or 14d."""

    name = "length"

    def read(self, text: str) -> timedelta:
        return dates.parse_length(text)


class Options(Value):
    """What was typed."""

    keep_last: int
    keep_within: timedelta | None
    keep_hourly: int
    keep_daily: int
    keep_weekly: int
    keep_monthly: int
    keep_labelled: bool
    expire: timedelta
    dry_run: bool
    yes: bool
    session: str | None
    as_json: bool


@click.command(cls=Command)
@click.option(
    "--keep-last", type=NUMBER, metavar="N", default=10, help="keep the last N of each session (10)"
)
@click.option(
    "--keep-within",
    type=Length(),
    metavar="TIME",
    help="keep checkpoints newer than TIME (24h, 14d)",
)
@rare(
    click.option(
        "--keep-hourly",
        type=NUMBER,
        metavar="N",
        default=0,
        help="keep the last of each of N hours",
    )
)
@click.option(
    "--keep-daily", type=NUMBER, metavar="N", default=0, help="keep the last of each of N days"
)
@rare(
    click.option(
        "--keep-weekly",
        type=NUMBER,
        metavar="N",
        default=0,
        help="keep the last of each of N weeks",
    )
)
@rare(
    click.option(
        "--keep-monthly",
        type=NUMBER,
        metavar="N",
        default=0,
        help="keep the last of each of N months",
    )
)
@rare(click.option("--keep-labelled", is_flag=True, help="keep labelled checkpoints"))
@rare(
    click.option(
        "--expire",
        type=Length(),
        metavar="TIME",
        default=timedelta(days=14),
        help="empty the trash of entries older than TIME (14d)",
    )
)
@click.option("--dry-run", "-n", is_flag=True, help="show what would be kept and dropped, and why")
@yes_option
@session_option
@json_option
@click.pass_obj
def command(context: Context, /, **values: Any) -> None:
    """Delete old checkpoints by retention rules

    In all sessions, or the one given with --session. Tags, fork points, the last checkpoint of a
    session and what restores saved in the last 7 days are always kept. Deleted checkpoints stay in
    the trash for 14 days; `gitcp undo` restores them.

      gitcp delete --old --dry-run
      gitcp delete --old --keep-last 20 --keep-daily 14
      gitcp delete --old --keep-last 0 --keep-within 24h --session e7ba
    """
    given = Options(**values)
    request = PruneRequest(
        _policy(given),
        context.session(given.session) if given.session else None,
        given.expire,
    )
    if given.dry_run:
        prune_view.show(context, op.plan(context.store, request), as_json=given.as_json)
        return
    agreed = None if given.yes else op.plan(context.store, request)
    if agreed:
        prune_view.agree(context, agreed)
    prune_view.report(context, op.prune(context.store, request, agreed), as_json=given.as_json)


def _policy(given: Options) -> Policy:
    return Policy(
        last=given.keep_last,
        within=given.keep_within,
        hourly=given.keep_hourly,
        daily=given.keep_daily,
        weekly=given.keep_weekly,
        monthly=given.keep_monthly,
        labelled=given.keep_labelled,
    )
