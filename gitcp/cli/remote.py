"""`gitcp remote`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import click

from gitcp import documents, wire
from gitcp.cli.context import Context
from gitcp.cli.options import WORDS, Command, allow_filtered_option, json_option
from gitcp.errors import BadValue
from gitcp.sharing import remotes as op
from gitcp.sharing.remotes import Remote
from gitcp.state.push_policy import PushPolicy
from gitcp.value import Value

HABITS = ("get-url", "remove", "rename", "rm", "set-url", "show")
"""Subcommands of `git remote`. Taken as a name, `show origin` would add a remote called show."""

ADD = "add"
"""A first word that changes nothing, for those used to `git remote add`."""

WHEN = {
    PushPolicy.ALWAYS: ", pushed after each save",
    PushPolicy.ON_TAG: ", pushed when tagged",
    PushPolicy.NEVER: "",
}


class Options(Value):
    """What was typed."""

    words: tuple[str, ...]
    push: str | None
    unfiltered: bool
    as_branches: bool
    off: bool
    as_json: bool


@click.command(cls=Command)
@click.argument("words", type=WORDS, nargs=-1, required=False, metavar="[[add] NAME [URL]]")
@click.option(
    "--push", type=WORDS, metavar="WHEN", help="push in the background: always, on-tag or never"
)
@allow_filtered_option
@click.option(
    "--as-branches", is_flag=True, help="store as branches and tags, for hosts that reject others"
)
@click.option("--off", is_flag=True, help="stop pushing checkpoints there")
@json_option
@click.pass_obj
def command(context: Context, /, **values: Any) -> None:
    """List the remotes checkpoints may go to, or change them

    No remote is enabled until you name one. With URL, adds a remote that git's own push and fetch
    do not use. With --push, gitcp pushes by itself after each save, or when you tag a checkpoint.

      gitcp remote origin
      gitcp remote add origin --push always
      gitcp remote private git@host:team/checkpoints.git
      gitcp remote origin --off
    """
    given = Options(**values)
    repo, (name, url) = context.store.repo, _words(given.words)
    policy = _policy(given.push)
    if given.unfiltered and policy in (None, PushPolicy.NEVER):
        raise BadValue("--allow-filtered needs --push always or on-tag", hint="gitcp remote -h")
    if name is None:
        if given.as_branches or given.off or policy:
            raise BadValue("NAME is required with options", hint="gitcp remote -h")
        remotes = op.listing(repo)
    elif given.off:
        if url is not None or given.as_branches or policy:
            raise BadValue("--off takes only a name", hint="gitcp remote -h")
        remotes = (op.disable(repo, name),)
    else:
        as_branches = given.as_branches or (policy is not None and op.is_as_branches(repo, name))
        remotes = (op.enable(repo, name, url, as_branches=as_branches),)
        if policy is not None:
            op.allow_pushes(repo, remotes[0], policy, unfiltered=given.unfiltered)
    for one in remotes:
        when = op.policy_of(repo, one)
        if given.as_json:
            context.output.document(documents.document("remote", _fields(one, when)))
        else:
            shown = one.shown or "no such remote any more"
            context.output.line(f"{one.name}  {shown}  {_said(one, when)}")


def _words(words: Sequence[str]) -> tuple[str | None, str | None]:
    """Return the name and the URL that were given."""
    if words[:1] and words[0] in HABITS:
        raise _no_subcommand(words[0], words[1] if words[1:] else None)
    name, url, *more = (*words[words[:1] == (ADD,) :], None, None)
    if any(more) or (name is None and words):
        raise BadValue("expected NAME [URL]; nothing was changed", hint="gitcp remote -h")
    return name, url


def _policy(text: str | None) -> PushPolicy | None:
    if text is None:
        return None
    try:
        return PushPolicy(text)
    except ValueError:
        raise BadValue(
            f"--push takes always, on-tag or never, not {text!r}; nothing was changed",
            hint="gitcp remote -h",
        ) from None


def _no_subcommand(word: str, name: str | None) -> BadValue:
    off = " --off" if word in ("remove", "rm") else ""
    hint = shlex.join(["gitcp", "remote", name]) + off if name and off else "gitcp remote"
    if word == "set-url" and name:
        hint = shlex.join(["git", "remote", word, name]) + " URL"
    return BadValue(f"gitcp remote has no subcommand {word}: nothing was changed", hint=hint)


def _fields(one: Remote, when: PushPolicy) -> wire.Json:
    return {
        "name": one.name,
        "url": one.shown,
        "enabled": one.enabled,
        "as_branches": one.as_branches,
        "push": when.value,
    }


def _said(one: Remote, when: PushPolicy) -> str:
    if not one.enabled:
        return "(no checkpoints)"
    branches = ", as branches" if one.as_branches else ""
    return f"(checkpoints{branches}{WHEN[when]})"
