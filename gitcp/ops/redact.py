"""Checkpoints as they may leave: without their secrets. (A text alone: gitcp.ops.secrets.redacted.)

The chains here stay as they are. A redacted checkpoint keeps its id, and the same checkpoint is redacted to the same
commit every time, so that what was sent once is not sent again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gitcp.ops import scanned, secrets
from gitcp.ops.edit import Edit, Editor
from gitcp.ops.secrets import Finding
from gitcp.store import Store, Summary


def chains(store: Store, nodes: Iterable[Summary], allowed: Collection[str] = ()) -> tuple[Editor, tuple[Finding, ...]]:
    """Checkpoints, the oldest first, as they may leave: `becomes` of the editor names the commit of each. And what was
    found in them and is not in those.

    Writes objects that no ref names, and the scan's cache. Raises StoreDamaged.
    """
    nodes = list(nodes)
    found = secrets.findings(store, (node.commit for node in nodes), allowed)  # and what is clean need not be edited
    made = Editor(store, Edit(lambda data: secrets.redacted(data, allowed), clean=scanned.load(store.repo)))
    made.chains(nodes)
    store.objects.flush()
    return made, found
