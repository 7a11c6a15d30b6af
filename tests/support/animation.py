"""Screens of the interface as one animated SVG: a frame is what was painted, with a caption."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style

WIDTH, HEIGHT = 8.0, 17.0
"""The size of a cell."""

MARGIN, TITLE = 12, 34
BACK, FORE = "#1b1f27", "#d8dee9"
PALETTE = (
    *(BACK, "#e5767f", "#9ccb7d", "#e3c07b", "#74a5e8", "#c39ae0", "#66c2cd", "#eceff4"),
    *("#6b7484", "#e5767f", "#9ccb7d", "#e3c07b", "#74a5e8", "#c39ae0", "#66c2cd", "#ffffff"),
)
"""The sixteen colors of a terminal."""

STYLE = """text {
 font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
 white-space: pre }
.caption { font: 600 14px system-ui, sans-serif }
.b { font-weight: 700 }
.d { opacity: .6 }
"""


class Frame(NamedTuple):
    """What one screen shows, how long in seconds, and what was typed."""

    rows: tuple[tuple[Segment, ...], ...]
    seconds: float
    caption: str


def drawn(frames: Sequence[Frame], columns: int) -> str:
    """Return the SVG. Where motion is not wanted, it shows the first frame."""
    rows = max(len(frame.rows) for frame in frames)
    width = columns * WIDTH + 2 * MARGIN
    height = rows * HEIGHT + 2 * MARGIN + TITLE
    whole = sum(frame.seconds for frame in frames)
    style, groups, start = STYLE, [], 0.0
    for number, frame in enumerate(frames):
        style += _shown(number, start / whole, (start + frame.seconds) / whole, whole)
        groups.append(f'<g class="f{number}">{_frame(frame)}</g>')
        start += frame.seconds
    style += "@media (prefers-reduced-motion: reduce) { g { animation: none !important } }\n"
    box = f'<rect width="{width:g}" height="{height:g}" rx="10" fill="{BACK}"/>'
    body = "\n".join(groups)
    view = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {view}>'
    return f"{head}\n<style>{style}</style>\n{box}\n{body}\n</svg>\n"


def _shown(number: int, start: float, end: float, seconds: float) -> str:
    """Return the style by which a frame is seen from `start` to `end`, parts of the whole."""
    steps = (
        f"0% {{ opacity: 0 }} {100 * start:.2f}% {{ opacity: 1 }} {100 * end:.2f}% {{ opacity: 0 }}"
    )
    if number == 0:
        steps = f"0% {{ opacity: 1 }} {100 * end:.2f}% {{ opacity: 0 }}"
    hidden = "" if number == 0 else "opacity: 0; "
    play = f"animation: k{number} {seconds:g}s step-end infinite"
    return f"@keyframes k{number} {{ {steps} }}\n.f{number} {{ {hidden}{play} }}\n"


def _frame(frame: Frame) -> str:
    parts = [
        f'<text class="caption" x="{MARGIN}" y="26" fill="#9aa5b8">{escape(frame.caption)}</text>'
    ]
    for number, row in enumerate(frame.rows):
        at = 0
        for segment in row:
            cells = cell_len(segment.text)
            parts.append(_cells(segment, at, number, cells))
            at += cells
    return "".join(parts)


def _cells(segment: Segment, column: int, row: int, cells: int) -> str:
    """Return a run of cells of one style, as wide as on a terminal whatever the font."""
    style = segment.style or Style()
    fore, back = _color(style.color) or FORE, _color(style.bgcolor)
    if style.reverse:
        fore, back = back or BACK, fore
    x, y = MARGIN + column * WIDTH, MARGIN + TITLE + row * HEIGHT
    made = ""
    if back:
        size = f'width="{cells * WIDTH:g}" height="{HEIGHT:g}"'
        made = f'<rect x="{x:g}" y="{y:g}" {size} fill="{back}"/>'
    text = segment.text.rstrip()
    if not text:
        return made
    before = len(text) - len(text.lstrip())
    x, length = x + before * WIDTH, cell_len(text.lstrip()) * WIDTH
    kind = " ".join(name for name, on in (("b", style.bold), ("d", style.dim)) if on)
    return (
        f'{made}<text x="{x:g}" y="{y + 13:g}" textLength="{length:g}" fill="{fore}"'
        f"{f' class={chr(34)}{kind}{chr(34)}' if kind else ''}>{escape(text.lstrip())}</text>"
    )


def _color(color: Color | None) -> str | None:
    """Return a color for SVG; None for the terminal's own."""
    if color is None or color.is_default:
        return None
    if color.number is not None and color.number < len(PALETTE):
        return PALETTE[color.number]
    return color.get_truecolor().hex
