"""GitSaver's operations on sessions and checkpoints: put, read, drop and copy threads, restore
files.

The serializer is an argument of each call: a graph may pass a stricter one. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from os import PathLike
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import WRITES_IDX_MAP

from gitcp import api
from gitcp.api.opened import start_housekeeping
from gitcp.errors import BadValue, Refused, RevisionNotFound
from gitcp.git import refs
from gitcp.git.gathering import MANY, Gathering
from gitcp.integrations.fast_store import FastStore
from gitcp.langgraph import reading, record, threads
from gitcp.langgraph.keys import (
    COPY,
    PUT,
    WRITES,
    Key,
    Requested,
    config_of,
    parse_key,
    session_name,
)
from gitcp.langgraph.record import Loaded, StoredValue, Typed
from gitcp.langgraph.threads import CheckpointRef, Thread
from gitcp.lifecycle import delete, drop, fork
from gitcp.model import (
    Agent,
    Conversation,
    Host,
    Note,
    Oid,
    Snapshot,
    State,
    Trigger,
)
from gitcp.restoring import restore
from gitcp.saving import save
from gitcp.saving.recorded import Recorded, encode, no_files
from gitcp.saving.session import GIVEN, Choice
from gitcp.state import journal, settings
from gitcp.value import replace
from gitcp.worktree.snapshot import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langgraph.checkpoint.base import CheckpointTuple
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from gitcp.git.write_ahead_log import WriteAheadLog
    from gitcp.restoring.restore import Report
    from gitcp.store import Store

AGENT = "langgraph"
USES = 256
"""Number of calls after which the store is reopened: it caches every tree it reads."""
THREADS = 64
NOBODY_RAN = ("update", "fork")
"""Sources of checkpoints made without running a node: they keep the previous checkpoint's files."""


class ThreadStore:
    """The threads of one repository."""

    def __init__(
        self,
        path: str | PathLike[str] | None,
        worktree: str | PathLike[str] | None,
        messages: str | None,
        host: Host | None,
    ) -> None:
        self.opened = api.open(worktree or path or ".", host=host)
        self.has_files = worktree is not None
        self.messages = messages
        self._threads: dict[str, Thread] = {}
        self._gathering = Gathering()
        self._saves = 0
        self._log: WriteAheadLog | None = None
        self._store = self._open()
        if (
            worktree
            and path
            and api.open(path, host=host).store().repo.common_dir != self._store.repo.common_dir
        ):
            raise BadValue(f"{worktree} is not a working tree of the repository at {path}")

    # ------------------------------------------------------------ what is there

    def store(self) -> FastStore:
        """Return the store that calls share."""
        self._uses += 1
        if self._uses > USES:
            self._store = self._open()
        return self._store

    def _open(self) -> FastStore:
        self._uses = 0
        store = FastStore(self.opened.repository(), self._gathering, self._log)
        self._log = store.log
        return store

    def thread(self, name: str) -> Thread:
        """Return the current index of a thread."""
        return self._indexed(session_name(name))

    def _indexed(self, session: str) -> Thread:
        thread = self._threads.pop(session, None) or Thread(session)
        self._threads[session] = thread  # the one used last comes last
        while len(self._threads) > THREADS:
            del self._threads[next(iter(self._threads))]
        writes = self._log.writes(refs.SESSIONS + session) if self._log else ()
        thread.follow(self.store(), writes)
        return thread

    # ------------------------------------------------------------ read

    def one(self, serde: SerializerProtocol, ask: Requested, runs: bool) -> CheckpointTuple | None:
        """Return the requested checkpoint. If a graph `runs` from a checkpoint by
        id, its files are restored first.
        """
        thread = self.thread(ask.thread)
        ref = (ask.ns or "", ask.id) if ask.id else thread.latest(ask.ns or "")
        if ref is None or ref not in thread.puts:
            return None
        if runs and ask.id and not ask.ns and self.has_files:
            self._restore_for_run(thread, ref)
        return reading.tuple_of(self.store(), serde, thread, ref)

    def list_refs(
        self, ask: Requested | None, before: str | None
    ) -> list[tuple[str, CheckpointRef]]:
        """Return the sessions and checkpoints of a listing, greatest ids first."""
        names = [session_name(ask.thread)] if ask else threads.sessions(self.store())
        in_sessions = [(name, ref) for name in names for ref in self._indexed(name).puts]
        if ask is not None:
            in_sessions = [
                (name, at)
                for name, at in in_sessions
                if ask.ns in (None, at[0]) and ask.id in (None, at[1])
            ]
        selected = [item for item in in_sessions if before is None or item[1][1] < before]
        return sorted(selected, key=lambda item: item[1][1], reverse=True)

    def page(
        self,
        serde: SerializerProtocol,
        refs: Iterator[tuple[str, CheckpointRef]],
        filter: Mapping[str, Any] | None,
        size: int,
    ) -> list[CheckpointTuple | None]:
        """Return the next checkpoints of a listing, as many as `size` unless it ends; None for one
        that the filter does not match, or that was dropped in the meantime.
        """
        return [self._listed(serde, *each, filter) for each in islice(refs, size)]

    def _listed(
        self,
        serde: SerializerProtocol,
        session: str,
        ref: CheckpointRef,
        filter: Mapping[str, Any] | None,
    ) -> CheckpointTuple | None:
        thread = self._indexed(session)
        if ref not in thread.puts:
            return None
        metadata = reading.metadata_of(self.store(), serde, thread, ref) if filter else {}
        if filter and any(
            name not in metadata or metadata[name] != value for name, value in filter.items()
        ):
            return None
        return reading.tuple_of(self.store(), serde, thread, ref)

    # ------------------------------------------------------------ put

    def put(
        self,
        serde: SerializerProtocol,
        ask: Requested,
        checkpoint: Mapping[str, Any],
        metadata: Mapping[str, Any],
        new_versions: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Save a checkpoint as one commit, and return its config."""
        thread, ns, id = self.thread(ask.thread), ask.ns or "", str(checkpoint["id"])
        key = Key(PUT, ask.thread, ns, id, ask.id or "", str(metadata.get("run_id") or ""))
        with self._writing(thread) as store:
            values = self._values(store, serde, thread, key, checkpoint, new_versions)
            rest = {name: value for name, value in checkpoint.items() if name != "channel_values"}
            cache = thread.known.setdefault(ns, {})
            for name, value in ((reading.CHECKPOINT, rest), (reading.METADATA, dict(metadata))):
                values[name] = record.store_value(
                    store.objects, cache, name, dumped(serde, value, name, key)
                )
            fields = {**key._asdict(), "versions": dict(checkpoint["channel_versions"])}
            files = self._files(store, thread, key, metadata)
            tree = record.write(store.objects, fields, values)
            conversation = self._conversation(
                store, serde, thread, key, checkpoint["channel_values"].get(self.messages)
            )
            position = {
                "checkpoint_id": id,
                "checkpoint_ns": ns,
                "step": str(metadata.get("step", "")),
                "source": str(metadata.get("source", "")),
                "task": "",
            }
            commit = self._save(
                store, thread, key, tree, position, Trigger.TURN, files, conversation
            )
            reading.remember(thread, commit, Loaded(fields, values))
        return config_of(ask.thread, ns, id)

    def _values(
        self,
        store: Store,
        serde: SerializerProtocol,
        thread: Thread,
        key: Key,
        checkpoint: Mapping[str, Any],
        new_versions: Mapping[str, Any],
    ) -> dict[str, StoredValue]:
        """Return the channels' values: new ones stored, the others shared with the parent."""
        new_values, values = checkpoint["channel_values"], {}
        parent = reading.record_of(store, thread, (key.ns, key.parent))
        versions = parent.fields["versions"] if parent else {}
        cache = thread.known.setdefault(key.ns, {})
        for channel, version in checkpoint["channel_versions"].items():
            name = reading.CHANNEL + channel
            if channel not in new_versions and parent and versions.get(channel) == version:
                if name in parent.values:
                    values[name] = parent.values[name]
            elif channel in new_values:
                values[name] = record.store_value(
                    store.objects, cache, name, dumped(serde, new_values[channel], channel, key)
                )
        return values

    def put_writes(
        self,
        serde: SerializerProtocol,
        ask: Requested,
        writes: Sequence[tuple[str, Any]],
        task: str,
        path: str,
    ) -> None:
        """Save a task's writes as one commit."""
        key, fields, typed = _written(serde, ask, writes, task, path)
        thread = self.thread(ask.thread)
        with self._writing(thread) as store:
            values = {
                name: record.store_value(store.objects, {}, name, value)
                for name, value in typed.items()
            }
            files = self._files(store, thread, key, {})
            tree = record.write(store.objects, fields, values)
            commit = self._save(
                store, thread, key, tree, _position(key, task), Trigger.TOOLS, files, None
            )
            reading.remember(thread, commit, Loaded(fields, values))

    def record_writes(
        self,
        serde: SerializerProtocol,
        ask: Requested,
        writes: Sequence[tuple[str, Any]],
        task: str,
        path: str,
    ) -> bool:
        """Record a task's writes for a commit that is made later. Return False, with nothing
        recorded, if they must be one at once: they have files, or much content. For any thread.
        """
        if self.has_files or self._log is None:
            return False
        key, fields, values = _written(serde, ask, writes, task, path)
        state = record.files(fields, values)
        if state is None:
            return False
        now, agent = self.opened.host.now(), Agent(AGENT, key.thread)
        given = Recorded(now, Trigger.TOOLS, agent, _position(key, task), str(key), state)
        self._log.write(refs.SESSIONS + session_name(key.thread), encode(given))
        return True

    @contextmanager
    def _writing(self, thread: Thread) -> Iterator[FastStore]:
        """Yield the store to write to. On failure, written objects and cached state are
        discarded.
        """
        store = self.store()
        try:
            yield store
        except BaseException:
            store.writer.discard()
            thread.forget()
            raise

    def _save(
        self,
        store: FastStore,
        thread: Thread,
        key: Key,
        tree: Oid,
        position: Mapping[str, str],
        trigger: Trigger,
        files: Snapshot | None,
        conversation: Conversation | None,
    ) -> Oid:
        request = save.SaveRequest(
            cwd=self.opened.path,
            note=Note(position=position),
            trigger=trigger,
            limits=settings.limits(store.repo) if files is None else Limits(),
            force=True,
            choice=Choice(thread.session, None, GIVEN),
            state=State(tree, str(key)),
            files=files,
            parent=thread.last,
            stored=(conversation, Agent(AGENT, key.thread))
            if thread.tip is None or conversation
            else None,
        )
        checkpoint = thread.last = save.save(store, request).checkpoint
        self._saves += 1
        if self._saves % MANY == 0:  # as many as make a pack
            start_housekeeping(store, checkpoint.id)
        made = [*store.committed, checkpoint]
        if made[0].parent == thread.tip:
            for each in made:
                assert each.state is not None
                thread.add(each.commit, parse_key(each.state.key))
            thread.tip = checkpoint.commit
        return checkpoint.commit

    def _files(
        self, store: Store, thread: Thread, key: Key, metadata: Mapping[str, Any]
    ) -> Snapshot | None:
        """Return the files to save; None for the current ones."""
        if not self.has_files:
            return no_files(store)
        parent = thread.puts.get((key.ns, key.parent))
        return (
            store.read(parent[0]).snapshot
            if parent and metadata.get("source") in NOBODY_RAN
            else None
        )

    def _conversation(
        self, store: Store, serde: SerializerProtocol, thread: Thread, key: Key, messages: Any
    ) -> Conversation | None:
        """Return the conversation for display; None for sub-graphs and for encrypted states."""
        return (
            None
            if key.ns or not _is_plain(serde)
            else thread.talk.store(store, messages, thread.tip)
        )

    # ------------------------------------------------------------ drop and copy

    def delete(self, name: str) -> None:
        """Move a thread to the trash."""
        store, thread = self.opened.store(), self.thread(name)
        if thread.tip is not None:
            delete.delete(store, thread.session)
        self._threads.pop(thread.session, None)

    def delete_runs(self, runs: set[str]) -> None:
        """Move the checkpoints of these runs to the trash."""
        for session in threads.sessions(self.store()) if runs else ():
            thread = self._indexed(session)
            self._drop(thread, {ref for ref, (_, key) in thread.puts.items() if key.run in runs})

    def prune(self, serde: SerializerProtocol, names: Sequence[str], strategy: str) -> None:
        """Move all but what `strategy` keeps to the trash."""
        if strategy not in ("keep_latest", "delete"):
            raise BadValue(
                f"unknown strategy {strategy!r}; nothing was dropped",
                hint="use keep_latest or delete",
            )
        for name in names:
            if strategy == "delete":
                self.delete(name)
                continue
            thread = self.thread(name)
            latest = {thread.latest(ns) for ns, _ in thread.puts}
            needed = {
                at
                for ref in latest
                if ref
                for at in reading.needed(self.store(), serde, thread, ref)
            }
            self._drop(thread, thread.puts.keys() - needed)

    def _drop(self, thread: Thread, dropped: set[CheckpointRef]) -> None:
        if dropped and dropped == thread.puts.keys():
            self.delete(thread.name or "")
        elif dropped:
            drop.drop(
                self.opened.store(),
                thread.session,
                lambda history: threads.unwanted(history, dropped),
            )
            self._threads.pop(thread.session, None)

    def copy(self, source: str, target: str) -> None:
        """Start a session at the last commit of another, which it shares."""
        store = self.opened.store()
        old, new = self.thread(source), self.thread(target)
        if old.tip is None:
            return
        if new.tip is not None:
            raise Refused(f"thread {target} already exists; nothing was copied")
        key = Key(COPY, target)
        point = store.read(old.tip)
        state = State(record.write(store.objects, {**key._asdict(), "from": source}, {}), str(key))
        fork.begin(store, point, new.session, target, state)

    # ------------------------------------------------------------ files

    def restore(self, ask: Requested) -> Report | None:
        """Restore files; of the last checkpoint, with the changes of tasks finished since."""
        thread = self.thread(ask.thread)
        ns = ask.ns or ""
        ref = (ns, ask.id) if ask.id else thread.latest(ns)
        if ref is None or ref not in thread.puts:
            missing = f"checkpoint {ask.id}" if ask.id else "checkpoint"
            raise RevisionNotFound(
                f"thread {ask.thread} has no {missing}; nothing was changed", hint="gitcp sessions"
            )
        return self._restore_files(thread, ref, latest=not ask.id)

    def _restore_for_run(self, thread: Thread, ref: CheckpointRef) -> None:
        """Restore files before a run. Raises Refused if any file cannot be restored."""
        report = self._restore_files(thread, ref, latest=False)
        if report is not None and report.failed:
            missing = ", ".join(
                not_restored.path.decode("utf-8", "replace")
                for not_restored in report.kept
                if not_restored.missing
            )
            raise Refused(
                f"cannot restore all files of checkpoint {ref[1]}: {missing}", hint="gitcp undo"
            )

    def _restore_files(self, thread: Thread, ref: CheckpointRef, *, latest: bool) -> Report | None:
        store = self.opened.store()
        if journal.unfinished(store.repo) is not None:
            self.opened.finish(forward=True)
        commit = thread.newest_commit(ref) if latest else thread.puts[ref][0]
        assert commit is not None
        target = store.read(commit)
        request = replace(self.opened.request(store, target, whole_tree=True), conversation=False)
        plan = restore.plan(store, request)
        return (
            restore.restore(store, request)
            if plan.files or any(not_restored.missing for not_restored in plan.files.kept)
            else None
        )


def _written(
    serde: SerializerProtocol,
    ask: Requested,
    writes: Sequence[tuple[str, Any]],
    task: str,
    path: str,
) -> tuple[Key, dict[str, Any], dict[str, Typed]]:
    """Return a task's writes as a record: its key, its fields and its values."""
    if ask.id is None:
        raise BadValue("the config has no checkpoint_id for these writes; nothing was saved")
    key = Key(WRITES, ask.thread, ask.ns or "", ask.id)
    values = {
        str(n): dumped(serde, value, channel, key) for n, (channel, value) in enumerate(writes)
    }
    listed = [[WRITES_IDX_MAP.get(channel, n), channel] for n, (channel, _) in enumerate(writes)]
    return key, {**key._asdict(), "task": task, "path": path, "writes": listed}, values


def _position(key: Key, task: str) -> dict[str, str]:
    return {"checkpoint_id": key.id, "checkpoint_ns": key.ns, "task": task}


def dumped(serde: SerializerProtocol, value: Any, name: str, key: Key) -> Typed:
    """Serialize a value. Raises BadValue if that fails."""
    try:
        return Typed(*serde.dumps_typed(value))
    except Exception as error:
        raise BadValue(
            f"cannot serialize {name} of thread {key.thread}: {error}; nothing was saved",
            hint="remove it from the state, or pass a serde",
        ) from error


def _is_plain(serde: SerializerProtocol) -> bool:
    """Return whether the serializer's output is readable without a key."""
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    return isinstance(serde, JsonPlusSerializer)
