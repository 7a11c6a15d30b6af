"""`gitcp show`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from gitcp import documents, humanize, wire
from gitcp.cli import rendering
from gitcp.cli.context import Context
from gitcp.cli.options import LOOKED, PATHS, WORDS, Command, json_option, rare, session_option
from gitcp.cli.output import BOLD, Styled
from gitcp.errors import BadValue, RevisionNotFound
from gitcp.git import trees
from gitcp.history import authors, memory, revisions, show, tokens
from gitcp.history.diff import compare, staged, tree_before
from gitcp.model import SYMLINK, Checkpoint, Conversation
from gitcp.value import Value
from gitcp.worktree.paths import display, skip_line

MOST = 20
ONE_FILE = "show prints one file at a time"
WAYS = ("conversation", "files", "stream", "raw", "patch", "stat", "name_only", "name_status")
"""Options that each show one thing."""

TURNS = 6


class Options(Value):
    """What was typed."""

    paths: tuple[bytes, ...]
    conversation: bool
    files: bool
    patch: bool
    stat: bool
    name_only: bool
    name_status: bool
    stream: str | None
    key: str | None
    raw: bool
    as_json: bool


@click.command(cls=Command, rest=PATHS._replace(splits=False))
@click.argument("revision", type=LOOKED, metavar="[REV[:PATH]]", default="@")
@click.option("--conversation", is_flag=True, help="show the whole conversation")
@click.option("--files", is_flag=True, help="list every path in the checkpoint")
@click.option("-p", "--patch", is_flag=True, help="show its changes as a patch")
@click.option("--stat", is_flag=True, help="show the number of changed lines in each file")
@rare(click.option("--name-only", is_flag=True, help="show only the changed paths"))
@rare(click.option("--name-status", is_flag=True, help="show the changed paths and how"))
@click.option(
    "--stream", type=WORDS, metavar="NAME", help="print a stream of the conversation (main)"
)
@click.option(
    "--position", "key", type=WORDS, metavar="KEY", help="print one value of the position"
)
@click.option("--raw", is_flag=True, help="print checkpoint.json as it is stored")
@session_option
@json_option
@click.pass_obj
def command(context: Context, /, revision: str, session: str | None, **values: Any) -> None:
    """Show a checkpoint, or a file or the conversation in it

    REV:PATH prints a file, with PATH relative to the repository's root; REV PATH does the same with
    PATH relative to the current directory.

      gitcp show 12
      gitcp show @~2:src/app.py > old.py
      gitcp show before-migration --conversation
      gitcp show --position record
    """
    given = Options(**values)
    _check(given)
    context = context.context_for(revision.partition(":")[0])
    name, path = (revision, None)
    if ":" in revision:
        name, path = revisions.split_path(context.store, revision, context.viewed(session))
    checkpoint = context.checkpoint(name, session)
    context.mention_elsewhere(name, session)
    if given.paths and revision == "@":
        checkpoint = context.having(checkpoint, given.paths)
    if given.paths:
        inside = _single(context.inside(given.paths, checkpoint))
        _print_file(context, checkpoint, inside, as_json=given.as_json)
    elif path is not None:
        _print_file(context, checkpoint, os.fsencode(path), as_json=given.as_json)
    elif given.key is not None:
        context.output.line(_position(checkpoint, given.key))
    elif given.stream is not None:
        for chunk in show.stream(context.store, checkpoint, given.stream):
            context.output.data(chunk)
    elif given.raw:
        context.output.data(show.metadata(context.store, checkpoint))
    elif given.as_json:
        _print_json(context, checkpoint)
    else:
        with context.output.paged(context.core_pager):
            _print(context, checkpoint, given)


def _single(paths: tuple[bytes, ...]) -> bytes:
    """Return the only path, b"" for the root. Raises BadValue if a pattern matches several."""
    if len(paths) > 1:
        error = BadValue(ONE_FILE, hint="gitcp show REV PATH")
        error.candidates = tuple(map(display, paths[:MOST]))
        raise error
    return b"".join(paths)


def _check(given: Options) -> None:
    """Raise BadValue for options of which each asks for something else."""
    ways = [f"--{name.replace('_', '-')}" for name in WAYS if getattr(given, name)]
    ways += ["--position"] if given.key is not None else []
    ways += ["--json"] if given.as_json else []
    ways += ["PATH"] if given.paths and not given.as_json else []
    if len(given.paths) > 1:
        raise BadValue(ONE_FILE, hint="gitcp show REV PATH")
    if len(ways) > 1 and not set(ways) <= {"--patch", "--stat"}:
        raise BadValue(f"{ways[0]} and {ways[1]} cannot be used together", hint="gitcp show -h")


def _print_json(context: Context, checkpoint: Checkpoint) -> None:
    store = context.store
    changes = compare(store, tree_before(store, checkpoint), checkpoint.root).changes
    by = authors.changed_by(store, checkpoint)
    fields = documents.checkpoint(checkpoint, context.tags.get(checkpoint.commit, ()))
    fields["changes"] = [documents.change(change, by.get(change.path)) for change in changes]
    fields["memory"] = [each._asdict() for each in memory.listed(store, checkpoint)]
    spent = tokens.of_conversation(store, checkpoint.conversation)
    fields["tokens"] = spent.document()
    context.output.document(documents.document("checkpoint", fields))


def _print_file(context: Context, checkpoint: Checkpoint, path: bytes, *, as_json: bool) -> None:
    if path.startswith((b"./", b"../")) or path == b".":
        path = b"".join(context.inside((path,), checkpoint))
    path = path.strip(b"/")
    content = show.file(context.store, checkpoint, path)
    if as_json:
        context.output.document(_file_document(checkpoint, path, content))
    elif isinstance(content, bytes):
        context.output.data(content)
    else:
        for name in content.names:
            context.output.line(display(name))


def _file_document(checkpoint: Checkpoint, path: bytes, content: bytes | show.Listing) -> wire.Json:
    """Return a file, or the names in a directory, as the tool of MCP does, but whole."""
    named = {"id": str(checkpoint.id), "path": wire.encode_path(path)}
    if not isinstance(content, bytes):
        names = documents.paths(content.names)
        return documents.document("directory", {**named, "names": names})
    data = wire.encode_path(content)
    text = data if isinstance(data, str) else None
    encoded = None if isinstance(data, str) else data["base64"]
    return documents.document(
        "file", {**named, "text": text, "base64": encoded, "bytes": len(content), "cut": False}
    )


def _position(checkpoint: Checkpoint, key: str) -> str:
    position = wire.position_texts(checkpoint.note.position)
    if key not in position:
        known = ", ".join(position) or "nothing"
        raise RevisionNotFound(
            f"checkpoint {checkpoint.id} has no position {key!r}; it has: {known}",
            hint=f"gitcp show {checkpoint.id}",
        )
    return position[key]


def _print(context: Context, checkpoint: Checkpoint, given: Options) -> None:
    if given.conversation:
        if checkpoint.conversation is None:
            raise RevisionNotFound(f"checkpoint {checkpoint.id} has no conversation")
        rendering.messages(context.output, show.messages(context.store, checkpoint.conversation))
    elif given.files:
        for path in show.paths_of(context.store, checkpoint):
            context.output.line(display(path))
    else:
        _print_whole(context, checkpoint, given)


def _print_changes(context: Context, checkpoint: Checkpoint, given: Options) -> bool:
    """Print what a checkpoint changed, as asked; return whether it was."""
    width = context.output.width
    asked = {
        "--name-only": given.name_only,
        "--name-status": given.name_status,
        f"--stat={width}" if width else "--stat": given.stat,
        "--patch": given.patch,
    }
    options = [option for option, value in asked.items() if value]
    if options:
        store = context.store
        changes = compare(store, tree_before(store, checkpoint), checkpoint.root)
        context.output.line()
        rendering.patch(context.output, changes.text(*options))
    return bool(options)


def _print_whole(context: Context, checkpoint: Checkpoint, given: Options) -> None:
    output, store = context.output, context.store
    summary = store.summary(checkpoint.commit)
    tags, id = (
        context.shown_tags.get(checkpoint.commit, ()),
        context.id_of(checkpoint.commit, checkpoint.id),
    )
    rendering.head(output, summary, tags, context.host.now(), id)
    if _print_changes(context, checkpoint, given):
        return
    output.line()
    base = checkpoint.snapshot.base
    without = "no commit yet" if checkpoint.snapshot.has_files else "unknown (made without files)"
    unknown = f"unknown ({base.unknown})" if base.unknown else without
    commit = base.commit[:10] if base.commit else unknown
    standing = [commit, base.branch and f"on {base.branch}", base.operation]
    output.line(f"Base:     {', '.join(filter(None, standing))}")
    label = checkpoint.note.label or ""
    rendering.items(output, "Label", [label] if label not in ("", summary.subject) else [])
    if checkpoint.note.objective:
        output.line(f"Goal:     {checkpoint.note.objective}")
    rendering.note(output, checkpoint.note)
    rendering.run(output, checkpoint.run)
    changes = compare(store, tree_before(store, checkpoint), checkpoint.root).changes
    if changes:
        output.line(Styled(f"Changed ({len(changes):,})", BOLD))
        by = authors.foreign(authors.changed_by(store, checkpoint), checkpoint.id.session)
        rendering.changed(output, changes, MOST, by)
    _print_peculiar(context, checkpoint)
    remembered = [
        f"{each.agent}/{each.path}  {each.problem or humanize.size(each.bytes)}"
        for each in memory.listed(store, checkpoint)
    ]
    rendering.items(output, f"Memory ({len(remembered):,})", humanize.listed(remembered, MOST))
    states = rendering.states(checkpoint.states)
    rendering.items(output, f"State ({len(states):,})", states)
    if checkpoint.conversation is not None:
        _print_conversation(context, checkpoint.conversation)


def _print_peculiar(context: Context, checkpoint: Checkpoint) -> None:
    """Print what a git tree cannot express, and what was skipped."""
    snapshot = checkpoint.snapshot
    blocks: dict[str, Sequence[str]] = {
        "Not captured": [skip_line(skip) for skip in snapshot.skipped],
        "Saved without a lock": [rendering.unlocked(each) for each in snapshot.unlocked],
        "Nested repositories, not saved": [_at(n.path, n.head) for n in snapshot.nested],
        "Submodules": [_at(s.path, s.commit) for s in snapshot.submodules],
        "Stored without conversion (raw)": _raw(context, checkpoint),
        "Converted by git attributes": [
            display(c.path) for c in snapshot.converted if not c.segments
        ],
        "Stored as segments": [display(c.path) for c in snapshot.converted if c.segments],
        "Outside the sparse checkout": [display(path) for path in snapshot.absent],
        "Empty directories": [display(path) for path in snapshot.empty_directories],
        "Special permissions": [
            f"{display(path)}  {mode:04o}" for path, mode in sorted(snapshot.modes.items())
        ],
        "Staged, differing from disk": [
            display(path) for path in staged(context.store, checkpoint)
        ],
        "In conflict": list(dict.fromkeys(display(entry.path) for entry in snapshot.conflicts)),
    }
    for title, lines in blocks.items():
        rendering.items(
            context.output, f"{title} ({len(lines):,})", humanize.listed(list(lines), MOST)
        )


def _raw(context: Context, checkpoint: Checkpoint) -> list[str]:
    """Return the files that git would convert and gitcp did not; a file that stands for a link is
    none of them.
    """
    reader, root = context.store.reader, checkpoint.root
    entries = ((path, trees.lookup(reader, root, path)) for path in checkpoint.snapshot.raw)
    return [display(path) for path, entry in entries if not entry or entry.mode != SYMLINK]


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
    spent = tokens.of_conversation(context.store, conversation)
    if spent.requests:
        output.line(f"  tokens: {rendering.tokens(spent)}")
    if digest.title:
        output.line(f"  {digest.title}")
    output.line()
    rendering.messages(
        output, show.last_messages(context.store, conversation, TURNS), rendering.LONGEST
    )
