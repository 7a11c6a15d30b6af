"""Push: sessions and their tags to a remote, after a scan for secrets. A plan, then an apply.

Nothing on the remote is replaced that is not known here, and each ref moves only from where it was
seen: who pushed meanwhile loses nothing. A session that grew there and here is not merged.
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
    """How a ref here and on the remote stand to each other."""

    NEW = "new"
    AHEAD = "ahead"
    SAME = "same"
    BEHIND = "behind"
    DIVERGED = "diverged"
    REWRITTEN = "rewritten"


class Item(Value):
    """One ref to be sent: a session or a tag, where it is here and there, and how many checkpoints
    are new.
    """

    name: str
    kind: str
    state: State
    new: Oid
    old: Oid | None
    checkpoints: int = 0


class Plan(Value):
    """What a push would send, what it would leave alone, and the secrets that stand in the way.

    `redacted` are those that are left out of what is sent.
    """

    remote: Remote
    items: tuple[Item, ...]
    findings: tuple[Finding, ...]
    redacted: tuple[Finding, ...] = ()

    @property
    def sending(self) -> tuple[Item, ...]:
        """What is to be moved."""
        return tuple(
            item for item in self.items if item.state in (State.NEW, State.AHEAD, State.REWRITTEN)
        )


class Report(Value):
    """What was sent, and what the remote refused, with its reason."""

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
) -> Plan:
    """Compare with the remote and scan what is new. Writes the scan's cache, nothing that has a
    name.

    `force` replaces a session that was rewritten here (by prune or purge), `redacted` sends it
    without its secrets. Raises RevisionNotFound for a session that does not exist, GitFailed where
    the remote cannot be reached.
    """
    url = to.push_url or to.url
    there = remote.listed(store.repo, url, to.sessions + "*") | remote.listed(
        store.repo, url, to.tags + "*"
    )
    items, commits, left = [], dict[Oid, None](), list[Finding]()
    for session in sessions:
        outgoing = _outgoing(store, session, allowed, redacted=redacted)
        left += outgoing.redacted
        item, fresh = _session(store, to, outgoing, there, force=force)
        items.append(item)
        commits |= dict.fromkeys(fresh)
        items += _tags(to, outgoing, there, force=force)
    held = {i.name: i.new for i in items if i.kind == "tag" and i.state is not State.SAME}
    sieve, found = checkpoint_scan.search(
        store, commits, allowed, checkpoint_scan.of_tags(store, held).values()
    )
    named = checkpoint_scan.in_names(
        "session", (i.name for i in items if i.kind == "session"), sieve
    )
    return Plan(
        to,
        tuple(items),
        (*found, *checkpoint_scan.in_tags(store, held, sieve), *named),
        tuple(left),
    )


class _Outgoing(Value):
    """A session as it is to be sent: its commits, the oldest first, the tags on them, what was
    redacted.
    """

    session: str
    chain: tuple[Oid, ...]
    tags: Mapping[str, Oid]
    redacted: tuple[Finding, ...] = ()


def _outgoing(store: Store, session: str, allowed: Collection[str], *, redacted: bool) -> _Outgoing:
    tip = store.tip(session)
    if tip is None:
        raise RevisionNotFound(
            f"session {session} has no checkpoint: nothing was sent", hint="gitcp sessions"
        )
    nodes = list(store.history(tip))[::-1]
    values = refs.list_refs(store.repo.common_dir, refs.TAGS)
    known = {node.commit for node in nodes}
    tags = {
        name.removeprefix(refs.TAGS): value
        for name, value in values.items()
        if store.peel(value) in known
    }
    if not redacted:
        return _Outgoing(session, tuple(node.commit for node in nodes), tags)
    named = checkpoint_scan.in_names("session", [session], Sieve(allowed))
    if named:
        raise checkpoint_scan.refused(named, NOTHING, left="the name of a session is not rewritten")
    held = checkpoint_scan.of_tags(store, tags).values()
    sieve, found = checkpoint_scan.search(store, (node.commit for node in nodes), allowed, held)
    made = redact.chains(store, nodes, sieve)
    tags = {name: made.tag(value, made.becomes[store.peel(value)]) for name, value in tags.items()}
    store.objects.flush(held=True)
    return _Outgoing(session, tuple(made.becomes[node.commit] for node in nodes), tags, found)


def push(store: Store, agreed: Plan) -> Report:
    """Send what was planned. Writes the tracking refs below `refs/gitcp/remotes/` for what arrived.

    Raises SecretsFound while the plan has findings, Refused if a session grew on both sides:
    nothing is sent then.
    """
    try:
        return _push(store, agreed)
    finally:
        store.objects.let_go()  # redacted ones, which no ref here will name


def _push(store: Store, agreed: Plan) -> Report:
    if agreed.findings:
        raise checkpoint_scan.refused(agreed.findings, NOTHING)
    stuck = next((item for item in agreed.items if item.state is State.DIVERGED), None)
    if stuck is not None:
        raise _diverged(agreed.remote, stuck)
    updates = [
        remote.Update(_there(agreed.remote, item), item.new, item.old) for item in agreed.sending
    ]
    refused = remote.send(store.repo, agreed.remote.push_url or agreed.remote.url, updates)
    sent = tuple(item for item in agreed.sending if _there(agreed.remote, item) not in refused)
    with store.lock():
        for item in sent:
            _track(store, agreed.remote, item)
    left = tuple((i, refused[_there(agreed.remote, i)]) for i in agreed.sending if i not in sent)
    return Report(sent, left)


def _session(
    store: Store, to: Remote, outgoing: _Outgoing, there: dict[str, Oid], *, force: bool
) -> tuple[Item, tuple[Oid, ...]]:
    """A session, and its checkpoints that the remote does not have, the oldest first."""
    session, chain = outgoing.session, outgoing.chain
    tip, old = chain[-1], there.get(to.sessions + outgoing.session)
    if old is None:
        return Item(session, "session", State.NEW, tip, None, len(chain)), chain
    if old == tip:
        return Item(session, "session", State.SAME, tip, old), ()
    if old in chain:
        fresh = chain[chain.index(old) + 1 :]
        return Item(session, "session", State.AHEAD, tip, old, len(fresh)), fresh
    state = apart(store, tip, old)
    if state is State.REWRITTEN and force:
        return Item(session, "session", State.REWRITTEN, tip, old, len(chain)), chain
    return Item(
        session, "session", State.DIVERGED if state is State.REWRITTEN else state, tip, old
    ), ()


def apart(store: Store, tip: Oid, old: Oid) -> State:
    """How the remote's end stands to ours, which does not come after it.

    A prune or purge leaves the checkpoints what they were, under other commits. What is missing
    here must have been dropped here: a session of this name that somebody else began is no other
    form of ours.
    """
    if not store.objects.exists(old):
        return State.DIVERGED
    theirs = list(store.history(old))
    if any(summary.commit == tip for summary in theirs):
        return State.BEHIND
    ours = {summary.id: summary.created for summary in store.history(tip)}
    missing = [summary.id for summary in theirs if summary.id not in ours]
    same = all(ours.get(summary.id, summary.created) == summary.created for summary in theirs)
    last = max(id.number for id in ours)
    rewritten = (
        same and theirs[0].id.number <= last and (not missing or _were_dropped(store, missing))
    )
    return State.REWRITTEN if rewritten else State.DIVERGED


def _were_dropped(store: Store, ids: Iterable[CheckpointId]) -> bool:
    """Whether prunes and deletes of this repository took all of them away."""
    operations = oplog.entries(store.repo)
    return all(
        any(a <= id.number <= b for op in operations for a, b in op.dropped.get(id.session, ()))
        for id in ids
    )


def _tags(to: Remote, outgoing: _Outgoing, there: dict[str, Oid], *, force: bool) -> list[Item]:
    items = []
    for name, oid in outgoing.tags.items():
        old = there.get(to.tags + name)
        moved = State.REWRITTEN if force else State.BEHIND
        state = State.NEW if old is None else State.SAME if old == oid else moved
        items.append(Item(name, "tag", state, oid, old))
    return items


def _there(to: Remote, item: Item) -> str:
    return (to.sessions if item.kind == "session" else to.tags) + item.name


def _track(store: Store, to: Remote, item: Item) -> None:
    """Note what the remote has now. Where that fails, the next fetch says it again."""
    name = f"{to.tracking}{item.kind}s/{item.name}"
    refs.update_ref(
        store.repo.common_dir, name, item.new, refs.read_ref(store.repo.common_dir, name)
    )


def _diverged(to: Remote, item: Item) -> Refused:
    return Refused(
        f"session {item.name} has checkpoints on {to.name} that are not in it here, and the other "
        "way round. "
        "Sessions are never merged: nothing was sent",
        hint=f"gitcp fetch {to.name}, then gitcp fork {to.name}/{item.name} --trust; "
        "after a prune or purge here: gitcp push --force; if a redacted copy is there: gitcp push "
        "--redact",
    )
