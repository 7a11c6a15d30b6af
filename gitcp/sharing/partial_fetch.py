"""Fetch in part: commits, trees, metadata and conversations of a remote's sessions, and no file's
contents.

That is enough for `log` and `show`. What arrives is validated as far as it is there; whoever wants
to go on with it fetches it whole, and then it is validated whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gitcp.errors import RevisionNotFound
from gitcp.git import partial_clone, trees
from gitcp.git.partial_clone import Aside, Lazy
from gitcp.history import revisions
from gitcp.model import RESERVED, TREE, Oid
from gitcp.sharing import fetch
from gitcp.sharing.fetch import Fetched
from gitcp.sharing.remotes import Remote
from gitcp.store import CONVERSATION, METADATA, Store
from gitcp.value import replace

READ = (RESERVED + b"/" + METADATA, RESERVED + b"/" + CONVERSATION)


def fetch_part(store: Store, source: Remote, sessions: Iterable[str] = ()) -> tuple[Fetched, ...]:
    """Fetch sessions (all, if none is named) without the contents of their files.

    Writes below `<git dir>/gitcp/aside`, and nothing in the user's repository: no object, no ref,
    no setting. Raises RevisionNotFound for a session that the remote does not have, GitFailed where
    it cannot be reached.
    """
    place = partial_clone.make(store.repo, source.name, source.url)
    return fetch.fetch(
        _opened(place), replace(source, url=partial_clone.REMOTE), sessions, arrived=_complete
    )


def beside(store: Store, text: str) -> Store | None:
    """The store of what was fetched in part, if a revision is there and not in the user's
    repository.
    """
    place = partial_clone.find(store.repo, text.partition("/")[0]) if "/" in text else None
    if place is None:
        return None
    try:
        revisions.resolve_range(store, text, None)
    except RevisionNotFound:
        return _opened(place)
    return None


def _opened(place: Aside) -> Store:
    store = Store(place)
    store.objects = Lazy(place)
    return store


def _complete(store: Store, tip: Oid) -> None:
    """Get the blobs that a listing reads."""
    assert isinstance(store.repo, Aside)
    wanted = dict.fromkeys(oid for node in store.history(tip) for oid in _read_of(store, node.root))
    partial_clone.bring(store.repo, [oid for oid in wanted if not store.objects.exists(oid)])
    store.objects.flush()  # and what arrived is looked for again


def _read_of(store: Store, root: Oid) -> Iterator[Oid]:
    for path in READ:
        entry = trees.lookup(store.objects, root, path)
        if entry is not None and entry.mode == TREE:
            yield from (below.oid for _, below in trees.walk(store.objects, entry.oid))
        elif entry is not None:
            yield entry.oid
