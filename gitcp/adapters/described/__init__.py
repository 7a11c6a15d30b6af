"""Adapters from TOML files: those in the user's configuration, and those shipped with gitcp.

    $XDG_CONFIG_HOME/gitcp/adapters/NAME.toml    else ~/.config/gitcp/adapters/NAME.toml

Never from a working tree: a project may come from anybody, and a file says what is read and which
command continues a session.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gitcp import fingerprint, user_state
from gitcp.adapters import base
from gitcp.adapters.base import Adapter
from gitcp.errors import BadValue
from gitcp.fingerprint import Fingerprint
from gitcp.model import Host

if TYPE_CHECKING:
    from gitcp.adapters.table_adapter import TableAdapter

HERE = Path(__file__).parent
SHIPPED = {
    "cline": (".cline", "CLINE_DIR"),
    "kimi": (".kimi-code", "KIMI_CODE_HOME"),
    "kiro": (".kiro", ""),
}
"""The agents whose files are shipped: the home of each and the variable that moves it, as its file
has them. A save reads only those of agents that are there.
"""


def load(name: str) -> Adapter | None:
    """Return the adapter that a file of this name describes, None if there is none. Raises BadValue
    if it is no table.
    """
    path = paths().get(name)
    return None if path is None else read(path)


def adapters(host: Host) -> Iterator[Adapter]:
    """Yield the adapters of agents that may be on this machine. A file that cannot be read is
    skipped, so that it cannot prevent a save; `load` reports it.
    """
    for name, path in paths().items():
        home, variable = SHIPPED.get(name, ("", ""))
        is_shipped = path.parent == HERE
        if is_shipped and not (host.env.get(variable) or os.path.isdir(host.home / home)):
            continue
        try:
            yield read(path)
        except BadValue:
            continue


def read(path: Path) -> TableAdapter:
    """Return the adapter that a file describes. Raises BadValue if it is no table, or has another
    name.
    """
    return _read(path, fingerprint.at(str(path)))


@cache
def _read(path: Path, _: Fingerprint | None) -> TableAdapter:
    from gitcp.adapters import tables  # only for agents that are described
    from gitcp.adapters.table_adapter import TableAdapter

    table = tables.read(path)
    if table.name != path.stem:
        raise BadValue(f"{path}: its name is {table.name!r}, so call it {table.name}.toml")
    return TableAdapter(table)


def directory() -> Path | None:
    """Return the directory with the user's files, existing or not; None without a home."""
    configured = user_state.configured()
    return Path(configured, "adapters") if configured else None


def source(path: Path) -> str:
    """Return where an adapter comes from: the user's file, or gitcp."""
    return "gitcp" if path.parent == HERE else str(path)


def paths() -> Mapping[str, Path]:
    """Return the files by name. The user's win."""
    own = directory()
    names = {path.stem: path for path in HERE.glob("*.toml")}
    if own is not None:
        names |= {path.stem: path for path in base.glob(own, "*.toml")}
    return names


def watched() -> tuple[Path, ...]:
    """Return the paths whose stat changes with the user's files."""
    own = directory()
    return (own, *base.glob(own, "*.toml")) if own is not None else ()


def variables() -> tuple[str, ...]:
    """Return the variables that the user's files name: where an agent is, and which session runs a
    command.
    """
    own = directory()
    named = set[str]()
    for path in base.glob(own, "*.toml") if own is not None else ():
        try:
            table = read(path).table
        except BadValue:
            continue
        named |= {table.home_variable, table.variable}
    return tuple(sorted(named - {""}))
