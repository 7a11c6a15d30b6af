"""Which worktree each session was last saved in, also if git has removed that worktree since.

What git and gitcp know of a linked worktree is in its own git directory, and is removed with it. So
its path and its sessions are also in `<git dir>/gitcp/worktrees`, which all worktrees share: one
JSON object a line, added when a worktree is saved in with another session or at another path than
before.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from gitcp import wire
from gitcp.codec import Codec, FieldRule, Form
from gitcp.errors import GitcpError
from gitcp.git.fsync import append_line, read_own
from gitcp.git.repo import Repository
from gitcp.state import documents, oplog
from gitcp.value import Value, replace

NAME = "worktrees"
IDENTITY = "worktree-id"


class SeenWorktree(Value):
    """A session was saved in a worktree: its identity ("" for the main one), name and path then."""

    id: str
    name: str | None
    path: Path
    session: str


PATH = Form(
    lambda path: wire.encode_path(os.fsencode(path)),
    lambda text: Path(os.fsdecode(wire.decode_path(text))),
)
CODEC = Codec({Path: PATH}, {SeenWorktree: {"name": FieldRule("worktree")}}, in_full=True)


def identity(repo: Repository) -> str | None:
    """Return the identity that distinguishes this working tree from an earlier one of the same
    name: "" for the main one, None if it has none yet.
    """
    return "" if repo.worktree_name is None else identity_at(repo.git_dir)


def identity_at(git_dir: Path) -> str | None:
    """Return the identity of the linked worktree with this git directory, None if it has none."""
    fields = documents.peek(git_dir / "gitcp" / IDENTITY)
    return str(fields["id"]) if "id" in fields else None


def identify(repo: Repository) -> str:
    """Return the identity of this working tree; give it one if it has none. Raises as
    `documents.write`.
    """
    existing = identity(repo)
    if existing is not None:
        return existing
    created = os.urandom(8).hex()
    _remember(repo, created, {})
    return created


def note(repo: Repository, session: str) -> None:
    """Record that `session` was just saved in this working tree, unless the last line about it says
    so. The main one is recorded once there are others. Ignores errors: no save depends on it.
    """
    if repo.worktree_name is None and not (repo.common_dir / "gitcp" / NAME).exists():
        return
    with suppress(GitcpError, OSError):
        path = PATH.encode(repo.root)
        fields = documents.read(repo.git_dir / "gitcp" / IDENTITY) or {}
        if (fields.get("session"), fields.get("path")) == (session, path):
            return
        own = identify(repo)
        line = CODEC.encode(SeenWorktree(own, repo.worktree_name, repo.root, session))
        append_line(repo.store_dir / NAME, wire.dumps(line, small=True))
        _remember(repo, own, {"session": session, "path": path})


def seen(repo: Repository) -> tuple[SeenWorktree, ...]:
    """Return what was recorded, oldest first, with the current names of sessions. Unreadable lines
    are skipped.
    """
    try:
        lines = read_own(repo.common_dir / "gitcp" / NAME).splitlines()
    except OSError:
        return ()
    names = oplog.former(repo)
    parsed = (_parsed(line, names) for line in lines)
    return tuple(each for each in parsed if each is not None)


def _parsed(line: bytes, names: dict[str, str]) -> SeenWorktree | None:
    with suppress(ValueError):
        recorded = CODEC.decode(SeenWorktree, wire.loads(line))
        return replace(recorded, session=names.get(recorded.session, recorded.session))
    return None


def _remember(repo: Repository, own: str, fields: dict[str, object]) -> None:
    documents.write(repo.state_dir / IDENTITY, {"schema": "gitcp.worktree/1", "id": own, **fields})
