"""External effects: what checkpoints record of them, and the outcome of their compensations.
Writes only who announced one.

An effect's key is `SESSION@NUMBER:INDEX`: the checkpoint that records it, and its index there from
0. A checkpoint with trigger before-risky-change records an effect about to happen, any other a past
one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

from gitcp.errors import StoreDamaged
from gitcp.git import records
from gitcp.model import Checkpoint, CheckpointId, StepName, Trigger
from gitcp.store import Store, Summary
from gitcp.value import Value, replace

DIRECTORY = "compensations"

RECORDED = "Gitcp-Effects"
"""The trailer of checkpoints that record effects; others need not be read."""

FORKED = "Gitcp-Forked-From"
"""The trailer of the first checkpoint of a fork."""

DONE = "done"
FAILED = "failed"
TIMEOUT = "timeout"
UNKNOWN = "unknown"


class Effect(Value):
    """A compensation for an effect outside the files. `outcome` is its result, None if it was not
    run. `step` is the step that has the effect, None if it is not a step's.
    """

    id: CheckpointId
    place: int
    command: str
    created: datetime
    outcome: str | None = None
    step: StepName | None = None

    @property
    def key(self) -> str:
        return f"{self.id}:{self.place}"

    def to_json(self) -> dict[str, Any]:
        """Return the fields that `gitcp run --compensations --json` prints."""
        return {"key": self.key, "command": self.command, "outcome": self.outcome}


def after(store: Store, target: Checkpoint | None, session: str) -> tuple[Effect, ...]:
    """Return the effects after `target` in a session, newest first; all that the session recorded
    if `target` is None. Those of the session that it was forked from are not its own.
    """
    tip = store.tip(session)
    if tip is None:
        return ()
    outcomes = store.read(tip).compensated
    last = target.commit if target else None
    later = takewhile(lambda s: s.commit != last, _own(store.history(tip), session))
    recording = [store.read(summary.commit) for summary in later if RECORDED in summary.trailers]
    if target is not None and target.trigger is Trigger.BEFORE_RISKY_CHANGE:
        recording.append(target)
    return tuple(
        effect for checkpoint in recording for effect in _effects_of(store, checkpoint, outcomes)
    )


def announce(store: Store, step: StepName, command: str) -> None:
    """Record outside of the repository that this user lets a command undo a step here. A checkpoint
    that an archive brought can name any command. Raises OSError.
    """
    records.write(store.repo.common_dir, store.repo.host, _record_of(step, command), b"")


def is_announced(store: Store, effect: Effect) -> bool:
    """Return whether this user announced here what undoes a step."""
    assert effect.step is not None
    name = _record_of(effect.step, effect.command)
    return records.has(store.repo.common_dir, store.repo.host, name)


def withdraw(store: Store, effect: Effect) -> None:
    """Remove the record of `announce`, after the command ran."""
    assert effect.step is not None
    records.remove(store.repo.common_dir, store.repo.host, _record_of(effect.step, effect.command))


def _record_of(step: StepName, command: str) -> str:
    digest = hashlib.sha256("\0".join((*step, command)).encode("utf-8", "surrogateescape"))
    return f"{DIRECTORY}/{digest.hexdigest()}"


def _own(history: Iterable[Summary], session: str) -> Iterator[Summary]:
    """Yield the checkpoints of a session down to its fork. The session before it, maybe another
    person's, can have the same name.
    """
    for summary in history:
        if summary.id.session != session:
            return
        yield summary
        if FORKED in summary.trailers:
            return


def open_commands(store: Store, target: Checkpoint) -> tuple[str, ...]:
    """Return the compensations of what came after `target` in its session, newest first, without
    the completed ones.
    """
    return tuple(
        effect.command
        for effect in after(store, target, target.id.session)
        if effect.outcome != DONE
    )


def is_open(store: Store, summary: Summary) -> bool:
    """Return whether a checkpoint records a compensation that was not run yet."""
    if RECORDED not in summary.trailers:
        return False
    tip = store.tip(summary.id.session)
    try:
        outcomes = store.read(tip).compensated if tip else {}
        return any(
            effect.outcome is None
            for effect in _effects_of(store, store.read(summary.commit), outcomes)
        )
    except StoreDamaged:  # unknown whether it was run: keep it
        return True


def directory(store: Store, effect: Effect) -> Path:
    """Return the directory that records the start and the outcome of a compensation. Its name
    contains the time, because a session's name can be reused.
    """
    return (
        store.repo.common_dir
        / "gitcp"
        / DIRECTORY
        / f"{effect.key}.{int(effect.created.timestamp())}"
    )


def ended(path: Path) -> str | None:
    """Return the outcome of a compensation from its directory, None if it did not start or end."""
    try:
        code = path.joinpath("code").read_text("ascii").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return DONE if code == "0" else code if code in (TIMEOUT, UNKNOWN) else FAILED


def _effects_of(store: Store, checkpoint: Checkpoint, known: Mapping[str, str]) -> Iterator[Effect]:
    """Yield the effects of a checkpoint, last one first."""
    outcomes = {**checkpoint.compensated, **known}
    commands = checkpoint.note.compensations
    for position in reversed(range(len(commands))):
        command = commands[position]
        effect = Effect(checkpoint.id, position, command, checkpoint.created, None, checkpoint.step)
        yield replace(effect, outcome=outcomes.get(effect.key) or ended(directory(store, effect)))
