"""Restore states outside the files, such as a database: the user's own command of that name gets
the content on its standard input. A checkpoint has content alone, and never a command.

The current state is saved first by the same user's command, so that an undo can bring it back.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from subprocess import DEVNULL
from tempfile import TemporaryFile

from gitcp import progress
from gitcp.conversation import segments
from gitcp.conversation.sums import Sums
from gitcp.errors import GitcpError, Refused, StoreDamaged
from gitcp.git.fsync import make_own_directory
from gitcp.model import Checkpoint, CommandState, States
from gitcp.restoring.plan import Kept
from gitcp.restoring.request import RestoreRequest
from gitcp.saving import states
from gitcp.saving.save import Saved
from gitcp.state import state_commands
from gitcp.state.state_commands import StateCommand
from gitcp.store import Store, Summary
from gitcp.value import Value, replace

LONGEST = 1800
"""Seconds that a command may take to restore a state."""


class StateStep(Value):
    """A state to restore: the content that the target has, and the user's command that gets it.
    `failure` is why that is not run, or how it failed; "" for neither. `is_current`: the state was
    as in the target already, and nothing was run. `was_run`: the command was begun, also if it
    failed; `said` is the end of what it wrote to stderr then, for the screen alone. `unsaved`: what
    the state was before is in no checkpoint, and no undo brings it back.
    """

    state: CommandState
    command: str = ""
    failure: str = ""
    is_current: bool = False
    was_run: bool = False
    unsaved: bool = False
    said: str = ""

    @property
    def name(self) -> str:
        return self.state.name

    @property
    def explained(self) -> str:
        """The failure, with what the command said."""
        return f"{self.failure}: {self.said}" if self.said else self.failure

    @property
    def can_undo(self) -> bool:
        """Whether an undo with --state has this state to restore."""
        return self.is_current or (self.was_run and not self.unsaved)


def plan(store: Store, request: RestoreRequest) -> tuple[StateStep, ...]:
    """Return what a restore would do to the states that it was asked for. Runs nothing, and writes
    nothing. Raises Refused if none of them can be restored.
    """
    steps = planned(store, request)
    if request.state and not steps:
        raise Refused(
            f"{request.target.id} has no state outside the files: nothing was changed",
            hint=_nearest(store, request.target),
        )
    if steps and all(step.failure for step in steps):
        step = steps[0]
        hints = (_hint(store, request.target, step) for step in steps)
        raise Refused(
            f"state {step.name} cannot be restored: {step.failure}; nothing was changed",
            hint=next(filter(None, hints), ""),
        )
    return steps


def planned(store: Store, request: RestoreRequest) -> tuple[StateStep, ...]:
    """Return the steps of `plan`, but do not raise Refused where that does."""
    return tuple(_steps(store, request)) if request.state else ()


def offered(store: Store, request: RestoreRequest) -> tuple[StateStep, ...]:
    """Return what a restore of everything would do to the states as well, if it were asked to."""
    whole = request.files and request.conversation and not (request.paths or request.reverted)
    is_undo = request.state_names is not None  # which undoes what its restore changed
    if request.state or request.mine or not (whole or is_undo):
        return ()
    return tuple(step for step in _steps(store, request) if not step.failure)


def require_asked(store: Store, request: RestoreRequest, command: str) -> None:
    """Raise Refused if only states are left to undo or redo, and were not asked for: an undo that
    did nothing used up that of a restore of a state.
    """
    if request.state_names and offered(store, request):
        raise Refused(
            f"only states outside the files differ from {request.target.id}, and without --state "
            "they stay: nothing was changed",
            hint=f"gitcp {command} --state",
        )


def _steps(store: Store, request: RestoreRequest) -> Iterator[StateStep]:
    recorded = request.target.states
    if recorded is None:
        return
    commands = {each.name: each for each in state_commands.listing(store.repo)}
    for state in recorded.each:
        if request.state_names is None or state.name in request.state_names:
            command = commands.get(state.name, StateCommand(state.name))
            yield StateStep(state, command.restore, _obstacle(state, command))


def _obstacle(state: CommandState, command: StateCommand) -> str:
    """Return why a state cannot be restored, "" if it can."""
    if state.missing:
        return f"the checkpoint does not have it: {state.missing}"
    if not command.restore:
        return "you have no command that restores it"
    if not command.save:
        return "you have no command that saves its current content first"
    return command.refused


def _hint(store: Store, target: Checkpoint, step: StateStep) -> str:
    if step.state.missing:
        return _nearest(store, target)
    command = state_commands.named(store.repo, step.name)
    if command is None or not command.restore:
        return f"git config --global gitcp.state.{step.name}.restore COMMAND"
    if not command.save:
        return f"git config --global gitcp.state.{step.name}.save COMMAND"
    return state_commands.ALLOW if command.allowable else ""


def _nearest(store: Store, target: Checkpoint) -> str:
    """Return the command that restores the last checkpoint before with a state."""
    earlier: Iterator[Summary] = store.readable(target.parent)
    last = next((each.id for each in earlier if states.TRAILER in each.trailers), None)
    return f"gitcp restore {last} --state" if last else "gitcp save --state"


def left(steps: tuple[StateStep, ...]) -> tuple[Kept, ...]:
    """Return the states that are not restored, as the agent is told of paths."""
    return tuple(
        Kept(f"state {step.name}".encode(), step.failure, missing=True)
        for step in steps
        if step.failure
    )


def not_continued(
    target: Checkpoint, wanted: tuple[str, ...], *, forward: bool
) -> tuple[StateStep, ...]:
    """Return the states that an interrupted restore was to restore, and may have begun to: an undo
    of it, once it is finished (`forward`), undoes that, too. To finish it runs no command:
    the record of what it was to do can come with an archive, and what the state became since the
    crash is in no checkpoint.
    """
    why = f"left as it is; to restore it: gitcp restore {target.id} --state"
    known = {state.name: state for state in (target.states.each if target.states else ())}
    return tuple(
        StateStep(known.get(name, CommandState(name)), failure=why, was_run=forward)
        for name in wanted
    )


def names(steps: tuple[StateStep, ...]) -> tuple[str, ...]:
    """Return the states for which a command is run, or was."""
    return tuple(step.name for step in steps if step.command and not step.failure)


def checked(
    store: Store, request: RestoreRequest, steps: tuple[StateStep, ...], saved: Saved
) -> tuple[StateStep, ...]:
    """Return the steps, with those marked whose state the safety checkpoint has the same way, or
    has not.

    Raises Refused if that lacks the current content of one, unless forced, and StoreDamaged if the
    content to restore cannot be read: nothing is changed then.
    """
    safety = saved.checkpoint.states
    lost = {name for name in names(steps) if safety is None or safety.of(name) is None}
    if lost and not request.force:
        raise Refused(
            "the current content cannot be saved first: "
            f"{'; '.join(saved.missing_states) or 'no command saved it'}; nothing was restored "
            "(with --force it is, and the current content is lost)",
            hint=f"gitcp restore {request.target.id} --state --force",
        )
    steps = tuple(replace(step, unsaved=step.name in lost) for step in steps)
    steps = against(steps, saved.checkpoint)
    _require_content(store, request.target, steps)
    return steps


def differ(steps: tuple[StateStep, ...]) -> bool:
    """Return whether a command has to be run."""
    return any(_to_run(steps))


def against(steps: tuple[StateStep, ...], safety: Checkpoint) -> tuple[StateStep, ...]:
    """Return the steps with those marked whose state the safety checkpoint has the same way."""

    def is_current(step: StateStep) -> bool:
        now = safety.states.of(step.name) if safety.states else None
        return now is not None and (now.bytes, now.sha256) == (step.state.bytes, step.state.sha256)

    return tuple(replace(step, is_current=is_current(step)) for step in steps)


def _require_content(store: Store, target: Checkpoint, steps: tuple[StateStep, ...]) -> None:
    """Read the content of each state to restore. Raises StoreDamaged: nothing is changed then."""
    sums = Sums()
    for step in _to_run(steps):
        assert target.states is not None
        state = step.state
        stored = states.stored(store.reader, target.states, state)
        if sums.of(store.reader, state.name, stored) != (state.bytes, state.sha256):
            raise StoreDamaged(
                f"the content of state {state.name} in {target.id} is damaged: nothing was "
                "restored",
                hint="gitcp doctor --store",
            )


def _to_run(steps: tuple[StateStep, ...]) -> Iterator[StateStep]:
    return (step for step in steps if not (step.failure or step.is_current))


def restore(
    store: Store, target: Checkpoint, steps: tuple[StateStep, ...]
) -> tuple[StateStep, ...]:
    """Run the commands, one after another. Return the steps with what failed."""
    done = {
        step.name: replace(step, **_run(store, target, step), was_run=True)
        for step in _to_run(steps)
    }
    return tuple(done.get(step.name, step) for step in steps)


def _limit(seconds: float) -> str:
    """Return why a command must end: no hook saves while a restore is at work."""
    return "" if seconds <= LONGEST else f"its command did not end within {LONGEST} seconds"


def _run(store: Store, target: Checkpoint, step: StateStep) -> dict[str, str]:
    """Run a command with the content on its standard input. Return why it failed, or "", and what
    it said.
    """
    assert target.states is not None
    directory = store.repo.store_dir
    try:
        make_own_directory(directory)
        with TemporaryFile(dir=directory) as given:
            for data in segments.content(
                store.reader, states.stored(store.reader, target.states, step.state)
            ):
                given.write(data)
            given.flush()
            given.seek(0, os.SEEK_SET)
            with progress.task(f"restoring state {step.name}", progress.BYTES):
                ended = state_commands.run(store.repo, step.command, given, DEVNULL, _limit)
    except (GitcpError, OSError) as error:
        return {"failure": getattr(error, "strerror", None) or str(error)}
    return {"failure": ended.failure, "said": ended.said}


def restored(store: Store, target: Checkpoint, steps: tuple[StateStep, ...]) -> States | None:
    """Return what is known of the states after a restore: those that it put back."""
    if target.states is None:
        return None
    return states.only(store, target.states, names(steps))
