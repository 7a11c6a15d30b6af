"""A lock among gitcp processes: the system gives it back when its holder dies."""

from __future__ import annotations

import fcntl
from contextlib import suppress

from gitcp.errors import GitcpError

LOCK_WAIT = 60.0


def take(descriptor: int) -> bool:
    """Whether the open file `descriptor` is locked now; waits for others, a minute at most. Raises
    GitcpError.
    """
    return _try(descriptor) or _wait(descriptor)


def _wait(descriptor: int) -> bool:
    """Queue up: the system wakes who waits in the order in which they came, where looking again and
    again is a lottery that somebody loses for a minute. In a thread, since nothing else ends the
    wait.
    """
    from threading import Thread  # only where somebody holds it

    def wait() -> None:
        with suppress(OSError):  # said by the last attempt
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
            f"the store cannot be locked: {error.strerror}. Nothing was changed"
        ) from None
    return True
