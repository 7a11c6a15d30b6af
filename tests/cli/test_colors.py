"""The colors of commands: only escape sequences that a terminal knows."""

from __future__ import annotations

import re

import pytest
from talk import Talk

from driver import Project

AGENT = "1a2b3c4d-5d1c-4f0a-9b3e-2c6d8f1a7b90"
COLOURED = re.compile(r"\x1b\[(?:0|1|2|31|32|33|36)m")
COMMANDS = (
    "log|log --oneline|log --stat|show|status|sessions|sessions --worktrees|oplog|diff|diff @1 @2"
    "|why a.txt|tag|tag --list|stats|check|prune --dry-run --keep-last 1|restore @1 --dry-run"
    "|undo --dry-run|secrets|find one|fork @1|review @1 @2|save --force|doctor|remote"
)


@pytest.mark.parametrize("command", COMMANDS.split("|"))
def test_sequences(project: Project, command: str) -> None:
    """What a command prints in color has no color's name, and no sequence of another kind."""
    Talk(project, AGENT).say("Begin.", "I begin.")
    for number in (1, 2):
        project.write("a.txt", f"{number}\n")
        project.gitcp("save", f"number {number}", "--tag", f"t{number}", check=0)
    project.write("a.txt", "three\n")
    project.write("local.env", "API_TOKEN=" + "gh" + "p_7Kq2mX9vB4tR8wZ1cF6yH3jN5sD0gLpQaEuT\n")

    done = project.gitcp(*command.split(), env={"FORCE_COLOR": "1"})

    for text in (done.out, done.err):
        assert "\x1b" not in COLOURED.sub("", text), text
        assert text.count("\x1b[0m") * 2 == text.count("\x1b[")
