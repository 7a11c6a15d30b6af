"""`gitcp run`."""

from __future__ import annotations

from typing import Any

import click

from gitcp import documents, humanize
from gitcp.cli import child, effects, rendering, restore_view, steps
from gitcp.cli.context import Context
from gitcp.cli.failure import IN_PART, end
from gitcp.cli.options import (
    SECONDS,
    TEXT,
    WORDS,
    Command,
    Rest,
    appends_option,
    exact_session_option,
    json_option,
    rare,
)
from gitcp.cli.output import GREEN, RED, Styled
from gitcp.cli.save import retain
from gitcp.errors import BadValue, Refused
from gitcp.model import Checkpoint, Run, StepName
from gitcp.running import transaction
from gitcp.running.compensate import LIMIT
from gitcp.running.transaction import (
    Failure,
    OpenTransaction,
    TransactionRequest,
    done_about,
)
from gitcp.saving import session
from gitcp.state import masking
from gitcp.state.steps import only, place


class Options(steps.Options):
    """What was typed."""

    rollback: bool
    appends: tuple[bytes, ...]


@click.command(cls=Command, rest=Rest("program", TEXT, "CMD"))
@click.argument("label", type=WORDS, required=False)
@click.option(
    "--rollback", is_flag=True, help="on failure, run compensations and restore the files"
)
@click.option(
    "--compensate",
    type=WORDS,
    metavar="CMD",
    multiple=True,
    help="command that undoes its effect (repeatable)",
)
@rare(
    click.option(
        "--limit",
        type=SECONDS,
        metavar="SECONDS",
        default=LIMIT,
        help="time limit for a compensation (600)",
    )
)
@steps.step_options
@rare(appends_option)
@click.option("--recover", is_flag=True, help="finish an interrupted run, and run nothing")
@exact_session_option
@json_option
@click.pass_obj
def command(
    context: Context, /, label: str | None, program: tuple[str, ...], **values: Any
) -> None:
    """Run a command between two checkpoints

    Exits with the command's exit code. The checkpoint after it records the command, its exit code
    and the end of its output; a failure is added to the handoff. An interrupted run counts as
    failed and is finished when the next one starts.

      gitcp run migrate -- ./migrate.sh
      gitcp run deploy --rollback --compensate ./undeploy.sh -- ./deploy.sh
      gitcp run --step build --input @app.c --produces app -- cc -o app app.c
    """
    given = Options(**values)
    steps.check_options(given, program)
    if given.plan:
        steps.plan(context, program, given)
    elif given.invalidate:
        steps.invalidate(context, given)
    elif given.recover:
        if label or program:
            raise BadValue("--recover takes no label and no command", hint="gitcp run -h")
        _recover(context, given)
    elif not program or not (label or given.step):
        raise BadValue(
            "LABEL or --step, and -- CMD are required: nothing was run", hint="gitcp run -h"
        )
    elif given.step:
        _run_step(context, label or f"step {given.step}", program, given.step, given)
    else:
        _recover_first(context, given)
        _run(context, label or "", program, given)


def _recover_first(context: Context, given: Options) -> None:
    for failure in transaction.recover(context.store, limit=given.limit):
        _tell_failure(context, failure)


def _run_step(
    context: Context, label: str, program: tuple[str, ...], name: str, given: Options
) -> None:
    """Run a command as a step, unless its result is current."""
    _recover_first(context, given)
    store = context.store
    choice = session.choose(
        store, context.cwd, session=given.session, agent=None, conversation=None
    )
    with only(store, choice.session, place(StepName(name))):
        step = steps.begin(context, choice.session, program, given)
        if step is not None:
            _run(context, label, program, given, choice, step)


def _run(
    context: Context,
    label: str,
    program: tuple[str, ...],
    given: Options,
    choice: session.Choice | None = None,
    step: steps.ShellStep | None = None,
) -> None:
    store, env = context.store, context.host.env
    opened = transaction.begin(
        store,
        TransactionRequest(
            cwd=context.cwd,
            label=label,
            rollback=given.rollback,
            compensations=() if step else given.compensate,
            command=program,
            session=given.session,
            choice=choice,
            appends=context.inside(given.appends),
        ),
    )
    before = opened.transaction.before
    if step is not None:
        step.announce(context)
    context.output.say("saved ", str(before), f' "before {label}"')
    rendering.say_unread(context.output, opened.unread)
    inner = {**env, "GITCP_SESSION": before.session}
    ended = child.run(program, context.cwd, inner, opened.lock, out=2 if given.as_json else 1)
    run = Run(program, ended.code, ended.milliseconds, masking.tail(ended.output, env))
    if ended.code == 0:
        _succeed(context, opened, run, given, step)
    else:
        _fail(context, opened, run, given, step)
    retain(context, before)
    end(ended.code)


def _succeed(
    context: Context,
    opened: OpenTransaction,
    run: Run,
    given: Options,
    step: steps.ShellStep | None,
) -> None:
    try:
        result = step.result(context, opened.transaction.before) if step else None
    except BadValue:  # a file was not written: the step failed
        _fail(context, opened, run, given, step)
        raise
    done = transaction.succeed(context.store, opened, run, result)
    _tell(context, opened, done, run, given, step)


def _fail(
    context: Context,
    opened: OpenTransaction,
    run: Run,
    given: Options,
    step: steps.ShellStep | None,
) -> None:
    failure = transaction.fail(context.store, opened, run, limit=given.limit)
    if given.as_json:
        context.output.document(
            documents.document(
                "run", _fields(failure.transaction.before, failure.checkpoint, run, failure, step)
            )
        )
    else:
        _tell_failure(context, failure, run)


def _tell(
    context: Context,
    opened: OpenTransaction,
    done: Checkpoint,
    run: Run,
    given: Options,
    step: steps.ShellStep | None,
) -> None:
    label = opened.transaction.label
    if given.as_json:
        context.output.document(
            documents.document("run", _fields(opened.transaction.before, done.id, run, None, step))
        )
    else:
        context.output.say(Styled("done", GREEN), f" {label}  ({_took(run)}); saved {done.id}")


def _tell_failure(context: Context, failure: Failure, run: Run | None = None) -> None:
    """Print to stderr what was done about a failure; stdout is the command's."""
    say, label, before = context.output.say, failure.transaction.label, failure.transaction.before
    how = f"exit code {run.code}, {_took(run)}" if run else "it was interrupted"
    say(Styled("failed", RED), f" {label}  ({how}); saved {failure.checkpoint}")
    for outcome in failure.outcomes:
        effects.tell(say, outcome.effect)
    report = failure.report
    if not failure.transaction.rollback:
        say(f"the files are unchanged; undo with: gitcp restore {before} --files")
    elif report is None:
        say(f"restored the files of {before}")
    else:
        restored = (
            f"{humanize.count(len(report.written), 'file')} written, {len(report.removed):,} "
            "removed"
        )
        what = "restored some files" if report.failed else "restored the files"
        say(f"{what} of {before}  ({restored})")
        restore_view.kept(say, "kept", report.kept)


def _recover(context: Context, given: Options) -> None:
    failures = transaction.recover(context.store, limit=given.limit)
    if not failures and not given.as_json:
        raise Refused("no run was interrupted here: nothing was changed", hint="gitcp log")
    for failure in failures:
        if given.as_json:
            empty = Run(failure.transaction.command, None, 0)
            fields = _fields(failure.transaction.before, failure.checkpoint, empty, failure)
            context.output.document(documents.document("run", fields))
        else:
            _tell_failure(context, failure)
    wrong = any(failure.report is not None and failure.report.failed for failure in failures)
    end(IN_PART if wrong else 0)


def _took(run: Run) -> str:
    return f"{run.milliseconds / 1000:.2f} s"


def _fields(
    before: object,
    after: object,
    run: Run,
    failure: Failure | None,
    step: steps.ShellStep | None = None,
) -> dict[str, Any]:
    done = done_about(failure)
    undone = [outcome.effect.to_json() for outcome in step.undone] if step else []
    return {
        "before": str(before),
        "checkpoint": str(after),
        "ok": failure is None,
        "run": documents.run(run),
        **done,
        "compensations": [*undone, *done["compensations"]],
    }
