"""What `enable` sets up, the agents and git itself, and whether an agent runs gitcp's hooks by its
own settings: where a switch is off, gitcp is set up and nothing is saved.
"""

from __future__ import annotations

import os
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

from gitcp import discovery
from gitcp.adapters.hook_settings import Off, Server
from gitcp.agents import KNOWN, KnownAgent, Piece
from gitcp.errors import BadValue
from gitcp.git import worktrees
from gitcp.model import Host


def off(target: KnownAgent, root: Path | None, host: Host) -> Off | None:
    """Return the switch by which an agent runs no hook of gitcp's in the project at `root`, or
    (None) in no project; None if no file says so.
    """
    decide = _asked(target, "off")
    variable = target.hooks.settings_variable
    chosen = (host.env.get(variable, ""),) if variable else ()
    switch: Off | None = decide(home(target, host), root, *chosen) if decide else None
    return switch


def unread(target: KnownAgent, root: Path, host: Host) -> str:
    """Return why an agent does not read the hooks that are in the project at `root`, "" if it
    does.
    """
    decide = _asked(target, "unread")
    if not decide:
        return ""
    discovered = discovery.discover(str(root))
    main = discovered and worktrees.main_root(Path(discovery.common(discovered[1])))
    reason: str = decide(home(target, host), root, main or root)
    return reason


def has_plugin(target: KnownAgent, root: Path | None, host: Host) -> bool:
    """Return whether an agent runs gitcp's hooks as its plugin."""
    decide = _asked(target, "has_plugin")
    return bool(decide and decide(home(target, host), root))


def server(target: KnownAgent, host: Host) -> Server | None:
    """Return the process of an agent that outlives its sessions, None if none runs."""
    decide = _asked(target, "server")
    running: Server | None = decide(home(target, host)) if decide else None
    return running


def _asked(target: KnownAgent, function: str) -> Any:
    """Return a function of the module that knows the agent's settings, None if it has none."""
    module = target.hooks.settings
    return getattr(import_module(module), function, None) if module else None


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
