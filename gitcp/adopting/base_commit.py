"""The commit that HEAD was at when a conversation ended, as far as git's reflogs or the transcript
tell.
"""

from __future__ import annotations

import re
from pathlib import Path

from gitcp.adapters.base import Origin
from gitcp.adopting.ownership import Tree
from gitcp.git import refs
from gitcp.git.object_format import FULL_NAME
from gitcp.model import Base, Oid
from gitcp.store import Store

OID = FULL_NAME.encode("ascii")
LINE = re.compile(rb"%s (%s) [^\n]*> ([0-9]{1,12}) [+-][0-9]{4}(?:\t|$)" % (OID, OID))


def base_of(store: Store, tree: Tree | None, origin: Origin, time: float) -> Base:
    """Return the commit and branch of a conversation that ended at `time`, in seconds since 1970.

    `tree` is the working tree where it ran, None if it was removed: then the log of the branch is
    asked. The commit that the transcript names is older, and only counts where no log tells. The
    commit is None if none of them is in the store. Reads files and objects only.
    """
    branch = origin.branches[-1] if origin.branches else None
    logs = [Path(tree.git_dir) / "logs" / "HEAD"] if tree else []
    if branch and ".." not in branch:
        logs.append(store.repo.common_dir / "logs" / "refs" / "heads" / branch)
    logged = filter(None, (_commit_at(log, time) for log in logs))
    named = (Oid(oid) for oid in reversed(origin.commits) if refs.HEX.match(oid))
    commit = next((oid for oid in (*logged, *named) if store.reader.exists(oid)), None)
    return Base(commit, branch)


def _commit_at(log: Path, time: float) -> Oid | None:
    """Return the last value in a reflog up to a time, None if it begins later."""
    last = None
    try:
        with open(log, "rb") as file:
            for line in file:
                match = LINE.match(line)
                if match and int(match[2]) <= time:
                    last = Oid(match[1].decode("ascii"))
    except OSError:
        return None
    return last
