"""Whether git's own daemon can be believed. On Linux, git 2.55's reports a file below a renamed
directory by the directory's old name: so that very program is tried first, on a small tree.

The result is remembered in `<git dir>/gitcp/canary`, for the program as it is on disk. The user's
daemon is asked only who runs it; the one that is tried is our own, in a directory of its own.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

from gitcp import fingerprint, trusted_cache
from gitcp.git.fsync import replace_cache
from gitcp.git.process import scrubbed
from gitcp.git.repo import Repository
from gitcp.watchers import ipc
from gitcp.watchers.watched import FAKE, GIT, SOCKETS, Answer, directories, parse

NAME = "canary"
START_SECONDS, STARTS = 5.0, 0.05


def is_trusted(repo: Repository, socket: str) -> bool:
    """Return whether git's daemon listens there, and is of a git that can be believed."""
    program = _program(socket)
    return program is not None and _passes(repo, program)


def _program(path: str) -> str | None:
    """Return the program of the process that listens at `path`."""
    try:
        connection = ipc.connect(path, ipc.SECONDS)
        try:
            return os.readlink(f"/proc/{ipc.owner(connection)[0]}/exe")
        finally:
            connection.close()
    except OSError:
        return None


def _passes(repo: Repository, program: str) -> bool:
    """Return whether a program passes the trial, which is made once."""
    cache = str(repo.git_dir / "gitcp" / NAME)
    file = fingerprint.at(program)
    known = trusted_cache.load(cache)
    if known is not None and known[0] == (program, file):
        return bool(known[1])
    passes = file is not None and passes_trial(program, scrubbed(repo.host.env))
    try:
        replace_cache(str(repo.state_dir / NAME), ((program, file), passes))
    except (OSError, ValueError):
        return passes
    return passes


def passes_trial(program: str, env: dict[str, str]) -> bool:
    """Return whether a git tells an edit two levels below a renamed directory. Runs a daemon of its
    own meanwhile.
    """
    import tempfile  # 10 ms, and a program is tried once

    env = {**env, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    silent = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
    }
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        root = Path(temporary).resolve()
        options: dict[str, Any] = {"cwd": root, "env": env, **silent}
        try:
            init = [program, "init", "--quiet", "--template="]
            subprocess.run(init, timeout=START_SECONDS, check=True, **options)
            daemon = subprocess.Popen([program, "fsmonitor--daemon", "run"], **options)
        except (OSError, subprocess.SubprocessError):
            return False
        try:
            return _tells_all(root, daemon)
        except OSError:
            return False
        finally:
            daemon.kill()
            daemon.wait()


def _tells_all(root: Path, daemon: subprocess.Popen[bytes]) -> bool:
    root.joinpath("a/b/c").mkdir(parents=True)
    socket = str(root / ".git" / SOCKETS[GIT])
    until = time.monotonic() + START_SECONDS
    first = _ask(socket, FAKE)
    while first is None and daemon.poll() is None and time.monotonic() < until:
        time.sleep(STARTS)
        first = _ask(socket, FAKE)
    if first is None:
        return False
    root.joinpath("a").rename(root / "z")
    second = _ask(socket, first.token)
    if second is None:
        return False
    root.joinpath("z/b/c/file").write_text("", "utf-8")
    third = _ask(socket, second.token)
    return third is not None and b"z/b/c" in directories(third.paths or (), exact=False)[0]


def _ask(socket: str, token: bytes) -> Answer | None:
    return parse(ipc.ask(socket, token))
