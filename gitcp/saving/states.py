"""States outside the files, such as a database, as a part of checkpoints: what the user's command
writes to its standard output (gitcp.state.state_commands).

The content is at `.gitcp/states/<name>/`, in segments as a stream of a conversation is: what is the
same at the beginning and at the end of the last one is stored once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import IO, NamedTuple

from gitcp import humanize, progress
from gitcp.conversation import segments
from gitcp.conversation.segments import Segment
from gitcp.errors import GitcpError, StoreDamaged
from gitcp.git import trees
from gitcp.git.fsync import make_own_directory
from gitcp.git.reader import ObjectReader
from gitcp.model import TREE, CommandState, Entry, Oid, States, Trigger
from gitcp.progress import Advance
from gitcp.state import state_commands
from gitcp.state.state_commands import Ended, StateCommand
from gitcp.store import Store
from gitcp.value import replace

TRAILER = "Gitcp-States"

FAR = 1000
"""Checkpoints among which the last one with a state is searched."""


class Captured(NamedTuple):
    """The states of a save, None if it has none, and why some are missing, in words for the screen:
    the end of what a command said is not for a checkpoint. `allowable`: some were not run for want
    of the user's word.
    """

    states: States | None = None
    troubles: tuple[str, ...] = ()
    allowable: bool = False


def due(
    store: Store, trigger: Trigger, names: Collection[str] = (), *, tagged: bool = False
) -> tuple[StateCommand, ...]:
    """Return the commands of the states that a save has: those `names`, or those that are due."""
    commands = state_commands.listing(store.repo)
    if names:
        return tuple(each for each in commands if each.name in names)
    return tuple(each for each in commands if each.save and each.is_due(trigger, tagged=tagged))


def capture(
    store: Store, commands: Iterable[StateCommand], session: str, *, within: float | None = None
) -> Captured:
    """Run the commands, and store what they write; all of them `within` so many seconds, if given.
    Takes no lock: a command may take its time.

    Writes objects only. One that fails, or takes too long, is recorded as missing.
    """
    each: list[CommandState] = []
    stored: dict[bytes, Entry] = {}
    troubles: list[str] = []
    commands = tuple(commands)
    before = _last(store, session) if commands else None
    end = None if within is None else time.monotonic() + within
    for command in commands:
        if not command.is_named_well:  # no checkpoint can have it
            troubles.append(f"state {command.name!r}: {command.refused}")
            continue
        with progress.task(f"saving state {command.name}", progress.BYTES) as advance:
            state, tree, trouble = _captured(store, command, before, advance, end)
        each.append(state)
        if tree is not None:
            stored[command.name.encode("ascii")] = Entry(TREE, tree)
        if trouble:
            troubles.append(f"state {command.name}: {trouble}")
    if not each:
        return Captured(troubles=tuple(troubles))
    tree = trees.build(store.writer, trees.nest(stored)) if stored else None
    is_allowable = any(command.allowable for command in commands)
    return Captured(States(tuple(each), tree), tuple(troubles), is_allowable)


def attempt(store: Store, command: StateCommand) -> tuple[CommandState, str]:
    """Run the command that saves a state as a save does, and store nothing. Return the state,
    without its checksum, and why it cannot be saved, "" if it can.
    """

    def measured(output: IO[bytes], ended: Ended) -> tuple[CommandState, None]:
        size = os.fstat(output.fileno()).st_size
        return CommandState(command.name, size, "", ended.milliseconds, ended.code), None

    with progress.task(f"trying state {command.name}", progress.BYTES) as advance:
        state, _, trouble = _run(store, command, advance, None, measured)
    return state, trouble


def _captured(
    store: Store,
    command: StateCommand,
    before: States | None,
    advance: Advance,
    end: float | None,
) -> tuple[CommandState, Oid | None, str]:
    """Return a state, the tree of its segments, and why it is missing, with what was said."""

    def stored_segments(output: IO[bytes], ended: Ended) -> tuple[CommandState, Oid]:
        parent = _segments(store.reader, before, command.name)
        cut = segments.cut_file(store.objects, output.fileno(), command.name, parent)
        taken, code = ended.milliseconds, ended.code
        return CommandState(command.name, cut.bytes, cut.sha256, taken, code), cut.tree

    return _run(store, command, advance, end, stored_segments)


def _run(
    store: Store,
    command: StateCommand,
    advance: Advance,
    end: float | None,
    use: Callable[[IO[bytes], Ended], tuple[CommandState, Oid | None]],
) -> tuple[CommandState, Oid | None, str]:
    """Run a command, and let `use` have what it wrote. Return what that returns, and why the state
    is missing, with what was said.
    """
    from subprocess import DEVNULL  # few repositories have such a command
    from tempfile import TemporaryFile

    refused = command.refused or ("" if command.save else "no command saves it")
    if refused:
        return CommandState(command.name, missing=refused), None, refused
    try:
        make_own_directory(store.repo.store_dir)
        # A nameless file: whatever happens, nothing is left of it.
        with TemporaryFile(dir=store.repo.store_dir) as output:
            over = _limits(command, output, advance, end)
            ended = state_commands.run(store.repo, command.save, DEVNULL, output, over)
            if ended.failure or (late := over(0.0)):
                failure = ended.failure or late
                state = CommandState(command.name, 0, "", ended.milliseconds, ended.code, failure)
                return state, None, str(ended) if ended.failure else late
            return *use(output, ended), ""
    except (OSError, GitcpError, segments.Changed) as error:
        failure = f"it cannot be stored ({getattr(error, 'strerror', None) or error})"
        return CommandState(command.name, missing=failure), None, failure


def _limits(
    command: StateCommand, output: IO[bytes], advance: Advance, end: float | None
) -> Callable[[float], str]:
    """Return what says why a command must end; it reports how much that has written. `end` is when
    all of them must (time.monotonic), None for never.
    """
    seen = 0

    def over(seconds: float) -> str:
        nonlocal seen
        before, seen = seen, os.fstat(output.fileno()).st_size
        advance(seen - before)
        if end is not None and time.monotonic() > end:
            return "its command did not end in the time that a hook has for it"
        if seconds > command.timeout:
            limit = humanize.count(command.timeout, "second")
            return f"its command did not end within {limit}"
        if seen > command.largest:
            return f"it is larger than {humanize.size(command.largest)}"
        return ""

    return over


def _last(store: Store, session: str) -> States | None:
    """Return the states of the last checkpoint of a session that has some."""
    tip = store.tip(session)
    for summary in islice(store.readable(tip), FAR):
        if TRAILER in summary.trailers:
            try:
                return store.read(summary.commit).states
            except GitcpError:
                return None
    return None


def _segments(reader: ObjectReader, states: States | None, name: str) -> tuple[Segment, ...]:
    """Return the segments of an earlier state, none if they are damaged: it is stored anew."""
    state = states.of(name) if states else None
    if states is None or state is None:
        return ()
    try:
        return stored(reader, states, state)
    except StoreDamaged:
        return ()


def stored(reader: ObjectReader, states: States, state: CommandState) -> tuple[Segment, ...]:
    """Return the segments of a stored state. Raises StoreDamaged."""
    name = state.name.encode("ascii")
    entry = trees.lookup(reader, states.tree, name) if states.tree else None
    if entry is None or entry.mode != TREE:
        raise StoreDamaged(f"state {state.name} has no content", hint="gitcp doctor --store")
    return segments.read_segments(reader, entry.oid, state.bytes)


def parts(reader: ObjectReader, states: States) -> dict[str, Oid]:
    """Return the tree of each stored state, by name."""
    entries = reader.read_tree(states.tree) if states.tree else []
    names = {state.name for state in states.stored}
    by_name = {entry.name.decode("ascii", "replace"): entry.oid for entry in entries}
    return {name: oid for name, oid in by_name.items() if name in names}


def only(store: Store, states: States, names: Collection[str]) -> States | None:
    """Return the stored states of these names alone; None if there are none. Writes a tree."""
    each = tuple(state for state in states.stored if state.name in names)
    listed = parts(store.reader, states).items()
    entries = {name.encode("ascii"): Entry(TREE, oid) for name, oid in listed if name in names}
    if not each or not entries:
        return None
    return replace(states, each=each, tree=trees.build(store.writer, trees.nest(entries)))


def is_same(now: States | None, before: States | None) -> bool:
    """Return whether an earlier checkpoint has the same content of each state, or lacks it as well:
    one that has what cannot be saved now would be taken for the current state.
    """
    for state in now.each if now else ():
        old = before.of(state.name) if before else None
        was = (old.bytes, old.sha256) if old else None
        if was != (None if state.missing else (state.bytes, state.sha256)):
            return False
    return True
