"""`gitcp adopt`."""

from __future__ import annotations

import os
from typing import Any

import click

from gitcp import discovery
from gitcp.adopting import personal
from gitcp.adopting.apply import Adopted, apply
from gitcp.adopting.memory import Memory
from gitcp.adopting.plan import AdoptPlan, AdoptRequest, pending, plan
from gitcp.cli import adopt_view, confirm
from gitcp.cli.agent_names import RECORDED_NAME
from gitcp.cli.context import Context
from gitcp.cli.failure import IN_PART, end
from gitcp.cli.options import PATH, WORDS, Command, json_option, yes_option
from gitcp.conversation.segments import LARGEST
from gitcp.history.text_index import MANY
from gitcp.value import Value

NO_CHANGE = "nothing was stored"


class Options(Value):
    """What was typed."""

    everywhere: bool
    agent: str | None
    since: str | None
    former: tuple[bytes, ...]
    dry_run: bool
    yes: bool
    as_json: bool


@click.command(cls=Command)
@click.option(
    "--all", "everywhere", is_flag=True, help="adopt for every repository on this machine"
)
@click.option("--agent", type=RECORDED_NAME, metavar="NAME", help="only this agent's conversations")
@click.option(
    "--since", type=WORDS, metavar="TIME", help="only conversations written since then (7 days ago)"
)
@click.option(
    "--from",
    "former",
    type=PATH,
    metavar="DIR",
    multiple=True,
    help="a former directory of this repository (repeatable)",
)
@click.option("--dry-run", "-n", is_flag=True, help="show the plan and change nothing")
@yes_option
@json_option
@click.pass_obj
def command(context: Context, /, **values: Any) -> None:
    """Store the conversations that agents keep

    Agents delete their history: after 30 days, with an update, when a directory moves. This stores
    every conversation about this repository, also from its moved and removed working trees, as
    sessions that find, view and resume know. Files are not stored: only the conversation can be
    restored. A later run stores what is new.

      gitcp adopt --dry-run
      gitcp adopt --all --yes
      gitcp adopt --agent codex --since "7 days ago"
    """
    given = Options(**values)
    memory = Memory(context.host)
    request = _request(context, given)
    store = None if request.everywhere and not _is_inside(context) else context.store
    planned = plan(context.host, store, request, memory)
    if given.dry_run:
        adopt_view.show(context, planned, as_json=given.as_json)
        return
    if pending(planned.items) and not given.yes:
        lines = adopt_view.lines(context, planned)
        confirm.ask(context, "Store?", lines, nobody=NO_CHANGE, no=f"not stored: {NO_CHANGE}")
    results = apply(context.host, planned, memory) if planned.unsure else []
    _tidy(context, planned, results)
    adopt_view.report(context, planned, results, as_json=given.as_json)
    end(IN_PART if any(each.failed for each in results) else 0)


def _tidy(context: Context, planned: AdoptPlan, results: list[Adopted]) -> None:
    """Start in the background what is due in each store: packing, and indexing for a search."""
    for share in planned.shares:
        stored = [each for each in results if each.store == share.path and each.checkpoint]
        store = share.store or personal.find(context.host)
        if store is None or not stored:
            continue
        from gitcp.cli import indexing
        from gitcp.lifecycle import housekeeping

        if stored[-1].checkpoint is not None:
            housekeeping.after_save(store, stored[-1].checkpoint.id)
        if sum(each.item.listed.bytes for each in stored) > MANY * LARGEST:
            indexing.begin(store)


def _is_inside(context: Context) -> bool:
    home = str(context.host.home)
    location = discovery.discover(str(context.cwd), home)
    return location is not None and not discovery.is_above_home(location[0], home)


def _request(context: Context, given: Options) -> AdoptRequest:
    since = None
    if given.since is not None:
        from gitcp.history import dates

        since = dates.parse(given.since, context.host.now(), end=False)
    former = (os.path.join(context.cwd, os.fsdecode(path)) for path in given.former)
    return AdoptRequest(given.everywhere, given.agent, since, tuple(map(os.path.normpath, former)))
