"""Redact checkpoints before they leave the machine. For plain text, see
gitcp.secrets.checkpoint_scan.redacted.

The local chains stay as they are. A redacted checkpoint keeps its id, and redacting it again gives
the same commit, so nothing is sent twice.
"""

from __future__ import annotations

from collections.abc import Iterable

from gitcp.lifecycle.edit import Edit, Editor
from gitcp.secrets import checkpoint_scan, scan_cache
from gitcp.secrets.checkpoint_scan import Sieve
from gitcp.store import Store, Summary


def chains(store: Store, nodes: Iterable[Summary], sieve: Sieve) -> Editor:
    """Redact the checkpoints `nodes`, oldest first. The result's `becomes` maps old to new commits.

    Expects that `secrets.search` ran before: blobs known to be clean are skipped. Writes objects
    that no ref names. Raises StoreDamaged.
    """
    editor = Editor(
        store,
        Edit(lambda data: checkpoint_scan.redacted(data, sieve), clean=scan_cache.load(store.repo)),
    )
    editor.chains(nodes)
    store.writer.flush(keep=True)
    return editor
