"""Whether an agent runs gitcp's hooks, by its own settings: where a switch is off, gitcp is set up
and nothing is saved. What decides is in the agent's package (`Hooks.settings`).
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from gitcp import discovery
from gitcp.adapters.hook_settings import Off, Server
from gitcp.agents import KnownAgent
from gitcp.automation.install.targets import home
from gitcp.git import worktrees
from gitcp.model import Host


def off(target: KnownAgent, root: Path | None, host: Host) -> Off | None:
    """Return the switch by which an agent runs no hook of gitcp's in the project at `root`, or
    (None) in no project; None if no file says so.
    """
    decide = _asked(target, "off")
    switch: Off | None = decide(home(target, host), root, host.env) if decide else None
    return switch


def unread(target: KnownAgent, root: Path, host: Host) -> str:
    """Return why an agent does not read the hooks that are in the project at `root`, "" if it
    does.
    """
    decide = _asked(target, "unread")
    return decide(home(target, host), root, _main_worktree(root)) if decide else ""


def _main_worktree(root: Path) -> Path:
    """Return the main worktree of the repository at `root`, or `root` if it is not known."""
    discovered = discovery.discover(str(root))
    return (discovered and worktrees.main_root(Path(discovery.common(discovered[1])))) or root


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
