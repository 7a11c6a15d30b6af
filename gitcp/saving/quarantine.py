"""Quarantine: a session whose last checkpoint cannot be read goes to the trash, so that saving can
go on.

Nothing of it is thrown away. Its ref is moved below `refs/gitcp/trash`, where `check` still names
what is damaged and what can be read stays readable. Where its last commit itself is lost, the
newest commit of the session that is still in the object store is put there as well, since no other
ref reaches it. The next save begins a new chain, whose numbers go on after the last one known;
`gitcp undo N` joins both once everything can be read again.
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
    """A session that was put away, why, its place in the trash (None: nothing was left), and the
    logged operation.
    """

    session: str
    why: str
    trash: str | None
    operation: int | None

    def __str__(self) -> str:
        place = "no checkpoint of it is left"
        if self.trash:
            place = f"its readable checkpoints are in the trash (refs/gitcp/trash/{self.trash})"
        return f"session {self.session} was damaged ({self.why}): {place}, and a new chain begins"


def put_away(store: Store, session: str) -> Quarantined | None:
    """Move a session to the trash if its last checkpoint is damaged; None, and nothing is changed,
    if it is not.

    The caller holds the store's lock. Writes refs below `refs/gitcp`, the operation log, and the
    list of damaged objects. Raises FormatTooNew for a checkpoint that a newer gitcp wrote.
    """
    tip = store.tip(session)
    error = _damage(store, tip) if tip else None
    if tip is None or error is None:
        return None
    damage.record(store.repo, error.objects)
    value = _uncovered(store, session, tip)
    ends = [value] if value is not None and tip != refs.NOTHING and store.has_summary(value) else []
    ends = ends or [*_newest(store, session), *([value] if value is not None else [])]
    kept = list(store.readable(ends[0] if ends else None))
    now = store.repo.host.now()
    places = []
    for oid in dict.fromkeys(ends):
        places.append(trash.new_name(store, now, damaged=True))
        store.objects.renew([oid])
        store.move_ref(f"{refs.TRASH}{places[-1]}/sessions/{session}", None, oid)
    if value is not None:
        store.move_ref(refs.SESSIONS + session, value, None)
    done = Quarantined(session, str(error), places[0] if places else None, None)
    return _logged(store, done, kept, lost=not kept or kept[0].commit != tip)


def pending(store: Store) -> tuple[str, ...]:
    """One line for each damaged session that lies in the trash."""
    found = {
        name: each.name
        for each in trash.entries(store)
        if each.is_damaged
        for name in each.sessions
    }
    return tuple(
        f"session {session} was damaged: its readable checkpoints are in the trash "
        f"(refs/gitcp/trash/{place})"
        for session, place in sorted(found.items())
    )


def _damage(store: Store, tip: Oid) -> StoreDamaged | None:
    """What of a checkpoint cannot be read."""
    try:
        return damage.lacking(store.objects, store.read(tip).root)
    except FormatTooNew:
        raise
    except StoreDamaged as error:
        return error


def _uncovered(store: Store, session: str, tip: Oid) -> Oid | None:
    """The commit that a session's ref names; where its file is garbage it goes, and a packed ref
    counts again.
    """
    if tip != refs.NOTHING:
        return tip
    store.move_ref(refs.SESSIONS + session, tip, None)
    return store.tip(session)


def _reached(store: Store, session: str) -> set[Oid]:
    """The commits of a session that some ref of gitcp's still reaches."""
    tips = refs.list_refs(store.repo.common_dir, refs.PREFIX, refs.NOTHING).values()
    return {
        each.commit
        for tip in set(tips)
        for each in store.readable(tip)
        if each.id.session == session
    }


def _newest(store: Store, session: str) -> list[Oid]:
    """The newest checkpoint of a session in the object store that no ref reaches: its commit, and
    rewritten ones.

    None if something was ever purged here: what was purged is not to come back.
    """
    if any(each.what == PURGE for each in oplog.entries(store.repo)):
        return []
    reached = _reached(store, session)
    found = [each for each in _commits(store, session) if each.commit not in reached]
    last = max(((each.created, each.id.number) for each in found), default=None)
    return sorted(each.commit for each in found if (each.created, each.id.number) == last)


def _commits(store: Store, session: str) -> Iterator[Summary]:
    """Every checkpoint of a session in the object store."""
    with suppress(GitFailed):
        options = (
            "--batch-all-objects",
            "--unordered",
            "--buffer",
            "--batch-check=%(objecttype) %(objectname)",
        )
        listed = store.repo.git("cat-file", *options).decode("ascii", "replace").splitlines()
        for oid in (line[7:] for line in listed if line.startswith("commit ")):
            with suppress(StoreDamaged):
                summary = store.summary(Oid(oid))
                if summary.id.session == session:
                    yield summary


def _logged(store: Store, done: Quarantined, kept: list[Summary], *, lost: bool) -> Quarantined:
    """Write the operation down with the numbers that were used: the next chain goes on after
    them.
    """
    own = [each.id for each in kept if each.id.session == done.session]
    # the commit that is lost had a number as well
    last = max((id.number for id in own), default=0) + lost
    ids = [*own, *([CheckpointId(done.session, last)] if lost and last else [])]
    operation = Operation(
        number=0,
        time=store.repo.host.now(),
        what=oplog.QUARANTINE,
        said=f"put away damaged session {done.session}, {trash.said(own)}",
        worktree=store.repo.worktree_name,
        trash=done.trash,
        dropped={done.session: (), **ranges(ids)},
        automatic=True,
    )
    with suppress(GitcpError):
        return Quarantined(
            done.session, done.why, done.trash, oplog.append(store.repo, operation).number
        )
    return done
