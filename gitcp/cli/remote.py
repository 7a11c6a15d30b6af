"""`gitcp remote`."""

from __future__ import annotations

from typing import Any

import click

from gitcp import wire
from gitcp.cli import objects
from gitcp.cli.context import Context
from gitcp.cli.options import WORDS, Command, json_option, pass_context
from gitcp.sharing import remotes as op
from gitcp.sharing.remotes import Remote


@click.command(cls=Command)
@click.argument("name", required=False, type=WORDS, metavar="[NAME")
@click.argument("url", required=False, type=WORDS, metavar="[URL]]")
@click.option(
    "--as-branches", is_flag=True, help="use branches and tags, for hosts that take nothing else"
)
@click.option("--off", is_flag=True, help="let no more checkpoints go there")
@json_option
@pass_context
def command(context: Context, /, **given: Any) -> None:
    """Say which remotes checkpoints may go to, or list them

    To none, until you name one. With a URL a remote of its own is made, which git's own push and
    fetch leave alone: a private repository, for example.

      gitcp remote origin
      gitcp remote private git@host:team/checkpoints.git
      gitcp remote origin --off
    """
    repo, name = context.store.repo, given["name"]
    if name is None:
        if given["as_branches"] or given["off"]:
            raise click.UsageError("which remote? give its name")
        found = op.listing(repo)
    elif given["off"]:
        if given["url"] is not None or given["as_branches"]:
            raise click.UsageError("--off takes a name and nothing else")
        found = (op.disable(repo, name),)
    else:
        found = (op.enable(repo, name, given["url"], as_branches=given["as_branches"]),)
    for one in found:
        if given["as_json"]:
            context.output.document(objects.document("remote", _fields(one)))
        else:
            context.output.line(f"{one.name}  {one.shown}  {_said(one)}")


def _fields(one: Remote) -> wire.Json:
    return {
        "name": one.name,
        "url": one.shown,
        "enabled": one.enabled,
        "as_branches": one.as_branches,
    }


def _said(one: Remote) -> str:
    if not one.enabled:
        return "(no checkpoints)"
    return "(checkpoints, as branches)" if one.as_branches else "(checkpoints)"
