"""`gitcp fork`."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import click

from gitcp.cli import objects, restore_view
from gitcp.cli.context import Context
from gitcp.cli.failure import IN_PART, end
from gitcp.cli.options import (
    REVISION,
    WORDS,
    Command,
    json_option,
    pass_context,
    session_option,
    trust_option,
)
from gitcp.cli.output import BOLD, GREEN, Styled
from gitcp.errors import BadValue
from gitcp.lifecycle import fork as op
from gitcp.lifecycle.fork import Forked


@click.command(cls=Command)
@click.argument("revision", default="@", type=REVISION, metavar="[REV]")
@click.option("--name", metavar="NAME", type=WORDS, help="call the new session so")
@click.option(
    "--worktree", metavar="DIR", help="make a working tree of git's in DIR, with the files of REV"
)
@click.option(
    "--branch",
    metavar="NAME",
    type=WORDS,
    help="make a branch where REV stands, for that working tree",
)
@trust_option
@session_option
@json_option
@pass_context
def command(context: Context, /, **given: Any) -> None:
    """Begin a new session at a checkpoint, beside the old one

    Both go on, each with a conversation of its own. Files, HEAD and branches of this working tree
    stay as they are: go there with `gitcp restore`, or take a working tree for it.

      gitcp fork
      gitcp fork 12 --name postgres
      gitcp fork 12 --worktree ../postgres --branch postgres
      gitcp log --graph --all
    """
    forked = op.fork(context.store, _request(context, given))
    if given["as_json"]:
        context.output.document(objects.document("fork", objects.forked(forked)))
    else:
        _print(context, forked, given["worktree"] or "")
    end(IN_PART if forked.failed else 0)


def _request(context: Context, given: dict[str, Any]) -> op.Request:
    if given["worktree"] == "":
        raise BadValue("--worktree names no directory: nothing was changed", hint="--worktree DIR")
    return op.Request(
        point=context.checkpoint(given["revision"], given["session"]),
        cwd=context.cwd,
        name=given["name"],
        worktree=Path(os.path.realpath(context.cwd / given["worktree"]))
        if given["worktree"] is not None
        else None,
        branch=given["branch"],
        trust=given["trust"],
    )


def _print(context: Context, forked: Forked, directory: str) -> None:
    output, made = context.output, forked.checkpoint
    output.line(
        Styled("forked", GREEN), " ", Styled(str(made.id), BOLD), f" from {made.forked_from}"
    )
    if forked.worktree is not None:
        on = f", on branch {forked.branch}" if forked.branch else ""
        output.line(f"its files are in {directory}{on}")
    elif forked.branch is not None:
        output.line(f"branch {forked.branch} is made; HEAD stays where it is")
    restore_view.kept(output.line, "not as they were", forked.kept)
    if forked.worktree is None:
        output.line(f"the files here stay as they are; go there with: gitcp restore {made.id}")
    if forked.placed is not None:
        restore_view.print_resume(context, forked.placed, directory)
    elif forked.worktree is not None:
        output.line("continue with: ", Styled(f"cd {shlex.quote(directory)}", BOLD))
    else:
        output.line(f"save into it with: gitcp save --session {made.id.session}")
