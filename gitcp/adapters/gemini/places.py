"""Where Gemini CLI keeps what belongs to a working directory: a registry of names, and a marker in
each directory.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from gitcp import wire
from gitcp.model import Host

MARKER = ".project_root"


def root_of(host: Host) -> Path:
    """Where everything of Gemini CLI's is."""
    return Path(host.env.get("GEMINI_CLI_HOME") or host.home) / ".gemini"


def existing(cwd: Path, host: Host) -> list[Path]:
    """The directories of `cwd` and of the root of its repository, as far as they are there."""
    place = Path(os.path.realpath(cwd))
    root = next((d for d in (place, *place.parents) if os.path.lexists(d / ".git")), place)
    found = (_known_directory(str(path), host) for path in (place, root))
    return sorted({directory for directory in found if directory is not None})


def _known_directory(place: str, host: Host) -> Path | None:
    """The directory that the registry, or a marker, gives a working directory."""
    root = root_of(host)
    name = _registry(root).get(place)
    if name is not None and all(owner in {None, place} for owner in _owners(root, name)):
        return root / "tmp" / name
    return next(
        (
            root / "tmp" / name
            for name in names_in(root / "tmp")
            if _owner(root / "tmp" / name) == place
        ),
        None,
    )


def project_directory(cwd: Path, host: Host) -> tuple[Path, Path | None]:
    """Where Gemini CLI keeps what belongs to a working directory, and the marker that it needs to
    be found there.

    A directory that is not there yet gets the name that the program would give it.
    """
    root, place = root_of(host), os.path.realpath(cwd)
    directory = _known_directory(place, host)
    if directory is None:
        slug = re.sub(r"[^a-z0-9]+", "-", os.path.basename(place).lower()).strip("-") or "project"
        taken, number, name = set(_registry(root).values()), 0, slug
        while name in taken or any(owner not in {None, place} for owner in _owners(root, name)):
            number += 1
            name = f"{slug}-{number}"
        directory = root / "tmp" / name
    return directory, None if os.path.lexists(directory / MARKER) else directory / MARKER


def workplace(directory: Path) -> str | None:
    """The working directory that a project's directory belongs to, None where neither marker nor
    registry says.
    """
    known = (
        place for place, name in _registry(directory.parents[1]).items() if name == directory.name
    )
    return _owner(directory) or next(known, None)


def _registry(root: Path) -> dict[str, str]:
    """Working directories and the names of their directories; empty where the program would begin
    anew too.
    """
    try:
        projects: dict[str, str] = wire.loads((root / "projects.json").read_bytes())["projects"]
        return (
            projects if all(re.fullmatch(r"[a-z0-9-]+", name) for name in projects.values()) else {}
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _owners(root: Path, name: str) -> list[str | None]:
    return [_owner(root / kind / name) for kind in ("tmp", "history")]


def _owner(directory: Path) -> str | None:
    """The working directory that a marker names, None where there is no marker, "" where it says
    nothing.
    """
    try:
        return (directory / MARKER).read_text("utf-8").strip()
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return ""


def names_in(directory: Path) -> list[str]:
    """The names in a directory, sorted; none where it cannot be read."""
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []
