"""Quarantine: move a session whose last checkpoint is unreadable to the trash, so that saving can
continue.

Nothing is deleted. The session's ref is moved below `refs/gitcp/trash`: `check` still reports the
damage there, and what is intact stays readable. If the last commit itself is lost, the newest
commit of the session that is still in the object store gets a ref in the trash too, since no other
ref reaches it. The next save begins a new chain, numbered after the last known checkpoint. `gitcp
undo N` joins both once everything is readable again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from gitcp.errors import FormatTooNew, GitcpError, GitFailed, StoreDamaged
from gitcp.git import damage, refs
from gitcp.model import CheckpointId, Oid
from gitcp.retention import ranges
from gitcp.state import oplog, trash
from gitcp.state.oplog import Operation
from gitcp.store import Store, Summary
from gitcp.value import Value

PURGE = "purge"


class Quarantined(Value):
    """A session moved to the trash: the reason, the trash entry (None if nothing was left), and the
    number of the logged operation.
    """

    session: str
    why: str
    trash: str | None
    operation: int | None

    def __str__(self) -> str:
        outcome = "no readable checkpoint is left"
        if self.trash:
            outcome = f"its readable checkpoints are in the trash (refs/gitcp/trash/{self.trash})"
        return f"session {self.session} was damaged ({self.why}): {outcome}, and a new chain begins"


def move_to_trash(store: Store, session: str) -> Quarantined | None:
    """Move a session to the trash if its last checkpoint is damaged; else return None and change
    nothing.

    The caller holds the store's lock. Writes refs below `refs/gitcp`, the operation log and the
    list of damaged objects. Raises FormatTooNew for a checkpoint of a newer gitcp.
    """
    tip = store.tip(session)
    error = _damage(store, tip) if tip else None
    if tip is None or error is None:
        return None
    damage.record(store.repo, error.objects)
    remaining = _remaining_tip(store, session, tip)
    ends = (
        [remaining]
        if remaining is not None and tip != refs.UNREADABLE_REF and store.has_summary(remaining)
        else []
    )
    ends = ends or [*_newest(store, session), *([remaining] if remaining is not None else [])]
    readable = list(store.readable(ends[0] if ends else None))
    now = store.repo.host.now()
    trash_names = []
    for oid in dict.fromkeys(ends):
        trash_names.append(trash.new_name(store, now, damaged=True))
        store.writer.renew([oid])
        store.move_ref(f"{refs.TRASH}{trash_names[-1]}/sessions/{session}", None, oid)
    if remaining is not None:
        store.move_ref(refs.SESSIONS + session, remaining, None)
    quarantined = Quarantined(session, str(error), trash_names[0] if trash_names else None, None)
    return _log(store, quarantined, readable, lost=not readable or readable[0].commit != tip)


def warnings(store: Store) -> tuple[str, ...]:
    """Return one line for each damaged session in the trash."""
    trash_names = {
        name: entry.name
        for entry in trash.entries(store)
        if entry.is_damaged
        for name in entry.sessions
    }
    return tuple(
        f"session {session} was damaged: its readable checkpoints are in the trash "
        f"(refs/gitcp/trash/{trash_name})"
        for session, trash_name in sorted(trash_names.items())
    )


def _damage(store: Store, tip: Oid) -> StoreDamaged | None:
    """Return the error of reading a checkpoint, None if it is intact."""
    try:
        return damage.lacking(store.reader, store.freshener, store.read(tip).root)
    except FormatTooNew:
        raise
    except StoreDamaged as error:
        return error


def _remaining_tip(store: Store, session: str, tip: Oid) -> Oid | None:
    """Return the commit that a session's ref names. If the ref's file is garbage, delete it: then a
    packed ref applies again.
    """
    if tip != refs.UNREADABLE_REF:
        return tip
    store.move_ref(refs.SESSIONS + session, tip, None)
    return store.tip(session)


def _reached(store: Store, session: str) -> set[Oid]:
    """Return the commits of a session that any ref of gitcp reaches."""
    tips = refs.tips(store.repo.refs.list(refs.PREFIX, refs.UNREADABLE_REF)).values()
    return {
        summary.commit
        for tip in set(tips)
        for summary in store.readable(tip)
        if summary.id.session == session
    }


def _newest(store: Store, session: str) -> list[Oid]:
    """Return the commits of the session's newest checkpoint that no ref reaches: usually one, more
    if it was rewritten.

    Return none if anything was ever purged here: purged data must not come back.
    """
    if any(each.what == PURGE for each in oplog.entries(store.repo)):
        return []
    reached = _reached(store, session)
    unreached = [each for each in _commits(store, session) if each.commit not in reached]
    last = max(((each.created, each.id.number) for each in unreached), default=None)
    return sorted(each.commit for each in unreached if (each.created, each.id.number) == last)


def _commits(store: Store, session: str) -> Iterator[Summary]:
    """Yield every checkpoint of a session in the object store."""
    with suppress(GitFailed):
        options = (
            "--batch-all-objects",
            "--unordered",
            "--buffer",
            "--batch-check=%(objecttype) %(objectname)",
        )
        listing = store.repo.git("cat-file", *options).decode("ascii", "replace").splitlines()
        for oid in (line[7:] for line in listing if line.startswith("commit ")):
            with suppress(StoreDamaged):
                summary = store.summary(Oid(oid))
                if summary.id.session == session:
                    yield summary


def _log(
    store: Store, quarantined: Quarantined, readable: list[Summary], *, lost: bool
) -> Quarantined:
    """Log the operation with the checkpoint numbers in use: the next chain continues after them."""
    own = [each.id for each in readable if each.id.session == quarantined.session]
    # the lost commit had a number too
    last = max((id.number for id in own), default=0) + lost
    ids = [*own, *([CheckpointId(quarantined.session, last)] if lost and last else [])]
    operation = Operation(
        number=0,
        time=store.repo.host.now(),
        what=oplog.QUARANTINE,
        summary=f"quarantined damaged session {quarantined.session}, {trash.summarize(own)}",
        worktree=store.repo.worktree_name,
        trash=quarantined.trash,
        dropped={quarantined.session: (), **ranges(ids)},
        automatic=True,
    )
    with suppress(GitcpError):
        return Quarantined(
            quarantined.session,
            quarantined.why,
            quarantined.trash,
            oplog.append(store.repo, operation).number,
        )
    return quarantined
