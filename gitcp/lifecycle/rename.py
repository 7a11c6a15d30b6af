"""Rename a session, including all checkpoints, forks, tags and undo records that refer to it.

A checkpoint's id contains the name, so the chain is rewritten: authors, times and trees stay,
except `.gitcp/checkpoint.json` and `README.md`. All refs move or none (gitcp.state.rewrite). The
trash is rewritten too, so that an undo still applies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from gitcp import readme, wire
from gitcp.errors import AlreadyExists, Refused, StoreDamaged
from gitcp.git import refs
from gitcp.git.repo import Repository
from gitcp.git.trees import TreeEntry
from gitcp.model import (
    FILE,
    RESERVED,
    TREE,
    Authors,
    Checkpoint,
    CheckpointId,
    Claim,
    Entry,
    Oid,
    Span,
)
from gitcp.saving import session as session_op
from gitcp.saving.save import changes_between
from gitcp.state import journal, oplog, rename_state, rewrite
from gitcp.state.oplog import Operation
from gitcp.state.rewrite import Forest, RefMove
from gitcp.store import METADATA, README, Store, message, subject
from gitcp.value import Value, replace


class Renamed(Value):
    """The renamed session and the number of its checkpoints."""

    old: str
    new: str
    count: int


def rename(store: Store, old: str, new: str) -> Renamed:
    """Rename a session.

    Writes commits, refs under `refs/gitcp/`, and files in `<git dir>/gitcp/`. Raises BadValue for
    an invalid name, RevisionNotFound, and Refused if the name is taken or a restore or run is
    open; nothing was changed then.
    """
    refs.check_name(new, "session")
    with store.lock():
        rewrite.finish(store)
        if store.tip(old) is None:
            raise session_op.unknown(old, "nothing was renamed")
        all_refs = store.repo.refs.list(refs.PREFIX)
        _refuse_taken(store, all_refs, new)
        session_op.check_name(store, new)
        _refuse_unfinished(store)
        forest = forest_of(store, all_refs)
        if refs.SESSIONS + old in forest.damaged:
            raise StoreDamaged(
                f"session {old} is damaged; it was not renamed", hint="gitcp doctor --store"
            )
        # A fork has the beginning of a deleted session, whose ids would mean two checkpoints each.
        own = {node.commit for node in forest.chain(forest.sessions.get(refs.SESSIONS + old))}
        if any(n.id.session == new and n.commit not in own for n in forest.nodes.values()):
            raise _taken(new, "has checkpoints in another session")
        becomes = _rewrite_chains(store, forest, old, new)
        operation = Operation(
            number=0,
            time=store.repo.host.now(),
            what=oplog.RENAME,
            summary=f"renamed session {old} to {new}",
            worktree=store.repo.worktree_name,
            names=(old, new),
        )
        rewrite.carry_out(store, _moves(store, forest, becomes, old, new), operation)
    return Renamed(old, new, sum(1 for node in forest.nodes.values() if node.id.session == old))


def _refuse_taken(store: Store, all_refs: Iterable[str], new: str) -> None:
    """Raise AlreadyExists if a session has the name: here, in the trash, or, in a repository that
    others push to, one of theirs, which would hide the renamed one from them.
    """
    location = ""
    # A session took the name of one that others had pushed here, which then hid it.
    if any(ref.startswith(refs.SHARED) and ref.endswith(f"/{new}") for ref in all_refs):
        location = "of another repository is here"
    if any(rename_state.session_of(ref) == new for ref in all_refs):
        location = "already exists" if store.tip(new) else "is in the trash"
    if location:
        raise _taken(new, location)


def _taken(name: str, location: str) -> AlreadyExists:
    problem = f"session {name} {location}; nothing was renamed"
    return AlreadyExists(problem, hint="choose another name")


def _refuse_unfinished(store: Store) -> None:
    """Raise Refused for an open restore or run: their files refer to checkpoints by id."""
    for directory in rename_state.places(store.repo):
        repo = Repository(store.repo.root, directory.parent, store.repo.host)
        if journal.unfinished(repo) is not None or any(Path(directory, "runs").glob("*.json")):
            raise Refused(
                f"a restore or run is unfinished ({directory}); nothing was renamed",
                hint="gitcp status",
            )


def forest_of(store: Store, all_refs: Mapping[str, Oid]) -> Forest:
    """Return all checkpoints that these refs of gitcp reach, also in the trash, by full ref name.
    Damaged ones are left out.
    """
    sessions = {ref: oid for ref, oid in all_refs.items() if rename_state.session_of(ref)}
    tags = {ref: oid for ref, oid in all_refs.items() if rename_state.is_tag(ref)}
    return rewrite.read(store, sessions, tags, despite_damage=True)


def _rewrite_chains(store: Store, forest: Forest, old: str, new: str) -> dict[Oid, Oid]:
    """Write the new commits, unreferenced, and return them by old commit."""
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
        after = _renamed(before, old, new)
        if after != before:
            if node.parent:
                base: Oid | None = store.read(node.parent).snapshot.tree
            else:
                base = store.base_tree(before.snapshot.base.commit)
            text = readme.render(after, changes_between(store, base, before.snapshot))
            becomes[commit] = rewrite_checkpoint(store, before, after, parent, text)
        else:
            becomes[commit] = commit if parent == node.parent else store.reparent(commit, parent)
    store.writer.flush(keep=True)
    return becomes


def _renamed(checkpoint: Checkpoint, old: str, new: str) -> Checkpoint:
    """Return the checkpoint with every id of the session renamed."""

    def renamed(id: CheckpointId) -> CheckpointId:
        return id._replace(session=new) if id.session == old else id

    span, note = checkpoint.reverted, checkpoint.note
    if note.position_from:
        note = replace(note, position_from=renamed(note.position_from))
    return replace(
        checkpoint,
        id=renamed(checkpoint.id),
        note=note,
        restored_from=renamed(checkpoint.restored_from) if checkpoint.restored_from else None,
        forked_from=renamed(checkpoint.forked_from) if checkpoint.forked_from else None,
        reverted=Span(renamed(span.after), renamed(span.last)) if span else None,
        compensated=rename_state.followed(dict(checkpoint.compensated), old, new),
        authors=_renamed_authors(checkpoint.authors, old, new),
    )


def _renamed_authors(authors: Authors | None, old: str, new: str) -> Authors | None:
    if authors is None:
        return None

    def renamed(names: frozenset[str]) -> frozenset[str]:
        return frozenset(new if name == old else name for name in names)

    previous = authors.previous
    return Authors(
        own=authors.own,
        claims={path: Claim(*map(renamed, claim)) for path, claim in authors.claims.items()},
        previous=previous._replace(session=new)
        if previous and previous.session == old
        else previous,
    )


def _moves(
    store: Store, forest: Forest, becomes: Mapping[Oid, Oid], old: str, new: str
) -> list[RefMove]:
    """Return the ref moves: new names first, so that each chain is referenced at every step."""
    created, removed = [], []
    others = {}
    for ref, tip in forest.sessions.items():
        if rename_state.session_of(ref) == old:
            created.append(RefMove(ref.removesuffix(old) + new, None, becomes[tip]))
            removed.append(RefMove(ref, tip, None))
        else:
            others[ref] = tip
    return [*created, *ref_moves(store, replace(forest, sessions=others), becomes), *removed]


def ref_moves(store: Store, forest: Forest, becomes: Mapping[Oid, Oid]) -> list[RefMove]:
    """Return the moves of the sessions and tags of `forest_of` to the commits that theirs became.
    Writes tag objects.
    """
    moved = [
        RefMove(ref, tip, becomes[tip])
        for ref, tip in forest.sessions.items()
        if becomes[tip] != tip
    ]
    for ref, value in forest.tags.items():
        commit = forest.tagged[ref]
        if becomes[commit] != commit:
            moved.append(RefMove(ref, value, store.retag(value, becomes[commit])))
    store.writer.flush(keep=True)
    return moved


def rewrite_checkpoint(
    store: Store, before: Checkpoint, after: Checkpoint, parent: Oid | None, readme: str
) -> Oid:
    """Write a checkpoint under its new id or label, with its author, times and content.

    Visible after `objects.writer.flush`.
    """
    new = {METADATA: wire.encode_checkpoint(after), README: readme.encode("utf-8")}
    blobs = {name: Entry(FILE, store.writer.write_blob(data)) for name, data in new.items()}
    entries = store.reader.read_tree(before.root)
    reserved = next(entry for entry in entries if entry.name == RESERVED and entry.mode == TREE)
    reserved_entries = [
        TreeEntry(e.name, *blobs.get(e.name, (e.mode, e.oid)))
        for e in store.reader.read_tree(reserved.oid)
    ]
    others = [entry for entry in entries if entry.name != RESERVED]
    root = store.writer.write_tree(
        [*others, TreeEntry(RESERVED, TREE, store.writer.write_tree(reserved_entries))]
    )
    head, _, body = store.reader.read_commit(before.commit).partition(b"\n\n")
    lines = [line for line in head.split(b"\n") if not line.startswith((b"tree ", b"parent "))]
    parents = [f"parent {parent}".encode("ascii")] if parent else []
    text_of_commit = _rewrite_message(body, before, after)
    return store.writer.write(
        "commit",
        b"\n".join([b"tree " + root.encode("ascii"), *parents, *lines, b"", text_of_commit]),
    )


def _rewrite_message(body: bytes, before: Checkpoint, after: Checkpoint) -> bytes:
    """Return a commit message with the new id. Only text that gitcp generated is changed."""
    first, end, rest = body.partition(b"\n")
    if first == subject(before).encode("utf-8", "replace"):
        first = subject(after).encode("utf-8", "replace")
    trailers_of = [
        dict(re.findall(r"^(Gitcp-[A-Za-z-]+): (.*)$", message(each), re.MULTILINE))
        for each in (before, after)
    ]
    text, blank, trailers = (
        rest.rstrip(b"\n").rpartition(b"\n\n")
        if b"\n\n" in rest
        else (b"", b"", rest.rstrip(b"\n"))
    )
    for name in ("Gitcp-Session", "Gitcp-Restored-From", "Gitcp-Forked-From", "Gitcp-Reverted"):
        if name in trailers_of[1]:
            old, new = (f"\n{name}: {each.get(name, '')}\n".encode() for each in trailers_of)
            trailers = (b"\n" + trailers + b"\n").replace(old, new)[1:-1]
    return first + end + text + blank + trailers + b"\n"
