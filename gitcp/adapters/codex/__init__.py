"""Codex: rollouts below `~/.codex/sessions`, one file for each thread, by day.

    <home>/sessions/<year>/<month>/<day>/rollout-<time>-<thread>.jsonl     only ever appended to
    <home>/archived_sessions/…, and *.jsonl.zst                          put away: not resumed from
    there

The first line says who a thread is. `cwd` is where it began. A sub-agent is a thread of its own
that names the root thread as its `session_id`. A fork holds only what is new: its `history_base`
names the thread that it goes on from, and how many of its bytes. The databases beside the rollouts
are made from these, and made again where they are missing.

To resume elsewhere nothing needs to change. To resume under another id, the file's name and the id
in its first line do; whatever else names the thread is not looked at.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gitcp import wire
from gitcp.adapters import base
from gitcp.adapters.base import Found, Placement, Stored
from gitcp.adapters.codex import placing, rollouts
from gitcp.adapters.codex.placing import MAIN
from gitcp.adapters.codex.rollouts import ROLLOUT, Rollout
from gitcp.adapters.codex.transcript import before, digest, messages
from gitcp.model import Agent, Capture, Host, Source
from gitcp.value import replace

__all__ = [
    "NAME",
    "before",
    "capture",
    "digest",
    "find",
    "located",
    "messages",
    "place",
    "running",
    "watched",
]

NAME = "codex"

HEAD = 4096
"""Where a first line says whose it is; the instructions that follow are long."""

TAIL = 64 << 10
DEEPEST = 32
PLACED = 0o600
"""The mode of a rollout that a restore put here; Codex's own have what the umask leaves."""

CWD = re.compile(rb'"cwd":\s*("(?:[^"\\]|\\.)*")')
SUBAGENT = re.compile(rb'"thread_source":\s*"subagent"|"source":\s*\{\s*"subagent"')


# ---------------------------------------------------------------- finding


def find(cwd: Path, host: Host) -> tuple[Found, ...]:
    """The threads begun in `cwd` or at the root of its repository, those that a restore brought
    here, and the one that is running us; newest first. Sub-agents are part of theirs.
    """
    places, own = base.roots(cwd), running(host)
    real: dict[bytes, str] = {}
    found = [
        Found(NAME, rollout.thread, rollout.path, rollout.status.st_mtime)
        for rollout in rollouts.rollouts(rollouts.sessions(host))
        if rollout.thread == own or _belongs(rollout, places, real)
    ]
    return tuple(sorted(found, key=lambda session: (-session.modified, session.session_id)))


def located(thread: str, host: Host) -> Found | None:
    """The thread of this id, wherever it was begun, unless it was put away."""
    sessions = rollouts.sessions(host)
    used = (path for path in rollouts.files_of(sessions, thread) if path.parents[3] == sessions)
    whole = (
        path for path in used if (named := ROLLOUT.fullmatch(path.name)) and named[4] == thread
    )
    return next(filter(None, (base.found(NAME, thread, path) for path in whole)), None)


def watched(cwd: Path, host: Host) -> tuple[Path, ...]:
    """The directories that rollouts lie in, this directory's rollouts, and those that may turn out
    to be.
    """
    sessions = rollouts.sessions(host)
    moved = (rollout.path for rollout in rollouts.rollouts(sessions) if _is_placed(rollout))
    return (sessions, *rollouts.days(sessions), *moved, *(found.path for found in find(cwd, host)))


def running(host: Host) -> str | None:
    """The thread named by the environment of a command that Codex runs; for a sub-agent, its
    root's.
    """
    named = (host.env.get(name, "") for name in ("CODEX_SESSION_ID", "CODEX_THREAD_ID"))
    return next((thread for thread in named if base.SESSION_ID.fullmatch(thread)), None)


def _belongs(rollout: Rollout, places: set[str], real: dict[bytes, str]) -> bool:
    head = rollouts.part(rollout.path, 0, HEAD)
    if SUBAGENT.search(head):
        return False
    begun = CWD.search(head)
    if begun and _real(begun[1], real) in places:
        return True
    return _is_placed(rollout) and _last_cwd(rollout.path, rollout.status.st_size, real) in places


def _is_placed(rollout: Rollout) -> bool:
    return stat.S_IMODE(rollout.status.st_mode) == PLACED


def _last_cwd(path: Path, size: int, real: dict[bytes, str]) -> str | None:
    """Where a thread went on: what was begun elsewhere and continued here is ours."""
    tail = rollouts.part(path, max(0, size - TAIL), TAIL)
    turn = tail.rfind(b'"turn_context"')
    named = CWD.search(tail, turn, tail.find(b"\n", turn)) if turn >= 0 else None
    return _real(named[1], real) if named else None


def _real(quoted: bytes, known: dict[bytes, str]) -> str:
    """The real path that a JSON string is; links are followed once for each."""
    if quoted not in known:
        try:
            known[quoted] = os.path.realpath(wire.loads(quoted))
        except (OSError, ValueError):
            known[quoted] = ""
    return known[quoted]


# ---------------------------------------------------------------- capturing


def capture(found: Found) -> Capture:
    """The rollout, those it was forked from, and its sub-agents'."""
    meta = rollouts.meta(found.path)
    named = ROLLOUT.fullmatch(found.path.name)
    thread = base.string(meta, "id") or (named[4] if named else found.session_id)
    thread = thread if base.SESSION_ID.fullmatch(thread) else None
    sources = [_source(MAIN, found.path)]
    directory = _directory(found.path)
    day = found.path.parent
    if named and thread and len(day.parts) > 3:
        sessions = day.parents[2]
        sources += [
            _source(f"parents/{name}", path) for name, path in _ancestors(sessions, meta, thread)
        ]
        sources += [
            _source(f"agents/{name}", path) for name, path in _children(sessions, day, thread)
        ]
    return Capture(
        Agent(NAME, thread), NAME, tuple(sources), Path(directory) if directory else None
    )


def _directory(path: Path) -> str | None:
    """Where a thread went on last, or else where it began: Codex resumes it anywhere, and works
    where it is started.
    """
    try:
        last = _last_cwd(path, path.stat().st_size, {})
    except OSError:
        return None
    begun = None if last else CWD.search(rollouts.part(path, 0, HEAD))
    return _real(begun[1], {}) if begun else last


def _source(name: str, path: Path) -> Source:
    return Source(name, path=path, live=path.name.endswith(".jsonl"), place=path.name)


def _ancestors(sessions: Path, meta: dict[str, Any], thread: str) -> Iterator[tuple[str, Path]]:
    """The threads that a fork goes on from, nearest first. One put away is kept as it lies,
    compressed or not.
    """
    seen = {thread}
    while len(seen) < DEEPEST:
        origin = meta.get("history_base")
        parent = base.string(origin, "thread_id") if isinstance(origin, dict) else None
        if parent is None or parent in seen or not base.SESSION_ID.fullmatch(parent):
            return
        path = next(iter(rollouts.files_of(sessions, parent)), None)
        if path is None:
            return
        seen.add(parent)
        yield parent, path
        meta = rollouts.meta(path)


def _children(sessions: Path, day: Path, root: str) -> Iterator[tuple[str, Path]]:
    """The sub-agents of a thread, which cannot be older than it."""
    named = re.compile(rb'"session_id":\s*"%s"' % root.encode())
    for rollout in rollouts.rollouts(sessions, day):
        if rollout.thread != root:
            head = rollouts.part(rollout.path, 0, HEAD)
            if SUBAGENT.search(head) and named.search(head):
                yield rollout.thread, rollout.path


# ---------------------------------------------------------------- placing


def place(stored: Stored, cwd: Path, host: Host, *, new_id: str) -> Placement:
    """Where Codex looks for a thread, under its own id, or under `new_id` where that went on
    meanwhile.

    `--last` uses Codex's own database, which has a rollout only after it was resumed by its id or
    written to.
    """
    placement = placing.place(stored, cwd, host, new_id=new_id)
    here = os.path.realpath(cwd)
    others = (found for found in find(cwd, host) if _directory(found.path) == here)
    since = base.modified(placement.files[0].path)
    latest = base.newer(others, placement.session_id or "", since, ("codex", "resume", "--last"))
    return replace(placement, latest=latest)
