"""An agent whose own switch for hooks is off: `enable`, `status` and `doctor` say that nothing is
saved.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from driver import Project

ON_OFF = [
    ("claude", "~/.claude/settings.json", '{"disableAllHooks": true}', True),
    ("claude", "~/.claude/settings.json", '{"disableAllHooks": false}', False),
    ("claude", ".claude/settings.local.json", '{"disableAllHooks": true,} // mine', True),
    ("claude", "~/.claude/remote-settings.json", '{"allowManagedHooksOnly": true}', True),
    ("claude", "~/.claude/settings.json", '{"allowManagedHooksOnly": true}', False),
    ("codex", "~/.codex/config.toml", "[features]\nhooks = false\n", True),
    ("codex", "~/.codex/config.toml", "[features]\ncodex_hooks = false\n", True),
    ("codex", "~/.codex/config.toml", "[features]\nhooks = true\n", False),
    ("gemini", "~/.gemini/settings.json", '{"hooksConfig": {"enabled": false}}', True),
    ("gemini", "~/.gemini/settings.json", '{"hooksConfig": {"enabled": true}}', False),
    ("copilot", "~/.copilot/settings.json", '{"disableAllHooks": true}', True),
    ("claude", "~/.claude/settings.json", '{"disableAllHooks": "true"}', False),
    ("claude", "~/.claude/settings.json", "{", False),
]


def put(project: Project, name: str, text: str) -> Path:
    path = Path(name).expanduser() if name.startswith("~") else project.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(("agent", "name", "text", "off"), ON_OFF)
def test_said(project: Project, agent: str, name: str, text: str, *, off: bool) -> None:
    """By each of the three commands where the agent is enabled, with the file; else by none."""
    path = put(project, name, text)
    assert "runs no hooks" not in project.gitcp("status", check=0).out
    assert "runs no hooks" not in project.gitcp("doctor").out

    done = project.gitcp("enable", agent, "--yes")
    assert ("runs no hooks, so nothing is saved: " in done.out) is off
    status, doctor = project.gitcp("status", check=0).out, project.gitcp("doctor")
    for said in (status, doctor.out):
        assert ("runs no hooks, so nothing is saved: " in said) is off
        assert not off or str(path) in said
    if off:
        assert doctor.code == 1
        [told] = json.loads(project.gitcp("status", "--json", check=0).out)["silent"]
        assert told["what"] in status


def test_later_files_override(project: Project) -> None:
    """The project's setting counts more than the user's, a local one more than that."""
    put(project, "~/.claude/settings.json", '{"disableAllHooks": true}')
    project.gitcp("enable", "claude", "--yes", check=0)
    assert "Claude Code runs no hooks" in project.gitcp("status").out
    put(project, ".claude/settings.local.json", '{"disableAllHooks": false}')
    assert "runs no hooks" not in project.gitcp("status").out


def test_hints(project: Project) -> None:
    """Your own setting is to be removed; an administrator's is not yours to change."""
    own = put(project, "~/.claude/settings.json", '{"disableAllHooks": true}')
    project.gitcp("enable", "claude", "--yes", check=0)
    assert f'remove "disableAllHooks": true from {own}' in project.gitcp("doctor").out
    put(project, "~/.claude/remote-settings.json", '{"allowManagedHooksOnly": true}')
    assert "an administrator decides about hooks" in project.gitcp("doctor").out
    assert os.environ["HOME"] in project.gitcp("doctor").out


@pytest.mark.parametrize("agent", ["claude", "gemini"])
def test_started_in_a_subdirectory(project: Project, agent: str) -> None:
    """An agent that reads settings where it is started saves nothing in a subdirectory: said there,
    until it is enabled for the user.
    """
    project.write("sub/a", "a")
    done = project.gitcp("enable", agent, "--yes", check=0)
    assert f"if started in a subdirectory: gitcp enable {agent} --user" in done.out
    below = project.root / "sub"
    for typed in ("status", "doctor"):
        said = project.gitcp(typed, cwd=below).out
        assert f"saves nothing if it is started in {below}: it reads a project's settings" in said
        assert f"gitcp enable {agent} --user" in said
        assert "saves nothing" not in project.gitcp(typed).out
    project.gitcp("enable", agent, "--yes", "--user", check=0)
    assert "saves nothing" not in project.gitcp("status", cwd=below).out


def test_that_reads_settings_above(project: Project) -> None:
    """Codex looks for a project's settings in the directories above as well."""
    project.write("sub/a", "a")
    project.gitcp("enable", "codex", "--yes", check=0)
    assert "saves nothing" not in project.gitcp("status", cwd=project.root / "sub").out
