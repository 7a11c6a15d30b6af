"""`gitcp adapters check`."""

from __future__ import annotations

from pathlib import Path

import click

from gitcp import conformance, documents, humanize
from gitcp.adapters import described
from gitcp.adapters.base import Found, found
from gitcp.adapters.table_adapter import TableAdapter
from gitcp.cli.context import Context
from gitcp.cli.failure import end
from gitcp.cli.options import Command, json_option
from gitcp.cli.output import DIM, GREEN, RED, YELLOW, Styled
from gitcp.conformance import FAILED, PASSED, SKIPPED, Outcome
from gitcp.errors import BadValue

PATH = click.Path(path_type=Path)
COLOURS = {PASSED: GREEN, FAILED: RED}


@click.command(cls=Command)
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.argument(
    "transcript", type=click.Path(path_type=Path), metavar="[TRANSCRIPT]", required=False
)
@json_option
@click.pass_obj
def command(context: Context, file: Path, transcript: Path | None, *, as_json: bool) -> None:
    """Test the description of an agent in a file

    Runs the tests of gitcp's own adapters on copies of one session: that of TRANSCRIPT, else the
    newest on this machine. Nothing of the agent is changed. That the agent continues a copy is not
    tested: resume one. Exit code 1: a test failed.

      gitcp adapters check ~/.config/gitcp/adapters/mine.toml
    """
    adapter = described.read(context.cwd / file)
    sample = _sample(context, adapter, transcript)
    is_document = adapter.table.format == "json"
    outcomes = list(conformance.try_sample(adapter, sample, is_document=is_document))
    if as_json:
        rows = [outcome._asdict() for outcome in outcomes]
        fields = {"name": adapter.NAME, "sample": str(sample.path), "tests": rows}
        context.output.document(documents.document("adapters-check", fields))
    else:
        _print(context, adapter, sample, outcomes)
    end(1 if any(outcome.result == FAILED for outcome in outcomes) else 0)


def _sample(context: Context, adapter: TableAdapter, transcript: Path | None) -> Found:
    """Return the session to try with. Raises BadValue if there is none."""
    if transcript is None:
        sessions = (listed.found for listed in adapter.list_all(context.host))
        newest = max(sessions, key=lambda each: each.modified, default=None)
        if newest is None:
            raise BadValue(
                f"no session of {adapter.title} is in {adapter.home(context.host)}",
                hint="name a transcript, or check home, transcript and [cwd] of the file",
            )
        return newest
    path = context.cwd / transcript
    session_id = adapter.session_of(path)
    sample = found(adapter.NAME, session_id, path) if session_id else None
    if sample is None:
        raise BadValue(f"{transcript} is no file that matches {adapter.table.transcript}")
    return sample


def _print(context: Context, adapter: TableAdapter, sample: Found, outcomes: list[Outcome]) -> None:
    line = context.output.line
    line(f"{adapter.title}, tried with copies of {sample.path}")
    for outcome in outcomes:
        line(Styled(f"{outcome.result:<15}", COLOURS.get(outcome.result, DIM)), outcome.about)
        if outcome.advice:
            line(" " * 15, Styled(outcome.advice, YELLOW))
    results = [outcome.result for outcome in outcomes]
    tried = len(results) - results.count(SKIPPED)
    rest = f", {results.count(SKIPPED)} do not apply" if SKIPPED in results else ""
    line(f"{results.count(PASSED)} of {humanize.count(tried, 'test')} passed{rest}")
