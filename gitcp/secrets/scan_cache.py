"""Cache of the raw ids of clean objects. Deleting it only costs time.

It has a hash of the rules and the user's scanner; if these change, everything is scanned again. And
it is one of gitcp.trusted_cache: a forged one would let secrets leave.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from contextlib import suppress

from gitcp import trusted_cache
from gitcp.git.fsync import replace_cache
from gitcp.git.repo import Repository
from gitcp.secrets.scan import VERSION
from gitcp.state import settings

NAME = "scanned"


def load(repo: Repository) -> frozenset[bytes]:
    """Return the ids of the objects that are clean by the current rules."""
    known = trusted_cache.load(str(repo.store_dir / NAME))
    try:
        head, data = known
    except TypeError:
        return frozenset()
    if head != _head(repo):
        return frozenset()
    raw = repo.object_format.raw
    return frozenset(data[at : at + raw] for at in range(0, len(data) - raw + 1, raw))


def add(repo: Repository, clean: Collection[bytes]) -> None:
    """Add clean objects. Failures are ignored: the objects are scanned again next time."""
    if not clean:
        return
    data = b"".join(sorted(load(repo).union(clean)))
    with suppress(OSError):
        replace_cache(repo.store_dir / NAME, (_head(repo), data))


def _head(repo: Repository) -> bytes:
    scanner = settings.scanner(repo)
    rules = bytes.fromhex(VERSION)
    return (
        hashlib.sha256(rules + "\0".join(scanner.command).encode()).digest() if scanner else rules
    )
