"""What GitSaver keeps, in terms of sessions and checkpoints: put, read, drop and copy threads,
bring files back.

The serialiser is an argument of each call: a graph may give a saver a stricter one. Not safe from
threads by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import WRITES_IDX_MAP

from gitcp import api
from gitcp.api.opened import keep_house
from gitcp.errors import BadValue, Refused, RevisionNotFound
from gitcp.git.gathering import MANY, Gathering
from gitcp.git.trees import EMPTY_TREE
from gitcp.langgraph import reading, record, threads
from gitcp.langgraph.keys import COPY, PUT, WRITES, Asked, Key, config_of, session_name
from gitcp.langgraph.record import Held, Loaded, Typed
from gitcp.langgraph.threads import Place, Thread
from gitcp.lifecycle import delete, drop, fork
from gitcp.model import (
    Agent,
    Conversation,
    Host,
    Note,
    Oid,
    Skip,
    SkipReason,
    Snapshot,
    State,
    Trigger,
)
from gitcp.restoring import restore
from gitcp.saving import save
from gitcp.saving.session import GIVEN, Choice
from gitcp.state import journal, settings
from gitcp.value import replace
from gitcp.worktree.snapshot import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langgraph.checkpoint.base import CheckpointTuple
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from gitcp.restoring.restore import Report
    from gitcp.store import Store

AGENT = "langgraph"
USES = 256
"""After so many calls the store is opened anew: it remembers every tree that it meets."""
THREADS = 64
NOBODY_RAN = ("update", "fork")
"""Sources of checkpoints that are made without any node having run: the files are those of the
checkpoint before.
"""


class Book:
    """The threads of one repository."""

    def __init__(
        self,
        path: str | PathLike[str] | None,
        worktree: str | PathLike[str] | None,
        messages: str | None,
        host: Host | None,
    ) -> None:
        self.opened = api.open(worktree or path or ".", host=host)
        self.holds_files = worktree is not None
        self.messages = messages
        self._threads: dict[str, Thread] = {}
        self._gathering = Gathering()
        self._saves = 0
        self._store = self._open()
        if (
            worktree
            and path
            and api.open(path, host=host).store().repo.common_dir != self._store.repo.common_dir
        ):
            raise BadValue(f"{worktree} is no working tree of the repository at {path}")

    # ------------------------------------------------------------ what is there

    def store(self) -> Store:
        """The store that calls share, so that each need not open it."""
        self._uses += 1
        if self._uses > USES:
            self._store = self._open()
        return self._store

    def _open(self) -> Store:
        self._uses = 0
        store = self.opened.store()
        store.hurry(self._gathering)
        return store

    def thread(self, name: str) -> Thread:
        """The index of a thread, as it is now."""
        return self._indexed(session_name(name))

    def _indexed(self, session: str) -> Thread:
        found = self._threads.pop(session, None) or Thread(session)
        self._threads[session] = found  # the one used last comes last
        while len(self._threads) > THREADS:
            del self._threads[next(iter(self._threads))]
        found.follow(self.store())
        return found

    # ------------------------------------------------------------ read

    def one(self, serde: SerializerProtocol, ask: Asked, runs: bool) -> CheckpointTuple | None:
        """The checkpoint that is asked for. Where a graph `runs` from one that it names, its files
        come back first.
        """
        thread = self.thread(ask.thread)
        place = (ask.ns or "", ask.id) if ask.id else thread.latest(ask.ns or "")
        if place is None or place not in thread.puts:
            return None
        if runs and ask.id and not ask.ns and self.holds_files:
            self._bring_all(thread, place)
        return reading.tuple_of(self.store(), serde, thread, place)

    def places(
        self, _: SerializerProtocol, ask: Asked | None, before: str | None
    ) -> list[tuple[str, Place]]:
        """The sessions and checkpoints that a listing is about, the greatest ids first."""
        names = [session_name(ask.thread)] if ask else threads.sessions(self.store())
        found = [(name, place) for name in names for place in self._indexed(name).puts]
        if ask is not None:
            found = [
                (name, at)
                for name, at in found
                if ask.ns in (None, at[0]) and ask.id in (None, at[1])
            ]
        wanted = [one for one in found if before is None or one[1][1] < before]
        return sorted(wanted, key=lambda one: one[1][1], reverse=True)

    def listed(
        self,
        serde: SerializerProtocol,
        session: str,
        place: Place,
        filter: Mapping[str, Any] | None,
    ) -> CheckpointTuple | None:
        """One checkpoint of a listing; None if its metadata is not as wanted, or it was dropped
        meanwhile.
        """
        thread = self._indexed(session)
        if place not in thread.puts:
            return None
        metadata = reading.metadata_of(self.store(), serde, thread, place) if filter else {}
        if filter and any(
            name not in metadata or metadata[name] != value for name, value in filter.items()
        ):
            return None
        return reading.tuple_of(self.store(), serde, thread, place)

    # ------------------------------------------------------------ put

    def put(
        self,
        serde: SerializerProtocol,
        ask: Asked,
        checkpoint: Mapping[str, Any],
        metadata: Mapping[str, Any],
        new_versions: Mapping[str, Any],
    ) -> dict[str, Any]:
        """One checkpoint as one commit; the config that names it."""
        thread, ns, id = self.thread(ask.thread), ask.ns or "", str(checkpoint["id"])
        key = Key(PUT, ask.thread, ns, id, ask.id or "", str(metadata.get("run_id") or ""))
        with self._whole(thread) as store:
            values = self._values(store, serde, thread, key, checkpoint, new_versions)
            rest = {name: value for name, value in checkpoint.items() if name != "channel_values"}
            known = thread.known.setdefault(ns, {})
            for name, value in ((reading.CHECKPOINT, rest), (reading.METADATA, dict(metadata))):
                values[name] = record.hold(
                    store.objects, known, name, dumped(serde, value, name, key)
                )
            fields = {**key._asdict(), "versions": dict(checkpoint["channel_versions"])}
            files = self._files(store, thread, key, metadata)
            tree = record.write(store.objects, fields, values)
            said = self._conversation(
                store, serde, thread, key, checkpoint["channel_values"].get(self.messages)
            )
            position = {
                "checkpoint_id": id,
                "checkpoint_ns": ns,
                "step": str(metadata.get("step", "")),
                "source": str(metadata.get("source", "")),
                "task": "",
            }
            commit = self._save(store, thread, key, tree, position, Trigger.TURN, files, said)
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
    ) -> dict[str, Held]:
        """The channels' values: those that are new as they are given, the others as the parent has
        them.
        """
        given, values = checkpoint["channel_values"], {}
        before = reading.record_of(store, thread, (key.ns, key.parent))
        versions = before.fields["versions"] if before else {}
        known = thread.known.setdefault(key.ns, {})
        for channel, version in checkpoint["channel_versions"].items():
            name = reading.CHANNEL + channel
            if channel not in new_versions and before and versions.get(channel) == version:
                if name in before.values:
                    values[name] = before.values[name]
            elif channel in given:
                values[name] = record.hold(
                    store.objects, known, name, dumped(serde, given[channel], channel, key)
                )
        return values

    def put_writes(
        self,
        serde: SerializerProtocol,
        ask: Asked,
        writes: Sequence[tuple[str, Any]],
        task: str,
        path: str,
    ) -> None:
        """What a task wrote, as one commit."""
        if ask.id is None:
            raise BadValue("writes need the checkpoint that they are for: nothing was saved")
        thread = self.thread(ask.thread)
        key = Key(WRITES, ask.thread, ask.ns or "", ask.id)
        with self._whole(thread) as store:
            values = {
                str(n): record.hold(store.objects, {}, str(n), dumped(serde, value, channel, key))
                for n, (channel, value) in enumerate(writes)
            }
            listed = [
                [WRITES_IDX_MAP.get(channel, n), channel] for n, (channel, _) in enumerate(writes)
            ]
            fields = {**key._asdict(), "task": task, "path": path, "writes": listed}
            files = self._files(store, thread, key, {})
            tree = record.write(store.objects, fields, values)
            position = {"checkpoint_id": ask.id, "checkpoint_ns": ask.ns or "", "task": task}
            self._save(store, thread, key, tree, position, Trigger.TOOLS, files, None)

    @contextmanager
    def _whole(self, thread: Thread) -> Iterator[Store]:
        """The store to write to. Where that fails nothing of it is left, and nothing of it is
        trusted.
        """
        store = self.store()
        try:
            yield store
        except BaseException:
            store.objects.discard()
            thread.forget()
            raise

    def _save(
        self,
        store: Store,
        thread: Thread,
        key: Key,
        tree: Oid,
        position: Mapping[str, str],
        trigger: Trigger,
        files: Snapshot | None,
        said: Conversation | None,
    ) -> Oid:
        request = save.Request(
            cwd=self.opened.path,
            note=Note(position=position),
            trigger=trigger,
            limits=settings.limits(store.repo) if files is None else Limits(),
            force=True,
            choice=Choice(thread.session, None, GIVEN),
            state=State(tree, str(key)),
            files=files,
            parent=thread.last,
            stored=(said, Agent(AGENT, key.thread)) if thread.tip is None or said else None,
        )
        made = thread.last = save.save(store, request).checkpoint
        self._saves += 1
        if self._saves % MANY == 0:  # a pack has become of as many
            keep_house(store, made.id)
        if made.parent == thread.tip:
            thread.add(made.commit, key)
            thread.tip = made.commit
        return made.commit

    def _files(
        self, store: Store, thread: Thread, key: Key, metadata: Mapping[str, Any]
    ) -> Snapshot | None:
        """The files to save; None: as they are now."""
        if not self.holds_files:
            return Snapshot(EMPTY_TREE, store.repo.head(), 0, (Skip(b".", SkipReason.NOT_HELD),))
        parent = thread.puts.get((key.ns, key.parent))
        return (
            store.read(parent[0]).snapshot
            if parent and metadata.get("source") in NOBODY_RAN
            else None
        )

    def _conversation(
        self, store: Store, serde: SerializerProtocol, thread: Thread, key: Key, messages: Any
    ) -> Conversation | None:
        """The messages for people to read; none of a sub-graph, and none where the state is
        encrypted.
        """
        return (
            None
            if key.ns or not _is_plain(serde)
            else thread.talk.store(store, messages, thread.tip)
        )

    # ------------------------------------------------------------ drop and copy

    def delete(self, name: str) -> None:
        """A thread goes to the trash."""
        thread = self.thread(name)
        if thread.tip is not None:
            delete.delete(self.opened.store(), thread.session)
        self._threads.pop(thread.session, None)

    def delete_runs(self, runs: set[str]) -> None:
        """The checkpoints of these runs go to the trash."""
        for session in threads.sessions(self.store()) if runs else ():
            thread = self._indexed(session)
            self._drop(
                thread, {place for place, (_, key) in thread.puts.items() if key.run in runs}
            )

    def prune(self, serde: SerializerProtocol, names: Sequence[str], strategy: str) -> None:
        """All but what `strategy` keeps goes to the trash."""
        if strategy not in ("keep_latest", "delete"):
            raise BadValue(
                f"{strategy!r} is no strategy: nothing was dropped", hint="keep_latest or delete"
            )
        for name in names:
            if strategy == "delete":
                self.delete(name)
                continue
            thread = self.thread(name)
            latest = {thread.latest(ns) for ns, _ in thread.puts}
            kept = {
                at
                for place in latest
                if place
                for at in reading.needed(self.store(), serde, thread, place)
            }
            self._drop(thread, thread.puts.keys() - kept)

    def _drop(self, thread: Thread, dropped: set[Place]) -> None:
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
        """Begin a session at the last commit of another: all of it is the copy's too."""
        old, new = self.thread(source), self.thread(target)
        if old.tip is None:
            return
        if new.tip is not None:
            raise Refused(f"thread {target} exists already: nothing was copied")
        store, key = self.opened.store(), Key(COPY, target)
        point = store.read(old.tip)
        state = State(record.write(store.objects, {**key._asdict(), "from": source}, {}), str(key))
        fork.begin(store, point, new.session, target, state)

    # ------------------------------------------------------------ files

    def restore(self, ask: Asked) -> Report | None:
        """Bring files back; of the last checkpoint, what finished tasks made of them since."""
        thread = self.thread(ask.thread)
        ns = ask.ns or ""
        place = (ns, ask.id) if ask.id else thread.latest(ns)
        if place is None or place not in thread.puts:
            what = f"checkpoint {ask.id}" if ask.id else "checkpoint"
            raise RevisionNotFound(
                f"thread {ask.thread} has no {what}: nothing was changed", hint="gitcp sessions"
            )
        return self._bring(thread, place, latest=not ask.id)

    def _bring_all(self, thread: Thread, place: Place) -> None:
        """The same for a run: it does not begin unless everything is there."""
        report = self._bring(thread, place, latest=False)
        if report is not None and report.failed:
            missing = ", ".join(
                kept.path.decode("utf-8", "replace") for kept in report.kept if kept.missing
            )
            raise Refused(
                f"not all files of checkpoint {place[1]} came back: {missing}", hint="gitcp undo"
            )

    def _bring(self, thread: Thread, place: Place, *, latest: bool) -> Report | None:
        store = self.opened.store()
        if journal.unfinished(store.repo) is not None:
            self.opened.finish(forward=True)
        commit = thread.newest_commit(place) if latest else thread.puts[place][0]
        assert commit is not None
        target = store.read(commit)
        request = replace(self.opened.request(store, target), conversation=False)
        plan = restore.plan(store, request)
        return (
            restore.restore(store, request)
            if plan.files or any(kept.missing for kept in plan.files.kept)
            else None
        )


def dumped(serde: SerializerProtocol, value: Any, name: str, key: Key) -> Typed:
    """A value as the serialiser writes it. Raises BadValue where it cannot."""
    try:
        return Typed(*serde.dumps_typed(value))
    except Exception as error:
        what = f"{name} of thread {key.thread} cannot be serialised: {error}"
        raise BadValue(
            f"{what}. Nothing was saved", hint="keep it out of the state, or give a serde"
        ) from error


def _is_plain(serde: SerializerProtocol) -> bool:
    """Whether what it writes can be read by anybody anyway."""
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    return isinstance(serde, JsonPlusSerializer)
