"""What a remote has, as far as it is here: what it lists now, or what it had at the last fetch.

Tracking refs name a remote, not a URL: `git remote set-url` leaves them, and a branch that was
rewritten there because of a secret is still what was fetched. So a push asks the URL that it sends
to. What connects to nothing (`gitcp push --scan`) goes by the tracking refs, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache

from gitcp.errors import StoreDamaged
from gitcp.git import remote
from gitcp.git.remote import PEELED
from gitcp.model import Oid
from gitcp.secrets.known_secrets import Haves
from gitcp.sharing import remotes
from gitcp.sharing.remotes import Remote
from gitcp.store import Store

HEADS, TAGS, TRACKED = "refs/heads/", "refs/tags/", "refs/remotes/"

Asked = Callable[[], Haves]
"""Asks a remote what it has, when that matters, and once."""


def asking(store: Store, to: Remote) -> Asked:
    """Return what asks a remote for its branches, tags and sessions, in one request. It raises
    GitFailed, Refused.
    """
    return cache(lambda: _listed(store, to))


def _listed(store: Store, to: Remote) -> Haves:
    patterns = (f"{HEADS}*", f"{TAGS}*", f"{to.shared}*", f"{to.flat_sessions}*")
    listed = remote.peeled(store.repo, to.destination, *patterns)
    return _haves(store, listed, (to.shared, to.flat_sessions))


def at_last_fetch(store: Store, of: Remote) -> Haves:
    """Return what a remote had at the last fetch; nothing if it is pushed to at another URL than
    the one that is fetched from. Connects to nothing.
    """
    if of.push_url not in ("", of.url):
        return Haves()
    own = f"{TRACKED}{of.name}/"
    names = (each.name for each in remotes.listing(store.repo))
    others = tuple(f"{TRACKED}{name}/" for name in names if name.startswith(f"{of.name}/"))
    branches = store.repo.refs.list(own)
    tracked = {ref: oid for ref, oid in branches.items() if not ref.startswith(others or ("\0",))}
    sent = store.repo.refs.list(of.tracking)
    return _haves(store, {**tracked, **sent}, (of.tracking,))


def _haves(store: Store, listed: Mapping[str, Oid], sessions: tuple[str, ...]) -> Haves:
    """Divide refs into commits and tips of sessions, as far as they are here."""
    targets = {ref.removesuffix(PEELED): oid for ref, oid in sorted(listed.items())}
    present = {ref: oid for ref, oid in targets.items() if store.reader.exists(oid)}
    inside = {ref: oid for ref, oid in present.items() if ref.startswith(sessions)}
    return Haves(
        _commits(store, (oid for ref, oid in present.items() if ref not in inside)),
        _commits(store, inside.values()),
        all(ref in present for ref in targets if ref.startswith(HEADS)),
    )


def _commits(store: Store, oids: Iterable[Oid]) -> tuple[Oid, ...]:
    """Return the commits that these are or that their tags name, as far as they can be read."""
    commits = dict[Oid, None]()
    for oid in oids:
        with suppress(StoreDamaged):
            target = store.peel(oid)
            if store.reader.read(target)[0] == "commit":
                commits[target] = None
    return tuple(commits)
