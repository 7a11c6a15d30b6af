"""Whether anything was mounted or unmounted, which inotify does not tell."""

from __future__ import annotations

import os
import select

from gitcp.watchers.mounts import TABLE


class MountEvents:
    """The mounts and unmounts that this process sees. Without /proc, each moment may have had
    one.
    """

    def __init__(self) -> None:
        self._descriptor = -1
        try:
            self._descriptor = os.open(TABLE, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLPRI)

    def happened(self) -> bool:
        """Return whether there was one since the last time."""
        return self._descriptor < 0 or bool(self._poll.poll(0))

    def close(self) -> None:
        """Close what is read."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
