"""`gitcp watch`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from gitcp import documents, humanize
from gitcp.automation.watching import saves as op
from gitcp.automation.watching.watcher import Stop, watcher
from gitcp.cli import rendering
from gitcp.cli.context import Context
from gitcp.cli.failure import describe
from gitcp.cli.options import SECONDS, Command, exact_session_option, json_option
from gitcp.cli.output import BOLD, DIM, GREEN, Styled
from gitcp.errors import BadValue, RepositoryNotFound
from gitcp.model import Checkpoint
from gitcp.saving import session as session_op
from gitcp.saving.save import Saved
from gitcp.state import settings
from gitcp.store import Store

QUIET = 10.0
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command(cls=Command)
@click.option(
    "--quiet",
    type=SECONDS,
    metavar="SECONDS",
    default=QUIET,
    help="save after this long without a change (10)",
)
@click.option(
    "--every",
    type=SECONDS,
    metavar="SECONDS",
    help="longest time between saves during changes; 0: no limit (gitcp.interval)",
)
@exact_session_option
@json_option
@click.pass_obj
def command(
    context: Context, quiet: float, every: float | None, session: str | None, *, as_json: bool
) -> None:
    """Save automatically while files change

    For agents without hooks. Watches files and conversations in all worktrees of the repository;
    with --session, only in this one. Runs until ^C or SIGTERM, then saves once more. Ignored files
    are not watched.

      gitcp watch
      gitcp watch --quiet 3 --every 600
    """
    store = context.store
    if session is not None:  # every save would be refused, and tried again
        session_op.exact(store, session)
    mistakes: list[BadValue] = []
    policy = settings.policy(store.repo, mistakes)
    context.warn_of(mistakes)
    pace = op.Pace(quiet, policy.interval if every is None else every)
    limits, stop = context.limits(), Stop()

    def watch(root: Path) -> Iterator[Saved | Exception]:
        own = root == store.repo.root
        return _watch(
            context, op.SaveTask(context.cwd if own else root, session, limits), pace, stop
        )

    with _ended_by_signals(stop):
        context.output.say(f"watching {store.repo.root}; ^C to stop")
        if session is not None:
            for event in watch(store.repo.root):
                _tell(context, event, as_json=as_json)
            return
        for noticed in op.watch_worktrees(store.repo, watch, stop.is_set):
            worktree = "" if noticed.root == store.repo.root else context.shown_path(noticed.root)
            if noticed.what is not None:
                _tell(context, noticed.what, worktree, as_json=as_json, retried=not noticed.ended)


def _watch(
    context: Context, task: op.SaveTask, pace: op.Pace, stop: Stop
) -> Iterator[Saved | Exception]:
    from gitcp.git.repo import Repository

    def opened() -> Store:
        """Open the store again: cached state may be outdated."""
        repo = Repository.open(task.cwd, context.host)
        repo.read_by_libgit2()
        return Store(repo)

    most = task.limits.max_dependency_files
    changes = watcher(opened().repo, most, lambda: op.elsewhere(task.cwd, context.host), stop)
    try:
        yield from op.watch(opened, task, pace, changes.wait, stop.is_set)
    finally:
        changes.close()


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


def _tell(
    context: Context,
    event: Saved | Exception,
    worktree: str = "",
    *,
    as_json: bool,
    retried: bool = True,
) -> None:
    """Print one line for a save or an error, and flush it. `worktree` is another worktree."""
    if isinstance(event, RepositoryNotFound) and not retried:
        context.output.say(f"no longer watched: {worktree} is gone")
    elif isinstance(event, Exception):
        then = "will retry" if retried else "no longer watched"
        at = f" ({worktree})" if worktree else ""
        context.output.say(f"not saved{at}: {describe(event).message}; {then}")
    elif as_json:
        fields = {
            "saved": True,
            "reason": event.reason,
            "unread": event.unread and event.unread.what,
            "checkpoint": documents.checkpoint(event.checkpoint, ()),
        }
        context.output.document(documents.document("save", fields))
    else:
        _print(context, event.checkpoint, worktree)
    if not isinstance(event, Exception):
        rendering.say_unread(context.output, event.unread)
    sys.stdout.flush()


def _print(context: Context, checkpoint: Checkpoint, worktree: str) -> None:
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
        f"  in {worktree}" if worktree else "",
    )
