"""Work in a process of its own, which outlives the one that began it and whoever waits for that."""

from __future__ import annotations

import os
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def apart(work: Callable[[], object], failed: Callable[[BaseException], None], seconds: float = 0) -> None:
    """Do `work` in a process of its own, which nobody stops with ours; wait for it for at most `seconds`."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            nowhere = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(nowhere, descriptor)
            work()
        except BaseException as error:  # noqa: BLE001 -- nobody is left to see it
            failed(error)
        finally:
            os._exit(0)
    os.close(writing)
    if select.select([reading], [], [], seconds)[0]:
        os.waitpid(child, 0)
