"""`gitcp tag`."""

from __future__ import annotations

import shlex
from fnmatch import fnmatchcase
from typing import Any

import click

from gitcp import documents, humanize
from gitcp.cli.context import Context
from gitcp.cli.options import REVISION, TAG, WORDS, Command, json_option, session_option
from gitcp.cli.output import YELLOW, Styled
from gitcp.errors import BadValue, Refused, RevisionNotFound
from gitcp.git import refs
from gitcp.lifecycle import pushing
from gitcp.model import Checkpoint
from gitcp.state import tag as op
from gitcp.value import Value


class Options(Value):
    """What was typed."""

    name: str | None
    revision: str | None
    message: str | None
    force: bool
    delete: bool
    listing: bool
    session: str | None
    as_json: bool


OTHER_TOOLS = {
    "add": (),
    "create": (),
    "delete": ("--delete",),
    "list": ("--list",),
    "ls": ("--list",),
    "remove": ("--delete",),
    "rm": ("--delete",),
}
"""Commands of `tag` in other tools, with gitcp's options: `tag list` made a tag called list."""


@click.command(cls=Command)
@click.argument("name", type=TAG, required=False, metavar="[NAME")
@click.argument("revision", type=REVISION, required=False, metavar="[REV]]")
@click.option(
    "--message",
    "-m",
    type=WORDS,
    metavar="TEXT",
    help="a message of its own, in an annotated tag object",
)
@click.option("--force", "-f", is_flag=True, help="move an existing tag")
@click.option("--delete", "-d", is_flag=True, help="delete the tag; its checkpoint is kept")
@click.option("--list", "-l", "listing", is_flag=True, help="list the tags")
@session_option
@json_option
@click.pass_obj
def command(context: Context, /, **values: Any) -> None:
    """Name a checkpoint, or list tags

    A tagged checkpoint is never pruned. A label describes a checkpoint, a phase is a stage of the
    work: gitcp save -h.

      gitcp tag before-migration
      gitcp tag works 12 -m "all tests pass"
      gitcp tag -d works
    """
    given = Options(**values)
    if given.name is None or given.listing:
        if given.revision is not None or given.delete or given.force:
            raise BadValue(
                "--list takes only a pattern; --delete and --force need a name",
                hint="gitcp tag -h",
            )
        _print_all(context, given.name or "*", as_json=given.as_json)
    elif given.delete:
        if given.revision is not None:
            raise BadValue("--delete takes only a tag name", hint="gitcp tag -h")
        op.delete(context.store, given.name)
        if given.as_json:
            _print_json(context, given.name, None)
        else:
            context.output.line(f"deleted tag {given.name}")
    else:
        _create(context, given, given.name)


def _create(context: Context, given: Options, name: str) -> None:
    if name in OTHER_TOOLS:
        words = (*OTHER_TOOLS[name], *((given.revision,) if given.revision is not None else ()))
        raise BadValue(
            f"{name} would be the name of a tag; nothing was tagged",
            hint=shlex.join(("gitcp", "tag", *words)),
        )
    checkpoint = _named(context, given, name)
    try:
        op.create(
            context.store,
            name,
            checkpoint,
            text=given.message,
            force=given.force,
            now=context.host.now(),
        )
    except Refused as error:
        error.hint = context.with_option("--force")
        raise
    pushing.start(context.store)
    if given.as_json:
        _print_json(context, name, context.store.summary(checkpoint.commit).to_json())
    else:
        context.output.line("tagged ", Styled(str(checkpoint.id), YELLOW), f" {name}")


def _named(context: Context, given: Options, name: str) -> Checkpoint:
    """Return the checkpoint to tag. Raises BadValue if the words are in the other order."""
    try:
        revision = "@" if given.revision is None else given.revision
        return context.checkpoint(revision, given.session)
    except RevisionNotFound:
        # Who moves a tag to what does not exist was told to make a tag of an impossible name.
        is_tag = context.store.repo.refs.read(refs.TAGS + name) is not None
        if given.revision is None or is_tag or not refs.NAME.match(given.revision):
            raise
        if not context.is_known(name, given.session):
            raise
        raise BadValue(
            f"the name comes first, then the checkpoint {name}; nothing was tagged",
            hint=shlex.join(("gitcp", "tag", given.revision, name)),
        ) from None


def _print_json(context: Context, name: str, checkpoint: Any) -> None:
    context.output.document(documents.document("tag", {"name": name, "checkpoint": checkpoint}))


def _print_all(context: Context, pattern: str, *, as_json: bool) -> None:
    tags = [each for each in op.listing(context.store) if fnmatchcase(each[0], pattern)]
    if as_json:
        for name, summary in tags:
            _print_json(context, name, summary.to_json())
        return
    from gitcp.cli.table import TableColumn, show  # only for a table

    now = context.host.now()
    columns = (
        TableColumn("tag", YELLOW),
        TableColumn("checkpoint"),
        TableColumn("when"),
        TableColumn("subject", cut=True),
    )
    rows = (
        (name, str(summary.id), humanize.ago(summary.created, now), summary.subject)
        for name, summary in tags
    )
    show(context.output, columns, rows)
