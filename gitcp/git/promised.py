"""Partial clones: objects that are not here because a remote has promised them. git fetches one
when it is asked for.

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
"""What git itself says to fetch single objects; and it does not keep house afterwards."""

ROUNDS = 2
"""Trees first, in a clone without trees, then what they name."""

AS_FAR_AS_HERE = "--missing=allow-any"
"""To `git rev-list`: pass over objects that are not here, and fetch none."""


def is_partial(repo: Repository) -> bool:
    """Whether something may be missing here that a remote has promised."""
    return any(repo.common_dir.glob("objects/pack/*.promisor"))


def bring(repo: Repository, commits: Iterable[Oid]) -> bool:
    """Have git fetch what is missing below these commits, in one go; whether this is a partial
    clone at all.

    Raises GitFailed where it is not to be had.
    """
    if not is_partial(repo):
        return False
    tips = "".join(f"{commit}\n" for commit in commits).encode("ascii")
    for _ in range(ROUNDS):
        listed = repo.git(
            "rev-list", "--objects", "--missing=print", "--stdin", input=tips
        ).splitlines()
        missing = b"".join(line[1:] + b"\n" for line in listed if line.startswith(b"?"))
        for name in _remotes(repo) if missing else ():
            repo.git(
                *ALONE, "fetch", *remote.QUIET, "--filter=blob:none", "--stdin", name, input=missing
            )
    return True


def _remotes(repo: Repository) -> list[str]:
    """The remotes that have promised something."""
    found = remote.settings(repo)
    names = (
        key.removeprefix("remote.").removesuffix(".promisor")
        for key in found
        if key.endswith(".promisor")
    )
    return [name for name in names if found[f"remote.{name}.promisor"].lower() == "true"]


def is_all_that_is_missing(repo: Repository, commits: Iterable[Oid]) -> bool:
    """Whether nothing is missing below these commits but what a remote has promised."""
    if not is_partial(repo):
        return False
    tips = "".join(f"{commit}\n" for commit in commits).encode("ascii")
    try:
        repo.git(
            "rev-list", "--objects", "--missing=allow-promisor", "--quiet", "--stdin", input=tips
        )
    except GitFailed:
        return False
    return True
