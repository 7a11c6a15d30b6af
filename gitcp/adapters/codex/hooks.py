"""What decides whether Codex runs hooks, as tried with 0.169."""

from __future__ import annotations

import os
from pathlib import Path

from gitcp import regular, wire
from gitcp.adapters.hook_settings import Off, Server, toml_of

HOOKS = ".codex/hooks.json"
HOOK = b"gitcp hook "
"""Begins the command of each of gitcp's hooks."""

RESTART = "codex app-server daemon restart"


def off(home: Path, root: Path | None) -> Off | None:
    """Return the setting by which no hook of the project at `root`, or of none, is run."""
    paths = [home / "config.toml"]
    paths += [root / ".codex" / "config.toml"] if root is not None else []
    last: Off | None = None
    for path in paths:
        features = toml_of(path).get("features")
        for name in ("codex_hooks", "hooks"):  # the older name, and today's
            if isinstance(features, dict) and isinstance(features.get(name), bool):
                last = None if features[name] else Off(path, f"[features] {name} = false")
    return last


def unread(home: Path, root: Path, main: Path) -> str:
    """Return why the hooks in the project at `root` are not read, "" if they are: a project's are
    if the user trusts it, or for a linked worktree the `main` one, and there those of the main
    worktree.
    """
    if not _has_hooks(root):
        return ""
    config = home / "config.toml"
    projects = toml_of(config).get("projects")
    noted = [
        entry.get("trust_level")
        for path in (root, main)
        if isinstance(projects, dict)
        and isinstance(entry := projects.get(os.path.realpath(path)), dict)
    ]
    if not noted:
        return f"{config} does not say that you trust it; Codex asks when it is started there"
    if noted[0] != "trusted":
        return f"{config} says that you do not trust it"
    if not _has_hooks(main):
        return f"in a linked worktree it runs those of {main}, which has none of gitcp's"
    return ""


def _has_hooks(root: Path) -> bool:
    try:
        return HOOK in regular.content(root / HOOKS)
    except OSError:
        return False


def server(home: Path) -> Server | None:
    """Return the app server, which Codex notes in its directory; None if it does not run, or
    processes cannot be looked at.
    """
    try:
        noted = wire.loads(regular.content(home / "app-server-daemon/daemon.pid"))
        pid, ticks = noted["pid"], noted["processIdentity"]["startTicks"]
        process = Path("/proc", str(int(pid)))
        started = regular.content(process / "stat").rpartition(b")")[2].split()[19]
        entries = regular.content(process / "environ").split(b"\0")
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None
    path = next((os.fsdecode(each[5:]) for each in entries if each.startswith(b"PATH=")), "")
    is_same = int(started) == ticks  # a process id is used again
    return Server(pid, path, RESTART) if is_same else None
