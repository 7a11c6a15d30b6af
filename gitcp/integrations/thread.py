"""A framework's conversation as one session, whose streams a program reads and changes.

Each change is a checkpoint, including the current files. Threads and processes that change the same
session take turns, each on top of the previous change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any

from gitcp import wire
from gitcp.api.opened import Opened, with_housekeeping
from gitcp.conversation import segments
from gitcp.errors import BadValue, StoreDamaged
from gitcp.model import MAIN, Agent, Capture, Checkpoint, Note, Source, Stream, Trigger
from gitcp.saving import save
from gitcp.saving import session as session_op
from gitcp.saving.conversation import stored
from gitcp.saving.save import ChangeScope, Saved
from gitcp.saving.session import GIVEN, Choice
from gitcp.state import programs, settings
from gitcp.state.steps import only
from gitcp.store import Store
from gitcp.value import EMPTY, Value, replace

LOCK = "thread"
CALLS = ("_call", "_call_output")
"""How the types of items end that are no messages, but calls of tools and their results."""


class ThreadContents(Value):
    """The conversation of a checkpoint; empty before the first."""

    store: Store
    checkpoint: Checkpoint | None

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The streams, in order."""
        whole = self.checkpoint.conversation if self.checkpoint else None
        return whole.streams if whole else ()

    def read(self, name: str = MAIN) -> bytes:
        """Return a stream's bytes, b"" if there is no such stream."""
        whole = self.checkpoint.conversation if self.checkpoint else None
        return b"".join(segments.content(self.store.reader, stored(self.store, whole, name)))


class StreamContent(Value):
    """The new content of a stream; `place` is the agent's path for it."""

    data: bytes
    place: str = ""


Changes = Mapping[str, StreamContent | None]
"""New content of streams by name, None to remove one. Other streams are unchanged."""


class Thread:
    """The session `name`. `agent` owns the conversation; `format` is the adapter that parses it."""

    def __init__(self, opened: Opened, name: str, agent: Agent, format: str = "jsonl") -> None:
        self.opened = opened
        self.name = name
        self.agent = agent
        self.format = format

    def contents(self) -> ThreadContents:
        """Return the conversation of the last checkpoint."""
        store = self.opened.store()
        tip = store.tip(self.name)
        return ThreadContents(store, store.read(tip) if tip else None)

    def history(self) -> Iterator[ThreadContents]:
        """Yield the conversation of each checkpoint, newest first."""
        store = self.opened.store()
        tip = store.tip(self.name)
        for summary in store.history(tip) if tip else ():
            yield ThreadContents(store, store.read(summary.commit))

    def change(
        self,
        decide: Callable[[ThreadContents], Changes | None],
        *,
        trigger: Trigger = Trigger.TURN,
        position: Mapping[str, str] = EMPTY,
    ) -> Saved | None:
        """Save the changes that `decide` returns, with the current files.
        Return None if it returns None.

        `decide` is called once, while no other program can change this session. On any error,
        raises a GitcpError and saves nothing.
        """
        store = self.opened.store()
        with only(store, self.name, LOCK):
            tip = store.tip(self.name)
            contents = ThreadContents(store, store.read(tip) if tip else None)
            changes = decide(contents)
            if changes is None:
                return None
            capture = Capture(self.agent, self.format, tuple(_sources(contents, changes)))
            request = self._request(store, capture, trigger, position)
            saved = with_housekeeping(store, save.save(store, request))
            main = changes.get(MAIN)
            if main is not None and _is_answered(main.data):
                programs.end(programs.here(store.repo, self.name))
            elif main is not None:
                self._begin(store)
            return saved

    def note(
        self,
        trigger: Trigger,
        position: Mapping[str, str],
        *,
        change_scope: ChangeScope = ChangeScope.ALL,
    ) -> Saved:
        """Save the files without changing the conversation. The first checkpoint records the
        agent.
        """
        store = self.opened.store()
        with only(store, self.name, LOCK):
            request = replace(
                self._request(store, None, trigger, position),
                change_scope=change_scope,
                at_work=trigger is not Trigger.PROMPT,
            )
            if store.tip(self.name) is None:
                request = replace(request, carried=save.Carried(conversation=(None, self.agent)))
            saved = with_housekeeping(store, save.save(store, request))
            if trigger is Trigger.PROMPT:
                self._begin(store)
            return saved

    def end(self) -> None:
        """Record that no turn is open, answered or not: what changes from now on is nobody's."""
        programs.end(programs.here(self.opened.store().repo, self.name))

    def _begin(self, store: Store) -> None:
        """Record that a turn is open: its tools may change any file until it is answered."""
        if programs.here(store.repo, self.name) is None:
            program = programs.begin(store.repo, self.name, owns=lambda: False)
            if program is not None:
                program.note_commands()

    def _request(
        self,
        store: Store,
        capture: Capture | None,
        trigger: Trigger,
        position: Mapping[str, str],
    ) -> save.SaveRequest:
        return save.SaveRequest(
            cwd=self.opened.path,
            trigger=trigger,
            note=Note(position=position),
            limits=settings.limits(store.repo),
            choice=Choice(self.name, capture, GIVEN),
            watched=True,
            at_work=True,
        )


def _is_answered(data: bytes) -> bool:
    """Return whether a conversation ends with an answer, after which no tool of its turn runs."""
    for line in reversed(data.splitlines()):
        with suppress(ValueError, AttributeError, TypeError):
            item = wire.loads(line)
            message = item.get("message") or item
            if str(item.get("type")).endswith(CALLS):
                return False
            if message.get("role") in ("user", "assistant"):
                parts = message.get("content")
                kinds = {part.get("type") for part in parts} if isinstance(parts, list) else set()
                return message["role"] == "assistant" and "tool_use" not in kinds
    return False


def open_for_restore(opened: Opened, name: str, env: Mapping[str, str] = EMPTY) -> Opened:
    """Return the repository prepared for a restore: the current state is saved in the session
    `name`, without looking for agents' conversations. `env` is added to the environment.
    """
    host = replace(opened.host, env={**opened.host.env, session_op.SESSION: name, **env})
    session_op.set_current(opened.store(), name)
    return Opened(opened.path, host)


def session_name(given: str, reserved: str = "") -> str:
    """Return a valid session name for a framework's id: the id itself if
    valid, else one derived from it.

    `reserved` are characters that the name must not contain.
    """
    name = re.sub(
        rf"[^A-Za-z0-9._+-]|[{re.escape(reserved)}]" if reserved else r"[^A-Za-z0-9._+-]",
        "-",
        given,
    )
    name = re.sub(r"\.\.+", ".", name).strip("-._+")[:40].rstrip("-._+") or "session"
    unchanged = name == given and not given.endswith(".lock")
    return (
        name
        if unchanged
        else f"{name}-{sha256(given.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    )


def encode(values: Iterable[object]) -> bytes:
    """Encode values as JSON lines. Raises BadValue for one that JSON cannot represent."""
    try:
        return b"".join(wire.dumps(value) + b"\n" for value in values)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadValue(f"cannot encode as JSON: {error}; nothing was saved") from None


def parsed(data: bytes) -> list[Any]:
    """Parse JSON lines. Raises StoreDamaged for anything else."""
    try:
        return [wire.loads(line) for line in data.splitlines()]
    except ValueError as error:
        raise StoreDamaged(
            f"a stored line is not JSON: {error}", hint="gitcp doctor --store"
        ) from None


def _sources(contents: ThreadContents, changes: Changes) -> Iterator[Source]:
    """Yield every stream of the next checkpoint, the main one first; unchanged ones without
    content.
    """
    unchanged = {
        stream.name: Source(stream.name, place=stream.place) for stream in contents.streams
    }
    new_streams = {
        name: Source(name, data=new.data, place=new.place)
        for name, new in changes.items()
        if new is not None
    }
    for name, source in ({MAIN: Source(MAIN, data=b"")} | unchanged | new_streams).items():
        if name not in changes or name in new_streams:
            yield source
