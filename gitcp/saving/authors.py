"""Decide who made the changes that a save records: its own session, others, or nobody known.

The changes are those since the last checkpoint of the working tree, whichever session made that.
Evidence, best first: a tool call that names the path; a tool call that may change anything, during
which the file got its ctime; for a deleted file, those calls that could have done it. The calls are
in the log of the hooks (`state.tool_log`), and in transcripts where hooks say nothing. What no
call explains, a person or a script did. In doubt a change is either of several, never somebody's.

A file has one ctime, so a later change hides an earlier one. Before a call, its hook saves what
changed since the last checkpoint (`hooks.handler`): then each of the two is in a step of its own.
Where it could not, another author may have a part in what the call changed; so too where a file is
not what the input of the call makes of it (`policy.edited`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gitcp.errors import StoreDamaged
from gitcp.fastpath.stat_check import UNSETTLED
from gitcp.git.reader import ObjectReader
from gitcp.model import (
    EXECUTABLE,
    FILE,
    GITLINK,
    NOBODY,
    Agent,
    Authors,
    Checkpoint,
    CheckpointId,
    Claim,
    Entry,
    FileChange,
    Oid,
    SkipReason,
    Trigger,
)
from gitcp.policy import edited
from gitcp.saving import session
from gitcp.state import latest, programs, tool_log
from gitcp.state.programs import Program
from gitcp.state.tool_log import Seen
from gitcp.store import Store
from gitcp.value import EMPTY
from gitcp.worktree.snapshot import Taken

Session = tuple[str, str]
"""An agent and its id of the session; ("", name) for a program's, ("", "") for nobody known."""

SOMEBODY: Session = ("", "")
FILES = frozenset((FILE, EXECUTABLE))
MANY = 20
"""Paths of one claim above which whole directories stand for them."""


class Work(NamedTuple):
    """A tool call: `paths` are those that it changes, None if it may change any. Times are in
    nanoseconds, `end` None while it runs. It is not `certain` that it ran, and only then.

    Whatever changed before `asked` was saved by then if something was saved since. `before` and
    `after` are the files that it names, as they were at its begin and end, where that is known.
    """

    session: Session
    start: int
    end: int | None
    paths: tuple[bytes, ...] | None
    certain: bool
    asked: int
    before: Mapping[bytes, Seen]
    after: Mapping[bytes, Seen]

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
    last = latest.known(store)
    if last is None:
        return Before(None, own, 0)
    if parent is not None and last.id == parent.id:
        return Before(None, own, last.scanned)
    try:
        return Before(last.id, store.files_tree(store.summary(last.commit).root), last.scanned)
    except StoreDamaged:
        return Before(None, own, 0)


def decide(
    store: Store,
    draft: Checkpoint,
    taken: Taken,
    state: Before,
    changes: tuple[FileChange, ...],
    *,
    at_work: bool | None = None,
) -> Authors | None:
    """Return who made `changes`, those since `state`; None if there is nothing to record.

    `at_work`: what nobody is known to have done, the session did (False: it has just begun, and
    did not). If None, that is decided by what is known of the session: see `_Names`.
    """
    if any(skip.reason is SkipReason.NOT_HELD for skip in draft.snapshot.skipped):
        return None
    if not changes:
        return Authors(previous=state.previous) if state.previous else None
    running = programs.known(store.repo)
    paths = [change.path for change in changes]
    programs.note_open_files(store.repo, draft.id.session, paths)
    by_program = _by_program(running, draft.id.session, paths)
    by_session = _by_session(store, draft, taken, state, changes)
    names = _Names(store, draft, running, state.previous, at_work=at_work)
    claims = {path: names.claim(claim) for path, claim in by_session.items()}
    claims |= {path: Claim(sessions) for path, sessions in by_program.items()}
    own = Claim(frozenset((draft.id.session,)))
    others = {path: claim for path, claim in claims.items() if claim != own}
    return Authors(
        own=len(claims) - len(others), claims=_compact(others, claims), previous=state.previous
    )


def _by_program(
    running: Iterable[Program], saver: str, paths: Iterable[bytes]
) -> dict[bytes, frozenset[str]]:
    """Return the sessions of the programs that wrote these paths, where any did. What a program
    wrote inside of another one's work is the inner one's.
    """
    running = list(running)
    around = {each.session for each in running if saver in each.joined}
    claims: dict[bytes, frozenset[str]] = {}
    for path in paths if running else ():
        writers = [each for each in running if each.wrote(path)]
        sessions = {each.session for each in writers}
        outer = {each.session for each in writers if each.joined & sessions}
        inner = sessions - outer - around
        if sessions:
            claims[path] = frozenset(inner or {saver})
    return claims


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

    def claims(lines: Iterable[tool_log.LoggedCall]) -> dict[bytes, SessionClaim]:
        root = os.fsencode(store.repo.root)
        known = works(lines, running=running)
        return _Evidence(known, since, root, taken, store.reader).claims(changes)

    by_session = claims(logged)
    if any(SOMEBODY in claim[0] | claim[1] for claim in by_session.values()):
        from gitcp.saving import transcript_calls  # not where hooks explain everything

        known = {line.session for line in logged}
        if calls := list(transcript_calls.lines(store, since, known)):
            return claims([*logged, *calls])
    return by_session


# ---------------------------------------------------------------- tool calls


def works(lines: Iterable[tool_log.LoggedCall], *, running: bool) -> list[Work]:
    """Return the tool calls in a log. One without an end may never have begun: an agent asks
    before it runs a command. `running`: it is certain that they run. An edit that did happen did.
    """
    log = _Log()
    for line in lines:
        log.add(line)
    return [
        *log.done,
        *(
            begin.work(None, certain=running or begin.line.paths is not None)
            for begin in log.begun()
        ),
    ]


class _Begin(NamedTuple):
    """The begin of a call, when it was asked for, and the files that it names."""

    line: tool_log.LoggedCall
    asked: int
    before: Mapping[bytes, Seen]

    def work(
        self,
        end: int | None,
        *,
        certain: bool,
        paths: tuple[bytes, ...] | None = None,
        after: Mapping[bytes, Seen] = EMPTY,
    ) -> Work:
        """Return the call as far as it is known."""
        line = self.line
        named = line.paths if paths is None else paths
        return Work(line.session, line.time, end, named, certain, self.asked, self.before, after)


Key = tuple[Session, str]


class _Log:
    """The calls in a log that is read from its begin: `done`, and those that have begun."""

    def __init__(self) -> None:
        self.done: list[Work] = []
        self._begun: dict[Key, _Begin] = {}
        self._asked: dict[Key, tool_log.LoggedCall] = {}
        self._seen: dict[tuple[str, Key], Mapping[bytes, Seen]] = {}
        self._last: dict[Session, int] = {}

    def begun(self) -> Iterable[_Begin]:
        """Return the begins of the calls that have not ended."""
        return self._begun.values()

    def add(self, line: tool_log.LoggedCall) -> None:
        """Read the next line."""
        key = (line.session, line.call)
        if line.mark in (tool_log.BEFORE, tool_log.AFTER):
            self._seen[line.mark, key] = tool_log.seen(line)
            return
        if line.mark == tool_log.ASKED:
            self._asked[key] = line
        elif line.mark == tool_log.BEGIN:
            asked = self._asked.pop(key, line).time
            self._begun[key] = _Begin(line, asked, self._seen.pop((tool_log.BEFORE, key), EMPTY))
        elif line.mark in (tool_log.DONE, tool_log.FAILED):
            self._end(line, key)
        elif line.mark in (tool_log.TURN, tool_log.IDLE, tool_log.LEFT):
            for key in [key for key in self._begun if key[0] == line.session]:
                self.done.append(self._begun.pop(key).work(line.time, certain=False))
        self._last[line.session] = line.time

    def _end(self, end: tool_log.LoggedCall, key: Key) -> None:
        """Read the end of a call. One that failed changed no path that it names; one whose begin is
        not logged began after the session's event before.
        """
        begin, asked = self._begun.pop(key, None), self._asked.pop(key, None)
        after = self._seen.pop((tool_log.AFTER, key), EMPTY)
        is_known = begin is not None or asked is not None
        if begin is None:
            start = asked.time if asked else self._last.get(end.session, 0)
            line = tool_log.LoggedCall(tool_log.BEGIN, start, end.session, end.call, end.paths)
            begin = _Begin(line, start if asked else end.time, EMPTY)
        paths = end.paths if end.paths is not None else begin.line.paths
        if end.mark != tool_log.FAILED or paths is None:
            certain = is_known or paths is not None
            self.done.append(begin.work(end.time, certain=certain, paths=paths, after=after))


# ---------------------------------------------------------------- claims

SessionClaim = tuple[frozenset[Session], frozenset[Session]]


NONE: frozenset[Session] = frozenset()


def _sessions(works: Iterable[Work]) -> frozenset[Session]:
    return frozenset(work.session for work in works)


class _Evidence:
    """The tool calls, and the files' times and contents. Nothing changed before `since`."""

    def __init__(
        self, works: list[Work], since: int, root: bytes, taken: Taken, reader: ObjectReader
    ) -> None:
        works = [work for work in works if work.end is None or work.end >= since]
        self._commands = [work for work in works if work.paths is None]
        self._since = since
        self._root = root
        self._taken = taken
        self._reader = reader
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
            claims[change.path] = self._of_deleted(change, moved.get(change.old.oid))
        return claims

    def _of_written(self, change: FileChange) -> SessionClaim:
        time = self._time(change)
        sure, loose = self._naming(change, time)
        running = [work for work in self._commands if time is not None and work.covers(time)]
        certain, possible = self._last_writers(time, sure, loose, running)
        works = [w for w in (*sure, *loose, *running) if w.session in certain | possible]
        hidden = self._hidden(change, works)
        return certain, (possible | hidden) - certain

    def _last_writers(
        self, time: int | None, sure: list[Work], loose: list[Work], running: list[Work]
    ) -> SessionClaim:
        """Return who changed a file since the last checkpoint, as far as its time tells."""
        certain = _sessions(sure)
        if time is None or time < self._since:
            return (certain, NONE) if certain else self._anybody(loose, None)
        if any(work.covers(time) for work in sure):
            return certain, NONE
        writers = _sessions([*loose, *running])
        if not writers:
            return certain | {SOMEBODY}, NONE
        if not any(work.certain and work.end != time for work in (*loose, *running)):
            writers |= {SOMEBODY}
        return (certain | writers, NONE) if len(writers) == 1 else (certain, writers - certain)

    def _of_deleted(self, change: FileChange, moved: SessionClaim | None) -> SessionClaim:
        """Return who deleted a path: those that name it, who wrote its content elsewhere, or those
        that may have until its directory changed last.
        """
        sure, loose = self._naming(change, None)
        if sure:
            certain = _sessions(sure)
            return certain, self._hidden(change, sure) - certain
        if moved is not None and SOMEBODY not in moved[0] | moved[1]:
            return moved
        return self._anybody(loose, self._changed(change.path.rpartition(b"/")[0]))

    def _hidden(self, change: FileChange, works: list[Work]) -> frozenset[Session]:
        """Return who may have changed a path as well, before one of the calls that changed it, or
        while it ran: the path's time tells of the last change alone.
        """
        sessions = NONE
        for work in works:
            sessions |= self._changed_before(change, work)
            if not self._is_explained(change, work, alone=len(works) == 1):
                sessions |= {SOMEBODY}
        return sessions

    def _changed_before(self, change: FileChange, work: Work) -> frozenset[Session]:
        """Return who may have changed a path between the last checkpoint and a call's begin."""
        seen = work.before.get(change.path)
        if seen is not None and seen.changed != tool_log.ABSENT:
            return self._writers(change.path, seen.changed, work)
        if self._since >= work.asked if seen is None else change.old is None:
            return NONE
        return _sessions(w for w in self._commands if w.start <= work.start) | {SOMEBODY}

    def _writers(self, path: bytes, time: int, later: Work) -> frozenset[Session]:
        """Return who may have changed a path at this time, before the begin of `later`."""
        if time < self._since:
            return NONE
        naming = [work for work in self._by_path.get(path, ()) if work.start < later.start]
        writers = [work for work in (*naming, *self._commands) if work.covers(time)]
        is_known = any(work.certain for work in writers)
        return _sessions(writers) | (NONE if is_known else {SOMEBODY})

    def _is_explained(self, change: FileChange, work: Work, *, alone: bool) -> bool:
        """Return whether a path is what the input of a call makes of it, if that is known. `alone`:
        no other call changed it.
        """
        seen = work.before.get(change.path)
        if seen is None or work.end is None or tool_log.ANYTHING in seen.results:
            return True  # whether one that has not ended did it, is decided before
        if seen.results == ("",):
            return not alone or self._is_one_place(change)
        later = [each for each in self._by_path[change.path] if each.start > work.start]
        digests = {each.before[change.path].digest for each in later if change.path in each.before}
        if change.path in work.after:
            digests.add(work.after[change.path].digest)
        return "" in digests or not digests.isdisjoint(seen.results)

    def _is_one_place(self, change: FileChange) -> bool:
        """Return whether all lines that changed follow each other, as far as they are known."""
        before, after = map(self._content, (change.old, change.new))
        if before is None or after is None:
            return True
        old, new = before.split(b"\n"), after.split(b"\n")
        for _ in range(2):  # from the first line on, then from the last
            pairs = enumerate(zip(old, new, strict=False))
            same = next((n for n, pair in pairs if pair[0] != pair[1]), min(len(old), len(new)))
            old, new = old[same:][::-1], new[same:][::-1]
        return set(old).isdisjoint(new)

    def _content(self, entry: Entry | None) -> bytes | None:
        """Return the content of a file, None if it is no file or cannot be read."""
        try:
            is_file = entry is not None and entry.mode in FILES
            return self._reader.read_blob(entry.oid) if entry and is_file else None
        except StoreDamaged:
            return None

    def _naming(self, change: FileChange, time: int | None) -> tuple[list[Work], list[Work]]:
        """Return the calls that changed a path since the last checkpoint, and those that may have
        before it, or not at all: they began earlier, or have not ended. `time` is the file's.

        An agent may ask before it edits: one that has not ended did so if the path is what its
        input makes of it.
        """
        naming = self._by_path.get(change.path, ())
        sure = [work for work in naming if work.certain and self._since <= work.start]
        sure = [w for w in sure if w.end is not None and (time is None or w.start <= time)]
        loose = [work for work in naming if work not in sure]
        loose = [work for work in loose if time is None or work.covers(time)]
        return sure, [
            w if w.end is not None else w._replace(certain=self._is_done(change, w)) for w in loose
        ]

    def _is_done(self, change: FileChange, work: Work) -> bool:
        """Return whether a path is what the input of a call that has not ended makes of it."""
        seen = work.before.get(change.path)
        if seen is None or change.new is None or seen.results[0] in ("", tool_log.ANYTHING):
            return False
        content = self._content(change.new)
        return content is not None and edited.digest(content) in seen.results

    def _anybody(self, loose: list[Work], until: int | None) -> SessionClaim:
        """Return who may have made a change whose time is not known, at the latest `until`."""
        running = [work for work in self._commands if until is None or work.start <= until]
        sessions = _sessions([*loose, *running])
        if until is None or not any(
            work.certain and work.asked <= self._since and work.covers(until) for work in running
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
    """The names of gitcp's sessions, by those of the agents; each is looked up once.

    What no agent did is the session's own in one without an agent: a person saves there, or a
    script. If a program is known to work there, it is its own only if the program runs commands:
    else it would have been reported. In a framework's session it is its own while it is `at_work`,
    or another one's that saved in the meantime.
    """

    def __init__(
        self,
        store: Store,
        draft: Checkpoint,
        running: Sequence[Program],
        previous: CheckpointId | None,
        *,
        at_work: bool | None,
    ) -> None:
        self._store = store
        own = draft.id.session
        known = [each for each in running if each.session == own]
        somebody = own
        if at_work is None:
            by_hand = draft.agent is None and draft.conversation is None
            at_work = (by_hand and not known) or any(each.runs_commands for each in known)
            previous = None
            if not known:
                # Saved by another session before its recovery, what a killed command wrote was
                # that one's, and stayed.
                others = {each.session for each in running if each.runs_commands}
                somebody = others.pop() if len(others) == 1 else own
        self._names: dict[Session, str] = {SOMEBODY: somebody if at_work else NOBODY}
        is_between = at_work and previous is not None and previous.session != own
        self._between = {own, previous.session} if is_between and previous else set[str]()
        if draft.agent is not None and draft.agent.session_id is not None:
            self._names[draft.agent.name, draft.agent.session_id] = draft.id.session

    def claim(self, claim: SessionClaim) -> Claim:
        """Return a claim with the names of the sessions."""
        certain, possible = map(self.of, claim)
        if self._between and SOMEBODY in claim[0]:
            own = self._names[SOMEBODY]
            return Claim(certain - {own}, possible | self._between)
        return Claim(certain, possible)

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
