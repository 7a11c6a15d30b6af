"""The log of tool calls in a working tree: which agent's session ran which tool, when, and on which
paths. Hooks append to it, and a save reads from it who changed what.

One line for each event in `<git dir>/gitcp/tools`. Lines are independent of each other: a lost or
incomplete one costs the information in it, and nothing else. Commands are not stored.
"""

from __future__ import annotations

import os

from gitcp.git import shared
from gitcp.policy import events, risk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from gitcp.policy.events import Call, Event

NAME = "tools"
OLD = "tools.old"
LARGEST = 1 << 16
"""Size in bytes above which a save begins a new file. The one before is read, too."""

BEGIN, DONE, FAILED, IDLE, LEFT, SAME = "<>!.x="
"""What a line says: a tool began, ended, failed; the session runs none; it ended; the files were
those of the last scan.
"""

ANY = b"*"
WHOLE = b"\t;"
"""The end of a complete line."""

WAITING = frozenset("Agent Task agent task".split())
"""Tools that wait for another agent, whose own calls are reported."""

FILE = ("file_path", "filePath", "notebook_path", "path", "absolute_path")
PATCH = ("command", "input", "patch", "patchText")
HEADS = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")

ESCAPES = ((b"\\", b"\\\\"), (b"\t", b"\\t"), (b"\n", b"\\n"))
MARKS = {events.PROMPT: IDLE, events.TURN: IDLE, events.END: LEFT}
AGENTS = frozenset(events.AGENTS.values())


class Line:
    """One line: what happened, when (nanoseconds of the file system's clock), in which session of
    which agent, in which call. `paths` are those in the working tree that the call changes, None if
    it may change any.
    """

    __slots__ = ("call", "mark", "paths", "session", "time")

    def __init__(
        self,
        mark: str,
        time: int,
        session: tuple[str, str],
        call: str,
        paths: tuple[bytes, ...] | None,
    ) -> None:
        self.mark, self.time, self.session, self.call = mark, time, session, call
        self.paths = paths


def note(git_dir: str, root: str, event: Event, now: int) -> None:
    """Log an event, if it tells who changes files. Never raises."""
    try:
        if not event.session_id:
            return
        head = f"{now}\t{event.agent}\t{event.session_id}"
        if event.kind in MARKS and not event.subagent:
            _append(git_dir, f"{MARKS[event.kind]}\t{head}\t\t*".encode() + WHOLE)
        elif event.kind in (events.BEFORE_TOOL, events.AFTER_TOOLS):
            _append(git_dir, *_lines(event, root, head))
    except (OSError, ValueError):
        return


def note_unchanged(git_dir: str, since: int) -> None:
    """Log that at the time `since` the files were those of the last scan. Never raises."""
    try:
        _append(git_dir, f"{SAME}\t{since}\t\t\t\t*".encode() + WHOLE)
    except OSError:
        return


def read(git_dir: str) -> Iterator[Line]:
    """Yield the lines, oldest first, without those that are incomplete."""
    for name in (OLD, NAME):
        for text in _content(os.path.join(git_dir, "gitcp", name)).split(b"\n"):
            line = _parsed(text) if text.endswith(WHOLE) else None
            if line is not None:
                yield line


def turn_over(git_dir: str) -> None:
    """Begin a new file if this one is large. Never raises."""
    path, old = (os.path.join(git_dir, "gitcp", name) for name in (NAME, OLD))
    try:
        if os.lstat(path).st_size > LARGEST:
            os.replace(path, old)
    except OSError:
        return


def changed_paths(call: Call) -> list[str] | None:
    """Return the paths that a tool call changes, as the agent gave them. None if it may change any
    file, as a command may.
    """
    if call.tool in risk.READERS or call.tool in WAITING:
        return []
    if call.tool in risk.PATCHERS:
        return _patched(call.text(*PATCH)) or None
    if call.tool in risk.WRITERS or call.tool in risk.EDITORS:
        return list(filter(None, [call.text(*FILE)])) or None
    return None


def _patched(patch: str) -> list[str]:
    return [
        line.removeprefix(head).strip()
        for line in patch.splitlines()
        for head in HEADS
        if line.startswith(head)
    ]


def _lines(event: Event, root: str, head: str) -> Iterator[bytes]:
    for call in event.calls:
        paths = changed_paths(call)
        if paths == []:
            continue
        inside = [relative(path, event.cwd, root) for path in paths or ()]
        names = [ANY] if paths is None else [_escaped(path) for path in inside]
        mark = BEGIN if event.kind == events.BEFORE_TOOL else FAILED if call.failed else DONE
        known = (call.id or call.tool).encode("utf-8", "replace")
        fields = [f"{mark}\t{head}".encode(), _escaped(known), *filter(None, names)]
        if len(fields) > 2:
            yield b"\t".join(fields) + WHOLE


def relative(path: str, directory: str, root: str) -> bytes:
    """Return a path as git has it, b"" if it is outside of the working tree. Raises ValueError for
    what cannot be a path.
    """
    whole = os.path.join(directory, path)
    real = os.path.join(os.path.realpath(os.path.dirname(whole)), os.path.basename(whole))
    top = root.rstrip("/") + "/"
    return os.fsencode(real[len(top) :]) if real.startswith(top) else b""


def _append(git_dir: str, *lines: bytes) -> None:
    """Append lines, if gitcp is used here. The line feed before them ends a line that was cut."""
    directory = os.path.join(git_dir, "gitcp")
    if not lines or os.path.islink(directory):
        return
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    path = os.path.join(directory, NAME)
    descriptor = os.open(path, flags, 0o600)
    try:
        if not os.fstat(descriptor).st_size:
            shared.share_like_directory(descriptor, path)
        os.write(descriptor, b"".join(b"\n" + line for line in lines) + b"\n")
    finally:
        os.close(descriptor)


def _content(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 4 * LARGEST)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _parsed(text: bytes) -> Line | None:
    mark, *fields = text.removesuffix(WHOLE).split(b"\t")
    if len(fields) < 5 or not fields[0].isdigit() or len(fields[0]) > 20:
        return None
    at, agent, session, call, *paths = fields
    key = (agent.decode("ascii", "replace"), session.decode("ascii", "replace"))
    is_session = key[0] in AGENTS and events.session_id(key[1]) == key[1] != ""
    if not is_session and mark != SAME.encode():
        return None
    named = None if paths == [ANY] else tuple(map(_unescaped, paths))
    return Line(
        mark.decode("ascii", "replace"), int(at), key, call.decode("utf-8", "replace"), named
    )


def _escaped(text: bytes) -> bytes:
    for raw, written in ESCAPES:
        text = text.replace(raw, written)
    return text


def _unescaped(text: bytes) -> bytes:
    parts = text.split(b"\\\\")
    return b"\\".join(part.replace(b"\\t", b"\t").replace(b"\\n", b"\n") for part in parts)
