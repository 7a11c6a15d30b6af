"""The personal store: a repository of gitcp's own for conversations that belong to no other.

It is an ordinary repository without files, so every command works in it:
`gitcp -C ~/.local/share/gitcp/conversations log --all`.
"""

from __future__ import annotations

from pathlib import Path

from gitcp.errors import Refused
from gitcp.git import process
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
    return Store(Repository.open(path, host)) if (path / ".git").is_dir() else None


def make(host: Host) -> Store:
    """Return the personal store, which is created if missing, readable by the user only. Raises
    Refused.
    """
    path = place(host)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"cannot create {path}: {error.strerror}; nothing was stored") from None
    if not (path / ".git").is_dir():
        process.run((*process.INIT, str(path)), cwd=str(path), env=host.env)
    return Store(Repository.open(path, host))
