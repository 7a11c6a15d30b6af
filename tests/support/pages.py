"""The pages of the documentation as programs: what they tell a reader to type is typed, what they
show is compared.

    ```console      `$ COMMAND` is run by bash, the lines below it are what it must print. A line `...` stands for any
                    number of lines. Each page has a home of its own, and goes on where its last command stopped
    ```python       is run by Python, and must end well
    ```sh           is not run here: it installs things. Every one of them is known to the test by name
    <!-- … -->      what happens between two commands without the reader typing it: see Sandbox

What differs from run to run (times, object names, sizes, the agent's new session ids) is compared
as such.
"""  # noqa: E501

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from agents_at_work import ALPHA, BETA, AgentAtWork, Codex
from recorded_by_entire import IDS, branch, layout, sharded, talk
from talk import Talk

from gitcp.git.repo import Repository
from gitcp.model import Host, Note
from gitcp.saving.save import SaveRequest, save
from gitcp.store import Store

from driver import SOURCE, Project

FENCE = re.compile(r"```(\w*)")
DIRECTIVE = re.compile(r"<!-- (scene|run|agent|saved): ?(.*?) ?-->")
ANYTHING = "..."
HOME = "/home/ada"
"""Where the pages say that their reader works."""

CHANGING = (
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:Z| [+-]\d{4})?", "TIME"),
    (r"just now|\b\d+ (?:second|minute|hour|day)s? ago", "AGO"),
    (r"\b(?!e7baae82)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UUID"),
    (r"\bmanual-[0-9a-f]{6}\b", "manual-ID"),
    (r"\b\d+\.\d\d s\b", "TOOK"),
    (r"\b(?!e7baae82)(?=[a-f]*[0-9])[0-9a-f]{7,64}\b", "OID"),
    (r"\b[\d,]+(?:\.\d)? (?:bytes?|[KMG]iB)\b", "SIZE"),
    (r'("(?:bytes|stored|now)":) ?\d+', r"\1 SIZE"),
    (r"\b[\d,]+ objects\b", "N objects"),
    (r"[ ]+", " "),
)

SHOP = {
    "app.py": (
        "from db import connect\n\n\ndef users():\n    return connect().execute('select * from "
        "users')\n"
    ),
    "db.py": "import sqlite3\n\n\ndef connect():\n    return sqlite3.connect('shop.db')\n",
    "schema.sql": "create table users (id integer primary key, name text);\n",
    ".gitignore": "*.db\n.env\n",
}


class Block(NamedTuple):
    """A fenced block or a directive: where it stands (the line of its opening, from 0), its kind,
    its lines.
    """

    line: int
    kind: str
    lines: tuple[str, ...]


class Typed(NamedTuple):
    """A command in a console block and what the page says it prints; `start` and `end` bound that
    in the page.
    """

    command: str
    shown: tuple[str, ...]
    start: int
    end: int


def blocks(text: str) -> Iterator[Block]:
    """The blocks and directives of a page, in order."""
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        begin = number
        if fence := FENCE.fullmatch(lines[number]):
            number = lines.index("```", number + 1)
            yield Block(begin, fence[1], tuple(lines[begin + 1 : number]))
        elif directive := DIRECTIVE.fullmatch(lines[number]):
            yield Block(begin, directive[1], (directive[2],))
        number += 1


def typed(block: Block) -> list[Typed]:
    """The commands of a console block."""
    starts = [n for n, line in enumerate(block.lines) if line.startswith("$ ")]
    assert starts[:1] == [0], f"line {block.line + 2}: a console block begins with a command"
    found = []
    for start, end in zip(starts, [*starts[1:], len(block.lines)], strict=True):
        first = block.line + 1 + start
        shown = block.lines[start + 1 : end]
        found.append(Typed(block.lines[start][2:], shown, first + 1, first + 1 + len(shown)))
    return found


def agrees(shown: tuple[str, ...], printed: list[str]) -> bool:
    """Whether what a page shows is what was printed."""
    expected = [line.strip() for line in settled("\n".join(shown)).split("\n")] if shown else []
    actual = [line.strip() for line in settled("\n".join(printed)).split("\n")] if printed else []
    pattern = "".join(
        r"(?:.*\n)*" if line == ANYTHING else re.escape(line) + "\n" for line in expected
    )
    return re.fullmatch(pattern, "".join(line + "\n" for line in actual)) is not None


def settled(text: str) -> str:
    """`text` with everything that changes from run to run as one word."""
    for pattern, word in CHANGING:
        text = re.sub(pattern, word, text)
    return text


class Sandbox:
    """A reader's home, in which one page is followed.

    `scene: shop` makes a small project with one commit, and an agent's conversation in it. `scene:
    agents` lets two agents, whose hooks are called, work in such a project side by side. `scene:
    entire` is a project whose commits and conversations Entire recorded. `agent:
    A | B` goes on with that conversation, turn by turn. `run: COMMAND` is what a console block
    would do, unseen. `saved: HH:MM LABEL` is a checkpoint that was made yesterday at that time
    (UTC).
    """

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = home
        self.cwd = home
        self.code = 0
        home.mkdir(parents=True)
        config = home / ".gitconfig"
        config.write_text(
            "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n"
        )
        programs = home.parent / "bin"
        programs.mkdir()
        launcher = f'#!/bin/sh\nPYTHONPATH="{SOURCE}" exec "{sys.executable}" -P -m gitcp "$@"\n'
        for name in ("gitcp", "git-gitcp"):
            programs.joinpath(name).write_text(launcher)
            programs.joinpath(name).chmod(0o755)
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
        monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")

    def follow(self, block: Block) -> None:
        """Do what a directive says."""
        (said,) = block.lines
        if block.kind == "scene":
            {"shop": self._shop, "agents": self._agents, "entire": self._entire}[said]()
        elif block.kind == "agent":
            self.talk.say(*map(str.strip, said.split("|")))
        elif block.kind == "saved":
            self._save_yesterday(*said.split(" ", 1))
        else:
            printed = self.run(said)
            assert self.code == 0, (said, printed)

    def run(self, command: str) -> list[str]:
        """Run a command where the last one stopped; the lines that it printed, on stdout and stderr
        alike.
        """
        place = self.home.parent / "cwd"
        # `$?` is that of the command before. bash would tell programs how wide the terminal is that
        # the tests run in.
        alone = "shopt -u checkwinsize; unset COLUMNS LINES"
        script = f"{alone}\n(exit {self.code})\n{command}\ncode=$?\npwd >'{place}'\nexit $code\n"
        done = subprocess.run(
            ["bash", "--norc", "-c", script],
            cwd=self.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
        )
        self.code = done.returncode
        self.cwd = Path(place.read_text("utf-8").rstrip("\n"))
        return self.disguised(done.stdout.decode("utf-8", "backslashreplace")).splitlines()

    def python(self, program: str) -> None:
        """Run a Python program where the last command stopped; it must end well."""
        done = subprocess.run(
            [sys.executable, "-P", "-W", "error", "-c", program], cwd=self.cwd, capture_output=True
        )
        assert done.returncode == 0, done.stderr.decode()

    def disguised(self, text: str) -> str:
        """`text` as it would be in the home of the pages' reader."""
        real = os.path.realpath(self.home)
        encoded = re.sub(r"[^A-Za-z0-9]", "-", real)
        for found, shown in (
            (real, HOME),
            (str(self.home), HOME),
            (encoded, HOME.replace("/", "-")),
        ):
            text = text.replace(found, shown)
        return text

    def _shop(self) -> None:
        project = Project(self.home / "shop")
        for name, content in SHOP.items():
            project.write(name, content)
        project.commit("A shop")
        project.write("todo.md", "- e-mail addresses\n")
        self.cwd = project.root
        self.talk = Talk(project)
        self.talk.say(
            "Add an e-mail column to the users table, with a migration for it.",
            "I will write it first.",
        )

    def _agents(self) -> None:
        project = Project(self.home / "shop")
        for name, content in SHOP.items():
            project.write(name, content)
        project.commit("A shop")
        self.cwd = project.root
        claude, codex = AgentAtWork(project, ALPHA), Codex(project, BETA)
        claude.prompt("Log every query.")
        claude.edits("db.py", "import logging\n" + SHOP["db.py"])
        claude.edits("log.py", "import logging\n")
        codex.prompt("Use a connection pool.")
        codex.edits("db.py", project.read("db.py").decode() + "\n\nPOOL = []\n")
        codex.edits("pool.py", "SIZE = 4\n")
        claude.stop()
        codex.stop()

    def _entire(self) -> None:
        project = Project(self.home / "shop")
        for name, content in SHOP.items():
            project.write(name, content)
        project.commit(f"A shop\n\nEntire-Checkpoint: {IDS[0]}\n")
        project.write("db.py", "import logging\n" + SHOP["db.py"])
        project.commit(f"Log every query\n\nEntire-Checkpoint: {IDS[1]}\n")
        first = talk("Make a shop.", "Here it is.")
        now = {"created_at": datetime.now(UTC).isoformat()}
        log = {"transcript": [first + talk("Log.", "Done.")], **now}
        branch(
            project,
            layout(sharded(IDS[0]), [{"transcript": [first], **now}]),
            layout(sharded(IDS[1]), [log]),
        )
        self.cwd = project.root

    def _save_yesterday(self, time: str, label: str) -> None:
        hour, minute = map(int, time.split(":"))
        then = (datetime.now(UTC) - timedelta(days=1)).replace(
            hour=hour, minute=minute, second=0, microsecond=0
        )
        store = Store(Repository.open(self.cwd, Host(os.environ, self.home, lambda: then)))
        save(store, SaveRequest(self.cwd, note=Note(label=label)))
