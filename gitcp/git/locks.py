"""Locks among gitcp processes; the system releases them when their holder dies."""

from __future__ import annotations

import fcntl
import time
from contextlib import suppress

from gitcp.errors import GitcpError

LOCK_WAIT = 60.0


def take(descriptor: int, until: float, *, alone: bool = True) -> bool:
    """Lock the open file `descriptor`, alone or together with others that do not lock it alone.
    Return whether it was locked by the time `until` of the monotonic clock. Raises GitcpError.
    """
    kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    return _try(descriptor, kind) or _wait(descriptor, kind, until)


def take_now(descriptor: int, *, alone: bool = True) -> bool:
    """Lock the open file `descriptor` as `take` does, without waiting. Return whether it was
    locked. Raises GitcpError.
    """
    return _try(descriptor, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)


def _wait(descriptor: int, kind: int, until: float) -> bool:
    """Wait in the kernel's queue, which is first come, first served; polling could starve a process
    for a minute. Runs in a thread, because nothing else limits the wait.
    """
    from threading import Thread  # only if another process holds it

    def wait() -> None:
        with suppress(OSError):  # the last attempt reports it
            fcntl.flock(descriptor, kind)

    waiter = Thread(target=wait, daemon=True)
    waiter.start()
    waiter.join(max(0.0, until - time.monotonic()))
    return not waiter.is_alive() and _try(descriptor, kind)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise GitcpError(
            f"the store cannot be locked: {error.strerror}; nothing was changed"
        ) from None
    return True
