"""What decides whether Copilot CLI runs hooks, as documented for it."""

from __future__ import annotations

from pathlib import Path

from gitcp.adapters.hook_settings import Off, last


def off(home: Path, root: Path | None) -> Off | None:
    """Return the setting by which no hook of the project at `root`, or of none, is run."""
    paths = [home / "config.json", home / "settings.json"]
    if root is not None:
        names = ("settings.json", "settings.local.json")
        paths += [root / ".github" / "copilot" / name for name in names]
    return last(paths, ("disableAllHooks",), off=True)
