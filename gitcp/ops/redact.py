"""Checkpoints as they may leave: without their secrets. (A text alone: gitcp.ops.secrets.redacted.)

The chains here stay as they are. A redacted checkpoint keeps its id, and the same checkpoint is redacted to the same
commit every time, so that what was sent once is not sent again.
"""

from __future__ import annotations

from collections.abc import Iterable

from gitcp.ops import scanned, secrets
from gitcp.ops.edit import Edit, Editor
from gitcp.ops.secrets import Sieve
from gitcp.store import Store, Summary


def chains(store: Store, nodes: Iterable[Summary], sieve: Sieve) -> Editor:
    """Checkpoints, the oldest first, as they may leave: `becomes` of the editor names the commit of each.

    They were searched before (`secrets.search`): what is known to be clean is not looked at. Writes objects that no
    ref names. Raises StoreDamaged.
    """
    made = Editor(store, Edit(lambda data: secrets.redacted(data, sieve), clean=scanned.load(store.repo)))
    made.chains(nodes)
    store.objects.flush(held=True)
    return made
