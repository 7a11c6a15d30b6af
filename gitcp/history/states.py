"""The states outside the files that the user's commands save: what is set, when each was saved
last, and how those of two checkpoints differ. Runs no command, and stores nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from gitcp.conversation import segments
from gitcp.errors import StoreDamaged
from gitcp.model import (
    RESERVED,
    TREE,
    Checkpoint,
    CheckpointId,
    CommandState,
    Entry,
    FileChange,
    Oid,
    States,
)
from gitcp.saving import states
from gitcp.state import state_commands
from gitcp.store import STATES, Store

MOST_COMPARED = 1 << 18
"""Bytes of a state up to which its text is compared line by line."""


class StateStatus(NamedTuple):
    """A state that is set up: its commands, the saves that it is a part of, the last checkpoint
    with it of the session, and why its commands are not run, "" if they are.
    """

    name: str
    save: str
    restore: str
    when: tuple[str, ...]
    last: CheckpointId | None
    problem: str

    def __str__(self) -> str:
        last = f"last saved in {self.last}" if self.last else "never saved in this session"
        return f"{self.name}: {self.problem or last}"


def listed(store: Store, tip: Oid | None) -> tuple[StateStatus, ...]:
    """Return what is set up; `tip` is the last checkpoint of the session."""
    commands = state_commands.listing(store.repo)
    last: dict[str, CheckpointId] = {}
    for summary in islice(store.readable(tip), states.FAR if commands else 0):
        for name in summary.trailers.get(states.TRAILER, "").split():
            last.setdefault(name, summary.id)
    return tuple(
        StateStatus(
            each.name,
            each.save,
            each.restore,
            each.when,
            last.get(each.name),
            each.refused or ("" if each.save else "no command saves it"),
        )
        for each in commands
    )


class StateChange(NamedTuple):
    """A state that two checkpoints have with different content. `texts` are both as text, None if
    one is large, or is no text; `problem` is why one cannot be read, "" if both can.
    """

    old: CommandState
    new: CommandState
    trees: tuple[Oid | None, Oid | None]
    texts: tuple[str, str] | None
    problem: str = ""

    @property
    def name(self) -> str:
        return self.old.name

    @property
    def as_file(self) -> FileChange:
        """The change as one of the path at which a checkpoint has the state."""
        path = b"/".join((RESERVED, STATES, self.name.encode("ascii")))
        return FileChange(path, *(Entry(TREE, oid) if oid else None for oid in self.trees))


def compare(store: Store, old: Checkpoint, new: Checkpoint) -> Iterator[StateChange]:
    """Yield the states that differ, of those that both checkpoints have: of another one it is not
    known whether it differs.
    """
    before, after = old.states, new.states
    if before is None or after is None:
        return
    for was in before.stored:
        now = after.of(was.name)
        if now is None or (was.bytes, was.sha256) == (now.bytes, now.sha256):
            continue
        texts, problem = None, ""
        try:
            trees = tuple(
                states.parts(store.reader, each).get(was.name) for each in (before, after)
            )
            contents = (_text(store, before, was), _text(store, after, now))
            if contents[0] is not None and contents[1] is not None:
                texts = contents[0], contents[1]
        except StoreDamaged:
            trees, problem = (None, None), "its stored copy is damaged"
        yield StateChange(was, now, (trees[0], trees[1]), texts, problem)


def _text(store: Store, recorded: States, state: CommandState) -> str | None:
    """Return a state as text, None if it is large, or is no text. Raises StoreDamaged."""
    if state.bytes > MOST_COMPARED:
        return None
    data = b"".join(segments.content(store.reader, states.stored(store.reader, recorded, state)))
    try:
        return None if b"\0" in data else data.decode("utf-8")
    except UnicodeDecodeError:
        return None
