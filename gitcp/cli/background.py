"""Work in a process of its own, which outlives the one that began it and whoever waits for that."""

from __future__ import annotations

import os

from gitcp.cli import bounded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def apart(
    work: Callable[[], object],
    failed: Callable[[BaseException], None],
    until: float = 0,
    *,
    goes_on: bool = True,
) -> bytes:
    """Do `work` in a process of its own, which nobody stops with ours; return what it printed until
    then.

    It is waited for until `time.monotonic` is at `until`. Then it goes on by itself, or else is
    killed.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            _leave(writing)
            work()
        except BaseException as error:  # noqa: BLE001 -- nobody is left to see it
            failed(error)
        finally:
            os._exit(0)
    os.close(writing)
    printed, ended = bounded.printed(reading, until)
    os.close(reading)
    if not ended and not goes_on:
        os.kill(child, 9)
    if ended or not goes_on:
        os.waitpid(child, 0)
    return printed


def _leave(writing: int) -> None:
    """Leave the session and the streams of who began us. What is printed goes to the pipe."""
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor, stream in ((nowhere, 0), (writing, 1), (nowhere, 2)):
        os.dup2(descriptor, stream)
    os.close(writing)
    os.close(nowhere)
