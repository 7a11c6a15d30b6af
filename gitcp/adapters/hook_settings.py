"""Read the settings in which agents' users and administrators turn hooks off.

Only files are read: what a command line or an account's policy sets is not known.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gitcp import regular
from gitcp.errors import BadValue
from gitcp.jsonc import parse


class Off(NamedTuple):
    """A switch that is off: the file that says so, and the setting in it; `managed` if it is an
    administrator's.
    """

    path: Path
    setting: str
    managed: bool = False

    @property
    def reason(self) -> str:
        """Why nothing is saved."""
        return f"runs no hooks, so nothing is saved: {self.setting} in {self.path}"

    @property
    def hint(self) -> str:
        """What helps."""
        if self.managed:
            return "gitcp save  (an administrator decides about hooks)"
        return f"remove {self.setting} from {self.path}"


class Server(NamedTuple):
    """A process of an agent's that outlives its sessions: its id, the PATH that it was started
    with, and the command that restarts it.
    """

    pid: int
    path: str
    restart: str


def last(paths: list[Path], name: tuple[str, ...], *, off: bool) -> Off | None:
    """Return the last file that has a setting, if it is `off` there: later files override."""
    values = [(path, value) for path in paths for value in _values(json_of(path), name)]
    if not values or values[-1][1] is not off:
        return None
    text = "true" if off else "false"
    return Off(values[-1][0], f'"{".".join(name)}": {text}')


def _values(settings: Any, name: tuple[str, ...]) -> Iterator[bool]:
    for key in name:
        settings = settings.get(key) if isinstance(settings, dict) else None
    if isinstance(settings, bool):
        yield settings


def json_of(path: Path) -> dict[str, Any]:
    """Return the settings in a file of JSON with comments, none if it has none that can be read."""
    try:
        value = parse(regular.content(path).decode("utf-8")).value
    except (BadValue, OSError, UnicodeDecodeError):
        return {}
    return value if isinstance(value, dict) else {}


def toml_of(path: Path) -> dict[str, Any]:
    """Return the settings in a TOML file, none if it cannot be read."""
    try:
        return tomllib.loads(regular.content(path).decode("utf-8"))
    except (OSError, ValueError):
        return {}
