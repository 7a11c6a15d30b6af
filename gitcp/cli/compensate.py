"""`gitcp run --compensations`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from gitcp import documents
from gitcp.cli import effects
from gitcp.cli.context import Context
from gitcp.cli.failure import IN_PART, end
from gitcp.cli.options import (
    REVISION,
    SECONDS,
    WORDS,
    Command,
    json_option,
    session_option,
    trust_option,
)
from gitcp.errors import BadValue, Refused
from gitcp.restoring import trust
from gitcp.running import compensate as op
from gitcp.running.compensate import LIMIT
from gitcp.running.steps import outdate
from gitcp.state import effects as recorded
from gitcp.state.effects import DONE, Effect
from gitcp.value import Value


class Options(Value):
    """What was typed."""

    keys: tuple[str, ...]
    listing: bool
    limit: float
    trust: bool
    as_json: bool


@click.command(cls=Command)
@click.argument("revision", type=REVISION, required=False, metavar="[REV]")
@click.option(
    "--run",
    "keys",
    type=WORDS,
    metavar="KEY",
    multiple=True,
    help="run this one without asking (repeatable)",
)
@click.option("--list", "-l", "listing", is_flag=True, help="list compensations and run nothing")
@click.option(
    "--limit", type=SECONDS, metavar="SECONDS", default=LIMIT, help="time limit for each one (600)"
)
@trust_option
@session_option
@json_option
@click.pass_obj
def command(context: Context, /, revision: str | None, session: str | None, **values: Any) -> None:
    """Run compensations for effects outside the files

    Runs those recorded after REV, or all of the session, newest first, and asks before each. Each
    runs at most once, even if it fails. A restore never runs them.

      gitcp save "database created" --compensate "dropdb shop"
      gitcp run --compensations --list
      gitcp run --compensations before-migration
      gitcp run --compensations --run e7baae82@4:0
    """
    given = Options(**values)
    if given.listing and given.keys:
        raise BadValue(
            "--list and --run cannot be used together", hint="gitcp run --compensations -h"
        )
    target = context.checkpoint(revision, session) if revision is not None else None
    if target is not None and not given.listing:
        trust.admit(context.store, target, trusted=given.trust)
    current = target.id.session if target else context.session(session)
    effects = recorded.after(context.store, target, current)
    if given.listing:
        _print(context, effects, as_json=given.as_json)
        return
    done = tuple(_run(context, effects, current, given))
    if given.as_json:
        _print(context, done, as_json=True)
    end(IN_PART if any(effect.outcome != DONE for effect in done) else 0)


def _run(
    context: Context, recorded_effects: tuple[Effect, ...], session: str, given: Options
) -> Iterator[Effect]:
    for effect in _chosen(context, recorded_effects, given):
        op.require_command(effect)
        outdate(context.store, session, effect)
        outcome = op.compensate(context.store, effect, session, limit=given.limit)
        if not given.as_json:
            effects.tell(context.output.line, outcome.effect)
            if outcome.effect.outcome != DONE and outcome.run:
                context.output.say(outcome.run.output)
        yield outcome.effect


def _chosen(
    context: Context, recorded_effects: tuple[Effect, ...], given: Options
) -> Iterator[Effect]:
    """Yield the confirmed compensations. Raises Refused for one that has already run."""
    open_ones = [effect for effect in recorded_effects if effect.outcome is None]
    if given.keys:
        yield from op.chosen(recorded_effects, given.keys)
        return
    for effect in open_ones:
        effects.tell(context.output.say, effect)
        agreed = context.output.ask("Run it?")
        if agreed is None:
            hint = f"gitcp run --compensations --run {effect.key}"
            raise Refused("cannot ask for confirmation here: nothing was run", hint=hint)
        if agreed:
            yield effect
    if not open_ones:
        context.output.say("nothing to compensate")


def _print(context: Context, recorded_effects: tuple[Effect, ...], *, as_json: bool) -> None:
    if as_json:
        fields = {"compensations": [effect.to_json() for effect in recorded_effects]}
        context.output.document(documents.document("compensations", fields))
        return
    for effect in recorded_effects:
        effects.tell(context.output.line, effect)
