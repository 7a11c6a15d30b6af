"""What gitcp promises, in the simplest words that say it: a model of sessions, tags, restores,
undos and the trash.

It knows no git, no objects and no files on disk: dictionaries and lists.
tests/faults/test_machine.py holds the real thing against it. Where it says less than gitcp does
(what a merge makes of lines, say), it is told, and holds the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gitcp.model import CheckpointId

from driver import File

Id = CheckpointId
Tree = dict[bytes, File]

DIRECTORY = File("directory", 0, b"")
IGNORED = b".ign"
"""How the names end that the project's .gitignore names."""

YOUNG = 7
FORGOTTEN = 14
"""Days for which prune spares what a restore replaced, and for which the trash keeps what was
dropped.
"""


def is_ignored(path: bytes) -> bool:
    """Whether git would not look at it."""
    return path.endswith(IGNORED)


def parents(path: bytes) -> list[bytes]:
    """The directories above a path."""
    parts = path.split(b"/")
    return [b"/".join(parts[:depth]) for depth in range(1, len(parts))]


def captured(tree: Tree) -> Tree:
    """What a checkpoint has of a tree: what is not ignored, and directories with nothing else in
    them.
    """
    seen = {path: file for path, file in tree.items() if not is_ignored(path)}
    full = {parent for path in seen for parent in parents(path)}
    return {path: file for path, file in seen.items() if path not in full}


def restored(target: Tree, now: Tree) -> Tree:
    """What is there after the restore of a checkpoint: its files, and what is here and ignored."""
    found = {path: file for path, file in now.items() if is_ignored(path)} | captured(target)
    above = {parent for path in found for parent in parents(path)}
    return {path: file for path, file in found.items() if path not in above} | dict.fromkeys(
        above, DIRECTORY
    )


@dataclass(frozen=True)
class Kept:
    """A checkpoint. `base` is what git had then; `origin` is set on the first one of a fork."""

    tree: Tree
    talk: bytes | None
    base: Mapping[str, bytes]
    day: int
    label: str | None = None
    safety: bool = False
    origin: Id | None = None


@dataclass
class Operation:
    """What `undo` walks over: a restore, a prune, a delete. `chains` are the sessions that went to
    the trash, as they were; `tags` those that went with them.
    """

    kind: str
    day: int = 0
    session: str = ""
    dropped: frozenset[Id] = frozenset()
    chains: dict[str, list[Id]] = field(default_factory=dict)
    tags: dict[str, Id] = field(default_factory=dict)


@dataclass
class Model:
    """The whole of it. `kept` is every checkpoint that was ever made, `there` those that a session
    reaches.
    """

    kept: dict[Id, Kept] = field(default_factory=dict)
    there: set[Id] = field(default_factory=set)
    before: dict[Id, Id | None] = field(default_factory=dict)
    """The checkpoint that each was made after; a fork's first one has its fork point there."""
    alive: dict[str, Id] = field(default_factory=dict)
    """The sessions, and the last checkpoint of each."""
    tags: dict[str, Id] = field(default_factory=dict)
    current: str = ""
    undo: list[Id] = field(default_factory=list)
    redo: list[Id] = field(default_factory=list)
    extents: dict[Id, tuple[bool, bool, Tree]] = field(default_factory=dict)
    """Of the restore that began at a safety checkpoint: whether it was of the conversation, and of
    some paths only; and the files that it left.
    """
    records: dict[Id, Id] = field(default_factory=dict)
    """The checkpoint that a restore, undo or redo made, by its safety checkpoint."""
    done: list[Operation] = field(default_factory=list)
    undone: list[Operation] = field(default_factory=list)
    trash: list[Operation] = field(default_factory=list)
    day: int = 0

    # ------------------------------------------------------------ looking

    def chain(self, session: str) -> list[Id]:
        """The ids of a session, the first one first, with those before its fork point."""
        found, id = [], self.alive.get(session)
        while id is not None:
            found.append(id)
            id = self.before[id]
        return [id for id in reversed(found) if id in self.there]

    def tip(self, session: str) -> Id:
        """The last checkpoint of a session."""
        return self.chain(session)[-1]

    def reachable(self) -> set[Id]:
        """What the sessions reach."""
        return {id for session in self.alive for id in self.chain(session)}

    def address(self, id: Id) -> str:
        """How to say which one is meant: by its own session, or by a fork that goes on behind
        it.
        """
        holder = next(
            s for s in (id.session, *sorted(self.alive)) if s in self.alive and id in self.chain(s)
        )
        return f"{holder}@{id.number}"

    def findable(self, id: Id) -> bool:
        """Whether any session still has it."""
        return id in self.reachable()

    # ------------------------------------------------------------ saving

    def add(self, session: str, kept: Kept) -> Id:
        """A new last checkpoint of a session, which it begins if need be."""
        last = self.alive.get(session)
        id = Id(session, last.number + 1 if last else self.first(session))
        self._make(id, kept, last)
        self.current = session
        return id

    def first(self, session: str) -> int:
        """The number of the first checkpoint of a session: no other one has it that anything knows
        of.
        """
        known = self.there | {
            id for each in self.trash for chain in each.chains.values() for id in chain
        }
        return max((id.number for id in known if id.session == session), default=0) + 1

    def _make(self, id: Id, kept: Kept, before: Id | None) -> None:
        assert id not in self.there, id
        self.kept[id], self.before[id], self.alive[id.session] = kept, before, id
        self.there.add(id)

    def is_saved(
        self, session: str, tree: Tree, talk: bytes | None, base: Mapping[str, bytes]
    ) -> bool:
        """Whether the last checkpoint says all of this already."""
        last = self.kept[self.tip(session)] if session in self.alive else None
        return last is not None and (captured(last.tree), last.talk, last.base) == (
            captured(tree),
            talk,
            base,
        )

    def talk(self, session: str) -> bytes | None:
        """The conversation that a session has."""
        return self.kept[self.tip(session)].talk if session in self.alive else None

    def fork(self, point: Id, name: str) -> Id:
        """A new session that begins at a checkpoint and says the same."""
        id = Id(name, max(point.number + 1, self.first(name)))
        self._make(
            id,
            replace(self.kept[point], label=None, safety=False, day=self.day, origin=point),
            point,
        )
        return id

    # ------------------------------------------------------------ going back

    def present_session(self, target: Id) -> str:
        """The session that what is here now belongs to."""
        return self.current if self.current in self.alive else self.holder(target)

    def session_after(self, here: str, target: Id, *, talk: bool) -> str:
        """The session that goes on after a restore."""
        there = self.holder(target)
        return here if not talk or target in self.chain(here) else there

    def holder(self, target: Id) -> str:
        """The session that a checkpoint is found in."""
        return self.address(target).partition("@")[0]

    def stepped(
        self, step: str, safety: Id, after: Id | None, extent: tuple[bool, bool, Tree]
    ) -> None:
        """What can be undone and redone after a restore, an undo, or a redo, which made `after`."""
        walked = {"undo": self.undo, "redo": self.redo}.get(step)
        if walked is not None:
            walked.pop()
        (self.redo if step == "undo" else self.undo).append(safety)
        if step == "restore":
            self.redo.clear()
        self.extents[safety] = extent
        self.records[safety] = after or safety
        self.walk(step, "restore")

    def walk(self, step: str, kind: str) -> None:
        """The same in the log of operations."""
        if step == "undo":
            self.undone.append(self._taken(self.done, kind))
        elif step == "redo":
            self.done.append(self._taken(self.undone, kind))
        else:
            self.log(Operation(kind))

    def log(self, operation: Operation) -> None:
        """A new operation: what was undone of its kind cannot be redone any more."""
        restore = operation.kind == "restore"
        self.undone = [each for each in self.undone if (each.kind == "restore") is not restore]
        self.done.append(operation)

    def _taken(self, walked: list[Operation], kind: str) -> Operation:
        found = max(index for index, each in enumerate(walked) if each.kind == kind)
        return walked.pop(found)

    def next(self, step: str) -> Operation | None:
        """What `undo` or `redo` is about; None for nothing."""
        walked, stack = (self.done, self.undo) if step == "undo" else (self.undone, self.redo)
        found = [
            each
            for each in walked
            if each.kind != "restore" or stack or (step == "redo" and self.undo)
        ]
        return found[-1] if found else Operation("restore") if stack else None

    # ------------------------------------------------------------ dropping

    def unwanted(self, last: int) -> set[Id]:
        """What `prune --keep-last` drops."""
        tips = {self.tip(session) for session in self.alive}
        safeties = {id for id in self.there if self.kept[id].safety} | {*self.undo, *self.redo}
        young = {id for id in safeties & self.there if self.day - self.kept[id].day < YOUNG}
        needed = {*self.undo[-1:], *self.redo[-1:]}
        needed |= {self.records[id] for id in needed}
        firsts = {id for id in self.there if self.kept[id].origin}
        points = {self.kept[id].origin for id in firsts}
        spared = tips | young | needed | firsts | points | set(self.tags.values())
        found = set()
        for session in {id.session for id in self.there}:
            numbered = sorted((id for id in self.there if id.session == session), reverse=True)
            found |= set(numbered[last:])
        return found - spared

    def drop(self, dropped: Iterable[Id], into: Operation | None = None) -> None:
        """Put checkpoints into the trash."""
        gone = frozenset(dropped)
        operation = into or Operation("prune")
        operation.chains = {s: self.chain(s) for s in self.alive if gone & set(self.chain(s))}
        operation.day, operation.dropped = self.day, gone
        self.there -= gone
        self.trash.append(operation)

    def only_in(self, session: str) -> frozenset[Id]:
        """The checkpoints that no other session reaches."""
        others = (other for other in self.alive if other != session)
        elsewhere = {id for other in others for id in self.chain(other)}
        return frozenset(self.chain(session)) - elsewhere

    def delete(self, session: str, into: Operation | None = None) -> None:
        """Put a session into the trash, with its tags."""
        operation = into or Operation("delete")
        operation.day, operation.session = self.day, session
        operation.chains = {session: self.chain(session)}
        gone = self.only_in(session)
        del self.alive[session]
        operation.tags = {name: id for name, id in self.tags.items() if id in gone}
        operation.dropped = gone
        self.tags = {name: id for name, id in self.tags.items() if id not in gone}
        self.there -= gone
        self.trash.append(operation)

    def forget(self) -> None:
        """The trash lets go of what is old."""
        self.trash = [each for each in self.trash if self.day - each.day < FORGOTTEN]

    def is_fork(self, session: str) -> bool:
        """Whether a session is there and began as a fork."""
        return any(self.kept[id].origin for id in self.own(session))

    def own(self, session: str) -> list[Id]:
        """The checkpoints of a session, without those before its fork point."""
        return [id for id in self.chain(session) if id.session == session]

    def bring_back(self, operation: Operation) -> None:
        """What was dropped is there again; what was saved into its session since comes after."""
        self.trash = [each for each in self.trash if each is not operation]
        before = set(self.there)
        for session, chain in operation.chains.items():
            if operation.kind == "delete" and session in self.alive:
                self.before[self.own(session)[0]] = chain[-1]
            self.there |= set(chain)
            if session not in self.alive:
                self.alive[session] = chain[-1]
        for name, id in operation.tags.items():
            if name not in self.tags and id not in before:
                self.tags[name] = id
