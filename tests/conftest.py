"""Seals every test off from the machine it runs on. Nothing is set up here but the seal and empty
places to work in.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("driver")

from faults.process import SUBREAPER  # noqa: E402
from kinds import DEFAULTS  # noqa: E402

from gitcp import state_files  # noqa: E402

from driver import Project  # noqa: E402  (only now are its asserts rewritten)

# Everything else of the environment is gone: an agent may be running us, git may, and both say so
# by variables.
KEPT = ("AGENTS_PREFIX", "GITCP_TEST_KIND", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "VIRTUAL_ENV")
KEPT_PREFIXES = ("PYTEST_", "PYTHON")
DECLARED = {file.name for file in state_files.STATE_FILES}
LOOPBACK = ("127.", "::1", "localhost")

settings.register_profile("sealed", derandomize=True, deadline=None, database=None)
settings.load_profile("sealed")


for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    # as by nohup, and by a shell that runs the tests in the background
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)


PROGRAMS = re.compile(
    r"\.gitcp\(|\.json\(|\bsubprocess\b|\bchromium\b|from (browser|programs|terminal) "
)
"""How a module of tests that starts gitcp, or another program than git, is known."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by where it is, or by what its module starts: real, faults, cli or unit.

    One that tries everything there is, and takes seconds for it, says `faults` itself.
    """
    # Some of these take minutes: begun last, the damage of every object ran alone for four.
    items.sort(key=lambda item: item.path.parent.name not in ("faults", "frameworks"))
    marks: dict[Path, str] = {}
    for item in items:
        if item.path not in marks:
            marks[item.path] = _mark(item.path)
        if item.get_closest_marker("faults") is None:
            item.add_marker(marks[item.path])


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m unit`, pass over the other modules: to load frameworks takes longer than the
    tests.
    """
    is_other = collection_path.name.startswith("test_") and _mark(collection_path) != "unit"
    return True if config.getoption("markexpr") == "unit" and is_other else None


def _mark(path: Path) -> str:
    if path.parent.name in ("real", "faults"):
        return path.parent.name
    return "cli" if PROGRAMS.search(path.read_text("utf-8")) else "unit"


@pytest.fixture(autouse=True)
def sealed(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A home of its own, a bare environment, a fixed umask and no network; the path of that
    home.
    """
    home = tmp_path_factory.mktemp("home")
    home.joinpath(".gitconfig").touch()
    agents = os.environ.get("AGENTS_PREFIX") or os.path.expanduser("~/.cache/agents")
    for name in list(os.environ):
        if name not in KEPT and not name.startswith(KEPT_PREFIXES):
            monkeypatch.delenv(name)
    for name, value in _environment(home, agents).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(socket.socket, "connect", _local_only(socket.socket.connect))
    monkeypatch.setattr(socket.socket, "connect_ex", _local_only(socket.socket.connect_ex))
    before = os.umask(0o022)
    yield home
    os.umask(before)
    # a test may have made this process adopt what others leave in the background
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SUBREAPER, 0, 0, 0, 0)


@pytest.fixture
def project(tmp_path: Path, sealed: Path) -> Iterator[Project]:
    """A new repository without a commit, on branch main. Whatever is in gitcp's directory after the
    test is declared (gitcp.state_files): purge, rename and shared repositories go by that.
    """
    made = Project(tmp_path / "project")
    yield made
    own = made.git_dir / "gitcp"
    left = {state_files.of(path.name) for path in own.iterdir()} if own.is_dir() else set()
    left = {name for name in left if name and not name.startswith("tmp")}
    assert left <= DECLARED


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home directory in which no agent was ever run."""
    path = tmp_path / "home"
    path.mkdir()
    return path


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Where an agent works: a directory with a `.git`."""
    path = tmp_path / "a project"
    path.joinpath(".git").mkdir(parents=True)
    return path


def _environment(home: Path, agents: str) -> dict[str, str]:
    return {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "GIT_CONFIG_NOSYSTEM": "1",
        # A file and not /dev/null, so that a test can give the user settings.
        "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
        # Nothing may ask: an editor or a prompt is a failure.
        "GIT_EDITOR": "false",
        "GIT_TERMINAL_PROMPT": "0",
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
        "AGENTS_PREFIX": agents,
        **DEFAULTS,
    }


def _local_only(connect: Any) -> Any:
    def guarded(self: socket.socket, address: Any) -> Any:
        if self.family in {socket.AF_INET, socket.AF_INET6} and not str(address[0]).startswith(
            LOOPBACK
        ):
            raise AssertionError(f"a test reached for the network: {address}")
        return connect(self, address)

    return guarded
