"""What decides whether Claude Code runs hooks, as measured with 2.1."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from gitcp.adapters.hook_settings import Off, json_of, last

POLICIES = {
    "linux": "/etc/claude-code",
    "darwin": "/Library/Application Support/ClaudeCode",
}
"""Where administrators put settings."""


def off(home: Path, root: Path | None) -> Off | None:
    """Return the setting by which no hook of the project at `root`, or of none, is run."""
    directory = Path(POLICIES.get(sys.platform, POLICIES["linux"]))
    managed = [directory / "managed-settings.json"]
    managed += sorted((directory / "managed-settings.d").glob("*.json"))
    managed.append(home / "remote-settings.json")
    for path in managed:
        settings = json_of(path)
        for name in ("allowManagedHooksOnly", "disableAllHooks"):
            if settings.get(name) is True:
                return Off(path, f'"{name}": true', managed=True)
    return last(_settings(home, root), ("disableAllHooks",), off=True)


def has_plugin(home: Path, root: Path | None) -> bool:
    """Return whether gitcp's hooks are run as a plugin."""
    enabled: dict[str, Any] = {}
    for path in _settings(home, root):
        plugins = json_of(path).get("enabledPlugins")
        enabled |= plugins if isinstance(plugins, dict) else {}
    return any(name.startswith("gitcp@") and on is True for name, on in enabled.items())


def _settings(home: Path, root: Path | None) -> list[Path]:
    """Return the files with settings; later ones override."""
    paths = [home / "settings.json"]
    if root is not None:
        paths += [root / ".claude" / name for name in ("settings.json", "settings.local.json")]
    return paths
