"""Run work in a detached process that outlives the caller."""

from __future__ import annotations

import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

WAIT_LESS = b"\0"
"""What the work writes to its pipe so that it is waited for no longer than SHORT: an earlier one
may hang, and this one as well.
"""

SHORT = 1.0
"""Seconds; docs/hooks.md documents them."""


def run_detached(
    work: Callable[[], object],
    on_error: Callable[[BaseException], None],
    deadline: float = 0,
    *,
    goes_on: bool = True,
    overdue: Callable[[int], object] | None = None,
) -> bytes:
    """Run `work` in a detached process and return what it printed before `deadline`.

    Waits until the process ends or `time.monotonic()` reaches `deadline`. After that the process
    continues by itself, or is killed unless `goes_on`; `overdue` is called with its process id.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            _leave(writing)
            work()
        except BaseException as error:  # noqa: BLE001 -- nobody is left to see it
            on_error(error)
        finally:
            if "gitcp.git.catfile" in sys.modules:
                sys.modules["gitcp.git.catfile"].stop_all()
            os._exit(0)
    os.close(writing)
    printed, ended = _printed(reading, deadline)
    os.close(reading)
    if not ended and not goes_on:
        os.kill(child, 9)
    if ended or not goes_on:
        os.waitpid(child, 0)
    elif overdue is not None:
        overdue(child)
    return printed


def _leave(writing: int) -> None:
    """Detach from the caller's session and streams; send output to the pipe `writing`."""
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor, stream in ((nowhere, 0), (writing, 1), (nowhere, 2)):
        os.dup2(descriptor, stream)
    os.close(writing)
    os.close(nowhere)


def _printed(reading: int, until: float) -> tuple[bytes, bool]:
    """Return what the process wrote to its pipe before it ended or time was up, and whether it
    ended.
    """
    read: list[bytes] = []
    while select.select([reading], [], [], max(0.0, until - time.monotonic()))[0]:
        data = os.read(reading, 1 << 16)
        if not data:
            return b"".join(read), True
        if WAIT_LESS in data:
            until = min(until, time.monotonic() + SHORT)
        read.append(data.replace(WAIT_LESS, b""))
    return b"".join(read), False
