"""Effects outside of the files: what checkpoints record of them, and what became of their
compensations. Reads only.

An effect is named by its key, `SESSION@NUMBER:PLACE`: the checkpoint that records it, and its place
there from 0. A checkpoint of trigger before-risky-change records what is about to happen, any other
what has happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import takewhile
from pathlib import Path

from gitcp.errors import StoreDamaged
from gitcp.model import Checkpoint, CheckpointId, Trigger
from gitcp.store import Store, Summary
from gitcp.value import Value, replace

DIRECTORY = "compensations"

RECORDED = "Gitcp-Effects"
"""The trailer of a checkpoint that records effects: others need not be read."""

DONE = "done"
FAILED = "failed"
TIMEOUT = "timeout"
UNKNOWN = "unknown"


class Effect(Value):
    """What would undo something that lies outside of the files. `outcome` is how that ended, None
    if it was not run.
    """

    id: CheckpointId
    place: int
    command: str
    created: datetime
    outcome: str | None = None

    @property
    def key(self) -> str:
        return f"{self.id}:{self.place}"


def after(store: Store, target: Checkpoint | None, session: str) -> tuple[Effect, ...]:
    """The effects that came after `target` in a session, newest first; all of them if `target` is
    None.
    """
    tip = store.tip(session)
    if tip is None:
        return ()
    known = store.read(tip).compensated
    last = target.commit if target else None
    later = takewhile(lambda s: s.commit != last, store.history(tip))
    held = [store.read(summary.commit) for summary in later if RECORDED in summary.trailers]
    if target is not None and target.trigger is Trigger.BEFORE_RISKY_CHANGE:
        held.append(target)
    return tuple(effect for checkpoint in held for effect in _of(store, checkpoint, known))


def open_commands(store: Store, target: Checkpoint) -> tuple[str, ...]:
    """The compensations of what came after `target` in its session, newest first, without those
    that did their work.
    """
    return tuple(
        effect.command
        for effect in after(store, target, target.id.session)
        if effect.outcome != DONE
    )


def is_open(store: Store, summary: Summary) -> bool:
    """Whether a checkpoint records a compensation that nobody ran yet."""
    if RECORDED not in summary.trailers:
        return False
    tip = store.tip(summary.id.session)
    try:
        known = store.read(tip).compensated if tip else {}
        return any(
            effect.outcome is None for effect in _of(store, store.read(summary.commit), known)
        )
    except StoreDamaged:  # whether it was run cannot be told: it stays
        return True


def directory(store: Store, effect: Effect) -> Path:
    """Where it is kept that the compensation was begun, and how it ended. The time tells sessions
    of one name apart.
    """
    return (
        store.repo.common_dir
        / "gitcp"
        / DIRECTORY
        / f"{effect.key}.{int(effect.created.timestamp())}"
    )


def ended(path: Path) -> str | None:
    """How a compensation ended, as its directory says; None if it was not begun or did not end."""
    try:
        code = path.joinpath("code").read_text("ascii").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return DONE if code == "0" else code if code in (TIMEOUT, UNKNOWN) else FAILED


def _of(store: Store, checkpoint: Checkpoint, known: Mapping[str, str]) -> Iterator[Effect]:
    """The effects of a checkpoint, the last one first."""
    outcomes = {**checkpoint.compensated, **known}
    commands = checkpoint.note.compensations
    for place in reversed(range(len(commands))):
        effect = Effect(checkpoint.id, place, commands[place], checkpoint.created)
        yield replace(effect, outcome=outcomes.get(effect.key) or ended(directory(store, effect)))
