"""Restore: ref → commit → plan → apply. The present state is saved first; every restore can be
undone.

`plan` only looks. `restore` saves a safety checkpoint, plans again from it, makes sure that
everything needed can be read, writes down what it is about to do, does it, puts the conversation
where the agent resumes it, and appends a checkpoint that says what was restored.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from gitcp.errors import ConversationUnreadable, Refused
from gitcp.git.objects import Objects
from gitcp.history import log
from gitcp.model import Checkpoint, CheckpointId, Trigger
from gitcp.restoring import index as index_op
from gitcp.restoring import permissions, placing, restore_notice, trust, written
from gitcp.restoring.apply import apply_files, leave_edited, still_wrong
from gitcp.restoring.contents import Contents
from gitcp.restoring.placing import Placed
from gitcp.restoring.plan import Beside, FilePlan, Kept, Side, plan_files, within
from gitcp.restoring.request import Request, check_paths, know_files, merged_into, somewhere
from gitcp.restoring.worktree_view import WorktreeDisk
from gitcp.restoring.written import Found, Written
from gitcp.saving import session
from gitcp.saving.save import Request as SaveRequest
from gitcp.saving.save import Saved, live_trees, save
from gitcp.state import effects, journal, oplog
from gitcp.state.journal import Extent, Restores, Step, Unfinished
from gitcp.store import Store, Summary
from gitcp.value import Value, replace
from gitcp.worktree.rules import outside
from gitcp.worktree.snapshot import Since, Taken, take
from gitcp.worktree.writer import Writer

__all__ = (
    "Plan",
    "Report",
    "Request",
    "finish",
    "know_files",
    "plan",
    "redo",
    "restore",
    "stepping",
    "undo",
)


class Plan(Value):
    """What a restore would do. `later` are the checkpoints it goes back past, newest first;
    `effects` are the compensations recorded since, without those that were run; a restore runs
    none.
    """

    target: Checkpoint
    files: FilePlan
    placed: Placed | None
    later: tuple[Summary, ...]
    effects: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.files) or (self.placed is not None and self.placed.changes)


class Report(Value):
    """What a restore did. `checkpoint` is None when everything was as wanted already. `failed`: not
    all came back.
    """

    target: Checkpoint
    safety: CheckpointId
    checkpoint: CheckpointId | None
    written: tuple[bytes, ...]
    removed: tuple[bytes, ...]
    kept: tuple[Kept, ...]
    placed: Placed | None
    failed: bool


class Present(NamedTuple):
    """What was there before a restore: saved, what of it could not be, and the snapshot of it."""

    saved: Saved
    kept: tuple[Kept, ...]
    found: Found


def plan(store: Store, request: Request) -> Plan:
    """What `restore` would do now. Writes nothing, anywhere. Raises BadValue for a path that is
    nowhere.
    """
    know_files(store, request.target)
    check_paths(store, request)
    objects = Objects(store.repo, dry=True)
    now = take(store.repo, objects, request.limits, live_trees(store, request.target.id.session))
    later = tuple(log.later(store, request.target))
    return Plan(
        target=request.target,
        files=plan_from(store, objects, request, now),
        placed=_place(store, request),
        later=later,
        effects=effects.open_commands(store, request.target),
    )


def plan_from(store: Store, objects: Objects, request: Request, now: Taken) -> FilePlan:
    """What restoring the target's files would do, from a snapshot of now whose trees `objects` has.
    Writes nothing.
    """
    objects.name_tree(store.objects.read_tree(request.target.snapshot.tree))
    before = written.read(store.repo, _extent_of(journal.restores(store.repo), request.target))
    found = written.completed(store, objects, now, before)
    return _plan_files(store, objects, request, found, Contents(store), request.paths)


def restore(store: Store, request: Request, agreed: Plan | FilePlan | None = None) -> Report:
    """Do it. Raises Refused, with nothing changed, if the files are no longer those that `agreed`
    was made for.
    """
    agreed = agreed.files if isinstance(agreed, Plan) else agreed
    with journal.lock(store.repo):
        return _restore(store, request, agreed, Step.RESTORE)


def undo(store: Store, request_for: Callable[[CheckpointId], Request]) -> Report:
    """Go back to the state before the last restore. Raises Refused if there is none."""
    with journal.lock(store.repo):
        known = journal.restores(store.repo)
        if not known.undo:
            raise Refused("there is no restore to undo: nothing was changed", hint="gitcp log")
        return _restore(store, stepping(store, request_for(known.undo[-1])), None, Step.UNDO)


def redo(store: Store, request_for: Callable[[CheckpointId], Request]) -> Report:
    """Take back the last undo. Raises Refused if there is none."""
    with journal.lock(store.repo):
        known = journal.restores(store.repo)
        if not known.redo:
            raise Refused("there is no undo to take back: nothing was changed", hint="gitcp log")
        return _restore(store, stepping(store, request_for(known.redo[-1])), None, Step.REDO)


def stepping(store: Store, request: Request) -> Request:
    """What `undo` or `redo` bring back of their target: no more than what the restore after it
    changed.
    """
    extent = _extent_of(journal.restores(store.repo), request.target)
    there = somewhere(store, replace(request, paths=extent.paths))
    files = extent.files and bool(there or not extent.paths)
    return replace(
        request, files=files, conversation=extent.conversation, index=extent.index, paths=there
    )


def finish(
    store: Store, request_for: Callable[[CheckpointId], Request], *, forward: bool
) -> Report:
    """Carry an interrupted restore to its target (`forward`), or everything it touched back to
    where it was.

    Forward, what somebody edited since is kept, as it would have been before. The journal stays as
    it is until all is done, however often this too is interrupted.
    """
    with journal.lock(store.repo):
        begun = journal.unfinished(store.repo)
        if begun is None:
            raise Refused("no restore was interrupted here: nothing was changed", hint="gitcp log")
        request = _resumed(
            store, request_for(begun.target if forward else begun.safety), begun, forward=forward
        )
        know_files(store, request.target)
        journal.sweep(store.repo, begun)
        if forward:
            request = _as_begun(store, request_for, begun, request)
            before = written.read(store.repo, _extent_of(begun.before, request.target))
        else:
            before = written.so_far(
                store, _as_begun(store, request_for, begun, request_for(begun.target)), begun
            )
        present = _save_present(store, request, before)
        files, contents = _prepare(store, request, present, begun.paths)
        if forward:
            files = leave_edited(store, contents, files, request_for(begun.safety).target)
        placed = _place(store, request, begun.session_id)
        if placed is not None:
            placing.sweep(placed)
        here, after = begun.safety, begun.after
        if not forward:
            here = present.saved.checkpoint.id
            extent = replace(begun.extent, made=files.created, **_unrecorded(store, files, present))
            after = Restores(
                (*begun.before.undo, here),
                begun.before.redo,
                {**begun.before.extents, here: extent},
            )
        step = begun.step if forward else Step.RESTORE
        return _carry_out(
            store, request, files, contents, present, placed, (here, after), step, begun
        )


def _as_begun(
    store: Store,
    request_for: Callable[[CheckpointId], Request],
    begun: Unfinished,
    request: Request,
) -> Request:
    """The request for the target of an interrupted restore; a revert knows again what it leads
    to.
    """
    if begun.reverted is None:
        return request
    step_from, ours = (request_for(id).target for id in (begun.reverted, begun.safety))
    return merged_into(
        store, replace(request, reverted=step_from, markers=begun.markers), ours.snapshot
    )


def _restore(store: Store, request: Request, agreed: FilePlan | None, step: Step) -> Report:
    _check_allowed(store, request)
    trust.admit(store, request.target, trusted=request.trust)
    know_files(store, request.target)
    check_paths(store, request)
    known = journal.restores(store.repo)
    extent_of_target = _extent_of(known, request.target)
    before = Written() if request.reverted else written.read(store.repo, extent_of_target)
    present = _save_present(store, request, before)
    request = merged_into(store, request, present.saved.checkpoint.snapshot)
    here = present.saved.checkpoint.id
    files, contents = _prepare(store, request, present, request.paths)
    if agreed is not None and files != agreed:
        _refuse_outdated(request)
    placed = _place(store, request)
    extent = _extent(store, request, files, present)
    then = journal.stepped(known, step, here, extent)
    if not files and not request.index and _is_placed(request, present.saved.checkpoint, placed):
        if step is not Step.RESTORE:
            journal.set_restores(store.repo, then)
            _record(store, step, request, (request.target.id, here))
        kept, missing = (*files.kept, *present.kept), any(kept.missing for kept in files.kept)
        return Report(request.target, here, None, (), (), kept, placed, failed=missing)
    begun = Unfinished(
        target=request.target.id,
        safety=here,
        paths=files.changed,
        extent=extent,
        message=request.rewound.message if request.rewound else None,
        session_id=placed.session_id if placed else None,
        reverted=request.reverted.id if request.reverted else None,
        markers=request.markers,
        before=known,
        after=then,
        step=step,
    )
    journal.begin(store.repo, begun)
    return _carry_out(store, request, files, contents, present, placed, (here, then), step)


def _refuse_outdated(request: Request) -> NoReturn:
    # `@` means the safety checkpoint by now.
    again = "run the command again" + ("" if request.reverted else f", for {request.target.id}")
    raise Refused("the files changed since the plan was shown: nothing was restored", hint=again)


def _carry_out(
    store: Store,
    request: Request,
    files: FilePlan,
    contents: Contents,
    present: Present,
    placed: Placed | None,
    then: tuple[CheckpointId, Restores],
    step: Step,
    begun: Unfinished | None = None,
) -> Report:
    """Everything after the journal is written. Each part that fails is reported, and the others are
    done.

    `then` is what can be undone afterwards, and this restore's checkpoint in it. `begun` is the one
    to finish.
    """
    with Writer(store.repo.root, begun.directories if begun else ()) as tree:
        done = apply_files(contents, files, tree, present.saved.taken.stamp)
        with tree.flushing():
            unset = index_op.restore(store, request.target, request.paths) if request.index else ()
            unplaced = placing.write(placed) if placed is not None else None
            placed = placed if unplaced is None else None
            after = _save_after(store, request, present.saved, placed, frozenset(tree.changed))
        wrong = still_wrong(contents, files, done, tree, Side(store.objects, after.taken.snapshot))
        files = replace(files, kept=(*files.kept, *done.failed, *wrong))
        wrote = written.by(store, request, files, present.saved.checkpoint.snapshot, tree, begun)
    journal.set_restores(store.repo, written.added(store.repo, *then, wrote))
    safety = present.saved.checkpoint.id
    _record(store, step, request, (request.target.id, safety, after.checkpoint.id))
    journal.finish(store.repo)
    kept = (*files.kept, *unset, *((unplaced,) if unplaced else ()), *present.kept)
    restore_notice.leave(store, request.target, after.checkpoint, safety, kept)
    changed = tuple(done.written), tuple(done.removed)
    failed = any(one.missing for one in kept)
    return Report(request.target, safety, after.checkpoint.id, *changed, kept, placed, failed)


def _record(store: Store, step: Step, request: Request, ids: tuple[CheckpointId, ...]) -> None:
    """Write the restore into the operation log, an undo or redo with the restore that it is of."""
    of = None if step is Step.RESTORE else _walked(store, step)
    said = f"without {request.span}" if request.reverted else f"to {request.target.id}"
    what = oplog.REVERT if request.reverted and step is Step.RESTORE else step.value
    oplog.record(store.repo, what, said, checkpoints=ids, of=of)


def _walked(store: Store, step: Step) -> int | None:
    """Which operation an undo or redo is of."""
    standing = oplog.standing(oplog.entries(store.repo), store.repo.worktree_name)
    walked = standing.undo if step is Step.UNDO else standing.redo
    return next((each.number for each in reversed(walked) if each.what in oplog.RESTORING), None)


def _check_allowed(store: Store, request: Request) -> None:
    if journal.unfinished(store.repo) is not None:
        raise Refused(
            "a restore was interrupted here and is not finished: nothing was changed",
            hint="gitcp restore --continue  (or --abort)",
        )
    operation = store.repo.head().operation
    if operation and (request.files or request.index) and not request.force:
        raise Refused(
            f"a {operation} is in progress: nothing was changed",
            hint=(
                f"finish or abort the {operation} first, or: gitcp restore {request.target.id} "
                "--force"
            ),
        )


def _extent(store: Store, request: Request, files: FilePlan, present: Present) -> Extent:
    """What a restore that carries out `files` changes."""
    limits = files.changed if request.reverted else request.paths
    flags = request.files, request.conversation, request.index
    return Extent(*flags, limits, files.created, **_unrecorded(store, files, present))


def _unrecorded(store: Store, files: FilePlan, present: Present) -> dict[str, Any]:
    """What the safety checkpoint does not record of what is there, and undoing `files` exactly
    needs.
    """
    taken = present.found.taken
    rules = outside(store.repo, taken.memory.lines if taken.memory else {}, taken.stamp)
    return {
        "bits": permissions.unrecorded(store, files, taken),
        "rules": written.keep_rules(store.repo, rules),
    }


def _extent_of(known: Restores, target: Checkpoint) -> Extent:
    """What the restore that began at this checkpoint changed; all but the index where none did."""
    return known.extents.get(target.id, Extent())


def _resumed(store: Store, request: Request, begun: Unfinished, *, forward: bool) -> Request:
    """The request that goes on with an interrupted restore."""
    extent, rewound = begun.extent, None
    if forward and begun.message:
        from gitcp.restoring.message import before_message  # for --continue alone

        rewound = before_message(store, begun.target.session, begun.message)[1]
    return replace(
        request,
        files=extent.files and bool(begun.paths),
        conversation=extent.conversation,
        index=extent.index,
        paths=extent.paths,
        force=True,
        rewound=rewound,
    )


def _belonging(store: Store, request: Request) -> session.Choice:
    """The session that what is here belongs to; where the conversation of another one is to change,
    that one, so that undoing it goes on with the same agent.
    """
    choice = session.present(store, request.cwd, request.target)
    if not request.conversation or request.stored[0] is None:
        return choice
    placed = _place(store, request)
    unchanged = placed.session_id if placed is not None and not placed.changes else None
    return session.changed(store, request.cwd, request.target, choice, unchanged)


def _save_present(store: Store, request: Request, before: Written) -> Present:
    """Save what is here, files and conversation, in the session that it belongs to.

    `before` is what the restore wrote that is taken back: it is saved though no look at the tree
    may show it.
    """
    choice = _belonging(store, request)
    found: list[Found] = []

    def complete(taken: Taken) -> Taken:
        found.append(written.completed(store, store.objects, taken, before))
        return found[-1].taken

    wanted = SaveRequest(
        request.cwd,
        trigger=Trigger.BEFORE_RESTORE,
        limits=request.limits,
        choice=choice,
        complete=complete,
    )
    try:
        return Present(save(store, wanted), (), found[-1])
    except ConversationUnreadable as error:
        # It is not touched, so the files need not stay as they are because of it.
        path = choice.capture.sources[0].path if choice.capture else None
        kept = Kept(os.fsencode(path or ""), f"the conversation of now is not saved: {error}")
        saved = save(store, replace(wanted, choice=choice._replace(capture=None)))
        return Present(saved, (kept,), found[-1])


def _save_after(
    store: Store, request: Request, before: Saved, placed: Placed | None, changed: frozenset[bytes]
) -> Saved:
    """The checkpoint that says what was restored. With the conversation its words come back, and
    results of steps.

    `changed` are the paths that the restore changed.
    """
    safety = before.checkpoint
    stored, words = (safety.conversation, safety.agent), safety.note
    if request.conversation:
        words = request.target.note
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
            limits=request.limits,
            force=True,
            restored_from=None if request.reverted else request.target.id,
            reverted=request.span,
            choice=session.Choice(_session_after(store, request, safety), None, "restored"),
            stored=stored,
            words=replace(words, label=None, compensations=()),
            steps_of=request.target if request.conversation else None,
            since=Since(before.taken, changed),
        ),
    )


def _session_after(store: Store, request: Request, safety: Checkpoint) -> str:
    """The session that goes on: the target's where its conversation comes back, unless the one that
    is here has the target behind it, as a fork has those before its fork point.
    """
    here, there = safety.id.session, session.holding(store, request.target)
    if here == there or not request.conversation:
        return here
    return (
        here
        if any(s.commit == request.target.commit for s in store.history(safety.commit))
        else there
    )


def _prepare(
    store: Store, request: Request, present: Present, scope: tuple[bytes, ...]
) -> tuple[FilePlan, Contents]:
    """The plan, and everything it needs, read. Raises StoreDamaged if something of it is lost."""
    contents = Contents(store)
    files = _plan_files(store, store.objects, request, present.found, contents, scope)
    contents.require(files.write, str(request.target.id))
    return files, contents


def _plan_files(
    store: Store,
    objects: Objects,
    request: Request,
    now: Found,
    contents: Contents,
    scope: tuple[bytes, ...],
) -> FilePlan:
    if not request.files:
        return FilePlan()
    with Writer(store.repo.root) as tree:
        sides = now.taken.snapshot, permissions.completed(store, request.wanted, now.written, tree)
        disk = WorktreeDisk(tree, contents)
        before = now.written
        beside = Beside(frozenset(before.made), now.held, before.standing, before.rules)
        files = plan_files(store.repo, objects, sides, scope, disk, beside)
    known = {one.path for one in files.kept}
    changed = [one for one in now.changed if one.path not in known and within(one.path, scope)]
    return (
        replace(files, kept=tuple(sorted((*files.kept, *changed), key=lambda one: one.path)))
        if changed
        else files
    )


def _place(store: Store, request: Request, session_id: str | None = None) -> Placed | None:
    """Where the conversation goes. A restore that was done, or begun under `session_id`, is not to
    make another one.
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


def _is_placed(request: Request, now: Checkpoint, placed: Placed | None) -> bool:
    """Whether the conversation of now is the one to be brought back, under the id it would go to.

    Where its agent keeps it under that id, and nothing is to be written, it is, though what was
    captured may be more: an agent says things in its own way when it takes a conversation in.
    """
    brought, _ = request.stored
    if placed is None or brought is None:
        return True
    same = now.conversation is not None and (
        placed.session_id is not None or now.conversation.streams == brought.streams
    )
    return (
        same
        and not placed.changes
        and (now.agent.session_id if now.agent else None) == placed.session_id
    )
