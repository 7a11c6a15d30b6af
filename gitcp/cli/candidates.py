"""Completions for revisions, sessions, tags and phases, each with a description.

Reads only commits. Offers nothing that cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from gitcp import humanize
from gitcp.cli.context import Context
from gitcp.store import Summary

NUMBERS = 20
"""Number of recent checkpoints that are offered."""

PHASES = 1000
"""Number of recent checkpoints that are searched for phases."""


def revisions(context: Context) -> Iterator[tuple[str, str]]:
    """Yield the current session's recent checkpoints by number, then tags, then sessions."""
    session = context.viewed(None)
    if session is not None:
        for summary in islice(context.store.readable(context.viewed_tip(None)), NUMBERS):
            yield str(summary.id.number), _about(context, summary)
    yield from tags(context)
    yield from sessions(context)


def tags(context: Context) -> Iterator[tuple[str, str]]:
    """Yield tags, local before fetched ones."""
    from gitcp.state import tag

    for name, summary in tag.listing(context.store):
        yield name, _about(context, summary)


def sessions(context: Context) -> Iterator[tuple[str, str]]:
    """Yield sessions, local before fetched ones."""
    for name, tip in {**context.store.sessions(), **context.store.fetched()}.items():
        last = next(context.store.readable(tip), None)
        yield name, _about(context, last) if last else ""


def phases(context: Context) -> Iterator[tuple[str, str]]:
    """Return the phases of the current session, each with its newest checkpoint."""
    newest: dict[str, Summary] = {}
    for summary in islice(context.store.readable(context.viewed_tip(None)), PHASES):
        newest.setdefault(summary.trailers.get("Gitcp-Phase", ""), summary)
    return ((name, _about(context, each)) for name, each in newest.items() if name)


NAMES = {"session": sessions, "tag": tags, "phase": phases}
"""The completions for each kind of name."""


def _about(context: Context, summary: Summary) -> str:
    return f"{summary.subject} ({humanize.ago(summary.created, context.host.now())})"
