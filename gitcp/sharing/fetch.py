"""Fetch sessions from a remote, validate them, and store them below `refs/gitcp/remotes/`.

Local sessions are not touched. Objects arrive unreferenced and are checked by git; refs are created
only for what also passes gitcp's validation.

Without file contents (commits, trees, metadata and conversations) is enough for `log` and `show`.
That is validated as far as possible; fetching a session in full validates it in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from gitcp import wire
from gitcp.errors import GitcpError, GitFailed, RevisionNotFound, StoreBusy, StoreDamaged
from gitcp.git import partial_clone, refs, remote, trees
from gitcp.git.objects import Objects
from gitcp.git.partial_clone import LazyReader, RepositoryAside
from gitcp.history import revisions
from gitcp.model import RESERVED, TREE, Oid
from gitcp.sharing import catalogue, remote_refs, tracking, verify_incoming
from gitcp.sharing.catalogue import CatalogueEntry
from gitcp.sharing.push import RefState, compare_histories
from gitcp.sharing.remote_refs import RemoteRefs
from gitcp.sharing.remotes import Remote
from gitcp.state.rewrite import RefMove
from gitcp.store import CONVERSATION, MEMORY, METADATA, Store
from gitcp.value import Value, replace

TRIES = 3
"""Number of times that a remote is listed again because somebody pushed meanwhile."""


class Fetched(Value):
    """One session of a remote: its last commit, how it compares with the local one, and
    the number of new checkpoints.

    `dropped` are the checkpoints fetched before that the remote's session no longer has. They are
    in the trash, from which undoing the `operation` restores them; if it was fetched without files,
    nothing here names them. `refused` is the reason it was rejected, "" if it was not. `state` is
    None if the local one is damaged, and in a listing, which has the session's `entry` in the
    remote's catalogue instead, if there is one.
    """

    session: str
    tip: Oid
    state: RefState | None = None
    checkpoints: int = 0
    refused: str = ""
    entry: CatalogueEntry | None = None
    dropped: int = 0
    operation: int | None = None

    def to_json(self) -> wire.Json:
        """Return the fields that `gitcp fetch --json` prints, but for `remote` and `files`."""
        return {
            "session": self.session,
            "commit": self.tip,
            "state": self.state.value if self.state else None,
            "checkpoints": self.checkpoints,
            "dropped": self.dropped,
            "operation": self.operation,
            "refused": self.refused or None,
            "time": (self.entry and self.entry.time) or None,
            "agent": (self.entry and self.entry.agent) or None,
            "title": (self.entry and self.entry.title) or None,
        }


def require_accepted(source: Remote, sessions: tuple[Fetched, ...]) -> None:
    """Raise StoreDamaged if nothing of what a remote sent was intact."""
    refused = [one for one in sessions if one.refused]
    if refused and len(refused) == len(sessions):
        raise StoreDamaged(
            f"nothing was fetched. {refused[0].session}: {refused[0].refused}",
            hint=f"gitcp fetch {source.name} --list",
        )


def listing(store: Store, source: Remote, sessions: Iterable[str] = ()) -> tuple[Fetched, ...]:
    """Return sessions of a remote (default: all), the last saved first. Fetches only its catalogue,
    and lists what the remote's refs say if that is missing, stale or cannot be read. Raises
    RevisionNotFound as `fetch`, and GitFailed.
    """
    listed, entries = _described(store, source)
    requested = set(sessions)
    items = tuple(_items(listed))
    _require(source, requested, items)
    described = (
        replace(each, entry=entry)
        if (entry := entries.get(each.session)) and entry.tip == each.tip
        else each
        for each in items
        if not requested or each.session in requested
    )
    return tuple(sorted(described, key=_last_saved, reverse=True))


def _described(store: Store, source: Remote) -> tuple[RemoteRefs, catalogue.Lines]:
    """Return the refs of a remote and its catalogue, of the same moment if that can be had."""
    for _ in range(TRIES):
        listed = remote_refs.read(store, source, source.url)
        try:
            if listed.catalogue:
                return listed, catalogue.fetch(store, source, source.url, listed.catalogue)
        except StoreBusy:
            continue
        except GitcpError:
            break
        break
    return listed, {}


def _last_saved(one: Fetched) -> str:
    return one.entry.time if one.entry else ""


def fetch(
    store: Store,
    source: Remote,
    sessions: Iterable[str] = (),
    arrived: Callable[[Store, Oid], None] | None = None,
) -> tuple[Fetched, ...]:
    """Fetch sessions (default: all) and the tags on them. `arrived` is called
    before a session is validated.

    Writes objects and refs below `refs/gitcp/remotes/<name>/`, and the trash and the operation log
    for what the remote no longer has. Rejected sessions are reported in the result. Raises
    RevisionNotFound for a session that the remote does not have, and GitFailed if it cannot be
    reached.
    """
    remote_has = remote_refs.read(store, source, source.url)
    listed = tuple(_items(remote_has))
    requested = set(sessions)
    _require(source, requested, listed)
    chosen = [
        each for each in listed if not each.refused and (not requested or each.session in requested)
    ]
    rejected = _receive(store, source, remote_has, chosen)
    store.writer.flush()
    results = [
        rejected.get(each.session) or _update(store, source, each, arrived) for each in chosen
    ]
    _update_tags(store, source, remote_has, [each.session for each in chosen])
    return (*results, *(each for each in listed if each.refused and not requested))


def _require(source: Remote, requested: set[str], listed: Iterable[Fetched]) -> None:
    """Raise RevisionNotFound if a remote has not all of the requested sessions."""
    missing = sorted(requested - {each.session for each in listed})
    if missing:
        raise RevisionNotFound(
            f"{source.name} has no session {missing[0]!r}; nothing was fetched",
            hint=f"gitcp fetch {source.name} --list",
        )


def _receive(
    store: Store, source: Remote, remote_has: RemoteRefs, chosen: Sequence[Fetched]
) -> dict[str, Fetched]:
    """Download sessions; return those that git rejected, by name. A bad
    session does not affect others.
    """
    names = [remote_has.ref(source, each.session) for each in chosen]
    anew = any(_lacks(store, source, each.session) for each in chosen)
    try:
        remote.receive(store.repo, source.url, names, anew=anew)
    except GitFailed:
        if len(chosen) < 2:
            raise
    else:
        return {}
    refused = {}
    for each, name in zip(chosen, names, strict=True):
        try:
            remote.receive(store.repo, source.url, [name], anew=anew)
        except GitFailed as error:
            refused[each.session] = Fetched(each.session, each.tip, refused=str(error))
    return refused


def _lacks(store: Store, source: Remote, session: str) -> bool:
    """Return whether something of a session is lost here: git does not ask for what refs reach, so
    the remote has to send all of it again.
    """
    if any(store.freshener.is_damaged(Oid(each)) for each in store.freshener.damaged):
        return True
    return any(_known(store, tip) is None for tip in _tips(store, source, session))


def _tips(store: Store, source: Remote, session: str) -> tuple[Oid, ...]:
    """Return the ends of a session here: as it was fetched last, and of one's own."""
    fetched = store.repo.refs.list(f"{source.tracking}sessions/", refs.UNREADABLE_REF)
    tips = (fetched.get(f"{source.tracking}sessions/{session}"), store.tip(session))
    return tuple(filter(None, tips))


def _known(store: Store, tip: Oid) -> frozenset[Oid] | None:
    """Return the commits of a chain that is here, None if one of them cannot be read."""
    try:
        return frozenset(summary.commit for summary in store.history(tip))
    except StoreDamaged:
        return None


def _items(listed: RemoteRefs) -> Iterable[Fetched]:
    for name, (_, tip) in listed.sessions.items():
        problem = "" if verify_incoming.is_session(name) else "not a valid session name"
        yield Fetched(name, tip, refused=problem)


def _update(
    store: Store, source: Remote, one: Fetched, arrived: Callable[[Store, Oid], None] | None
) -> Fetched:
    name = f"{source.tracking}sessions/{one.session}"
    try:
        old, local = store.repo.refs.read(name), store.tip(one.session)
        # One damaged session kept all others from being fetched, and itself from being repaired.
        known = (_known(store, tip) for tip in _tips(store, source, one.session))
        known_commits = frozenset[Oid]().union(*filter(None, known))
        if arrived is not None:
            arrived(store, one.tip)
        fresh = verify_incoming.validate(store, one.session, one.tip, known_commits)
    except (GitcpError, RecursionError) as error:
        return Fetched(one.session, one.tip, refused=str(error) or "nested too deeply")
    dropped = tracking.dropped(store, old, one.tip)
    operation = None
    with store.lock():
        if dropped and not isinstance(store.repo, RepositoryAside):
            operation = tracking.replace(store, RefMove(name, old, one.tip), dropped, "fetch")
        else:
            store.repo.refs.update(name, one.tip, old)
        if store.repo.refs.read(name) != one.tip:
            return Fetched(
                one.session, one.tip, refused="fetched by another process at the same time"
            )
    partial_clone.forget(store.repo, source.name, name)
    return Fetched(
        one.session,
        one.tip,
        _compared(store, one.tip, local),
        len(fresh),
        dropped=len(dropped),
        operation=operation.number if operation else None,
    )


def _compared(store: Store, remote: Oid, local: Oid | None) -> RefState | None:
    """Return how the remote's session compares with the local one, None if that is damaged."""
    with suppress(StoreDamaged):
        return _state(store, remote, local)
    return None


def _state(store: Store, remote: Oid, local: Oid | None) -> RefState:
    """Return how the remote's session compares with the local one."""
    if local is None:
        return RefState.NEW
    if local == remote:
        return RefState.SAME
    if any(summary.commit == local for summary in store.history(remote)):
        return RefState.BEHIND
    ahead = any(summary.commit == remote for summary in store.history(local))
    return RefState.AHEAD if ahead else compare_histories(store, local, remote)


def _update_tags(
    store: Store, source: Remote, remote_has: RemoteRefs, sessions: Sequence[str]
) -> None:
    """Update the tracking refs of tags on the checkpoints of fetched sessions. Other tags are
    skipped, as git does.
    """
    fetched = [store.repo.refs.read(f"{source.tracking}sessions/{name}") for name in sessions]
    tips = filter(None, fetched)
    reached = {summary.commit for tip in tips for summary in store.readable(tip)}
    valid = (name for name in remote_has.tags if verify_incoming.is_session(name))
    names = [name for name in valid if _commit_of(store, remote_has, name) in reached]
    _receive_tags(store, source, [source.tags + name for name in names])
    for name in names:
        ref, new = f"{source.tracking}tags/{name}", remote_has.tags[name]
        try:
            if store.peel(new) not in reached:
                continue
        except StoreDamaged:
            continue
        with store.lock():
            store.repo.refs.update(ref, new, store.repo.refs.read(ref))


def _commit_of(store: Store, remote_has: RemoteRefs, tag: str) -> Oid:
    """Return the commit of a remote's tag: as it says, else as its object does, if that is here."""
    value = remote_has.peeled.get(tag, remote_has.tags[tag])
    # A bundle does not say it, and its objects are here: its annotated tags were left out.
    with suppress(StoreDamaged):
        return store.peel(value) if store.reader.exists(value) else value
    return value


def _receive_tags(store: Store, source: Remote, names: Sequence[str]) -> None:
    """Download tags. A tag that git rejects does not affect the others."""
    try:
        remote.receive(store.repo, source.url, names)
    except GitFailed:
        # One bad tag kept all others from being fetched.
        for name in names if len(names) > 1 else ():
            with suppress(GitFailed):
                remote.receive(store.repo, source.url, [name])
    store.writer.flush()  # forget cached lookups: the objects exist now


READ = tuple(RESERVED + b"/" + name for name in (METADATA, CONVERSATION, MEMORY))


def fetch_part(store: Store, source: Remote, sessions: Iterable[str] = ()) -> tuple[Fetched, ...]:
    """Fetch sessions (default: all) without the contents of their files.

    Writes only below `<git dir>/gitcp/aside`. Raises RevisionNotFound for a session that the remote
    does not have, and GitFailed if it cannot be reached.
    """
    aside = partial_clone.make(store.repo, source.name, source.url)
    return fetch(
        _open_store(aside),
        replace(source, url=partial_clone.REMOTE),
        sessions,
        arrived=_fetch_blobs,
    )


def find_store(store: Store, text: str) -> Store | None:
    """Return the store of a partially fetched remote if `text` names a revision only it has."""
    aside = partial_clone.find(store.repo, text.partition("/")[0]) if "/" in text else None
    if aside is None:
        return None
    try:
        revisions.resolve_range(store, text, None)
    except RevisionNotFound:
        return _open_store(aside)
    return None


def _open_store(aside: RepositoryAside) -> Store:
    store = Store(aside)
    store.objects = Objects(aside, reader=LazyReader)
    return store


def _fetch_blobs(store: Store, tip: Oid) -> None:
    """Fetch the blobs that a listing reads."""
    assert isinstance(store.repo, RepositoryAside)
    blobs = dict.fromkeys(
        oid for node in store.history(tip) for oid in _metadata_blobs(store, node.root)
    )
    partial_clone.bring(store.repo, [oid for oid in blobs if not store.reader.exists(oid)])
    store.writer.flush()  # forget cached lookups: the blobs exist now


def _metadata_blobs(store: Store, root: Oid) -> Iterator[Oid]:
    for path in READ:
        entry = trees.lookup(store.reader, root, path)
        if entry is not None and entry.mode == TREE:
            yield from (child.oid for _, child in trees.walk(store.reader, entry.oid))
        elif entry is not None:
            yield entry.oid
