"""`gitcp show`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from gitcp.cli import humanize, objects, rendering
from gitcp.cli.context import Context
from gitcp.cli.options import REVISION, WORDS, Command, json_option, pass_context, session_option
from gitcp.cli.output import BOLD, Styled
from gitcp.cli.saving import said
from gitcp.errors import RevisionNotFound
from gitcp.history import show
from gitcp.history.diff import compare, tree_before
from gitcp.model import Checkpoint, Conversation
from gitcp.worktree.paths import display

MOST = 20
TURNS = 6


@click.command(cls=Command)
@click.argument("revision", default="@", type=REVISION, metavar="[REV[:PATH]]")
@click.option("--conversation", is_flag=True, help="show the whole conversation")
@click.option("--files", is_flag=True, help="list every path it holds")
@click.option(
    "--stream",
    metavar="NAME",
    type=WORDS,
    help="print the bytes of a stream of the conversation (main)",
)
@click.option(
    "--position", "key", metavar="KEY", type=WORDS, help="print one value of the position"
)
@click.option("--raw", is_flag=True, help="print checkpoint.json as it is stored")
@session_option
@json_option
@pass_context
def command(context: Context, /, revision: str, session: str | None, **given: Any) -> None:
    """Show one checkpoint, or a file or the conversation in it

    REV:PATH prints the bytes that the file had, PATH counted from the root of the repository.

      gitcp show 12
      gitcp show @~2:src/app.py > old.py
      gitcp show before-migration --conversation
      gitcp show --position record
    """
    if sum(map(bool, given.values())) > 1:
        raise click.UsageError("each option shows something else: give one")
    name, colon, path = (revision, "", "") if revision.startswith(":/") else revision.partition(":")
    context = context.looking(name)
    found = context.checkpoint(name or "@", session)
    if colon:
        _print_file(context, found, os.fsencode(path))
    elif given["key"] is not None:
        context.output.line(_position(found, given["key"]))
    elif given["stream"] is not None:
        _print_stream(context, found, given["stream"])
    elif given["raw"]:
        context.output.data(show.metadata(context.store, found))
    elif given["as_json"]:
        fields = objects.checkpoint(found, context.tags.get(found.commit, ()))
        context.output.document(objects.document("checkpoint", fields))
    else:
        with context.output.paged(context.core_pager):
            _print(context, found, given)


def _print_file(context: Context, found: Checkpoint, path: bytes) -> None:
    if path.startswith((b"./", b"../")):
        path = b"".join(context.inside((path,)))
    content = show.file(context.store, found, path.strip(b"/"))
    if isinstance(content, bytes):
        context.output.data(content)
    else:
        for name in content.names:
            context.output.line(display(name))


def _print_stream(context: Context, found: Checkpoint, name: str) -> None:
    for chunk in show.stream(context.store, found, name):
        context.output.data(chunk)


def _position(found: Checkpoint, key: str) -> str:
    position = found.note.position
    if key not in position:
        known = ", ".join(position) or "nothing"
        raise RevisionNotFound(
            f"checkpoint {found.id} has no position {key!r}", hint=f"it has: {known}"
        )
    return position[key]


def _print(context: Context, found: Checkpoint, given: dict[str, Any]) -> None:
    if given["conversation"]:
        if found.conversation is None:
            raise RevisionNotFound(f"checkpoint {found.id} has no conversation")
        rendering.messages(context.output, show.messages(context.store, found.conversation))
    elif given["files"]:
        for path in show.paths_of(context.store, found):
            context.output.line(display(path))
    else:
        _print_whole(context, found)


def _print_whole(context: Context, found: Checkpoint) -> None:
    output, store = context.output, context.store
    summary = store.summary(found.commit)
    rendering.head(output, summary, context.tags.get(found.commit, ()), context.host.now())
    output.line()
    base = found.snapshot.base
    commit = base.commit[:10] if base.commit else "no commit yet"
    standing = [commit, base.branch and f"on {base.branch}", base.operation]
    output.line(f"Base:     {', '.join(filter(None, standing))}")
    label = found.note.label or ""
    rendering.items(output, "Label", [label] if label not in ("", summary.subject) else [])
    if found.note.objective:
        output.line(f"For:      {found.note.objective}")
    rendering.note(output, found.note)
    rendering.run(output, found.run)
    changes = compare(store, tree_before(store, found), found.root).changes
    if changes:
        output.line(Styled(f"Changed ({len(changes):,})", BOLD))
        rendering.changed(output, changes, MOST)
    _print_peculiar(context, found)
    if found.conversation is not None:
        _print_conversation(context, found.conversation)


def _print_peculiar(context: Context, found: Checkpoint) -> None:
    """What a tree cannot say, and what was left out."""
    snapshot = found.snapshot
    blocks: dict[str, Sequence[str]] = {
        "Not captured": [said(skip) for skip in snapshot.skipped],
        "Other repositories, not entered": [_at(n.path, n.head) for n in snapshot.nested],
        "Submodules": [_at(s.path, s.commit) for s in snapshot.submodules],
        "Stored as they lie on disk (raw)": [display(path) for path in snapshot.raw],
        "Converted by git's rules": [display(c.path) for c in snapshot.converted],
        "Outside the sparse checkout": [display(path) for path in snapshot.absent],
        "Empty directories": [display(path) for path in snapshot.empty_directories],
        "Permissions of their own": [
            f"{display(path)}  {mode:04o}" for path, mode in sorted(snapshot.modes.items())
        ],
        "Staged otherwise than on disk": [display(entry.path) for entry in snapshot.staged],
        "In conflict": list(dict.fromkeys(display(entry.path) for entry in snapshot.conflicts)),
    }
    for title, lines in blocks.items():
        rendering.items(
            context.output, f"{title} ({len(lines):,})", humanize.listed(list(lines), MOST)
        )


def _at(path: bytes, commit: str | None) -> str:
    return f"{display(path)}  {commit[:10] if commit else 'no commit'}"


def _print_conversation(context: Context, conversation: Conversation) -> None:
    output, digest = context.output, conversation.digest
    about = [
        humanize.count(digest.messages, "message"),
        humanize.size(conversation.bytes),
        conversation.format,
    ]
    about += (
        [humanize.count(len(conversation.streams), "stream")]
        if len(conversation.streams) > 1
        else []
    )
    output.line(Styled("Conversation", BOLD), f"  {', '.join(about)}")
    if digest.title:
        output.line(f"  {digest.title}")
    output.line()
    rendering.messages(
        output, show.last_messages(context.store, conversation, TURNS), rendering.LONGEST
    )
