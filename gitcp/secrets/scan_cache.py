"""The names of objects in which no secret was found: a cache, 20 bytes a name, worth nothing but
time.

It begins with the version of the rules and the user's scanner. With others everything is scanned
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
    """What was found clean by these rules."""
    try:
        data = read_own(repo.store_dir / NAME)
    except OSError:
        return frozenset()
    head = _head(repo)
    if not data.startswith(head):
        return frozenset()
    return frozenset(data[place : place + 20] for place in range(len(head), len(data) - 19, 20))


def add(repo: Repository, clean: Collection[bytes]) -> None:
    """Remember more. Where that fails it is looked for again, and nothing else happens."""
    if not clean:
        return
    known = load(repo)
    with suppress(OSError):
        replace_file(
            repo.store_dir / NAME, _head(repo) + b"".join(sorted(known.union(clean))), sync=False
        )


def _head(repo: Repository) -> bytes:
    scanner = settings.scanner(repo)
    rules = bytes.fromhex(VERSION)
    return (
        hashlib.sha256(rules + "\0".join(scanner.command).encode()).digest() if scanner else rules
    )
