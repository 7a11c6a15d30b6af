"""The process that pushes in the background (gitcp.lifecycle.pushing starts it).

Nobody sees it and nobody can answer it: it asks for no password, and does not wait for a remote
that says nothing.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any

from gitcp.errors import GitcpError, GitFailed
from gitcp.git import process
from gitcp.lifecycle import background
from gitcp.sharing import push_queue
from gitcp.store import Store

SILENT = 120
"""Seconds without a byte after which git gives up an HTTP connection."""

LONGEST = 30 * 60
"""Seconds after which an attempt ends, whatever it does."""

SSH = "ssh -o BatchMode=yes -o ConnectTimeout=30 -o ServerAliveInterval=30"
"""The ssh of those who set none."""


def work(task: Mapping[str, Any], env: Mapping[str, str]) -> None:
    """Push what waits for the remote of the task. Errors are in the queue, for `status`."""
    os.nice(10)
    now = datetime.fromisoformat(task["now"])
    has_ssh = "core.sshcommand" in background.opened(task, env, lambda: now).config
    repo = background.opened(task, unattended(env, has_ssh=has_ssh), lambda: now)
    with suppress(GitcpError, OSError):
        push_queue.drain(Store(repo), task["remote"], attempt=limited)


def unattended(env: Mapping[str, str], *, has_ssh: bool) -> dict[str, str]:
    """Return the environment for git where nobody watches. `has_ssh`: git's config sets an ssh."""
    settings = {"http.lowSpeedLimit": "1", "http.lowSpeedTime": str(SILENT)}
    ssh = {} if has_ssh or {"GIT_SSH", "GIT_SSH_COMMAND"} & env.keys() else {"GIT_SSH_COMMAND": SSH}
    return {**process.configured(env, settings), "SSH_ASKPASS_REQUIRE": "never", **ssh}


@contextmanager
def limited(seconds: float = LONGEST) -> Iterator[None]:
    """Raise GitFailed in the block after so many seconds, and end the programs that it runs: those
    that git started would go on without it. Only for a process that leads its own group.
    """

    def end(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise GitFailed(f"the remote did not answer within {seconds:.0f} seconds")

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
