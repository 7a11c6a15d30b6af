"""What follows a save, by the command line or by a hook: automatic retention, and housekeeping in the background."""

from __future__ import annotations

import os

from gitcp.git import repack
from gitcp.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from gitcp.git.repo import Repository
    from gitcp.model import CheckpointId
    from gitcp.ops.oplog import Operation
    from gitcp.store import Store

LIMITS = ("gitcp.maxcheckpoints", "gitcp.maxage", "gitcp.maxsize")
TEAM_FILE = ".gitcp.toml"


def after_save(store: Store, saved: CheckpointId) -> Operation | None:
    """Drop what is beyond the limits that are set, and load nothing where none is. Raises GitcpError."""
    repo = store.repo
    if repack.is_due(repo):
        _keep_house(repo)
    if not any(name.startswith(LIMITS) for name in repo.config) and not os.path.lexists(repo.root / TEAM_FILE):
        return None
    from gitcp.ops import retain  # most have set no limit

    return retain.after_save(store, saved)


def _keep_house(repo: Repository) -> None:
    """Pack what has come together, while nobody waits for it. If it fails, everything is as it was."""
    from gitcp.cli.apart import apart  # once in a dozen saves or more

    def work() -> None:
        os.nice(10)
        repack.repack(repo)

    apart(work, lambda _: None)
