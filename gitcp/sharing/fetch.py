"""Fetch sessions from a remote, validate them, and store them below `refs/gitcp/remotes/`.

Local sessions are not touched. Objects arrive unreferenced and are checked by git; refs are created
only for what also passes gitcp's validation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from gitcp.errors import GitcpError, GitFailed, RevisionNotFound, StoreDamaged
from gitcp.git import partial_clone, remote
from gitcp.model import Oid
from gitcp.sharing import verify_incoming
from gitcp.sharing.push import State, compare_histories
from gitcp.sharing.remotes import Remote
from gitcp.store import Store
from gitcp.value import Value


class Fetched(Value):
    """One session of a remote: its last commit, how it compares with the local one, and
    the number of new checkpoints.

    `refused` is the reason it was rejected, "" if it was not. `state` is None in a listing.
    """

    session: str
    tip: Oid
    state: State | None = None
    checkpoints: int = 0
    refused: str = ""


def listing(store: Store, source: Remote) -> tuple[Fetched, ...]:
    """Return the sessions that a remote has. Downloads nothing else. Raises GitFailed."""
    remote_refs = remote.listed(store.repo, source.url, source.sessions + "*")
    return tuple(_items(source, remote_refs))


def fetch(
    store: Store,
    source: Remote,
    sessions: Iterable[str] = (),
    arrived: Callable[[Store, Oid], None] | None = None,
) -> tuple[Fetched, ...]:
    """Fetch sessions (default: all) and the tags on them. `arrived` is called
    before a session is validated.

    Writes objects and refs below `refs/gitcp/remotes/<name>/`. Rejected sessions are reported in
    the result. Raises RevisionNotFound for a session that the remote does not have, and
    GitFailed if it cannot be reached.
    """
    listed = listing(store, source)
    requested = set(sessions)
    missing = sorted(requested - {each.session for each in listed})
    if missing:
        raise RevisionNotFound(
            f"{source.name} has no session {missing[0]!r}; nothing was fetched",
            hint=f"gitcp fetch {source.name} --list",
        )
    chosen = [
        each for each in listed if not each.refused and (not requested or each.session in requested)
    ]
    rejected = _receive(store, source, chosen)
    store.writer.flush()
    results = [
        rejected.get(each.session) or _update(store, source, each, arrived) for each in chosen
    ]
    _update_tags(store, source)
    return (*results, *(each for each in listed if each.refused and not requested))


def _receive(store: Store, source: Remote, chosen: Sequence[Fetched]) -> dict[str, Fetched]:
    """Download sessions; return those that git rejected, by name. A bad
    session does not affect others.
    """
    try:
        remote.receive(store.repo, source.url, [source.sessions + each.session for each in chosen])
    except GitFailed:
        if len(chosen) < 2:
            raise
    else:
        return {}
    refused = {}
    for each in chosen:
        try:
            remote.receive(store.repo, source.url, [source.sessions + each.session])
        except GitFailed as error:
            refused[each.session] = Fetched(each.session, each.tip, refused=str(error))
    return refused


def _items(source: Remote, listed: dict[str, Oid]) -> Iterable[Fetched]:
    for ref, tip in listed.items():
        name = ref.removeprefix(source.sessions)
        problem = "" if verify_incoming.is_session(name) else "not a valid session name"
        yield Fetched(name, tip, refused=problem)


def _update(
    store: Store, source: Remote, one: Fetched, arrived: Callable[[Store, Oid], None] | None
) -> Fetched:
    name = f"{source.tracking}sessions/{one.session}"
    old, local = store.repo.refs.read(name), store.tip(one.session)
    known_commits = frozenset(
        s.commit for tip in (old, local) if tip is not None for s in store.history(tip)
    )
    try:
        if arrived is not None:
            arrived(store, one.tip)
        fresh = verify_incoming.validate(store, one.session, one.tip, known_commits)
    except (GitcpError, RecursionError) as error:
        return Fetched(one.session, one.tip, refused=str(error) or "nested too deeply")
    with store.lock():
        if not store.repo.refs.update(name, one.tip, old):
            return Fetched(
                one.session, one.tip, refused="fetched by another process at the same time"
            )
    partial_clone.forget(store.repo, source.name, name)
    return Fetched(one.session, one.tip, _state(store, one.tip, local), len(fresh))


def _state(store: Store, remote: Oid, local: Oid | None) -> State:
    """Return how the remote's session `there` compares with the local one."""
    if local is None:
        return State.NEW
    if local == remote:
        return State.SAME
    if any(summary.commit == local for summary in store.history(remote)):
        return State.BEHIND
    ahead = any(summary.commit == remote for summary in store.history(local))
    return State.AHEAD if ahead else compare_histories(store, local, remote)


def _update_tags(store: Store, source: Remote) -> None:
    """Update the tracking refs of tags on fetched checkpoints. Other tags are skipped, as git
    does.
    """
    tips = store.repo.refs.list(source.tracking + "sessions/").values()
    reached = {summary.commit for tip in tips for summary in store.history(tip)}
    listed = remote.peeled(store.repo, source.url, source.tags + "*")
    valid = (ref for ref in listed if verify_incoming.is_session(ref.removeprefix(source.tags)))
    names = [ref for ref in valid if listed.get(ref + remote.PEELED) in {None, *reached}]
    _receive_tags(store, source, names)
    for ref in names:
        name = f"{source.tracking}tags/{ref.removeprefix(source.tags)}"
        try:
            if store.peel(listed[ref]) not in reached:
                continue
        except StoreDamaged:
            continue
        with store.lock():
            store.repo.refs.update(name, listed[ref], store.repo.refs.read(name))


def _receive_tags(store: Store, source: Remote, names: Sequence[str]) -> None:
    """Download tags. A tag that git rejects does not affect the others."""
    try:
        remote.receive(store.repo, source.url, names)
    except GitFailed:
        for name in names if len(names) > 1 else ():
            with suppress(GitFailed):
                remote.receive(store.repo, source.url, [name])
    store.writer.flush()  # forget cached lookups: the objects exist now
