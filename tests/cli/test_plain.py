"""Plain forms: what is read without click is read as click reads it, and loads none of it."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import click
import pytest

from gitcp.cli import back, history, log, plain, restore, save, saving
from gitcp.cli.group import SETTINGS

from driver import Project

HELP = SETTINGS["help_option_names"]
"""What the group gives its commands; a command remembers the option that it was first asked with.
"""

SOURCE = Path(__file__).parents[2]
COMMANDS: dict[str, tuple[click.Command, Any]] = {
    "log": (log.command, history.DEFAULTS),
    "restore": (
        restore.command,
        {name: value for name, value in back.DEFAULTS.items() if name != "paths"},
    ),
    "save": (save.command, saving.DEFAULTS),
}
WORDS = (
    "-q",
    "--quiet",
    "-n",
    "3",
    "--oneline",
    "--files",
    "--yes",
    "-y",
    "a word",
    "@~1",
    "é",
    "-1",
    "",
    "--session",
)
HEAVY = """
import sys
sys.argv = ["gitcp", *sys.argv[1:]]
from gitcp import __main__
code = __main__._run(sys.argv[1:])
heavy = "click dataclasses inspect orjson rich tempfile uuid"
loaded = set(heavy.split()) & set(sys.modules)
print("loaded:", sorted(loaded), "code:", code)
"""


@pytest.mark.parametrize("name", plain.FORMS)
def test_a_form_has_the_options_of_the_command(name: str) -> None:
    """What is not given means the same on both ways, and the module does what the command does."""
    command, defaults = COMMANDS[name]
    assert command.make_context(name, [], help_option_names=HELP).params == defaults
    assert set(plain.FORMS[name].flags.values()) <= set(defaults)


@pytest.mark.parametrize("name", plain.FORMS)
def test_what_is_read_is_what_click_reads(name: str) -> None:
    """Every line of up to three of these words is read the same, or left to click."""
    command, defaults = COMMANDS[name]
    read = 0
    for line in (line for count in range(4) for line in product(WORDS, repeat=count)):
        given = plain.read([name, *line])
        if given is not None:
            assert {**defaults, **given} == command.make_context(
                name, list(line), help_option_names=HELP
            ).params, line
            read += 1
    assert read > 20


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["show"],
        ["save", "a", "b"],
        ["save", "--json"],
        ["save", "-x"],
        ["save", ""],
        ["save", "two\nlines"],
        ["save", "\udcff"],
        ["save", "a", "--", "b"],
        ["-C", "x", "save"],
        ["restore", "12", "--", "a.txt"],
        ["restore", "--to", "x"],
        ["log", "-n"],
        ["log", "--session"],
        ["log", "--session", "-n"],
        ["log", "--session=x"],
        ["log", "-n", "-1"],
        ["log", "-n", "٣"],
        ["log", "-n3"],
        ["log", "-n", "9" * 5000],
        ["log", "", "3"],
    ],
)
def test_anything_else_is_left_to_click(args: list[str]) -> None:
    """An unknown option, a second word, an odd character, a number that may be none."""
    assert plain.read(args) is None


def test_without_an_output_click_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Started with a closed descriptor, Python has no stream: the long way puts one there."""
    assert plain.read(["log"]) == {}
    monkeypatch.setattr(sys, "stdout", None)
    assert plain.read(["log"]) is None


def test_little_is_loaded(project: Project) -> None:
    """The plain forms of log and restore, with something to show and to do."""
    for text in ("one\n", "two\n"):
        project.write("a.txt", text)
        project.gitcp("save", check=0)

    def run(*args: str) -> str:
        env = {**os.environ, "PYTHONPATH": str(SOURCE)}
        command = [sys.executable, "-c", HEAVY, *args]
        done = subprocess.run(
            command, cwd=project.root, env=env, capture_output=True, text=True, check=True
        )
        return done.stdout

    assert run("log", "--oneline", "-n", "1").endswith("loaded: [] code: 0\n")
    assert run("restore", "--yes", "--files", "@~1").endswith("loaded: [] code: 0\n")
    assert (project.root / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize("more", [[], ["--trust"]])
def test_a_path_without_its_dashes(project: Project, more: list[str]) -> None:
    """Both ways say what is missing."""
    project.write("a.txt", "one\n")
    project.gitcp("save", check=0)
    assert "hint: gitcp restore -- a.txt" in project.gitcp("restore", "a.txt", *more, check=16).err
