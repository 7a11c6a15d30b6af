"""Faults in every changing command, at the real system calls of a real process: nothing is lost,
nothing is in the way.

The promises are in docs/reliability.md. Here a sample; `python tests/faults/run.py` makes the
figures.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from faults import disk, tracer
from faults.commands import SCENES
from faults.scenes import Stage

if tracer.unusable():
    pytest.skip(tracer.unusable(), allow_module_level=True)

RUN = Path(tracer.__file__).with_name("run.py")

PLACES = {"save": 6, "restore": 6, "prune": 4}
"""At so many calls a fault is put into a command; elsewhere at FEW."""

FEW = 2


@pytest.mark.parametrize("scene", SCENES)
def test_survived(scene: str) -> None:
    """Whatever happens at whichever call: see `Stage.survive` for all that must hold then."""
    tried(("calls", "--scene", scene, "--most", str(PLACES.get(scene, FEW))))


def test_killed_at_any_moment() -> None:
    """Saves that are killed lose nothing that was reported, and nobody has to tidy up."""
    tried(("kills", "--saves", "20", "--kills", "8"))


def test_killed_among_many_files() -> None:
    """A restore of 500 files that is killed among them: none is cut short, and all of it goes
    forward and back.
    """
    tried(("restores", "--kills", "2", "-j", "1"))


def test_every_object() -> None:
    """Whatever is damaged is found, with the checkpoints that need it."""
    tried(("damage", "--every", "40"))


@pytest.mark.parametrize("scene", ["save first", "tag", "restore", "prune", "enable", "disable"])
def test_on_a_disk(scene: str) -> None:
    """A real disk that is full or cannot be written to: the cause is said, and nothing is lost."""
    if subprocess.run([*disk.ALONE, "true"], capture_output=True).returncode:
        pytest.skip("this system lets nobody have a disk of his own")
    tried(("disk", "--scene", scene, "--every", "12"))


def test_a_full_disk_stays_as_full() -> None:
    """Wherever a disk is full while a pack or a large file is written, nothing of what was written
    is left.
    """
    if subprocess.run([*disk.ALONE, "true"], capture_output=True).returncode:
        pytest.skip("this system lets nobody have a disk of his own")
    tried(("disk", "--scene", "save large", "--every", "190"))


def tried(args: Sequence[str]) -> None:
    """Run the command that makes the figures, for a part of one."""
    done = subprocess.run([sys.executable, RUN, *args], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("\n0 broken\n")


PLACES_OF_CRASHES = [
    ("save many", "/.git/objects/pack/"),
    ("restore index", "/index"),
    ("export", "/out/"),
]


@pytest.mark.parametrize(("scene", "place"), PLACES_OF_CRASHES)
def test_killed_at(scene: str, place: str) -> None:
    """What a crash left of a pack is taken for none; of the index, its lock or an export, it is in
    nobody's way.
    """
    tried(("calls", "--scene", scene, "--kind", "kill", "--touching", place))


@pytest.mark.parametrize(("scene", "place"), [("tag", "/refs/"), ("run back", "/runs/")])
def test_written_in_parts(scene: str, place: str) -> None:
    """Where the system writes half of what it was given, the rest follows: no ref and no journal is
    taken for whole.
    """
    tried(("calls", "--scene", scene, "--kind", "short", "--touching", place))


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
