"""Saves many times in a hurry, as a framework does: `hurried.py ROOT SESSION COUNT`. Says their
numbers. What a thread would settle is settled at once, so that each call has its place.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from gitcp.git import write_ahead_log
from gitcp.git.gathering import Gathering
from gitcp.git.repo import Repository
from gitcp.integrations.fast_store import FastStore
from gitcp.model import Host, Note, Snapshot
from gitcp.saving import save
from gitcp.saving.session import GIVEN, Choice


def at_once(work: Callable[[], object]) -> None:
    """Do it now."""
    work()


def main(root: str, session: str, count: str) -> None:
    """Save so many checkpoints, each with a label and a fact of its own."""
    host = Host(
        os.environ, Path(os.environ["HOME"]), lambda: datetime(2026, 11, 21, 12, tzinfo=UTC)
    )
    store = FastStore(Repository.open(Path(root), host), Gathering())
    write_ahead_log.started = at_once  # type: ignore[attr-defined]
    for _ in range(int(count)):
        note = Note(facts={"token": os.urandom(8).hex()})
        files = Snapshot(store.repo.object_format.empty_tree, store.repo.head(), 0)
        choice = Choice(session, None, GIVEN)
        request = save.SaveRequest(
            cwd=Path(root), note=note, choice=choice, carried=save.Carried(files=files), force=True
        )
        number = save.save(store, request).checkpoint.id.number
        os.write(1, b"%d\n" % number)


if __name__ == "__main__":
    main(*sys.argv[1:])
