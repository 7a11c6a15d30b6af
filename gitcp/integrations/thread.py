"""A conversation of a framework: one session of gitcp, whose streams a program reads and changes.

Each change is one checkpoint, with the files as they are then. Of several threads or processes that
change a session, one does so after the other, each on top of what the one before it left.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

from gitcp import wire
from gitcp.api.opened import Opened, within_limits
from gitcp.api.session import only
from gitcp.conversation import segments
from gitcp.errors import BadValue, StoreDamaged
from gitcp.model import Agent, Capture, Checkpoint, Note, Source, Stream, Trigger
from gitcp.saving import save
from gitcp.saving import session as session_op
from gitcp.saving.conversation import MAIN, stored
from gitcp.saving.save import ChangeScope, Saved
from gitcp.saving.session import GIVEN, Choice
from gitcp.state import settings
from gitcp.store import Store
from gitcp.value import EMPTY, Value, replace

LOCK = "thread"


class Held(Value):
    """What a checkpoint holds of a conversation; nothing before the first."""

    store: Store
    checkpoint: Checkpoint | None

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The streams, by name."""
        whole = self.checkpoint.conversation if self.checkpoint else None
        return whole.streams if whole else ()

    def read(self, name: str = MAIN) -> bytes:
        """A stream's bytes, none if there is no such stream."""
        whole = self.checkpoint.conversation if self.checkpoint else None
        return b"".join(segments.content(self.store.objects, stored(self.store, whole, name)))


class Given(Value):
    """What a stream is to hold; `place` is where its agent keeps it."""

    data: bytes
    place: str = ""


Changes = Mapping[str, Given | None]
"""Streams by name: what each is to hold, None where it is to go. The others stay as they are."""


class Thread:
    """The session `name`. `agent` says whose conversation it holds, `format` is the adapter that
    understands it.
    """

    def __init__(self, opened: Opened, name: str, agent: Agent, format: str = "jsonl") -> None:
        self.opened = opened
        self.name = name
        self.agent = agent
        self.format = format

    def held(self) -> Held:
        """What the last checkpoint holds."""
        store = self.opened.store()
        tip = store.tip(self.name)
        return Held(store, store.read(tip) if tip else None)

    def history(self) -> Iterator[Held]:
        """What each checkpoint holds, the newest first."""
        store = self.opened.store()
        tip = store.tip(self.name)
        for summary in store.history(tip) if tip else ():
            yield Held(store, store.read(summary.commit))

    def change(
        self,
        decide: Callable[[Held], Changes | None],
        *,
        trigger: Trigger = Trigger.TURN,
        position: Mapping[str, str] = EMPTY,
    ) -> Saved | None:
        """Save what `decide` makes of what is held, and the files; None where it decides that
        nothing is to be saved.

        `decide` is called once, while no other program changes this session. Raises a GitcpError,
        and leaves no checkpoint, if anything could not be done.
        """
        store = self.opened.store()
        with only(store, self.name, LOCK):
            tip = store.tip(self.name)
            held = Held(store, store.read(tip) if tip else None)
            changes = decide(held)
            if changes is None:
                return None
            capture = Capture(self.agent, self.format, tuple(_sources(held, changes)))
            return self._save(store, capture, trigger, position)

    def note(
        self,
        trigger: Trigger,
        position: Mapping[str, str],
        *,
        change_scope: ChangeScope = ChangeScope.ALL,
    ) -> Saved:
        """Save the files; the conversation stays as it is. The first checkpoint of a session says
        whose it will be.
        """
        store = self.opened.store()
        with only(store, self.name, LOCK):
            stored = None if store.tip(self.name) else (None, self.agent)
            return self._save(
                store, None, trigger, position, stored=stored, change_scope=change_scope
            )

    def _save(
        self,
        store: Store,
        capture: Capture | None,
        trigger: Trigger,
        position: Mapping[str, str],
        **given: Any,
    ) -> Saved:
        request = save.Request(
            cwd=self.opened.path,
            trigger=trigger,
            note=Note(position=position),
            limits=settings.limits(store.repo),
            choice=Choice(self.name, capture, GIVEN),
            **given,
        )
        return within_limits(store, save.save(store, request))


def leaving(opened: Opened, name: str, env: Mapping[str, str] = EMPTY) -> Opened:
    """The repository as it is opened for a restore: what is there now is saved in the session
    `name`, and nobody looks for agents' conversations. `env` is added to the environment.
    """
    host = replace(opened.host, env={**opened.host.env, session_op.SESSION: name, **env})
    session_op.set_current(opened.store(), name)
    return Opened(opened.path, host)


def session_name(given: str, reserved: str = "") -> str:
    """A session's name for any id that a framework gives: the id itself where it can be one, else a
    like one.

    `reserved` are characters that the name must not have.
    """
    plain = re.sub(
        rf"[^A-Za-z0-9._+-]|[{re.escape(reserved)}]" if reserved else r"[^A-Za-z0-9._+-]",
        "-",
        given,
    )
    plain = re.sub(r"\.\.+", ".", plain).strip("-._+")[:40].rstrip("-._+") or "session"
    same = plain == given and not given.endswith(".lock")
    return (
        plain
        if same
        else f"{plain}-{sha256(given.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    )


def encode(values: Iterable[object]) -> bytes:
    """JSON values, each on a line. Raises BadValue for one that JSON cannot hold."""
    try:
        return b"".join(wire.dumps(value) + b"\n" for value in values)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadValue(f"what was to be saved is not JSON ({error}): nothing was saved") from None


def parsed(data: bytes) -> list[Any]:
    """The JSON values on lines. Raises StoreDamaged for anything else."""
    try:
        return [wire.loads(line) for line in data.splitlines()]
    except ValueError as error:
        raise StoreDamaged(f"a stored line is not JSON: {error}", hint="gitcp check") from None


def _sources(held: Held, changes: Changes) -> Iterator[Source]:
    """Every stream of the next checkpoint, the main one first; what stays has no content of its
    own.
    """
    there = {stream.name: Source(stream.name, place=stream.place) for stream in held.streams}
    given = {
        name: Source(name, data=new.data, place=new.place)
        for name, new in changes.items()
        if new is not None
    }
    for name, source in ({MAIN: Source(MAIN, data=b"")} | there | given).items():
        if name not in changes or name in given:
            yield source
