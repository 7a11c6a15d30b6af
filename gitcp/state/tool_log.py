"""The log of tool calls in a working tree: which agent's session ran which tool, when, and on which
paths. Hooks append to it, and a save reads from it who changed what.

One line for each event in `<git dir>/gitcp/tools`. Lines are independent of each other: a lost or
incomplete one costs the information in it, and nothing else. Commands are not stored, and of files
only when they changed and checksums.

What a file was when a call began tells whether another author had changed it since the last
checkpoint; what it was at the end, whether another author wrote to it meanwhile.
"""

from __future__ import annotations

import os

from gitcp import agents, fingerprint
from gitcp.git import shared
from gitcp.policy import edited, events, risk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gitcp.policy.events import Event, EventCall

NAME = "tools"
OLD = "tools.old"
LARGEST = 1 << 16
"""Size in bytes above which a save begins a new file. The one before is read, too."""

BEGIN, DONE, FAILED, IDLE, LEFT, SAME = "<>!.x="
"""What a line says: a tool began, ended, failed; the turn ended; the session did; the files were
those of the last scan.
"""

TURN = "+"
"""A turn began. An older gitcp wrote IDLE there: in either case no tool of the session runs."""

ASKED, BEFORE, AFTER = "?()"
"""A tool is about to begin, and waits for a save; the files of the call whose begin or end is in
the next line, as they were then.
"""

ABSENT = -1
"""Instead of the time when a file changed: there is none."""

ANYTHING = "*"
"""Instead of the checksums that a call may lead to: any content is possible."""

LARGEST_READ = 1 << 20
"""Bytes above which a file's content is not looked at."""

ANY = b"*"
WHOLE = b"\t;"
"""The end of a complete line."""

WAITING = frozenset("Agent Task agent task".split())
"""Tools that wait for another agent, whose own calls are reported."""

FILE = ("file_path", "filePath", "notebook_path", "path", "absolute_path")

ESCAPES = ((b"\\", b"\\\\"), (b"\t", b"\\t"), (b"\n", b"\\n"))
MARKS = {agents.PROMPT: TURN, agents.TURN: IDLE, agents.END: LEFT}


class LoggedCall:
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


class Seen:
    """A file as a hook saw it: its ctime in nanoseconds (or ABSENT), a checksum of its content (""
    if it was not read), and before a call, those of what the call may make of it: ANYTHING, or ""
    where only lines that follow each other may change.
    """

    __slots__ = ("changed", "digest", "results")

    def __init__(self, changed: int, digest: str, results: tuple[str, ...]) -> None:
        self.changed, self.digest, self.results = changed, digest, results


def note(git_dir: str, root: str, event: Event, now: int, *, asked: bool = False) -> None:
    """Log an event, if it tells who changes files. `asked`: a call is about to begin. Never
    raises.
    """
    try:
        if not event.session_id:
            return
        head = f"{now}\t{event.agent}\t{event.session_id}"
        if event.kind in MARKS and not event.subagent:
            _append(git_dir, f"{MARKS[event.kind]}\t{head}\t\t*".encode() + WHOLE)
        elif event.kind in (agents.BEFORE_TOOL, agents.AFTER_TOOLS):
            _append(git_dir, *_lines(event, root, head, asked=asked))
    except (OSError, ValueError):
        return


def note_unchanged(git_dir: str, since: int) -> None:
    """Log that at the time `since` the files were those of the last scan. Never raises."""
    try:
        _append(git_dir, f"{SAME}\t{since}\t\t\t\t*".encode() + WHOLE)
    except OSError:
        return


def read(git_dir: str) -> Iterator[LoggedCall]:
    """Yield the lines, oldest first, without those that are incomplete."""
    for name in (OLD, NAME):
        for text in _content(os.path.join(git_dir, "gitcp", name)).split(b"\n"):
            line = _parsed(text) if text.endswith(WHOLE) else None
            if line is not None:
                yield line


def open_turns(lines: Iterable[LoggedCall]) -> dict[tuple[str, str], tuple[int, int]]:
    """Return the sessions whose last turn has not ended, by agent and its session, with the times
    of the begin (or the first that is known of it) and of the last event.
    """
    begun: dict[tuple[str, str], tuple[int, int]] = {}
    for line in lines:
        if line.mark in (IDLE, LEFT):
            begun.pop(line.session, None)
        elif line.mark == TURN:
            begun[line.session] = line.time, line.time
        elif line.session in begun or line.mark in (ASKED, BEGIN):
            began, _ = begun.get(line.session, (line.time, 0))  # what ends late begins no turn
            begun[line.session] = began, line.time
    return begun


def turn_over(git_dir: str) -> None:
    """Begin a new file if this one is large. Never raises."""
    path, old = (os.path.join(git_dir, "gitcp", name) for name in (NAME, OLD))
    try:
        if os.lstat(path).st_size > LARGEST:
            os.replace(path, old)
    except OSError:
        return


def changed_paths(call: EventCall) -> list[str] | None:
    """Return the paths that a tool call changes, as the agent gave them. None if it may change any
    file, as a command may.
    """
    if call.tool in risk.READERS or call.tool in WAITING:
        return []
    if call.tool in risk.PATCHERS:
        return _patched(call.text(*edited.PATCH)) or None
    if call.tool in risk.WRITERS or call.tool in risk.EDITORS:
        return list(filter(None, [call.text(*FILE)])) or None
    return None


def named(event: Event, root: str) -> list[bytes] | None:
    """Return the paths in the working tree that an event's calls change; None if they may change
    any file.
    """
    paths: list[bytes] = []
    for call in event.calls:
        given = changed_paths(call)
        if given is None:
            return None
        paths += _inside(event, root, given)
    return paths


def _patched(patch: str) -> list[str]:
    return [
        line.removeprefix(head).strip()
        for line in patch.splitlines()
        for head in edited.HEADS
        if line.startswith(head)
    ]


def _lines(event: Event, root: str, head: str, *, asked: bool) -> Iterator[bytes]:
    is_begin = event.kind == agents.BEFORE_TOOL
    for call in event.calls:
        named = changed_paths(call)
        known = _escaped((call.id or call.tool).encode("utf-8", "replace"))
        inside = _inside(event, root, named or ())
        if named is not None and not inside:
            continue
        paths = [ANY] if named is None else [_escaped(path) for path in inside]
        if inside and not asked:
            seen = [_escaped(_seen(call, *each, root, is_begin)) for each in inside.items()]
            fields = [part for pair in zip(paths, seen, strict=True) for part in pair]
            mark = BEFORE if is_begin else AFTER
            yield b"\t".join([f"{mark}\t{head}".encode(), known, *fields]) + WHOLE
        mark = ASKED if asked else BEGIN if is_begin else FAILED if call.failed else DONE
        yield b"\t".join([f"{mark}\t{head}".encode(), known, *paths]) + WHOLE


def _inside(event: Event, root: str, named: Iterable[str]) -> dict[bytes, str]:
    """Return the paths in the working tree that a call names, each with how it names it."""
    pairs = ((relative(path, event.cwd, root), path) for path in named)
    return {path: given for path, given in pairs if path}


def _seen(call: EventCall, path: bytes, given: str, root: str, is_begin: bool) -> bytes:
    """Return what a file is now, as a line has it: when it changed, and checksums."""
    file = os.path.join(os.fsencode(root), path)
    try:
        changed = fingerprint.of(os.lstat(file))[fingerprint.CTIME]
    except OSError:
        changed = ABSENT
    content = _regular(file)
    text = f"{changed} {edited.digest(content) if content is not None else ''}"
    if not is_begin:
        return text.encode()
    if content is None and changed != ABSENT:
        return f"{text} {ANYTHING}".encode()
    results = edited.results(call, given, content or b"")
    digests = ",".join(edited.digest(each) for each in results)
    return f"{text} {digests or ANYTHING * (not edited.is_one_place(call))}".encode()


def _regular(path: bytes) -> bytes | None:
    """Return the content of a regular file that is not large; None for anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if status.st_mode >> 12 != 8 or status.st_size > LARGEST_READ:
            return None
        return os.read(descriptor, LARGEST_READ + 1)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def seen(line: LoggedCall) -> dict[bytes, Seen]:
    """Return the files in a line of BEFORE or AFTER, without those that are incomplete."""
    files = {}
    parts = line.paths or ()
    for path, text in zip(parts[::2], parts[1::2], strict=False):
        changed, _, rest = text.decode("ascii", "replace").partition(" ")
        content, _, results = rest.partition(" ")
        if changed.lstrip("-").isdecimal() and len(changed) <= 20:
            files[path] = Seen(int(changed), content, tuple(results.split(",")))
    return files


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


def _parsed(text: bytes) -> LoggedCall | None:
    mark, *fields = text.removesuffix(WHOLE).split(b"\t")
    if len(fields) < 5 or not fields[0].isdigit() or len(fields[0]) > 20:
        return None
    at, agent, session, call, *paths = fields
    key = (agent.decode("ascii", "replace"), session.decode("ascii", "replace"))
    is_session = key[0] in agents.SAVED and events.session_id(key[1]) == key[1] != ""
    if not is_session and mark != SAME.encode():
        return None
    named = None if paths == [ANY] else tuple(map(_unescaped, paths))
    return LoggedCall(
        mark.decode("ascii", "replace"), int(at), key, call.decode("utf-8", "replace"), named
    )


def _escaped(text: bytes) -> bytes:
    for raw, written in ESCAPES:
        text = text.replace(raw, written)
    return text


def _unescaped(text: bytes) -> bytes:
    parts = text.split(b"\\\\")
    return b"\\".join(part.replace(b"\\t", b"\t").replace(b"\\n", b"\n") for part in parts)
