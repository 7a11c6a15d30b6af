"""Add digests of hooks to Codex's config.toml, without which it does not run them, and remove them.

Measured with Codex 0.169: the digest is of the hook as Codex parses it; the key has the
file, the event and the index. Each entry is marked as gitcp's on its own line; everything
else in the file is left alone.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from gitcp import wire
from gitcp.automation.install.files import HOOKS, appended, cut, own
from gitcp.errors import BadValue
from gitcp.jsonc import parse

MARK = "# gitcp"
ENTRY = re.compile(
    r"(?m)^(?:\r?\n)?\[hooks\.state\.(\"(?:[^\"\\\n]|\\.)*\")\] # "
    r"gitcp\r?\n(?:[^\s\[#][^\n]*(?:\n|\Z))*"
)
TIMEOUT = 600
"""Codex's default timeout of a hook in seconds."""

Trust = Mapping[str, str]
"""The digest of each hook by its key in config.toml."""


def needed(hooks: str, path: str, agent: str) -> dict[str, str]:
    """Return the entries for gitcp's hooks in a hooks.json, given its text and its path as Codex
    names it.
    """
    digests = {}
    for _, event, group, *_ in (each.path for each in own(hooks, agent)):
        read = parse(hooks).value[HOOKS][event][group]
        for number, hook in enumerate(read[HOOKS]):
            if f"gitcp hook {agent}" in hook.get("command", ""):
                digests[f"{path}:{_snake(str(event))}:{group}:{number}"] = _digest(
                    str(event), read, hook
                )
    return digests


def trusted(text: str | None, wanted: Trust, path: str) -> str | None:
    """Return `text` with these entries for the hooks.json at `path`, replacing gitcp's earlier
    ones. None stands for a missing file.

    Raises BadValue if that is not possible.
    """
    if text is not None and _holds(text, wanted) and set(own_keys(text, path)) <= wanted.keys():
        return text
    bare = updated = distrusted(text, path)
    state = _state(bare or "")
    for key, digest in wanted.items():
        if key not in state:
            updated = appended(
                updated, f'[hooks.state.{_quoted(key)}] {MARK}\ntrusted_hash = "{digest}"\n'
            )
    if not _holds(updated or "", wanted) or distrusted(updated, path) != bare:
        raise BadValue("it has other entries for these hooks; trust them with /hooks in codex")
    return updated


def distrusted(text: str | None, path: str) -> str | None:
    """Return `text` without gitcp's entries for the hooks.json at `path`.
    Raises BadValue for invalid TOML.
    """
    if text is None:
        return None
    _state(text)
    return cut(text, ENTRY, lambda match: _key(match).startswith(f"{path}:"))


def own_keys(text: str, path: str) -> list[str]:
    """Return the keys of gitcp's entries for the hooks.json at `path`."""
    return [key for key in map(_key, ENTRY.finditer(text)) if key.startswith(f"{path}:")]


def project_trusted(text: str, root: str) -> bool:
    """Return whether Codex trusts the project; without that it ignores its hooks."""
    projects = tomllib.loads(text).get("projects", {})
    return isinstance(p := projects.get(root), dict) and p.get("trust_level") == "trusted"


def _key(match: re.Match[str]) -> str:
    key: str = tomllib.loads(f"key = {match[1]}")["key"]
    return key


def _holds(text: str, wanted: Trust) -> bool:
    state = _state(text)
    return all(
        isinstance(e := state.get(key), dict) and e.get("trusted_hash") == wanted[key]
        for key in wanted
    )


def _state(text: str) -> Mapping[str, Any]:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadValue(f"invalid TOML: {error}") from None
    hooks = document.get(HOOKS, {})
    state = hooks.get("state", {}) if isinstance(hooks, dict) else {}
    return state if isinstance(state, dict) else {}


def _digest(event: str, group: Mapping[str, Any], hook: Mapping[str, Any]) -> str:
    """Return Codex's digest of a hook: its fields sorted by name, with defaults filled in."""
    timeout = hook.get("timeout", TIMEOUT)
    if event in ("SessionEnd", "Interrupt"):
        timeout = min(hook.get("timeout", 1), 3)
    message = {"statusMessage": hook["statusMessage"]} if "statusMessage" in hook else {}
    read = {
        "async": False,
        "command": hook["command"],
        **message,
        "timeout": timeout,
        "type": "command",
    }
    matcher = {"matcher": group["matcher"]} if "matcher" in group else {}
    identity = {"event_name": _snake(event), HOOKS: [read], **matcher}
    return "sha256:" + hashlib.sha256(wire.dumps(identity)).hexdigest()


def _snake(event: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()


def _quoted(key: str) -> str:
    return wire.dumps(key).decode("utf-8").replace("\x7f", "\\u007f")
