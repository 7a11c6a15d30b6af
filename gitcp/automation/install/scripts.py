"""Add gitcp's block to a git hook that is a shell script, and remove it to the byte.

The block comes first: many hooks end by replacing themselves with another program (`exec`).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from gitcp.errors import BadValue
from gitcp.git.repo import Repository

BLOCK = re.compile(r"(?ms)^# gitcp: begin\b.*?^# gitcp: end\n")
SHELL = re.compile(
    r"#!\s*(?:/usr/bin/env\s+(?:-S\s+)?)?(?:\S*/)?(?:sh|bash|dash|ash|zsh|ksh)(?:\s|$)"
)


def directory(repo: Repository) -> Path | None:
    """Return git's hooks directory of a project; None if it is outside of it.

    husky recreates its directory on each install and runs the hooks in its parent.
    """
    output = os.fsdecode(
        repo.git("config", "--type=path", "--get-all", "core.hooksPath", accept=(0, 1))
    )
    # The last one is gitcp's own: it runs git without the user's hooks.
    configured = [line for line in output.split("\n") if line][:-1]
    path = (
        Path(os.path.realpath(repo.root / configured[-1]))
        if configured
        else Path(os.path.realpath(repo.common_dir / "hooks"))
    )
    if path.parts[-2:] == (".husky", "_"):
        return path.parent
    inside = (Path(os.path.realpath(top)) for top in (repo.root, repo.common_dir))
    return path if any(path.is_relative_to(top) for top in inside) else None


def merged(text: str | None, script: str) -> str:
    """Return the hook with the block of `script`. Raises BadValue if it is not a shell script."""
    if text in (None, script):
        return script
    bare = BLOCK.sub("", text, count=1)
    first, end, rest = bare.partition("\n")
    if first.startswith("#!"):
        if SHELL.match(first) is None or not end:
            raise BadValue(
                'not a shell script; call this from it: gitcp hook git prepare-commit-msg "$1" "$2"'
            )
        return first + end + _block(script) + rest
    return _block(script) + bare  # a hook manager's fragment, run with sh


def removed(text: str, script: str) -> str | None:
    """Return the hook without gitcp's block; None if there is nothing else, since gitcp created
    it.
    """
    return None if text == script else BLOCK.sub("", text, count=1)


def _block(script: str) -> str:
    match = BLOCK.search(script)
    assert match is not None
    return match[0]
