"""The picture of `gitcp bisect` in README.md is what it prints: UPDATE_SCREENS=1 draws it anew."""

from __future__ import annotations

import re
from pathlib import Path

from animation import Frame, drawn
from rich.console import Console
from rich.segment import Segment
from rich.text import Text
from screens import UPDATE
from talk import Talk

from driver import Project

FILE = Path(__file__).parents[2] / "docs" / "bisect.svg"
COLUMNS, ROWS = 84, 29
PRICES = "def total(prices):\n    return sum({})\n"
TEST = (
    "from shop import total\n"
    "if total([1, 2, 3]) != 6:\n"
    "    raise SystemExit('three items should cost six euros')\n"
)
STEPS = (
    ("Write a function for the total.", "shop.py", PRICES.format("prices")),
    ("Write a README.", "README.md", "# Shop\n"),
    ("Check it against the catalogue.", "catalogue.csv", "tea,1\n"),
    ("Let total skip free items.", "shop.py", PRICES.format("p for p in prices[1:] if p")),
    ("Add a licence.", "LICENSE", "MIT\n"),
    ("Describe the API.", "api.md", "total(prices)\n"),
    ("And a changelog.", "CHANGES", "- first\n"),
)
COMMAND = "gitcp bisect run python3 test_shop.py"


def test_picture(project: Project) -> None:
    """An agent's session with a fault in the middle; each try, and then the answer."""
    talk = Talk(project)
    project.write("test_shop.py", TEST)
    for prompt, name, content in STEPS:
        talk.say(prompt, "Done.")
        project.write(name, content)
        project.gitcp("save", check=0)
    env = {"FORCE_COLOR": "1", "COLUMNS": str(COLUMNS)}
    done = project.gitcp(*COMMAND.split()[1:], env=env, check=0)
    tries, answer = (_settled(text).splitlines() for text in (done.err, done.out))
    shown = [f"$ {COMMAND}"]
    frames = [_frame(shown, 1.5, "Something broke. Since which prompt?")]
    for number, line in enumerate(tries):
        shown.append(line)
        caption = f"{number} of 7 checkpoints tried" if number else "passes first, fails last?"
        frames.append(_frame(shown, 1.0, caption))
    frames.append(_frame([*shown, *answer], 8.0, "the prompt, what it changed, and how to go back"))
    made = drawn(frames, COLUMNS)
    if UPDATE:
        FILE.write_text(made, "utf-8")

    assert made == FILE.read_text("utf-8")


def _settled(text: str) -> str:
    """What is printed, without what changes from run to run."""
    text = re.sub(r"\d+\.\d\d s\b", "0.21 s", text)
    text = re.sub(r"\d+ (seconds?|minutes?) ago|just now", "2 hours ago", text)
    return re.sub(r"\bindex [0-9a-f]+\.\.[0-9a-f]+", "index aa11c87..3d4af61", text)


def _frame(lines: list[str], seconds: float, caption: str) -> Frame:
    console = Console(width=COLUMNS, color_system="standard", force_terminal=True)
    rows = tuple(
        tuple(_segments(console, line)) for line in lines[:ROWS] + [""] * (ROWS - len(lines))
    )
    return Frame(rows, seconds, caption)


def _segments(console: Console, line: str) -> list[Segment]:
    return [part for part in Text.from_ansi(line).render(console) if part.text]
