"""A dialogue: a conversation in no agent's format, between the reader of one and the writer of
another.

Each adapter reads its agent's transcripts into this form and writes them from it, so any agent's
conversation can be continued in any other. By construction:

- A call carries its one result. A call that was never answered has a result that says so.
- Ids of calls are unique, and ids and tool names fit every agent's interface.
- Sealed thinking (encrypted or signed by a provider) never gets in, only readable text.
- What a reader or a writer leaves out is counted in `omitted`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Literal

from gitcp.model import Agent
from gitcp.value import EMPTY, Value, replace

ID_LENGTH = 40
"""The shortest limit of the providers' interfaces for the id of a call."""

NAME_LENGTH = 64
LEGAL = re.compile(r"[A-Za-z0-9_-]+")
ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")

UNANSWERED = "[No result: the conversation was interrupted before this call ended.]"

SEALED = "sealed thinking (readable only by its provider)"
EARLIER = "messages before the last compaction (its summary is included)"
ORPHANS = "results without a call"
REPEATED = "second results of a call"
MISSING = "calls without a result (marked as interrupted)"
ANSWERS = "files in the agent's answers (named in the text)"
NOTICES = "notices of the agent's program"
BRANCHES = "messages on other branches"

Role = Literal["user", "assistant", "summary"]


class Text(Value):
    """What somebody wrote."""

    text: str


class Thinking(Value):
    """Readable thinking of the agent."""

    text: str


class File(Value):
    """An image or an attachment: its bytes (`data`, base64), or its location (`place`) only."""

    media: str
    data: str | None = None
    name: str | None = None
    place: str | None = None

    def described(self) -> str:
        """Return the text that stands for it where a file cannot be."""
        size = None if self.data is None else len(self.data.rstrip("=")) * 3 // 4
        details = (self.name, self.media, self.place, f"{size:,} bytes" if size else None)
        return f"[file not included: {', '.join(filter(None, details))}]"


Content = Text | File


class Result(Value):
    """What a call returned."""

    content: tuple[Content, ...] = ()
    failed: bool = False

    def text(self) -> str:
        """Return its text, without files."""
        return "\n".join(part.text for part in self.content if isinstance(part, Text))

    def files(self) -> tuple[File, ...]:
        return tuple(part for part in self.content if isinstance(part, File))


class Call(Value):
    """A tool call with its result. `arguments` is the text of a JSON object; a tool that takes free
    text has the single argument `input`.
    """

    id: str
    name: str
    arguments: str
    result: Result = Result((Text(UNANSWERED),), failed=True)


Block = Text | Thinking | File | Call


class Item(Value):
    """A message. Only an assistant's has thinking and calls. A "summary" replaces the part of the
    conversation that its agent compacted. `time` is in ISO format; `model` answered.
    """

    role: Role
    blocks: tuple[Block, ...]
    time: str | None = None
    model: str | None = None

    def text(self) -> str:
        """Return its text, without calls, thinking and files."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, Text))

    def calls(self) -> tuple[Call, ...]:
        """Return its calls, in order."""
        return tuple(block for block in self.blocks if isinstance(block, Call))


class Aside(Value):
    """The conversation of a sub-agent. `call` is the id of the call that started it, if known."""

    id: str
    items: tuple[Item, ...]
    call: str | None = None


class Dialogue(Value):
    """A conversation of an agent. `cwd` and `branch` are where it began, None if unknown. `omitted`
    counts what is not in it, by description.
    """

    agent: Agent
    items: tuple[Item, ...]
    asides: tuple[Aside, ...] = ()
    cwd: str | None = None
    branch: str | None = None
    title: str | None = None
    omitted: Mapping[str, int] = EMPTY


# ---------------------------------------------------------------- assembling


class Assembler:
    """Assembles items from the parts of a transcript, in order."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.omitted: Counter[str] = Counter()
        self._open: dict[str, str] = {}
        """Raw ids of calls without a result, with their ids in the dialogue."""
        self._answered: dict[str, Result] = {}
        """Results by the call's id in the dialogue."""
        self._latest: dict[str, Result] = {}
        """Results by the raw id of the call."""
        self._given: set[str] = set()
        self._is_closed = True

    def user(
        self, content: Iterable[Content], time: str | None = None, role: Role = "user"
    ) -> None:
        """Add a message of the user, or a summary; nothing if it is empty."""
        blocks = _filled(content)
        if blocks:
            self.items.append(Item(role, blocks, time))
            self._is_closed = True

    def assistant(
        self, blocks: Iterable[Block], time: str | None = None, model: str | None = None
    ) -> None:
        """Add to the agent's message; a result or a message of the user ends it."""
        new = tuple(map(self._answer, _filled(blocks)))
        if not new:
            return
        if self._is_closed:
            self.items.append(Item("assistant", new, time, model))
            self._is_closed = False
        else:
            last = self.items[-1]
            self.items[-1] = replace(last, blocks=(*last.blocks, *new), model=last.model or model)

    def result(self, call: str | None, result: Result) -> None:
        """Add the result of the last open call with this id, as the transcript has it."""
        id = self._open.pop(str(call), None)
        result = replace(result, content=_filled(result.content))
        if id is not None:
            self._answered[id] = self._latest[str(call)] = result
            self._is_closed = True
        elif str(call) not in self._latest:
            self.omit(ORPHANS)
        elif self._latest[str(call)] != result:
            self.omit(REPEATED)

    def answered(self, call: Call, time: str | None = None, model: str | None = None) -> None:
        """Add a call together with its result."""
        self.assistant([call], time, model)
        self.result(call.id, call.result)

    def omit(self, what: str, count: int = 1) -> None:
        """Count something that is left out."""
        if count:
            self.omitted[what] += count

    def compacted(self) -> None:
        """Leave out everything so far: a summary follows."""
        self.omit(EARLIER, len(self.items))
        self.items.clear()
        self._open.clear()
        self._is_closed = True

    def drop_turns(self, count: int) -> None:
        """Remove the last `count` messages of the user, and what follows them."""
        starts = [n for n, item in enumerate(self.items) if item.role == "user"][-count or None :]
        if count > 0 and starts:
            del self.items[starts[0] :]
            self._is_closed = True

    def done(self) -> tuple[Item, ...]:
        """Return the items. Counts the calls without a result."""
        items = tuple(
            replace(item, blocks=tuple(map(self._settled, item.blocks))) for item in self.items
        )
        calls = (call for item in items for call in item.calls())
        self.omit(MISSING, sum(call.id not in self._answered for call in calls))
        return items

    def _settled(self, block: Block) -> Block:
        if isinstance(block, Call) and block.id in self._answered:
            return replace(block, result=self._answered[block.id])
        return block

    def _answer(self, block: Block) -> Block:
        if isinstance(block, File):  # providers refuse them there
            self.omit(ANSWERS)
            return Text(block.described())
        return self._called(block) if isinstance(block, Call) else block

    def _called(self, call: Call) -> Call:
        """Return a call without its result, whose id and name are legal and its id unique."""
        id = unique_id(call.id, self._given)
        self._given.add(id)
        self._open[call.id] = id
        return Call(id, legal_name(call.name), call.arguments)


def unique_id(id: str, given: set[str]) -> str:
    """Return an id that every agent accepts and that is not in `given`: `id` itself if possible."""
    is_legal = len(id) <= ID_LENGTH and LEGAL.fullmatch(id)
    candidate, number = id if is_legal else _derived(id), 1
    while candidate in given:
        number += 1
        candidate = _derived(f"{id}\0{number}")
    return candidate


def _derived(id: str) -> str:
    return f"call_{sha256(id.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


def legal_name(name: str) -> str:
    """Return a tool's name in the alphabet and length that every agent accepts."""
    return ILLEGAL.sub("_", name)[:NAME_LENGTH] or "tool"


def _filled(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Return the blocks without empty texts, which some providers refuse."""
    return tuple(
        block for block in blocks if not isinstance(block, Text | Thinking) or block.text.strip()
    )
