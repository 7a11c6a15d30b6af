"""Find, add and remove gitcp's hooks in the text of an agent's settings.

A hook is gitcp's if its command contains `gitcp hook AGENT`. Uses the format of Claude Code, Codex
and Gemini CLI: under "hooks", for each event, a list of groups, each with a list of hooks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from gitcp import jsonc, wire
from gitcp.errors import BadValue

HOOKS = "hooks"

Groups = Mapping[str, list[Any]]
"""Groups of hooks by event."""


class OwnHooks(NamedTuple):
    """A group of gitcp's, or a hook of gitcp's in another group: its path in the document, and its
    value.
    """

    path: tuple[str | int, ...]
    value: Any


def groups(content: bytes) -> Groups:
    """Return the hooks of a shipped file."""
    hooks: Groups = wire.loads(content)[HOOKS]
    return hooks


def merged(text: str, wanted: Groups, agent: str) -> str:
    """Return `text` with these hooks, replacing those of an earlier version; unchanged if they are
    there.

    Raises BadValue if `removed` would not restore the original text.
    """
    if text and _by_event(own(text, agent)) == dict(wanted):
        return text
    bare = result = removed(text, agent) if text else ""
    for event, groups in wanted.items():
        for group in groups:
            result = jsonc.append(result, (HOOKS, event), group)
    if removed(result, agent) != bare:
        raise BadValue("its formatting cannot be changed safely")
    return result


def removed(text: str, agent: str) -> str:
    """Return `text` without gitcp's hooks for this agent; "" if nothing is left.
    Raises BadValue for invalid JSON.
    """
    for entry in reversed(own(text, agent)):
        text = jsonc.remove(text, entry.path)
    return text


def own(text: str, agent: str) -> list[OwnHooks]:
    """Return gitcp's hooks for this agent, in file order. Raises BadValue for invalid JSON."""
    mark = re.compile(rf"\bgitcp hook {re.escape(agent)}\b")
    hooks = jsonc.parse(text).find(HOOKS)
    events = hooks.node.items if hooks and isinstance(hooks.node.value, dict) else ()
    return [
        entry
        for event in events
        if isinstance(event.node.value, list)
        for number, group in enumerate(event.node.value)
        for entry in _in_group((HOOKS, event.key, number), group, mark)
    ]


def _in_group(path: tuple[str | int, ...], group: Any, mark: re.Pattern[str]) -> Iterator[OwnHooks]:
    hooks = group.get(HOOKS) if isinstance(group, dict) else None
    if not isinstance(hooks, list):
        return
    ours = [number for number, hook in enumerate(hooks) if _is_own(hook, mark)]
    if ours and len(ours) == len(hooks):
        yield OwnHooks(path, group)
    else:
        yield from (OwnHooks((*path, HOOKS, number), hooks[number]) for number in ours)


def _is_own(hook: Any, mark: re.Pattern[str]) -> bool:
    command = hook.get("command") if isinstance(hook, dict) else None
    return isinstance(command, str) and mark.search(command) is not None


def _by_event(entries: list[OwnHooks]) -> dict[str, list[Any]]:
    events: dict[str, list[Any]] = {}
    for each in entries:
        events.setdefault(str(each.path[1]), []).append(each.value)
    return events
