"""Partial clones: objects that are not here because a remote has promised them. git fetches one when it is asked for.

Nothing here fetches.
"""

from __future__ import annotations

from collections.abc import Iterable

from gitcp.errors import GitFailed
from gitcp.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from gitcp.git.repo import Repository
    from gitcp.model import Oid

AS_FAR_AS_HERE = "--missing=allow-any"
"""To `git rev-list`: pass over objects that are not here, and fetch none."""


def is_partial(repo: Repository) -> bool:
    """Whether something may be missing here that a remote has promised."""
    return any(repo.common_dir.glob("objects/pack/*.promisor"))


def is_all_that_is_missing(repo: Repository, commits: Iterable[Oid]) -> bool:
    """Whether nothing is missing below these commits but what a remote has promised."""
    if not is_partial(repo):
        return False
    tips = "".join(f"{commit}\n" for commit in commits).encode("ascii")
    try:
        repo.git("rev-list", "--objects", "--missing=allow-promisor", "--quiet", "--stdin", input=tips)
    except GitFailed:
        return False
    return True
