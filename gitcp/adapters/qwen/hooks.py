"""What decides whether Qwen Code runs hooks: the setting `disableAllHooks`."""

from __future__ import annotations

from pathlib import Path

from gitcp.adapters.hook_settings import Off, last


def off(home: Path, root: Path | None) -> Off | None:
    """Return the setting by which no hook of the project at `root`, or of none, is run."""
    paths = [home / "settings.json"]
    paths += [root / ".qwen" / "settings.json"] if root is not None else []
    return last(paths, ("disableAllHooks",), off=True)
