"""Limits on how long an agent waits for a hook.

The kernel ends a stuck process. Slow work runs in a detached process without the agent's streams;
the hook stops waiting for it at the limit, and it continues.
"""

from __future__ import annotations

import os
import select
import time
from _signal import (  # type: ignore[import-not-found]  # `signal` itself loads enum: a millisecond
    ITIMER_REAL,
    SIG_DFL,
    SIG_UNBLOCK,
    SIGALRM,
    pthread_sigmask,
    setitimer,
    signal,
)

from gitcp import agents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT = 5.0
"""Seconds that an agent waits, where none of the next three applies and no earlier hook has been at
work here for longer than OVERDUE (cli.background.SHORT). docs/hooks.md documents all five.
"""

LIMIT_BEFORE_TOOL = 10.0
LIMIT_AT_END = 1.0
LIMIT_AFTER_ANOTHER = 0.2
"""Seconds that it waits for a save after one that has not finished in time in the same turn: what
hangs delays a turn once, however many tools it calls.
"""

OVERDUE = 15.0
GRACE = 2.0
"""Seconds after the limit at which the kernel ends a hook that is stuck itself, in a file system
for example.
"""

LIFETIME = 3600.0
"""Seconds after which work that an agent no longer waits for is ended, so that what hangs does not
pile up.
"""

KINDS = {name: kind for agent in agents.KNOWN for name, kind in agent.hooks.events.items()}
"""What each event is, by any agent's name for it: no two agents mean different ones by a name."""

LARGEST = 4 << 20
"""Bytes of a payload that are kept. The rest is read and dropped: the agent may insist on writing
it.
"""

SILENCE = 2.0
"""Seconds without a byte after which a payload counts as complete although standard input is open.
"""


def begin(arguments: Sequence[str]) -> float:
    """Return the `time.monotonic()` time at which `gitcp hook ARGUMENTS` must have ended.

    Also sets a timer in the kernel, a little later: a Python handler would not run in a stuck
    process. The signal ends it, and the shell of an agent's hook turns that into 0 (`|| true`).
    """
    kind = KINDS.get(arguments[1], "") if len(arguments) > 1 else ""
    seconds = {agents.END: LIMIT_AT_END, agents.BEFORE_TOOL: LIMIT_BEFORE_TOOL}.get(kind, LIMIT)
    # A hook that hung held up its agent for 30 seconds at each event, and a commit for ever.
    _end_after(seconds + GRACE)
    return time.monotonic() + seconds


def end_work() -> None:
    """Have the kernel end this detached process after LIFETIME."""
    _end_after(LIFETIME)


def _end_after(seconds: float) -> None:
    signal(SIGALRM, SIG_DFL)
    pthread_sigmask(SIG_UNBLOCK, (SIGALRM,))
    setitimer(ITIMER_REAL, seconds)


def payload(until: float) -> str:
    """Return standard input, unless it is a terminal. Leaves half of the remaining time for the
    work.
    """
    read: list[bytes] = []
    size = 0
    try:
        while not os.isatty(0) and select.select([0], [], [], min(SILENCE, _left(until) / 2))[0]:
            data = os.read(0, 1 << 16)
            if not data or not _left(until):
                break
            if size < LARGEST:
                read.append(data)
            size += len(data)
    except (OSError, ValueError):
        pass
    return b"".join(read).decode("utf-8", "replace")


def _left(until: float) -> float:
    return max(0.0, until - time.monotonic())
