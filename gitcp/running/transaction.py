"""Transactions: a checkpoint, a risky operation, and a rollback if it fails.
They nest, and survive crashes.

A locked file records an open transaction (gitcp.state.run_journal). If it is unlocked, the program
was interrupted, and `recover` treats the transaction as failed.

On failure, the failure is recorded, then the compensations recorded since the start are run, newest
first, then the files are restored, with the step results and positions that programs recorded
since. Each of these can be interrupted and repeated.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gitcp.errors import StoreDamaged
from gitcp.git.repo import Repository
from gitcp.model import Checkpoint, CheckpointId, Handoff, Note, Run, Trigger
from gitcp.restoring import restore
from gitcp.restoring.restore import Report
from gitcp.running import steps
from gitcp.running.compensate import LIMIT, Outcome
from gitcp.saving import save
from gitcp.saving.session import GIVEN, Choice
from gitcp.state import effects, journal, programs, run_journal, settings
from gitcp.state.masking import command as maskable
from gitcp.state.note import inherited
from gitcp.state.programs import RunningProgram
from gitcp.state.run_journal import Transaction
from gitcp.state.steps import StepResult
from gitcp.store import Store, one_line
from gitcp.value import Value, replace

LONGEST_REASON = 300


class OpenTransaction(Value):
    """A transaction that this process holds by a locked file descriptor. `unread` is what its first
    checkpoint lacks of the conversation, `appends` are files that its command only appends to.
    """

    transaction: Transaction
    lock: int
    unread: save.Unread | None = None
    appends: tuple[bytes, ...] = ()
    program: RunningProgram | None = None


class Failure(Value):
    """What was done about a failed transaction. `report` is None if no files were restored."""

    transaction: Transaction
    checkpoint: CheckpointId
    outcomes: tuple[Outcome, ...] = ()
    report: Report | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields that `gitcp run --json` prints of a failure."""
        return done_about(self)


def done_about(failure: Failure | None) -> dict[str, Any]:
    """Return what is printed of what was done about a failure; None if there was none."""
    from gitcp import documents  # only for programs
    from gitcp.restoring import printed

    report = failure.report if failure else None
    outcomes = failure.outcomes if failure else ()
    return {
        "compensations": [outcome.effect.to_json() for outcome in outcomes],
        "restored": str(report.checkpoint) if report and report.checkpoint else None,
        "written": documents.paths(report.written if report else ()),
        "removed": documents.paths(report.removed if report else ()),
        "kept": list(map(documents.encode, printed.kept(report.kept if report else ()))),
    }


class TransactionRequest(Value):
    """The arguments of a transaction. Without a session, it goes where a save would. `appends` are
    files that the command only appends to.
    """

    cwd: Path
    label: str
    rollback: bool = True
    compensations: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    session: str | None = None
    choice: Choice | None = None
    appends: tuple[bytes, ...] = ()


def begin(store: Store, request: TransactionRequest) -> OpenTransaction:
    """Save a checkpoint and record an open transaction. Writes nothing else.

    Nothing is promised of the time before: a rollback restores this checkpoint.
    """
    saved = save.save(
        store,
        save.SaveRequest(
            cwd=request.cwd,
            note=Note(label=f"before {request.label}", compensations=request.compensations),
            trigger=Trigger.BEFORE_RISKY_CHANGE,
            session=request.session,
            choice=request.choice,
            limits=settings.limits(store.repo),
            appends=request.appends,
            due_states=True,
        ),
    )
    transaction = Transaction(
        name=os.urandom(6).hex(),
        label=request.label,
        before=saved.checkpoint.id,
        rollback=request.rollback,
        command=maskable(request.command, store.repo.host.env),
        order=max((each.order for each in run_journal.transactions(store.repo)), default=0) + 1,
    )
    lock = run_journal.write(store.repo, transaction)
    program = programs.begin(store.repo, transaction.session, _program(transaction))
    if program is not None:
        if request.command:
            program.note_commands()
        program.outputs |= {*request.appends}
        program.note_paths(program.outputs)
    return OpenTransaction(transaction, lock, saved.unread, request.appends, program)


def succeed(
    store: Store, opened: OpenTransaction, run: Run, result: StepResult | None = None
) -> Checkpoint:
    """Close the transaction, and record its success as a checkpoint, with the step's result if it
    was a step.
    """
    # Close it first: a success must not be rolled back because recording it failed.
    run_journal.close(store.repo, opened.transaction)
    os.close(opened.lock)
    note = Note(label=opened.transaction.label)
    request = _request(store, opened.transaction, note, _masked(store, run))
    request = replace(request, promised=opened.appends)
    if result is not None:
        records = replace(request.records, step=result.step, results=(result,))
        request = replace(request, records=records, outputs=tuple(result.files))
    try:
        return save.save(store, request).checkpoint
    finally:
        programs.end(opened.program)


def fail(store: Store, opened: OpenTransaction, run: Run, *, limit: float = LIMIT) -> Failure:
    """Record the failure; with rollback, run the compensations and restore the files.

    Raises what a restore raises and leaves the transaction open, for `recover` to finish.
    """
    recover(store, limit=limit)  # first the interrupted ones nested inside this one
    return _settle(store, opened, run, limit)


def _settle(store: Store, opened: OpenTransaction, run: Run, limit: float) -> Failure:
    transaction = opened.transaction
    if transaction.failed is None:
        transaction = replace(
            transaction, failed=_record_failure(store, transaction, _masked(store, run))
        )
        lock = run_journal.write(store.repo, transaction)
        os.close(opened.lock)
        opened = replace(opened, transaction=transaction, lock=lock)
    failed = transaction.failed
    assert failed is not None
    failure = Failure(transaction, failed)
    if transaction.rollback:
        outcomes = tuple(_compensate(store, transaction, limit))
        failure = replace(
            failure, outcomes=outcomes, report=_restore_files(store, transaction, failed)
        )
        # Step results stayed after a rollback, so a retry skipped steps whose files were gone.
        _restore_results(store, transaction)
    _close(store.repo, opened)
    return failure


def recover(store: Store, *, limit: float = LIMIT) -> tuple[Failure, ...]:
    """Finish every interrupted transaction that this user began in this working tree, innermost
    first.
    """
    run_journal.sweep(store.repo)
    known = [each for each in interrupted(store.repo) if run_journal.is_recorded(store.repo, each)]
    transactions = sorted(known, key=lambda transaction: -transaction.order)
    return tuple(filter(None, (_finish(store, transaction, limit) for transaction in transactions)))


def _finish(store: Store, transaction: Transaction, limit: float) -> Failure | None:
    """Treat an interrupted transaction as failed. Return None if another process does."""
    lock = run_journal.lock_abandoned(store.repo, transaction)
    if lock is None:
        return None
    return _settle(
        store, OpenTransaction(transaction, lock), Run(transaction.command, None, 0), limit
    )


def interrupted(repo: Repository) -> Iterator[Transaction]:
    """Yield the transactions of this working tree whose programs ended. Raises
    StoreDamaged for an invalid file.
    """
    for transaction in run_journal.transactions(repo):
        descriptor = run_journal.lock_abandoned(repo, transaction)
        if descriptor is not None:
            os.close(descriptor)
            yield transaction


def _record_failure(store: Store, transaction: Transaction, run: Run) -> CheckpointId:
    handoff = Handoff(failed=(one_line(_reason(transaction, run), LONGEST_REASON),))
    note = Note(label=f"{transaction.label}: failed", handoff=handoff)
    return save.save(store, _request(store, transaction, note, run)).checkpoint.id


def _reason(transaction: Transaction, run: Run) -> str:
    label = f"{transaction.label}: {' '.join(run.command)}".rstrip(": ")
    if run.code is None and not run.output:
        return f"{label} was interrupted"
    result = (
        f"exited with {run.code} after {run.milliseconds / 1000:.2f} s" if run.command else "failed"
    )
    last = run.output.rstrip().rpartition("\n")[2]
    return f"{label} {result}" + (f": {last}" if last else "")


def _masked(store: Store, run: Run) -> Run:
    return replace(run, command=maskable(run.command, store.repo.host.env))


def _request(store: Store, transaction: Transaction, note: Note, run: Run) -> save.SaveRequest:
    return save.SaveRequest(
        cwd=store.repo.root,
        note=note,
        session=transaction.session,
        limits=settings.limits(store.repo),
        records=save.Records(run=run),
    )


def _compensate(store: Store, transaction: Transaction, limit: float) -> Iterator[Outcome]:
    before = _checkpoint(store, transaction.before)
    for effect in effects.after(store, before, transaction.session):
        if effect.outcome is None:
            programs.ran_commands(store.repo, _program(transaction))
            yield steps.undo_recorded(store, transaction.session, effect, limit=limit)


def _restore_files(store: Store, transaction: Transaction, failed: CheckpointId) -> Report | None:
    """Restore the files of the checkpoint before; an interrupted restore of it is finished."""

    def request(id: CheckpointId) -> restore.RestoreRequest:
        target = _checkpoint(store, id)
        limits = settings.limits(store.repo)
        return restore.RestoreRequest(
            target,
            store.repo.root,
            conversation=False,
            force=True,
            limits=limits,
            session=transaction.session,
            program=True,
        )

    unfinished = journal.unfinished(store.repo)
    if unfinished is not None and unfinished.target == transaction.before:
        return restore.finish(store, request, forward=True)
    if _is_restored(store, transaction, failed):
        return None
    return restore.restore(store, request(transaction.before))


def _restore_results(store: Store, transaction: Transaction) -> None:
    """Restore the step results and positions that its sessions had before the transaction: those
    recorded since go with files that are gone. Other programs keep theirs, as their files.
    """
    name, own = _program(transaction), programs.sessions_inside(store.repo, transaction.session)
    is_known = any(each.path.name == name for each in programs.known(store.repo))
    for session, before in run_journal.enlisted(store.repo, transaction).items():
        tip = store.tip(session)
        if tip is None or (is_known and session not in own):
            continue
        last = store.read(tip)
        earlier = _checkpoint(store, before) if before else None
        steps, old = (earlier.steps, inherited(earlier)) if earlier else (None, Note())
        if (last.steps, inherited(last).position_from) == (steps, old.position_from):
            continue
        label = f"{transaction.label}: restored results"
        request = save.SaveRequest(
            cwd=store.repo.root,
            limits=settings.limits(store.repo),
            choice=Choice(session, None, GIVEN),
            carried=save.Carried(
                note=replace(
                    last.note,
                    label=label,
                    position=old.position,
                    position_from=old.position_from,
                    compensations=(),
                ),
                steps_of=replace(last, steps=steps),
            ),
        )
        save.save(store, request)


def _is_restored(store: Store, transaction: Transaction, failed: CheckpointId) -> bool:
    """Return whether an earlier, interrupted rollback already restored the files."""
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
            f"checkpoint {id}, the start of a transaction, is missing", hint="gitcp doctor --store"
        )
    return store.read(commit)


def _close(repo: Repository, opened: OpenTransaction) -> None:
    run_journal.close(repo, opened.transaction)
    os.close(opened.lock)
    programs.end(opened.program)
    programs.forget(repo, _program(opened.transaction))


def _program(transaction: Transaction) -> str:
    """Return by which name what the transaction writes is recorded."""
    return f"transaction-{transaction.name}"
