"""`gitcp fetch`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from gitcp import documents, humanize, wire
from gitcp.cli.context import Context
from gitcp.cli.failure import IN_PART, end
from gitcp.cli.options import WORDS, Command, json_option
from gitcp.cli.output import GREEN, RED, YELLOW, Styled
from gitcp.cli.table import TableColumn, show
from gitcp.errors import BadValue
from gitcp.sharing import fetch, remotes
from gitcp.sharing import fetch as op
from gitcp.sharing.fetch import Fetched
from gitcp.sharing.push import RefState
from gitcp.value import Value

RESULTS = {
    RefState.SAME: "up to date",
    RefState.AHEAD: "you have more: gitcp push {sent}",
    RefState.BEHIND: "has newer checkpoints than yours: gitcp restore {name} --trust",
    RefState.NEW: "show: gitcp show {name}, continue: gitcp restore {name} --trust",
    RefState.REWRITTEN: "same checkpoints, rewritten there or here (pruned, purged or redacted)",
    RefState.DIVERGED: "diverged from yours; sessions are never merged: gitcp fork {name} --trust",
}

DAMAGED = "your session of this name is damaged: gitcp doctor --store"


class Options(Value):
    """What was typed."""

    remote: str | None
    sessions: tuple[str, ...]
    listing: bool
    no_files: bool
    as_json: bool


@click.command(cls=Command)
@click.argument("remote", type=WORDS, required=False, metavar="[REMOTE]")
@click.argument("sessions", type=WORDS, nargs=-1, required=False, metavar="[SESSION]...")
@click.option(
    "--list", "-l", "listing", is_flag=True, help="list the remote's sessions, download nothing"
)
@click.option("--no-files", is_flag=True, help="skip file contents; enough for log and show")
@json_option
@click.pass_obj
def command(context: Context, /, **values: Any) -> None:
    """Fetch sessions from a remote

    Fetched sessions are verified, then named REMOTE/SESSION; your own sessions are unchanged.
    Restoring one needs --trust, because it comes from another repository.

      gitcp fetch
      gitcp fetch private --list
      gitcp fetch private --no-files
      gitcp log origin/e7baae82
    """
    given = Options(**values)
    source = remotes.choose(context.store.repo, given.remote)
    if given.listing and given.no_files:
        raise BadValue("--list and --no-files cannot be used together", hint="gitcp fetch -h")
    if given.no_files:
        sessions = fetch.fetch_part(context.store, source, given.sessions)
    elif given.listing:
        sessions = op.listing(context.store, source, given.sessions)
    else:
        sessions = op.fetch(context.store, source, given.sessions)
    if given.listing and not given.as_json:
        _print_list(context, source.name, sessions)
    for one in sessions:
        if given.as_json:
            fields = {
                "remote": source.name,
                **one.to_json(),
                "files": not (given.no_files or given.listing),
            }
            context.output.document(documents.document("fetched", fields))
        elif not given.listing:
            _print(context, source.name, one, whole=not given.no_files)
    if not sessions and not given.as_json:
        context.output.line(f"{source.name} has no sessions")
    if not given.listing:
        op.require_accepted(source, sessions)
    end(IN_PART if any(one.refused for one in sessions) else 0)


def _print_list(context: Context, remote: str, sessions: tuple[Fetched, ...]) -> None:
    now = context.host.now()
    columns = (
        TableColumn("session", YELLOW),
        TableColumn("last saved"),
        TableColumn("agent"),
        TableColumn("title", cut=True),
    )
    show(context.output, columns, (_row(remote, one, now) for one in sessions))


def _row(remote: str, one: Fetched, now: datetime) -> tuple[str, str, str, str]:
    name, entry = f"{remote}/{one.session}", one.entry
    if one.refused:
        return name, "", "", f"refused: {one.refused}"
    if entry is None:
        return name, "", "", ""
    saved = humanize.ago(wire.decode_time(entry.time), now) if entry.time else ""
    return name, saved, entry.agent, entry.title


def _print(context: Context, remote: str, one: Fetched, *, whole: bool) -> None:
    name = f"{remote}/{one.session}"
    if one.refused:
        context.output.line(Styled("refused", RED), f" {name}: {one.refused}")
    elif not whole:
        count = humanize.count(one.checkpoints, "new checkpoint") + ", without their files"
        rest = f"show: gitcp show {name}, with files: gitcp fetch {remote} {one.session}"
        context.output.line(Styled("fetched", GREEN), f" {name}  ({count}); {rest}")
    else:
        rest = (
            RESULTS[one.state].format(name=name, sent=f"{remote} {one.session}")
            if one.state
            else DAMAGED
        )
        new = humanize.count(one.checkpoints, "new checkpoint")
        if one.operation:
            are = "is" if one.dropped == 1 else "are"
            count = humanize.count(one.dropped, "checkpoint")
            rest += f"; {count} fetched before {are} in the trash: gitcp undo {one.operation}"
        context.output.line(Styled("fetched", GREEN), f" {name}  ({new}); {rest}")
