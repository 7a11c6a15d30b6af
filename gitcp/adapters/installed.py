"""Adapters from installed packages, through the entry-point group `gitcp.adapters`.

Reads `entry_points.txt` directly: importlib.metadata takes 30 ms, on every save.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module

from gitcp import regular
from gitcp.adapters.base import Adapter
from gitcp.errors import BadValue

GROUP = "gitcp.adapters"


def load(name: str) -> Adapter | None:
    """Return the installed adapter with this name, None if there is none.
    Raises BadValue if it fails to load.
    """
    target = names().get(name)
    return None if target is None else _load(name, target)


def adapters() -> Iterator[Adapter]:
    """Yield all adapters that load. A broken one is skipped, so that it cannot
    prevent a save; `load` reports it.
    """
    for name, target in names().items():
        try:
            yield _load(name, target)
        except BadValue:
            continue


def search_path() -> tuple[str, ...]:
    """Return the directories that packages are installed in. Their stat
    changes with each (un)install.
    """
    return tuple(dict.fromkeys(filter(None, sys.path)))


def names() -> dict[str, str]:
    """Return the targets of the installed adapters by name, as "module" or
    "module:attribute". The first on the path wins.
    """
    return _names(search_path())


@cache
def _names(directories: tuple[str, ...]) -> dict[str, str]:
    targets: dict[str, str] = {}
    for directory in directories:
        for text in _entry_point_files(directory):
            targets = dict(_entries(text)) | targets
    return targets


def _entry_point_files(directory: str) -> Iterator[str]:
    """Yield the entry points of every package installed in a directory."""
    try:
        packages = sorted(
            name for name in os.listdir(directory) if name.endswith((".dist-info", ".egg-info"))
        )
    except OSError:
        return
    for package in packages:
        try:
            with regular.opened(os.path.join(directory, package, "entry_points.txt")) as file:
                yield file.read().decode("utf-8", "replace")
        except OSError:
            continue


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """Yield names and targets of the group `gitcp.adapters`."""
    section = ""
    for line in map(str.strip, text.splitlines()) if GROUP in text else ():
        if line.startswith("["):
            section = line.strip("[] ")
        elif section == GROUP and "=" in line and not line.startswith(("#", ";")):
            name, target = line.split("=", 1)
            yield name.strip(), target.split("[")[0].strip()


def _load(name: str, target: str) -> Adapter:
    module, _, attributes = target.partition(":")
    try:
        adapter = import_module(module)
        for attribute in filter(None, attributes.split(".")):
            adapter = getattr(adapter, attribute)
    # third-party code: it may raise anything
    except Exception as error:  # noqa: BLE001
        raise BadValue(f"cannot load the adapter for {name}: {error}") from None
    if getattr(adapter, "NAME", None) != name:
        raise BadValue(
            f"cannot load the adapter for {name}: its NAME is {getattr(adapter, 'NAME', None)!r}"
        )
    return adapter
