"""What users of git, jj, restic and gh type by habit, as typed: each line of tests/data/habits.tsv
does what was meant, or its error names the command that does, which is then typed.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner
from first_hour import FirstHour

from gitcp.cli.commands import FORMS, NAMES, SPELLINGS
from gitcp.cli.context import Context
from gitcp.cli.habits import LOOKING
from gitcp.cli.main import root

from driver import SOURCE, Result

MOST_FAILED = 0.05
"""The share of each part's lines that may have no useful answer; none may be answered wrongly."""

PLACEHOLDERS = {
    "COMMIT": "HEAD",
    "DIR": "../made",
    "LABEL": "x",
    "NAME=VALUE": "core.pager=cat",
    "PATH": "README.rst",
    "PATH:LINE": "README.rst:1",
    "REV": "works",
    "URL": "../hub.git",
}
NOT_UNDERSTOOD = (2, 10, 16)
"""Exit codes of a line that could not be read: an option, a repository, a checkpoint."""


class Habit(NamedTuple):
    """A line, where it is typed, its verdict, and what is expected of it: did (its first words),
    changed (`COMMAND => WORDS` afterwards), asked and named (the hint), or failed.
    """

    part: str
    verdict: str
    place: str
    line: str
    expected: str


def habits() -> list[Habit]:
    text = SOURCE.joinpath("tests/data/habits.tsv").read_text("utf-8")
    rows = (row.split("\t") for row in text.splitlines() if not row.startswith("#"))
    return [Habit(*row) for row in rows]


@pytest.mark.parametrize("part", ["1", "2"])
def test_lines(tmp_path: Path, part: str) -> None:
    """Each line, with its exit code and its effect. What is refused, or only looks, changes
    nothing; what is named instead is accepted.
    """
    hour = FirstHour(tmp_path / "hour")
    before = hour.state()
    wrong: list[tuple[Habit, str]] = []
    for habit in habits():
        if habit.part == part:
            done = hour.type(habit.place, *shlex.split(habit.line))
            wrong += [(habit, what) for what in judged(hour, habit, done)]
            if habit.verdict == "changed":
                hour.reset()
    assert not wrong, "\n".join(f"{habit.line}: {what}" for habit, what in wrong)
    assert hour.state() == before


def judged(hour: FirstHour, habit: Habit, done: Result) -> list[str]:
    """What is wrong with an answer."""
    said = f"{done.code} {done.out[:200]!r} {done.err[:400]!r}"
    if "internal error" in done.err or "Traceback" in done.err:
        return [said]
    if habit.verdict == "failed":
        return [] if done.code else [said]
    if habit.verdict == "did":
        words = " ".join((done.out or done.err).split())
        return [] if done.code == 0 and words.startswith(habit.expected) else [said]
    if habit.verdict == "changed":
        command, _, words = habit.expected.partition(" => ")
        seen = hour.type(habit.place, *shlex.split(command)).out
        return [] if done.code == 0 and words in seen else [said, seen]
    hints = re.findall(r'(?:^hint: |"hint":")([^"\n]*)', done.err, re.MULTILINE)
    if done.code in (0, 130) or not hints or not hints[-1].startswith(habit.expected):
        return [said]
    return [] if habit.verdict == "asked" else followed(hour, habit, hints[-1])


def followed(hour: FirstHour, habit: Habit, hint: str) -> list[str]:
    """What is wrong with a command that an error names: it must do something, or ask first."""
    words = [PLACEHOLDERS.get(word, word) for word in shlex.split(re.sub(r"  ?\(.*", "", hint))]
    if words[:2] == ["gitcp", "-C"]:
        words[2] = "."
    if words[0] == "gitcp":
        done = hour.type(habit.place, *words[1:])
        if words[1] not in LOOKING:
            hour.reset()
        return [f"{hint}: {done.err[:300]!r}"] if done.code in NOT_UNDERSTOOD else []
    if words[0] != "git" or words[1] == "difftool":
        return []  # it asks for an answer
    cwd = hour.directory(habit.place)
    code = subprocess.run(words, cwd=cwd, capture_output=True, check=False).returncode
    hour.reset()
    return [] if code in (0, 1) else [f"{hint}: git ended with {code}"]


def test_few_fail() -> None:
    """No line stands in the table twice, and few have no useful answer."""
    listed = habits()
    for part in ("1", "2"):
        of_part = [habit for habit in listed if habit.part == part]
        failed = [habit.line for habit in of_part if habit.verdict == "failed"]
        assert len(failed) <= MOST_FAILED * len(of_part), failed

    assert len({(habit.place, habit.line) for habit in listed}) == len(listed) >= 500
    assert sum(habit.part == "2" for habit in listed) >= 150


def near_misses(name: str) -> set[str]:
    """A word with two letters in the other order, one left out, and one twice."""
    places = range(len(name))
    swapped = {name[:at] + name[at : at + 2][::-1] + name[at + 2 :] for at in places}
    return (
        swapped
        | {name[:at] + name[at + 1 :] for at in places}
        | {name[:at] + name[at] + name[at:] for at in places}
    )


def test_near_misses() -> None:
    """A misspelled command, alias or form ends with an error and a hint, and never with an internal
    one; nothing is run.
    """
    words = {first for each in (*NAMES, *FORMS, *SPELLINGS) for first in each.split()[:1]}
    for missed in sorted({miss for word in words for miss in near_misses(word)} - words - {""}):
        if missed.startswith("-"):
            continue
        done = CliRunner().invoke(root, [missed, "--yes"], "gitcp", obj=Context([missed, "--yes"]))
        assert done.exception is not None, missed
        assert type(done.exception).__name__ == "BadValue", (missed, done.exception)
        hint = getattr(done.exception, "hint", "")
        assert hint.split()[0] in ("gitcp", "git"), missed
