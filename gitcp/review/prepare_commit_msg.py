"""Add a trailer that names the checkpoint to the message of a commit in progress."""

from __future__ import annotations

import os
from pathlib import Path

from gitcp import regular
from gitcp.model import Oid
from gitcp.review.links import TRAILER
from gitcp.saving import session
from gitcp.store import Store

AMENDED = "commit"
"""The source that git passes when the message is taken from an existing commit."""

UNTOUCHED = ("merge",)


def add(store: Store, message: Path, source: str) -> bool:
    """Add a trailer with the current session's last checkpoint to the file `message`.

    Return False, and leave the file alone, for a merge, if the message has such a trailer already,
    or if the checkpoint's base is not a parent of the new commit. `source` is the hook's second
    argument.
    """
    name = session.current(store)
    tip = store.tip(name) if name else None
    if tip is None or source in UNTOUCHED:
        return False
    summary = store.summary(tip)
    if summary.trailers.get("Gitcp-Base") not in _parents(
        store, source
    ) or TRAILER.encode() in regular.content(message):
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
    """Return the parents that the new commit may have: HEAD, and HEAD's parents for an amend."""
    head = store.repo.head().commit
    if head is None or source != AMENDED:
        return (head,) if head else ()
    lines = store.reader.read_commit(head).partition(b"\n\n")[0].split(b"\n")
    return (head, *(Oid(line[7:].decode("ascii")) for line in lines if line.startswith(b"parent ")))
