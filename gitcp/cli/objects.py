"""The JSON objects that `--json` prints: their keys are a promise to programs, and only grow.

Every key is always there, null or empty where there is nothing to say. Paths that are not UTF-8 are
{"base64": …}, times are UTC.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gitcp import clock, wire
from gitcp.model import (
    MAIN,
    NOBODY,
    Agent,
    Checkpoint,
    Claim,
    Conversation,
    Entry,
    Fault,
    FileChange,
    Handoff,
    Run,
    Skip,
)
from gitcp.wire import Json

if TYPE_CHECKING:
    from gitcp.adapters.base import Message
    from gitcp.history.live import Turn
    from gitcp.history.matching import Hit
    from gitcp.history.why import LineOrigin, PathHistory
    from gitcp.lifecycle.fork import Forked
    from gitcp.restoring import revert as revert_op
    from gitcp.restoring.merge import Conflict
    from gitcp.restoring.others import OtherSession
    from gitcp.restoring.placing import Placed
    from gitcp.restoring.plan import Kept
    from gitcp.restoring.restore import Report, RestorePlan
    from gitcp.restoring.rollback import Choice
    from gitcp.state.effects import Effect
    from gitcp.state.hook_failures import Failing
    from gitcp.state.note import PendingNote
    from gitcp.store import Summary


def document(schema: str, fields: Json) -> Json:
    """Return the fields of a document, headed by its schema's name and version."""
    return {"schema": f"gitcp.{schema}/1", **fields}


def faults(broken: Sequence[Fault]) -> list[Json]:
    """Return what is broken of git's."""
    return [{"what": fault.what, "hint": fault.hint} for fault in broken]


def failing(failures: Failing | None) -> Json | None:
    """Return the failed saves of hooks."""
    if failures is None:
        return None
    times = map(clock.local, (failures.since, failures.last))
    since, last = map(wire.encode_time, times)
    fields = {"count": failures.count, "reason": failures.reason, "hint": failures.hint}
    return {"since": since, "last": last, **fields}


def checkpoint(checkpoint: Checkpoint, tags: Sequence[str]) -> Json:
    """Return the fields of a checkpoint."""
    base, note = checkpoint.snapshot.base, checkpoint.note
    return {
        "id": str(checkpoint.id),
        "session": checkpoint.id.session,
        "number": checkpoint.id.number,
        "commit": checkpoint.commit,
        "tree": checkpoint.root,
        "parent": checkpoint.parent,
        "created": wire.encode_time(checkpoint.created),
        "label": note.label,
        "phase": note.phase,
        "objective": note.objective,
        "trigger": checkpoint.trigger.value,
        "agent": agent(checkpoint.agent),
        "tags": list(tags),
        "base": base.commit,
        "branch": base.branch,
        "conversation": conversation(checkpoint.conversation),
        "files": {
            "total": checkpoint.snapshot.total,
            "changed": checkpoint.changed,
            "skipped": skipped(checkpoint.snapshot.skipped),
        },
        "facts": dict(note.facts),
        "handoff": handoff(note.handoff),
        "position": wire.position_texts(note.position),
        "position_from": str(note.position_from) if note.position_from else None,
        "restored_from": str(checkpoint.restored_from) if checkpoint.restored_from else None,
        "forked_from": str(checkpoint.forked_from) if checkpoint.forked_from else None,
        "reverted": str(checkpoint.reverted) if checkpoint.reverted else None,
        "compensations": list(note.compensations),
        "run": run(checkpoint.run),
        "step": checkpoint.step._asdict() if checkpoint.step else None,
    }


def agent(agent: Agent | None) -> Json | None:
    """Return the fields of an agent, null if there is none."""
    if agent is None:
        return None
    return {
        "name": agent.name,
        "version": agent.version,
        "model": agent.model,
        "session_id": agent.session_id,
    }


def conversation(conversation: Conversation | None) -> Json | None:
    """Return the fields of a conversation; `sha256` is that of the main stream."""
    if conversation is None:
        return None
    last = conversation.digest.last_message
    return {
        "format": conversation.format,
        "messages": conversation.digest.messages,
        "bytes": conversation.bytes,
        "sha256": next((s.sha256 for s in conversation.streams if s.name == MAIN), None),
        "streams": [
            {"name": s.name, "bytes": s.bytes, "sha256": s.sha256} for s in conversation.streams
        ],
        "last_message": {"role": last.role, "text": last.text, "id": last.id} if last else None,
    }


def run(run: Run | None) -> Json | None:
    """Return the fields of a run, null if none; `exit_code` is null if its end was not seen."""
    if run is None:
        return None
    return {
        "command": list(run.command),
        "exit_code": run.code,
        "milliseconds": run.milliseconds,
        "output": run.output,
    }


def effect(effect: Effect) -> Json:
    """An effect outside of the files: what would undo it, and how that ended, null where it was not
    run.
    """
    return {"key": effect.key, "command": effect.command, "outcome": effect.outcome}


def handoff(handoff: Handoff) -> Json:
    """Return the fields of a handoff."""
    return {
        "task": handoff.task,
        "decisions": list(handoff.decisions),
        "failed": list(handoff.failed),
        "next": list(handoff.next),
        "active": list(handoff.active),
    }


def waiting(pending: PendingNote) -> Json:
    """Return the fields of a pending note."""
    note = pending.note
    return {
        "session": pending.session,
        "phase": note.phase,
        "objective": note.objective,
        "facts": dict(note.facts),
        "handoff": handoff(note.handoff),
        "position": wire.position_texts(note.position),
    }


def skipped(skips: Iterable[Skip]) -> list[Json]:
    """Return the skipped paths with their reasons."""
    return [
        {"path": wire.encode_path(s.path), "reason": s.reason.value, "detail": s.detail}
        for s in skips
    ]


def change(change: FileChange, by: Claim | None = None) -> Json:
    """Return the fields of a changed path; `by` is null if it is not recorded who changed it."""
    return {
        "path": wire.encode_path(change.path),
        "kind": change.kind.value,
        "old": _entry(change.old),
        "new": _entry(change.new),
        "by": wire.encode_claim(by) if by else None,
    }


def summary(summary: Summary) -> Json:
    """Return the fields that a checkpoint's commit alone contains."""
    return {
        "id": str(summary.id),
        "created": wire.encode_time(summary.created),
        "subject": summary.subject,
        "trigger": summary.trailers.get("Gitcp-Trigger"),
    }


def message(kind: str, message: Message) -> Json:
    """Return the fields of a message with its `kind`, "added" or "deleted"."""
    return {
        "kind": kind,
        "role": message.role,
        "text": _utf8(message.text),
        "id": message.id,
        "tool": message.tool,
    }


def report(
    report: Report,
    restored: Conversation | None,
    effects: Sequence[str],
    *,
    saved_first: bool,
    choice: Choice | None = None,
    agreed: RestorePlan | None = None,
) -> Json:
    """What a restore did; `restored` is the conversation that was put back. `saved_first`: what was
    there was saved.

    `choice` is why a rollback restored this checkpoint, `agreed` the plan.
    """
    return {
        "target": str(report.target.id),
        "safety": str(report.safety) if saved_first and report.safety else None,
        "checkpoint": str(report.checkpoint) if report.checkpoint else None,
        "written": paths(report.written),
        "removed": paths(report.removed),
        "kept": kept(report.kept),
        **_others(agreed.others if agreed else report.others, agreed),
        "turns": turns(report.turns),
        **_restored_parts(report.target, report.placed, restored, effects),
        **_chosen(choice),
    }


def plan(plan: RestorePlan, restored: Conversation | None, choice: Choice | None = None) -> Json:
    """Return what a restore would do, under the keys of `restored`."""
    files = plan.files
    return {
        "target": str(plan.target.id),
        "safety": None,
        "checkpoint": None,
        "written": [wire.encode_path(step.path) for step in files.write],
        "removed": [wire.encode_path(step.path) for step in (*files.clear, *files.remove)],
        "kept": kept(files.kept),
        **_others(plan.others, plan),
        "turns": turns(plan.turns),
        **_restored_parts(plan.target, plan.placed, restored, plan.effects),
        **_chosen(choice),
    }


def _others(changed_by: Iterable[OtherSession], plan: RestorePlan | None) -> Json:
    """Return what other sessions changed of what a restore changes, and the conflicts with it."""
    return {
        "others": [
            {
                "session": other.session,
                "agent": other.agent.name if other.agent else None,
                "live": other.live,
                "paths": paths(other.paths),
            }
            for other in changed_by
        ],
        "conflicts": conflicts(plan.conflicts if plan else ()),
    }


def turns(listed: Iterable[Turn]) -> list[Json]:
    """Return the turns of agents that may write into restored files."""
    return [
        {
            "session": turn.session,
            "agent": turn.agent,
            "began": wire.encode_time(turn.began) if turn.began else None,
            "last": wire.encode_time(turn.last),
        }
        for turn in listed
    ]


def conflicts(listed: Iterable[Conflict]) -> list[Json]:
    """Return paths in conflict, with the reasons."""
    return [{"path": wire.encode_path(each.path), "reason": each.why} for each in listed]


def hit(hit: Hit) -> Json:
    """Return the fields of a match."""
    return {
        "id": str(hit.summary.id),
        "created": wire.encode_time(hit.summary.created),
        "kind": hit.kind,
        "where": wire.encode_path(hit.where) if hit.where else None,
        "line": hit.line,
        "message": hit.message,
        "text": _utf8(hit.text),
    }


def why_line(path: bytes, origin: LineOrigin) -> Json:
    """Return the fields of a line's origin."""
    made = origin.made
    return {
        "path": wire.encode_path(path),
        "line": origin.number,
        "text": _utf8(origin.text),
        "checkpoint": str(made.id) if made else None,
        "began": origin.began,
        "prompt": prompt_of(origin),
        "by": wire.encode_claim(origin.by) if origin.by else None,
        "changed": [],
        "missing": None,
    }


def prompt_of(origin: LineOrigin) -> str | None:
    """Return the prompt that a line was written for; None if another session wrote it."""
    made, by = origin.made, origin.by
    if made is None or made.conversation is None:
        return None
    names = by.sessions | by.possible if by is not None else frozenset()
    is_others = bool(names - {NOBODY}) and made.id.session not in names
    return None if is_others else made.conversation.digest.last_prompt


def why_path(path: bytes, history: PathHistory) -> Json:
    """Return the history of a path, under the keys of a line's origin."""
    return {
        "path": wire.encode_path(path),
        "line": None,
        "text": None,
        "checkpoint": str(history.changed[0].id) if history.changed else None,
        "began": False,
        "prompt": None,
        "by": None,
        "changed": [str(summary.id) for summary in history.changed],
        "missing": history.missing or None,
    }


def revert_plan(plan: revert_op.RevertPlan) -> Json:
    """Return what a revert would do."""
    files = plan.files
    return {
        "reverted": str(plan.request.span),
        "safety": None,
        "checkpoint": None,
        "written": [wire.encode_path(step.path) for step in files.write],
        "removed": [wire.encode_path(step.path) for step in (*files.clear, *files.remove)],
        "kept": kept(files.kept),
        "conflicts": conflicts(plan.conflicts),
        "affected": [
            {"id": str(each.summary.id), "paths": [wire.encode_path(path) for path in each.paths]}
            for each in plan.affected
        ],
        "turns": turns(plan.turns),
    }


def revert(plan: revert_op.RevertPlan, done: Report) -> Json:
    """Return what a revert did, under the keys of its plan."""
    return {
        **revert_plan(plan),
        "safety": str(done.safety),
        "checkpoint": str(done.checkpoint) if done.checkpoint else None,
        "written": [wire.encode_path(path) for path in done.written],
        "removed": [wire.encode_path(path) for path in done.removed],
        "kept": kept(done.kept),
    }


def forked(fork: Forked) -> Json:
    """Return the fields of a new fork."""
    made = fork.checkpoint
    return {
        "session": made.id.session,
        "checkpoint": str(made.id),
        "forked_from": str(made.forked_from),
        "worktree": path(fork.worktree),
        "branch": fork.branch,
        "kept": kept(fork.kept),
        "resume": resume(fork.placed) if fork.placed else None,
    }


def path(path: Path | None) -> str | Json | None:
    """Return a path of the host as JSON has it."""
    return wire.encode_path(os.fsencode(path)) if path is not None else None


def _restored_parts(
    target: Checkpoint, placed: Placed | None, restored: Conversation | None, effects: Sequence[str]
) -> Json:
    return {
        "conversation": conversation(restored) if placed else None,
        "resume": resume(placed) if placed else None,
        "facts": dict(target.note.facts),
        "handoff": handoff(target.note.handoff),
        "position": wire.position_texts(target.note.position),
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
        "repaired": dict(placed.mended),
    }


def _latest(placed: Placed) -> Json | None:
    """Return the session that the agent's own `--continue` would continue instead."""
    latest = placed.placement.latest
    return {"session_id": latest.session_id, "command": list(latest.command)} if latest else None


def kept(kept_paths: Iterable[Kept]) -> list[Json]:
    """Return the paths that were not changed, with the reasons."""
    return [{"path": wire.encode_path(one.path), "reason": one.reason} for one in kept_paths]


def paths(raw_paths: Iterable[bytes]) -> list[str | dict[str, str]]:
    """Return paths of the working tree as JSON has them."""
    return [wire.encode_path(path) for path in raw_paths]


def _utf8(text: str) -> str:
    """Return a text without lone surrogates, which JSON cannot contain."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _entry(entry: Entry | None) -> Json | None:
    return {"mode": f"{entry.mode:06o}", "oid": entry.oid} if entry else None
