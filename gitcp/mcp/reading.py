"""The tools that only read: list, timeline, show, diff, find, why."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from gitcp import documents
from gitcp.cli.context import Context
from gitcp.history import authors, diff_now, states, tokens
from gitcp.history import diff as diff_op
from gitcp.history import find as find_op
from gitcp.history import show as show_op
from gitcp.history import why as why_op
from gitcp.history.diff import Comparison
from gitcp.history.log import Selection, select
from gitcp.history.matching import PLACES, Hit, Needle
from gitcp.history.text_index import TextIndex
from gitcp.mcp import arguments
from gitcp.mcp.documents import MOST_BYTES, bounded
from gitcp.model import Checkpoint
from gitcp.wire import Json

LONGEST_MATCH = 400
"""Characters of a matching line that are returned, around the match."""


def inside(
    context: Context, paths: list[str] | None, *checkpoints: Checkpoint
) -> tuple[bytes, ...]:
    """Return paths of the repository; empty if all of it is meant. Raises BadValue for one outside
    of it, and for an empty one. A path that one of the checkpoints has is that path.
    """
    root = os.fsencode(context.store.repo.root)
    given = [os.fsencode(path) for path in paths or ()]
    named = tuple(os.path.join(root, path) if path else path for path in given)
    return context.inside(named, *checkpoints)


def list_checkpoints(context: Context, given: arguments.List) -> Json:
    """Return the checkpoints of a session, or of all."""
    if given.every_session:
        after, tips = None, context.readable_tips()
    else:
        after, tip = context.ends(given.revision, given.session)
        tips = [tip]
    summaries = select(context.store, tips, Selection(after=after, limit=given.limit))
    rows = [
        {
            **each.to_json(),
            "id": context.id_of(each.commit, each.id),
            "tags": [*context.tags.get(each.commit, ())],
        }
        for each in summaries
    ]
    return bounded("list", {"checkpoints": rows})


def timeline(context: Context, given: arguments.Timeline) -> Json:
    """Return what the page shows first."""
    return list_checkpoints(context, arguments.List(limit=given.limit, session=given.session))


def show(context: Context, given: arguments.Show) -> Json:
    """Return a checkpoint, or a file or directory in it."""
    checkpoint = context.checkpoint(given.revision, given.session)
    if given.path is None:
        return shown(context, checkpoint)
    (path,) = inside(context, [given.path] if given.path else [], checkpoint) or (b"",)
    content = show_op.file(context.store, checkpoint, path)
    named = {"id": str(checkpoint.id), "path": given.path}
    if isinstance(content, bytes):
        text = content[:MOST_BYTES].decode("utf-8", "replace")
        size = len(content)
        fields = {**named, "text": text, "bytes": size, "cut": size > MOST_BYTES}
        return bounded("file", fields)
    return bounded("directory", {**named, "names": documents.paths(content.names)})


def shown(context: Context, checkpoint: Checkpoint) -> Json:
    """Return a checkpoint, with the tokens of its conversation."""
    fields = documents.checkpoint(checkpoint, context.tags.get(checkpoint.commit, ()))
    spent = tokens.of_conversation(context.store, checkpoint.conversation)
    return bounded("checkpoint", {**fields, "tokens": spent.document()})


def diff(context: Context, given: arguments.Diff) -> Json:
    """Return the paths that differ, and the patch."""
    with compared(context, given) as comparison:
        patch = comparison.text()
        changes = changed(context, given, comparison)
    fields: Json = {
        "changes": changes,
        "patch": patch[:MOST_BYTES].decode("utf-8", "replace"),
        "cut": len(patch) > MOST_BYTES,
    }
    return bounded("differences", fields)


def changed(context: Context, given: arguments.Diff, comparison: Comparison) -> list[Json]:
    """Return the paths that differ; between two checkpoints, with who changed them, and with states
    outside the files.
    """
    if given.new is None:
        return [{**documents.change(each), "state": None} for each in comparison.changes]
    old, new = (context.checkpoint(name, given.session) for name in (given.old, given.new))
    by = authors.between(context.store, old, new)
    stated = states.compare(context.store, old, new, inside(context, given.paths))
    return [
        *({**documents.change(e, by.get(e.path)), "state": None} for e in comparison.changes),
        *({**documents.change(each.as_file), "state": each.to_json()} for each in stated),
    ]


@contextmanager
def compared(context: Context, given: arguments.Diff) -> Iterator[Comparison]:
    """Compare a checkpoint with another one, or with the working tree."""
    old, store = context.checkpoint(given.old, given.session), context.store
    paths = inside(context, given.paths)
    if given.new is not None:
        new = context.checkpoint(given.new, given.session)
        yield diff_op.compare(store, old.root, new.root, paths)
        return
    with diff_now.compare(store, old, context.limits(), paths, text=True) as comparison:
        yield comparison


def find(context: Context, given: arguments.Find) -> Json:
    """Return the matches, newest first."""
    tips = (
        [context.viewed_tip(given.session)]
        if given.session is not None
        else context.readable_tips()
    )
    needle = Needle(given.text, ignore_case=given.ignore_case)
    places = given.places or PLACES
    index = TextIndex(context.store.repo)
    page = find_op.find(context.store, tips, needle, places, index, given.limit)
    matches = [{**hit.to_json(), "text": _around(hit)} for hit in page.hits]
    return bounded("matches", {"matches": matches, "cut": page.more > 0})


def _around(hit: Hit) -> str:
    start = max(0, min(hit.start - LONGEST_MATCH // 4, len(hit.text) - LONGEST_MATCH))
    text = hit.text[start : start + LONGEST_MATCH]
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def why(context: Context, given: arguments.Why) -> Json:
    """Return where a line comes from, or what happened to a path."""
    last = context.checkpoint(given.revision, given.session)
    (path,) = inside(context, [given.path]) or (b"",)
    if given.line is not None:
        origin = why_op.line(context.store, last, path, given.line)
        return bounded("why", origin.to_json())
    known = why_op.path(context.store, last, path)
    # without the commands for a shell
    missing = known.missing.partition(" (")[0].partition(": gitcp ")[0]
    return bounded("why", {**known.to_json(), "missing": missing or None})
