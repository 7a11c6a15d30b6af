"""Normalize the agents' event names and payload fields."""

from __future__ import annotations

import os

from gitcp import agents
from gitcp.agents import SAVED, KnownAgent
from gitcp.policy import payload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

TRIAL, ANSWER = "GITCP_HOOK_TRIAL", b"gitcp\n"
"""The environment variable with which `gitcp doctor` asks a hook whether it reaches gitcp, and what
it prints then. The value is the directory that the hook runs in, so that a variable which somebody
exports, or a project sets, turns no hook off.
"""

LOG = "hook.log"
HOOKED = "hooked"
"""Files of hooks in `<git dir>/gitcp`: the error log, and each session's last save,
`<adapter>.<session>`.
"""

SESSION = ("session_id", "sessionId", "sessionID", "thread-id", "conversation_id")
TRANSCRIPT = ("transcript_path", "transcriptPath")
DIRECTORY = ("cwd", "directory")
ROOTS = "workspace_roots"
"""Where an editor was opened, for events without a directory."""

LAST_MESSAGE = (
    "last_assistant_message",
    "lastAssistantMessage",
    "last-assistant-message",
    "prompt_response",
)
TOOL = ("tool_name", "toolName", "tool")
INPUT = ("tool_input", "toolInput", "toolArgs", "args")
OUTPUT = ("tool_response", "toolResponse", "toolResult", "tool_output", "output", "error")
CALL = ("tool_use_id", "toolUseId", "callID", "toolCallId")
SUBAGENT = ("agent_id", "agentId")
PARENT = ("parent_id", "parentID", "parent_conversation_id")
NAME = ("hook_event_name", "hookEventName", "type")

RUNS_OTHERS = {"COPILOT_CLI": "copilot", "CURSOR_VERSION": "cursor"}
"""The variables by which agents say that they run a hook, which may be Claude Code's."""

IDS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
LONGEST_ID = 64


class EventCall:
    """One tool call: its name, its input, and its output (None before it ran)."""

    __slots__ = ("failed", "id", "input", "output", "tool")

    def __init__(self, fields: payload.Fields, *, failed: bool = False) -> None:
        given = _first(fields, INPUT)
        if isinstance(given, str):  # JSON in a string
            given = payload.value(given) or {"command": given}
        self.tool = _text(fields, TOOL)
        self.id = _text(fields, CALL)
        self.input: payload.Fields = given if isinstance(given, dict) else {"command": given}
        self.output = _first(fields, OUTPUT)
        self.failed = failed

    def text(self, *names: str) -> str:
        """Return the first of these inputs that is text, else ""."""
        return _text(self.input, names)


class Event:
    """One event, in a form common to all agents. Missing and malformed fields are "".

    `stamp` is the event's time if the agent sends it as a number (and records
    it in its transcript), else 0. `sent` is that time if it is sent as text. `is_borrowed` means
    that an agent ran the hook of another one.
    """

    __slots__ = (
        *("agent", "calls", "cwd", "is_borrowed", "kind", "name", "prompt"),
        *("said", "sent", "session_id", "stamp", "subagent", "transcript"),
    )

    def __init__(self, agent: str, name: str, kind: str, fields: payload.Fields) -> None:
        self.agent, self.name, self.kind = agent, name, kind
        self.session_id = session_id(_text(fields, SESSION))
        self.transcript = _text(fields, TRANSCRIPT)
        roots = fields.get(ROOTS)
        first = roots[:1] if isinstance(roots, list) else []
        self.cwd = _text(fields, DIRECTORY) or next((r for r in first if isinstance(r, str)), "")
        self.prompt = _text(fields, ("prompt",))
        self.said = _text(fields, LAST_MESSAGE)
        stamp = fields.get("timestamp")
        self.stamp = stamp if type(stamp) is int and stamp > 0 else 0
        self.sent = _text(fields, ("timestamp",))
        self.is_borrowed = False
        self.subagent = _text(fields, SUBAGENT)
        parent = session_id(_text(fields, PARENT))
        if parent and parent != self.session_id:
            self.session_id, self.subagent = parent, self.session_id
        self.calls = _calls(name, fields)

    @property
    def known(self) -> KnownAgent:
        """The record of its agent."""
        return SAVED[self.agent]


def read(agent: str, name: str, fields: payload.Fields) -> Event | None:
    """Return the event, None if it can never trigger a checkpoint."""
    known = agents.called(agent)
    if name == "notify":
        name = _text(fields, NAME)
    kind = known.hooks.events.get(name) if known else None
    if known is None or kind is None:
        return None
    event = Event(known.name, name, kind, fields)
    if event.subagent and kind in (agents.START, agents.PROMPT, agents.END):
        return None  # a sub-agent's session is its parent's, which continues
    if known.hooks.repeats_prompts and kind == agents.PROMPT and not event.prompt.strip():
        return None
    if event.subagent and kind == agents.TURN:
        event.kind = agents.AFTER_TOOLS
    if known.hooks.always_compacts and kind == agents.COMPACTION:
        return event if fields.get("trigger") == "manual" else None
    return event


def attribute(event: Event, env: Mapping[str, str], home: str) -> None:
    """Assign an event to the agent that sent it, if that ran the hook of another agent.

    Copilot runs the hooks of a project's `.claude/settings.json`, and Codex those of a plugin for
    Claude Code: each event made a session of Claude Code without a conversation.
    """
    agent = _of_transcript(event, env, home) if event.transcript else _of_environment(event, env)
    if agent == event.agent:
        return
    known = SAVED[agent]
    names = (name for name, kind in known.hooks.events.items() if kind == event.kind)
    if event.name not in known.hooks.events:
        event.name = next(names, event.name)
    event.agent, event.is_borrowed = agent, True
    if known.hooks.is_logged and not event.stamp:
        event.stamp = _milliseconds(event.sent)


def _of_transcript(event: Event, env: Mapping[str, str], home: str) -> str:
    """Return the agent in whose directory the transcript is, the event's own if that is unknown."""
    path = _real(event.transcript)
    owners = [
        known.name
        for known in SAVED.values()
        if not known.transcripts.data  # the others name no transcript
        and any(
            path.startswith(_real(each) + os.sep)
            for each in (f"{home}/{known.home}", known.home_in(env, home))
        )
    ]
    return event.agent if event.agent in owners or not owners else owners[0]


def _of_environment(event: Event, env: Mapping[str, str]) -> str:
    """Return the agent that passes this session's id to its commands, else the event's own. Claude
    Code names its transcript in every event: one without it comes from Copilot or Cursor, if one
    says that it runs the hook.
    """
    owners = [
        known.name
        for known in SAVED.values()
        if event.session_id
        and any(env.get(name) == event.session_id for name in known.transcripts.session_variables)
    ]
    if owners:
        return event.agent if event.agent in owners else owners[0]
    others = (agent for variable, agent in RUNS_OTHERS.items() if env.get(variable))
    return next(others, event.agent) if event.agent == "claude-code" else event.agent


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return path


def _milliseconds(time: str) -> int:
    """Return an ISO time in milliseconds since 1970, 0 if it is none."""
    from datetime import datetime  # only for an agent that runs another one's hooks

    try:
        return max(0, round(datetime.fromisoformat(time).timestamp() * 1000))
    except (ValueError, OverflowError):
        return 0


def session_id(text: str) -> str:
    """Return `text` if it is valid as a session id and safe in a path, else ""."""
    valid = 0 < len(text) <= LONGEST_ID and IDS.issuperset(text) and text[0] not in "_-"
    return text if valid else ""


def _calls(name: str, fields: payload.Fields) -> list[EventCall]:
    batch = fields.get("tool_calls")
    if isinstance(batch, list):
        return [EventCall(each) for each in batch if isinstance(each, dict)]
    return [EventCall(fields, failed=name == "PostToolUseFailure")] if _text(fields, TOOL) else []


def _first(fields: payload.Fields, names: tuple[str, ...]) -> object:
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def _text(fields: payload.Fields, names: tuple[str, ...]) -> str:
    return next((text for name in names if isinstance(text := fields.get(name), str)), "")
