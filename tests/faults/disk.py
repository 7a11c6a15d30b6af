"""A real disk that is full, or cannot be written to: a small file system of one's own, in a
namespace of one's own.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from faults import process
from faults.scenes import Stage
from faults.tracer import Traced

SIZE = 24 << 20
BLOCK = 4096
ENOUGH = 4
"""So many times in a row there must have been room enough."""

MOST = 48
"""With so many blocks left there is room for anything that ends with 0 whatever happens."""

ALONE = ("unshare", "--user", "--map-root-user", "--mount")
"""Runs a command as one who may mount, for itself alone."""


@contextmanager
def small(place: Path) -> Iterator[Path]:
    """A small file system at a directory."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def rooms(stage: Stage, step: int) -> Iterator[int]:
    """So many blocks are left each time, until it was often enough that the command was done."""
    left = 0
    while stage.in_a_row < ENOUGH or (stage.scene.silent and left < MOST):
        yield left
        left += step


def full(stage: Stage, disk: Path, left: int) -> str:
    """The scene's command with so many blocks left on the disk. How it ended."""
    return stage.survive("full", lambda: _perform(stage, lambda: _full(disk, left)), left)


def read_only(stage: Stage, disk: Path) -> str:
    """The scene's command on a disk that cannot be written to. How it ended."""
    return stage.survive("EROFS", lambda: _perform(stage, lambda: _read_only(disk)), 1)


def _perform(stage: Stage, trouble: Callable[[], AbstractContextManager[None]]) -> Traced:
    become = process.forked(stage.scene.command)
    given = stage.scene.given(stage).encode()
    with trouble():
        return Traced(*process.run(become, stage.project.root, input=given), ())


@contextmanager
def _full(disk: Path, blocks: int) -> Iterator[None]:
    """So many blocks are left."""
    filler = disk / "filler"
    with filler.open("wb") as file:
        status = os.statvfs(disk)
        free = status.f_bavail * status.f_frsize - blocks * BLOCK
        os.posix_fallocate(file.fileno(), 0, free)
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def _read_only(disk: Path) -> Iterator[None]:
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
