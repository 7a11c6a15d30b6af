"""`gitcp status`: what a save would take, and what can be undone."""

from __future__ import annotations

import os
import re

import pytest
from talk import SESSION, Talk

from driver import Project


@pytest.fixture
def talk(project: Project) -> Talk:
    """A project with a commit, and an agent's session."""
    project.write("app.py", "one\n")
    project.write("old.py", "old\n")
    project.commit()
    talk = Talk(project)
    talk.say("add a column", "done")
    return talk


def test_before_the_first_save(project: Project, talk: Talk) -> None:
    """Files are compared with the commit; the whole conversation is new; and nothing is saved by
    looking.
    """
    project.write("new \x1b.py", "new\n")
    said = project.gitcp("status", check=0).out.splitlines()

    assert (
        said[0]
        == "Session       e7baae82  (the newest conversation of claude-code in this directory)"
    )
    assert said[1] == "Last saved    never"
    assert said[2] == "Auto-save     off; to set up your agents: gitcp enable"
    assert said[3] == f"Conversation  claude-code {SESSION}: 2 new messages"
    assert said[4:] == [
        "Files         1 file changed since the last commit: 1 added",
        "  A  new \\x1b.py",
    ]
    assert project.git("for-each-ref", "refs/gitcp") == ""


def test_no_such_session(project: Project, talk: Talk) -> None:
    """A session that a save would create is not shown as if it existed."""
    project.gitcp("save", "--session", "alpha", check=0)
    assert "alpha  (as given)\n" in project.gitcp("status", "--session", "alp", check=0).out
    said = project.gitcp("status", "--session", "alfa", check=0).out
    assert "alfa  (no such session: gitcp save --session alfa creates it)\n" in said


def test_since_the_last_save(project: Project, talk: Talk) -> None:
    """What changed by kind, what would be left out and why, and by how much the conversation
    grew.
    """
    project.gitcp("save", "the label", "--tag", "v1", check=0)
    assert "Files         no unsaved changes" in project.gitcp("status", check=0).out
    assert f"{SESSION}: saved" in project.gitcp("status", check=0).out
    project.write("app.py", "two\n")
    project.remove("old.py")
    project.write("new.py", "new\n")
    os.mkfifo(project.path("pipe"))
    talk.say("and now", "yes")
    said = project.gitcp("status", check=0).out

    assert "Last saved    e7baae82@1 (tag: v1)  " in said
    assert '"the label"' in said
    assert "3 files changed since then: 1 added, 1 deleted, 1 modified" in said
    assert "\n  M  app.py\n  A  new.py\n  D  old.py\n" in said
    assert f"{SESSION}: 2 new messages\n" in said
    assert "Not captured  1 path\n  pipe  (special, a FIFO)\n" in said


def test_automatic_saves(project: Project, talk: Talk) -> None:
    """Whether agents are set up, and which save was the last automatic one."""
    off = "Auto-save     off; to set up your agents: gitcp enable\n"
    assert off in project.gitcp("status", check=0).out
    project.gitcp("enable", "claude", "--yes", check=0)
    project.gitcp("save", "by hand", check=0)
    none = "Auto-save     on for Claude Code; no automatic save in this session yet\n"
    assert none in project.gitcp("status", check=0).out
    assert project.json("status")["last_automatic"] is None

    talk.say("and now", "yes")
    project.gitcp("save", "--trigger", "turn", check=0)
    project.write("app.py", "two\n")
    project.gitcp("save", "by hand", check=0)
    said = project.gitcp("status", check=0).out
    assert re.search(r"\nAuto-save     on for Claude Code; last .* \(e7baae82@2\)\n", said)
    assert project.json("status")["last_automatic"]["id"] == "e7baae82@2"

    project.write(".claude/settings.local.json", '{"disableAllHooks": true}')
    said = project.gitcp("status", check=0).out
    assert re.search(r"\nAuto-save     set up for Claude Code; last ", said)
    assert "\nHooks         Claude Code " in said


def test_how_a_conversation_grew(project: Project, talk: Talk) -> None:
    """In messages; lines that are no message are no new one; and what does not begin with what was
    saved is not counted.
    """
    project.gitcp("save", check=0)
    with talk.path.open("a") as file:
        file.write('{"type":"file-history-snapshot","messageId":"m","snapshot":{}}\n')
    assert f"{SESSION}: no new messages, 63 bytes more\n" in project.gitcp("status").out
    talk.say("a", "b")
    assert project.json("status")["conversation"]["new_messages"] == 2
    talk.path.write_bytes(b"{}\n" + talk.path.read_bytes())
    assert project.json("status")["conversation"]["new_messages"] is None
    assert f"{SESSION}: changed since it was saved, " in project.gitcp("status").out


def test_it_is_what_a_save_takes(project: Project, talk: Talk) -> None:
    """The paths that are announced are those that the next checkpoint changes."""
    project.gitcp("save", check=0)
    project.write("app.py", "two\n")
    project.write("a/b.py", "new\n")
    announced = [change["path"] for change in project.json("status")["changes"]]
    project.gitcp("save", check=0)

    assert announced == ["a/b.py", "app.py"]
    assert [change["path"] for change in project.json_lines("diff", "1", "2")] == announced


def test_json(project: Project, talk: Talk) -> None:
    """--json has every key, whatever there is to say."""
    first = project.json("status")
    project.gitcp("save", check=0)
    project.write("app.py", "two\n")
    project.gitcp("restore", "--yes", check=0)
    found = project.json("status")

    assert list(found) == list(first)
    assert (first["schema"], first["last"], first["undo"], first["conversation"]["stored"]) == (
        "gitcp.status/1",
        None,
        None,
        0,
    )
    assert found["last"] == {
        key: value
        for key, value in project.json("show").items()
        if key not in ("schema", "changes", "memory", "tokens")
    }
    assert (found["undo"], found["redo"], found["unfinished"], found["operation"]) == (
        "e7baae82@2",
        None,
        None,
        None,
    )
    assert (
        found["conversation"]["stored"] == found["conversation"]["now"] == talk.path.stat().st_size
    )
    assert found["conversation"]["session_id"] == SESSION
    assert found["branch"] == "main"


def test_ways_back(project: Project, talk: Talk) -> None:
    """What undo and redo would do is said where there is something to undo or redo."""
    project.gitcp("save", check=0)
    project.write("app.py", "two\n")
    project.gitcp("restore", "--yes", check=0)
    assert (
        "gitcp undo    restores e7baae82@2, from before the last restore"
        in project.gitcp("status", check=0).out
    )
    project.gitcp("undo", "--yes", check=0)
    said = project.gitcp("status", check=0).out
    assert "gitcp redo    restores e7baae82@3, from before the last undo" in said
    assert "gitcp undo " not in said


def test_two_conversations(project: Project, talk: Talk) -> None:
    """Two conversations that could be meant are something to look at, not a failure."""
    Talk(project, "11111111-aaaa-bbbb-cccc-222222222222").say("something else", "yes")
    said = project.gitcp("status", check=0).out
    found = project.json("status")

    assert said.startswith("Session       ?  (more than one recent conversation")
    assert f"\n              {SESSION}  claude-code\n" in said
    assert len(found["candidates"]) == 2
    assert project.json("status", "--session", SESSION[:8])["session"] == SESSION[:8]


def test_in_the_middle_of_a_merge(project: Project, talk: Talk) -> None:
    """A merge in progress is mentioned, since a restore would be refused."""
    project.write(project.git_dir / "MERGE_HEAD", project.git("rev-parse", "HEAD") + "\n")

    assert (
        "In progress   a merge: finish it before you restore"
        in project.gitcp("status", check=0).out
    )
    assert project.json("status")["operation"] == "merge"


def test_without_an_agent(project: Project) -> None:
    """Without a conversation and a commit it is just files."""
    project.write("a", "x")
    said = project.gitcp("status", check=0).out

    assert "no agent conversation found for this directory" in said
    assert "Files         1 file in no commit yet: 1 added" in said
    assert "\nConversation" not in said


def test_without_a_commit(project: Project) -> None:
    """Where there is no commit, nothing is said of the last one."""
    assert "\nFiles         none\n" in project.gitcp("status", check=0).out
    project.write("a", "1\n")
    assert "1 file in no commit yet: 1 added" in project.gitcp("status", check=0).out


def test_a_long_label_is_cut(project: Project) -> None:
    """A line is as wide as the terminal at most; a pipe gets all of it."""
    label = "a label that goes on and on " * 3 + "to its end"
    project.gitcp("save", label, check=0)
    narrow = project.gitcp("status", env={"COLUMNS": "60"}, check=0).out.splitlines()[1]

    assert narrow.startswith("Last saved ")
    assert narrow.endswith('…"')
    assert len(narrow) <= 60
    assert label in project.gitcp("status", check=0).out
