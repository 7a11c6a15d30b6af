"""Plan where a stored conversation goes so that `codex resume` finds it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import dropwhile, zip_longest
from pathlib import Path
from typing import Any

from gitcp import regular, wire
from gitcp.adapters import base
from gitcp.adapters.base import Placement, Reader, Stored, Write
from gitcp.adapters.codex import rollouts
from gitcp.adapters.codex.rollouts import ROLLOUT
from gitcp.adapters.codex.transcript import payload_of, record_of
from gitcp.model import MAIN, Host

ENDS = ("task_complete", "turn_aborted")
HEAD = 400
"""Bytes of a line that tell what it is."""
CLOSING = (*ENDS, "token_count")
"""Events that Codex writes when a turn has ended, after its hooks were called."""


# the place does not depend on `cwd`
def place(stored: Stored, cwd: Path, host: Host, *, new_id: str) -> Placement:  # noqa: ARG001
    """Place the conversation under its own id, or under `new_id` if that has newer messages.

    Threads it was forked from must exist or be written, and may have newer messages. A sub-agent
    with newer messages is skipped.
    """
    sessions = rollouts.sessions(host)
    main, read = next((stream, read) for stream, read in stored.streams if stream.name == MAIN)
    session_id, note = stored.agent.session_id, ""
    read = read if main.place.endswith(rollouts.PACKED) else _closed(read)
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
    if writes is None and _is_closed_copy(existing[0], read):
        return Write(existing[0], lambda: iter([regular.content(existing[0])]), "same")
    return writes[0] if writes else None


def _closed(read: Reader) -> Reader:
    """Return a reader of a rollout whose last turn, if it was answered, has an end: a checkpoint
    made by the hook at the end of a turn has none yet, and Codex shows such a turn as interrupted.
    """

    def chunks() -> Iterator[bytes]:
        begun = item = last = b""
        for line in base.lines(read()):
            yield line
            head, last = line[:HEAD], line
            if b'"task_started"' in head:
                begun, item = line, b""
            elif any(b'"%s"' % end.encode() in head for end in ENDS):
                begun = b""
            elif b'"response_item"' in head:
                item = line
        turn = base.string(payload_of(record_of(begun)), "turn_id")
        message = payload_of(record_of(item))
        is_answer = (message.get("type"), message.get("role")) == ("message", "assistant")
        if turn is not None and is_answer:
            yield _end(turn, base.text_of(message.get("content")), record_of(last))

    return chunks


def _end(turn: str, answer: str, last: dict[str, Any]) -> bytes:
    """Return the record that ends a turn, after the `last` one."""
    ended = {"type": "task_complete", "turn_id": turn, "last_agent_message": answer}
    ordinal = last.get("ordinal")
    number = {"ordinal": ordinal + 1} if isinstance(ordinal, int) else {}
    record = {"timestamp": last.get("timestamp"), **number, "type": "event_msg", "payload": ended}
    return wire.dumps(record).strip() + b"\n"


def _is_closed_copy(path: Path, read: Reader) -> bool:
    """Return whether a file has this content, but for how its last turn was ended."""
    try:
        with regular.opened(path) as file:
            both = zip_longest(base.lines(read()), base.lines(base.chunks(file)))
            others = dropwhile(lambda pair: pair[0] == pair[1], both)
            lines = (line for pair in others for line in pair if line is not None)
            return all(payload_of(record_of(line)).get("type") in CLOSING for line in lines)
    except OSError:
        return False


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
    try:
        with regular.opened(path) as file:
            return all(file.read(len(chunk)) == chunk for chunk in read())
    except OSError:
        return False
