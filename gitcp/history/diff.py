"""What differs between two checkpoints, or between one and now: paths, patch text, messages. Stores
nothing.

Which paths differ is found out here, from the trees. The text of a patch is git's own: it knows
what is binary, renamed or oddly named. For `now` the files that changed are put into a scratch
store that is gone afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gitcp.adapters.base import Message
from gitcp.errors import StoreDamaged
from gitcp.git import trees
from gitcp.git.objects import Objects
from gitcp.git.repo import Repository
from gitcp.git.trees import TreeReader
from gitcp.history import show
from gitcp.model import RESERVED, Capture, Checkpoint, Conversation, FileChange, Oid
from gitcp.saving.save import live_trees
from gitcp.store import Store
from gitcp.value import Value
from gitcp.worktree.snapshot import Limits, take

Git = Callable[..., bytes]
Paths = Sequence[bytes]

PATCH = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short")
CHUNK = 500
"""So many paths go on one command line of git's."""


class Comparison(Value):
    """What differs, and the text of it: `text` takes options of `git diff`."""

    changes: tuple[FileChange, ...]
    text: Callable[..., bytes]


def compare(store: Store, old: Oid | None, new: Oid, paths: Paths = ()) -> Comparison:
    """Compare the files of two stored trees, which may be those of checkpoints; `old` None is
    nothing at all.
    """
    before = files_of(store, old) if old else trees.EMPTY_TREE
    changes = _changes(store.objects, before, files_of(store, new), paths)
    return Comparison(changes, _text(store.repo.git, old or trees.EMPTY_TREE, new, changes, paths))


@contextmanager
def compare_with_now(
    store: Store, old: Checkpoint, limits: Limits, paths: Paths = (), *, text: bool
) -> Iterator[Comparison]:
    """Compare a checkpoint's files with those in the working tree. Without `text`, no file is
    copied anywhere.
    """
    live = live_trees(store, old.id.session)
    if not text:
        objects = Objects(store.repo, dry=True)
        taken = take(store.repo, objects, limits, live)
        yield Comparison(_against(store, objects, old, taken.snapshot.tree, paths), lambda *_: b"")
        return
    import tempfile  # with shutil and random behind it: only for a patch

    with tempfile.TemporaryDirectory(prefix="gitcp-") as name:
        moment = scratch(store.repo, Path(name))
        objects = Objects(moment)
        new = take(store.repo, objects, limits, live).snapshot.tree
        objects.write_tree(objects.read_tree(new))  # a snapshot's own tree need not be stored
        objects.flush()
        changes = _against(store, objects, old, new, paths)
        git = _through(moment)
        yield Comparison(changes, _text(git, old.root, new, changes, paths))


def compare_conversations(
    store: Store, old: Conversation | None, new: Conversation | Capture | None
) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """The messages that only `old` has, and those that only `new` has. A Capture is read as its
    files are now.
    """
    before = tuple(show.messages(store, old)) if old else ()
    if isinstance(new, Capture):
        after = tuple(show.messages_now(new))
    else:
        after = tuple(show.messages(store, new)) if new else ()
    known, found = set(map(_key, before)), set(map(_key, after))
    return tuple(m for m in before if _key(m) not in found), tuple(
        m for m in after if _key(m) not in known
    )


def files_of(store: Store, root: Oid) -> Oid:
    """The tree of a checkpoint's files alone, from that of its commit; `store.objects` can read
    it.
    """
    return store.objects.name_tree(
        [entry for entry in store.objects.read_tree(root) if entry.name != RESERVED]
    )


def tree_before(store: Store, checkpoint: Checkpoint) -> Oid | None:
    """What a checkpoint's files are compared with: the tree of the one before it, else of the
    commit it stands on.
    """
    if checkpoint.parent is not None:
        return store.summary(checkpoint.parent).root
    return base_tree(store, checkpoint.snapshot.base.commit)


def base_tree(store: Store, commit: Oid | None) -> Oid | None:
    """The tree of a commit of the user's; None where there is none, or it is gone."""
    if commit is None:
        return None
    try:
        return Oid(store.objects.read_commit(commit)[5:45].decode("ascii"))
    except StoreDamaged:
        return None  # rebased away and collected; the checkpoint is whole without it


def _against(
    store: Store, objects: Objects, old: Checkpoint, new: Oid, paths: Paths
) -> tuple[FileChange, ...]:
    objects.name_tree(store.objects.read_tree(old.snapshot.tree))
    return _changes(objects, old.snapshot.tree, new, paths)


def _changes(reader: TreeReader, old: Oid, new: Oid, paths: Paths) -> tuple[FileChange, ...]:
    found = trees.diff(reader, old, new)
    return tuple(
        change for change in found if not paths or any(_is_below(change.path, top) for top in paths)
    )


def _is_below(path: bytes, top: bytes) -> bool:
    return path == top or path.startswith(top + b"/")


def _text(
    git: Git, old: Oid, new: Oid, changes: Sequence[FileChange], paths: Paths
) -> Callable[..., bytes]:
    """git's own text. It is given every path to look below, so that gitcp's own directory is not
    among them.
    """
    tops = list(dict.fromkeys(paths or [change.path.split(b"/", 1)[0] for change in changes]))

    def text(*options: str) -> bytes:
        if not changes:
            return b""
        parts = [tops[start : start + CHUNK] for start in range(0, len(tops), CHUNK)]
        return b"".join(git(*PATCH, *options, old, new, "--", *part) for part in parts)

    return text


def scratch(repo: Repository, directory: Path) -> Repository:
    """A repository for a moment: it reads the real one's objects and keeps new ones to itself."""
    for name in ("objects/info", "objects/pack", "refs"):
        (directory / name).mkdir(parents=True)
    (directory / "HEAD").write_text("ref: refs/heads/none\n", "ascii")
    (directory / "objects/info/alternates").write_bytes(
        os.fsencode(repo.common_dir / "objects") + b"\n"
    )
    return Repository(repo.root, directory, repo.host)


def _through(moment: Repository) -> Git:
    def git(*args: str | bytes) -> bytes:
        return moment.git(b"--git-dir=" + os.fsencode(moment.git_dir), b"--work-tree=.", *args)

    return git


def _key(message: Message) -> tuple[str, str, str | None, str | None]:
    return message.role, message.text, message.id, message.tool
