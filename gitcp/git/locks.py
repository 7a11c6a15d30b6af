"""A lock among gitcp processes; the system releases it when its holder dies."""

from __future__ import annotations

import fcntl
from contextlib import suppress

from gitcp.errors import GitcpError

LOCK_WAIT = 60.0


def take(descriptor: int) -> bool:
    """Lock the open file `descriptor`, waiting up to a minute. Return whether it was locked. Raises
    GitcpError.
    """
    return _try(descriptor) or _wait(descriptor)


def _wait(descriptor: int) -> bool:
    """Wait in the kernel's queue, which is first come, first served; polling could starve a process
    for a minute. Runs in a thread, because nothing else limits the wait.
    """
    from threading import Thread  # only if another process holds it

    def wait() -> None:
        with suppress(OSError):  # the last attempt reports it
            fcntl.flock(descriptor, fcntl.LOCK_EX)

    waiter = Thread(target=wait, daemon=True)
    waiter.start()
    waiter.join(LOCK_WAIT)
    return not waiter.is_alive() and _try(descriptor)


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise GitcpError(
            f"the store cannot be locked: {error.strerror}; nothing was changed"
        ) from None
    return True
