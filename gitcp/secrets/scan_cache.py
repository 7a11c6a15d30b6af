"""Cache of the raw ids of clean objects. Deleting it only costs time.

Starts with a hash of the rules and the user's scanner; if these change, everything is scanned
again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from contextlib import suppress

from gitcp.git.fsync import read_own, replace_file
from gitcp.git.repo import Repository
from gitcp.secrets.scan import VERSION
from gitcp.state import settings

NAME = "scanned"


def load(repo: Repository) -> frozenset[bytes]:
    """Return the ids of the objects that are clean by the current rules."""
    try:
        data = read_own(repo.store_dir / NAME)
    except OSError:
        return frozenset()
    head = _head(repo)
    if not data.startswith(head):
        return frozenset()
    raw = repo.object_format.raw
    return frozenset(data[at : at + raw] for at in range(len(head), len(data) - raw + 1, raw))


def add(repo: Repository, clean: Collection[bytes]) -> None:
    """Add clean objects. Failures are ignored: the objects are scanned again next time."""
    if not clean:
        return
    existing = load(repo)
    with suppress(OSError):
        replace_file(
            repo.store_dir / NAME,
            _head(repo) + b"".join(sorted(existing.union(clean))),
            durable=False,
        )


def _head(repo: Repository) -> bytes:
    scanner = settings.scanner(repo)
    rules = bytes.fromhex(VERSION)
    return (
        hashlib.sha256(rules + "\0".join(scanner.command).encode()).digest() if scanner else rules
    )
