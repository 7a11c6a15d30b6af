"""The built-in adapters, and those of installed packages.

An adapter is imported when it is needed; a save imports only those whose agent was ever used here.
Importing all takes longer than the save.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gitcp import clock, regular, wire
from gitcp.adapters import base, described, installed, long_lines
from gitcp.adapters.base import (
    Adapter,
    Found,
    Listed,
    Message,
    Origin,
    Running,
    State,
    Stored,
    Unlisted,
    Usage,
)
from gitcp.agents import SAVED, KnownAgent
from gitcp.errors import BadValue, ConversationUnreadable
from gitcp.model import MAIN, Agent, Host, Source
from gitcp.value import Value

if TYPE_CHECKING:
    from gitcp.adapters.conversion import Converter, DialogueReader


MODULES = {known.name: known.transcripts.package for known in SAVED.values()} | {
    "generic": "gitcp.adapters.generic"
}
"""All built-in adapters by name, each as "module" or "module:attribute"."""

READABLE = tuple(name for name, known in SAVED.items() if known.transcripts.converts)
"""The agents whose conversations can be read as dialogues."""

CONVERTIBLE = tuple(name for name in READABLE if SAVED[name].transcripts.resumes)
"""Those of them whose conversations can be written as well."""

MOST_REMEMBERED = 1000
"""Files of one memory."""

PLAIN_FORMATS = ("json", "jsonl", "text")
"""Formats without an agent. Any other format is the name of its adapter."""


class Known(Value):
    """An agent whose conversations gitcp saves: where its adapter is `from`, and what works of
    "save", "place", "resume", "hooks", "tokens" and "convert". `problem`: why it cannot be loaded.
    """

    name: str
    title: str
    source: str
    abilities: tuple[str, ...] = ()
    problem: str = ""


SAVES = ("save", "place", "resume")
SAVES_ALONE = ("save",)


def known() -> list[Known]:
    """Return the built-in adapters, those of installed packages, and those of files."""
    rows = []
    for agent in SAVED.values():
        more = {"hooks": bool(agent.hooks.events), "tokens": bool(agent.transcripts.tokens)}
        more["convert"] = agent.transcripts.converts
        saves = SAVES if agent.transcripts.resumes else SAVES_ALONE
        can = (*saves, *(ability for ability, is_there in more.items() if is_there))
        rows.append(Known(agent.name, agent.title, "gitcp", can))
    others = dict.fromkeys(installed.names(), "package")
    others |= {name: described.source(path) for name, path in described.paths().items()}
    for name, source in others.items():
        if name in MODULES:
            continue
        try:
            title = getattr(load(name), "title", name)
            rows.append(Known(name, title, source, SAVES))
        except BadValue as error:
            rows.append(Known(name, name, source, problem=str(error)))
    return sorted(rows, key=lambda row: row.name)


def load(name: str) -> Adapter:
    """Return the adapter with this name. Raises BadValue if there is none or it cannot be
    loaded.
    """
    if name in MODULES:
        module, _, attribute = MODULES[name].partition(":")
        loaded: Adapter = import_module(module)
        return getattr(loaded, attribute) if attribute else loaded
    adapter = installed.load(name) or described.load(name)
    if adapter is None:
        names = ", ".join(sorted(MODULES))
        raise BadValue(f"no adapter for an agent called {name!r}", hint=f"use one of {names}")
    return adapter


def require(name: str, outcome: str) -> None:
    """Raise BadValue if there is no adapter with this name; `outcome` says what was not done."""
    try:
        load(name)
    except BadValue as error:
        raise BadValue(f"{error}: {outcome}", hint=error.hint) from None


def load_or_generic(name: str) -> Adapter:
    """Return the adapter with this name, or the generic one, which can show any conversation."""
    try:
        return load(name)
    except BadValue:
        return load("generic")


def for_format(name: str) -> Adapter:
    """Return the adapter for conversations of this format."""
    return load("generic") if name in PLAIN_FORMATS else load_or_generic(name)


def usage(format: str, lines: Iterable[bytes], state: State | None = None) -> Iterator[Usage]:
    """Yield the tokens in a stream of a conversation; nothing for a format that records none. Lines
    that continue others need the `state` that was left after those.
    """
    if not records_tokens(format):
        return iter(())
    module = import_module(SAVED[format].transcripts.tokens)
    tokens: Iterator[Usage] = module.usage(lines, {} if state is None else state)
    return tokens


def records_tokens(format: str) -> bool:
    """Return whether conversations of this format record tokens that can be read."""
    return format in SAVED and bool(SAVED[format].transcripts.tokens)


def converter(name: str) -> Converter:
    """Return the reader and writer of an agent's transcripts. Raises BadValue if there is none."""
    return _converting(name, CONVERTIBLE)


def reader(name: str) -> DialogueReader:
    """Return the reader of an agent's transcripts. Raises BadValue if there is none."""
    return _converting(name, READABLE)


def _converting(name: str, names: tuple[str, ...]) -> Converter:
    if name not in names:
        raise BadValue(
            f"{name}'s conversations cannot be converted", hint=f"use one of {', '.join(names)}"
        )
    return import_module(f"{MODULES[name].partition(':')[0]}.converting")


def mended(name: str, stored: Stored) -> tuple[Stored, Mapping[str, int]]:
    """Return a stored conversation as its agent resumes it, and what was wrong with its
    transcripts, by description: `stored` itself and nothing, if its agent accepts it.
    """
    module = converter(name) if name in CONVERTIBLE else None
    mend = getattr(module, "mend", None)
    names = [stream.name for stream, _ in stored.streams]
    if mend is None or MAIN not in names:
        return stored, {}
    from gitcp.adapters import mending  # only to place a conversation

    of_agents = tuple(getattr(module, "MENDED", ()))
    names = [each for each in names if each == MAIN or each.startswith(of_agents)]
    return mending.repaired(mend, stored, names)


def model(name: str, cwd: Path, host: Host) -> str | None:
    """Return the model that a converted transcript must name; None if the agent chooses one
    itself.
    """
    lookup: Callable[[str, Host], str | None] | None = getattr(converter(name), "model", None)
    return lookup(str(cwd), host) if lookup else None


def find_all(cwd: Path, host: Host) -> tuple[Found, ...]:
    """Return the sessions of all agents for this directory, newest first."""
    sessions = [session for adapter in _present(host) for session in adapter.find(cwd, host)]
    return tuple(sorted(sessions, key=lambda session: -session.modified))


def located(agent: str, session_id: str, host: Host) -> Found | None:
    """Return an agent's session by id, in any directory; None if it does not exist or
    the adapter cannot look it up.
    """
    if base.SESSION_ID.fullmatch(session_id) is None:
        return None
    try:
        lookup: Callable[[str, Host], Found | None] | None = getattr(load(agent), "located", None)
    except BadValue:
        return None
    return lookup(session_id, host) if lookup else None


def list_all(host: Host, agent: str | None = None) -> Iterator[Listed]:
    """Yield every session on this machine, of all agents or of one. An adapter that cannot list
    its sessions has none.
    """
    for adapter in _present(host):
        list_sessions: Callable[[Host], Iterable[Listed]] | None = getattr(
            adapter, "list_all", None
        )
        if list_sessions is not None and agent in (None, adapter.NAME):
            yield from list_sessions(host)


def unlisted(host: Host, agent: str | None = None) -> Iterator[Unlisted]:
    """Yield the files of conversations that adapters know of and do not read, of all agents or of
    one: what earlier versions of the agents wrote.
    """
    for adapter in _present(host):
        list_files: Callable[[Host], Iterable[tuple[Path, str]]] | None = getattr(
            adapter, "unlisted", None
        )
        if list_files is not None and agent in (None, adapter.NAME):
            yield from (Unlisted(adapter.NAME, *each) for each in list_files(host))


def last_message(found: Found) -> float | None:
    """Return when the last message of a conversation was written, in seconds since 1970: by its own
    account, else by its file's. Return None if it has no message.

    Agents also write what is no message, when they start or exit, and people touch and copy files.
    """
    try:
        messages = _last_messages(found)
    except (ConversationUnreadable, OSError):
        return found.modified  # nobody knows
    return _written(messages[-1], found) if messages else None


def open_turn(found: Found) -> float | None:
    """Return when the last message of a turn that has not ended was written, in seconds since 1970:
    a prompt, a call or its result. Return None if the conversation ends with an answer, has no
    message, or cannot be read.
    """
    try:
        messages = _last_messages(found)
    except (ConversationUnreadable, OSError):
        return None
    if not messages or (messages[-1].role == "assistant" and messages[-1].tool is None):
        return None
    return _written(messages[-1], found)


def _written(message: Message, found: Found) -> float:
    # No message is newer than its file, whatever the clock said when it was written.
    return min(clock.parsed(message.time) or found.modified, found.modified)


def has_messages(found: Found, start: int) -> bool:
    """Return whether a conversation has messages after its first `start` bytes."""
    try:
        main = _main(found)
        if main.path is None:
            lines = list(long_lines.lines([(main.data or b"")[start:]]))
        else:
            with regular.opened(main.path) as file:
                if os.fstat(file.fileno()).st_size < start:
                    return True  # it was written anew
                file.seek(start)
                lines = list(long_lines.lines(base.chunks(file)))
    except (ConversationUnreadable, OSError):
        return False
    lines = [line for line in lines if line.strip()]
    is_unknown = any(wire.parse_line(line) is None for line in lines)  # not made of lines
    return is_unknown or bool(_messages(load(found.agent), lines))


def _main(found: Found) -> Source:
    sources = load(found.agent).capture(found).sources
    return next((each for each in sources if each.name == MAIN), Source(MAIN))


def _last_messages(found: Found) -> list[Message]:
    """Return the last messages of a conversation, at least one unless there is none."""
    adapter, main = load(found.agent), _main(found)
    if main.path is None:
        return _messages(adapter, long_lines.lines([main.data or b""]))
    for lines in base.tails(main.path):
        messages = _messages(adapter, lines)
        if messages:
            return messages
    return []


def _messages(adapter: Adapter, lines: Iterable[bytes]) -> list[Message]:
    """Return the messages of people, models and tools."""
    return [each for each in adapter.messages(lines) if each.role not in ("system", "summary")]


def lifetime(agent: str, host: Host) -> float | None:
    """Return the seconds after its last change when an agent deletes a conversation; None for
    never.
    """
    lifetime_of: Callable[[Host], float | None] | None = getattr(load(agent), "lifetime", None)
    return lifetime_of(host) if lifetime_of else None


def unknown(agent: Agent | None, kinds: Iterable[str]) -> str:
    """Return a sentence about the kinds of an agent's records that its adapter does not know; ""
    if there are none.
    """
    listed = ", ".join(kinds)
    if agent is None or not listed:
        return ""
    title = SAVED[agent.name].title if agent.name in SAVED else agent.name
    version = f" {agent.version}" if agent.version else ""
    return (
        f"{title}{version} wrote records of kinds that this gitcp does not know ({listed}): they "
        "are saved byte for byte, and not shown"
    )


def problems(host: Host) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the files of the agents that were used on this machine, each with a
    command that helps. May read all of them.
    """
    for adapter in _present(host):
        problem_of: Callable[[Host], tuple[str, str] | None] | None = getattr(
            adapter, "problem", None
        )
        problem = problem_of(host) if problem_of else None
        if problem is not None:
            yield problem


def memory(agent: str, cwd: Path, host: Host) -> Path | None:
    """Return the directory, existing or not, in which an agent keeps its memory of the project that
    `cwd` is in; None if it keeps none for each project.
    """
    if base.STREAM_PART.fullmatch(agent) is None:
        return None
    memory_of: Callable[[Path, Host], Path] | None = getattr(load_or_generic(agent), "memory", None)
    return memory_of(cwd, host) if memory_of else None


def remembering(host: Host) -> list[str]:
    """Return the agents that were used on this machine and keep a memory of each project."""
    return [adapter.NAME for adapter in _present(host) if hasattr(adapter, "memory")]


def memory_files(directory: Path) -> dict[str, Path]:
    """Return the files of a memory by their path in it: those in Markdown, which are what an agent
    reads again. No link in it is followed. Raises OSError if a directory cannot be listed, or if
    a link to nothing is in its place; one that does not exist has no files.
    """
    files: dict[str, Path] = {}
    if directory.is_symlink():
        directory.stat()
    for top, folders, names in os.walk(directory, onerror=_unlisted):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(top, name)
            inside = str(path.relative_to(directory))
            if base.is_memory(inside) and base.found("", "", path) is not None:
                files[inside] = path
            if len(files) == MOST_REMEMBERED:
                return files
    return files


def _unlisted(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def origin(found: Found) -> Origin:
    """Return where a session ran, as its transcript says; nothing if that cannot be read."""
    try:
        origin_of: Callable[[Found], Origin] = load(found.agent).origin  # type: ignore[attr-defined]
        return origin_of(found)
    except (BadValue, AttributeError, OSError):
        return Origin()


def watched(cwd: Path, host: Host) -> tuple[Path, ...]:
    """Return the paths whose stat changes whenever `find_all` or a capture for this directory
    would.
    """
    directories = (host.home / known.directory for known in SAVED.values())
    adapter_paths = (path for adapter in _present(host) for path in adapter.watched(cwd, host))
    others = (*map(Path, installed.search_path()), *described.watched())
    remembered = (path for agent in remembering(host) for path in _memory_paths(agent, cwd, host))
    return (*directories, *others, *adapter_paths, *remembered)


def _memory_paths(agent: str, cwd: Path, host: Host) -> Iterator[Path]:
    directory = memory(agent, cwd, host)
    if directory is not None:
        yield directory
        with suppress(OSError):
            for path in memory_files(directory).values():
                yield path
                yield path.parent


def running(host: Host) -> Running | None:
    """Return the agent that runs this process, if the environment identifies one."""
    candidates = (load(known.name) for known in SAVED.values() if _names(host, known))
    for adapter in (*candidates, *installed.adapters(), *described.adapters(host)):
        session_id = adapter.running(host)
        if session_id is not None:
            return Running(adapter.NAME, session_id)
    return None


def recognise(lines: Iterable[bytes]) -> Running | None:
    """Return the agent and session of the transcript that starts with these lines; None if
    unknown.
    """
    for line in lines:
        running = recognise_fields(wire.parse_line(line) or {})
        if running is not None:
            return running
    return None


def recognise_fields(fields: Mapping[str, Any]) -> Running | None:
    """Return the agent and session that a record of a transcript names, or a transcript that is one
    document; None if unknown.
    """
    candidates = (load(known.name) for known in SAVED.values())
    for adapter in (*candidates, *installed.adapters()):
        recognised: Callable[[Mapping[str, Any]], str | None] | None = getattr(
            adapter, "recognise", None
        )
        session_id = recognised(fields) if recognised else None
        if isinstance(session_id, str) and base.SESSION_ID.fullmatch(session_id):
            return Running(adapter.NAME, session_id)
    return None


def _present(host: Host) -> Iterator[Adapter]:
    """Yield the adapters of agents that were ever used on this machine."""
    for known in SAVED.values():
        if _names(host, known) or os.path.exists(host.home / known.directory):
            yield load(known.name)
    yield from installed.adapters()
    yield from described.adapters(host)


def _names(host: Host, known: KnownAgent) -> bool:
    return any(host.env.get(variable) for variable in known.variables)
