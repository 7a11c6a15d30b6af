"""Find out whether agents can run gitcp: hooks call it by its name, so it must be on their PATH."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path

from gitcp.model import Host

NAME = "gitcp"


def on_path(host: Host) -> str | None:
    """Return the gitcp that PATH finds, None if there is none."""
    return shutil.which(NAME, path=host.env.get("PATH", os.defpath))


def fix() -> str:
    """Return the shell command that puts the running gitcp on PATH."""
    return f'export PATH={shlex.quote(str(_directory()))}:"$PATH"'


def only_here(host: Host) -> str | None:
    """Return a warning if PATH finds gitcp only while a virtual environment is active."""
    program, environment = on_path(host), host.env.get("VIRTUAL_ENV")
    if not program or not environment or not Path(program).is_relative_to(environment):
        return None
    return (
        "gitcp is on your PATH only while a virtual environment is active; start agents from such "
        f"a shell, or run: mkdir -p ~/.local/bin && ln -s {shlex.quote(program)} ~/.local/bin/"
    )


def _directory() -> Path:
    """Return the directory of the running gitcp, or where its Python installs programs."""
    running = Path(os.path.abspath(sys.argv[0]))
    if running.name in (NAME, f"git-{NAME}"):
        return running.parent
    return Path(sysconfig.get_path("scripts"))
