"""A real terminal, of any size: tmux on a socket of its own, with gitcp in it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from driver import SOURCE

WAIT = 30.0


class Terminal:
    """One window; what is typed in it, and what it shows."""

    def __init__(self, socket: Path, env: Mapping[str, str]) -> None:
        self._socket, self._env = socket, env

    def tmux(self, *args: str, check: bool = True) -> str:
        """Run a command of tmux."""
        done = subprocess.run(
            ["tmux", "-f", "/dev/null", "-S", os.fspath(self._socket), *args],
            env=self._env,
            capture_output=True,
            text=True,
            check=check,
        )
        return done.stdout

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names; other words are typed."""
        for key in keys:
            self.tmux("send-keys", key)

    def text(self) -> str:
        """What the window shows, one line a row."""
        return self.tmux("capture-pane", "-p")

    def until(self, words: str, *, gone: bool = False) -> str:
        """Wait until the window shows these words (or no longer), and return what it shows."""
        end = time.monotonic() + WAIT
        while (words in (text := self.text())) is gone:
            assert time.monotonic() < end, f"{words!r}, gone={gone}:\n{text}"
            time.sleep(0.05)
        return text


@contextmanager
def terminal(
    cwd: Path, *args: str, size: tuple[int, int] = (120, 40), env: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    """Run a shell in a window, in which `gitcp ARGS` is typed; end both."""
    whole = {
        **os.environ,
        "PYTHONPATH": str(SOURCE),
        "TERM": "xterm-256color",
        "LC_ALL": "C.UTF-8",
        **(env or {}),
    }
    whole.pop("TMUX", None)
    socket = Path(os.environ["HOME"]) / "tmux"
    shown = Terminal(socket, whole)
    columns, rows = map(str, size)
    shown.tmux("new-session", "-d", "-x", columns, "-y", rows, "-c", os.fspath(cwd), "/bin/sh")
    try:
        program = [sys.executable, "-P", "-m", "gitcp", *args]
        shown.press(shlex.join(program), "Enter")
        yield shown
    finally:
        shown.tmux("kill-server", check=False)
