"""`gitcp watch`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from gitcp.automation import watch as op
from gitcp.cli import humanize, objects
from gitcp.cli.context import Context
from gitcp.cli.failure import describe
from gitcp.cli.options import SECONDS, Command, exact_session_option, json_option, pass_context
from gitcp.cli.output import BOLD, DIM, GREEN, Styled
from gitcp.errors import BadValue
from gitcp.model import Checkpoint
from gitcp.saving.save import Saved
from gitcp.state import settings
from gitcp.store import Store
from gitcp.worktree.watcher import Stop, Watcher

QUIET = 10.0
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command(cls=Command)
@click.option(
    "--quiet",
    metavar="SECONDS",
    type=SECONDS,
    default=QUIET,
    help="save when nothing changed for so long (10)",
)
@click.option(
    "--every",
    metavar="SECONDS",
    type=SECONDS,
    help=(
        "save at least so often while changes go on; 0 for never (the setting gitcp.interval, 30 "
        "minutes)"
    ),
)
@exact_session_option
@json_option
@pass_context
def command(
    context: Context, quiet: float, every: float | None, session: str | None, *, as_json: bool
) -> None:
    """Save by itself while somebody works here

    For agents without hooks. Files and the agent's conversation are watched; each checkpoint is one
    line. It runs until ^C or SIGTERM, and then saves what is left. What git ignores is not looked
    at, and without a change nothing is.

      gitcp watch
      gitcp watch --quiet 3 --every 600
    """
    store = context.store
    mistakes: list[BadValue] = []
    policy = settings.policy(store.repo, mistakes)
    context.warn_of(mistakes)
    task = op.Task(context.cwd, session, context.limits())
    pace = op.Pace(quiet, policy.interval if every is None else every)
    stop = Stop()
    with _ended_by_signals(stop):
        changes = Watcher(
            store.repo,
            task.limits.max_dependency_files,
            lambda: op.elsewhere(context.cwd, context.host),
            stop,
        )
        context.output.say(f"watching {store.repo.root}; ^C ends it")
        for found in op.watch(lambda: _opened(context), task, pace, changes, stop.is_set):
            _tell(context, found, as_json=as_json)
        changes.close()


def _opened(context: Context) -> Store:
    """The store as it is now: what was read of it a while ago may not hold any more."""
    from gitcp.git.repo import Repository

    return Store(Repository.open(context.cwd, context.host))


@contextmanager
def _ended_by_signals(stop: Stop) -> Iterator[None]:
    """A signal that was ignored when we were started stays ignored, as in a background job of a
    shell.
    """
    before: dict[int, Any] = {number: signal.getsignal(number) for number in ENDING}
    for number, found in before.items():
        if found != signal.SIG_IGN:
            signal.signal(number, lambda *_: stop.set())
    try:
        yield
    finally:
        for number, found in before.items():
            signal.signal(number, found)


def _tell(context: Context, found: Saved | Exception, *, as_json: bool) -> None:
    """One line, at once, whoever reads."""
    if isinstance(found, Exception):
        context.output.say(f"not saved: {describe(found).message}; it is tried again")
    elif as_json:
        fields = {
            "saved": True,
            "reason": found.reason,
            "checkpoint": objects.checkpoint(found.checkpoint, ()),
        }
        context.output.document(objects.document("save", fields))
    else:
        _print(context, found.checkpoint)
    sys.stdout.flush()


def _print(context: Context, found: Checkpoint) -> None:
    talk = (
        f", {humanize.count(found.conversation.digest.messages, 'message')}"
        if found.conversation
        else ""
    )
    context.output.line(
        Styled(humanize.moment(found.created), DIM),
        Styled("  saved ", GREEN),
        Styled(str(found.id), BOLD),
        f"  {found.trigger.value}  ({humanize.count(found.changed, 'file')} changed{talk})",
    )
