"""Housekeeping after a save: automatic retention and repacking, in a background process.

A save only checks whether something is due: three directories and one small file. At most one
process per repository runs (gitcp.lifecycle.background); if it fails or is killed, nothing is lost.
Pushes that the user consented to are started here, too, as they are due at the same moments.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from gitcp.errors import GitcpError
from gitcp.git import repack
from gitcp.lifecycle import background, pushing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gitcp.git.repo import Repository
    from gitcp.lifecycle.prune import PruneReport
    from gitcp.model import CheckpointId
    from gitcp.store import Store

LIMITS = ("gitcp.maxcheckpoints", "gitcp.maxage", "gitcp.maxsize")
TEAM_FILE = ".gitcp.toml"
REPORT = "dropped"
"""The file with the message that the next `gitcp save` or `run` prints."""

ROUNDS = 3
"""Maximum number of repacks in a row: others may save a lot in the meantime."""


def after_save(store: Store, saved: CheckpointId) -> None:
    """Start what is due after `saved`, without waiting. The caller must not hold the lock.

    Writes nothing itself. Raises BadValue for an invalid limit; other
    housekeeping is started nevertheless.
    """
    due = repack.is_due(store.repo) or _are_many_held(store.repo)
    try:
        due = _is_beyond_limits(store, saved) or due
    finally:
        if due and not repack.is_running(store.repo):
            now = store.repo.host.now().isoformat()
            task = {"now": now, "session": saved.session, "number": saved.number}
            background.start(store.repo, __name__, task)
        pushing.start(store)


def _is_beyond_limits(store: Store, saved: CheckpointId) -> bool:
    repo = store.repo
    if not any(name.startswith(LIMITS) for name in repo.config) and not os.path.lexists(
        repo.root / TEAM_FILE
    ):
        return False
    from gitcp.lifecycle import auto_retention  # slow import, and most set no limit

    return auto_retention.is_due_after(store, saved)


def take_report(repo: Repository) -> str | None:
    """Return and clear the message of the last retention, None if there is none."""
    if not os.path.exists(f"{repo.common_dir}/gitcp/{REPORT}"):
        return None
    from gitcp.state import documents  # rarely needed

    path = repo.common_dir / "gitcp" / REPORT
    message = documents.peek(path).get("said")
    with suppress(OSError):
        path.unlink(missing_ok=True)
    return message if isinstance(message, str) else None


def work(task: Mapping[str, Any], env: Mapping[str, str]) -> None:
    """Do the work of the background process: retention first, so that dropped objects are not
    packed. Errors are ignored, except that those of retention are recorded for the next save.
    """
    from datetime import datetime

    from gitcp.model import CheckpointId
    from gitcp.store import Store

    os.nice(10)
    now = datetime.fromisoformat(task["now"])
    repo = background.opened(task, env, lambda: now)
    with suppress(GitcpError, OSError), repack.alone(repo) as nobody:
        if nobody:
            _retain(Store(repo), CheckpointId(task["session"], task["number"]))
    with suppress(GitcpError, OSError):
        for _ in range(ROUNDS):
            if repack.is_due(repo):
                repack.repack(repo)
    from gitcp.git import held

    with suppress(GitcpError, OSError), repack.alone(repo) as nobody:
        if nobody and _are_many_held(repo):
            held.join(repo)


def _are_many_held(repo: Repository) -> bool:
    if not repo.borrows:
        return False
    from gitcp.git import held  # few repositories borrow

    return held.are_many(repo)


def _retain(store: Store, saved: CheckpointId) -> None:
    from gitcp.lifecycle import auto_retention
    from gitcp.state import documents

    try:
        report = auto_retention.after_save(store, saved)
        message = _message(report) if report else ""
    except GitcpError as error:
        message = f"nothing was dropped: {error}"
    if message:
        documents.write(
            store.repo.store_dir / REPORT, {"schema": "gitcp.dropped/1", "said": message}
        )


def _message(report: PruneReport) -> str:
    """Return what the next save prints, "" for nothing."""
    operation, damaged = report.operation, report.plan.damaged
    parts = []
    if operation is not None:
        parts.append(f"{operation.summary}; restore with: gitcp undo {operation.number}")
    if damaged:
        parts.append(f"nothing was dropped from damaged sessions: {', '.join(damaged)}")
        parts.append("run: gitcp doctor --store")
    return "; ".join(parts)
