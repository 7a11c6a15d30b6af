"""What is mounted below a working tree. No watcher tells of a mount: it hides what is watched."""

from __future__ import annotations

import sys

TABLE = "/proc/self/mountinfo"
MOUNT_POINT = 4
"""The field of a line of the table, from 0."""

ESCAPED = {b"\\040": b" ", b"\\011": b"\t", b"\\012": b"\n", b"\\134": b"\\"}


def below(root: bytes) -> frozenset[bytes] | None:
    """Return the mount points below a directory (an absolute path), relative to it, as this process
    sees them; none on a system without such a table, None if it cannot be read.
    """
    if sys.platform != "linux":
        return frozenset()
    try:
        with open(TABLE, "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    top = root.rstrip(b"/") + b"/"
    points = (_unescaped(line.split(b" ", MOUNT_POINT + 1)[MOUNT_POINT]) for line in lines)
    return frozenset(point[len(top) :] for point in points if point.startswith(top))


def _unescaped(point: bytes) -> bytes:
    if b"\\" in point:
        for code, byte in ESCAPED.items():
            point = point.replace(code, byte)
    return point
