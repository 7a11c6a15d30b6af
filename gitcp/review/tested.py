"""Find the test runs that tested a commit's content. Pure.

With hooks, the checkpoint that has the content was made by the edit, before the tests ran: they are
in the activity of a later checkpoint, until something else is edited.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gitcp.history.activity import Activity, CommandRun
from gitcp.model import Oid, Trigger

FOLLOWING = 20
"""Checkpoints after the last one of a change that are looked at."""

AFTER_TOOLS = (Trigger.TOOLS, Trigger.ON_TEST_FAILURE, Trigger.INTERVAL)


class Attempt(NamedTuple):
    """A checkpoint, what happened before it, and the paths it changed."""

    commit: Oid
    trigger: Trigger
    activity: Activity
    paths: frozenset[bytes]


def runs(attempts: Sequence[Attempt], last: Oid, paths: frozenset[bytes]) -> tuple[CommandRun, ...]:
    """Return the test runs of a commit that changed `paths` and came from the checkpoint `last`.

    `attempts` are checkpoints of one session in order. An earlier run tested other content: it is
    not among them.
    """
    at = next((n for n, attempt in enumerate(attempts) if attempt.commit == last), None)
    if at is None:
        return ()
    return tuple(ran for ran in _commands(attempts[at:], paths) if ran.is_test)


def _commands(attempts: Sequence[Attempt], paths: frozenset[bytes]) -> Iterator[CommandRun]:
    own = attempts[0].activity
    if own.edits:
        yield from own.commands[own.edits[-1] :]
    elif attempts[0].trigger in AFTER_TOOLS:  # saved after the command that changed the files
        yield from own.commands[-1:]
    else:
        yield from own.commands
    for attempt in attempts[1:]:
        commands, edits = attempt.activity.commands, attempt.activity.edits
        # An edit that changed nothing is one that failed, or the last one: some agents write a call
        # to their transcript only after the hook.
        if attempt.paths & paths or (edits and attempt.paths):
            yield from commands[: edits[0]] if edits else ()
            return
        yield from commands
