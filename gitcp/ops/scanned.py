"""The names of objects in which no secret was found: a cache, 20 bytes a name, worth nothing but time.

It begins with the version of the rules and the user's scanner. With others everything is scanned again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection

from gitcp.git.repo import Repository
from gitcp.ops import settings
from gitcp.secrets.scan import VERSION

NAME = "scanned"


def load(repo: Repository) -> frozenset[bytes]:
    """What was found clean by these rules."""
    try:
        data = (repo.store_dir / NAME).read_bytes()
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
    temporary = repo.store_dir / f"{NAME}.{os.getpid()}"
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(_head(repo) + b"".join(sorted(known.union(clean))))
        os.replace(temporary, repo.store_dir / NAME)
    except OSError:
        temporary.unlink(missing_ok=True)


def _head(repo: Repository) -> bytes:
    scanner = settings.scanner(repo)
    rules = bytes.fromhex(VERSION)
    return hashlib.sha256(rules + "\0".join(scanner.command).encode()).digest() if scanner else rules
