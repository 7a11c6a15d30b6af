"""Claude Code: transcripts below `~/.claude/projects`, one directory for each working directory.

    <projects>/<directory>/<session>.jsonl                main stream, append-only
    <projects>/<directory>/<session>/subagents/agent-<id>.jsonl, agent-<id>.meta.json
    <projects>/<directory>/<session>/tool-results/<name>  large outputs, referenced by name
    <projects>/<directory>/agent-<id>.jsonl               a sub-agent, until version 2.0
    <projects>/<directory>/memory/MEMORY.md, <name>.md    auto memory; the root's directory has it

Directory names are derived from the path by a lossy mapping, so two paths can share one; the `cwd`
in the lines disambiguates. Resuming elsewhere, or under another id, only changes file names.

Lines are never rewritten.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from gitcp import wire
from gitcp.adapters import base, directories
from gitcp.adapters.base import (
    Found,
    Image,
    Latest,
    Listed,
    Message,
    Origin,
    Placement,
    Stored,
    Write,
)
from gitcp.model import MAIN, Agent, Capture, Digest, Host, LastMessage, Source
from gitcp.value import replace

NAME = "claude-code"

TURNS = ("user", "assistant")
KINDS = frozenset(
    (
        *TURNS,
        *("agent-name", "ai-title", "api-request", "api-request-blob", "api-request-resumed"),
        *("api-request-shape", "artifact-autoreact-ledger", "atis-latch", "attachment"),
        *("bridge-session", "content-replacement", "cost-state", "custom-title"),
        *("file-history-delta", "file-history-snapshot", "frame-link", "history-suppression"),
        *("host-row", "hybrid-organization", "last-prompt", "mode", "permission-mode", "pr-link"),
        *("progress", "queue-operation", "relocated", "resume-head-vouch", "summary", "system"),
        "tools-used",
    )
)
"""The types of lines that Claude Code writes, up to version 2.1.332."""
SESSION = "{session}"
"""Placeholder for the session id in a stored path."""

BESIDE = ("subagents", "tool-results")
AGENT = "agent-"
"""How the names of sub-agents' transcripts begin."""

LONGEST = 200
DAYS = 30
"""Days until Claude Code deletes a transcript, unless cleanupPeriodDays is set."""

BRANCH = re.compile(rb'"gitBranch":\s*("(?:[^"\\]|\\.)*")')
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
"""Prefixes of texts in the role of a prompt that no person typed."""


# ---------------------------------------------------------------- finding


def find(cwd: Path, host: Host) -> tuple[Found, ...]:
    """Return the sessions started in `cwd` or its repository's root, and the running one, newest
    first.
    """
    by_id: dict[str, list[Found]] = {}
    for session in _files_found(cwd, host):
        by_id.setdefault(session.session_id, []).append(session)
    sessions = map(_longest, by_id.values())
    return tuple(sorted(sessions, key=lambda session: (-session.modified, session.session_id)))


def _files_found(cwd: Path, host: Host) -> list[Found]:
    """Return each transcript of the sessions of `cwd`; a session can have several, in directories
    of different names.
    """
    paths = base.roots(cwd)
    files = {
        path
        for directory in _directories(paths, host)
        for path in _transcripts(directory)
        if directories.belongs(path, path.parent.name, paths, directory_name)
    }
    current = running(host)
    if current is not None:
        files |= set(base.glob(_projects(host), f"*/{current}.jsonl"))
    return [session for session in map(_found, sorted(files)) if session is not None]


def located(session_id: str, host: Host) -> Found | None:
    """Return the session with this id, in any directory."""
    paths = base.glob(_projects(host), f"*/{session_id}.jsonl")
    sessions = [session for session in map(_found, sorted(paths)) if session is not None]
    return _longest(sessions) if sessions else None


def _longest(files: Sequence[Found]) -> Found:
    """Return that one of a session's transcripts which has the newest messages; of equal ones the
    longest, then the one written last. A file that stayed behind when the repository was renamed
    has the beginning of the session, and may have been touched since.
    """
    return files[0] if len(files) == 1 else max(files, key=_reach)


def _reach(found: Found) -> tuple[str, int, float]:
    """Return when the last message of a transcript was written, its size, and when the file was."""
    times: list[str] = []
    size = 0
    with suppress(OSError):
        size = found.path.stat().st_size
        for lines in base.tails(found.path):
            turns = filter(_is_turn, (wire.parse_line(line) or {} for line in lines))
            times = [base.string(each, "timestamp") or "" for each in turns]
            if times:
                break
    return max(times, default=""), size, found.modified


def _is_turn(fields: dict[str, Any]) -> bool:
    return fields.get("type") in TURNS


def list_all(host: Host) -> Iterator[Listed]:
    """Yield the sessions of all directories."""
    kept_for = lifetime(host)
    for directory in sorted(_directories_in(_projects(host))):
        beside = _directories_in(directory)
        # Looked for once for each transcript, they took most of the time of an adoption of 2,000.
        agents = list(_old_agents(directory))
        for path in _transcripts(directory):
            session = _found(path)
            if session is not None:
                folder = path.with_suffix("")
                kinds = BESIDE if folder in beside else ()
                extra = (file for kind in kinds for file in _files(folder / kind))
                paths = (path, *extra, *_of(path, agents))
                deleted = session.modified + kept_for if kept_for else None
                yield base.listed(session, paths, partial(capture, session), deleted=deleted)


def unlisted(host: Host) -> Iterator[tuple[Path, str]]:
    """Yield the transcripts of sub-agents whose session is not beside them."""
    for directory in sorted(_directories_in(_projects(host))):
        sessions = {path.stem for path in _transcripts(directory)}
        for path, session in _old_agents(directory):
            if session not in sessions:
                yield path, "sub-agents whose session has no transcript beside them"


def lifetime(host: Host) -> float | None:
    """Return the seconds after which Claude Code deletes a transcript that is not written to; None
    for never. It deletes nothing if the setting is invalid or 0.
    """
    days = base.settings(_projects(host).parent / "settings.json").get("cleanupPeriodDays", DAYS)
    return days * 86400.0 if type(days) in (int, float) and days > 0 else None


def _directories_in(directory: Path) -> set[Path]:
    try:
        with os.scandir(directory) as entries:
            return {Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)}
    except OSError:
        return set()


def origin(found: Found) -> Origin:
    """Return where a session ran: each directory and branch that its lines name."""
    start = directories.cwd_of(found.path)
    with base.mapped(found.path) as content:
        places = (*([start] if start else ()), *base.quoted_values(directories.CWD, content))
        branches = base.quoted_values(BRANCH, content)
    return Origin(tuple(dict.fromkeys(places)), branches=branches)


def watched(cwd: Path, host: Host) -> tuple[Path, ...]:
    """Return the session directories of this directory, and the files of each session."""
    paths = base.roots(cwd)
    names = {directory_name(start) for start in paths} | {_chosen_name(host) or ""} - {""}
    session_paths = (
        path
        for session in _files_found(cwd, host)
        for path in (session.path, *_session_paths(session.path), *_agents_of(session.path))
    )
    return (_projects(host), *(_projects(host) / name for name in names), *session_paths)


def _session_paths(transcript: Path) -> list[Path]:
    directory = transcript.with_suffix("")
    return [directory, *(directory / kind for kind in BESIDE)]


def running(host: Host) -> str | None:
    """Return the session id from the environment of a command run by Claude Code."""
    session_id = host.env.get("CLAUDE_CODE_SESSION_ID", "")
    return session_id if base.SESSION_ID.fullmatch(session_id) else None


def recognise(fields: Mapping[str, Any]) -> str | None:
    """Return the session that a record of a transcript names; None if it is not one of these."""
    is_ours = "uuid" in fields and "content" in base.message_of(dict(fields))
    return fields.get("sessionId") if is_ours else None


def transcript(cwd: Path, session_id: str, host: Host) -> Path:
    """Return the path of a session's main file, existing or not. Raises
    StoreDamaged for an invalid id.
    """
    return _project_directory(cwd, host) / f"{base.check_session_id(session_id)}.jsonl"


def directory_name(path: str) -> str:
    """Return Claude Code's directory name for an absolute path: each
    non-alphanumeric becomes a dash.
    """
    name = directories.dashed(path)
    return name if len(name) <= LONGEST else f"{name[:LONGEST]}-{_base36(abs(_java_hash(path)))}"


def _java_hash(text: str) -> int:
    units = text.encode("utf-16-le", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (value * 31 + int.from_bytes(units[at : at + 2], "little")) & 0xFFFFFFFF
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
    """Return the directory name set in the environment, if it is a valid one."""
    name = host.env.get("CLAUDE_CODE_PROJECT_DIR_NAME", "")
    return name if name and base.place_parts(name) == (name,) else None


def memory(cwd: Path, host: Host) -> Path:
    """Return the directory of the auto memory, which all sessions of a repository share, also those
    in its linked working trees.
    """
    name = _chosen_name(host) or directory_name(base.project_root(cwd))
    return _projects(host) / name / "memory"


def _project_directory(cwd: Path, host: Host) -> Path:
    start = os.path.realpath(cwd)
    computed = _projects(host) / (_chosen_name(host) or directory_name(start))
    if len(computed.name) <= LONGEST or os.path.isdir(computed):
        return computed
    # The hash at the end of a long name differs between versions; prefer an existing directory.
    others = _directories({start}, host)
    return next(
        (d for d in others if any(directories.cwd_of(path) == start for path in _transcripts(d))),
        computed,
    )


def _directories(paths: Iterable[str], host: Host) -> list[Path]:
    """Return the existing directories that may have sessions started at these paths."""
    projects = _projects(host)
    names = {directory_name(path) for path in paths} | {_chosen_name(host) or ""} - {""}
    directories = {projects / name for name in names}
    for name in names:
        if len(name) > LONGEST:
            directories |= set(base.glob(projects, f"{name[:LONGEST]}-*"))
    return sorted(directory for directory in directories if os.path.isdir(directory))


def _transcripts(directory: Path) -> list[Path]:
    stems = directories.stems(directory)
    return [directory / f"{stem}.jsonl" for stem in stems if not stem.startswith(AGENT)]


def _old_agents(directory: Path) -> Iterator[tuple[Path, str | None]]:
    """Yield the transcripts of sub-agents that older versions stored beside that of their session,
    each with the session's id.
    """
    stems = directories.stems(directory)
    for path in (directory / f"{stem}.jsonl" for stem in stems if stem.startswith(AGENT)):
        if _found(path) is not None:
            yield path, base.string(base.first_line(path), "sessionId")


def _agents_of(transcript: Path) -> list[Path]:
    """Return the transcripts of a session's sub-agents that lie beside its own."""
    return _of(transcript, _old_agents(transcript.parent))


def _of(transcript: Path, agents: Iterable[tuple[Path, str | None]]) -> list[Path]:
    return [path for path, session in agents if session == transcript.stem]


def _found(path: Path) -> Found | None:
    return base.found(NAME, path.stem, path)


# ---------------------------------------------------------------- capturing


def capture(found: Found) -> Capture:
    """Capture the transcript, its sub-agents' and the tool results next to it. Regular files
    only.
    """
    session_id = found.session_id if base.SESSION_ID.fullmatch(found.session_id) else None
    main = Source(MAIN, path=found.path, live=True, place=f"{SESSION}.jsonl")
    extra = tuple(_extra_sources(found.path.with_suffix("")))
    names = {source.name for source in extra}
    agents = (source for source in _old_agent_sources(found.path) if source.name not in names)
    sources = (main, *extra, *agents)
    return Capture(
        Agent(NAME, session_id),
        NAME,
        sources,
        directories.of(found.path, found.path.parent.name, directory_name),
    )


def _extra_sources(directory: Path) -> Iterator[Source]:
    for kind in BESIDE:
        for path in _files(directory / kind):
            relative = str(path.relative_to(directory / kind))
            name = stream_name(kind, relative)
            target = f"{SESSION}/{kind}/{relative}"
            if base.place_parts(target) is None:
                target = f"{SESSION}/{kind}/{name.rpartition('/')[2]}"
            yield Source(name, path=path, live=relative.endswith(".jsonl"), place=target)


def _old_agent_sources(transcript: Path) -> Iterator[Source]:
    """Yield the sub-agents that lie beside the transcript; they are restored where they would be
    today.
    """
    for path in _agents_of(transcript):
        target = f"{SESSION}/subagents/{path.name}"
        yield Source(stream_name("subagents", path.name), path=path, live=True, place=target)


def _files(directory: Path) -> list[Path]:
    paths = [Path(folder, name) for folder, _, names in os.walk(directory) for name in names]
    return sorted(path for path in paths if _found(path) is not None)


def stream_name(kind: str, relative: str) -> str:
    """Return the stream for a file of a session. `below` is its path below the directory
    `kind`. Unusual names are hashed.
    """
    group, name = "tool-results", relative
    if kind == "subagents":
        agent, meta = SUBAGENT.fullmatch(relative), SUBAGENT_META.fullmatch(relative)
        group = "agents" if relative.endswith(".jsonl") else "meta"
        name = agent[1] if agent else meta[1] if meta else ""
    if base.STREAM_PART.fullmatch(name) is None:
        name = sha256(os.fsencode(relative)).hexdigest()[:32]
    return f"{group}/{name}"


# ---------------------------------------------------------------- understanding


def digest(before: Digest, lines: Iterable[bytes]) -> Digest:
    """Count the lines of user and assistant, with tool results, without those added for the model
    alone.
    """
    for line in lines:
        fields = wire.parse_line(line)
        if fields is not None:
            before = _digest_line(before, fields)
    return before


def _digest_line(before: Digest, fields: dict[str, Any]) -> Digest:
    kind, version = fields.get("type"), fields.get("version")
    before = base.with_unknown(before, kind, KINDS)
    if isinstance(version, str) and version != before.version:
        before = replace(before, version=version)
    if kind in TURNS and not isinstance(base.message_of(fields).get("content"), str | list):
        before = base.with_other_form(before, kind)
    if kind in TURNS and not fields.get("isMeta") and not fields.get("isSidechain"):
        return _digest_message(replace(before, messages=before.messages + 1), fields)
    title = _title(fields)
    # A title set by a person wins over a generated one.
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
        # Claude Code's own notices have the model "<synthetic>".
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
    """Return what a person typed, "" for tool results, summaries, slash commands and notices."""
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
    """Yield the parts of turns in file order, from all branches of the conversation."""
    tools: dict[str, str] = {}
    for line, _ in base.records(lines):
        fields = wire.parse_line(line) or {}
        if fields.get("type") in TURNS and not fields.get("isMeta"):
            content = base.message_of(fields).get("content")
            for part in (
                content if isinstance(content, list) else [{"type": "text", "text": content}]
            ):
                message = _message(fields, part, tools) if isinstance(part, dict) else None
                if message is not None and message.is_shown():
                    yield message


def _message(fields: dict[str, Any], part: dict[str, Any], tools: dict[str, str]) -> Message | None:
    message = Message(
        str(fields["type"]), "", base.string(fields, "uuid"), base.string(fields, "timestamp")
    )
    match part.get("type"):
        case "text":
            return replace(message, role=_role(fields, part), text=base.text_of(part))
        case "thinking":
            return replace(message, role="thinking", text=base.string(part, "thinking") or "")
        case "tool_use":
            name = tools[str(part.get("id"))] = base.string(part, "name") or "?"
            arguments = wire.dumps(part.get("input")).decode()
            return replace(message, text=arguments, tool=name, call=base.string(part, "id"))
        case "tool_result":
            name = tools.get(str(part.get("tool_use_id")), "?")
            call, failed = base.string(part, "tool_use_id"), part.get("is_error") is True
            result = replace(message, role="tool", tool=name, call=call, failed=failed)
            result = replace(result, text=base.text_of(part.get("content")))
            return base.with_images(result, _images(part.get("content")))
        case "image":
            return base.with_images(replace(message, text=base.IMAGE), _images([part]))
        case other:
            return replace(message, text=f"[{other}]") if isinstance(other, str) else None


def _images(parts: Any) -> Iterator[Image]:
    for part in base.objects(parts):
        source = part.get("source")
        if part.get("type") == "image" and isinstance(source, dict):
            media, data = base.string(source, "media_type"), base.string(source, "data")
            url = base.string(source, "url") or base.string(source, "file_id")
            if data is not None or url is not None:
                yield (
                    Image(media or "image", data)
                    if data is not None
                    else base.image_at(url or "", media)
                )


def _role(fields: dict[str, Any], part: dict[str, Any]) -> str:
    if fields["type"] == "assistant":
        return "assistant"
    if fields.get("isCompactSummary"):
        return "summary"
    return "system" if base.text_of(part).lstrip().startswith(NOT_TYPED) else "user"


def before(lines: Iterable[bytes], message_id: str) -> int | None:
    """Return the offset of the `user` line with this uuid."""
    needle = message_id.encode("utf-8", "replace")
    for offset, line in base.offsets(lines):
        if needle in line:
            fields = wire.parse_line(line) or {}
            if fields.get("type") == "user" and fields.get("uuid") == message_id:
                return offset
    return None


# ---------------------------------------------------------------- placing


def place(stored: Stored, cwd: Path, host: Host, *, new_id: str) -> Placement:
    """Place the conversation in the directory for `cwd`, under its own id, or under
    `new_id` if that has newer messages.

    The bytes are the same under a new id: the agent uses the file name, and the
    next save reuses all segments.
    """
    directory = _project_directory(cwd, host)
    session_id = stored.agent.session_id
    if session_id is not None:
        files = _plan(stored, directory, session_id)
        if files is not None:
            return Placement(
                session_id, files, _command(session_id), latest=_latest(session_id, files[0])
            )
    files = _plan(stored, directory, new_id)
    if files is None:
        raise base.occupied(f"Claude Code session {new_id}")
    note = base.renamed_note(session_id, new_id)
    return Placement(new_id, files, _command(new_id), note, latest=_latest(new_id, files[0]))


def _latest(session_id: str, main: Write) -> Latest | None:
    """Return the session that `--continue` resumes, that of the newest transcript; None if it is
    this one.
    """
    if main.how != "same":
        return None
    sessions = filter(None, map(_found, _transcripts(main.path.parent)))
    return base.newer(sessions, session_id, base.modified(main.path), ("claude", "--continue"))


def _command(session_id: str) -> tuple[str, ...]:
    return ("claude", "--resume", session_id)


def _plan(stored: Stored, directory: Path, session_id: str) -> tuple[Write, ...] | None:
    base.check_session_id(session_id)
    files = []
    for stream, read in sorted(stored.streams, key=lambda item: item[0].name != MAIN):
        path = directory.joinpath(*_target(stream.name, stream.place, session_id))
        files.append((path, read))
    return base.plan_writes(files)


def _target(name: str, relative: str, session_id: str) -> tuple[str, ...]:
    """Return where a stream goes, below the directory. The stored path is not trusted."""
    if name == MAIN:
        return (f"{session_id}.jsonl",)
    parts = base.place_parts(relative)
    if parts is None or len(parts) < 3 or parts[0] != SESSION:
        raise base.bad_target(relative)
    if parts[1] not in BESIDE and not relative.endswith(
        ".jsonl"
    ):  # transcripts alone lie elsewhere
        raise base.bad_target(relative)
    return (session_id, *parts[1:])
