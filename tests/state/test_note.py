"""`gitcp note`: what is said before the next save is in it, whoever makes it, and in no other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from talk import SESSION, Talk

from gitcp.errors import BadValue
from gitcp.model import Handoff, Note
from gitcp.state import note as op

from driver import SOURCE, Project
from samples import open_store

TEXT = (
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).map(str.strip).filter(bool)
)
KEY = TEXT.map(lambda text: text.replace("=", "")).map(str.strip).filter(bool)


@pytest.fixture
def saved(project: Project) -> Project:
    """A project with one checkpoint of a session by hand."""
    project.write("a.txt", "one\n")
    project.commit()
    project.gitcp("save", "--fact", "db=sqlite", "--failed", "threads", check=0)
    return project


FAILED_ENDS = "  (task, decided, failed, next, active: removed)\n"
"""What `--clear` leaves pending of the fixture's handoff."""


def last(project: Project, revision: str = "@") -> dict[str, Any]:
    found = project.json("show", revision)
    assert isinstance(found, dict)
    return found


def test_next_save_takes_it(saved: Project) -> None:
    """It adds up, is in the next checkpoint together with what that save says, and then it is
    gone.
    """
    with saved.guard():
        saved.gitcp("note", "--fact", "os=linux", "--decided", "one", "--phase", "tests", check=0)
        saved.gitcp("note", "--decided", "two", "--position", "row=7", check=0)
        assert saved.gitcp("save", "--decided", "three", check=0).out.startswith("saved ")
    found = last(saved)

    assert (found["number"], found["phase"], found["position"]) == (2, "tests", {"row": "7"})
    assert found["facts"] == {"db": "sqlite", "os": "linux"}
    assert found["handoff"]["decisions"] == ["one", "two", "three"]
    assert saved.gitcp("note", check=0).out == "no pending note\n"
    assert saved.gitcp("save", check=0).out.startswith("nothing changed")


def test_what_the_save_says_wins(saved: Project) -> None:
    """What is said with the save itself was said later."""
    saved.gitcp("note", "--phase", "early", "--fact", "k=early", check=0)
    saved.gitcp("save", "--phase", "late", "--fact", "k=late", check=0)

    assert (last(saved)["phase"], last(saved)["facts"]["k"]) == ("late", "late")


def test_drops_a_fact(saved: Project) -> None:
    """A fact given empty is dropped by the save that takes the note."""
    saved.gitcp("note", "--fact", "db=", check=0)
    saved.gitcp("save", check=0)

    assert last(saved)["facts"] == {}


def test_nothing_else_changed(saved: Project) -> None:
    """A note alone is a reason for a checkpoint, though the save before found nothing new, and
    remembered that.
    """
    for _ in range(3):
        saved.gitcp("save", check=0)
    saved.gitcp("note", "--task", "docs", check=0)

    assert saved.gitcp("save", check=0).out.startswith("saved ")
    assert last(saved)["handoff"]["task"] == "docs"


def test_a_hook_takes_it(project: Project) -> None:
    """The next save may be an agent's hook; one of another session leaves what is not for it."""
    project.write("a.txt", "one\n")
    talk = Talk(project)
    talk.say("hello", "yes?")
    call = ("hook", "claude", "Stop")
    project.gitcp(*call, input=f'{{"session_id": "{SESSION}"}}', check=0)
    project.gitcp("note", "--task", "for this one", "--session", "e7baae82", check=0)
    project.gitcp(*call, input='{"session_id": "0badcafe-1111"}', check=0)
    assert last(project, "0badcafe1111"[:8])["handoff"]["task"] is None
    project.gitcp(*call, input=f'{{"session_id": "{SESSION}"}}', check=0)

    assert last(project, "e7baae82")["handoff"]["task"] == "for this one"
    assert project.gitcp("note", check=0).out == "no pending note\n"


def test_in_an_agents_shell(project: Project) -> None:
    """Typed by an agent it is for its own session, which may have no checkpoint yet."""
    project.write("a.txt", "one\n")
    env = {"CLAUDE_CODE_SESSION_ID": SESSION}
    project.gitcp("note", "--task", "mine", env=env, check=0)
    project.gitcp("save", "--session", "other", check=0)
    assert last(project, "other")["handoff"]["task"] is None
    Talk(project).say("hello")
    project.gitcp("save", env=env, check=0)

    assert last(project, "e7baae82")["handoff"]["task"] == "mine"


def test_restore_saves_it(saved: Project) -> None:
    """Before a restore, what is here is saved with what was said of it; the restore itself says
    what was said then.
    """
    saved.write("a.txt", "two\n")
    saved.gitcp("note", "--failed", "that too", check=0)
    done = saved.json("restore", "1", "--yes")

    assert last(saved, done["safety"])["handoff"]["failed"] == ["threads", "that too"]
    assert last(saved, done["checkpoint"])["handoff"]["failed"] == ["threads"]
    assert saved.gitcp("note", check=0).out == "no pending note\n"


def test_a_save_that_fails_leaves_it(saved: Project) -> None:
    """Without a checkpoint it waits on."""
    saved.gitcp("note", "--task", "docs", check=0)
    assert saved.gitcp("save", "--conversation", "nowhere.jsonl").code == 1

    assert "task: docs" in saved.gitcp("note", check=0).out


def test_once_of_many(saved: Project) -> None:
    """Of several saves at once one takes it; no other says it anew."""
    for number in range(6):
        saved.gitcp("save", "--session", f"s{number}", check=0)
    saved.gitcp("note", "--task", "once", check=0)
    command = [sys.executable, "-P", "-m", "gitcp", "save", "--force", "--session"]
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    running = [
        subprocess.Popen([*command, f"s{n}"], cwd=saved.root, env=env, stdout=subprocess.PIPE)
        for n in range(6)
    ]
    assert [each.wait(60) for each in running] == [0] * 6
    for each in running:
        each.communicate()

    tasks = [last(saved, f"s{number}")["handoff"]["task"] for number in range(6)]
    assert sorted(map(str, tasks)) == ["None"] * 5 + ["once"]


def test_show_and_clear(saved: Project) -> None:
    """It can be looked at, by people and programs, and taken back."""
    saved.gitcp("note", "--objective", "ship", check=0)
    name = last(saved)["session"]
    saved.gitcp("note", "--session", name, "--task", "docs", check=0)

    assert (
        f"Pending note for the next checkpoint of {name}:\n  task: docs\n"
        in saved.gitcp("note", "--show", check=0).out
    )
    documents = saved.json_lines("note", "--show")
    assert [each["session"] for each in documents] == [None, name]
    assert documents[0]["objective"] == "ship"
    assert saved.json("status")["noted"] is True
    assert "pending for the next save" in saved.gitcp("status", check=0).out
    assert "docs" not in saved.gitcp("note", "--clear", "--session", name, check=0).out
    assert "objective: ship" in saved.gitcp("note", check=0).out
    assert saved.gitcp("note", "--clear", check=0).out.endswith(f":\n{FAILED_ENDS}")
    saved.gitcp("save", check=0)
    assert saved.gitcp("note", "--clear", check=0).out == "no pending note\n"
    assert saved.json("status")["noted"] is False


def editor(project: Project, script: str) -> dict[str, str]:
    """An editor that does what the script says to the file `$1`."""
    path = project.root.with_name("editor")
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"GIT_EDITOR": str(path)}


def test_edit(saved: Project) -> None:
    """The editor gets what waits; what it leaves waits instead."""
    saved.gitcp("note", "--task", "docs", "--decided", "one\ntwo", check=0)
    copy = saved.root.with_name("copy")
    env = editor(
        saved, f'cp "$1" "{copy}"; printf "phase: tests\\nnext: a\\nnext: b\\n  c\\n" > "$1"'
    )
    saved.gitcp("note", "--edit", env=env, check=0)

    assert "task: docs\ndecided: one\n  two\n" in copy.read_text()
    saved.gitcp("save", check=0)
    found = last(saved)
    assert (found["phase"], found["handoff"]["next"], found["handoff"]["task"]) == (
        "tests",
        ["a", "b\nc"],
        None,
    )


def test_edit_that_fails(saved: Project) -> None:
    """An editor that fails, and what cannot be read, leave the note as it was; what was written is
    kept.
    """
    saved.gitcp("note", "--task", "docs", check=0)
    none = saved.gitcp("note", "--edit", env={"GIT_EDITOR": ""}, check=1)
    assert "no editor is set and this is not a terminal" in none.err
    failed = saved.gitcp("note", "--edit", env=editor(saved, "exit 3"), check=1)
    assert "the editor exited with 3: the note is unchanged" in failed.err
    wrong = saved.gitcp("note", "--edit", env=editor(saved, 'echo "mood: good" > "$1"'), check=2)

    assert "line 1 of the note, 'mood: good', cannot be read" in wrong.err
    assert (saved.git_dir / "gitcp/note.txt").read_text() == "mood: good\n"
    assert saved.gitcp("note", "--edit", env=editor(saved, "printf '\\377' > \"$1\"")).code == 1
    assert "task: docs" in saved.gitcp("note", check=0).out


def test_bad_input(saved: Project) -> None:
    """What cannot be a note, or a session, is refused."""
    assert saved.gitcp("note", "--fact", "novalue").code == 2
    assert saved.gitcp("note", "--task", "x", "--clear").code == 2
    assert saved.gitcp("note", "--task", "x", "--session", "a b").code == 2
    assert saved.gitcp("note", "--show", "--edit").code == 2
    assert saved.gitcp("note", cwd=saved.root.parent).code == 10


def test_damaged(saved: Project) -> None:
    """A file that cannot be read stops no save, is said, and can be cleared."""
    Path(os.fsdecode(saved.path(saved.git_dir / "gitcp/note"))).write_text("garbage")
    saved.write("a.txt", "two\n")
    assert saved.gitcp("save", check=0).out.startswith("saved ")

    assert saved.gitcp("note", "--task", "x").code == 13
    assert saved.gitcp("note", "--clear", check=0).out.endswith(f":\n{FAILED_ENDS}")


@given(
    st.builds(
        Note,
        phase=st.none() | TEXT,
        objective=st.none() | TEXT,
        facts=st.dictionaries(KEY, TEXT, max_size=3),
        position=st.dictionaries(KEY, TEXT, max_size=3),
        handoff=st.builds(
            Handoff, task=st.none() | TEXT, decisions=st.lists(TEXT, max_size=3).map(tuple)
        ),
    )
)
def test_round_trip(note: Note) -> None:
    """What is written for the editor is read as the same note."""
    assert op.read(op.format_lines(note)) == note


def test_lines_that_are_none() -> None:
    """A line without a key is refused; comments, blanks and a leading continuation say nothing
    wrong.
    """
    assert op.read("# a comment\n\n   \ntask: x\n") == Note(handoff=Handoff(task="x"))
    assert op.read("task:\n") == Note()
    for text in ("no colon", "  too early", "fact: no value"):
        with pytest.raises(BadValue):
            op.read(text)


def test_given_twice(saved: Project) -> None:
    """Of one session and of any: both are taken, that of the session is said last."""
    store = open_store(saved)
    name = last(saved)["session"]
    op.add(store, name, Note(phase="its own"))
    op.add(store, None, Note(phase="any", objective="ship"))

    assert op.pending_for(store.repo, name) == Note(phase="its own", objective="ship")
    assert op.pending_for(store.repo, "other") == Note(phase="any", objective="ship")


def test_clear_ends_the_handoff(project: Project) -> None:
    """After `note --clear` the next checkpoint has no entry of those before, and only new ones;
    facts stay. It is said once.
    """
    words = ("--task", "t", "--decided", "d", "--next", "n", "--fact", "k=v")
    project.gitcp("save", "one", "--session", "own", *words, check=0)
    cleared = project.gitcp("note", "--clear", check=0)
    project.gitcp("note", "--next", "later", "--session", "own", check=0)
    project.gitcp("save", "two", "--session", "own", "--force", check=0)
    shown = project.json("show", "own@2")
    project.gitcp("note", "--clear", "--session", "own", check=0)
    project.gitcp("save", "three", "--session", "own", "--force", check=0)

    assert cleared.out == (
        "Pending note for the next checkpoint of own:\n"
        "  (task, decided, failed, next, active: removed)\n"
    )
    assert shown["handoff"] == {
        "task": None,
        "decisions": [],
        "failed": [],
        "next": ["later"],
        "active": [],
    }
    assert project.json("show", "@")["handoff"]["next"] == []
    assert project.json("show", "@")["facts"] == {"k": "v"}
    assert project.gitcp("note", "--clear", check=0).out == "no pending note\n"


def test_entries_are_removed(project: Project) -> None:
    """An empty entry removes those before it, also if it waits in the pending note."""
    words = ("--task", "t", "--decided", "d", "--failed", "f", "--next", "n", "--active", "a")
    project.gitcp("save", "one", *words, check=0)
    project.gitcp("save", "two", "--next", "", "--decided", "", "--decided", "e", check=0)
    handoff = project.json("show", "@")["handoff"]
    assert (handoff["next"], handoff["decisions"], handoff["failed"]) == ([], ["e"], ["f"])
    project.gitcp("note", "--task", "", "--failed", "", "--active", "", check=0)
    project.gitcp("save", "three", "--force", check=0)
    handoff = project.json("show", "@")["handoff"]
    assert handoff == {
        "task": None,
        "decisions": ["e"],
        "failed": [],
        "next": [],
        "active": [],
    }
