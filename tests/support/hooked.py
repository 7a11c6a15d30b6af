"""Hooks called one after the other in one process, which loads everything once: each is a tenth of
the real one's time. Saves are processes of their own, as in the real one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from driver import SOURCE, Project

TICK = 0.011
"""Seconds that a hook takes to start, at least: a file changes earlier, by the clock of files."""

SERVER = """
import sys, time
import gitcp.cli.context, gitcp.state.settings, gitcp.adapters.claude_code, gitcp.automation.hook
import gitcp.worktree.scan
from gitcp.hooks import handler
for line in sys.stdin:
    event, payload = line.rstrip().split(" ", 1)
    assert handler.run(["claude", event, payload], time.monotonic() + 60) == 0
    print(flush=True)
"""


class Hooks:
    """A process that calls the hooks of Claude Code in a project."""

    def __init__(self, project: Project, process: subprocess.Popen[str]) -> None:
        self._project, self._process = project, process

    def __call__(self, session: str, event: str, **fields: Any) -> None:
        """Call the hook of an event."""
        time.sleep(TICK)
        known = {"session_id": session, "cwd": str(self._project.root)}
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{event} {json.dumps({**known, **fields})}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "\n"


@contextmanager
def hooks(project: Project) -> Iterator[Hooks]:
    """Start the process, and end it afterwards."""
    command = [sys.executable, "-P", "-c", SERVER]
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(
        command,
        cwd=project.root,
        env=env,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            yield Hooks(project, process)
        finally:
            assert process.stdin
            process.stdin.close()
            process.wait()
