"""Push what the user consented to, in the background: a queue for each remote.

What is to be sent follows from the refs: sessions and tags that differ from what the remote had
last, and are newer than the consent. So a process that is killed loses nothing, whatever it had
written. The queue, a file for each remote, adds what the refs do not tell: failures, why a session
is held back, and when the last push was. Its items are keyed by ref and tip.

Sent again, a ref is found up to date on the remote. No ref moves except from the value that the
remote listed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import UTC, datetime

from gitcp import clock, humanize, wire
from gitcp.codec import Codec, Form
from gitcp.errors import GitcpError, StoreDamaged
from gitcp.git import refs
from gitcp.model import Oid
from gitcp.sharing import push, remote_haves, remote_refs, remotes
from gitcp.sharing.push import PushPlan, RefState
from gitcp.sharing.remote_haves import Asked
from gitcp.sharing.remote_refs import RemoteRefs
from gitcp.sharing.remotes import Remote
from gitcp.state import allowed, documents, push_policy
from gitcp.state.push_policy import QUEUE, Consent, PushPolicy
from gitcp.store import Store, Summary, time_of
from gitcp.value import Value, replace

MOST = 90
"""Maximum items of one attempt, so that they fit into one push."""


class Timing(Value):
    """When to push, in seconds: `apart` from the last push, and after a failure `wait`, doubled
    each time. A process gives up after `failures`, or `longest` after the first; the next save
    starts another one.
    """

    apart: float = 15.0
    wait: float = 2.0
    longest: float = 120.0
    failures: int = 5


class QueuedRef(Value):
    """A ref to send, its full name here, and its value. `is_held`: it cannot be sent until somebody
    acts, and `reason` says why; otherwise `reason` is that of the last of `failures`.
    """

    ref: str
    tip: Oid
    failures: int = 0
    reason: str = ""
    is_held: bool = False


class Queue(Value):
    """What waits for a remote, in the order of sending, and when the last push began and succeeded,
    in seconds since 1970 (0: never).
    """

    items: tuple[QueuedRef, ...] = ()
    tried: float = 0
    pushed: float = 0


CODEC = Codec({**wire.FORMS, float: Form(lambda seconds: seconds, float)}, in_full=True)


class PushState(Value):
    """What `status` shows of a remote. `why` nothing is pushed there and a `command` that helps are
    "" if nothing prevents it.
    """

    consent: Consent
    queue: Queue
    is_pushing: bool
    why: str = ""
    command: str = ""

    @property
    def problem(self) -> str:
        """Why nothing is pushed, with the command, "" if nothing prevents it."""
        return f"{self.why}: {self.command}" if self.why else ""


Attempt = Callable[[], AbstractContextManager[None]]
"""Limits the time of an attempt: raises GitFailed in it."""


def states(store: Store) -> tuple[PushState, ...]:
    """Return the state of each remote that is pushed to in the background. Writes nothing."""
    result = []
    for consent in push_policy.listing(store.repo):
        _, *obstacle = _destination(store, consent)
        queue = _refreshed(store, consent, _read(store, consent.remote))
        is_pushing = push_policy.is_pushing(store.repo, consent.remote)
        result.append(PushState(consent, queue, is_pushing, *obstacle))
    names = {each.name for each in remotes.listing(store.repo)}
    for claim in push_policy.lapsed(store.repo):
        command = f"gitcp remote {claim.remote} --push {claim.policy.value}"
        why = "it was not allowed for this directory, or before it was moved"
        lapsed = (why, command) if claim.remote in names else _gone(claim.remote)
        result.append(PushState(claim, Queue(), False, *lapsed))
    return tuple(sorted(result, key=lambda state: state.consent.remote))


def drain(
    store: Store, remote: str, timing: Timing | None = None, attempt: Attempt = nullcontext
) -> None:
    """Push what waits for a remote until nothing is left or it gives up. Returns at once if another
    process does so.

    Writes objects, tracking refs and the queue. Raises GitcpError if these cannot be written.
    """
    worker = _Worker(store, remote, timing or Timing(), attempt)
    while worker.has_more():
        with push_policy.alone(store.repo, remote) as nobody:
            if not nobody:
                return
            while worker.has_more():
                worker.step()
        # A save that found the lock taken started nothing: look again, now that it is free.


def wanted(store: Store, consent: Consent) -> dict[str, Oid]:
    """Return the refs that are to be sent, with their values."""
    tracking = f"{refs.REMOTES}{consent.remote}/"
    sent = store.repo.refs.list(tracking)
    tags = {
        ref: oid
        for ref, oid in store.repo.refs.list(refs.TAGS).items()
        if sent.get(f"{tracking}tags/{ref.removeprefix(refs.TAGS)}") != oid
        and _time(store, oid) >= consent.since
    }
    if consent.policy is PushPolicy.ON_TAG:
        return {**_named(store, tags.values()), **tags}
    tips = {
        refs.SESSIONS + name: tip
        for name, tip in store.sessions().items()
        if sent.get(f"{tracking}sessions/{name}") != tip and _time(store, tip) >= consent.since
    }
    return {**tips, **tags}


def _named(store: Store, tags: Iterable[Oid]) -> dict[str, Oid]:
    """Return the sessions of tagged checkpoints, each up to its last one of these."""
    last: dict[str, Summary] = {}
    for tag in tags:
        summary = store.summary(store.peel(tag))
        session = summary.id.session
        if store.tip(session) and (
            session not in last or last[session].id.number < summary.id.number
        ):
            last[session] = summary
    return {refs.SESSIONS + name: summary.commit for name, summary in last.items()}


def _time(store: Store, oid: Oid) -> datetime:
    """Return when a checkpoint or tag was made; what cannot be read was never."""
    try:
        kind, data = store.reader.read(oid)
        if kind != "tag":
            return store.summary(oid).created
        return time_of(data.partition(b"\ntagger ")[2].partition(b"\n")[0])
    except StoreDamaged:
        return datetime.min.replace(tzinfo=UTC)


def _destination(store: Store, consent: Consent) -> tuple[Remote | None, str, str]:
    """Return where a consent lets push to, or why it does not and a command that helps."""
    name = consent.remote
    to = next((each for each in remotes.listing(store.repo) if each.name == name), None)
    if not store.repo.is_trusted:
        return None, "the store is not recorded as yours", "gitcp init --trust"
    if to is None:
        return None, *_gone(name)
    if not to.enabled:
        return None, "it is not enabled", f"gitcp remote {name}"
    if push_policy.fingerprint(to.destination) != consent.url:
        return None, "its URL changed", f"gitcp remote {name} --push {consent.policy.value}"
    return to, "", ""


def _gone(remote: str) -> tuple[str, str]:
    """Return why nothing is pushed to a remote that git no longer has, and a command that helps."""
    return "it was renamed or removed", f"gitcp remote {remote} --off"


class _Worker:
    """One process's attempts to empty the queue of a remote."""

    def __init__(self, store: Store, remote: str, timing: Timing, attempt: Attempt) -> None:
        self._store, self._remote, self._timing, self._attempt = store, remote, timing, attempt
        self._queue = Queue()
        self._seen: set[tuple[str, Oid]] = set()
        self._failures, self._first_failure = 0, 0.0

    def has_more(self) -> bool:
        """Look at the refs again. Return whether there is something to try."""
        consent = push_policy.read(self._store.repo, self._remote)
        if consent is None or _destination(self._store, consent)[0] is None:
            return False
        timing, elapsed = self._timing, time.monotonic() - self._first_failure
        if self._failures and (self._failures >= timing.failures or elapsed > timing.longest):
            return False
        self._queue = _refreshed(self._store, consent, _read(self._store, self._remote))
        return bool(self._next())

    def step(self) -> None:
        """Try to send the next items, as many as fit into one push."""
        self._save(self._queue)
        time.sleep(max(0.0, self._due() - clock.seconds()))
        consent = push_policy.read(self._store.repo, self._remote)  # it may be withdrawn by now
        to = _destination(self._store, consent)[0] if consent else None
        if consent is None or to is None:
            return
        self._queue = _refreshed(self._store, consent, self._queue)
        batch = self._next()
        if not batch:
            return
        try:
            with self._attempt():
                left = self._send(consent, to, batch)
        except (GitcpError, OSError) as error:
            left = {item.ref: replace(item, reason=str(error), is_held=False) for item in batch}
        self._settle(consent, batch, left)

    def _due(self) -> float:
        """Return when the next push may begin, in seconds since 1970."""
        wait = self._timing.wait * 2 ** (self._failures - 1) if self._failures else 0.0
        return max(self._queue.tried + self._timing.apart, clock.seconds() + wait)

    def _next(self) -> tuple[QueuedRef, ...]:
        """Return the items of the next attempt, those that failed least first. Each failure halves
        their number, so that a bad one keeps no others back.
        """
        left = [item for item in self._queue.items if (item.ref, item.tip) not in self._seen]
        left.sort(key=lambda item: item.failures)
        return tuple(left[: max(1, min(MOST, len(left)) >> self._failures)])

    def _send(
        self, consent: Consent, to: Remote, batch: tuple[QueuedRef, ...]
    ) -> dict[str, QueuedRef]:
        """Send items. Return those that were not sent, by ref, with the reason."""
        listed = remote_refs.read(self._store, to, to.destination)
        # Only now: a session that is deleted there was noted before that.
        obstacles = _deleted(self._store, to, batch)
        sendable = [item for item in batch if item.ref not in obstacles]
        plans = []
        asked = remote_haves.asking(self._store, to)
        for session, tip in _sessions(self._store, sendable).items():
            plan = self._plan(consent, to, listed, asked, {session: tip})
            if plan is None:
                obstacles[refs.SESSIONS + session] = "it cannot be read: gitcp doctor --store"
                continue
            obstacle = _obstacle(plan)
            obstacles |= _held(plan, obstacle)
            if not obstacle:
                plans.append(plan)
        refused = self._push(to, listed, plans)
        items = {item.ref: item for item in batch}
        return {
            ref: replace(item, reason=obstacles.get(ref) or refused[ref], is_held=ref in obstacles)
            for ref, item in items.items()
            if ref in obstacles or ref in refused
        }

    def _plan(
        self,
        consent: Consent,
        to: Remote,
        listed: RemoteRefs,
        asked: Asked,
        tips: Mapping[str, Oid],
    ) -> PushPlan | None:
        """Compare one session with the remote and scan it, None if it cannot be read."""
        with suppress(StoreDamaged):
            return push.compare(
                self._store,
                to,
                listed,
                tips,
                allowed.ids(self._store.repo),
                tips=tips,
                unfiltered=consent.unfiltered,
                asked=asked,
            )
        return None

    def _push(self, to: Remote, listed: RemoteRefs, plans: Iterable[PushPlan]) -> dict[str, str]:
        """Push what can be sent. Return the refs that the remote refused, with its reasons."""
        items = {item.ref: item for plan in plans for item in plan.items}
        if not items:
            return {}
        may_leave = frozenset(id for plan in plans for id in plan.allowed)
        whole = PushPlan(to, listed, tuple(items.values()), (), may_leave)
        report = push.send(self._store, whole, self._pace)
        push.track(self._store, to, [i for i in whole.items if i.state is RefState.SAME])
        return {_local_ref(item): why for item, why in report.refused}

    def _pace(self) -> None:
        """Wait until the last push is long enough ago, and note that one begins."""
        time.sleep(max(0.0, self._queue.tried + self._timing.apart - clock.seconds()))
        self._save(replace(self._queue, tried=clock.seconds()))

    def _settle(
        self, consent: Consent, batch: tuple[QueuedRef, ...], left: Mapping[str, QueuedRef]
    ) -> None:
        """Write what became of a batch: what was sent goes, the rest to the back."""
        still = wanted(self._store, consent)
        back = [
            left.get(item.ref, replace(item, reason="it was not sent", is_held=True))
            for item in batch
            if still.get(item.ref) == item.tip
        ]
        self._seen |= {(item.ref, item.tip) for item in back if item.is_held}
        if any(not item.is_held for item in back):
            self._first_failure = self._first_failure or time.monotonic()
            self._failures += 1
        back = [
            item if item.is_held else replace(item, failures=item.failures + 1) for item in back
        ]
        tried = {item.ref for item in batch}
        rest = [item for item in self._queue.items if item.ref not in tried]
        pushed = clock.seconds() if len(back) < len(batch) else self._queue.pushed
        self._save(replace(self._queue, items=(*rest, *back), pushed=pushed))

    def _save(self, queue: Queue) -> None:
        self._queue = queue
        if push_policy.read(self._store.repo, self._remote) is not None:
            _write(self._store, self._remote, queue)


def _sessions(store: Store, batch: Iterable[QueuedRef]) -> dict[str, Oid]:
    """Return the sessions of items with their tips; a tag is sent with its session."""
    named = {_session_of(store, item): item.tip for item in batch if _is_session(item)}
    tagged = {_session_of(store, item) for item in batch if not _is_session(item)}
    tips = {name: tip for name in tagged if (tip := store.tip(name))}
    return {**tips, **named}


def _session_of(store: Store, item: QueuedRef) -> str:
    if _is_session(item):
        return item.ref.removeprefix(refs.SESSIONS)
    return store.summary(store.peel(item.tip)).id.session


def _is_session(item: QueuedRef) -> bool:
    return item.ref.startswith(refs.SESSIONS)


def _deleted(store: Store, to: Remote, batch: Iterable[QueuedRef]) -> dict[str, str]:
    """Return the refs of sessions that somebody deleted on the remote, here, and how to push them
    again.
    """
    names = push_policy.deleted(store.repo, to.name)
    sessions = {item.ref: _session_of(store, item) for item in batch} if names else {}
    return {
        ref: f"deleted on {to.name}; to push it again: gitcp push {to.name} {session}"
        for ref, session in sessions.items()
        if session in names
    }


def _obstacle(plan: PushPlan) -> str:
    """Return why a session cannot be sent before somebody acts, "" if it can."""
    session = next(item for item in plan.items if item.kind == "session")
    command = f"gitcp push {plan.remote.name} --session {session.name}"
    if plan.filtered:
        files = humanize.count(len(plan.filtered), "file")
        return f"{files} would leave in plain text: {command} --allow-filtered"
    if plan.findings:
        count = len({finding.id for finding in plan.findings})
        return f"{humanize.count(count, 'secret')} found: {command}"
    return f"it has diverged: {command}" if session.state is RefState.DIVERGED else ""


def _held(plan: PushPlan, obstacle: str) -> dict[str, str]:
    """Return the refs of a session, here, that cannot be sent before somebody acts, and why."""
    name = plan.remote.name
    newer = f"{name} has newer checkpoints: gitcp fetch {name}"
    behind = {i: newer for i in plan.items if i.state is RefState.BEHIND} | dict(plan.left)
    reasons = {_local_ref(item): obstacle or behind.get(item, "") for item in plan.items}
    return {ref: reason for ref, reason in reasons.items() if reason}


def _local_ref(item: push.RefUpdate) -> str:
    return f"{refs.PREFIX}{item.kind}s/{item.name}"


# ---------------------------------------------------------------- the file


def _refreshed(store: Store, consent: Consent, queue: Queue) -> Queue:
    """Return the queue with what the refs say: what was sent goes, what is new comes last."""
    waiting = wanted(store, consent)
    kept = [item for item in queue.items if waiting.get(item.ref) == item.tip]
    known = {item.ref for item in kept}
    new = [QueuedRef(ref, tip) for ref, tip in waiting.items() if ref not in known]
    return replace(queue, items=(*kept, *new))


def _read(store: Store, remote: str) -> Queue:
    """Return what the file of a queue says; nothing if it is missing or damaged."""
    try:
        return CODEC.decode(Queue, documents.peek(push_policy.path(store.repo, remote, QUEUE)))
    except ValueError:
        return Queue()


def _write(store: Store, remote: str, queue: Queue) -> None:
    fields = {"schema": "gitcp.push-queue/1", **CODEC.encode(queue)}
    documents.write(push_policy.path(store.repo, remote, QUEUE), fields, private=True)
