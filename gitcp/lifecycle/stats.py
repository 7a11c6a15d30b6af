"""What the checkpoints cost: bytes on disk, what they share with the project's own history, what
grows, what is large.

git itself counts, by objects and as they lie on disk: compressed, and as differences where git
packed them so. Nothing is written. A store that git can read takes one walk over its trees for each
figure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta

from gitcp.errors import GitFailed, StoreDamaged
from gitcp.git import damage, refs
from gitcp.git.promised import AS_FAR_AS_HERE
from gitcp.lifecycle import prune
from gitcp.model import Oid
from gitcp.state import rewrite, trash
from gitcp.state.rewrite import Forest
from gitcp.store import Store, Summary
from gitcp.value import Value

RECENT = timedelta(days=7)
CONVERSATION = b".gitcp/conversation/"
LISTED = ("rev-list", "--objects", AS_FAR_AS_HERE)
SHAPE = "--batch-check=%(objecttype) %(objectsize:disk) %(rest)"


class Large(Value):
    """A path that takes much, in all its versions together."""

    path: bytes
    bytes: int
    versions: int


class Stats(Value):
    """What there is. `bytes` is what only checkpoints have, `shared` what the project's own history
    has as well.

    `conversations` is a part of `bytes`. `recent` and `recent_bytes` are checkpoints of the last
    seven days, and what was new in them. `prune` and `prune_bytes` say what a `gitcp prune` would
    drop and how much only that has.
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


def stats(store: Store, most: int = 5) -> Stats:
    """Count and weigh everything that can be read; `most` of the largest paths. Writes nothing.
    Raises GitFailed.
    """
    try:
        return _stats(store, most, lambda _: True)
    except GitFailed:  # git weighs nothing at all where a tree is damaged
        return _stats(store, most, lambda node: damage.lacking(store.objects, node.root) is None)


def _stats(store: Store, most: int, counts: Callable[[Summary], bool]) -> Stats:
    forest = rewrite.read(store, despite_damage=True)
    roots = {commit: node.root for commit, node in forest.nodes.items() if counts(node)}
    project = project_trees(store, forest)
    weighed = _weigh(store, roots.values(), project)
    size = sum(each.bytes for each in weighed.values())
    horizon = store.repo.host.now() - RECENT
    old = [
        node.root
        for commit, node in forest.nodes.items()
        if node.created < horizon and commit in roots
    ]
    dropped = {node.commit for node, _ in prune.plan(store, prune.Request()).dropped}
    entries = trash.entries(store)
    forests = (entry.read(store, despite_damage=True) for entry in entries)
    put_away = [node.root for each in forests for node in each.nodes.values() if counts(node)]
    own = [each for path, each in weighed.items() if path.startswith(CONVERSATION)]
    largest = sorted(weighed.values(), key=lambda each: (-each.bytes, each.path))
    return Stats(
        sessions=len(forest.sessions),
        checkpoints=len(roots),
        tags=len(forest.tags),
        bytes=size,
        shared=usage(store, roots.values()) - usage(store, roots.values(), project),
        conversations=sum(each.bytes for each in own),
        recent=len(roots) - len(old),
        recent_bytes=size - usage(store, old, project),
        trash=len(entries),
        trash_bytes=usage(store, put_away, {*project, *roots.values()}),
        prune=len(dropped),
        prune_bytes=size
        - usage(store, [root for commit, root in roots.items() if commit not in dropped], project),
        largest=tuple(
            each for each in largest if each.path and not each.path.startswith(b".gitcp/")
        )[:most],
    )


def usage(store: Store, trees: Iterable[Oid], without: Iterable[Oid] = ()) -> int:
    """The bytes on disk of all that is in these trees, and not in the others."""
    told = _told(trees, without)
    return int(store.repo.git(*LISTED, "--disk-usage", "--stdin", input=told)) if told else 0


def _weigh(store: Store, trees: Iterable[Oid], without: Iterable[Oid]) -> Mapping[bytes, Large]:
    """The bytes on disk of the same, by path; trees are under the empty path."""
    told = _told(trees, without)
    listed = store.repo.git(*LISTED, "--stdin", input=told) if told else b""
    found: dict[bytes, Large] = {}
    for line in store.repo.git("cat-file", SHAPE, input=listed).splitlines():
        kind, size, path = line.split(b" ", 2)
        key = path if kind == b"blob" else b""
        known = found.get(key, Large(key, 0, 0))
        found[key] = Large(key, known.bytes + int(size), known.versions + 1)
    return found


def _told(trees: Iterable[Oid], without: Iterable[Oid]) -> bytes:
    """What git reads from its standard input; empty where there is nothing to count."""
    listed = sorted(set(trees))
    lines = (*listed, *(f"^{oid}" for oid in sorted(set(without)))) if listed else ()
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def project_trees(store: Store, forest: Forest) -> set[Oid]:
    """The trees of the commits that the project's refs are on, and of those that checkpoints stand
    on.
    """
    listed = refs.list_refs(store.repo.common_dir, "refs/")
    commits = {oid for name, oid in listed.items() if not name.startswith(refs.PREFIX)}
    commits |= {Oid(base) for n in forest.nodes.values() if (base := n.trailers.get("Gitcp-Base"))}
    return {tree for tree in (_tree(store, oid) for oid in commits) if tree is not None}


def _tree(store: Store, oid: Oid) -> Oid | None:
    """The tree of a commit or of a tag on one; None where there is none (any more)."""
    try:
        return Oid(store.objects.read_commit(store.peel(oid))[5:45].decode("ascii"))
    except StoreDamaged:
        return None
