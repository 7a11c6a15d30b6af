"""Checkpoints for Pydantic AI: each step of a run is a commit with the files.

    from gitcp.pydantic_ai import GitStepStore

    store = GitStepStore("/path/to/repository")
    Agent("…", capabilities=[StepPersistence(store=store)])

`GitStepStore` is a store for the `StepPersistence` of pydantic-ai-harness, whose snapshots have no
files. One store is one gitcp session. Its main stream is the conversation of the last snapshot, for
people; each run has a stream of records, and one for its snapshots of either state.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from datetime import datetime
from hashlib import sha256
from threading import Lock
from typing import Any, TypeVar

from gitcp.integrations.extras import missing

try:
    from anyio import to_thread
    from pydantic_ai.messages import ModelMessagesTypeAdapter
    from pydantic_ai_harness.step_persistence import (
        ContinuableSnapshot,
        RunRecord,
        StepEvent,
        StepStore,
        ToolEffectRecord,
    )
except ImportError as error:
    raise missing("gitcp.pydantic_ai", "pydantic-ai", error) from None

from gitcp import api, wire
from gitcp.errors import RevisionNotFound
from gitcp.integrations.thread import (
    LOCK,
    Changes,
    StreamContent,
    Thread,
    ThreadContents,
    encode,
    open_for_restore,
    parsed,
    session_name,
)
from gitcp.model import MAIN, Agent, Checkpoint, Host, Trigger
from gitcp.restoring import restore
from gitcp.restoring.restore import Report
from gitcp.state.steps import only

AGENT = "pydantic-ai"

WITH_NEXT = frozenset(
    "run_started model_request_started model_request_completed tool_call_started "
    "tool_call_completed".split()
)
"""Events that are written with the next record of their run: each follows within a step."""

ENDS = ("run_completed", "run_failed")
TIMES = ("timestamp", "started_at", "ended_at")
COMPLETE, INTERRUPTED = "complete", "interrupted"

T = TypeVar("T")


class GitStepStore(StepStore):
    """Stores runs in the repository around `path`, in the gitcp session for `name`.

    A checkpoint with the current files is made when a run is registered, before and after each call
    of a tool, for each snapshot, and when a run ends. Raises what `gitcp.open` raises; its methods
    raise GitcpError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = ".",
        *,
        name: str = "pydantic-ai",
        host: Host | None = None,
    ) -> None:
        self.checkpoints = api.open(path, host=host)
        self.thread = Thread(self.checkpoints, session_name(name), Agent(AGENT, name))
        self._waiting: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._lock = Lock()

    # ------------------------------------------------------------ the framework's protocol

    async def register_run(self, record: RunRecord) -> None:
        """Record that a run begins, in a checkpoint of the files before it."""
        await self._write(record.run_id, {"run": asdict(record)}, Trigger.PROMPT)

    async def get_run(self, *, run_id: str) -> RunRecord | None:
        """Return the record of a run, None if it is unknown."""
        return next(iter(_records(await self._lines(run_id), "run", RunRecord)), None)

    async def list_runs(
        self, *, parent_run_id: str | None = None, conversation_id: str | None = None
    ) -> list[RunRecord]:
        """Return the runs of a parent, of a conversation, or all, in the order of their start."""
        contents = await to_thread.run_sync(self.thread.contents)
        names = [stream.name for stream in contents.streams if stream.name.startswith("runs/")]
        runs = [
            run
            for name in names
            for run in _records(parsed(contents.read(name)), "run", RunRecord)
            if parent_run_id in (None, run.parent_run_id)
            and conversation_id in (None, run.conversation_id)
        ]
        return sorted(runs, key=lambda run: run.started_at)

    async def append_event(self, event: StepEvent) -> None:
        """Record an event: with the next record of its run, or at once where none may follow."""
        line = {"event": asdict(event)}
        if event.kind not in WITH_NEXT:
            await self._write(event.run_id, line, Trigger.TOOLS)
            if event.kind in ENDS:
                await to_thread.run_sync(self.thread.end)
            return
        with self._lock:
            self._waiting[event.run_id].append(line)

    async def list_events(self, *, run_id: str) -> list[StepEvent]:
        """Return the events of a run in their order."""
        lines = await self._lines(run_id)
        with self._lock:
            lines += list(_new(lines, self._waiting[run_id]))
        return [_read(StepEvent, line["event"]) for line in lines if "event" in line]

    async def save_snapshot(self, snapshot: ContinuableSnapshot) -> None:
        """Save the messages of a run together with the files, unless its key is known."""
        await to_thread.run_sync(self._save, snapshot)

    async def latest_snapshot(
        self, *, run_id: str, include_interrupted: bool = False
    ) -> ContinuableSnapshot | None:
        """Return the last complete snapshot of a run; with `include_interrupted`, the last one."""
        contents = await to_thread.run_sync(self.thread.contents)
        for state in (INTERRUPTED, COMPLETE) if include_interrupted else (COMPLETE,):
            if lines := parsed(contents.read(_stream(state, run_id))):
                header, *messages = lines
                header["messages"] = ModelMessagesTypeAdapter.validate_json(wire.dumps(messages))
                return _read(ContinuableSnapshot, header)
        return None

    async def record_tool_effect(self, record: ToolEffectRecord) -> None:
        """Record how a call of a tool stands, with the files as they are."""
        await self._write(record.run_id, {"effect": asdict(record)}, Trigger.TOOLS)

    async def get_tool_effect(self, *, run_id: str, tool_call_id: str) -> ToolEffectRecord | None:
        """Return the last record of a call, None if there is none."""
        return (await self._effects(run_id)).get(tool_call_id)

    async def list_unresolved_tool_effects(self, *, run_id: str) -> list[ToolEffectRecord]:
        """Return the calls that began and did not end."""
        effects = await self._effects(run_id)
        return [effect for effect in effects.values() if effect.status == "started"]

    # ------------------------------------------------------------ going back

    async def restore(
        self, *, run_id: str, step_index: int | None = None, whole_tree: bool = False
    ) -> Report:
        """Restore the files of the last complete snapshot of a run, or of the one at a step; the
        records stay. What others changed since stays; with `whole_tree`, all files are restored.

        The current files are saved first, and `gitcp undo` restores them. Raises RevisionNotFound;
        OthersAffected if others changed the same lines; and Refused as a restore does. Nothing was
        changed then.
        """
        return await to_thread.run_sync(self._restore, run_id, step_index, whole_tree)

    # ------------------------------------------------------------ synchronous

    async def _write(self, run_id: str, line: dict[str, Any], trigger: Trigger) -> None:
        await to_thread.run_sync(self._change, run_id, line, trigger, lambda _: {})

    def _change(
        self,
        run_id: str,
        line: dict[str, Any],
        trigger: Trigger,
        more: Callable[[ThreadContents], Changes],
        **position: str,
    ) -> None:
        """Append a line to the records of a run after the events that wait, and make further
        changes, in one checkpoint; none for a key that is known.
        """
        stream = _stream("runs", run_id)
        with self._lock:
            waiting = self._waiting.pop(run_id, [])

        def changed(contents: ThreadContents) -> Changes | None:
            existing = contents.read(stream)
            lines = parsed(existing)
            added = list(_new(lines, [*waiting, line]))
            if line not in added:
                return None
            # A run that is registered again replaces its record, as in the framework's own stores.
            if "run" in line:
                existing = encode(each for each in lines if "run" not in each)
            return {stream: StreamContent(existing + encode(added)), **more(contents)}

        if self.thread.change(changed, trigger=trigger, position=position) is None and waiting:
            with self._lock:
                self._waiting[run_id][:0] = waiting

    def _save(self, snapshot: ContinuableSnapshot) -> None:
        header = {name: value for name, value in vars(snapshot).items() if name != "messages"}
        run_id, state = snapshot.run_id, snapshot.state
        messages = wire.loads(ModelMessagesTypeAdapter.dump_json(snapshot.messages))

        def kept(contents: ThreadContents) -> Changes:
            content = StreamContent(encode([header, *messages]))
            changes: dict[str, StreamContent | None] = {_stream(state, run_id): content}
            if state == COMPLETE:
                names = {stream.name for stream in contents.streams}
                changes |= dict.fromkeys({_stream(INTERRUPTED, run_id)} & names)
            if snapshot.parent_run_id is None:
                changes[MAIN] = StreamContent(encode(_dialogue(messages)))
            return changes

        position = {"run": run_id, "step": str(snapshot.step_index), "state": state}
        line = {"snapshot": {"idempotency_key": snapshot.idempotency_key}}
        self._change(run_id, line, Trigger.TURN, kept, **position)

    def _restore(self, run_id: str, step_index: int | None, whole_tree: bool) -> Report:
        store, name = self.checkpoints.store(), self.thread.name
        with only(store, name, LOCK):
            opened = open_for_restore(self.checkpoints, name)
            target = self._snapshot(run_id, step_index)
            request = opened.request(
                store, target, whole_tree=whole_tree, conversation=False, program=name
            )
            return restore.restore(store, request)

    def _snapshot(self, run_id: str, step_index: int | None) -> Checkpoint:
        """Return the checkpoint of the last complete snapshot, or of the last one at a step."""
        for contents in self.thread.history():
            assert contents.checkpoint is not None
            position = contents.checkpoint.note.position
            if contents.checkpoint.trigger is not Trigger.TURN or position.get("run") != run_id:
                continue
            if position.get("step") == str(step_index) or (
                step_index is None and position.get("state") == COMPLETE
            ):
                return contents.checkpoint
        at = "" if step_index is None else f" at step {step_index}"
        raise RevisionNotFound(
            f"run {run_id!r} has no snapshot{at}; nothing was changed",
            hint=f"gitcp log {self.thread.name}",
        )

    async def _lines(self, run_id: str) -> list[Any]:
        contents = await to_thread.run_sync(self.thread.contents)
        return parsed(contents.read(_stream("runs", run_id)))

    async def _effects(self, run_id: str) -> dict[str, ToolEffectRecord]:
        records = _records(await self._lines(run_id), "effect", ToolEffectRecord)
        return {record.tool_call_id: record for record in records}


def _new(existing: list[Any], lines: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the lines whose key is unknown, or that have none. A snapshot is also left out if its
    number is lower than that of one before: it was replaced since.
    """
    keys = {(kind, key) for line in existing for kind, key in _keys(line)}
    last = max((_number(key) for kind, key in keys if kind == "snapshot"), default=-1)
    for line in lines:
        own = set(_keys(line))
        replaced = any(kind == "snapshot" and -1 < _number(key) < last for kind, key in own)
        if not (own & keys or replaced):
            keys |= own
            yield line


def _keys(line: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the kind and the key of an event or a snapshot; an effect may have the same key in each
    of its states.
    """
    for kind in ("event", "snapshot"):
        if kind in line and line[kind]["idempotency_key"] is not None:
            yield kind, line[kind]["idempotency_key"]


def _number(key: str) -> int:
    """Return the number that a key of a snapshot begins with, -1 without one."""
    number, separator, _ = key.partition(":")
    return int(number) if separator and number.isascii() and number.isdigit() else -1


def _records(lines: list[Any], kind: str, made: Callable[..., T]) -> list[T]:
    return [_read(made, line[kind]) for line in lines if kind in line]


def _read(made: Callable[..., T], fields: dict[str, Any]) -> T:
    """Return a record of the framework from its fields."""
    times = {name: fields[name] for name in TIMES if isinstance(fields.get(name), str)}
    return made(**fields | {name: datetime.fromisoformat(time) for name, time in times.items()})


def _dialogue(messages: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield messages as gitcp shows a conversation."""
    for message in messages:
        for part in message["parts"]:
            kind, content = part["part_kind"], part.get("content")
            if kind == "user-prompt":
                yield {"role": "user", "content": content}
            elif kind == "text":
                yield {"role": "assistant", "content": content}
            elif kind == "tool-call":
                call = {"type": "tool_use", "id": part["tool_call_id"], "name": part["tool_name"]}
                yield {"role": "assistant", "content": [{**call, "input": part["args"]}]}
            elif kind == "tool-return":
                result = {"type": "tool_result", "tool_use_id": part["tool_call_id"]}
                yield {"role": "user", "content": [{**result, "content": content}]}


def _stream(kind: str, run_id: str) -> str:
    return f"{kind}/{sha256(run_id.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
