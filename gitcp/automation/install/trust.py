"""Codex runs a hook only if its config.toml holds the hook's digest: what to write there, and how
it comes out again.

Measured with Codex 0.169: the digest is of the hook as Codex reads it, the key names the file, the
event and the place in it. Each entry says on its own line that it is gitcp's; everything else in
the file is left as it is.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from gitcp import wire
from gitcp.automation.install.appending import appended, cut
from gitcp.automation.install.jsonc import parse
from gitcp.automation.install.merging import HOOKS, own
from gitcp.errors import BadValue

MARK = "# gitcp"
ENTRY = re.compile(
    r"(?m)^(?:\r?\n)?\[hooks\.state\.(\"(?:[^\"\\\n]|\\.)*\")\] # "
    r"gitcp\r?\n(?:[^\s\[#][^\n]*(?:\n|\Z))*"
)
TIMEOUT = 600
"""Seconds that Codex gives a hook that does not say."""

Trust = Mapping[str, str]
"""The digest of each hook by the key it has in config.toml."""


def needed(hooks: str, path: str, agent: str) -> dict[str, str]:
    """What Codex wants to know of gitcp's hooks in a hooks.json: its text, and its path as Codex
    names it.
    """
    found = {}
    for _, event, group, *_ in (each.path for each in own(hooks, agent)):
        read = parse(hooks).value[HOOKS][event][group]
        for number, hook in enumerate(read[HOOKS]):
            if f"gitcp hook {agent}" in hook.get("command", ""):
                found[f"{path}:{_snake(str(event))}:{group}:{number}"] = _digest(
                    str(event), read, hook
                )
    return found


def trusted(text: str | None, wanted: Trust, path: str) -> str | None:
    """`text` with these entries for the hooks.json at `path` instead of gitcp's earlier ones. None:
    there is no file.

    Raises BadValue if it cannot be.
    """
    if text is not None and _holds(text, wanted) and set(own_keys(text, path)) <= wanted.keys():
        return text
    bare = made = distrusted(text, path)
    known = _state(bare or "")
    for key, digest in wanted.items():
        if key not in known:
            made = appended(
                made, f'[hooks.state.{_quoted(key)}] {MARK}\ntrusted_hash = "{digest}"\n'
            )
    if not _holds(made or "", wanted) or distrusted(made, path) != bare:
        raise BadValue(
            "it holds another answer for these hooks: say in codex, by /hooks, that you trust them"
        )
    return made


def distrusted(text: str | None, path: str) -> str | None:
    """`text` without gitcp's entries for the hooks.json at `path`. Raises BadValue if it is no
    TOML.
    """
    if text is None:
        return None
    _state(text)
    return cut(text, ENTRY, lambda found: _key(found).startswith(f"{path}:"))


def own_keys(text: str, path: str) -> list[str]:
    """The keys of gitcp's entries for the hooks.json at `path`."""
    return [key for key in map(_key, ENTRY.finditer(text)) if key.startswith(f"{path}:")]


def project_trusted(text: str, root: str) -> bool:
    """Whether Codex trusts the project: without that it reads no hooks there."""
    projects = tomllib.loads(text).get("projects", {})
    return isinstance(p := projects.get(root), dict) and p.get("trust_level") == "trusted"


def _key(found: re.Match[str]) -> str:
    key: str = tomllib.loads(f"key = {found[1]}")["key"]
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
        raise BadValue(f"it is no TOML: {error}") from None
    hooks = document.get(HOOKS, {})
    state = hooks.get("state", {}) if isinstance(hooks, dict) else {}
    return state if isinstance(state, dict) else {}


def _digest(event: str, group: Mapping[str, Any], hook: Mapping[str, Any]) -> str:
    """The digest that Codex makes of a hook: its fields in the order of their names, with what it
    fills in.
    """
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
