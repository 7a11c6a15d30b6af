"""Shared by export and resume: what a conversion for another agent did, for people and programs."""

from __future__ import annotations

from gitcp import humanize
from gitcp.agents import SAVED
from gitcp.cli.context import Context
from gitcp.restoring.converting import Converted


def say_omitted(context: Context, converted: Converted) -> None:
    """Print what was converted, and what is not in it."""
    names = SAVED[converted.source.name].title, SAVED[converted.agent.name].title
    count = humanize.count(converted.messages, "message")
    context.output.say(f"converted {count} from {names[0]} to {names[1]}")
    for what, number in sorted(converted.omitted.items()):
        context.output.say(f"  not included: {number:,} {what}")
