"""The tools that change something: save, note, restore, undo, revert, fork.

What changes files returns a plan first, and runs only with the digest of that plan.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from gitcp import adapters, documents
from gitcp.cli import restore_view
from gitcp.cli.context import Context
from gitcp.cli.options import NoteOptions, note_of
from gitcp.errors import BadValue, GitcpError, Refused
from gitcp.lifecycle import fork as fork_op
from gitcp.lifecycle import housekeeping
from gitcp.mcp import arguments
from gitcp.mcp.documents import bounded
from gitcp.mcp.hints import call
from gitcp.mcp.reading import inside
from gitcp.model import CheckpointId
from gitcp.model import Note as NoteValue
from gitcp.restoring import restore as restore_op
from gitcp.restoring import revert as revert_op
from gitcp.restoring.planned import digest_of
from gitcp.restoring.request import RestoreRequest
from gitcp.restoring.restore import Report, RestorePlan
from gitcp.restoring.undo import to_redo, to_undo
from gitcp.saving import session as session_op
from gitcp.saving.save import Saved, SaveRequest
from gitcp.saving.save import save as save_op
from gitcp.state import note as note_op
from gitcp.state import trash, undo_stack
from gitcp.value import replace
from gitcp.wire import Json

PATIENCE = 3.0
"""Seconds for which a save waits for the conversation of the agent that calls."""

NOTE_FIELDS = ("phase", "objective", "task", "facts", "decided", "failed", "next", "active")


def save(context: Context, given: arguments.Save) -> Json:
    """Save files and conversation."""
    request = SaveRequest(
        context.cwd,
        note=replace(_note(given), label=given.label),
        tags=tuple(given.tags or ()),
        session=given.session,
        limits=context.limits(),
        patience=PATIENCE,
        watched=True,
        due_states=True,
    )
    saved = save_op(context.store, request)
    if saved.saved:
        with suppress(GitcpError):  # the save stands
            housekeeping.after_save(context.store, saved.checkpoint.id)
    tags = context.tags.get(saved.checkpoint.commit, ())
    fields: Json = {
        "saved": saved.saved,
        "reason": saved.reason,
        "warning": None,
        "checkpoint": documents.checkpoint(saved.checkpoint, tags),
    }
    missing = [f"not saved: {each}" for each in saved.missing_states]
    if saved.unread is not None or saved.faults or missing:
        doubts = (saved.unread, *saved.faults, *missing)
        fields["warning"] = "; ".join(map(str, filter(None, doubts)))
    elif saved.checkpoint.conversation is None:
        fields["warning"] = _without_conversation(context, saved)
    return bounded("save", fields)


def _without_conversation(context: Context, saved: Saved) -> str:
    """Return the warning for a save that stored files but no conversation."""
    running = adapters.running(context.host)
    if running is None:
        return f"no conversation was saved, only the files: {saved.why}"
    return (
        f"no conversation was saved, only the files: {running.agent} has written none yet; save "
        "again later"
    )


def note(context: Context, given: arguments.Note) -> Json:
    """Add to the pending note."""
    named = session_op.named(context.store, given.session)
    waiting = note_op.add(context.store, named, _note(given))
    return bounded("note", waiting.to_json())


def _note(given: arguments.Save | arguments.Note) -> NoteValue:
    fields: dict[str, Any] = {name: getattr(given, name) for name in NOTE_FIELDS}
    lists = {name: tuple(fields[name] or ()) for name in ("decided", "failed", "next", "active")}
    facts = [f"{key}={value}" for key, value in (given.facts or {}).items()]
    return note_of(NoteOptions(**{**fields, **lists, "facts": facts, "position": ()}))


# ---------------------------------------------------------------- plans


def _agreed(
    given: arguments.Restore | arguments.Undo | arguments.Revert, plan: Json, digest: str
) -> Json | None:
    """Return the plan as the result of a call without a digest; None if the call has its digest.

    Raises Refused if it has another one.
    """
    tool, named = type(given).__name__.lower(), given.model_dump(exclude_unset=True)
    if given.digest is None:
        following = {"tool": tool, "arguments": {**named, "digest": digest}}
        name = plan["schema"].removeprefix("gitcp.").partition("/")[0]
        return {**bounded(name, plan), "digest": digest, "next": following}
    if given.digest != digest:
        named.pop("digest")
        raise Refused(
            "the digest does not match the current plan: nothing was changed",
            hint=f"{call(tool, named)} and review the plan",
        )
    return None


def restore(context: Context, given: arguments.Restore) -> Json:
    """Plan a restore, or carry out the plan."""
    target = context.to_change(given.revision, given.session)
    paths = inside(context, given.paths, target)
    request = RestoreRequest(
        target,
        context.cwd,
        files=given.what != "conversation",
        conversation=given.what != "files" and given.paths is None,
        paths=paths,
        limits=context.limits(),
        mine=given.mine,
        whole_tree=given.whole_tree,
    )
    if given.mine and (given.whole_tree or not request.files):
        raise BadValue("mine is about files, and excludes whole_tree: nothing was changed")
    plan = restore_op.plan(context.store, request)
    document = restore_view.plan_document(plan)
    planned = _agreed(given, document, plan.digest)
    if planned is not None:
        return planned
    return _restored(restore_op.restore(context.store, request, plan), plan)


def _restored(report: Report, plan: RestorePlan) -> Json:
    planned = {"effects": plan.effects, "others": plan.others, "conflicts": plan.conflicts}
    return bounded("restore", replace(report, **planned).to_json())


def undo(context: Context, given: arguments.Undo) -> Json:
    """Plan an undo or a redo, or carry out the plan."""
    store = context.store
    if not given.redo and (removal := to_undo(store)) is not None:
        return bounded("brought-back", trash.bring_back(store, removal).restored.to_json())
    if given.redo and to_redo(store) is not None:
        raise Refused(
            "redoing this drops checkpoints, which is for the user to decide: nothing was changed",
            hint="ask the user to run: gitcp redo",
        )

    def request_for(id: CheckpointId) -> RestoreRequest:
        return RestoreRequest(
            context.numbered(id),
            context.cwd,
            limits=context.limits(),
            mine=given.mine,
            whole_tree=given.whole_tree,
        )

    step = restore_op.redo if given.redo else restore_op.undo
    known = undo_stack.restores(store.repo)
    stack = known.redo if given.redo else known.undo
    if not stack:
        step(store, request_for)  # raises Refused
    request = restore_op.limited_to_extent(store, request_for(stack[-1]))
    plan = restore_op.plan(store, request)
    document = restore_view.plan_document(plan)
    planned = _agreed(given, document, plan.digest)
    return planned or _restored(step(store, request_for), plan)


def revert(context: Context, given: arguments.Revert) -> Json:
    """Plan a revert, or carry out the plan."""
    current = context.viewed(given.session)
    within = current if given.session is not None else None
    context.require_here(given.session, given.revision)
    target, before = revert_op.resolve_step(context.store, given.revision, current, within)
    request = RestoreRequest(
        target,
        context.cwd,
        conversation=False,
        paths=inside(context, given.paths, target, before),
        limits=context.limits(),
        reverted=before,
        markers=given.conflicts == "markers",
        mine=given.mine,
    )
    plan = revert_op.plan(context.store, request)
    document = documents.document("revert-plan", plan.to_json())
    digest = digest_of(target.commit, given.conflicts, document, plan.files)
    planned = _agreed(given, document, digest)
    if planned is not None:
        return planned
    if plan.conflicts and given.conflicts == "refuse":
        raise Refused(
            f"{request.span} cannot be reverted: later changes conflict with it; nothing was "
            "changed",
            hint='pass conflicts="keep" or conflicts="markers", or only some paths',
        )
    report = revert_op.revert(context.store, plan)
    return bounded("revert", plan.to_json(report))


def fork(context: Context, given: arguments.Fork) -> Json:
    """Start a new session."""
    request = fork_op.ForkRequest(
        point=context.checkpoint(given.revision, given.session),
        cwd=context.cwd,
        name=given.name,
        worktree=fork_op.new_directory(context.cwd, given.worktree),
        branch=given.branch,
    )
    return bounded("fork", fork_op.fork(context.store, request).to_json())
