"""`gitcp restore`, `rollback`, `undo` and `redo` as their users meet them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from shop import furnished
from talk import SESSION, Talk
from terminal import on_terminal

from driver import SOURCE, File, Project

REPORT = (
    "schema target safety checkpoint written removed kept others conflicts turns conversation "
    "resume memory states offered_states databases open_files facts handoff position effects"
    " reason candidates"
).split()

Files = dict[bytes, File]


@pytest.fixture
def talk(project: Project) -> Talk:
    """A project with a first checkpoint, tagged `first`, and work and talk that went on since."""
    project.write("app.py", "print(1)\n")
    project.write("src/db.py", "import sqlite3\n")
    project.commit()
    talk = Talk(project)
    talk.say("add a column", "done")
    project.gitcp(
        "save",
        "first",
        "--tag",
        "first",
        "--phase",
        "schema",
        "--fact",
        "db=sqlite",
        "--next",
        "test",
        check=0,
    )
    project.write("app.py", "print(2)\n")
    project.write("new.py", "pass\n")
    project.remove("src/db.py")
    talk.say("now break it", "broken")
    return talk


@pytest.fixture
def files(project: Project, talk: Talk) -> Files:
    """The files as they are before anything is restored."""
    return project.files()


def kinds(project: Project) -> set[str]:
    return {path.decode() for path, file in project.files().items() if file.kind != "directory"}


def test_restore(project: Project, talk: Talk) -> None:
    """What was done is said, then what the next reader must know, and the ways back and on."""
    with project.guard():
        said = project.gitcp("restore", "first", "--yes", check=0).out.splitlines()

    assert said[0] == 'restored e7baae82@1 "first"  (2 files written, 1 removed, 2 messages)'
    assert said[1:7] == [
        "  2 files written",
        "    app.py",
        "    src/db.py",
        "  1 file removed",
        "    new.py",
        "Facts",
    ]
    assert said[7:11] == ["  db = sqlite", "Next", "  test", "undo with: gitcp undo"]
    assert said[11].startswith("your newer messages stay in session ")
    assert said[12].startswith("continue with: claude --resume ")
    assert kinds(project) == {"app.py", "src/db.py"}
    assert project.read("app.py") == b"print(1)\n"


def test_json(project: Project, talk: Talk) -> None:
    """--json prints one document with the promised keys, and what a program needs to go on."""
    done = project.gitcp("restore", "first", "--yes", "--json", check=0)
    found = json.loads(done.out)

    assert done.err == ""
    assert list(found) == REPORT
    assert (found["schema"], found["target"]) == ("gitcp.restore/1", "e7baae82@1")
    assert (found["safety"], found["checkpoint"]) == ("e7baae82@2", "e7baae82@3")
    assert (found["written"], found["removed"], found["kept"]) == (
        ["app.py", "src/db.py"],
        ["new.py"],
        [],
    )
    assert found["conversation"]["messages"] == 2
    resume = found["resume"]
    assert resume["agent"] == "claude-code"
    assert resume["command"] == ["claude", "--resume", resume["session_id"]]
    assert resume["session_id"] != SESSION
    assert Path(resume["path"]).read_text().count("\n") == 2
    assert found["facts"] == {"db": "sqlite"}
    assert found["handoff"]["next"] == ["test"]
    assert project.json("show")["restored_from"] == "e7baae82@1"


def test_one_file(project: Project, talk: Talk, files: Files) -> None:
    """A single file takes one line, which says how to undo it."""
    done = project.gitcp("restore", "first", "--yes", "--", "app.py", check=0)
    assert done.out == 'restored app.py from e7baae82@1 "first"  (undo with: gitcp undo)\n'
    done = project.gitcp("restore", "first", "--yes", "--", "new.py", check=0)
    removed = 'removed new.py, which is not in e7baae82@1 "first"  (undo with: gitcp undo)\n'
    assert done.out == removed


def test_dry_run(project: Project, talk: Talk, files: Files) -> None:
    """--dry-run shows the plan and changes nothing, in words and as a document with the same
    keys.
    """
    refs = project.git("for-each-ref")
    said = project.gitcp("restore", "first", "--dry-run", check=0).out.splitlines()
    plan = project.json("restore", "first", "-n")

    assert said[0].startswith('restore e7baae82@1 "first"  (20')
    assert said[1:6] == [
        "  2 files would be written",
        "    app.py",
        "    src/db.py",
        "  1 file would be removed",
        "    new.py",
    ]
    assert said[6] == "  the conversation would return to 2 messages"
    assert said[7] == (
        "  the agent's session has newer messages and is kept; the restored copy gets a new id"
    )
    assert list(plan) == REPORT
    assert plan["schema"] == "gitcp.restore-plan/1"
    assert (plan["written"], plan["removed"]) == (["app.py", "src/db.py"], ["new.py"])
    assert (plan["safety"], plan["checkpoint"], plan["resume"]["session_id"]) == (None, None, None)
    assert (project.files(), project.git("for-each-ref")) == (files, refs)


def test_nobody_to_ask(project: Project, talk: Talk, files: Files) -> None:
    """Without a terminal the plan is shown on stderr, and nothing is changed until --yes is
    said.
    """
    refs = project.git("for-each-ref")
    done = project.gitcp("restore", "first", "--", "src", check=12)

    assert done.out == ""
    assert "src/db.py" in done.err
    assert "app.py" not in done.err
    assert done.err.splitlines()[-1] == "hint: gitcp restore first --yes -- src"
    assert (project.files(), project.git("for-each-ref")) == (files, refs)


@pytest.mark.parametrize(
    ("typed", "code"), [("y\n", 0), ("YES\n", 0), ("\n", 12), ("n\n", 12), ("\x04", 12)]
)
def test_asking(project: Project, talk: Talk, files: Files, typed: str, code: int) -> None:
    """On a terminal the plan is shown and a person asked; only a yes goes on, and a bare return is
    a no.
    """
    done = on_terminal(project, "restore", "first", typed=typed)

    assert done.code == code
    assert "2 files would be written" in done.out
    assert "\nRestore? [y/N] " in done.out
    assert ("undo with: gitcp undo" in done.out) is (code == 0)
    assert done.out.count("    src/db.py") == 1, done.out  # the plan has named it already
    assert (project.files() == files) is (code != 0)


def test_nothing_to_do(project: Project, talk: Talk) -> None:
    """Where everything is as it was then nobody is asked, and nothing is restored."""
    project.gitcp("save", check=0)
    said = project.gitcp("restore", check=0).out

    assert said.startswith("nothing to restore: everything already matches e7baae82@2")
    assert project.json("restore")["checkpoint"] is None
    assert project.json("show")["number"] == 2


def test_nothing_to_do_makes_no_checkpoint(project: Project) -> None:
    """Also where what is here was not saved: a file edited back to what it was, with other files,
    agreed to or not. The undo history stays.
    """
    first = "first\n"
    for text in (first, "later\n"):
        project.write("a", text)
        project.gitcp("save", check=0)
    project.gitcp("restore", "1", "--yes", "--files", check=0)
    project.gitcp("undo", "--yes", check=0)
    before = project.gitcp("log", "--all", "--oneline", check=0).out
    known = project.json("status")
    project.write("a", first)
    for args in (("1", "--files", "--yes"), ("1", "--files"), ("1", "--", "a")):
        with project.guard():
            said = project.gitcp("restore", *args, check=0).out
        assert "nothing to restore" in said
        assert project.gitcp("log", "--all", "--oneline", check=0).out == before

    document = project.json("restore", "1", "--files", "--yes")
    assert (document["safety"], document["checkpoint"]) == (None, None)
    now = project.json("status")
    assert (now["undo"], now["redo"]) == (known["undo"], known["redo"])
    assert now["redo"] is not None


def test_nothing_that_may_be_done(project: Project) -> None:
    """If only paths that must be kept differ, nobody is told that everything matches."""
    project.write("inner/file", "old\n")
    project.gitcp("save", check=0)
    Project(project.root / "inner", own_store=False)
    project.write("inner/file", "new\n")

    for args in (("--dry-run",), ("--yes",)):
        said = project.gitcp("restore", "1", *args).out
        assert "only paths that must be kept differ" in said
        assert "everything already matches" not in said
    assert project.gitcp("restore", "1", "--yes").code == 3


def test_only_paths(project: Project, talk: Talk) -> None:
    """Paths count from where one stands, and bring back just those files; the conversation
    stays.
    """
    project.write("src/other.py", "x\n")
    done = project.gitcp(
        "restore",
        "first",
        "--yes",
        "--json",
        "--",
        ".",
        "../new.py",
        cwd=project.root / "src",
        check=0,
    )
    found = json.loads(done.out)

    assert (found["written"], found["removed"]) == (["src/db.py"], ["new.py", "src/other.py"])
    assert (found["conversation"], found["resume"]) == (None, None)
    assert project.read("app.py") == b"print(2)\n"


def test_paths_outside(project: Project, talk: Talk) -> None:
    """A path outside of the repository is refused, also behind a link."""
    os.symlink("/", project.path("away"))

    assert "is outside " in project.gitcp("restore", "first", "--yes", "--", "../x", check=2).err
    assert (
        "is outside " in project.gitcp("restore", "first", "--yes", "--", "away/etc", check=2).err
    )


@pytest.mark.parametrize("is_there", [True, False])
def test_paths_that_lead_through_a_link_now(project: Project, talk: Talk, is_there: bool) -> None:
    """A path of the checkpoint is that path, though a directory on it is a link to another by now;
    one that the checkpoint does not have is what it leads to.
    """
    os.rename(project.path("src"), project.path("moved"))
    os.symlink("moved", project.path("src"))
    os.symlink(".", project.path("here"))
    if is_there:
        project.write("moved/db.py", "another\n")
    args = ("restore", "first", "--yes", "--json", "--")

    kept = json.loads(project.gitcp(*args, "src/db.py", "here/app.py", check=3).out)
    found = json.loads(project.gitcp(*args, "src/db.py", "src", check=0).out)

    reason = "src is in the way and not one of the paths to restore"
    assert kept["kept"] == [{"path": "src/db.py", "reason": reason}]
    assert kept["written"] == ["app.py"]
    assert found["written"] == ["src/db.py"]
    assert project.read("src/db.py") == b"import sqlite3\n"
    assert os.path.exists(project.path("moved/db.py")) == is_there


def test_a_path_behind_a_link_of_today(project: Project, talk: Talk) -> None:
    """What a checkpoint has is shown and found in the log, though the way to it is a link now."""
    os.rename(project.path("src"), project.path("moved"))
    os.symlink("moved", project.path("src"))

    assert project.gitcp("show", "first", "--", "src/db.py", check=0).out == "import sqlite3\n"
    assert project.gitcp("show", "first:./src/db.py", check=0).out == "import sqlite3\n"
    assert "first" in project.gitcp("log", "--", "src/db.py", check=0).out


def test_only_files(project: Project, talk: Talk) -> None:
    """--files leaves the conversation alone."""
    before = talk.path.read_bytes()
    found = project.json("restore", "first", "--files", "--yes")

    assert (found["written"], found["resume"]) == (["app.py", "src/db.py"], None)
    assert list(talk.path.parent.iterdir()) == [talk.path]
    assert talk.path.read_bytes() == before


def test_only_the_conversation(project: Project, talk: Talk, files: Files) -> None:
    """--conversation leaves the files alone."""
    found = project.json("restore", "first", "--conversation", "--yes")

    assert (found["written"], found["removed"]) == ([], [])
    assert found["resume"]["path"] is not None
    assert project.files() == files


def test_before_a_message(project: Project, talk: Talk) -> None:
    """--message goes to the state just before something the user said: its files, and the talk up
    to there.
    """
    project.gitcp("save", "second", check=0)
    found = project.json("restore", "--message", "u3", "--yes")

    assert found["target"] == "e7baae82@1"
    assert found["conversation"]["messages"] == 2
    assert Path(found["resume"]["path"]).read_text().count("\n") == 2
    assert project.read("app.py") == b"print(1)\n"


def test_at_a_time(project: Project, talk: Talk) -> None:
    """--at takes the last one up to a time, and says which time and checkpoint that is."""
    done = project.gitcp("restore", "--at", "now", "-n", check=0)

    assert "e7baae82@1" in done.err
    assert done.err.startswith("at 20")
    assert project.gitcp("restore", "--at", "1999-01-01", "-n", check=16).out == ""
    assert "2026-11-20" in project.gitcp("restore", "--at", "whenever", "-n", check=2).err


def test_of_a_phase(project: Project, talk: Talk) -> None:
    """--phase takes the last one of a phase; of a phase that never was there is none."""
    project.gitcp("save", "--phase", "later", check=0)

    assert "e7baae82@1" in project.gitcp("restore", "--phase", "schema", "-n", check=0).err
    assert "schema, later" in project.gitcp("restore", "--phase", "no", "-n", check=16).err.replace(
        "later, schema", "schema, later"
    )


@pytest.mark.parametrize(
    "args",
    [
        ("first", "--at", "now"),
        ("--phase", "schema", "--message", "u3"),
        ("--conversation", "--", "app.py"),
        ("--continue", "first"),
        ("--abort", "--", "app.py"),
        ("first", "--to", "x", "--index", "--yes"),
    ],
)
def test_contradictions(project: Project, talk: Talk, files: Files, args: tuple[str, ...]) -> None:
    """What contradicts itself is a usage error, and changes nothing."""
    done = project.gitcp("restore", *args, check=2)

    assert done.err.splitlines()[-1] == "hint: gitcp restore -h"
    assert project.files() == files


def test_a_growing_conversation(project: Project, tmp_path: Path) -> None:
    """Each version of a transcript comes back byte for byte, whatever it ended with when it was
    saved.
    """
    project.write("app.py", "print(1)\n")
    file, versions = tmp_path / "talk.jsonl", [b""]
    for number in range(7):
        line = (
            json.dumps({"role": "user", "content": f"{number} é " * 10 ** (number % 5)}).encode()
            + b"\n"
        )
        versions.append(versions[-1] + line)
        versions.append(versions[-1] + line[: number * 7])  # an agent is writing the next one
        versions[-2:] = (
            versions[-2:] if number % 3 else [versions[-1], versions[-1] + b"\xff\0}{\r\n"]
        )
    for version in versions[1:]:
        file.write_bytes(version)
        project.gitcp("save", "--force", "--session", "grow", "--conversation", str(file), check=0)

    for number, version in enumerate(versions[1:], 1):
        args = (
            "restore",
            f"grow@{number}",
            "--conversation",
            "--to",
            str(tmp_path / f"v{number}"),
            "--json",
        )
        report = json.loads(project.gitcp(*args, check=0).out)
        assert Path(report["resume"]["path"]).read_bytes() == version, number


def test_into_a_directory(project: Project, talk: Talk, files: Files, tmp_path: Path) -> None:
    """--to writes into a directory of its own, needs no yes, touches nothing else, and says where
    to go on.
    """
    refs = project.git("for-each-ref")
    said = project.gitcp("restore", "first", "--to", "../look here", check=0).out
    found = project.json("restore", "first", "--to", "../again")

    assert (tmp_path / "look here/src/db.py").read_text() == "import sqlite3\n"
    assert f"continue with: cd '../look here' && claude --resume {SESSION}" in said
    assert "undo with" not in said
    assert (found["safety"], found["checkpoint"]) == (None, None)
    assert found["written"] == ["app.py", "src/db.py"]
    assert (project.files(), project.git("for-each-ref")) == (files, refs)
    assert project.gitcp("restore", "first", "--to", "../again", check=12).out == ""


def test_into_a_directory_dry(project: Project, talk: Talk, tmp_path: Path) -> None:
    """--to with --dry-run makes nothing."""
    plan = project.json("restore", "first", "--to", "../look", "-n")

    assert plan["written"] == ["app.py", "src/db.py"]
    assert not (tmp_path / "look").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full/a").touch()
    for options, code in (
        (("--to", "../full"), 12),
        (("--to", ""), 2),
        (("--to", "../look", "--index"), 2),
        (("--to", "../look", "--", "nowhere"), 2),
    ):
        dry = project.gitcp("restore", "first", "-n", *options, check=code)
        assert dry.err == project.gitcp("restore", "first", *options, check=code).err


def test_effects_are_not_undone(project: Project, talk: Talk) -> None:
    """What was recorded since, and works outside of the files, is told before and after, newest
    first.
    """
    project.gitcp("save", "--compensate", "drop table", check=0)
    project.gitcp("save", "--compensate", "send an apology\x1b[2J", check=0)
    plan = project.gitcp("restore", "first", "-n", check=0).out
    report = project.gitcp("restore", "first", "--yes", check=0).out

    for said in (plan, report):
        assert "  not undone: send an apology^[[2J\n  not undone: drop table\n" in said
    assert "past 2 later checkpoints" in plan
    assert project.json("restore", "first", "-n")["effects"][-2:] == [
        "send an apology\x1b[2J",
        "drop table",
    ]


def test_long_plans_are_cut(project: Project, talk: Talk) -> None:
    """Of each kind twenty paths are shown, and how many more there are."""
    for number in range(25):
        project.write(f"made/{number:02d}", "x")
    said = project.gitcp("restore", "first", "-n", check=0).out

    assert "  26 files would be removed\n    made/00\n" in said
    assert "    made/19\n    … and 6 more\n" in said
    assert "made/20" not in said


def test_kept_paths(project: Project, talk: Talk) -> None:
    """What is left alone is listed with why, in plan and report; where the target has it, that is
    in part.
    """
    project.remove("app.py")
    os.mkfifo(project.path("app.py"))
    plan = project.json("restore", "first", "-n")
    report = project.gitcp("restore", "first", "--yes", check=3).out

    assert [kept["path"] for kept in plan["kept"]] == ["app.py"]
    assert "1 path kept\n    app.py  (not captured now (special))" in report


def with_writer(project: Project, failing: str, *args: str) -> subprocess.CompletedProcess[str]:
    """gitcp in a process in which writing `app.py` does `failing`."""
    code = f"""
import os, sys
from gitcp.cli.main import run
from gitcp.errors import GitcpError
from gitcp.worktree.writer import Writer
prepare = Writer.prepare
def fail(self, path, *args, **kwargs):
    if path == b"app.py":
        {failing}
    return prepare(self, path, *args, **kwargs)
Writer.prepare = fail
sys.exit(run(sys.argv[1:]))
"""
    command = [sys.executable, "-P", "-c", code, *args]
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    return subprocess.run(command, cwd=project.root, env=env, capture_output=True, encoding="utf-8")


def test_interrupted_by_hand(project: Project, talk: Talk, files: Files) -> None:
    """^C in the middle of a restore says how to go on with it, and that works."""
    done = with_writer(project, "raise KeyboardInterrupt", "restore", "first", "--yes")

    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == (
        "error: interrupted: finish the restore, or undo it with gitcp restore --abort\n"
        "hint: gitcp restore --continue\n"
    )
    project.gitcp("restore", "--abort", check=0)
    assert project.files() == files


def test_disk_full(project: Project, talk: Talk, files: Files) -> None:
    """A disk that is full in the middle of a restore ends it with 17, and says how to go on."""
    full = "from gitcp.errors import DiskFull; raise DiskFull('full', hint='make room')"
    done = with_writer(project, full, "rollback", "-y")

    assert (done.returncode, done.stdout) == (17, "")
    assert done.stderr == "error: full\nhint: make room, then gitcp restore --continue\n"
    project.gitcp("restore", "--continue", check=0)
    project.gitcp("undo", "--yes", check=0)
    assert project.files() == files


def test_done_in_part(project: Project, talk: Talk) -> None:
    """Where a path could not be written the others are, the report says which and why, and the exit
    code is 3.
    """
    done = with_writer(project, "raise GitcpError('no luck with it')", "restore", "first", "--yes")

    assert done.returncode == 3
    assert done.stdout.startswith('restored in part e7baae82@1 "first"  (1 file written, 1 removed')
    assert "  1 path kept\n    app.py  (no luck with it)\n" in done.stdout
    assert project.read("src/db.py") == b"import sqlite3\n"
    assert project.read("app.py") == b"print(2)\n"


def test_a_path_for_a_revision(project: Project, talk: Talk) -> None:
    """A path needs no `--`; a word that is neither a revision nor a path is refused."""
    restored = project.gitcp("restore", "app.py", "--dry-run", check=0)
    explicit = project.gitcp("restore", "--dry-run", "--", "app.py", check=0)
    assert restored.out.splitlines()[1:] == explicit.out.splitlines()[1:]  # the first has the age
    assert "    app.py" in restored.out.splitlines()
    found = project.gitcp("diff", "first", "app.py", check=0).out
    assert found == project.gitcp("diff", "first", "--", "app.py", check=0).out != ""
    assert "second is neither in" in project.gitcp("restore", "first", "second", check=2).err
    assert project.gitcp("diff", "no-such", check=16).err.splitlines()[-1] == "hint: gitcp log"


@pytest.mark.parametrize("command", ["restore first", "diff first", "log", "show"])
def test_an_empty_path(project: Project, talk: Talk, files: Files, command: str) -> None:
    """An empty path is refused: `restore first -- "$FILE"` without a FILE restored everything."""
    done = project.gitcp(*command.split(), "--", "", check=2)

    assert (done.out, project.files()) == ("", files)
    assert "the path '' is empty: nothing was changed" in done.err


@pytest.mark.parametrize(
    "command",
    [
        ("restore",),
        ("revert",),
        ("show",),
        ("resume", "--print"),
        ("tag", "named"),
        ("bisect", "run", "--json", "--to"),
        ("run", "--compensations", "--list"),
        ("push", "--scan"),
    ],
)
def test_an_empty_revision(project: Project, talk: Talk, command: tuple[str, ...]) -> None:
    """An empty revision names no checkpoint: `tag NAME "$REV"` without a REV tagged the last."""
    program = ("--", "true") if command[0] == "bisect" else ()
    before = project.git("for-each-ref")

    done = project.gitcp(*command, "", *program, check=16)

    assert "no checkpoint matches ''" in done.err
    assert project.git("for-each-ref") == before


def test_rollback(project: Project, talk: Talk) -> None:
    """rollback restores the last checkpoint that differs, and asks like restore."""
    assert "gitcp rollback --yes" in project.gitcp("rollback", check=12).err
    said = project.gitcp("rollback", "--yes", check=0).out

    assert said.startswith('restored e7baae82@1 "first"')
    project.gitcp("undo", "--yes", check=0)
    assert list(project.json("rollback", "--yes")) == REPORT
    assert "no earlier checkpoint" in project.gitcp("rollback", "--yes", check=12).err


def test_undo_and_redo(project: Project, talk: Talk, files: Files) -> None:
    """undo walks back through restores and redo forward again, each byte as it was; each says how
    to turn round.
    """
    project.gitcp("restore", "first", "--yes", check=0)
    restored = project.files()
    undone = project.gitcp("undo", "--yes", check=0).out
    assert project.files() == files
    redone = project.gitcp("redo", "--yes", check=0).out
    assert project.files() == restored
    document = project.json("undo", "--yes")

    assert "redo with: gitcp redo" in undone
    assert "undo with: gitcp undo" in redone
    assert list(document) == REPORT
    assert project.files() == files


@pytest.mark.parametrize("command", ["undo", "redo"])
def test_undo_and_redo_dry_run(project: Project, talk: Talk, files: Files, command: str) -> None:
    """--dry-run prints the plan that the command would ask about, and changes nothing."""
    project.gitcp("restore", "first", "--yes", check=0)
    if command == "redo":
        project.gitcp("undo", "--yes", check=0)
    before, refs = project.files(), project.git("for-each-ref")
    shown = project.gitcp(command, "--dry-run", check=0).out
    plan = project.json(command, "--dry-run")
    asked = project.gitcp(command, check=12).err

    assert (project.files(), project.git("for-each-ref")) == (before, refs)
    ages = r"just now|\d+ seconds? ago"  # a second may pass between the two
    assert re.sub(ages, "", asked).startswith(re.sub(ages, "", shown))
    assert (plan["schema"], list(plan)) == ("gitcp.restore-plan/1", REPORT)
    done = project.json(command, "--yes")
    assert [done[key] for key in ("written", "removed")] == [plan["written"], plan["removed"]]


def test_undo_plans_what_it_does(project: Project, talk: Talk) -> None:
    """An undo of a restore of some paths shows those, and changes no others."""
    project.gitcp("restore", "first", "--yes", "--", "src", check=0)
    project.write("app.py", "print(3)\n")
    plan = project.gitcp("undo", check=12).err
    undone = project.json("undo", "--yes")

    assert "  1 file would be removed\n    src/db.py\n" in plan
    assert "app.py" not in plan
    assert (undone["written"], undone["removed"], undone["resume"]) == ([], ["src/db.py"], None)
    assert project.read("app.py") == b"print(3)\n"


@pytest.mark.parametrize("command", ["undo", "redo"])
def test_nothing_to_walk(project: Project, talk: Talk, command: str) -> None:
    """Without a restore before, undo and redo are refused, with or without --yes."""
    assert "nothing was changed" in project.gitcp(command, check=12).err
    assert "nothing was changed" in project.gitcp(command, "--yes", check=12).err


def test_undo_asks(project: Project, talk: Talk, files: Files) -> None:
    """undo shows its plan and asks too."""
    project.gitcp("restore", "first", "--yes", check=0)
    restored = project.files()

    assert "new.py" in project.gitcp("undo", check=12).err
    assert project.files() == restored
    assert on_terminal(project, "undo", typed="y\n").code == 0
    assert project.files() == files


def interrupted(project: Project) -> None:
    """A restore that was killed before its first write."""
    done = with_writer(project, "os._exit(9)", "restore", "first", "--yes")
    assert done.returncode == 9, done.stderr


def test_unfinished_is_told(project: Project, talk: Talk) -> None:
    """While a restore is unfinished every command says so in one line on stderr; another restore is
    refused.
    """
    interrupted(project)

    for args in (
        ("log",),
        ("status",),
        ("list",),
        ("save",),
        ("sessions",),
        ("show",),
        ("diff",),
        ("tag",),
        ("check",),
    ):
        done = project.gitcp(*args, check=0)
        assert done.err.count("\n") == 1
        assert done.err.startswith("note: a restore of e7baae82@1 was interrupted here")
    assert (
        "gitcp restore --continue"
        in project.gitcp("restore", "first", "--yes", check=12).err.splitlines()[-1]
    )
    assert project.json("status")["unfinished"] == "e7baae82@1"


def test_continue(project: Project, talk: Talk, files: Files) -> None:
    """--continue brings an interrupted restore to its end, asks nothing, and can be undone."""
    interrupted(project)
    done = project.gitcp("restore", "--continue", check=0)

    assert (done.err, done.out.splitlines()[0].partition("  ")[0]) == (
        "",
        'restored e7baae82@1 "first"',
    )
    assert project.read("app.py") == b"print(1)\n"
    assert project.gitcp("log", check=0).err == ""
    project.gitcp("undo", "--yes", check=0)
    assert project.files() == files


def test_abort(project: Project, talk: Talk, files: Files) -> None:
    """--abort takes an interrupted restore back."""
    interrupted(project)
    project.remove("new.py")
    found = project.json("restore", "--abort")

    assert found["target"] == "e7baae82@2"
    assert project.files() == files
    assert project.gitcp("restore", "--abort", check=12).out == ""


def test_during_a_merge(project: Project, talk: Talk) -> None:
    """During a merge a restore is refused, unless it is forced. The hint forces what was typed, and
    not a restore of all files.
    """
    project.write("app.py", "merging\n")
    project.gitcp("save", check=0)
    project.write(f"{project.git_dir}/MERGE_HEAD", project.git("rev-parse", "HEAD") + "\n")

    for typed, hint in (
        ("restore first --yes", "gitcp restore first --yes --force"),
        ("restore first --yes -- app.py", "gitcp restore first --yes --force -- app.py"),
        ("revert 2 --yes", "gitcp revert 2 --yes --force"),
        ("rollback --yes", "git status"),
    ):
        with project.guard():
            refused = project.gitcp(*typed.split(), check=12).err
        assert refused == (
            "error: a merge is in progress: nothing was changed; finish or abort it first\n"
            f"hint: {hint}\n"
        ), typed
    assert project.gitcp("restore", "first", "--yes", "--force", check=0).err == ""


def test_another_conversation_continues(project: Project) -> None:
    """A restore that only makes another session's conversation the current one says so, and asks:
    without an answer nothing is recorded.
    """
    shop = furnished(project)
    (fork,) = set(shop.talk.path.parent.glob("*.jsonl")) - {shop.talk.path}
    talk = Talk(project, fork.stem)
    talk.count = 40  # minutes
    talk.say("and the driver?", "In place.")  # its agent went on last
    refs = project.git("for-each-ref")
    line = f"  {shop.talk.session} would continue, instead of {fork.stem}\n"

    with project.guard():
        shown = project.gitcp("restore", "e7baae82@7", "--dry-run", check=0).out
        refused = project.gitcp("restore", "e7baae82@7", check=12).err
    assert line in shown
    assert line in refused
    assert "nothing to restore" not in shown
    assert project.git("for-each-ref") == refs

    done = project.gitcp("restore", "e7baae82@7", "--yes", check=0).out
    assert done.startswith('restored e7baae82@7 "driver in place"  (0 files written, 0 removed')
    log = project.gitcp("log", "--all", "--oneline", check=0).out
    assert "e7baae82@8 restored e7baae82@7" in log
    assert "asyncpg@4 before-restore" in log
