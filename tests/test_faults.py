"""Faults in every changing command, at the real system calls of a real process: nothing is lost, nothing is in the way.

Killed for good, or refused by the system, at the n-th call that changes something; the promises are in
docs/reliability.md. Here a sample of the calls; `python tests/faults/run.py` takes every one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults import tracer
from faults.scenes import KINDS, SCENES, Stage

if tracer.unusable():
    pytest.skip(tracer.unusable(), allow_module_level=True)

PLACES = {"save": 8, "restore": 8, "prune": 5}
"""At so many calls a fault is put into a command; elsewhere at FEW."""

FEW = 3


@pytest.fixture(params=SCENES)
def stage(request: pytest.FixtureRequest, tmp_path: Path, sealed: Path) -> Iterator[tuple[str, Stage]]:
    name = str(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path))  # a stage takes a home of its own; this puts the old one back
        patch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path))
        yield name, Stage(tmp_path, SCENES[name])


def test_survived(stage: tuple[str, Stage]) -> None:
    """Whatever happens at whichever call: see `Stage.attempt` for all that must hold then."""
    name, scene = stage
    chance = random.Random(name)
    count = len(scene.calls)
    for place in range(PLACES.get(name, FEW)):
        kind = "kill" if place % 2 == 0 else chance.choice([kind for kind in KINDS if kind != "kill"])
        at = 1 + count * place // PLACES.get(name, FEW) + chance.randrange(max(1, count // PLACES.get(name, FEW)))
        scene.attempt(kind, min(at, count))


def test_the_judge_sees(tmp_path: Path, sealed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file cut short, a checkpoint that is gone, and a word that is false do not pass."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path))
    stage = Stage(tmp_path, SCENES["tag"])

    perform = stage.perform

    def cutting(fault: tracer.Fault | None) -> tracer.Traced:
        stage.project.write("d0/0", "cut")
        return perform(fault)

    def losing(fault: tracer.Fault | None) -> tracer.Traced:
        stage.project.git("update-ref", "-d", "refs/gitcp/sessions/beta")
        return perform(fault)

    def lying(fault: tracer.Fault | None) -> tracer.Traced:
        return tracer.Traced(0, "tagged", "", ())

    for wrong in (cutting, losing, lying):
        monkeypatch.setattr(stage, "perform", wrong)
        with pytest.raises(AssertionError):
            stage.attempt("EIO", len(stage.calls))
