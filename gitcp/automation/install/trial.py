"""Try installed hooks: run each as its agent would, and find out whether it reaches gitcp.

The environment tells the hook to answer and to do nothing (gitcp.hooks.handler). A gitcp that does
not know that finds an event outside of any repository, of a session that does not exist.
Of a project's settings, only what `gitcp enable` installs is run: they come with the project.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gitcp import jsonc, regular, wire
from gitcp.adapters.hook_settings import Server
from gitcp.agents import KnownAgent
from gitcp.automation.install import command, plan, shipped, targets
from gitcp.automation.install.plan import Scope
from gitcp.errors import BadValue
from gitcp.model import Host
from gitcp.policy import events
from gitcp.value import Value

PATIENCE = 10
"""Seconds that a hook may take."""

SILENCED = " 2>/dev/null || true"
"""The end of an installed command, which hides why it failed."""

OWN = re.compile(r"(/[^\s'\"$`;&|<>()*?\\]+/)?gitcp hook [a-z]+ [A-Za-z.]+")
"""A command that is run: gitcp, by its name or its absolute path, and nothing else."""


class Failed(Value):
    """A hook that does not reach gitcp: the file with it, its command, and why."""

    path: Path
    hook: str
    why: str


def failed(target: KnownAgent, scope: Scope | None, host: Host) -> Failed | None:
    """Run the hooks of an agent that are installed in a scope, or (None) as its plugin. Return the
    first that does not reach gitcp, None if all do.
    """
    known = _commands(target, shipped.read(target.pieces[0].source).decode("utf-8"))
    path = plan.directory(target, scope or Scope(None, user=True), host) / target.pieces[0].target
    installed = known if scope is None else _installed(target, path)
    is_user = scope is not None and scope.user
    wanted = [
        each
        for each in dict.fromkeys(installed)
        if each in known or (is_user and OWN.fullmatch(each.removesuffix(SILENCED)))
    ]
    with tempfile.TemporaryDirectory(prefix="gitcp-") as made:
        empty = os.path.realpath(made)
        # all at once, without threads: what they need reads the clock when it is loaded
        started = [(each, _start(each, empty, host)) for each in wanted]
        until = time.monotonic() + PATIENCE
        ended = [(hook, _end(shell, empty, until)) for hook, shell in started]
        reasons = ((hook, _why_failed(hook, end, empty, host)) for hook, end in ended)
        return next((Failed(path, hook, why) for hook, why in reasons if why), None)


def stale_server(target: KnownAgent, host: Host) -> Server | None:
    """Return the agent's server if its PATH, that of its start, has no gitcp."""
    server = targets.server(target, host)
    if server is None or not server.path:
        return None
    return None if shutil.which(command.NAME, path=server.path) else server


def _why_failed(hook: str, end: _Ended | None, directory: str, host: Host) -> str:
    """Return why a command did not reach gitcp, "" if it did."""
    if end is not None and end.out == events.ANSWER:
        return ""
    again = None
    if end is not None:
        shell = _start(hook.removesuffix(SILENCED), directory, host)
        again = _end(shell, directory, time.monotonic() + PATIENCE)
    if again is None:
        return f"no answer within {PATIENCE} seconds"
    lines = again.err.decode("utf-8", "replace").strip().splitlines()
    if lines:
        return lines[-1]
    if again.code:
        return f"it ended with exit code {again.code}"
    return "it answered nothing, as another program or an older gitcp does"


class _Ended(NamedTuple):
    """How a command ended: its exit code, and what it wrote."""

    code: int
    out: bytes
    err: bytes


def _start(hook: str, directory: str, host: Host) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["/bin/sh", "-c", hook],
        cwd=directory,
        env={**host.env, events.TRIAL: directory},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _end(shell: subprocess.Popen[bytes], directory: str, until: float) -> _Ended | None:
    """Return how a command ended, None if it did not until then: it is killed."""
    payload = wire.dumps({"session_id": "trial", "cwd": directory, "hook_event_name": "trial"})
    with shell:
        try:
            out, err = shell.communicate(payload, max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)  # what hangs is a child of the shell
            return None
    return _Ended(shell.returncode, out, err)


def _installed(target: KnownAgent, path: Path) -> list[str]:
    """Return gitcp's commands in an agent's settings, none if they cannot be read."""
    try:
        return _commands(target, regular.content(path).decode("utf-8"))
    except (BadValue, OSError, UnicodeDecodeError):
        return []


def _commands(target: KnownAgent, text: str) -> list[str]:
    mark = f"gitcp hook {target.command}"
    if target.pieces[0].source.endswith(".js"):
        return [f"{mark} {event}" for event in target.hooks.events]
    return [each for each in _texts(jsonc.parse(text).value) if mark in each]


def _texts(value: Any) -> Iterator[str]:
    """Yield the strings in a JSON document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)
