"""`gitcp fork --remove`."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from gitcp import documents, humanize, wire
from gitcp.automation import worktree as op
from gitcp.automation.worktree import Removed
from gitcp.cli.context import Context
from gitcp.cli.options import WORDS, Command, json_option
from gitcp.cli.output import GREEN, Styled
from gitcp.errors import BadValue
from gitcp.worktree.paths import display


@click.command(cls=Command)
@click.argument("path", type=WORDS, metavar="PATH")
@click.option("--force", is_flag=True, help="remove it even if some files were not saved")
@json_option
@click.pass_obj
def command(context: Context, path: str, *, force: bool, as_json: bool) -> None:
    """Remove a worktree after saving what is in it

    Its branch stays. Refuses, with a list, if ignored files, files left out of checkpoints, or
    commits on no branch would be lost. To get it back: gitcp restore REV --worktree DIR.

      gitcp fork --remove ../shop-login
    """
    if not os.path.lexists(context.cwd / path):
        raise BadValue(
            f"{path} does not exist: nothing was changed", hint="gitcp sessions --worktrees"
        )
    removed = op.remove(context.store, Path(os.path.join(context.cwd, path)), force=force)
    if as_json:
        context.output.document(documents.document("worktree-remove", _fields(removed)))
    else:
        _print(context, removed, path)


def _fields(removed: Removed) -> wire.Json:
    return {
        "path": documents.path(removed.directory),
        "branch": removed.branch,
        "last": str(removed.last.id),
        "saved": [str(each.id) for each in removed.saved],
        "lost": [
            {"path": wire.encode_path(each.path) if each.path else None, "why": each.why}
            for each in removed.lost
        ],
    }


def _print(context: Context, removed: Removed, typed: str) -> None:
    line = context.output.line
    for each in removed.saved:
        line(f"saved {each.id}  ({humanize.count(each.changed, 'file')} changed)")
    branch = f"; branch {removed.branch} stays" if removed.branch else ""
    line(Styled("removed", GREEN), f" {typed}, which is saved as {removed.last.id}{branch}")
    for lost in removed.lost:
        line(f"  lost: {display(lost.path)}  {lost.why}" if lost.path else f"  lost: {lost.why}")
    line("undo with: ", shlex.join(["gitcp", "restore", str(removed.last.id), "--worktree", typed]))
