"""The agents gitcp knows, and those that other packages add. One adapter is asked, by name; each is
imported when it is needed, and by a save only if its agent was ever used here: importing them all
takes longer than the save.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from gitcp import wire
from gitcp.adapters import base, installed
from gitcp.adapters.base import Adapter, Found, Running
from gitcp.errors import BadValue
from gitcp.model import Host


class Builtin(NamedTuple):
    """One of our adapters, and how to tell without it that its agent is not here.

    The agent is here if `directory`, below the home directory, is there (in which it keeps its
    sessions), or if one of `variables` is set, which says that it keeps them elsewhere or that it
    is running us.
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
"""Each built-in adapter by name, the one that belongs to no agent too."""

PLAIN_FORMATS = ("json", "jsonl", "text")
"""Formats that belong to no agent. Any other format is the name of its adapter."""


def load(name: str) -> Adapter:
    """The adapter of this name. Raises BadValue if there is none, or if it cannot be loaded."""
    if name in MODULES:
        return import_module(MODULES[name])
    adapter = installed.load(name)
    if adapter is None:
        known = ", ".join(sorted(MODULES))
        raise BadValue(
            f"there is no adapter for an agent called {name!r}", hint=f"known are {known}"
        )
    return adapter


def load_or_generic(name: str) -> Adapter:
    """The adapter of this name, or the generic one: a stored conversation can be shown whoever
    wrote it.
    """
    try:
        return load(name)
    except BadValue:
        return load("generic")


def for_format(name: str) -> Adapter:
    """The adapter that understands conversations of this format."""
    return load("generic") if name in PLAIN_FORMATS else load_or_generic(name)


def find_all(cwd: Path, host: Host) -> tuple[Found, ...]:
    """The sessions of all agents for this directory, newest first."""
    found = [session for adapter in _present(host) for session in adapter.find(cwd, host)]
    return tuple(sorted(found, key=lambda session: -session.modified))


def located(agent: str, session_id: str, host: Host) -> Found | None:
    """An agent's session by its id, wherever it belongs; None if it is not there, or its adapter
    cannot tell.
    """
    if base.SESSION_ID.fullmatch(session_id) is None:
        return None
    try:
        look: Callable[[str, Host], Found | None] | None = getattr(load(agent), "located", None)
    except BadValue:
        return None
    return look(session_id, host) if look else None


def watched(cwd: Path, host: Host) -> tuple[Path, ...]:
    """Every path whose change could change what `find_all` and a capture say for this directory."""
    directories = (host.home / known.directory for known in BUILTIN)
    own = (path for adapter in _present(host) for path in adapter.watched(cwd, host))
    return (*directories, *map(Path, installed.places()), *own)


def running(host: Host) -> Running | None:
    """The agent that is running us, if the environment names one."""
    named = (load(known.name) for known in BUILTIN if _names(host, known))
    for adapter in (*named, *installed.adapters()):
        session_id = adapter.running(host)
        if session_id is not None:
            return Running(adapter.NAME, session_id)
    return None


def recognise(lines: Iterable[bytes]) -> Running | None:
    """Whose transcript it is that begins with these lines, and of which session; None if it is none
    of ours.
    """
    for line in lines:
        fields = wire.parse_line(line) or {}
        inner = {
            name: held for name in ("payload", "data") if isinstance(held := fields.get(name), dict)
        }
        own = fields.get("sessionId")
        marks = (
            ("codex", fields.get("type") == "session_meta", inner.get("payload", {}).get("id")),
            (
                "copilot",
                fields.get("type") == "session.start",
                inner.get("data", {}).get("sessionId"),
            ),
            ("gemini", "projectHash" in fields, own),
            ("claude-code", "uuid" in fields and "message" in fields, own),
        )
        for agent, is_marked, session_id in marks:
            if is_marked and isinstance(session_id, str) and base.SESSION_ID.fullmatch(session_id):
                return Running(agent, session_id)
    return None


def _present(host: Host) -> Iterator[Adapter]:
    """The adapters whose agents were ever used here, as far as that can be told from outside."""
    for known in BUILTIN:
        if _names(host, known) or (host.home / known.directory).exists():
            yield load(known.name)
    yield from installed.adapters()


def _names(host: Host, known: Builtin) -> bool:
    return any(host.env.get(variable) for variable in known.variables)
