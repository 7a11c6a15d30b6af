"""Files that git would not commit as they are: a filter changes them first, such as one that
encrypts.

A checkpoint has the bytes of the working tree, for a restore needs them. So what leaves is plain
text where a commit has the encrypted one. This is asked of everything that leaves with files;
no filter is run for it. A file counts unless it is as a commit has it already.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from gitcp import humanize
from gitcp.errors import FilteredFiles
from gitcp.git import filters, trees
from gitcp.git.filters import ATTRIBUTES
from gitcp.model import GITLINK, RESERVED, SYMLINK, TREE, FileChange, Oid
from gitcp.store import Store
from gitcp.worktree import convert
from gitcp.worktree.paths import display

LFS = "lfs"
MOST = 20
"""Maximum paths in a message."""

Drivers = dict[bytes, str]
"""The names of filters, by path."""


def in_checkpoints(store: Store, commits: Sequence[Oid], sent: Oid | None = None) -> Drivers:
    """Return the files in checkpoints, given oldest first, that git would filter before it commits
    them, with their filters. What is in the checkpoint `sent` has left before.
    """
    before = store.summary(sent).root if sent else None
    sources: dict[Oid | None, None] = {}
    contents: dict[bytes, set[Oid]] = {}
    for number, commit in enumerate(commits):
        summary = store.summary(commit)
        named = summary.trailers.get("Gitcp-Base")
        base = store.base_tree(Oid(named) if named else None)
        changes = list(trees.diff(store.reader, before or base, summary.root))
        if number == 0 or any(_is_attributes(change.path) for change in changes):
            sources[summary.root] = None
        sources[base] = None
        for change in filter(_is_file, changes):
            if change.new and not _has(store, base, change.path, change.new.oid):
                contents.setdefault(change.path, set()).add(change.new.oid)
        before = summary.root
    drivers = of_paths(store, sources, contents)
    head = store.base_tree(store.repo.head().commit)
    return {
        path: driver
        for path, driver in drivers.items()
        if not is_lfs(store, driver)
        and any(not _is_harmless(store, head, path, oid) for oid in contents[path])
    }


def in_changes(store: Store, pairs: Iterable[tuple[Oid | None, Oid]]) -> Drivers:
    """Return the files that differ between two trees each and that git would filter, with their
    filters.
    """
    sources: dict[Oid | None, None] = {}
    paths: set[bytes] = set()
    for old, new in pairs:
        changed = [change.path for change in trees.diff(store.reader, old, new)]
        if not sources or any(map(_is_attributes, changed)):
            sources |= {new: None, old: None}
        paths.update(path for path in changed if not path.startswith(RESERVED + b"/"))
    drivers = of_paths(store, sources, paths)
    return {path: driver for path, driver in drivers.items() if not is_lfs(store, driver)}


def of_paths(store: Store, sources: Iterable[Oid | None], paths: Collection[bytes]) -> Drivers:
    """Return the filters of paths by the attributes in these trees, else in the working tree,
    without those that change nothing in a commit. A filter that is not configured counts: nobody
    knows what it would do.
    """
    if not paths or store.repo.is_own:  # without git, nothing is committed
        return {}
    named: Drivers = {}
    asked: list[Mapping[bytes, Oid] | None] = [None]
    for tree in sources:
        files = _attribute_files(store, tree, paths) if tree else {}
        if files and files not in asked:
            asked.insert(-1, files)
    for source in asked:
        named = {**filters.named(store.repo, source, paths), **named}
    return {path: name for path, name in named.items() if _cleans(store, name)}


def is_lfs(store: Store, driver: str) -> bool:
    """Return whether a filter is Git LFS: it hides nothing, for git sends the content as well."""
    settings = _settings(store, driver)
    commands = (settings.get("clean", ""), settings.get("process", ""))
    return driver == LFS and (not any(commands) or any("git-lfs" in each for each in commands))


def refused(drivers: Mapping[bytes, str], outcome: str) -> FilteredFiles:
    """Return the error that lists the files; `outcome` says what was not done."""
    count = humanize.count(len(drivers), "file")
    return FilteredFiles(
        f"{count} would leave in plain text: git filters them in commits, gitcp does not in "
        f"checkpoints; {outcome}",
        lines(drivers),
        hint="--allow-filtered sends them as they are in the working tree",
    )


def lines(drivers: Mapping[bytes, str]) -> tuple[str, ...]:
    """Return a line for each file, with its filter."""
    listed = [f"{display(path)}  (filter {drivers[path]})" for path in sorted(drivers)]
    return tuple(humanize.listed(listed, MOST))


def _attribute_files(store: Store, tree: Oid, paths: Iterable[bytes]) -> dict[bytes, Oid]:
    """Return the attribute files of a tree that apply to any of these paths."""
    files = {}
    for directory in sorted({above for path in paths for above in _directories(path)}):
        path = directory + ATTRIBUTES
        entry = trees.lookup(store.reader, tree, path)
        if entry is not None and _is_content(entry.mode):
            files[path] = entry.oid
    return files


def _directories(path: bytes) -> Iterator[bytes]:
    """Yield the directories above a path, each with a slash at its end, and the root as b""."""
    yield b""
    yield from (path[: at + 1] for at, byte in enumerate(path) if byte == ord("/"))


def _cleans(store: Store, driver: str) -> bool:
    settings = _settings(store, driver)
    runs = any(settings.get(key) for key in ("clean", "process"))
    return runs or not settings or settings.get("required", "false") not in ("false", "")


def _settings(store: Store, driver: str) -> dict[str, str]:
    prefix, config = f"filter.{driver}.", store.repo.config
    return {key[len(prefix) :]: config[key] for key in config if key.startswith(prefix)}


def _is_file(change: FileChange) -> bool:
    is_own = change.path.startswith(RESERVED + b"/")
    return change.new is not None and _is_content(change.new.mode) and not is_own


def _is_content(mode: int) -> bool:
    return mode not in (SYMLINK, GITLINK, TREE)


def _is_attributes(path: bytes) -> bool:
    return path.rpartition(b"/")[2] == ATTRIBUTES


def _is_harmless(store: Store, head: Oid | None, path: bytes, oid: Oid) -> bool:
    """Return whether a commit has the file like this, or nothing is in it."""
    data = store.reader.read_blob(oid)
    return not data or convert.pointer_of(data) is not None or _has(store, head, path, oid)


def _has(store: Store, tree: Oid | None, path: bytes, oid: Oid) -> bool:
    entry = trees.lookup(store.reader, tree, path) if tree else None
    return entry is not None and entry.oid == oid
