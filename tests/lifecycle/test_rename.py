"""`gitcp sessions rename`: a session under another name, and everything that speaks of it."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from talk import SESSION, Talk

from gitcp.errors import GitcpError
from gitcp.git import refs
from gitcp.lifecycle import check
from gitcp.lifecycle import rename as op
from gitcp.model import Oid
from gitcp.saving import save as save_op
from gitcp.saving import session as session_op
from gitcp.state import effects, oplog, rewrite
from gitcp.store import Store

from driver import SOURCE, Project
from samples import open_store


@pytest.fixture
def talk(project: Project) -> Talk:
    """A project with three checkpoints of an agent's session, a tag on one, and a fork of
    another.
    """
    project.write("app.py", "one\n")
    project.commit()
    talk = Talk(project)
    talk.say("begin", "begun")
    project.gitcp("save", "first", "--fact", "k=e7baae82@1", check=0)
    project.gitcp("tag", "v1", "-m", "a message", check=0)
    project.write("app.py", "two\n")
    project.gitcp("save", check=0)
    talk.say("go on", "gone on")
    project.gitcp("save", "third\n\nGitcp-Session: e7baae82", check=0)
    project.gitcp("fork", "2", "--name", "other", check=0)
    return talk


def ids(project: Project, *args: str) -> list[str]:
    return [each["id"] for each in project.json_lines("log", *args)]


def problems(project: Project) -> list[str]:
    return [problem.what for problem in check.check(open_store(project)).problems]


def content(project: Project, revision: str) -> dict[str, Any]:
    """What a checkpoint says, but for what its id changes."""
    found = project.json("show", revision)
    return {
        key: value
        for key, value in found.items()
        if key not in ("id", "session", "commit", "tree", "parent")
    }


def test_renamed(project: Project, talk: Talk) -> None:
    """Every checkpoint has the new name; numbers, times, authors, words and files are as they
    were.
    """
    before = [content(project, f"e7baae82@{n}") for n in (1, 2, 3)]
    people = project.git("log", "--format=%an %ae %at %cn %ct", "refs/gitcp/sessions/e7baae82")
    files = project.files()

    with project.guard():
        done = project.json("rename", "e7ba", "work")

    assert done == {
        "schema": "gitcp.rename/1",
        "session": "work",
        "before": "e7baae82",
        "checkpoints": 3,
    }
    assert ids(project, "work") == ["work@3", "work@2", "work@1"]
    assert [content(project, f"work@{n}") for n in (1, 2, 3)] == before
    assert project.git("log", "--format=%an %ae %at %cn %ct", "refs/gitcp/sessions/work") == people
    assert project.gitcp("show", "e7baae82@1").code == 16
    assert project.gitcp("show", "work@2:app.py", check=0).out == "two\n"
    assert problems(project) == []
    assert project.files() == files


def test_only_ids_change(project: Project, talk: Talk) -> None:
    """What people wrote stays, even where it looks like an id or a trailer; what gitcp made of the
    id is renamed.
    """
    project.gitcp("rename", "e7baae82", "work", check=0)

    assert project.json("show", "work@1")["facts"] == {"k": "e7baae82@1"}
    message = project.git("log", "-1", "--format=%B", "refs/gitcp/sessions/work")
    assert message.startswith("third Gitcp-Session: e7baae82\n\n")
    assert "\nGitcp-Session: work\n" in message
    assert json.loads(project.git("show", "refs/gitcp/sessions/work:.gitcp/checkpoint.json"))[
        "label"
    ].endswith(SESSION[:8])
    readme = project.git("show", "refs/gitcp/sessions/work~1:.gitcp/README.md")
    assert "`gitcp restore work@2`" in readme
    assert "e7baae82@2" not in readme


def test_forks_and_tags(project: Project, talk: Talk) -> None:
    """A fork of it begins at the new name and shares its commits; a tag stays on its checkpoint,
    and says the same.
    """
    said = project.git("tag", "--list", "--format=%(contents)") + project.git(
        "cat-file", "-p", "refs/gitcp/tags/v1"
    )
    project.gitcp("rename", "e7baae82", "work", check=0)

    assert project.json("show", "other")["forked_from"] == "work@2"
    assert ids(project, "other") == ["other@3", "work@2", "work@1"]
    assert project.git("rev-parse", "refs/gitcp/sessions/other~1") == project.git(
        "rev-parse", "refs/gitcp/sessions/work~1"
    )
    assert project.json("show", "v1")["id"] == "work@1"
    assert (
        project.git("cat-file", "-p", "refs/gitcp/tags/v1").split("\n")[1:] == said.split("\n")[1:]
    )
    sessions = {each["session"]: each for each in project.json_lines("sessions")}
    assert (sessions["other"]["forked_from"], sessions["work"]["tags"]) == ("work@2", ["v1"])


def test_the_fork_renamed(project: Project, talk: Talk) -> None:
    """Renaming the fork leaves the older session alone, commit by commit."""
    before = project.git("rev-parse", "refs/gitcp/sessions/e7baae82")
    done = project.json("rename", "other", "postgres")

    assert done["checkpoints"] == 1
    assert project.git("rev-parse", "refs/gitcp/sessions/e7baae82") == before
    assert ids(project, "postgres") == ["postgres@3", "e7baae82@2", "e7baae82@1"]
    assert problems(project) == []


def test_the_agent_stays(project: Project, talk: Talk) -> None:
    """What the agent says next is saved into the renamed session, by hand and by its hook."""
    project.gitcp("rename", "e7baae82", "work", check=0)
    talk.say("more", "done")
    assert project.json("save")["checkpoint"]["id"] == "work@4"
    talk.say("again", "done")
    payload = json.dumps({"session_id": SESSION, "transcript_path": str(talk.path)})
    project.gitcp("hook", "claude", "Stop", input=payload, check=0)

    assert ids(project)[0] == "work@5"
    assert {each["session"] for each in project.json_lines("sessions")} == {"work", "other"}


def test_an_earlier_agent_session_stays(project: Project, talk: Talk) -> None:
    """After a restore gave the conversation a new id, the old conversation still belongs to the
    renamed session.
    """
    project.gitcp("restore", "1", "--yes", check=0)
    project.gitcp("rename", "e7baae82", "work", check=0)
    project.gitcp("save", "--session", "elsewhere", check=0)
    talk.say("the old one goes on", "yes")
    payload = json.dumps({"session_id": SESSION, "transcript_path": str(talk.path)})
    project.gitcp("hook", "claude", "Stop", input=payload, check=0)

    assert "e7baae82" not in [each["session"] for each in project.json_lines("sessions")]
    assert project.json("show", "work")["agent"]["session_id"] == SESSION


def test_undo_stays(project: Project, talk: Talk) -> None:
    """A restore made before can be undone after, and so can a prune; the note that waits is for the
    same session.
    """
    for _ in range(2):
        project.gitcp("save", "--session", "e7baae82", "--force", check=0)
    project.gitcp("prune", "--keep-last", "1", "--yes", "--session", "e7baae82", check=0)
    project.gitcp("note", "--session", "e7baae82", "--task", "docs", check=0)
    project.gitcp("save", "--session", "e7baae82", "--force", check=0)
    project.gitcp("note", "--session", "e7baae82", "--phase", "late", check=0)
    project.write("app.py", "three\n")
    project.gitcp("restore", "e7baae82@2", "--files", "--yes", check=0)
    project.gitcp("rename", "e7baae82", "work", check=0)

    assert project.read("app.py") == b"two\n"
    project.gitcp("undo", "--yes", check=0)
    assert project.read("app.py") == b"three\n"
    dropped = [each for each in oplog.entries(open_store(project).repo) if each.what == "prune"]
    project.gitcp("undo", str(dropped[0].number), "--yes", check=0)
    assert {f"work@{number}" for number in range(1, 7)} <= set(ids(project, "work"))
    assert problems(project) == []


def test_compensations_stay(project: Project) -> None:
    """What was run stays run, and what was not can still be."""
    project.gitcp(
        "save",
        "--session",
        "old",
        "--compensate",
        "touch undone",
        "--compensate",
        "touch other",
        check=0,
    )
    keys = [effect.key for effect in effects.after(open_store(project), None, "old")]
    project.gitcp("compensate", "--session", "old", "--run", "old@1:0", check=0)
    outcomes = [effect.outcome for effect in effects.after(open_store(project), None, "old")]
    project.gitcp("rename", "old", "new", check=0)
    renamed = effects.after(open_store(project), None, "new")

    assert [effect.key for effect in renamed] == [key.replace("old@", "new@") for key in keys]
    assert [effect.outcome for effect in renamed] == outcomes == [None, "done"]


def test_manual_session(project: Project) -> None:
    """The working tree's own session goes on under its new name."""
    project.write("app.py", "one\n")
    name = project.json("save")["checkpoint"]["session"]
    project.gitcp("rename", name, "mine", check=0)
    project.write("app.py", "two\n")

    assert project.json("save")["checkpoint"]["id"] == "mine@2"


def test_refused(project: Project, talk: Talk) -> None:
    """A name that is taken, or can be none, or a session that is not there: said, and nothing is
    changed.
    """
    before = project.git("for-each-ref")
    for args, code in (
        (("e7baae82", "other"), 12),
        (("e7baae82", "a b"), 2),
        (("nobody", "x"), 16),
        (("e7baae82",), 2),
    ):
        assert project.gitcp("rename", *args).code == code
    assert "nothing was renamed" in project.gitcp("rename", "e7baae82", "other").err
    assert project.gitcp("rename", "e7baae82", "e7baae82").code == 12

    assert project.git("for-each-ref") == before


def test_refused_where_a_fork_has_it(project: Project, talk: Talk) -> None:
    """The name of a deleted session whose beginning a fork has, and of which nothing else is left:
    each of its ids would mean two checkpoints.
    """
    project.write("app.py", "more\n")
    project.gitcp("save", "--session", "third", check=0)
    project.gitcp("delete", "e7baae82", "--yes", check=0)
    project.gitcp("prune", "--keep-last", "99", "--expire", "0h", "--yes", check=0)
    before = project.git("for-each-ref")

    refused = project.gitcp("rename", "third", "e7baae82", check=12).err

    assert refused == (
        "error: session e7baae82 has checkpoints in another session; nothing was renamed\n"
        "hint: choose another name\n"
    )
    assert project.git("for-each-ref") == before


def test_refused_while_something_is_open(project: Project, talk: Talk) -> None:
    """A run that is not finished names checkpoints: the rename waits for it, in whichever working
    tree it is.
    """
    inner = [sys.executable, "-P", "-m", "gitcp", "rename", "e7baae82", "work"]
    done = project.gitcp("run", "x", "--", *inner, env={"PYTHONPATH": str(SOURCE)})

    assert done.code == 12
    assert "a restore or run is unfinished" in done.err
    assert project.json("rename", "e7baae82", "work")["session"] == "work"


@pytest.mark.parametrize("survived", [1, 3])
def test_interrupted(
    project: Project, talk: Talk, monkeypatch: pytest.MonkeyPatch, survived: int
) -> None:
    """Cut off between any two refs, every chain is whole, and the next command finishes it."""
    project.gitcp("restore", "1", "--files", "--yes", check=0)
    real = Store.move_ref
    moved: list[str] = []

    def move(self: Store, name: str, old: Oid | None, new: Oid | None) -> bool:
        if len(moved) == survived:
            raise KeyboardInterrupt
        moved.append(name)
        return real(self, name, old, new)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "move_ref", move)
        with pytest.raises(KeyboardInterrupt):
            op.rename(open_store(project), "e7baae82", "work")
    names = open_store(project).repo.refs.list(refs.SESSIONS)
    assert rewrite.read(open_store(project)).nodes.keys() >= {*names.values()}
    project.gitcp("status", check=0)

    assert {each["session"] for each in project.json_lines("sessions")} == {"work", "other"}
    assert problems(project) == []
    project.gitcp("undo", "--yes", check=0)
    assert project.read("app.py") == b"two\n"


def test_renamed_while_a_save_looks(project: Project, talk: Talk) -> None:
    """A save that had chosen the session before it was renamed goes to the same one."""
    store = open_store(project)
    choice = session_op.choose(store, project.root)
    talk.say("more", "done")
    op.rename(open_store(project), "e7baae82", "work")
    saved = save_op.save(store, save_op.SaveRequest(project.root, choice=choice))

    assert str(saved.checkpoint.id) == "work@4"


def test_log_follows(project: Project, talk: Talk) -> None:
    """Twice renamed, what was done before is told under the last name; a new session of the old
    name is another.
    """
    project.gitcp("restore", "1", "--files", "--yes", check=0)
    project.gitcp("rename", "e7baae82", "one", check=0)
    project.gitcp("rename", "one", "two", check=0)
    store = open_store(project)

    assert oplog.former(store.repo) == {"one": "two", "e7baae82": "two"}
    restored = next(each for each in oplog.entries(store.repo) if each.what == "restore")
    assert {id.session for id in restored.checkpoints} == {"two"}
    project.gitcp("save", "--session", "one", check=0)
    with pytest.raises(GitcpError):
        op.rename(open_store(project), "two", "one")
