"""`gitcp log`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from itertools import islice
from typing import Any, TypeVar

import click

from gitcp.cli import filters, objects, rendering
from gitcp.cli.context import Context
from gitcp.cli.options import REVISION, WORDS, Command, json_option, pass_context, session_option
from gitcp.cli.output import YELLOW, Styled
from gitcp.model import Oid
from gitcp.ops.log import Line, Selection, graph, line, lines, select
from gitcp.store import Summary

CHUNK = 500
UNDRAWN = ("reverse", "stat", "patch", "as_json")

T = TypeVar("T")


@click.command(cls=Command)
@click.argument("revision", required=False, type=REVISION, metavar="[REV|A..B]")
@click.option("-n", "limit", metavar="N", type=click.IntRange(min=0), help="show at most so many")
@click.option("--since", metavar="TIME", type=WORDS, help="only those of this time or later")
@click.option("--until", metavar="TIME", type=WORDS, help="only those of this time or before")
@click.option("--grep", metavar="REGEX", type=WORDS, help="only those whose subject matches, whatever its case")
@click.option("--phase", metavar="NAME", type=WORDS, help="only those of this phase")
@session_option
@click.option("--all", "everything", is_flag=True, help="show the checkpoints of every session")
@click.option("--reverse", is_flag=True, help="show the oldest first")
@click.option("--graph", is_flag=True, help="draw sessions and their forks, one line for each")
@click.option("--oneline", is_flag=True, help="show one line for each")
@click.option("--stat", is_flag=True, help="show how much changed in which files")
@click.option("-p", "--patch", is_flag=True, help="show what changed")
@json_option
@pass_context
def command(context: Context, /, **given: Any) -> None:
    """Show checkpoints, newest first

    Those of the current session, or those up to REV, or those after A up to B.

      gitcp log --oneline -n 20
      gitcp log --since "yesterday 09:00" --grep migration
      gitcp log before-migration..@ --stat
      gitcp log --graph --all
    """
    short = given["oneline"] and not (given["stat"] or given["patch"] or given["as_json"])
    context = context.looking(given["revision"] or "")
    tips, selection = _tips(context, given), _selection(context, given)
    if given["graph"] and (selection.filters or any(given[name] for name in UNDRAWN)):
        raise click.UsageError(
            "--graph draws all of a session on one line each: only -n, --all and a revision go with it"
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


def _ordered(found: Iterable[T], given: dict[str, Any]) -> Iterable[T]:
    return reversed(list(found)) if given["reverse"] else found


def _tips(context: Context, given: dict[str, Any]) -> list[Oid]:
    if given["everything"]:
        if given["revision"]:
            raise click.UsageError("--all shows every session: leave out the revision")
        return list(context.store.sessions().values())
    return [_range(context, given)[1]]


def _selection(context: Context, given: dict[str, Any]) -> Selection:
    return Selection(
        after=_range(context, given)[0] if given["revision"] else None,
        limit=given["limit"],
        since=filters.time(context, given["since"], end=False),
        until=filters.time(context, given["until"], end=True),
        grep=filters.pattern(given["grep"]),
        phase=given["phase"],
    )


def _range(context: Context, given: dict[str, Any]) -> tuple[Oid | None, Oid]:
    from gitcp import revisions

    text = given["revision"] or "@"
    current = context.session(given["session"]) if text == "@" else context.current(given["session"])
    return revisions.resolve_range(context.store, text, current)


def _print_json(context: Context, summaries: Iterable[Summary]) -> None:
    for summary in summaries:
        found = context.store.read(summary.commit)
        fields = objects.checkpoint(found, context.tags.get(found.commit, ()))
        context.output.document(objects.document("checkpoint", fields))


def _print_lines(context: Context, found: Iterable[Line]) -> None:
    """In chunks where there is no colour to set: a long list is mostly this."""
    output, none = context.output, rendering.decoration(())
    names: dict[str, Styled] = {commit: rendering.decoration(tags) for commit, tags in context.tags.items()}
    if output.colour:
        for each in found:
            output.line(Styled(each.id, YELLOW), names.get(each.commit, none), " ", each.subject)
        return
    texts = (f"{session}@{number}{names.get(commit, none).text} {said}" for commit, said, session, number in found)
    while chunk := list(islice(texts, CHUNK)):
        output.line("\n".join(chunk))


def _draw(context: Context, rows: Iterable[tuple[str, Line | None]]) -> None:
    for drawing, found in rows:
        if found is None:
            context.output.line(drawing)
        else:
            names = rendering.decoration(context.tags.get(Oid(found.commit), ()))
            context.output.line(drawing, Styled(found.id, YELLOW), names, " ", found.subject)


def _print(context: Context, summaries: Iterable[Summary], given: dict[str, Any]) -> None:
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


def _texts(context: Context, summary: Summary, given: dict[str, Any]) -> Iterator[bytes]:
    """The texts of what changed that were asked for."""
    if not (given["stat"] or given["patch"]):
        return
    from gitcp.ops.diff import base_tree, compare  # the whole of saving is behind it

    store = context.store
    base = Oid(summary.trailers.get("Gitcp-Base", ""))
    old = store.summary(summary.parent).root if summary.parent else base_tree(store, base or None)
    found = compare(store, old, summary.root)
    width = context.output.width
    if given["stat"]:
        yield found.text(f"--stat={width}" if width else "--stat")
    if given["patch"]:
        yield found.text()
