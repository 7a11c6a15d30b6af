"""Which scans a save may trust: those of which a checkpoint references the file tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from gitcp.errors import StoreDamaged
from gitcp.model import Oid
from gitcp.saving import session
from gitcp.store import Store

RECENT = 16
"""Checkpoints of a session searched for the tree of the last scan: another working tree may have
added some.
"""


class LiveTrees:
    """The file trees of the last checkpoints of some sessions: their objects cannot be pruned while
    the refs exist.

    The state file was made from such a tree, by whichever session was saved last. Every session may
    trust it.
    """

    def __init__(self, store: Store, names: Iterable[str]) -> None:
        self._store = store
        self._names = tuple(dict.fromkeys(names))
        self._trusted: Oid | None = None

    def __contains__(self, tree: object) -> bool:
        match = next(
            (
                known_tree
                for name in self._names
                for known_tree in self._trees(name)
                if known_tree == tree
            ),
            None,
        )
        self._trusted = match or self._trusted
        return match is not None

    def is_still_valid(self) -> bool:
        """Return whether the trusted tree is still live. The caller holds the store's lock."""
        return self._trusted is None or self._trusted in self

    def _trees(self, name: str) -> Iterator[Oid]:
        """Yield the file trees of a session, newest first, up to the first unreadable
        checkpoint.
        """
        tip = self._store.tip(name)
        with suppress(StoreDamaged):
            for summary in self._store.history(tip, RECENT) if tip else ():
                yield self._store.files_tree(summary.root)


def live_trees(store: Store, name: str) -> LiveTrees:
    """Return the trees that a save into session `name` may trust: its own, and those of the session
    last used here.
    """
    # With two sessions taking turns in one working tree, every save scanned everything.
    return LiveTrees(store, filter(None, (name, session.last_used(store))))
