"""The personal store, for conversations that belong to no repository: one of gitcp's own, without
files, in which every command works: `gitcp -C ~/.local/share/gitcp/conversations log --all`.
"""

from __future__ import annotations

import os
from pathlib import Path

from gitcp.discovery import STORE
from gitcp.errors import Refused
from gitcp.git import own_store
from gitcp.git.repo import Repository
from gitcp.model import Host
from gitcp.store import Store

NAME = "conversations"


def place(host: Host) -> Path:
    """Return the directory of the personal store, existing or not."""
    data = Path(host.env.get("XDG_DATA_HOME") or host.home / ".local" / "share")
    return data / "gitcp" / NAME


def find(host: Host) -> Store | None:
    """Return the personal store, None if there is none yet."""
    path = place(host)
    return Store(Repository.open(path, host)) if os.path.isdir(path / STORE) else None


def make(host: Host) -> Store:
    """Return the personal store, which is created if missing, readable by the user only. Raises
    Refused, or what `own_store.create` raises.
    """
    path = place(host)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"cannot create {path}: {error.strerror}; nothing was stored") from None
    if not os.path.isdir(path / STORE):
        own_store.create(path, host)
    return Store(Repository.open(path, host))
