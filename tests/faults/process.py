"""Starts `gitcp`: as its user does, or as a fork of this process, which has loaded it already.

A fork runs the same code in a process of its own and starts in a tenth of the time: what makes tens
of thousands of attempts possible. Only the loading of modules is not done again.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import gitcp
from gitcp import __main__ as entry

from driver import SOURCE, Project, Result

SUBREAPER = 36
"""<sys/prctl.h>: who lost its parent becomes our child."""

PACKAGES = (
    *(
        "adapters",
        "automation",
        "cli",
        "conversation",
        "fastpath",
        "git",
        "history",
        "lifecycle",
        "policy",
    ),
    *("restoring", "review", "running", "saving", "secrets", "sharing", "state", "watchers"),
    "worktree",
)


def load() -> None:
    """Load what any command may load, so that forks need not."""
    for package in PACKAGES:
        directory = Path(gitcp.__file__).parent / package
        for module in iter_modules([str(directory)]):
            if (package, module.name) not in {("cli", "mcp"), ("cli", "mcp_server")}:
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
        sys.argv = ["gitcp", *map(os.fsdecode, args)]
        sys.stdin, sys.stdout, sys.stderr = (
            open(n, "r" if n == 0 else "w", closefd=False) for n in range(3)
        )
        entry.main()

    return run


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
) -> Result:
    """A new process that becomes something else, to its end, or killed after so many seconds."""
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
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return Result(code, text(out.fileno()), text(err.fileno()))


def children() -> frozenset[int]:
    """The processes that this one would have to wait for."""
    listed = (path.read_text() for path in Path("/proc/self/task").glob("*/children"))
    return frozenset(int(pid) for text in listed for pid in text.split())


def reap(others: Collection[int]) -> None:
    """Wait for every child but `others`, also for what those leave behind. Others may never end:
    multiprocessing's.
    """
    while left := children().difference(others):
        for pid in left:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


class Forking(Project):
    """A project in which `gitcp` is run as a fork of this process, with what it leaves to go on in
    the background.

    From the main thread only.
    """

    def __init__(self, root: Path) -> None:
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
        super().__init__(root)

    def gitcp(
        self,
        *args: str | bytes,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        input: str | bytes = b"",
        check: int | None = None,
    ) -> Result:
        """Run `gitcp ARGS`, as `Project.gitcp` does."""
        data = input.encode() if isinstance(input, str) else input
        others = children()
        done = run(forked(args), cwd or self.root, env or {}, data)
        reap(others)
        assert check in (None, done.code), (
            f"gitcp {args!r} ended with {done.code}\n{done.out}\n{done.err}"
        )
        return done


def text(descriptor: int) -> str:
    """Everything in an open file."""
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, size, 0).decode("utf-8", "surrogateescape")
