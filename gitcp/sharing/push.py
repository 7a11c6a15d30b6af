"""Push sessions and their tags to a remote, after a scan for secrets: a plan, then an apply.

Refs on the remote only move if they are where the plan saw them, so concurrent pushes lose nothing.
Diverged sessions are never merged or overwritten.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

from gitcp.errors import Refused, RevisionNotFound
from gitcp.git import refs, remote
from gitcp.model import CheckpointId, Oid
from gitcp.secrets import checkpoint_scan
from gitcp.secrets.checkpoint_scan import Finding, Sieve
from gitcp.sharing import redact
from gitcp.sharing.remotes import Remote
from gitcp.state import oplog
from gitcp.store import Store
from gitcp.value import Value

NOTHING = "nothing was sent"


class State(StrEnum):
    """How a local ref compares with the remote's."""

    NEW = "new"
    AHEAD = "ahead"
    SAME = "same"
    BEHIND = "behind"
    DIVERGED = "diverged"
    REWRITTEN = "rewritten"


class Item(Value):
    """One ref to push, with its local and remote value and the number of new checkpoints."""

    name: str
    kind: str
    state: State
    new: Oid
    old: Oid | None
    checkpoints: int = 0


class PushPlan(Value):
    """What a push would send and skip, and the secrets that prevent it.

    `redacted` are the secrets replaced in what is sent.
    """

    remote: Remote
    items: tuple[Item, ...]
    findings: tuple[Finding, ...]
    redacted: tuple[Finding, ...] = ()

    @property
    def sending(self) -> tuple[Item, ...]:
        """The refs that would move."""
        return tuple(
            item for item in self.items if item.state in (State.NEW, State.AHEAD, State.REWRITTEN)
        )


class Report(Value):
    """The refs that were sent, and those that the remote rejected, with its reason."""

    sent: tuple[Item, ...]
    refused: tuple[tuple[Item, str], ...]


def plan(
    store: Store,
    to: Remote,
    sessions: Iterable[str],
    allowed: Collection[str],
    *,
    force: bool = False,
    redacted: bool = False,
) -> PushPlan:
    """Compare with the remote and scan new checkpoints. Writes only the scan's
    cache and unreferenced objects.

    `force` replaces a session that was rewritten here (by prune or purge), `redacted`
    replaces secrets. Raises RevisionNotFound for a session that does not exist, and GitFailed
    if the remote cannot be reached.
    """
    url = to.push_url or to.url
    remote_refs = remote.listed(store.repo, url, to.sessions + "*") | remote.listed(
        store.repo, url, to.tags + "*"
    )
    items, commits, removed = [], dict[Oid, None](), list[Finding]()
    for session in sessions:
        outgoing = _outgoing(store, session, allowed, redacted=redacted)
        removed += outgoing.redacted
        item, fresh = _session(store, to, outgoing, remote_refs, force=force)
        items.append(item)
        commits |= dict.fromkeys(fresh)
        items += _tags(to, outgoing, remote_refs, force=force)
    tag_values = {i.name: i.new for i in items if i.kind == "tag" and i.state is not State.SAME}
    sieve, findings = checkpoint_scan.search(
        store, commits, allowed, checkpoint_scan.of_tags(store, tag_values).values()
    )
    in_names = checkpoint_scan.in_names(
        "session", (i.name for i in items if i.kind == "session"), sieve
    )
    return PushPlan(
        to,
        tuple(items),
        (*findings, *checkpoint_scan.in_tags(store, tag_values, sieve), *in_names),
        tuple(removed),
    )


class _Outgoing(Value):
    """A session to send: its commits, oldest first, the tags on them, and the secrets that were
    redacted.
    """

    session: str
    chain: tuple[Oid, ...]
    tags: Mapping[str, Oid]
    redacted: tuple[Finding, ...] = ()


def _outgoing(store: Store, session: str, allowed: Collection[str], *, redacted: bool) -> _Outgoing:
    tip = store.tip(session)
    if tip is None:
        raise RevisionNotFound(f"no session {session!r}; nothing was sent", hint="gitcp sessions")
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
    sieve, findings = checkpoint_scan.search(
        store, (node.commit for node in nodes), allowed, tag_texts
    )
    editor = redact.chains(store, nodes, sieve)
    tags = {
        name: editor.tag(value, editor.becomes[store.peel(value)]) for name, value in tags.items()
    }
    store.writer.flush(held=True)
    return _Outgoing(session, tuple(editor.becomes[node.commit] for node in nodes), tags, findings)


def push(store: Store, agreed: PushPlan) -> Report:
    """Push as planned. Writes the tracking refs below `refs/gitcp/remotes/` of what arrived.

    Raises SecretsFound if the plan has findings, and Refused if a session
    diverged; nothing is sent then.
    """
    try:
        return _push(store, agreed)
    finally:
        store.writer.let_go()  # redacted copies stay unreferenced


def _push(store: Store, agreed: PushPlan) -> Report:
    if agreed.findings:
        raise checkpoint_scan.refused(agreed.findings, NOTHING)
    diverged = next((item for item in agreed.items if item.state is State.DIVERGED), None)
    if diverged is not None:
        raise _diverged(agreed.remote, diverged)
    updates = [
        remote.Update(_remote_ref(agreed.remote, item), item.new, item.old)
        for item in agreed.sending
    ]
    refused = remote.send(store.repo, agreed.remote.push_url or agreed.remote.url, updates)
    sent = tuple(item for item in agreed.sending if _remote_ref(agreed.remote, item) not in refused)
    with store.lock():
        for item in sent:
            _track(store, agreed.remote, item)
    rejected = tuple(
        (i, refused[_remote_ref(agreed.remote, i)]) for i in agreed.sending if i not in sent
    )
    return Report(sent, rejected)


def _session(
    store: Store, to: Remote, outgoing: _Outgoing, remote_refs: dict[str, Oid], *, force: bool
) -> tuple[Item, tuple[Oid, ...]]:
    """Return the item of a session, and its checkpoints that the remote does not have, oldest
    first.
    """
    session, chain = outgoing.session, outgoing.chain
    tip, old = chain[-1], remote_refs.get(to.sessions + outgoing.session)
    if old is None:
        return Item(session, "session", State.NEW, tip, None, len(chain)), chain
    if old == tip:
        return Item(session, "session", State.SAME, tip, old), ()
    if old in chain:
        fresh = chain[chain.index(old) + 1 :]
        return Item(session, "session", State.AHEAD, tip, old, len(fresh)), fresh
    state = compare_histories(store, tip, old)
    if state is State.REWRITTEN and force:
        return Item(session, "session", State.REWRITTEN, tip, old, len(chain)), chain
    return Item(
        session, "session", State.DIVERGED if state is State.REWRITTEN else state, tip, old
    ), ()


def compare_histories(store: Store, tip: Oid, old: Oid) -> State:
    """Return how the remote's tip `old` relates to ours, which does not contain it.

    Prune and purge give the same checkpoints new commits. A checkpoint that is missing here must
    have been dropped here: otherwise it is a different session of the same name.
    """
    if not store.reader.exists(old):
        return State.DIVERGED
    theirs = list(store.history(old))
    if any(summary.commit == tip for summary in theirs):
        return State.BEHIND
    ours = {summary.id: summary.created for summary in store.history(tip)}
    missing = [summary.id for summary in theirs if summary.id not in ours]
    same = all(ours.get(summary.id, summary.created) == summary.created for summary in theirs)
    last = max(id.number for id in ours)
    rewritten = (
        same and theirs[0].id.number <= last and (not missing or _all_dropped(store, missing))
    )
    return State.REWRITTEN if rewritten else State.DIVERGED


def _all_dropped(store: Store, ids: Iterable[CheckpointId]) -> bool:
    """Return whether prunes and deletes in this repository dropped all of these checkpoints."""
    operations = oplog.entries(store.repo)
    return all(
        any(a <= id.number <= b for op in operations for a, b in op.dropped.get(id.session, ()))
        for id in ids
    )


def _tags(
    to: Remote, outgoing: _Outgoing, remote_refs: dict[str, Oid], *, force: bool
) -> list[Item]:
    items = []
    for name, oid in outgoing.tags.items():
        old = remote_refs.get(to.tags + name)
        moved = State.REWRITTEN if force else State.BEHIND
        state = State.NEW if old is None else State.SAME if old == oid else moved
        items.append(Item(name, "tag", state, oid, old))
    return items


def _remote_ref(to: Remote, item: Item) -> str:
    return (to.sessions if item.kind == "session" else to.tags) + item.name


def _track(store: Store, to: Remote, item: Item) -> None:
    """Update the tracking ref. If this fails, the next fetch repairs it."""
    name = f"{to.tracking}{item.kind}s/{item.name}"
    store.repo.refs.update(name, item.new, store.repo.refs.read(name))


def _diverged(to: Remote, item: Item) -> Refused:
    return Refused(
        f"session {item.name} and the one on {to.name} have diverged; nothing was sent",
        (
            "after a local prune or purge: gitcp push --force",
            "if the remote has a redacted copy: gitcp push --redact",
        ),
        hint=f"gitcp fetch {to.name} && gitcp fork {to.name}/{item.name} --trust",
    )
