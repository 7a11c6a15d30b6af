"""`gitcp log`, and which checkpoints it shows: by session, range, time, words and phase."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from talk import Talk
from terminal import SGR, on_terminal

from gitcp.history import log
from gitcp.history.log import Selection
from gitcp.model import Checkpoint
from gitcp.store import Store

from driver import Project
from samples import START, open_store, save

LABELS = ("first", "before migration", "third", "Migration done", "fifth")


@pytest.fixture
def store(project: Project) -> Store:
    return open_store(project)


@pytest.fixture
def five(store: Store) -> list[Checkpoint]:
    """A session of five checkpoints, a minute apart; the middle three are of phase `schema`."""
    phases = (None, "schema", "schema", "schema", "tests")
    return [
        save(store, "alpha", label=label, phase=phase)
        for label, phase in zip(LABELS, phases, strict=True)
    ]


def numbers(store: Store, session: str = "alpha", **wanted: object) -> list[int]:
    """The numbers of the checkpoints that a selection shows."""
    tip = store.tip(session)
    assert tip is not None
    return [summary.id.number for summary in log.select(store, [tip], Selection(**wanted))]  # type: ignore[arg-type]


def fork(
    project: Project, store: Store, session: str, point: Checkpoint, **fields: Any
) -> Checkpoint:
    """A new session that goes on from a checkpoint of another; its first own checkpoint."""
    project.git("update-ref", f"refs/gitcp/sessions/{session}", point.commit)
    return save(store, session, **fields)


def test_newest_first(store: Store, five: list[Checkpoint]) -> None:
    """All of a session, the newest first, or as many of them as wanted."""
    assert numbers(store) == [5, 4, 3, 2, 1]
    assert numbers(store, limit=2) == [5, 4]
    assert numbers(store, limit=0) == []
    assert numbers(store, limit=10**30) == numbers(store)


def test_filters(store: Store, five: list[Checkpoint]) -> None:
    """Times include both ends; a limit counts what is shown, not what was looked at."""
    second, fourth = START + timedelta(minutes=2), START + timedelta(minutes=4)
    assert numbers(store, since=second, until=fourth) == [4, 3, 2]
    assert numbers(store, grep=re.compile("migration", re.IGNORECASE)) == [4, 2]
    assert numbers(store, phase="schema", limit=2) == [4, 3]
    assert numbers(store, phase="schem") == []


def test_range(store: Store, five: list[Checkpoint]) -> None:
    """A range begins after its first end."""
    assert numbers(store, after=five[1].commit) == [5, 4, 3]
    assert numbers(store, after=five[4].commit) == []


def test_range_across_a_fork(project: Project, store: Store, five: list[Checkpoint]) -> None:
    """What both sides share is in no range between them, as in git's."""
    other = fork(project, store, "beta", five[2])
    tip = store.tip("alpha")
    assert tip is not None

    assert [s.id.number for s in log.select(store, [tip], Selection(after=other.commit))] == [5, 4]


def test_order_is_the_chain(store: Store, five: list[Checkpoint]) -> None:
    """A clock that was set back changes nothing within a session."""
    save(store, "alpha", created=START - timedelta(days=1))

    assert numbers(store) == [6, 5, 4, 3, 2, 1]


def test_several_sessions(project: Project, store: Store, five: list[Checkpoint]) -> None:
    """Sessions are merged by time; what a fork shares is shown once."""
    save(store, "beta", created=START + timedelta(minutes=3, seconds=30))
    fork(project, store, "gamma", five[1], created=START + timedelta(minutes=9))
    found = [str(s.id) for s in log.select(store, store.sessions().values(), Selection())]

    assert found == ["gamma@3", "alpha@5", "alpha@4", "beta@1", "alpha@3", "alpha@2", "alpha@1"]
    assert [
        str(s.id) for s in log.select(store, store.sessions().values(), Selection(limit=3))
    ] == found[:3]
    assert [line.id for line in log.lines(store, store.sessions().values(), Selection())] == found


def test_one_liners_are_the_same(store: Store, five: list[Checkpoint]) -> None:
    """The quick way to one-liners says what the whole way says, also of a label that looks like
    trailers.
    """
    save(store, "alpha", label="Gitcp-Session: x\nGitcp-Number: 9\x00\x01\x1b")
    tip = store.tip("alpha")
    assert tip is not None
    whole = [log.line(summary) for summary in log.select(store, [tip], Selection())]

    assert list(log.lines(store, [tip], Selection())) == whole
    assert whole[0].id == "alpha@6"


def test_one_liners_in_another_encoding(
    project: Project, store: Store, five: list[Checkpoint]
) -> None:
    """How the user's git likes to print messages is nothing to us."""
    project.git("config", "i18n.logOutputEncoding", "latin1")
    project.git("config", "log.showSignature", "true")
    project.git("config", "color.ui", "always")
    save(store, "alpha", label="naïve ü")
    tip = store.tip("alpha")
    assert tip is not None

    assert next(iter(log.lines(store, [tip], Selection()))).subject == "naïve ü"


def test_one_liners_of_a_foreign_writer(
    project: Project, store: Store, five: list[Checkpoint]
) -> None:
    """A commit whose trailers are in another order is listed all the same."""
    body = "mine\n\nGitcp-Number: 6\nGitcp-Trigger: manual\nGitcp-Session: alpha\n"
    tree, parent = five[4].root, five[4].commit
    project.git("config", "user.name", "x")
    project.git("config", "user.email", "x@example.org")
    made = project.git("commit-tree", tree, "-p", parent, input=body.encode())
    project.git("update-ref", "refs/gitcp/sessions/alpha", made)
    tip = store.tip("alpha")
    assert tip is not None

    assert [line.id for line in log.lines(store, [tip], Selection(limit=2))] == [
        "alpha@6",
        "alpha@5",
    ]


# ---------------------------------------------------------------- the command


@pytest.fixture
def worked(project: Project) -> Project:
    """A project with three real checkpoints: a file added, changed, and one with an odd name
    added.
    """
    project.write("app.py", "one\n")
    Talk(project).say("add a column", "done")
    project.gitcp("save", "first \x1b[31mred", "--phase", "schema", "--tag", "v1", check=0)
    project.write("app.py", "two\n")
    project.gitcp("save", check=0)
    project.write("odd\x1b name", "x\n")
    project.gitcp("save", "third", check=0)
    return project


def test_log(worked: Project) -> None:
    """Each checkpoint in two lines: its number, label or prompt, and tags; then how much it
    changed, when, and who made it.
    """
    done = worked.gitcp("log", check=0)
    lines = [re.sub(r"just now|\d+ \w+ ago", "WHEN", line) for line in done.out.splitlines()]

    assert done.err == ""
    assert lines[:2] == ["session e7baae82 (claude-code)", "3  third"]
    assert lines[3:] == [
        "2  add a column",
        "   app.py +1 -1, WHEN, claude-code, phase schema",
        "1  first [31mred (tag: v1)",
        "   app.py +1, WHEN, claude-code, phase schema",
    ]
    assert "\x1b" not in done.out


def test_log_of_a_phase_that_is_not_there(worked: Project) -> None:
    """The phases there are, are named: nothing printed would look like nothing saved."""
    for args in ((), ("--json",), ("--all", "--oneline")):
        done = worked.gitcp("log", "--phase", "tests", *args, check=0)
        assert done.out == ""
        assert done.err == "note: no checkpoint is of phase 'tests'; phases: schema\n"
    assert worked.gitcp("log", "--phase", "schema", check=0).err == ""


def test_log_of_another_session(worked: Project) -> None:
    """Ids are whole where the number alone would mean another checkpoint."""
    worked.gitcp("save", "elsewhere", "--session", "other", "--conversation", "-", check=0)
    first = worked.gitcp("log", "--session", "e7baae82", check=0).out.splitlines()[1]

    assert first == "e7baae82@3  third"
    assert "e7baae82@3  third" in worked.gitcp("log", "--all", check=0).out
    assert worked.gitcp("log", check=0).out.startswith("session other\n1  elsewhere\n")


def test_log_folds(worked: Project) -> None:
    """Restores in a row make one row, and the steps of one prompt too; --all-steps shows each."""
    worked.gitcp("restore", "1", "--yes", check=0)
    worked.gitcp("restore", "3", "--yes", check=0)
    folded = worked.gitcp("log", check=0).out.splitlines()[1:]
    every = worked.gitcp("log", "--all-steps", check=0).out.splitlines()[1:]

    assert [line.split()[0] for line in folded[::2]] == ["5", "3", "2", "1"]
    assert folded[1].endswith(", +1 step")
    assert [line.split()[0] for line in every[::2]] == ["5", "4", "3", "2", "1"]
    assert not any("step" in line for line in every)
    assert len(worked.gitcp("log", "-n", "2", check=0).out.splitlines()) == 5
    assert len(worked.gitcp("log", "--oneline", check=0).out.splitlines()) == 5


def test_table(worked: Project) -> None:
    """The newest row comes last; restores in a row are one; a limit counts rows, and what is older
    is mentioned on a terminal.
    """
    worked.gitcp("restore", "1", "--yes", check=0)
    worked.gitcp("restore", "3", "--yes", check=0)
    table = worked.gitcp("log", "--table", check=0).out.splitlines()
    every = worked.gitcp("list", "--all-steps", check=0).out.splitlines()
    narrow = on_terminal(worked, "--no-pager", "log", "--table", "-n", "2").out

    assert table[0].split()[0] == "#"
    assert [line.split()[0] for line in table[1:]] == ["1", "2", "3", "5"]
    assert " +1 " in table[-1]
    assert [line.split()[0] for line in every[1:]] == ["1", "2", "3", "4", "5"]
    assert "1 step not shown: gitcp log --all-steps" in narrow
    assert "older checkpoints: gitcp log --table -n 10" in narrow


@pytest.mark.parametrize(
    "command",
    [
        ("log", "now"),
        ("log", "1..now", "--json"),
        ("log", "now", "--stat", "-n", "1"),
        ("view", "now", "-o", "-"),
        ("show", "now"),
        ("diff", "1..now"),
        ("revert", "1..now", "--dry-run"),
    ],
)
def test_which_a_time_means(worked: Project, command: tuple[str, ...]) -> None:
    """Every command that takes a time for a checkpoint prints once which one it means."""
    last = worked.json("show")["id"]
    said = worked.gitcp(*command, check=0).err.splitlines()
    assert [line.partition(" ")[2].split()[0] for line in said if line.startswith("now: ")] == [
        last
    ]


def test_table_counts_as_the_list(project: Project) -> None:
    """The table counts the files that `log` counts: those of the path, and each one once."""
    for text in ("one", "two"):
        for name in ("a.txt", "d/b.txt", "d/c.txt"):
            project.write(name, f"{text}\n")
        project.gitcp("save", text, check=0)
    project.write("a.txt", "three\n")
    project.gitcp("save", "three", check=0)

    def files(*args: str) -> list[str]:
        header, *rows = project.gitcp("log", "--table", *args, check=0).out.splitlines()
        end = header.index("files") + len("files")
        return [row[:end].split()[-1] for row in rows]

    assert files() == ["3", "3", "1"]
    assert files("d") == ["2", "2"]
    assert files("--", "d/b.txt") == ["1", "1"]


def test_a_single_file_is_named(worked: Project) -> None:
    """A row that changed one file has its path, others the number."""
    worked.write("a \x1b.py", "new\n")
    worked.gitcp("save", "one", check=0)
    worked.write("b.py", "new\n")
    worked.write("c.py", "new\n")
    worked.gitcp("save", "two", check=0)
    said = worked.gitcp("log", "-n", "2", check=0).out.splitlines()[1:]

    assert said[1].strip().startswith("2 files +2, ")
    assert said[3].strip().startswith("a \\x1b.py +1, ")


def test_which_one_has_the_files(worked: Project) -> None:
    """On a terminal the newest checkpoint with the files of the working tree is marked; a program
    gets no mark.
    """

    def marked() -> list[str]:
        out = SGR.sub("", on_terminal(worked, "--no-pager", "log", "--all-steps").out)
        return [line.split()[0] for line in out.splitlines() if line.endswith("  = files here")]

    worked.gitcp("save", check=0)
    tip = marked()
    assert len(tip) == 1
    worked.gitcp("save", "again", check=0)
    assert marked() == [str(int(tip[0]) + 1)]
    assert "= files here" not in worked.gitcp("log", check=0).out
    worked.write("a.py", "unsaved\n")
    assert marked() == []


def test_log_fits(worked: Project) -> None:
    """A subject is cut where the line is full, and nothing else is; a pipe gets all of it."""
    label = "a label that goes on and on " * 4
    worked.gitcp("save", label.strip(), check=0)
    narrow = worked.gitcp("log", env={"COLUMNS": "60"}, check=0).out.splitlines()[1]

    assert len(narrow) == 60
    assert narrow.startswith("4  a label that goes")
    assert narrow.endswith("…")
    assert worked.gitcp("log", check=0).out.splitlines()[1] == f"4  {label.strip()}"


def test_oneline(worked: Project) -> None:
    """One line each: id, tags, subject."""
    said = worked.gitcp("log", "--oneline", check=0).out.splitlines()

    assert said[:2] == ["e7baae82@3 third", "e7baae82@2 manual: add a column"]
    assert said[2].startswith("e7baae82@1 (tag: v1) first")
    assert worked.gitcp("log", "--oneline", "--reverse", check=0).out.splitlines() == said[::-1]
    assert worked.gitcp("log", "--oneline", "-n", "1", check=0).out.splitlines() == said[:1]
    assert worked.gitcp("log", "--oneline", "v1..@", check=0).out.splitlines() == said[:2]
    assert worked.gitcp("log", "--oneline", "2", check=0).out.splitlines() == said[1:]
    assert (
        worked.gitcp("log", "--oneline", "--since", "1 hour ago", check=0).out.splitlines() == said
    )
    assert worked.gitcp("log", "--oneline", "--until", "1 hour ago", check=0).out == ""
    assert worked.gitcp("log", "--oneline", "--grep", "THI.D", check=0).out.splitlines() == said[:1]
    assert worked.gitcp("log", "--oneline", "--all", check=0).out.splitlines() == said


def test_log_in_colour(worked: Project) -> None:
    """Colours are on the id alone, and change nothing else."""
    plain = worked.gitcp("log", "--oneline", check=0).out
    coloured = worked.gitcp("log", "--oneline", env={"FORCE_COLOR": "1"}, check=0).out

    assert coloured.startswith("\x1b[33me7baae82@3\x1b[0m third\n")
    assert SGR.sub("", coloured) == plain


def test_log_json(worked: Project) -> None:
    """One checkpoint object a line, newest first, the same as `show` prints."""
    found = worked.json_lines("log")

    assert [checkpoint["number"] for checkpoint in found] == [3, 2, 1]
    shown = worked.json("show", "v1")
    assert shown.pop("changes")  # they take a comparison each
    assert shown.pop("memory") == []
    assert shown.pop("tokens") is None
    assert found[2] == shown
    assert worked.json_lines("log", "--reverse", "-n", "2") == found[1::-1]


def test_log_patch(worked: Project) -> None:
    """-p shows git's own patch of the files, without gitcp's directory; --stat how much; both go
    together.
    """
    patch = worked.gitcp("log", "-p", "2", "-n", "1", check=0).out
    stat = worked.gitcp("log", "--stat", "--oneline", check=0).out
    both = worked.gitcp("log", "--stat", "-p", check=0).out

    assert patch.endswith("--- a/app.py\n+++ b/app.py\n@@ -1 +1 @@\n-one\n+two\n")
    assert '\n "odd\\033 name" | 1 +\n' in stat
    assert both.count("diff --git") == 3
    assert ".gitcp" not in both
    assert "checkpoint.json" not in both


def test_log_runs_nothing(worked: Project) -> None:
    """What the user's git would run to show a diff is not run."""
    worked.write(".gitattributes", "* diff=evil\n")
    worked.git("config", "diff.evil.textconv", "touch evil-ran; cat")
    worked.git("config", "diff.evil.command", "touch evil-ran")
    worked.git("config", "diff.external", "touch evil-ran")
    worked.gitcp("log", "-p", check=0)
    worked.gitcp("diff", check=0)

    assert not worked.root.joinpath("evil-ran").exists()


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("nonsense",), 16),
        (("9",), 16),
        (("--since", "whenever"), 2),
        (("--grep", "("), 2),
        (("-n", "-1"), 2),
        (("--all", "1"), 2),
        (("-S", ""), 2),
    ],
)
def test_log_errors(worked: Project, args: tuple[str, ...], code: int) -> None:
    """What cannot be meant is said, with what to type; programs get it as JSON."""
    done = worked.gitcp("log", *args, check=code)

    assert done.out == ""
    assert re.fullmatch(r"error: .+\nhint: .+\n", done.err)
    assert json.loads(worked.gitcp("log", *args, "--json", check=code).err)["code"] == code


def test_log_of_nothing(project: Project) -> None:
    """Before the first save there is nothing to show, and what to type is said."""
    assert project.gitcp("log", check=16).err == "error: no checkpoints yet\nhint: gitcp save\n"
    assert project.gitcp("log", "--all", check=0) == (0, "", "")


@pytest.mark.parametrize("count", [3, 12])
@pytest.mark.parametrize(
    "args", [(), ("--oneline",), ("--json",), ("--all-steps",), ("--graph",), ("-n", "100")]
)
def test_a_damaged_session(project: Project, args: tuple[str, ...], count: int) -> None:
    """All that can be read is listed, then the command exits with 13; other sessions exit with
    0.
    """
    store = open_store(project)
    for session in ("one", "two"):
        for _ in range(count):
            made = save(store, session, label="said")
            if session == "one" and made.id.number == 2:
                lost = made.commit
    project.git_dir.joinpath("objects", lost[:2], lost[2:]).unlink()

    for which in (("--all",), ("--session", "one")):
        done = project.gitcp("log", *which, *args, check=13)
        assert "gitcp doctor --store" in done.err
        assert "git rev-list" not in done.err
        wanted = count - 2 + (count if which == ("--all",) else 0)
        assert done.out.count("said") >= wanted or "--graph" in args, (which, done)
    assert project.gitcp("log", "--session", "two", *args, check=0).out.count("said") >= count


def test_no_label(project: Project) -> None:
    """A save without label and prompt is shown as such; its commit keeps the generated subject."""
    project.write("a", "1")
    project.gitcp("save", check=0)

    assert "(no label)" in project.gitcp("log", check=0).out
    assert "manual" in project.gitcp("log", "--oneline", check=0).out


def test_only_the_path(project: Project) -> None:
    """With a path, counts, patch and names are of it alone; a first checkpoint that has it as the
    commit below has it says so.
    """
    project.write("kept.py", "kept\n")
    project.write("shop.py", "one\n")
    project.commit()
    project.write("other.py", "new\n")
    project.gitcp("save", "first", check=0)
    project.write("shop.py", "one\ntwo\n")
    project.write("other.py", "newer\n")
    project.gitcp("save", "second", check=0)
    base = project.git("rev-parse", "HEAD")[:10]
    details = [
        line.strip() for line in project.gitcp("log", "shop.py", check=0).out.splitlines()[1:]
    ]
    changes = project.gitcp("log", "-p", "--stat", "--name-only", "shop.py", check=0).out

    assert details[0::2] == ["2  second", "1  first"]
    assert details[1].startswith("shop.py +1, ")
    assert details[3].startswith(f"unchanged from commit {base}, ")
    assert "+two" in changes
    assert "other.py" not in changes
