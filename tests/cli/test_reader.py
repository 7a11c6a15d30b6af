"""What the quick reader reads is read as click reads it, and loads none of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from gitcp.cli import commands, reader
from gitcp.cli.group import SETTINGS, Command
from gitcp.cli.options import Argument, Option
from gitcp.errors import BadValue

from driver import Project

HELP = SETTINGS["help_option_names"]
"""What the group gives its commands; a command remembers the option that it was first asked with.
"""

SOURCE = Path(__file__).parents[2]
WORDS = (
    "-n",
    "3",
    "--json",
    "--",
    "a word",
    "k=v",
    "bash",
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


def words_of(name: str) -> tuple[str, ...]:
    """Words for a command: its first options by every name, and some that any command may meet."""
    parameters = commands.load(name).parameters
    declared = [each for each in parameters if isinstance(each, Option)]
    kinds = {type(each.kind): each for each in declared if each.meaning is None}
    flags = [each for each in declared if each.meaning is not None][:2]
    return tuple(name for each in (*kinds.values(), *flags) for name in each.names) + WORDS


@pytest.mark.parametrize("name", commands.NAMES)
def test_what_is_read_is_what_click_reads(name: str) -> None:
    """Every line of up to two of these words (three, of the commands typed most) is read the same,
    or left to click. Nothing given means the same, too.
    """
    command, declared = Command(name), commands.load(name)
    longest = 3 if name in ("log", "restore", "save") else 2
    lines = (line for count in range(longest + 1) for line in product(words_of(name), repeat=count))
    read = 0
    for line in lines:
        given = outcome(partial(reader.read, declared, line))
        if given is not None:
            assert given == outcome(partial(read_by_click, command, line)), line
            read += 1
    assert read or declared.defaults().get("branch", "") is None  # three words at the least


def read_by_click(command: Command, line: Sequence[str]) -> object:
    return command.make_context(command.name, [*line], help_option_names=HELP).params


def outcome(read: Callable[[], object]) -> object:
    """What was read, or the error that says why nothing was."""
    try:
        return read()
    except BadValue as error:
        return str(error)


@pytest.mark.parametrize("name", commands.NAMES)
def test_every_option_is_read_alone(name: str) -> None:
    """Each option that a command declares is one that the reader knows: a flag, or with a value
    that its kind takes.
    """
    declared = commands.load(name)
    required = ["word"] * sum(
        isinstance(each, Argument) and each.required for each in declared.parameters
    )
    for each in declared.parameters:
        if isinstance(each, Option) and each.meaning is not None and name != "completion":
            mandatory = [
                word
                for other in declared.parameters
                if isinstance(other, Option) and other.required
                for word in (other.names[0], "x")
            ]
            for spelled in each.names:
                given = reader.read(declared, [*required, *mandatory, spelled])
                assert given is not None, spelled
                assert given[each.target] == each.meaning


@pytest.mark.parametrize(
    "args",
    [
        ["save", "a", "b"],
        ["save", "-x"],
        ["save", ""],
        ["save", "two\nlines"],
        ["save", "\udcff"],
        ["save", "a", "--", "b"],
        ["log", "-n"],
        ["log", "--session"],
        ["log", "--session", "-n"],
        ["log", "--session=x"],
        ["log", "-n", "-1"],
        ["log", "-n3"],
        ["log", "-n", "9" * 5000],
        ["log", "", "3"],
        ["find"],
        ["publish"],
        ["completion", "csh"],
        ["show", "--help"],
        ["show", "-h"],
    ],
)
def test_anything_else_is_left_to_click(args: list[str]) -> None:
    """An unknown option, a word too many, an odd character, a number that may be none."""
    assert reader.read(commands.load(args[0]), args[1:]) is None


def test_little_is_loaded(project: Project) -> None:
    """Commands with something to show and to do: click is for help and mistakes."""
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
    for line in (["show"], ["status"], ["log", "--phase", "x"], ["diff", "--stat", "@~1"]):
        assert "click" not in run(*line).rpartition("loaded:")[2], line
    assert run("restore", "--yes", "--files", "@~1").endswith("loaded: [] code: 0\n")
    assert (project.root / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize("more", [[], ["--since=yesterday"]])
def test_a_path_without_its_dashes(project: Project, more: list[str]) -> None:
    """It is a path both ways: read at once, or by click."""
    project.write("a.txt", "one\n")
    project.gitcp("save", check=0)
    project.write("a.txt", "two\n")
    project.gitcp("save", check=0)
    project.gitcp("restore", "1", "a.txt", "--yes", check=0)
    shown = project.gitcp("log", "a.txt", "--oneline", *more, check=0).out
    assert len(shown.splitlines()) == 3
