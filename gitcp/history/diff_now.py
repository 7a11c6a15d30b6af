"""Compare a checkpoint with the current files. Stores nothing: for a patch, changed content goes to
a temporary repository.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gitcp.git.objects import Objects
from gitcp.git.repo import Repository
from gitcp.history.diff import Comparison, Git, Paths, changed, patch_of
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
        temporary = scratch(store.repo, Path(name))
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
        git, trees_compared = _git_in(temporary), (old.root, new)
        yield Comparison(
            changes, patch_of(git, objects.reader, trees_compared, changes, paths, growing)
        )


def _against(
    store: Store, objects: Objects, old: Checkpoint, new: Oid, paths: Paths
) -> tuple[FileChange, ...]:
    objects.reader.name_tree(store.reader.read_tree(old.snapshot.tree))
    return changed(objects.reader, old.snapshot.tree, new, paths)


def scratch(repo: Repository, directory: Path) -> Repository:
    """Create a temporary repository that reads the real one's objects and keeps new ones to
    itself.
    """
    for name in ("objects/info", "objects/pack", "refs"):
        (directory / name).mkdir(parents=True)
    (directory / "HEAD").write_text("ref: refs/heads/none\n", "ascii")
    (directory / "objects/info/alternates").write_bytes(
        os.fsencode(repo.common_dir / "objects") + b"\n"
    )
    (directory / "config").write_text(
        "[core]\n\trepositoryFormatVersion = 1\n"
        f"[extensions]\n\tobjectFormat = {repo.object_format.name}\n",
        "ascii",
    )
    return Repository(repo.root, directory, repo.host)


def _git_in(temporary: Repository) -> Git:
    def git(*args: str | bytes) -> bytes:
        return temporary.git(
            b"--git-dir=" + os.fsencode(temporary.git_dir), b"--work-tree=.", *args
        )

    return git
