"""Steps: which recorded results are current, which steps have to run again, and why.

A step is current if its result was recorded for the same inputs, its files are as it wrote them,
and the steps it depends on are current and have the results that it used. So a change affects what
depends on it and nothing else; and a step that runs again with the same result affects nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from enum import StrEnum
from hashlib import sha256
from typing import Any

from gitcp import fingerprint
from gitcp.errors import BadValue, GitcpError, Refused, RevisionNotFound
from gitcp.git.records import unwritable
from gitcp.model import Note, Oid, StepName, Trigger
from gitcp.running.compensate import FUNCTION, Outcome, compensate, require_command
from gitcp.saving import save
from gitcp.saving.save import Records, Saved, SaveRequest
from gitcp.saving.session import GIVEN, Choice
from gitcp.state import effects, settings
from gitcp.state.effects import Effect
from gitcp.state.steps import Results, StepResult, decode
from gitcp.store import Store, one_line
from gitcp.value import Value, replace
from gitcp.worktree import reading
from gitcp.worktree.paths import display

MOST_TREES = 1000
"""Checkpoints of which a session remembers the tree of results."""


class StepVerdict(StrEnum):
    """What becomes of a step: it runs, it runs if a step before it gets another result, or its
    recorded result is used.
    """

    RUN = "run"
    IF_CHANGED = "if-changed"
    SKIP = "skip"


class PlannedStep(Value):
    """A step in a plan. `reasons` say why it would run, empty if it would not."""

    step: StepName
    verdict: StepVerdict
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.verdict.value:<10}  {self.step}" + (
            f": {', '.join(self.reasons)}" if self.reasons else ""
        )


class PlannedCompensation(Value):
    """A compensation that would run before its step runs again; `verdict` is the step's."""

    step: StepName
    command: str
    verdict: StepVerdict

    def __str__(self) -> str:
        verb = "undo" if self.verdict is StepVerdict.RUN else "undo-if"
        return f"{verb:<10}  {self.step}: {self.command}"


class StepPlan(Value):
    """What a program would run if it started now. A step comes after those it depends on.
    `compensations` are what would be undone first, newest first.
    """

    session: str
    steps: tuple[PlannedStep, ...]
    compensations: tuple[PlannedCompensation, ...] = ()

    @property
    def affected(self) -> tuple[StepName, ...]:
        """The steps that would run, or would run if a result changes."""
        return tuple(each.step for each in self.steps if each.verdict is not StepVerdict.SKIP)

    def __str__(self) -> str:
        lines = [*map(str, self.compensations), *map(str, self.steps)]
        return "\n".join(lines) or f"session {self.session} has no steps"

    def to_json(self) -> dict[str, Any]:
        """Return the plan as a JSON value."""
        return {
            "session": self.session,
            "steps": [
                {**each.step._asdict(), "verdict": each.verdict.value, "reasons": [*each.reasons]}
                for each in self.steps
            ],
            "compensations": [
                {**each.step._asdict(), "command": each.command, "verdict": each.verdict.value}
                for each in self.compensations
            ],
        }


class StepRequest(Value):
    """A step as a program calls it. `inputs` is their checksum, compared unless
    `any_inputs`; `depends` are the steps it names, `files` the paths it writes, from the root.
    `compensate` is what undoes its effect, "" if nothing does. `is_command`: it is a command of the
    shell, which calls no functions.
    """

    step: StepName
    inputs: str | None = None
    depends: tuple[StepName, ...] = ()
    files: tuple[bytes, ...] = ()
    any_inputs: bool = False
    compensate: str = ""
    is_command: bool = False


class StepCache:
    """What was read before: results by object id, checksums of files by fingerprint. For one
    session object; threads may share it.
    """

    def __init__(self) -> None:
        self.results: dict[Oid, Any] = {}
        self._trees: dict[Oid, Oid | None] = {}
        self._files: dict[bytes, tuple[fingerprint.Fingerprint, str]] = {}

    def tree(self, store: Store, commit: Oid) -> Oid | None:
        """Return the tree of the results that a checkpoint has. One is read once for each step."""
        if commit not in self._trees:
            if len(self._trees) >= MOST_TREES:
                self._trees.clear()
            self._trees[commit] = store.read(commit).steps
        return self._trees[commit]

    def checksum(self, root: bytes, path: bytes) -> str | None:
        """Return the SHA-256 of a file, None if it is missing, unreadable or not a file."""
        full = os.path.join(root, path)
        try:
            status = os.stat(full)
            current = fingerprint.of(status)
            if full in self._files and self._files[full][0] == current:
                return self._files[full][1]
            started = reading.tick()
            digest, status = reading.consume(full, status, _sha256)
        except (OSError, reading.Unstable):
            return None
        current = fingerprint.of(status)
        if reading.settled(current[fingerprint.CTIME], started):
            self._files[full] = current, digest
        return digest


# ---------------------------------------------------------------- what has to run


def plan(
    session: str,
    find: Callable[[StepName], StepResult | None],
    wanted: Mapping[StepName, str | None],
    checksum: Callable[[bytes], str | None],
    *,
    known_inputs: Container[StepName],
) -> StepPlan:
    """Return the plan for the steps `wanted`, with the checksums of their inputs, and for all they
    depend on.

    Inputs are compared only for steps in `known_inputs`. `find` returns recorded results and
    `checksum` that of a file now. Pure but for these.
    """
    planned: dict[StepName, PlannedStep] = {}
    for step in _in_order(wanted, find):
        result = find(step)
        own: list[str] = []
        if result is None:
            own = ["it has not run"]
        else:
            if step in known_inputs and wanted.get(step) != result.inputs:
                own.append("its inputs changed")
            own += _own_reasons(result, checksum)
        upstream = _upstream_reasons(result, find, planned) if result else ([], [])
        own += upstream[0]
        verdict = (
            StepVerdict.RUN if own else StepVerdict.IF_CHANGED if upstream[1] else StepVerdict.SKIP
        )
        lost = ["it was done, and its result was not kept"] if result and not result.kept else []
        planned[step] = PlannedStep(step, verdict, tuple(own or upstream[1] or lost))
    return StepPlan(session, tuple(planned.values()))


def _in_order(
    wanted: Mapping[StepName, str | None], find: Callable[[StepName], StepResult | None]
) -> Iterator[StepName]:
    """Yield steps and all they depend on, each once, after what it depends on."""
    begun: set[StepName] = set()
    done: set[StepName] = set()
    ahead = [*reversed([*wanted])]
    while ahead:
        step = ahead[-1]
        if step not in begun:
            begun.add(step)
            result = find(step)
            depends = result.depends if result else ()
            ahead += [each for each in reversed([*depends]) if each not in begun]
            continue
        ahead.pop()
        if step not in done:
            done.add(step)
            yield step


def _own_reasons(result: StepResult, checksum: Callable[[bytes], str | None]) -> Iterator[str]:
    if result.begun:
        yield "it did not end"
    elif result.invalidated:
        yield "it was invalidated"
    for path, recorded in result.files.items():
        now = checksum(path)
        if now != recorded:
            yield f"{display(path)} {'is missing' if now is None else 'was altered'}"


def _upstream_reasons(
    result: StepResult,
    find: Callable[[StepName], StepResult | None],
    planned: Mapping[StepName, PlannedStep],
) -> tuple[list[str], list[str]]:
    """Return the reasons to run because of other results, and because of steps that would run."""
    certain, possible = [], []
    for step, used in result.depends.items():
        upstream = find(step)
        if step in planned and planned[step].verdict is not StepVerdict.SKIP:
            possible.append(f"it depends on step {str(step)!r}")
        elif upstream is not None and upstream.checksum != used:
            certain.append(f"step {str(step)!r} has another result")
    return certain, possible


def plan_session(
    store: Store, session: str, inputs: Mapping[StepName, str | None], known: StepCache
) -> StepPlan:
    """Return the plan for every recorded step of a session, and for the steps in `inputs`. Writes
    nothing. Raises StoreDamaged.
    """
    results = {result.step: result for result in _results(store, session, known)}
    wanted = {**dict.fromkeys(sorted(results, key=_by_number)), **inputs}
    root = os.fsencode(store.repo.root)
    made = plan(
        session,
        results.get,
        wanted,
        lambda path: known.checksum(root, path),
        known_inputs=frozenset(inputs),
    )
    return replace(made, compensations=tuple(_to_undo(store, session, made, results)))


def _to_undo(
    store: Store, session: str, made: StepPlan, results: Mapping[StepName, StepResult]
) -> Iterator[PlannedCompensation]:
    """Yield what would be undone before the steps of a plan run, newest first."""
    verdicts: dict[StepName, StepVerdict] = {}
    for verdict in (StepVerdict.IF_CHANGED, StepVerdict.RUN):
        for each in made.steps:
            result = results.get(each.step)
            if each.verdict is verdict and result is not None and result.compensate:
                verdicts |= dict.fromkeys(after(each.step, results.values()), verdict)
    if verdicts:
        for effect in effects.after(store, None, session):
            if effect.outcome is None and effect.step in verdicts:
                yield PlannedCompensation(effect.step, effect.command, verdicts[effect.step])


def after(step: StepName, results: Iterable[StepResult]) -> frozenset[StepName]:
    """Return a step and all that depend on it, directly or not."""
    dependents: dict[StepName, list[StepName]] = {}
    for result in results:
        for each in result.depends:
            dependents.setdefault(each, []).append(result.step)
    steps, ahead = {step}, [step]
    while ahead:
        new = set(dependents.get(ahead.pop(), ())) - steps
        steps |= new
        ahead += new
    return frozenset(steps)


def check(
    store: Store, session: str, request: StepRequest, known: StepCache
) -> tuple[StepResult | None, PlannedStep]:
    """Return the recorded result of a step, and whether it has to run. Raises Refused if a step
    that it names has not run, or would have to run again.
    """
    results, root = _results(store, session, known), os.fsencode(store.repo.root)
    wanted = {**dict.fromkeys(request.depends), request.step: request.inputs}
    made = plan(
        session,
        results.find,
        wanted,
        lambda path: known.checksum(root, path),
        known_inputs=() if request.any_inputs else (request.step,),
    )
    planned = {each.step: each for each in made.steps}
    for step in request.depends:
        if planned[step].verdict is not StepVerdict.SKIP:
            raise Refused(
                f"step {str(request.step)!r} depends on step {str(step)!r}, which has to run "
                f"first ({', '.join(planned[step].reasons)}): nothing was run",
                hint=f"run step {str(step)!r} before it",
            )
    return results.find(request.step), planned[request.step]


def _results(store: Store, session: str, known: StepCache) -> Results:
    tip = store.tip(session)
    return Results(store, known.tree(store, tip) if tip else None, known.results)


# ---------------------------------------------------------------- effects


def undo(
    store: Store, session: str, request: StepRequest, known: StepCache, *, limit: float
) -> tuple[Outcome, ...]:
    """Undo what the last run of a step did outside of the files, before it runs again: its
    compensation, and before it those of the steps that depend on it, newest first. They run again,
    too. Return how they ended. Raises GitcpError if one fails, which is not run again, and Refused,
    with nothing run, for one that is not this user's, a function in a command of the shell, and the
    step's own if it is a function that the program does not pass.
    """
    results = _results(store, session, known)
    last = results.find(request.step)
    if not (request.compensate or (last is not None and last.compensate)):
        return ()
    recorded = {result.step: result for result in results}
    undone = after(request.step, recorded.values())
    open_effects = [
        effect
        for effect in effects.after(store, None, session)
        if effect.outcome is None and effect.step in undone
    ]
    if not open_effects:
        return ()
    for effect in open_effects:
        _require_allowed(store, effect, request)
    # First: after a crash, what was undone must not count as done.
    stale = {effect.step for effect in open_effects if effect.step in recorded}
    _save(
        store,
        session,
        Note(label=f"undoing step {request.step}"),
        Records(results=tuple(replace(recorded[each], invalidated=True) for each in stale if each)),
    )
    outcomes: list[Outcome] = []
    for effect in open_effects:
        assert effect.step is not None
        outcome = undo_effect(store, session, effect, recorded.get(effect.step), limit=limit)
        outcomes.append(outcome)
        if outcome.effect.outcome != effects.DONE:
            output = outcome.run.output.strip() if outcome.run else ""
            raise GitcpError(
                f"{effect.command}, which undoes step {str(effect.step)!r}, {_ended(outcome)}: "
                f"step {str(request.step)!r} was not run{f' ({output})' if output else ''}",
                hint="undo it by hand, and run the program again: it is not tried again",
            )
    return tuple(outcomes)


def _require_allowed(store: Store, effect: Effect, request: StepRequest) -> None:
    """Raise Refused for a compensation that is only in a checkpoint: an archive ran a command of
    its author when a step of the same name was run in it. A command of the shell calls no function,
    and the step's own has to be passed; what the program passes for the steps that depend on this
    one is not known before they run.
    """
    step, command = str(request.step), effect.command
    if not effects.is_announced(store, effect):
        raise Refused(
            f"{one_line(command, 70)} undoes step {str(effect.step)!r}, but you did not "
            f"record that in this directory: step {step!r} was not run",
            hint="gitcp run --compensations --list",
        )
    if request.is_command:
        require_command(effect)
    is_own = effect.step == request.step and command != request.compensate
    if is_own and command.startswith(FUNCTION):
        name = command.removeprefix(FUNCTION).replace(":", ".")
        raise Refused(
            f"step {step!r} is undone by the function {name}, which the program does "
            "not pass as compensate: nothing was run",
            hint="pass this function, or undo it with compensate() before",
        )


def undo_effect(
    store: Store, session: str, effect: Effect, result: StepResult | None, *, limit: float
) -> Outcome:
    """Run the compensation of an effect; a function gets the step's key and its result, None if it
    did not end.
    """
    has_ended = result is not None and not result.begun and result.kept
    value = decode(result) if result is not None and has_ended else None
    key = effect.step.key if effect.step else ""
    outcome = compensate(store, effect, session, limit=limit, undo=lambda call: call(key, value))
    if effect.step:
        effects.withdraw(store, effect)
    return outcome


def undo_recorded(store: Store, session: str, effect: Effect, *, limit: float) -> Outcome:
    """Run the compensation of an effect, as `undo_effect`, with what is recorded of its step."""
    return undo_effect(store, session, effect, _result_of(store, session, effect), limit=limit)


def outdate(store: Store, session: str, effect: Effect) -> None:
    """Let the step of an effect run again, whose compensation somebody asks for."""
    result = _result_of(store, session, effect)
    if result is not None and not result.invalidated:
        note = Note(label=f"undoing step {result.step}")
        _save(store, session, note, Records(results=(replace(result, invalidated=True),)))


def _result_of(store: Store, session: str, effect: Effect) -> StepResult | None:
    return _results(store, session, StepCache()).find(effect.step) if effect.step else None


def _ended(outcome: Outcome) -> str:
    code = outcome.run.code if outcome.run else None
    return f"exited with {code}" if code else f"ended: {outcome.effect.outcome}"


def announce(store: Store, session: str, request: StepRequest, known: StepCache) -> None:
    """Record the compensation of a step before it runs: the effect must not come before it."""
    if not request.compensate:
        return
    step = request.step
    try:
        effects.announce(store, step, request.compensate)
    except OSError:
        raise unwritable(store.repo.host, f"step {str(step)!r} was not run") from None
    last = _results(store, session, known).find(step) or StepResult(step, b"null")
    begun = replace(last, invalidated=True, begun=True, compensate=request.compensate)
    note = Note(label=f"before step {step}", compensations=(request.compensate,))
    records = Records(step=step, results=(begun,))
    _save(store, session, note, records, Trigger.BEFORE_RISKY_CHANGE)


def _save(
    store: Store,
    session: str,
    note: Note,
    records: Records,
    trigger: Trigger = Trigger.MANUAL,
) -> Saved:
    request = SaveRequest(
        cwd=store.repo.root,
        note=note,
        trigger=trigger,
        limits=settings.limits(store.repo),
        choice=Choice(session, None, GIVEN),
        records=records,
    )
    return save.save(store, request)


# ---------------------------------------------------------------- recording


def record(
    store: Store,
    request: StepRequest,
    result: StepResult,
    used: Mapping[StepName, str],
    known: StepCache,
) -> StepResult:
    """Return the result to record, with what the step used and the files it wrote. Raises BadValue
    if one of these is missing.
    """
    root = os.fsencode(store.repo.root)
    files = {path: known.checksum(root, path) for path in request.files}
    for path, checksum in files.items():
        if checksum is None:
            raise BadValue(
                f"step {str(request.step)!r} did not write {display(path)}: its result is not "
                "recorded",
                hint="name the files that it writes, one by one",
            )
    return replace(
        result,
        inputs=request.inputs,
        depends=dict(used),
        files={path: checksum for path, checksum in files.items() if checksum},
        compensate=request.compensate,
    )


def checksums(
    store: Store, session: str, depends: tuple[StepName, ...], known: StepCache
) -> dict[StepName, str]:
    """Return the checksums of the results of steps."""
    results = _results(store, session, known)
    recorded = {step: results.find(step) for step in depends}
    return {step: result.checksum for step, result in recorded.items() if result}


def invalidate(store: Store, session: str, name: str, key: str | None, known: StepCache) -> Saved:
    """Mark the results of a step as invalid, with every key unless `key` is given: it runs again,
    and what depends on it if its result changes. Saves a checkpoint. Raises RevisionNotFound.
    """
    outdated = [
        replace(result, invalidated=True)
        for result in _results(store, session, known)
        if result.step.name == name and key in (None, result.step.key)
    ]
    step = StepName(name, key or "")
    if not outdated:
        raise RevisionNotFound(
            f"session {session} has no step {str(step)!r}: nothing was changed",
            hint=f"gitcp run --plan --session {session}",
        )
    note = Note(label=f"invalidated step {step}")
    return _save(store, session, note, Records(results=tuple(outdated)))


def _by_number(step: StepName) -> list[tuple[int, str]]:
    """Return a key that sorts 9 before 10."""
    return [
        (int(part), "") if part.isdecimal() else (-1, part)
        for text in step
        for part in re.split(r"([0-9]{1,18})", text)
    ]


def _sha256(descriptor: int, _: os.stat_result) -> str:
    digest = sha256()
    for block in reading.blocks(descriptor):
        digest.update(block)
    return digest.hexdigest()
