"""What was asked and what was done between two checkpoints, as the conversation tells it. Reads
only.

Each segment of a conversation is read once, with the checkpoint that it came in with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gitcp import adapters, wire
from gitcp.adapters.base import Message
from gitcp.conversation.segments import Segment
from gitcp.history import tool_results
from gitcp.model import Checkpoint, Conversation, Oid
from gitcp.policy import outcome, risk
from gitcp.policy.events import Call
from gitcp.policy.settings import Settings
from gitcp.saving.conversation import MAIN, lines, stored
from gitcp.store import Store
from gitcp.value import Value

UNKNOWN_TOOL = "?"
LONGEST_END = 400


class Ran(Value):
    """A command, and how it ended: `failed` is None where that is not known. `said` is the last
    line of what tests printed, "" of other commands.
    """

    command: str
    is_test: bool = False
    failed: bool | None = None
    said: str = ""


class Activity(Value):
    """What happened since the checkpoint before: prompts, calls of tools by name, commands in
    order.
    """

    prompts: tuple[str, ...] = ()
    tools: tuple[tuple[str, int], ...] = ()
    commands: tuple[Ran, ...] = ()


class _Step:
    """An activity in the making: how a command ended may come in with a later checkpoint."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.tools: Counter[str] = Counter()
        self.calls: list[tuple[Call, str]] = []
        self.outputs: dict[int, str] = {}


class _Open(NamedTuple):
    """A call that has not ended: its tool, the agent's id of it, its step, and which command of
    that it is, if any.
    """

    tool: str
    call: str | None
    step: _Step
    number: int | None


def read(
    store: Store, checkpoints: Iterable[Checkpoint], before: Checkpoint | None, policy: Settings
) -> list[Activity]:
    """The activity of each of these checkpoints of one session, in order; `before` is the one
    before the first.
    """
    reader = _Reader(store, before.conversation if before else None)
    steps = [reader.step(checkpoint.conversation) for checkpoint in checkpoints]
    return [_frozen(step, policy) for step in steps]


class _Reader:
    def __init__(self, store: Store, before: Conversation | None) -> None:
        self._store = store
        self._known: dict[str, frozenset[Oid]] = {}
        self._said: set[tuple[object, ...]] = set()
        self._open: dict[str, list[_Open]] = {}
        for stream in before.streams if before else ():
            assert before is not None
            self._known[stream.name] = frozenset(
                segment.oid for segment in stored(store, before, stream.name)
            )
        if before is not None:
            self._remember(before)

    def _remember(self, before: Conversation) -> None:
        """The messages of the last segment: it may be written anew, together with what follows
        it.
        """
        segments = stored(self._store, before, MAIN)[-1:]
        self._said.update(_key(message) for message in self._messages(before, segments))

    def step(self, conversation: Conversation | None) -> _Step:
        step = _Step()
        for stream in conversation.streams if conversation else ():
            if stream.name.partition("/")[0] not in (MAIN, "agents"):
                continue
            assert conversation is not None
            segments = stored(self._store, conversation, stream.name)
            known = self._known.get(stream.name, frozenset())
            self._known[stream.name] = frozenset(segment.oid for segment in segments)
            new = [segment for segment in segments if segment.oid not in known]
            for message in self._messages(conversation, new):
                if _key(message) not in self._said:
                    self._said.add(_key(message))
                    self._take(step, stream.name, message)
        return step

    def _messages(
        self, conversation: Conversation, segments: Iterable[Segment]
    ) -> Iterator[Message]:
        """What is said in segments: a line that was cut between two is joined again where both are
        new.
        """
        return adapters.for_format(conversation.format).messages(
            lines(self._store, tuple(segments))
        )

    def _take(self, step: _Step, stream: str, message: Message) -> None:
        pending = self._open.setdefault(stream, [])
        if message.role == "user" and stream == MAIN and not message.tool:
            step.prompts.append(message.text)
        elif message.role == "assistant" and message.tool:
            step.tools[message.tool] += 1
            given = wire.parse_line(message.text.encode("utf-8", "replace"))
            call = Call(
                {"tool": message.tool, "args": given if given is not None else message.text}
            )
            if call.tool in risk.SHELLS:
                step.calls.append((call, _command(call)))
            number = len(step.calls) - 1 if call.tool in risk.SHELLS else None
            pending.append(_Open(message.tool, message.call, step, number))
        elif message.role == "tool":
            ended = tool_results.take(pending, message)
            if ended is not None and ended.number is not None:
                ended.step.outputs[ended.number] = message.text


def _key(message: Message) -> tuple[object, ...]:
    return message.role, message.id, message.time, message.tool, message.call, message.text


def _command(call: Call) -> str:
    words = call.input.get("command")
    if isinstance(words, list):
        return " ".join(str(word) for word in words)
    return call.text("command", "cmd", "script")


def _frozen(step: _Step, policy: Settings) -> Activity:
    ran = [
        _ran(call, command, step.outputs.get(number), policy)
        for number, (call, command) in enumerate(step.calls)
    ]
    return Activity(
        tuple(step.prompts),
        tuple(sorted(step.tools.items())),
        tuple(each for each in ran if each.command),
    )


def _ran(call: Call, command: str, output: str | None, policy: Settings) -> Ran:
    is_test = outcome.is_test(call, policy)
    if output is None:
        return Ran(command, is_test)
    call.output = output
    if not is_test:
        code = outcome.exit_code(output)
        return Ran(command, failed=bool(code) if code is not None else None)
    last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
    return Ran(command, is_test, outcome.has_failed(call), last if len(last) <= LONGEST_END else "")
