"""A sample of `run.py soak`: watched saves beside edits, with the watcher killed at random."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from faults.soak import Soak


@pytest.mark.parametrize("paranoid", [False, True])
def test_soak(tmp_path: Path, *, paranoid: bool) -> None:
    """Each checkpoint is what git sees, and at least some saves went by the watcher's word."""
    if sys.platform != "linux":
        pytest.skip("gitcp watch keeps a journal on Linux alone")
    soak = Soak(tmp_path / "project", 300, seed=7, paranoid=paranoid)

    assert list(soak.run(20)) == []
    assert soak.watched > 0
