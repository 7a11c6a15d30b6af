"""`gitcp fork`."""

from __future__ import annotations

import shlex
from typing import Any

import click

from gitcp import documents
from gitcp.cli import restore_view
from gitcp.cli.context import Context
from gitcp.cli.failure import IN_PART, end
from gitcp.cli.options import REVISION, WORDS, Command, json_option, session_option, trust_option
from gitcp.cli.output import BOLD, GREEN, Styled
from gitcp.errors import RevisionNotFound
from gitcp.git import refs
from gitcp.lifecycle import fork as op
from gitcp.lifecycle.fork import Forked
from gitcp.value import Value


class Options(Value):
    """What was typed."""

    revision: str
    name: str | None
    worktree: str | None
    branch: str | None
    trust: bool
    session: str | None
    as_json: bool


@click.command(cls=Command)
@click.argument("revision", type=REVISION, metavar="[REV]", default="@")
@click.option("--name", type=WORDS, metavar="NAME", help="name of the new session")
@click.option(
    "--worktree", metavar="DIR", help="create a git worktree in DIR with the files of REV"
)
@click.option(
    "--branch", type=WORDS, metavar="NAME", help="create a branch at the commit REV was saved on"
)
@trust_option
@session_option
@json_option
@click.pass_obj
def command(context: Context, /, **values: Any) -> None:
    """Start a new session from a checkpoint

    Both sessions can continue, each with its own conversation. This working tree is unchanged:
    switch with `gitcp restore`, or add a working tree with --worktree.

      gitcp fork
      gitcp fork 12 --name postgres
      gitcp fork 12 --worktree ../postgres --branch postgres
      gitcp fork --remove ../postgres
    """
    given = Options(**values)
    forked = op.fork(context.store, _request(context, given))
    if given.as_json:
        context.output.document(documents.document("fork", forked.to_json()))
    else:
        _print(context, forked, given.worktree or "")
    end(IN_PART if forked.failed else 0)


def _request(context: Context, given: Options) -> op.ForkRequest:
    worktree = op.new_directory(context.cwd, given.worktree)
    try:
        point = context.checkpoint(given.revision, given.session)
    except RevisionNotFound as error:
        if refs.NAME.match(given.revision) and not given.revision.isdecimal() and not given.name:
            error.hint = f"gitcp fork --name {given.revision}"
        raise
    return op.ForkRequest(
        point=point,
        cwd=context.cwd,
        name=given.name,
        worktree=worktree,
        branch=given.branch,
        trust=given.trust,
    )


def _print(context: Context, forked: Forked, directory: str) -> None:
    output, made = context.output, forked.checkpoint
    output.line(
        Styled("forked", GREEN), " ", Styled(str(made.id), BOLD), f" from {made.forked_from}"
    )
    if forked.worktree is not None:
        on = f", on branch {forked.branch}" if forked.branch else ""
        output.line(f"files are in {directory}{on}")
    elif forked.branch is not None:
        output.line(f"created branch {forked.branch}; HEAD is unchanged")
    restore_view.kept(output.line, "differ from the checkpoint", forked.kept)
    if forked.worktree is None:
        output.line(f"the files here are unchanged; switch with: gitcp restore {made.id}")
    if forked.placed is not None:
        restore_view.print_resume(context, forked.placed, directory)
    elif forked.worktree is not None:
        output.line("continue with: ", Styled(f"cd {shlex.quote(directory)}", BOLD))
    else:
        output.line(f"save into it with: gitcp save --session {made.id.session}")
