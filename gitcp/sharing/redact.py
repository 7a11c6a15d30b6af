"""Checkpoints as they may leave: without their secrets. (A text alone:
gitcp.secrets.checkpoint_scan.redacted.)

The chains here stay as they are. A redacted checkpoint keeps its id, and the same checkpoint is
redacted to the same commit every time, so that what was sent once is not sent again.
"""

from __future__ import annotations

from collections.abc import Iterable

from gitcp.lifecycle.edit import Edit, Editor
from gitcp.secrets import checkpoint_scan, scan_cache
from gitcp.secrets.checkpoint_scan import Sieve
from gitcp.store import Store, Summary


def chains(store: Store, nodes: Iterable[Summary], sieve: Sieve) -> Editor:
    """Checkpoints, the oldest first, as they may leave: `becomes` of the editor names the commit of
    each.

    They were searched before (`secrets.search`): what is known to be clean is not looked at. Writes
    objects that no ref names. Raises StoreDamaged.
    """
    made = Editor(
        store,
        Edit(lambda data: checkpoint_scan.redacted(data, sieve), clean=scan_cache.load(store.repo)),
    )
    made.chains(nodes)
    store.objects.flush(held=True)
    return made
