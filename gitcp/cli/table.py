"""Tables on a terminal. If a table is too wide, the columns marked `cut` shrink.

Only the widths of characters come from rich: its own tables take 2 ms for each line of a plan that
may have thousands.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from gitcp.cli.output import DIM, PLAIN, Color, Output, Styled, encoded
from gitcp.safe import flat

UNLIMITED = 100_000
GAP = 2
NARROWEST = 8
ELLIPSIS = "…"


class TableColumn(NamedTuple):
    """A column: its heading, its color, whether it is right-aligned, whether it may be cut."""

    heading: str
    colour: Color = PLAIN
    right: bool = False
    cut: bool = False


def show(output: Output, columns: Sequence[TableColumn], rows: Iterable[Sequence[str]]) -> None:
    """Print the rows under their headings. Empty columns are omitted; no rows print nothing."""
    cells = [[flat(cell) for cell in row] for row in rows]
    if not cells:
        return
    used = [n for n, _ in enumerate(columns) if any(row[n] for row in cells)]
    widths = _widths(
        [columns[n] for n in used],
        [[row[n] for row in cells] for n in used],
        output.width or UNLIMITED,
    )
    lines = _lines(
        output, [columns[n] for n in used], widths, ([row[n] for n in used] for row in cells)
    )
    output.data(encoded("".join(lines), sys.stdout))


def _widths(
    columns: Sequence[TableColumn], cells: Sequence[Sequence[str]], available: int
) -> list[int]:
    """Return the width of each column: its content's, but the columns that may be cut share what
    the others leave of the available width.
    """
    widths = [
        max(map(cell_len, (column.heading, *texts)))
        for column, texts in zip(columns, cells, strict=True)
    ]
    left = (
        available
        - GAP * (len(columns) - 1)
        - sum(w for column, w in zip(columns, widths, strict=True) if not column.cut)
    )
    sharing = sum(column.cut for column in columns)
    for n, column in enumerate(columns):
        if column.cut:
            widths[n] = min(widths[n], max(left // sharing, NARROWEST))
            left, sharing = left - widths[n], sharing - 1
    return widths


def _lines(
    output: Output,
    columns: Sequence[TableColumn],
    widths: Sequence[int],
    cells: Iterable[Sequence[str]],
) -> Iterator[str]:
    headings = [TableColumn(column.heading, DIM, column.right) for column in columns]
    yield _line(output, headings, widths, [column.heading for column in columns])
    for row in cells:
        yield _line(output, columns, widths, row)


def _line(
    output: Output, columns: Sequence[TableColumn], widths: Sequence[int], texts: Sequence[str]
) -> str:
    """Return a line; only text is colored, so that no blank is at its end."""
    cells = zip(columns, widths, texts, strict=True)
    parts = (_cell(output, column, width, text) for column, width, text in cells)
    return (" " * GAP).join(parts).rstrip() + "\n"


def _cell(output: Output, column: TableColumn, width: int, text: str) -> str:
    if cell_len(text) > width:
        text = set_cell_size(text, width - 1) + ELLIPSIS
    blank = " " * (width - cell_len(text))
    shown = output.shown(Styled(text, column.colour))
    return blank + shown if column.right else shown + blank
