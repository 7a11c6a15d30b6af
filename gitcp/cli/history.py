"""What `gitcp log` does once its options are read. Loads no click: the plain forms come here
directly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from itertools import islice
from typing import Any, TypeVar

from gitcp.cli import filters, rendering
from gitcp.cli.context import Context
from gitcp.cli.output import YELLOW, Styled
from gitcp.errors import BadValue
from gitcp.history.log import Line, Selection, graph, line, lines, select
from gitcp.model import Oid
from gitcp.store import Summary

CHUNK = 500
HELP = "gitcp log -h"
UNDRAWN = ("reverse", "stat", "patch", "as_json")

DEFAULTS: Mapping[str, Any] = {
    "revision": None,
    "limit": None,
    "since": None,
    "until": None,
    "grep": None,
    "phase": None,
    "session": None,
    "everything": False,
    "reverse": False,
    "graph": False,
    "oneline": False,
    "stat": False,
    "patch": False,
    "as_json": False,
}
"""Every option of `gitcp log` as it is when it is not given."""

T = TypeVar("T")


def perform(context: Context, given: Mapping[str, Any]) -> None:
    """Show the checkpoints that the options say."""
    short = given["oneline"] and not (given["stat"] or given["patch"] or given["as_json"])
    context = context.looking(given["revision"] or "")
    tips, selection = _tips(context, given), _selection(context, given)
    if given["graph"] and (selection.filters or any(given[name] for name in UNDRAWN)):
        raise BadValue(
            "--graph draws all of a session on one line each: only -n, --all and a revision go "
            "with it",
            hint=HELP,
        )
    with nullcontext() if given["as_json"] else context.output.paged(context.core_pager):
        if given["graph"]:
            _draw(context, graph(context.store, tips, selection.limit))
        elif short:
            _print_lines(context, _ordered(lines(context.store, tips, selection), given))
        elif given["as_json"]:
            _print_json(context, _ordered(select(context.store, tips, selection), given))
        else:
            _print(context, _ordered(select(context.store, tips, selection), given), given)


def _ordered(found: Iterable[T], given: Mapping[str, Any]) -> Iterable[T]:
    return reversed(list(found)) if given["reverse"] else found


def _tips(context: Context, given: Mapping[str, Any]) -> list[Oid]:
    if given["everything"]:
        if given["revision"]:
            raise BadValue("--all shows every session: leave out the revision", hint=HELP)
        return context.readable_tips()
    return [_range(context, given)[1]]


def _selection(context: Context, given: Mapping[str, Any]) -> Selection:
    return Selection(
        after=_range(context, given)[0] if given["revision"] else None,
        limit=given["limit"],
        since=filters.time(context, given["since"], end=False),
        until=filters.time(context, given["until"], end=True),
        grep=filters.pattern(given["grep"], HELP),
        phase=given["phase"],
    )


def _range(context: Context, given: Mapping[str, Any]) -> tuple[Oid | None, Oid]:
    from gitcp.history import revisions

    text = given["revision"] or "@"
    current = (
        context.session(given["session"]) if text == "@" else context.current(given["session"])
    )
    return revisions.resolve_range(context.store, text, current)


def _print_json(context: Context, summaries: Iterable[Summary]) -> None:
    for summary in summaries:
        from gitcp.cli import objects  # only for programs

        found = context.store.read(summary.commit)
        fields = objects.checkpoint(found, context.tags.get(found.commit, ()))
        context.output.document(objects.document("checkpoint", fields))


def _print_lines(context: Context, found: Iterable[Line]) -> None:
    """In chunks where there is no colour to set: a long list is mostly this."""
    output, none = context.output, rendering.decoration(())
    names: dict[str, Styled] = {
        commit: rendering.decoration(tags) for commit, tags in context.tags.items()
    }
    if output.colour:
        for each in found:
            output.line(Styled(each.id, YELLOW), names.get(each.commit, none), " ", each.subject)
        return
    texts = (
        f"{session}@{number}{names.get(commit, none).text} {said}"
        for commit, said, session, number in found
    )
    while chunk := list(islice(texts, CHUNK)):
        output.line("\n".join(chunk))


def _draw(context: Context, rows: Iterable[tuple[str, Line | None]]) -> None:
    for drawing, found in rows:
        if found is None:
            context.output.line(drawing)
        else:
            names = rendering.decoration(context.tags.get(Oid(found.commit), ()))
            context.output.line(drawing, Styled(found.id, YELLOW), names, " ", found.subject)


def _print(context: Context, summaries: Iterable[Summary], given: Mapping[str, Any]) -> None:
    output, now = context.output, context.host.now()
    for number, summary in enumerate(summaries):
        if number and not given["oneline"]:
            output.line()
        if given["oneline"]:
            _print_lines(context, [line(summary)])
        else:
            rendering.head(output, summary, context.tags.get(summary.commit, ()), now)
        for text in filter(None, _texts(context, summary, given)):
            output.line()
            rendering.patch(output, text)


def _texts(context: Context, summary: Summary, given: Mapping[str, Any]) -> Iterator[bytes]:
    """The texts of what changed that were asked for."""
    if not (given["stat"] or given["patch"]):
        return
    from gitcp.history.diff import base_tree, compare  # the whole of saving is behind it

    store = context.store
    base = Oid(summary.trailers.get("Gitcp-Base", ""))
    old = store.summary(summary.parent).root if summary.parent else base_tree(store, base or None)
    found = compare(store, old, summary.root)
    width = context.output.width
    if given["stat"]:
        yield found.text(f"--stat={width}" if width else "--stat")
    if given["patch"]:
        yield found.text()
