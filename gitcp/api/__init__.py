"""gitcp for programs: `gitcp.open(path)` gives a Checkpoints. Here is where the environment, home
and clock come from.

Nothing is printed, nothing is asked, and no state is kept between two calls but what the repository
holds: the objects may be shared between threads, and other processes may work beside them.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

from gitcp.api.asynchronous import AsyncCheckpoints
from gitcp.api.checkpoints import Checkpoints
from gitcp.model import Host


def open(path: str | os.PathLike[str] = ".", *, host: Host | None = None) -> Checkpoints:
    """The checkpoints of the repository around `path`.

    `host` is the environment, home and clock to go by; those of this process unless it is given.
    Raises RepositoryNotFound, or Refused where gitcp does not work. Writes nothing.
    """
    surroundings = host or Host(
        os.environ, Path(os.path.expanduser("~")), lambda: datetime.now().astimezone()
    )
    return Checkpoints(Path(os.path.realpath(path)), surroundings)


async def aopen(
    path: str | os.PathLike[str] = ".", *, host: Host | None = None
) -> AsyncCheckpoints:
    """The same for asyncio: every call runs in a thread of its own."""
    return AsyncCheckpoints(open(path, host=host))
