"""Many agents in many worktrees lose nothing: small; `python tests/faults/run.py fleet` and
`worktrees` are the large ones.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import gitcp
from faults import fleet as fleets
from faults import process
from faults.fleet import Fleet
from gitcp.errors import StoreBusy
from gitcp.git import locks

from driver import Project
from samples import open_store, save


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    process.load()


def test_at_once(tmp_path: Path) -> None:
    """Agents in several worktrees save at once: every save is there."""
    fleet = Fleet(tmp_path)
    waits = fleet.save_at_once(agents=6, worktrees=3, saves=3)

    assert waits.saves == len(fleet.lines("saves")) == 18
    fleet.insist()


def test_coming_and_going(tmp_path: Path) -> None:
    """Worktrees are added, removed by force, deleted and pruned beside git's gc: every save is
    there.
    """
    fleet = Fleet(tmp_path)
    fleet.come_and_go(lanes=3, saves=30, minutes=5)

    assert len(fleet.lines("saves")) == 30
    fleet.insist()


def test_nothing_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git's housekeeping has ended with them."""
    monkeypatch.setattr(fleets, "TIDYING", (("-c", "alias.slow=!sleep 5", "slow"),))
    before = process.children()
    Fleet(tmp_path).come_and_go(lanes=1, saves=2, minutes=5)

    assert process.children() == before


def test_sessions_side_by_side(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two sessions are saved at the same time in two working trees; in one working tree, one
    session, and what changes the whole store, is not.
    """
    monkeypatch.setattr(locks, "LOCK_WAIT", 0.1)
    project.commit()
    project.git("worktree", "add", "-q", str(tmp_path / "tree"))
    one, two, three = (open_store(project) for _ in range(3))
    elsewhere = gitcp.open(tmp_path / "tree").store()
    with one.lock_session("alpha"):
        with elsewhere.lock_session("beta"):
            pass
        for store, session in ((elsewhere, "alpha"), (two, "alpha"), (two, "beta")):
            with pytest.raises(StoreBusy, match="nothing was changed"), store.lock_session(session):
                pass
        with pytest.raises(StoreBusy), three.lock():
            pass
    with one.lock(), pytest.raises(StoreBusy), two.lock_session("alpha"):
        pass
    assert save(one, "alpha").id.number == 1


def test_who_must_be_alone_is_not_kept_out(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saves that come after a prune has begun to wait do not overtake it."""
    from threading import Thread

    monkeypatch.setattr(locks, "LOCK_WAIT", 5.0)
    one, two, three = (open_store(project) for _ in range(3))
    order: list[str] = []

    def prune() -> None:
        with two.lock():
            order.append("prune")

    def later() -> None:
        with three.lock_session("beta"):
            order.append("save")

    with one.lock_session("alpha"):
        waiting = Thread(target=prune)
        waiting.start()
        time.sleep(0.2)
        saving = Thread(target=later)
        saving.start()
        time.sleep(0.2)
        assert order == []
    waiting.join()
    saving.join()
    assert order == ["prune", "save"]
