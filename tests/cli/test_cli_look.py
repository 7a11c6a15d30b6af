"""`gitcp list`, `show`, `sessions`, `tag`, `check`, `completion` and `demo` as their users meet
them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pages import ANYTHING, Typed, agrees, blocks, typed
from talk import SESSION, Talk

from gitcp.cli.demo import Screen
from gitcp.cli.output import Output

from driver import SOURCE, Project

EVIL = "evil \x1b]0;title\x07 \x9b31m \u202e\u200b [bold]"
"""A label that would act on a terminal, and markup of a library that prints."""


@pytest.fixture
def worked(project: Project) -> Project:
    """Three checkpoints of an agent's session, the second with everything that can be said."""
    project.write("app.py", "one\n")
    project.write("src/db.py", "db\n")
    project.commit()
    talk = Talk(project)
    talk.say("add a column", "done \x1b[2J")
    project.gitcp("save", "first", check=0)
    project.write("app.py", "two\n")
    os.mkfifo(project.path("pipe"))
    os.mkdir(project.path("empty"))
    project.gitcp(
        "save",
        EVIL,
        "--phase",
        "schema",
        "--objective",
        "e-mail",
        "--fact",
        "db=sqlite\x1b",
        "--decided",
        "one\ntwo",
        "--position",
        "record=7",
        "--compensate",
        "undo it",
        "--tag",
        "v1",
        check=0,
    )
    project.remove("pipe")
    talk.say("go on", "ok")
    project.gitcp("save", check=0)
    return project


# ---------------------------------------------------------------- list


def test_list(worked: Project) -> None:
    """A short table, the newest last: number, age, why, files changed, messages, tags, subject."""
    lines = worked.gitcp("list", check=0).out.splitlines()

    assert lines[0].split() == ["#", "when", "trigger", "files", "messages", "tags", "subject"]
    assert [line.split()[0] for line in lines[1:]] == ["1", "2", "3"]
    assert lines[2].endswith("  v1    evil ]0;title 31m \\u202e\\u200b [bold]")
    assert lines[3].endswith("  go on")
    assert "\x1b" not in "".join(lines)


def first_words(project: Project, *args: str) -> list[str]:
    """The first word of each row of a table."""
    return [line.split()[0] for line in project.gitcp(*args, check=0).out.splitlines()[1:]]


def test_list_limits(worked: Project) -> None:
    """-n takes the newest so many; --all names the sessions too; --json gives checkpoint
    objects.
    """
    worked.gitcp("save", "--session", "other", check=0)

    assert first_words(worked, "list", "-n", "2", "--session", "e7b") == ["2", "3"]
    assert sorted(first_words(worked, "list", "--all")) == [
        "e7baae82@1",
        "e7baae82@2",
        "e7baae82@3",
        "other@1",
    ]
    assert [
        found["number"] for found in worked.json_lines("list", "-n", "2", "--session", "e7b")
    ] == [2, 3]


@pytest.mark.parametrize("width", [80, 200])
def test_list_width(worked: Project, width: int) -> None:
    """A table keeps to the terminal's width."""
    worked.gitcp("save", "long " * 100, check=0)
    lines = worked.gitcp("list", env={"COLUMNS": str(width)}, check=0).out.splitlines()

    assert max(map(len, lines)) == width
    assert lines[-1].endswith("…")


# ---------------------------------------------------------------- show


def test_show(worked: Project) -> None:
    """Head, note, what changed, what was left out or is peculiar, and the last turns; nothing acts
    on the screen.
    """
    said = worked.gitcp("show", "v1", check=0).out

    assert said.startswith("checkpoint e7baae82@2 (tag: v1)\n")
    for block in (
        "\nGoal:     e-mail\n",
        "\nFacts\n  db = sqlite^[\n",
        "\nDecided\n  one\n  two\n",
        "\nPosition\n  record = 7\n",
        "\nCompensations\n  undo it\n",
        "\nChanged (1)\n  M  app.py  unclaimed\n",
        "\nNot captured (1)\n  pipe  (special, a FIFO)\n",
        "\nEmpty directories (1)\n  empty\n",
        "\nConversation  2 messages, ",
        "\nassistant  2026-11-02T09:02:00Z\n    done ^[[2J\n",
    ):
        assert block in said
    assert not {"\x1b", "\x07", "\x9b", "\u202e", "\u200b"} & set(said)


def test_show_a_file(worked: Project) -> None:
    """REV:PATH prints a file's bytes as they were, a directory's names, and what is in gitcp's
    own.
    """
    binary = bytes(range(256)) * 3
    worked.write("src/logo.bin", binary)
    worked.gitcp("save", check=0)

    assert worked.gitcp("show", "1:app.py", check=0).out == "one\n"
    assert (
        worked.gitcp("show", ":src/logo.bin", check=0).out.encode("utf-8", "surrogateescape")
        == binary
    )
    assert worked.gitcp("show", "@:./logo.bin", cwd=worked.root / "src", check=0).out.startswith(
        "\x00"
    )
    assert worked.gitcp("show", "1:src", check=0).out == "db.py\n"
    assert "app.py\nsrc/\n" in worked.gitcp("show", "1:", check=0).out
    assert (
        worked.gitcp("show", "1:.gitcp/checkpoint.json", check=0).out
        == worked.gitcp("show", "1", "--raw", check=0).out
    )


def test_show_a_converted_file(project: Project) -> None:
    """A file that git would store otherwise is printed as it lay there."""
    project.write(".gitattributes", "*.txt text eol=crlf\n")
    project.write("a.txt", "one\r\ntwo\r\n")
    project.gitcp("save", check=0)

    assert project.gitcp("show", "@:a.txt", check=0).out == "one\r\ntwo\r\n"


def test_show_what_is_not_there(worked: Project) -> None:
    """A path that was left out is said to have been, one that never was is not there."""
    left_out = worked.gitcp("show", "v1:pipe", check=16).err

    assert "pipe was not captured in e7baae82@2: special" in left_out
    assert "has no nothing" in worked.gitcp("show", "v1:nothing", check=16).err
    several = worked.gitcp("show", "1", "--", "*.*", check=2).err  # it looked for app.pysrc/db.py
    assert several.startswith("error: show prints one file at a time\n  app.py\n  src/db.py\n")
    assert worked.gitcp("show", "1", "--", "*.py", check=2).err.count(".py\n") == 2
    assert worked.gitcp("show", "1", "--", "app.*", check=0).out == "one\n"
    assert "it has: main" in worked.gitcp("show", "--stream", "x", check=16).err
    assert "it has: record" in worked.gitcp("show", "--position", "x", check=16).err


def test_show_the_conversation(worked: Project) -> None:
    """--conversation shows every message readably, --stream the bytes as they are stored."""
    said = worked.gitcp("show", "--conversation", check=0).out
    stream = worked.gitcp("show", "--stream", "main", check=0).out

    assert [line.split()[0] for line in said.splitlines() if line[:1].isalpha()] == [
        "user",
        "assistant",
    ] * 2
    assert "    done ^[[2J\n" in said
    assert [json.loads(line)["uuid"] for line in stream.splitlines()] == ["u1", "u2", "u3", "u4"]


def test_show_raw_and_json(worked: Project) -> None:
    """--raw is what is stored, --json the checkpoint object, --files every path."""
    assert json.loads(worked.gitcp("show", "v1", "--raw", check=0).out)["label"] == EVIL
    assert worked.json("show", "v1")["label"] == EVIL
    assert worked.gitcp("show", "--files", check=0).out == "app.py\nsrc/db.py\n"


def test_show_one_thing(worked: Project) -> None:
    """Options that each show something else do not go together."""
    assert "cannot be used together" in worked.gitcp("show", "--raw", "--files", check=2).err


def test_show_a_long_label(project: Project) -> None:
    """A label of several lines is shown whole, below the one line that listings have of it."""
    project.write("a", "x")
    project.gitcp("save", "one\ntwo", check=0)

    assert "    one two\n" in project.gitcp("show", check=0).out
    assert "\nLabel\n  one\n  two\n" in project.gitcp("show", check=0).out


def test_show_a_long_conversation(project: Project) -> None:
    """Of a long conversation the end is shown, and its end only."""
    talk = Talk(project)
    talk.say(*(f"turn {number} " + "x" * 100_000 for number in range(24)))
    talk.say("the last question", "the last answer")
    project.gitcp("save", check=0)
    said = project.gitcp("show", check=0).out

    assert "turn 23" in said
    assert "turn 0 " not in said
    assert "    … 98,008 characters more\n" in said
    assert said.rstrip().endswith("the last answer")
    assert "Conversation  26 messages, 2.3 MiB, claude-code" in said


# ---------------------------------------------------------------- sessions, tag


def test_sessions(worked: Project) -> None:
    """Every session with agent, number of checkpoints, tags and what it is about; the current one
    is marked.
    """
    worked.gitcp("save", "--session", "other", "--tag", "v2", check=0)
    lines = worked.gitcp("sessions", check=0).out.splitlines()
    found = worked.json_lines("sessions")

    assert lines[0].split() == ["session", "agent", "checkpoints", "last", "saved", "tags", "about"]
    rows = {line.replace("*", "").split()[0]: line for line in lines[1:]}
    assert rows["other"].split()[:3] == ["*", "other", "1"]
    assert rows["e7baae82"].split()[:3] == ["e7baae82", "claude-code", "3"]
    assert rows["e7baae82"].endswith("go on")
    by_name = {session["session"]: session for session in found}
    assert {name: session["current"] for name, session in by_name.items()} == {
        "other": True,
        "e7baae82": False,
    }
    mine = by_name["e7baae82"]
    assert (mine["checkpoints"], mine["tags"], mine["title"]) == (3, ["v1"], "go on")
    assert mine["agent"]["session_id"] == SESSION


def test_a_damaged_session(worked: Project) -> None:
    """A session that cannot be read is named, and the others are listed."""
    worked.write(worked.git_dir / "refs/gitcp/sessions/lost", "1" * 40 + "\n")
    done = worked.gitcp("sessions", check=0)

    assert done.err.startswith("note: session lost cannot be read: ")
    assert "e7baae82" in done.out


def test_no_sessions(project: Project) -> None:
    """Where nothing was saved nothing is listed, without fuss."""
    assert project.gitcp("sessions", check=0) == (0, "", "")
    assert project.gitcp("tag", check=0) == (0, "", "")


def test_tag(worked: Project) -> None:
    """A name is set, listed, moved by force, used as a revision, and taken away."""
    assert (
        worked.gitcp("tag", "works", "1", "-m", "all tests pass", check=0).out
        == "tagged e7baae82@1 works\n"
    )
    refused = worked.gitcp("tag", "works", check=12)
    assert refused.err.splitlines()[-1] == "hint: gitcp tag works --force"
    assert worked.gitcp("tag", "works", "-f", check=0).out == "tagged e7baae82@3 works\n"
    assert worked.json("show", "works")["number"] == 3
    listed = [line.split()[:2] for line in worked.gitcp("tag", "-l", check=0).out.splitlines()]
    assert listed == [["tag", "checkpoint"], ["v1", "e7baae82@2"], ["works", "e7baae82@3"]]
    assert [found["name"] for found in worked.json_lines("tag")] == ["v1", "works"]
    assert worked.json_lines("tag")[0]["checkpoint"]["id"] == "e7baae82@2"
    assert worked.gitcp("tag", "-d", "works", check=0).out == "deleted tag works\n"
    assert worked.gitcp("show", "works", check=16).out == ""
    assert worked.json("tag", "again")["checkpoint"]["id"] == "e7baae82@3"
    assert worked.json("tag", "again", "-d")["checkpoint"] is None


@pytest.mark.parametrize("args", [("-d",), ("-d", "v1", "1"), ("-f",), ("a/b",), ("v1", "1", "2")])
def test_tag_usage(worked: Project, args: tuple[str, ...]) -> None:
    """What a tag command cannot mean is a usage error."""
    before = worked.git("for-each-ref")

    assert worked.gitcp("tag", *args, check=2).out == ""
    assert worked.git("for-each-ref") == before


# ---------------------------------------------------------------- check


def test_check(worked: Project) -> None:
    """A whole store is said to be whole, with how much was looked at."""
    assert worked.gitcp("check", check=0).out.startswith("OK: 3 checkpoints, ")
    found = worked.json("check")
    assert list(found) == [
        "schema",
        "ok",
        "checkpoints",
        "objects",
        "promised",
        "unchanged",
        "problems",
        "conversations",
    ]
    assert (found["schema"], found["ok"], found["problems"]) == ("gitcp.check/1", True, [])


def test_check_damaged(worked: Project) -> None:
    """A damaged object is named with the checkpoints that need it, and the exit code is 13."""
    commit = worked.json("show", "1")["commit"]
    oid = worked.git("rev-parse", f"{commit}:.gitcp/checkpoint.json")
    path = worked.git_dir / f"objects/{oid[:2]}/{oid[2:]}"
    os.chmod(worked.path(path), 0o644)
    worked.write(path, worked.read(path)[:-1] + b"\xff")
    said = worked.gitcp("check", check=13).out
    done = worked.gitcp("check", "--json", check=13)
    found = json.loads(done.out)

    assert oid in said
    assert "    e7baae82@1\n" in said
    assert found["ok"] is False
    assert found["problems"][0]["checkpoints"] == ["e7baae82@1"]


# ---------------------------------------------------------------- completion, demo


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(project: Project, shell: str) -> None:
    """The script for a shell is printed; another shell is refused with the ones there are."""
    assert "_GITCP_COMPLETE" in project.gitcp("completion", shell, check=0).out
    assert "fish" in project.gitcp("completion", "csh", check=2).err


def test_completing(worked: Project) -> None:
    """Commands, options, numbers, tags, sessions and phases are completed, each described."""

    def completed(words: str, way: str = "bash") -> list[str]:
        env = {
            "_GITCP_COMPLETE": f"{way}_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        }
        lines = worked.gitcp(env=env, check=0).out.splitlines()
        return [line.partition(",")[2] for line in lines]

    assert completed("gitcp rest") == ["restore"]
    assert completed("gitcp restore v") == ["v1"]
    assert completed("gitcp restore ") == ["3", "2", "1", "v1", "e7baae82"]
    assert completed("gitcp log --phase s") == ["schema"]
    assert completed("gitcp log --session e") == ["e7baae82"]
    assert completed("gitcp tag -d v") == ["v1"]
    assert completed("gitcp restore 1", "described")[0].startswith("1\tfirst (")
    evil = completed("gitcp restore v", "described")[0].partition("\t")[2]
    assert evil.startswith("evil ")
    assert evil.isprintable()
    assert completed("gitcp show e7") == ["e7baae82"]
    assert "--dry-run" in completed("gitcp restore --")

    elsewhere = worked.root.parent / "elsewhere"
    elsewhere.mkdir()
    assert completed(f"gitcp -C {elsewhere} restore ") == [""]
    assert completed("gitcp -C . restore v") == ["v1"]


TAB = {
    "bash": """source {script}
COMP_WORDS=(gitcp restore ''); COMP_CWORD=2
for COMP_TYPE in 9 63; do _gitcp_completion gitcp; printf '%s\n' "${COMPREPLY[@]}"; done""",
    "fish": "source {script}; complete -C 'gitcp restore '",
    "zsh": """zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'autoload -Uz compinit; compinit -u -D; source {script}; echo rea""dy'
zpty -r -m shell seen '*ready*'
zpty -w -n shell $'gitcp restore v\t'
zpty -r -m shell seen '*restore v1*' && print -r -- v1
zpty -w -n shell $'\x15gitcp restore \t\t'
zpty -r -m shell seen '*first \\(*' && print -r -- $seen""",
}


@pytest.mark.parametrize("shell", TAB)
def test_completion_in_a_shell(worked: Project, tmp_path: Path, shell: str) -> None:
    """The real shell offers numbers and tags on Tab, with labels as descriptions."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(worked.gitcp("completion", shell, check=0).out)
    program = tmp_path / "bin" / "gitcp"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m gitcp "$@"\n')
    program.chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(SOURCE),
        "TERM": "dumb",
    }
    command = TAB[shell].replace("{script}", str(script))
    done = subprocess.run(
        [shell, "-c", command], cwd=worked.root, env=env, capture_output=True, timeout=60
    )
    lines = done.stdout.decode(errors="replace").splitlines()

    assert any(line.strip() == "v1" or line.startswith("v1\t") for line in lines)
    assert any("1" in line and "first (" in line for line in lines)


def test_demo(project: Project, tmp_path: Path, sealed: Path) -> None:
    """The demo types real commands, checks itself, and leaves nothing but what it is told to
    keep.
    """
    before = project.files()
    said = project.gitcp("demo", check=0).out
    project.gitcp("demo", "--keep", "../kept", check=0)
    typed = re.findall(r"^\$ gitcp (\w+)", said, re.MULTILINE)

    assert typed == ["save", "status", "restore", "undo", "doctor"]
    assert 'saved e7baae82@1 "before migration"' in said
    assert "byte by byte" in said
    assert "\x1b" not in said
    assert (project.files(), list(sealed.iterdir())) == (before, [sealed / ".gitconfig"])
    assert (tmp_path / "kept/project/db.py").exists()
    (tmp_path / "file").touch()
    for taken in ("../kept", "../file", "."):
        refused = project.gitcp("demo", "--keep", taken, check=12)
        assert refused.out == ""
        assert refused.err.splitlines()[0].endswith("the demo was not run")


def test_the_tutorial_in_the_shop_of_the_demo(project: Project, tmp_path: Path) -> None:
    """In what `--keep` leaves, each command of docs/tutorial.md prints what the page shows."""
    said = project.gitcp("demo", "--keep", "../kept", check=0).out
    script = said.splitlines()[-1].partition(": sh ")[2]
    launcher = tmp_path / "bin/gitcp"
    launcher.parent.mkdir()
    command = f'PYTHONPATH="{SOURCE}" exec {sys.executable} -P -m gitcp "$@"'
    launcher.write_text(f"#!/bin/sh\n{command}\n")
    launcher.chmod(0o755)
    found = blocks(SOURCE.joinpath("docs/tutorial.md").read_text("utf-8"))
    commands = [
        each
        for block in found
        for each in (
            typed(block)
            if block.kind == "console"
            else [Typed("agent", (ANYTHING,), 0, 0)]
            if block.kind == "agent" and "Postgres" in block.lines[0]
            else []
        )
    ]
    lines = [f"{{ {each.command}; }} </dev/null 2>&1; echo ======" for each in commands]
    done = subprocess.run(
        ["sh", script],
        cwd=project.root,
        env={**os.environ, "SHELL": "/bin/sh", "PATH": f"{launcher.parent}:{os.environ['PATH']}"},
        input="\n".join(lines).encode(),
        capture_output=True,
    )
    printed = done.stdout.decode().split("======\n")

    assert len(commands) > 20
    assert done.stderr == b""
    for each, text in zip(commands, printed, strict=False):
        assert agrees(each.shown, text.splitlines()), (each.command, text)


@pytest.mark.parametrize("terminal", [False, True])
def test_the_demo_is_paced(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """On a terminal a command is typed key by key; a pipe does not wait."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    output = Output({})
    output.terminal = terminal
    screen = Screen(output)
    screen.type("gitcp undo")
    screen.output(b"restored\n")

    assert len(slept) == (len("gitcp undo") + 1 if terminal else 0)
    assert capsysbinary.readouterr().out == b"$ gitcp undo\nrestored\n"


def test_a_failing_command_fails_the_demo(project: Project, tmp_path: Path) -> None:
    """A command that fails ends the demo, and is named."""
    git = tmp_path / "bin/git"
    git.parent.mkdir()
    git.write_text(
        f'#!/bin/sh\ncase "$*" in *" config "*) exit 9; esac\nexec {shutil.which("git")} "$@"\n'
    )
    git.chmod(0o755)
    done = project.gitcp("demo", env={"PATH": f"{git.parent}:{os.environ['PATH']}"}, check=1)

    assert "error: the demo failed: gitcp " in done.err
    assert "byte by byte" not in done.out


def test_the_demo_beside_a_newer_git(project: Project, tmp_path: Path) -> None:
    """Where git makes repositories of another kind by itself, as 3.0 does, the demo has one that
    gitcp can read.
    """
    newer = tmp_path / "bin/git"
    newer.parent.mkdir()
    newer.write_text(f'#!/bin/sh\nGIT_DEFAULT_HASH=sha256 exec {shutil.which("git")} "$@"\n')
    newer.chmod(0o755)
    path = f"{newer.parent}:{os.environ['PATH']}"

    assert "byte by byte" in project.gitcp("demo", env={"PATH": path}, check=0).out
