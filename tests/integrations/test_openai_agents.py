"""The OpenAI Agents SDK with its sessions kept as checkpoints: real runs of it, with a model that
follows a script.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from agents import Agent, Model, ModelResponse, Runner, SQLiteSession, Usage, function_tool
from agents.memory import OpenAIResponsesCompactionSession, Session, SessionSettings
from agents.run import RunConfig
from agents.testing import ScriptedModel
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from gitcp import installed
from gitcp.errors import BadValue, Refused, RevisionNotFound
from gitcp.integrations.thread import Thread
from gitcp.openai_agents import GitSession, SessionClosed

from driver import Project


class Scripted(Model):
    """Writes a file by a tool each time something is asked, then says that it is done."""

    def __init__(self) -> None:
        self.heard: list[list[Any]] = []

    async def get_response(
        self, system_instructions: Any, input: Any, *args: Any, **given: Any
    ) -> ModelResponse:
        self.heard.append(list(input))
        output: Any
        if input[-1].get("type") == "function_call_output":
            text = ResponseOutputText(text="Done.", type="output_text", annotations=[])
            output = ResponseOutputMessage(
                id="m", content=[text], role="assistant", status="completed", type="message"
            )
        else:
            arguments = json.dumps({"text": input[-1]["content"]})
            output = ResponseFunctionToolCall(
                call_id=f"c{len(self.heard)}",
                name="write",
                arguments=arguments,
                type="function_call",
            )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **given: Any) -> Any:
        raise NotImplementedError


@pytest.fixture
def session(project: Project) -> GitSession:
    """A session in a repository with one commit."""
    project.write("a.txt", "one\n")
    project.commit()
    return GitSession("chat 42", project.root)


def ask(project: Project, session: Session, *prompts: str) -> Scripted:
    """Run an agent that writes what it is asked into `a.txt`."""

    @function_tool
    def write(text: str) -> str:
        project.write("a.txt", text)
        return "written"

    model = Scripted()
    agent = Agent(name="writer", model=model, tools=[write])
    for prompt in prompts:
        asyncio.run(
            Runner.run(agent, prompt, session=session, run_config=RunConfig(tracing_disabled=True))
        )
    return model


def test_a_run_is_saved_with_its_files(project: Project, session: GitSession) -> None:
    """What the SDK keeps is what its own session keeps; each checkpoint has the files; all commands
    read it.
    """
    theirs = SQLiteSession("chat 42")
    with project.guard():
        model = ask(project, session, "first", "second")
    ask(project, theirs, "first", "second")

    assert asyncio.run(session.get_items()) == asyncio.run(theirs.get_items())
    assert [item.get("content") for item in model.heard[2] if item.get("role") == "user"] == [
        "first",
        "second",
    ]
    shown = session.checkpoints.show()
    assert shown.conversation is not None
    assert shown.conversation.digest.last_prompt == "second"
    assert (shown.agent and shown.agent.name, shown.agent and shown.agent.session_id) == (
        "openai-agents",
        "chat 42",
    )
    assert session.checkpoints.file("@", "a.txt") == b"second"
    assert "first" in project.gitcp("show", "--conversation", check=0).out
    project.gitcp("check", check=0)


def test_settings(project: Project, session: GitSession) -> None:
    """Settings are the SDK's: a mapping becomes them, none are the default, a wrong one is
    refused.
    """
    assert session.session_settings == SessionSettings()
    limited = GitSession("chat", project.root, session_settings={"limit": 1})
    items: Any = [{"role": "user", "content": str(n)} for n in range(3)]

    asyncio.run(limited.add_items(items))

    assert limited.session_settings == SessionSettings(limit=1)
    assert asyncio.run(limited.get_items()) == items[2:]
    with pytest.raises(TypeError):
        GitSession("chat", project.root, session_settings={"limitt": 1})


def test_close(session: GitSession) -> None:
    """A closed session is refused, as the SDK's own; what it saved stays."""
    items: Any = [{"role": "user", "content": "hello"}]
    asyncio.run(session.add_items(items))

    session.close()
    session.close()

    for closed in (session.get_items(), session.add_items([]), session.pop_item(), session.turns()):
        with pytest.raises(SessionClosed, match="GitSession is closed"):
            asyncio.run(closed)
    assert issubclass(SessionClosed, RuntimeError)
    again = GitSession("chat 42", session.checkpoints.path)
    assert asyncio.run(again.get_items()) == items


def test_cancelled_change(session: GitSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is cancelled during a change is told only when it is made, and so need not guess."""
    item: Any = {"role": "user", "content": "once"}
    begun, goes_on = threading.Event(), threading.Event()
    saved = Thread.change

    def slow(*args: Any, **given: Any) -> Any:
        begun.set()
        assert goes_on.wait(10)
        return saved(*args, **given)

    async def cancelled() -> list[Any]:
        monkeypatch.setattr(Thread, "change", slow)
        adding = asyncio.create_task(session.add_items([item]))
        await asyncio.to_thread(begun.wait, 10)
        for _ in range(2):
            adding.cancel()
            await asyncio.sleep(0)
        assert not adding.done()
        goes_on.set()
        with pytest.raises(asyncio.CancelledError):
            await adding
        return await session.get_items()

    assert asyncio.run(cancelled()) == [item]


@pytest.mark.parametrize("late", [False, True])
def test_compaction(session: GitSession, late: bool) -> None:
    """The SDK's automatic compaction replaces the end of a longer history, all at once; if
    somebody adds an item meanwhile, nothing is replaced.
    """
    items: Any = [{"role": "user", "content": str(n)} for n in range(4)]
    summary = {"type": "compaction", "id": "c", "encrypted_content": "summary"}
    extra: Any = {"role": "user", "content": "late"}

    class Responses:
        """The API, which summarizes everything in one item."""

        async def compact(self, **_given: Any) -> Any:
            if late:
                await session.add_items([extra])
            return SimpleNamespace(output=[summary])

    async def run() -> list[Any]:
        await session.add_items(items)
        compacting = OpenAIResponsesCompactionSession(
            "chat 42",
            session,
            client=cast("Any", SimpleNamespace(responses=Responses())),
            compaction_mode="input",
            should_trigger_compaction=lambda _: True,
        )
        settings = RunConfig(tracing_disabled=True, session_settings=SessionSettings(limit=1))
        done = ResponseOutputText(text="Done.", type="output_text", annotations=[])
        message = ResponseOutputMessage(
            id="m", content=[done], role="assistant", status="completed", type="message"
        )
        agent = Agent(name="worker", model=ScriptedModel(steps=[[message]]))
        await Runner.run(agent, "go on", session=compacting, run_config=settings)
        return await session.get_items()

    left = asyncio.run(run())

    assert left[:3] == items[:3]
    assert (left[3:] == [summary]) is not late
    assert (left[-1] == extra) is late


def test_protocol(session: GitSession) -> None:
    """Limits, popping and clearing are as in the SDK's own session; nothing is lost from earlier
    checkpoints.
    """
    items: Any = [{"role": "user", "content": f"{n} \u2028 ü"} for n in range(5)]

    async def both(each: Any) -> list[Any]:
        seen = [await each.get_items(), await each.pop_item()]
        await each.add_items(items[:3])
        await each.add_items([])
        await each.add_items(items[3:])
        seen += [await each.get_items(limit=limit) for limit in (None, 0, 2, 9, -1)]
        each.session_settings = SessionSettings(limit=3)
        seen += [
            await each.get_items(),
            await each.get_items(limit=1),
            await each.pop_item(),
            await each.get_items(),
        ]
        await each.clear_session()
        return [*seen, await each.get_items(), await each.pop_item()]

    assert isinstance(session, Session)
    assert asyncio.run(both(session)) == asyncio.run(both(SQLiteSession("x")))
    before = session.checkpoints.conversation("@~2", session=session.name)
    assert before.count(b"\n") == 5


def test_branch_before_a_turn(project: Project, session: GitSession) -> None:
    """A branch knows the turns before, its files are those of when the turn came, and both go on
    apart.
    """
    ask(project, session, "first")
    project.write("notes.txt", "by hand\n")
    ask(project, session, "second")
    whole = asyncio.run(session.get_items())

    branch = asyncio.run(session.create_branch_from_turn(2, files=True))

    assert project.read("a.txt") == b"first"
    assert project.read("notes.txt") == b"by hand\n"
    model = ask(project, session, "another way")
    assert [item.get("content") for item in model.heard[0] if item.get("role") == "user"] == [
        "first",
        "another way",
    ]
    assert asyncio.run(session.turns()) == [
        {"turn": 1, "content": "first"},
        {"turn": 2, "content": "another way"},
    ]
    asyncio.run(session.switch_to_branch("main", files=True))
    assert (project.read("a.txt"), asyncio.run(session.get_items())) == (b"second", whole)
    listed = asyncio.run(session.list_branches())
    assert [(one["branch_id"], one["user_turns"], one["is_current"]) for one in listed] == [
        ("main", 2, True),
        (branch, 2, False),
    ]
    forked = [
        s.trailers.get("Gitcp-Forked-From", "")
        for s in session.checkpoints.log(f"{session.name}+{branch}")
    ]
    assert sum(each.startswith(f"{session.name}@") for each in forked) == 1
    project.gitcp("check", check=0)


def test_branch_inside_of_what_was_added_at_once(project: Project, session: GitSession) -> None:
    """A history that was given as a whole can branch before any of its turns."""
    history: Any = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}] * 2
    asyncio.run(session.add_items(history))

    asyncio.run(session.create_branch_from_turn(2, "other"))
    assert asyncio.run(session.get_items()) == history[:2]
    asyncio.run(session.switch_to_branch("main"))
    asyncio.run(session.create_branch_from_turn(1, "empty"))

    assert asyncio.run(session.get_items()) == []
    assert (
        asyncio.run(GitSession("chat 42", project.root, branch="other").get_items()) == history[:2]
    )


def test_branches_that_cannot_be(session: GitSession) -> None:
    """A turn or branch that is not there, one that is up to date, and a bad name are said."""
    asyncio.run(session.add_items([{"role": "user", "content": "a"}]))
    asyncio.run(session.create_branch_from_turn(1, "other"))
    asyncio.run(session.switch_to_branch("main"))
    before = session.checkpoints.sessions()
    for error, attempt in (
        (RevisionNotFound, session.create_branch_from_turn(2)),
        (RevisionNotFound, session.create_branch_from_turn(0)),
        (Refused, session.create_branch_from_turn(1, "other")),
        (BadValue, session.create_branch_from_turn(1, "a b")),
        (BadValue, session.create_branch_from_turn(1, "a+b")),
        (RevisionNotFound, session.switch_to_branch("nowhere")),
    ):
        with pytest.raises(error):
            asyncio.run(attempt)

    assert (session.branch, session.checkpoints.sessions()) == ("main", before)


@pytest.mark.parametrize(
    "name", ["chat-42", "a/b", "ü", "", "..", "x" * 300, "a+b", "-rf", "x.lock", "a\0b"]
)
def test_any_session_id(project: Project, name: str) -> None:
    """An id may be any text, and those that look alike are apart."""
    for each in (name, name + " "):
        asyncio.run(GitSession(each, project.root).add_items([{"role": "user", "content": each}]))

    for each in (name, name + " "):
        (item,) = asyncio.run(GitSession(each, project.root).get_items())
        assert item["content"] == each  # type: ignore[typeddict-item]


def test_missing_extra() -> None:
    """Without the SDK, the import says what to install."""
    program = "import sys; sys.modules['agents'] = None; import gitcp.openai_agents"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    wanted = f"agents: {installed.install_extra('openai')}"
    assert done.stderr.splitlines()[-1].endswith(wanted)
