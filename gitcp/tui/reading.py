"""Read the repository for the interface, in a thread, so that the screen never waits.

A job is a generator: each value it yields is delivered, and between two of them a more urgent job
may run. There is one job for each purpose: a new one replaces the one before. Writes nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gitcp import fingerprint
from gitcp.errors import GitcpError
from gitcp.history import folding
from gitcp.history.diffstat import Total
from gitcp.history.folding import FoldedRow, fold
from gitcp.history.log import Selection, select
from gitcp.history.rows import counted, title
from gitcp.history.sessions import Session
from gitcp.model import Oid
from gitcp.state import tag
from gitcp.store import Store
from gitcp.tui.rows import Fork, Known, placed, span

if TYPE_CHECKING:
    from gitcp.history.find import Page as Hits


Make = Callable[[Store], Iterator[Any]]


class Delivery(NamedTuple):
    """What a job read: a value, or the error that ended it."""

    purpose: str
    value: Any = None
    error: Exception | None = None


class _Job:
    """A job: how to begin it, and how far it is."""

    def __init__(self, make: Make) -> None:
        self.make = make
        self.steps: Iterator[Any] | None = None


class StoreReader:
    """One thread with a store of its own. `order` lists the purposes, the most urgent first."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        deliver: Callable[[Delivery], object],
        order: Sequence[str],
    ) -> None:
        self._open, self._deliver, self._order = open_store, deliver, order
        self._jobs: dict[str, _Job] = {}
        self._changed = threading.Condition()
        self._closed = self._busy = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def started(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def ask(self, purpose: str, make: Make) -> None:
        """Begin a job, in place of the one with the same purpose."""
        with self._changed:
            self._jobs[purpose] = _Job(make)
            self._changed.notify()

    def drop(self, purpose: str) -> None:
        """End a job: what it would still read is not wanted any more."""
        with self._changed:
            self._jobs.pop(purpose, None)

    def close(self) -> None:
        """End the thread after the step that is under way."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    @property
    def idle(self) -> bool:
        """Whether there is nothing left to read."""
        with self._changed:
            return not self._jobs and not self._busy

    def _run(self) -> None:
        store: Store | None = None
        while (request := self._next()) is not None:
            purpose, job = request
            try:
                store = store or self._open()
                job.steps = job.steps or job.make(store)
                delivery = Delivery(purpose, next(job.steps))
            except StopIteration:
                self._end(purpose, job)
                continue
            except (GitcpError, OSError) as error:
                delivery = Delivery(purpose, error=error)
            if self._is_wanted(purpose, job):
                self._deliver(delivery)
            if delivery.error is not None:
                self._end(purpose, job)

    def _next(self) -> tuple[str, _Job] | None:
        """Return the most urgent job, waiting for one; None after `close`."""
        with self._changed:
            self._busy = False
            while not self._jobs and not self._closed:
                self._changed.wait()
            if self._closed:
                return None
            self._busy = True
            purpose = min(self._jobs, key=self._order.index)
            return purpose, self._jobs[purpose]

    def _is_wanted(self, purpose: str, job: _Job) -> bool:
        with self._changed:
            return self._jobs.get(purpose) is job and not self._closed

    def _end(self, purpose: str, job: _Job) -> None:
        with self._changed:
            if self._jobs.get(purpose) is job:
                del self._jobs[purpose]


FIRST = 60
"""Checkpoints of the first page, which are read without git."""

PAGE = 500

MOST = 1000
"""Matches that a search of all sessions looks for, the newest first."""


class Page(NamedTuple):
    """Older rows of a session's timeline. `last`: there are no more; `error`: why, if damaged."""

    session: str
    rows: list[FoldedRow]
    tags: Mapping[Oid, Sequence[str]]
    last: bool
    error: str = ""


class Listed(NamedTuple):
    """The sessions, the current one, and the forks by the checkpoint they began at."""

    sessions: list[Known]
    current: str | None
    forks: dict[str, list[Fork]]


def pages(store: Store, session: str) -> Iterator[Page]:
    """Yield the timeline of a session, a page at a time, newest first."""
    tip = _tip(store, session)
    if tip is None:
        yield Page(session, [], {}, last=True)
        return
    named = tag.shown(store)
    rows = fold(select(store, [tip], Selection()), named)
    size = FIRST
    while True:
        page: list[FoldedRow] = []
        try:
            page += islice(rows, size)
        except GitcpError as error:
            yield Page(session, page, named, last=True, error=str(error))
            return
        yield Page(session, page, named, last=len(page) < size)
        if len(page) < size:
            return
        size = PAGE


def _tip(store: Store, session: str) -> Oid | None:
    return store.fetched().get(session) if "/" in session else store.tip(session)


def listed(store: Store, current: str | None) -> Iterator[Listed]:
    """Yield the sessions: first what their last commits say, then titles, counts and forks."""
    from gitcp.history.sessions import all_sessions  # reads what fetched sessions share
    from gitcp.saving.session import in_worktrees

    tips = all_sessions(store)
    places = {name: at for name, at in in_worktrees(store).items() if name != current}
    known = [each for name, tip in tips.items() if (each := _known(store, name, tip))]
    known.sort(key=lambda each: each.when, reverse=True)
    known = placed(known, places, store.repo.root)
    yield Listed(known, current, {})
    yield _detailed(store, known, current, tips)


def _known(store: Store, name: str, tip: Oid) -> Known | None:
    try:
        last = store.summary(tip)
    except GitcpError:  # damaged: `gitcp doctor --store` reports it
        return None
    about = folding.prompt(last) or title(last)
    return Known(name, tip, last.created, last.trailers.get("Gitcp-Agent", ""), about)


def _detailed(
    store: Store, known: Sequence[Known], current: str | None, tips: Mapping[str, Oid]
) -> Listed:
    from gitcp.history.sessions import listing  # reads a checkpoint of every session

    sessions, _ = listing(store, tips)
    by_name = {session.name: session for session in sessions}
    gone, running = _worktrees(store, sessions)
    forks: dict[str, list[Fork]] = {}
    detailed = []
    for each in known:
        session = by_name.get(each.name)
        if session is None:
            detailed.append(each)
            continue
        about = session.title or each.about
        if session.forked_from:
            fork = Fork(each.name, about, each.when)
            forks.setdefault(session.forked_from, []).append(fork)
        detailed.append(
            each._replace(
                about=about,
                checkpoints=session.count,
                forked_from=session.forked_from,
                running=each.name in running,
                place=gone.get(each.name, each.place),
            )
        )
    return Listed(detailed, current, forks)


def _worktrees(store: Store, sessions: Sequence[Session]) -> tuple[dict[str, str], set[str]]:
    """Return the place of each session whose worktree is gone, and the running sessions."""
    from gitcp.history.worktrees import Presence, listing

    own = [session for session in sessions if "/" not in session.name]
    places, running = dict[str, str](), set[str]()
    for tree in listing(store, changes=False, known_sessions=own):
        running |= tree.running
        if tree.presence is not Presence.THERE:
            path = os.path.relpath(tree.path, store.repo.root) if tree.path else tree.name
            location = f"{tree.presence.value} worktree {path}"
            places.update(dict.fromkeys((session.name for session in tree.sessions), location))
    return places, running


class Counts(NamedTuple):
    """The totals of rows, by their first and last commit; None where nothing could be counted."""

    totals: dict[tuple[Oid, Oid], Total | None]


def counts(store: Store, rows: Sequence[FoldedRow]) -> Iterator[Counts]:
    """Yield how much each row changed, with one git command."""
    yield Counts({span(each.row): each.total for each in counted(store, rows)})


class SearchResult(NamedTuple):
    """Commits whose conversation, notes or paths contain what was searched, and the newest match of
    each session that was searched. `more`: older ones may match, too.
    """

    commits: frozenset[str] = frozenset()
    sessions: Mapping[str, str] = {}
    more: bool = False


def search_session(store: Store, session: str, words: str) -> Iterator[SearchResult]:
    """Yield what contains the words in a session, ignoring case."""
    tip = _tip(store, session)
    hits = _search(store, [tip], words).hits if tip else []
    yield SearchResult(frozenset(hit.summary.commit for hit in hits))


def search_all(store: Store, words: str) -> Iterator[SearchResult]:
    """Yield what contains the words in any session, also fetched ones, ignoring case."""
    from gitcp.history.sessions import all_sessions

    tips = all_sessions(store)
    page = _search(store, tips.values(), words, MOST)
    texts: dict[str, str] = {}
    for hit in page.hits:
        texts.setdefault(hit.summary.id.session, hit.text)
    own = {name: name.rpartition("/")[2] for name in tips}
    sessions = {name: texts[session] for name, session in own.items() if session in texts}
    commits = frozenset(hit.summary.commit for hit in page.hits)
    yield SearchResult(commits, sessions, bool(page.more))


def _search(store: Store, tips: Iterable[Oid], words: str, limit: int | None = None) -> Hits:
    from gitcp.history.find import find  # reads conversations
    from gitcp.history.matching import Needle
    from gitcp.history.text_index import TextIndex

    places = ("prompts", "answers", "notes", "paths")
    index = TextIndex(store.repo)
    return find(store, tips, Needle(words, ignore_case=True), places, index, limit)


Signature = tuple[object, ...]


def signature(store: Store) -> Signature:
    """Return what differs once a checkpoint, a tag or an operation is new. Reads no file."""
    refs, own = store.repo.common_dir / "refs" / "gitcp", store.repo.store_dir
    places = [*map(Path, store.repo.refs.files()), own / "oplog", own / "ahead", refs]
    for kind in ("sessions", "tags", "remotes"):
        places += [refs / kind, *_below(refs / kind)]
    return tuple(fingerprint.at(os.fspath(path)) for path in places)


def _below(directory: Path) -> list[Path]:
    """Return the directories below a place, at most two levels deep: REMOTE, REMOTE/sessions."""
    return [each for depth in ("*", "*/*") for each in directory.glob(depth) if each.is_dir()]
