"""How gitcp fails: the exit code of each error, what is said and to whom; and the help that comes
before it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from gitcp import errors
from gitcp.cli import failure
from gitcp.cli.commands import COMMANDS, FORMS, LINES, MORE
from gitcp.cli.context import Context
from gitcp.cli.main import root

from driver import SOURCE, Project, Result

NAMES = [*LINES, *FORMS]


def raising(project: Project, error: str, *args: str, env: dict[str, str] | None = None) -> Result:
    """gitcp in a process of its own, where looking for the sessions raises `error`."""
    code = f"""
import errno, sys
from gitcp import errors, store
from gitcp.cli.main import run
def fail(self):
    raise {error}
store.Store.sessions = fail
sys.exit(run({["sessions", *args]}))
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(SOURCE), **(env or {})},
        capture_output=True,
        encoding="utf-8",
    )
    return Result(done.returncode, done.stdout, done.stderr)


def test_exit_codes() -> None:
    """Each class of error has the exit code that the tree in `gitcp.errors` says."""
    told = re.findall(r"([A-Z]\w+) +(\d+)\b", errors.__doc__ or "")
    classes = {name: getattr(errors, name) for name, _ in told}

    assert {name for name, _ in told} == {
        name for name, value in vars(errors).items() if isinstance(value, type)
    }
    for name, code in told:
        made = classes[name]("m", ("a", "b")) if name == "RevisionAmbiguous" else classes[name]("m")
        assert failure.describe(made).code == int(code), name


def test_an_expected_error(project: Project) -> None:
    """An error and what to type, each on one line; what is in it acts on no terminal; stdout is
    empty.
    """
    done = raising(project, "errors.Refused('not \\x1b[31mnow', hint='gitcp\\x07 log')")

    assert done == (12, "", "error: not ^[[31mnow\nhint: gitcp^G log\n")


def test_an_expected_error_for_programs(project: Project) -> None:
    """With --json it is one line of JSON on stderr; half a character in it is no trouble."""
    done = raising(project, "errors.RevisionAmbiguous('m \\udcff', ('a', 'b'), hint='h')", "--json")

    assert (done.code, done.out, done.err.count("\n")) == (16, "", 1)
    assert json.loads(done.err) == {
        "schema": "gitcp.error/1",
        "code": 16,
        "message": "m \\udcff",
        "hint": "h",
        "candidates": ["a", "b"],
        "sessions": [],
    }


def test_candidates_are_listed(project: Project) -> None:
    """What could have been meant stands between the error and the hint."""
    done = raising(project, "errors.RevisionAmbiguous('m', ('a', 'b'), hint='h')")

    assert done.err == "error: m\n  a\n  b\nhint: h\n"


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        ("OSError(errno.ENOSPC, 'No space left on device')", 17, "the disk is full"),
        ("OSError(errno.EDQUOT, 'Quota exceeded')", 17, "the disk is full"),
        (
            "PermissionError(errno.EACCES, 'Permission denied', b'/x/y')",
            1,
            "Permission denied (/x/y)",
        ),
        ("MemoryError()", 1, "out of memory"),
        ("RecursionError('too deep')", 1, "internal error: RecursionError: too deep"),
        ("ValueError('what')", 1, "internal error: ValueError: what"),
        ("KeyboardInterrupt()", 130, "interrupted: no partial result was left behind"),
    ],
)
def test_other_errors(project: Project, error: str, code: int, said: str) -> None:
    """Whatever happens has a code and a line, and no traceback."""
    done = raising(project, error)

    assert (done.code, done.out) == (code, "")
    assert f"error: {said}" in done.err
    assert "Traceback" not in done.err


def test_debugging(project: Project) -> None:
    """A mistake of ours says how to see where; GITCP_DEBUG shows it, and the code stays."""
    assert "hint: set GITCP_DEBUG=1" in raising(project, "ValueError('what')").err
    done = raising(project, "ValueError('what')", env={"GITCP_DEBUG": "1"})

    assert done.code == 1
    assert "in fail\n" in done.err
    assert "Traceback" in done.err


def test_a_real_interrupt(project: Project) -> None:
    """A save that waits for its conversation ends at ^C with 130, and leaves no checkpoint."""
    project.write("a", "x")
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "gitcp", "save", "--conversation", "-"],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)

    assert process.returncode == 130
    assert b"error: interrupted: no partial result was left behind" in said
    assert project.git("for-each-ref", "refs/gitcp") == ""


def test_nobody_reads(project: Project) -> None:
    """A reader that leaves early ends the command quietly."""
    project.write("a", "x")
    project.gitcp("save", "x" * 190, check=0)
    for _ in range(3):
        project.gitcp("save", "x" * 190, check=0)
    command = f'"{sys.executable}" -P -m gitcp log -p --all --json --reverse; echo "code $?" >&2'
    done = subprocess.run(
        f"({command}) | true",
        shell=True,
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        encoding="utf-8",
    )

    assert done.stderr in ("code 141\n", "code 0\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_for_output(project: Project, unbuffered: str) -> None:
    """Output that cannot be written is a failure, not a success, and is said; at once or when all
    is flushed.
    """
    project.write("a", "x")
    project.gitcp("save", check=0)
    done = subprocess.run(
        f'"{sys.executable}" -P -m gitcp show > /dev/full',
        shell=True,
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONUNBUFFERED": unbuffered},
        capture_output=True,
        encoding="utf-8",
    )

    assert done.returncode == 17
    assert done.stderr == (
        "error: the disk is full: the output could not be written. What the command did before "
        "is kept\nhint: free some space\n"
    )


@pytest.mark.parametrize("typed", ["save again --force", "save", "log"])
@pytest.mark.parametrize(
    "stream", [">&-", "<&- >&- 2>&-", "2>&- >&-", "> /dev/full", "1</dev/null", "| true"]
)
def test_output_that_cannot_be_written(project: Project, typed: str, stream: str) -> None:
    """What was done stands, and nothing says that it was not; no traceback, no word in a file of
    gitcp's.
    """
    project.write("a", "x")
    project.gitcp("save", check=0)
    project.gitcp("save", check=0)
    before = len(project.json_lines("log"))
    done = subprocess.run(
        f'"{sys.executable}" -P -m gitcp {typed} {stream}',
        shell=True,
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        encoding="utf-8",
    )

    assert len(project.json_lines("log")) == before + ("again" in typed)
    assert "no checkpoint was made" not in done.stderr
    assert "Traceback" not in done.stderr
    if stream in ("> /dev/full", "1</dev/null") and typed != "save -q":
        assert done.returncode == (17 if "full" in stream else 1)
        assert "the output could not be written" in done.stderr
        assert "is kept" in done.stderr
    else:
        assert done.returncode in ((0, 141) if stream == "| true" else (0,))
    project.gitcp("check", check=0)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams(project: Project, closed: str) -> None:
    """A save works with streams closed."""
    project.write("a", "x")
    done = subprocess.run(
        f'"{sys.executable}" -P -m gitcp save {closed}',
        shell=True,
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )

    assert done.returncode == 0
    assert len(project.git("for-each-ref", "refs/gitcp").splitlines()) == 1


def test_a_directory_that_is_gone(project: Project) -> None:
    """A working directory that was removed, or one that -C names in vain, is said to be gone."""
    done = subprocess.run(
        f'mkdir gone && cd gone && rmdir ../gone && "{sys.executable}" -P -m gitcp status',
        shell=True,
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        encoding="utf-8",
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert "the current directory does not exist" in done.stderr
    assert "nowhere does not exist" in project.gitcp("-C", "nowhere", "status", check=2).err


@pytest.mark.parametrize(
    ("args", "said", "hint"),
    [
        (("sav",), "there is no command 'sav'; did you mean 'save'?", "gitcp help save"),
        (("stauts",), "there is no command 'stauts'; did you mean 'status'?", "gitcp status"),
        (("hooks",), "there is no command 'hooks': use 'enable'", "gitcp enable"),
        (("settings",), "settings are git's", "git config --get-regexp gitcp"),
        (("unlock",), "there is no command 'unlock'", "gitcp doctor"),
        (
            ("tag", "list"),
            "list would be the name of a tag; nothing was tagged",
            "gitcp tag --list",
        ),
        (("tag", "rm", "v1"), "rm would be the name of a tag", "gitcp tag --delete v1"),
        (("lst",), "there is no command 'lst'; did you mean 'list'?", "gitcp log --table"),
        (("versoin",), "there is no command 'versoin'; did you mean 'version'?", "gitcp --version"),
        (("log", "--decent", "nora"), "No such option '--decent'\n", "gitcp log -h"),
        (("log", "--reverze"), "Did you mean '--reverse'?", "gitcp log -h"),
        (("zzz",), "there is no command 'zzz'", "gitcp help --all"),
        (("checkout", "-h"), "there is no command 'checkout': use 'restore'", "gitcp help restore"),
        (("commit", "--help"), "there is no command 'commit': use 'save'", "gitcp help save"),
        (("help", "savee"), "there is no command 'savee'; did you mean 'save'?", "gitcp help save"),
        (("save", "--lable", "x"), "--lable", "gitcp save -h"),
        (("log", "-n", "many"), "many", "gitcp log -h"),
        (("completion",), "bash", "gitcp completion -h"),
        (("--frob",), "--frob", "gitcp -h"),
    ],
)
def test_usage(project: Project, args: tuple[str, ...], said: str, hint: str) -> None:
    """A mistake in typing ends with 2, says what is wrong, and where the help is; for programs as
    JSON.
    """
    done = project.gitcp(*args, check=2)

    assert done.out == ""
    assert said in done.err
    assert done.err.splitlines()[-1] == f"hint: {hint}"
    assert json.loads(project.gitcp(*args, "--json", check=2).err)["code"] == 2


# ---------------------------------------------------------------- help


def test_help_imports_no_command(project: Project) -> None:
    """`gitcp --help` lists every command in its group, and imports none of them, nor what they
    need.
    """
    heavy = {
        "rich",
        "jinja2",
        "gitcp.store",
        "gitcp.saving",
        "gitcp.restoring",
        "gitcp.history",
        *(f"gitcp.cli.{name}" for name in LINES),
        *(form.module for form in FORMS.values()),
    }
    after = f"sys.stderr.write(str({heavy} & set(sys.modules)))"
    code = f"import sys; from gitcp.cli.main import run; run(['--help']); {after}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        encoding="utf-8",
    )

    assert done.stderr == "set()"
    headings = re.findall(r"^(\w[\w ]*):$", done.stdout, re.MULTILINE)
    assert headings == ["Options", *COMMANDS, "For setup and programs"]
    for name in LINES.keys() - MORE.keys():
        assert re.search(rf"^  {name} +\w", done.stdout, re.MULTILINE)
    assert f"\n  {', '.join(MORE)}\n" in done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_help_of_a_command(name: str) -> None:
    """Its first line is the one in the table, without a full stop; -h shows it, with an example;
    --json is there, and --help shows every option.
    """
    line = FORMS[name].summary if name in FORMS else LINES[name]
    command = root.get_command(click.Context(root), name)
    assert command is not None
    shown = CliRunner().invoke(root, [*name.split(), "-h"], obj=Context([]))

    assert shown.exit_code == 0
    assert (command.help or "").splitlines()[0] == line
    assert not line.endswith(".")
    assert f"\n    gitcp {name}" in shown.output
    assert ("--json" in shown.output) is (
        name not in {"completion", "demo", "help", "hook", "mcp", "ui"}
    )
    whole = CliRunner().invoke(root, [*name.split(), "--help"], obj=Context([])).output
    listed = [option for option in command.params if not getattr(option, "hidden", False)]
    options = [spelled for option in listed for spelled in option.opts]
    assert [each for each in options if each.startswith("-") and each not in whole] == []


def test_alone(project: Project) -> None:
    """`gitcp` alone shows the help, `--version` the version."""
    assert project.gitcp(check=0).out == project.gitcp("-h", check=0).out
    assert re.fullmatch(r"gitcp \d+\.\d+\.\d+\n", project.gitcp("--version", check=0).out)
