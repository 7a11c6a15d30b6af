"""Rename: a session under another name, with every checkpoint, fork, tag and undo that speaks of
it.

The name is part of what a checkpoint says: its id. So the chain is written anew, each commit with
its author, times and trees as they were but for `.gitcp/checkpoint.json` and `README.md`, and refs
move all or none (gitcp.state.rewrite). What lies in the trash follows too, so that an undo still
fits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from gitcp import readme, wire
from gitcp.errors import Refused, RevisionNotFound, StoreDamaged
from gitcp.git import refs
from gitcp.git.trees import TreeEntry
from gitcp.model import FILE, RESERVED, TREE, Checkpoint, CheckpointId, Entry, Oid, Span
from gitcp.saving.save import changes_between
from gitcp.state import oplog, rename_state, rewrite
from gitcp.state.oplog import Operation
from gitcp.state.rewrite import Forest, Move
from gitcp.store import METADATA, README, Store, message, subject
from gitcp.value import Value, replace


class Renamed(Value):
    """What was renamed, and how many checkpoints say so now."""

    old: str
    new: str
    count: int


def rename(store: Store, old: str, new: str) -> Renamed:
    """Give a session another name.

    Writes commits, refs under `refs/gitcp/`, and files in `<git dir>/gitcp/`. Raises BadValue for
    what can be no name, RevisionNotFound, and Refused if the name is taken or something is under
    way. Then nothing was changed.
    """
    refs.check_name(new, "session")
    with store.lock():
        rewrite.finish(store)
        if store.tip(old) is None:
            raise RevisionNotFound(
                f"there is no session {old}: nothing was renamed", hint="gitcp sessions"
            )
        found = refs.list_refs(store.repo.common_dir, refs.PREFIX)
        if any(rename_state.session_of(ref) == new for ref in found):
            where = "already" if store.tip(new) else "in the trash"
            raise Refused(
                f"there is a session {new} {where}: nothing was renamed", hint="give another name"
            )
        _refuse_unfinished(store)
        forest = _forest(store, found)
        if refs.SESSIONS + old in forest.damaged:
            raise StoreDamaged(f"session {old} is damaged: it was not renamed", hint="gitcp check")
        becomes = _written_anew(store, forest, old, new)
        operation = Operation(
            number=0,
            time=store.repo.host.now(),
            what=oplog.RENAME,
            said=f"session {old} is called {new}",
            worktree=store.repo.worktree_name,
            names=(old, new),
        )
        rewrite.carry_out(store, _moves(store, forest, becomes, old, new), operation)
    return Renamed(old, new, sum(1 for node in forest.nodes.values() if node.id.session == old))


def _refuse_unfinished(store: Store) -> None:
    """A restore or run that is open names checkpoints in its own words."""
    for directory in rename_state.places(store.repo):
        if (directory / "restore.json").exists() or any(Path(directory, "runs").glob("*.json")):
            raise Refused(
                f"a restore or a run is not finished ({directory}): nothing was renamed",
                hint="gitcp status, there",
            )


def _forest(store: Store, found: Mapping[str, Oid]) -> Forest:
    """All checkpoints that our refs reach, those in the trash too, by whole names of refs."""
    sessions = {ref: oid for ref, oid in found.items() if rename_state.session_of(ref)}
    tags = {ref: oid for ref, oid in found.items() if rename_state.is_tag(ref)}
    return rewrite.read(store, sessions, tags, despite_damage=True)


def _written_anew(store: Store, forest: Forest, old: str, new: str) -> dict[Oid, Oid]:
    """What each commit becomes; nothing names it yet."""
    becomes: dict[Oid, Oid] = {}
    for commit, node in forest.nodes.items():
        parent = becomes[node.parent] if node.parent else None
        try:
            before = store.read(commit)
        except StoreDamaged:
            if node.id.session == old:
                raise
            becomes[commit] = commit if parent == node.parent else store.reparent(commit, parent)
            continue
        after = _called(before, old, new)
        if after != before:
            base = (
                store.read(node.parent).snapshot.tree if node.parent else _base_tree(store, before)
            )
            text = readme.render(after, changes_between(store, base, before.snapshot))
            becomes[commit] = _remade(store, before, after, parent, text)
        else:
            becomes[commit] = commit if parent == node.parent else store.reparent(commit, parent)
    store.objects.flush(held=True)
    return becomes


def _base_tree(store: Store, first: Checkpoint) -> Oid | None:
    from gitcp.history.diff import base_tree

    return base_tree(store, first.snapshot.base.commit)


def _called(checkpoint: Checkpoint, old: str, new: str) -> Checkpoint:
    """The checkpoint with every id of the session under its new name."""

    def called(id: CheckpointId) -> CheckpointId:
        return id._replace(session=new) if id.session == old else id

    span = checkpoint.reverted
    return replace(
        checkpoint,
        id=called(checkpoint.id),
        restored_from=called(checkpoint.restored_from) if checkpoint.restored_from else None,
        forked_from=called(checkpoint.forked_from) if checkpoint.forked_from else None,
        reverted=Span(called(span.after), called(span.last)) if span else None,
        compensated=rename_state.followed(dict(checkpoint.compensated), old, new),
    )


def _moves(
    store: Store, forest: Forest, becomes: Mapping[Oid, Oid], old: str, new: str
) -> list[Move]:
    """New names first, so that at every step each chain has one; the old ones go last."""
    made, moved, gone = [], [], []
    for ref, tip in forest.sessions.items():
        if rename_state.session_of(ref) == old:
            made.append(Move(ref.removesuffix(old) + new, None, becomes[tip]))
            gone.append(Move(ref, tip, None))
        elif becomes[tip] != tip:
            moved.append(Move(ref, tip, becomes[tip]))
    for ref, value in forest.tags.items():
        commit = forest.tagged[ref]
        if becomes[commit] != commit:
            moved.append(Move(ref, value, store.retag(value, becomes[commit])))
    store.objects.flush(held=True)
    return [*made, *moved, *gone]


def _remade(
    store: Store, before: Checkpoint, after: Checkpoint, parent: Oid | None, readme: str
) -> Oid:
    """Write a checkpoint that says the same under another id: author, times and all that it holds
    stay.

    Visible after `objects.flush`.
    """
    new = {METADATA: wire.encode_checkpoint(after), README: readme.encode("utf-8")}
    blobs = {name: Entry(FILE, store.objects.write_blob(data)) for name, data in new.items()}
    here = store.objects.read_tree(before.root)
    holder = next(entry for entry in here if entry.name == RESERVED and entry.mode == TREE)
    inside = [
        TreeEntry(e.name, *blobs.get(e.name, (e.mode, e.oid)))
        for e in store.objects.read_tree(holder.oid)
    ]
    kept = [entry for entry in here if entry.name != RESERVED]
    root = store.objects.write_tree(
        [*kept, TreeEntry(RESERVED, TREE, store.objects.write_tree(inside))]
    )
    head, _, body = store.objects.read_commit(before.commit).partition(b"\n\n")
    lines = [line for line in head.split(b"\n") if not line.startswith((b"tree ", b"parent "))]
    parents = [f"parent {parent}".encode("ascii")] if parent else []
    says = _worded(body, before, after)
    return store.objects.write(
        "commit", b"\n".join([b"tree " + root.encode("ascii"), *parents, *lines, b"", says])
    )


def _worded(body: bytes, before: Checkpoint, after: Checkpoint) -> bytes:
    """A commit's message under another id: what gitcp made of the id, and no word of anybody
    else's.
    """
    first, end, rest = body.partition(b"\n")
    if first == subject(before).encode("utf-8", "replace"):
        first = subject(after).encode("utf-8", "replace")
    made = [
        dict(re.findall(r"^(Gitcp-[A-Za-z-]+): (.*)$", message(each), re.MULTILINE))
        for each in (before, after)
    ]
    text, blank, trailers = (
        rest.rstrip(b"\n").rpartition(b"\n\n")
        if b"\n\n" in rest
        else (b"", b"", rest.rstrip(b"\n"))
    )
    for name in ("Gitcp-Session", "Gitcp-Restored-From", "Gitcp-Forked-From", "Gitcp-Reverted"):
        if name in made[1]:
            old, new = (f"\n{name}: {each.get(name, '')}\n".encode() for each in made)
            trailers = (b"\n" + trailers + b"\n").replace(old, new)[1:-1]
    return first + end + text + blank + trailers + b"\n"
