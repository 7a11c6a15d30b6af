"""An agent whose directory is not the one that the restoring shell's environment names."""

from __future__ import annotations

from pathlib import Path

import pytest
from agents_at_work import AgentAtWork

from driver import Project

ALPHA = "aaaaaaaa-0000-4000-8000-000000000001"
VARIABLE = "CLAUDE_CONFIG_DIR"


class Moved(AgentAtWork):
    """Claude Code with CLAUDE_CONFIG_DIR set."""

    home: Path

    def transcript(self) -> Path:
        """Below the chosen directory."""
        return self.home / super().transcript().relative_to(Path.home() / ".claude")


def test_the_variable_is_missing(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan and the report name both directories and the variable; with it, nothing is said."""
    agent = Moved(project, ALPHA)
    agent.home = tmp_path / "my claude"
    monkeypatch.setenv(VARIABLE, str(agent.home))
    for text in ("1\n", "2\n"):
        agent.prompt()
        agent.edits("a", text)
        agent.stop()
    there = project.gitcp("restore", "2", "--dry-run", check=0).out
    monkeypatch.delenv(VARIABLE)

    said = (
        f"session {ALPHA} is in {agent.home}, but this shell names {Path.home() / '.claude'}: "
        f"with {VARIABLE}='{agent.home}', gitcp restores it there\n"
    )
    assert VARIABLE not in there
    assert said in project.gitcp("restore", "2", "--dry-run", check=0).out
    assert said in project.gitcp("restore", "2", "--yes", check=0).out
