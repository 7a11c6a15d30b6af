"""Projects whose commands are forks of this process, to the end of what they leave behind."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from launch import forked, load, run, start, text, typed

from driver import Project, Result

__all__ = ["Forking", "children", "forked", "load", "reap", "run", "start", "text", "typed"]

SUBREAPER = 36
"""<sys/prctl.h>: who lost its parent becomes our child."""


def children() -> frozenset[int]:
    """The processes that this one would have to wait for."""
    found = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(FileNotFoundError):  # a thread that has ended
            found |= {int(pid) for pid in path.read_text().split()}
    return frozenset(found)


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
