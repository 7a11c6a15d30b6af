"""Import: what somebody else exported becomes a session that is looked at, and restored only with
--trust.

A file is copied first, so that what was checked is what is read. Of a bundle nothing gets a name
before all of it was looked at: sizes before git opens it, objects by git, the rest by
`sharing.verify_incoming`. A transcript, or JSON with messages, becomes one checkpoint: what was
said in it, beside the files as they are here. Sessions here stay as they are.
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
from gitcp.sharing.transcript_import import Brought
from gitcp.state import oplog
from gitcp.store import Store
from gitcp.value import Value
from gitcp.worktree.snapshot import Limits

INCOMING = "incoming"
NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
MOST = 16 << 30
"""No file may unfold to more bytes."""


class Request(Value):
    """What to import: a file; whose transcript it is, where that is not to be found out; what a
    save takes here.
    """

    path: Path
    agent: str | None = None
    limits: Limits = Limits()


class Imported(Value):
    """One session of a file: its revision here, its end, how many checkpoints are new here.

    `refused` says why it was not taken, "" if it was.
    """

    revision: str
    session: str
    tip: Oid
    checkpoints: int
    refused: str = ""


def take(store: Store, request: Request) -> tuple[Imported, ...]:
    """Import a file.

    Writes objects, refs below `refs/gitcp/remotes/imported/`, and a line of the operation log.
    Raises BadValue for a file that is none of ours, StoreDamaged for one that is not as it must be;
    nothing is named then.
    """
    with _copied(store, request.path) as copy:
        with copy.open("rb") as file:
            is_bundle = file.readline(64) in bundle.SIGNATURES
        found = _bundle(store, copy) if is_bundle else (_conversation(store, request, copy),)
    for one in found:
        if not one.refused and one.checkpoints:
            said = f"{one.revision} from {request.path.name}"
            oplog.record(store.repo, "import", said, checkpoints=(store.summary(one.tip).id,))
    return found


@contextmanager
def _copied(store: Store, path: Path) -> Iterator[Path]:
    """A copy of the file that nobody else changes, while it is looked at."""
    for left in store.repo.store_dir.glob(f"{INCOMING}.*"):
        if not is_running(left.suffix[1:]):
            left.unlink(missing_ok=True)
    copy = store.repo.store_dir / f"{INCOMING}.{os.getpid()}"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadValue(f"{path} cannot be read: {reason}. Nothing was imported") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST:
            os.close(descriptor)
            raise BadValue(f"{path} is no ordinary file, or too large: nothing was imported")
        with open(descriptor, "rb") as source, open(os.open(copy, NEW, 0o600), "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        yield copy
    finally:
        copy.unlink(missing_ok=True)


# ---------------------------------------------------------------- bundles


def _bundle(store: Store, path: Path) -> tuple[Imported, ...]:
    bundle.check_sizes(path, largest=verify_incoming.LARGEST, most=MOST)
    listed = fetch.listing(store, Remote(IMPORTED, str(path), enabled=True))
    if not listed:
        raise RevisionNotFound(
            "the bundle holds no session of gitcp: nothing was imported",
            hint="gitcp export -o FILE",
        )
    bundle.take_in(store.repo, path)
    store.objects.flush()  # what arrived is looked for again
    places: dict[str, list[str]] = {}
    for one in listed:
        if not one.refused:
            places.setdefault(_place(store, one.session, one.tip), []).append(one.session)
    found = [
        Imported(f"{IMPORTED}/{one.session}", one.session, one.tip, 0, one.refused)
        for one in listed
        if one.refused
    ]
    for place, sessions in places.items():
        for each in fetch.fetch(store, Remote(place, str(path), enabled=True), sessions):
            revision = f"{place}/{each.session}"
            found.append(Imported(revision, each.session, each.tip, each.checkpoints, each.refused))
    return tuple(found)


def _place(store: Store, session: str, tip: Oid) -> str:
    """Where a session goes, `imported` or `imported-2` …: where it is, where it grows, or where
    there is none.
    """
    for place in _places():
        there = refs.read_ref(store.repo.common_dir, _ref(place, session))
        if there is None or there == tip or _grows(store, there, tip):
            return place
    raise AssertionError("unreachable")


def _places() -> Iterator[str]:
    return (IMPORTED if number == 1 else f"{IMPORTED}-{number}" for number in count(1))


def _ref(place: str, session: str) -> str:
    return f"{refs.REMOTES}{place}/sessions/{session}"


def _grows(store: Store, there: Oid, tip: Oid) -> bool:
    """Whether a session that was imported goes on in what is imported now."""
    try:
        return any(summary.commit == there for summary in store.history(tip))
    except GitcpError:
        return False


# ---------------------------------------------------------------- conversations


def _conversation(store: Store, request: Request, copy: Path) -> Imported:
    """A checkpoint of what was said, in a session of its own; on top of an earlier import of the
    same session.
    """
    read = transcript_import.read(copy, request.path.name, request.agent)
    place, session, parent = _session_for(store, read)
    made = transcript_import.checkpoint(
        store, read, CheckpointId(session, 1), parent, request.limits
    )
    if made is None:
        assert parent is not None
        return Imported(f"{place}/{session}", session, parent, 0)
    with store.lock():
        if not refs.update_ref(store.repo.common_dir, _ref(place, session), made, parent):
            raise StoreBusy(f"{place}/{session} moved meanwhile: nothing was imported")
    return Imported(f"{place}/{session}", session, made, 1)


def _session_for(store: Store, read: Brought) -> tuple[str, str, Oid | None]:
    """Where it goes: place, session, and the checkpoint before it. What has the name of a session
    here gets another.
    """
    own = store.sessions()
    plain = re.sub(r"[^A-Za-z0-9]", "", read.session) or "talk"
    name = next(n for size in (8, 12, 20, 64) if (n := plain[:size]) not in own or size == 64)
    if name in own:
        name = next(n for number in count(2) if (n := f"{name}-{number}") not in own)
    for place in _places():
        there = refs.read_ref(store.repo.common_dir, _ref(place, name))
        if there is None or _continues(store, there, read):
            return place, name, there
    raise AssertionError("unreachable")


def _continues(store: Store, there: Oid, read: Brought) -> bool:
    """Whether this is the same agent's session, or the very same conversation."""
    try:
        before = store.read(there)
    except GitcpError:
        return False
    agent = read.capture.agent
    if agent is not None and agent.session_id is not None and before.agent is not None:
        return (before.agent.name, before.agent.session_id) == (agent.name, agent.session_id)
    streams = before.conversation.streams if before.conversation else ()
    return any(stream.sha256 == read.sha256 for stream in streams)
