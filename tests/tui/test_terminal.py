"""The interface in a real terminal (tmux): from the start to a restore and its undo, the agent, a
kill.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from shop import Shop, furnished
from tmux import terminal

from driver import SOURCE, Project

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@pytest.fixture
def shop(project: Project) -> Shop:
    """A shop with a history."""
    return furnished(project)


@needs_tmux
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
def test_restore_and_undo(shop: Shop, size: tuple[int, int]) -> None:
    """`gitcp` alone opens it; a checkpoint is found, restored and that undone, byte for byte."""
    before = shop.project.files()
    with shop.project.guard(), terminal(shop.project.root, size=size) as shown:
        shown.until("driver in place")
        shown.press("/", "before mig")
        shown.until("1 match")
        shown.press("Enter", "r")
        shown.until("y apply")
        assert shop.project.files() == before
        shown.press("y")
        shown.until("u undoes it")
        assert not shop.project.root.joinpath("db.py").exists()
        assert shop.project.root.joinpath("schema.sql").exists()
        shown.press("u")
        shown.until("y apply")
        shown.press("y")
        shown.until("U redoes it")
        assert shop.project.files() == before
        shown.press("q")
        shown.until("Timeline", gone=True)


@needs_tmux
def test_resume(shop: Shop, tmp_path: Path) -> None:
    """The agent gets the whole terminal, and the interface comes back when it ends."""
    agent = tmp_path / "bin" / "claude"
    agent.parent.mkdir()
    agent.write_text('#!/bin/sh\necho "agent here: $*"\nread answer\necho "bye $answer"\n')
    agent.chmod(0o755)
    env = {"PATH": f"{agent.parent}:{os.environ['PATH']}"}
    with shop.project.guard(), terminal(shop.project.root, env=env) as shown:
        shown.until("driver in place")
        shown.press("j", "R")
        shown.until("Restore?")
        shown.press("y", "Enter")
        shown.until("agent here: --resume")
        shown.press("done", "Enter")
        shown.until("ended with 0")
        assert "driver in place" in shown.text()


@needs_tmux
def test_copy(shop: Shop) -> None:
    """`y` puts the id into the clipboard of the terminal (OSC 52), and says so."""
    with shop.project.guard(), terminal(shop.project.root) as shown:
        shown.tmux("set-option", "-g", "set-clipboard", "on")
        shown.until("driver in place")
        shown.press("j", "j", "y")
        shown.until("copied e7baae82@5")
        assert shown.tmux("show-buffer") == "e7baae82@5"


@needs_tmux
def test_new_checkpoint(shop: Shop) -> None:
    """A checkpoint that is made meanwhile appears, and the cursor stays on its own."""
    with terminal(shop.project.root) as shown:
        shown.until("driver in place")
        shop.project.write("new.txt", "new\n")
        shop.project.gitcp("save", "made meanwhile", "--session", "e7baae82", check=0)
        text = shown.until("made meanwhile")
        assert any("▌" in line and "driver in place" in line for line in text.splitlines())


@needs_tmux
def test_killed(shop: Shop) -> None:
    """A kill while a plan is shown leaves everything as it was."""
    before, refs = shop.project.files(), shop.project.git("for-each-ref")
    with shop.project.guard(), terminal(shop.project.root) as shown:
        shown.until("driver in place")
        shown.press("G", "r")
        shown.until("y apply")
        found = subprocess.run(
            ["pgrep", "-P", shown.tmux("display", "-p", "#{pane_pid}").strip()],
            capture_output=True,
            text=True,
        )
        os.kill(int(found.stdout), signal.SIGKILL)
        shown.until("Killed")
    assert shop.project.files() == before
    assert shop.project.git("for-each-ref") == refs


def test_not_on_a_pipe(shop: Shop) -> None:
    """On a pipe `gitcp` prints help, and `gitcp ui` says what it needs."""
    assert shop.project.gitcp(check=0).out.startswith("Usage: gitcp")
    refused = shop.project.gitcp("ui", check=2)
    assert "error: gitcp ui needs a terminal" in refused.err
    assert "gitcp log" in refused.err


def test_only_the_interface_loads_textual(shop: Shop) -> None:
    """No other command imports textual, nor does the help."""
    code = (
        "import sys\nfrom gitcp.cli.main import run\n"
        "for args in (['log'], ['status'], ['-h']):\n    run(args)\n"
        "print('textual' in sys.modules, 'pygments' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=shop.project.root,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.endswith("False False\n"), done.stderr
