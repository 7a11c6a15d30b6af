"""Read a conversation file from elsewhere, detect its agent, and make a checkpoint of it."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

from gitcp import adapters, agents, readme, wire
from gitcp.adapters import conversion, generic
from gitcp.adapters.base import Found, Running, place_parts
from gitcp.adapters.conversion import Target
from gitcp.dialogue import Dialogue
from gitcp.errors import BadValue
from gitcp.model import (
    MAIN,
    Agent,
    Capture,
    Checkpoint,
    CheckpointId,
    Digest,
    Handoff,
    Note,
    Oid,
    Trigger,
)
from gitcp.saving import conversation
from gitcp.saving.live_trees import live_trees
from gitcp.saving.save import UNKNOWN, changes_between
from gitcp.sharing import trajectory
from gitcp.store import Store
from gitcp.value import Value, replace
from gitcp.worktree.snapshot import Limits, take

HEAD_LINES = 50
LONGEST_LINE = 16 << 20
LARGEST_DOCUMENT = generic.LARGEST_DOCUMENT
LARGEST = 1 << 30
MOST_ITEMS = 1000
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
"""Stands in where a trajectory has no times."""


class ImportedTranscript(Value):
    """The content of a file: the conversation, a session name, its note, and its SHA-256 (hex)."""

    capture: Capture
    session: str
    note: Note
    sha256: str


def read(path: Path, name: str, agent: str | None) -> ImportedTranscript:
    """Read a conversation from `path`. `name` is its original name; `agent` None means detect it.

    Reads only. Raises BadValue if the file contains no conversation.
    """
    if path.stat().st_size > LARGEST:
        raise BadValue(f"{name} is larger than {LARGEST >> 30} GiB; nothing was imported")
    whole = _parsed(path)
    with path.open("rb") as file:
        detected = _detected(file, whole)
        file.seek(0)
        digest = _sha256(file)
    if agent is None and detected is not None:
        agent = detected.agent
    label = Note(label=f"imported from {name}")
    dialogue = _trajectory(whole)
    if dialogue is not None:
        capture = _written(dialogue, agent, name, digest)
        return ImportedTranscript(
            capture, dialogue.agent.session_id or Path(name).stem, label, digest
        )
    if agent not in (None, generic.NAME):
        capture = _capture(
            path,
            name,
            agent or "",
            detected.session_id if detected and detected.agent == agent else None,
        )
        session = (capture.agent and capture.agent.session_id) or Path(name).stem
        return ImportedTranscript(capture, session, label, digest)
    capture = replace(generic.from_file(path), agent=None)
    capture = replace(
        capture, sources=tuple(replace(s, place=_relative_path(name)) for s in capture.sources)
    )
    document = _document(path, whole) if capture.format == "json" else None
    if document is not None:
        return ImportedTranscript(
            capture, _session_name(document) or Path(name).stem, _note(document, label), digest
        )
    _require_messages(capture, path, name)
    return ImportedTranscript(capture, Path(name).stem, label, digest)


def checkpoint(
    store: Store,
    transcript: ImportedTranscript,
    id: CheckpointId,
    parent: Oid | None,
    limits: Limits,
) -> Oid | None:
    """Write a checkpoint of this conversation with the current files, and
    return its unreferenced commit.

    Return None if `parent` already has this conversation. Raises what a save raises.
    """
    before = store.read(parent) if parent else None
    try:
        files = take(store.repo, store.objects, limits, live_trees(store, id.session))
        stored, agent = conversation.store_capture(store, transcript.capture, before)
        if (
            before is not None
            and before.conversation
            and stored
            and before.conversation.streams == stored.streams
        ):
            store.writer.discard()
            return None
        draft = Checkpoint(
            id=CheckpointId(id.session, before.id.number + 1 if before else id.number),
            commit=UNKNOWN,
            root=UNKNOWN,
            parent=parent,
            created=store.repo.host.now(),
            trigger=Trigger.MANUAL,
            agent=agent,
            note=transcript.note,
            snapshot=files.snapshot,
            conversation=stored,
            changed=0,
        )
        changes = changes_between(store, before.snapshot.tree, files.snapshot) if before else ()
        commit = store.commit(replace(draft, changed=len(changes)), readme.render(draft, changes))
    except BaseException:
        store.writer.discard()
        raise
    return commit.commit


def _capture(path: Path, name: str, agent: str, session_id: str | None) -> Capture:
    """Capture an agent's transcript alone, without files that its agent would look for next to
    it.
    """
    adapter = adapters.load(agent)
    capture = adapter.capture(Found(agent, session_id or Path(name).stem, path, 0.0))
    main = next(source for source in capture.sources if source.name == MAIN)
    target = main.place if main.place != path.name else _relative_path(name)
    result = replace(capture, sources=(replace(main, live=False, place=target),))
    result = replace(result, agent=Agent(agent, session_id))
    _require_messages(result, path, name)
    return result


def _detected(file: BinaryIO, whole: Any) -> Running | None:
    """Return the agent and session that a transcript names in its first lines, or as a document."""
    lines = islice(iter(lambda: file.readline(LONGEST_LINE), b""), HEAD_LINES)
    detected = adapters.recognise(lines)
    if detected is None and isinstance(whole, dict):
        return adapters.recognise_fields(whole)
    return detected


def _parsed(path: Path) -> Any:
    """Return the content of a file that is one JSON document, None if it is not or is too large."""
    if path.stat().st_size > LARGEST_DOCUMENT:
        return None
    try:
        return wire.loads(path.read_bytes())
    except ValueError:
        return None


def _trajectory(document: Any) -> Dialogue | None:
    """Return the dialogue of an ATIF trajectory; None for any other document."""
    is_trajectory = isinstance(document, dict) and str(document.get("schema_version")).startswith(
        trajectory.FAMILY
    )
    return trajectory.read(document) if is_trajectory else None


def _written(dialogue: Dialogue, agent: str | None, name: str, digest: str) -> Capture:
    """Return a trajectory as a transcript of an agent: the given one, else the one that it names.

    Raises BadValue if that cannot be written, or if there are no messages.
    """
    target = agent or agents.recorded(dialogue.agent.name)
    if target not in adapters.CONVERTIBLE or not dialogue.items:
        problem = "is a trajectory without messages"
        if dialogue.items:
            problem = f"is a trajectory of {target!r}, whose transcripts gitcp cannot write"
        raise BadValue(
            f"{name} {problem}; nothing was imported",
            hint=f"gitcp import {shlex.quote(name)} --agent codex",
        )
    session_id = str(UUID(hex=digest[:32], version=4))
    began = conversion.parse_time(dialogue.items[0].time) or BEGAN
    written = adapters.converter(target).write(dialogue, Target(session_id, "/", began))
    return written.capture


def _require_messages(capture: Capture, path: Path, name: str) -> None:
    with path.open("rb") as file:
        digest = adapters.for_format(capture.format).digest(
            Digest(), (line.rstrip(b"\n") for line in file)
        )
    if not digest.messages:
        raise BadValue(
            f"{name}: unrecognized format, expected a bundle, JSON messages or a known agent's "
            "transcript; nothing was imported",
            hint=f"gitcp import {shlex.quote(name)} --agent NAME",
        )


def _sha256(file: Any) -> str:
    digest = sha256()
    while chunk := file.read(1 << 20):
        digest.update(chunk)
    return digest.hexdigest()


def _relative_path(name: str) -> str:
    """Return the path to restore the file to, "" if the name is not usable as one."""
    return name if place_parts(name) else ""


# ---------------------------------------------------------------- JSON


def _document(path: Path, document: Any) -> dict[str, Any] | None:
    """Return a JSON object with messages; None for anything else. Raises BadValue for invalid
    messages, and for a file that is too large.
    """
    if path.stat().st_size > LARGEST_DOCUMENT:
        raise BadValue(
            f"{path.name} is larger than {LARGEST_DOCUMENT >> 20} MiB; nothing was imported"
        )
    if not isinstance(document, dict) or not isinstance(document.get("messages"), list):
        return None
    for message in document["messages"]:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise BadValue("a message has no role; nothing was imported")
    return document


def _session_name(document: dict[str, Any]) -> str | None:
    name = document.get("session")
    return name if isinstance(name, str) else None


def _note(document: dict[str, Any], label: Note) -> Note:
    """Return the note of a document: its text fields only, never commands."""
    metadata = document.get("metadata")
    fields = {**(metadata if isinstance(metadata, dict) else {}), **document}
    handoff = document.get("handoff")
    handoff_fields = handoff if isinstance(handoff, dict) else {}
    return replace(
        label,
        phase=_text(fields.get("phase")),
        objective=_text(fields.get("objective")),
        facts=_pairs(document.get("facts")),
        position=_pairs(document.get("position")),
        handoff=Handoff(
            task=_text(handoff_fields.get("task")),
            decisions=_texts(handoff_fields.get("decisions")),
            failed=_texts(handoff_fields.get("failed")),
            next=_texts(handoff_fields.get("next")),
            active=_texts(handoff_fields.get("active")),
        ),
    )


def _text(value: Any) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return None
    return value.encode("utf-8", "replace").decode("utf-8").replace("\0", "")


def _texts(value: Any) -> tuple[str, ...]:
    items = value[:MOST_ITEMS] if isinstance(value, list) else []
    return tuple(text for item in items if (text := _text(item)) is not None)


def _pairs(value: Any) -> dict[str, str]:
    items = list(value.items())[:MOST_ITEMS] if isinstance(value, dict) else []
    return {
        key: text
        for name, item in items
        if (key := _text(name)) and (text := _text(item)) is not None
    }
