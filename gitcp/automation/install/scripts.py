"""A block of gitcp's own in a git hook that is a shell script, whoever else is in it, and its
removal to the byte.

It stands first: many a hook ends by handing over to another program (`exec`), and would never get
to it.
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
    """Where git looks for a project's hooks; None if that lies outside of it.

    husky makes its directory anew with each install, and runs what is above it.
    """
    said = os.fsdecode(
        repo.git("config", "--type=path", "--get-all", "core.hooksPath", accept=(0, 1))
    )
    # the last one is ours: no hook of the user's is run
    chosen = [line for line in said.split("\n") if line][:-1]
    place = (
        Path(os.path.realpath(repo.root / chosen[-1]))
        if chosen
        else Path(os.path.realpath(repo.common_dir / "hooks"))
    )
    if place.parts[-2:] == (".husky", "_"):
        return place.parent
    inside = (Path(os.path.realpath(top)) for top in (repo.root, repo.common_dir))
    return place if any(place.is_relative_to(top) for top in inside) else None


def merged(text: str | None, script: str) -> str:
    """The hook with the block of `script` in it. Raises BadValue for one that is no shell
    script.
    """
    if text in (None, script):
        return script
    bare = BLOCK.sub("", text, count=1)
    first, end, rest = bare.partition("\n")
    if first.startswith("#!"):
        if SHELL.match(first) is None or not end:
            raise BadValue(
                'it is no shell script: let it call  gitcp hook git prepare-commit-msg "$1" "$2"'
            )
        return first + end + _block(script) + rest
    return _block(script) + bare  # a manager's fragment, which it runs by sh


def removed(text: str, script: str) -> str | None:
    """The hook without our block; None if there is nothing else, since it was made for it."""
    return None if text == script else BLOCK.sub("", text, count=1)


def _block(script: str) -> str:
    found = BLOCK.search(script)
    assert found is not None
    return found[0]
