"""The states outside the files that the user's commands save: what is set, and when each was saved
last. Runs no command, and stores nothing.
"""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

from gitcp.model import CheckpointId, Oid
from gitcp.saving import states
from gitcp.state import state_commands
from gitcp.store import Store


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
