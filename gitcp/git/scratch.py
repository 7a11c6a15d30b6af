"""A temporary repository that reads the objects of a real one, with none of its settings."""

from __future__ import annotations

import os
from pathlib import Path

from gitcp.git.loose import alternate_line
from gitcp.git.repo import Repository
from gitcp.value import replace

ALONE = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_COUNT": "0"}
"""Variables by which git reads no settings but the repository's."""


def create(repo: Repository, directory: Path) -> Repository:
    """Create a temporary repository that reads the real one's objects and keeps new ones to
    itself.
    """
    for name in ("objects/info", "objects/pack", "refs"):
        (directory / name).mkdir(parents=True)
    (directory / "HEAD").write_text("ref: refs/heads/none\n", "ascii")
    alternate = alternate_line(os.fsencode(repo.common_dir / "objects"))
    (directory / "objects/info/alternates").write_bytes(alternate)
    (directory / "config").write_text(
        "[core]\n\trepositoryFormatVersion = 1\n"
        f"[extensions]\n\tobjectFormat = {repo.object_format.name}\n",
        "ascii",
    )
    made = Repository(repo.root, directory, repo.host)
    # git looked from the working tree: it found the project's own, and none in a directory without
    made.git_options = (f"--git-dir={directory}", f"--work-tree={repo.root}")
    return made


def alone(repo: Repository) -> Repository:
    """Return a temporary repository in which git reads no settings of the user's either."""
    repo.host = replace(repo.host, env={**repo.host.env, **ALONE})
    return repo
