"""Steps for `gitcp run`: skipped while nothing that they depend on has changed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click

from gitcp import documents
from gitcp.cli import effects
from gitcp.cli.context import Context
from gitcp.cli.options import WORDS, produces_option, rare, together
from gitcp.errors import BadValue
from gitcp.model import StepName
from gitcp.running import steps
from gitcp.running.compensate import Outcome
from gitcp.running.steps import StepCache, StepPlan, StepRequest, StepVerdict
from gitcp.state.steps import StepResult, encode, inputs_checksum
from gitcp.value import EMPTY, Value

step_options = together(
    click.option(
        "--step",
        type=WORDS,
        metavar="NAME",
        help="skip CMD while nothing that this step depends on changed",
    ),
    rare(
        click.option(
            "--input",
            metavar="TEXT|@FILE",
            multiple=True,
            help="run the step again if this text or file changes (repeatable)",
        )
    ),
    rare(
        click.option(
            "--depends",
            type=WORDS,
            metavar="STEP",
            multiple=True,
            help="run it again if this step's result changes (repeatable)",
        )
    ),
    rare(produces_option),
    click.option(
        "--plan", is_flag=True, help="list which steps would run and why, and run nothing"
    ),
    rare(
        click.option(
            "--invalidate",
            type=WORDS,
            metavar="STEP",
            help="make a step run again, and run nothing",
        )
    ),
)
"""The options of `gitcp run` for steps."""


class Options(Value):
    """The options of `gitcp run` that steps obey."""

    step: str | None
    input: tuple[str, ...]
    depends: tuple[str, ...]
    produces: tuple[bytes, ...]
    compensate: tuple[str, ...]
    limit: float
    plan: bool
    invalidate: str | None
    recover: bool
    session: str | None
    as_json: bool


class ShellStep(NamedTuple):
    """A step that a command of the shell does: its session, the results that it uses, and how what
    its last run did elsewhere was undone.
    """

    session: str
    request: StepRequest
    used: Mapping[StepName, str]
    known: StepCache
    undone: tuple[Outcome, ...] = ()

    def announce(self, context: Context) -> None:
        """Record what undoes the command's effect, before it runs."""
        steps.announce(context.store, self.session, self.request, self.known)

    def result(self, context: Context, before: object) -> StepResult:
        """Return what to record after the command. Raises BadValue if it did not write a file.

        Its files are the result. Without any, nothing can be compared: it is another one each time.
        """
        value = None if self.request.files else {"checkpoint": str(before)}
        recorded = encode(self.request.step, value)
        return steps.record(context.store, self.request, recorded, self.used, self.known)


def check_options(given: Options, program: Sequence[str]) -> None:
    """Raise BadValue for options of steps that do not go together."""
    alone = [name for name in ("plan", "invalidate", "recover") if getattr(given, name)]
    if len(alone) > 1 or (given.invalidate and program):
        raise BadValue(
            f"--{alone[0]} takes no command, and none of the others: nothing was run",
            hint="gitcp run -h",
        )
    if alone and given.compensate:
        raise BadValue(
            f"--{alone[0]} and --compensate cannot be used together: nothing was run",
            hint="gitcp run -h",
        )
    about = [name for name in ("input", "depends", "produces") if getattr(given, name)]
    if about and not given.step:
        raise BadValue(f"--{about[0]} requires --step: nothing was run", hint="gitcp run -h")
    if given.step and len(given.compensate) > 1:
        raise BadValue("--step takes one --compensate: nothing was run", hint="gitcp run -h")


def begin(
    context: Context, session: str, program: Sequence[str], given: Options
) -> ShellStep | None:
    """Return the step to run, after what its last run did elsewhere has been undone; None if it is
    current, which is printed. Raises Refused if a step that it depends on has to run first, and
    GitcpError if undoing failed. The caller holds the step's lock.
    """
    known = StepCache()
    request = _request(context, program, given, known)
    _, planned = steps.check(context.store, session, request, known)
    if planned.verdict is StepVerdict.SKIP:
        if given.as_json:
            _print(context, StepPlan(session, (planned,)), given)
        else:
            left = "; --compensate is recorded when it runs" if given.compensate else ""
            text = f"skipped step {request.step}: nothing that it depends on changed{left}"
            context.output.say(text)
        return None
    undone = steps.undo(context.store, session, request, known, limit=given.limit)
    for outcome in undone:
        effects.tell(context.output.say, outcome.effect)
    used = steps.checksums(context.store, session, request.depends, known)
    return ShellStep(session, request, used, known, undone)


def plan(context: Context, program: Sequence[str], given: Options) -> None:
    """Print which steps would run; the inputs of the step that is given are compared."""
    known, inputs = StepCache(), EMPTY
    if given.step:
        request = _request(context, program, given, known)
        inputs = {request.step: request.inputs}
    session = context.session(given.session)
    _print(context, steps.plan_session(context.store, session, inputs, known), given)


def invalidate(context: Context, given: Options) -> None:
    """Make a step run again, and print what that affects."""
    session, known = context.session(given.session), StepCache()
    steps.invalidate(context.store, session, given.invalidate or "", None, known)
    made = steps.plan_session(context.store, session, EMPTY, known)
    affected = tuple(each for each in made.steps if each.verdict is not StepVerdict.SKIP)
    _print(context, StepPlan(session, affected), given)


def _print(context: Context, made: StepPlan, given: Options) -> None:
    if given.as_json:
        context.output.document(documents.document("step-plan", made.to_json()))
    else:
        for line in str(made).splitlines():
            context.output.line(line)


def _request(
    context: Context, program: Sequence[str], given: Options, known: StepCache
) -> StepRequest:
    step = StepName(given.step or "")
    inputs = {
        "command": [os.fsencode(word).decode("utf-8", "backslashreplace") for word in program],
        "inputs": [_input(context, text, known) for text in given.input],
    }
    return StepRequest(
        step,
        inputs=inputs_checksum(step, inputs),
        depends=tuple(map(StepName, given.depends)),
        files=context.inside(given.produces),
        compensate="".join(given.compensate),
        is_command=True,
    )


def _input(context: Context, text: str, known: StepCache) -> Any:
    """Return a text, or the path and checksum of a file. Raises BadValue if it cannot be read."""
    if not text.startswith("@"):
        return os.fsencode(text).decode("utf-8", "backslashreplace")
    full = os.path.realpath(os.path.join(context.cwd, text[1:]))
    checksum = known.checksum(os.fsencode(context.cwd), os.fsencode(full))
    if checksum is None:
        raise BadValue(
            f"--input {text}: {full} cannot be read: nothing was run",
            hint=f"ls -l {full}",
        )
    return {"file": text[1:], "sha256": checksum}
