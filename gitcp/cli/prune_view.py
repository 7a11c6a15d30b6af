"""What prune, delete and redo share: the plan is shown, a person agrees, the report follows."""

from __future__ import annotations

from collections import Counter

from gitcp import documents, humanize
from gitcp.cli import confirm
from gitcp.cli.context import Context
from gitcp.cli.output import GREEN, YELLOW, Styled
from gitcp.lifecycle.prune import PrunePlan, PruneReport

MOST = 20


def show(context: Context, plan: PrunePlan, *, as_json: bool) -> None:
    """Print every checkpoint with its verdict and the reason."""
    if as_json:
        context.output.document(documents.document("prune-plan", plan.to_json()))
        return
    from gitcp.cli.table import TableColumn, show  # only for a table

    now = context.host.now()
    columns = (
        TableColumn("checkpoint"),
        TableColumn("when"),
        TableColumn("", YELLOW),
        TableColumn("reason"),
        TableColumn("subject", cut=True),
    )
    rows = (
        (
            str(node.id),
            humanize.ago(node.created, now),
            "keep" if v.keep else "drop",
            v.reason,
            node.subject,
        )
        for node, v in plan.verdicts
    )
    with context.output.paged(context.core_pager):
        show(context.output, columns, rows)
        for line in _summary(plan):
            context.output.line(line)


def agree(context: Context, plan: PrunePlan) -> None:
    """Print what would be dropped, and ask. Raises Refused if nobody agreed."""
    no = "not dropped: nothing was changed"
    lines = [*_dropped(context, plan), *_summary(plan)]
    confirm.ask(context, "Drop?", lines, nobody="nothing was dropped", no=no)


def _dropped(context: Context, plan: PrunePlan) -> list[str]:
    """Return what would be dropped, a checkpoint a line."""
    now = context.host.now()
    gone = [node for node, verdict in plan.verdicts if not verdict.keep]
    return humanize.listed(
        [f"  {node.id}  {humanize.ago(node.created, now)}  {node.subject}" for node in gone], MOST
    )


def report(context: Context, done: PruneReport, *, as_json: bool) -> None:
    """Print what was dropped, and how to undo it."""
    output = context.output
    if as_json:
        output.document(documents.document("prune", done.to_json()))
        return
    if done.operation is None and not done.expired:
        output.line("nothing was dropped: every checkpoint is kept")
    if done.operation is not None:
        output.line(Styled("dropped", GREEN), f" {_extent(done.plan)}")
        output.line("undo with: gitcp undo")
    for name in done.expired:
        output.line(f"removed from the trash: dropped at {name}")
    for session in done.plan.damaged:
        output.say(
            f"note: session {session} is damaged and was skipped; gitcp delete {session} removes it"
        )


def _summary(plan: PrunePlan) -> list[str]:
    dropped = Counter(node.id.session for node, _ in plan.dropped)
    kept = Counter(node.id.session for node, v in plan.verdicts if v.keep)
    lines = [
        f"{session}: drop {count:,}, keep {kept[session]:,}"
        for session, count in sorted(dropped.items())
    ]
    lines += [f"remove from the trash: dropped at {name}" for name in plan.expired]
    lines += [f"{session}: damaged, skipped (gitcp doctor --store)" for session in plan.damaged]
    return lines or ["nothing would be dropped: every checkpoint is kept"]


def _extent(plan: PrunePlan) -> str:
    sessions = len({node.id.session for node, _ in plan.dropped})
    of = f" of {humanize.count(sessions, 'session')}" if sessions > 1 else ""
    kept = sum(v.keep for _, v in plan.verdicts)
    return f"{humanize.count(len(plan.dropped), 'checkpoint')}{of}, kept {kept:,}"
