"""A conversation of which a checkpoint has more already is not stored instead of it."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from talk import SESSION, Talk

from gitcp import api
from gitcp.integrations.thread import StreamContent, Thread
from gitcp.model import MAIN, Agent

from driver import Project

KEPT = "the one in e7baae82@1 was kept, since it is longer"
RUNNING = {"CLAUDE_CODE_SESSION_ID": SESSION}


@pytest.fixture
def behind(project: Project) -> Talk:
    """A session with four messages stored, of which its agent's file has two: as the Claude Agent
    SDK leaves it with a session store.
    """
    talk = Talk(project)
    talk.say(*"ab")
    beginning = talk.path.read_bytes()
    talk.say(*"cd")
    project.write("a.txt", "one\n")
    project.gitcp("save", check=0)
    talk.path.write_bytes(beginning)
    project.write("a.txt", "two\n")
    return talk


def messages(project: Project, revision: str = "@") -> int:
    """How many messages a checkpoint has."""
    count: int = project.json("show", revision)["conversation"]["messages"]
    return count


@pytest.mark.parametrize(
    "how", [(), ("--session", "e7baae82"), ("--agent", "claude-code"), ("--conversation",)]
)
@pytest.mark.parametrize("env", [{}, RUNNING])
def test_save(project: Project, behind: Talk, how: tuple[str, ...], env: dict[str, str]) -> None:
    """However the conversation is chosen, the longer one stays, and the reason says so."""
    if how == ("--conversation",):
        how = ("--conversation", str(behind.path), "--agent", "claude-code")
    said = project.gitcp("save", *how, env=env, check=0).out
    assert "saved e7baae82@2" in said
    assert KEPT in said
    assert messages(project) == 4


def test_hook(project: Project, behind: Talk) -> None:
    """The same for what a hook saves."""
    event = {"session_id": SESSION, "transcript_path": str(behind.path), "cwd": str(project.root)}
    project.gitcp("hook", "claude", "UserPromptSubmit", input=json.dumps(event), check=0)
    assert messages(project) == 4


def test_restore(project: Project, behind: Talk) -> None:
    """A restore and its undo put back what the store has, in the agent's file too."""
    project.gitcp("restore", "1", "--yes", check=0)
    assert len(behind.path.read_text().splitlines()) == 4
    project.gitcp("undo", "--yes", check=0)
    assert messages(project) == 4
    assert project.read("a.txt") == b"two\n"


def test_resume(project: Project, behind: Talk) -> None:
    """The command that resumes the session is not the agent's own while its file lacks messages."""
    assert project.gitcp("resume", "--print", check=0).out == "gitcp resume --session e7baae82\n"
    assert project.json("resume", "--print")["restore"] is True


def test_nothing_else_changed(project: Project, behind: Talk) -> None:
    """Without other changes there is nothing to save."""
    project.write("a.txt", "one\n")
    assert "nothing changed since e7baae82@1" in project.gitcp("save", check=0).out


def test_lines_differ(project: Project, behind: Talk) -> None:
    """The messages decide, not the bytes: a program can write the same lines otherwise."""
    lines = map(json.loads, behind.path.read_text().splitlines())
    behind.path.write_text("".join(f"{json.dumps(each, indent=None)}  \n" for each in lines))
    project.gitcp("save", check=0)
    assert messages(project) == 4


def test_new_stream(project: Project, behind: Talk) -> None:
    """What only the agent's files have of the session is stored with the longer conversation."""
    agents = behind.path.with_suffix("") / "subagents"
    agents.mkdir(parents=True)
    (agents / "agent-x.jsonl").write_bytes(behind.path.read_bytes())
    project.gitcp("save", check=0)
    streams = project.json("show", "@")["conversation"]["streams"]
    assert [each["name"] for each in streams] == ["main", "agents/x"]
    assert messages(project) == 4
    project.write("a.txt", "three\n")
    project.gitcp("save", check=0)
    assert project.json("show", "@")["conversation"]["streams"] == streams


def test_other_messages(project: Project, behind: Talk) -> None:
    """A shorter conversation with other messages is no beginning: it is what there is now."""
    behind.path.write_bytes(behind.path.read_bytes().replace(b'"a"', b'"other"'))
    project.gitcp("save", check=0)
    assert messages(project) == 2


def test_grows_again(project: Project, behind: Talk) -> None:
    """Once it has another message than the stored one, it is stored as it is."""
    behind.say("e")
    project.gitcp("save", check=0)
    assert messages(project) == 3


@pytest.mark.parametrize("env", [{}, RUNNING])
@pytest.mark.parametrize("ends", [b"", b'{"type": "mode", "mode": "normal"}\n'])
def test_renamed_directory(project: Project, env: dict[str, str], ends: bytes) -> None:
    """Of a session's two transcripts, in the directory of the repository's old name and in that of
    its new one, the longer is the session's, whichever was touched last.
    """
    talk = Talk(project)
    talk.say(*"ab")
    old = talk.path.parent.with_name("-old-name") / talk.path.name
    old.parent.mkdir()
    shutil.copy(talk.path, old)
    talk.say(*"cd")
    old.write_bytes(old.read_bytes() + ends)
    later = talk.path.stat().st_mtime + 60
    os.utime(old, (later, later))
    project.gitcp("save", env=env, check=0)
    assert messages(project) == 4
    project.write("a.txt", "two\n")
    project.gitcp("save", "--session", "e7baae82", env=env, check=0)
    assert messages(project) == 4


def test_programs(project: Project) -> None:
    """A program's own conversation is what the program says, if it takes messages back."""
    thread = Thread(api.open(project.root), "talk", Agent("my-agent", "talk"))
    for texts in (["a", "b", "c"], ["a", "b"]):
        lines = "".join(json.dumps({"role": "user", "content": text}) + "\n" for text in texts)
        content = StreamContent(lines.encode())
        thread.change(lambda _, content=content: {MAIN: content})  # type: ignore[misc]
    assert messages(project) == 2
