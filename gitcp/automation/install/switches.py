"""The agents' own switches for hooks. Where one is off, gitcp is set up and nothing is saved.

As measured with Claude Code 2.1, Codex 0.169 and Gemini CLI 0.61, and as documented for Copilot
CLI. opencode has none. Only files are read: what a command line or an account's policy sets is not
known.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gitcp import discovery, regular
from gitcp.agents import KnownAgent
from gitcp.automation.install.jsonc import parse
from gitcp.automation.install.targets import home
from gitcp.errors import BadValue
from gitcp.git import worktrees
from gitcp.model import Host
from gitcp.value import Value

POLICIES = {
    "linux": "/etc/claude-code",
    "darwin": "/Library/Application Support/ClaudeCode",
}
"""Where administrators put Claude Code's settings."""

SYSTEM = {"linux": "/etc/gemini-cli", "darwin": "/Library/Application Support/GeminiCli"}
"""Where they put Gemini CLI's."""

HOOK = b"gitcp hook "
"""Begins the command of each of gitcp's hooks."""


Setting = tuple[Path, str, bool]
"""A setting: its file, its text, and whether it is an administrator's."""


class Off(Value):
    """A switch that is off: the file that says so, and the setting in it; `managed` if it is an
    administrator's.
    """

    path: Path
    setting: str
    managed: bool = False

    @property
    def reason(self) -> str:
        """Return why nothing is saved."""
        return f"runs no hooks, so nothing is saved: {self.setting} in {self.path}"

    @property
    def hint(self) -> str:
        """Return what helps."""
        if self.managed:
            return "gitcp save  (an administrator decides about hooks)"
        return f"remove {self.setting} from {self.path}"


def off(target: KnownAgent, root: Path | None, host: Host) -> Off | None:
    """Return the switch by which an agent runs no hook of gitcp's in the project at `root`, or
    (None) in no project; None if no file says so.
    """
    user = home(target, host)
    if target.command == "claude":
        setting = _claude(user, root)
    elif target.command == "gemini":
        own = host.env.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH")
        setting = _gemini(user, root, Path(own) if own else None)
    elif target.command == "codex":
        setting = _codex(user, root)
    else:
        setting = _copilot(user, root) if target.command == "copilot" else None
    return Off(*setting) if setting else None


def unread(target: KnownAgent, root: Path, host: Host) -> str:
    """Return why an agent does not read the hooks that are in the project at `root`, "" if it does.

    Codex 0.169, as tried: it reads a project's hooks if the user trusts the project, or for a
    linked worktree the main one, and there those of the main worktree.
    """
    hooks = f"{target.project}/{target.pieces[0].target}"
    if target.command != "codex" or not _has_hooks(root / hooks):
        return ""
    config = home(target, host) / "config.toml"
    main = _main_worktree(root)
    projects = _toml(config).get("projects")
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
    if not _has_hooks(main / hooks):
        return f"in a linked worktree it runs those of {main}, which has none of gitcp's"
    return ""


def _main_worktree(root: Path) -> Path:
    """Return the main worktree of the repository at `root`, or `root` if it is not known."""
    discovered = discovery.discover(str(root))
    return (discovered and worktrees.main_root(Path(discovery.common(discovered[1])))) or root


def _has_hooks(path: Path) -> bool:
    try:
        return HOOK in regular.content(path)
    except OSError:
        return False


def has_plugin(target: KnownAgent, root: Path | None, host: Host) -> bool:
    """Return whether an agent runs gitcp's hooks as its plugin."""
    paths = [home(target, host) / "settings.json"] if target.command == "claude" else []
    if paths and root is not None:
        paths += [root / ".claude" / name for name in ("settings.json", "settings.local.json")]
    enabled: dict[str, Any] = {}
    for path in paths:
        plugins = _json(path).get("enabledPlugins")
        enabled |= plugins if isinstance(plugins, dict) else {}
    return any(name.startswith("gitcp@") and on is True for name, on in enabled.items())


def _claude(user: Path, root: Path | None) -> Setting | None:
    directory = Path(POLICIES.get(sys.platform, POLICIES["linux"]))
    managed = [directory / "managed-settings.json"]
    managed += sorted((directory / "managed-settings.d").glob("*.json"))
    managed.append(user / "remote-settings.json")
    for path in managed:
        settings = _json(path)
        for name in ("allowManagedHooksOnly", "disableAllHooks"):
            if settings.get(name) is True:
                return path, f'"{name}": true', True
    paths = [user / "settings.json"]
    if root is not None:
        paths += [root / ".claude" / name for name in ("settings.json", "settings.local.json")]
    return _last(paths, ("disableAllHooks",), off=True)


def _gemini(user: Path, root: Path | None, chosen: Path | None) -> Setting | None:
    system = Path(SYSTEM.get(sys.platform, SYSTEM["linux"]))
    paths = [system / "system-defaults.json", user / "settings.json"]
    paths += [root / ".gemini" / "settings.json"] if root is not None else []
    paths.append(chosen or system / "settings.json")
    return _last(paths, ("hooksConfig", "enabled"), off=False)


def _copilot(user: Path, root: Path | None) -> Setting | None:
    paths = [user / "config.json", user / "settings.json"]
    if root is not None:
        names = ("settings.json", "settings.local.json")
        paths += [root / ".github" / "copilot" / name for name in names]
    return _last(paths, ("disableAllHooks",), off=True)


def _codex(user: Path, root: Path | None) -> Setting | None:
    paths = [user / "config.toml"]
    paths += [root / ".codex" / "config.toml"] if root is not None else []
    last: Setting | None = None
    for path in paths:
        features = _toml(path).get("features")
        for name in ("codex_hooks", "hooks"):  # the older name, and today's
            if isinstance(features, dict) and isinstance(features.get(name), bool):
                last = None if features[name] else (path, f"[features] {name} = false", False)
    return last


def _last(paths: list[Path], name: tuple[str, ...], *, off: bool) -> Setting | None:
    """Return the last file that has a setting, if it is `off` there: later files override."""
    values = [(path, value) for path in paths for value in _values(_json(path), name)]
    if not values or values[-1][1] is not off:
        return None
    text = "true" if off else "false"
    return values[-1][0], f'"{".".join(name)}": {text}', False


def _values(settings: Any, name: tuple[str, ...]) -> Iterator[bool]:
    for key in name:
        settings = settings.get(key) if isinstance(settings, dict) else None
    if isinstance(settings, bool):
        yield settings


def _json(path: Path) -> dict[str, Any]:
    """Return the settings in a file, none if it has none that can be read."""
    try:
        value = parse(regular.content(path).decode("utf-8")).value
    except (BadValue, OSError, UnicodeDecodeError):
        return {}
    return value if isinstance(value, dict) else {}


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(regular.content(path).decode("utf-8"))
    except (OSError, ValueError):
        return {}
