"""`gitcp find`."""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import Any

import click

from gitcp.cli import humanize, objects
from gitcp.cli.context import Context
from gitcp.cli.options import WORDS, Command, json_option, pass_context, session_option
from gitcp.cli.output import CYAN, DIM, RED, YELLOW, Styled
from gitcp.history.find import PLACES, Hit, Needle, find
from gitcp.worktree.paths import display

AROUND = 60
"""Characters shown before and after a match."""


class Places(click.ParamType):  # type: ignore[type-arg]
    """`prompts,files`."""

    name = "places"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        found = (
            tuple(part.strip() for part in value.split(","))
            if isinstance(value, str)
            else tuple(value)
        )
        wrong = next((part for part in found if part not in PLACES), None)
        if wrong is not None:
            self.fail(f"{wrong!r} is none of {', '.join(PLACES)}", param, ctx)
        return found


@click.command(cls=Command)
@click.argument("text", type=WORDS)
@click.option(
    "--in",
    "places",
    metavar="WHERE",
    type=Places(),
    default=PLACES,
    help=f"some of {','.join(PLACES)} (all)",
)
@click.option("--regex", "-E", is_flag=True, help="TEXT is a regular expression")
@click.option("--ignore-case", "-i", is_flag=True, help="upper and lower case are the same")
@click.option("-n", "limit", metavar="N", type=click.IntRange(min=0), help="show at most so many")
@session_option
@json_option
@pass_context
def command(context: Context, /, **given: Any) -> None:
    """Find a text in the conversations, notes and files of all checkpoints

    Each hit is shown with the checkpoint that it came in with, the newest first. Binary files
    are not searched. With --session only that one.

      gitcp find "connection refused"
      gitcp find migration --in prompts,notes -i
      gitcp find -E "def (get|list)_users" --in files -n 5
    """
    store = context.store
    tips = (
        [store.sessions()[context.session(given["session"])]]
        if given["session"]
        else context.readable_tips()
    )
    hits = find(store, tips, _needle(given), given["places"])[: given["limit"]]
    if given["as_json"]:
        for hit in hits:
            context.output.document(objects.document("find", objects.hit(hit)))
        return
    if not hits:
        context.output.say("nothing found")
    with context.output.paged(context.core_pager) if hits else nullcontext():
        _print(context, hits)


def _needle(given: dict[str, Any]) -> Needle:
    if not given["text"]:
        raise click.UsageError("there is no text to look for")
    try:
        return Needle(given["text"], regex=given["regex"], ignore_case=given["ignore_case"])
    except re.error as error:
        raise click.UsageError(f"{given['text']!r} is not a regular expression: {error}") from None


def _print(context: Context, hits: list[Hit]) -> None:
    now, last = context.host.now(), None
    for hit in hits:
        if hit.summary.id != last:
            when = Styled(humanize.ago(hit.summary.created, now), DIM)
            context.output.line(
                Styled(str(hit.summary.id), YELLOW), f"  {hit.summary.subject}  ", when
            )
            last = hit.summary.id
        where = display(hit.where) + (f":{hit.line}" if hit.line else "")
        place = Styled(
            " ".join(filter(None, (hit.kind, where if hit.kind != "path" else ""))), CYAN
        )
        before, after = hit.text[: hit.start].lstrip(), hit.text[hit.end :].rstrip()
        before = before if len(before) <= AROUND else "…" + before[-AROUND:]
        after = after if len(after) <= AROUND else after[:AROUND] + "…"
        context.output.line(
            "  ", place, "  ", before, Styled(hit.text[hit.start : hit.end], RED), after
        )
