"""Storing conversations in batches: interrupted anywhere, it stores the rest the next time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from talk import Talk

from gitcp.adopting import apply as op
from gitcp.adopting.memory import AdoptedBefore
from gitcp.adopting.plan import AdoptRequest, plan
from gitcp.model import Host

from driver import SOURCE, Project
from samples import open_store

COUNT = 6


@pytest.fixture
def talks(project: Project) -> list[Talk]:
    """Some conversations."""
    begun = [Talk(project, f"{n:08x}-5d1c-4f0a-9b3e-2c6d8f1a7b90") for n in range(1, COUNT + 1)]
    for talk in begun:
        talk.say("hello", "Hello.")
    return begun


def host() -> Host:
    return Host(os.environ, Path(os.environ["HOME"]), lambda: datetime.now(UTC))


def rest(project: Project) -> int:
    """How many checkpoints another run makes; the store is sound after it, and has each once."""
    results = project.json("adopt", "--yes")["adopted"]
    sessions = project.json_lines("sessions")
    assert len(sessions) == COUNT
    assert {each["checkpoints"] for each in sessions} == {1}
    project.gitcp("check", check=0)
    return sum(1 for each in results if each["id"])


@pytest.mark.parametrize("landed", range(COUNT))
def test_interrupted_between_batches(
    project: Project, talks: list[Talk], monkeypatch: pytest.MonkeyPatch, landed: int
) -> None:
    """What a finished batch stored stays; the rest is stored by the next run."""
    monkeypatch.setattr(op, "BATCH", 1)
    land = op.BatchStore.land
    batches: list[Any] = []

    def interrupted(store: Any, checkpoints: Any) -> Any:
        if len(batches) == landed:
            raise KeyboardInterrupt
        batches.append(checkpoints)
        return land(store, checkpoints)

    with monkeypatch.context() as patched:
        patched.setattr(op.BatchStore, "land", interrupted)
        memory = AdoptedBefore(host())
        agreed = plan(host(), open_store(project), AdoptRequest(), memory)
        with project.guard(), pytest.raises(KeyboardInterrupt):
            op.apply(host(), agreed, memory)

    assert rest(project) == COUNT - landed


@pytest.mark.parametrize("delay", [0.05, 0.15, 0.25, 0.35])
def test_killed(project: Project, talks: list[Talk], delay: float) -> None:
    """Killed at any moment, no ref names what is not there, and the next run stores the rest."""
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-P", "-m", "gitcp", "adopt", "--yes"]
    process = subprocess.Popen(command, cwd=project.root, env=env, stdout=subprocess.DEVNULL)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.wait()

    assert rest(project) <= COUNT


def test_one_that_cannot_be_read(project: Project, talks: list[Talk], tmp_path: Path) -> None:
    """A transcript that vanishes after the plan is named, and the others are stored."""
    memory = AdoptedBefore(host())
    agreed = plan(host(), open_store(project), AdoptRequest(), memory)
    talks[0].path.unlink()

    results = op.apply(host(), agreed, memory)

    assert [bool(each.failed) for each in results].count(True) == 1
    assert sum(1 for each in results if each.checkpoint) == COUNT - 1


def test_beside_a_damaged_session(project: Project, talks: list[Talk]) -> None:
    """A session whose last checkpoint cannot be read keeps no conversation from being stored; a
    name that it had goes on with its numbers.
    """
    for number in range(3):
        project.gitcp("save", "--session", "00000001", "--force", check=0)
        project.gitcp("save", f"other {number}", "--session", "other", check=0)
    project.gitcp("delete", "00000001", "--yes", check=0)
    tip = project.git("rev-parse", "refs/gitcp/sessions/other").strip()
    path = project.git_dir / "objects" / tip[:2] / tip[2:]
    path.chmod(0o644)
    path.write_bytes(b"garbage")

    results = project.json("adopt", "--yes")["adopted"]

    ids = {each["id"] for each in results}
    assert ids == {"00000001@4", *(f"{n:08x}@1" for n in range(2, COUNT + 1))}


@pytest.mark.parametrize(
    "forged",
    [
        [],
        7,
        {"origin": 7, "stored": 7},
        {"origin": {"directories": [7, None, [], "a\0b"], "branches": [7], "commits": [{}]}},
        {"origin": {"directories": {"a": 1}, "unknown": [1]}, "stored": ["a"]},
    ],
)
def test_forged_memory(project: Project, talks: list[Talk], forged: Any) -> None:
    """The cache of transcripts may hold anything: all of them are stored, once."""
    project.gitcp("adopt", "--dry-run", check=0)
    (path,) = Path(os.environ["HOME"]).glob("**/transcripts.json")
    document = json.loads(path.read_bytes())
    for key, entry in document["transcripts"].items():
        changed = {**entry, **forged} if isinstance(forged, dict) else forged
        document["transcripts"][key] = changed
    path.write_text(json.dumps(document))

    done = project.gitcp("adopt", "--all", "--yes", "--json", check=0)

    assert "Traceback" not in done.err
    assert len([each for each in json.loads(done.out)["adopted"] if each["id"]]) == COUNT


def test_a_session_that_moves_meanwhile(
    project: Project, talks: list[Talk], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process that saves the same session wins; what it has is not stored again."""
    memory = AdoptedBefore(host())
    agreed = plan(host(), open_store(project), AdoptRequest(), memory)
    project.gitcp("save", "--session", "00000001", check=0)

    op.apply(host(), agreed, memory)

    assert rest(project) == 0
