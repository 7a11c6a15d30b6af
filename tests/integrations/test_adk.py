"""Google's Agent Development Kit with its sessions kept in git: a real runner, and what its own
services say.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import warnings
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its own
    from google.adk.agents import LlmAgent
    from google.adk.errors._stale_session_error import StaleSessionError
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.errors.session_not_found_error import SessionNotFoundError
    from google.adk.events import Event, EventActions
    from google.adk.models import BaseLlm
    from google.adk.models.llm_response import LlmResponse
    from google.adk.runners import Runner
    from google.adk.sessions import InMemorySessionService
    from google.adk.sessions.base_session_service import GetSessionConfig
    from google.genai import types

    from gitcp.adk import GitSessionService

from gitcp import installed
from gitcp.errors import BadValue

from driver import Project

pytestmark = pytest.mark.filterwarnings("default")

ALICE: Any = {"app_name": "shop", "user_id": "alice"}


class Scripted(BaseLlm):
    """A model that writes a file by a tool, and then says so."""

    async def generate_content_async(
        self, request: Any, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        last = request.contents[-1].parts[-1]
        if last.function_response:
            part = types.Part(text=f"done: {last.function_response.response['result']}")
        else:
            part = types.Part(
                function_call=types.FunctionCall(name="write", args={"text": last.text})
            )
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def event(number: int, text: str = "", **delta: Any) -> Event:
    """An event with a text and a change of state."""
    content = types.Content(role="user", parts=[types.Part(text=text)])
    actions = EventActions(state_delta=delta)
    return Event(
        id=f"e{number}",
        author="user",
        timestamp=float(1 << 33) + number,
        content=content,
        actions=actions,
    )


def texts(events: list[Event]) -> list[str]:
    """What is said in events."""
    contents = [each.content for each in events if each.content]
    return [part.text for content in contents for part in content.parts or () if part.text]


def said(session: Any) -> Any:
    """All of a session but when it was used last."""
    return (
        None if session is None else session.model_dump(exclude={"last_update_time"}, mode="json")
    )


@pytest.fixture
def service(project: Project) -> GitSessionService:
    """A service in a repository with one commit."""
    project.write("a.txt", "begin")
    project.commit()
    return GitSessionService(project.root)


def test_a_runner(project: Project, service: GitSessionService) -> None:
    """A real agent edits a file in each turn; restored, file and session are those of the first,
    and it goes on.
    """

    def write(text: str) -> str:
        """Write the file."""
        project.write("a.txt", text)
        return text

    agent = LlmAgent(name="writer", model=Scripted(model="scripted"), tools=[write])

    async def turn(text: str) -> list[str]:
        runner = Runner(app_name="shop", agent=agent, session_service=service)
        await service.get_session(**ALICE, session_id="s") or await service.create_session(
            **ALICE, session_id="s"
        )
        message = types.Content(role="user", parts=[types.Part(text=text)])
        events = [
            each
            async for each in runner.run_async(user_id="alice", session_id="s", new_message=message)
        ]
        return texts(events)

    with project.guard():
        assert asyncio.run(turn("one")) == ["done: one"]
    (name,) = [each["session"] for each in project.json_lines("sessions")]
    after_one = project.json("show", name)
    assert asyncio.run(turn("two")) == ["done: two"]
    assert project.root.joinpath("a.txt").read_text() == "two"
    assert after_one["agent"]["name"] == "google-adk"
    assert (
        "done: one" in project.gitcp("show", name, check=0).out
        or after_one["conversation"]["messages"] >= 4
    )

    project.gitcp("restore", after_one["id"], "--yes", check=0)
    assert project.root.joinpath("a.txt").read_text() == "one"
    session = asyncio.run(service.get_session(**ALICE, session_id="s"))
    assert session is not None
    assert texts(session.events) == ["one", "done: one"]
    assert asyncio.run(turn("three")) == ["done: three"]
    assert project.json("check")["ok"]


def test_as_in_memory(project: Project, service: GitSessionService) -> None:
    """Creating, appending, reading, listing, deleting: what ADK's own service says, this one
    says.
    """

    async def told(each: Any) -> list[Any]:
        seen = []
        state: Any = {"n": 0, "app:theme": "dark", "user:name": "Alice", "temp:x": 1}
        one = await each.create_session(**ALICE, session_id=" s/1 ", state=state)
        other = await each.create_session(app_name="shop", user_id="bob", session_id="s/1")
        with pytest.raises(AlreadyExistsError):
            await each.create_session(**ALICE, session_id="s/1")
        deltas: list[Any] = [{"n": 1}, {"user:name": "A", "temp:y": 2}, {"app:theme": "light"}, {}]
        for number, delta in enumerate(deltas, 1):
            await each.append_event(one, event(number, f"é\n{number}", **delta))
        await each.append_event(one, one.events[-1])
        await each.append_event(one, Event(author="user", partial=True))
        await each.append_event(other, event(9))
        seen += [said(one), said(other)]
        for recent, after in (
            (None, None),
            (2, None),
            (0, None),
            (None, event(3).timestamp),
            (None, 1e12),
        ):
            config = GetSessionConfig(num_recent_events=recent, after_timestamp=after)
            seen.append(said(await each.get_session(**ALICE, session_id="s/1", config=config)))
        seen.append([said(s) for s in (await each.list_sessions(app_name="shop")).sessions])
        seen.append([said(s) for s in (await each.list_sessions(**ALICE)).sessions])
        seen.append(await each.get_user_state(**ALICE))
        for _ in range(2):
            await each.delete_session(**ALICE, session_id="s/1")
        seen.append(said(await each.get_session(**ALICE, session_id="s/1")))
        seen.append([said(s) for s in (await each.list_sessions(app_name="shop")).sessions])
        with pytest.raises(SessionNotFoundError):
            await each.append_event(one, event(10))
        return seen

    with project.guard():
        ours = asyncio.run(told(service))
    assert ours == asyncio.run(told(InMemorySessionService()))  # type: ignore[no-untyped-call,unused-ignore]
    assert project.json("check")["ok"]


def test_somebody_went_on(service: GitSessionService) -> None:
    """A session that another program went on with is not gone on with from what it was."""

    async def both() -> None:
        mine = await service.create_session(**ALICE, session_id="s")
        theirs = await service.get_session(**ALICE, session_id="s")
        assert theirs is not None
        await service.append_event(theirs, event(1))
        with pytest.raises(StaleSessionError):
            await service.append_event(mine, event(2))
        assert mine.events == []
        again = await service.get_session(**ALICE, session_id="s")
        assert again is not None
        await service.append_event(again, event(2))

    asyncio.run(both())
    found = asyncio.run(service.get_session(**ALICE, session_id="s"))
    assert found is not None
    assert [each.id for each in found.events] == ["e1", "e2"]


@pytest.mark.parametrize("id", ["é/../x", "-" + "a" * 300 + "\n\0", "refs/heads/main"])
def test_any_id(project: Project, service: GitSessionService, id: str) -> None:
    """Whatever ids an app has, its sessions are apart."""
    first: Any = {"app_name": id, "user_id": "a-b"}
    second: Any = {"app_name": f"{id}-a", "user_id": "b"}
    for names in (first, second):
        made = asyncio.run(service.create_session(**names, session_id=id, state=names))
        assert made.state == names
    assert asyncio.run(service.list_sessions(**first)).sessions[0].state == first
    project.gitcp("sessions", check=0)


def test_unserialisable(project: Project, service: GitSessionService) -> None:
    """State that JSON cannot hold is refused by name, and nothing is kept."""
    with pytest.raises(BadValue, match="as JSON"):
        asyncio.run(service.create_session(**ALICE, session_id="s", state={"call": object()}))
    assert project.json_lines("sessions") == []
    session = asyncio.run(service.create_session(**ALICE, session_id="s"))
    with pytest.raises(BadValue):
        asyncio.run(service.append_event(session, event(1, "", call=object())))
    found = asyncio.run(service.get_session(**ALICE, session_id="s"))
    assert found is not None
    assert found.events == []


def test_missing_extra(tmp_path: Path) -> None:
    """Without ADK, importing says what to install."""
    code = (
        "import sys; sys.modules['google.adk.errors._stale_session_error'] = None; import gitcp.adk"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert installed.install_extra("adk") in done.stderr
