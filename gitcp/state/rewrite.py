"""Rewrite chains without some of their checkpoints, and move the affected refs, all or none.

A remaining checkpoint keeps its id, its tree and every byte of its commit except the parent. Refs
move in an order in which every step leaves complete chains and loses nothing: dropped refs are
copied to the trash first. A journal lists the moves, so that the next command completes what a
crash interrupted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from gitcp import progress
from gitcp.errors import GitFailed, StoreDamaged
from gitcp.git import refs
from gitcp.git.fsync import sync_directory
from gitcp.model import Oid
from gitcp.state import documents, oplog, rename_state
from gitcp.state.oplog import Operation
from gitcp.store import Store, Summary
from gitcp.value import EMPTY, Value, replace

JOURNAL = "moves.json"
REF_COMPONENT = re.compile(r"[^\x00-\x20\x7f~^:?*\[\\/.][^\x00-\x20\x7f~^:?*\[\\/]*")
"""One component of a ref that gitcp writes."""


class Forest(Value):
    """All checkpoints reachable from sessions and tags. `nodes` lists each after its parent; `tags`
    are the values of the refs, `tagged` the commits they point to. `damaged` are the skipped
    sessions with an unreadable checkpoint, with their readable ones.
    """

    sessions: Mapping[str, Oid] = EMPTY
    tags: Mapping[str, Oid] = EMPTY
    tagged: Mapping[str, Oid] = EMPTY
    nodes: Mapping[Oid, Summary] = EMPTY
    damaged: Mapping[str, tuple[Summary, ...]] = EMPTY

    def chain(self, tip: Oid | None) -> Iterable[Summary]:
        """Yield the checkpoints behind a commit, newest first."""
        while tip is not None:
            node = self.nodes[tip]
            yield node
            tip = node.parent


class RefMove(Value):
    """One ref update; `old` is None for a new ref, `new` is None for a deleted one."""

    ref: str
    old: Oid | None
    new: Oid | None


def read(
    store: Store,
    sessions: Mapping[str, Oid] | None = None,
    tags: Mapping[str, Oid] | None = None,
    *,
    despite_damage: bool = False,
) -> Forest:
    """Return the forest of this repository, or of the given refs. Raises StoreDamaged if part of it
    is unreadable.

    With `despite_damage`, skip sessions and tags with unreadable checkpoints.
    """
    tag_refs = store.repo.refs.list(refs.TAGS) if tags is None else {}
    sessions = store.sessions() if sessions is None else sessions
    tags = (
        {name.removeprefix(refs.TAGS): oid for name, oid in tag_refs.items()}
        if tags is None
        else tags
    )
    try:
        tagged = {name: store.peel(oid) for name, oid in tags.items()}
        tips = {*sessions.values(), *tagged.values()}
        nodes = {node.commit: node for node in store.forest(sorted(tips))} if tips else {}
    except (GitFailed, StoreDamaged) as error:
        if despite_damage:
            return _readable(store, sessions, tags)
        if isinstance(error, StoreDamaged):
            raise
        raise StoreDamaged(
            f"not every checkpoint can be read: nothing was changed ({error})",
            hint="gitcp doctor --store",
        ) from None
    return Forest(sessions, tags, tagged, nodes)


def _readable(store: Store, sessions: Mapping[str, Oid], tags: Mapping[str, Oid]) -> Forest:
    """Return the forest of the refs whose checkpoints can all be read."""
    nodes: dict[Oid, Summary] = {}

    def is_intact(tip: Oid) -> bool:
        with suppress(GitFailed, StoreDamaged):
            nodes.update((node.commit, node) for node in list(store.forest((tip,))))
            return True
        return False

    intact = {name: tip for name, tip in sessions.items() if is_intact(tip)}
    tagged: dict[str, Oid] = {}
    for name, oid in tags.items():
        with suppress(StoreDamaged):
            if is_intact(commit := store.peel(oid)):
                tagged[name] = commit
    damaged = {
        name: tuple(store.readable(tip)) for name, tip in sessions.items() if name not in intact
    }
    return Forest(intact, {name: tags[name] for name in tagged}, tagged, nodes, damaged)


def rewrite(store: Store, forest: Forest, dropped: Collection[Oid]) -> dict[Oid, Oid | None]:
    """Write the chains without `dropped`. Return the new commit for each old one; for a dropped
    one, that of its parent.

    All objects are durable when this returns, but no ref reaches them.
    """
    new_commits: dict[Oid, Oid | None] = {}
    nodes = forest.nodes.items()
    for commit, node in progress.each(nodes, "rewriting", "checkpoints", len(nodes)):
        parent = new_commits[node.parent] if node.parent else None
        if commit in dropped:
            new_commits[commit] = parent
        else:
            new_commits[commit] = (
                commit if parent == node.parent else store.reparent(commit, parent)
            )
    store.writer.flush(keep=True)
    return new_commits


def moves(
    store: Store,
    forest: Forest,
    new_commits: Mapping[Oid, Oid] | Mapping[Oid, Oid | None],
    tags: Mapping[str, Oid] = EMPTY,
    ends: Mapping[str, Oid] = EMPTY,
) -> list[RefMove]:
    """Return the ref updates of sessions and tags that follow their commits; `tags` are existing
    tag objects to reuse where they match, `ends` the last commits of sessions that get another.
    """
    updates = [
        RefMove(refs.SESSIONS + name, tip, new_commits[ends.get(name, tip)])
        for name, tip in forest.sessions.items()
    ]
    for name, value in forest.tags.items():
        commit = new_commits[forest.tagged[name]]
        if commit is None or commit == forest.tagged[name]:
            continue
        is_reusable = name in tags and store.peel(tags[name]) == commit
        updates.append(
            RefMove(
                refs.TAGS + name, value, tags[name] if is_reusable else store.retag(value, commit)
            )
        )
    store.writer.flush(keep=True)
    return [move for move in updates if move.new is not None and move.new != move.old]


def trash_moves(updates: Iterable[RefMove], trash: str) -> list[RefMove]:
    """Return the moves that copy the old values of other moves to the trash entry `trash`."""
    return [
        RefMove(f"{refs.TRASH}{trash}/{move.ref.removeprefix(refs.PREFIX)}", None, move.old)
        for move in updates
        if move.old is not None
    ]


def carry_out(store: Store, wanted: Iterable[RefMove], operation: Operation) -> Operation:
    """Move the refs and log the operation. The caller holds the store's lock and lists the moves
    into the trash first.

    Writes the journal, the refs and the log. After an error the next command completes it.
    """
    listed = list(wanted)
    operation = replace(operation, number=oplog.last_number(store.repo) + 1)
    fields: dict[str, object] = {
        "schema": "gitcp.moves/1",
        "moves": [[move.ref, move.old, move.new] for move in listed],
        "operation": oplog.encode(operation),
    }
    documents.write(store.repo.store_dir / JOURNAL, fields)
    return _move_all(store, listed, operation)


def is_unfinished(store: Store) -> bool:
    """Return whether an interrupted operation may have refs left to move."""
    return _journal(store).exists()


def finish(store: Store) -> Operation | None:
    """Complete an interrupted operation; return None if there was none. The caller holds the
    store's lock. Raises StoreDamaged.

    A session that was saved to meanwhile stays complete and unchanged.
    """
    interrupted = unfinished(store)
    return None if interrupted is None else _move_all(store, *interrupted)


def settle(store: Store) -> Operation | None:
    """Complete an interrupted operation before anything else is done with a store that was just
    opened; return None if there was none. Takes the store's lock. Raises GitcpError if it cannot be
    completed: nothing was lost then, and reading and saving go on.
    """
    if not is_unfinished(store):
        return None
    with store.lock():
        return finish(store)


def unfinished(store: Store) -> tuple[list[RefMove], Operation] | None:
    """Return the moves and the operation that a crash interrupted, None if there are none. Moves
    nothing. Raises StoreDamaged.
    """
    path = _journal(store)
    fields = documents.read(path)
    if fields is None:
        return None
    try:
        operation = oplog.decode(fields["operation"])
        listed = [_move(*move) for move in fields["moves"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise documents.damaged(path, repr(error)) from None
    if not all(map(refs.NAME.match, operation.names)):
        raise documents.damaged(path, "it contains an invalid session name")
    for move in listed:
        is_trash = move.ref.startswith(refs.TRASH)  # trash entries may be damaged
        if move.new is not None and not is_trash and not store.reader.exists(move.new):
            raise documents.damaged(path, f"it names object {move.new[:10]}, which does not exist")
    return listed, operation


def _move(ref: str, old: str | None, new: str | None) -> RefMove:
    """Return a recorded move. Raises ValueError, TypeError if it is not a ref of gitcp or not an
    object id.
    """
    if (
        not ref.startswith(refs.PREFIX)
        or not all(map(REF_COMPONENT.fullmatch, ref.split("/")))
        or ref.endswith(".lock")
    ):
        raise ValueError("it contains a ref that is not gitcp's")
    if not all(oid is None or refs.HEX.match(oid) for oid in (old, new)):
        raise ValueError("it contains an invalid object id")
    return RefMove(ref, Oid(old) if old else None, Oid(new) if new else None)


def _move_all(store: Store, listed: list[RefMove], operation: Operation) -> Operation:
    has_failed = False
    # git lists one directory of refs after the other: `gc` saw a chain that moved to the trash in
    # neither place, and removed what was older than two weeks.
    store.writer.renew(move.new for move in listed if move.new is not None)
    for move in listed:
        if has_failed and move.new is None:
            continue  # keep the trash unless everything was restored from it
        moved = store.move_ref(move.ref, move.old, move.new)
        has_failed |= not moved and store.repo.refs.read(move.ref) != move.new
    tidy(store, listed)
    if operation.what == oplog.RENAME and len(operation.names) == 2:
        rename_state.follow(store.repo, *operation.names)
    logged = next(
        (
            entry
            for entry in oplog.since(store.repo, operation.number)
            if _is_same(entry, operation)
        ),
        None,
    )
    logged = logged or oplog.append(store.repo, operation)
    _journal(store).unlink(missing_ok=True)
    sync_directory(store.repo.store_dir)
    return logged


def tidy(store: Store, listed: Iterable[RefMove]) -> None:
    """Remove the directories that deleted refs leave empty, as git does, deepest first."""
    names = {move.ref for move in listed if move.new is None and move.ref.startswith(refs.TRASH)}
    for directory in sorted({Path(name).parent for name in names}):
        for path in (directory, directory.parent):
            with suppress(OSError):
                store.repo.common_dir.joinpath(path).rmdir()


def _is_same(one: Operation, other: Operation) -> bool:
    """Return whether the logged operation `one` is `other`. Its number may be higher: restores do
    not take our lock.
    """
    return (one.what, one.time, one.trash, one.of) == (
        other.what,
        other.time,
        other.trash,
        other.of,
    )


def _journal(store: Store) -> Path:
    return store.repo.common_dir / "gitcp" / JOURNAL
