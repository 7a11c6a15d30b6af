"""`gitcp hook` as an agent calls it: real processes, a transcript that grows, payloads good and
bad.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import test_adapter_copilot
import test_adapter_gemini
import test_adapter_opencode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitcp import trusted_cache
from gitcp.adapters import claude_code
from gitcp.agents import SAVED
from gitcp.fastpath import hook_memo
from gitcp.hooks import handler, limits
from gitcp.model import Agent

from driver import SOURCE, Project
from samples import START, open_store
from samples import save as samples_save

SESSION = "11111111-2222-4333-8444-555555555555"
OTHER = "99999999-2222-4333-8444-555555555555"
DEADLINE = 60.0
GITCP = (sys.executable, "-P", "-m", "gitcp")


class Claude:
    """Claude Code as a hook sees it: what it writes into its transcript, and what it calls."""

    def __init__(self, project: Project, session: str = SESSION) -> None:
        self.project, self.session = project, session
        place = (
            Path(os.environ["HOME"])
            / ".claude/projects"
            / claude_code.directory_name(str(project.root))
        )
        self.transcript = place / f"{session}.jsonl"
        self.said = 0

    def line(self, role: str, text: str) -> str:
        """A line of the transcript."""
        self.said += 1
        message = {"role": role, "content": [{"type": "text", "text": text}]}
        fields = {
            "type": role,
            "uuid": f"u{self.said}",
            "sessionId": self.session,
            "message": message,
        }
        return json.dumps({**fields, "cwd": str(self.project.root)}, separators=(",", ":")) + "\n"

    def says(self, role: str, text: str) -> None:
        """Add a line to the transcript."""
        self.transcript.parent.mkdir(parents=True, exist_ok=True)
        with self.transcript.open("a") as file:
            file.write(self.line(role, text))

    def calls(self, event: str, *, check: bool = True, **fields: Any) -> str:
        """Call the hook of an event; what it printed."""
        known = {
            "session_id": self.session,
            "transcript_path": str(self.transcript),
            "cwd": str(self.project.root),
        }
        payload = json.dumps({**known, "hook_event_name": event, **fields})
        done = self.project.gitcp("hook", "claude", event, input=payload, check=0)
        assert done.err == ""
        assert not check or log_of(self.project) == ""
        return done.out

    def turn(
        self, prompt: str, answer: str = "Done.", edit: Callable[[], None] | None = None
    ) -> None:
        """A whole turn, with an edit by a tool."""
        assert self.calls("UserPromptSubmit", prompt=prompt) == ""
        self.says("user", prompt)
        if edit is not None:
            edit()
            assert self.calls("PostToolBatch", tool_calls=[{"tool_name": "Edit"}]) == ""
        self.says("assistant", answer)
        assert self.calls("Stop", last_assistant_message=answer) == ""


def log_of(project: Project) -> str:
    """What went wrong in hooks."""
    path = project.git_dir / "gitcp/hook.log"
    return path.read_text() if path.exists() else ""


def triggers(project: Project, session: str | None = None) -> list[str]:
    """The triggers of a session's checkpoints, the oldest first."""
    if not project.git("for-each-ref", "refs/gitcp/sessions"):
        return []
    which = ("--session", session) if session else ()
    return [each["trigger"] for each in project.json_lines("log", *which)][::-1]


def until(true: Callable[[], bool]) -> None:
    """Wait for work that goes on after its hook has ended."""
    deadline = time.monotonic() + DEADLINE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def edit(project: Project, name: str = "a.txt") -> Callable[[], None]:
    """An edit that differs each time."""
    return lambda: project.write(name, os.urandom(8).hex())


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Somebody else has this file locked."""
    descriptor = os.open(path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield
    os.close(descriptor)


@pytest.fixture
def ready(project: Project) -> Project:
    """A project with a commit."""
    project.write("a.txt", "one\n")
    project.commit()
    return project


# ---------------------------------------------------------------- a session


def test_a_session(ready: Project) -> None:
    """Before each prompt, after tools and turns, at the end: what changed is saved, and nothing
    twice.
    """
    agent = Claude(ready)
    with ready.guard():
        agent.calls("SessionStart", source="startup")
        agent.turn("first", edit=edit(ready))
        agent.turn("second")
        ready.write("by_hand.txt", "a person\n")
        agent.turn("third", edit=edit(ready))
        agent.says("user", "/exit")
        agent.calls("SessionEnd", reason="other")
        until(lambda: triggers(ready)[-1:] == ["session-end"])

    expected = ["prompt", "tools", "turn", "turn", "prompt", "tools", "turn", "session-end"]
    assert triggers(ready) == expected
    shown = ready.json("show")
    assert shown["session"] == "11111111"
    assert shown["agent"]["session_id"] == SESSION
    assert shown["conversation"]["bytes"] == agent.transcript.stat().st_size


def test_the_first_prompt_has_no_conversation_yet(ready: Project) -> None:
    """The transcript is not there; the checkpoint says whose it will be, and the next one goes on
    from it.
    """
    agent = Claude(ready)
    agent.calls("UserPromptSubmit", prompt="x")
    first = ready.json("show")
    agent.says("user", "x")
    agent.calls("Stop")

    assert (first["trigger"], first["conversation"]) == ("prompt", None)
    assert first["agent"]["session_id"] == SESSION
    assert triggers(ready) == ["prompt", "turn"]


def test_risky_changes_and_failed_tests(ready: Project) -> None:
    """They are saved under their names; what is harmless is not saved at all."""
    agent = Claude(ready)
    agent.calls("UserPromptSubmit", prompt="x")
    agent.says("user", "x")
    bash: dict[str, Any] = {"tool_name": "Bash", "tool_use_id": "toolu_1"}
    agent.calls("PreToolUse", **bash, tool_input={"command": "ls"})
    agent.says("assistant", "toolu_1")
    agent.calls("PreToolUse", **bash, tool_input={"command": "cd x && sudo rm -rf ."})
    edit(ready)()
    agent.calls("PostToolUseFailure", **bash, tool_input={"command": "pytest"}, error="Exit code 1")
    agent.says("assistant", "I found the bug.")
    agent.calls("Stop", last_assistant_message="I found the bug.")

    assert triggers(ready) == [
        "prompt",
        "before-risky-change",
        "on-test-failure",
        "after-bug-found",
    ]


def test_state_before_risky_changes(ready: Project) -> None:
    """What the user's command saves before a risky change is saved also where no file changed, and
    before nothing else. A command that fails is in the log.
    """
    rows = Path(os.environ["HOME"]) / "rows"
    ready.git("config", "--global", "gitcp.state.db.save", "cat ~/rows")
    ready.git("config", "--global", "gitcp.state.db.when", "before-risky-change")
    agent = Claude(ready)
    agent.calls("UserPromptSubmit", prompt="x")
    agent.says("user", "x")
    bash: dict[str, Any] = {"tool_name": "Bash", "tool_use_id": "toolu_1"}
    for content in ("1\n", "2\n", "2\n"):
        rows.write_text(content)
        agent.calls("PreToolUse", **bash, tool_input={"command": "ls"})
        agent.calls("PreToolUse", **bash, tool_input={"command": "git reset --hard"})
    assert triggers(ready) == ["prompt", "before-risky-change", "before-risky-change"]
    assert [each["bytes"] for each in ready.json("show")["states"]] == [2]
    rows.unlink()
    agent.calls("PreToolUse", check=False, **bash, tool_input={"command": "git reset --hard"})
    assert "lacks state db: its command ended with exit code 1" in log_of(ready)


def test_tools_that_changed_no_file(ready: Project) -> None:
    """A conversation that went on is no reason after tools; a changed file is."""
    agent = Claude(ready)
    agent.turn("x")
    agent.says("assistant", "looking")
    agent.calls(
        "PostToolBatch", tool_calls=[{"tool_name": "Bash", "tool_input": {"command": "ls"}}]
    )
    agent.calls("PostToolBatch", tool_calls=[{"tool_name": "Task"}])

    assert triggers(ready) == ["prompt", "turn"]


def test_interval(ready: Project) -> None:
    """After long enough, the conversation alone is a reason."""
    ready.git("config", "gitcp.interval", "1s")
    agent = Claude(ready)
    agent.turn("x")
    agent.says("assistant", "thinking")
    made = ready.json("show")["created"]
    until(lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 2)) > made)
    agent.calls("PostToolBatch", tool_calls=[{"tool_name": "Read"}])

    assert triggers(ready) == ["prompt", "turn", "interval"]


def test_a_subagent(ready: Project) -> None:
    """What a sub-agent does is saved in the session of its parent, its conversation too."""
    agent = Claude(ready)
    agent.turn("x")
    beside = agent.transcript.with_suffix("") / "subagents"
    beside.mkdir(parents=True)
    beside.joinpath("agent-a1.jsonl").write_text(
        '{"type":"user","message":{"role":"user","content":"dig"}}\n'
    )
    edit(ready)()
    agent.calls("PostToolBatch", agent_id="a1", tool_calls=[{"tool_name": "Edit"}])
    agent.calls("SubagentStop", agent_id="a1", agent_transcript_path="/nowhere")
    agent.calls("UserPromptSubmit", agent_id="a1", prompt="not a person's")

    assert triggers(ready) == ["prompt", "turn", "tools"]
    assert {each["name"] for each in ready.json("show")["conversation"]["streams"]} == {
        "agents/a1",
        "main",
    }


def test_compaction(ready: Project) -> None:
    """Whatever is there is saved before the agent forgets it."""
    agent = Claude(ready)
    agent.turn("x")
    agent.says("system", "about to compact")
    agent.calls("PreCompact", trigger="auto")

    assert triggers(ready) == ["prompt", "turn", "compaction"]


def test_switched_off(ready: Project) -> None:
    """The team's file and git config switch triggers off, and are read anew when they change."""
    ready.write(".gitcp.toml", "[triggers]\nprompt = false\ntools = false\n")
    agent = Claude(ready)
    agent.turn("x", edit=edit(ready))
    ready.git("config", "gitcp.trigger.turn", "off")
    agent.turn("y", edit=edit(ready))
    ready.git("config", "gitcp.trigger.tools", "on")
    agent.turn("z", edit=edit(ready))

    assert triggers(ready) == ["turn", "tools"]


def test_settings_that_cannot_be_read(ready: Project) -> None:
    """They cost no checkpoint: it is made by the defaults, and the log says what is wrong."""
    ready.write(".gitcp.toml", "[hooks\n")
    agent = Claude(ready)
    agent.calls("UserPromptSubmit", check=False, prompt="x")

    assert ".gitcp.toml cannot be read" in log_of(ready)
    assert ready.git("for-each-ref", "refs/gitcp/sessions/11111111")


# ---------------------------------------------------------------- lag, deaths, several at once


def test_the_transcript_lags(ready: Project) -> None:
    """What the agent said is written while the hook runs: the hook waits for it."""
    agent = Claude(ready)
    agent.turn("x")
    agent.says("user", "y")
    line = agent.line("assistant", 'At "last".')
    script = "import sys, time; time.sleep(0.1); open(sys.argv[1], 'a').write(sys.argv[2])"
    late = subprocess.Popen([sys.executable, "-c", script, str(agent.transcript), line])
    agent.calls("Stop", last_assistant_message='At "last".')
    late.wait()
    agent.calls("UserPromptSubmit", prompt="z")

    shown = ready.json("show")
    assert shown["conversation"]["bytes"] == agent.transcript.stat().st_size
    assert shown["conversation"]["messages"] == 4


def test_a_transcript_that_is_written_in_batches(ready: Project, sealed: Path) -> None:
    """Copilot CLI writes that it calls a hook, and all before it, while the hook runs: the end of a
    turn waits for it.

    That file and tree look as at the last event is then no reason to leave.
    """
    session = test_adapter_copilot.ID
    first, rest = test_adapter_copilot.EVENTS[:1], test_adapter_copilot.EVENTS[1:]
    path = test_adapter_copilot.put(sealed, session, *first, works=str(ready.root))
    known = {"sessionId": session, "cwd": str(ready.root)}
    # what is young is looked at anyway, and would hide that nothing else asked for it
    time.sleep(2.2)
    asked = json.dumps({**known, "timestamp": 1795286410314, "prompt": "make a file"})
    for _ in range(3):
        ready.gitcp("hook", "copilot", "userPromptSubmitted", input=asked, check=0)
    stopped = {
        **known,
        "timestamp": 1795286411884,
        "transcriptPath": str(path),
        "stopReason": "end_turn",
    }
    called = test_adapter_copilot.event("hook.start", "h1", hookType="agentStop", input=stopped)
    late = b"".join((*rest, called)).decode()
    script = "import sys, time; time.sleep(1); open(sys.argv[1], 'a').write(sys.argv[2])"
    writer = subprocess.Popen([sys.executable, "-c", script, str(path), late])
    ready.gitcp("hook", "copilot", "agentStop", input=json.dumps(stopped), check=0)
    writer.wait()
    until(lambda: triggers(ready) == ["prompt", "turn"])

    assert ready.json("show")["conversation"]["bytes"] == path.stat().st_size
    assert log_of(ready) == ""


def test_a_first_turn_whose_transcript_is_not_there_yet(ready: Project, sealed: Path) -> None:
    """A turn of words alone, and the file is made while the hook of its end runs: saved, for both
    that write late.
    """
    script = (
        "import os, sys, time; time.sleep(0.3); os.makedirs(os.path.dirname(sys.argv[1]), "
        "exist_ok=True);"
        "open(sys.argv[1], 'a').write(sys.argv[2])"
    )
    agent = Claude(ready)
    agent.calls("UserPromptSubmit", prompt="hello")
    lines = agent.line("user", "hello") + agent.line("assistant", "Hello there.")
    late = subprocess.Popen([sys.executable, "-c", script, str(agent.transcript), lines])
    agent.calls("Stop", last_assistant_message="Hello there.")
    late.wait()
    assert triggers(ready) == ["prompt", "turn"]
    assert ready.json("show")["conversation"]["messages"] == 2

    stop = {
        "sessionId": test_adapter_copilot.ID,
        "cwd": str(ready.root),
        "timestamp": 1795286411884,
    }
    called = test_adapter_copilot.event("hook.start", "h1", hookType="agentStop", input=stop)
    first = test_adapter_copilot.EVENTS[0].decode()
    path = sealed / ".copilot/session-state" / test_adapter_copilot.ID / "events.jsonl"
    body = b"".join((*test_adapter_copilot.EVENTS, called)).decode()
    assert first in body
    ready.gitcp(
        "hook",
        "copilot",
        "userPromptSubmitted",
        input=json.dumps({**stop, "prompt": "hello"}),
        check=0,
    )
    late = subprocess.Popen([sys.executable, "-c", script, str(path), body])
    ready.gitcp(
        "hook",
        "copilot",
        "agentStop",
        input=json.dumps({**stop, "transcriptPath": str(path)}),
        check=0,
    )
    late.wait()
    session = ready.json("show")["session"]
    assert triggers(ready, session) == ["prompt", "turn"]
    assert ready.json("show", "--session", session)["conversation"]["bytes"] == path.stat().st_size


def test_a_transcript_that_never_comes(ready: Project) -> None:
    """An agent that keeps none is waited for once in a session, not at each turn."""
    agent = Claude(ready)
    agent.calls("UserPromptSubmit", prompt="hello")
    took = []
    for number in range(3):
        edit(ready)()
        begun = time.monotonic()
        agent.calls("Stop", last_assistant_message=f"Answer {number}.")
        took.append(time.monotonic() - begun)

    known = trusted_cache.load(str(ready.git_dir / f"gitcp/hooked/claude-code.{SESSION}"))
    assert known[5] == hook_memo.MISSING
    assert triggers(ready) == ["prompt", "turn", "turn", "turn"]
    assert min(took[1:]) < took[0]
    agent.says("user", "hello")
    agent.says("assistant", "Answer 3.")
    agent.calls("Stop", last_assistant_message="Answer 3.")
    assert ready.json("show")["conversation"]["messages"] == 2


def test_a_killed_agent_is_caught_up(ready: Project) -> None:
    """Killed in a turn, without a goodbye: the next start of the same agent saves what it had
    written and changed.
    """
    agent, next_one = Claude(ready), Claude(ready, OTHER)
    agent.turn("x")
    agent.says("user", "a long task")
    agent.says("assistant", "half of it")
    edit(ready)()
    lost = ready.read("a.txt")
    next_one.calls("SessionStart", source="startup")
    next_one.calls("SessionStart", source="startup")

    assert triggers(ready, "11111111") == ["prompt", "turn", "turn"]
    assert ready.git("show", "refs/gitcp/sessions/11111111:a.txt").encode() == lost
    assert (
        ready.json("show", "11111111")["conversation"]["bytes"] == agent.transcript.stat().st_size
    )


def test_a_session_that_a_restore_left_is_not_taken_up_again(ready: Project) -> None:
    """Killed, and restored to an earlier turn under a new id: what the old one had written does not
    come back with it.

    Unless the old one goes on after that: then somebody works there.
    """
    agent = Claude(ready)
    agent.turn("x")
    agent.turn("y", edit=edit(ready))
    agent.says("user", "a long task")
    restored = json.loads(ready.gitcp("restore", "11111111@2", "--yes", "--json", check=0).out)
    resumed = Claude(ready, restored["resume"]["session_id"])
    assert resumed.session != SESSION
    resumed.calls("SessionStart", source="resume")

    assert triggers(ready, "11111111")[-2:] == ["before-restore", "restore"]
    assert ready.json("show")["agent"]["session_id"] == resumed.session

    agent.says("assistant", "done with it")
    later = time.time() + 60
    os.utime(agent.transcript, (later, later))
    Claude(ready, OTHER).calls("SessionStart", source="startup")
    assert ready.json("show", "11111111")["agent"]["session_id"] == SESSION
    assert (
        ready.json("show", "11111111")["conversation"]["bytes"] == agent.transcript.stat().st_size
    )


def test_a_chat_that_is_being_written_anew(ready: Project, sealed: Path) -> None:
    """Gemini CLI deletes a chat while it resumes it, and writes it again: no checkpoint is made of
    it half written.
    """
    test_adapter_gemini.own(sealed, ready.root)
    whole = test_adapter_gemini.CHAT + test_adapter_gemini.RESUMED
    path = test_adapter_gemini.put(sealed, whole)
    known = {
        "session_id": test_adapter_gemini.ID,
        "transcript_path": str(path),
        "cwd": str(ready.root),
    }

    def calls(event: str, **fields: str) -> str:
        ready.gitcp("hook", "gemini", event, input=json.dumps({**known, **fields}), check=0)
        return str(ready.json("show")["conversation"]["bytes"])

    assert calls("AfterAgent") == str(len(whole))
    ready.write("a.txt", "by hand\n")
    test_adapter_gemini.put(sealed, test_adapter_gemini.CHAT, modified=2000.0)
    assert calls("SessionStart", source="resume") == str(len(whole))
    path.unlink()
    assert calls("SessionStart", source="startup", session_id=OTHER) == str(len(whole))
    test_adapter_gemini.put(
        sealed, whole + test_adapter_gemini.line(**test_adapter_gemini.DONE), modified=3000.0
    )
    assert calls("BeforeAgent", prompt="x") == str(path.stat().st_size)
    assert triggers(ready) == ["turn", "prompt"]


def test_two_sessions_in_one_tree(ready: Project) -> None:
    """Each has its own checkpoints, whatever the other one does."""
    one, two = Claude(ready), Claude(ready, OTHER)
    one.turn("x", edit=edit(ready))
    two.turn("y", edit=edit(ready))
    one.calls("PostToolBatch", tool_calls=[{"tool_name": "Edit"}])
    two.calls("PostToolBatch", tool_calls=[{"tool_name": "Edit"}])

    assert triggers(ready, "11111111") == ["prompt", "tools", "turn", "tools"]
    assert triggers(ready, "99999999") == ["prompt", "tools", "turn"]


def test_hooks_at_once(ready: Project) -> None:
    """Many at the same time, of two sessions: none fails, and the chains are sound."""
    agents = [Claude(ready), Claude(ready, OTHER)]
    for agent in agents:
        agent.turn("x")
    edit(ready)()
    running = []
    for agent in agents * 3:
        payload = {
            "session_id": agent.session,
            "transcript_path": str(agent.transcript),
            "tool_name": "Edit",
        }
        command = [*GITCP, "hook", "claude", "PostToolUse"]
        env = {**os.environ, "PYTHONPATH": str(SOURCE)}
        one = subprocess.Popen(
            command, cwd=ready.root, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        running.append((one, json.dumps(payload).encode()))
    ended = [(one.communicate(payload)[0], one.returncode) for one, payload in running]

    assert ended == [(b"", 0)] * 6
    assert log_of(ready) == ""
    assert triggers(ready, "11111111") == triggers(ready, "99999999") == ["prompt", "turn", "tools"]
    assert ready.json("check")["ok"]


def test_the_save_outlives_the_agent(ready: Project) -> None:
    """The hook is killed with its whole process group at once: the checkpoint is made all the
    same.
    """
    agent = Claude(ready)
    agent.turn("x")
    edit(ready)()
    with held(ready.git_dir / "gitcp/lock"):
        payload = json.dumps(
            {"session_id": SESSION, "transcript_path": str(agent.transcript)}
        ).encode()
        command, env = ("hook", "claude", "SessionEnd"), {**os.environ, "PYTHONPATH": str(SOURCE)}
        hook = subprocess.Popen(
            [*GITCP, *command], cwd=ready.root, env=env, stdin=-1, start_new_session=True
        )
        hook.communicate(payload)  # it ends, though the save cannot
        with suppress(ProcessLookupError):
            os.killpg(hook.pid, signal.SIGKILL)
        assert hook.returncode == 0
        assert ready.git("rev-list", "--count", "refs/gitcp/sessions/11111111") == "2"

    until(lambda: triggers(ready) == ["prompt", "turn", "session-end"])


def test_while_a_restore_is_under_way(ready: Project) -> None:
    """A hook keeps out of the way of a restore that is changing files; one that was interrupted is
    no obstacle.
    """
    agent = Claude(ready)
    agent.turn("x")
    edit(ready)()
    directory = ready.git_dir / "gitcp"
    journal = '{"schema":"gitcp.journal/1","target":"11111111@1","safety":"11111111@1","paths":[],'
    directory.joinpath("restore.json").write_text(
        journal + '"files":true,"conversation":true,"index":false}'
    )
    with held(directory):
        agent.calls("Stop")
        during = ready.git("rev-list", "--count", "refs/gitcp/sessions/11111111")
    agent.calls("Stop")

    assert during == "2"
    assert ready.git("rev-list", "--count", "refs/gitcp/sessions/11111111") == "3"


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\0\xff\xfe",
        b"[]",
        b"null",
        b'{"session_id": 3, "cwd": [], "transcript_path": {}}',
        b'{"a":' * 9999,
    ],
)
def test_garbage_payloads(ready: Project, payload: bytes) -> None:
    """Whatever comes: exit code 0, no word, and the files are saved all the same."""
    done = ready.gitcp("hook", "claude", "Stop", input=payload, check=0)

    assert (done.out, done.err, log_of(ready)) == ("", "", "")
    assert triggers(ready) == ["turn"]


def test_an_oversized_payload(ready: Project) -> None:
    """What stands before a huge output is enough; the rest is taken and dropped."""
    agent = Claude(ready)
    agent.turn("x")
    edit(ready)()
    fields = f'{{"session_id": "{SESSION}", "tool_name": "Bash", "tool_response": "'
    done = ready.gitcp(
        "hook", "claude", "PostToolUse", input=fields + "x" * (limits.LARGEST + 9) + '"}', check=0
    )

    assert done.out == done.err == ""
    assert triggers(ready) == ["prompt", "turn", "tools"]


@pytest.mark.parametrize(
    "arguments", [(), ("claude",), ("claude", "Nothing"), ("nobody", "Stop"), ("a/../b", "../x")]
)
def test_odd_calls(ready: Project, arguments: tuple[str, ...]) -> None:
    """An agent or event that is not known, or none at all, is no error either."""
    done = ready.gitcp("hook", *arguments, check=0)

    assert done.out == done.err == ""
    assert not ready.git_dir.joinpath("gitcp").exists()


def test_session_ids_that_are_paths(ready: Project) -> None:
    """Nothing is written where such an id would lead, and nothing is attributed to it."""
    for odd in ("../../../x", "/etc/passwd", "a/b", "..", "x\n\0"):
        Claude(ready).calls("Stop", session_id=odd)

    named = ready.git("for-each-ref", "--format=%(refname)", "refs/gitcp").splitlines()
    assert named
    assert all(name.startswith("refs/gitcp/sessions/manual-") for name in named)
    assert not list(ready.root.parent.glob("x*"))


def test_transcripts_that_are_not_the_agents(ready: Project, tmp_path: Path) -> None:
    """A file outside of the agent's directory, another session's, and a link that leads outside are
    not read.
    """
    agent = Claude(ready)
    agent.says("user", "x")
    secret = tmp_path / f"{SESSION}.jsonl"
    secret.write_text('{"type":"user","message":{"role":"user","content":"secret"}}\n' * 9)
    other = agent.transcript.with_name(f"{OTHER}.jsonl")
    other.write_text(secret.read_text())
    link = agent.transcript.parent / "elsewhere" / f"{SESSION}.jsonl"
    link.parent.mkdir()
    link.symlink_to(secret)
    for odd in (
        secret,
        other,
        link,
        Path("/dev/zero"),
        Path("/etc/passwd"),
        Path("a\0b"),
        Path("/nowhere"),
    ):
        agent.calls("SessionEnd", transcript_path=str(odd))
        until(lambda: triggers(ready) == ["session-end"])

    assert ready.json("show")["conversation"]["messages"] == 1


def test_a_directory_outside(ready: Project, tmp_path: Path) -> None:
    """A payload cannot send a hook into another repository than the one it runs in."""
    other = Project(tmp_path / "other")
    agent = Claude(ready)
    agent.calls("UserPromptSubmit", cwd=str(other.root), prompt="x")
    agent.calls("Stop", cwd="/nowhere/at/all")

    assert other.git("for-each-ref") == ""
    assert triggers(ready) == ["prompt"]


def test_a_linked_working_tree_inside(ready: Project) -> None:
    """An agent that works in a linked working tree below the main one has its checkpoints there."""
    ready.git("worktree", "add", "--quiet", "trees/side")
    ready.write("trees/side/new.txt", "x")
    agent = Claude(ready)
    agent.calls("UserPromptSubmit", cwd=str(ready.root / "trees/side"), prompt="x")

    assert ready.git_dir.joinpath("worktrees/side/gitcp/hooked").is_dir()
    assert "new.txt" in ready.git("ls-tree", "--name-only", "refs/gitcp/sessions/11111111")


def test_no_repository(tmp_path: Path, sealed: Path) -> None:
    """Nothing happens where nothing can, and nothing is said."""
    command = [*GITCP, "hook", "claude", "Stop"]
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    for cwd in (tmp_path, sealed):
        payload = json.dumps({"session_id": SESSION, "cwd": str(cwd)}).encode()
        done = subprocess.run(command, cwd=cwd, env=env, input=payload, capture_output=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert list(tmp_path.iterdir()) == []


def test_a_repository_that_is_broken(ready: Project) -> None:
    """No objects, no HEAD, a directory that cannot be used: 0, and no word."""
    agent = Claude(ready)
    ready.write(f"{ready.git_dir}/gitcp", "a file in the way")
    agent.calls("Stop", check=False)
    ready.remove(f"{ready.git_dir}/gitcp")
    ready.write(f"{ready.git_dir}/HEAD", "garbage")
    agent.calls("Stop", check=False)
    ready.remove(f"{ready.git_dir}/objects")
    agent.calls("Stop", check=False)

    assert ready.gitcp("hook", "claude", "Stop", input="{}").code == 0


def test_a_broken_install(ready: Project, tmp_path: Path) -> None:
    """A gitcp that cannot be loaded fails no agent."""
    broken = tmp_path / "broken"
    shutil.copytree(SOURCE / "gitcp", broken / "gitcp")
    broken.joinpath("gitcp/policy/events.py").write_text("this is not Python")
    command = [*GITCP, "hook", "claude", "Stop"]
    env = {**os.environ, "PYTHONPATH": str(broken)}
    done = subprocess.run(command, cwd=ready.root, env=env, input=b"{}", capture_output=True)

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_standard_input_that_never_ends(ready: Project) -> None:
    """An agent that says nothing and does not hang up is not waited for."""
    command = [*GITCP, "hook", "claude", "Stop"]
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    silent = subprocess.Popen(command, cwd=ready.root, env=env, stdin=subprocess.PIPE)
    assert silent.wait(DEADLINE) == 0
    assert silent.stdin is not None
    silent.stdin.close()
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command], cwd=ready.root, env=env
    )

    assert closed.returncode == 0
    assert triggers(ready) == ["turn"]


def test_damaged_memories(ready: Project) -> None:
    """What hooks remember is a cache: without it, or with garbage in its place, they decide as
    before.
    """
    agent = Claude(ready)
    agent.turn("x")
    directory = ready.git_dir / "gitcp"
    for content in (b"", b"garbage", b"\xe9\0\0\0\0"):
        for path in (*directory.joinpath("hooked").iterdir(), directory / "policy"):
            path.write_bytes(content)
        agent.calls("Stop")
    edit(ready)()
    agent.calls("Stop")

    assert triggers(ready) == ["prompt", "turn", "turn"]


def test_the_log_is_bounded(ready: Project) -> None:
    """However often something goes wrong, the newest of it is kept, and not much more."""
    path = ready.git_dir / "gitcp/hook.log"
    path.parent.mkdir()
    path.write_text("an old line\n" * 20_000)
    ready.write(".gitcp.toml", "[hooks\n")
    Claude(ready).calls("Stop", check=False)
    lines = path.read_text().splitlines()

    assert path.stat().st_size < handler.LOG_SIZE
    assert ".gitcp.toml cannot be read" in lines[-1]
    assert set(lines[:-2]) == {"an old line"}


# ---------------------------------------------------------------- what it costs


def loaded(project: Project, agent: Claude, event: str, **fields: Any) -> set[str]:
    """The modules that the hook of an event loads in its own process."""
    command = [sys.executable, "-P", "-X", "importtime", "-m", "gitcp", "hook", "claude", event]
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    known = {
        "session_id": agent.session,
        "transcript_path": str(agent.transcript),
        "cwd": str(project.root),
    }
    payload = json.dumps({**known, **fields}).encode()
    done = subprocess.run(command, cwd=project.root, env=env, input=payload, capture_output=True)
    return {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}


HEAVY = {
    "click",
    "json",
    "orjson",
    "re",
    "typing",
    "pathlib",
    "datetime",
    "gitcp.model",
    "gitcp.git.repo",
}


def test_what_is_decided_without_loading_anything(ready: Project) -> None:
    """An event that leads to nothing, a harmless command and a state that is saved need next to
    nothing.
    """
    agent = Claude(ready)
    agent.turn("x", edit=edit(ready))
    until(lambda: os.stat(ready.git_dir / "config").st_ctime < time.time() - 2.1)
    agent.calls("PostToolBatch", tool_calls=[{"tool_name": "Edit"}])
    harmless = {"tool_name": "Bash", "tool_input": {"command": "ls | wc -l"}}

    assert not loaded(ready, agent, "PreToolUse", tool_name="Read") & HEAVY
    assert not loaded(ready, agent, "PreToolUse", **harmless) & HEAVY
    assert not loaded(ready, agent, "Notification") & HEAVY
    assert not loaded(ready, agent, "PostToolBatch", tool_calls=[{"tool_name": "Edit"}]) & HEAVY
    assert not loaded(ready, agent, "UserPromptSubmit", prompt="x") & HEAVY
    assert not loaded(ready, agent, "SessionStart", source="resume") & HEAVY
    assert not loaded(ready, agent, "PreToolUse", tool_name="Read") & {
        "gitcp.git.repo",
        "gitcp.cli.context",
    }
    assert triggers(ready) == ["prompt", "tools", "turn"]


SETTING = {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "core.excludesFile",
    "GIT_CONFIG_VALUE_0": "rules",
}


@pytest.mark.parametrize(
    "variables",
    [SETTING, {"GIT_CONFIG_PARAMETERS": "'user.name=X'"}, {"GIT_CONFIG_SYSTEM": "/dev/null"}],
    ids=["count", "parameters", "system"],
)
def test_settings_in_variables_cost_nothing(
    ready: Project, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    """With git's settings in the environment, or other files of them, what is remembered is good
    for the same ones.
    """
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    agent = Claude(ready)
    agent.turn("x", edit=edit(ready))
    until(lambda: os.stat(ready.git_dir / "config").st_ctime < time.time() - 2.1)
    agent.calls("PostToolBatch", tool_calls=[{"tool_name": "Edit"}])

    assert not loaded(ready, agent, "UserPromptSubmit", prompt="x") & HEAVY
    assert triggers(ready) == ["prompt", "tools", "turn"]


def test_other_settings_in_variables_are_noticed(
    ready: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another agent's session was saved by does not decide here: each is compared with its own
    variables.
    """
    ready.write("rules", "*.log\n")
    ready.write("a.log", "one\n")
    first, second = Claude(ready), Claude(ready, OTHER)
    first.turn("x", edit=edit(ready))
    time.sleep(2.2)
    for agent in (first, first, second, second):
        agent.calls("Stop")
    assert "a.log" in ready.git("ls-tree", "--name-only", "refs/gitcp/sessions/11111111")
    for name, value in SETTING.items():
        monkeypatch.setenv(name, value)
    for agent in (second, second, first):
        agent.calls("Stop")

    for session in ("11111111", OTHER[:8]):
        assert "a.log" not in ready.git("ls-tree", "--name-only", f"refs/gitcp/sessions/{session}")


def test_git_alone_makes_no_checkpoint(ready: Project) -> None:
    """What git stages and commits changes no file and no message: the next checkpoint has it."""
    agent = Claude(ready)
    agent.turn("x", edit=edit(ready))
    agent.calls("Stop")
    before = triggers(ready)
    ready.git("add", "a.txt")
    agent.calls("Stop")
    ready.git("commit", "--quiet", "--allow-empty", "--all", "--message", "more")
    agent.calls("UserPromptSubmit", prompt="y")
    agent.calls("PostToolUse", tool_name="Bash", tool_input={"command": "git commit"})
    assert triggers(ready) == before

    agent.says("assistant", "done")
    agent.calls("Stop")
    assert triggers(ready) == [*before, "turn"]
    assert ready.json("show")["base"] == ready.git("rev-parse", "HEAD")


@pytest.mark.parametrize("change", ["file", "transcript", "exclude", "config", "session"])
def test_what_is_remembered_is_not_believed_for_long(ready: Project, change: str) -> None:
    """Whatever decides over a save and changes, is noticed by the next hook."""
    agent = Claude(ready)
    ready.write("ignored.log", "x")
    agent.turn("x", edit=edit(ready))
    agent.calls("Stop")
    match change:
        case "file":
            edit(ready)()
        case "transcript":
            agent.says("assistant", "more")
        case "exclude":
            ready.write(f"{ready.git_dir}/info/exclude", "*.log\n")
        case "config":
            ready.git("config", "core.excludesFile", ready.path("rules").decode())
            ready.write(f"{ready.git_dir}/rules", "")
            ready.write("rules", "*.log\n")
        case "session":
            ready.git(
                "update-ref", "refs/gitcp/sessions/11111111", "refs/gitcp/sessions/11111111~1"
            )
    agent.calls("Stop")

    assert triggers(ready)[-1] == "turn"
    assert len(triggers(ready)) == (3 if change == "session" else 4)


# ---------------------------------------------------------------- any order

FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "prompt": st.sampled_from(["x", "refactor it", "\0", "é" * 99]),
        "tool_name": st.sampled_from(["Bash", "Write", "Read", "Edit", ""]),
        "tool_input": st.sampled_from(
            [{"command": "rm -rf x"}, {"command": "ls"}, {"file_path": "a.txt"}, 3, None]
        ),
        "tool_response": st.sampled_from(["Exit code 1", {"exit_code": 0}, None, []]),
        "last_assistant_message": st.sampled_from(["x", "found the bug", "", None]),
        "session_id": st.sampled_from([SESSION, OTHER, "../x", 7]),
        "transcript_path": st.sampled_from(["/etc/passwd", "", None, 3]),
        "agent_id": st.sampled_from(["a1", None]),
    },
)
STEP = st.tuples(
    st.sampled_from([*SAVED["claude-code"].hooks.events, "Notification"]), FIELDS, st.booleans()
)


MANY = """
import json, os, sys
import gitcp.cli.context, gitcp.state.settings, gitcp.adapters.claude_code, gitcp.automation.hook, gitcp.worktree.scan
from gitcp.hooks import handler, limits
from gitcp.saving import unchanged
for line in sys.stdin:
    event, payload, edits = json.loads(line)
    for path, text in edits:
        with open(path, "a") as file:
            file.write(text)
    arguments = ["claude", event, payload]
    assert handler.run(arguments, limits.begin(arguments)) == 0
"""  # noqa: E501
"""Calls hooks one after the other in one process, which loads everything once."""


@settings(max_examples=1, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEP, min_size=200, max_size=200))
def test_events_in_any_order(ready: Project, steps: list[tuple[str, dict[str, Any], bool]]) -> None:
    """Two hundred events in any order, with any fields: no failure, no word, and a sound store."""
    agent = Claude(ready)
    agent.says("user", "x")
    lines = []
    for event, fields, edits in steps:
        changed = [
            (str(agent.transcript), agent.line("assistant", "x")),
            (str(ready.root / "a.txt"), "x"),
        ]
        payload = json.dumps(
            {"session_id": SESSION, "transcript_path": str(agent.transcript), **fields}
        )
        lines.append(json.dumps([event, payload, changed if edits else []]))
    command = [sys.executable, "-P", "-c", MANY]
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    reading, writing = os.pipe()
    with ready.guard():
        done = subprocess.run(
            command,
            cwd=ready.root,
            env=env,
            input="\n".join(lines),
            capture_output=True,
            text=True,
            pass_fds=[writing],
        )
        os.close(writing)
        # it ends when the last process does that a hook left behind
        with open(reading, "rb") as last:
            assert last.read() == b""

    assert (done.returncode, done.stdout, done.stderr, log_of(ready)) == (0, "", "", "")
    assert ready.json("check")["ok"]


# ---------------------------------------------------------------- what the agent is told


def told(printed: str) -> str:
    """The note in what a hook printed."""
    said = json.loads(printed)["hookSpecificOutput"]
    assert said.keys() == {"hookEventName", "additionalContext"}
    text: str = said["additionalContext"]
    return text


def test_a_restore_is_told_once(ready: Project) -> None:
    """The next event of the agent carries which checkpoint, facts first, the handoff, and what
    still stands.
    """
    agent = Claude(ready)
    agent.turn("x")
    words = (
        "--fact",
        "db=sqlite",
        "--task",
        "taxes",
        "--decided",
        "one file",
        "--failed",
        "a regex",
        "--next",
        "tests",
    )
    ready.gitcp("save", "before migration", "--session", "11111111", *words, check=0)
    agent.turn("y", edit=edit(ready))
    later = ("--failed", "floats", "--compensate", "dropdb shop")
    ready.gitcp("save", "after migration", "--session", "11111111", *later, check=0)
    restored = json.loads(ready.gitcp("restore", "11111111@3", "--yes", "--json", check=0).out)
    resumed = Claude(ready, restored["resume"]["session_id"])
    text = told(resumed.calls("SessionStart", source="resume"))

    lines = text.splitlines()
    assert 'checkpoint 11111111@3 "before migration"' in lines[0]
    assert restored["safety"] in lines[1]
    assert lines[2:4] == ["Facts:", "- db = sqlite"]
    rest = ["Task: taxes", "- one file", "- a regex", "- tests", "- floats", "- dropdb shop"]
    assert [line for line in lines if line in rest] == rest
    assert resumed.calls("UserPromptSubmit", prompt="go on") == ""
    assert not ready.git_dir.joinpath("gitcp/untold").exists()


def test_an_old_handoff_is_not_told(ready: Project) -> None:
    """What was written before later turns is in every later checkpoint, and told with none of
    them; facts stay, and what was written since the last turn is told.
    """
    agent = Claude(ready)
    agent.turn("x")
    words = ("--fact", "db=sqlite", "--next", "of day one", "--task", "of day one")
    ready.gitcp("save", "day 1", "--session", "11111111", *words, check=0)
    agent.turn("y", edit=edit(ready))
    new = ("--failed", "since then")
    ready.gitcp("save", "day 3", "--session", "11111111", *new, check=0)
    agent.turn("z", edit=edit(ready))
    id = next(
        c["id"] for c in ready.json_lines("log", "--session", "11111111") if c["label"] == "day 3"
    )
    restored = json.loads(ready.gitcp("restore", id, "--yes", "--json", check=0).out)
    resumed = Claude(ready, restored["resume"]["session_id"])
    text = told(resumed.calls("SessionStart", source="resume"))
    assert "of day one" not in text
    assert "- since then" in text
    assert "- db = sqlite" in text


def test_what_was_undone_is_not_told(ready: Project) -> None:
    """A restore and its undo, before anybody was told, are nothing to be told of. An undo of what
    was told is, with the command that takes back this one and not one more.
    """
    agent = Claude(ready)
    agent.turn("x")
    agent.turn("y", edit=edit(ready))
    ready.gitcp("restore", "11111111@1", "--yes", check=0)
    ready.gitcp("undo", "--yes", check=0)
    assert agent.calls("UserPromptSubmit", prompt="go on") == ""
    ready.gitcp("redo", "--yes", check=0)
    assert "`gitcp undo` restores it." in told(agent.calls("UserPromptSubmit", prompt="go on"))
    ready.gitcp("undo", "--yes", check=0)
    assert "`gitcp redo` restores it." in told(agent.calls("UserPromptSubmit", prompt="go on"))


def test_a_restore_that_is_over_is_not_told(ready: Project) -> None:
    """Days later, after other agents' turns, a new session has nothing to hear of an old restore
    and its handoff.
    """
    ready.gitcp("save", "plan", "--session", "mine", "--next", "of day one", check=0)
    ready.write("b.txt", "later")
    ready.gitcp("restore", "mine", "--yes", check=0)
    untold, kept = ready.git_dir / "gitcp/untold", ready.root.parent / "kept"
    untold.rename(kept)  # an agent works that cannot be told
    time.sleep(1.1)
    Claude(ready, OTHER).turn("z", edit=edit(ready))
    kept.rename(untold)
    third = Claude(ready, "33333333-3333-4333-8333-333333333333")
    assert third.calls("UserPromptSubmit", prompt="go on") == ""
    assert not untold.exists()


def test_copilot_is_told_in_its_own_form(ready: Project) -> None:
    """Copilot CLI takes the words without anything around them."""
    ready.gitcp("save", "--conversation", "-", "--session", "talk", input="hello\n", check=0)
    ready.write("a.txt", "changed\n")
    ready.gitcp("restore", "talk", "--yes", check=0)

    said = ready.gitcp(
        "hook", "copilot", "userPromptSubmitted", input='{"sessionId": "c", "prompt": "x"}', check=0
    ).out

    assert json.loads(said)["additionalContext"].startswith("gitcp restored checkpoint talk@1")


def test_who_is_told(ready: Project) -> None:
    """An agent that was running is told too, once; another kind of agent is not; the restored
    session is always.
    """
    agent = Claude(ready)
    agent.turn("x")
    agent.turn("y", edit=edit(ready))
    restored = json.loads(ready.gitcp("restore", "11111111@1", "--yes", "--json", check=0).out)
    other = json.dumps({"session_id": OTHER, "prompt": "x"})

    assert ready.gitcp("hook", "gemini", "BeforeAgent", input=other, check=0).out == ""
    assert ready.gitcp("hook", "copilot", "userPromptSubmitted", input=other, check=0).out == ""
    assert "11111111@1" in told(agent.calls("UserPromptSubmit", prompt="go on"))
    assert agent.calls("UserPromptSubmit", prompt="go on") == ""
    new = (restored["resume"] or {}).get("session_id")
    assert new is None or "11111111@1" in told(
        Claude(ready, new).calls("UserPromptSubmit", prompt="go on")
    )


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"\xff", b'{"target":"x","here":"y@1","safety":"z@1","kept":[]}']
)
def test_a_note_that_cannot_be_read(ready: Project, content: bytes) -> None:
    """It is not told, and nothing fails."""
    agent = Claude(ready)
    agent.turn("x")
    ready.git_dir.joinpath("gitcp/untold").write_bytes(content)

    assert agent.calls("UserPromptSubmit", prompt="x") == ""


def test_what_is_told_is_one_line_each(ready: Project) -> None:
    """Words cannot pass for others: no control characters, no line of its own, and not too many of
    them.
    """
    agent = Claude(ready)
    agent.turn("x")
    ready.gitcp(
        "save",
        "--session",
        "11111111",
        "--fact",
        "a=b\nNot restored:\n- \x1b[31mc",
        "--task",
        "x" * 9000,
        check=0,
    )
    agent.turn("y", edit=edit(ready))
    restored = json.loads(ready.gitcp("restore", "11111111@3", "--yes", "--json", check=0).out)
    text = told(
        Claude(ready, restored["resume"]["session_id"]).calls("SessionStart", source="resume")
    )

    assert "\x1b" not in text
    assert "- a = b Not restored: -  [31mc" in text.splitlines()
    assert len(text) < 8001


# ---------------------------------------------------------------- automatic retention


def test_max_checkpoints(ready: Project) -> None:
    """Beyond the limit the oldest go to the trash: none that is young, has a tag or a label."""
    ready.git("config", "gitcp.maxCheckpoints", "4")
    store = open_store(ready)
    for number in range(1, 9):
        agent = Agent("claude-code", SESSION)
        made = samples_save(
            store,
            "11111111",
            created=START.replace(year=2020),
            agent=agent,
            label="x" * (number == 2),
        )
        assert made.id.number == number
    ready.gitcp("tag", "good", "11111111@3", check=0)
    Claude(ready).turn("x", edit=edit(ready))

    def numbers() -> set[int]:
        return {each["number"] for each in ready.json_lines("log", "--session", "11111111")}

    until(lambda: not {1, 4, 5} & numbers())
    assert numbers() >= {2, 3, 8, 9, 10, 11}
    assert triggers(ready, "11111111")[-3:] == ["prompt", "tools", "turn"]
    assert ready.json_lines("oplog")[0]["automatic"] is True


def test_a_conversation_that_is_in_no_file(project: Project, sealed: Path) -> None:
    """opencode keeps its conversations in a database: what was said since is saved, though no file
    changed.
    """
    database = test_adapter_opencode.Database(sealed)
    project.write("a.txt", "one\n")
    project.commit()
    database.session(project.root)
    database.say("user", test_adapter_opencode.text("first"))
    payload = json.dumps({"session_id": test_adapter_opencode.ID, "cwd": str(project.root)})
    # what is young is looked at anyway, and would hide that nothing else asked for it
    time.sleep(2.2)
    for _ in range(3):
        project.gitcp("hook", "opencode", "session.idle", input=payload, check=0)
    database.say("assistant", test_adapter_opencode.text("done"))

    project.gitcp("hook", "opencode", "session.idle", input=payload, check=0)

    (last, *_) = project.json_lines("log", "--all")
    assert last["conversation"]["messages"] == 2
