"""What type checkers say to a user's program: nothing to a right one, and each mistake in a wrong
one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from real_agents import PREFIX

from driver import SOURCE

PROGRAMS = SOURCE / "tests/api/typing"
PYRIGHT = PREFIX / "pyright/node_modules/.bin/pyright"


def mypy(program: Path) -> set[int]:
    """The lines in which `mypy --strict` finds a mistake."""
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--hide-error-context",
    ]
    done = subprocess.run(
        [*command, "--follow-imports=silent", "--cache-dir", program.parent / "cache", program],
        cwd=program.parent,
        env={**os.environ, "MYPYPATH": str(SOURCE)},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    return {int(line) for line in re.findall(rf"(?m)^{program.name}:(\d+): error", done.stdout)}


def pyright(program: Path) -> set[int]:
    """The lines in which pyright, with its strict rules, finds a mistake."""
    if not PYRIGHT.exists() or shutil.which("node") is None:
        pytest.skip(f"needs pyright (npm) in {PYRIGHT.parents[2]}")
    settings = {
        "include": [program.name],
        "extraPaths": [str(SOURCE)],
        "typeCheckingMode": "strict",
    }
    program.with_name("pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [PYRIGHT, "--outputjson", "--pythonpath", sys.executable, "--project", program.parent],
        cwd=program.parent,
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {each["range"]["start"]["line"] + 1 for each in found if each["severity"] == "error"}


@pytest.mark.parametrize("checker", [mypy, pyright], ids=lambda checker: checker.__name__)
@pytest.mark.parametrize("name", ["right.py", "wrong.py"])
def test_programs(tmp_path: Path, checker: Callable[[Path], set[int]], name: str) -> None:
    """The lines with a mark, and no others."""
    program = Path(shutil.copy(PROGRAMS / name, tmp_path))
    lines = program.read_text("utf-8").splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}

    found = checker(program)

    assert bool(marked) is (name == "wrong.py")
    assert {n: lines[n - 1] for n in found - marked} == {}, "a right line is refused"
    assert {n: lines[n - 1] for n in marked - found} == {}, "a mistake is not found"
