"""The JSON objects that `--json`, `to_json()` and the tools of MCP return: each is a class, from
which its schema comes as well. Their keys are a promise to programs, and only grow. What is made of
a value that this module does not know is in `to_json` of that value.

Every key is always there, null or empty where there is nothing to say. Paths that are not UTF-8 are
{"base64": …}, times are UTC.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from gitcp import model, wire
from gitcp.codec import Codec, FieldRule, Form, number
from gitcp.model import (
    MAIN,
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
from gitcp.value import Value
from gitcp.wire import Json

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
    """A saved conversation. `sha256` is that of its main stream, `unknown` the kinds of its records
    that gitcp does not know.
    """

    format: str
    messages: int
    bytes: int
    sha256: str | None
    streams: tuple[Stream, ...]
    last_message: model.LastMessage | None
    unknown: tuple[str, ...]


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
    states: tuple[model.CommandState, ...]


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


class StateContent(Value):
    """What a checkpoint has of a state outside the files."""

    bytes: int
    sha256: str


class ChangedState(Value):
    """A state outside the files that differs. `problem` is why its content cannot be read, "" if it
    can.
    """

    name: str
    old: StateContent
    new: StateContent
    problem: str


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


class InUse(Value):
    """A file that programs have open."""

    path: bytes
    users: tuple[str, ...]


class KeptLine(Value):
    """A line in an agent's memory that another session, by the agent's id, wrote since."""

    path: str
    line: str
    session: str


class Memory(Value):
    """What becomes of an agent's memory of the project."""

    agent: str
    directory: Path
    written: tuple[str, ...]
    removed: tuple[str, ...]
    kept: tuple[KeptLine, ...]


class RestoredState(Value):
    """A state outside the files that the user's command restores: the command, its input's size and
    checksum, and why it was not run or failed, "" if neither. `unsaved`: what was there before is
    in no checkpoint.
    """

    name: str
    command: str
    bytes: int
    sha256: str
    failure: str
    unsaved: bool


class Restored(Value):
    """What a restore did, or would do. `safety` is the checkpoint of the state before it. `reason`
    and `candidates` are a rollback's. `offered_states` stay, because they were not asked for.
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
    memory: Memory | None
    states: tuple[RestoredState, ...]
    offered_states: tuple[str, ...]
    databases: tuple[InUse, ...]
    open_files: tuple[InUse, ...]
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
        model.CommandState: {"code": FieldRule("exit_code", number(range(-1 << 63, 1 << 63)))},
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
            conversation=conversation_of(checkpoint.conversation),
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
            states=checkpoint.states.each if checkpoint.states else (),
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


def conversation_of(conversation: model.Conversation | None) -> Conversation | None:
    """Return what is printed of a conversation."""
    if conversation is None:
        return None
    return Conversation(
        format=conversation.format,
        messages=conversation.digest.messages,
        bytes=conversation.bytes,
        sha256=next((each.sha256 for each in conversation.streams if each.name == MAIN), None),
        streams=tuple(Stream(each.name, each.bytes, each.sha256) for each in conversation.streams),
        last_message=conversation.digest.last_message,
        unknown=conversation.digest.unknown,
    )


def run(run: model.Run | None) -> Json | None:
    """Return the fields of a run, null if none; `exit_code` is null if its end was not seen."""
    return encode(run) if run else None


def skipped(skips: Iterable[Skip]) -> list[Json]:
    """Return the skipped paths with their reasons."""
    return list(map(encode, skips))


def change(change: FileChange, by: Claim | None = None) -> Json:
    """Return the fields of a changed path; `by` is null if it is not recorded who changed it."""
    return encode(Change(change.path, change.kind, change.old, change.new, by))


def path(path: Path | None) -> str | Json | None:
    """Return a path of the host as JSON has it."""
    return wire.encode_path(os.fsencode(path)) if path is not None else None


def paths(raw_paths: Iterable[bytes]) -> list[str | dict[str, str]]:
    """Return paths of the working tree as JSON has them."""
    return [wire.encode_path(path) for path in raw_paths]


def utf8(text: str) -> str:
    """Return a text without lone surrogates, which JSON cannot contain."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
