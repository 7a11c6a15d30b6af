"""Normalize the agents' event names and payload fields."""

from __future__ import annotations

from gitcp.policy import payload

START = "start"
PROMPT = "prompt"
BEFORE_TOOL = "before-tool"
AFTER_TOOLS = "after-tools"
TURN = "turn"
COMPACTION = "compaction"
END = "end"

AGENTS = {
    "claude": "claude-code",
    "claude-code": "claude-code",
    "codex": "codex",
    "copilot": "copilot",
    "gemini": "gemini",
    "opencode": "opencode",
}
"""Agent names as passed to `gitcp hook`, with their adapters."""

KINDS: dict[str, dict[str, str]] = {
    "claude-code": {
        "SessionStart": START,
        "UserPromptSubmit": PROMPT,
        "PreToolUse": BEFORE_TOOL,
        "PostToolUse": AFTER_TOOLS,
        "PostToolUseFailure": AFTER_TOOLS,
        "PostToolBatch": AFTER_TOOLS,
        "SubagentStop": AFTER_TOOLS,
        "Stop": TURN,
        "StopFailure": TURN,
        "PreCompact": COMPACTION,
        "SessionEnd": END,
    },
    "codex": {
        "SessionStart": START,
        "UserPromptSubmit": PROMPT,
        "PreToolUse": BEFORE_TOOL,
        "PostToolUse": AFTER_TOOLS,
        "SubagentStop": AFTER_TOOLS,
        "Stop": TURN,
        "Interrupt": END,
        "agent-turn-complete": TURN,
        "PreCompact": COMPACTION,
        "SessionEnd": END,
    },
    "gemini": {
        "SessionStart": START,
        "BeforeAgent": PROMPT,
        "BeforeTool": BEFORE_TOOL,
        "AfterTool": AFTER_TOOLS,
        "AfterAgent": TURN,
        "PreCompress": COMPACTION,
        "SessionEnd": END,
    },
    "opencode": {
        "session.created": START,
        "chat.message": PROMPT,
        "tool.execute.before": BEFORE_TOOL,
        "tool.execute.after": AFTER_TOOLS,
        "session.idle": TURN,
        "session.error": TURN,
        "experimental.session.compacting": COMPACTION,
        "dispose": END,
    },
    "copilot": {
        "sessionStart": START,
        "userPromptSubmitted": PROMPT,
        "preToolUse": BEFORE_TOOL,
        "postToolUse": AFTER_TOOLS,
        "subagentStop": AFTER_TOOLS,
        "agentStop": TURN,
        "errorOccurred": TURN,
        "preCompact": COMPACTION,
        "sessionEnd": END,
    },
}
"""The events that can trigger a checkpoint, by the agent's name for them. All others are
ignored.
"""

LOG = "hook.log"
HOOKED = "hooked"
"""Files of hooks in `<git dir>/gitcp`: the error log, and each session's last save,
`<adapter>.<session>`.
"""

SESSION = ("session_id", "sessionId", "sessionID", "thread-id")
TRANSCRIPT = ("transcript_path", "transcriptPath")
DIRECTORY = ("cwd", "directory")
SAID = (
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
PARENT = ("parent_id", "parentID")
NAME = ("hook_event_name", "hookEventName", "type")

IDS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
LONGEST_ID = 64


class Call:
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
    it in its transcript), else 0.
    """

    __slots__ = (
        *("agent", "calls", "cwd", "kind", "name", "prompt"),
        *("said", "session_id", "stamp", "subagent", "transcript"),
    )

    def __init__(self, agent: str, name: str, kind: str, fields: payload.Fields) -> None:
        self.agent, self.name, self.kind = agent, name, kind
        self.session_id = session_id(_text(fields, SESSION))
        self.transcript = _text(fields, TRANSCRIPT)
        self.cwd = _text(fields, DIRECTORY)
        self.prompt = _text(fields, ("prompt",))
        self.said = _text(fields, SAID)
        stamp = fields.get("timestamp")
        self.stamp = stamp if type(stamp) is int and stamp > 0 else 0
        self.subagent = _text(fields, SUBAGENT)
        parent = session_id(_text(fields, PARENT))
        if parent and parent != self.session_id:
            self.session_id, self.subagent = parent, self.session_id
        self.calls = _calls(name, fields)


def read(agent: str, name: str, fields: payload.Fields) -> Event | None:
    """Return the event, None if it can never trigger a checkpoint."""
    adapter = AGENTS.get(agent, "")
    if name == "notify":
        name = _text(fields, NAME)
    kind = KINDS.get(adapter, {}).get(name)
    if kind is None:
        return None
    event = Event(adapter, name, kind, fields)
    if event.subagent and kind in (START, PROMPT, END):
        return None  # a sub-agent's session is its parent's, which continues
    if event.subagent and kind == TURN:
        event.kind = AFTER_TOOLS
    if adapter == "gemini" and kind == COMPACTION and fields.get("trigger") != "manual":
        return None  # sent before every request, whether Gemini compacts or not
    return event


def session_id(text: str) -> str:
    """Return `text` if it is valid as a session id and safe in a path, else ""."""
    valid = 0 < len(text) <= LONGEST_ID and IDS.issuperset(text) and text[0] not in "_-"
    return text if valid else ""


def _calls(name: str, fields: payload.Fields) -> list[Call]:
    batch = fields.get("tool_calls")
    if isinstance(batch, list):
        return [Call(each) for each in batch if isinstance(each, dict)]
    return [Call(fields, failed=name == "PostToolUseFailure")] if _text(fields, TOOL) else []


def _first(fields: payload.Fields, names: tuple[str, ...]) -> object:
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def _text(fields: payload.Fields, names: tuple[str, ...]) -> str:
    return next((text for name in names if isinstance(text := fields.get(name), str)), "")
