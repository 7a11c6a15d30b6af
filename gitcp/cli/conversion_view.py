"""Shared by export and resume: what a conversion for another agent did, for people and programs."""

from __future__ import annotations

from gitcp import humanize
from gitcp.agents import SAVED
from gitcp.cli.context import Context
from gitcp.restoring.converting import Converted
from gitcp.wire import Json


def say_omitted(context: Context, converted: Converted) -> None:
    """Print what was converted, and what is not in it."""
    names = SAVED[converted.source.name].title, SAVED[converted.agent.name].title
    count = humanize.count(converted.messages, "message")
    context.output.say(f"converted {count} from {names[0]} to {names[1]}")
    for what, number in sorted(converted.omitted.items()):
        context.output.say(f"  not included: {number:,} {what}")


def fields(converted: Converted) -> Json:
    """Return a conversion as JSON fields."""
    return {
        "from": {"agent": converted.source.name, "session_id": converted.source.session_id},
        "to": {"agent": converted.agent.name, "session_id": converted.agent.session_id},
        "messages": converted.messages,
        "omitted": dict(converted.omitted),
    }
