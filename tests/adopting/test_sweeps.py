"""Warnings before an agent deletes conversations that are not stored."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import kept_talks
import pytest
from talk import Talk
from terminal import on_terminal

from driver import Project

DAY = 86400


def aged(path: Path, days: float) -> None:
    """Let a transcript be that old."""
    moment = time.time() - days * DAY
    os.utime(path, (moment, moment))


@pytest.fixture
def talk(project: Project) -> Talk:
    """A conversation that Claude Code deletes in two days."""
    begun = Talk(project)
    begun.say("hello", "Hello.")
    aged(begun.path, 28)
    return begun


def warned(project: Project) -> str:
    """What `status` and `doctor` say about it, which is the same."""
    lines = [
        line
        for command in ("status", "doctor")
        for line in project.gitcp(command).out.splitlines()
        if "gitcp import" in line
    ]
    said = {line.removeprefix("Not stored    ").removeprefix("note  ") for line in lines}
    assert len(said) <= 1
    assert len(lines) in (0, 2)
    return said.pop() if said else ""


def test_soon(project: Project, talk: Talk) -> None:
    """A conversation is named before its agent deletes it, with the command that stores it."""
    assert warned(project) == "claude-code deletes 1 conversation in 2 days: gitcp import"
    (soon,) = project.json("status")["deleted_soon"]
    assert (soon["agent"], soon["conversations"]) == ("claude-code", 1)

    project.gitcp("adopt", "--yes", check=0)

    assert warned(project) == ""


def test_at_the_next_start(project: Project, talk: Talk) -> None:
    """Of several, the first one's time is named."""
    other = Talk(project, "11111111-5d1c-4f0a-9b3e-2c6d8f1a7b90")
    other.say("hello", "Hello.")
    aged(other.path, 40)

    said = "claude-code deletes 2 conversations, the first at its next start: gitcp import"
    assert warned(project) == said


@pytest.mark.parametrize(
    ("days", "is_warned"), [(29, True), (300, False), (0, False), ("x", False)]
)
def test_the_setting(
    project: Project, talk: Talk, sealed: Path, days: object, is_warned: bool
) -> None:
    """Claude Code's own setting counts; with an invalid one, or 0, it deletes nothing."""
    sealed.joinpath(".claude/settings.json").write_text(json.dumps({"cleanupPeriodDays": days}))

    assert bool(warned(project)) == is_warned


def test_not_soon(project: Project, talk: Talk) -> None:
    """What is not deleted within a week, or was saved, is nothing to warn of."""
    aged(talk.path, 20)
    assert warned(project) == ""
    aged(talk.path, 28)
    project.gitcp("save", check=0)
    assert warned(project) == ""


def test_gemini(project: Project, sealed: Path) -> None:
    """Gemini CLI deletes as well, unless it is told not to; Codex does not."""
    kept_talks.begin("gemini", project.root)
    kept_talks.begin("codex", project.root)
    assert warned(project) == "gemini deletes 1 conversation at its next start: gitcp import"

    settings = {"general": {"sessionRetention": {"enabled": False}}}
    sealed.joinpath(".gemini/settings.json").write_text(json.dumps(settings))

    assert warned(project) == ""


def test_enable_offers(project: Project, talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sets an agent up is asked whether to store what it has said before."""
    program = project.root.parent / "bin"
    program.mkdir()
    program.joinpath("gitcp").write_text("#!/bin/sh\n")
    program.joinpath("gitcp").chmod(0o755)
    monkeypatch.setenv("PATH", f"{program}:{os.environ['PATH']}")

    said = project.gitcp("enable", "claude", "--yes", check=0).out

    assert "1 earlier conversation can be imported: gitcp import" in said
    asked = on_terminal(project, "enable", "claude", typed="y\n")
    assert "Import 1 earlier conversation of this directory? [y/N]" in asked.out
    assert asked.code == 0
    assert [each["session"] for each in project.json_lines("sessions")] == ["e7baae82"]
