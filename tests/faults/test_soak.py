"""A sample of `run.py soak`: watched saves beside edits, with the watcher killed at random."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from faults.soak import WHOLE, Soak


@pytest.mark.parametrize("paranoid", [False, True])
def test_soak(tmp_path: Path, *, paranoid: bool) -> None:
    """Each checkpoint is what git sees, and at least some saves went by the watcher's word."""
    if sys.platform != "linux":
        pytest.skip("gitcp watch keeps a journal on Linux alone")
    soak = Soak(tmp_path / "project", 300, seed=7, paranoid=paranoid)

    assert list(soak.run(20)) == []
    assert soak.watched > 0


def test_judge(tmp_path: Path) -> None:
    """What a checkpoint lacks is seen, in one directory and in the whole tree; and what changed
    although nobody edited it.
    """
    if sys.platform != "linux":
        pytest.skip("gitcp watch keeps a journal on Linux alone")
    soak = Soak(tmp_path / "project", 100, seed=1, paranoid=False)
    assert list(soak.run(1)) == []
    name = soak.directories[0]
    soak.project.write(f"{name}/unsaved", "unsaved\n")
    for part in (name, WHOLE):
        soak.edited = {part}
        (wrong,) = soak._judge()
        assert name.split("/")[0] in wrong

    soak.project.gitcp("save", "--session", "soak", check=0)
    (wrong,) = soak._judge()
    assert wrong == f"['{name}/unsaved'] changed, which nobody edited"
