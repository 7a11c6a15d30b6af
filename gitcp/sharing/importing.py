"""Import bundles and conversations as sessions that need --trust to be restored.

The file is copied first, so that exactly the bytes that were checked are imported. No ref names
anything in a bundle until it is checked: sizes before git opens it, objects by git, the rest by
`sharing.verify_incoming`. A transcript, or JSON with messages, becomes one checkpoint with the
current files; its agent is recognized. Local sessions are not touched.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import file_digest
from itertools import count, islice
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

from gitcp import adapters, agents, readme, wire
from gitcp.adapters import conversion, generic
from gitcp.adapters.base import Found, Running, place_parts
from gitcp.adapters.conversion import Target
from gitcp.dialogue import Dialogue
from gitcp.errors import BadValue, GitcpError, RevisionNotFound, StoreBusy, StoreDamaged
from gitcp.git import bundle, refs
from gitcp.git.fsync import is_running
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
    Snapshot,
    Trigger,
)
from gitcp.saving import conversation
from gitcp.saving.live_trees import live_trees
from gitcp.saving.save import UNKNOWN, changes_between
from gitcp.sharing import fetch, trajectory, verify_incoming
from gitcp.sharing.remotes import IMPORTED, Remote
from gitcp.state import numbers, oplog
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
        digest = file_digest(file, "sha256").hexdigest()
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
    snapshot: Snapshot,
    created: datetime,
) -> Oid:
    """Write a checkpoint of this conversation with these files, and return its unreferenced commit.
    Its id is `id`, or has a later number if its parent's is not lower. Raises what a save raises.
    """
    before = store.read(parent) if parent else None
    try:
        stored, agent = conversation.store_capture(store, transcript.capture, before, as_given=True)
        draft = Checkpoint(
            id=id._replace(number=max(id.number, before.id.number + 1 if before else 0)),
            commit=UNKNOWN,
            root=UNKNOWN,
            parent=parent,
            created=max(created, before.created) if before else created,
            trigger=Trigger.MANUAL,
            agent=agent,
            note=transcript.note,
            snapshot=snapshot,
            conversation=stored,
            changed=0,
        )
        changes = changes_between(store, before.snapshot.tree, snapshot) if before else ()
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
        error = BadValue(
            f"{name} {problem}; nothing was imported",
            hint=f"gitcp import {shlex.quote(name)} --agent codex",
        )
        error.option = ("--agent", "codex")
        raise error
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
        error = BadValue(
            f"{name}: unrecognized format, expected a bundle, JSON messages or a known agent's "
            "transcript; nothing was imported",
            hint=f"gitcp import {shlex.quote(name)} --agent NAME",
        )
        error.option = ("--agent", "NAME")  # with the path as typed: `name` is its last part
        raise error


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


INCOMING = "incoming"
NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
MOST = 16 << 30
"""Maximum bytes of a file, also after decompression."""


class ImportRequest(Value):
    """The file to import. `agent` is None to detect the agent; `limits` apply to the
    files saved with a conversation.
    """

    path: Path
    agent: str | None = None
    limits: Limits = Limits()


class Imported(Value):
    """One imported session: its revision, its last commit, and the number of new checkpoints.

    `refused` is the reason it was rejected, "" if it was not.
    """

    revision: str
    session: str
    tip: Oid
    checkpoints: int
    refused: str = ""

    def to_json(self) -> wire.Json:
        """Return the fields that `gitcp import FILE --json` prints."""
        return {
            "revision": self.revision,
            "session": self.session,
            "commit": self.tip,
            "checkpoints": self.checkpoints,
            "refused": self.refused or None,
        }


def require_accepted(imports: tuple[Imported, ...]) -> None:
    """Raise StoreDamaged if nothing of a file was intact."""
    refused = [one for one in imports if one.refused]
    if refused and len(refused) == len(imports):
        raise StoreDamaged(f"nothing was imported. {refused[0].session}: {refused[0].refused}")


def import_file(store: Store, request: ImportRequest) -> tuple[Imported, ...]:
    """Import a file and return its sessions.

    Writes objects, refs below `refs/gitcp/remotes/imported/`, and the operation log. Raises
    BadValue for an unknown format, and StoreDamaged for a damaged file; nothing is imported then.
    """
    with _copied(store, request.path) as copy:
        with copy.open("rb") as file:
            is_bundle = file.readline(64) in bundle.SIGNATURES
        imported = _bundle(store, copy) if is_bundle else (_conversation(store, request, copy),)
    for each in imported:
        if not each.refused and each.checkpoints:
            description = f"{each.revision} from {request.path.name}"
            oplog.record(
                store.repo, "import", description, checkpoints=(store.summary(each.tip).id,)
            )
    return imported


def incoming(store: Store) -> Path:
    """Return the path of this process's copy of what is imported, after removing those that killed
    processes left.
    """
    for leftover in store.repo.store_dir.glob(f"{INCOMING}.*"):
        if not is_running(leftover.suffix[1:]):
            leftover.unlink(missing_ok=True)
    return store.repo.store_dir / f"{INCOMING}.{os.getpid()}"


@contextmanager
def _copied(store: Store, path: Path) -> Iterator[Path]:
    """Yield a private copy of the file, which nobody can change during the import."""
    copy = incoming(store)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadValue(f"cannot read {path}: {reason}; nothing was imported") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST:
            os.close(descriptor)
            raise BadValue(f"{path} is not a regular file or too large; nothing was imported")
        with open(descriptor, "rb") as source, open(os.open(copy, NEW, 0o600), "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        yield copy
    finally:
        copy.unlink(missing_ok=True)


# ---------------------------------------------------------------- bundles


def _bundle(store: Store, path: Path) -> tuple[Imported, ...]:
    bundle.check_format(path, store.repo.object_format)
    bundle.check_sizes(path, largest=verify_incoming.LARGEST, most=MOST)
    listed = fetch.listing(store, Remote(IMPORTED, str(path), enabled=True))
    if not listed:
        raise RevisionNotFound(
            "the bundle contains no gitcp session; nothing was imported",
            hint="create one with: gitcp export -o FILE",
        )
    bundle.import_objects(store.repo, path)
    store.writer.flush()  # forget cached lookups: the objects exist now
    namespaces: dict[str, list[str]] = {}
    for item in listed:
        if not item.refused:
            namespaces.setdefault(_namespace(store, item.session, item.tip), []).append(
                item.session
            )
    imported = [
        Imported(f"{IMPORTED}/{item.session}", item.session, item.tip, 0, item.refused)
        for item in listed
        if item.refused
    ]
    for namespace, sessions in namespaces.items():
        for each in fetch.fetch(store, Remote(namespace, str(path), enabled=True), sessions):
            revision = f"{namespace}/{each.session}"
            imported.append(
                Imported(revision, each.session, each.tip, each.checkpoints, each.refused)
            )
    return tuple(imported)


def _namespace(store: Store, session: str, tip: Oid) -> str:
    """Return the namespace for a session, `imported` or `imported-2` …: one that has
    an older version of it, or none.
    """
    for namespace in _namespaces():
        current = store.repo.refs.read(ref_of(namespace, session))
        if current is None or current == tip or _is_extended_by(store, current, tip):
            return namespace
    raise AssertionError("unreachable")


def _namespaces() -> Iterator[str]:
    return (IMPORTED if number == 1 else f"{IMPORTED}-{number}" for number in count(1))


def ref_of(namespace: str, session: str) -> str:
    return f"{refs.REMOTES}{namespace}/sessions/{session}"


def _is_extended_by(store: Store, earlier: Oid, tip: Oid) -> bool:
    """Return whether `tip` continues the imported session at `earlier`; False if unreadable."""
    try:
        return any(summary.commit == earlier for summary in store.history(tip))
    except GitcpError:
        return False


# ---------------------------------------------------------------- conversations


def _conversation(store: Store, request: ImportRequest, copy: Path) -> Imported:
    """Import a conversation as a checkpoint, on top of an earlier import of the same
    conversation.
    """
    transcript = read(copy, request.path.name, request.agent)
    namespace, session, parent = session_for(store, transcript)
    if parent is not None and _has(store.read(parent), transcript):
        return Imported(f"{namespace}/{session}", session, parent, 0)
    try:
        files = take(store.repo, store.objects, request.limits, live_trees(store, session))
    except BaseException:
        store.writer.discard()
        raise
    id = CheckpointId(session, numbers.first(store, session))
    commit = checkpoint(store, transcript, id, parent, files.snapshot, store.repo.host.now())
    with store.lock():
        if not store.repo.refs.update(ref_of(namespace, session), commit, parent):
            raise StoreBusy(f"{namespace}/{session} moved in the meantime; nothing was imported")
    return Imported(f"{namespace}/{session}", session, commit, 1)


def _has(checkpoint: Checkpoint, transcript: ImportedTranscript) -> bool:
    """Return whether a checkpoint has exactly this conversation."""
    streams = checkpoint.conversation.streams if checkpoint.conversation else ()
    return any(stream.sha256 == transcript.sha256 for stream in streams)


def session_for(store: Store, transcript: ImportedTranscript) -> tuple[str, str, Oid | None]:
    """Return namespace, session name, and parent for a conversation. A local
    session's name is not used again.
    """
    local_sessions = store.sessions()
    stem = re.sub(r"[^A-Za-z0-9]", "", transcript.session) or "talk"
    name = next(
        n for size in (8, 12, 20, 64) if (n := stem[:size]) not in local_sessions or size == 64
    )
    if name in local_sessions:
        name = next(n for number in count(2) if (n := f"{name}-{number}") not in local_sessions)
    for namespace in _namespaces():
        tip = store.repo.refs.read(ref_of(namespace, name))
        if tip is None or _continues(store, tip, transcript):
            return namespace, name, tip
    raise AssertionError("unreachable")


def _continues(store: Store, earlier: Oid, transcript: ImportedTranscript) -> bool:
    """Return whether the checkpoint `earlier` has the same agent session or conversation."""
    try:
        before = store.read(earlier)
    except GitcpError:
        return False
    agent = transcript.capture.agent
    if agent is not None and agent.session_id is not None and before.agent is not None:
        return (before.agent.name, before.agent.session_id) == (agent.name, agent.session_id)
    return _has(before, transcript)
