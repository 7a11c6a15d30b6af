"""`gitcp watch`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gitcp import humanize
from gitcp.automation import watch as op
from gitcp.cli import objects
from gitcp.cli.context import Context
from gitcp.cli.failure import describe
from gitcp.cli.options import SECONDS, exact_session_option, json_option, option, takes
from gitcp.cli.output import BOLD, DIM, GREEN, Styled
from gitcp.errors import BadValue
from gitcp.model import Checkpoint
from gitcp.saving.save import Saved
from gitcp.state import settings
from gitcp.store import Store
from gitcp.worktree.watcher import Stop, Watcher

QUIET = 10.0
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@takes(
    option(
        "--quiet",
        metavar="SECONDS",
        default=QUIET,
        kind=SECONDS,
        help="save after this long without a change (10)",
    ),
    option(
        "--every",
        metavar="SECONDS",
        kind=SECONDS,
        help="longest time between saves during changes; 0: no limit (gitcp.interval)",
    ),
    exact_session_option,
    json_option,
)
def command(
    context: Context, quiet: float, every: float | None, session: str | None, *, as_json: bool
) -> None:
    """Save automatically while files change

    For agents without hooks. Watches files and the agent's conversation and prints one line per
    checkpoint. Runs until ^C or SIGTERM, then saves once more. Ignored files are not watched.

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
        context.output.say(f"watching {store.repo.root}; ^C to stop")
        for event in op.watch(lambda: _opened(context), task, pace, changes, stop.is_set):
            _tell(context, event, as_json=as_json)
        changes.close()


def _opened(context: Context) -> Store:
    """Open the store again: cached state may be outdated."""
    from gitcp.git.repo import Repository

    return Store(Repository.open(context.cwd, context.host))


@contextmanager
def _ended_by_signals(stop: Stop) -> Iterator[None]:
    """Stop at a signal, unless it was ignored at start, as in a background job of a shell."""
    before: dict[int, Any] = {number: signal.getsignal(number) for number in ENDING}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:
            signal.signal(number, lambda *_: stop.set())
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(context: Context, event: Saved | Exception, *, as_json: bool) -> None:
    """Print one line for a save or an error, and flush it."""
    if isinstance(event, Exception):
        context.output.say(f"not saved: {describe(event).message}; will retry")
    elif as_json:
        fields = {
            "saved": True,
            "reason": event.reason,
            "checkpoint": objects.checkpoint(event.checkpoint, ()),
        }
        context.output.document(objects.document("save", fields))
    else:
        _print(context, event.checkpoint)
    sys.stdout.flush()


def _print(context: Context, checkpoint: Checkpoint) -> None:
    talk = (
        f", {humanize.count(checkpoint.conversation.digest.messages, 'message')}"
        if checkpoint.conversation
        else ""
    )
    context.output.line(
        Styled(humanize.moment(checkpoint.created), DIM),
        Styled("  saved ", GREEN),
        Styled(str(checkpoint.id), BOLD),
        f"  {checkpoint.trigger.value}  "
        f"({humanize.count(checkpoint.changed, 'file')} changed{talk})",
    )
