"""gitcp on a terminal of its own: a person looks on, types, and sees colours."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path

from driver import SOURCE, Project, Result

SGR = re.compile(r"\x1b\[[0-9;]*m")
"""A colour: the only escape sequence that gitcp writes by itself."""


def on_terminal(
    project: Project,
    *args: str,
    typed: str = "",
    env: Mapping[str, str] | None = None,
    columns: int = 80,
    interrupt: Path | None = None,
) -> Result:
    """Run `gitcp ARGS` with all its streams on a terminal; what it wrote, line ends as usual, is in
    `out`. It is interrupted as soon as the file `interrupt` exists.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "gitcp", *args],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "TERM": "xterm-256color", **(env or {})},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    if typed:
        os.write(ours, typed.encode())
    if interrupt is not None:
        while not interrupt.exists() and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
    written = _read_all(ours)
    os.close(ours)
    return Result(
        process.wait(timeout=60),
        written.decode("utf-8", "surrogateescape").replace("\r\n", "\n"),
        "",
    )


def _read_all(descriptor: int) -> bytes:
    parts: list[bytes] = []
    while True:
        try:
            part = os.read(descriptor, 1 << 16)
        except OSError:  # how Linux says that the other end was closed
            return b"".join(parts)
        if not part:
            return b"".join(parts)
        parts.append(part)
