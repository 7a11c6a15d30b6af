"""gitcp where a person looks on: the pager, colours, the width, progress."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from talk import Talk
from terminal import SGR, on_terminal

from driver import Project

PAGED = (("log",), ("log", "--oneline"), ("log", "-p"), ("list",), ("show",), ("diff", "1", "2"))


@pytest.fixture
def worked(project: Project) -> Project:
    """Two checkpoints."""
    project.write("app.py", "one\n")
    Talk(project).say("add a column", "done")
    project.gitcp("save", "first", check=0)
    project.write("app.py", "two \x1b[2J\n")
    project.gitcp("save", "second " + "long " * 60, check=0)
    return project


@pytest.fixture
def pager(tmp_path: Path) -> str:
    """A pager that marks each line it is given, and tells its options."""
    script = tmp_path / "pager"
    script.write_text('#!/bin/sh\necho "paged $LESS"\nsed "s/^/| /"\n')
    script.chmod(0o755)
    return str(script)


@pytest.mark.parametrize("args", PAGED, ids=" ".join)
def test_paged(worked: Project, pager: str, args: tuple[str, ...]) -> None:
    """What may be long goes through the pager on a terminal, in colour, and all of it."""
    worked.write("unsaved", "")  # no checkpoint is marked as having the files here
    done = on_terminal(worked, *args, env={"GITCP_PAGER": pager})
    lines = done.out.splitlines()

    assert done.code == 0
    assert lines[0] == "paged FRX"
    assert len(lines) > 1
    assert all(line.startswith("| ") for line in lines[1:])
    assert "\x1b[" in done.out
    plain = [line[2:].rstrip() for line in SGR.sub("", done.out).splitlines()[1:]]
    expected = worked.gitcp(*args, env={"COLUMNS": "80", "FORCE_COLOR": "1"}, check=0).out
    assert timeless(plain) == timeless(SGR.sub("", expected).splitlines())


def timeless(lines: list[str]) -> list[str]:
    """The lines that say no time, without the blanks that make room for one."""
    return [
        " ".join(each.split())
        for each in lines
        if not re.search(r"Date:| ago\b|\bjust now\b", each)
    ]


def test_which_pager(worked: Project, pager: str) -> None:
    """GITCP_PAGER wins over git's core.pager, that over PAGER; `cat`, an empty one and --no-pager
    are none.
    """
    assert on_terminal(worked, "log", env={"PAGER": pager}).out.startswith("paged")
    assert not on_terminal(
        worked, "log", env={"PAGER": pager, "GITCP_PAGER": "cat"}
    ).out.startswith("paged")
    assert not on_terminal(worked, "log", env={"PAGER": pager, "GITCP_PAGER": ""}).out.startswith(
        "paged"
    )
    assert not on_terminal(worked, "--no-pager", "log", env={"PAGER": pager}).out.startswith(
        "paged"
    )
    worked.git("config", "--global", "core.pager", f"echo from git; {pager}")
    assert on_terminal(worked, "log", env={"PAGER": "false"}).out.startswith("from git")
    assert on_terminal(worked, "log", env={"GITCP_PAGER": pager, "LESS": "S"}).out.startswith(
        "paged S"
    )


def test_a_pager_that_is_left(worked: Project) -> None:
    """A pager that is left early, or is not there, ends the command without a word of ours."""
    for number in range(4):
        worked.write("app.py", f"{number}\n" * 40_000)
        worked.gitcp("save", "-q", check=0)
    worked.write("app.py", "not as it was saved\n")
    done = on_terminal(worked, "log", "-p", env={"GITCP_PAGER": "head -n 1"})

    assert done.code == 0
    assert re.fullmatch(r"session \S+( \(\S+\))?\n", SGR.sub("", done.out))
    assert "Traceback" not in on_terminal(worked, "log", env={"GITCP_PAGER": "no-such-pager"}).out


def test_an_error_under_the_pager(worked: Project, pager: str) -> None:
    """An error is said after the pager is done, and the exit code is its own."""
    done = on_terminal(worked, "show", "1", "--conversation", env={"GITCP_PAGER": pager})
    worked.gitcp("save", "--session", "other", "--conversation", "-", input="", check=0)
    failed = on_terminal(worked, "log", "nonsense", env={"GITCP_PAGER": pager})

    assert done.code == 0
    assert failed.code == 16
    assert failed.out.startswith("error: ")


@pytest.mark.parametrize(
    "args", [("save", "x"), ("status",), ("sessions",), ("show", "1:app.py"), ("log", "--json")]
)
def test_not_paged(worked: Project, pager: str, args: tuple[str, ...]) -> None:
    """What is short, or for programs, goes straight to the terminal."""
    assert "paged" not in on_terminal(worked, *args, env={"GITCP_PAGER": pager}).out


@pytest.mark.parametrize(
    ("env", "coloured"),
    [
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True),
    ],
)
def test_colours(worked: Project, env: dict[str, str], coloured: bool) -> None:
    """A terminal gets colours, unless it is dumb or they are unwanted; what is stored acts on it in
    no case.
    """
    for args in (*PAGED, ("status",), ("sessions",), ("save", "x")):
        said = on_terminal(worked, "--no-pager", *args, env=env).out
        assert "\x1b[2J" not in said
        assert "\x1b" not in SGR.sub("", said)
        assert ("\x1b" in said) is coloured, args


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_width(worked: Project, columns: int) -> None:
    """A table is as wide as the terminal at most; COLUMNS wins."""
    lines = SGR.sub("", on_terminal(worked, "--no-pager", "list", columns=columns).out).splitlines()
    told = SGR.sub(
        "", on_terminal(worked, "--no-pager", "list", env={"COLUMNS": "60"}, columns=columns).out
    ).splitlines()

    assert max(map(len, lines)) <= max(columns, 60)
    assert len(lines) == len(told) == 3
    assert max(map(len, told)) <= 60
