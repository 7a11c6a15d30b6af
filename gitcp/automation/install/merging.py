"""gitcp's hooks in an agent's own settings file: found, put in, taken out. Text in, text out.

A hook is gitcp's if its command calls `gitcp hook AGENT`; that is the mark. The form is the one
that Claude Code, Codex and Gemini CLI share: under "hooks", for each event, a list of groups, each
with a list of hooks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from gitcp import wire
from gitcp.automation.install import jsonc
from gitcp.errors import BadValue

HOOKS = "hooks"

Groups = Mapping[str, list[Any]]
"""Groups of hooks by the event at which they run."""


class Own(NamedTuple):
    """A group, or a hook in somebody else's group, that is gitcp's: where it stands in the file,
    and what it says.
    """

    path: tuple[str | int, ...]
    value: Any


def groups(content: bytes) -> Groups:
    """The hooks of a shipped file."""
    found: Groups = wire.loads(content)[HOOKS]
    return found


def merged(text: str, wanted: Groups, agent: str) -> str:
    """`text` with these hooks in it, instead of those that an earlier version put there; the same
    if they are there.

    Raises BadValue where it cannot be done so that `removed` gives back what was there.
    """
    if text and _by_event(own(text, agent)) == dict(wanted):
        return text
    bare = made = removed(text, agent) if text else ""
    for event, groups in wanted.items():
        for group in groups:
            made = jsonc.append(made, (HOOKS, event), group)
    if removed(made, agent) != bare:
        raise BadValue("its form is too unusual to be changed safely")
    return made


def removed(text: str, agent: str) -> str:
    """`text` without gitcp's hooks of this agent; "" if nothing is left. Raises BadValue if it is
    no JSON.
    """
    for found in reversed(own(text, agent)):
        text = jsonc.remove(text, found.path)
    return text


def own(text: str, agent: str) -> list[Own]:
    """gitcp's hooks of this agent, in the order of the file. Raises BadValue if it is no JSON."""
    mark = re.compile(rf"\bgitcp hook {re.escape(agent)}\b")
    hooks = jsonc.parse(text).find(HOOKS)
    events = hooks.node.items if hooks and isinstance(hooks.node.value, dict) else ()
    return [
        found
        for event in events
        if isinstance(event.node.value, list)
        for number, group in enumerate(event.node.value)
        for found in _in_group((HOOKS, event.key, number), group, mark)
    ]


def _in_group(path: tuple[str | int, ...], group: Any, mark: re.Pattern[str]) -> Iterator[Own]:
    hooks = group.get(HOOKS) if isinstance(group, dict) else None
    if not isinstance(hooks, list):
        return
    ours = [number for number, hook in enumerate(hooks) if _calls(hook, mark)]
    if ours and len(ours) == len(hooks):
        yield Own(path, group)
    else:
        yield from (Own((*path, HOOKS, number), hooks[number]) for number in ours)


def _calls(hook: Any, mark: re.Pattern[str]) -> bool:
    command = hook.get("command") if isinstance(hook, dict) else None
    return isinstance(command, str) and mark.search(command) is not None


def _by_event(found: list[Own]) -> dict[str, list[Any]]:
    events: dict[str, list[Any]] = {}
    for each in found:
        events.setdefault(str(each.path[1]), []).append(each.value)
    return events
