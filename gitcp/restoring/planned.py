"""What a restore would do, as a value: to look at, to approve, and to carry out as approved."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from gitcp import humanize
from gitcp.history.live import OpenTurn
from gitcp.model import Agent, AtPath, Checkpoint, CheckpointId, Conversation, Oid
from gitcp.restoring.memory import MemoryPlan
from gitcp.restoring.merge import Conflict
from gitcp.restoring.others import OtherSession
from gitcp.restoring.placing import Placed
from gitcp.restoring.plan import FilePlan, Kept
from gitcp.restoring.states import StateStep
from gitcp.store import Summary, one_line
from gitcp.value import Value, replace
from gitcp.worktree.open_files import writers
from gitcp.worktree.paths import display


class Point(NamedTuple):
    """A checkpoint that could be restored. `prompted`: a prompt was given while it was the last
    one.
    """

    id: CheckpointId
    commit: Oid
    trigger: str
    subject: str
    created: datetime
    prompted: bool = False


class OpenFile(AtPath):
    """A file to replace or remove that the processes `users` have open for writing: what they write
    afterwards is lost.
    """

    users: tuple[str, ...]


class RollbackChoice(NamedTuple):
    """The checkpoint to restore, the reason, and older candidates that differ too, newest first."""

    point: Point
    why: str
    others: tuple[Point, ...]


class RestorePlan(Value):
    """What a restore would do.

    `later` are the checkpoints newer than the target, newest first. `effects` are the compensations
    recorded since and not run; a restore runs none. `others` are the other sessions that changed
    since the target what the restore would change. `conflicts` are the paths that `mine` cannot
    merge: they are kept, or have conflict markers; `conflicting` are those who changed them, too.
    `turns` are those of agents that may write into the restored files. If no file and no
    conversation changes, but another conversation becomes the current one, `instead_of` describes
    the one that is current. `stored` are the conversation to restore and its agent, `choice` is why
    a rollback restores this checkpoint. `memory` is what becomes of the agent's memory, None if it
    is left. `states` are those outside the files that the user's commands restore, `offered` those
    that stay, because they were not asked for. `open_files` are those that programs go on writing
    to, in vain.
    """

    target: Checkpoint
    files: FilePlan
    placed: Placed | None
    later: tuple[Summary, ...]
    effects: tuple[str, ...]
    others: tuple[OtherSession, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    conflicting: tuple[OtherSession, ...] = ()
    instead_of: str = ""
    turns: tuple[OpenTurn, ...] = ()
    stored: tuple[Conversation | None, Agent | None] = (None, None)
    choice: RollbackChoice | None = None
    memory: MemoryPlan | None = None
    states: tuple[StateStep, ...] = ()
    offered: tuple[StateStep, ...] = ()
    open_files: tuple[OpenFile, ...] = ()

    def __bool__(self) -> bool:
        is_placed = self.placed is not None and self.placed.changes
        return bool(self.files) or is_placed or bool(self.memory) or bool(self.states)

    @property
    def kept(self) -> tuple[Kept, ...]:
        """The files of the project and of the memory that differ from the target and stay."""
        return (*self.files.kept, *(self.memory.left if self.memory else ()))

    @property
    def digest(self) -> str:
        """A SHA-256 of everything that the restore would do: the same in another process, another
        one as soon as a file that it concerns is another one. What agents do meanwhile is no part
        of it, nor is an id that only the restore assigns.
        """
        placed = self.placed and (
            self.placed.agent,
            self.placed.messages,
            sorted(self.placed.mended.items()),
            self.placed.elsewhere,
            [write.how for write in self.placed.placement.files],
        )
        others = [(each.session, each.paths) for each in self.others]
        return digest_of(
            self.target.commit,
            self.files,
            placed,
            self.effects,
            others,
            self.conflicts,
            self.instead_of,
            *([self.memory] if self.memory else []),
            *([self.states] if self.states else []),
        )

    def __str__(self) -> str:
        """Return a page that a person can approve: every path, and what becomes of it."""
        label = self.target.note.label
        head = f'restore {self.target.id} "{label}"' if label else f"restore {self.target.id}"
        lines = [f"{head}  ({self.target.created:%Y-%m-%d %H:%M} UTC)", *self._file_lines()]
        if self.placed is not None:
            what = humanize.count(self.placed.messages, "message")
            change = f"would return to {what}" if self.placed.changes else "is unchanged"
            lines.append(f"  the {self.placed.agent} conversation {change}")
        lines += memory_lines(self.memory)
        states = (*state_lines(self.states), *offered_lines(self.target, self.offered))
        lines += [f"  {line}" for line in states]
        for each in self.others:
            lines += _listed(f"changed by session {each.session} as well", each.paths)
        lines += [f"  conflict: {display(each.path)}  ({each.why})" for each in self.conflicts]
        lines += [f"  not undone: {command}" for command in self.effects]
        if not (self or self.instead_of or self.conflicts):
            lines.append("  nothing to restore")
        return "\n".join([*lines, f"plan {self.digest}"])

    def to_json(self) -> dict[str, Any]:
        """Return the fields that `gitcp restore --dry-run --json` prints, without ids that only the
        restore assigns.
        """
        from gitcp import documents  # only for programs
        from gitcp.restoring import printed

        shared = printed.parts(self.target, self.placed, self.stored[0], self.effects)
        if self.placed is not None and self.placed.moves_on(self.stored[1]):
            nothing = {"session_id": None, "prepare": (), "command": (), "path": None}
            shared["resume"] = replace(shared["resume"], **nothing)
        return documents.encode(
            documents.Restored(
                target=self.target.id,
                safety=None,
                checkpoint=None,
                written=tuple(step.path for step in self.files.write),
                removed=tuple(step.path for step in (*self.files.clear, *self.files.remove)),
                kept=printed.kept(self.kept),
                others=printed.others(self.others),
                conflicts=printed.conflicts(self.conflicts),
                turns=printed.turns(self.turns),
                memory=printed.memory(self.memory),
                states=printed.states(self.states),
                offered_states=tuple(each.name for each in self.offered),
                databases=printed.in_use(self.files.databases),
                open_files=printed.in_use(self.open_files),
                **shared,
                **chosen(self.choice),
            )
        )

    def _file_lines(self) -> list[str]:
        removed = [step.path for step in (*self.files.clear, *self.files.remove)]
        lines = _listed("would be written", [step.path for step in self.files.write])
        lines += _listed("would be removed", removed)
        lines += _listed("would get other permissions", [p.path for p in self.files.permissions])
        lines += _listed("would be created, a directory", self.files.make_directories)
        lines += _listed("would be removed, if empty", self.files.remove_directories)
        lines += [
            f"  open for writing: {display(each.path)}  ({', '.join(each.users)})"
            for each in self.open_files
        ]
        return lines + [f"  kept: {display(k.path)}  ({k.reason})" for k in self.kept]


def open_files(root: Path, files: FilePlan) -> tuple[OpenFile, ...]:
    """Return the files that a plan replaces or removes and that a process has open for writing."""
    by_location = {os.path.join(os.fsencode(root), path): path for path in files.replaced}
    users_of = sorted(writers(by_location.keys()).items())
    return tuple(OpenFile(by_location[location], users) for location, users in users_of)


def chosen(choice: RollbackChoice | None) -> dict[str, Any]:
    """Return what is printed of the choice of a rollback."""
    from gitcp import documents  # only for programs

    candidates = (
        documents.Candidate(each.id, each.created, each.subject, each.trigger)
        for each in (choice.others if choice else ())
    )
    return {"reason": choice.why if choice else None, "candidates": tuple(candidates)}


def memory_lines(plan: MemoryPlan | None) -> list[str]:
    """Return what becomes of an agent's memory: each file, and each line of others that stays."""
    if not plan:
        return []
    written = [f"  {plan.agent} memory would be written: {path}" for path in plan.written]
    removed = [f"  {plan.agent} memory would be removed: {path}" for path in plan.removed]
    kept = [
        f"  kept in {path}, of session {session}: {one_line(line, 200)}"
        for path, line, session in plan.kept
    ]
    return [*written, *removed, *kept]


def state_lines(steps: Iterable[StateStep]) -> list[str]:
    """Return which command would get which content, and which states stay and why."""
    return [
        f"state {each.name} stays as it is: {each.failure}"
        if each.failure
        else f"state {each.name} of the checkpoint ({humanize.size(each.state.bytes)}) would be "
        f"given to your command: {one_line(each.command, 500)}"
        for each in steps
    ]


def offered_lines(target: Checkpoint, steps: Sequence[StateStep]) -> list[str]:
    """Return that states stay as they are, and what restores them."""
    if not steps:
        return []
    names = ", ".join(each.name for each in steps)
    stay = (
        f"state {names} stays as it is" if len(steps) == 1 else f"states {names} stay as they are"
    )
    return [f"{stay}; to restore: gitcp restore {target.id} --state"]


def digest_of(*parts: object) -> str:
    """Return the SHA-256 of values of a plan."""
    return hashlib.sha256(repr(parts).encode("utf-8", "replace")).hexdigest()


def _listed(what: str, paths: Sequence[bytes]) -> list[str]:
    return [f"  {what}: {display(path)}" for path in paths]
