"""Decide the trigger of a checkpoint for an event. Whether anything changed is checked later.

Triggers are the strings of `model.Trigger`: importing that module takes longer than a hook may.
"""

from __future__ import annotations

from gitcp import agents
from gitcp.policy import outcome, risk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitcp.policy.events import Event
    from gitcp.policy.risk import SizeOf
    from gitcp.policy.settings import Settings

TOOLS = "tools"

PLAIN = {
    agents.START: "turn",  # what an agent that was killed had done
    agents.PROMPT: "prompt",
    agents.AFTER_TOOLS: TOOLS,
    agents.TURN: "turn",
    agents.COMPACTION: "compaction",
    agents.END: "session-end",
}

COMMANDS = ("checkpoint", "checkpoints", "prune", "restore", "rollback")
OWN = (
    "$gitcp",
    *(f"/gitcp{ending}" for ending in ("", *(f"{c}{each}" for c in ":/" for each in COMMANDS))),
    *(f"/{command}" for command in COMMANDS),
)
"""The first words of gitcp's own commands, as people type them."""
MARK = "installed by gitcp enable -->"
"""Ends their text, which some agents pass instead."""

REFACTORING = (
    "refactor",
    "restructur",
    "reorganiz",
    "reorganis",
    "rearchitect",
    "rewrit",
    "moderniz",
    "modernis",
)
BUG_FOUND = (
    "found the bug",
    "found a bug",
    "found the cause",
    "found the root cause",
    "found the problem",
    "found the issue",
    "found the culprit",
    "root cause is",
    "root cause was",
    "root cause:",
    "the bug is ",
    "the bug was ",
    "identified the bug",
    "identified the root cause",
    "bug is caused by",
    "bug was caused by",
)


def is_idle(event: Event) -> bool:
    """Return whether an event can never lead to a checkpoint, whatever the settings."""
    return event.kind == agents.BEFORE_TOOL and not any(risk.may_be(call) for call in event.calls)


def decide(event: Event, settings: Settings, age: float | None, size_of: SizeOf) -> str | None:
    """Return the trigger for an event, None if there is none or it is disabled.

    `age` is the age of the session's last checkpoint in seconds (None: unknown).
    If a special trigger is disabled, the event's plain one is used. `size_of`
    returns the size of a file in bytes.
    """
    if event.kind == agents.PROMPT and is_own_command(event.prompt):
        return None  # it saves itself what it has to
    special = _special(event, settings, size_of)
    if special is not None and special not in settings.off:
        return special
    if event.kind == agents.AFTER_TOOLS:
        if age is not None and age >= settings.interval > 0 and "interval" not in settings.off:
            return "interval"
        if event.calls and all(call.tool in risk.READERS for call in event.calls):
            return None
    default = PLAIN.get(event.kind)
    return default if default not in settings.off else None


def before_edit(settings: Settings) -> str | None:
    """Return the trigger before a tool that may change files, if other changes than its own are not
    saved yet; None if it is disabled.
    """
    return TOOLS if TOOLS not in settings.off else None


def is_own_command(prompt: str) -> bool:
    """Return whether a prompt is one of the commands that gitcp installs."""
    words = prompt.split(None, 1)
    return words[:1] != [] and (words[0] in OWN or prompt.rstrip().endswith(MARK))


def _special(event: Event, settings: Settings, size_of: SizeOf) -> str | None:
    if event.kind == agents.BEFORE_TOOL:
        return (
            "before-risky-change"
            if any(risk.is_risky(c, settings, size_of) for c in event.calls)
            else None
        )
    if event.kind == agents.PROMPT:
        return "before-refactor" if _has_word(event.prompt, REFACTORING) else None
    if event.kind == agents.AFTER_TOOLS:
        return (
            "on-test-failure"
            if any(outcome.is_failed_test(c, settings) for c in event.calls)
            else None
        )
    if event.kind == agents.TURN:
        reply = event.said.lower()
        return "after-bug-found" if any(words in reply for words in BUG_FOUND) else None
    return None


def _has_word(text: str, beginnings: tuple[str, ...]) -> bool:
    return any(
        word.strip("\"'`([{*_.,;:").startswith(beginnings) for word in text[:10_000].lower().split()
    )
