"""`gitcp run`."""

from __future__ import annotations

from typing import Any

import click

from gitcp.cli import child, effects, humanize, objects, restore_view, saving
from gitcp.cli.context import Context
from gitcp.cli.failure import IN_PART, end
from gitcp.cli.options import WORDS, Command, exact_session_option, json_option, pass_context
from gitcp.cli.output import GREEN, RED, Styled
from gitcp.errors import Refused
from gitcp.model import Checkpoint, Run
from gitcp.running import transaction
from gitcp.running.compensate import LIMIT
from gitcp.running.transaction import Failure, Open, Request
from gitcp.state import masking


class WithProgram(Command):
    """A command that takes `-- CMD…`: what follows `--` is a program and its arguments, whatever
    they look like.
    """

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- CMD...]"]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        place = args.index("--") if "--" in args else len(args)
        ctx.meta[PROGRAM] = tuple(args[place + 1 :])
        return super().parse_args(ctx, args[:place])


PROGRAM = "gitcp.program"


@click.command(cls=WithProgram)
@click.argument("label", required=False, type=WORDS)
@click.option(
    "--rollback", is_flag=True, help="if it fails, run the compensations and bring the files back"
)
@click.option(
    "--compensate",
    metavar="CMD",
    type=WORDS,
    multiple=True,
    help="what would undo its effect (can be repeated)",
)
@click.option(
    "--limit",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=LIMIT,
    help="end a compensation after it (600)",
)
@click.option("--recover", is_flag=True, help="finish what was interrupted, and run nothing")
@exact_session_option
@json_option
@pass_context
def command(context: Context, /, label: str | None, **given: Any) -> None:
    """Run a command between two checkpoints

    The exit code is that of the command. What was run, how it ended and the end of its output are
    in the checkpoint after it; a failure is also added to what was tried in vain. A run that was
    interrupted is taken for failed, and finished when the next one begins.

      gitcp run migrate -- ./migrate.sh
      gitcp run deploy --rollback --compensate "./undeploy.sh" -- ./deploy.sh --all
      gitcp run --recover
    """
    program = click.get_current_context().meta[PROGRAM]
    if given["recover"]:
        if label or program:
            raise click.UsageError("--recover runs nothing: leave out label and command")
        _recover(context, given)
    elif not label or not program:
        raise click.UsageError("give a label, and the command after --")
    else:
        _run(context, label, program, given)


def _run(context: Context, label: str, program: tuple[str, ...], given: dict[str, Any]) -> None:
    store, env = context.store, context.host.env
    for failure in transaction.recover(store, limit=given["limit"]):
        _tell_failure(context, failure)
    opened = transaction.begin(
        store,
        Request(
            cwd=context.cwd,
            label=label,
            rollback=given["rollback"],
            compensations=given["compensate"],
            command=program,
            session=given["session"],
        ),
    )
    before = opened.transaction.before
    context.output.say("saved ", str(before), f' "before {label}"')
    inner = {**env, "GITCP_SESSION": before.session}
    ended = child.run(program, context.cwd, inner, opened.lock, out=2 if given["as_json"] else 1)
    run = Run(program, ended.code, ended.milliseconds, masking.tail(ended.output, env))
    if ended.code == 0:
        done = transaction.succeed(store, opened, run)
        _tell(context, opened, done, run, given)
    else:
        _fail(context, opened, run, given)
    saving.retain(context, before)
    end(ended.code)


def _fail(context: Context, opened: Open, run: Run, given: dict[str, Any]) -> None:
    failure = transaction.fail(context.store, opened, run, limit=given["limit"])
    if given["as_json"]:
        context.output.document(
            objects.document(
                "run", _fields(failure.transaction.before, failure.checkpoint, run, failure)
            )
        )
    else:
        _tell_failure(context, failure, run)


def _tell(
    context: Context, opened: Open, done: Checkpoint, run: Run, given: dict[str, Any]
) -> None:
    label = opened.transaction.label
    if given["as_json"]:
        context.output.document(
            objects.document("run", _fields(opened.transaction.before, done.id, run, None))
        )
    else:
        context.output.say(Styled("done", GREEN), f" {label}  ({_took(run)}); saved {done.id}")


def _tell_failure(context: Context, failure: Failure, run: Run | None = None) -> None:
    """What was done about a failure; all of it is talk, since stdout is the command's."""
    say, label, before = context.output.say, failure.transaction.label, failure.transaction.before
    how = f"exit code {run.code}, {_took(run)}" if run else "it was interrupted"
    say(Styled("failed", RED), f" {label}  ({how}); saved {failure.checkpoint}")
    for outcome in failure.outcomes:
        effects.tell(say, outcome.effect)
    report = failure.report
    if not failure.transaction.rollback:
        say(f"the files stay as they are; back with: gitcp restore {before} --files")
    elif report is None:
        say(f"the files are back at {before}")
    else:
        restored = (
            f"{humanize.count(len(report.written), 'file')} written, {len(report.removed):,} "
            "removed"
        )
        what = "only some of the files are" if report.failed else "the files are"
        say(f"{what} back at {before}  ({restored})")
        restore_view.kept(say, "left alone", report.kept)


def _recover(context: Context, given: dict[str, Any]) -> None:
    found = transaction.recover(context.store, limit=given["limit"])
    if not found and not given["as_json"]:
        raise Refused("no run was interrupted here: nothing was changed", hint="gitcp log")
    for failure in found:
        if given["as_json"]:
            empty = Run(failure.transaction.command, None, 0)
            fields = _fields(failure.transaction.before, failure.checkpoint, empty, failure)
            context.output.document(objects.document("run", fields))
        else:
            _tell_failure(context, failure)
    wrong = any(failure.report is not None and failure.report.failed for failure in found)
    end(IN_PART if wrong else 0)


def _took(run: Run) -> str:
    return f"{run.milliseconds / 1000:.2f} s"


def _fields(before: object, after: object, run: Run, failure: Failure | None) -> dict[str, Any]:
    report = failure.report if failure else None
    return {
        "before": str(before),
        "checkpoint": str(after),
        "ok": failure is None,
        "run": objects.run(run),
        "compensations": [objects.effect(outcome.effect) for outcome in failure.outcomes]
        if failure
        else [],
        "restored": str(report.checkpoint) if report and report.checkpoint else None,
        "written": objects.paths(report.written if report else ()),
        "removed": objects.paths(report.removed if report else ()),
        "kept": objects.kept(report.kept if report else ()),
    }
