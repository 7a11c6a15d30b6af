"""Pydantic AI with its steps kept in git: real agents with a model that is told what to answer, and
what the framework's own store says.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai_harness import StepPersistence
from pydantic_ai_harness.step_persistence import (
    ContinuableSnapshot,
    EventKind,
    InMemoryStepStore,
    RunRecord,
    SnapshotState,
    StepEvent,
    StepStore,
    ToolEffectRecord,
    continue_run,
)

from gitcp import installed
from gitcp.errors import OthersAffected, RevisionNotFound
from gitcp.pydantic_ai import GitStepStore

from driver import Project

TIME = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def store(project: Project) -> GitStepStore:
    """A store in a repository with one commit."""
    project.write("a.txt", "one\n")
    project.commit()
    return GitStepStore(project.root)


def event(kind: EventKind, key: str | None = None, run: str = "r1") -> StepEvent:
    return StepEvent(run_id=run, kind=kind, step_index=1, timestamp=TIME, idempotency_key=key)


def snapshot(text: str, state: SnapshotState = "complete", **fields: Any) -> ContinuableSnapshot:
    messages: list[ModelMessage] = [ModelRequest([UserPromptPart(text, timestamp=TIME)])]
    given: dict[str, Any] = {"run_id": "r1", "step_index": 1, "timestamp": TIME, **fields}
    return ContinuableSnapshot(messages=messages, state=state, **given)


async def told(store: StepStore) -> list[Any]:
    """What a store says after all that can be said to it."""
    for run, parent, conversation in (("r1", None, "c"), ("r/2", "r1", "c"), ("r1", None, "d")):
        record = RunRecord(run_id=run, parent_run_id=parent, conversation_id=conversation)
        record.started_at, record.metadata = TIME, {"a": "ü"}
        await store.register_run(record)
    seen: list[Any] = [await store.get_run(run_id=run) for run in ("r1", "r/2", "nope")]
    for filters in ({}, {"parent_run_id": "r1"}, {"conversation_id": "d"}):
        seen.append([run.run_id for run in await store.list_runs(**filters)])
    for said in (
        event("run_started", "0"),
        event("run_started", "0"),
        event("tool_call_failed"),
        event("tool_call_failed"),
        event("run_failed", "1", run="r/2"),
        event("model_request_started", "2"),
        event("model_request_started", "2"),
    ):
        await store.append_event(said)
    seen += [await store.list_events(run_id=run) for run in ("r1", "r/2", "nope")]
    for status in ("started", "completed", "started"):
        for call in ("t1", "t2") if status == "started" else ("t1",):
            effect = ToolEffectRecord(
                tool_call_id=call, tool_name="w", run_id="r1", status="started", started_at=TIME
            )
            if status == "completed":
                effect.status, effect.ended_at = "completed", TIME
            await store.record_tool_effect(effect)
            seen.append(await store.get_tool_effect(run_id="r1", tool_call_id=call))
            seen.append(await store.list_unresolved_tool_effects(run_id="r1"))
    seen.append(await store.get_tool_effect(run_id="r/2", tool_call_id="t1"))
    for each in (
        snapshot("one", idempotency_key="0:1"),
        snapshot("again", idempotency_key="0:1"),
        snapshot("half", "interrupted", idempotency_key="2:1"),
        snapshot("late", idempotency_key="1:1"),
        snapshot("other", run_id="r/2", parent_run_id="r1"),
        snapshot("whole", idempotency_key="2:2"),
        snapshot("no key"),
    ):
        await store.save_snapshot(each)
        for run in ("r1", "r/2"):
            seen.append(await store.latest_snapshot(run_id=run))
            seen.append(await store.latest_snapshot(run_id=run, include_interrupted=True))
    return [*seen, await store.list_events(run_id="r1")]


def test_as_in_memory(project: Project, store: GitStepStore) -> None:
    """Runs, events, effects and snapshots: what the framework's own store says, this one says, and
    another one that opens it later.
    """
    with project.guard():
        ours = asyncio.run(told(store))

    assert ours == asyncio.run(told(InMemoryStepStore()))
    later = GitStepStore(project.root)
    assert asyncio.run(later.latest_snapshot(run_id="r1")) == ours[-5]
    assert asyncio.run(later.list_events(run_id="r1")) == ours[-1]
    project.gitcp("check", check=0)


def agent_of(project: Project, store: GitStepStore, calls: list[str]) -> Agent[None, str]:
    """An agent that writes each of `calls` into a file, by one call of a tool after the other; the
    tool fails at "boom", after it wrote.
    """

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        done = sum(isinstance(part, ToolCallPart) for each in messages for part in each.parts)
        if done == len(calls):
            return ModelResponse([TextPart("done")])
        return ModelResponse([ToolCallPart("write", {"text": calls[done]})])

    agent = Agent(FunctionModel(answer), capabilities=[StepPersistence(store=store)])

    @agent.tool_plain
    def write(text: str) -> str:
        project.write("a.txt", f"{text}\n")
        if text == "boom":
            raise OSError(text)
        return f"wrote {text}"

    return agent


def test_run_goes_on_after_a_failure(project: Project, store: GitStepStore) -> None:
    """A tool fails with the file half done: files and messages of the last whole step return, and
    the run continues from there; what a person did meanwhile stays.
    """
    with pytest.raises(OSError, match="boom"):
        asyncio.run(agent_of(project, store, ["two", "boom"]).run("go", conversation_id="c"))
    assert project.read("a.txt") == b"boom\n"
    project.write("mine.txt", "mine\n")

    async def resumed() -> str:
        later = GitStepStore(project.root)
        (run,) = await later.list_runs(conversation_id="c")
        assert [e.kind for e in await later.list_events(run_id=run.run_id)][-1] == "run_failed"
        await later.restore(run_id=run.run_id)
        assert project.read("a.txt") == b"two\n"
        history = await continue_run(later, run_id=run.run_id)
        again = agent_of(project, later, ["two", "three"])
        return (await again.run("go on", message_history=history, conversation_id="c")).output

    with project.guard():
        assert asyncio.run(resumed()) == "done"
    assert (project.read("a.txt"), project.read("mine.txt")) == (b"three\n", b"mine\n")
    shown = project.gitcp("show", "--conversation", check=0).out
    assert shown.index("go on") < shown.index("done")


def test_restore(project: Project, store: GitStepStore) -> None:
    """The files of a step, of a run that is not the last one; a step or run that is not there, and
    lines that somebody else changed, are refused, and nothing changes.
    """
    asyncio.run(agent_of(project, store, ["two", "three"]).run("go"))
    (run,) = asyncio.run(store.list_runs())
    steps = [
        int(contents.checkpoint.note.position["step"])
        for contents in store.thread.history()
        if contents.checkpoint and "step" in contents.checkpoint.note.position
    ]

    asyncio.run(store.restore(run_id=run.run_id, step_index=min(steps)))
    assert project.read("a.txt") == b"two\n"
    asyncio.run(store.restore(run_id=run.run_id))
    assert project.read("a.txt") == b"three\n"

    for wrong in ({"run_id": "nope"}, {"run_id": run.run_id, "step_index": 99}):
        with pytest.raises(RevisionNotFound, match="has no snapshot"):
            asyncio.run(store.restore(**wrong))
    project.write("a.txt", "mine\n")
    project.gitcp("save", "--session", "me", check=0)
    with pytest.raises(OthersAffected):
        asyncio.run(store.restore(run_id=run.run_id, step_index=min(steps)))
    assert project.read("a.txt") == b"mine\n"


def test_going_back_takes_the_records_along(project: Project, store: GitStepStore) -> None:
    """A restore of the session brings files and records of that moment."""
    asyncio.run(agent_of(project, store, ["two"]).run("first", conversation_id="c"))
    tip = store.checkpoints.log()[0].id
    asyncio.run(agent_of(project, store, ["three"]).run("second", conversation_id="c"))
    assert len(asyncio.run(store.list_runs())) == 2

    store.checkpoints.restore(str(tip))

    assert project.read("a.txt") == b"two\n"
    (run,) = asyncio.run(store.list_runs())
    assert len(asyncio.run(continue_run(store, run_id=run.run_id))) == 4


def test_runs_side_by_side(project: Project, store: GitStepStore) -> None:
    """Runs of one store at the same time lose no record."""

    async def both() -> None:
        agents = [agent_of(project, store, [name, name]) for name in ("a", "b", "c")]
        await asyncio.gather(*(agent.run("go", conversation_id="c") for agent in agents))

    asyncio.run(both())

    runs = asyncio.run(store.list_runs(conversation_id="c"))
    assert len(runs) == 3
    for run in runs:
        kinds = [each.kind for each in asyncio.run(store.list_events(run_id=run.run_id))]
        assert (kinds[0], kinds[-1], len(kinds)) == ("run_started", "run_completed", 12)
        assert asyncio.run(store.list_unresolved_tool_effects(run_id=run.run_id)) == []


def test_missing_extra() -> None:
    """Without the framework, the import says what to install."""
    program = "import sys; sys.modules['pydantic_ai_harness'] = None; import gitcp.pydantic_ai"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.stderr.splitlines()[-1].endswith(installed.install_extra("pydantic-ai"))
