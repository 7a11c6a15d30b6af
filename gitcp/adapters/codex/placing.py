"""Plan where a stored conversation goes so that `codex resume` finds it."""

from __future__ import annotations

from pathlib import Path

from gitcp import regular
from gitcp.adapters import base
from gitcp.adapters.base import Placement, Reader, Stored, Write
from gitcp.adapters.codex import rollouts
from gitcp.adapters.codex.rollouts import ROLLOUT
from gitcp.adapters.codex.transcript import payload_of, record_of
from gitcp.model import MAIN, Host


# the place does not depend on `cwd`
def place(stored: Stored, cwd: Path, host: Host, *, new_id: str) -> Placement:  # noqa: ARG001
    """Place the conversation under its own id, or under `new_id` if that has newer messages.

    Threads it was forked from must exist or be written, and may have newer messages. A sub-agent
    with newer messages is skipped.
    """
    sessions = rollouts.sessions(host)
    main, read = next((stream, read) for stream, read in stored.streams if stream.name == MAIN)
    session_id, note = stored.agent.session_id, ""
    first = (
        None
        if session_id is None
        else _write(_path(sessions, main.place, session_id, host), sessions, session_id, read)
    )
    thread = new_id if session_id is None else session_id
    if first is None and main.place.endswith(rollouts.PACKED):
        raise base.occupied(f"Codex thread {session_id}")  # its id is inside
    if first is None:
        renamed = base.renamed(read, _thread_id(read), new_id)
        first = _write(_path(sessions, main.place, new_id, host), sessions, new_id, renamed)
        note = base.renamed_note(session_id, new_id)
        thread = new_id
    if first is None:
        raise base.occupied(f"Codex thread {new_id}")
    others, kept = _other_threads(stored, sessions)
    base.check_distinct([write.path for write in (first, *others)])
    resume = ("codex", "resume", thread)
    return Placement(thread, (first, *others), resume, note, kept=kept)


def _thread_id(read: Reader) -> str:
    """Return the thread id in a rollout's first line, "" if there is none."""
    first = next(base.lines(read()), b"")
    return base.string(payload_of(record_of(first)), "id") or ""


def _path(sessions: Path, relative: str, thread: str, host: Host) -> Path:
    """Return the path for a thread's file: dated as its old name, or today."""
    base.check_session_id(thread)
    match = ROLLOUT.fullmatch(relative.removesuffix(rollouts.PACKED))
    prefix = relative[: match.start(4)] if match else f"rollout-{host.now():%Y-%m-%dT00-00-00}-"
    suffix = rollouts.PACKED if relative.endswith(rollouts.PACKED) else ""
    return rollouts.by_name(sessions, f"{prefix}{thread}.jsonl{suffix}")


def _write(path: Path, sessions: Path, thread: str, read: Reader) -> Write | None:
    """Plan the write of a thread's single file, wherever it is; None if it differs or is
    archived.
    """
    existing = rollouts.files_of(sessions, thread) or [path]
    if len(existing) > 1 or existing[0].parents[3] != sessions:
        return None
    if existing[0].suffix == rollouts.PACKED != path.suffix:
        content = rollouts.unpacked(existing[0])
        return Write(existing[0], read, "same") if content == b"".join(read()) else None
    writes = base.plan_writes([(existing[0], read)])
    return writes[0] if writes else None


def _other_threads(stored: Stored, sessions: Path) -> tuple[list[Write], tuple[str, ...]]:
    """Return the writes for the other threads, and the names of those that are kept because their
    files differ. Raises Refused if a thread it was forked from differs.
    """
    writes, kept = list[Write](), list[str]()
    for stream, read in sorted(stored.streams, key=lambda item: item[0].name):
        if stream.name == MAIN:
            continue
        path = rollouts.by_name(sessions, stream.place)
        existing = next(iter(rollouts.files_of(sessions, rollouts.named(stream.place)[4])), path)
        planned = base.plan_writes([(existing, read)])
        if planned is None and stream.name.startswith("parents/") and not _begins(existing, read):
            raise base.occupied(f"the thread it was forked from ({existing})")
        writes += planned or ()
        kept += [stream.name] if planned is None else []
    return writes, tuple(kept)


def _begins(path: Path, read: Reader) -> bool:
    """Return whether a file starts with this content."""
    try:
        with regular.opened(path) as file:
            return all(file.read(len(chunk)) == chunk for chunk in read())
    except OSError:
        return False
