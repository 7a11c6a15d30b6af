"""Read from the conversation what was prompted and done between two checkpoints.

Each segment of a conversation is read once, with the checkpoint that added it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gitcp import adapters, wire
from gitcp.adapters.base import Message
from gitcp.conversation.segments import Segment
from gitcp.history import tool_results
from gitcp.model import MAIN, Checkpoint, Conversation, Oid
from gitcp.policy import outcome, risk
from gitcp.policy.events import EventCall
from gitcp.policy.settings import Settings
from gitcp.saving.conversation import lines, stored
from gitcp.store import Store
from gitcp.value import Value

UNKNOWN_TOOL = "?"
LONGEST_END = 400
EDITING = risk.WRITERS | risk.EDITORS | risk.PATCHERS


class CommandRun(Value):
    """A command and its result.

    `failed` is None if unknown. `said` is the last line of a test's output, "" for other commands.
    """

    command: str
    is_test: bool = False
    failed: bool | None = None
    said: str = ""


class Activity(Value):
    """What happened since the previous checkpoint: prompts, tool calls by name, and commands in
    order. `edits` has, for each call of a tool that edits files, the number of commands before it.
    """

    prompts: tuple[str, ...] = ()
    tools: tuple[tuple[str, int], ...] = ()
    commands: tuple[CommandRun, ...] = ()
    edits: tuple[int, ...] = ()


class _ActivityBuilder:
    """An activity under construction: the output of a command may come with a later checkpoint."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.tools: Counter[str] = Counter()
        self.calls: list[tuple[EventCall, str]] = []
        self.results: dict[int, Message] = {}
        self.edits: list[int] = []


class _PendingCall(NamedTuple):
    """A call without a result: its tool, the agent's id for it, its activity, and its index among
    the commands there, if it is one.
    """

    tool: str
    call: str | None
    step: _ActivityBuilder
    number: int | None


def read(
    store: Store, checkpoints: Iterable[Checkpoint], before: Checkpoint | None, policy: Settings
) -> list[Activity]:
    """Return the activity of each of these checkpoints of one session, in order; `before` precedes
    the first.
    """
    reader = _Reader(store, before.conversation if before else None)
    builders = [reader.step(checkpoint.conversation) for checkpoint in checkpoints]
    return [_activity(builder, policy) for builder in builders]


class _Reader:
    def __init__(self, store: Store, before: Conversation | None) -> None:
        self._store = store
        self._segments_read: dict[str, frozenset[Oid]] = {}
        self._seen: set[tuple[object, ...]] = set()
        self._pending: dict[str, list[_PendingCall]] = {}
        if before is None:
            return
        for stream in before.streams:
            self._segments_read[stream.name] = frozenset(
                segment.oid for segment in stored(store, before, stream.name)
            )
        # The last segment may be rewritten together with what follows it.
        last = stored(store, before, MAIN)[-1:]
        self._seen.update(_key(message) for message in self._messages(before, last))

    def step(self, conversation: Conversation | None) -> _ActivityBuilder:
        activity = _ActivityBuilder()
        for stream in conversation.streams if conversation else ():
            if stream.name.partition("/")[0] not in (MAIN, "agents"):
                continue
            assert conversation is not None
            segments = stored(self._store, conversation, stream.name)
            already_read = self._segments_read.get(stream.name, frozenset())
            self._segments_read[stream.name] = frozenset(segment.oid for segment in segments)
            new = [segment for segment in segments if segment.oid not in already_read]
            for message in self._messages(conversation, new):
                if _key(message) not in self._seen:
                    self._seen.add(_key(message))
                    self._add(activity, stream.name, message)
        return activity

    def _messages(
        self, conversation: Conversation, segments: Iterable[Segment]
    ) -> Iterator[Message]:
        """Yield the messages in segments; a line split between two of them is joined again."""
        return adapters.for_format(conversation.format).messages(
            lines(self._store, tuple(segments))
        )

    def _add(self, activity: _ActivityBuilder, stream: str, message: Message) -> None:
        pending = self._pending.setdefault(stream, [])
        if message.role == "user" and stream == MAIN and not message.tool:
            activity.prompts.append(message.text)
        elif message.role == "assistant" and message.tool:
            activity.tools[message.tool] += 1
            arguments = wire.parse_line(message.text.encode("utf-8", "replace"))
            call = EventCall(
                {"tool": message.tool, "args": arguments if arguments is not None else message.text}
            )
            number = None
            if call.tool in risk.SHELLS and (command := _command(call)):
                number = len(activity.calls)
                activity.calls.append((call, command))
            elif call.tool in EDITING:
                activity.edits.append(len(activity.calls))
            pending.append(_PendingCall(message.tool, message.call, activity, number))
        elif message.role == "tool":
            answered = tool_results.pop_call(pending, message)
            if answered is not None and answered.number is not None:
                answered.step.results[answered.number] = message


def _key(message: Message) -> tuple[object, ...]:
    return message.role, message.id, message.time, message.tool, message.call, message.text


def _command(call: EventCall) -> str:
    command = call.input.get("command")
    if isinstance(command, list):
        return " ".join(str(word) for word in command)
    return call.text("command", "cmd", "script")


def _activity(builder: _ActivityBuilder, policy: Settings) -> Activity:
    runs = [
        _command_run(call, command, builder.results.get(number), policy)
        for number, (call, command) in enumerate(builder.calls)
    ]
    return Activity(
        tuple(builder.prompts),
        tuple(sorted(builder.tools.items())),
        tuple(runs),
        tuple(builder.edits),
    )


def _command_run(
    call: EventCall, command: str, result: Message | None, policy: Settings
) -> CommandRun:
    is_test = outcome.is_test(call, policy)
    if result is None:
        return CommandRun(command, is_test)
    output = call.output = result.text
    call.failed = result.failed
    if not is_test:
        code = outcome.exit_code(output)
        failed = bool(code) if code is not None else True if call.failed else None
        return CommandRun(command, failed=failed)
    last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
    return CommandRun(
        command, is_test, outcome.failed(call, policy), last if len(last) <= LONGEST_END else ""
    )
