"""Compare a checkpoint with the current files. Stores nothing: for a patch, changed content goes to
a temporary repository.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gitcp.git import scratch
from gitcp.git.objects import Objects
from gitcp.history.diff import Comparison, Paths, changed, databases_of, patch_of
from gitcp.model import Checkpoint, FileChange, Oid
from gitcp.saving.live_trees import live_trees
from gitcp.store import Store, require_files
from gitcp.worktree.snapshot import Limits, take


@contextmanager
def compare(
    store: Store, old: Checkpoint, limits: Limits, paths: Paths = (), *, text: bool
) -> Iterator[Comparison]:
    """Compare a checkpoint's files with the working tree. Without `text`, no file content is
    copied.
    """
    require_files(old)
    live = live_trees(store, old.id.session)
    if not text:
        objects = Objects(store.repo, dry=True)
        current = take(store.repo, objects, limits, live, watched=True)
        yield Comparison(
            _against(store, objects, old, current.snapshot.tree, paths), lambda *_: b""
        )
        return
    import tempfile  # imports shutil and random: only for a patch

    with tempfile.TemporaryDirectory(prefix="gitcp-") as name:
        temporary = scratch.create(store.repo, Path(name))
        objects = Objects(temporary)
        snapshot = take(store.repo, objects, limits, live, watched=True).snapshot
        new = snapshot.tree
        objects.writer.write_tree(
            objects.reader.read_tree(new)
        )  # a snapshot does not write its root tree
        objects.writer.flush()
        changes = _against(store, objects, old, new, paths)
        converted = (*old.snapshot.converted, *snapshot.converted)
        growing = {each.path for each in converted if each.segments}
        git, trees_compared = temporary.git, (old.root, new)
        text_of = patch_of(git, objects.reader, trees_compared, changes, paths, growing)
        yield Comparison(changes, text_of, databases_of(objects.reader, trees_compared, changes))


def _against(
    store: Store, objects: Objects, old: Checkpoint, new: Oid, paths: Paths
) -> tuple[FileChange, ...]:
    objects.reader.name_tree(store.reader.read_tree(old.snapshot.tree))
    return changed(objects.reader, old.snapshot.tree, new, paths)
