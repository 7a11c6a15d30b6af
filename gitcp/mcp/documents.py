"""The documents that tools return, as types: the schemas that clients see are made from them.

They are those of `gitcp.cli.objects`. Long lists and texts are bounded here, and what was left out
is counted.
"""

from __future__ import annotations

from functools import cache
from itertools import islice
from typing import Any, Literal, NotRequired

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from gitcp.cli.objects import document
from gitcp.wire import Json

MOST_ITEMS = 500
MOST_BYTES = 100_000


class Encoded(TypedDict):
    """A path that is not UTF-8."""

    base64: str


JsonPath = str | Encoded


class Agent(TypedDict):
    """The agent whose conversation was saved."""

    name: str
    version: str | None
    model: str | None
    session_id: str | None


class StreamOf(TypedDict):
    """A stream of a conversation."""

    name: str
    bytes: int
    sha256: str


class LastMessage(TypedDict):
    """The last message of a conversation."""

    role: str
    text: str
    id: str | None


class Conversation(TypedDict):
    """A saved conversation."""

    format: str
    messages: int
    bytes: int
    sha256: str | None
    streams: list[StreamOf]
    last_message: LastMessage | None


class Skipped(TypedDict):
    """A path that was not saved."""

    path: JsonPath
    reason: str
    detail: str


class Files(TypedDict):
    """How many files a checkpoint has, how many changed, and what was not saved."""

    total: int
    changed: int
    skipped: list[Skipped]


class Handoff(TypedDict):
    """What the next reader must know."""

    task: str | None
    decisions: list[str]
    failed: list[str]
    next: list[str]
    active: list[str]


class Run(TypedDict):
    """A command that ran before the checkpoint."""

    command: list[str]
    exit_code: int | None
    milliseconds: int
    output: str


class Step(TypedDict):
    """The step of a program that the checkpoint records."""

    name: str
    key: str


class CheckpointFields(TypedDict):
    """A checkpoint."""

    id: str
    session: str
    number: int
    commit: str
    tree: str
    parent: str | None
    created: str
    label: str | None
    phase: str | None
    objective: str | None
    trigger: str
    agent: Agent | None
    tags: list[str]
    base: str | None
    branch: str | None
    conversation: Conversation | None
    files: Files
    facts: dict[str, str]
    handoff: Handoff
    position: dict[str, Any]
    position_from: str | None
    restored_from: str | None
    forked_from: str | None
    reverted: str | None
    compensations: list[str]
    run: Run | None
    step: Step | None


class Document(TypedDict):
    """The base of all documents. `omitted` counts what was left out of long lists and texts, by
    name.
    """

    omitted: dict[str, int]


class Checkpoint(CheckpointFields, Document):
    """One checkpoint, from `show`."""

    schema: Literal["gitcp.checkpoint/1"]


class FileContent(Document):
    """The text of a file, from `show`. `cut`: only the beginning of its `bytes`."""

    schema: Literal["gitcp.file/1"]
    id: str
    path: str
    text: str
    bytes: int
    cut: bool


class Directory(Document):
    """The names in a directory, from `show`; those of directories end with a slash."""

    schema: Literal["gitcp.directory/1"]
    id: str
    path: str
    names: list[JsonPath]


class Saved(Document):
    """The result of `save`. `saved` is false if nothing changed; `reason` says so."""

    schema: Literal["gitcp.save/1"]
    saved: bool
    reason: str | None
    checkpoint: CheckpointFields
    warning: NotRequired[str]


class Row(TypedDict):
    """A checkpoint in a list."""

    id: str
    created: str
    subject: str
    trigger: str | None
    tags: list[str]


class Rows(Document):
    """Checkpoints, newest first."""

    schema: Literal["gitcp.list/1"]
    checkpoints: list[Row]


class Entry(TypedDict):
    """A file as git has it."""

    mode: str
    oid: str


class By(TypedDict):
    """Who changed a path: each of `sessions`, and perhaps those in `possible`; an empty string
    stands for nobody known.
    """

    sessions: list[str]
    possible: list[str]


class Change(TypedDict):
    """A path that differs. `by` is null if it is not recorded who changed it."""

    path: JsonPath
    kind: str
    old: Entry | None
    new: Entry | None
    by: By | None


class Differences(Document):
    """The result of `diff`. `cut`: the patch has only its beginning."""

    schema: Literal["gitcp.differences/1"]
    changes: list[Change]
    patch: str
    cut: bool


class PendingNote(Document):
    """The pending note, from `note`."""

    schema: Literal["gitcp.note/1"]
    session: str | None
    phase: str | None
    objective: str | None
    facts: dict[str, str]
    handoff: Handoff
    position: dict[str, Any]


class Match(TypedDict):
    """A line that matches."""

    id: str
    created: str
    kind: str
    where: JsonPath | None
    line: int | None
    message: str | None
    text: str


class Matches(Document):
    """The result of `find`. `cut`: there are more matches than were asked for."""

    schema: Literal["gitcp.matches/1"]
    matches: list[Match]
    cut: bool


class Origin(Document):
    """The result of `why`."""

    schema: Literal["gitcp.why/1"]
    path: JsonPath
    line: int | None
    text: str | None
    checkpoint: str | None
    began: bool
    by: By | None
    prompt: str | None
    changed: list[str]
    missing: str | None


class Kept(TypedDict):
    """A path that was not changed."""

    path: JsonPath
    reason: str


class Latest(TypedDict):
    """The session that the agent would continue by itself."""

    session_id: str
    command: list[str]


class HowToResume(TypedDict):
    """How the agent continues a restored conversation."""

    agent: str
    session_id: str | None
    prepare: list[list[str]]
    command: list[str]
    directory: JsonPath | None
    latest: Latest | None
    path: JsonPath | None
    repaired: dict[str, int]


class Candidate(TypedDict):
    """Another checkpoint that was considered."""

    id: str
    created: str
    subject: str
    trigger: str | None


class Call(TypedDict):
    """A call of a tool."""

    tool: str
    arguments: dict[str, Any]


class OtherSession(TypedDict):
    """Another session that changed paths since the target. `live`: its agent is at work."""

    session: str
    agent: str | None
    live: bool
    paths: list[JsonPath]


class Turn(TypedDict):
    """A turn of an agent in this working tree that may not have ended: it may write into the
    restored files. `began` is null without hooks.
    """

    session: str
    agent: str
    began: str | None
    last: str


class _Restoring(Document):
    target: str
    safety: str | None
    checkpoint: str | None
    written: list[JsonPath]
    removed: list[JsonPath]
    kept: list[Kept]
    others: list[OtherSession]
    conflicts: list[Kept]
    turns: list[Turn]
    conversation: Conversation | None
    resume: HowToResume | None
    facts: dict[str, str]
    handoff: Handoff
    position: dict[str, Any]
    effects: list[str]
    reason: str | None
    candidates: list[Candidate]


class _Plan(TypedDict):
    digest: str
    next: Call


class RestorePlan(_Restoring, _Plan):
    """What a restore would do. `next` is the call that does it."""

    schema: Literal["gitcp.restore-plan/1"]


class Restored(_Restoring):
    """What a restore did. `safety` is the checkpoint of the state before it."""

    schema: Literal["gitcp.restore/1"]


class BroughtBack(Document):
    """Checkpoints that were brought back from the trash, or removed again."""

    schema: Literal["gitcp.brought-back/1"]
    operation: int
    checkpoints: list[str]


class Affected(TypedDict):
    """A later checkpoint that changed the same paths."""

    id: str
    paths: list[JsonPath]


class _Reverting(Document):
    reverted: str
    safety: str | None
    checkpoint: str | None
    written: list[JsonPath]
    removed: list[JsonPath]
    kept: list[Kept]
    conflicts: list[Kept]
    affected: list[Affected]
    turns: list[Turn]


class RevertPlan(_Reverting, _Plan):
    """What a revert would do. `next` is the call that does it."""

    schema: Literal["gitcp.revert-plan/1"]


class Reverted(_Reverting):
    """What a revert did. `safety` is the checkpoint of the state before it."""

    schema: Literal["gitcp.revert/1"]


class Forked(Document):
    """The new session, from `fork`."""

    schema: Literal["gitcp.fork/1"]
    session: str
    checkpoint: str
    forked_from: str
    worktree: JsonPath | None
    branch: str | None
    kept: list[Kept]
    resume: HowToResume | None


@cache
def schema_of(kind: Any) -> Json:
    """Return the JSON schema of a document, or of a union of documents."""
    return {"type": "object", **_untitled(TypeAdapter(kind).json_schema())}


def _untitled(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _untitled(each)
            for key, each in value.items()
            if key != "title" or not isinstance(each, str)
        }
    return [_untitled(each) for each in value] if isinstance(value, list) else value


def bounded(name: str, fields: Json) -> Json:
    """Return a document with at most MOST_ITEMS in a list, and MOST_BYTES characters in a text."""
    omitted: dict[str, int] = {}
    short = _short(fields, "", omitted)
    return {**document(name, short), "omitted": omitted}


def _short(value: Any, name: str, omitted: dict[str, int]) -> Any:
    most = MOST_BYTES if isinstance(value, str) else MOST_ITEMS
    if isinstance(value, str | list | dict) and len(value) > most:
        omitted[name] = omitted.get(name, 0) + len(value) - most
    if isinstance(value, dict):
        within = f"{name}." if name else ""
        some = islice(value.items(), most)
        return {key: _short(each, within + key, omitted) for key, each in some}
    if isinstance(value, list):
        return [_short(each, name, omitted) for each in value[:most]]
    return value[:most] if isinstance(value, str) else value
