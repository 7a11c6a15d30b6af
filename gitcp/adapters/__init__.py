"""The agents gitcp knows. One adapter is asked, by name; each is imported when it is needed.

Other packages add agents through the entry-point group `gitcp.adapters`, which is looked at only for a name that is not
built in: reading the installed packages takes longer than a whole save.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from gitcp.adapters.base import Adapter, Found, Running
from gitcp.errors import BadValue
from gitcp.model import Host

BUILTIN = {
    "claude-code": "gitcp.adapters.claude_code",
    "generic": "gitcp.adapters.generic",
}
PLAIN_FORMATS = ("json", "jsonl", "text")
"""Formats that belong to no agent. Any other format is the name of its adapter."""

GROUP = "gitcp.adapters"


def load(name: str) -> Adapter:
    """The adapter of this name. Raises BadValue if there is none."""
    if name in BUILTIN:
        return import_module(BUILTIN[name])
    return _installed(name)


def load_or_generic(name: str) -> Adapter:
    """The adapter of this name, or the generic one: a stored conversation can be shown whoever wrote it."""
    try:
        return load(name)
    except BadValue:
        return load("generic")


def for_format(name: str) -> Adapter:
    """The adapter that understands conversations of this format."""
    return load("generic") if name in PLAIN_FORMATS else load_or_generic(name)


def find_all(cwd: Path, host: Host) -> tuple[Found, ...]:
    """The sessions of all built-in agents for this directory, newest first."""
    found = [session for name in BUILTIN for session in load(name).find(cwd, host)]
    return tuple(sorted(found, key=lambda session: -session.modified))


def watched(cwd: Path, host: Host) -> tuple[Path, ...]:
    """Every path whose change could change what `find_all` and a capture say for this directory."""
    return tuple(path for name in BUILTIN for path in load(name).watched(cwd, host))


def running(host: Host) -> Running | None:
    """The agent that is running us, if the environment names one."""
    for name in BUILTIN:
        session_id = load(name).running(host)
        if session_id is not None:
            return Running(name, session_id)
    return None


def _installed(name: str) -> Adapter:
    from importlib.metadata import entry_points  # 30 ms: only when a built-in name misses

    for entry in entry_points(group=GROUP, name=name):
        try:
            adapter: Adapter = entry.load()
        except (ImportError, AttributeError) as error:
            raise BadValue(f"the adapter for {name} cannot be loaded: {error}") from None
        return adapter
    known = ", ".join(sorted(BUILTIN))
    raise BadValue(f"there is no adapter for an agent called {name!r}", hint=f"known are {known}")
