"""Whatever is read, however it was made: a value comes of it, or an error of ours; nothing else,
soon, in little room.

With GITCP_FULL=1 in the environment each kind is read 20,000 times, else 500 times.
"""

from __future__ import annotations

import random
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from fuzzed import Target, in_files, in_memory, nested, spoil
from thorough import FULL

from gitcp.errors import GitcpError

from driver import Project

TIMES = 20_000 if FULL else 500
SECONDS = 20.0
"""Processor time after which one reading is called endless."""

ROOM = 512 << 20
"""Bytes that all readings of one kind may take at their most, beyond what the process had before.
"""

MEMORY = in_memory()
FILES = (
    *(
        "git's index",
        "pack",
        "pack index",
        ".gitcp.toml",
        "operation log",
        "unfinished restore",
    ),
    *("moves", "run", "last look at the limits", "untold restore"),
    *("waiting note", "conversation to import", "bundle", "revision", "segments"),
)


@contextmanager
def bounded(what: str, data: bytes) -> Iterator[None]:
    """Endless work fails the test, with the bytes that led to it."""

    def stop(number: int, frame: object) -> None:
        raise AssertionError(f"{what} takes for ever: {data[:500]!r}")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def insist(what: str, target: Target, data: bytes) -> None:
    """Read it once."""
    with bounded(what, data):
        try:
            target.read(data)
        except AssertionError:
            raise
        except BaseException as error:
            if isinstance(error, (GitcpError, *target.raises)):
                return
            raise AssertionError(f"{what}: {error!r} from {data[:2000]!r}") from error


def try_all(what: str, target: Target, times: int) -> None:
    """The examples as they are, spoiled in many ways, and nested without end."""
    chance = random.Random(what)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    for example in (*target.examples, b"", *nested()):
        insist(what, target, example)
    for _ in range(times):
        insist(what, target, spoil(chance.choice(target.examples), chance))
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - most < ROOM


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project with something of everything that is read from a repository."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("home")
        patch.setenv("HOME", str(home))
        project = Project(tmp_path_factory.mktemp("grown") / "project")
        project.write("a", "one\n")
        project.write("b/c", "two\n" * 99)
        project.commit()
        project.git("repack", "-adq")
        project.gitcp(
            "save",
            "label",
            "--session",
            "s",
            "--conversation",
            "-",
            input='{"role":"user"}\n',
            check=0,
        )
        project.write("a", "three\n")
        project.gitcp("restore", "s@1", "--yes", check=0)
        project.gitcp("note", "--session", "s", "--task", "next", check=0)
        yield project


@pytest.mark.parametrize("what", MEMORY)
def test_in_memory(what: str) -> None:
    """What is read from bytes."""
    try_all(what, MEMORY[what], TIMES)


@pytest.mark.parametrize("what", FILES)
def test_in_files(grown: Project, what: str) -> None:
    """What is read from a repository, or from a file that somebody gave."""
    targets = in_files(grown)
    assert targets.keys() == set(FILES)
    try_all(what, targets[what], TIMES // 3)
