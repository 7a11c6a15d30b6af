"""Starts `gitcp`: as its user does, or as a fork of this process, which has loaded it already.

A fork runs the same code in a process of its own and starts in a tenth of the time: what makes
thousands of commands, and tens of thousands of attempts, possible. Only the loading of modules is
not done again.
"""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import NamedTuple

import gitcp
from gitcp import __main__ as entry

SOURCE = Path(__file__).parents[2]

PACKAGES = (
    *(
        "adapters",
        "automation",
        "cli",
        "conversation",
        "fastpath",
        "git",
        "history",
        "hooks",
        "lifecycle",
        "policy",
    ),
    *("restoring", "review", "running", "saving", "secrets", "sharing", "state"),
    "worktree",
)

LIMIT = 120.0
"""Seconds a command of a test may take."""

INTERPRETER = re.compile("PYTHON|LANG|LC_|LD_")
"""Variables that only a new interpreter obeys."""


class Result(NamedTuple):
    """How a process ended: its exit code and what it said."""

    code: int
    out: str
    err: str


@cache
def load() -> None:
    """Load what any command may load, so that forks need not."""
    for package in PACKAGES:
        directory = Path(gitcp.__file__).parent / package
        for module in iter_modules([str(directory)]):
            import_module(f"gitcp.{package}.{module.name}")
    gc.freeze()  # a fork need not copy what nobody changes


def typed(args: Sequence[str | bytes]) -> Callable[[], None]:
    """What becomes `gitcp ARGS`, as it is typed."""
    command = [sys.executable, "-P", "-m", "gitcp", *args]
    return lambda: os.execve(sys.executable, command, {**os.environ, "PYTHONPATH": str(SOURCE)})


def forked(args: Sequence[str | bytes]) -> Callable[[], None]:
    """What becomes `gitcp ARGS` in a process that has loaded it."""

    def run() -> None:
        os.environ["PYTHONPATH"] = str(SOURCE)
        os.closerange(3, 1024)  # a lock that a test holds is not this process's
        sys.argv = ["gitcp", *map(os.fsdecode, args)]
        sys.stdin = open(0, errors="surrogateescape", closefd=False)
        sys.stdout = open(1, "w", errors="surrogateescape", closefd=False)
        sys.stderr = open(2, "w", errors="backslashreplace", closefd=False)
        entry.main()

    return run


def run_gitcp(
    args: Sequence[str | bytes], cwd: Path, env: Mapping[str, str], input: bytes
) -> Result:
    """Run `gitcp ARGS` without a terminal, with `env` added to the environment.

    A fork is enough, unless the interpreter itself is to start differently, or other threads of
    this process may hold locks.
    """
    if any(map(INTERPRETER.match, env)) or threading.current_thread() != threading.main_thread():
        return _typed(args, cwd, env, input)
    load()
    return run(forked(args), cwd, env, input, limit=LIMIT)


def _typed(args: Sequence[str | bytes], cwd: Path, env: Mapping[str, str], input: bytes) -> Result:
    done = subprocess.run(
        # -P: a `click.py` or `gitcp/` of the project under test is not ours.
        [sys.executable, "-P", "-m", "gitcp", *args],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(SOURCE), **env},
        input=input,
        capture_output=True,
        timeout=LIMIT,
    )
    out, err = (text.decode("utf-8", "surrogateescape") for text in (done.stdout, done.stderr))
    return Result(done.returncode, out, err)


def start(
    become: Callable[[], None], cwd: Path, env: Mapping[str, str], streams: Sequence[int]
) -> int:
    """A new process that becomes something else, in `cwd`, with `env` added and three descriptors;
    its number.

    `become` does not return. Nobody waits for the process here.
    """
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.chdir(cwd)
        os.environ.update(env)
        become()
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(127)


def run(
    become: Callable[[], None],
    cwd: Path,
    env: Mapping[str, str] = {},
    input: bytes = b"",
    *,
    kill: float | None = None,
    limit: float | None = None,
) -> Result:
    """A new process that becomes something else, to its end, or killed after so many seconds. One
    that takes longer than `limit` is killed, and the test fails.
    """
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        given.write(input)
        given.seek(0)
        pid = start(become, cwd, env, [file.fileno() for file in (given, out, err)])
        if kill is not None:
            time.sleep(kill)
            os.kill(pid, signal.SIGKILL)
        late = threading.Timer(limit, os.kill, (pid, signal.SIGABRT)) if limit else None
        if late is not None:
            late.start()
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if late is not None:
            late.cancel()
            late.join()
            assert code != -signal.SIGABRT, f"no end after {limit} seconds"
        return Result(code, text(out.fileno()), text(err.fileno()))


def text(descriptor: int) -> str:
    """Everything in an open file."""
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, size, 0).decode("utf-8", "surrogateescape")
