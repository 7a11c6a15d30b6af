"""What decides whether Gemini CLI runs hooks, as measured with 0.61."""

from __future__ import annotations

import sys
from pathlib import Path

from gitcp.adapters.hook_settings import Off, last

SYSTEM = {"linux": "/etc/gemini-cli", "darwin": "/Library/Application Support/GeminiCli"}
"""Where administrators put settings."""


def off(home: Path, root: Path | None, chosen: str) -> Off | None:
    """Return the setting by which no hook of the project at `root`, or of none, is run. `chosen` is
    the administrator's file, "" for where it usually is.
    """
    system = Path(SYSTEM.get(sys.platform, SYSTEM["linux"]))
    paths = [system / "system-defaults.json", home / "settings.json"]
    paths += [root / ".gemini" / "settings.json"] if root is not None else []
    paths.append(Path(chosen) if chosen else system / "settings.json")
    return last(paths, ("hooksConfig", "enabled"), off=False)
