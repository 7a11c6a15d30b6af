"""Compute the disk usage of checkpoints: total, shared with the project's
history, growth, largest paths.

git computes the sizes on disk: compressed, and as deltas where packed. Writes nothing. Walks the
trees once to list the objects, and again for what the project, a prune and the trash have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import timedelta
from typing import NamedTuple

from gitcp.errors import GitFailed, StoreDamaged
from gitcp.git import damage, refs
from gitcp.git.promised import AS_FAR_AS_HERE, AS_FAR_AS_PROMISED
from gitcp.lifecycle import prune
from gitcp.model import Oid
from gitcp.restoring.installed import written
from gitcp.state import rewrite, trash
from gitcp.state.rewrite import Forest
from gitcp.store import SEGMENT, Store, Summary
from gitcp.value import Value

RECENT = timedelta(days=7)
CONVERSATION = b".gitcp/conversation/"
LISTED = ("rev-list", "--objects", AS_FAR_AS_HERE)
SHAPE = "--batch-check=%(objectname) %(objecttype) %(objectsize:disk) %(rest)"


class Large(Value):
    """The disk usage of all versions of a path."""

    path: bytes
    bytes: int
    versions: int


class SizeShare(Value):
    """The checkpoints of one day or session, and the bytes that they added: data that no earlier
    checkpoint has.
    """

    name: str
    checkpoints: int
    bytes: int


class _Object(NamedTuple):
    """An object as git lists it: id, type, bytes on disk, and the path it was found at."""

    oid: str
    kind: bytes
    size: int
    path: bytes


class Stats(Value):
    """Disk usage. `bytes` is data that only checkpoints have, `shared` data that is
    also in the project's own history.

    `conversations` is a part of `bytes`. `recent` and `recent_bytes` are the checkpoints of the
    last seven days and the data they added. `prune` and `prune_bytes` are what `delete --old`
    would drop, and the data only these checkpoints have. `days` are those with checkpoints, by UTC,
    oldest first; `by_session` has the largest first. `steps` are the checkpoints, if all are of one
    day. `installed` is the data of files that `gitcp enable` writes, which are not among `largest`.
    """

    sessions: int
    checkpoints: int
    tags: int
    bytes: int
    shared: int
    conversations: int
    recent: int
    recent_bytes: int
    trash: int
    trash_bytes: int
    prune: int
    prune_bytes: int
    largest: tuple[Large, ...]
    days: tuple[SizeShare, ...]
    by_session: tuple[SizeShare, ...]
    steps: tuple[SizeShare, ...] = ()
    installed: int = 0


def stats(store: Store, most: int = 5) -> Stats:
    """Compute the usage of everything readable, with the `most` largest paths.
    Writes nothing. Raises GitFailed.
    """
    try:
        return _stats(store, most, lambda _: True)
    except GitFailed:  # git computes nothing if a tree is damaged
        return _stats(
            store,
            most,
            lambda node: damage.lacking(store.reader, store.freshener, node.root) is None,
        )


def _stats(store: Store, most: int, counts: Callable[[Summary], bool]) -> Stats:
    forest = rewrite.read(store, despite_damage=True)
    roots = {commit: node.root for commit, node in forest.nodes.items() if counts(node)}
    project = project_trees(store, forest)
    counted = sorted((forest.nodes[commit] for commit in roots), key=lambda node: node.created)
    objects = _objects(store, [node.root for node in counted], project)
    weighed = _by_path(objects)
    size = sum(each.size for each in objects)
    growth = _growth(counted, objects)
    horizon = store.repo.host.now() - RECENT
    recent = [added for node, added in growth if node.created >= horizon]
    dropped = {
        node.commit for node, _ in prune.plan_for(store, forest, prune.PruneRequest()).dropped
    }
    kept = {root for commit, root in roots.items() if commit not in dropped}
    is_all_kept = len(kept) == len(set(roots.values()))
    entries = trash.entries(store)
    forests = (entry.read(store, despite_damage=True) for entry in entries)
    in_trash = [node.root for each in forests for node in each.nodes.values() if counts(node)]
    own = written(weighed.keys())
    days = _shares((node.created.date().isoformat(), added) for node, added in growth)
    return Stats(
        sessions=len(forest.sessions),
        checkpoints=len(roots),
        tags=len(forest.tags),
        bytes=size,
        shared=usage(store, roots.values()) - size if project else 0,
        conversations=sum(e.bytes for path, e in weighed.items() if path.startswith(CONVERSATION)),
        recent=len(recent),
        recent_bytes=sum(recent),
        trash=len(entries),
        trash_bytes=usage(store, in_trash, {*project, *roots.values()}),
        prune=len(dropped),
        prune_bytes=0 if is_all_kept else size - usage(store, kept, project),
        largest=_largest(weighed, own)[:most],
        days=days,
        by_session=_largest_first(_shares((node.id.session, added) for node, added in growth)),
        steps=_shares((str(node.id), added) for node, added in growth) if len(days) == 1 else (),
        installed=sum(weighed[path].bytes for path in own),
    )


def _largest(weighed: Mapping[bytes, Large], own: AbstractSet[bytes]) -> tuple[Large, ...]:
    """Return the project's paths, the largest first, without gitcp's `own` ones."""
    paths = (path for path in weighed if path and not path.startswith(b".gitcp/"))
    each = (weighed[path] for path in paths if path not in own)
    return tuple(sorted(each, key=lambda large: (-large.bytes, large.path)))


def _largest_first(shares: Iterable[SizeShare]) -> tuple[SizeShare, ...]:
    return tuple(sorted(shares, key=lambda share: (-share.bytes, share.name)))


def _growth(counted: Sequence[Summary], objects: Iterable[_Object]) -> list[tuple[Summary, int]]:
    """Return the checkpoints, each with the bytes that it added to those before it."""
    added = _by_tree(objects, {node.root for node in counted})
    return [(node, added.pop(node.root, 0)) for node in counted]


def _shares(growth: Iterable[tuple[str, int]]) -> tuple[SizeShare, ...]:
    """Return the shares by name, in the order of their first checkpoint, given the name and the
    added bytes of each checkpoint.
    """
    counts: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for name, added in growth:
        counts[name] = counts.get(name, 0) + 1
        sizes[name] = sizes.get(name, 0) + added
    return tuple(SizeShare(name, count, sizes[name]) for name, count in counts.items())


def usage(store: Store, trees: Iterable[Oid], without: Iterable[Oid] = ()) -> int:
    """Return the bytes on disk of all objects in `trees` that are not in `without`."""
    revisions = _rev_list_input(trees, without)
    return (
        int(store.repo.git(*LISTED, "--disk-usage", "--stdin", input=revisions)) if revisions else 0
    )


def is_whole(store: Store, trees: Iterable[Oid]) -> bool:
    """Return whether git finds everything in these trees, and none of it is known to be damaged."""
    roots = tuple(trees)
    # git 2.47 passes over a tree that is missing: its session was pruned as an undamaged one.
    if not all(map(store.reader.exists, roots)):
        return False
    try:
        listing = store.repo.git(
            "rev-list", "--objects", AS_FAR_AS_PROMISED, "--stdin", input=_rev_list_input(roots, ())
        )
    except GitFailed:
        return False
    known = damage.known(store.repo.common_dir)
    return not known or known.isdisjoint(
        line.partition(b" ")[0].decode("ascii") for line in listing.splitlines()
    )


def _objects(store: Store, trees: Iterable[Oid], without: Iterable[Oid]) -> list[_Object]:
    """Return the objects in `trees` that are not in `without`, each with the first tree that has
    it: git lists a tree, then what is new in it, then the next tree.
    """
    revisions = _rev_list_input(trees, without)
    listed = store.repo.git(*LISTED, "--stdin", input=revisions) if revisions else b""
    lines = store.repo.git("cat-file", SHAPE, input=listed).splitlines()
    fields = (line.split(b" ", 3) for line in lines)
    return [_Object(oid.decode(), kind, int(size), path) for oid, kind, size, path in fields]


def _by_path(objects: Iterable[_Object]) -> Mapping[bytes, Large]:
    """Return the bytes on disk by path; trees have the path b"". Segments count as their file, and
    their pointers as its versions.
    """
    sizes: Counter[bytes] = Counter()
    versions: Counter[bytes] = Counter()
    for each in objects:
        segment = SEGMENT.fullmatch(each.path) if each.kind == b"blob" else None
        key = segment[1] if segment else each.path if each.kind == b"blob" else b""
        sizes[key] += each.size
        versions[key] += not segment
    return {path: Large(path, size, versions[path]) for path, size in sizes.items()}


def _by_tree(objects: Iterable[_Object], roots: AbstractSet[Oid]) -> dict[Oid, int]:
    """Return the bytes that each root added to those before it."""
    added: dict[Oid, int] = {}
    current: Oid | None = None
    for each in objects:
        if each.oid in roots:
            current = Oid(each.oid)
        if current is not None:
            added[current] = added.get(current, 0) + each.size
    return added


def _rev_list_input(trees: Iterable[Oid], without: Iterable[Oid]) -> bytes:
    """Return the standard input for git; empty if there is nothing to count."""
    listed = list(dict.fromkeys(trees))
    lines = (*listed, *(f"^{oid}" for oid in sorted(set(without)))) if listed else ()
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def project_trees(store: Store, forest: Forest) -> set[Oid]:
    """Return the trees of the commits at the project's refs and of checkpoints' bases."""
    listed = store.repo.refs.list("refs/")
    commits = {oid for name, oid in listed.items() if not name.startswith(refs.PREFIX)}
    commits |= {Oid(base) for n in forest.nodes.values() if (base := n.trailers.get("Gitcp-Base"))}
    return {tree for tree in (_tree(store, oid) for oid in commits) if tree is not None}


def _tree(store: Store, oid: Oid) -> Oid | None:
    """Return the tree of a commit or tag, None if it is missing."""
    try:
        return store.reader.tree_of(store.peel(oid))
    except StoreDamaged:
        return None
