"""The limits of a save as the user and the team set them: git config `gitcp.*`, else `.gitcp.toml`, else the defaults.

`.gitcp.toml` is committed and so comes from anybody: it holds numbers and patterns, nothing that is run, and a key that
is not known is refused, since it was meant to have an effect.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from typing import Any

from gitcp.errors import BadValue
from gitcp.git.repo import Repository
from gitcp.value import replace
from gitcp.worktree.snapshot import Limits

FILE = ".gitcp.toml"
LARGEST_FILE = 1 << 16
SECTION = "save"
SIZE = re.compile(r"(\d{1,15})\s*([kmg]?)(?:i?b)?", re.IGNORECASE)
FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}

Values = dict[str, Any]


def limits(repo: Repository, include: Sequence[str] = ()) -> Limits:
    """The limits in force, with the `include` patterns given by hand added. Raises BadValue, naming the setting."""
    values = {**_team(repo), **_own(repo)}
    chosen = Limits(
        max_untracked_file=values.get("max_file_size", Limits().max_untracked_file),
        max_dependency_files=values.get("max_dependency_files", Limits().max_dependency_files),
        include=tuple(values.get("include", ())),
    )
    return replace(chosen, include=(*chosen.include, *include)) if include else chosen


def _own(repo: Repository) -> Values:
    """What git config says."""
    config = repo.config
    found: Values = {}
    if (text := config.get("gitcp.maxfilesize")) is not None:
        found["max_file_size"] = _size(text, "gitcp.maxFileSize")
    if (text := config.get("gitcp.maxdependencyfiles")) is not None:
        found["max_dependency_files"] = _size(text, "gitcp.maxDependencyFiles")
    if "gitcp.include" in config:
        listed = repo.git("config", "--get-all", "-z", "gitcp.include", accept=(0, 1))
        found["include"] = [os.fsdecode(pattern) for pattern in listed.split(b"\0") if pattern]
    return found


def _team(repo: Repository) -> Values:
    """What `.gitcp.toml` says."""
    text = _read(repo)
    if text is None:
        return {}
    import tomllib  # 5 ms, and most projects have no such file

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadValue(f"{FILE} cannot be read: {error}", hint=f"mend {FILE}") from None
    _refuse_unknown([key for key in document if key != SECTION])
    section = document.get(SECTION, {})
    if not isinstance(section, dict):
        raise BadValue(f"{FILE}: {SECTION} is not a table", hint=f"write [{SECTION}]")
    _refuse_unknown([f"{SECTION}.{key}" for key in section if key not in READERS])
    return {key: READERS[key](value, f"{SECTION}.{key} in {FILE}") for key, value in section.items()}


def _read(repo: Repository) -> str | None:
    """The file's text; None if there is none. Whatever lies there, this neither blocks nor reads without end."""
    try:
        descriptor = os.open(repo.root / FILE, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_FILE:
            raise BadValue(f"{FILE} is not a small file", hint=f"mend {FILE}")
        data = file.read(LARGEST_FILE)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise BadValue(f"{FILE} is not UTF-8", hint=f"mend {FILE}") from None


def _refuse_unknown(keys: list[str]) -> None:
    if keys:
        known = ", ".join(f"{SECTION}.{key}" for key in READERS)
        raise BadValue(f"{FILE} has settings that gitcp does not know: {', '.join(keys)}", hint=f"known are {known}")


def _size(value: object, name: str) -> int:
    """A number, or one with git's suffixes k, m, g."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    found = SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise BadValue(f"{name} is {value!r}, which is no size", hint="write it like 500k, 20m or 1g")
    return int(found[1]) * FACTORS[found[2].lower()]


def _patterns(value: object, name: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadValue(f"{name} is not a list of patterns", hint='write it like ["*.log", "data/**"]')
    return value


READERS = {"max_file_size": _size, "max_dependency_files": _size, "include": _patterns}
