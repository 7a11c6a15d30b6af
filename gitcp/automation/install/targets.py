"""What `enable` sets up: the agents, and git itself."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from gitcp.agents import KNOWN, KnownAgent, Piece
from gitcp.errors import BadValue
from gitcp.model import Host

GIT = KnownAgent(
    "git",
    "git",
    program="git",
    pieces=(Piece("git/prepare-commit-msg", "prepare-commit-msg", "script"),),
)
"""Not an agent: git itself, with a hook that adds the checkpoint to commit messages.
Installed in git's hooks directory.
"""

NAMES = (*(agent.command for agent in KNOWN), GIT.command)


def named(name: str) -> KnownAgent:
    """Return the agent, or git, with this name. Raises BadValue if there is none."""
    match = next((agent for agent in (*KNOWN, GIT) if agent.command == name), None)
    if match is None:
        raise BadValue(f"unknown agent {name!r}", hint=f"use one of {', '.join(NAMES)}")
    return match


def detected(host: Host) -> tuple[KnownAgent, ...]:
    """Return the installed agents that have hooks."""
    return tuple(
        agent
        for agent in KNOWN
        if agent.hooks.events and (program(agent, host) or os.path.isdir(home(agent, host)))
    )


def program(agent: KnownAgent, host: Host) -> str | None:
    """Return the path of the agent's program, None if it is not on PATH."""
    return (
        shutil.which(agent.program, path=host.env.get("PATH", os.defpath))
        if agent.program
        else None
    )


def home(agent: KnownAgent, host: Host) -> Path:
    """Return the agent's directory in the home directory, or where its variable says."""
    return Path(agent.home_in(host.env, str(host.home)))
