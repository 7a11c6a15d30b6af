"""The test suites of agent frameworks: which of their tests are run with gitcp in the place of
their own storage, and where their source distributions are kept between runs.

    python tests/frameworks/suites.py           download what is missing, for the installed versions
    SUITES=whole pytest tests/frameworks        run all tests, not samples of the two largest suites

A suite is run by pytest in a process of its own, with a plugin of this directory. The plugin puts
gitcp's class where the framework's was, and calls `select`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

HERE = Path(__file__).parent
PREFIX = Path(os.environ.get("AGENTS_PREFIX", Path.home() / ".cache/agents")) / "suites"
REQUIREMENTS = HERE / "requirements.txt"
SAMPLE = "GITCP_SUITE_SAMPLE"
WHOLE = os.environ.get("SUITES") == "whole"


class Suite(NamedTuple):
    """A suite: its name, the distribution that has it, the plugin, and which modules of the
    directory are run ("": all). Of `sample` tests one is run, always the same, unless SUITES=whole
    is in the environment.
    """

    name: str
    package: str
    plugin: str
    directory: str
    modules: str
    sample: int = 1

    @property
    def paths(self) -> list[str]:
        """What pytest is given."""
        return [f"{self.directory}/{module}" for module in self.modules.split() or [""]]

    @property
    def version(self) -> str:
        """The installed version."""
        return version(self.package)

    @property
    def root(self) -> Path:
        """The directory of its source distribution."""
        return PREFIX / f"{self.package.replace('-', '_')}-{self.version}"


SUITES = (
    Suite("LangGraph", "langgraph", "langgraph_suite", "tests", "", sample=6),
    Suite(
        "OpenAI Agents SDK",
        "openai-agents",
        "openai_suite",
        "tests",
        "deferred_session_writes extensions/memory/test_encrypt_session.py "
        "memory/test_compaction_model_visibility.py memory/test_compaction_suffix.py "
        "memory/test_openai_responses_compaction_session.py memory/test_session.py "
        "memory/test_session_limit.py test_agent_runner.py test_agent_runner_streamed.py "
        "test_cancel_streaming.py test_handoff_history_duplication.py "
        "test_hitl_session_scenario.py test_max_turns.py test_run_impl_resume_paths.py "
        "test_run_state_pending_input.py test_soft_cancel.py",
        sample=3,
    ),
    Suite(
        "Claude Agent SDK",
        "claude-agent-sdk",
        "claude_suite",
        "tests",
        "test_session_helpers_store.py test_session_import.py test_session_resume.py "
        "test_session_store_conformance.py test_session_summary.py test_transcript_mirror.py",
    ),
    Suite(
        "Strands Agents",
        "strands-agents",
        "strands_suite",
        "tests/strands",
        "_context_manager agent/test_agent_storage.py session/test_snapshot_session_manager.py "
        "storage/search/test_keyword.py storage/test_in_memory_storage.py "
        "storage/test_local_file_storage.py storage/test_storage.py "
        "vended_memory_stores/file_memory_store vended_plugins/context_offloader",
    ),
)
WITHOUT_TESTS = {
    "google-adk": "Agent Development Kit",
    "agent-framework-core": "Microsoft Agent Framework",
}
"""Frameworks whose source distribution has no tests."""


class Outcome(NamedTuple):
    """What a run got: how many tests were run, the ids of those that failed, and how many were
    skipped by reason.
    """

    run: int
    failed: tuple[str, ...]
    skipped: Mapping[str, int]


def packages() -> Path:
    """Return the directory of what the suites import beside the frameworks."""
    checksum = sha256(REQUIREMENTS.read_bytes()).hexdigest()[:8]
    return PREFIX / f"packages-{sys.version_info.major}.{sys.version_info.minor}-{checksum}"


# ------------------------------------------------------------ in a plugin


def select(
    config: Any,
    items: list[Any],
    is_relevant: Callable[[Any], bool],
    left_out: Mapping[str, Iterable[str]],
) -> None:
    """Keep the tests that are relevant, and skip those left out by the names of their functions."""
    import pytest

    sample = int(os.environ.get(SAMPLE, "1"))
    others = [
        item for item in items if not is_relevant(item) or crc32(item.nodeid.encode()) % sample
    ]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in set(others)]
    reasons = {name: reason for reason, names in left_out.items() for name in names}
    for item in items:
        if item.originalname in reasons:
            item.add_marker(pytest.mark.skip(reason=reasons[item.originalname]))


def new_repository(root: str | None = None) -> str:
    """Return the path of a repository, a new one in a temporary directory unless it is given."""
    path = root or tempfile.mkdtemp()
    if not os.path.exists(f"{path}/.git"):
        subprocess.run(["git", "init", "--quiet", path], check=True)
    return path


# ------------------------------------------------------------ download


def main() -> None:
    """Download the source distributions and packages that are missing."""
    PREFIX.mkdir(parents=True, exist_ok=True)
    for suite in SUITES:
        if not suite.root.exists():
            _download(suite)
    if not packages().exists():
        target = packages().with_name("packages.part")
        _pip("install", "--target", target, "--no-deps", "--upgrade", "-r", REQUIREMENTS)
        target.rename(packages())


def _download(suite: Suite) -> None:
    with tempfile.TemporaryDirectory(dir=PREFIX) as scratch:
        wanted = f"{suite.package}=={suite.version}"
        _pip("download", "--no-deps", "--no-binary", suite.package, "-d", scratch, wanted)
        [archive] = Path(scratch).glob("*.tar.gz")
        with tarfile.open(archive) as tar:
            tar.extractall(scratch, filter="data")
        next(path for path in Path(scratch).iterdir() if path.is_dir()).rename(suite.root)


def _pip(*args: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--quiet", *args], check=True)


if __name__ == "__main__":
    main()
