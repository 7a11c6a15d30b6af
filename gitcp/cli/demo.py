"""`gitcp demo`."""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path

import click

from gitcp.cli.context import Context
from gitcp.cli.options import Command
from gitcp.cli.output import BOLD, CYAN, DIM, GREEN, Output, Styled
from gitcp.demo import prepare_tutorial, run

KEY = 0.03
"""Seconds between two typed characters."""

READING = 0.7
"""Seconds to read the output."""

SPEAKERS = {"you": CYAN, "agent": GREEN, "shell": DIM}


@click.command(cls=Command)
@click.option("--keep", metavar="DIR", help="run in DIR (empty or new) and keep it")
@click.pass_obj
def command(context: Context, keep: str | None) -> None:
    """Show gitcp at work in a scratch repository

    Your own files are not changed. What --keep leaves includes the shop of the tutorial.

      gitcp demo
      gitcp demo --keep /tmp/demo
    """
    stage, color = Screen(context.output), context.output.colour
    if keep is not None:
        directory = Path(os.path.join(context.cwd, keep))
        run(directory, context.host, stage, color=color)
        script = prepare_tutorial(directory, context.host)
        context.output.line(
            "To follow the tutorial in a shop made for it: ",
            Styled(shlex.join(["sh", os.path.relpath(script, context.cwd)]), BOLD),
        )
        return
    import tempfile  # with shutil and random behind it: only here

    with tempfile.TemporaryDirectory(prefix="gitcp-demo-") as scratch:
        run(Path(scratch), context.host, stage, color=color)


class Screen:
    """Shows the demo: at reading speed on a terminal, without delay elsewhere."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._begun = False

    def tell(self, text: str) -> None:
        self._apart()
        self._output.line(Styled(text, BOLD))
        self._wait(READING)

    def message(self, speaker: str, text: str) -> None:
        self._output.line("  ", Styled(f"{speaker:5}", SPEAKERS[speaker]), f"  {text}")
        self._wait(READING)

    def type(self, command: str) -> None:
        self._apart()
        self._output.data(self._output.shown(Styled("$ ", GREEN)).encode())
        for key in command:
            self._output.data(key.encode())
            self._wait(KEY)
        self._output.line()

    def output(self, data: bytes) -> None:
        self._output.data(data)
        self._wait(READING + 0.1 * data.count(b"\n"))

    def _apart(self) -> None:
        if self._begun:
            self._output.line()
        self._begun = True

    def _wait(self, seconds: float) -> None:
        sys.stdout.flush()
        if self._output.terminal:
            time.sleep(seconds)
