"""The built-in adapters, and those of installed packages.

An adapter is imported when it is needed; a save imports only those whose agent was ever used here.
Importing all takes longer than the save.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gitcp import wire
from gitcp.adapters import base, installed
from gitcp.adapters.base import Adapter, Found, Listed, Origin, Running, Stored
from gitcp.errors import BadValue
from gitcp.model import MAIN, Host

if TYPE_CHECKING:
    from gitcp.adapters.conversion import Converter


class Builtin(NamedTuple):
    """A built-in adapter, and how to detect its agent without importing it.

    The agent is present if `directory` (below the home directory, its session store) exists, or if
    one of `variables` is set: they relocate the store, or identify the running session.
    """

    name: str
    module: str
    directory: str
    variables: tuple[str, ...]


BUILTIN = (
    Builtin(
        "claude-code",
        "gitcp.adapters.claude_code",
        ".claude",
        ("CLAUDE_CODE_SESSION_ID", "CLAUDE_CONFIG_DIR"),
    ),
    Builtin(
        "codex",
        "gitcp.adapters.codex",
        ".codex",
        ("CODEX_HOME", "CODEX_SESSION_ID", "CODEX_THREAD_ID"),
    ),
    Builtin(
        "copilot",
        "gitcp.adapters.copilot",
        ".copilot",
        ("COPILOT_AGENT_SESSION_ID", "COPILOT_HOME"),
    ),
    Builtin("gemini", "gitcp.adapters.gemini", ".gemini", ("GEMINI_SESSION_ID", "GEMINI_CLI_HOME")),
    Builtin(
        "opencode",
        "gitcp.adapters.opencode",
        ".local/share/opencode",
        ("OPENCODE_DB", "XDG_DATA_HOME"),
    ),
)
GENERIC = "gitcp.adapters.generic"
MODULES = {known.name: known.module for known in BUILTIN} | {"generic": GENERIC}
"""All built-in adapters by name, including the generic one."""

CONVERTIBLE = tuple(known.name for known in BUILTIN)
"""The agents whose conversations can be read as dialogues, and written."""

LINE_FORMATS = ("claude-code", "codex", "copilot", "opencode")
"""Formats in which the texts of a line's messages do not depend on other lines."""

PLAIN_FORMATS = ("json", "jsonl", "text")
"""Formats without an agent. Any other format is the name of its adapter."""


def load(name: str) -> Adapter:
    """Return the adapter with this name. Raises BadValue if there is none or it cannot be
    loaded.
    """
    if name in MODULES:
        return import_module(MODULES[name])
    adapter = installed.load(name)
    if adapter is None:
        names = ", ".join(sorted(MODULES))
        raise BadValue(f"no adapter for an agent called {name!r}", hint=f"use one of {names}")
    return adapter


def load_or_generic(name: str) -> Adapter:
    """Return the adapter with this name, or the generic one, which can show any conversation."""
    try:
        return load(name)
    except BadValue:
        return load("generic")


def for_format(name: str) -> Adapter:
    """Return the adapter for conversations of this format."""
    return load("generic") if name in PLAIN_FORMATS else load_or_generic(name)


def converter(name: str) -> Converter:
    """Return the reader and writer of an agent's transcripts. Raises BadValue if there is none."""
    if name not in CONVERTIBLE:
        raise BadValue(
            f"{name}'s conversations cannot be converted",
            hint=f"use one of {', '.join(CONVERTIBLE)}",
        )
    return import_module(f"{MODULES[name]}.converting")


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


def lifetime(agent: str, host: Host) -> float | None:
    """Return the seconds after its last change when an agent deletes a conversation; None for
    never.
    """
    lifetime_of: Callable[[Host], float | None] | None = getattr(load(agent), "lifetime", None)
    return lifetime_of(host) if lifetime_of else None


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
    directories = (host.home / builtin.directory for builtin in BUILTIN)
    adapter_paths = (path for adapter in _present(host) for path in adapter.watched(cwd, host))
    return (*directories, *map(Path, installed.search_path()), *adapter_paths)


def running(host: Host) -> Running | None:
    """Return the agent that runs this process, if the environment identifies one."""
    candidates = (load(builtin.name) for builtin in BUILTIN if _names(host, builtin))
    for adapter in (*candidates, *installed.adapters()):
        session_id = adapter.running(host)
        if session_id is not None:
            return Running(adapter.NAME, session_id)
    return None


def recognise(lines: Iterable[bytes]) -> Running | None:
    """Return the agent and session of the transcript that starts with these lines; None if
    unknown.
    """
    for line in lines:
        fields = wire.parse_line(line) or {}
        nested = {
            name: value
            for name in ("payload", "data")
            if isinstance(value := fields.get(name), dict)
        }
        session = fields.get("sessionId")
        marks = (
            ("codex", fields.get("type") == "session_meta", nested.get("payload", {}).get("id")),
            (
                "copilot",
                fields.get("type") == "session.start",
                nested.get("data", {}).get("sessionId"),
            ),
            ("gemini", "projectHash" in fields, session),
            ("claude-code", "uuid" in fields and "message" in fields, session),
        )
        for agent, is_marked, session_id in marks:
            if is_marked and isinstance(session_id, str) and base.SESSION_ID.fullmatch(session_id):
                return Running(agent, session_id)
    return None


def _present(host: Host) -> Iterator[Adapter]:
    """Yield the adapters of agents that were ever used on this machine."""
    for builtin in BUILTIN:
        if _names(host, builtin) or (host.home / builtin.directory).exists():
            yield load(builtin.name)
    yield from installed.adapters()


def _names(host: Host, builtin: Builtin) -> bool:
    return any(host.env.get(variable) for variable in builtin.variables)
