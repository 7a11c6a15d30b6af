"""A home, or an agent's directory, that cannot be looked at: as with `docker run -u`. No agent is
there, and everything else works.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitcp.agents import KNOWN

from driver import SOURCE, Project

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2

PROGRAM = """
import gitcp
checkpoints = gitcp.open()
checkpoints.save("one")
checkpoints.save("two", session="s", force=True)
open("a.txt", "w").write("two")
checkpoints.plan("s"), checkpoints.restore("s"), checkpoints.undo(), checkpoints.sessions()
checkpoints.check(), checkpoints.plan_prune(), checkpoints.fork("s@1", name="f")
session = checkpoints.session("p")
session.resume(), session.step("a", lambda: 1)
with checkpoints.transaction("t"):
    pass
"""

COMMANDS = (
    ["save", "-m", "x", "--force"],
    ["status"],
    ["sessions"],
    ["doctor"],
    ["import", "--dry-run"],
    ["restore", "s@1", "--dry-run"],
    ["enable", "--dry-run"],
)


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """A directory that nobody may enter."""
    path = tmp_path / "closed"
    path.mkdir(mode=0)
    yield path
    path.chmod(0o700)


def without_override() -> None:
    """In a child: let permissions bind root, too."""
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def variables() -> set[str]:
    """The variables that name a place of an agent, or of gitcp's own."""
    found = {"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"}
    for agent in KNOWN:
        found |= {agent.home_variable} if agent.home_variable else set()
    return found


@pytest.mark.cli
@pytest.mark.parametrize("which", ["home", "variables"])
def test_closed(project: Project, closed: Path, which: str) -> None:
    """Nothing raises PermissionError; what a command says is not about the closed place."""
    project.write("a.txt", "one\n")
    project.commit()
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    env |= (
        {"HOME": str(closed)}
        if which == "home"
        else {name: str(closed / "x") for name in variables()}
    )

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command],
            cwd=project.root,
            env=env,
            capture_output=True,
            text=True,
            preexec_fn=without_override,
        )

    probe = run("-c", f"import os; os.stat({str(closed / 'x')!r})")
    assert "PermissionError" in probe.stderr, "the directory is not closed"
    done = run("-c", PROGRAM)
    assert not done.stderr, done.stderr
    for command in COMMANDS:
        done = run("-m", "gitcp", *command)
        assert "Permission denied" not in done.stderr, command
        assert "Traceback" not in done.stderr, command
        assert done.returncode in ({0, 2} if command[0] == "enable" else {0, 3}), (
            command,
            done.stdout,
            done.stderr,
        )
