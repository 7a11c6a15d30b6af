"""The Python API: `gitcp.open(path)` returns Checkpoints. Environment, home and clock enter here.

Nothing is printed or asked, and no state is kept between calls except in the repository: objects
can be shared between threads, and other processes can work in the same repository.
"""

from __future__ import annotations

import os
from pathlib import Path

from gitcp import clock, user_state
from gitcp.api.asynchronous import AsyncCheckpoints
from gitcp.api.checked import require
from gitcp.api.checkpoints import Checkpoints
from gitcp.model import Host
from gitcp.worktree.given import encoded


def open(path: str | os.PathLike[str] = ".", *, host: Host | None = None) -> Checkpoints:
    """Return the checkpoints of the repository around `path`.

    `host` overrides this process's environment, home and clock. Raises RepositoryNotFound, and
    Refused for a repository that gitcp does not support. Writes nothing.
    """
    require("path", path, str | os.PathLike[str], "nothing was opened")
    require("host", host, Host | None, "nothing was opened")
    encoded(path, "the directory", "nothing was opened")
    actual_host = host or Host(os.environ, Path(os.path.expanduser("~")), clock.now)
    user_state.configure(actual_host.env, str(actual_host.home))
    return Checkpoints(Path(os.path.realpath(path)), actual_host)


async def aopen(
    path: str | os.PathLike[str] = ".", *, host: Host | None = None
) -> AsyncCheckpoints:
    """Return the checkpoints of the repository around `path` for asyncio. See `open`."""
    return AsyncCheckpoints(open(path, host=host))
