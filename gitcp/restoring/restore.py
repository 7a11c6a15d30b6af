"""Restore: ref → commit → plan → apply. The current state is saved first, so every restore can be
undone.

`plan` writes nothing. `restore` saves a safety checkpoint, plans again from it, verifies that
everything needed is readable, writes the journal, applies the plan, writes the conversation where
the agent resumes it, and saves a checkpoint that records the restore.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from gitcp.errors import Refused
from gitcp.git.objects import Objects
from gitcp.history import live, log
from gitcp.history.authors import Transition
from gitcp.history.live import OpenTurn
from gitcp.model import (
    Agent,
    Checkpoint,
    CheckpointId,
    Conversation,
    Note,
    Snapshot,
    Trigger,
    path_text,
)
from gitcp.restoring import index as index_op
from gitcp.restoring import (
    installed,
    memory,
    merge,
    others,
    permissions,
    placing,
    planned,
    restore_notice,
    states,
    trust,
    written,
)
from gitcp.restoring.apply import EDITED, apply_files, leave_edited, still_wrong
from gitcp.restoring.contents import Contents
from gitcp.restoring.databases import LiveDatabase
from gitcp.restoring.memory import MemoryPlan
from gitcp.restoring.others import OtherSession
from gitcp.restoring.placing import Placed
from gitcp.restoring.plan import FilePlan, FileStep, Kept, Side, SnapshotFacts, plan_files, within
from gitcp.restoring.planned import OpenFile, RestorePlan, RollbackChoice
from gitcp.restoring.request import (
    RestoreRequest,
    Undoing,
    check_paths,
    existing_paths,
    merged_into,
)
from gitcp.restoring.states import StateStep
from gitcp.restoring.worktree_view import WorktreeDisk
from gitcp.restoring.written import CompletedSnapshot, WrittenBefore
from gitcp.saving import session
from gitcp.saving.live_trees import live_trees
from gitcp.saving.save import Carried, Records, RestoreScan, Saved, SaveRequest, remember_scan, save
from gitcp.state import effects, journal, note, oplog, undo_stack
from gitcp.state.extent import Extent, Restores
from gitcp.state.journal import RestoreKind, Unfinished
from gitcp.state.oplog import Operation
from gitcp.store import Store
from gitcp.value import Value, replace
from gitcp.worktree.rules import outside
from gitcp.worktree.snapshot import PartialScan, Taken, take
from gitcp.worktree.writer import Writer

__all__ = (
    "Report",
    "RestorePlan",
    "RestoreRequest",
    "finish",
    "limited_to_extent",
    "plan",
    "redo",
    "restore",
    "undo",
)


class Report(Value):
    """What a restore did.

    `checkpoint` is None if nothing had to change; `safety` is None too, unless the current state
    had to be saved to find out. `failed`: not everything was restored. `others` are the other
    sessions that changed what it changed, if the request asks for them. `turns` are those of agents
    that may write into the restored files. `index`: the index was restored, too. `left` are the
    paths that differ from the target because others changed them, where only one session's changes
    were undone. `conversation` is the one that was restored, `effects` are the compensations
    recorded since the target and not run, `conflicts` what could not be merged, and `choice` is why
    a rollback restored this checkpoint. `memory` is what was done to the agent's memory of the
    project, None for nothing, and `states` to the states outside the files; `offered` are those
    that stay, because they were not asked for. `databases` were restored through SQLite,
    `open_files` are those that programs go on writing to, in vain. `current` is the session that
    continues here from now on, if that is all that changed.
    """

    target: Checkpoint
    safety: CheckpointId | None
    checkpoint: CheckpointId | None
    written: tuple[bytes, ...]
    removed: tuple[bytes, ...]
    kept: tuple[Kept, ...]
    placed: Placed | None
    failed: bool
    others: tuple[OtherSession, ...] = ()
    turns: tuple[OpenTurn, ...] = ()
    index: bool = False
    left: tuple[bytes, ...] = ()
    conversation: Conversation | None = None
    effects: tuple[str, ...] = ()
    conflicts: tuple[merge.Conflict, ...] = ()
    choice: RollbackChoice | None = None
    memory: MemoryPlan | None = None
    states: tuple[StateStep, ...] = ()
    offered: tuple[StateStep, ...] = ()
    databases: tuple[LiveDatabase, ...] = ()
    open_files: tuple[OpenFile, ...] = ()
    current: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the fields that `gitcp restore --json` prints."""
        from gitcp import documents  # only for programs
        from gitcp.restoring import printed

        return documents.encode(
            documents.Restored(
                target=self.target.id,
                safety=self.safety,
                checkpoint=self.checkpoint,
                written=tuple(self.written),
                removed=tuple(self.removed),
                kept=printed.kept(self.kept),
                others=printed.others(self.others),
                conflicts=printed.conflicts(self.conflicts),
                turns=printed.turns(self.turns),
                memory=printed.memory(self.memory),
                states=printed.states(self.states),
                offered_states=tuple(each.name for each in self.offered),
                databases=printed.in_use(self.databases),
                open_files=printed.in_use(self.open_files),
                **printed.parts(self.target, self.placed, self.conversation, self.effects),
                **planned.chosen(self.choice),
            )
        )

    @property
    def written_text(self) -> tuple[str, ...]:
        """The paths that were written, as `str`."""
        return tuple(map(path_text, self.written))

    @property
    def removed_text(self) -> tuple[str, ...]:
        """The paths that were removed, as `str`."""
        return tuple(map(path_text, self.removed))

    @property
    def left_text(self) -> tuple[str, ...]:
        """The paths that were left, as `str`."""
        return tuple(map(path_text, self.left))


class Beside(NamedTuple):
    """What is restored beside the files: the conversation, its agent's memory of the project, and
    the states outside the files.
    """

    placed: Placed | None
    memory: MemoryPlan | None
    states: tuple[StateStep, ...]


class LogEntry(NamedTuple):
    """What the operation log records of a restore: the checkpoint that undo returns to, and the
    extent.
    """

    step: RestoreKind
    safety: CheckpointId
    extent: Extent
    key: str
    aborted: bool = False


class SavedState(NamedTuple):
    """The state before a restore: its safety checkpoint, what was not saved, its snapshot, and the
    plan if it was made to find out whether anything has to change.
    """

    saved: Saved
    kept: tuple[Kept, ...]
    snapshot: CompletedSnapshot
    files: FilePlan | None = None


class _Unchanged(Exception):
    """Raised if nothing has to change; `kept` are the paths that differ from the target."""

    def __init__(self, kept: tuple[Kept, ...], placed: Placed | None) -> None:
        super().__init__(kept, placed)
        self.kept = kept
        self.placed = placed


def plan(store: Store, request: RestoreRequest) -> RestorePlan:
    """Return what `restore` would do now. Writes nothing. Raises BadValue for a path that exists
    nowhere.
    """
    request = others.decided(store, request)
    check_paths(store, request)
    with _objects(store, request) as objects:
        now = _take(store, objects, request)
        line = _WorktreeHistory(store, request, objects, now)
        present = _completed(store, objects, request, now)
        request = _merged_into(store, objects, request, present, line.transitions)
        files = _plan_files(store, objects, request, present, Contents(store), request.paths)
        objects.writer.discard()
    placed = _place(store, request)
    return RestorePlan(
        target=request.target,
        files=files,
        placed=placed,
        later=tuple(log.later(store, request.target)),
        effects=effects.open_commands(store, request.target),
        others=line.affected(files),
        conflicts=request.conflicts,
        conflicting=line.conflicting(request),
        instead_of="" if files else _instead_of(store, request, placed),
        stored=request.stored,
        memory=memory.plan(store, request),
        states=states.plan(store, request),
        offered=states.offered(store, request),
        **_in_use(store, files),
    )


def _in_use(store: Store, files: FilePlan) -> dict[str, Any]:
    """Return the programs that may write into what is restored, and the turns of agents."""
    turns = live.turns(store) if files else ()
    return {"turns": turns, "open_files": planned.open_files(store.repo.root, files)}


def _instead_of(store: Store, request: RestoreRequest, placed: Placed | None) -> str:
    """Return the current conversation if an unchanged one becomes the current one instead."""
    if placed is None or placed.changes:
        return ""
    choice = _choose_session(store, request)
    if _is_conversation_unchanged(placed, choice):
        return ""
    agent = choice.capture.agent if choice.capture else None
    return (agent and agent.session_id) or f"session {choice.session}"


@contextmanager
def _objects(store: Store, request: RestoreRequest) -> Iterator[Objects]:
    """Yield objects for a plan: a merge reads what it and the scan of the files write."""
    if not (request.mine or request.undoing):
        yield Objects(store.repo, dry=True)
        return
    from tempfile import TemporaryDirectory  # only for a merge

    from gitcp.git import scratch

    with TemporaryDirectory(prefix="gitcp-") as directory:
        yield Objects(scratch.create(store.repo, Path(directory)))


def transitions(
    store: Store, request: RestoreRequest, objects: Objects, taken: Taken
) -> list[Transition]:
    """Return what `mine` takes into account up to the current files; nothing without `mine`."""
    if not request.mine:
        return []
    return _WorktreeHistory(store, request, objects, taken).transitions


class _WorktreeHistory:
    """What happened in the working tree since the target, as the session of a request sees it.

    It ends at the current files, which are `taken`, or else the last checkpoint.
    """

    def __init__(
        self,
        store: Store,
        request: RestoreRequest,
        objects: Objects | None = None,
        taken: Taken | None = None,
    ) -> None:
        self._store, self._request = store, request
        self._own = others.viewer(store, request)
        self._own_sessions = others.own_sessions(store, request, self._own)
        read = others.steps if request.mine else others.known_steps
        self._steps = read(store, request)
        if objects is not None and taken is not None:
            self._steps += others.unsaved(store, objects, taken, self._own)

    @property
    def transitions(self) -> list[Transition]:
        return others.transitions(self._store, self._request, self._steps, self._own)

    def affected(self, files: FilePlan) -> tuple[OtherSession, ...]:
        """Return the other sessions that changed what a plan changes, or may have. An undo undoes
        only what its restore changed.
        """
        if self._request.undoing:
            return ()
        return others.affected(self._store, self._steps, self._own_sessions, {*files.paths})

    def conflicting(self, request: RestoreRequest) -> tuple[OtherSession, ...]:
        """Return who changed the paths that a merge has in conflict, or may have."""
        paths = {each.path for each in request.conflicts}
        own = self._own_sessions
        return others.affected(self._store, self._steps, own, paths, unclaimed=True)


def current(store: Store, request: RestoreRequest) -> Snapshot:
    """Return the snapshot of the current files that a restore would save first. Writes nothing."""
    return _take(store, Objects(store.repo, dry=True), request).snapshot


def _take(store: Store, objects: Objects, request: RestoreRequest) -> Taken:
    live = live_trees(store, request.target.id.session)
    return take(store.repo, objects, request.scan_limits, live)


def plan_from(store: Store, objects: Objects, request: RestoreRequest, taken: Taken) -> FilePlan:
    """Return what restoring the target's files would do, given a current snapshot whose trees
    `objects` can read. Writes nothing.
    """
    present = _completed(store, objects, request, taken)
    return _plan_files(store, objects, request, present, Contents(store), request.paths)


def _completed(
    store: Store, objects: Objects, request: RestoreRequest, taken: Taken
) -> CompletedSnapshot:
    stack = undo_stack.restores(store.repo)
    before = written.read(store.repo, _extent_of(stack, request.target))
    return written.completed(store, objects, taken, before)


def restore(
    store: Store, request: RestoreRequest, agreed: RestorePlan | FilePlan | None = None
) -> Report:
    """Restore what is requested. Raises Refused, with nothing changed, if the files are no longer
    those that `agreed` was made for, or for conflicts; OthersAffected if it would undo changes of
    live sessions and the request does not say so.
    """
    with journal.lock(store.repo):
        return _restore(store, request, agreed, RestoreKind.RESTORE)


def undo(
    store: Store,
    request_for: Callable[[CheckpointId], RestoreRequest],
    *,
    session: str | None = None,
) -> Report:
    """Return to the state before the last restore. Raises Refused if there is none, if a delete or
    a prune is to be undone first, or if it was one of another session than `session`.
    """
    with journal.lock(store.repo):
        operations = undo_stack.undo_state(store.repo).undo
        if not operations:
            raise Refused("no restore to undo: nothing was changed", hint="gitcp log --operations")
        safety = _safety_of(operations[-1], "undo", session)
        request = limited_to_extent(store, request_for(safety))
        return _restore(store, request, None, RestoreKind.UNDO)


def redo(store: Store, request_for: Callable[[CheckpointId], RestoreRequest]) -> Report:
    """Undo the last undo. Raises Refused if there is none, or if a delete or a prune is to be
    redone first.
    """
    with journal.lock(store.repo):
        operations = undo_stack.undo_state(store.repo).redo
        if not operations:
            raise Refused("no undo to redo: nothing was changed", hint="gitcp log --operations")
        request = limited_to_extent(store, request_for(_safety_of(operations[-1], "redo", None)))
        return _restore(store, request, None, RestoreKind.REDO)


def _safety_of(operation: Operation, command: str, session: str | None) -> CheckpointId:
    """Return the safety checkpoint of the operation to undo or redo. Raises Refused if it is no
    restore, or one of another session.
    """
    # In Python, an undo right after a delete undid the restore before it.
    if operation.safety is None:
        raise Refused(
            f"the operation to {command} is a {operation.what}, not a restore: nothing was changed",
            hint=f"gitcp {command}",
        )
    restored = operation.checkpoints[-1].session if operation.checkpoints else None
    if session is not None and restored not in (None, session):
        raise Refused(
            f"the restore to {command} is one of session {restored}, not of {session}: nothing was "
            "changed",
            hint=f"gitcp {command}",
        )
    return operation.safety


def limited_to_extent(store: Store, request: RestoreRequest) -> RestoreRequest:
    """Limit an undo or a redo to what the restore after its target changed: what changed since that
    restore stays, unless the request is for the `whole_tree`.

    Raises Refused if what changed since is no longer known.
    """
    known = undo_stack.undo_state(store.repo)
    extent = _extent_of(known.restores, request.target)
    existing = existing_paths(store, replace(request, paths=extent.paths))
    files = extent.files and bool(existing or not extent.paths)
    done, undone = (
        next((each for each in operations if each.safety == request.target.id), None)
        for operations in (known.undo, known.redo)
    )
    operation, command = done or undone, "undo" if done else "redo"
    recorded = operation.checkpoints[-1] if operation and operation.checkpoints else None
    undoing = None
    is_known = operation is not None and operation.checkpoints[1:2] == (operation.safety,)
    if recorded is not None and is_known and files and not request.whole_tree:
        undoing = Undoing(command, _as_restored(store, recorded, command))
    return replace(
        request,
        files=files,
        conversation=extent.conversation,
        memory=extent.memory,
        state=request.state and bool(extent.states),
        state_names=extent.states,
        index=extent.index,
        paths=existing,
        session=recorded.session if recorded else None,
        mine=request.mine and undoing is None,
        undoing=undoing,
        keeps_installed=False,
    )


def _as_restored(store: Store, recorded: CheckpointId, command: str) -> Snapshot:
    """Return the files as a restore left them: its checkpoint has them."""
    commit = store.find(recorded)
    if commit is None:
        raise Refused(
            f"{recorded}, which recorded that restore, no longer exists, so what changed since is "
            "not known: nothing was changed. With --whole-tree, that is undone, too",
            hint=f"gitcp {command} --whole-tree",
        )
    return store.read(commit).snapshot


def finish(
    store: Store, request_for: Callable[[CheckpointId], RestoreRequest], *, forward: bool
) -> Report:
    """Finish an interrupted restore (`forward`), or return everything it touched to the state
    before.

    Forward, files edited since are kept. The journal stays until all is done, however often this is
    interrupted as well.
    """
    with journal.lock(store.repo):
        begun = journal.unfinished(store.repo)
        if begun is None:
            raise Refused("no interrupted restore here: nothing was changed", hint="gitcp status")
        request = _continued(
            store, request_for(begun.target if forward else begun.safety), begun, forward=forward
        )
        journal.sweep(store.repo, begun)
        stack = undo_stack.restores(store.repo)
        if forward:
            request = _with_merge(store, request_for, begun, request)
            before = written.read(store.repo, _extent_of(stack, request.target))
        else:
            before = written.written_so_far(
                store, _with_merge(store, request_for, begun, request_for(begun.target)), begun
            )
        state = _save_present(store, request, stack, before, can_skip=False)
        files, contents = _prepare(store, request, state, begun.paths)
        if forward:
            # What somebody created or edited after a crash was removed or overwritten by
            # --continue.
            files = leave_edited(store, contents, files, request_for(begun.safety).target)
            differing = _still_different(store, request, begun, state, contents)
            files = replace(files, kept=tuple(sorted((*files.kept, *differing), key=_path)))
        placed = _place(store, request, begun.session_id)
        if placed is not None:
            placing.sweep(placed)
        entry = LogEntry(begun.step, begun.safety, begun.extent, begun.key)
        if not forward:
            extent = replace(begun.extent, made=files.created, **_unrecorded(store, files, state))
            safety = state.saved.checkpoint.id
            entry = LogEntry(RestoreKind.RESTORE, safety, extent, begun.key, aborted=True)
        remembered = _memory_to_finish(store, request_for, begun, request, forward=forward)
        beside = Beside(placed, remembered, ())
        report = _carry_out(store, request, files, contents, state, beside, entry, begun)
        steps = states.not_continued(request.target, begun.extent.states, forward=forward)
        return replace(report, states=steps, conversation=report.target.conversation)


def _memory_to_finish(
    store: Store,
    request_for: Callable[[CheckpointId], RestoreRequest],
    begun: Unfinished,
    request: RestoreRequest,
    *,
    forward: bool,
) -> MemoryPlan | None:
    """Return what becomes of the memory: what was written there since the crash stays, except that
    a return to the state before takes it away, which can be undone.
    """
    remembered = memory.plan(store, request)
    if remembered is None or not forward:
        return remembered
    return memory.leave_edited(store, remembered, request_for(begun.safety).target)


def _with_merge(
    store: Store,
    request_for: Callable[[CheckpointId], RestoreRequest],
    begun: Unfinished,
    request: RestoreRequest,
) -> RestoreRequest:
    """Return the request of an interrupted restore, with its snapshot if it merges."""
    if begun.merged is not None:
        request = replace(request, mine=True, merged=begun.merged)
    if begun.reverted is None:
        return request
    step_from, ours = (request_for(id).target for id in (begun.reverted, begun.safety))
    request = replace(request, reverted=step_from, markers=begun.markers)
    if request.merged is not None:
        return request
    return merged_into(store, store.objects, request, ours.snapshot)


def _restore(
    store: Store,
    request: RestoreRequest,
    agreed: RestorePlan | FilePlan | None,
    step: RestoreKind,
) -> Report:
    request = others.decided(store, request)
    looks = request.mine or others.has_live(store, request.session or "")
    offered = states.offered(store, request)
    try:
        allowed = _allowed(store, request, agreed, looks=looks)
        if isinstance(agreed, RestorePlan) and (agreed.memory, agreed.states) != (
            memory.plan(store, request),
            states.plan(store, request),
        ):
            _refuse_outdated(request)
        report = _save_and_restore(store, request, allowed, step, looks=looks)
    except _Unchanged as unchanged:
        kept, placed = unchanged.kept, unchanged.placed
        failed = any(one.missing for one in kept)
        report = Report(request.target, None, None, (), (), kept, placed, failed)
    current = _continued_session(store, request) if report.checkpoint is None else ""
    report = replace(report, conversation=request.stored[0], offered=offered, current=current)
    if isinstance(agreed, RestorePlan):
        known = {"others": agreed.others, "conflicts": agreed.conflicts, "choice": agreed.choice}
        return replace(report, effects=agreed.effects, **known)
    return replace(report, effects=effects.open_commands(store, request.target))


def _continued_session(store: Store, request: RestoreRequest) -> str:
    """Make the target's session the current one where nothing else has to change, as a restore that
    changes something does. Return it, "" if it stays another one.
    """
    # Taking over a colleague's session that the files matched left the next save in another one.
    if not request.conversation or request.program:
        return ""
    last, restored = session.last_used(store), session.owner(store, request.target)
    tip = store.tip(last) if last else None
    is_known = tip is not None and any(
        each.commit == request.target.commit for each in store.readable(tip)
    )
    if restored == last or is_known or store.tip(restored) is None:
        return ""
    session.set_current(store, restored)
    return restored


def _allowed(
    store: Store,
    request: RestoreRequest,
    agreed: RestorePlan | FilePlan | None,
    *,
    looks: bool,
) -> FilePlan | None:
    """Return the files agreed to, None for whichever differ. Raises OthersAffected, and Refused for
    conflicts. `looks`: other sessions may be affected.
    """
    if isinstance(agreed, FilePlan):
        return agreed
    decided = (request.whole_tree and not request.mine) or not request.files
    if agreed is None and (looks or request.undoing) and not decided:
        _check_allowed(store, request)
        agreed = plan(store, request)
    if agreed is None:
        return None
    others.require_allowed(request, agreed.others)
    others.require_merged(request, agreed.conflicts, agreed.conflicting)
    return None if request.undoing else agreed.files


def _save_and_restore(
    store: Store,
    request: RestoreRequest,
    agreed: FilePlan | None,
    step: RestoreKind,
    *,
    looks: bool,
) -> Report:
    _check_allowed(store, request)
    trust.admit(store, request.target, trusted=request.trust)
    check_paths(store, request)
    steps = states.plan(store, request)
    stack = undo_stack.restores(store.repo)
    earlier = _written_before(store, request, stack)
    is_plain = step is RestoreKind.RESTORE and not (request.index or request.is_merge)
    can_skip = is_plain and not (agreed or steps)
    state = _save_present(store, request, stack, earlier, can_skip=can_skip)
    line = _WorktreeHistory(store, request) if looks or request.name_others else None
    request = _merged(store, request, state, line)
    current = state.saved.checkpoint
    files, contents = _prepare(store, request, state, request.paths)
    if agreed is not None and files != agreed:
        _refuse_outdated(request)
    steps = states.checked(store, request, steps, state.saved)
    beside = Beside(_place(store, request), memory.plan(store, request), steps)
    extent = _extent(store, request, files, state, beside)
    entry = LogEntry(step, current.id, extent, os.urandom(8).hex())
    if _is_restored(request, state, files, beside):
        remember_scan(store, state.saved)
        states.require_asked(store, request, step)
        if step is not RestoreKind.RESTORE:
            _record(store, request, entry, (request.target.id, current.id))
        return _nothing_to_do(request, state, files, beside)
    _begin(store, request, entry, files, beside.placed)
    report = _carry_out(store, request, files, contents, state, beside, entry)
    if line is None or report.checkpoint is None:
        return report
    affected = line.affected(files)
    restore_notice.leave_for(store, report.checkpoint, current.id, affected)
    return replace(report, others=affected)


def _written_before(store: Store, request: RestoreRequest, stack: Restores) -> WrittenBefore:
    """Return what the restore that began at the target wrote; a revert begins at none."""
    if request.reverted:
        return WrittenBefore()
    return written.read(store.repo, _extent_of(stack, request.target))


def _is_restored(
    request: RestoreRequest, state: SavedState, files: FilePlan, beside: Beside
) -> bool:
    """Return whether everything is as in the target already."""
    differs = files or request.index or beside.memory or states.differ(beside.states)
    return not differs and _is_placed(request, state.saved.checkpoint, beside.placed)


def _nothing_to_do(
    request: RestoreRequest, state: SavedState, files: FilePlan, beside: Beside
) -> Report:
    made, kept = (state.saved.checkpoint.id, None, (), ()), (*files.kept, *state.kept)
    failed = any(each.missing for each in (*files.kept, *states.left(beside.states)))
    report = Report(request.target, *made, kept, beside.placed, failed, left=request.left)
    return replace(report, states=beside.states)


def _merged(
    store: Store, request: RestoreRequest, state: SavedState, line: _WorktreeHistory | None
) -> RestoreRequest:
    """Return the request with its merge, if it is one. Raises Refused for conflicts."""
    transitions = line.transitions if line and request.mine else ()
    request = _merged_into(store, store.objects, request, state.snapshot, transitions)
    others.require_merged(request, request.conflicts, line.conflicting(request) if line else ())
    return request


def _merged_into(
    store: Store,
    objects: Objects,
    request: RestoreRequest,
    present: CompletedSnapshot,
    transitions: Sequence[Transition],
) -> RestoreRequest:
    """Return the request with its merge, if it is one: an undo is one only if something changed
    since its restore. Its other files are exactly those before the restore.
    """
    ours = present.taken.snapshot
    if request.undoing:
        left = written.left(store, objects, request.undoing.left, present)
        request = replace(request, undoing=request.undoing._replace(left=left))
        if not merge.differ(objects.reader, (left, ours), request.paths):
            return request
    return merged_into(store, objects, request, ours, transitions)


def _begin(
    store: Store,
    request: RestoreRequest,
    entry: LogEntry,
    files: FilePlan,
    placed: Placed | None,
) -> None:
    """Write the journal."""
    begun = Unfinished(
        target=request.target.id,
        safety=entry.safety,
        paths=files.changed,
        extent=entry.extent,
        message=request.rewound.message if request.rewound else None,
        session_id=placed.session_id if placed else None,
        reverted=request.reverted.id if request.reverted else None,
        markers=request.markers,
        merged=_stored_merge(store, request) if request.is_merge and not request.reverted else None,
        step=entry.step,
        key=entry.key,
    )
    journal.begin(store.repo, begun)


def _stored_merge(store: Store, request: RestoreRequest) -> Snapshot:
    """Return the merged snapshot, with all its objects stored, as --continue needs them."""
    assert request.merged is not None
    store.writer.write_tree(store.reader.read_tree(request.merged.tree))
    store.writer.flush()
    return request.merged


def _refuse_outdated(request: RestoreRequest) -> NoReturn:
    # By now, `@` means the safety checkpoint.
    again = "run the command again" + ("" if request.reverted else f", for {request.target.id}")
    raise Refused("files changed after the plan was shown: nothing was restored", hint=again)


def _carry_out(
    store: Store,
    request: RestoreRequest,
    files: FilePlan,
    contents: Contents,
    before: SavedState,
    beside: Beside,
    entry: LogEntry,
    begun: Unfinished | None = None,
) -> Report:
    """Do everything that follows the journal. A part that fails is reported, and the others
    continue.

    `entry` is written to the operation log last. `begun` is the interrupted restore to finish.
    """
    in_use, safety = _in_use(store, files), before.saved.checkpoint
    with Writer(store.repo.root, begun.directories if begun else ()) as tree:
        done = apply_files(contents, files, tree, before.saved.taken.stamp)
        with tree.flushing():
            index_failures = (
                index_op.restore(store, request.target, request.paths) if request.index else ()
            )
            placed, remembered, unwritten = _write_agent(store, beside, safety)
            steps = states.restore(store, request.target, beside.states)
            since = PartialScan(before.saved.taken, frozenset(tree.changed), done.written)
            after = _save_after(
                store, request, safety, beside._replace(placed=placed, states=steps), since
            )
        wrong = still_wrong(contents, files, done, tree, Side(store.reader, after.taken.snapshot))
        files = replace(files, kept=(*files.kept, *done.failed, *wrong))
        wrote = written.written_by(store, request, files, done, safety.snapshot, tree, begun)
    entry = entry._replace(extent=written.write_list(store.repo, entry.extent, wrote))
    kept = (*files.kept, *index_failures, *unwritten, *before.kept)
    left = (*kept, *states.left(steps))
    restore_notice.leave(store, request.target, after.checkpoint, safety, left, steps, entry.step)
    _record(store, request, entry, (request.target.id, safety.id, after.checkpoint.id))
    journal.finish(store.repo)
    wrote_files = (*done.databases, *done.written)
    made = safety.id, after.checkpoint.id, wrote_files, tuple(done.removed)
    index = request.index and not index_failures
    failed = any(each.missing for each in left)
    report = Report(request.target, *made, kept, placed, failed, index=index, **in_use)
    live_ones = tuple(each for each in files.databases if each.path in done.databases)
    done_beside = {"memory": remembered, "states": steps}
    return replace(report, left=request.left, databases=live_ones, **done_beside)


def _write_agent(
    store: Store, beside: Beside, safety: Checkpoint
) -> tuple[Placed | None, MemoryPlan | None, tuple[Kept, ...]]:
    """Write the conversation, then the memory of its agent. Return what was written of both, and
    what was not.
    """
    placed, remembered = beside.placed, beside.memory
    unwritten = placing.write(placed) if placed is not None else None
    if unwritten is not None:
        return None, None, (unwritten, *(memory.not_begun(remembered) if remembered else ()))
    if not remembered:
        return placed, None, ()
    kept = memory.write(store, remembered, safety)
    return placed, remembered.without(kept), kept


def _record(
    store: Store, request: RestoreRequest, entry: LogEntry, ids: tuple[CheckpointId, ...]
) -> None:
    """Write the restore to the operation log, which completes it."""
    if entry.step is not RestoreKind.RESTORE:
        restore_notice.drop(store, request.target.id)
    summary = f"without {request.span}" if request.reverted else f"to {request.target.id}"
    if request.mine:
        summary += ", one session's changes"
    is_revert = request.reverted and entry.step is RestoreKind.RESTORE
    operation = oplog.REVERT if is_revert else entry.step.value
    fields = {"extent": entry.extent, "key": entry.key, "aborted": entry.aborted}
    undo_stack.record(store.repo, operation, summary, entry.safety, checkpoints=ids, **fields)


def _check_allowed(store: Store, request: RestoreRequest) -> None:
    if journal.unfinished(store.repo) is not None:
        raise Refused(
            "an interrupted restore must be finished first, or undone with gitcp restore --abort: "
            "nothing was changed",
            hint="gitcp restore --continue",
        )
    operation = store.repo.head().operation
    if operation and (request.files or request.index) and not request.force:
        error = Refused(
            f"a {operation} is in progress: nothing was changed; finish or abort it first",
            hint="git status",
        )
        error.option = ("--force",)  # of the same command: a restore of all files is another one
        raise error


def _extent(
    store: Store,
    request: RestoreRequest,
    files: FilePlan,
    state: SavedState,
    beside: Beside,
) -> Extent:
    """Return what a restore that applies `files`, and what is beside them, changes."""
    limits = files.changed if request.is_merge else request.paths
    flags = request.files, request.conversation, request.index
    unrecorded = _unrecorded(store, files, state)
    agent = beside.memory.agent if beside.memory else ""
    names = states.names(beside.states)
    return Extent(*flags, limits, files.created, **unrecorded, memory=agent, states=names)


def _unrecorded(store: Store, files: FilePlan, state: SavedState) -> dict[str, Any]:
    """Return the fields of the extent that undoing `files` needs and the safety checkpoint does not
    record.
    """
    taken = state.snapshot.taken
    rules = outside(store.repo, taken.memory)
    return {
        "bits": permissions.unrecorded(store, files, taken),
        "rules": written.write_rules(store.repo, rules),
    }


def _extent_of(stack: Restores, target: Checkpoint) -> Extent:
    """Return what the restore that began at this checkpoint changed; if none did, all but the
    index.
    """
    return stack.extents.get(target.id, Extent())


def _continued(
    store: Store, request: RestoreRequest, begun: Unfinished, *, forward: bool
) -> RestoreRequest:
    extent, rewound = begun.extent, None
    if forward and begun.message:
        from gitcp.restoring.message import before_message  # only for --continue

        rewound = before_message(store, begun.target.session, begun.message)[1]
    return replace(
        request,
        files=extent.files and bool(begun.paths),
        conversation=extent.conversation,
        memory=extent.memory,
        state=False,
        index=extent.index,
        paths=extent.paths,
        force=True,
        rewound=rewound,
        keeps_installed=False,
    )


def _choose_session(store: Store, request: RestoreRequest) -> session.Choice:
    """Return the session of the safety checkpoint.

    If the restore changes the conversation of another session, it is that one, so that an undo
    resumes the same agent. A program's is its own, as the plan takes what is not saved yet for its
    work: in that of another program that had saved last, it was that one's, and a batch that was
    killed in the middle of a file could not resume.
    """
    if request.program and request.session and store.tip(request.session):
        return session.choose(store, request.cwd, session=request.session)
    choice = session.choose_for_restore(store, request.cwd, request.target)
    if not request.conversation or request.stored[0] is None:
        return choice
    placed = _place(store, request)
    unchanged = placed.session_id if placed is not None and not placed.changes else None
    return session.choose_overwritten(store, request.cwd, request.target, choice, unchanged)


def _present_conversation(
    store: Store, request: RestoreRequest
) -> tuple[session.Choice, tuple[Conversation | None, Agent | None] | None]:
    """Return the session of the safety checkpoint and its conversation; if that is one that its
    agent has not imported yet, as it is stored.
    """
    choice = _choose_session(store, request)
    last = session.last_used(store) or choice.session
    waiting = placing.unimported(store, last, choice.capture, request.cwd)
    if waiting is None:
        return choice, None
    choice = session.Choice(waiting.id.session, None, "restored, but not imported yet")
    return choice, (waiting.conversation, waiting.agent)


def _save_present(
    store: Store, request: RestoreRequest, stack: Restores, before: WrittenBefore, *, can_skip: bool
) -> SavedState:
    """Save the current files and conversation as the safety checkpoint.

    `stack` is what can be undone. `before` lists what an earlier restore wrote: it is saved even if
    ignored now. With `can_skip`, raises _Unchanged and saves nothing if the restore would change
    nothing.
    """
    choice, stored = _present_conversation(store, request)
    placed = _place(store, request) if can_skip else None
    can_skip = can_skip and _is_conversation_unchanged(placed, choice)
    can_skip = can_skip and not memory.plan(store, request)
    snapshots: list[tuple[CompletedSnapshot, FilePlan | None]] = []

    def complete(taken: Taken) -> Taken:
        snapshot = written.completed(store, store.objects, taken, before)
        files = None
        if can_skip:
            read = Contents(store)
            files = _plan_files(store, store.objects, request, snapshot, read, request.paths)
            if not files:
                raise _Unchanged(files.kept, placed)
        snapshots.append((snapshot, files))
        return snapshot.taken

    safety = SaveRequest(
        request.cwd,
        trigger=Trigger.BEFORE_RESTORE,
        limits=request.scan_limits,
        # Two restores shared a safety checkpoint: undo of the first one undid what the second had
        # changed, and left files of the first.
        force=_is_safety(store, choice.session, stack),
        choice=choice,
        states=states.names(states.planned(store, request)),
        carried=Carried(conversation=stored),
        scan=RestoreScan(complete=complete, remember=False),
    )
    saved = save(store, safety)
    # The restore does not write a conversation that cannot be read, so the files can be restored.
    path = choice.capture.sources[0].path if choice.capture else None
    reason = f"the current conversation is not saved: {saved.unread and saved.unread.what}"
    kept = (Kept(os.fsencode(path or ""), reason),) if saved.unread else ()
    return SavedState(saved, kept, *snapshots[-1])


def _is_safety(store: Store, session: str, stack: Restores) -> bool:
    """Return whether undo or redo restores the last checkpoint of a session. It is not the safety
    checkpoint of a second restore: what each changed is recorded by its safety checkpoint.
    """
    tip = store.tip(session)
    if tip is None or not store.has_summary(tip):
        return False
    return store.summary(tip).id in (*stack.undo, *stack.redo)


def _save_after(
    store: Store,
    request: RestoreRequest,
    safety: Checkpoint,
    beside: Beside,
    since: PartialScan,
) -> Saved:
    """Save the checkpoint that records the restore.

    A restored conversation brings its note and its step results with it. `since` has what the
    restore changed.
    """
    stored, words = (safety.conversation, safety.agent), note.inherited(safety)
    placed = beside.placed
    if request.conversation:
        words = _restored_note(request)
    if placed is not None:
        conversation, agent = request.stored
        conversation = conversation and replace(conversation, worktree=store.repo.worktree_name)
        stored = (
            conversation,
            replace(agent, session_id=placed.session_id or agent.session_id) if agent else None,
        )
    return save(
        store,
        SaveRequest(
            cwd=request.cwd,
            trigger=Trigger.RESTORE,
            limits=request.scan_limits,
            force=True,
            choice=session.Choice(_session_after(store, request, safety), None, "restored"),
            records=Records(
                restored_from=None if request.reverted else request.target.id,
                reverted=request.span,
                states=states.restored(store, request.target, beside.states),
            ),
            carried=Carried(
                conversation=stored,
                note=replace(words, label=None, compensations=()),
                steps_of=request.target if request.conversation else None,
            ),
            scan=RestoreScan(since=since),
        ),
    )


def _restored_note(request: RestoreRequest) -> Note:
    """Return the target's note. A position needs all files of the target, or all that its session
    changed.
    """
    is_all = request.merged is None or (request.mine and not request.conflicts)
    whole = request.files and not request.paths and is_all
    return request.target.note if whole else note.inherited(request.target)


def _session_after(store: Store, request: RestoreRequest, safety: Checkpoint) -> str:
    """Return the session that continues.

    It is the target's if the conversation is restored, unless the current session has the target in
    its history, as a fork has.
    """
    current, restored = safety.id.session, session.owner(store, request.target)
    if current == restored or not request.conversation:
        return current
    return (
        current
        if any(s.commit == request.target.commit for s in store.history(safety.commit))
        else restored
    )


def _prepare(
    store: Store, request: RestoreRequest, state: SavedState, scope: tuple[bytes, ...]
) -> tuple[FilePlan, Contents]:
    """Return the plan and its verified contents. Raises StoreDamaged if a blob cannot be read."""
    contents = Contents(store)
    files = state.files
    if files is None:
        files = _plan_files(store, store.objects, request, state.snapshot, contents, scope)
    members = (
        FileStep(each.path + one.suffix, None, one.entry, one.conversion)
        for each in files.databases
        for one in each.members
    )
    contents.require((*files.write, *members), str(request.target.id))
    return files, contents


def _plan_files(
    store: Store,
    objects: Objects,
    request: RestoreRequest,
    now: CompletedSnapshot,
    contents: Contents,
    scope: tuple[bytes, ...],
) -> FilePlan:
    if not request.files:
        return FilePlan()
    with Writer(store.repo.root) as tree:
        sides = (
            now.taken.snapshot,
            permissions.completed(objects.reader, request.wanted, now.written, tree),
        )
        disk = WorktreeDisk(tree, contents)
        before = now.written
        facts = SnapshotFacts(frozenset(before.made), now.recovered, before.existing, before.rules)
        files = plan_files(store.repo, objects.reader, sides, scope, disk, facts)
        if request.keeps_installed and not request.paths:
            # A restore to before `enable` removed its hooks, and nothing was saved from then on.
            files = installed.kept(files, objects.reader, disk)
    kept = {one.path for one in files.kept}
    changed = [one for one in now.changed if one.path not in kept and within(one.path, scope)]
    return (
        replace(files, kept=tuple(sorted((*files.kept, *changed), key=_path))) if changed else files
    )


def _still_different(
    store: Store, request: RestoreRequest, begun: Unfinished, state: SavedState, contents: Contents
) -> tuple[Kept, ...]:
    """Return the paths that finishing an interrupted restore leaves different from the target:
    those that it kept at first, and those edited since.
    """
    if not begun.extent.files:
        return ()
    is_merge = begun.reverted is not None or begun.merged is not None
    scope = () if is_merge else request.paths
    request = replace(request, files=True, keeps_installed=True)
    whole = _plan_files(store, store.objects, request, state.snapshot, contents, scope)
    wanted = (*(step.path for step in whole.write), *(each.path for each in whole.permissions))
    edited = () if is_merge else (Kept(path, EDITED, missing=True) for path in wanted)
    return tuple(
        one
        for one in (*whole.kept, *edited)
        if not begun.paths or not within(one.path, begun.paths)
    )


def _path(one: Kept) -> bytes:
    return one.path


def _place(store: Store, request: RestoreRequest, session_id: str | None = None) -> Placed | None:
    """Return where the conversation goes.

    A restore done before, or begun with `session_id`, reuses its session id.
    """
    conversation, agent = request.stored
    if not request.conversation or conversation is None:
        return None
    tip = store.tip(request.target.id.session)
    trailers = store.summary(tip).trailers if tip else {}
    last = (
        trailers.get("Gitcp-Agent-Session")
        if agent and trailers.get("Gitcp-Agent") == agent.name
        else None
    )
    return placing.plan(store, conversation, agent, request.cwd, (session_id, last))


def _is_conversation_unchanged(placed: Placed | None, choice: session.Choice) -> bool:
    """Return whether a save would store the conversation from where the restore would write it."""
    if placed is None:
        return True
    agent = choice.capture.agent if choice.capture else None
    return not placed.changes and agent is not None and agent.session_id == placed.session_id


def _is_placed(request: RestoreRequest, current: Checkpoint, placed: Placed | None) -> bool:
    """Return whether the current conversation is the one to restore, under the session id that it
    would get.

    If the agent keeps it under that id and no file has to be written, it is, even if more was
    captured: an agent may rewrite a conversation that it imports.
    """
    wanted, _ = request.stored
    if placed is None or wanted is None:
        return True
    same = current.conversation is not None and (
        placed.session_id is not None or current.conversation.streams == wanted.streams
    )
    return (
        same
        and not placed.changes
        and (current.agent.session_id if current.agent else None) == placed.session_id
    )
