"""`gitcp save` as its users meet it: processes, what they print, and what `show --json` says
afterwards.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from talk import SESSION, Talk

from driver import SOURCE, Project

CHECKPOINT = (
    "id session number commit tree parent created label phase objective trigger agent tags base "
    "branch conversation "
    "files facts handoff position position_from restored_from forked_from reverted compensations "
    "run step states"
).split()


@pytest.fixture
def talk(project: Project) -> Talk:
    """A project with a commit, an untracked file and an agent at work."""
    project.write("app.py", "print(1)\n")
    project.commit()
    project.write("notes.txt", "look at this\n")
    talk = Talk(project)
    talk.say("add a column", "done")
    return talk


def test_save(project: Project, talk: Talk) -> None:
    """One line says the id, the label and what is in it; the next where the conversation came
    from.
    """
    with project.guard():
        said = project.gitcp("save", "before migration", check=0).out

    assert said.splitlines() == [
        'saved e7baae82@1 "before migration"  (1 file changed, 2 messages)',
        "conversation: the newest conversation of claude-code in this directory",
    ]


def test_unchanged(project: Project, talk: Talk) -> None:
    """Saving again what is saved makes no checkpoint, says since when, and succeeds."""
    project.gitcp("save", check=0)
    before = project.git("rev-parse", "refs/gitcp/sessions/e7baae82")
    again = project.gitcp("save", check=0)

    assert again.out.splitlines()[0] == "nothing changed since e7baae82@1"
    assert project.json("save")["saved"] is False
    assert project.git("rev-parse", "refs/gitcp/sessions/e7baae82") == before
    assert project.json("save", "--force")["checkpoint"]["number"] == 2


def test_dry_run(project: Project, talk: Talk) -> None:
    """--dry-run prints what a save would store, in words and as a document, and stores nothing."""
    refs = project.git("for-each-ref")
    said = project.gitcp("save", "--dry-run", check=0).out
    plan = project.json("save", "-n")
    assert project.git("for-each-ref") == refs
    project.gitcp("save", check=0)

    assert said.splitlines() == [
        "would save in session e7baae82: 1 file changed, 2 new messages",
        "  A  notes.txt",
    ]
    assert (plan["schema"], plan["session"]) == ("gitcp.save-plan/1", "e7baae82")
    assert ([each["path"] for each in plan["changes"]], plan["new_messages"]) == (["notes.txt"], 2)
    assert project.gitcp("save", "--dry-run", check=0).out == (
        "nothing to save in session e7baae82: files and conversation are unchanged\n"
    )


def test_dry_run_of_what_is_refused(project: Project, talk: Talk) -> None:
    """--dry-run decides as the save does: it named the session of a save that would be refused, or
    that goes elsewhere.
    """
    saved = project.gitcp("save", "--tag", "taken", check=0)
    assert "e7baae82@" in saved.out
    plain = project.json("save", "-n", "--session", "e7b")

    assert plain["session"] == "e7b"  # the save would start it
    assert project.json("save", "-n", "--agent", "codex")["session"] is None
    for options, code in (
        (("--tag", "taken"), 12),
        (("--session", "a b"), 2),
        (("--conversation", "missing"), 1),
    ):
        dry = project.gitcp("save", "--force", "-n", *options, check=code)
        real = project.gitcp("save", "--force", *options, check=code)
        assert dry.err.splitlines()[0] == real.err.splitlines()[0]
    Talk(project, "f8d0c4d6-0000-4f0a-9b3e-2c6d8f1a7b90").say("another", "one")
    project.git("update-ref", "-d", "refs/gitcp/sessions/e7baae82")
    hint, expected = project.gitcp("save", "-n", check=16).err, project.gitcp("save", check=16).err
    assert hint.replace("save -n", "save") == expected


def test_without_an_agent(project: Project) -> None:
    """Without any conversation the files alone are saved, and that is said."""
    project.write("file", "x")
    said = project.gitcp("save", check=0).out

    assert "(1 file changed, no conversation)" in said
    assert "conversation: no agent conversation found for this directory" in said


def test_json(project: Project, talk: Talk) -> None:
    """--json prints one document on stdout and nothing else; its keys are the promised ones, in
    that order.
    """
    done = project.gitcp("save", "label", "--tag", "v1", "--tag", "v2", "--json", check=0)
    document = json.loads(done.out)
    found = document["checkpoint"]

    assert (done.err, done.out.count("\n")) == ("", 1)
    assert list(document) == [
        "schema",
        "saved",
        "reason",
        "uncommitted",
        "unread",
        "faults",
        "unknown",
        "missing_states",
        "checkpoint",
    ]
    assert (document["schema"], document["saved"]) == ("gitcp.save/1", True)
    assert list(found) == CHECKPOINT
    assert found["id"] == f"{found['session']}@{found['number']}" == "e7baae82@1"
    assert project.git("rev-parse", f"{found['commit']}^{{tree}}") == found["tree"]
    assert (found["base"], found["branch"]) == (project.git("rev-parse", "HEAD"), "main")
    assert sorted(found["tags"]) == ["v1", "v2"]
    assert found["agent"] == {
        "name": "claude-code",
        "version": "2.1.0",
        "model": None,
        "session_id": SESSION,
    }
    assert found["files"] == {"total": 2, "changed": 1, "skipped": [], "unlocked": []}
    assert list(found["conversation"]) == [
        "format",
        "messages",
        "bytes",
        "sha256",
        "streams",
        "last_message",
        "unknown",
    ]
    assert found["conversation"]["bytes"] == talk.path.stat().st_size
    assert found["conversation"]["last_message"] == {
        "role": "assistant",
        "text": "done",
        "id": "u2",
    }
    shown = project.json("show")
    changes = shown.pop("changes")
    assert [each["path"] for each in changes] == ["notes.txt"]
    assert list(shown) == ["schema", *CHECKPOINT, "memory", "tokens"]
    assert shown == {"schema": "gitcp.checkpoint/1", **found, "memory": [], "tokens": None}


def test_note(project: Project, talk: Talk) -> None:
    """Everything that can be said about a checkpoint is kept and comes back; repeated options add
    up.
    """
    found = project.json(
        "save",
        "label ü",
        "--phase",
        "schema",
        "--objective",
        "e-mail",
        "--fact",
        "db=sqlite",
        "--fact",
        "url=a=b",
        "--task",
        "column",
        "--decided",
        "one",
        "--decided",
        "two",
        "--failed",
        "three",
        "--next",
        "four",
        "--active",
        "app.py",
        "--position",
        "record=7000000",
        "--compensate",
        "undo it",
        "--trigger",
        "before-refactor",
    )["checkpoint"]

    assert (found["label"], found["phase"], found["objective"]) == ("label ü", "schema", "e-mail")
    assert found["trigger"] == "before-refactor"
    assert found["facts"] == {"db": "sqlite", "url": "a=b"}
    assert found["position"] == {"record": "7000000"}
    assert found["handoff"] == {
        "task": "column",
        "decisions": ["one", "two"],
        "failed": ["three"],
        "next": ["four"],
        "active": ["app.py"],
    }
    assert project.gitcp("show", "--position", "record", check=0).out == "7000000\n"


def test_a_locale_that_knows_little(project: Project, talk: Talk) -> None:
    """A label is kept, and shown as far as can be, in a locale without UTF-8 too."""
    plain = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    said = project.gitcp("save", "naïve", env=plain, check=0).out

    assert said.startswith('saved e7baae82@1 "na\\xefve"')
    assert project.json("show")["label"] == "naïve"


def test_facts_stay_until_dropped(project: Project, talk: Talk) -> None:
    """A fact holds in later checkpoints too; given empty it is gone."""
    project.gitcp("save", "--fact", "a=1", "--fact", "b=2", check=0)
    found = project.json("save", "--fact", "a=", "--fact", "c=3")["checkpoint"]

    assert found["facts"] == {"b": "2", "c": "3"}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--fact", "novalue"), "'novalue' is not KEY=VALUE"),
        (("--position", "=3"), "'=3' is not KEY=VALUE"),
        (("--trigger", "whim"), "whim"),
        ((b"\xff",), "not UTF-8"),
        (("--conversation", ""), "--conversation is empty"),
        (("--tag", "a b"), "a-b"),
        (("one", "two"), "two"),
    ],
)
def test_bad_values(project: Project, talk: Talk, args: tuple[str | bytes, ...], said: str) -> None:
    """A value that cannot be used ends with 2, says which, what to type, and nothing is saved."""
    done = project.gitcp("save", *args, check=2)

    assert said in done.err
    assert "\nhint: " in done.err
    assert project.git("for-each-ref", "refs/gitcp") == ""


def test_what_is_left_out_is_listed(project: Project, talk: Talk) -> None:
    """Each path that is not captured is listed with its reason: the first ten, then how many
    more.
    """
    for number in range(13):
        os.mkfifo(project.path(f"pipe{number:02d}\x1b"))
    said = project.gitcp("save", check=0).out.splitlines()

    assert said[2] == "not saved: pipe00\\x1b  (special, a FIFO)"
    assert said[-1] == "not saved: … and 3 more"
    assert len(said) == 2 + 10 + 1
    assert len(project.json("show")["files"]["skipped"]) == 13


def test_quiet(project: Project, talk: Talk) -> None:
    """-q says nothing when all is well, and still says what failed."""
    assert project.gitcp("save", "-q", check=0) == (0, "", "")
    assert "error: " in project.gitcp("save", "-q", "--session", "no good", check=2).err


def test_conversation_by_hand(project: Project, tmp_path: Path) -> None:
    """A conversation is taken from standard input or a file, byte for byte; a file's name counts
    from -C.
    """
    torn = b'{"role": "user", "content": "hello"}\n{"role": "assi'
    project.gitcp("save", "--conversation", "-", "--session", "piped", input=torn, check=0)
    (tmp_path / "talk.jsonl").write_bytes(torn + b"stant")
    project.gitcp("-C", "project", "save", "--conversation", "../talk.jsonl", cwd=tmp_path, check=0)

    assert project.gitcp("show", "piped", "--stream", "main", check=0).out == torn.decode()
    assert project.gitcp("show", "--stream", "main", check=0).out == (torn + b"stant").decode()


def test_two_conversations(project: Project, talk: Talk) -> None:
    """Two conversations that could both be meant are listed, and none is guessed."""
    other = Talk(project, "11111111-aaaa-bbbb-cccc-222222222222")
    other.say("something else", "yes")
    done = project.gitcp("save", "--json", check=16)
    error = json.loads(done.err)

    assert (error["schema"], error["code"]) == ("gitcp.error/1", 16)
    assert {line.split()[0] for line in error["candidates"]} == {SESSION, other.session}
    assert error["hint"].startswith("gitcp save --json --session ")
    named = project.gitcp("save", "my label", check=16).err
    assert "\nhint: gitcp save 'my label' --session " in named
    run = project.gitcp("run", "x", "--", "true", check=16).err
    assert re.search(r"\nhint: gitcp run x --session [0-9a-f]{8} -- true\n", run)
    assert (
        project.json("save", "--session", SESSION[:8])["checkpoint"]["agent"]["session_id"]
        == SESSION
    )


def test_nowhere(tmp_path: Path, project: Project) -> None:
    """Outside of a repository a save ends with 10 and says what to type."""
    done = project.gitcp("save", cwd=tmp_path, check=10)

    assert done.out == ""
    assert done.err.splitlines()[-1] == "hint: git init"


def test_as_a_git_command(project: Project, talk: Talk, tmp_path: Path) -> None:
    """`git gitcp save` works: git's own variables do not lead astray."""
    script = tmp_path / "bin" / "git-gitcp"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m gitcp "$@"\n')
    script.chmod(0o755)
    env = {**os.environ, "PATH": f"{script.parent}:{os.environ['PATH']}", "PYTHONPATH": str(SOURCE)}
    command = ["git", "-C", str(project.root), "gitcp", "save", "by git"]
    done = subprocess.run(command, env=env, capture_output=True, encoding="utf-8")

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith('saved e7baae82@1 "by git"')


@pytest.mark.parametrize("args", [["save"], ["save", "--json"], ["save", "label", "--tag", "v1"]])
def test_start_up(project: Project, talk: Talk, args: list[str]) -> None:
    """A save imports nothing that it has no use for."""
    unwanted = {"rich", "jinja2", "tomllib", "asyncio", "difflib", "tempfile", "importlib.metadata"}
    after = f"sys.stderr.write(str({unwanted} & set(sys.modules)))"
    code = f"import sys; from gitcp.cli.main import run; run({args}); {after}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        encoding="utf-8",
    )

    assert "e7baae82@1" in done.stdout
    assert done.stderr == "set()"


# ---------------------------------------------------------------- settings


def saved(project: Project, *args: str) -> set[str]:
    """The paths of a new checkpoint."""
    project.gitcp("save", "--force", *args, check=0)
    return set(project.gitcp("show", "--files", check=0).out.splitlines())


def test_size_limit(project: Project) -> None:
    """The size limit comes from git config, else from .gitcp.toml; git's suffixes are known."""
    project.write("big", "x" * 3000)
    project.write(".gitcp.toml", "[save]\nmax_file_size = 2_000\n")
    assert "big" not in saved(project)
    project.write(".gitcp.toml", '[save]\nmax_file_size = "2k"\n')
    assert "big" not in saved(project)
    project.git("config", "gitcp.maxFileSize", "3K")
    assert "big" in saved(project)


def test_include(project: Project) -> None:
    """Ignored files are taken in by pattern: every one in git config, else those of .gitcp.toml,
    and those by hand.
    """
    project.write(".gitignore", "*.log\n*.db\n*.tmp\n")
    for name in ("a.log", "b.db", "c.tmp"):
        project.write(name, name)
    project.write(".gitcp.toml", '[save]\ninclude = ["*.log"]\n')
    assert saved(project) == {".gitcp.toml", ".gitignore", "a.log"}
    assert saved(project, "--include", "*.tmp") == {".gitcp.toml", ".gitignore", "a.log", "c.tmp"}
    project.git("config", "--add", "gitcp.include", "*.db")
    project.git("config", "--add", "gitcp.include", "*.tmp")
    assert saved(project) == {".gitcp.toml", ".gitignore", "b.db", "c.tmp"}


@pytest.mark.parametrize("how", ["included", "tracked", "untracked"])
def test_database_in_wal_mode(project: Project, how: str) -> None:
    """The log of a captured SQLite database is captured with it, ignored or not: a restore brings
    back the rows that were only in the log. The save itself changes none of the files.
    """
    names = ("data/app.db", "data/app.db-wal", "data/app.db-shm")
    project.write(".gitignore", "*.db-*\n*.log-wal\n" + ("*.db\n" if how == "included" else ""))
    project.write("data/a.log", "no database")
    project.write("data/a.log-wal", "no log of one")
    if how == "included":
        project.write(".gitcp.toml", '[save]\ninclude = ["data/*.db"]\n')
    path = project.root / "data/app.db"
    with closing(sqlite3.connect(path)) as app:
        app.execute("pragma journal_mode=wal")
        app.execute("create table users(n)")
        app.executemany("insert into users values(?)", [(n,) for n in range(1000)])
        app.commit()
        if how == "tracked":
            project.git("add", "data/app.db")
        before = {name: project.read(name) for name in names}
        captured = saved(project)
        assert {"data/app.db", "data/app.db-wal", "data/a.log"} <= captured
        assert not {"data/app.db-shm", "data/a.log-wal"} & captured
        assert {name: project.read(name) for name in names} == before
        app.execute("drop table users")
        app.commit()
    assert not (project.root / "data/app.db-wal").exists()
    project.gitcp("restore", "@", "--files", "--yes")
    with closing(sqlite3.connect(path)) as again:
        assert again.execute("select count(*) from users").fetchone() == (1000,)
        assert again.execute("pragma integrity_check").fetchone() == ("ok",)


def test_log_of_a_database_too_large(project: Project) -> None:
    """A log without its database would be applied to whatever is there: it is not captured."""
    project.write(".gitignore", "*.db-wal\n")
    project.write("app.db", b"SQLite format 3\0" + bytes(3000))
    project.write("app.db-wal", "frames")
    assert {"app.db", "app.db-wal"} <= saved(project)
    project.git("config", "gitcp.maxFileSize", "1K")
    assert not {"app.db", "app.db-wal"} & saved(project)


def test_dependency_limit(project: Project) -> None:
    """How many files a directory of dependencies may hold is a setting."""
    for number in range(5):
        project.write(f"node_modules/p/{number}.js", "x")
    assert len(saved(project)) == 5
    project.git("config", "gitcp.maxDependencyFiles", "3")
    assert saved(project) == set()
    assert project.json("show")["files"]["skipped"][0]["reason"] == "too-many"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[save]\nmax_size = 3\n", "save.max_size"),
        ("[hooks]\nrun = 'x'\n", "hooks"),
        ("[save]\nmax_file_size = 'huge'\n", "'huge'"),
        ("[save]\nmax_file_size = -1\n", "-1"),
        ("[save]\nmax_file_size = true\n", "True"),
        ("[save]\ninclude = '*.log'\n", "list of patterns"),
        ("save = 3\n", "not a table"),
        ("[save\n", "cannot be read"),
        (b"\xff", "not UTF-8"),
        ("#" * 70_000, "not a small file"),
    ],
)
def test_bad_settings(project: Project, text: str | bytes, said: str) -> None:
    """A setting that is not known or not usable is reported on one line that names it. The save
    goes on without it.
    """
    project.write("a.txt", "one\n")
    project.write(".gitcp.toml", text)
    done = project.gitcp("save", check=0)
    again = project.gitcp("save", check=0)

    assert said in done.err
    assert ".gitcp.toml" in done.err
    assert done.err.startswith("warning: ")
    assert done.err.endswith("; this setting is ignored\n")
    assert done.err.count("\n") == 1
    assert again.err == done.err, "the quick answer says nothing of it"
    assert project.git("for-each-ref", "refs/gitcp")


def test_settings_file_that_blocks(project: Project) -> None:
    """A FIFO in the place of the settings does not hang a save."""
    os.mkfifo(project.path(".gitcp.toml"))

    assert "not a small file" in project.gitcp("save", check=0).err


def test_bad_git_config(project: Project) -> None:
    """A bad value in git config is named by its key."""
    project.git("config", "gitcp.maxFileSize", "lots")

    project.write("a.txt", "one\n")

    said = project.gitcp("save", check=0).err
    assert (
        said
        == "warning: gitcp.maxFileSize is 'lots', which is not a size; this setting is ignored\n"
    )
