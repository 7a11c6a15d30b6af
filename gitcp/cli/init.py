"""`gitcp init`."""

from __future__ import annotations

import os

import click

from gitcp import discovery, documents, humanize
from gitcp.cli.context import Context
from gitcp.cli.options import Command, json_option
from gitcp.cli.output import GREEN, Styled
from gitcp.errors import BadValue
from gitcp.git import own_store, records
from gitcp.git.repo import Repository, refuse_dangerous
from gitcp.sharing import join as join_op


@click.command(cls=Command)
@click.option(
    "--join", is_flag=True, help="move checkpoints into the git repository made here later"
)
@click.option(
    "--trust", is_flag=True, help="use the settings of a store that was moved or unpacked here"
)
@json_option
@click.pass_obj
def command(context: Context, *, join: bool, trust: bool, as_json: bool) -> None:
    """Prepare a directory without git for checkpoints

    Creates a store in `.gitcp/store.git`, which git does not notice. In a git repository there is
    nothing to prepare.

    Nothing is sent from a store that was moved or unpacked, or fetched into it, because its
    settings could run commands, until `--trust` allows that.

      gitcp init
      git init && gitcp init --join
    """
    if join and trust:
        raise BadValue("--join and --trust cannot be combined", hint="gitcp init -h")
    if join:
        _report_join(context, join_op.join(context.store), as_json=as_json)
        return
    repo = _repository(context)
    is_new = repo is None
    if repo is None:
        refuse_dangerous(context.cwd, context.host.home)
        own_store.create(context.cwd, context.host)
        repo = Repository.open(context.cwd, context.host)
    elif trust:
        repo = _trusted(repo)
    is_trusted = trust and repo.is_own and not is_new
    _report(context, repo, is_new=is_new, is_trusted=is_trusted, as_json=as_json)
    if not repo.is_trusted:
        where = records.state_directory(repo.host)
        context.output.say(
            f"note: {where} cannot be written, so this store is not recorded as yours: nothing can "
            "be sent from it"
            if is_new
            else "note: this store is not recorded as yours, so nothing is sent from it or fetched "
            "into it; if you made it, or trust who did: gitcp init --trust"
        )


def _trusted(repo: Repository) -> Repository:
    """Record a store as this user's, and return it. Raises GitcpError if it cannot be recorded."""
    if repo.is_own and not own_store.trust(repo.git_dir, repo.host):
        raise records.unwritable(repo.host, "nothing was changed")
    return Repository.open(repo.root, repo.host)


def _repository(context: Context) -> Repository | None:
    """Return the repository here, None if there is none. One that cannot be used is an error."""
    home = str(context.host.home)
    location = discovery.discover(str(context.cwd), home)
    if location and not discovery.is_above_home(location[0], home):
        return Repository.open(context.cwd, context.host)
    if any(os.path.isfile(each / ".git") for each in (context.cwd, *context.cwd.parents)):
        return Repository.open(context.cwd, context.host)  # raises: it names no git directory
    return None


def _report(
    context: Context, repo: Repository, *, is_new: bool, is_trusted: bool, as_json: bool
) -> None:
    if as_json:
        fields = {"root": str(repo.root), "store": str(repo.git_dir), "created": is_new}
        context.output.document(documents.document("init", fields))
    elif is_new:
        context.output.line(Styled("created", GREEN), f" {repo.git_dir}")
        context.output.line("save with: gitcp save")
    elif is_trusted:
        context.output.line(Styled("trusted", GREEN), f" {repo.git_dir}")
    else:
        what = "gitcp's own store" if repo.is_own else "the git repository"
        context.output.line(f"nothing to do: gitcp saves into {what} at {repo.root}")


def _report_join(context: Context, done: join_op.Joined, *, as_json: bool) -> None:
    if as_json:
        fields = {
            "sessions": list(done.sessions),
            "renamed": dict(done.renamed),
            "tags": done.tags,
            "store": str(done.store),
        }
        context.output.document(documents.document("join", fields))
        return
    sessions, tags = humanize.count(len(done.sessions), "session"), humanize.count(done.tags, "tag")
    context.output.line(Styled("joined", GREEN), f" {sessions} and {tags}")
    for old, new in sorted(done.renamed.items()):
        context.output.line(f"  {old} is {new} here, because the repository has a session {old}")
    context.output.line(f"the old store is no longer used: {done.store}")
