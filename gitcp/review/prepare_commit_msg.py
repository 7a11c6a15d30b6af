"""A trailer in the message of a commit that is being made: which checkpoint it comes from. Writes
the message alone.
"""

from __future__ import annotations

import os
from pathlib import Path

from gitcp.model import Oid
from gitcp.review.links import TRAILER
from gitcp.saving import session
from gitcp.store import Store

AMENDED = "commit"
"""What git calls the source of a message that is another commit's."""

UNTOUCHED = ("merge",)


def add(store: Store, message: Path, source: str) -> bool:
    """Name the last checkpoint of the current session in a message, if it stands on the commit that
    is the parent.

    False where there is none, where the message names one already, and for a merge.
    """
    name = session.current(store)
    tip = store.tip(name) if name else None
    if tip is None or source in UNTOUCHED:
        return False
    summary = store.summary(tip)
    if (
        summary.trailers.get("Gitcp-Base") not in _parents(store, source)
        or TRAILER.encode() in message.read_bytes()
    ):
        return False
    store.repo.git(
        "interpret-trailers",
        "--in-place",
        "--trailer",
        f"{TRAILER}: {summary.id}",
        os.fsencode(message),
    )
    return True


def _parents(store: Store, source: str) -> tuple[Oid, ...]:
    """HEAD; where it is being amended, its own parent as well."""
    head = store.repo.head().commit
    if head is None or source != AMENDED:
        return (head,) if head else ()
    lines = store.objects.read_commit(head).partition(b"\n\n")[0].split(b"\n")
    return (head, *(Oid(line[7:].decode("ascii")) for line in lines if line.startswith(b"parent ")))
