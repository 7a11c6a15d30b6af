"""The Microsoft Agent Framework with its checkpoints kept in git: real workflows, resumed, and odd
input.
"""

from __future__ import annotations

import asyncio
import copy
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from agent_framework import (
    Executor,
    InMemoryCheckpointStorage,
    WorkflowBuilder,
    WorkflowCheckpoint,
    WorkflowCheckpointException,
    WorkflowContext,
    handler,
)

from gitcp import installed
from gitcp.agent_framework import GitCheckpointStorage

from driver import Project


@dataclass
class Order:
    """A type of the application's own."""

    number: int


@pytest.fixture
def storage(project: Project) -> GitCheckpointStorage:
    """A storage in a repository with one commit."""
    project.write("log.txt", "")
    project.commit()
    return GitCheckpointStorage(
        project.root, allowed_checkpoint_types=[f"{Order.__module__}:Order"]
    )


def checkpoint(name: str, number: int, **fields: Any) -> WorkflowCheckpoint:
    """A checkpoint of a workflow."""
    stamp = f"2026-01-01T00:00:0{number}+00:00"
    return WorkflowCheckpoint(
        name, "graph", f"{name}-{number}", timestamp=stamp, iteration_count=number, **fields
    )


def test_as_in_memory(project: Project, storage: GitCheckpointStorage) -> None:
    """Saving, replacing, listing, deleting: what the framework's own storage says, this one
    says.
    """

    async def told(each: Any) -> list[Any]:
        seen = []
        for name, number in (("a", 2), ("b", 1), ("a", 3), ("a", 1)):
            seen.append(await each.save(checkpoint(name, number, state={"n": number, "t": (1, 2)})))
        await each.save(checkpoint("a", 3, state={"again": Order(7)}))
        for name in ("a", "b", "none"):
            seen.append(await each.get_latest(workflow_name=name))
            seen.append(sorted(await each.list_checkpoint_ids(workflow_name=name)))
            found = await each.list_checkpoints(workflow_name=name)
            seen.append(sorted(found, key=lambda one: one.checkpoint_id))
        seen += [await each.load("a-3"), await each.delete("a-3"), await each.delete("a-3")]
        with pytest.raises(WorkflowCheckpointException):
            await each.load("a-3")
        return [*seen, await each.get_latest(workflow_name="a")]

    with project.guard():
        ours = asyncio.run(told(storage))

    assert ours == asyncio.run(told(InMemoryCheckpointStorage()))
    project.gitcp("check", check=0)


def test_what_could_not_be_read_back(storage: GitCheckpointStorage) -> None:
    """A value of a type that is not allowed, or that cannot be pickled, is refused when it is
    saved.
    """
    own = GitCheckpointStorage(storage.checkpoints.path)
    for value in (Order(1), lambda: None):
        with pytest.raises(WorkflowCheckpointException):
            asyncio.run(own.save(checkpoint("a", 1, state={"value": value})))

    assert own.checkpoints.sessions() == ()


class Writer(Executor):
    """Writes the number that it gets into a file, and sends the next one on."""

    def __init__(self, project: Project) -> None:
        super().__init__(id="writer")
        self.project = project

    @handler
    async def write(self, number: int, ctx: WorkflowContext[int, int]) -> None:
        """Once a super-step."""
        self.project.write("log.txt", self.project.read("log.txt") + b"%d\n" % number)
        if number < 4:
            await ctx.send_message(number + 1)
        else:
            await ctx.yield_output(number)


def workflow(project: Project, storage: GitCheckpointStorage) -> Any:
    """A workflow that counts to four."""
    writer = Writer(project)
    builder = WorkflowBuilder(
        start_executor=writer, name="count / up", checkpoint_storage=storage, output_from="all"
    )
    return builder.add_edge(writer, writer).build()


def test_a_workflow_goes_on_from_a_checkpoint_with_its_files(
    project: Project, storage: GitCheckpointStorage
) -> None:
    """The files of a checkpoint are restored, the workflow is resumed from it, and it does the rest
    once.
    """
    asyncio.run(workflow(project, storage).run(1))
    assert project.read("log.txt") == b"1\n2\n3\n4\n"
    ids = asyncio.run(storage.list_checkpoint_ids(workflow_name="count / up"))
    found = {
        summary.id: storage.checkpoints.file(str(summary.id), "log.txt")
        for summary in storage.checkpoints.log()
    }
    at = next(id for id, data in found.items() if data == b"1\n2\n")

    storage.checkpoints.restore(str(at))
    resumed = asyncio.run(storage.list_checkpoint_ids(workflow_name="count / up"))
    asyncio.run(workflow(project, storage).run(checkpoint_id=resumed[-1]))

    assert project.read("log.txt") == b"1\n2\n3\n4\n"
    assert ids[: len(resumed)] == resumed
    assert len(resumed) < len(ids)


def test_deep_copies(storage: GitCheckpointStorage) -> None:
    """What is changed after it was saved, or after it was loaded, changes nothing that is
    stored.
    """
    given = checkpoint("a", 1, state={"list": [1]})
    before = copy.deepcopy(given)
    asyncio.run(storage.save(given))
    given.state["list"].append(2)
    asyncio.run(storage.load("a-1")).state["list"].append(3)

    assert asyncio.run(storage.load("a-1")) == before


def test_missing_extra() -> None:
    """Without the framework, the import says what to install."""
    program = "import sys; sys.modules['agent_framework'] = None; import gitcp.agent_framework"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.stderr.splitlines()[-1].endswith(
        f"agent_framework: {installed.install_extra('agent-framework')}"
    )
