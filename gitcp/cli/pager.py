"""Sends what is written to stdout through the user's pager, as git does: the pipe takes the place
of descriptor 1.

So whatever writes there, buffered or not, is paged; and a pager that is left early ends the command
quietly.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

DEFAULT = "less"
PLAIN = ("", "cat")
"""Pagers that page nothing."""


def chosen(env: Mapping[str, str], core_pager: str | None) -> str:
    """The pager's command line: GITCP_PAGER, git's core.pager, PAGER, else less. "" if there shall
    be none.
    """
    program = next(
        (c for c in (env.get("GITCP_PAGER"), core_pager, env.get("PAGER")) if c is not None),
        DEFAULT,
    )
    return "" if program.strip() in PLAIN else program


@contextmanager
def through(env: Mapping[str, str], core_pager: str | None) -> Iterator[None]:
    """Send what is written to stdout inside through the pager; return when the pager has ended."""
    command = chosen(env, core_pager)
    if not command:
        yield
        return
    # the user's own command line, as git runs it
    pager = subprocess.Popen(  # noqa: S602
        command, shell=True, stdin=subprocess.PIPE, env={"LESS": "FRX", "LV": "-c", **env}
    )
    assert pager.stdin is not None
    sys.stdout.flush()
    screen = os.dup(1)
    os.dup2(pager.stdin.fileno(), 1)
    pager.stdin.close()
    try:
        yield
    except BrokenPipeError:
        pass  # the reader has seen enough
    finally:
        _leave(screen)
        _wait(pager)


def _leave(screen: int) -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # what is still in the buffer must not come out on the screen
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
        sys.stdout.flush()
    os.dup2(screen, 1)
    os.close(screen)


def _wait(pager: subprocess.Popen[bytes]) -> None:
    """Ignore interrupts while the pager runs: they are meant for the pager."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        pager.wait()
    finally:
        signal.signal(signal.SIGINT, before)
