"""`gitcp remote`."""

from __future__ import annotations

import shlex
from typing import Any

from gitcp import wire
from gitcp.cli import objects
from gitcp.cli.context import Context
from gitcp.cli.options import WORDS, argument, flag, json_option, takes
from gitcp.errors import BadValue
from gitcp.sharing import remotes as op
from gitcp.sharing.remotes import Remote

HABITS = ("add", "get-url", "remove", "rename", "rm", "set-url", "show")
"""Subcommands of `git remote`. Taken as a name, `add origin` would add a remote called add."""


@takes(
    argument("name", WORDS, required=False, metavar="[NAME"),
    argument("url", WORDS, required=False, metavar="[URL]]"),
    flag("--as-branches", help="use branches and tags, for hosts that take nothing else"),
    flag("--off", help="stop pushing checkpoints there"),
    json_option,
)
def command(context: Context, /, **given: Any) -> None:
    """List the remotes checkpoints may go to, or change them

    No remote is enabled until you name one. With URL, adds a remote that git's own push and fetch
    do not use: a private repository, for example.

      gitcp remote origin
      gitcp remote private git@host:team/checkpoints.git
      gitcp remote origin --off
    """
    repo, name = context.store.repo, given["name"]
    if name in HABITS:
        raise _no_subcommand(name, given["url"])
    if name is None:
        if given["as_branches"] or given["off"]:
            raise BadValue("NAME is required with --as-branches and --off", hint="gitcp remote -h")
        remotes = op.listing(repo)
    elif given["off"]:
        if given["url"] is not None or given["as_branches"]:
            raise BadValue("--off takes only a name", hint="gitcp remote -h")
        remotes = (op.disable(repo, name),)
    else:
        remotes = (op.enable(repo, name, given["url"], as_branches=given["as_branches"]),)
    for one in remotes:
        if given["as_json"]:
            context.output.document(objects.document("remote", _fields(one)))
        else:
            context.output.line(f"{one.name}  {one.shown}  {_said(one)}")


def _no_subcommand(word: str, name: str | None) -> BadValue:
    off = " --off" if word in ("remove", "rm") else ""
    hint = shlex.join(["gitcp", "remote", name]) + off if name else "gitcp remote -h"
    return BadValue(f"gitcp remote has no subcommand {word}: nothing was changed", hint=hint)


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
