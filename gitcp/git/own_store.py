"""Create gitcp's own store in a directory without git: `.gitcp/store.git`.

It is an ordinary git directory whose working tree is the directory around `.gitcp`, and plain git
reads it with `--git-dir`. git does not take that directory for a repository, because it looks for
`.git` only. Should the directory become a git repository later, `.gitcp/.gitignore` keeps the store
out of its commits.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from gitcp.discovery import STORE
from gitcp.errors import DiskFull, GitcpError
from gitcp.git import process, records
from gitcp.git.fsync import FULL, make_directories, replace_file, sync_directory
from gitcp.model import Host

SETTINGS = (("core.bare", "false"), ("core.worktree", "../.."), ("core.logAllRefUpdates", "false"))


def create(root: Path, host: Host) -> Path:
    """Create the store of `root` and return its path. Writes `.gitcp/`, and the record that it is
    this user's; an unfinished store has another name, so that a crash leaves none that would be
    used. If it cannot be recorded, it is used all the same, and nothing can be sent from it.

    Raises GitFailed, DiskFull, or GitcpError if the directory cannot be written to.
    """
    store = root / STORE
    unfinished = store.with_name(f"{store.name}.{os.getpid()}")
    try:
        make_directories(store.parent)
        replace_file(store.parent / ".gitignore", b"*\n")
        _init(unfinished, host)
        unfinished.rename(store)
        sync_directory(store.parent)
        trust(store, host)
    except OSError as error:
        what = f"{store} cannot be created: {error.strerror}; nothing can be saved here"
        if error.errno in FULL:
            raise DiskFull(what, hint="free some space, then: gitcp init") from None
        raise GitcpError(what, hint=f"ls -ld {root}") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return store


def trust(store: Path, host: Host) -> bool:
    """Record a store as this user's. Return whether that could be written."""
    try:
        records.write(store, host, records.OWN, os.fsencode(f"{os.path.realpath(store)}\n"))
    except OSError:
        return False
    return True


def _init(path: Path, host: Host) -> None:
    env = host.env
    process.run((*process.INIT, "--bare", str(path)), cwd=str(path.parent), env=env)
    for key, value in SETTINGS:
        setting = ("config", "--file", str(path / "config"), key, value)
        process.run(setting, cwd=str(path.parent), env=env)
