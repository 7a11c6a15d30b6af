"""What somebody who knows git types in the first hour, as typed: each line does what was meant, or
its error names the command that does.
"""

from __future__ import annotations

import shlex

import pytest
from click.testing import CliRunner

from gitcp.cli.commands import COMMANDS, EVERYDAY, FORMS, LINES, NAMES
from gitcp.cli.context import Context
from gitcp.cli.main import root

from driver import Project, Result

CHANGING = {
    "save": [
        ("save", 0, "nothing changed"),
        ("save -m 'add the parser'", 0, "saved manual"),
        ("save --force --message 'add the lexer'", 0, "saved manual"),
        ("save --force again -q", 0, ""),
        ("save before migration", 2, "error: LABEL needs quotes if it has spaces"),
        (
            "save -m one two",
            2,
            "error: LABEL and --message cannot be used together: nothing was saved",
        ),
        ("save --lable x", 2, "error: No such option '--lable'"),
        ("commit -am 'add a test'", 2, "error: there is no command 'commit': use 'save'"),
        ("checkpoint", 2, "error: there is no command 'checkpoint': use 'save'"),
        ("snapshot 'works'", 2, "error: there is no command 'snapshot': use 'save'"),
        ("create", 2, "error: there is no command 'create': use 'save'"),
        ("stash", 2, "error: there is no command 'stash': gitcp has no stash"),
        ("stash pop", 2, "error: there is no command 'stash': gitcp has no stash"),
        ("add .", 2, "error: there is no command 'add': a save includes all files"),
        ("tag works 1", 0, "tagged manual"),
        ("remote add origin", 0, "origin  "),
        ("remote rm origin", 2, "error: gitcp remote has no subcommand rm: nothing was changed"),
        ("tag", 0, "tag "),
    ],
    "restore": [
        ("restore 1 db.py -n", 0, "restore manual"),
        ("restore 1 -- db.py -n", 2, "error: -n is neither in manual"),
        ("restore 1 db.py src --yes", 0, "restored manual"),
        ("undo --yes", 0, "restored manual"),
        ("restore db.py --yes", 0, "nothing to restore: db.py already matches"),
        ("restore lost.py --yes", 0, "restored lost.py from manual"),
        ("restore @^ --dry-run", 0, "restore manual"),
        ("restore @- --dry-run", 0, "restore manual"),
        ("restore latest --dry-run", 0, "restore manual"),
        ("restore two --dry-run", 0, "restore manual"),
        ("restore HEAD~1 --dry-run", 16, "error: no checkpoint matches 'HEAD~1'"),
        ("restore 1 nope.py", 2, "error: nope.py is neither in manual"),
        ("restore nope", 16, "error: no checkpoint matches 'nope'"),
        ("restore 1", 12, "restore manual"),
        ("checkout 1 --dry-run", 2, "error: there is no command 'checkout': use 'restore'"),
        ("checkout -f HEAD~1", 2, "error: there is no command 'checkout': use 'restore'"),
        ("reset --hard 1", 2, "error: there is no command 'reset': use 'restore'"),
        ("rewind 1", 2, "error: there is no command 'rewind': use 'restore'"),
        ("rollback --dry-run", 0, "restore manual"),
        ("revert 2 db.py --dry-run", 0, "revert manual"),
    ],
}
LOOKING = {
    "look": [
        ("log", 0, "session manual"),
        ("log -1 --oneline", 0, "manual"),
        ("log -2", 0, "session manual"),
        ("log db.py --oneline", 0, "manual"),
        ("log src --oneline", 0, "manual"),
        ("log 2 -- app.py", 0, "session manual"),
        ("log 1..3 --oneline", 0, "manual"),
        ("log --table -n 1", 0, "#"),
        ("list", 0, "#"),
        ("list -2", 0, "#"),
        ("history", 0, "session manual"),
        ("checkpoints", 0, "session manual"),
        ("ls -2", 0, "#"),
        ("show", 0, "checkpoint manual"),
        ("show 1 db.py", 0, "db"),
        ("show @~1:db.py", 0, "db"),
        ("diff 1", 0, "diff --git"),
        ("diff 1 db.py", 0, "diff --git"),
        ("diff 1 2 db.py --stat", 0, " db.py"),
        ("diff db.py", 0, ""),
        ("status", 0, "Session"),
        ("st", 0, "Session"),
        ("grep migrate", 0, "no matches"),
        ("search db", 0, "manual"),
        ("blame db.py", 0, "db.py"),
        ("-C src log -1", 0, "session manual"),
        ("--no-pager log -1", 0, "session manual"),
    ],
    "rest": [
        ("help", 0, "Usage: gitcp"),
        ("help -a", 0, "Usage: gitcp"),
        ("help restore", 0, "Usage: gitcp restore"),
        ("help list", 0, "Usage: gitcp log"),
        ("restore --help", 0, "Usage: gitcp restore"),
        ("-h", 0, "Usage: gitcp"),
        ("version", 0, "gitcp "),
        ("--version", 0, "gitcp "),
        ("init", 0, "nothing to do: gitcp saves into the git repository"),
        ("config --list", 2, "error: there is no command 'config': settings are git's"),
        ("rm 2", 2, "error: there is no command 'rm': use `delete` for one checkpoint"),
        ("forget 2", 2, "error: there is no command 'forget': use `delete` for one checkpoint"),
        ("gc", 2, "error: there is no command 'gc': use `delete` for one checkpoint"),
        ("merge other", 2, "error: there is no command 'merge': sessions are never merged"),
        ("branch idea", 2, "error: there is no command 'branch': use 'fork --name'"),
        ("restroe 1", 2, "error: there is no command 'restroe'; did you mean 'restore'?"),
        ("sav x", 2, "error: there is no command 'sav'; did you mean 'save'?"),
        ("frobnicate", 2, "error: there is no command 'frobnicate'"),
        ("help frobnicate", 2, "error: there is no command 'frobnicate'"),
    ],
}
GROUPS = {**CHANGING, **LOOKING}


@pytest.fixture
def worked(project: Project) -> Project:
    """Three checkpoints, labelled `one` to `three`; `lost.py` was deleted after the last."""
    project.git("remote", "add", "origin", "../origin.git")
    project.write("lost.py", "here\n")
    for number, label in enumerate(("one", "two", "three"), start=1):
        project.write("app.py", "app\n" * number)
        project.write("db.py", "db\n" * min(number, 2))
        project.write("src/util.py", "util\n" * min(number, 2))
        project.gitcp("save", label, check=0)
    return project


def beginning(done: Result) -> str:
    """What is read first."""
    return done.out or done.err


@pytest.mark.parametrize("group", GROUPS)
def test_lines(worked: Project, group: str) -> None:
    """Typed, exit code, first words; and the hint of every error is a command that is accepted."""
    for typed, code, words in GROUPS[group]:
        if "lost.py" in typed:
            worked.remove("lost.py")
        done = worked.gitcp(*shlex.split(typed))

        assert done.code == code, (typed, done.out, done.err)
        assert beginning(done).lstrip().startswith(words.lstrip()), (typed, done.out, done.err)
        if code in (2, 16):
            check_hint(worked, typed, done)


def check_hint(project: Project, typed: str, done: Result) -> None:
    """What a hint says to type next is accepted: it does something, or asks first."""
    hints = [line for line in done.err.splitlines() if line.startswith("hint: gitcp ")]
    for hint in hints:
        words = shlex.split(hint.removeprefix("hint: gitcp "))
        if any(word.isupper() and len(word) > 1 for word in words):
            continue  # a placeholder, as LABEL
        assert project.gitcp(*words).code in (0, 12), (typed, hint)


def test_there_are_sixty() -> None:
    """The table is as long as an hour needs, and no line stands in it twice."""
    lines = [typed for group in GROUPS.values() for typed, _, _ in group]

    assert len(lines) == len(set(lines)) >= 60


@pytest.mark.parametrize("word", ["@~1", "@^"])
def test_a_place_in_a_session_comes_before_a_path(worked: Project, word: str) -> None:
    """A word with `@` that is both is the revision; after `--` it is the path."""
    worked.write(word, "a file\n")
    worked.gitcp("save", check=0)

    shown = worked.gitcp("restore", word, "--dry-run", check=0).out
    assert '"three"' in shown.splitlines()[0]
    assert "would be" not in worked.gitcp("restore", "--dry-run", "--", word, check=0).out


def test_history_of_a_path(worked: Project) -> None:
    """`log PATH` shows the checkpoints that changed it, whichever directory it is typed in."""

    def labels(*args: str) -> list[str]:
        out = worked.gitcp("log", "--oneline", *args, check=0).out
        return [line.partition(" ")[2] for line in out.splitlines()]

    assert labels("db.py") == ["two", "one"]
    assert labels("app.py", "-1") == ["three"]
    assert labels("-n", "1", "--", "db.py") == ["two"]
    assert labels("lost.py", "src") == ["two", "one"]
    inside = worked.gitcp("log", "--oneline", "util.py", cwd=worked.root / "src", check=0).out
    assert len(inside.splitlines()) == 2


def screen(*args: str) -> list[str]:
    """What is printed on a terminal of 80 columns."""
    done = CliRunner().invoke(root, [*args], "gitcp", obj=Context(args), terminal_width=80)
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


@pytest.mark.parametrize("name", [*NAMES, *FORMS])
def test_help_fits_a_screen(name: str) -> None:
    """The `-h` of every command takes at most 24 lines of 80 columns; its line in the table is
    short.
    """
    shown = screen(*name.split(), "-h")

    assert len(shown) <= 24
    assert max(map(len, shown)) <= 80
    assert len(FORMS[name].summary if name in FORMS else LINES[name]) <= 60


def test_the_commands_of_every_day_fit_a_screen() -> None:
    """`gitcp -h` names a dozen, `gitcp --help` all by task."""
    shown = screen("-h")

    assert len(shown) <= 24
    assert max(map(len, shown)) <= 80
    assert [line.split()[0] for line in shown[4:16]] == [*EVERYDAY]
    for heading in COMMANDS:
        assert f"{heading}:" in screen("--help")


def test_a_rare_option_is_in_the_long_help(project: Project) -> None:
    """`-h` points to the whole help, which names every option; both accept them all."""
    short = project.gitcp("save", "-h", check=0).out
    long = project.gitcp("help", "save", check=0).out

    assert "--position" not in short
    assert short.endswith("More options: gitcp help save\n")
    assert "--position K=V" in long
    assert "More options" not in long
    assert long == project.gitcp("save", "--help", check=0).out
