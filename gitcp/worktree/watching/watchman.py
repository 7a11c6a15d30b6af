"""Ask Watchman, where it runs and watches this working tree already: it is never started, and told
to watch nothing else.
"""

from __future__ import annotations

import os
import subprocess
import time
from typing import Any

from gitcp.git.repo import Repository
from gitcp.watchers import ipc
from gitcp.watchers.watched import Answer, is_outside
from gitcp.worktree.watching import bser


def address(repo: Repository) -> str | None:
    """Return where Watchman listens or would listen, None without Watchman."""
    try:
        done = subprocess.run(
            ["watchman", "--no-spawn", "--output-encoding=bser", "get-sockname"],
            env=dict(repo.host.env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ipc.SECONDS,
            check=False,
        )
        path = bser.loads(done.stdout)[b"sockname"]
        return os.fsdecode(path)
    except (OSError, ValueError, subprocess.TimeoutExpired, KeyError, TypeError):
        return None


def ask(address: str, root: bytes, token: bytes) -> Answer | None:
    """Return what changed below `root` since a token (a clock of Watchman's; any other is answered
    with everything). None if Watchman does not answer in two seconds, or does not watch this tree.
    """
    until = time.monotonic() + ipc.SECONDS
    try:
        connection = ipc.connect(address, ipc.SECONDS)
        try:
            return _asked(connection, root, token, until)
        finally:
            connection.close()
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _asked(connection: Any, root: bytes, token: bytes, until: float) -> Answer | None:
    watched = _exchange(connection, [b"watch-list"], until)[b"roots"]
    if not any((root + b"/").startswith(top.rstrip(b"/") + b"/") for top in watched):
        return None
    project = _exchange(connection, [b"watch-project", root], until)
    left = max(1, int((until - time.monotonic()) * 1000))
    query: dict[bytes, Any] = {b"fields": [b"name"], b"sync_timeout": min(left, 1000)}
    if b"relative_path" in project:
        query[b"relative_root"] = project[b"relative_path"]
    if token.startswith(b"c:"):
        query[b"since"] = token
    else:
        query[b"expression"] = [b"false"]  # only the clock
    answer = _exchange(connection, [b"query", project[b"watch"], query], until)
    is_everything = b"since" not in query or answer.get(b"is_fresh_instance", True)
    names = answer[b"files"]
    if is_everything or b"warning" in answer or any(is_outside(name) for name in names):
        return Answer(answer[b"clock"], None)
    return Answer(answer[b"clock"], names)


def _exchange(connection: Any, command: list[Any], until: float) -> dict[bytes, Any]:
    """Return the answer to a command. Raises OSError, ValueError, also for an answer that is an
    error.
    """
    connection.sendall(bser.dumps(command))
    data, size = b"", None
    while size is None or len(data) < size:
        connection.settimeout(max(0.001, until - time.monotonic()))
        more = connection.recv(1 << 20)
        if not more or len(data) > ipc.MOST:
            raise ValueError("Watchman's answer ended early")
        data += more
        size = bser.length(data)
    answer = bser.loads(data)
    if b"error" in answer:
        raise ValueError(answer[b"error"])
    return dict(answer)
