"""Directories that a package tool fills and nobody writes in: left out as a whole where they are
large.

Only untracked ones that no ignore rule names; the caller sees to that.
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
    """Whether there are more than `most` files in or below `directory`. What cannot be listed
    counts for nothing.
    """
    ahead, count = [directory], 0
    while ahead:
        try:
            with os.scandir(ahead.pop()) as listing:
                for entry in listing:
                    if entry.is_dir(follow_symlinks=False):
                        ahead.append(entry.path)
                    else:
                        count += 1
        except OSError:
            continue
        if count > most:
            return True
    return False
