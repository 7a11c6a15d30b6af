"""The supported agents: which files go where, in a project and in the home
directory. A table without effects.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Literal

from gitcp.errors import BadValue
from gitcp.model import Host
from gitcp.value import Value

How = Literal["merge", "copy", "section", "script"]
Form = Literal["", "toml-command", "command"]


class Piece(Value):
    """A file or directory to install: its source in `hooks/`, and its target below the agent's
    directory.

    "merge": its hooks are added to the agent's settings. "copy": the files are gitcp's own.
    "section": a marked section of a text. "script": a marked block of an executable shell script.
    `form` is the format that the files are converted to. `shared`: other people's files are in the
    target too, and one with the same name is kept. `without` files are not installed.
    """

    source: str
    target: str
    how: How = "copy"
    form: Form = ""
    shared: bool = False
    without: tuple[str, ...] = ()


class Target(Value):
    """An agent. `program` is its executable; `project` and `home` are its
    directories, "" if it has none.

    `variable` overrides `home` from the environment, with `below` appended. `asked` agents have
    no hooks and are set up only by name. `trusting` ones need the digests of their hooks.
    `reads_start` ones read a project's settings in the directory where they are started, not in
    those above. `note` is a remark for a project.
    """

    name: str
    title: str
    program: str
    project: str
    home: str
    variable: str
    pieces: tuple[Piece, ...]
    below: str = ""
    asked: bool = False
    trusting: bool = False
    reads_start: bool = False
    note: str = ""


SKILL = Piece("claude/skills/gitcp", "skills/gitcp")
COMMANDS = "claude/commands"
TAKEN_IN_CLAUDE = ("checkpoint.md",)
"""Claude Code has a /checkpoint: its /rewind."""

TARGETS = (
    Target(
        "claude",
        "Claude Code",
        program="claude",
        project=".claude",
        home=".claude",
        variable="CLAUDE_CONFIG_DIR",
        pieces=(
            Piece("claude/hooks/hooks.json", "settings.json", "merge"),
            Piece(COMMANDS, "commands/gitcp"),
            Piece(COMMANDS, "commands", shared=True, without=TAKEN_IN_CLAUDE),
            SKILL,
        ),
        reads_start=True,
    ),
    Target(
        "codex",
        "Codex",
        program="codex",
        project=".codex",
        home=".codex",
        variable="CODEX_HOME",
        pieces=(Piece("codex/hooks.json", "hooks.json", "merge"), SKILL),
        trusting=True,
    ),
    Target(
        "gemini",
        "Gemini CLI",
        program="gemini",
        project=".gemini",
        home=".gemini",
        variable="GEMINI_CLI_HOME",
        below=".gemini",
        pieces=(
            Piece("gemini/hooks.json", "settings.json", "merge"),
            Piece(COMMANDS, "commands/gitcp", form="toml-command"),
            Piece(COMMANDS, "commands", form="toml-command", shared=True),
            SKILL,
        ),
        reads_start=True,
        note=("runs a project's hooks only if you trust the folder; it asks when started there"),
    ),
    Target(
        "opencode",
        "opencode",
        program="opencode",
        project=".opencode",
        home=".config/opencode",
        variable="XDG_CONFIG_HOME",
        below="opencode",
        pieces=(
            Piece("opencode/gitcp.js", "plugin/gitcp.js"),
            Piece(COMMANDS, "command/gitcp", form="command"),
            Piece(COMMANDS, "command", form="command", shared=True),
            SKILL,
        ),
    ),
    Target(
        "copilot",
        "Copilot CLI",
        program="copilot",
        project=".github",
        home=".copilot",
        variable="COPILOT_HOME",
        pieces=(Piece("copilot/gitcp.json", "hooks/gitcp.json"), SKILL),
        note=("runs a project's hooks only if you trust the folder; it asks when started there"),
    ),
    Target(
        "cursor",
        "Cursor",
        program="cursor",
        project=".cursor",
        home="",
        variable="",
        pieces=(Piece("snippets/cursor.mdc", "rules/gitcp.mdc"),),
        asked=True,
    ),
    Target(
        "openclaw",
        "OpenClaw",
        program="openclaw",
        project="skills",
        home=".openclaw/skills",
        variable="",
        pieces=(Piece("claude/skills/gitcp", "gitcp"),),
        asked=True,
    ),
    Target(
        "agents-md",
        "AGENTS.md",
        program="",
        project=".",
        home="",
        variable="",
        pieces=(Piece("snippets/AGENTS.md", "AGENTS.md", "section"),),
        asked=True,
    ),
)

GIT = Target(
    "git",
    "git",
    program="git",
    project="",
    home="",
    variable="",
    pieces=(Piece("git/prepare-commit-msg", "prepare-commit-msg", "script"),),
    asked=True,
)
"""Not an agent: git itself, with a hook that adds the checkpoint to commit messages.
Installed in git's hooks directory.
"""

NAMES = (*(target.name for target in TARGETS), GIT.name)


def named(name: str) -> Target:
    """Return the agent with this name. Raises BadValue if there is none."""
    match = next((target for target in (*TARGETS, GIT) if target.name == name), None)
    if match is None:
        raise BadValue(f"unknown agent {name!r}", hint=f"use one of {', '.join(NAMES)}")
    return match


def detected(host: Host) -> tuple[Target, ...]:
    """Return the installed agents that have hooks."""
    return tuple(
        target
        for target in TARGETS
        if not target.asked and (program(target, host) or home(target, host).is_dir())
    )


def program(target: Target, host: Host) -> str | None:
    """Return the path of the agent's program, None if it is not on PATH."""
    return (
        shutil.which(target.program, path=host.env.get("PATH", os.defpath))
        if target.program
        else None
    )


def home(target: Target, host: Host) -> Path:
    """Return the agent's directory in the home directory."""
    chosen = host.env.get(target.variable, "") if target.variable else ""
    return Path(chosen, target.below) if chosen.startswith("/") else host.home / target.home
