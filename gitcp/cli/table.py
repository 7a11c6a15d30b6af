"""Tables on a terminal, drawn by rich. If a table is too wide, the columns marked `cut` shrink.

Commands that print no table do not import rich. Widths are computed here because rich would also
shrink the other columns.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gitcp.cli.output import Output, encoded
from gitcp.safe import flat

UNLIMITED = 100_000
GAP = 2
NARROWEST = 8


class Column(NamedTuple):
    """A column: its heading, a rich style, whether it is right-aligned, whether it may be cut."""

    heading: str
    style: str = ""
    right: bool = False
    cut: bool = False


def show(output: Output, columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
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
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    for n, width in zip(used, widths, strict=True):
        table.add_column(
            Text(columns[n].heading),
            style=columns[n].style,
            justify="right" if columns[n].right else "left",
            width=width,
            no_wrap=True,
            overflow="ellipsis",
        )
    for row in cells:
        table.add_row(*(Text(row[n]) for n in used))
    output.data(encoded(_drawn(output, table), sys.stdout))


def _widths(columns: Sequence[Column], cells: Sequence[Sequence[str]], available: int) -> list[int]:
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


def _drawn(output: Output, table: Table) -> str:
    console = Console(
        file=StringIO(),
        width=output.width or UNLIMITED,
        force_terminal=output.colour,
        color_system="standard" if output.colour else None,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    with console.capture() as drawn:
        console.print(table)
    return "".join(line.rstrip() + "\n" for line in drawn.get().splitlines())
