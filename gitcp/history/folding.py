"""Fold a listing: the automatic checkpoints of one prompt, and consecutive restores, become one
row.

Pure. A checkpoint with a label or a tag, a manual one, a fork and a revert always have their own
row.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from gitcp.errors import GitcpError
from gitcp.model import Oid, Trigger
from gitcp.store import Summary, is_generated
from gitcp.value import Value, replace

RESTORES = (Trigger.RESTORE.value, Trigger.BEFORE_RESTORE.value)
OWN_ROW = ("Gitcp-Forked-From", "Gitcp-Reverted")


class FoldedRow(Value):
    """A checkpoint, and the older ones folded into it, newest first."""

    newest: Summary
    folded: tuple[Summary, ...] = ()

    @property
    def oldest(self) -> Summary:
        """The oldest checkpoint of the row."""
        return self.folded[-1] if self.folded else self.newest


def fold(summaries: Iterable[Summary], tagged: Container[Oid]) -> Iterator[FoldedRow]:
    """Yield the rows of a listing that is ordered newest first; `tagged` are the tagged commits.

    If the listing raises GitcpError, this raises it after the rows before it.
    """
    row: FoldedRow | None = None
    group: tuple[str, str] | None = None
    try:
        for summary in summaries:
            next_group = _group(summary, tagged)
            if row is not None and next_group is not None and next_group == group:
                row = replace(row, folded=(*row.folded, summary))
                continue
            if row is not None:
                yield row
            row, group = FoldedRow(summary, ()), next_group
    except GitcpError:  # a damaged chain: list what was read
        if row is not None:
            yield row
        raise
    if row is not None:
        yield row


def prompt(summary: Summary) -> str | None:
    """Return the last prompt, as quoted in a generated subject; None for any other subject."""
    trigger, colon, text = summary.subject.partition(": ")
    own = colon and trigger == summary.trailers.get("Gitcp-Trigger")
    return text if own else None


def _group(summary: Summary, tagged: Container[Oid]) -> tuple[str, str] | None:
    """Return the key that a checkpoint is folded by; None if it has its own row."""
    trigger = summary.trailers.get("Gitcp-Trigger", "")
    if summary.commit in tagged or trigger == Trigger.MANUAL or not is_generated(summary):
        return None
    if any(name in summary.trailers for name in OWN_ROW):
        return None
    if trigger in RESTORES:
        return summary.id.session, ""
    text = prompt(summary)
    return (summary.id.session, f": {text}") if text is not None else None
