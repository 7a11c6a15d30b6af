"""Push sessions and their tags to a remote, after a scan for secrets: a plan, then an apply.

Refs on the remote only move if they are where the plan saw them, so concurrent pushes lose nothing.
Diverged sessions are never merged or overwritten.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import cache

from gitcp import wire
from gitcp.errors import GitcpError, Refused
from gitcp.git import refs
from gitcp.git.remote import RemoteUpdate
from gitcp.model import CheckpointId, Oid
from gitcp.saving import session as session_op
from gitcp.secrets import checkpoint_scan, known_secrets
from gitcp.secrets.checkpoint_scan import Finding, Sieve
from gitcp.secrets.known_secrets import Haves
from gitcp.sharing import filtered, host_checks, redact, remote_haves, remote_refs, tracking
from gitcp.sharing.delivery import Delivery, Pace, within_rate
from gitcp.sharing.remote_haves import Asked
from gitcp.sharing.remote_refs import RemoteRefs
from gitcp.sharing.remotes import Remote
from gitcp.state import oplog, push_policy, trash
from gitcp.state.oplog import Operation
from gitcp.state.rewrite import RefMove
from gitcp.store import Store, Summary
from gitcp.value import EMPTY, Value

NOTHING = "nothing was sent"


MOVED = "stale info"
"""What git prints of a ref that another push has moved."""


class RefState(StrEnum):
    """How a local ref compares with the remote's."""

    NEW = "new"
    AHEAD = "ahead"
    SAME = "same"
    BEHIND = "behind"
    DIVERGED = "diverged"
    REWRITTEN = "rewritten"


class RefUpdate(Value):
    """One ref to push, `ref` on the remote, with its local and remote value and the number of new
    checkpoints.
    """

    name: str
    kind: str
    ref: str
    state: RefState
    new: Oid
    old: Oid | None
    checkpoints: int = 0

    def to_json(self) -> wire.Json:
        """Return the fields that `gitcp push --json` prints of an item, but for `sent`."""
        return {
            "name": self.name,
            "kind": self.kind,
            "state": self.state.value,
            "checkpoints": self.checkpoints,
        }


class PushPlan(Value):
    """What a push would send and skip, and the secrets that prevent it.

    `listed` are the remote's refs, `allowed` the secrets that may leave, and `redacted` those
    replaced in what is sent. `filtered` are the files that are not as git would commit them, with
    their filters, unless they may leave. `known` are secrets that the remote has already, and
    `has_more` says that it has branches that are not here, which may have others of the findings.
    """

    remote: Remote
    listed: RemoteRefs
    items: tuple[RefUpdate, ...]
    findings: tuple[Finding, ...]
    allowed: Collection[str] = frozenset()
    redacted: tuple[Finding, ...] = ()
    filtered: Mapping[bytes, str] = EMPTY
    known: tuple[Finding, ...] = ()
    has_more: bool = False

    @property
    def left(self) -> Mapping[RefUpdate, str]:
        """The tags that would not move, because the remote has others of their names, with what to
        do about it.
        """
        left, session = {}, ""
        for item in self.items:  # a session, then the tags on it
            session = item.name if item.kind == "session" else session
            if item.kind == "tag" and item.state is RefState.BEHIND:
                left[item] = another_tag(self.remote.name, session)
        return left

    @property
    def sending(self) -> tuple[RefUpdate, ...]:
        """The refs that would move."""
        return tuple(
            item
            for item in self.items
            if item.state in (RefState.NEW, RefState.AHEAD, RefState.REWRITTEN)
        )


def another_tag(remote: str, session: str) -> str:
    """Return why a tag on a session is not sent to a remote that has another one, and what to do
    about it.
    """
    return f"{remote} has another tag of this name: gitcp push {remote} {session} --force"


class PushReport(Value):
    """The refs that were sent, those that the remote rejected, with its reason, and why the
    remote's catalogue was not updated ("" if it was). `plan` is what was carried out, `trashed` the
    operations that moved to the trash what had been fetched and the remote no longer has.
    """

    plan: PushPlan
    sent: tuple[RefUpdate, ...]
    refused: tuple[tuple[RefUpdate, str], ...]
    catalogue: str = ""
    trashed: tuple[Operation, ...] = ()

    def to_json(self) -> wire.Json:
        """Return the fields that `gitcp push --json` prints."""
        plan = self.plan
        return {
            "remote": plan.remote.name,
            "items": [{**item.to_json(), "sent": item in self.sent} for item in plan.items],
            "catalogue": self.catalogue or None,
            "refused": [
                {"name": item.name, "kind": item.kind, "reason": why} for item, why in self.refused
            ],
            "redacted": [finding.to_json() for finding in plan.redacted],
            "findings": [finding.to_json() for finding in plan.findings],
            "known": [finding.to_json() for finding in plan.known],
            "filtered": [wire.encode_path(path) for path in sorted(plan.filtered)],
        }


def plan(
    store: Store,
    to: Remote,
    sessions: Iterable[str],
    allowed: Collection[str],
    *,
    force: bool = False,
    redacted: bool = False,
    unfiltered: bool = False,
) -> PushPlan:
    """Compare with the remote and scan new checkpoints. Writes only the scan's
    cache and unreferenced objects.

    `force` replaces a session that was rewritten here (by prune or purge), `redacted`
    replaces secrets, `unfiltered` sends files that git would filter in a commit as they are.
    Raises RevisionNotFound for a session that does not exist, and GitFailed
    if the remote cannot be reached.
    """
    listed = remote_refs.read(store, to, to.destination)
    return compare(
        store,
        to,
        listed,
        sessions,
        allowed,
        force=force,
        redacted=redacted,
        unfiltered=unfiltered,
        asked=remote_haves.asking(store, to),
    )


def compare(
    store: Store,
    to: Remote,
    listed: RemoteRefs,
    sessions: Iterable[str],
    allowed: Collection[str],
    *,
    tips: Mapping[str, Oid] = EMPTY,
    force: bool = False,
    redacted: bool = False,
    unfiltered: bool = False,
    asked: Asked = Haves,
) -> PushPlan:
    """Return the plan for a remote whose refs are listed. A session in `tips` is sent up to this
    checkpoint; `asked` asks the remote what it has. Otherwise as `plan`.
    """
    items, commits, removed = [], dict[Oid, None](), list[Finding]()
    drivers: dict[bytes, str] = {}
    for session in sessions:
        outgoing = _outgoing(store, session, tips.get(session), allowed, redacted=redacted)
        removed += outgoing.redacted
        item, fresh = _session(store, to, outgoing, listed, force=force)
        items.append(item)
        commits |= dict.fromkeys(fresh)
        if fresh and not unfiltered:
            sent = item.old if item.state is RefState.AHEAD else None
            drivers |= filtered.in_checkpoints(store, fresh, sent)
        items += _tags(to, outgoing, listed, force=force)
    checkpoint_scan.fetch_missing(store, commits)
    scanned = _scan(store, items, commits, allowed, asked)
    if redacted and scanned.leaking:
        raise checkpoint_scan.refused(scanned.leaking, NOTHING, left="they cannot be redacted")
    return PushPlan(
        *(to, listed, tuple(items), scanned.leaking, allowed, tuple(removed), drivers),
        known=scanned.known,
        has_more=scanned.has_more,
    )


class _Scanned(Value):
    """What a scan found, as in PushPlan."""

    leaking: tuple[Finding, ...]
    known: tuple[Finding, ...]
    has_more: bool


def _scan(
    store: Store,
    items: Iterable[RefUpdate],
    commits: Collection[Oid],
    allowed: Collection[str],
    asked: Asked,
) -> _Scanned:
    """Scan what would leave; if there is a finding, ask what the remote has."""
    items = tuple(items)
    tag_values = {i.name: i.new for i in items if i.kind == "tag" and i.state is not RefState.SAME}
    search = checkpoint_scan.search(
        store, commits, allowed, checkpoint_scan.of_tags(store, tag_values).values()
    )
    in_tags = checkpoint_scan.in_tags(store, tag_values, search.sieve)
    names = (i.name for i in items if i.kind == "session")
    in_names = checkpoint_scan.in_names("session", names, search.sieve)
    has = asked() if search.findings else Haves()
    known = known_secrets.ids(store, search, commits, has)
    leaking, there = known_secrets.split((*search.findings, *in_tags, *in_names), known)
    return _Scanned(leaking, there, not has.is_whole)


class _Outgoing(Value):
    """A session to send: its commits, oldest first, the tags on them, and the secrets that were
    redacted.
    """

    session: str
    chain: tuple[Oid, ...]
    tags: Mapping[str, Oid]
    redacted: tuple[Finding, ...] = ()


def _outgoing(
    store: Store, session: str, tip: Oid | None, allowed: Collection[str], *, redacted: bool
) -> _Outgoing:
    tip = tip or store.tip(session)
    if tip is None:
        raise session_op.unknown(session, "nothing was sent")
    nodes = list(store.history(tip))[::-1]
    values = store.repo.refs.list(refs.TAGS)
    commits = {node.commit for node in nodes}
    tags = {
        name.removeprefix(refs.TAGS): value
        for name, value in values.items()
        if store.peel(value) in commits
    }
    if not redacted:
        return _Outgoing(session, tuple(node.commit for node in nodes), tags)
    in_name = checkpoint_scan.in_names("session", [session], Sieve(allowed))
    if in_name:
        raise checkpoint_scan.refused(in_name, NOTHING, left="session names are not rewritten")
    tag_texts = checkpoint_scan.of_tags(store, tags).values()
    checkpoint_scan.fetch_missing(store, [node.commit for node in nodes])
    search = checkpoint_scan.search(store, (node.commit for node in nodes), allowed, tag_texts)
    editor = redact.chains(store, nodes, search.sieve)
    tags = {
        name: editor.tag(value, editor.becomes[store.peel(value)]) for name, value in tags.items()
    }
    store.writer.flush(keep=True)
    return _Outgoing(
        session, tuple(editor.becomes[node.commit] for node in nodes), tags, search.findings
    )


def push(store: Store, agreed: PushPlan, pace: Pace | None = None) -> PushReport:
    """Push what somebody asked for: `send` it. A session that was deleted on the remote is from now
    on pushed in the background again.
    """
    push_policy.deleted(store.repo, agreed.remote.name)  # if it is damaged, nothing is sent
    report = send(store, agreed, pace)
    sent = {item.name for item in report.sent if item.kind == "session"}
    with store.lock():
        push_policy.note_pushed(store.repo, agreed.remote.name, sent)
    return report


def send(store: Store, agreed: PushPlan, pace: Pace | None = None) -> PushReport:
    """Push as planned, and update the remote's catalogue. Writes the tracking refs below
    `refs/gitcp/remotes/` of what arrived. `pace` is by default at most six pushes a minute.

    Raises SecretsFound if the plan has findings, FilteredFiles for files, and Refused if a session
    diverged; nothing is sent then.
    """
    try:
        return _push(store, agreed, pace or within_rate())
    finally:
        store.writer.release()  # redacted copies stay unreferenced


def _push(store: Store, agreed: PushPlan, pace: Pace) -> PushReport:
    require_clean(agreed)
    diverged = next((item for item in agreed.items if item.state is RefState.DIVERGED), None)
    if diverged is not None:
        raise _diverged(agreed.remote, diverged)
    sieve = Sieve(agreed.allowed)
    delivered = Delivery(store, agreed.remote, agreed.listed, sieve, pace).send(
        {i.name: RemoteUpdate(i.ref, i.new, i.old) for i in agreed.sending if i.kind == "session"},
        [RemoteUpdate(i.ref, i.new, i.old) for i in agreed.sending if i.kind == "tag"],
    )
    refused = delivered.refused
    sent = tuple(item for item in agreed.sending if item.ref not in refused)
    trashed = track(store, agreed.remote, sent)
    rejected = tuple((i, refused[i.ref]) for i in agreed.sending if i.ref in refused)
    return PushReport(agreed, sent, rejected, delivered.catalogue, trashed)


def require_accepted(report: PushReport) -> None:
    """Raise GitcpError if the remote took nothing of what was sent."""
    if report.refused and not report.sent:
        item, why = report.refused[0]
        raise GitcpError(
            f"the remote refused {item.name}: {why}", hint=_next_command(report.plan.remote, why)
        )


def _next_command(to: Remote, why: str) -> str:
    """Return what to do about a remote's reason."""
    if MOVED in why:
        return f"gitcp fetch {to.name}"
    if host_checks.CHECKED not in why:
        return f"if it takes only branches and tags: gitcp remote {to.name} --as-branches"
    path = host_checks.path_in(why)
    return f"gitcp purge --path {shlex.quote(path)} --dry-run" if path else "gitcp purge -h"


def require_clean(agreed: PushPlan) -> None:
    """Raise FilteredFiles or SecretsFound if something must not leave."""
    if agreed.filtered:
        raise filtered.refused(agreed.filtered, NOTHING)
    if agreed.findings:
        name = agreed.remote.name
        more = f"{name} has branches that are not here, which may contain them: git fetch {name}"
        notes = (more,) if agreed.has_more else ()
        raise checkpoint_scan.refused(agreed.findings, NOTHING, notes=notes)


def _session(
    store: Store, to: Remote, outgoing: _Outgoing, listed: RemoteRefs, *, force: bool
) -> tuple[RefUpdate, tuple[Oid, ...]]:
    """Return the item of a session, and its checkpoints that the remote does not have, oldest
    first.
    """
    session, chain = outgoing.session, outgoing.chain
    old = listed.tip(session)
    state = _state(store, chain, old)
    if state is RefState.REWRITTEN and not force:
        state = RefState.DIVERGED
    fresh = chain if state in (RefState.NEW, RefState.REWRITTEN) else ()
    if old is not None and state is RefState.AHEAD:
        fresh = chain[chain.index(old) + 1 :]
    ref = listed.ref(to, session)
    return RefUpdate(session, "session", ref, state, chain[-1], old, len(fresh)), fresh


def _state(store: Store, chain: Sequence[Oid], old: Oid | None) -> RefState:
    """Return how a chain, oldest first, compares with the remote's tip `old`."""
    if old is None:
        return RefState.NEW
    if old == chain[-1]:
        return RefState.SAME
    return RefState.AHEAD if old in chain else compare_histories(store, chain[-1], old)


def compare_histories(store: Store, tip: Oid, old: Oid) -> RefState:
    """Return how the remote's tip `old` relates to ours, which does not contain it.

    Prune and purge give the same checkpoints new commits. A checkpoint that is missing here must
    have been dropped here: otherwise it is a different session of the same name.
    """
    # push --force replaced another person's session of the same name.
    if not store.reader.exists(old):
        return RefState.DIVERGED
    theirs = list(store.history(old))
    if any(summary.commit == tip for summary in theirs):
        return RefState.BEHIND
    ours = {summary.id: summary.created for summary in store.history(tip)}
    missing = [summary for summary in theirs if summary.id not in ours]
    same = all(ours.get(summary.id, summary.created) == summary.created for summary in theirs)
    last = max(id.number for id in ours)
    rewritten = (
        same and theirs[0].id.number <= last and (not missing or _all_dropped(store, missing))
    )
    return RefState.REWRITTEN if rewritten else RefState.DIVERGED


def _all_dropped(store: Store, missing: Iterable[Summary]) -> bool:
    """Return whether prunes and deletes in this repository dropped all of these checkpoints. Once
    the trash has expired, their ids have to do.
    """
    operations = [each for each in oplog.entries(store.repo) if not _is_of_fetched(each)]
    entries = {entry.name: entry for entry in trash.entries(store)}

    @cache
    def contents(name: str) -> frozenset[tuple[CheckpointId, datetime]]:
        nodes = entries[name].read(store, despite_damage=True).nodes.values()
        return frozenset((node.id, node.created) for node in nodes)

    def was_dropped(summary: Summary) -> bool:
        # push --force replaced a colleague's checkpoint: one that was dropped here had its number.
        return any(
            op.trash not in entries or (summary.id, summary.created) in contents(op.trash)
            for op in operations
            for a, b in op.dropped.get(summary.id.session, ())
            if a <= summary.id.number <= b
        )

    return all(map(was_dropped, missing))


def _is_of_fetched(operation: Operation) -> bool:
    """Return whether an operation dropped what was only fetched."""
    return any("/" in name for name in operation.dropped)


def _tags(to: Remote, outgoing: _Outgoing, listed: RemoteRefs, *, force: bool) -> list[RefUpdate]:
    items = []
    for name, oid in outgoing.tags.items():
        old = listed.tags.get(name)
        moved = RefState.REWRITTEN if force else RefState.BEHIND
        state = RefState.NEW if old is None else RefState.SAME if old == oid else moved
        items.append(RefUpdate(name, "tag", to.tags + name, state, oid, old))
    return items


def track(store: Store, to: Remote, items: Iterable[RefUpdate]) -> tuple[Operation, ...]:
    """Update the tracking refs of what the remote has. What only they still had goes to the trash:
    return these operations. If this fails, the next fetch repairs it.
    """
    operations = []
    with store.lock():
        for item in items:
            name = f"{to.tracking}{item.kind}s/{item.name}"
            old = store.repo.refs.read(name)
            lost = _lost(store, item, old)
            move = RefMove(name, old, item.new)
            if lost and (operation := tracking.replace(store, move, lost, "push")):
                operations.append(operation)
            else:
                store.repo.refs.update(name, item.new, old)
    return tuple(operations)


def _lost(store: Store, item: RefUpdate, fetched: Oid | None) -> list[Summary]:
    """Return the checkpoints of a tracking ref that neither the remote nor one's own session has,
    unless they were dropped here.
    """
    if item.kind != "session" or fetched in (None, item.old, item.new):
        return []
    # A colleague's session that was deleted on the remote was lost with a push of one's own.
    missing = tracking.dropped(store, fetched, store.tip(item.name) or item.new)
    return [] if _all_dropped(store, missing) else missing


def _diverged(to: Remote, item: RefUpdate) -> Refused:
    again = f"gitcp push {to.name} {item.name}"
    return Refused(
        f"session {item.name} and the one on {to.name} have diverged; nothing was sent",
        (
            f"after a local prune or purge: {again} --force",
            f"if the remote has a redacted copy: {again} --redact",
        ),
        hint=f"gitcp fetch {to.name} && gitcp fork {to.name}/{item.name} --trust",
    )
