"""Restore the memory that an agent keeps of the project, together with its conversation: else it
went back, and still knew what came later.

Each file becomes that of the target. Lines that another session of the agent wrote since then stay:
its transcript has the call that wrote them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from gitcp import adapters, clock, humanize, regular, wire
from gitcp.adapters import base
from gitcp.adapters.base import Message
from gitcp.errors import GitcpError, Refused, StoreDamaged
from gitcp.git.fsync import replacing, sync_directory, write_all
from gitcp.model import MAIN, Checkpoint, Oid
from gitcp.restoring.apply import EDITED
from gitcp.restoring.placing import make_private
from gitcp.restoring.plan import Kept
from gitcp.restoring.request import RestoreRequest
from gitcp.saving import memory
from gitcp.store import Store
from gitcp.value import Value, replace

COMMANDS = ("command", "cmd")
"""Arguments of tools that a shell runs: what they write is somewhere in them."""

REPLACED = "old"
"""Begins the names of arguments with the text that an edit replaces."""


UNKNOWN = "the checkpoint could not save it"
DAMAGED = "not restored: its stored copy is damaged"
TOO_LARGE = f"not restored: it has more than {humanize.size(memory.LARGEST)}"
MANY = 2000
"""Lines of a file from which those that are frequent are not matched one by one: a file of 1 MiB
with few different lines took 40 seconds.
"""


class MemoryStep(Value):
    """A file of a memory to write or remove: `old` and `new` are its bytes, None if it does not
    exist. `kept` are lines of other sessions, with the agent's id of each.
    """

    path: str
    old: bytes | None
    new: bytes | None
    kept: tuple[tuple[str, str], ...] = ()


class MemoryPlan(Value):
    """What becomes of an agent's memory of the project, which is in `directory`. `left` are files
    that should be restored and cannot be.
    """

    agent: str
    directory: Path
    steps: tuple[MemoryStep, ...]
    left: tuple[Kept, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.left) or any(step.old != step.new for step in self.steps)

    @property
    def written(self) -> tuple[str, ...]:
        """The files to write, by their paths in the memory."""
        return tuple(s.path for s in self.steps if s.new is not None and s.new != s.old)

    @property
    def removed(self) -> tuple[str, ...]:
        """The files to remove."""
        return tuple(s.path for s in self.steps if s.new is None)

    @property
    def kept(self) -> tuple[tuple[str, str, str], ...]:
        """The lines of other sessions that stay: file, line, and the agent's id of the session."""
        return tuple((s.path, *each) for s in self.steps for each in s.kept)

    def place(self, path: str) -> bytes:
        """Return where a file of the memory is."""
        return os.fsencode(self.directory / path)

    def without(self, kept: Iterable[Kept]) -> MemoryPlan:
        """Return the plan without the steps of these files."""
        places = {one.path for one in kept}
        steps = tuple(step for step in self.steps if self.place(step.path) not in places)
        return replace(self, steps=steps)


def plan(store: Store, request: RestoreRequest) -> MemoryPlan | None:
    """Return what a restore would do to the agent's memory; None if it leaves it, or if the target
    was saved without. Reads the agent's files and writes nothing.
    """
    agent, target = _agent(request), request.target
    if agent is None or not memory.is_known(target.memory, agent):
        return None
    directory = adapters.memory(agent, store.repo.root, store.repo.host)
    if directory is None:
        return None
    try:
        blobs = memory.files(store.reader, target.memory, agent)
    except StoreDamaged:
        whole = Kept(os.fsencode(directory), DAMAGED, missing=True)
        return MemoryPlan(agent, directory, (), (whole,))
    now = memory.current(store, agent)
    wanted, unusable = _contents(store, blobs, now)
    differing = sorted(path for path in wanted | now if wanted.get(path) != now.get(path))
    unknown = {
        path
        for path in differing
        if path not in wanted and memory.is_skipped(target.memory, agent, path)
    }
    writers = _Writers(store, agent, directory, target)
    steps = (
        _step(path, wanted.get(path), now.get(path), writers)
        for path in differing
        if path not in unusable and path not in unknown
    )
    left = [
        Kept(os.fsencode(directory / path), why, missing=True) for path, why in unusable.items()
    ]
    left += (Kept(os.fsencode(directory / path), UNKNOWN) for path in sorted(unknown))
    return MemoryPlan(agent, directory, tuple(steps), tuple(left))


def _contents(
    store: Store, blobs: Mapping[str, Oid], now: Mapping[str, bytes]
) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return the target's files, and why others cannot be restored. One that is as `now` is not
    read.
    """
    wanted: dict[str, bytes] = {}
    unusable: dict[str, str] = {}
    for path, oid in blobs.items():
        if not base.is_memory(path):
            continue
        if path in now and store.repo.object_format.oid_of("blob", now[path]) == oid:
            wanted[path] = now[path]
            continue
        try:
            data = memory.content(store.reader, oid)
        except StoreDamaged:
            unusable[path] = DAMAGED
            continue
        if data is None:
            unusable[path] = TOO_LARGE
        else:
            wanted[path] = data
    return wanted, unusable


def _agent(request: RestoreRequest) -> str | None:
    """Return the agent whose memory is restored, None if none is."""
    if request.memory is not None:
        return request.memory or None
    conversation, agent = request.stored
    return agent.name if request.conversation and conversation and agent else None


def _step(path: str, wanted: bytes | None, now: bytes | None, writers: _Writers) -> MemoryStep:
    """Return what becomes of a file: that of the target, with what other sessions added since."""
    before = (wanted or b"").splitlines(keepends=True)
    after = (now or b"").splitlines(keepends=True)
    new: list[bytes] = []
    kept: list[tuple[str, str]] = []
    matcher = SequenceMatcher(None, before, after, autojunk=len(after) > MANY)
    for _, i, j, k, m in matcher.get_opcodes():
        new += before[i:j]
        if before[i:j] != after[k:m]:
            for line, session in _of_others(path, after[k:m], writers):
                if new and not new[-1].endswith(b"\n"):
                    new[-1] += b"\n"
                new.append(line)
                if line.strip():
                    kept.append((line.decode("utf-8", "replace").strip(), session))
    text = b"".join(new)
    return MemoryStep(path, now, text if text or wanted is not None else None, tuple(kept))


def _of_others(path: str, lines: Iterable[bytes], writers: _Writers) -> Iterator[tuple[bytes, str]]:
    """Yield the added lines that other sessions wrote; a blank one belongs to the one before."""
    session = ""
    for line in lines:
        text = line.decode("utf-8", "replace").strip()
        session = writers.other(path, text) if text else session
        if session:
            yield line, session


# ---------------------------------------------------------------- who wrote a line


class _Call(NamedTuple):
    """A call of a tool: when, in which session, and the texts that it was given, and those of them
    that it wrote; a shell's `command` is searched.
    """

    time: float
    session: str
    texts: tuple[str, ...]
    written: frozenset[str]
    command: str


class _Writers:
    """The sessions of an agent that wrote to a memory after a checkpoint."""

    def __init__(self, store: Store, agent: str, directory: Path, target: Checkpoint) -> None:
        self._store, self._agent, self._directory = store, agent, directory
        self._target = target

    def other(self, path: str, line: str) -> str:
        """Return the session that wrote a line first, "" if it is the one that is restored, or if
        no transcript tells.
        """
        name = path.rpartition("/")[2]
        for call in self._calls:
            is_named = any(name in text for text in call.texts)
            if is_named and (line in call.written or line in call.command):
                return "" if call.session in self._own else call.session
        return ""

    @cached_property
    def _own(self) -> frozenset[str]:
        tip = self._store.tip(self._target.id.session)
        chain = self._store.readable(tip) if tip else ()
        return frozenset(each.trailers.get("Gitcp-Agent-Session", "") for each in chain)

    @cached_property
    def _calls(self) -> list[_Call]:
        since = self._target.created.timestamp()
        calls = [
            call
            for listed in adapters.list_all(self._store.repo.host, self._agent)
            if listed.found.modified >= since
            for call in self._of_session(listed)
            if call.time >= since
        ]
        return sorted(calls, key=lambda call: call.time)

    def _of_session(self, listed: base.Listed) -> Iterator[_Call]:
        """Yield the calls of a session that shares this memory."""
        captured = listed.capture()
        host, session = self._store.repo.host, listed.found.session_id
        start = captured.directory
        if start is None or adapters.memory(self._agent, start, host) != self._directory:
            return
        adapter = adapters.load(self._agent)
        for source in captured.sources:
            if source.path is None or not (source.name == MAIN or source.name.startswith("agents")):
                continue
            with suppress(OSError), regular.opened(source.path) as file:
                for message in adapter.messages(line.removesuffix(b"\n") for line in file):
                    call = _call(message, session)
                    if call is not None:
                        yield call


def _call(message: Message, session: str) -> _Call | None:
    seconds = clock.parsed(message.time)
    if message.role != "assistant" or message.tool is None or seconds is None:
        return None
    arguments = wire.parse_line(message.text.encode("utf-8", "replace")) or {}
    texts = tuple(_texts(arguments))
    replaced = {line for name, text in texts if name.startswith(REPLACED) for line in _lines(text)}
    given = {line for name, text in texts if not name.startswith(REPLACED) for line in _lines(text)}
    return _Call(
        seconds,
        session,
        tuple(text for _, text in texts),
        frozenset(given - replaced),
        "\n".join(text for name, text in texts if name in COMMANDS),
    )


def _texts(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts in the arguments of a call, each with the name of its field."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, name)


def _lines(text: str) -> set[str]:
    return {line.strip() for line in text.split("\n")} - {""}


# ---------------------------------------------------------------- writing


def leave_edited(store: Store, planned: MemoryPlan, before: Checkpoint) -> MemoryPlan:
    """Return the plan of an interrupted restore without the files edited since: they are neither as
    in `before`, its safety checkpoint, nor as it writes them.
    """
    saved = memory.files(store.reader, before.memory, planned.agent)

    def is_edited(step: MemoryStep) -> bool:
        if step.old is None or step.old == step.new:
            return False
        return store.repo.object_format.oid_of("blob", step.old) != saved.get(step.path)

    edited = (step.path for step in planned.steps if is_edited(step))
    kept = tuple(Kept(planned.place(path), EDITED, missing=True) for path in edited)
    return replace(planned.without(kept), left=(*planned.left, *kept))


def not_begun(planned: MemoryPlan) -> tuple[Kept, ...]:
    """Return what is kept of a memory whose conversation could not be written."""
    if not any(step.old != step.new for step in planned.steps):
        return planned.left
    reason = "not restored: its conversation was not"
    return (*planned.left, Kept(os.fsencode(planned.directory), reason, missing=True))


def write(store: Store, planned: MemoryPlan, safety: Checkpoint) -> tuple[Kept, ...]:
    """Write what is planned; return what was not restored, with the reasons. A file that the
    safety checkpoint does not have as it is now stays.
    """
    saved = memory.files(store.reader, safety.memory, planned.agent)
    kept = list(planned.left)
    for step in planned.steps:
        if step.old == step.new:
            continue
        path = planned.directory / step.path
        try:
            _require_saved(store, path, step, saved)
            _write(planned.directory, path, step.new)
        except (GitcpError, OSError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            kept.append(Kept(os.fsencode(path), f"not restored: {reason}", missing=True))
    return tuple(kept)


def _require_saved(store: Store, path: Path, step: MemoryStep, saved: Mapping[str, Oid]) -> None:
    """Raise Refused if a file changed since the plan was made, or is not saved."""
    now = regular.content(path, memory.LARGEST) if os.path.lexists(path) else None
    oid = store.repo.object_format.oid_of("blob", now) if now is not None else None
    if now != step.old or oid != saved.get(step.path):
        raise Refused("it changed in the meantime and was kept")


def _write(directory: Path, path: Path, content: bytes | None) -> None:
    below = Path(os.path.realpath(directory), path.parent.relative_to(directory))
    if os.path.realpath(path.parent) != str(below) or path.is_symlink():
        raise Refused("a link is in its place")
    if content is None:
        path.unlink()
        sync_directory(path.parent)
        return
    make_private(path.parent)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    with replacing(path, mode=mode, private=True) as descriptor:
        write_all(descriptor, content)
