"""Rename a session outside its checkpoints: in refs, and in gitcp's small files."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from gitcp import state_files
from gitcp.errors import GitcpError, StoreDamaged
from gitcp.git import refs
from gitcp.git.fsync import read_own, replace_file
from gitcp.git.repo import Repository
from gitcp.state import documents


def session_of(ref: str) -> str:
    """Return the session of a gitcp ref, in the trash or not; "" for any other ref."""
    directory, _, name = ref.rpartition("/")
    is_session = f"{directory}/" == refs.SESSIONS or (
        directory.startswith(refs.TRASH) and directory.endswith("/sessions")
    )
    return name if is_session else ""


def is_tag(ref: str) -> bool:
    """Return whether a ref is a gitcp tag, in the trash or not."""
    directory = ref.rpartition("/")[0]
    return f"{directory}/" == refs.TAGS or (
        directory.startswith(refs.TRASH) and directory.endswith("/tags")
    )


def places(repo: Repository) -> tuple[Path, ...]:
    """Return gitcp's own directories of all working trees."""
    return tuple(
        Path(git_dir) / "gitcp"
        for git_dir in (repo.common_dir, *sorted(repo.common_dir.glob("worktrees/*")))
    )


def follow(repo: Repository, old: str, new: str) -> None:
    """Rename a session in everything stored about it or its checkpoints. Idempotent.

    Unreadable or unwritable files are skipped: they concern the past, and no checkpoint needs them.
    """
    for directory in places(repo):
        for name in state_files.named(names_sessions="text"):
            with suppress(OSError, ValueError):
                if read_own(directory / name).decode("utf-8").strip() == old:
                    replace_file(directory / name, f"{new}\n".encode())
        for name in state_files.named(names_sessions="head"):
            with suppress(OSError, ValueError):
                text = read_own(directory / name).decode("ascii")
                if text.startswith(f"{old}@"):
                    replace_file(directory / name, (new + text.removeprefix(old)).encode("ascii"))
        for name in state_files.named(names_sessions="json"):
            with suppress(OSError, StoreDamaged):
                _follow_document(directory / name, old, new)
    for path in repo.common_dir.glob("gitcp/push/*.deleted"):
        with suppress(OSError, GitcpError):
            _follow_deleted(path, old, new)
    for kind in state_files.named(names_sessions="names"):
        with suppress(OSError):
            for path in (repo.common_dir / "gitcp" / kind).glob(f"{old}@*"):
                path.rename(path.with_name(new + path.name.removeprefix(old)))


def _follow_deleted(path: Path, old: str, new: str) -> None:
    fields = documents.read(path) or {}
    names = fields.get("sessions", [])
    if old in names:
        after = sorted(new if name == old else name for name in names)
        documents.write(path, {**fields, "sessions": after})


def _follow_document(path: Path, old: str, new: str) -> None:
    fields = documents.read(path)
    if fields is None:
        return
    renamed = followed(fields, old, new)
    for note in renamed.get("notes", ()):
        if isinstance(note, dict) and note.get("session") == old:
            note["session"] = new
    if renamed != fields:
        documents.write(path, renamed)


def followed(value: Any, old: str, new: str) -> Any:
    """Return a JSON value with a session's checkpoint ids, and keys that begin with one,
    renamed.
    """
    if isinstance(value, dict):
        return {followed(key, old, new): followed(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [followed(item, old, new) for item in value]
    if isinstance(value, str):
        return re.sub(rf"\A{re.escape(old)}(?=@\d+(?::\d+)?\Z)", lambda _: new, value)
    return value
