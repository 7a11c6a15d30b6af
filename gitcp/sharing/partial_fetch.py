"""Fetch a remote's sessions without file contents: commits, trees, metadata and conversations.

Enough for `log` and `show`. What arrives is validated as far as possible; fetching a
session in full validates it in full.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gitcp.errors import RevisionNotFound
from gitcp.git import partial_clone, trees
from gitcp.git.objects import Objects
from gitcp.git.partial_clone import LazyReader, RepositoryAside
from gitcp.history import revisions
from gitcp.model import RESERVED, TREE, Oid
from gitcp.sharing import fetch
from gitcp.sharing.fetch import Fetched
from gitcp.sharing.remotes import Remote
from gitcp.store import CONVERSATION, METADATA, Store
from gitcp.value import replace

READ = (RESERVED + b"/" + METADATA, RESERVED + b"/" + CONVERSATION)


def fetch_part(store: Store, source: Remote, sessions: Iterable[str] = ()) -> tuple[Fetched, ...]:
    """Fetch sessions (default: all) without the contents of their files.

    Writes only below `<git dir>/gitcp/aside`. Raises RevisionNotFound for a session that the remote
    does not have, and GitFailed if it cannot be reached.
    """
    aside = partial_clone.make(store.repo, source.name, source.url)
    return fetch.fetch(
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
