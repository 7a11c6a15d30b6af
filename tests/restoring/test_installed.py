"""A restore does not uninstall gitcp: what `enable` installed since stays, for every agent."""

from __future__ import annotations

import json

import pytest

from gitcp.agents import COMMAND_NAMES, COMMANDS, KNOWN
from gitcp.automation.install import shipped

from driver import Project

NAMES = [target.command for target in KNOWN]


@pytest.fixture
def enabled(project: Project) -> Project:
    """Saved, then all agents are enabled, and the user works on."""
    project.write("work", "1\n")
    project.gitcp("save", check=0)
    project.gitcp("enable", *NAMES, "--yes", check=0)
    project.write("work", "2\n")
    return project


@pytest.mark.parametrize("is_saved", [True, False])
def test_stays(enabled: Project, *, is_saved: bool) -> None:
    """Every file of every agent stays, with what the user added since; the rest is restored, and
    undo and redo leave them alone.
    """
    path = enabled.root / ".claude/settings.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model": "mine"}))
    if is_saved:
        enabled.gitcp("save", check=0)
    before = enabled.files()
    assert len(before) > 40
    after = {**before, b"work": before[b"work"]._replace(data=b"1\n")}

    plan = enabled.gitcp("restore", "1", "--dry-run", check=0).out
    assert "would be removed" not in plan
    done = enabled.gitcp("restore", "1", "--yes", check=0).out
    assert "(1 file written, 0 removed)" in done
    assert ".claude/settings.json  (installed by gitcp since; gitcp disable removes it)" in done
    assert enabled.files() == after
    again = enabled.gitcp("restore", "1", "--yes", check=0).out
    assert again.startswith("nothing to restore: everything else already matches ")
    hooked = [target for target in KNOWN if target.hooks.events]
    titles = ", ".join(target.title for target in hooked)
    assert f"Auto-save     set up for {titles}; " in enabled.gitcp("status", check=0).out
    assert enabled.json("status")["enabled"] == [target.command for target in hooked]
    enabled.gitcp("undo", "--yes", check=0)
    assert enabled.files() == before
    enabled.gitcp("redo", "--yes", check=0)
    assert enabled.files() == after


def test_other_files_there(enabled: Project) -> None:
    """The user's own files beside them, and settings without hooks, are restored as ever."""
    enabled.write(".claude/commands/mine.md", "about gitcp save\n")
    enabled.write(".github/workflows/ci.yml", "run: gitcp doctor --store\n")
    enabled.write(".claude/settings.local.json", "{}\n")
    enabled.gitcp("restore", "1", "--yes", check=0)

    files = enabled.files()
    assert b".claude/settings.json" in files
    assert not files.keys() & {b".claude/commands/mine.md", b".github/workflows/ci.yml"}
    assert b".claude/settings.local.json" not in files


def test_named_or_disabled(enabled: Project) -> None:
    """Whoever names a path gets it; what was disabled since comes back, and undo takes it away."""
    enabled.gitcp("save", check=0)
    enabled.gitcp("restore", "1", "--yes", "--", ".codex/hooks.json", check=0)
    assert not (enabled.root / ".codex/hooks.json").exists()
    enabled.gitcp("disable", *NAMES, "--yes", check=0)
    enabled.gitcp("restore", "2", "--yes", check=0)
    assert (enabled.root / ".claude/settings.json").exists()
    enabled.gitcp("undo", "--yes", check=0)
    assert not (enabled.root / ".claude").exists()


def test_slash_commands_are_known() -> None:
    """By which a restore tells gitcp's from the user's in a directory of both."""
    assert shipped.below(COMMANDS) == tuple(sorted(f"{name}.md" for name in COMMAND_NAMES))
