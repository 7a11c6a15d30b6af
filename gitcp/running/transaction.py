"""Transactions: a checkpoint, something risky, and the way back if it fails. Nested, and found
again after a crash.

Before it begins a small file in `<git dir>/gitcp/runs/` says so. It is locked for as long as the
program lives, or anything that the program runs: one that is there and not locked was cut off, and
`recover` takes it as failed.

A failure is recorded, then the compensations that were recorded since the beginning are run, the
newest first, then the files go back. Each of these can be interrupted anywhere: done again, it does
only what was not done.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gitcp import wire
from gitcp.errors import StoreDamaged
from gitcp.git import shared
from gitcp.git.fsync import create, make_own_directory, read_own, sync_directory, write_all
from gitcp.git.repo import Repository
from gitcp.model import Checkpoint, CheckpointId, Handoff, Note, Run, Trigger
from gitcp.restoring import restore
from gitcp.restoring.restore import Report
from gitcp.running import compensate
from gitcp.running.compensate import LIMIT, Outcome
from gitcp.saving import save
from gitcp.saving.session import Choice
from gitcp.state import effects, journal, settings
from gitcp.state.masking import command as maskable
from gitcp.store import Store, one_line
from gitcp.value import Value, replace

LONGEST_REASON = 300


class Transaction(Value):
    """One that was begun: what it is called, the checkpoint before it, and what a failure of it
    means.

    `order` counts the transactions that were open before. `failed` is the checkpoint that records
    the failure.
    """

    name: str
    label: str
    before: CheckpointId
    rollback: bool
    command: tuple[str, ...] = ()
    order: int = 0
    failed: CheckpointId | None = None

    @property
    def session(self) -> str:
        return self.before.session


class Open(Value):
    """A transaction that this process holds, by a descriptor of its file."""

    transaction: Transaction
    lock: int


class Failure(Value):
    """What was done about a transaction that failed. `report` is None where files were not to go
    back.
    """

    transaction: Transaction
    checkpoint: CheckpointId
    outcomes: tuple[Outcome, ...] = ()
    report: Report | None = None


class Request(Value):
    """What a transaction is begun with. Without a session it goes where a save would."""

    cwd: Path
    label: str
    rollback: bool = True
    compensations: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    session: str | None = None
    choice: Choice | None = None


def begin(store: Store, request: Request) -> Open:
    """Save a checkpoint, and write down that a transaction begins there. Writes nothing else."""
    saved = save.save(
        store,
        save.Request(
            cwd=request.cwd,
            note=Note(label=f"before {request.label}", compensations=request.compensations),
            trigger=Trigger.BEFORE_RISKY_CHANGE,
            session=request.session,
            choice=request.choice,
            limits=settings.limits(store.repo),
        ),
    )
    transaction = Transaction(
        name=os.urandom(6).hex(),
        label=request.label,
        before=saved.checkpoint.id,
        rollback=request.rollback,
        command=maskable(request.command, store.repo.host.env),
        order=max((each.order for each in everyone(store.repo)), default=0) + 1,
    )
    return Open(transaction, _write(store.repo, transaction))


def succeed(store: Store, opened: Open, run: Run) -> Checkpoint:
    """Forget that it was open, and record as a checkpoint that it ended well."""
    # first: what went well is not to be rolled back because it could not be recorded
    _forget(store.repo, opened)
    note = Note(label=opened.transaction.label)
    return save.save(
        store, _request(store, opened.transaction, note, _masked(store, run))
    ).checkpoint


def fail(store: Store, opened: Open, run: Run, *, limit: float = LIMIT) -> Failure:
    """Record the failure; where it is to be rolled back, run the compensations and bring the files
    back.

    Raises what a restore raises, with the transaction left open: `recover` goes on with it.
    """
    recover(store, limit=limit)  # what was nested and cut off is inside of this one
    return _settle(store, opened, run, limit)


def _settle(store: Store, opened: Open, run: Run, limit: float) -> Failure:
    transaction = opened.transaction
    if transaction.failed is None:
        transaction = replace(
            transaction, failed=_record_failure(store, transaction, _masked(store, run))
        )
        opened = _rewrite(store.repo, opened, transaction)
    failed = transaction.failed
    assert failed is not None
    done = Failure(transaction, failed)
    if transaction.rollback:
        outcomes = tuple(_compensated(store, transaction, limit))
        done = replace(done, outcomes=outcomes, report=_bring_back(store, transaction, failed))
    _forget(store.repo, opened)
    return done


def recover(store: Store, *, limit: float = LIMIT) -> tuple[Failure, ...]:
    """Finish every transaction of this working tree that was cut off, the innermost first."""
    found = sorted(interrupted(store.repo), key=lambda transaction: -transaction.order)
    return tuple(filter(None, (_finish(store, transaction, limit) for transaction in found)))


def _finish(store: Store, transaction: Transaction, limit: float) -> Failure | None:
    """Take one that was cut off as failed; None if somebody else does so."""
    lock = _take(store.repo, transaction.name)
    if lock is None:
        return None
    return _settle(store, Open(transaction, lock), Run(transaction.command, None, 0), limit)


def interrupted(repo: Repository) -> Iterator[Transaction]:
    """The transactions that were begun here and whose programs are gone. Raises StoreDamaged for a
    file that is not one.
    """
    for transaction in everyone(repo):
        descriptor = _take(repo, transaction.name)
        if descriptor is not None:
            os.close(descriptor)
            yield transaction


def _record_failure(store: Store, transaction: Transaction, run: Run) -> CheckpointId:
    handoff = Handoff(failed=(one_line(_reason(transaction, run), LONGEST_REASON),))
    note = Note(label=f"{transaction.label}: failed", handoff=handoff)
    return save.save(store, _request(store, transaction, note, run)).checkpoint.id


def _reason(transaction: Transaction, run: Run) -> str:
    what = f"{transaction.label}: {' '.join(run.command)}".rstrip(": ")
    if run.code is None and not run.output:
        return f"{what} was cut off"
    how = (
        f"ended with {run.code} after {run.milliseconds / 1000:.2f} s" if run.command else "failed"
    )
    last = run.output.rstrip().rpartition("\n")[2]
    return f"{what} {how}" + (f": {last}" if last else "")


def _masked(store: Store, run: Run) -> Run:
    return replace(run, command=maskable(run.command, store.repo.host.env))


def _request(store: Store, transaction: Transaction, note: Note, run: Run) -> save.Request:
    return save.Request(
        cwd=store.repo.root,
        note=note,
        session=transaction.session,
        limits=settings.limits(store.repo),
        run=run,
    )


def _compensated(store: Store, transaction: Transaction, limit: float) -> Iterator[Outcome]:
    before = _checkpoint(store, transaction.before)
    for effect in effects.after(store, before, transaction.session):
        if effect.outcome is None:
            yield compensate.compensate(store, effect, transaction.session, limit=limit)


def _bring_back(store: Store, transaction: Transaction, failed: CheckpointId) -> Report | None:
    """Restore the files of the checkpoint before; a restore of it that was interrupted is carried
    on.
    """

    def request(id: CheckpointId) -> restore.Request:
        target = _checkpoint(store, id)
        limits = settings.limits(store.repo)
        return restore.Request(
            target, store.repo.root, conversation=False, force=True, limits=limits
        )

    begun = journal.unfinished(store.repo)
    if begun is not None and begun.target == transaction.before:
        return restore.finish(store, request, forward=True)
    if _is_back(store, transaction, failed):
        return None
    return restore.restore(store, request(transaction.before))


def _is_back(store: Store, transaction: Transaction, failed: CheckpointId) -> bool:
    """Whether the files were brought back already, by one who was killed right after that."""
    tip = store.tip(transaction.session)
    for summary in store.history(tip) if tip else ():
        if summary.id == failed:
            return False
        if summary.trailers.get("Gitcp-Restored-From") == str(transaction.before):
            return True
    return False


def _checkpoint(store: Store, id: CheckpointId) -> Checkpoint:
    commit = store.find(id)
    if commit is None:
        raise StoreDamaged(
            f"checkpoint {id}, to which a transaction goes back, is not there", hint="gitcp check"
        )
    return store.read(commit)


# ---------------------------------------------------------------- its file


def _path(repo: Repository, name: str) -> Path:
    return repo.git_dir / "gitcp" / journal.RUNS / f"{name}.json"


def _write(repo: Repository, transaction: Transaction) -> int:
    """Write a transaction down; the descriptor that holds it. It is locked before it can be
    seen.
    """
    directory = repo.state_dir / journal.RUNS
    make_own_directory(directory)
    path = _path(repo, transaction.name)
    temporary = path.with_suffix(f".{os.getpid()}")
    descriptor = create(temporary)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        write_all(descriptor, _encode(transaction))
        shared.share(descriptor, path)
        os.fsync(descriptor)
        os.replace(temporary, path)
        sync_directory(directory)
    except BaseException:
        os.close(descriptor)
        temporary.unlink(missing_ok=True)
        raise
    return descriptor


def _rewrite(repo: Repository, opened: Open, transaction: Transaction) -> Open:
    rewritten = Open(transaction, _write(repo, transaction))
    os.close(opened.lock)
    return rewritten


def _forget(repo: Repository, opened: Open) -> None:
    _path(repo, opened.transaction.name).unlink(missing_ok=True)
    sync_directory(repo.state_dir / journal.RUNS)
    os.close(opened.lock)


def _take(repo: Repository, name: str) -> int | None:
    """The descriptor of a transaction that nobody holds, now held; None if somebody does, or it is
    over.
    """
    path = _path(repo, name)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def everyone(repo: Repository) -> Iterator[Transaction]:
    """Every transaction of a working tree that is open, whether its program lives or not. Raises
    StoreDamaged.
    """
    for path in journal.runs(repo):
        try:
            yield _decode(path.stem, wire.loads(read_own(path)))
        except FileNotFoundError:
            continue
        except (OSError, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise StoreDamaged(
                f"{path} is damaged: {error!r}", hint=f"remove {path} after a look at it"
            ) from None


def _encode(transaction: Transaction) -> bytes:
    return wire.dumps(
        {
            "schema": "gitcp.run-journal/1",
            "name": transaction.name,
            "label": transaction.label,
            "before": str(transaction.before),
            "rollback": transaction.rollback,
            "command": list(transaction.command),
            "order": transaction.order,
            "failed": str(transaction.failed) if transaction.failed else None,
        }
    )


def _decode(name: str, fields: dict[str, Any]) -> Transaction:
    before = wire.parse_id(fields["before"])
    if before is None:
        raise ValueError("no id")
    return Transaction(
        name=name,  # of the file: what it says itself may lead elsewhere
        label=str(fields["label"]),
        before=before,
        rollback=bool(fields["rollback"]),
        command=tuple(map(str, fields["command"])),
        order=int(fields["order"]),
        failed=wire.parse_id(fields["failed"]),
    )
