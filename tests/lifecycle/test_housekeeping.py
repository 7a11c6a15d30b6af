"""Housekeeping runs behind a save, in a process of its own: the save does not wait, and nothing of
it is left.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from faults import process
from pruned import holdings
from test_auto_retention import transaction

import gitcp
from gitcp.api.checkpoints import Checkpoints
from gitcp.automation.watching import saves
from gitcp.git import repack
from gitcp.git.packs import FORM
from gitcp.git.writer import MOST_LOOSE
from gitcp.integrations.thread import Thread
from gitcp.lifecycle import background
from gitcp.lifecycle.check import check
from gitcp.model import Agent, Host, Trigger
from gitcp.store import Store
from gitcp.worktree.interpreter import interpreter

from driver import Project
from samples import open_store, save

DEADLINE = 60

HALTING = """#!/bin/sh
for word; do
    if [ "$word" = pack-objects ]; then
        echo begun >>"{place}/begun"
        for n in $(seq 300); do [ -e "{place}/go" ] && break; sleep 0.1; done
        echo ended >>"{place}/ended"
    fi
done
exec "{git}" "$@"
"""


class Halted:
    """A git on PATH that packs nothing before it may."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir()
        program = place / "git"
        program.write_text(HALTING.format(place=place, git=shutil.which("git")))
        program.chmod(0o755)

    def go(self) -> None:
        """Let it pack."""
        (self.place / "go").touch()

    def times(self, what: str) -> int:
        """How often it has begun or ended to pack."""
        path = self.place / what
        return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.fixture
def halted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Halted:
    """Make everything that the test runs from here on use this git."""
    found = Halted(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{found.place}{os.pathsep}{os.environ['PATH']}")
    return found


def wait(done: Callable[[], bool]) -> None:
    """Until it is done."""
    deadline = time.monotonic() + DEADLINE
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def packs(project: Project) -> int:
    """How many packs there are."""
    return len(list(project.git_dir.glob("objects/pack/*.pack")))


def make_due(project: Project) -> None:
    """So many small packs that they are to be put together."""
    for number in range(repack.PACKS):
        save(
            open_store(project),
            "alpha",
            {b"file%d" % n: b"%d of %d\n" % (n, number) for n in range(2 * MOST_LOOSE)},
        )
    assert repack.is_due(open_store(project).repo)


def watched(project: Project, _: Checkpoints) -> None:
    """What `gitcp watch` does when something changed."""
    task = saves.SaveTask(project.root, session="alpha")
    assert all(
        not isinstance(each, Exception)
        for each in saves._save(opener(project), task, Trigger.TURN, {})
    )


def opener(project: Project) -> Callable[[], Store]:
    return lambda: open_store(project)


WAYS: dict[str, Callable[[Project, Checkpoints], object]] = {
    "save": lambda _, opened: opened.save("new", session="alpha"),
    "session": lambda _, opened: opened.session("alpha").save("new"),
    "step": lambda _, opened: opened.session("alpha").step("work", lambda: 1),
    "transaction": lambda _, opened: transaction(opened, None),
    "framework": lambda _, opened: Thread(opened, "alpha", Agent("some", "x")).note(
        Trigger.TURN, {"step": "1"}
    ),
    "watch": watched,
    "command": lambda project, _: project.gitcp("save", "--session", "alpha", check=0),
    "run": lambda project, _: project.gitcp(
        "run", "work", "--session", "alpha", "--", "true", check=0
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_save_waits_for_it(project: Project, halted: Halted, way: str) -> None:
    """Whoever saves has it begun in the background, and goes on while it is at work; everything is
    there afterwards.
    """
    make_due(project)
    before = holdings(project)
    project.write("a.txt", "new\n")

    WAYS[way](project, gitcp.open(project.root))

    assert halted.times("ended") == 0
    wait(lambda: halted.times("begun") == 1)
    assert packs(project) >= repack.PACKS
    halted.go()
    wait(lambda: packs(project) < repack.PACKS and not repack.is_running(open_store(project).repo))
    assert before.items() <= holdings(project).items()
    assert check(open_store(project)).ok


def test_nothing_of_it_is_left(project: Project, halted: Halted) -> None:
    """One process for all saves meanwhile; none to wait for, none that holds what this one holds,
    or its directory.
    """
    make_due(project)
    before = process.children()
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    opened = gitcp.open(project.root)
    for number in range(3):
        project.write("a.txt", f"{number}\n")
        opened.save(session="alpha")
        wait(lambda: halted.times("begun") > 0)
    os.close(writing)

    assert os.read(reading, 1) == b""
    opened.close()
    os.close(reading)
    assert process.children() == before
    assert (halted.times("begun"), halted.times("ended")) == (1, 0)
    halted.go()
    wait(lambda: not repack.is_running(open_store(project).repo))


def test_a_program_that_runs_on(project: Project) -> None:
    """Who saves over and over is left with few packs and few loose objects."""
    opened = gitcp.open(project.root)
    for number in range(40):
        for each in range(MOST_LOOSE):
            project.write(f"file{each}", f"{each} of {number}\n")
        opened.save(label=f"{number}")
        wait(lambda: not repack.is_running(open_store(project).repo))

    wait(lambda: packs(project) < 2 * repack.PACKS)
    assert check(open_store(project)).ok


@pytest.mark.parametrize(
    "program", ["", "/opt/editor/editor", "/usr/bin/python-of-mine", "/nowhere/python3"]
)
def test_python_inside_of_another_program(
    project: Project, halted: Halted, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    """That program is not started a second time; the next command keeps house."""
    make_due(project)
    with monkeypatch.context() as inside:
        inside.setattr(sys, "executable", program)
        project.write("a.txt", "new\n")
        assert gitcp.open(project.root).save(session="alpha").saved
        assert interpreter() is None
    assert repack.is_due(open_store(project).repo)

    halted.go()
    project.write("a.txt", "newer\n")
    project.gitcp("save", "--session", "alpha", check=0)
    wait(lambda: packs(project) < repack.PACKS)


def test_another_python(project: Project) -> None:
    """What is not the very same Python does nothing."""
    make_due(project)
    before = packs(project)

    task = ascii({"python": "3.0", "modules": [], "program": "gitcp.lifecycle.housekeeping"})
    subprocess.run([sys.executable, "-I", "-c", background.PROGRAM, task], check=True)

    assert packs(project) == before


def test_environment_home_and_clock_are_the_callers(project: Project, tmp_path: Path) -> None:
    """A program may have opened the repository with others than its own."""
    make_due(project)
    home = tmp_path / "another home"
    home.mkdir()
    (home / "settings").write_text("[gitcp]\n\tmaxCheckpoints = 4\n")
    now = open_store(project).repo.host.now().replace(year=2031)
    env = {**os.environ, "HOME": str(home), "GIT_CONFIG_GLOBAL": str(home / "settings")}
    project.write("a.txt", "new\n")

    gitcp.open(project.root, host=Host(env, home, lambda: now)).save(session="alpha")

    wait(lambda: len(holdings(project)) == 4)


def test_large_files_stay_loose_and_no_delta_of_one_is_searched(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a pack it would be written once more; where it is in one, it is not compared with
    others.
    """
    monkeypatch.setattr(repack, "LARGE", 1 << 16)
    for number in range(repack.LOOSE):
        save(
            open_store(project),
            "alpha",
            {b"a": os.urandom(100), b"large": os.urandom(1 << 17) + b"%d" % number},
        )
    before = holdings(project)
    large = project.git("rev-parse", "refs/gitcp/sessions/alpha:large")
    small = project.git("rev-parse", "refs/gitcp/sessions/alpha:a")

    repack.repack(open_store(project).repo)

    assert (project.git_dir / "objects" / large[:2] / large[2:]).exists()
    assert not (project.git_dir / "objects" / small[:2] / small[2:]).exists()
    assert holdings(project) == before
    assert f"core.bigFileThreshold={8 << 20}" in FORM
