"""What commands load: an import that a command does not need is time that somebody waits."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from driver import SOURCE, Project

LOADED = """
import sys
sys.argv = ["gitcp", *sys.argv[1:]]
from gitcp import __main__
code = __main__._run(sys.argv[1:])
heavy = {"jinja2", "pygit2", "rich", "textual"}
print("loaded:", *sorted(heavy & set(sys.modules)))
sys.exit(code)
"""


@pytest.mark.parametrize(
    "args",
    [
        ["log", "--oneline", "-n", "1"],
        ["log", "--phase", "x"],
        ["show"],
        ["status"],
        ["diff", "--stat", "@~1"],
        ["restore", "--yes", "--files", "@~1"],
    ],
    ids=" ".join,
)
def test_little_is_loaded(project: Project, args: list[str]) -> None:
    """Commands with something to show and to do."""
    for text in ("one\n", "two\n"):
        project.write("a.txt", text)
        project.gitcp("save", check=0)

    done = subprocess.run(
        [sys.executable, "-c", LOADED, *args],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.endswith("loaded:\n")
