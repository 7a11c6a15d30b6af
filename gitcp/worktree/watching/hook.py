"""Ask the program that `core.fsmonitor` names, by version 2 of its protocol.

It is the user's own program, which `git status` runs as well: from the settings of the user or the
system, never from those of a repository, which may be a stranger's. Nor is anything run that is in
a working tree or a git directory, or that a shell would have to read first.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from gitcp.errors import GitFailed
from gitcp.git.process import scrubbed
from gitcp.git.repo import Repository
from gitcp.watchers import ipc
from gitcp.watchers.watched import Answer, parse

SETTING = "core.fsmonitor"
BOOLEANS = frozenset(("", "true", "false", "yes", "no", "on", "off", "0", "1"))
OWN_COMMAND_LINE, TRUSTED = "command", ("system", "global")
PLAIN = re.compile(r"[\w./+@%:,=-]+")
"""A path that a shell reads as itself."""


def program(repo: Repository) -> str | None:
    """Return the program to ask, as an absolute path; None if git's settings name none, or one that
    is not run.
    """
    value = _trusted_setting(repo)
    if value.lower() in BOOLEANS or not PLAIN.fullmatch(value):
        return None
    env = repo.host.env
    path = os.path.join(repo.root, value) if "/" in value else shutil.which(value, path=env["PATH"])
    if path is None or _is_inside(os.path.realpath(path), repo):
        return None
    return path


def _trusted_setting(repo: Repository) -> str:
    """Return the setting, "" if a repository's own file has the last word."""
    try:
        listing = repo.git("config", "-z", "--show-scope", "--get-all", SETTING, accept=(0, 1))
    except GitFailed:
        return ""
    fields = listing.decode("utf-8", "surrogateescape").split("\0")
    values = [
        (scope, value)
        for scope, value in zip(fields[0:-1:2], fields[1::2], strict=True)
        if scope != OWN_COMMAND_LINE
    ]
    return values[-1][1] if values and values[-1][0] in TRUSTED else ""


def _is_inside(path: str, repo: Repository) -> bool:
    """Return whether a checkpoint or an archive may contain this file."""
    tops = (os.path.realpath(top) for top in (repo.root, repo.git_dir, repo.common_dir))
    return any(path.startswith(top.rstrip("/") + "/") for top in tops)


def ask(repo: Repository, address: str, token: bytes) -> Answer | None:
    """Return what changed since a token, None if the program fails or takes over two seconds."""
    try:
        done = subprocess.run(
            [address, "2", token],
            cwd=repo.root,
            env=scrubbed(repo.host.env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=ipc.SECONDS,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return parse(done.stdout) if done.returncode == 0 else None
