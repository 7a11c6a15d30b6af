"""Adapters that other installed packages bring, through the entry-point group `gitcp.adapters`.

The packages' `entry_points.txt` are read here without importlib.metadata, which takes thirty
milliseconds: most people have none of these, and every save asks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module

from gitcp.adapters.base import Adapter
from gitcp.errors import BadValue

GROUP = "gitcp.adapters"


def load(name: str) -> Adapter | None:
    """The installed adapter of this name, None if there is none. Raises BadValue if it cannot be
    loaded.
    """
    target = names().get(name)
    return None if target is None else _load(name, target)


def adapters() -> Iterator[Adapter]:
    """All of them that can be loaded. One that cannot says so when it is asked for by its name:
    somebody else's broken package is no reason not to save.
    """
    for name, target in names().items():
        try:
            yield _load(name, target)
        except BadValue:
            continue


def places() -> tuple[str, ...]:
    """Where packages are looked for; the stat of a directory changes when one comes or goes."""
    return tuple(dict.fromkeys(filter(None, sys.path)))


def names() -> dict[str, str]:
    """What is installed, by name: where it is, as "module" or "module:attribute". The first on the
    path counts.
    """
    return _names(places())


@cache
def _names(places: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for place in places:
        for text in _described(place):
            found = dict(_entries(text)) | found
    return found


def _described(place: str) -> Iterator[str]:
    """The entry points of every package installed in a directory."""
    try:
        packages = sorted(
            name for name in os.listdir(place) if name.endswith((".dist-info", ".egg-info"))
        )
    except OSError:
        return
    for package in packages:
        try:
            with open(os.path.join(place, package, "entry_points.txt"), "rb") as file:
                yield file.read().decode("utf-8", "replace")
        except OSError:
            continue


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """The lines of our group."""
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
    # somebody else's code: whatever it raises, it cannot be used
    except Exception as error:  # noqa: BLE001
        raise BadValue(f"the adapter for {name} cannot be loaded: {error}") from None
    if getattr(adapter, "NAME", None) != name:
        raise BadValue(
            f"the adapter for {name} cannot be loaded: it calls itself "
            f"{getattr(adapter, 'NAME', None)!r}"
        )
    return adapter
