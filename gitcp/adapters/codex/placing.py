"""Where a stored conversation goes so that `codex resume` continues it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gitcp import wire
from gitcp.adapters import base
from gitcp.adapters.base import Placement, Reader, Stored, Write
from gitcp.adapters.codex import rollouts
from gitcp.adapters.codex.rollouts import ROLLOUT
from gitcp.adapters.codex.transcript import payload_of
from gitcp.errors import Refused
from gitcp.model import Host

MAIN = "main"


# no matter where
def place(stored: Stored, cwd: Path, host: Host, *, new_id: str) -> Placement:  # noqa: ARG001
    """Where Codex looks for a thread, which is the same for every directory: under its own id, or
    under `new_id` where that went on meanwhile.

    What it was forked from must be there and may have gone on. A sub-agent that went on is left as
    it is.
    """
    sessions = rollouts.sessions(host)
    main, read = next((stream, read) for stream, read in stored.streams if stream.name == MAIN)
    own, note = stored.agent.session_id, ""
    first = (
        None if own is None else _write(_path(sessions, main.place, own, host), sessions, own, read)
    )
    thread = new_id if own is None else own
    if first is None:
        moved = base.renamed(read, _named_in(read), new_id)
        first = _write(_path(sessions, main.place, new_id, host), sessions, new_id, moved)
        if own is not None:
            note = (
                f"thread {own} has gone on since: it was left as it is, and this one goes on as "
                f"{new_id}"
            )
        thread = new_id
    if first is None:
        raise Refused(
            f"thread {new_id} of Codex exists and says something else: it was left as it is"
        )
    files = (first, *_beside(stored, sessions))
    base.check_distinct([write.path for write in files])
    return Placement(thread, files, ("codex", "resume", thread), note)


def _named_in(read: Reader) -> str:
    """The thread that a rollout's first line says it is, "" where it says none."""
    first = next(base.lines(read()), b"")
    return base.string(payload_of(wire.parse_line(first) or {}), "id") or ""


def _path(sessions: Path, place: str, thread: str, host: Host) -> Path:
    """Where a thread's file goes: by the time in its old name, or by today where it had none."""
    base.check_session_id(thread)
    known = ROLLOUT.fullmatch(place)
    begin = place[: known.start(4)] if known else f"rollout-{host.now():%Y-%m-%dT00-00-00}-"
    return rollouts.by_name(sessions, f"{begin}{thread}.jsonl")


def _write(path: Path, sessions: Path, thread: str, read: Reader) -> Write | None:
    """How a thread's only file is written, wherever it lies; None if it says something else, or was
    put away.
    """
    there = rollouts.files_of(sessions, thread) or [path]
    if len(there) > 1 or there[0].parents[3] != sessions or there[0].suffix == rollouts.PACKED:
        return None
    writes = base.plan_writes([(there[0], read)])
    return writes[0] if writes else None


def _beside(stored: Stored, sessions: Path) -> Iterator[Write]:
    """The threads beside the main one. Raises Refused if one that it was forked from is there and
    says otherwise.
    """
    for stream, read in sorted(stored.streams, key=lambda item: item[0].name):
        if stream.name == MAIN:
            continue
        path = rollouts.by_name(sessions, stream.place)
        there = next(iter(rollouts.files_of(sessions, rollouts.named(stream.place)[4])), path)
        writes = base.plan_writes([(there, read)])
        if writes is not None:
            yield from writes
        elif stream.name.startswith("parents/") and not _begins(there, read):
            raise Refused(
                f"the thread that it was forked from says something else: {there} was left as it is"
            )


def _begins(path: Path, read: Reader) -> bool:
    """Whether a file begins with this content."""
    try:
        with open(path, "rb") as file:
            return all(file.read(len(chunk)) == chunk for chunk in read())
    except OSError:
        return False
