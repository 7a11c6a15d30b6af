"""The JSON objects that `--json` prints: their keys are a promise to programs, and only grow.

Every key is always there, null or empty where there is nothing to say. Paths that are not UTF-8 are
{"base64": …}, times are UTC.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gitcp import wire
from gitcp.model import Agent, Checkpoint, Conversation, Entry, FileChange, Handoff, Run, Skip
from gitcp.wire import Json

if TYPE_CHECKING:
    from gitcp.adapters.base import Message
    from gitcp.history.find import Hit
    from gitcp.history.why import LineOrigin, PathHistory
    from gitcp.lifecycle.fork import Forked
    from gitcp.restoring import revert as revert_op
    from gitcp.restoring.placing import Placed
    from gitcp.restoring.plan import Kept
    from gitcp.restoring.restore import Report, RestorePlan
    from gitcp.restoring.rollback import Choice
    from gitcp.state.effects import Effect
    from gitcp.state.note import PendingNote
    from gitcp.store import Summary

MAIN = "main"


def document(schema: str, fields: Json) -> Json:
    """Return the fields of a document, headed by its schema's name and version."""
    return {"schema": f"gitcp.{schema}/1", **fields}


def checkpoint(found: Checkpoint, tags: Sequence[str]) -> Json:
    """Return the fields of a checkpoint."""
    base, note = found.snapshot.base, found.note
    return {
        "id": str(found.id),
        "session": found.id.session,
        "number": found.id.number,
        "commit": found.commit,
        "tree": found.root,
        "parent": found.parent,
        "created": wire.encode_time(found.created),
        "label": note.label,
        "phase": note.phase,
        "objective": note.objective,
        "trigger": found.trigger.value,
        "agent": agent(found.agent),
        "tags": list(tags),
        "base": base.commit,
        "branch": base.branch,
        "conversation": conversation(found.conversation),
        "files": {
            "total": found.snapshot.total,
            "changed": found.changed,
            "skipped": skipped(found.snapshot.skipped),
        },
        "facts": dict(note.facts),
        "handoff": handoff(note.handoff),
        "position": dict(note.position),
        "restored_from": str(found.restored_from) if found.restored_from else None,
        "forked_from": str(found.forked_from) if found.forked_from else None,
        "reverted": str(found.reverted) if found.reverted else None,
        "compensations": list(note.compensations),
        "run": run(found.run),
        "step": found.step._asdict() if found.step else None,
    }


def agent(found: Agent | None) -> Json | None:
    """Return the fields of an agent, null if there is none."""
    if found is None:
        return None
    return {
        "name": found.name,
        "version": found.version,
        "model": found.model,
        "session_id": found.session_id,
    }


def conversation(found: Conversation | None) -> Json | None:
    """Return the fields of a conversation; `sha256` is that of the main stream."""
    if found is None:
        return None
    last = found.digest.last_message
    return {
        "format": found.format,
        "messages": found.digest.messages,
        "bytes": found.bytes,
        "sha256": next((s.sha256 for s in found.streams if s.name == MAIN), None),
        "streams": [{"name": s.name, "bytes": s.bytes, "sha256": s.sha256} for s in found.streams],
        "last_message": {"role": last.role, "text": last.text, "id": last.id} if last else None,
    }


def run(found: Run | None) -> Json | None:
    """Return the fields of a run, null if none; `exit_code` is null if its end was not seen."""
    if found is None:
        return None
    return {
        "command": list(found.command),
        "exit_code": found.code,
        "milliseconds": found.milliseconds,
        "output": found.output,
    }


def effect(found: Effect) -> Json:
    """An effect outside of the files: what would undo it, and how that ended, null where it was not
    run.
    """
    return {"key": found.key, "command": found.command, "outcome": found.outcome}


def handoff(found: Handoff) -> Json:
    """Return the fields of a handoff."""
    return {
        "task": found.task,
        "decisions": list(found.decisions),
        "failed": list(found.failed),
        "next": list(found.next),
        "active": list(found.active),
    }


def waiting(found: PendingNote) -> Json:
    """Return the fields of a pending note."""
    note = found.note
    return {
        "session": found.session,
        "phase": note.phase,
        "objective": note.objective,
        "facts": dict(note.facts),
        "handoff": handoff(note.handoff),
        "position": dict(note.position),
    }


def skipped(found: Iterable[Skip]) -> list[Json]:
    """Return the skipped paths with their reasons."""
    return [
        {"path": wire.encode_path(s.path), "reason": s.reason.value, "detail": s.detail}
        for s in found
    ]


def change(found: FileChange) -> Json:
    """Return the fields of a changed path."""
    return {
        "path": wire.encode_path(found.path),
        "kind": found.kind.value,
        "old": _entry(found.old),
        "new": _entry(found.new),
    }


def summary(found: Summary) -> Json:
    """Return the fields that a checkpoint's commit alone contains."""
    return {
        "id": str(found.id),
        "created": wire.encode_time(found.created),
        "subject": found.subject,
        "trigger": found.trailers.get("Gitcp-Trigger"),
    }


def message(kind: str, found: Message) -> Json:
    """Return the fields of a message with its `kind`, "added" or "deleted"."""
    return {
        "kind": kind,
        "role": found.role,
        "text": _utf8(found.text),
        "id": found.id,
        "tool": found.tool,
    }


def report(
    found: Report,
    brought: Conversation | None,
    effects: Sequence[str],
    *,
    saved_first: bool,
    choice: Choice | None = None,
) -> Json:
    """What a restore did; `brought` is the conversation that was put back. `saved_first`: what was
    there was saved.

    `choice` is why a rollback restored this checkpoint.
    """
    return {
        "target": str(found.target.id),
        "safety": str(found.safety) if saved_first and found.safety else None,
        "checkpoint": str(found.checkpoint) if found.checkpoint else None,
        "written": paths(found.written),
        "removed": paths(found.removed),
        "kept": kept(found.kept),
        **_brought_back(found.target, found.placed, brought, effects),
        **_chosen(choice),
    }


def plan(found: RestorePlan, brought: Conversation | None, choice: Choice | None = None) -> Json:
    """Return what a restore would do, under the keys of `restored`."""
    files = found.files
    return {
        "target": str(found.target.id),
        "safety": None,
        "checkpoint": None,
        "written": [wire.encode_path(step.path) for step in files.write],
        "removed": [wire.encode_path(step.path) for step in (*files.clear, *files.remove)],
        "kept": kept(files.kept),
        **_brought_back(found.target, found.placed, brought, found.effects),
        **_chosen(choice),
    }


def hit(found: Hit) -> Json:
    """Return the fields of a match."""
    return {
        "id": str(found.summary.id),
        "created": wire.encode_time(found.summary.created),
        "kind": found.kind,
        "where": wire.encode_path(found.where) if found.where else None,
        "line": found.line,
        "message": found.message,
        "text": _utf8(found.text),
    }


def why_line(path: bytes, found: LineOrigin) -> Json:
    """Return the fields of a line's origin."""
    made = found.made
    return {
        "path": wire.encode_path(path),
        "line": found.number,
        "text": _utf8(found.text),
        "checkpoint": str(made.id) if made else None,
        "began": found.began,
        "prompt": made.conversation.digest.last_prompt if made and made.conversation else None,
        "changed": [],
        "missing": None,
    }


def why_path(path: bytes, found: PathHistory) -> Json:
    """Return the history of a path, under the keys of a line's origin."""
    return {
        "path": wire.encode_path(path),
        "line": None,
        "text": None,
        "checkpoint": str(found.changed[0].id) if found.changed else None,
        "began": False,
        "prompt": None,
        "changed": [str(summary.id) for summary in found.changed],
        "missing": found.missing or None,
    }


def revert_plan(found: revert_op.RevertPlan) -> Json:
    """Return what a revert would do."""
    files = found.files
    return {
        "reverted": str(found.request.span),
        "safety": None,
        "checkpoint": None,
        "written": [wire.encode_path(step.path) for step in files.write],
        "removed": [wire.encode_path(step.path) for step in (*files.clear, *files.remove)],
        "kept": kept(files.kept),
        "conflicts": [
            {"path": wire.encode_path(each.path), "reason": each.why} for each in found.conflicts
        ],
        "affected": [
            {"id": str(each.summary.id), "paths": [wire.encode_path(path) for path in each.paths]}
            for each in found.affected
        ],
    }


def revert(found: revert_op.RevertPlan, done: Report) -> Json:
    """Return what a revert did, under the keys of its plan."""
    return {
        **revert_plan(found),
        "safety": str(done.safety),
        "checkpoint": str(done.checkpoint) if done.checkpoint else None,
        "written": [wire.encode_path(path) for path in done.written],
        "removed": [wire.encode_path(path) for path in done.removed],
        "kept": kept(done.kept),
    }


def forked(found: Forked) -> Json:
    """Return the fields of a new fork."""
    made = found.checkpoint
    return {
        "session": made.id.session,
        "checkpoint": str(made.id),
        "forked_from": str(made.forked_from),
        "worktree": path(found.worktree),
        "branch": found.branch,
        "kept": kept(found.kept),
        "resume": resume(found.placed) if found.placed else None,
    }


def path(found: Path | None) -> str | Json | None:
    """Return a path of the host as JSON has it."""
    return wire.encode_path(os.fsencode(found)) if found is not None else None


def _brought_back(
    target: Checkpoint, placed: Placed | None, brought: Conversation | None, effects: Sequence[str]
) -> Json:
    return {
        "conversation": conversation(brought) if placed else None,
        "resume": resume(placed) if placed else None,
        "facts": dict(target.note.facts),
        "handoff": handoff(target.note.handoff),
        "position": dict(target.note.position),
        "effects": list(effects),
    }


def _chosen(choice: Choice | None) -> Json:
    """Return a rollback's reason and older candidates; null and empty for other restores."""
    others = choice.others if choice else ()
    return {
        "reason": choice.why if choice else None,
        "candidates": [
            {
                "id": str(point.id),
                "created": wire.encode_time(point.created),
                "subject": point.subject,
                "trigger": point.trigger,
            }
            for point in others
        ],
    }


def resume(placed: Placed) -> Json:
    """Return how an agent continues."""
    return {
        "agent": placed.agent,
        "session_id": placed.session_id,
        "prepare": [list(command) for command in placed.prepare],
        "command": list(placed.command),
        "directory": path(placed.directory),
        "latest": _latest(placed),
        "path": path(placed.path),
    }


def _latest(placed: Placed) -> Json | None:
    """Return the session that the agent's own `--continue` would continue instead."""
    latest = placed.placement.latest
    return {"session_id": latest.session_id, "command": list(latest.command)} if latest else None


def kept(found: Iterable[Kept]) -> list[Json]:
    """Return the paths that were not changed, with the reasons."""
    return [{"path": wire.encode_path(one.path), "reason": one.reason} for one in found]


def paths(found: Iterable[bytes]) -> list[str | dict[str, str]]:
    """Return paths of the working tree as JSON has them."""
    return [wire.encode_path(path) for path in found]


def _utf8(text: str) -> str:
    """Return a text without lone surrogates, which JSON cannot contain."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _entry(found: Entry | None) -> Json | None:
    return {"mode": f"{found.mode:06o}", "oid": found.oid} if found else None
