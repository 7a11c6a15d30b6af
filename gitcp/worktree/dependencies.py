"""Directories filled by package managers: skipped as a whole if they are large.

The caller passes only untracked directories that no ignore rule matches.
"""

from __future__ import annotations

import os

DEPENDENCIES = frozenset(
    (
        b"node_modules",
        b"bower_components",
        b".venv",
        b"venv",
        b".tox",
        b".nox",
        b"__pypackages__",
        b".gradle",
        b".terraform",
    )
)


def is_overfull(directory: bytes, most: int) -> bool:
    """Return whether there are more than `most` files in or below `directory`. Unreadable
    directories count as empty.
    """
    pending, count = [directory], 0
    while pending:
        try:
            with os.scandir(pending.pop()) as listing:
                for entry in listing:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    else:
                        count += 1
        except OSError:
            continue
        if count > most:
            return True
    return False
