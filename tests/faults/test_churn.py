"""A sample of `run.py churn`: watched saves of a tree whose directories change places."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from faults.churn import Churn


@pytest.mark.parametrize("seed", [1, None], ids=["fixed", "random"])
def test_churn(tmp_path: Path, seed: int | None) -> None:
    """Each checkpoint is what git sees, most of them by the watcher's word, which is trusted to the
    end.
    """
    if sys.platform != "linux":
        pytest.skip("gitcp watch keeps a journal on Linux alone")
    chosen = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    churn = Churn(tmp_path, chosen)

    assert list(churn.run(60)) == [], f"seed {chosen}"
    assert churn.acts > 100, f"seed {chosen}"
    assert churn.narrow > 30, f"seed {chosen}"
