"""The commands that save and restore a state do not outlive a gitcp that dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from driver import SOURCE, Project

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGKILL]
LIMIT = 20.0


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("words", [("save",), ("restore", "1", "--state", "--yes")])
def test_command_dies_too(
    project: Project, tmp_path: Path, number: signal.Signals, words: tuple[str, ...]
) -> None:
    """Whatever ends gitcp ends the command that it runs, and what that started: it ran on for ever
    without its limits.
    """
    mark, rows = tmp_path / "pids", tmp_path / "rows"
    hangs = f"sleep 300 & echo $$ $! > '{mark}.new' && mv '{mark}.new' '{mark}'; wait"
    rows.write_text("row 1\n")
    project.git("config", "--global", "gitcp.state.db.save", f"cat '{rows}'")
    project.git("config", "--global", "gitcp.state.db.restore", hangs)
    project.write("a", "1\n")
    project.gitcp("save", "--session", "s", check=0)
    rows.write_text("row 2\n")
    if words == ("save",):
        project.git("config", "--global", "gitcp.state.db.save", hangs)
    command = [sys.executable, "-P", "-m", "gitcp", *words]
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    quiet = subprocess.DEVNULL
    gitcp = subprocess.Popen(command, cwd=project.root, env=env, stdout=quiet, stderr=quiet)
    assert _until(mark.exists)
    pids = [int(word) for word in mark.read_text().split()]
    assert all(map(_is_alive, pids))
    gitcp.send_signal(number)
    gitcp.wait(LIMIT)
    assert _until(lambda: not any(map(_is_alive, pids)))


def _until(is_so: object) -> bool:
    """Return whether something becomes true within the limit."""
    assert callable(is_so)
    end = time.monotonic() + LIMIT
    while not is_so() and time.monotonic() < end:
        time.sleep(0.05)
    return bool(is_so())


def _is_alive(pid: int) -> bool:
    """Return whether a process runs; one that ended and was not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
