"""Partial clones: objects that are missing because a remote has promised them. git fetches them
when they are read.

Only `bring` fetches.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gitcp.errors import GitFailed
from gitcp.git import remote

if TYPE_CHECKING:
    from gitcp.git.repo import Repository
    from gitcp.model import Oid

ALONE = ("-c", "fetch.negotiationAlgorithm=noop", "-c", "gc.auto=0", "-c", "maintenance.auto=0")
"""The settings that git itself uses to fetch single objects, without housekeeping afterwards."""

ROUNDS = 2
"""In a clone without trees: first trees, then the objects they name."""

AS_FAR_AS_HERE = "--missing=allow-any"
"""For `git rev-list`: skip missing objects, and fetch none."""

AS_FAR_AS_PROMISED = "--missing=allow-promisor"
"""For `git rev-list`: fail for a missing object unless a remote has promised it; fetch none."""


def is_partial(repo: Repository) -> bool:
    """Return whether objects promised by a remote may be missing here."""
    return any(repo.common_dir.glob("objects/pack/*.promisor"))


def bring(repo: Repository, commits: Iterable[Oid]) -> bool:
    """Fetch the objects missing below these commits, in one request. Return whether this is a
    partial clone.

    Raises GitFailed if they are not available.
    """
    if not is_partial(repo):
        return False
    tips = "".join(f"{commit}\n" for commit in commits).encode("ascii")
    for _ in range(ROUNDS):
        output = repo.git(
            "rev-list", "--objects", "--missing=print", "--stdin", input=tips
        ).splitlines()
        missing = b"".join(line[1:] + b"\n" for line in output if line.startswith(b"?"))
        for name in _remotes(repo) if missing else ():
            options = (*remote.NAMED_ONLY, "--quiet", "--filter=blob:none", "--stdin")
            repo.git(*ALONE, "fetch", *options, name, input=missing, connects=True)
    return True


def _remotes(repo: Repository) -> list[str]:
    """Return the remotes that have promised objects."""
    settings = remote.settings(repo)
    names = (
        key.removeprefix("remote.").removesuffix(".promisor")
        for key in settings
        if key.endswith(".promisor")
    )
    return [name for name in names if settings[f"remote.{name}.promisor"].lower() == "true"]


def is_all_that_is_missing(repo: Repository, commits: Iterable[Oid]) -> bool:
    """Return whether only promised objects are missing below these commits."""
    if not is_partial(repo):
        return False
    tips = "".join(f"{commit}\n" for commit in commits).encode("ascii")
    try:
        repo.git("rev-list", "--objects", AS_FAR_AS_PROMISED, "--quiet", "--stdin", input=tips)
    except GitFailed:
        return False
    # a newer git passes over missing commits
    return b" missing\n" not in repo.git("cat-file", "--batch-check", input=tips)
