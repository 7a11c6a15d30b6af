"""Import bundles and conversations as sessions that need --trust to be restored.

The file is copied first, so that exactly the bytes that were checked are imported. No ref names
anything in a bundle until it is checked: sizes before git opens it, objects by git, the rest by
`sharing.verify_incoming`. A transcript, or JSON with messages, becomes one checkpoint with the
current files. Local sessions are not touched.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from gitcp.errors import BadValue, GitcpError, RevisionNotFound, StoreBusy
from gitcp.git import bundle, refs
from gitcp.model import CheckpointId, Oid
from gitcp.secrets.external_scanner import is_running
from gitcp.sharing import fetch, transcript_import, verify_incoming
from gitcp.sharing.remotes import IMPORTED, Remote
from gitcp.sharing.transcript_import import ImportedTranscript
from gitcp.state import oplog
from gitcp.store import Store
from gitcp.value import Value
from gitcp.worktree.snapshot import Limits

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


@contextmanager
def _copied(store: Store, path: Path) -> Iterator[Path]:
    """Yield a private copy of the file, which nobody can change during the import."""
    for leftover in store.repo.store_dir.glob(f"{INCOMING}.*"):
        if not is_running(leftover.suffix[1:]):
            leftover.unlink(missing_ok=True)
    copy = store.repo.store_dir / f"{INCOMING}.{os.getpid()}"
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
        current = store.repo.refs.read(_ref(namespace, session))
        if current is None or current == tip or _is_extended_by(store, current, tip):
            return namespace
    raise AssertionError("unreachable")


def _namespaces() -> Iterator[str]:
    return (IMPORTED if number == 1 else f"{IMPORTED}-{number}" for number in count(1))


def _ref(namespace: str, session: str) -> str:
    return f"{refs.REMOTES}{namespace}/sessions/{session}"


def _is_extended_by(store: Store, earlier: Oid, tip: Oid) -> bool:
    """Return whether the imported session at `there` is continued by `tip`."""
    try:
        return any(summary.commit == earlier for summary in store.history(tip))
    except GitcpError:
        return False


# ---------------------------------------------------------------- conversations


def _conversation(store: Store, request: ImportRequest, copy: Path) -> Imported:
    """Import a conversation as a checkpoint, on top of an earlier import of the same
    conversation.
    """
    transcript = transcript_import.read(copy, request.path.name, request.agent)
    namespace, session, parent = _session_for(store, transcript)
    commit = transcript_import.checkpoint(
        store, transcript, CheckpointId(session, 1), parent, request.limits
    )
    if commit is None:
        assert parent is not None
        return Imported(f"{namespace}/{session}", session, parent, 0)
    with store.lock():
        if not store.repo.refs.update(_ref(namespace, session), commit, parent):
            raise StoreBusy(f"{namespace}/{session} moved in the meantime; nothing was imported")
    return Imported(f"{namespace}/{session}", session, commit, 1)


def _session_for(store: Store, transcript: ImportedTranscript) -> tuple[str, str, Oid | None]:
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
        tip = store.repo.refs.read(_ref(namespace, name))
        if tip is None or _continues(store, tip, transcript):
            return namespace, name, tip
    raise AssertionError("unreachable")


def _continues(store: Store, earlier: Oid, transcript: ImportedTranscript) -> bool:
    """Return whether the checkpoint `there` has the same agent session or conversation."""
    try:
        before = store.read(earlier)
    except GitcpError:
        return False
    agent = transcript.capture.agent
    if agent is not None and agent.session_id is not None and before.agent is not None:
        return (before.agent.name, before.agent.session_id) == (agent.name, agent.session_id)
    streams = before.conversation.streams if before.conversation else ()
    return any(stream.sha256 == transcript.sha256 for stream in streams)
