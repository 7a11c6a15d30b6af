"""The agents that can be set up: where each looks for what, in a project and in the home. A table,
and nothing done.
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
    """Something that is installed: from where in `hooks/`, to where below the agent's directory.

    "merge": its hooks are put into the agent's settings. "copy": each file is gitcp's own.
    "section": a marked part of a text. "script": a marked part of a shell script, which can be run.
    `form` is what the files are rewritten into.
    """

    source: str
    target: str
    how: How = "copy"
    form: Form = ""


class Target(Value):
    """An agent. `program` is what it is started by; `project` and `home` are its directories, ""
    where it has none.

    `variable` names another directory for `home`; `below` is what then follows it. `asked` agents
    are set up only when they are named: they have no hooks. `trusting` ones are told the digests of
    their hooks. `note` is what must be known of one in a project.
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
    note: str = ""


SKILL = Piece("claude/skills/gitcp", "skills/gitcp")
COMMANDS = "claude/commands"

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
            SKILL,
        ),
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
            SKILL,
        ),
        note=(
            "it runs a project's hooks in a folder that you trust: it asks when it is started there"
        ),
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
        note=(
            "it runs a project's hooks in a folder that you trust: it asks when it is started there"
        ),
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
"""No agent: git itself, which names the checkpoint in each commit's message. It goes where git
looks for hooks.
"""

NAMES = (*(target.name for target in TARGETS), GIT.name)


def named(name: str) -> Target:
    """The agent of this name. Raises BadValue if there is none."""
    found = next((target for target in (*TARGETS, GIT) if target.name == name), None)
    if found is None:
        raise BadValue(
            f"gitcp does not know an agent called {name!r}", hint=f"known are {', '.join(NAMES)}"
        )
    return found


def detected(host: Host) -> tuple[Target, ...]:
    """The agents with hooks that are installed here."""
    return tuple(
        target
        for target in TARGETS
        if not target.asked and (program(target, host) or home(target, host).is_dir())
    )


def program(target: Target, host: Host) -> str | None:
    """Where the agent's program is, None if it is not on the PATH."""
    return (
        shutil.which(target.program, path=host.env.get("PATH", os.defpath))
        if target.program
        else None
    )


def home(target: Target, host: Host) -> Path:
    """The agent's directory for this person."""
    chosen = host.env.get(target.variable, "") if target.variable else ""
    return Path(chosen, target.below) if chosen.startswith("/") else host.home / target.home
