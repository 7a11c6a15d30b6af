"""The states outside the files that the user's commands save: what is set, when each was saved
last, and how those of two checkpoints differ. Runs no command, and stores nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from gitcp.conversation import segments
from gitcp.errors import StoreDamaged
from gitcp.history.diff import Paths, is_below
from gitcp.history.memory import DAMAGED
from gitcp.model import (
    RESERVED,
    TREE,
    Checkpoint,
    CheckpointId,
    CommandState,
    Entry,
    FileChange,
    Kind,
    Oid,
    States,
)
from gitcp.saving import states
from gitcp.state import state_commands
from gitcp.store import STATES, Store
from gitcp.wire import Json

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


class _Modified(FileChange):
    """A path that both sides have, also if the tree that names its entry is damaged."""

    @property
    def kind(self) -> Kind:
        return Kind.MODIFIED


class StateChange(NamedTuple):
    """A state that two checkpoints have with different content. `trees` have it, None for a damaged
    one. `texts` are both contents, None if one is large, or is no text; `problem` is why one cannot
    be read, "" if both can.
    """

    old: CommandState
    new: CommandState
    trees: tuple[Oid | None, Oid | None]
    texts: tuple[bytes, bytes] | None
    problem: str = ""

    @property
    def name(self) -> str:
        return self.old.name

    @property
    def as_file(self) -> FileChange:
        """The change as one of the path at which a checkpoint has the state."""
        sides = (Entry(TREE, oid) if oid else None for oid in self.trees)
        return _Modified(_place(self.name), *sides)

    def to_json(self) -> Json:
        """Return what `gitcp diff --json` prints as the state of its path."""
        from gitcp import documents  # only for programs

        old, new = (documents.StateContent(each.bytes, each.sha256) for each in self[:2])
        return documents.encode(documents.ChangedState(self.name, old, new, self.problem))


def _place(name: str) -> bytes:
    """Return the path at which a checkpoint has a state."""
    return b"/".join((RESERVED, STATES, name.encode("ascii")))


def compare(
    store: Store, old: Checkpoint, new: Checkpoint, paths: Paths = ()
) -> Iterator[StateChange]:
    """Yield the states that differ, of those that both checkpoints have: of another one it is not
    known whether it differs. Only those below `paths`, if given.
    """
    before, after = old.states, new.states
    if before is None or after is None:
        return
    for was in before.stored:
        now = after.of(was.name)
        if now is None or (was.bytes, was.sha256) == (now.bytes, now.sha256):
            continue
        if not is_below(_place(was.name), paths):
            continue
        trees = _tree(store, before, was.name), _tree(store, after, was.name)
        texts, problem = None, "" if all(trees) else DAMAGED
        try:
            contents = (_text(store, before, was), _text(store, after, now))
            if contents[0] is not None and contents[1] is not None:
                texts = contents[0], contents[1]
        except StoreDamaged:
            problem = DAMAGED
        yield StateChange(was, now, trees, texts, problem)


def _tree(store: Store, recorded: States, name: str) -> Oid | None:
    """Return the tree that has the content of a state, None if what names it is damaged."""
    try:
        return states.parts(store.reader, recorded).get(name)
    except StoreDamaged:
        return None


def _text(store: Store, recorded: States, state: CommandState) -> bytes | None:
    """Return a state that is text, None if it is large, or is no text. Raises StoreDamaged."""
    if state.bytes > MOST_COMPARED:
        return None
    data = b"".join(segments.content(store.reader, states.stored(store.reader, recorded, state)))
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if b"\0" in data else data
