"""The JSON objects that `--json` and the tools of MCP print: each is a class, from which its schema
comes as well. Their keys are a promise to programs, and only grow.

Every key is always there, null or empty where there is nothing to say. Paths that are not UTF-8 are
{"base64": …}, times are UTC.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gitcp import clock, model, wire
from gitcp.codec import Codec, FieldRule, Form, number
from gitcp.model import (
    MAIN,
    NOBODY,
    CheckpointId,
    Claim,
    Entry,
    Fault,
    FileChange,
    Kind,
    Oid,
    Skip,
    Span,
    StepName,
    Trigger,
    Unlocked,
)
from gitcp.value import Value, replace
from gitcp.wire import Json

if TYPE_CHECKING:
    from gitcp.adapters.base import Message as AgentMessage
    from gitcp.history import live
    from gitcp.history.matching import Hit
    from gitcp.history.why import LineOrigin, PathHistory
    from gitcp.lifecycle.fork import Forked as NewFork
    from gitcp.restoring import others as others_op
    from gitcp.restoring import plan as plan_op
    from gitcp.restoring import revert as revert_op
    from gitcp.restoring.merge import Conflict
    from gitcp.restoring.placing import Placed
    from gitcp.restoring.restore import Report, RestorePlan
    from gitcp.restoring.rollback import RollbackChoice
    from gitcp.running.bisect import Culprit, Try
    from gitcp.state.effects import Effect
    from gitcp.state.hook_failures import Failing
    from gitcp.state.note import PendingNote
    from gitcp.store import Summary


# ---------------------------------------------------------------- the objects


class Agent(Value):
    """The agent whose conversation was saved."""

    name: str
    version: str | None
    model: str | None
    session_id: str | None


class Encoded(Value):
    """A path that is not UTF-8."""

    base64: str


class Stream(Value):
    """A stream of a conversation."""

    name: str
    bytes: int
    sha256: str


class Conversation(Value):
    """A saved conversation. `sha256` is that of its main stream."""

    format: str
    messages: int
    bytes: int
    sha256: str | None
    streams: tuple[Stream, ...]
    last_message: model.LastMessage | None


class Files(Value):
    """How many files a checkpoint has, how many changed, what was not saved, and which databases
    were saved without their locks.
    """

    total: int
    changed: int
    skipped: tuple[Skip, ...]
    unlocked: tuple[Unlocked, ...]


class Checkpoint(Value):
    """A checkpoint."""

    id: CheckpointId
    session: str
    number: int
    commit: Oid
    tree: Oid
    parent: Oid | None
    created: datetime
    label: str | None
    phase: str | None
    objective: str | None
    trigger: Trigger
    agent: Agent | None
    tags: tuple[str, ...]
    base: Oid | None
    branch: str | None
    conversation: Conversation | None
    files: Files
    facts: Mapping[str, str]
    handoff: model.Handoff
    position: Mapping[str, str]
    position_from: CheckpointId | None
    restored_from: CheckpointId | None
    forked_from: CheckpointId | None
    reverted: Span | None
    compensations: tuple[str, ...]
    run: model.Run | None
    step: StepName | None


class Row(Value):
    """A checkpoint in a list."""

    id: CheckpointId
    created: datetime
    subject: str
    trigger: str | None


class Change(Value):
    """A path that differs. `by` is null if it is not recorded who changed it."""

    path: bytes
    kind: Kind
    old: Entry | None
    new: Entry | None
    by: Claim | None


class Waiting(Value):
    """A pending note."""

    session: str | None
    phase: str | None
    objective: str | None
    facts: Mapping[str, str]
    handoff: model.Handoff
    position: Mapping[str, str]


class Match(Value):
    """A line that matches."""

    id: CheckpointId
    created: datetime
    kind: str
    where: bytes | None
    line: int | None
    message: str | None
    text: str


class Message(Value):
    """A message of a conversation. `kind` is "added" or "deleted"."""

    kind: str
    role: str
    text: str
    id: str | None
    tool: str | None


class Origin(Value):
    """Where a line comes from, or what happened to a path."""

    path: bytes
    line: int | None
    text: str | None
    checkpoint: CheckpointId | None
    began: bool = False
    prompt: str | None = None
    by: Claim | None = None
    changed: tuple[CheckpointId, ...] = ()
    missing: str | None = None


class FileLines(Value):
    """A file that changed; the numbers are null for content that is not text."""

    path: bytes
    kind: str
    added: int | None
    removed: int | None
    by: str | None


class Tried(Value):
    """A checkpoint that a command was run on."""

    checkpoint: CheckpointId
    verdict: str
    exit_codes: tuple[int, ...]
    milliseconds: int


class Bisected(Value):
    """The first checkpoint that fails."""

    good: CheckpointId
    bad: CheckpointId
    skipped: tuple[CheckpointId, ...]
    created: datetime
    prompt: str | None
    by: Claim | None
    files: tuple[FileLines, ...]
    output: str
    candidates: int
    tries: tuple[Tried, ...]


class Kept(Value):
    """A path that was not changed."""

    path: bytes
    reason: str


class OtherSession(Value):
    """Another session that changed paths since the target. `live`: its agent is at work."""

    session: str
    agent: str | None
    live: bool
    paths: tuple[bytes, ...]


class Turn(Value):
    """A turn of an agent in this working tree that may not have ended: it may write into the
    restored files. `began` is null without hooks.
    """

    session: str
    agent: str
    began: datetime | None
    last: datetime


class Latest(Value):
    """The session that the agent would continue by itself."""

    session_id: str
    command: tuple[str, ...]


class Resume(Value):
    """How the agent continues a restored conversation."""

    agent: str
    session_id: str | None
    prepare: tuple[tuple[str, ...], ...]
    command: tuple[str, ...]
    directory: Path | None
    latest: Latest | None
    path: Path | None
    repaired: Mapping[str, int]


class Candidate(Value):
    """Another checkpoint that was considered."""

    id: CheckpointId
    created: datetime
    subject: str
    trigger: str | None


class Restored(Value):
    """What a restore did, or would do. `safety` is the checkpoint of the state before it. `reason`
    and `candidates` are a rollback's.
    """

    target: CheckpointId
    safety: CheckpointId | None
    checkpoint: CheckpointId | None
    written: tuple[bytes, ...]
    removed: tuple[bytes, ...]
    kept: tuple[Kept, ...]
    others: tuple[OtherSession, ...]
    conflicts: tuple[Kept, ...]
    turns: tuple[Turn, ...]
    conversation: Conversation | None
    resume: Resume | None
    facts: Mapping[str, str]
    handoff: model.Handoff
    position: Mapping[str, str]
    effects: tuple[str, ...]
    reason: str | None
    candidates: tuple[Candidate, ...]


class Affected(Value):
    """A later checkpoint that changed the same paths."""

    id: CheckpointId
    paths: tuple[bytes, ...]


class Reverted(Value):
    """What a revert did, or would do. `safety` is the checkpoint of the state before it."""

    reverted: Span
    safety: CheckpointId | None
    checkpoint: CheckpointId | None
    written: tuple[bytes, ...]
    removed: tuple[bytes, ...]
    kept: tuple[Kept, ...]
    conflicts: tuple[Kept, ...]
    affected: tuple[Affected, ...]
    turns: tuple[Turn, ...]


class Forked(Value):
    """A new session."""

    session: str
    checkpoint: CheckpointId
    forked_from: CheckpointId | None
    worktree: Path | None
    branch: str | None
    kept: tuple[Kept, ...]
    resume: Resume | None


def _unread(value: Any) -> Any:
    raise NotImplementedError("printed, never read")


def _printed(encode: Any, schema: Mapping[str, Any]) -> Form:
    return Form(encode, _unread, schema)


STRING = {"type": "string"}
PATH = {"anyOf": [STRING, {"$ref": f"#/$defs/{Encoded.__name__}"}]}

PRINTED = Codec(
    {
        Oid: _printed(str, STRING),
        bytes: _printed(wire.encode_path, PATH),
        Path: _printed(lambda path: wire.encode_path(os.fsencode(path)), PATH),
        datetime: _printed(wire.encode_time, STRING),
        CheckpointId: _printed(str, STRING),
        Span: _printed(str, STRING),
    },
    {
        model.Run: {"code": FieldRule("exit_code", number(range(-1 << 63, 1 << 63)))},
        Entry: {"mode": FieldRule(form=_printed("{:06o}".format, STRING))},
    },
    in_full=True,
)


def encode(value: Any) -> Json:
    """Return a value as it is printed."""
    fields: Json = PRINTED.encode(value)
    return fields


def document(schema: str, fields: Json) -> Json:
    """Return the fields of a document, headed by its schema's name and version."""
    return {"schema": f"gitcp.{schema}/1", **fields}


# ---------------------------------------------------------------- from values


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


def checkpoint(checkpoint: model.Checkpoint, tags: Sequence[str]) -> Json:
    """Return the fields of a checkpoint."""
    snapshot, note = checkpoint.snapshot, checkpoint.note
    return encode(
        Checkpoint(
            id=checkpoint.id,
            session=checkpoint.id.session,
            number=checkpoint.id.number,
            commit=checkpoint.commit,
            tree=checkpoint.root,
            parent=checkpoint.parent,
            created=checkpoint.created,
            label=note.label,
            phase=note.phase,
            objective=note.objective,
            trigger=checkpoint.trigger,
            agent=_agent(checkpoint.agent),
            tags=tuple(tags),
            base=snapshot.base.commit,
            branch=snapshot.base.branch,
            conversation=_conversation(checkpoint.conversation),
            files=Files(snapshot.total, checkpoint.changed, snapshot.skipped, snapshot.unlocked),
            facts=note.facts,
            handoff=note.handoff,
            position=wire.position_texts(note.position),
            position_from=note.position_from,
            restored_from=checkpoint.restored_from,
            forked_from=checkpoint.forked_from,
            reverted=checkpoint.reverted,
            compensations=note.compensations,
            run=checkpoint.run,
            step=checkpoint.step,
        )
    )


def agent(agent: model.Agent | None) -> Json | None:
    """Return the fields of an agent, null if there is none."""
    printed = _agent(agent)
    return encode(printed) if printed else None


def _agent(agent: model.Agent | None) -> Agent | None:
    if agent is None:
        return None
    return Agent(agent.name, agent.version, agent.model, agent.session_id)


def _conversation(conversation: model.Conversation | None) -> Conversation | None:
    if conversation is None:
        return None
    return Conversation(
        format=conversation.format,
        messages=conversation.digest.messages,
        bytes=conversation.bytes,
        sha256=next((each.sha256 for each in conversation.streams if each.name == MAIN), None),
        streams=tuple(Stream(each.name, each.bytes, each.sha256) for each in conversation.streams),
        last_message=conversation.digest.last_message,
    )


def run(run: model.Run | None) -> Json | None:
    """Return the fields of a run, null if none; `exit_code` is null if its end was not seen."""
    return encode(run) if run else None


def effect(effect: Effect) -> Json:
    """An effect outside of the files: what would undo it, and how that ended, null where it was not
    run.
    """
    return {"key": effect.key, "command": effect.command, "outcome": effect.outcome}


def waiting(pending: PendingNote) -> Json:
    """Return the fields of a pending note."""
    note = pending.note
    position = wire.position_texts(note.position)
    return encode(
        Waiting(pending.session, note.phase, note.objective, note.facts, note.handoff, position)
    )


def skipped(skips: Iterable[Skip]) -> list[Json]:
    """Return the skipped paths with their reasons."""
    return list(map(encode, skips))


def change(change: FileChange, by: Claim | None = None) -> Json:
    """Return the fields of a changed path; `by` is null if it is not recorded who changed it."""
    return encode(Change(change.path, change.kind, change.old, change.new, by))


def summary(summary: Summary) -> Json:
    """Return the fields that a checkpoint's commit alone contains."""
    trigger = summary.trailers.get("Gitcp-Trigger")
    return encode(Row(summary.id, summary.created, summary.subject, trigger))


def message(kind: str, message: AgentMessage) -> Json:
    """Return the fields of a message with its `kind`, "added" or "deleted"."""
    return encode(Message(kind, message.role, _utf8(message.text), message.id, message.tool))


def report(
    report: Report,
    restored: model.Conversation | None,
    effects: Sequence[str],
    *,
    saved_first: bool,
    choice: RollbackChoice | None = None,
    agreed: RestorePlan | None = None,
) -> Json:
    """What a restore did; `restored` is the conversation that was put back. `saved_first`: what was
    there was saved.

    `choice` is why a rollback restored this checkpoint, `agreed` the plan.
    """
    return encode(
        Restored(
            target=report.target.id,
            safety=report.safety if saved_first else None,
            checkpoint=report.checkpoint,
            written=tuple(report.written),
            removed=tuple(report.removed),
            kept=_kept(report.kept),
            others=_others(agreed.others if agreed else report.others),
            conflicts=_conflicts(agreed.conflicts if agreed else ()),
            turns=_turns(report.turns),
            **_restored_parts(report.target, report.placed, restored, effects, choice),
        )
    )


def plan(
    plan: RestorePlan, restored: model.Conversation | None, choice: RollbackChoice | None = None
) -> Json:
    """Return what a restore would do, under the keys of `report`."""
    files = plan.files
    return encode(
        Restored(
            target=plan.target.id,
            safety=None,
            checkpoint=None,
            written=tuple(step.path for step in files.write),
            removed=tuple(step.path for step in (*files.clear, *files.remove)),
            kept=_kept(files.kept),
            others=_others(plan.others),
            conflicts=_conflicts(plan.conflicts),
            turns=_turns(plan.turns),
            **_restored_parts(plan.target, plan.placed, restored, plan.effects, choice),
        )
    )


def _restored_parts(
    target: model.Checkpoint,
    placed: Placed | None,
    restored: model.Conversation | None,
    effects: Sequence[str],
    choice: RollbackChoice | None,
) -> dict[str, Any]:
    """Return what a restore and its plan say alike."""
    candidates = (
        Candidate(each.id, each.created, each.subject, each.trigger)
        for each in (choice.others if choice else ())
    )
    return {
        "conversation": _conversation(restored) if placed else None,
        "resume": _resume(placed) if placed else None,
        "facts": target.note.facts,
        "handoff": target.note.handoff,
        "position": wire.position_texts(target.note.position),
        "effects": tuple(effects),
        "reason": choice.why if choice else None,
        "candidates": tuple(candidates),
    }


def _others(changed_by: Iterable[others_op.OtherSession]) -> tuple[OtherSession, ...]:
    return tuple(
        OtherSession(
            each.session, each.agent.name if each.agent else None, each.live, tuple(each.paths)
        )
        for each in changed_by
    )


def _turns(listed: Iterable[live.OpenTurn]) -> tuple[Turn, ...]:
    """Return the turns of agents that may write into restored files."""
    return tuple(Turn(each.session, each.agent, each.began, each.last) for each in listed)


def _conflicts(listed: Iterable[Conflict]) -> tuple[Kept, ...]:
    return tuple(Kept(each.path, each.why) for each in listed)


def hit(hit: Hit) -> Json:
    """Return the fields of a match."""
    return encode(
        Match(
            id=hit.summary.id,
            created=hit.summary.created,
            kind=hit.kind,
            where=hit.where or None,
            line=hit.line,
            message=hit.message,
            text=_utf8(hit.text),
        )
    )


def why_line(path: bytes, origin: LineOrigin) -> Json:
    """Return the fields of a line's origin."""
    return encode(
        Origin(
            path=path,
            line=origin.number,
            text=_utf8(origin.text),
            checkpoint=origin.made.id if origin.made else None,
            began=origin.began,
            prompt=prompt_of(origin),
            by=origin.by,
        )
    )


def prompt_of(origin: LineOrigin) -> str | None:
    """Return the prompt that a line was written for; None if another session wrote it."""
    return prompt_behind(origin.made, origin.by) if origin.made is not None else None


def prompt_behind(made: model.Checkpoint, by: Claim | None) -> str | None:
    """Return the prompt of a checkpoint for what `by` changed in it; None if that was another
    session.
    """
    if made.conversation is None:
        return None
    names = by.sessions | by.possible if by is not None else frozenset()
    is_others = bool(names - {NOBODY}) and made.id.session not in names
    return None if is_others else made.conversation.digest.last_prompt


def bisected(culprit: Culprit) -> Json:
    """Return the fields of what a search found."""
    return encode(
        Bisected(
            good=culprit.good.id,
            bad=culprit.bad.id,
            skipped=tuple(each.id for each in culprit.between),
            created=culprit.bad.created,
            prompt=None if culprit.between else prompt_behind(culprit.bad, culprit.by),
            by=culprit.by,
            files=tuple(
                FileLines(each.path, each.kind, each.added, each.removed, each.by or None)
                for each in culprit.files
            ),
            output=culprit.failure.output,
            candidates=culprit.count,
            tries=tuple(map(_tried, culprit.tries)),
        )
    )


def _tried(tried: Try) -> Tried:
    codes = tuple(run.code or 0 for run in tried.runs)
    milliseconds = sum(run.milliseconds for run in tried.runs)
    return Tried(tried.summary.id, tried.verdict.value, codes, milliseconds)


def why_path(path: bytes, history: PathHistory) -> Json:
    """Return the history of a path, under the keys of a line's origin."""
    ids = tuple(summary.id for summary in history.changed)
    return encode(
        Origin(
            path=path,
            line=None,
            text=None,
            checkpoint=ids[0] if ids else None,
            changed=ids,
            missing=history.missing or None,
        )
    )


def revert_plan(plan: revert_op.RevertPlan) -> Json:
    """Return what a revert would do."""
    return encode(_revert_plan(plan))


def _revert_plan(plan: revert_op.RevertPlan) -> Reverted:
    files, span = plan.files, plan.request.span
    assert span is not None
    return Reverted(
        reverted=span,
        safety=None,
        checkpoint=None,
        written=tuple(step.path for step in files.write),
        removed=tuple(step.path for step in (*files.clear, *files.remove)),
        kept=_kept(files.kept),
        conflicts=_conflicts(plan.conflicts),
        affected=tuple(Affected(each.summary.id, tuple(each.paths)) for each in plan.affected),
        turns=_turns(plan.turns),
    )


def revert(plan: revert_op.RevertPlan, done: Report) -> Json:
    """Return what a revert did, under the keys of its plan."""
    return encode(
        replace(
            _revert_plan(plan),
            safety=done.safety,
            checkpoint=done.checkpoint,
            written=tuple(done.written),
            removed=tuple(done.removed),
            kept=_kept(done.kept),
        )
    )


def forked(fork: NewFork) -> Json:
    """Return the fields of a new fork."""
    made = fork.checkpoint
    return encode(
        Forked(
            session=made.id.session,
            checkpoint=made.id,
            forked_from=made.forked_from,
            worktree=fork.worktree,
            branch=fork.branch,
            kept=_kept(fork.kept),
            resume=_resume(fork.placed) if fork.placed else None,
        )
    )


def path(path: Path | None) -> str | Json | None:
    """Return a path of the host as JSON has it."""
    return wire.encode_path(os.fsencode(path)) if path is not None else None


def resume(placed: Placed) -> Json:
    """Return how an agent continues."""
    return encode(_resume(placed))


def _resume(placed: Placed) -> Resume:
    latest = placed.placement.latest
    return Resume(
        agent=placed.agent,
        session_id=placed.session_id,
        prepare=tuple(tuple(command) for command in placed.prepare),
        command=tuple(placed.command),
        directory=placed.directory,
        latest=Latest(latest.session_id, tuple(latest.command)) if latest else None,
        path=placed.path,
        repaired=placed.mended,
    )


def kept(paths: Iterable[plan_op.Kept]) -> list[Json]:
    """Return the paths that were not changed, with the reasons."""
    return list(map(encode, _kept(paths)))


def _kept(paths: Iterable[plan_op.Kept]) -> tuple[Kept, ...]:
    return tuple(Kept(each.path, each.reason) for each in paths)


def paths(raw_paths: Iterable[bytes]) -> list[str | dict[str, str]]:
    """Return paths of the working tree as JSON has them."""
    return [wire.encode_path(path) for path in raw_paths]


def _utf8(text: str) -> str:
    """Return a text without lone surrogates, which JSON cannot contain."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
