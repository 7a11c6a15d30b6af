"""The adapter protocol and its values. An adapter knows one agent: where its conversations are, how
to read them, and where to put them so that the agent can resume.

An adapter is a module whose functions satisfy `Adapter`. It never writes a file; environment, home
and working directory are arguments. Agents change their formats, so lines that are not understood
are skipped, never an error: `gitcp.conversation` keeps the bytes either way.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, Protocol

from gitcp import regular, wire
from gitcp.adapters import long_lines
from gitcp.errors import Refused, StoreDamaged
from gitcp.model import Agent, Capture, Digest, Host, Stream
from gitcp.value import Value, replace

SHOWN = 200
"""Characters of a message in a digest."""

MOST_UNKNOWN = 20
"""Kinds of unknown records that a digest names."""
KIND = 60
"""Characters of a kind of records in a digest."""

SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
STREAM_PART = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
PLACE_PART = re.compile(r"[^\x00-\x1f\x7f/\\\ud800-\udfff]{1,200}")

IMAGE = "[image]"
IMAGES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
}
"""Media types by file extension."""

TAIL = 1 << 14
"""Bytes at the end of a transcript in which its last message is looked for first."""

CHUNK = 1 << 18
"""Bytes of a transcript that are read at once."""

LONGEST_LINE = 16 << 20
LONGEST_LINK = 4096
"""Bytes of a file that names a git directory."""
MOST_PIECES = 1000
MOST_ATTEMPTS = 50
"""Maximum number of lines of a record that line feeds split, and of attempts to join them."""

NOTHING = "nothing was written"
"""The end of each error of a placement."""

CHECK = "gitcp doctor --store"

How = Literal["create", "append", "same"]
Reader = Callable[[], Iterator[bytes]]
"""Returns a stream's bytes in chunks, from the start on each call."""


# ---------------------------------------------------------------- values


class Found(Value):
    """A session of an agent: its id, its main file, and its modification time (seconds since
    1970).
    """

    agent: str
    session_id: str
    path: Path
    modified: float


class Listed(NamedTuple):
    """A session of an agent, wherever it was started.

    `bytes` is the size of its files, and `stamp` changes whenever one of them does. `capture` is
    the adapter's capture of it. `deleted` is when the agent will delete it, in seconds since 1970,
    None for never. `unread` is why the adapter cannot read it, "" if it can.
    """

    found: Found
    bytes: int
    stamp: str
    capture: Callable[[], Capture]
    deleted: float | None = None
    unread: str = ""


class Unlisted(NamedTuple):
    """A file of an agent's conversations that the adapter does not read, and what it is, in the
    plural.
    """

    agent: str
    path: Path
    what: str


class Origin(Value):
    """Where a session ran, by its own account.

    `directories` are absolute paths, where it started first. `remotes` are URLs, `commits` oids and
    `roots` the oids of root commits, `branches` names, each list with the latest last. `hashed` are
    SHA-256 sums of directories, where the agent has no more of them.
    """

    directories: tuple[str, ...] = ()
    remotes: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    hashed: tuple[str, ...] = ()


class Running(NamedTuple):
    """The agent that runs this process, and its session."""

    agent: str
    session_id: str


class Image(Value):
    """An image in a message: its bytes (`data`, base64) or its location (`place`, a path or URL).
    `media` is its media type, such as "image/png", or "image" if unknown.
    """

    media: str
    data: str | None = None
    place: str | None = None

    def size(self) -> int | None:
        """Return the size in bytes, None if the agent does not store the image."""
        return None if self.data is None else len(self.data.rstrip("=")) * 3 // 4


class Usage(NamedTuple):
    """The tokens of one request to a model, as the agent recorded them.

    `key` names the request: of several records with one key, the last counts. `input` are those
    that were neither read from a cache nor written to one; `output` includes thinking. `time` is
    the agent's own format. `cost` is what the agent says that it cost, in US dollars.
    """

    key: str
    model: str
    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0
    time: str | None = None
    cost: float | None = None

    @property
    def read(self) -> int:
        """The tokens that the model read, cached or not."""
        return self.input + self.cache_read + self.cache_write


State = dict[str, Any]
"""What reading the lines of a stream leaves for those that follow; empty at the beginning. Its
values can be marshaled.
"""


class Message(Value):
    """One displayed part of a turn.

    `role` is "user", "assistant", "thinking", "tool" (a tool's result), "summary" (of a compacted
    conversation) or "system" (from the agent's program). `tool` is the tool's name, for a call
    (role "assistant", `text` is the input) or its result. `time` is the agent's own format.
    `call` is the agent's id of the call, on both; `failed` marks a failed call. A message that
    only has `images` has the text IMAGE.
    """

    role: str
    text: str
    id: str | None = None
    time: str | None = None
    tool: str | None = None
    call: str | None = None
    failed: bool = False
    images: tuple[Image, ...] = ()

    def is_shown(self) -> bool:
        """Return whether there is something to show. A result without text
        still shows that the call ended.
        """
        return bool(self.text) or (self.role == "tool" and self.call is not None)

    def to_json(self, kind: str = "") -> dict[str, Any]:
        """Return the fields that `gitcp diff --conversation --json` prints; `kind` is "added" or
        "deleted".
        """
        from gitcp import documents  # only for programs

        text = documents.utf8(self.text)
        return documents.encode(documents.Message(kind, self.role, text, self.id, self.tool))


class Stored(Value):
    """A stored conversation: its agent, and its streams with their readers. `aside` is a directory
    of gitcp's, for files that the agent does not discover itself.
    """

    agent: Agent
    streams: tuple[tuple[Stream, Reader], ...]
    aside: Path | None = None


class Write(Value):
    """A file to write for a conversation.

    `how` is "create": the file does not exist and is created with mode 0600 (directories
    0700); "append": its `skip` bytes are a prefix of `content`, and the rest is appended;
    "same": it already has this content.
    """

    path: Path
    content: Reader
    how: How
    skip: int = 0

    def __reduce__(self) -> tuple[Any, ...]:
        # The content is read from the store of this process: a plan that was sent elsewhere, or
        # copied, says what would be written, and nothing is written by it.
        return Write, (self.path, _unread, self.how, self.skip)

    def __eq__(self, other: object) -> bool:
        # `content` is a function, which equals no copy of it.
        return isinstance(other, Write) and self._compared == other._compared

    def __hash__(self) -> int:
        return hash(self._compared)

    @property
    def _compared(self) -> tuple[object, ...]:
        return self.path, self.how, self.skip


def _unread() -> Iterator[bytes]:
    raise RuntimeError("the content is in the store of the process that made the plan")


class Latest(NamedTuple):
    """The session that the agent's own `command` for resuming the latest one picks."""

    session_id: str
    command: tuple[str, ...]


class Placement(Value):
    """Where a conversation is written, and how to resume it.

    `session_id` is None if no agent can resume it. `files` starts with the main one. `note`
    is a remark for people, or "". `prepare` are commands to run before `command`, in the
    same directory; gitcp runs none of them. `latest` is set if the agent's latest session in
    that directory is another one. `kept` are streams that are not written: the agent has other
    content under their ids, which cannot change.
    """

    session_id: str | None
    files: tuple[Write, ...]
    command: tuple[str, ...]
    note: str = ""
    prepare: tuple[tuple[str, ...], ...] = ()
    latest: Latest | None = None
    kept: tuple[str, ...] = ()


class Adapter(Protocol):
    """One agent. `NAME` is also the format of the conversations it captures."""

    NAME: str

    def find(self, cwd: Path, host: Host) -> tuple[Found, ...]:
        """Return the sessions for this directory, newest first. Never raises;
        unreadable sessions are skipped.
        """

    def watched(self, cwd: Path, host: Host) -> tuple[Path, ...]:
        """Return the paths, existing or not, whose stat changes whenever `find` or `capture`
        would.
        """

    def running(self, host: Host) -> str | None:
        """Return the session id of the agent that runs this process, from the environment."""

    def capture(self, found: Found) -> Capture:
        """Return a session's streams and its working directory. Files are read later, when they are
        stored.
        """

    def digest(self, before: Digest, lines: Iterable[bytes]) -> Digest:
        """Update a digest with more lines of the main stream."""

    def messages(self, lines: Iterable[bytes]) -> Iterator[Message]:
        """Yield the displayed parts of a stream, in order."""

    def before(self, lines: Iterable[bytes], message_id: str) -> int | None:
        """Return the byte offset of the user message with this id, None if there is none."""

    def place(self, stored: Stored, cwd: Path, host: Host, *, new_id: str) -> Placement:
        """Plan where the files go so that the agent can resume in `cwd`. Reads the
        existing files and writes nothing.

        An existing file is kept: it is identical, or a prefix that is completed. If one differs,
        everything goes under `new_id`. Raises StoreDamaged for a stored path that leads elsewhere,
        and Refused if `new_id` exists too.
        """


# ---------------------------------------------------------------- lines


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a stream, with their line endings."""
    rest: list[bytes] = []
    for chunk in chunks:
        *whole, last = chunk.split(b"\n")
        for line in whole:
            yield b"".join((*rest, line, b"\n"))
            rest.clear()
        if last:
            rest.append(last)
    if rest:
        yield b"".join(rest)


def tails(path: Path) -> Iterator[Iterator[bytes]]:
    """Yield the lines at the end of a file, long ones shortened, then more of them, and in the end
    all. Raises OSError if it cannot be read.
    """
    size = TAIL
    with regular.opened(path) as file:
        while True:
            start = max(0, os.fstat(file.fileno()).st_size - size)
            file.seek(start)
            if start > 0:
                _skip_line(file)  # its beginning is not there
            yield long_lines.lines(chunks(file))
            if start == 0:
                return
            size *= 8


def chunks(file: BinaryIO) -> Iterator[bytes]:
    """Yield the rest of a file in pieces."""
    while chunk := file.read(CHUNK):
        yield chunk


def _skip_line(file: BinaryIO) -> None:
    while (part := file.readline(CHUNK)) and not part.endswith(b"\n"):
        pass


def records(lines: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield each line without its line ending, and the number of lines it was made of.

    An agent once wrote the result of a tool with raw line feeds inside a JSON string: such lines
    are joined, with the line feeds escaped.
    """
    pieces: list[bytes] = []
    attempts = 0
    for line in (each.removesuffix(b"\n") for each in lines):
        if pieces and (_begins_record(line) or len(pieces) == MOST_PIECES):
            yield from ((piece, 1) for piece in pieces)
            pieces = []
        if not pieces:
            attempts = 0
            if not _is_beginning(line):
                yield line, 1
                continue
        pieces.append(line)
        if line.rstrip().endswith(b"}") and attempts < MOST_ATTEMPTS:
            attempts += 1
            if (joined := _joined(pieces)) is not None:
                yield joined, len(pieces)
                pieces = []
    yield from ((piece, 1) for piece in pieces)


def _is_beginning(line: bytes) -> bool:
    """Return whether a line may be the beginning of a record that goes on."""
    return line.startswith(b'{"') and not line.rstrip().endswith(b"}")


def _begins_record(line: bytes) -> bool:
    """Return whether a line is a record, or the beginning of one: what a tool returned may be JSON
    as well, but has no time.
    """
    if not line.startswith(b'{"'):
        return False
    fields = wire.parse_line(line)
    if fields is None:
        return b'"type":"' in line[:200] or b'"timestamp":"' in line[:200]
    return "timestamp" in fields


def _joined(pieces: list[bytes]) -> bytes | None:
    """Return the record that these lines are, None if they are none."""
    text = b"\\n".join(piece.replace(b"\r", b"\\r") for piece in pieces)
    return text if wire.parse_line(text) is not None else None


def offsets(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield each line, with or without line ending, with its byte offset."""
    offset = 0
    for line in lines:
        yield offset, line
        offset += len(line) + (not line.endswith(b"\n"))


def string(fields: dict[str, Any], name: str) -> str | None:
    """Return a field that is a string, else None."""
    value = fields.get(name)
    return value if isinstance(value, str) else None


def tokens(fields: Any, name: str) -> int:
    """Return a number of tokens from a record; 0 if it has none."""
    value = fields.get(name) if isinstance(fields, dict) else None
    return max(value, 0) if isinstance(value, int) else 0


def message_of(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the object in a line's field `message`, empty if there is none."""
    message = fields.get("message")
    return message if isinstance(message, dict) else {}


def text_of(content: Any) -> str:
    """Return the text of a message's content: a string, or a list of strings and parts with a
    `text`.
    """
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def with_images(message: Message, images: Iterable[Image]) -> Message:
    collected = tuple(images)
    return replace(message, text=message.text or IMAGE, images=collected) if collected else message


def image_at(url: str, media: str | None = None) -> Image:
    """Return the image at a URL or path; a `data:` URL includes its bytes."""
    head, _, data = url.partition(",")
    if head.startswith("data:") and head.endswith(";base64"):
        return Image(media or head[5:].partition(";")[0], data)
    ending = url.partition("?")[0].rpartition(".")[2].lower()
    return Image(media or IMAGES.get(ending, "image"), place=url)


def settings(path: Path) -> dict[str, Any]:
    """Return an agent's settings from a JSON file; {} if it cannot be read."""
    try:
        value = wire.loads(regular.content(path))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a list; nothing if `value` is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def with_unknown(before: Digest, kind: object, known: Container[str]) -> Digest:
    """Add to a digest the kind of a record, unless the adapter knows it. Agents add kinds with
    nearly every version, so this is no error: the bytes are stored, and people are told.
    """
    name = kind if isinstance(kind, str) else "without a type"
    if name in known or name[:KIND] in before.unknown or len(before.unknown) == MOST_UNKNOWN:
        return before
    return replace(before, unknown=(*before.unknown, name[:KIND]))


def with_other_form(before: Digest, kind: object) -> Digest:
    """Add to a digest a record of a known kind that has no text where those known have theirs."""
    return with_unknown(before, f"{kind} in another form", ())


def shown(text: str) -> str:
    """Truncate a message for a digest."""
    return text.strip()[:SHOWN]


def first_line(path: Path) -> dict[str, Any]:
    """Parse the first line of a file. Return {} if it is not an object or too long."""
    return wire.parse_line(first_line_bytes(path)) or {}


def first_line_bytes(path: Path) -> bytes:
    """Return the first line of a file, as much of it as is read; empty if it cannot be read."""
    try:
        with regular.opened(path) as file:
            return file.readline(LONGEST_LINE)
    except (OSError, ValueError):
        return b""


def renamed(content: Reader, old: str, new: str) -> Reader:
    """Return a reader that replaces the session id in the first line, where some agents store it.
    No other byte changes, and none at all if `old` is "".
    """

    def chunks() -> Iterator[bytes]:
        rest = lines(content())
        yield next(rest, b"").replace(old.encode(), new.encode())
        yield from rest

    return chunks if old and old != new else content


# ---------------------------------------------------------------- places


def roots(cwd: Path) -> set[str]:
    """Return the real paths of a directory and of its repository's root.

    By the agents' rule, not git's (gitcp.discovery): the root is
    wherever something is called `.git`.
    """
    directory = Path(os.path.realpath(cwd))
    root = next(
        (d for d in (directory, *directory.parents) if os.path.lexists(d / ".git")), directory
    )
    return {str(directory), str(root)}


def project_root(cwd: Path) -> str:
    """Return the real path of a directory's repository, by the agents' rule: of a linked working
    tree, that of the main one; the directory itself if it is in none.
    """
    directory = Path(os.path.realpath(cwd))
    above = (directory, *directory.parents)
    root = next((each for each in above if os.path.lexists(each / ".git")), directory)
    # a directory, in the main working tree; or of NULs after a crash, which ended a restore
    with suppress(OSError, ValueError):
        link = regular.content(root / ".git", LONGEST_LINK).decode("utf-8", "surrogateescape")
        git_dir = os.path.join(root, link.removeprefix("gitdir:").strip())
        common = regular.content(os.path.join(git_dir, "commondir"), LONGEST_LINK).strip()
        path = os.path.realpath(os.path.join(git_dir, os.fsdecode(common)))
        if os.path.basename(path) == ".git":
            return os.path.dirname(path)
    return str(root)


def found(agent: str, session_id: str, path: Path) -> Found | None:
    """Return the session with this main file; None if it is not a regular file."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return Found(agent, session_id, path, status.st_mtime) if stat.S_ISREG(status.st_mode) else None


def listed(
    found: Found,
    paths: Iterable[Path],
    capture: Callable[[], Capture],
    *,
    deleted: float | None = None,
    unread: str = "",
) -> Listed:
    """Return a session that consists of these files."""
    statuses = []
    for path in paths:
        with suppress(OSError):
            statuses.append(os.lstat(path))
    size = sum(status.st_size for status in statuses)
    newest = max((status.st_mtime for status in statuses), default=0.0)
    return Listed(found, size, f"{len(statuses)}-{size}-{newest}", capture, deleted, unread)


@contextmanager
def mapped(path: Path) -> Iterator[mmap | bytes]:
    """Yield a file's content without reading all of it into memory; b"" if it cannot be read."""
    try:
        with regular.opened(path) as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            yield content
    except (OSError, ValueError):  # unreadable, or empty
        yield b""


def quoted_values(pattern: re.Pattern[bytes], content: mmap | bytes) -> tuple[str, ...]:
    """Return the different JSON strings that are the first group of a pattern, in order of their
    first match.
    """
    values = []
    for quoted in dict.fromkeys(match[1] for match in pattern.finditer(content)):
        with suppress(ValueError):
            values.append(wire.loads(quoted))
    return tuple(value for value in values if isinstance(value, str) and "\0" not in value)


def glob(directory: Path, pattern: str) -> list[Path]:
    """Return the sorted paths below a directory that match; none if it cannot be looked at."""
    return sorted(directory.glob(pattern)) if os.path.isdir(directory) else []


def modified(path: Path) -> float:
    """Return a file's modification time in seconds since 1970; 0 if it does not exist."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def newer(
    sessions: Iterable[Found], session_id: str, since: float, command: tuple[str, ...]
) -> Latest | None:
    """Return the newest of these sessions if it is not `session_id` and was
    written after `since` (seconds).
    """
    later = [
        session
        for session in sessions
        if session.session_id != session_id and session.modified > since
    ]
    newest = max(later, key=lambda session: session.modified, default=None)
    return Latest(newest.session_id, command) if newest else None


def check_session_id(session_id: str) -> str:
    """Return a session id that is safe in a path. Raises StoreDamaged for any other."""
    if SESSION_ID.fullmatch(session_id) is None:
        raise StoreDamaged(f"invalid session id {session_id[:80]!r}; {NOTHING}", hint=CHECK)
    return session_id


def place_parts(relative: str) -> tuple[str, ...] | None:
    """Return the components of a relative path that stays below its start, else None."""
    parts = tuple(relative.split("/"))
    valid = all(PLACE_PART.fullmatch(part) and part not in {".", ".."} for part in parts)
    return parts if valid and len(parts) <= 8 else None


def is_memory(relative: str) -> bool:
    """Return whether a relative path can be that of a file of an agent's memory."""
    parts = place_parts(relative)
    if parts is None or any(part.startswith(".") for part in parts):
        return False
    return parts[-1].endswith(".md")


def check_distinct(paths: Sequence[Path]) -> None:
    """Raise StoreDamaged if two streams map to the same file."""
    if len(set(paths)) < len(paths):
        raise StoreDamaged(f"two streams map to the same file; {NOTHING}", hint=CHECK)


def bad_target(relative: str) -> StoreDamaged:
    """Return the error for a stored path outside the agent's directory."""
    return StoreDamaged(
        f"unsafe path {relative[:200]!r} in the stored conversation; {NOTHING}", hint=CHECK
    )


def occupied(target: str) -> Refused:
    """Return the error for a file or session that exists with other content."""
    return Refused(f"{target} already exists with other content; {NOTHING}")


def move_away(directory: Path) -> str:
    """Return the command that renames a directory which is in the way."""
    import shlex  # rarely needed

    return shlex.join(("mv", str(directory), f"{directory}.old"))


def renamed_note(session_id: str | None, new_id: str) -> str:
    """Return the note for a conversation that is restored under a new id; "" if it had none."""
    if session_id is None:
        return ""
    return (
        f"your newer messages stay in session {session_id}; the restored conversation is {new_id}"
    )


def plan_writes(files: Sequence[tuple[Path, Reader]]) -> tuple[Write, ...] | None:
    """Plan how to write each file. Return None if one exists with different content.

    Raises StoreDamaged if two streams map to the same file.
    """
    check_distinct([path for path, _ in files])
    writes = []
    for path, content in files:
        match = _meet(path, content)
        if match is None:
            return None
        writes.append(Write(path, content, *match))
    return tuple(writes)


def _meet(path: Path, content: Reader) -> tuple[How, int] | None:
    """Compare a file with `content`: return the write mode and the bytes
    already there, None if it differs.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        # A file that exists and is unreadable counts as different. If even the directory is
        # inaccessible, creating the file reports it.
        return None if os.path.lexists(path) else ("create", 0)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    with open(descriptor, "rb") as file:
        return _compare(file, content())


def _compare(file: BinaryIO, content: Iterator[bytes]) -> tuple[How, int] | None:
    matched = 0
    for chunk in content:
        existing = file.read(len(chunk))
        matched += len(existing)
        if not chunk.startswith(existing):
            return None
        if len(existing) < len(chunk):
            return "append", matched
    return None if file.read(1) else ("same", matched)
