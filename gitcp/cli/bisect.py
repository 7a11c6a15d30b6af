"""`gitcp bisect`."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any

import click

from gitcp import documents, humanize
from gitcp.cli import rendering
from gitcp.cli.context import Context
from gitcp.cli.failure import IN_PART, end
from gitcp.cli.options import (
    LOOKED,
    PATH,
    TEXT,
    WORDS,
    Command,
    Number,
    Rest,
    json_option,
    rare,
    session_option,
    trust_option,
)
from gitcp.cli.output import BOLD, DIM, GREEN, RED, YELLOW, Styled
from gitcp.errors import BadValue
from gitcp.history import rows
from gitcp.history.diff import compare
from gitcp.history.why import prompt_behind
from gitcp.running import bisect as op
from gitcp.running.bisect import BisectRequest, Culprit, Try
from gitcp.running.search import Verdict
from gitcp.value import Value
from gitcp.worktree.paths import display

if TYPE_CHECKING:
    from gitcp.store import Summary

MOST_FILES = 10
MOST_DIFF = 24
"""Lines of the diff that are shown."""

MOST_OUTPUT = 8
"""Lines of the failing command's output that are shown."""

COLORS = {Verdict.GOOD: GREEN, Verdict.BAD: RED, Verdict.SKIPPED: YELLOW}
OF_GIT = ("start", "good", "bad", "new", "old", "skip", "reset", "log", "replay", "next")
"""Words after `git bisect`: steps of a search by hand."""


class Options(Value):
    """What was typed."""

    after: str | None
    last: str | None
    share: tuple[bytes, ...]
    prepare: str
    repeat: int
    trust: bool
    session: str | None
    as_json: bool


class Bisect(Command):
    """`gitcp bisect run CMD ARG...`: options after CMD are the command's, as for git."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["run", *super().collect_usage_pieces(ctx)]


@click.command(
    cls=Bisect,
    rest=Rest("program", TEXT, "CMD", bare=True),
    context_settings={"allow_interspersed_args": False},
)
@click.option(
    "--from", "after", type=LOOKED, metavar="REV", help="a checkpoint on which CMD passes (oldest)"
)
@click.option(
    "--to", "last", type=LOOKED, metavar="REV", help="a later one on which it fails (the last)"
)
@click.option(
    "--share",
    type=PATH,
    metavar="PATH",
    multiple=True,
    help="link to this path, which is not saved (repeatable)",
)
@click.option(
    "--prepare", type=WORDS, metavar="CMD", default="", help="run this first; skip where it fails"
)
@click.option(
    "--repeat", type=Number(1), metavar="N", default=1, help="run CMD N times on each (1)"
)
@rare(trust_option)
@session_option
@json_option
@click.pass_obj
def command(context: Context, /, program: tuple[str, ...], **values: Any) -> None:
    """Find the checkpoint that made a command fail

    Runs CMD on checkpoints, in a scratch directory, and shows the first on which it fails: its
    prompt, its changes, and how to go back. Only checkpoints that changed files count, and none
    that a restore took back. Exit codes of CMD are those for git bisect run: 0 passes, 125 skips,
    128 and more stop the search.

      gitcp bisect run -- pytest -q tests/test_shop.py
      gitcp bisect run --from 3 --share node_modules -- npm test
      gitcp bisect run --prepare "make" --repeat 5 -- ./flaky.sh
    """
    given = Options(**values)
    if program[:1] and program[0] in OF_GIT:
        raise BadValue(
            f"there is no bisect {program[0]}: bisect run tries checkpoints by itself",
            hint="gitcp help bisect",
        )
    if not program:
        raise BadValue("CMD is required: nothing was run", hint="gitcp help bisect")
    request = _request(context, program, given)
    if not given.as_json:
        tries = humanize.count((len(request.states) - 1).bit_length() + 2, "try", "tries")
        ends = f"{_id(context, request.states[0])} to {_id(context, request.states[-1])}"
        count = humanize.count(len(request.states), "checkpoint")
        context.output.say(f"bisecting {count} that changed files, {ends}: at most {tries}")
    culprit = op.bisect(
        context.store,
        request,
        lambda tried: None if given.as_json else _tell(context, tried),
    )
    if given.as_json:
        context.output.document(documents.document("bisect", culprit.to_json()))
    else:
        _print(context, culprit, shlex.join(program))
    end(IN_PART if culprit.between else 0)


def _request(context: Context, program: tuple[str, ...], given: Options) -> BisectRequest:
    store = context.store
    last = context.checkpoint("@" if given.last is None else given.last, given.session)
    after = context.checkpoint(given.after, given.session) if given.after is not None else None
    root = store.repo.root
    relative = os.path.relpath(context.cwd, root)
    shared = context.inside(given.share)
    if given.share and not shared:
        raise BadValue("the root cannot be shared: nothing was run", hint="gitcp help bisect")
    return BisectRequest(
        states=op.candidates(store, after.commit if after else None, last.commit),
        judge=op.by_command(store, program, given.prepare),
        repeat=given.repeat,
        directory=b"" if relative == "." else os.fsencode(relative),
        shared=shared,
        trust=given.trust,
    )


def _id(context: Context, summary: Summary) -> str:
    return context.id_of(summary.commit, summary.id)


def _tell(context: Context, tried: Try) -> None:
    """Print a try on stderr."""
    seconds = sum(run.milliseconds for run in tried.runs) / 1000
    codes = ", ".join(dict.fromkeys(str(run.code) for run in tried.runs))
    about = f"exit code {codes}, {seconds:.2f} s"
    if tried.disagree:
        about += f"; the {len(tried.runs)} runs disagree"
    context.output.say(
        Styled(f"{tried.verdict.value:<8}", COLORS[tried.verdict]),
        f"{_id(context, tried.summary)}  {rows.title(tried.summary)}  ",
        Styled(f"({about})", DIM),
    )


def _print(context: Context, culprit: Culprit, command: str) -> None:
    line, store, bad = context.output.line, context.store, culprit.bad
    summary = store.summary(bad.commit)
    name = _id(context, summary)
    if culprit.between:
        _print_several(context, culprit, command)
        return
    line()
    line(Styled(f"{name} is the first on which {command} fails", BOLD))
    title, prompt = rows.title(summary), prompt_behind(bad, culprit.by) or ""
    line(f"  {title}")
    when = humanize.ago(bad.created, context.host.now())
    agent = bad.agent.name if bad.agent else ""
    line("  ", Styled(", ".join(filter(None, (when, agent, bad.trigger.value))), DIM))
    if (prompt := " ".join(prompt.split())) not in ("", title):
        line(f"  prompt: {prompt}")
    _print_files(context, culprit)
    _print_diff(context, culprit, name)
    _print_output(context, culprit)
    _print_next(context, culprit, name)


def _print_several(context: Context, culprit: Culprit, command: str) -> None:
    """Print what is left where some could not be judged."""
    line, store = context.output.line, context.store
    suspects = (*culprit.between, store.summary(culprit.bad.commit))
    line()
    line(Styled(f"one of these {len(suspects)} is the first on which {command} fails", BOLD))
    for each in suspects:
        skipped = "" if each.commit == culprit.bad.commit else "  (skipped)"
        line("  ", Styled(_id(context, each), YELLOW), f"  {rows.title(each)}", skipped)
    good = _id(context, store.summary(culprit.good.commit))
    line()
    line(f"together they changed: gitcp diff {good} {_id(context, suspects[-1])}")
    line(f"back to the last one that passes: gitcp restore {good}")


def _print_files(context: Context, culprit: Culprit) -> None:
    width = max((len(display(each.path)) for each in culprit.files[:MOST_FILES]), default=0)
    for each in culprit.files[:MOST_FILES]:
        counts = (
            (Styled(f"+{each.added}", GREEN), " ", Styled(f"-{each.removed}", RED))
            if each.added is not None
            else (each.kind,)
        )
        by = Styled(f"  {each.by}" if each.by else "", DIM)
        context.output.line(f"  {display(each.path).ljust(width)}  ", *counts, by)
    more = len(culprit.files) - MOST_FILES
    if more > 0:
        context.output.line(f"  … and {humanize.count(more, 'more file')}")


def _print_diff(context: Context, culprit: Culprit, name: str) -> None:
    text = compare(context.store, culprit.good.root, culprit.bad.root).text()
    lines = text.splitlines(keepends=True)
    context.output.line()
    rendering.patch(context.output, b"".join(lines[:MOST_DIFF]))
    if len(lines) > MOST_DIFF:
        more = humanize.count(len(lines) - MOST_DIFF, "more line")
        context.output.line(f"… {more}: gitcp show {name} -p")


def _print_output(context: Context, culprit: Culprit) -> None:
    run = culprit.failure
    context.output.line()
    lines = run.output.splitlines()
    ends = ":" if lines else " and without output"
    context.output.line(Styled(f"It ended with exit code {run.code}{ends}", BOLD))
    for each in lines[-MOST_OUTPUT:]:
        context.output.line(f"  {each}")


def _print_next(context: Context, culprit: Culprit, name: str) -> None:
    good = _id(context, context.store.summary(culprit.good.commit))
    ways = [
        (f"gitcp restore {good}", "go back to the last one that passes"),
        (f"gitcp revert {name}", "undo only these changes"),
    ]
    if culprit.good.conversation is not None:
        ways.append((f"gitcp resume {good}", "resume the agent from there"))
    width = max(len(way) for way, _ in ways)
    context.output.line()
    for way, about in ways:
        context.output.line(f"{way.ljust(width)}  ", Styled(about, DIM))
