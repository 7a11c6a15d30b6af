"""Compare two checkpoints: paths, patches, messages. Stores nothing.

The differing paths come from the trees; the text of a patch is git's own, which knows binary files,
renames and odd names.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gitcp.git import trees
from gitcp.git.reader import ObjectReader
from gitcp.git.trees import TreeReader
from gitcp.history import appended
from gitcp.model import RESERVED, Capture, Checkpoint, Conversation, Entry, FileChange, Oid
from gitcp.store import Store, Summary
from gitcp.value import Value

if TYPE_CHECKING:
    from gitcp.adapters.base import Message
    from gitcp.git.repo import Repository
    from gitcp.history.databases import DatabaseChange

Git = Callable[..., bytes]
Paths = Sequence[bytes]

DEFAULTS = (
    "core.abbrev=auto",
    "diff.algorithm=default",
    "diff.context=3",
    "diff.indentHeuristic=true",
    "diff.interHunkContext=0",
    "diff.mnemonicPrefix=false",
    "diff.noPrefix=false",
    "diff.srcPrefix=a/",
    "diff.dstPrefix=b/",
    "diff.relative=false",
    "diff.renames=true",
    "diff.statGraphWidth=0",
    "diff.statNameWidth=0",
    "diff.suppressBlankEmpty=false",
    "diff.wsErrorHighlight=default",
)
"""git's defaults for what a patch looks like. With the user's own, `git apply` and programs could
not read it (`diff.noPrefix`).
"""

SETTINGS = tuple(word for setting in DEFAULTS for word in ("-c", setting))
PATCH = (*SETTINGS, "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short")
CHUNK = 500
"""Number of paths on one git command line."""


class Comparison(Value):
    """The differing paths, a function that returns the patch, which takes options of `git diff`,
    and one that returns the SQLite databases among them.
    """

    changes: tuple[FileChange, ...]
    text: Callable[..., bytes]
    databases: Callable[[], tuple[DatabaseChange, ...]] = tuple


def compare(store: Store, old: Oid | None, new: Oid, paths: Paths = ()) -> Comparison:
    """Compare the files of two stored trees, those of checkpoints or commits; `old` None stands for
    an empty tree.
    """
    empty = store.repo.object_format.empty_tree
    before = files_of(store, old) if old else empty
    changes = changed(store.reader, before, files_of(store, new), paths)
    growing = appended.between(store, old or empty, new).keys()
    text = patch_of(store.repo.git, store.reader, (old or empty, new), changes, paths, growing)
    return Comparison(changes, text, databases_of(store.reader, (old or empty, new), changes))


def databases_of(
    reader: ObjectReader, compared: tuple[Oid, Oid], changes: Sequence[FileChange]
) -> Callable[[], tuple[DatabaseChange, ...]]:
    """Return the function that compares the databases among the changed paths of two trees."""

    def databases() -> tuple[DatabaseChange, ...]:
        from gitcp.history import databases  # rarely needed, and SQLite takes 5 ms to load

        return tuple(databases.compare(reader, *compared, changes))

    return databases


def compare_conversations(
    store: Store, old: Conversation | None, new: Conversation | Capture | None
) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Return the messages that only `old` has, and those that only `new` has.

    A Capture stands for the agent's current files.
    """
    from gitcp.history import show  # a log compares no messages, and what reads them takes 2 ms

    before = tuple(show.messages(store, old)) if old else ()
    if isinstance(new, Capture):
        after = tuple(show.messages_now(new))
    else:
        after = tuple(show.messages(store, new)) if new else ()
    old_keys, new_keys = set(map(_key, before)), set(map(_key, after))
    return tuple(m for m in before if _key(m) not in new_keys), tuple(
        m for m in after if _key(m) not in old_keys
    )


def files_of(store: Store, root: Oid) -> Oid:
    """Return the tree of a checkpoint's files alone, given that of its commit; `store.objects` can
    read it.
    """
    return store.reader.name_tree(
        [entry for entry in store.reader.read_tree(root) if entry.name != RESERVED]
    )


def tree_before(store: Store, checkpoint: Checkpoint) -> Oid | None:
    """Return the tree that a checkpoint's files are compared with: that of its parent, else of the
    commit it is based on.
    """
    return tree_before_commit(store, store.summary(checkpoint.commit))


def tree_before_commit(store: Store, summary: Summary, parent: Summary | None = None) -> Oid | None:
    """Return what `tree_before` does, given the summary alone, or also that of its parent. A parent
    without files, as of an adopted conversation, is none to compare with.
    """
    if parent is None and summary.parent:
        parent = store.summary(summary.parent)
    if parent is not None and not is_without_files(parent):
        return parent.root
    return store.base_tree(Oid(summary.trailers.get("Gitcp-Base", "")) or None)


def is_without_files(summary: Summary) -> bool:
    """Return whether a checkpoint was made without the files and its tree is empty."""
    trailers = summary.trailers
    return trailers.get("Gitcp-Files") == "0 (0 changed)" and "Gitcp-Base" not in trailers


def staged(store: Store, checkpoint: Checkpoint) -> tuple[bytes, ...]:
    """Return the staged paths: those whose index entry differed from both the file and the HEAD
    commit.

    If that commit is gone, all that differed from the file.
    """
    base = checkpoint.snapshot.base.commit
    tree = store.base_tree(base)
    return tuple(
        entry.path
        for entry in checkpoint.snapshot.staged
        if tree is None
        or entry.intent_to_add
        or trees.lookup(store.reader, tree, entry.path) != Entry(entry.mode, entry.oid)
    )


def changed(reader: TreeReader, old: Oid, new: Oid, paths: Paths) -> tuple[FileChange, ...]:
    """Return the paths by which two trees differ; only those below `paths`, if given."""
    changes = trees.diff(reader, old, new)
    return tuple(change for change in changes if is_below(change.path, paths))


def is_below(path: bytes, tops: Paths) -> bool:
    """Return whether a path is one of these, or below one; true if there are none."""
    return not tops or any(path == top or path.startswith(top + b"/") for top in tops)


def patch_of(
    git: Git,
    reader: ObjectReader,
    compared: tuple[Oid, Oid],
    changes: Sequence[FileChange],
    paths: Paths,
    growing: Container[bytes],
) -> Callable[..., bytes]:
    """Return the function that runs git.

    It passes every path, so that gitcp's own directory is excluded. Of files stored as segments,
    which are some of those `growing`, git has only pointers: what it would say is replaced.
    """
    segmented = [
        each for each in changes if each.path in growing and appended.is_segmented(reader, each)
    ]
    if segmented:
        listed = [change.path for change in changes if change not in segmented]
    else:
        listed = [*(paths or [change.path.split(b"/", 1)[0] for change in changes])]
    tops = list(dict.fromkeys(listed))

    def text(*options: str) -> bytes:
        if not changes:
            return b""
        parts = [tops[start : start + CHUNK] for start in range(0, len(tops), CHUNK)]
        patches = (git(*PATCH, *options, *compared, "--", *part) for part in parts)
        is_stat = any(option.startswith("--stat") for option in options)
        patch = b"".join(patches)
        if b"\nBinary files " in patch:
            from gitcp.history import databases

            patch = databases.added_to(patch, databases_of(reader, compared, changes)())
        return patch + appended.patch(reader, segmented, stat=is_stat)

    return text


def lines(repo: Repository, old: bytes, new: bytes) -> tuple[bytes, ...]:
    """Return the lines by which two texts differ that are no files, each after its - or +.

    git compares them: difflib took minutes for 80,000 short lines.
    """
    from tempfile import TemporaryDirectory  # only for what no patch has

    from gitcp.git import scratch
    from gitcp.git.objects import Objects

    with TemporaryDirectory(prefix="gitcp-") as directory:
        temporary = scratch.alone(scratch.create(repo, Path(directory)))
        writer = Objects(temporary).writer
        sides = [writer.write_blob(data) for data in (old, new)]
        writer.flush()
        patch = temporary.git(*PATCH, "--text", "--unified=0", *sides)
    _, *hunks = patch.split(b"\n@@ ")
    listed = (line for hunk in hunks for line in hunk.split(b"\n")[1:])
    return tuple(line for line in listed if line[:1] in (b"-", b"+"))


def _key(message: Message) -> tuple[str, str, str | None, str | None]:
    return message.role, message.text, message.id, message.tool
