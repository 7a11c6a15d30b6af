"""What the JSON objects of a restore, a revert and a fork have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from gitcp import documents, wire
from gitcp.documents import Kept, OtherSession, Turn
from gitcp.history.live import OpenTurn
from gitcp.model import Checkpoint, Conversation
from gitcp.restoring.memory import MemoryPlan
from gitcp.restoring.merge import Conflict
from gitcp.restoring.others import OtherSession as Other
from gitcp.restoring.placing import Placed
from gitcp.restoring.plan import Kept as KeptPath
from gitcp.restoring.states import StateStep


class InUse(Protocol):
    """A file that programs have open."""

    @property
    def path(self) -> bytes: ...
    @property
    def users(self) -> tuple[str, ...]: ...


def parts(
    target: Checkpoint,
    placed: Placed | None,
    conversation: Conversation | None,
    effects: Sequence[str],
) -> dict[str, Any]:
    """Return what a restore and its plan say alike."""
    return {
        "conversation": documents.conversation_of(conversation) if placed else None,
        "resume": placed.document() if placed else None,
        "facts": target.note.facts,
        "handoff": target.note.handoff,
        "position": wire.position_texts(target.note.position),
        "effects": tuple(effects),
    }


def kept(paths: Iterable[KeptPath]) -> tuple[Kept, ...]:
    """Return paths that were not changed, with the reasons."""
    return tuple(Kept(each.path, each.reason) for each in paths)


def conflicts(listed: Iterable[Conflict]) -> tuple[Kept, ...]:
    """Return paths that cannot be merged, with the reasons."""
    return tuple(Kept(each.path, each.why) for each in listed)


def others(changed_by: Iterable[Other]) -> tuple[OtherSession, ...]:
    """Return other sessions, and what they changed."""
    return tuple(
        OtherSession(
            each.session, each.agent.name if each.agent else None, each.live, tuple(each.paths)
        )
        for each in changed_by
    )


def turns(listed: Iterable[OpenTurn]) -> tuple[Turn, ...]:
    """Return the turns of agents that may write into restored files."""
    return tuple(Turn(each.session, each.agent, each.began, each.last) for each in listed)


def memory(plan: MemoryPlan | None) -> documents.Memory | None:
    """Return what becomes of an agent's memory."""
    if not plan:
        return None
    lines = tuple(documents.KeptLine(*each) for each in plan.kept)
    return documents.Memory(plan.agent, plan.directory, plan.written, plan.removed, lines)


def states(steps: Iterable[StateStep]) -> tuple[documents.RestoredState, ...]:
    """Return the states outside the files that are restored, with the commands."""
    return tuple(
        documents.RestoredState(
            each.name,
            each.command,
            each.state.bytes,
            each.state.sha256,
            each.explained,
            each.unsaved,
        )
        for each in steps
    )


def in_use(files: Iterable[InUse]) -> tuple[documents.InUse, ...]:
    """Return files that programs have open, with these."""
    return tuple(documents.InUse(each.path, each.users) for each in files)
