"""Map working directories to Gemini CLI's project directories: a registry, and a marker in each
directory.
"""

from __future__ import annotations

import os
import re
from hashlib import sha256
from pathlib import Path

from gitcp import regular, wire
from gitcp.adapters.base import roots
from gitcp.model import Host

MARKER = ".project_root"
HASH = re.compile(r"[0-9a-f]{64}")
"""The names of project directories until there was a registry: the SHA-256 of the path."""


def root_of(host: Host) -> Path:
    """Return Gemini CLI's root directory."""
    return Path(host.env.get("GEMINI_CLI_HOME") or host.home) / ".gemini"


def existing(cwd: Path, host: Host) -> list[Path]:
    """Return the existing project directories for `cwd` and its repository's root."""
    directories = {_known_directory(path, host) for path in roots(cwd)} - {None}
    places = root_of(host) / "tmp"
    old = {places / sha256(os.fsencode(path)).hexdigest() for path in roots(cwd)}
    return sorted({*filter(None, directories), *filter(os.path.isdir, old)})


def _known_directory(cwd: str, host: Host) -> Path | None:
    """Return the project directory that the registry or a marker assigns to a working directory."""
    root = root_of(host)
    name = _registry(root).get(cwd)
    if name is not None and all(owner in {None, cwd} for owner in _owners(root, name)):
        return root / "tmp" / name
    return next(
        (
            root / "tmp" / name
            for name in names_in(root / "tmp")
            if _owner(root / "tmp" / name) == cwd
        ),
        None,
    )


def project_directory(cwd: Path, host: Host) -> tuple[Path, Path | None]:
    """Return the project directory for a working directory, and the marker to write if it is
    missing.

    A new directory gets the name that Gemini CLI would give it.
    """
    root, path = root_of(host), os.path.realpath(cwd)
    directory = _known_directory(path, host)
    if directory is None:
        slug = re.sub(r"[^a-z0-9]+", "-", os.path.basename(path).lower()).strip("-") or "project"
        used_names, number, name = set(_registry(root).values()), 0, slug
        while name in used_names or any(owner not in {None, path} for owner in _owners(root, name)):
            number += 1
            name = f"{slug}-{number}"
        directory = root / "tmp" / name
    return directory, None if os.path.lexists(directory / MARKER) else directory / MARKER


def workplace(directory: Path) -> str | None:
    """Return the working directory of a project directory, None if neither marker nor registry has
    it.
    """
    owners = (
        cwd for cwd, name in _registry(directory.parents[1]).items() if name == directory.name
    )
    return _owner(directory) or next(owners, None)


def _registry(root: Path) -> dict[str, str]:
    """Return the registry, working directory → name; empty where Gemini CLI would discard it
    too.
    """
    try:
        projects: dict[str, str] = wire.loads(regular.content(root / "projects.json"))["projects"]
        return (
            projects if all(re.fullmatch(r"[a-z0-9-]+", name) for name in projects.values()) else {}
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _owners(root: Path, name: str) -> list[str | None]:
    return [_owner(root / kind / name) for kind in ("tmp", "history")]


def _owner(directory: Path) -> str | None:
    """Return the working directory in a marker, None without a marker, "" if it is unreadable."""
    try:
        return regular.content(directory / MARKER).decode("utf-8").strip()
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        # Where nothing can be looked at, every name was taken, and a save searched for ever.
        return "" if os.path.lexists(directory) else None


def names_in(directory: Path) -> list[str]:
    """Return the sorted names in a directory; empty if it cannot be read."""
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []
