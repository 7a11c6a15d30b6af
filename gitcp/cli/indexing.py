"""Index conversations in the background, for the next `gitcp find`."""

from __future__ import annotations

import os

from gitcp.cli import background
from gitcp.store import Store


def begin(store: Store) -> None:
    """Start indexing what is not indexed in a process of its own, without waiting for it. At most
    one runs in a repository.
    """
    background.run_detached(lambda: _index(store), lambda _: None)


def _index(store: Store) -> None:
    from gitcp.git.repack import alone
    from gitcp.git.repo import Repository
    from gitcp.history.find import index_conversations
    from gitcp.history.text_index import TextIndex

    os.nice(10)
    # opened again: a process that reads objects is not shared with the parent
    fresh = Store(Repository.open(store.repo.root, store.repo.host))
    with alone(fresh.repo) as nobody:
        if nobody:
            index_conversations(fresh, TextIndex(fresh.repo))
