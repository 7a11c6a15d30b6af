"""Claude Code: transcripts below `~/.claude/projects`, one directory for each working directory.

    <projects>/<directory>/<session>.jsonl                     the main stream, only ever appended
    to <projects>/<directory>/<session>/subagents/agent-<id>.jsonl, agent-<id>.meta.json
    <projects>/<directory>/<session>/tool-results/<name>       large outputs that the transcript
    only names

The name of a directory follows from the path and cannot be turned back, so that two paths may share
one; what the lines say of their `cwd` decides then. To resume elsewhere, or under another id, only
names need to change.

Lines are looked at and never rewritten.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from gitcp import wire
from gitcp.adapters import base
from gitcp.adapters.base import Found, Image, Latest, Message, Placement, Stored, Write
from gitcp.errors import Refused, StoreDamaged
from gitcp.model import Agent, Capture, Digest, Host, LastMessage, Source
from gitcp.value import replace

NAME = "claude-code"

MAIN = "main"
TURNS = ("user", "assistant")
SESSION = "{session}"
"""Stands for the session id in a stored place."""

BESIDE = ("subagents", "tool-results")
LONGEST = 200
HEAD = 64 << 10
TAIL = 64 << 10

CWD = re.compile(rb'"cwd":\s*("(?:[^"\\]|\\.)*")')
SUBAGENT = re.compile(r"agent-([^/]+)\.jsonl")
SUBAGENT_META = re.compile(r"agent-([^/]+)\.meta\.json")

NOT_TYPED = (
    "<bash-",
    "<command-",
    "<ide_",
    "<local-command-",
    "<system-reminder>",
    "<task-notification>",
    "<user-memory-input>",
    "[Request interrupted by user",
)
"""How texts begin that stand in the place of a prompt and that nobody typed."""


# ---------------------------------------------------------------- finding


def find(cwd: Path, host: Host) -> tuple[Found, ...]:
    """The sessions started in `cwd` or at the root of its repository, and the one that is running
    us; newest first.
    """
    places = base.roots(cwd)
    found = {}
    for directory in _directories(places, host):
        for path in _transcripts(directory):
            if _belongs(path, places):
                found[path] = _found(path)
    own = running(host)
    if own is not None:
        found |= {path: _found(path) for path in _projects(host).glob(f"*/{own}.jsonl")}
    known = [session for session in found.values() if session is not None]
    return tuple(sorted(known, key=lambda session: (-session.modified, session.session_id)))


def located(session_id: str, host: Host) -> Found | None:
    """The session of this id, wherever it was started."""
    paths = _projects(host).glob(f"*/{session_id}.jsonl")
    known = [session for session in map(_found, paths) if session is not None]
    return max(known, key=lambda session: session.modified, default=None)


def watched(cwd: Path, host: Host) -> tuple[Path, ...]:
    """The directories of this directory's sessions, and for each session its transcript and what
    lies beside it.
    """
    places = base.roots(cwd)
    names = {directory_name(place) for place in places} | {_chosen_name(host) or ""} - {""}
    beside = (path for found in find(cwd, host) for path in (found.path, *_places(found.path)))
    return (_projects(host), *(_projects(host) / name for name in names), *beside)


def _places(transcript: Path) -> list[Path]:
    own = transcript.with_suffix("")
    return [own, *(own / kind for kind in BESIDE)]


def running(host: Host) -> str | None:
    """The session named by the environment of a command that Claude Code runs."""
    session_id = host.env.get("CLAUDE_CODE_SESSION_ID", "")
    return session_id if base.SESSION_ID.fullmatch(session_id) else None


def transcript(cwd: Path, session_id: str, host: Host) -> Path:
    """The main file of a session started in `cwd`, whether or not it is there. Raises StoreDamaged
    for an odd id.
    """
    return _project_directory(cwd, host) / f"{base.check_session_id(session_id)}.jsonl"


def directory_name(path: str) -> str:
    """The name Claude Code gives the directory for an absolute path: all but letters and digits
    become dashes.
    """
    if not path.isascii():
        from unicodedata import normalize  # rarely needed

        path = normalize("NFC", path)
    # It counts in UTF-16 units, as JavaScript does.
    name = "".join(c if c.isascii() and c.isalnum() else "-" * (1 + (c > "\uffff")) for c in path)
    return name if len(name) <= LONGEST else f"{name[:LONGEST]}-{_base36(abs(_java_hash(path)))}"


def _java_hash(text: str) -> int:
    units = text.encode("utf-16-le", "surrogatepass")
    value = 0
    for place in range(0, len(units), 2):
        value = (value * 31 + int.from_bytes(units[place : place + 2], "little")) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits or "0"


def _projects(host: Host) -> Path:
    return Path(host.env.get("CLAUDE_CONFIG_DIR") or host.home / ".claude") / "projects"


def _chosen_name(host: Host) -> str | None:
    """The directory name that the environment asks for, if it is one."""
    name = host.env.get("CLAUDE_CODE_PROJECT_DIR_NAME", "")
    return name if name and base.place_parts(name) == (name,) else None


def _project_directory(cwd: Path, host: Host) -> Path:
    """Where a session started in `cwd` lies."""
    place = os.path.realpath(cwd)
    computed = _projects(host) / (_chosen_name(host) or directory_name(place))
    if len(computed.name) <= LONGEST or os.path.isdir(computed):
        return computed
    # Versions differ in the hash at the end of a long name; what a version has made for this very
    # path is right.
    others = _directories({place}, host)
    return next(
        (d for d in others if any(_cwd(path) == place for path in _transcripts(d))), computed
    )


def _directories(places: Iterable[str], host: Host) -> list[Path]:
    """The existing directories that may hold sessions started at these paths."""
    projects = _projects(host)
    names = {directory_name(place) for place in places} | {_chosen_name(host) or ""} - {""}
    found = {projects / name for name in names}
    for name in names:
        if len(name) > LONGEST:
            found |= set(projects.glob(f"{name[:LONGEST]}-*"))
    return sorted(directory for directory in found if os.path.isdir(directory))


def _transcripts(directory: Path) -> list[Path]:
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return []
    stems = [name.removesuffix(".jsonl") for name in names if name.endswith(".jsonl")]
    # Older versions keep their sub-agents here too.
    return [
        directory / f"{s}.jsonl"
        for s in stems
        if base.SESSION_ID.fullmatch(s) and not s.startswith("agent-")
    ]


def _found(path: Path) -> Found | None:
    return base.found(NAME, path.stem, path)


def _belongs(path: Path, places: set[str]) -> bool:
    """Whether a transcript was not started at another path that only shares the name of its
    directory.
    """
    cwd, name = _cwd(path), path.parent.name
    if cwd is None or cwd in places:
        return True
    # A transcript that was brought here from another path or machine still names the old one.
    return directory_name(cwd) != name and any(directory_name(place) == name for place in places)


def _cwd(path: Path) -> str | None:
    """The working directory that the first lines of a transcript name."""
    left = HEAD
    try:
        with open(path, "rb") as file:
            while left > 0 and (line := file.readline(left)):
                left -= len(line)
                cwd = base.string(wire.parse_line(line) or {}, "cwd")
                if cwd is not None:
                    return os.path.realpath(cwd)
    except (OSError, ValueError):
        pass  # unreadable, or a path that is none
    return None


# ---------------------------------------------------------------- capturing


def capture(found: Found) -> Capture:
    """The transcript, its sub-agents' and the tool results kept beside it. Regular files only, no
    links.
    """
    session_id = found.session_id if base.SESSION_ID.fullmatch(found.session_id) else None
    main = Source(MAIN, path=found.path, live=True, place=f"{SESSION}.jsonl")
    sources = (main, *_beside(found.path.with_suffix("")))
    return Capture(Agent(NAME, session_id), NAME, sources, _directory(found.path))


def _directory(path: Path) -> Path | None:
    """The working directory whose sessions lie where this transcript does, as one of its lines
    names it.

    A session that changes its directory stays where it began; one that was restored elsewhere names
    its old directory until it goes on.
    """
    name = path.parent.name
    first = _cwd(path)
    if first is not None and directory_name(first) == name:
        return Path(first)
    named = {os.path.realpath(cwd) for cwd in _last_cwds(path)}
    return next((Path(cwd) for cwd in sorted(named) if directory_name(cwd) == name), None)


def _last_cwds(path: Path) -> Iterator[str]:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            for quoted in set(CWD.findall(file.read(TAIL))):
                cwd = wire.loads(quoted)
                if "\0" not in cwd:
                    yield cwd
    except (OSError, ValueError):
        return


def _beside(directory: Path) -> Iterator[Source]:
    for kind in BESIDE:
        for path in _files(directory / kind):
            below = str(path.relative_to(directory / kind))
            name = stream_name(kind, below)
            place = f"{SESSION}/{kind}/{below}"
            if base.place_parts(place) is None:
                place = f"{SESSION}/{kind}/{name.rpartition('/')[2]}"
            yield Source(name, path=path, live=below.endswith(".jsonl"), place=place)


def _files(directory: Path) -> list[Path]:
    found = [Path(here, name) for here, _, names in os.walk(directory) for name in names]
    return sorted(path for path in found if _found(path) is not None)


def stream_name(kind: str, below: str) -> str:
    """The stream that a file of a session is kept in; `below` is its path in the directory `kind`.
    Odd ones by hash.
    """
    group, plain = "tool-results", below
    if kind == "subagents":
        agent, meta = SUBAGENT.fullmatch(below), SUBAGENT_META.fullmatch(below)
        group = "agents" if below.endswith(".jsonl") else "meta"
        plain = agent[1] if agent else meta[1] if meta else ""
    if base.STREAM_PART.fullmatch(plain) is None:
        plain = sha256(os.fsencode(below)).hexdigest()[:32]
    return f"{group}/{plain}"


# ---------------------------------------------------------------- understanding


def digest(before: Digest, lines: Iterable[bytes]) -> Digest:
    """Counts every line of a user or the assistant, tool results too, but none that was put in for
    the model alone.
    """
    for line in lines:
        fields = wire.parse_line(line)
        if fields is not None:
            before = _digest_line(before, fields)
    return before


def _digest_line(before: Digest, fields: dict[str, Any]) -> Digest:
    kind, version = fields.get("type"), fields.get("version")
    if isinstance(version, str) and version != before.version:
        before = replace(before, version=version)
    if kind in TURNS and not fields.get("isMeta") and not fields.get("isSidechain"):
        return _digest_message(replace(before, messages=before.messages + 1), fields)
    title = _title(fields)
    # What a person called it stands; what was made up for it only fills the gap.
    return (
        replace(before, title=title)
        if title and (kind == "custom-title" or before.title is None)
        else before
    )


def _digest_message(before: Digest, fields: dict[str, Any]) -> Digest:
    message = base.message_of(fields)
    if fields["type"] == "assistant":
        role, text, model = (
            "assistant",
            base.text_of(message.get("content")),
            base.string(message, "model"),
        )
        # Claude Code's own notices come in the model's name.
        before = replace(before, model=model) if model and model != "<synthetic>" else before
    else:
        role, text = "user", prompt(fields)
        before = replace(before, last_prompt=base.shown(text)) if text else before
    last = LastMessage(role, base.shown(text), base.string(fields, "uuid"))
    return replace(before, last_message=last) if last.text else before


def _title(fields: dict[str, Any]) -> str | None:
    names = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
    name = names.get(fields["type"]) if isinstance(fields.get("type"), str) else None
    return (base.string(fields, name) or "").strip() or None if name else None


def prompt(fields: dict[str, Any]) -> str:
    """What a person typed, "" for a line that is none: a tool's result, a summary, a slash command,
    a notice.
    """
    if (
        fields.get("isMeta")
        or fields.get("isCompactSummary")
        or fields.get("isVisibleInTranscriptOnly")
    ):
        return ""
    content = base.message_of(fields).get("content")
    parts = content if isinstance(content, list) else [content]
    if any(isinstance(part, dict) and part.get("type") == "tool_result" for part in parts):
        return ""
    texts = [base.text_of(part) for part in parts]
    return "\n".join(
        text for text in texts if text.strip() and not text.lstrip().startswith(NOT_TYPED)
    )


def messages(lines: Iterable[bytes]) -> Iterator[Message]:
    """The parts of turns in the order of the file, whichever branch of the conversation they are
    on.
    """
    tools: dict[str, str] = {}
    for line in lines:
        fields = wire.parse_line(line) or {}
        if fields.get("type") in TURNS and not fields.get("isMeta"):
            content = base.message_of(fields).get("content")
            for part in (
                content if isinstance(content, list) else [{"type": "text", "text": content}]
            ):
                message = _shown(fields, part, tools) if isinstance(part, dict) else None
                if message is not None and message.is_shown():
                    yield message


def _shown(fields: dict[str, Any], part: dict[str, Any], tools: dict[str, str]) -> Message | None:
    shown = Message(
        str(fields["type"]), "", base.string(fields, "uuid"), base.string(fields, "timestamp")
    )
    match part.get("type"):
        case "text":
            return replace(shown, role=_role(fields, part), text=base.text_of(part))
        case "thinking":
            return replace(shown, role="thinking", text=base.string(part, "thinking") or "")
        case "tool_use":
            name = tools[str(part.get("id"))] = base.string(part, "name") or "?"
            given = wire.dumps(part.get("input")).decode()
            return replace(shown, text=given, tool=name, call=base.string(part, "id"))
        case "tool_result":
            name = tools.get(str(part.get("tool_use_id")), "?")
            call, failed = base.string(part, "tool_use_id"), part.get("is_error") is True
            result = replace(shown, role="tool", tool=name, call=call, failed=failed)
            result = replace(result, text=base.text_of(part.get("content")))
            return base.with_images(result, _images(part.get("content")))
        case "image":
            return base.with_images(replace(shown, text=base.IMAGE), _images([part]))
        case other:
            return replace(shown, text=f"[{other}]") if isinstance(other, str) else None


def _images(parts: Any) -> Iterator[Image]:
    for part in base.objects(parts):
        source = part.get("source")
        if part.get("type") == "image" and isinstance(source, dict):
            media, data = base.string(source, "media_type"), base.string(source, "data")
            place = base.string(source, "url") or base.string(source, "file_id")
            if data is not None or place is not None:
                yield (
                    Image(media or "image", data)
                    if data is not None
                    else base.image_at(place or "", media)
                )


def _role(fields: dict[str, Any], part: dict[str, Any]) -> str:
    if fields["type"] == "assistant":
        return "assistant"
    if fields.get("isCompactSummary"):
        return "summary"
    return "system" if base.text_of(part).lstrip().startswith(NOT_TYPED) else "user"


def before(lines: Iterable[bytes], message_id: str) -> int | None:
    """The offset of the `user` line with this uuid."""
    needle = message_id.encode("utf-8", "replace")
    for offset, line in base.offsets(lines):
        if needle in line:
            fields = wire.parse_line(line) or {}
            if fields.get("type") == "user" and fields.get("uuid") == message_id:
                return offset
    return None


# ---------------------------------------------------------------- placing


def place(stored: Stored, cwd: Path, host: Host, *, new_id: str) -> Placement:
    """Into the directory for `cwd`, under the session's own id, or under `new_id` where that went
    on meanwhile.

    The bytes stay as they are under a new id too: the agent goes by the file's name, and the next
    save finds every segment stored.
    """
    directory = _project_directory(cwd, host)
    own = stored.agent.session_id
    if own is not None:
        files = _plan(stored, directory, own)
        if files is not None:
            return Placement(own, files, _command(own), latest=_latest(own, files[0]))
    files = _plan(stored, directory, new_id)
    if files is None:
        raise Refused(
            f"session {new_id} of Claude Code exists and says something else: it was left as it is"
        )
    note = (
        f"session {own} has gone on since: it was left as it is, and this one goes on as {new_id}"
        if own
        else ""
    )
    return Placement(new_id, files, _command(new_id), note, latest=_latest(new_id, files[0]))


def _latest(session_id: str, main: Write) -> Latest | None:
    """Return the session that `--continue` resumes, that of the newest transcript; None if it is
    this one.
    """
    if main.how != "same":
        return None
    there = filter(None, map(_found, _transcripts(main.path.parent)))
    return base.newer(there, session_id, base.modified(main.path), ("claude", "--continue"))


def _command(session_id: str) -> tuple[str, ...]:
    return ("claude", "--resume", session_id)


def _plan(stored: Stored, directory: Path, session_id: str) -> tuple[Write, ...] | None:
    base.check_session_id(session_id)
    files = []
    for stream, read in sorted(stored.streams, key=lambda item: item[0].name != MAIN):
        path = directory.joinpath(*_target(stream.name, stream.place, session_id))
        files.append((path, read))
    return base.plan_writes(files)


def _target(name: str, place: str, session_id: str) -> tuple[str, ...]:
    """Where a stream belongs, below the directory. What a checkpoint says of it is not trusted."""
    if name == MAIN:
        return (f"{session_id}.jsonl",)
    parts = base.place_parts(place)
    if parts is None or len(parts) < 3 or parts[0] != SESSION or parts[1] not in BESIDE:
        raise StoreDamaged(
            f"a stream would be written to {place[:200]!r}: {base.NOTHING}", hint=base.CHECK
        )
    return (session_id, *parts[1:])
