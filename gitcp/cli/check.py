"""`gitcp doctor --store`."""

from __future__ import annotations

import click

from gitcp import documents, humanize
from gitcp.cli.context import Context
from gitcp.cli.failure import CODES, end
from gitcp.cli.options import Command, json_option
from gitcp.cli.output import GREEN, RED, Styled
from gitcp.errors import StoreDamaged
from gitcp.history import sessions
from gitcp.lifecycle.check import CheckReport, check
from gitcp.restoring import placing


@click.command(cls=Command)
@click.option("--all", "everything", is_flag=True, help="re-read what was already verified")
@json_option
@click.pass_obj
def command(
    context: Context,
    *,
    everything: bool,
    as_json: bool,
) -> None:
    """Verify that every checkpoint is intact

    Lists damaged objects and the checkpoints that need them. What the last check found intact, in a
    pack that has not changed since, is not read again without --all. With --all, also names damaged
    transcripts: their agent wrote them so, and a restore repairs its copy.

      gitcp doctor --store
      gitcp doctor --store --all
    """
    report = check(context.store, everything=everything)
    conversations = _damaged_conversations(context) if everything else {}
    if as_json:
        fields = {**report.to_json(), "conversations": conversations}
        context.output.document(documents.document("check", fields))
    else:
        _print(context, report)
        for unknown in sessions.unknown(context.store):
            context.output.line(f"note: {unknown}")
        for id, what in conversations.items():
            context.output.line(
                f"note: the conversation of {id}: {what}; a restore repairs its copy"
            )
    end(0 if report.ok else CODES[StoreDamaged])


def _damaged_conversations(context: Context) -> dict[str, str]:
    """Return what a restore would repair, by the id of each session's last checkpoint."""
    readable, _ = sessions.listing(context.store)
    damage = {str(each.last.id): placing.damage(context.store, each.last) for each in readable}
    return {id: what for id, what in damage.items() if what}


def _print(context: Context, report: CheckReport) -> None:
    output = context.output
    extent = (
        f"{humanize.count(report.checkpoints, 'checkpoint')}, "
        f"{humanize.count(report.objects, 'object')}"
    )
    if report.promised:
        extent += f", {report.promised:,} of them only on the remote"
    if report.unchanged:
        extent += f", {report.unchanged:,} of them unchanged since the last check"
    if report.ok:
        output.line(Styled("OK", GREEN), f": {extent}")
        return
    for problem in report.problems:
        output.line(Styled("damaged", RED), f"  {problem.object}: {problem.what}")
        for affected in problem.checkpoints:
            output.line(f"    {affected}")
    output.line(f"{humanize.count(len(report.problems), 'problem')} in {extent}")
