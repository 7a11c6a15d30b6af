"""Chains written anew without some of their checkpoints, and the refs that move because of it, all
or none.

A checkpoint that stays keeps its id, its tree and every byte of its commit but the name of the one
before it. Refs move in an order in which every step leaves whole chains and loses nothing: what was
there is put into the trash first. A journal says which are to move, so that what a crash
interrupted is finished by the next command.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from gitcp.errors import GitFailed, StoreDamaged
from gitcp.git import refs
from gitcp.git.fsync import sync_directory
from gitcp.model import Oid
from gitcp.state import journal, oplog, rename_state
from gitcp.state.oplog import Operation
from gitcp.store import Store, Summary
from gitcp.value import EMPTY, Value, replace

JOURNAL = "moves.json"
PART = re.compile(r"[^\x00-\x20\x7f~^:?*\[\\/.][^\x00-\x20\x7f~^:?*\[\\/]*")
"""What stands between the slashes of a ref that we write."""


class Forest(Value):
    """All checkpoints that sessions and tags reach. `nodes` has each after the one before it;
    `tags` are the values of the refs, `tagged` the commits that they are on. `damaged` are sessions
    that were left out since some checkpoint of theirs cannot be read, with what can be read.
    """

    sessions: Mapping[str, Oid] = EMPTY
    tags: Mapping[str, Oid] = EMPTY
    tagged: Mapping[str, Oid] = EMPTY
    nodes: Mapping[Oid, Summary] = EMPTY
    damaged: Mapping[str, tuple[Summary, ...]] = EMPTY

    def chain(self, tip: Oid | None) -> Iterable[Summary]:
        """The checkpoints behind a commit, the newest first."""
        while tip is not None:
            node = self.nodes[tip]
            yield node
            tip = node.parent


class Move(Value):
    """One ref that moves; None where it was not there, or is to be no longer."""

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
    """The forest of this repository, or that of the refs given. Raises StoreDamaged if a part of it
    cannot be read.

    With `despite_damage`, sessions and tags are left out whose checkpoints cannot all be read.
    """
    found = refs.list_refs(store.repo.common_dir, refs.TAGS) if tags is None else {}
    sessions = store.sessions() if sessions is None else sessions
    tags = (
        {name.removeprefix(refs.TAGS): oid for name, oid in found.items()} if tags is None else tags
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
            f"not every checkpoint can be read: nothing was changed ({error})", hint="gitcp check"
        ) from None
    return Forest(sessions, tags, tagged, nodes)


def _readable(store: Store, sessions: Mapping[str, Oid], tags: Mapping[str, Oid]) -> Forest:
    """The forest of the refs behind which every checkpoint can be read."""
    nodes: dict[Oid, Summary] = {}

    def is_whole(tip: Oid) -> bool:
        with suppress(GitFailed, StoreDamaged):
            nodes.update((node.commit, node) for node in list(store.forest((tip,))))
            return True
        return False

    whole = {name: tip for name, tip in sessions.items() if is_whole(tip)}
    tagged: dict[str, Oid] = {}
    for name, oid in tags.items():
        with suppress(StoreDamaged):
            if is_whole(commit := store.peel(oid)):
                tagged[name] = commit
    damaged = {
        name: tuple(store.readable(tip)) for name, tip in sessions.items() if name not in whole
    }
    return Forest(whole, {name: tags[name] for name in tagged}, tagged, nodes, damaged)


def rewrite(store: Store, forest: Forest, dropped: Collection[Oid]) -> dict[Oid, Oid | None]:
    """Write the chains without `dropped`: what each commit becomes; of a dropped one, the one
    before it.

    Everything is on disk when this returns, and no ref names it.
    """
    becomes: dict[Oid, Oid | None] = {}
    for commit, node in forest.nodes.items():
        parent = becomes[node.parent] if node.parent else None
        if commit in dropped:
            becomes[commit] = parent
        else:
            becomes[commit] = commit if parent == node.parent else store.reparent(commit, parent)
    store.objects.flush(held=True)
    return becomes


def moves(
    store: Store,
    forest: Forest,
    becomes: Mapping[Oid, Oid] | Mapping[Oid, Oid | None],
    tags: Mapping[str, Oid] = EMPTY,
) -> list[Move]:
    """The refs of sessions and tags that follow their commits; `tags` are tag objects to be taken
    where they fit.
    """
    found = [Move(refs.SESSIONS + name, tip, becomes[tip]) for name, tip in forest.sessions.items()]
    for name, value in forest.tags.items():
        commit = becomes[forest.tagged[name]]
        if commit is None or commit == forest.tagged[name]:
            continue
        fits = name in tags and store.peel(tags[name]) == commit
        found.append(
            Move(refs.TAGS + name, value, tags[name] if fits else store.retag(value, commit))
        )
    store.objects.flush(held=True)
    return [move for move in found if move.new is not None and move.new != move.old]


def put_away(found: Iterable[Move], trash: str) -> list[Move]:
    """The moves that keep what other moves leave behind, under the trash of this name."""
    return [
        Move(f"{refs.TRASH}{trash}/{move.ref.removeprefix(refs.PREFIX)}", None, move.old)
        for move in found
        if move.old is not None
    ]


def carry_out(store: Store, wanted: Iterable[Move], operation: Operation) -> Operation:
    """Move the refs and log the operation. The caller holds the store's lock, and gives what is put
    away first.

    Writes the journal, the refs and the log. Raises what writing raises; the next command then
    finishes it.
    """
    listed = list(wanted)
    operation = replace(operation, number=oplog.last_number(store.repo) + 1)
    fields: dict[str, object] = {
        "schema": "gitcp.moves/1",
        "moves": [[move.ref, move.old, move.new] for move in listed],
        "operation": oplog.encode(operation),
    }
    journal.write_fields(store.repo.store_dir / JOURNAL, fields)
    return _move_all(store, listed, operation)


def is_unfinished(store: Store) -> bool:
    """Whether some refs of an operation were to move and perhaps did not."""
    return _journal(store).exists()


def finish(store: Store) -> Operation | None:
    """Finish what a crash interrupted, None if nothing was. The caller holds the store's lock.
    Raises StoreDamaged.

    A session that went on meanwhile stays as it is: whole, and with everything it had.
    """
    found = unfinished(store)
    return None if found is None else _move_all(store, *found)


def unfinished(store: Store) -> tuple[list[Move], Operation] | None:
    """What a crash interrupted: refs that were to move, and what for. Moves nothing. Raises
    StoreDamaged.
    """
    path = _journal(store)
    fields = journal.read_fields(path)
    if fields is None:
        return None
    try:
        operation = oplog.decode(fields["operation"])
        listed = [_move(*move) for move in fields["moves"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise journal.damaged(path, repr(error)) from None
    if not all(map(refs.NAME.match, operation.names)):
        raise journal.damaged(path, "it names what can be no session")
    for move in listed:
        is_trash = move.ref.startswith(refs.TRASH)  # what is put away may be damaged
        if move.new is not None and not is_trash and not store.objects.exists(move.new):
            raise journal.damaged(path, f"it names object {move.new[:10]}, which is not here")
    return listed, operation


def _move(ref: str, old: str | None, new: str | None) -> Move:
    """A move as it was written down. Raises ValueError, TypeError for what is no ref of gitcp's, or
    no object's id.
    """
    if (
        not ref.startswith(refs.PREFIX)
        or not all(map(PART.fullmatch, ref.split("/")))
        or ref.endswith(".lock")
    ):
        raise ValueError("it names a ref that is not gitcp's")
    if not all(oid is None or refs.HEX.match(oid) for oid in (old, new)):
        raise ValueError("it names what can be no object")
    return Move(ref, Oid(old) if old else None, Oid(new) if new else None)


def _move_all(store: Store, listed: list[Move], operation: Operation) -> Operation:
    left = False
    # git looks at one directory of refs after the other: it may see a ref neither where it was nor
    # where it goes.
    store.objects.renew(move.new for move in listed if move.new is not None)
    for move in listed:
        if left and move.new is None:
            continue  # what could not be put back everywhere is not to be forgotten
        moved = store.move_ref(move.ref, move.old, move.new)
        left |= not moved and refs.read_ref(store.repo.common_dir, move.ref) != move.new
    tidy(store, listed)
    if operation.what == oplog.RENAME and len(operation.names) == 2:
        rename_state.follow(store.repo, *operation.names)
    logged = next(
        (each for each in oplog.since(store.repo, operation.number) if _is_same(each, operation)),
        None,
    )
    logged = logged or oplog.append(store.repo, operation)
    _journal(store).unlink(missing_ok=True)
    sync_directory(store.repo.store_dir)
    return logged


def tidy(store: Store, listed: Iterable[Move]) -> None:
    """Remove the directories that deleted refs leave empty, as git does, from below."""
    names = {move.ref for move in listed if move.new is None and move.ref.startswith(refs.TRASH)}
    for directory in sorted({Path(name).parent for name in names}):
        for place in (directory, directory.parent):
            with suppress(OSError):
                store.repo.common_dir.joinpath(place).rmdir()


def _is_same(one: Operation, other: Operation) -> bool:
    """Whether `one`, which was logged, is `other`. It may have a higher number: a restore takes no
    lock of ours.
    """
    return (one.what, one.time, one.trash, one.of) == (
        other.what,
        other.time,
        other.trash,
        other.of,
    )


def _journal(store: Store) -> Path:
    return store.repo.common_dir / "gitcp" / JOURNAL
