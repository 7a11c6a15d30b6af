"""`gitcp fetch`."""

from __future__ import annotations

from typing import Any

import click

from gitcp import wire
from gitcp.cli import humanize, objects
from gitcp.cli.context import Context
from gitcp.cli.failure import IN_PART, end
from gitcp.cli.options import WORDS, Command, json_option, pass_context
from gitcp.cli.output import GREEN, RED, Styled
from gitcp.errors import StoreDamaged
from gitcp.sharing import fetch as op
from gitcp.sharing import partial_fetch, remotes
from gitcp.sharing.fetch import Fetched
from gitcp.sharing.push import State

SAID = {
    State.SAME: "as here",
    State.AHEAD: "you have more: gitcp push",
    State.BEHIND: "goes on where yours ends: gitcp restore {name} --trust",
    State.NEW: "look: gitcp show {name}, continue: gitcp restore {name} --trust",
    State.REWRITTEN: "the same checkpoints, rewritten there or here (pruned, purged or redacted)",
    State.DIVERGED: "yours went another way, and they are never merged: gitcp fork {name} --trust",
}


@click.command(cls=Command)
@click.argument("remote", required=False, type=WORDS, metavar="[REMOTE]")
@click.argument("sessions", nargs=-1, type=WORDS, metavar="[SESSION]...")
@click.option(
    "--list", "-l", "listing", is_flag=True, help="list the remote's sessions and download nothing"
)
@click.option(
    "--no-files", is_flag=True, help="leave the contents of files there: enough for log and show"
)
@json_option
@pass_context
def command(context: Context, /, **given: Any) -> None:
    """Get sessions from a remote, to look at or to go on with

    What arrives is checked whole before it gets a name, and your own sessions stay as they are. It
    is then called REMOTE/SESSION. Restoring it needs --trust: it comes from somebody else.

      gitcp fetch
      gitcp fetch private --list
      gitcp fetch private --no-files
      gitcp log origin/e7baae82
    """
    source = remotes.choose(context.store.repo, given["remote"])
    if given["listing"] and given["no_files"]:
        raise click.UsageError("--list downloads nothing at all: leave out --no-files")
    if given["no_files"]:
        found = partial_fetch.fetch_part(context.store, source, given["sessions"])
    elif given["listing"]:
        found = op.listing(context.store, source)
    else:
        found = op.fetch(context.store, source, given["sessions"])
    for one in found:
        if given["as_json"]:
            fields = {
                **_fields(source.name, one),
                "files": not (given["no_files"] or given["listing"]),
            }
            context.output.document(objects.document("fetched", fields))
        else:
            _print(context, source.name, one, listing=given["listing"], whole=not given["no_files"])
    if not found and not given["as_json"]:
        context.output.line(f"{source.name} has no sessions")
    _end(found, listing=given["listing"])


def _end(found: tuple[Fetched, ...], *, listing: bool) -> None:
    refused = [one for one in found if one.refused]
    if refused and len(refused) == len(found) and not listing:
        raise StoreDamaged(
            f"nothing was taken. {refused[0].session}: {refused[0].refused}",
            hint="gitcp fetch --list",
        )
    end(IN_PART if refused else 0)


def _fields(name: str, one: Fetched) -> wire.Json:
    return {
        "remote": name,
        "session": one.session,
        "commit": one.tip,
        "state": one.state.value if one.state else None,
        "checkpoints": one.checkpoints,
        "refused": one.refused or None,
    }


def _print(context: Context, remote: str, one: Fetched, *, listing: bool, whole: bool) -> None:
    name = f"{remote}/{one.session}"
    if one.refused:
        context.output.line(Styled("refused", RED), f" {name}: {one.refused}")
    elif listing:
        context.output.line(f"{name}  {one.tip[:10]}")
    elif not whole:
        count = humanize.count(one.checkpoints, "checkpoint") + " new, without their files"
        said = f"look: gitcp show {name}, all of it: gitcp fetch {remote} {one.session}"
        context.output.line(Styled("fetched", GREEN), f" {name}  ({count}); {said}")
    else:
        said = SAID[one.state].format(name=name) if one.state else ""
        new = humanize.count(one.checkpoints, "checkpoint") + " new"
        context.output.line(Styled("fetched", GREEN), f" {name}  ({new}); {said}")
