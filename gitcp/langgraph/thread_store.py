"""GitSaver's operations on sessions and checkpoints: put, read, drop and copy threads, restore
files.

The serializer is an argument of each call: a graph may pass a stricter one. One thread at a time
may call these functions, and any at the same time those that are said to be for any thread: they
read what is in memory, and record writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.runnables.config import var_child_runnable_config
from langgraph.checkpoint.base import WRITES_IDX_MAP

from gitcp import api
from gitcp.api.opened import start_housekeeping
from gitcp.errors import BadValue, GitcpError, Refused, RevisionNotFound
from gitcp.git import refs
from gitcp.git.gathering import MANY, Gathering
from gitcp.integrations.fast_store import FastStore
from gitcp.langgraph import reading, record, threads
from gitcp.langgraph.keys import (
    COPY,
    PUT,
    WRITES,
    CommitKey,
    Requested,
    config_of,
    parse_key,
    session_name,
)
from gitcp.langgraph.reading import NotInMemory, StoredState, ThreadView
from gitcp.langgraph.record import Loaded, StoredValue, TypedBytes
from gitcp.langgraph.threads import CheckpointRef, Thread
from gitcp.lifecycle import delete, fork
from gitcp.model import (
    Agent,
    Checkpoint,
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
from gitcp.state import journal, latest, programs, rewrite, settings
from gitcp.state.numbers import Highest
from gitcp.value import replace
from gitcp.worktree.snapshot import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langgraph.checkpoint.serde.base import SerializerProtocol

    from gitcp.git.write_ahead_log import LoggedWrite, WriteAheadLog
    from gitcp.restoring.restore import Report
    from gitcp.store import Store

AGENT = "langgraph"
USES = 256
"""Number of calls after which the store is reopened: it caches every tree it reads."""
THREADS = 64
WHOLE = 16 << 10
"""Maximum bytes of a task's writes that stay in memory when they become a commit."""
LOOKS = 16
"""Scans that wait for their checkpoint, at most. With durability "exit" only the last one is for a
checkpoint.
"""
NOBODY_RAN = ("update", "fork")
"""Sources of checkpoints made without running a node: they keep the previous checkpoint's files."""

Views = Callable[[str], ThreadView]
"""What returns a session's thread, as one call sees it: the same whenever it asks again."""


class Draft(NamedTuple):
    """A checkpoint to be put: its values serialized, except channels that are not new."""

    key: CommitKey
    checkpoint: Mapping[str, Any]
    metadata: Mapping[str, Any]
    new_versions: Mapping[str, Any]
    values: dict[str, TypedBytes]


class Put:
    """A checkpoint that a thread wants to be saved. When its turn is over, it `is_done` or has an
    `error`.
    """

    def __init__(self, serde: SerializerProtocol, draft: Draft) -> None:
        self.serde, self.draft = serde, draft
        self.session = session_name(draft.key.thread)
        self.commit: Oid | None = None
        self.is_done = False
        self.error: Exception | None = None

    @property
    def is_over(self) -> bool:
        """Return whether nothing is to be done any more."""
        return self.is_done or self.error is not None

    def config(self) -> dict[str, Any]:
        """Return the config of the checkpoint. Raises its error."""
        if self.error is not None:
            raise self.error
        key = self.draft.key
        return config_of(key.thread, key.ns, key.id)


class TaskWrites(NamedTuple):
    """A task's writes as a record."""

    key: CommitKey
    task: str
    fields: dict[str, Any]
    values: dict[str, TypedBytes]


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
        self._gathering, self._highest = Gathering(), Highest()
        self._saves = 0
        self._looks: dict[str, save.Look] = {}
        self._log: WriteAheadLog | None = None
        self._store = self._open()
        with suppress(GitcpError):
            rewrite.settle(self._store)
        self._refs = self._store.repo.refs
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
        self._looks.clear()
        store = FastStore(self.opened.repository(), self._gathering, self._log, self._highest)
        self._log = store.log
        return store

    def thread(self, name: str) -> Thread:
        """Return the current index of a thread."""
        return self.view(session_name(name)).thread

    def view(self, session: str) -> ThreadView:
        """Return what is in a session now. Raises StoreDamaged."""
        # first, as a checkpoint may get them now
        writes = self._log.writes(refs.SESSIONS + session) if self._log else ()
        store = self.store()
        thread = self._current(store, session)
        return ThreadView(thread, thread.parse(writes), store)

    def _current(self, store: Store, session: str) -> Thread:
        """Return the index of a session as it is now. Raises StoreDamaged."""
        thread = (self._threads.get(session) or Thread(session)).follow(store)
        self._threads.pop(session, None)
        self._threads[session] = thread  # the one used last comes last
        while len(self._threads) > THREADS:
            del self._threads[next(iter(self._threads))]
        return thread

    def view_in_memory(self, session: str) -> ThreadView:
        """Return the same without the store, for any thread. Raises NotInMemory if the session has
        moved since it was read or saved here last.
        """
        name = refs.SESSIONS + session
        try:
            writes = self._log.writes(name) if self._log else ()
            tip = self._refs.read(name)
        except GitcpError:
            raise NotInMemory from None
        thread = self._threads.get(session)
        if thread is None or thread.tip != tip:
            raise NotInMemory
        return ThreadView(thread, thread.parse(writes), None)

    # ------------------------------------------------------------ read

    def one(self, ask: Requested, runs: bool, views: Views) -> StoredState | None:
        """Return the requested checkpoint. If a graph `runs` from a checkpoint by
        id, its files are restored first.
        """
        view = views(session_name(ask.thread))
        thread = view.thread
        ref = (ask.ns or "", ask.id) if ask.id else thread.latest(ask.ns or "")
        if ref is None or ref not in thread.puts:
            return None
        if runs and ask.id and not ask.ns and self.has_files:
            view.on_disk()
            self._restore_for_run(thread, ref)
        return reading.stored_of(view, ref)

    def first_page(
        self,
        serde: SerializerProtocol,
        ask: Requested | None,
        before: str | None,
        size: int,
        filter: Mapping[str, Any] | None,
        views: Views,
    ) -> tuple[list[tuple[str, CheckpointRef]], list[StoredState]]:
        """Return the first `size` checkpoints of a listing, as `page` does, and the sessions and
        checkpoints of the rest of it.
        """
        listed = self._list_refs(ask, before, views)
        return listed[size:], self.page(serde, listed[:size], filter, views)

    def _list_refs(
        self, ask: Requested | None, before: str | None, views: Views
    ) -> list[tuple[str, CheckpointRef]]:
        """Return the sessions and checkpoints of a listing, greatest ids first."""
        names = [session_name(ask.thread)] if ask else threads.sessions(self._store)
        in_sessions = [(name, ref) for name in names for ref in [*views(name).thread.puts]]
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
        listed: Sequence[tuple[str, CheckpointRef]],
        filter: Mapping[str, Any] | None,
        views: Views,
    ) -> list[StoredState]:
        """Return these checkpoints of a listing, except those that the filter does not match, or
        that were dropped in the meantime.
        """
        candidates = ((views(session), ref) for session, ref in listed)
        return [
            reading.stored_of(view, ref)
            for view, ref in candidates
            if ref in view.thread.puts and _matches(view, serde, ref, filter or {})
        ]

    # ------------------------------------------------------------ put

    def look(self, version: str) -> None:
        """Scan the files for the checkpoint whose new channels will have this version. It is put
        while the next step is writing already, unless the graph waits for it.
        """
        if len(self._looks) >= LOOKS:
            self._looks.clear()
        with suppress(GitcpError):  # then the files are those when it is put
            store = self.store()
            limits = settings.limits(store.repo)
            self._looks[version] = save.look(store, self.opened.path, limits)

    def is_expected(self, given: TaskWrites) -> bool:
        """Return whether the checkpoint that these writes follow is still to be put: the next step
        may end before. For any thread.
        """
        thread = self._threads.get(session_name(given.key.thread))
        is_put = thread is not None and (given.key.ns, given.key.id) in thread.puts
        return self.has_files and bool(self._looks) and not is_put

    def _looked(self, draft: Draft) -> save.Look | None:
        """Return the scan that was made for a checkpoint; earlier ones are for none."""
        versions = [each for each in draft.new_versions.values() if each in self._looks]
        if not versions:  # no channel is new: the last scan was for this checkpoint, too
            self._looks.clear()
            return None
        version = max(versions)
        made = self._looks[version]
        while (earliest := next(iter(self._looks))) != version:
            del self._looks[earliest]
        del self._looks[version]
        return made

    def put_all(self, puts: Sequence[Put]) -> None:
        """Save each checkpoint as one commit: each is done afterwards, or has its error. Without
        files they share one disk sync.
        """
        if len(puts) > 1 and not self.has_files and self._log:
            with suppress(Exception):  # by itself, each gets its own
                self._put_together(puts)
        for put in puts:
            if not put.is_over:
                try:
                    self._put_together([put])
                except Exception as error:  # noqa: BLE001 -- its own thread raises it
                    put.error = error

    def _put_together(self, puts: Sequence[Put]) -> None:
        sessions = [put.session for put in puts]
        with self._writing(sessions) as store:
            try:
                with store.together(sessions) if len(puts) > 1 else nullcontext():
                    # all of them before a save: then nothing is seen that may not come to be
                    threads = [self._current(store, session) for session in sessions]
                    for put, thread in zip(puts, threads, strict=True):
                        put.commit = self._put(store, ThreadView(thread, {}, store), put)
            finally:
                for put in puts:
                    put.is_done = store.has_moved_to(put.commit)

    def _put(self, store: FastStore, view: ThreadView, put: Put) -> Oid:
        """Save a checkpoint and return its commit, to which the ref may not have moved yet."""
        (key, checkpoint, metadata, _, _), serde = put.draft, put.serde
        thread = view.thread
        values = self._values(store, serde, view, put.draft)
        fields = {**key._asdict(), "versions": dict(checkpoint["channel_versions"])}
        files = self._files(store, thread, key, metadata)
        tree = record.write(store.objects, fields, values)
        conversation = None  # it is for display: none for sub-graphs and for encrypted states
        if not key.ns and _is_plain(serde):
            messages = checkpoint["channel_values"].get(self.messages)
            conversation = thread.talk.store(store, messages, thread.tip)
        position = {
            "checkpoint_id": key.id,
            "checkpoint_ns": key.ns,
            "step": str(metadata.get("step", "")),
            "source": str(metadata.get("source", "")),
            "task": "",
        }
        saving = (position, Trigger.TURN, files, conversation, self._looked(put.draft))
        commit = self._save(store, thread, key, tree, *saving)
        reading.remember(thread, commit, Loaded(fields, values))
        return commit

    def _values(
        self,
        store: Store,
        serde: SerializerProtocol,
        view: ThreadView,
        draft: Draft,
    ) -> dict[str, StoredValue]:
        """Return the values by name: new ones stored, other channels shared with the parent."""
        key, new_values = draft.key, draft.checkpoint["channel_values"]
        parent = reading.record_of(view, (key.ns, key.parent))
        versions = parent.fields["versions"] if parent else {}
        typed, values = dict(draft.values), {}
        for channel, version in draft.checkpoint["channel_versions"].items():
            name = reading.CHANNEL + channel
            if name in typed or channel in draft.new_versions:
                continue
            if parent and versions.get(channel) == version:
                if name in parent.values:
                    values[name] = parent.values[name]
            elif channel in new_values:
                typed[name] = dumped(serde, new_values[channel], channel, key)
        cache, write_blob = view.thread.known.setdefault(key.ns, {}), _writer(store, view.thread)
        new = {
            name: record.store_value(write_blob, cache, name, value)
            for name, value in typed.items()
        }
        return {**values, **new}

    def put_writes(self, given: TaskWrites) -> None:
        """Save a task's writes as one commit."""
        key, task, fields, typed = given
        thread = self.thread(key.thread)
        with self._writing([thread.session]) as store:
            write_blob = _writer(store, thread)
            values = {
                name: record.store_value(write_blob, {}, name, value)
                for name, value in typed.items()
            }
            files = self._files(store, thread, key, {})
            tree = record.write(store.objects, fields, values)
            # A scan that waits is of the end of this task's step, or of a later one.
            look = next(iter(self._looks.values()), None)
            saving = (_position(key, task), Trigger.TOOLS, files, None, look)
            commit = self._save(store, thread, key, tree, *saving)
            reading.remember(thread, commit, Loaded(fields, values))

    def record_writes(self, given: TaskWrites) -> bool:
        """Record a task's writes for a commit that is made later. Return False, with nothing
        recorded, if they must be one at once: they have files, or much content. For any thread.
        """
        if self.has_files or self._log is None:
            return False
        key, task, fields, values = given
        state = record.files(fields, values)
        if state is None:
            return False
        now, agent = self.opened.host.now(), Agent(AGENT, key.thread)
        content = encode(Recorded(now, Trigger.TOOLS, agent, _position(key, task), str(key), state))
        self._log.write(refs.SESSIONS + session_name(key.thread), content)
        return True

    @contextmanager
    def _writing(self, sessions: Iterable[str]) -> Iterator[FastStore]:
        """Yield the store to write to, and add what it saved to the threads. On failure, written
        objects and what is cached of these sessions are discarded.
        """
        store = self.store()
        try:
            yield store
        except BaseException:
            store.writer.discard()
            self._looks.clear()
            for session in {*sessions} & self._threads.keys():
                self._threads[session].forget()
            raise
        finally:
            self._follow(store)

    def _follow(self, store: FastStore) -> None:
        """Add to the threads what their refs have moved to."""
        moved, store.moved = store.moved, {}
        for session, chain in moved.items():
            thread = self._threads[session]
            if chain.made[0].parent == thread.tip:
                _remember_writes(thread, chain.committed)
                for each in chain.made:
                    assert each.state is not None
                    thread.add(each.commit, parse_key(each.state.key))
                thread.tip = chain.last.commit
            thread.last = chain.last
            before, self._saves = self._saves, self._saves + len(chain.made)
            if before // MANY != self._saves // MANY:
                start_housekeeping(store, chain.last.id)

    def _save(
        self,
        store: FastStore,
        thread: Thread,
        key: CommitKey,
        tree: Oid,
        position: Mapping[str, str],
        trigger: Trigger,
        files: Snapshot | None,
        conversation: Conversation | None,
        look: save.Look | None = None,
    ) -> Oid:
        is_first = store.tip(thread.session) is None
        if files is None and look is not None and _is_overtaken(store, look):
            files = look.scanned.taken.snapshot
        if files is None and programs.here(store.repo, thread.session) is None:
            # What a node of the thread writes is known to be the thread's, also if it is killed.
            programs.begin(store.repo, thread.session, owns=partial(_is_node_of, key.thread))
        stored = (conversation, Agent(AGENT, key.thread)) if conversation or is_first else None
        request = save.SaveRequest(
            cwd=self.opened.path,
            note=Note(position=position),
            trigger=trigger,
            limits=settings.limits(store.repo) if files is None else Limits(),
            force=True,
            choice=Choice(thread.session, None, GIVEN),
            records=save.Records(state=State(tree, str(key))),
            carried=save.Carried(conversation=stored, files=files, parent=thread.last),
            at_work=position.get("source") not in (*NOBODY_RAN, "input"),
            watched=True,
            look=look if files is None else None,
        )
        return save.save(store, request).checkpoint.commit

    def _files(
        self, store: Store, thread: Thread, key: CommitKey, metadata: Mapping[str, Any]
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
            thread = self.view(session).thread
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
            view = self.view(session_name(name))
            thread = view.thread
            latest = {thread.latest(ns) for ns, _ in thread.puts}
            needed = {at for ref in latest if ref for at in reading.needed(view, serde, ref)}
            self._drop(thread, thread.puts.keys() - needed)

    def _drop(self, thread: Thread, dropped: set[CheckpointRef]) -> None:
        if dropped and dropped == thread.puts.keys():
            self.delete(thread.name or "")
        elif dropped:
            delete.drop(
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
        key = CommitKey(COPY, target)
        point = store.read(old.tip)
        state = State(record.write(store.objects, {**key._asdict(), "from": source}, {}), str(key))
        fork.begin(store, point, new.session, target, state)

    # ------------------------------------------------------------ files

    def restore(self, ask: Requested, *, whole_tree: bool) -> Report | None:
        """Restore files; of the last checkpoint, with the changes of tasks finished since."""
        thread = self.thread(ask.thread)
        ns = ask.ns or ""
        ref = (ns, ask.id) if ask.id else thread.latest(ns)
        if ref is None or ref not in thread.puts:
            missing = f"checkpoint {ask.id}" if ask.id else "checkpoint"
            raise RevisionNotFound(
                f"thread {ask.thread} has no {missing}; nothing was changed", hint="gitcp sessions"
            )
        return self._restore_files(thread, ref, latest=not ask.id, whole_tree=whole_tree)

    def _restore_for_run(self, thread: Thread, ref: CheckpointRef) -> None:
        """Restore files before a run: what the thread changed. Raises Refused if any file cannot be
        restored.
        """
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

    def _restore_files(
        self,
        thread: Thread,
        ref: CheckpointRef,
        *,
        latest: bool,
        whole_tree: bool = False,
    ) -> Report | None:
        store = self.opened.store()
        if journal.unfinished(store.repo) is not None:
            self.opened.finish(forward=True)
        commit = thread.newest_commit(ref) if latest else thread.puts[ref][0]
        assert commit is not None
        target = store.read(commit)
        given = self.opened.request(store, target, whole_tree=whole_tree, program=thread.session)
        request = replace(given, conversation=False)
        plan = restore.plan(store, request)
        is_missing = any(not_restored.missing for not_restored in plan.files.kept)
        return (
            restore.restore(store, request) if plan.files or plan.conflicts or is_missing else None
        )


def drafted(
    serde: SerializerProtocol,
    ask: Requested,
    checkpoint: Mapping[str, Any],
    metadata: Mapping[str, Any],
    new_versions: Mapping[str, Any],
) -> Draft:
    """Return a checkpoint to be put, for any thread. Raises BadValue if it cannot be serialized."""
    run = str(metadata.get("run_id") or "")
    key = CommitKey(PUT, ask.thread, ask.ns or "", str(checkpoint["id"]), ask.id or "", run)
    rest = {name: value for name, value in checkpoint.items() if name != "channel_values"}
    values = {
        reading.CHANNEL + channel: dumped(serde, value, channel, key)
        for channel, value in checkpoint["channel_values"].items()
        if channel in new_versions and channel in checkpoint["channel_versions"]
    }
    for name, value in ((reading.CHECKPOINT, rest), (reading.METADATA, dict(metadata))):
        values[name] = dumped(serde, value, name, key)
    return Draft(key, checkpoint, metadata, new_versions, values)


def _is_overtaken(store: Store, look: save.Look) -> bool:
    """Return whether newer files were saved since a scan: those of a task of the next step, which
    has ended already.
    """
    last = latest.read(store.repo)
    return last is not None and last.scanned > look.scanned.taken.began


def _is_node_of(thread: str) -> bool:
    """Return whether this code runs in a node of a graph's thread."""
    config: Any = var_child_runnable_config.get() or {}
    return str((config.get("configurable") or {}).get("thread_id")) == thread


def _writer(store: Store, thread: Thread) -> Callable[[bytes], Oid]:
    """Return what writes the pieces of new values, and keeps them in memory."""
    return thread.recent.adding(partial(store.objects.writer.write_blob, new=True))


def _remember_writes(thread: Thread, committed: Sequence[tuple[LoggedWrite, Checkpoint]]) -> None:
    """Keep what was recorded and became commits, as far as it is small."""
    loaded = thread.parse([write for write, _ in committed])
    for write, checkpoint in committed:
        if len(write.content) <= WHOLE:
            reading.remember(thread, checkpoint.commit, loaded[write][1])


def _matches(
    view: ThreadView, serde: SerializerProtocol, ref: CheckpointRef, filter: Mapping[str, Any]
) -> bool:
    """Return whether the metadata of a checkpoint has all of this."""
    metadata = reading.metadata_of(view, serde, ref) if filter else {}
    # as the savers of LangGraph do: a value None also matches where the name is missing
    return all(metadata.get(name) == value for name, value in filter.items())


def written(
    serde: SerializerProtocol,
    ask: Requested,
    writes: Sequence[tuple[str, Any]],
    task: str,
    path: str,
) -> TaskWrites:
    """Return a task's writes as a record, for any thread. Raises BadValue if they cannot be
    serialized.
    """
    if ask.id is None:
        raise BadValue("the config has no checkpoint_id for these writes; nothing was saved")
    key = CommitKey(WRITES, ask.thread, ask.ns or "", ask.id)
    values = {
        str(n): dumped(serde, value, channel, key) for n, (channel, value) in enumerate(writes)
    }
    listed = [[WRITES_IDX_MAP.get(channel, n), channel] for n, (channel, _) in enumerate(writes)]
    fields = {**key._asdict(), "task": task, "path": path, "writes": listed}
    return TaskWrites(key, task, fields, values)


def _position(key: CommitKey, task: str) -> dict[str, str]:
    return {"checkpoint_id": key.id, "checkpoint_ns": key.ns, "task": task}


def dumped(serde: SerializerProtocol, value: Any, name: str, key: CommitKey) -> TypedBytes:
    """Serialize a value. Raises BadValue if that fails."""
    try:
        return TypedBytes(*serde.dumps_typed(value))
    except Exception as error:
        raise BadValue(
            f"cannot serialize {name} of thread {key.thread}: {error}; nothing was saved",
            hint="remove it from the state, or pass a serde",
        ) from error


def _is_plain(serde: SerializerProtocol) -> bool:
    """Return whether the serializer's output is readable without a key."""
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    return isinstance(serde, JsonPlusSerializer)
