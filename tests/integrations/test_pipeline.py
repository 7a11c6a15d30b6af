"""A program that is killed at any moment processes each record exactly once: the small form of
pipeline.py.
"""

from __future__ import annotations

import os
from itertools import count

import pipeline
import programs
import pytest

import gitcp

from driver import SOURCE, Project

RECORDS = 20_000


@pytest.mark.parametrize("one", [False, True])
def test_killed_at_random(project: Project, monkeypatch: pytest.MonkeyPatch, *, one: bool) -> None:
    """Killed at random moments, and at one record, and started again, it processes every record
    once; the store is whole. One file for all of them is over the size limit.
    """
    project.git("config", "gitcp.maxFileSize", "50k")
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    monkeypatch.setattr(pipeline, "SAVES", 20)
    pipeline.supervise(project.root, RECORDS, kills=2, one=one)

    assert pipeline.differing(project.root, RECORDS) == ""
    assert gitcp.open(project.root).check().ok
    assert project.gitcp("show", "@", "--position", "record", check=0).out == f"{RECORDS}\n"


def test_killed_at_any_step(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed at one place after the other, in a save and in a resume, it goes on where it stood."""
    monkeypatch.setattr(programs, "PREAMBLE", KILLED)
    monkeypatch.setenv("PIPELINE", str(SOURCE / "tests"))
    for number in count():
        process = programs.start(project, "pipeline.work(600)", str(29 + 53 * number))
        _, said = process.communicate(timeout=120)
        if process.returncode == 0:
            break
        assert process.returncode == -9, said.decode()

    assert number > 3
    assert pipeline.differing(project.root, 600) == ""
    assert gitcp.open(project.root).check().ok
    assert os.listdir(project.path(project.git_dir / "gitcp")).count(b"restore.json") == 0


KILLED = """
import os, signal, sys
sys.path.append(os.environ["PIPELINE"])
import gitcp, pipeline
pipeline.SAVES, pipeline.FILES = 6, 3
at, seen = int(sys.argv[1]), 0


def counted(name):
    plain = getattr(os, name)

    def call(*args, **named):
        global seen
        seen += 1
        if seen == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(*args, **named)

    setattr(os, name, call)


for name in ("fsync", "replace", "rename", "unlink", "open", "mkdir", "link", "close"):
    counted(name)
"""
