"""Python programs that use gitcp, run as processes of their own beside a project."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

from driver import SOURCE, Project

PREAMBLE = (
    "import os, signal, sys, time\nfrom pathlib import Path\nimport gitcp\ncheckpoints = "
    "gitcp.open('.')\n"
)


def start(project: Project, program: str, *args: str) -> subprocess.Popen[bytes]:
    """Start a program in the project; `checkpoints` is there for it."""
    return subprocess.Popen(
        [sys.executable, "-P", "-W", "error", "-c", PREAMBLE + textwrap.dedent(program), *args],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def ended(process: subprocess.Popen[bytes], code: int | None = 0) -> str:
    """Wait for a program, which must end with `code` (None: with any); what it printed."""
    out, err = process.communicate(timeout=120)
    assert code in (None, process.returncode), (process.returncode, err.decode())
    return out.decode()


def run(project: Project, program: str, *args: str, code: int = 0) -> str:
    """Run a program in the project to its end; what it printed."""
    return ended(start(project, program, *args), code)
