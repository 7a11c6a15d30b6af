"""Fetch: what a remote has, checked whole, then named below `refs/gitcp/remotes/`. Sessions here
stay as they are.

The objects arrive without a name, each checked by git itself; only what passed every check of ours
gets one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from gitcp.errors import GitcpError, GitFailed, RevisionNotFound, StoreDamaged
from gitcp.git import partial_clone, refs, remote
from gitcp.model import Oid
from gitcp.sharing import verify_incoming
from gitcp.sharing.push import State, apart
from gitcp.sharing.remotes import Remote
from gitcp.store import Store
from gitcp.value import Value


class Fetched(Value):
    """One session of a remote: its end there, how it stands to the one here, how many checkpoints
    are new here.

    `refused` says why it was not taken, "" if it was. `state` is None where the remote was only
    listed.
    """

    session: str
    tip: Oid
    state: State | None = None
    checkpoints: int = 0
    refused: str = ""


def listing(store: Store, source: Remote) -> tuple[Fetched, ...]:
    """The sessions that a remote has. Downloads nothing else. Raises GitFailed."""
    found = remote.listed(store.repo, source.url, source.sessions + "*")
    return tuple(_named(source, found))


def fetch(
    store: Store,
    source: Remote,
    sessions: Iterable[str] = (),
    arrived: Callable[[Store, Oid], None] | None = None,
) -> tuple[Fetched, ...]:
    """Fetch sessions (all, if none is named) and the tags on them. `arrived`: what is done before
    one is looked at.

    Writes objects and refs below `refs/gitcp/remotes/<name>/`. What does not pass is left out and
    said. Raises RevisionNotFound for a session that the remote does not have, GitFailed where it
    cannot be reached.
    """
    found = listing(store, source)
    wanted = set(sessions)
    missing = sorted(wanted - {one.session for one in found})
    if missing:
        raise RevisionNotFound(
            f"{source.name} has no session {missing[0]!r}: nothing was fetched",
            hint=f"gitcp fetch {source.name} --list",
        )
    chosen = [one for one in found if not one.refused and (not wanted or one.session in wanted)]
    bad = _receive(store, source, chosen)
    store.objects.flush()
    taken = [bad.get(one.session) or _take(store, source, one, arrived) for one in chosen]
    _take_tags(store, source)
    return (*taken, *(one for one in found if one.refused and not wanted))


def _receive(store: Store, source: Remote, chosen: Sequence[Fetched]) -> dict[str, Fetched]:
    """Get the objects of sessions; those that git itself refused, by name. One bad session keeps no
    other back.
    """
    try:
        remote.receive(store.repo, source.url, [source.sessions + one.session for one in chosen])
    except GitFailed:
        if len(chosen) < 2:
            raise
    else:
        return {}
    refused = {}
    for one in chosen:
        try:
            remote.receive(store.repo, source.url, [source.sessions + one.session])
        except GitFailed as error:
            refused[one.session] = Fetched(one.session, one.tip, refused=str(error))
    return refused


def _named(source: Remote, found: dict[str, Oid]) -> Iterable[Fetched]:
    for ref, tip in found.items():
        name = ref.removeprefix(source.sessions)
        bad = "" if verify_incoming.is_session(name) else "its name cannot be that of a session"
        yield Fetched(name, tip, refused=bad)


def _take(
    store: Store, source: Remote, one: Fetched, arrived: Callable[[Store, Oid], None] | None
) -> Fetched:
    name, common = f"{source.tracking}sessions/{one.session}", store.repo.common_dir
    old, here = refs.read_ref(common, name), store.tip(one.session)
    known = frozenset(
        s.commit for tip in (old, here) if tip is not None for s in store.history(tip)
    )
    try:
        if arrived is not None:
            arrived(store, one.tip)
        fresh = verify_incoming.validate(store, one.session, one.tip, known)
    except (GitcpError, RecursionError) as error:
        return Fetched(one.session, one.tip, refused=str(error) or "it is nested too deeply")
    with store.lock():
        if not refs.update_ref(common, name, one.tip, old):
            return Fetched(one.session, one.tip, refused="another process fetched it meanwhile")
    partial_clone.forget(store.repo, source.name, name)
    return Fetched(one.session, one.tip, _state(store, one.tip, here), len(fresh))


def _state(store: Store, there: Oid, here: Oid | None) -> State:
    """How the remote's session stands to the one here, seen from here."""
    if here is None:
        return State.NEW
    if here == there:
        return State.SAME
    if any(summary.commit == here for summary in store.history(there)):
        return State.BEHIND
    ahead = any(summary.commit == there for summary in store.history(here))
    return State.AHEAD if ahead else apart(store, here, there)


def _take_tags(store: Store, source: Remote) -> None:
    """Name the tags that are on what was fetched. Another is passed over, as git passes over it."""
    tips = refs.list_refs(store.repo.common_dir, source.tracking + "sessions/").values()
    reached = {summary.commit for tip in tips for summary in store.history(tip)}
    found = remote.peeled(store.repo, source.url, source.tags + "*")
    named = (ref for ref in found if verify_incoming.is_session(ref.removeprefix(source.tags)))
    names = [ref for ref in named if found.get(ref + remote.PEELED) in {None, *reached}]
    _receive_tags(store, source, names)
    for ref in names:
        name = f"{source.tracking}tags/{ref.removeprefix(source.tags)}"
        try:
            if store.peel(found[ref]) not in reached:
                continue
        except StoreDamaged:
            continue
        with store.lock():
            refs.update_ref(
                store.repo.common_dir, name, found[ref], refs.read_ref(store.repo.common_dir, name)
            )


def _receive_tags(store: Store, source: Remote, names: Sequence[str]) -> None:
    """Get tags. One that git refuses keeps no other back; what did not come is not named."""
    try:
        remote.receive(store.repo, source.url, names)
    except GitFailed:
        for name in names if len(names) > 1 else ():
            with suppress(GitFailed):
                remote.receive(store.repo, source.url, [name])
    store.objects.flush()  # what arrived is looked for again
