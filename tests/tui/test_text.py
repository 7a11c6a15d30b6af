"""What a checkpoint contains is text: no escape sequence and no markup of it reaches the screen."""

from __future__ import annotations

import re

import pytest
from payloads import PAYLOADS
from screens import Seen, watched
from shop import Shop

from gitcp.humanize import short
from gitcp.model import Handoff, Note, Trigger
from gitcp.tui.lines import Line, fitted, wrapped
from gitcp.tui.rows import Query

from driver import Project

HOSTILE = (
    "\x1b[31mred\x1b[0m",
    "\x1b]0;a title\x07",
    "\x1b]52;c;Z2l0Y3A=\x07",
    "\x9b2J",
    "[@click=app.quit]quit[/]",
    "[bold]bold[/bold] [00] [/] [",
    "a\rb\nc\x08d",
    "\u202eesrever\u202c \u200bzero \U000e0041tag",
    "\ud800",
    *PAYLOADS,
)
CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\U000e0000-\U000e007f]"
)


@pytest.mark.parametrize("text", HOSTILE)
def test_line(text: str) -> None:
    """A line has no control or invisible character, is one line, and exactly as wide as asked."""
    from rich.cells import cell_len

    for width in (1, 7, 40):
        parts = fitted(Line(((text, ""),), ((" 1d", "dim"),)), width)
        line = "".join(part for part, _ in parts)
        assert cell_len(line) == width
        assert not CONTROL.search(line)
        assert "\n" not in line


@pytest.mark.parametrize("text", HOSTILE)
def test_wrapped(text: str) -> None:
    """Wrapped text loses no word, and no line is wider than asked."""
    from rich.cells import cell_len

    lines = list(wrapped(text, 12))
    assert all(cell_len(line) <= 12 for line in lines)
    assert not any(CONTROL.search(line) for line in lines)


def test_hostile_checkpoint(project: Project) -> None:
    """Labels, prompts, paths, files, notes and tool output of a stranger are shown, and do nothing:
    every pane and tab is looked at, and the interface still runs.
    """
    shop = Shop(project)
    bad = "\x1b[31m[bold]\x1b]0;x\x07[@click=app.quit]q[/]\u202e[/x]"
    project.write("a.py", "print('hello')\n")
    project.commit()
    shop.talk.say(f"prompt {bad}", f"answer {bad}")
    shop.talk.run(f"echo {bad}", f"output {bad}")
    project.write(f"[red]{bad.replace('/', '_')}.py", f"x = '{bad}'\n")
    handoff = Handoff(task=bad, decisions=(bad,), next=(bad,))
    shop.at(minutes=1).save(f"label {bad}", note=Note(phase=f"phase {bad}", objective=bad))
    project.write("a.py", "print('bye')\n")
    shop.at(minutes=0).save(
        trigger=Trigger.TURN, force=True, note=Note(handoff=handoff, facts={"k": bad})
    )
    seen_texts = []

    async def look(seen: Seen) -> None:
        for pane in ("2", "1", "2"):
            await seen.press(pane)
            for _ in range(4):
                await seen.press("right_square_bracket", "j")
                seen_texts.append(seen.text())
        await seen.press("G", "r")
        await seen.until("y apply")
        seen_texts.append(seen.text())
        await seen.press("escape", "slash", *"[red]")
        seen_texts.append(seen.text())

    watched(shop, look)
    whole = "\n".join(seen_texts)
    assert not CONTROL.search(whole.replace("\n", ""))
    assert "[bold]" in whole
    assert "[@click=app.quit]" in whole


def test_query() -> None:
    """A filter's named parts are told from its words; an unknown name is a word."""
    assert Query.parse("tag:v1 Phase design") == Query("phase design", tag="v1")
    assert Query.parse("phase:Build trigger:turn x:y") == Query("x:y", None, "build", "turn")


def test_short() -> None:
    """Numbers take at most four characters."""
    assert [short(n) for n in (0, 9999, 10_000, 999_999, 1_000_000, 10**9)] == [
        "0",
        "9999",
        "10k",
        "999k",
        "1M",
        "1G",
    ]
