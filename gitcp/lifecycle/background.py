"""Start work in the background that outlives the program.

The saving program may run for days, with threads, descriptors and locks, so it is never forked: a
shell starts a new Python and detaches it, without our descriptors.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from gitcp.worktree.interpreter import interpreter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from gitcp.git.repo import Repository

PROGRAM = """import ast, importlib, os, sys
task = ast.literal_eval(sys.argv[1])
sys.path[:] = task["modules"]
if task["python"] == sys.version:
    importlib.import_module(task["program"]).work(task, os.environ)
"""


def start(repo: Repository, program: str, task: Mapping[str, Any]) -> None:
    """Start `work(task, environment)` of the module `program`, without waiting.

    If there is no interpreter or it fails, nothing happens: the next save starts it again.
    """
    python = interpreter()
    if python is None:
        return
    import subprocess  # few saves start something

    whole = {
        **task,
        "program": program,
        "python": sys.version,
        "modules": [path for path in sys.path if os.path.isabs(path)],
        "root": str(repo.root),
        "git_dir": str(repo.git_dir),
        "home": str(repo.host.home),
    }
    with suppress(OSError):
        subprocess.run(
            ["/bin/sh", "-c", '"$@" &', "sh", python, "-I", "-c", PROGRAM, ascii(whole)],
            cwd="/",  # keep no directory in use
            env=dict(repo.host.env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            check=False,
        )


def opened(
    task: Mapping[str, Any], env: Mapping[str, str], now: Callable[[], datetime]
) -> Repository:
    from pathlib import Path

    from gitcp.git.repo import Repository
    from gitcp.model import Host

    repo = Repository(Path(task["root"]), Path(task["git_dir"]), Host(env, Path(task["home"]), now))
    repo.git_options = (f"--git-dir={repo.git_dir}", f"--work-tree={repo.root}")
    return repo
