"""A session that is written into is named exactly; the beginning of a name is for looking."""

from __future__ import annotations

import pytest
from talk import Talk

import gitcp
from gitcp.model import Agent
from gitcp.saving import save, session

from driver import Project
from samples import open_store

AGENT = "1a2b3c4d-5d1c-4f0a-9b3e-2c6d8f1a7b90"


def names(project: Project) -> list[str]:
    """The sessions there are."""
    return sorted(open_store(project).sessions())


@pytest.fixture
def tenth(project: Project) -> Project:
    """A project where only agent-10 has saved."""
    project.write("a.txt", "ten\n")
    project.gitcp("save", "ten", "--session", "agent-10", check=0)
    project.write("a.txt", "one\n")
    return project


@pytest.mark.parametrize(
    "command",
    [
        ("save", "--session", "agent-1"),
        ("save", "--session", "agent-1", "--conversation", "-"),
        ("run", "x", "--session", "agent-1", "--", "true"),
    ],
)
def test_exact(tenth: Project, command: tuple[str, ...]) -> None:
    """What is saved for agent-1 begins agent-1, though agent-10 begins with it."""
    tenth.gitcp(*command, input="user: hello\n", check=0)
    assert names(tenth) == ["agent-1", "agent-10"]
    assert len(tenth.json_lines("log", "--session", "agent-10")) == 1


def test_exact_by_variable(tenth: Project) -> None:
    """The same by GITCP_SESSION, for save and note."""
    env = {"GITCP_SESSION": "agent-1"}
    tenth.gitcp("note", "--task", "of one", env=env, check=0)
    tenth.gitcp("save", env=env, check=0)
    assert tenth.json("show", "agent-1@")["handoff"]["task"] == "of one"
    assert tenth.json("show", "agent-10@")["handoff"]["task"] is None


def test_exact_note(tenth: Project) -> None:
    """A note for agent-1 waits for agent-1; it is shown by a beginning of the name too."""
    tenth.gitcp("note", "--session", "agent-1", "--task", "of one", check=0)
    tenth.gitcp("save", "--session", "agent-10", "--force", check=0)
    assert tenth.json("show", "agent-10@")["handoff"]["task"] is None
    tenth.gitcp("save", "--session", "agent-1", check=0)
    assert tenth.json("show", "agent-1@")["handoff"]["task"] == "of one"
    tenth.gitcp("note", "--session", "agent-10", "--task", "of ten", check=0)
    assert "of ten" in tenth.gitcp("note", "--show", "--session", "agent-10", check=0).out


def test_looking_takes_a_beginning(tenth: Project) -> None:
    """log, show and status find agent-10 by what only its name begins with."""
    assert tenth.json("status", "--session", "agent")["session"] == "agent-10"
    assert len(tenth.json_lines("log", "--session", "age")) == 1
    assert tenth.json("show", "@", "--session", "agent-1")["session"] == "agent-10"


def test_beginning_of_an_agents_id(project: Project) -> None:
    """The first eight characters of an agent's session id mean that agent's session, whatever ours
    is called.
    """
    Talk(project, AGENT).say("Begin.", "I begin.")
    project.write("a.txt", "one\n")
    saved = project.json("save", "--session", AGENT[:8])["checkpoint"]
    assert (saved["session"], saved["agent"]["session_id"]) == ("1a2b3c4d", AGENT)
    project.gitcp("rename", "1a2b3c4d", "postgres", check=0)
    project.write("a.txt", "two\n")
    assert project.json("save", "--session", AGENT[:8])["checkpoint"]["session"] == "postgres"
    project.write("a.txt", "three\n")
    assert project.json("save", "--session", AGENT[:4])["checkpoint"]["session"] == AGENT[:4]


@pytest.mark.parametrize(
    ("name", "session_id", "expected"),
    [
        ("1a2b3c4d", AGENT, True),
        (AGENT, AGENT, True),
        ("a", "a", True),
        ("1a2b3c4", AGENT, False),
        ("2a2b3c4d", AGENT, False),
        ("worker-agent-1", "worker-agent-10", False),
        ("worker-agent", "worker-agent-10", True),
    ],
)
def test_beginning(name: str, session_id: str, *, expected: bool) -> None:
    """A beginning is long enough, and does not end within a number unless the id is one of
    hexadecimal digits.
    """
    assert session._is_prefix(name, session_id) is expected


def test_mcp_and_watch_are_exact(tenth: Project) -> None:
    """What decides for all of them: the choice of a session by name."""
    store = open_store(tenth)
    assert session.choose(store, tenth.root, session="agent-1").session == "agent-1"
    assert session.named(store, "agent-1") == "agent-1"
    assert session.resolve_prefix(store, "agent-1") == "agent-10"


@pytest.mark.parametrize("id", ["abcd1234", "a" * 70, "abcd1234-0000-4000-8000-000000000000"])
def test_agents_with_one_id(project: Project, id: str) -> None:
    """Agents that use one id have a session each, and each finds its own again."""
    store = open_store(project)
    for number in range(2):
        for agent in ("claude-code", "gemini", "codex"):
            name = session.name_of(store, Agent(agent, id))
            project.write("a.txt", f"{agent} {number}\n")
            choice = session.of_agent(store, agent, id, None)
            save.save(store, save.SaveRequest(cwd=project.root, choice=choice))
            assert session.name_of(store, Agent(agent, id)) == name
    assert len(names(project)) == 3
    assert all(name.startswith(id[:8]) for name in names(project))


def test_alike_conversations(project: Project) -> None:
    """Of two conversations whose ids begin alike the hint names one that works."""
    other = AGENT[:-1] + "1"
    Talk(project, AGENT).say("Begin.", "I begin.")
    Talk(project, other).say("Begin too.", "I begin.")
    project.write("a.txt", "one\n")

    for command in (("save",), ("save", "--session", AGENT[:8])):
        refused = project.gitcp(*command)
        assert refused.code != 0
        hint = refused.err.split("hint: ")[1].split("\n")[0]
        assert hint in {f"gitcp save --session {id}" for id in (AGENT, other)}
    project.gitcp(*hint.split()[1:], check=0)
    assert len(names(project)) == 1


def test_by_the_id_of_the_conversation(project: Project) -> None:
    """What `claude --resume` takes names the session for every command, also after a restore gave
    the session another conversation, and for what is written into it.
    """
    talk = Talk(project)
    id = talk.session
    talk.say("one", "Done.")
    project.write("a.txt", "one\n")
    project.gitcp("save", "one", check=0)
    talk.say("two", "Done.")
    (name,) = names(project)
    project.write("a.txt", "two\n")
    project.gitcp("save", "two", check=0)
    for restored in range(2):
        reads = (
            ("log", "--session", id),
            ("status", "--session", id),
            ("find", "one", "--session", id),
            ("show", f"{id}@1"),
            ("log", id),
            ("restore", "1", "--session", id, "--dry-run"),
            ("sessions", "rename", id, name),
        )
        for command in reads[: -1 if restored else None]:
            assert name in project.gitcp(*command).out + project.gitcp(*command).err, command
        project.gitcp("restore", "1", "--yes", check=0)

    project.gitcp("note", "--session", id, "--task", "waits", check=0)
    project.write("a.txt", "three\n")
    project.gitcp("save", "three", "--session", id, check=0)
    assert names(project) == [name]
    assert project.json("show", f"{name}@")["handoff"]["task"] == "waits"


def test_by_the_id_of_the_conversation_from_python(project: Project) -> None:
    """`save`, a session with steps and a transaction go where the command line goes."""
    talk, opened = Talk(project), gitcp.open(project.root)
    talk.say("one", "Done.")
    project.write("a.txt", "one\n")
    project.gitcp("save", "one", check=0)
    (name,) = names(project)
    project.write("a.txt", "two\n")
    assert str(opened.save("two", session=talk.session).checkpoint.id) == f"{name}@2"
    assert opened.session(talk.session).name == name
    project.write("a.txt", "three\n")
    with opened.transaction("three", session=talk.session) as block:
        assert block.before.session == name
    assert names(project) == [name]


def test_a_new_session_with_the_name_of_a_tag(tenth: Project) -> None:
    """As a revision it would mean either: refused on every road, and nothing is changed."""
    tenth.gitcp("tag", "stable", check=0)
    opened, before = gitcp.open(tenth.root), tenth.git("for-each-ref")
    for command in (
        ("save", "x", "--session", "stable"),
        ("save", "x", "--session", "stable", "--conversation", "-"),
        ("note", "--session", "stable", "--task", "x"),
        ("run", "x", "--session", "stable", "--", "true"),
        ("watch", "--session", "stable"),
        ("fork", "--name", "stable"),
        ("sessions", "rename", "agent-10", "stable"),
    ):
        refused = tenth.gitcp(*command, check=2)
        assert "a session cannot be named stable: a tag has this name" in refused.err, command
        assert f"hint: gitcp {' '.join(command)}".replace("stable", "stable-2") in refused.err
    for call in (
        lambda: opened.save("x", session="stable"),
        lambda: opened.note(session="stable", phase="x"),
        lambda: opened.session("stable"),
        lambda: opened.transaction("x", session="stable"),
        lambda: opened.fork(name="stable"),
    ):
        with pytest.raises(gitcp.BadValue, match="a tag has this name"):
            call()
    assert tenth.git("for-each-ref") == before

    tenth.gitcp("tag", "agent-10-2", check=0)
    assert opened.fork().checkpoint.id.session == "agent-10-3"


def test_a_session_that_has_the_name_of_a_tag(tenth: Project) -> None:
    """One from before goes on."""
    tip = open_store(tenth).tip("agent-10")
    tenth.git("update-ref", "refs/gitcp/tags/agent-10", str(tip))
    assert tenth.gitcp("save", "x", "--session", "agent-10", check=0)
    tenth.write("a.txt", "two\n")
    assert gitcp.open(tenth.root).session("agent-10").save().checkpoint.id.number == 3


def test_by_the_id_after_a_rename(project: Project) -> None:
    """A session that was renamed is found by the id, too, and a save goes into it."""
    talk = Talk(project)
    talk.say("one", "Done.")
    project.write("a.txt", "one\n")
    project.gitcp("save", "one", check=0)
    project.gitcp("sessions", "rename", talk.session, "work", check=0)
    project.write("a.txt", "two\n")
    project.gitcp("save", "two", "--session", talk.session, check=0)
    assert names(project) == ["work"]
    assert project.json("show", talk.session)["id"] == "work@2"
    assert project.gitcp("show", "e7baae82@1").code == 16


def test_an_agent_that_nobody_knows(project: Project) -> None:
    """A misspelled agent is refused: there was a checkpoint without its conversation."""
    Talk(project).say("one", "Done.")
    project.write("a.txt", "one\n")
    for command in (("save",), ("save", "--session", "new"), ("import", "--dry-run")):
        refused = project.gitcp(*command, "--agent", "claud", check=2)
        assert "no adapter for an agent called 'claud'" in refused.err
    assert names(project) == []
    project.gitcp("save", "--agent", "claude", check=0)
    (name,) = names(project)
    project.gitcp("delete", Talk(project).session, "--yes", check=0)
    assert (name, names(project)) == ("e7baae82", [])


def test_amend_is_a_save(tenth: Project) -> None:
    """Amending takes the exact name, too: agent-1 does not mean agent-10."""
    refused = tenth.gitcp("save", "--amend", "-m", "x", "--session", "agent-1", check=16)
    assert refused.err.startswith("error: no session matches 'agent-1'; nothing was changed\n")
    tenth.gitcp("save", "--amend", "-m", "x", "--session", "agent-10", check=0)
    assert tenth.json("show", "agent-10@")["label"] == "x"
