"""The first hour of README.md with the real Claude Code, typed in a real terminal: it saves by
itself, goes too far, is restored, and goes on from there. UPDATE_SCREENS=1 records the picture.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path

import pytest
from animation import Frame, drawn
from real_agents import CLAUDE, OFFLINE, claude_environment, in_order
from rich.console import Console
from rich.text import Text
from screens import UPDATE
from test_real_interface import accept
from tmux import Terminal, terminal

from driver import SOURCE, Project
from scripted_model import ScriptedModel, said

pytestmark = [
    pytest.mark.skipif(
        not CLAUDE.exists(), reason=f"needs Claude Code (npm) in {CLAUDE.parents[2]}"
    ),
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]

FILE = SOURCE / "docs" / "first-hour.svg"
COLUMNS, ROWS = 100, 28
REPORT = "from db import orders\n\nfor order in orders('today'):\n    print(order)\n"
TOO_FAR = "rm schema.sql && echo 'import psycopg' > db.py && echo 'TODO' > report.py"
SETTINGS = {
    "permissions": {"allow": ["Bash", "Edit", "Write"]},
    "spinnerTipsEnabled": False,
}


@pytest.fixture
def shop(tmp_path: Path) -> Project:
    """A small project in a home of its own."""
    project = Project(tmp_path / "shop", own_store=False)
    project.write("schema.sql", "create table orders (id integer, day text);\n")
    project.write("db.py", "import sqlite3\n")
    project.commit()
    return project


@contextmanager
def typing(shop: Project, model: ScriptedModel) -> Iterator[Terminal]:
    """A shell in the project, in which `gitcp` and `claude` are commands."""
    home = shop.root.parent
    accept(home, shop)
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps(SETTINGS))
    command = home / ".bin" / "gitcp"
    command.parent.mkdir()
    start = [f"PYTHONPATH={shlex.quote(str(SOURCE))}", "exec", sys.executable, "-P", "-m", "gitcp"]
    command.write_text(f'#!/bin/sh\n{" ".join(start)} "$@"\n')
    command.chmod(0o755)
    env = {**OFFLINE, **claude_environment(model), "HOME": str(home)}
    env["PATH"] = os.pathsep.join([str(command.parent), str(CLAUDE.parent), os.environ["PATH"]])
    with terminal(shop.root, "--version", size=(COLUMNS, ROWS), env=env) as shown:
        shown.tmux("set-option", "-g", "focus-events", "on")
        shown.until("gitcp ")
        shown.press("PS1='$ '; clear", "Enter")
        yield shown


class Recording:
    """What the window showed, as frames of a picture."""

    def __init__(self, shown: Terminal) -> None:
        self._shown = shown
        self.frames: list[Frame] = []
        self.seen: list[str] = []

    def command(self, line: str, words: str, caption: str = "", seconds: float = 3.0) -> str:
        """Type a command into an empty window; then as `type`."""
        self._shown.press("clear", "Enter")
        self._shown.until("clear", gone=True)
        return self.type(line, words, caption, seconds)

    def type(self, line: str, words: str, caption: str = "", seconds: float = 3.0) -> str:
        """Type a line, wait for words and for the agent to be at rest; record the window if there
        is a caption.
        """
        self._shown.press(line, "Enter")
        self._shown.until(words)
        text = self._shown.until("esc to interrupt", gone=True)
        if caption:
            self.frames.append(self._frame(caption, seconds))
            self.seen.append(words)
        return text

    def _frame(self, caption: str, seconds: float) -> Frame:
        console = Console(width=COLUMNS, color_system="truecolor", force_terminal=True)
        rows = self._shown.tmux("capture-pane", "-e", "-p").splitlines()
        segments = (tuple(Text.from_ansi(row).render(console)) for row in rows)
        return Frame(tuple(segments), seconds, caption)


def test_first_hour(shop: Project) -> None:
    """What README.md says, typed: what the agent is asked after the restore holds the first prompt
    and not the second, and the undo is byte for byte. The picture shows what was seen here.
    """
    write = {"file_path": str(shop.root / "report.py"), "content": REPORT}
    steps = (
        {"tool": "Write", "input": write},
        {"text": "report.py prints the orders of today."},
        {"tool": "Bash", "input": {"command": TOO_FAR, "description": "Move to Postgres"}},
        {"text": "Everything is on Postgres now."},
        {"text": "report.py prints today's orders, from SQLite. Totals are next."},
    )
    with ScriptedModel(*steps) as model, typing(shop, model) as shown:
        record = Recording(shown)
        play(record, shop)
        heard = said(model.requests[-1])
    assert in_order(["Print today's orders", "report.py prints", "Where are we"], heard), heard
    assert not any("Postgres" in text for text in heard)
    if UPDATE:
        FILE.write_text(drawn(record.frames, COLUMNS), "utf-8")
    picture = unescape(re.sub(r"<[^>]*>", " ", FILE.read_text("utf-8")))
    for words in record.seen:
        assert all(word in picture for word in words.split()), words


def play(record: Recording, shop: Project) -> None:
    """Type the first hour."""
    record.command("gitcp enable claude", "Enable?", "once: let the agent save by itself")
    record.type("y", "enabled: restart running sessions")
    record.command("claude", "Claude Code v")
    record.type("Print today's orders.", "orders of today", "each prompt is saved")
    before = shop.files()
    record.type("Now Postgres.", "is on Postgres now", "a prompt too far: schema.sql is gone", 4)
    after = shop.files()
    record.type("/exit", "\n$\n")
    listed = record.command("gitcp log", "steps not shown", "what was saved, newest first", 4)
    row = re.search(r"^(\d+)  Print today", listed, re.MULTILINE)
    assert row, listed
    record.command(f"gitcp restore {row[1]}", "Restore?", "back to the first prompt", 4)
    record.type("y", "continue with", "files and conversation are back; so is the way back", 4)
    assert shop.files() == before
    record.command("gitcp resume", "Claude Code v")
    record.type("Where are we?", "Totals are next", "claude --resume, and it knows what it knew", 7)
    record.type("/exit", "\n$\n")
    record.command("gitcp undo --yes", "redo with: gitcp redo")
    assert shop.files() == after
