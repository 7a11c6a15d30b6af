"""Where a session's name stands besides its checkpoints: refs, and the small files that gitcp
keeps.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from gitcp.errors import StoreDamaged
from gitcp.git import refs
from gitcp.git.fsync import read_own, replace_file
from gitcp.git.repo import Repository
from gitcp.state import journal

TEXTS = ("current", "manual")
DOCUMENTS = ("restores.json", "untold", "note")
COMPENSATIONS = "compensations"


def session_of(ref: str) -> str:
    """The session that a ref of ours is of, in the trash or not; "" for any other ref."""
    place, _, name = ref.rpartition("/")
    ours = f"{place}/" == refs.SESSIONS or (
        place.startswith(refs.TRASH) and place.endswith("/sessions")
    )
    return name if ours else ""


def is_tag(ref: str) -> bool:
    """Whether a ref is one of our tags, in the trash or not."""
    place = ref.rpartition("/")[0]
    return f"{place}/" == refs.TAGS or (place.startswith(refs.TRASH) and place.endswith("/tags"))


def places(repo: Repository) -> tuple[Path, ...]:
    """The directories of gitcp's own, of every working tree."""
    return tuple(
        Path(git_dir) / "gitcp"
        for git_dir in (repo.common_dir, *sorted(repo.common_dir.glob("worktrees/*")))
    )


def follow(repo: Repository, old: str, new: str) -> None:
    """Let everything that is kept of a session, or of its checkpoints, name it anew. Done twice it
    is done once.

    What cannot be read or written stays: it is about what was, and no checkpoint needs it.
    """
    for directory in places(repo):
        for name in TEXTS:
            with suppress(OSError, ValueError):
                if read_own(directory / name).decode("utf-8").strip() == old:
                    replace_file(directory / name, f"{new}\n".encode())
        for name in DOCUMENTS:
            with suppress(OSError, StoreDamaged):
                _follow_document(directory / name, old, new)
    with suppress(OSError):
        kept = repo.common_dir / "gitcp" / COMPENSATIONS
        for name in os.listdir(kept):
            if name.startswith(f"{old}@"):
                os.rename(kept / name, kept / (new + name.removeprefix(old)))


def _follow_document(path: Path, old: str, new: str) -> None:
    fields = journal.read_fields(path)
    if fields is None:
        return
    named = followed(fields, old, new)
    for each in named.get("notes", ()):
        if isinstance(each, dict) and each.get("session") == old:
            each["session"] = new
    if named != fields:
        journal.write_fields(path, named)


def followed(value: Any, old: str, new: str) -> Any:
    """A JSON value with the ids of a session, and keys that begin with one, under its new name."""
    if isinstance(value, dict):
        return {followed(key, old, new): followed(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [followed(item, old, new) for item in value]
    if isinstance(value, str):
        return re.sub(rf"\A{re.escape(old)}(?=@\d+(?::\d+)?\Z)", lambda _: new, value)
    return value
