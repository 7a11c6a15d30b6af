"""Whose conversation goes where: sessions that begin alike, at once, in other directories, or with
nothing written.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from talk import Talk
from test_adapter_opencode import ID as OPENCODE
from test_adapter_opencode import Database, text
from test_watch import Script

from gitcp import adapters
from gitcp.adapters import claude_code, generic
from gitcp.automation.watching import saves
from gitcp.conversation import segments
from gitcp.model import Agent, Trigger
from gitcp.saving import conversation, session
from gitcp.saving.save import Saved, SaveRequest, save
from gitcp.value import replace

from driver import SOURCE, Project
from samples import open_store

FIRST = "01a1fea3-2e04-7790-8b0f-4d3dd6e64ae5"
SECOND = "01a1fea3-9bdb-7c21-bc12-b5b25f524d97"
"""Two ids made within the same minute: their first eight digits are the time."""


@pytest.fixture
def ready(project: Project) -> Project:
    """A project with a commit."""
    project.write("a.txt", "one\n")
    project.commit()
    return project


def agents(project: Project) -> dict[str, set[str]]:
    """The agents' sessions by ours."""
    store = open_store(project)
    return {
        name: {summary.trailers.get("Gitcp-Agent-Session", "") for summary in store.history(tip)}
        for name, tip in store.sessions().items()
    }


def test_sessions_that_begin_at_once(ready: Project) -> None:
    """Two agents whose ids begin alike chose their names before either was saved: each has a
    session of its own.
    """
    store = open_store(ready)
    choices = [session.of_agent(store, "codex", agent, None) for agent in (FIRST, SECOND, FIRST)]
    assert {choice.session for choice in choices} == {"01a1fea3"}

    for number, choice in enumerate(choices):
        ready.write("a.txt", f"{number}\n")
        save(open_store(ready), SaveRequest(ready.root, trigger=Trigger.PROMPT, choice=choice))

    assert agents(ready) == {"01a1fea3": {FIRST}, "01a1fea39bdb": {SECOND}}
    assert len(list(store.history(store.sessions()["01a1fea3"]))) == 2


def test_a_late_first_save_keeps_the_conversation(ready: Project) -> None:
    """The save of the first prompt may end after one that has the conversation already."""
    store = open_store(ready)
    late, early = (session.of_agent(store, "codex", FIRST, None) for _ in range(2))
    talk = replace(
        generic.from_bytes(b'{"role":"user","content":"hi"}\n'), agent=Agent("codex", FIRST)
    )
    save(store, SaveRequest(ready.root, trigger=Trigger.TURN, choice=early._replace(capture=talk)))
    ready.write("a.txt", "two\n")
    saved = save(open_store(ready), SaveRequest(ready.root, trigger=Trigger.PROMPT, choice=late))

    assert saved.checkpoint.id == ("01a1fea3", 2)
    assert saved.checkpoint.conversation is not None
    assert saved.checkpoint.conversation.digest.messages == 1


def test_an_agent_that_writes_nothing(ready: Project) -> None:
    """One that keeps no transcript, and saves by itself: its saves are one session, and say
    whose.
    """
    env = {"CODEX_THREAD_ID": FIRST}
    for number in range(6):
        ready.write("a.txt", f"{number}\n")
        ready.gitcp("save", f"step {number}", env=env, check=0)

    assert agents(ready) == {"01a1fea3": {FIRST}}
    assert len(ready.json_lines("log")) == 6
    assert ready.json("show")["agent"]["session_id"] == FIRST


def hook(project: Project, event: str, cwd: Path, **env: str) -> None:
    """Claude Code calls a hook from `cwd`, which is where it is at that moment."""
    payload = {"session_id": FIRST, "cwd": str(cwd), "hook_event_name": event, "prompt": "x"}
    done = project.gitcp(
        "hook", "claude", event, cwd=cwd, env=env, input=json.dumps(payload), check=0
    )
    assert done == (0, "", "")


def test_an_agent_that_went_into_another_repository(ready: Project) -> None:
    """It still works on the project that it was started in: both are saved, each in its own
    repository.
    """
    inner = Project(ready.root / "vendor/lib", own_store=False)
    inner.write("lib.c", "int x;\n")
    inner.commit()
    env = {"CLAUDE_PROJECT_DIR": str(ready.root)}
    hook(ready, "UserPromptSubmit", ready.root, **env)
    ready.write("a.txt", "edited from inside\n")
    hook(ready, "PostToolBatch", inner.root, **env)

    assert [len(each.json_lines("log")) for each in (ready, inner)] == [2, 1]
    assert ready.git("show", "refs/gitcp/sessions/01a1fea3:a.txt") == "edited from inside"
    assert "lib.c" in inner.git("ls-tree", "--name-only", "refs/gitcp/sessions/01a1fea3")


def test_an_agent_in_a_linked_working_tree(ready: Project) -> None:
    """The one it was started in is of the same repository, and keeps out of that session."""
    ready.git("worktree", "add", "--quiet", "trees/side")
    ready.write("trees/side/new.txt", "x")
    hook(ready, "UserPromptSubmit", ready.root / "trees/side", CLAUDE_PROJECT_DIR=str(ready.root))

    assert len(ready.json_lines("log")) == 1
    assert "new.txt" in ready.git("ls-tree", "--name-only", "refs/gitcp/sessions/01a1fea3")


def test_a_directory_that_is_gone(ready: Project) -> None:
    """The agent's own directory was deleted under it; it says where the project is."""
    code = (
        "import os, shutil, sys\n"
        "os.mkdir('gone'); os.chdir('gone'); shutil.rmtree('../gone')\n"
        "os.execv(sys.executable, [sys.executable, '-P', '-m', 'gitcp', 'hook', 'claude', "
        "'UserPromptSubmit'])\n"
    )
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "CLAUDE_PROJECT_DIR": str(ready.root)}
    payload = json.dumps(
        {"session_id": FIRST, "cwd": str(ready.root / "gone"), "prompt": "x"}
    ).encode()
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ready.root, env=env, input=payload, capture_output=True
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert len(ready.json_lines("log")) == 1


def test_a_line_of_many_segments(ready: Project) -> None:
    """What it costs to read one follows its length: it is not put together anew for every
    segment.
    """
    store, piece = open_store(ready), b"x" * segments.LARGEST
    oid = store.writer.write_blob(piece)
    found = [segments.Segment(oid, n * len(piece), len(piece)) for n in range(400)]
    begun = time.process_time()
    (line,) = conversation.lines(store, found)

    assert len(line) == 400 * len(piece)
    # thirty times of what it takes; put together anew, it was thirty seconds
    assert time.process_time() - begun < 5


# ---------------------------------------------------------------- begun elsewhere


def begun_below(project: Project) -> Path:
    """Claude Code was started in a directory of the project, and a hook saved its first turn: its
    transcript.
    """
    below = project.root / "web"
    below.mkdir()
    place = Path(os.environ["HOME"]) / ".claude/projects" / claude_code.directory_name(str(below))
    place.mkdir(parents=True)
    transcript = place / f"{FIRST}.jsonl"
    transcript.write_text(line("user", "first", below))
    hook(project, "UserPromptSubmit", below)
    return transcript


def line(role: str, text: str, cwd: Path) -> str:
    fields = {
        "type": role,
        "uuid": text,
        "sessionId": FIRST,
        "cwd": str(cwd),
        "message": {"role": role, "content": text},
    }
    return json.dumps(fields) + "\n"


def test_a_save_beside_an_agent_that_began_below(ready: Project) -> None:
    """Whoever saves at the root of the project means the agent that was saved here last."""
    transcript = begun_below(ready)
    with transcript.open("a") as file:
        file.write(line("assistant", "second", ready.root / "web"))
    said = ready.gitcp("save", "by hand", check=0).out

    assert "01a1fea3@2" in said
    assert ready.json("show")["conversation"]["messages"] == 2


def test_a_restore_beside_an_agent_that_began_below(ready: Project) -> None:
    """What it said since is in the safety checkpoint, and undo has it."""
    transcript = begun_below(ready)
    ready.write("a.txt", "two\n")
    with transcript.open("a") as file:
        file.write(line("assistant", "second", ready.root / "web"))
    safety = ready.json("restore", "1", "--yes")["safety"]

    assert ready.json("show", safety)["conversation"]["messages"] == 2
    assert transcript.read_text().count("\n") == 2


def test_an_agent_resumed_in_another_directory(ready: Project, tmp_path: Path) -> None:
    """A hook that names no transcript finds it wherever the session was begun."""
    elsewhere = tmp_path / "elsewhere"
    place = (
        Path(os.environ["HOME"]) / ".claude/projects" / claude_code.directory_name(str(elsewhere))
    )
    place.mkdir(parents=True)
    (place / f"{FIRST}.jsonl").write_text(line("user", "first", elsewhere))
    hook(ready, "UserPromptSubmit", ready.root)

    assert ready.json("show")["conversation"]["messages"] == 1


# ---------------------------------------------------- what cannot be read, what is written in place


def opencode(project: Project, sealed: Path) -> Database:
    """A session of opencode with a prompt, and the beginning of an answer."""
    database = Database(sealed)
    database.session(project.root)
    database.say("user", text("first"))
    database.say("assistant", text("I will"))
    return database


def idle(project: Project) -> None:
    payload = {"session_id": OPENCODE, "cwd": str(project.root)}
    assert project.gitcp("hook", "opencode", "session.idle", input=json.dumps(payload)) == (
        0,
        "",
        "",
    )


def test_a_conversation_that_cannot_be_read(ready: Project, sealed: Path) -> None:
    """A later version may keep it otherwise: the files do not wait for it."""
    with opencode(ready, sealed).open() as database:
        database.execute("drop table part")
    idle(ready)

    shown = ready.json("show")
    assert (shown["conversation"], shown["agent"]["session_id"]) == (None, OPENCODE)


def test_an_answer_that_is_written_in_place(ready: Project, sealed: Path) -> None:
    """The message was there when it was saved in the middle of it; its end is worth a checkpoint
    too.
    """
    database = opencode(ready, sealed)
    idle(ready)
    with database.open() as opened:
        opened.execute(
            "update part set data = ? where data like '%I will%'",
            (json.dumps(text("I will not.")),),
        )
    idle(ready)

    first, second = ready.json_lines("log")[::-1]
    assert first["conversation"]["messages"] == second["conversation"]["messages"] == 2
    assert second["conversation"]["last_message"]["text"] == "I will not."


@pytest.mark.parametrize("agent", ["codex", "copilot", "gemini", "opencode"])
def test_located_by_id(agent: str, ready: Project, sealed: Path, tmp_path: Path) -> None:
    """A session is found wherever it began, and no other one under its id; where there is none,
    none is.
    """
    host = open_store(ready).repo.host
    assert adapters.located(agent, FIRST, host) is None
    chat = sealed / f".gemini/tmp/x/chats/session-2026-11-21T12-00-{FIRST[:8]}.jsonl"
    said = '{"id":"m","type":"user","content":"hello"}\n'
    for path, content in (
        (sealed / f".codex/sessions/2026/11/21/rollout-2026-11-21T12-00-00-{FIRST}.jsonl", "{}\n"),
        (sealed / f".copilot/session-state/{FIRST}/events.jsonl", "{}\n"),
        (chat, json.dumps({"sessionId": FIRST, "projectHash": "x"}) + "\n" + said),
    ):
        path.parent.mkdir(parents=True)
        path.write_text(content)
    Database(sealed).session(tmp_path)
    session_id = OPENCODE if agent == "opencode" else FIRST

    found = adapters.located(agent, session_id, host)
    assert found is not None
    assert (found.agent, found.session_id, found.path.exists()) == (agent, session_id, True)
    assert adapters.located(agent, SECOND, host) is None
    assert adapters.located(agent, "../..", host) is None


# ---------------------------------------------------------------- watched


def test_two_agents_that_are_watched(ready: Project) -> None:
    """Both work at once and call no hook: each one's conversation is saved, in a session of its
    own.
    """
    one, two = Talk(ready, FIRST), Talk(ready, SECOND.replace("01a1", "02b2"))
    one.say("begin")

    def both() -> bool:
        for talk in (one, two):
            talk.say("go on", "done")
        return True

    def second_alone() -> bool:
        two.say("and this")
        return True

    script = Script(both, both, second_alone)
    pace = saves.Pace(1000, 0.000001)
    found = list(
        saves.watch(
            lambda: open_store(ready),
            saves.SaveTask(ready.root),
            pace,
            script.wait,
            script.is_stopped,
        )
    )

    assert all(isinstance(each, Saved) for each in found), found
    counts = [
        ready.json("show", name)["conversation"]["messages"] for name in ("01a1fea3", "02b2fea3")
    ]
    assert counts == [5, 5]


# ---------------------------------------------------------------- told


def test_an_agent_that_does_not_listen(ready: Project) -> None:
    """Nobody reads what a hook has to tell after a restore: it saves all the same."""
    hook(ready, "UserPromptSubmit", ready.root)
    ready.write("a.txt", "two\n")
    ready.gitcp("restore", "1", "--yes", check=0)
    ready.write("a.txt", "three\n")
    assert (ready.git_dir / "gitcp/untold").exists()
    before = len(ready.json_lines("log"))
    reading, writing = os.pipe()
    os.close(reading)
    payload = json.dumps({"session_id": FIRST, "cwd": str(ready.root), "prompt": "x"}).encode()
    command = [sys.executable, "-P", "-m", "gitcp", "hook", "claude", "UserPromptSubmit"]
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        command, cwd=ready.root, env=env, input=payload, stdout=writing, stderr=subprocess.PIPE
    )
    os.close(writing)

    assert (done.returncode, done.stderr) == (0, b"")
    assert not (ready.git_dir / "gitcp/untold").exists()
    assert len(ready.json_lines("log")) == before + 1
