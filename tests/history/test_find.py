"""`gitcp find`: what came in where, newest first, and each blob read once."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import AbstractContextManager
from typing import IO

import pytest
from back import save
from talk import Talk

from gitcp.git.repo import Repository
from gitcp.history.find import find
from gitcp.history.matching import PLACES, Needle

from driver import Project
from samples import open_store


@pytest.fixture
def worked(project: Project) -> Project:
    """Three checkpoints of an agent's session, and an older one of another."""
    project.write("copy.py", "pass\nprint('other')\n")
    save(project, "other")
    project.remove("copy.py")
    project.write("src/app.py", "import sqlite3\nprint('héllo')\n")
    project.write("logo", b"\0sqlite3\n")
    talk = Talk(project)
    talk.say('Use "SQLite" here, näher.', "I use sqlite3.")
    project.gitcp("save", "first", "--fact", "db=sqlite", check=0)
    talk.say("Now add a test.", "Added\nin sqlite_test.py, as said.")
    project.write("src/sqlite_test.py", "import app\n")
    project.gitcp("save", "second", check=0)
    project.write("src/app.py", "# the database\nimport sqlite3\nprint('héllo')\n")
    project.gitcp("save", "third: no more sqlite", check=0)
    return project


def found(
    project: Project, text: str, *places: str, **how: bool
) -> list[tuple[str, str, str, int | None]]:
    """Checkpoint, kind, place and line of every hit."""
    store = open_store(project)
    hits = find(store, store.sessions().values(), Needle(text, **how), places or PLACES).hits
    return [(str(hit.summary.id), hit.kind, hit.where.decode(), hit.line) for hit in hits]


def test_everywhere(worked: Project) -> None:
    """Every place is searched; a hit is where it came in, and is said once."""
    hits = found(worked, "sqlite")

    assert [int(hit[0][-1]) for hit in hits] == [3, 2, 2, 1, 1, 1]
    assert set(hits) == {
        ("e7baae82@3", "note", "label", None),
        ("e7baae82@2", "path", "src/sqlite_test.py", None),
        ("e7baae82@2", "answer", "", None),
        ("e7baae82@1", "note", "fact", None),
        ("e7baae82@1", "answer", "", None),
        ("e7baae82@1", "file", "src/app.py", 1),
    }


def test_how(worked: Project) -> None:
    """Places, case, regular expressions; what JSON escapes is found as it was said."""
    assert found(worked, "sqlite", "prompts") == []
    assert found(worked, "sqlite", "prompts", ignore_case=True) == [
        ("e7baae82@1", "prompt", "", None)
    ]
    assert found(worked, '"SQLite" here, näher', "prompts") == [("e7baae82@1", "prompt", "", None)]
    assert found(worked, "^import s.*3$", "files", regex=True) == [
        ("e7baae82@1", "file", "src/app.py", 1)
    ]
    assert found(worked, "héllo", "files") == [("e7baae82@1", "file", "src/app.py", 2)]
    assert found(worked, "HÉLLO", "files", ignore_case=True) == [
        ("e7baae82@1", "file", "src/app.py", 2)
    ]
    assert found(worked, "copy", "paths") == [("other@1", "path", "copy.py", None)]
    assert found(worked, "nowhere to be found") == []


def test_each_blob_is_read_once(worked: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many checkpoints hold a blob, and under however many names, git is asked for it
    once.
    """
    asked: Counter[bytes] = Counter()
    reading = Repository.git_reading

    def git_reading(
        repo: Repository, *args: str, input: bytes
    ) -> AbstractContextManager[IO[bytes]]:
        asked.update(input.split())
        return reading(repo, *args, input=input)

    monkeypatch.setattr(Repository, "git_reading", git_reading)
    found(worked, "sqlite")

    assert asked
    assert set(asked.values()) == {1}


def test_a_blob_that_is_missing(worked: Project) -> None:
    """The rest is searched all the same."""
    blob = worked.git("rev-parse", "refs/gitcp/sessions/other:copy.py")
    worked.remove(worked.git_dir / f"objects/{blob[:2]}/{blob[2:]}")

    assert worked.gitcp("find", "other", "--in", "files", check=0).out == ""
    assert worked.gitcp("find", "database", "--in", "files", check=0).out != ""


def test_command(worked: Project) -> None:
    """What a person sees, what a program gets, and what is refused."""
    with worked.guard():
        said = worked.gitcp("find", "as said", check=0).out.splitlines()
    assert said[0].startswith("e7baae82@2  second  ")
    assert said[1] == "  answer  in sqlite_test.py, as said."
    lines = worked.gitcp("find", "database", "--json", "-n", "1", check=0).out.splitlines()
    hit = json.loads(lines[0])
    assert len(lines) == 1
    assert (hit["schema"], hit["id"], hit["where"], hit["line"]) == (
        "gitcp.find/1",
        "e7baae82@3",
        "src/app.py",
        1,
    )
    assert (
        "  file copy.py:2  print('other')"
        in worked.gitcp("find", "other", "--session", "other", check=0).out
    )
    assert worked.gitcp("find", "nowhere", check=0) == (0, "", "no matches\n")
    for wrong in (("",), ("x", "--in", "prompts,nowhere"), ("(", "-E")):
        assert worked.gitcp("find", *wrong).code == 2
    worked.gitcp("find", "x", "--session", "nobody", check=16)


def test_nothing_saved(project: Project) -> None:
    """Where there is no checkpoint nothing is found."""
    assert project.gitcp("find", "x", check=0).err == "no matches\n"


def test_a_lost_blob_stops_nothing(worked: Project) -> None:
    """What cannot be read is left to `check`; the rest is searched."""
    oid = worked.git("rev-parse", "refs/gitcp/sessions/e7baae82~2:src/app.py")
    worked.remove(worked.git_dir / f"objects/{oid[:2]}/{oid[2:]}")

    assert found(worked, "import sqlite3", "files") == [("e7baae82@3", "file", "src/app.py", 2)]
