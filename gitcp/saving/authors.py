"""Decide who made the changes that a save records: its own session, others, or nobody known.

The changes are those since the last checkpoint of the working tree, whichever session made that.
Evidence, best first: a tool call that names the path; a tool call that may change anything, during
which the file got its ctime; for a deleted file, those calls that could have done it. The calls are
in the log of the hooks (`state.tool_log`), and in transcripts where hooks say nothing. What no
call explains, a person or a script did. In doubt a change is either of several, never somebody's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gitcp.errors import StoreDamaged
from gitcp.fastpath.stat_check import UNSETTLED
from gitcp.model import (
    GITLINK,
    NOBODY,
    Agent,
    Authors,
    Checkpoint,
    CheckpointId,
    Claim,
    FileChange,
    Oid,
    SkipReason,
    Trigger,
)
from gitcp.saving import session
from gitcp.state import latest, tool_log
from gitcp.store import Store
from gitcp.worktree.snapshot import Taken

Session = tuple[str, str]
"""An agent and its id of the session; ("", "") for nobody known."""

SOMEBODY: Session = ("", "")
MANY = 20
"""Paths of one claim above which whole directories stand for them."""


class Work(NamedTuple):
    """A tool call: `paths` are those that it changes, None if it may change any. Times are in
    nanoseconds, `end` None while it runs. It is not `certain` that it ran, and only then.
    """

    session: Session
    start: int
    end: int | None
    paths: tuple[bytes, ...] | None
    certain: bool = True

    def covers(self, time: int) -> bool:
        """Return whether a file with this ctime was written while the call ran."""
        return self.start <= time and (self.end is None or time <= self.end)


class Before(NamedTuple):
    """The state that a save is compared with: the files of the last checkpoint here. `previous` is
    its id if it is not the parent; `scanned` is when they were read, 0 if unknown.
    """

    previous: CheckpointId | None
    tree: Oid | None
    scanned: int


def before(store: Store, parent: Checkpoint | None) -> Before:
    """Return the last checkpoint of this working tree; else the parent, if there is one."""
    own = parent.snapshot.tree if parent else None
    last = latest.read(store.repo)
    commit = latest.commit_of(store, last.id) if last else None
    if last is None or commit is None:
        return Before(None, own, 0)
    if parent is not None and last.id == parent.id:
        return Before(None, own, last.scanned)
    try:
        return Before(last.id, store.files_tree(store.summary(commit).root), last.scanned)
    except StoreDamaged:
        return Before(None, own, 0)


def decide(
    store: Store,
    draft: Checkpoint,
    taken: Taken,
    state: Before,
    changes: tuple[FileChange, ...],
) -> Authors | None:
    """Return who made `changes`, those since `state`; None if there is nothing to record."""
    if any(skip.reason is SkipReason.NOT_HELD for skip in draft.snapshot.skipped):
        return None
    if not changes:
        return Authors(previous=state.previous) if state.previous else None
    by_session = _by_session(store, draft, taken, state, changes)
    names = _Names(store, draft)
    claims = {path: Claim(*map(names.of, claim)) for path, claim in by_session.items()}
    own = Claim(frozenset((draft.id.session,)))
    others = {path: claim for path, claim in claims.items() if claim != own}
    return Authors(
        own=len(claims) - len(others), claims=_compact(others, claims), previous=state.previous
    )


def _by_session(
    store: Store,
    draft: Checkpoint,
    taken: Taken,
    state: Before,
    changes: tuple[FileChange, ...],
) -> dict[bytes, SessionClaim]:
    """Return who made the changes, as the log says. Where it leaves some open, read transcripts."""
    logged = list(tool_log.read(str(store.repo.git_dir)))
    since = max([state.scanned, *(line.time for line in logged if line.mark == tool_log.SAME)])
    running = draft.trigger is Trigger.MANUAL

    def claims(lines: Iterable[tool_log.Line]) -> dict[bytes, SessionClaim]:
        root = os.fsencode(store.repo.root)
        return _Evidence(works(lines, running=running), since, root, taken).claims(changes)

    by_session = claims(logged)
    if any(SOMEBODY in claim[0] | claim[1] for claim in by_session.values()):
        from gitcp.saving import transcript_calls  # not where hooks explain everything

        known = {line.session for line in logged}
        if calls := list(transcript_calls.lines(store, since, known)):
            return claims([*logged, *calls])
    return by_session


# ---------------------------------------------------------------- tool calls


def works(lines: Iterable[tool_log.Line], *, running: bool) -> list[Work]:
    """Return the tool calls in a log. One without an end may never have begun: an agent asks
    before it runs a command. `running`: it is certain that they run. An edit that did happen did.
    """
    done: list[Work] = []
    begun: dict[tuple[Session, str], tool_log.Line] = {}
    last: dict[Session, int] = {}
    for line in lines:
        if line.mark == tool_log.BEGIN:
            begun[line.session, line.call] = line
        elif line.mark in (tool_log.DONE, tool_log.FAILED):
            done += _ended(line, begun.pop((line.session, line.call), None), last)
        elif line.mark in (tool_log.IDLE, tool_log.LEFT):
            for key in [key for key in begun if key[0] == line.session]:
                started = begun.pop(key)
                done.append(Work(key[0], started.time, line.time, started.paths, certain=False))
        last[line.session] = line.time
    done += [
        Work(key[0], line.time, None, line.paths, certain=running or line.paths is not None)
        for key, line in begun.items()
    ]
    return done


def _ended(
    end: tool_log.Line, begin: tool_log.Line | None, last: Mapping[Session, int]
) -> list[Work]:
    """Return a call that ended. One that failed changed no path that it names; one whose begin is
    not logged began after the session's event before.
    """
    paths = end.paths if end.paths is not None or begin is None else begin.paths
    if end.mark == tool_log.FAILED and paths is not None:
        return []
    start = begin.time if begin else last.get(end.session, 0)
    return [Work(end.session, start, end.time, paths, begin is not None or paths is not None)]


# ---------------------------------------------------------------- claims

SessionClaim = tuple[frozenset[Session], frozenset[Session]]


NONE: frozenset[Session] = frozenset()


def _sessions(works: Iterable[Work]) -> frozenset[Session]:
    return frozenset(work.session for work in works)


class _Evidence:
    """The tool calls, and the files' times. Nothing changed before `since`."""

    def __init__(self, works: list[Work], since: int, root: bytes, taken: Taken) -> None:
        works = [work for work in works if work.end is None or work.end >= since]
        self._commands = [work for work in works if work.paths is None]
        self._since = since
        self._root = root
        self._taken = taken
        self._by_path: dict[bytes, list[Work]] = {}
        for work in works:
            for path in work.paths or ():
                self._by_path.setdefault(path, []).append(work)

    def claims(self, changes: Iterable[FileChange]) -> dict[bytes, SessionClaim]:
        """Return who made each change."""
        if not self._commands and not self._by_path:
            return dict.fromkeys(
                (change.path for change in changes), (frozenset((SOMEBODY,)), NONE)
            )
        claims: dict[bytes, SessionClaim] = {}
        moved: dict[Oid, SessionClaim] = {}
        gone: list[FileChange] = []
        for change in changes:
            if change.new is None:
                gone.append(change)
                continue
            claims[change.path] = self._of_written(change)
            if change.old is None:
                moved.setdefault(change.new.oid, claims[change.path])
        for change in gone:
            assert change.old is not None
            claims[change.path] = self._of_deleted(change.path, moved.get(change.old.oid))
        return claims

    def _of_written(self, change: FileChange) -> SessionClaim:
        time = self._time(change)
        sure, loose = self._naming(change.path, time)
        certain = _sessions(sure)
        if time is None or time < self._since:
            return (certain, NONE) if certain else self._anybody(loose, None)
        if any(work.covers(time) for work in sure):
            return certain, NONE
        running = [work for work in self._commands if work.covers(time)]
        writers = _sessions([*loose, *running])
        if not writers:
            return certain | {SOMEBODY}, NONE
        if not any(work.certain and work.end != time for work in (*loose, *running)):
            writers |= {SOMEBODY}
        return (certain | writers, NONE) if len(writers) == 1 else (certain, writers - certain)

    def _of_deleted(self, path: bytes, moved: SessionClaim | None) -> SessionClaim:
        """Return who deleted a path: those that name it, who wrote its content elsewhere, or those
        that may have until its directory changed last.
        """
        sure, loose = self._naming(path, None)
        if sure:
            return _sessions(sure), NONE
        if moved is not None and SOMEBODY not in moved[0] | moved[1]:
            return moved
        return self._anybody(loose, self._changed(path.rpartition(b"/")[0]))

    def _naming(self, path: bytes, time: int | None) -> tuple[list[Work], list[Work]]:
        """Return the calls that changed a path since the last checkpoint, and those that may have
        before it, or not at all: they began earlier, or have not ended. `time` is the file's.
        """
        naming = self._by_path.get(path, ())
        sure = [work for work in naming if work.certain and self._since <= work.start]
        sure = [w for w in sure if w.end is not None and (time is None or w.start <= time)]
        loose = [work for work in naming if work not in sure]
        return sure, [work for work in loose if time is None or work.covers(time)]

    def _anybody(self, loose: list[Work], until: int | None) -> SessionClaim:
        """Return who may have made a change whose time is not known, at the latest `until`."""
        running = [work for work in self._commands if until is None or work.start <= until]
        sessions = _sessions([*loose, *running])
        if until is None or not any(
            work.certain and work.start <= self._since and work.covers(until) for work in running
        ):
            sessions |= {SOMEBODY}
        return (sessions, NONE) if len(sessions) == 1 else (NONE, sessions)

    def _time(self, change: FileChange) -> int | None:
        """Return when a file was changed, None if unknown."""
        if change.new is None or change.new.mode == GITLINK:
            return None
        stamp = self._taken.stamp(change.path)
        if stamp is not None and stamp.ctime_ns != UNSETTLED:
            return stamp.ctime_ns
        try:
            return os.lstat(os.path.join(self._root, change.path)).st_ctime_ns
        except OSError:
            return None

    def _changed(self, directory: bytes) -> int | None:
        """Return when a directory changed last, or the nearest one above it that exists."""
        while True:
            try:
                return os.lstat(os.path.join(self._root, directory)).st_ctime_ns
            except OSError:
                if not directory:
                    return None
                directory = directory.rpartition(b"/")[0]


class _Names:
    """The names of gitcp's sessions, by those of the agents; each is looked up once. In a session
    without an agent, what no agent did is its own: a person saves there, or a script.
    """

    def __init__(self, store: Store, draft: Checkpoint) -> None:
        self._store = store
        by_hand = draft.agent is None and draft.conversation is None
        self._names: dict[Session, str] = {SOMEBODY: draft.id.session if by_hand else NOBODY}
        if draft.agent is not None and draft.agent.session_id is not None:
            self._names[draft.agent.name, draft.agent.session_id] = draft.id.session

    def of(self, sessions: frozenset[Session]) -> frozenset[str]:
        """Return the names of some sessions."""
        for each in sessions - self._names.keys():
            self._names[each] = session.name_of(self._store, Agent(*each))
        return frozenset(self._names[each] for each in sessions)


def _compact(
    claims: Mapping[bytes, Claim], everything: Mapping[bytes, Claim]
) -> dict[bytes, Claim]:
    """Return the claims, with whole directories in the place of many paths."""
    counts: dict[Claim, int] = {}
    for claim in claims.values():
        counts[claim] = counts.get(claim, 0) + 1
    if not any(count > MANY for count in counts.values()):
        return dict(claims)
    whole: dict[bytes, Claim | None] = {}
    for path, claim in everything.items():
        for directory in _above(path):
            whole[directory] = claim if whole.get(directory, claim) == claim else None
    compact: dict[bytes, Claim] = {}
    for path, claim in claims.items():
        top = next((above for above in _above(path) if whole[above] == claim), None)
        compact[path if top is None else top + b"/"] = claim
    return compact


def _above(path: bytes) -> list[bytes]:
    """Return the directories that contain a path, the uppermost first."""
    parts = path.split(b"/")[:-1]
    return [b"/".join(parts[: length + 1]) for length in range(len(parts))]
