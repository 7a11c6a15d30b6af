"""`gitcp find`."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import click

from gitcp import documents, humanize
from gitcp.cli import indexing
from gitcp.cli.context import Context
from gitcp.cli.options import NUMBER, WORDS, Command, Type, json_option, session_option
from gitcp.cli.output import CYAN, DIM, RED, YELLOW, Styled
from gitcp.history.find import Page, find
from gitcp.history.matching import PLACES, Hit, needle
from gitcp.history.text_index import MANY, TextIndex
from gitcp.value import Value
from gitcp.worktree.paths import display

MOST = 100
"""Matches that are shown unless a number is given."""

AROUND = 60
"""Characters shown before and after a match."""


class Places(Type):
    """`prompts,files`."""

    name = "places"

    def read(self, text: str) -> tuple[str, ...]:
        places = tuple(part.strip() for part in text.split(","))
        wrong = next((part for part in places if part not in PLACES), None)
        if wrong is not None:
            raise ValueError(f"{wrong!r} is none of {', '.join(PLACES)}")
        return places


class Options(Value):
    """What was typed."""

    text: str
    places: tuple[str, ...]
    regex: bool
    ignore_case: bool
    limit: int | None
    session: str | None
    as_json: bool


@click.command(cls=Command)
@click.argument("text", type=WORDS)
@click.option(
    "--in",
    "places",
    type=Places(),
    metavar="WHERE",
    default=PLACES,
    help=f"where to search: {','.join(PLACES)} (all)",
)
@click.option("--regex", "-E", is_flag=True, help="TEXT is a regular expression")
@click.option("--ignore-case", "-i", is_flag=True, help="ignore case")
@click.option("-n", "limit", type=NUMBER, metavar="N", help="limit the number shown (100)")
@session_option
@json_option
@click.pass_obj
def command(context: Context, /, **values: Any) -> None:
    """Search conversations, notes and files of all checkpoints

    Shows each match with the checkpoint that introduced it, newest first. Searches all sessions, or
    the one given with --session. Binary files, and fields and ids of the agent's format, are not
    searched. --json prints all matches, or -n.

      gitcp find "connection refused"
      gitcp find migration --in prompts,notes -i
      gitcp find -E "def (get|list)_users" --in files -n 5
    """
    given = Options(**values)
    store = context.store
    tips = [context.viewed_tip(given.session)] if given.session else context.readable_tips()
    index = TextIndex(store.repo)
    limit = given.limit
    if limit is None and not given.as_json:
        limit = MOST
    wanted = needle(given.text, regex=given.regex, ignore_case=given.ignore_case)
    page = find(store, tips, wanted, given.places, index, limit)
    if given.as_json:
        for hit in page.hits:
            context.output.document(documents.document("find", hit.to_json()))
    else:
        _print_all(context, page)
    if index.missing > MANY:
        indexing.begin(context.store)


def _print_all(context: Context, page: Page) -> None:
    hits = page.hits
    if not hits and not page.more:
        context.output.say("no matches")
    with context.output.paged(context.core_pager) if hits else nullcontext():
        _print(context, hits)
    if page.more:
        more = humanize.count(page.more, "more checkpoint")
        shown = humanize.count(len(hits), "match", "matches")
        context.output.say(f"showed the newest {shown}; up to {more} may match (see -n)")


def _print(context: Context, hits: list[Hit]) -> None:
    now, last = context.host.now(), None
    for hit in hits:
        if hit.summary.id != last:
            when = Styled(humanize.ago(hit.summary.created, now), DIM)
            context.output.line(
                Styled(context.id_of(hit.summary.commit, hit.summary.id), YELLOW),
                f"  {hit.summary.subject}  ",
                when,
            )
            last = hit.summary.id
        where = display(hit.where) + (f":{hit.line}" if hit.line else "")
        location = Styled(
            " ".join(filter(None, (hit.kind, where if hit.kind != "path" else ""))), CYAN
        )
        before, after = hit.text[: hit.start].lstrip(), hit.text[hit.end :].rstrip()
        before = before if len(before) <= AROUND else "…" + before[-AROUND:]
        after = after if len(after) <= AROUND else after[:AROUND] + "…"
        context.output.line(
            "  ", location, "  ", before, Styled(hit.text[hit.start : hit.end], RED), after
        )
