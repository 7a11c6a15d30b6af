"""Codex: rollouts below `~/.codex/sessions`, one file for each thread, by day.

    <home>/sessions/<year>/<month>/<day>/rollout-<time>-<thread>.jsonl  append-only
    <home>/archived_sessions/…                                          archived, not resumable
    *.jsonl.zst                             compressed; Codex resumes it, and decompresses it again

The first line identifies a thread, with its `cwd`. A sub-agent is a separate thread whose
`session_id` is the root thread. A fork contains only its own lines: `history_base` names the parent
thread and the number of bytes shared with it. The databases next to the rollouts are caches and
are rebuilt when missing.

Resuming elsewhere changes nothing. Resuming under another id changes the file name and the id in
the first line; Codex ignores other occurrences of the id.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from gitcp import wire
from gitcp.adapters import base
from gitcp.adapters.base import Found, Listed, Origin, Placement, Stored
from gitcp.adapters.codex import placing, rollouts
from gitcp.adapters.codex.rollouts import ROLLOUT, Rollout
from gitcp.adapters.codex.transcript import before, digest, messages, payload_of
from gitcp.model import MAIN, Agent, Capture, Host, Source
from gitcp.value import replace

__all__ = [
    "NAME",
    "before",
    "capture",
    "digest",
    "find",
    "list_all",
    "located",
    "messages",
    "origin",
    "place",
    "recognise",
    "running",
    "unlisted",
    "watched",
]

NAME = "codex"

HEAD = 4096
"""Bytes. The first line starts with the thread's identity, followed by long instructions."""

TAIL = 64 << 10
DEEPEST = 32
PLACED = 0o600
"""File mode of restored rollouts; Codex's own follow the umask."""

CWD = re.compile(rb'"cwd":\s*("(?:[^"\\]|\\.)*")')
TURN_CWD = re.compile(rb'"type":\s*"turn_context"[^\n]{0,400}?"cwd":\s*("(?:[^"\\]|\\.)*")')
ROOT = re.compile(rb'"session_id":\s*"([A-Za-z0-9_-]+)"')
ENVIRONMENT = re.compile(rb'(?:<cwd>|Current working directory: )((?:[^"\\<]|\\[^n])+)')
"""Where a bare rollout says where it ran: in the first prompt, behind the instructions."""

SUBAGENT = re.compile(rb'"thread_source":\s*"subagent"|"source":\s*\{\s*"subagent"')


# ---------------------------------------------------------------- finding


def find(cwd: Path, host: Host) -> tuple[Found, ...]:
    """Return the threads started in `cwd` or its repository's root, those restored here, and the
    running one, newest first. Sub-agents are part of their thread.
    """
    paths, current = base.roots(cwd), running(host)
    cache: dict[bytes, str] = {}
    sessions = [
        Found(NAME, rollout.thread, rollout.path, rollout.status.st_mtime)
        for rollout in rollouts.rollouts(rollouts.sessions(host))
        if rollout.thread == current or _belongs(rollout, paths, cache)
    ]
    return tuple(sorted(sessions, key=lambda session: (-session.modified, session.session_id)))


def located(thread: str, host: Host) -> Found | None:
    """Return the thread with this id, in any directory, unless it is archived."""
    sessions = rollouts.sessions(host)
    active = (path for path in rollouts.files_of(sessions, thread) if path.parents[3] == sessions)
    matching = (
        path for path in active if (match := ROLLOUT.fullmatch(path.name)) and match[4] == thread
    )
    return next(filter(None, (base.found(NAME, thread, path) for path in matching)), None)


def list_all(host: Host) -> Iterator[Listed]:
    """Yield the threads of all directories, archived ones too, each with its sub-agents."""
    sessions = rollouts.sessions(host)
    threads: list[Rollout] = []
    children: dict[str, list[Rollout]] = {}
    active, archived = rollouts.rollouts(sessions), rollouts.archived(sessions)
    for rollout in (*active, *archived, *rollouts.packed(sessions)):
        head = rollouts.head(rollout.path, HEAD)
        if not SUBAGENT.search(head):
            threads.append(rollout)
        elif root := ROOT.search(head):
            children.setdefault(root[1].decode("ascii"), []).append(rollout)
    for thread in threads:
        found = Found(NAME, thread.thread, thread.path, thread.status.st_mtime)
        agents = [(child.thread, child.path) for child in children.get(thread.thread, ())]
        paths = (thread.path, *(path for _, path in agents))
        unread = _unread(thread.path)
        yield base.listed(found, paths, partial(_captured, found, agents), unread=unread)


def _unread(path: Path) -> str:
    """Return why a rollout cannot be read, and what helps; "" if it can."""
    if path.suffix != rollouts.PACKED or rollouts.head(path, 1):
        return ""
    if rollouts.can_unpack():
        return "compressed by Codex, and damaged"
    from gitcp.installed import install_extra  # rarely

    return f"compressed by Codex; to read it: {install_extra('zstd')}"


def unlisted(host: Host) -> Iterator[tuple[Path, str]]:
    """Yield the documents that Codex wrote before it had rollouts."""
    for path in base.glob(rollouts.sessions(host), "**/rollout-*.json"):
        yield path, "documents, as Codex wrote them before it had rollouts"


def origin(found: Found) -> Origin:
    """Return where a thread ran: its start, each later turn, and the repository it names."""
    meta = rollouts.meta(found.path)
    named = meta.get("git")
    git = named if isinstance(named, dict) else {}
    if found.path.suffix == rollouts.PACKED:
        turns = base.quoted_values(TURN_CWD, rollouts.unpacked(found.path) or b"")
    else:
        with base.mapped(found.path) as content:
            turns = base.quoted_values(TURN_CWD, content)
    start = base.string(meta, "cwd") or _start(found.path, {})
    return Origin(
        tuple(dict.fromkeys(filter(None, (start, *turns)))),
        remotes=_named(git, "repository_url"),
        commits=_named(git, "commit_hash"),
        branches=_named(git, "branch"),
    )


def _named(git: dict[str, Any], name: str) -> tuple[str, ...]:
    value = base.string(git, name)
    return (value,) if value else ()


def watched(cwd: Path, host: Host) -> tuple[Path, ...]:
    """Return the rollout directories, this directory's rollouts, and restored
    rollouts, which may continue here.
    """
    sessions = rollouts.sessions(host)
    restored = (rollout.path for rollout in rollouts.rollouts(sessions) if _is_placed(rollout))
    return (
        sessions,
        *rollouts.days(sessions),
        *restored,
        *(session.path for session in find(cwd, host)),
    )


def running(host: Host) -> str | None:
    """Return the thread id from the environment of a command run by Codex; for a sub-agent, its
    root's.
    """
    ids = (host.env.get(name, "") for name in ("CODEX_SESSION_ID", "CODEX_THREAD_ID"))
    return next((thread for thread in ids if base.SESSION_ID.fullmatch(thread)), None)


def recognise(fields: Mapping[str, Any]) -> str | None:
    """Return the thread that the first record of a rollout names; None for any other record."""
    is_ours = fields.get("type") == "session_meta"
    return base.string(payload_of(dict(fields)), "id") if is_ours else None


def _belongs(rollout: Rollout, paths: set[str], cache: dict[bytes, str]) -> bool:
    head = rollouts.part(rollout.path, 0, HEAD)
    if SUBAGENT.search(head):
        return False
    if _start(rollout.path, cache, head) in paths:
        return True
    return _is_placed(rollout) and _last_cwd(rollout.path, rollout.status.st_size, cache) in paths


def _start(path: Path, cache: dict[bytes, str], head: bytes | None = None) -> str | None:
    """Return the directory where a thread started; `head` is the beginning of its rollout."""
    head = rollouts.head(path, HEAD) if head is None else head
    if rollouts.is_bare(head):
        match = ENVIRONMENT.search(rollouts.head(path, TAIL))
        return _real(b'"%s"' % match[1], cache) if match else None
    match = CWD.search(head)
    return _real(match[1], cache) if match else None


def _is_placed(rollout: Rollout) -> bool:
    return stat.S_IMODE(rollout.status.st_mode) == PLACED


def _last_cwd(path: Path, size: int, cache: dict[bytes, str]) -> str | None:
    """Return the directory in which a thread was last continued."""
    tail = rollouts.part(path, max(0, size - TAIL), TAIL)
    turn = tail.rfind(b'"turn_context"')
    match = CWD.search(tail, turn, tail.find(b"\n", turn)) if turn >= 0 else None
    return _real(match[1], cache) if match else None


def _real(quoted: bytes, cache: dict[bytes, str]) -> str:
    """Return the real path for a JSON string, "" if it is none."""
    if quoted not in cache:
        try:
            cache[quoted] = os.path.realpath(wire.loads(quoted))
        except (OSError, ValueError):
            cache[quoted] = ""
    return cache[quoted]


# ---------------------------------------------------------------- capturing


def capture(found: Found) -> Capture:
    """Capture the rollout, the threads it was forked from, and its sub-agents."""
    return _captured(found, None)


def _captured(found: Found, agents: Iterable[tuple[str, Path]] | None) -> Capture:
    """Capture a rollout; `agents` are its sub-agents, None to look for them."""
    meta = rollouts.meta(found.path)
    match = ROLLOUT.fullmatch(found.path.name.removesuffix(rollouts.PACKED))
    thread = base.string(meta, "id") or (match[4] if match else found.session_id)
    thread = thread if base.SESSION_ID.fullmatch(thread) else None
    sources = [_source(MAIN, found.path)]
    directory = _directory(found.path)
    day = found.path.parent
    if match and thread and len(day.parts) > 3:
        sessions = day.parents[2]
        sources += [
            _source(f"parents/{name}", path) for name, path in _ancestors(sessions, meta, thread)
        ]
        if agents is None:
            agents = _children(sessions, day, thread)
        sources += [_source(f"agents/{name}", path) for name, path in agents]
    return Capture(
        Agent(NAME, thread), NAME, tuple(sources), Path(directory) if directory else None
    )


def _directory(path: Path) -> str | None:
    """Return where a thread was last continued, else where it started. Codex can resume it
    anywhere.
    """
    try:
        last = _last_cwd(path, path.stat().st_size, {})
    except OSError:
        return None
    return last or _start(path, {})


def _source(name: str, path: Path) -> Source:
    content = rollouts.unpacked(path) if path.suffix == rollouts.PACKED else None
    if content is not None:
        return Source(name, data=content, place=path.name.removesuffix(rollouts.PACKED))
    return Source(name, path=path, live=path.name.endswith(".jsonl"), place=path.name)


def _ancestors(sessions: Path, meta: dict[str, Any], thread: str) -> Iterator[tuple[str, Path]]:
    """Yield the threads that a fork is based on, nearest first, archived and compressed ones
    too.
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
    """Yield the sub-agents of a thread, which cannot be older than it."""
    named = re.compile(rb'"session_id":\s*"%s"' % root.encode())
    for rollout in rollouts.rollouts(sessions, day):
        if rollout.thread != root:
            head = rollouts.part(rollout.path, 0, HEAD)
            if SUBAGENT.search(head) and named.search(head):
                yield rollout.thread, rollout.path


# ---------------------------------------------------------------- placing


def place(stored: Stored, cwd: Path, host: Host, *, new_id: str) -> Placement:
    """Place the conversation where Codex looks for threads, under its own id, or
    `new_id` if that has newer messages.

    `codex resume --last` uses Codex's own database, which only has a rollout after it
    was resumed by id or written to.
    """
    placement = placing.place(stored, cwd, host, new_id=new_id)
    directory = os.path.realpath(cwd)
    others = (session for session in find(cwd, host) if _directory(session.path) == directory)
    since = base.modified(placement.files[0].path)
    latest = base.newer(others, placement.session_id or "", since, ("codex", "resume", "--last"))
    return replace(placement, latest=latest)
