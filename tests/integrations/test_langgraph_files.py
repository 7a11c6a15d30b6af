"""With a working tree, LangGraph's time travel brings the files along: real graphs, real processes,
a real kill.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, TypedDict

import graph_agent
import graphs
import pytest
from graphs import put, state, thread
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from gitcp.errors import OthersAffected, RevisionNotFound

from driver import SOURCE, Project


class State(TypedDict, total=False):
    """What the small graphs go on from."""

    n: int


def builder() -> Any:
    """A graph to add nodes to."""
    return StateGraph(State)


def agent(project: Project, seen: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run the agent in a process of its own."""
    command = [
        sys.executable,
        str(SOURCE / "tests/support/graph_agent.py"),
        str(project.root),
        str(seen),
        *args,
    ]
    return subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_killed_resumed_sent_back(project: Project, tmp_path: Path) -> None:
    """An agent is killed in the middle of a step, resumed, and sent back two steps: each node finds
    the very files.
    """
    project.write("all.txt", "begin")
    project.commit()
    seen = tmp_path / "seen"
    seen.mkdir()
    with project.guard():
        killed = agent(project, seen, "start")
        assert killed.returncode == -9, killed.stderr
        assert project.root.joinpath("three.txt").exists()
        resumed = agent(project, seen, "resume")
        assert resumed.returncode == 0, resumed.stderr
    assert [path.name for path in sorted(seen.iterdir())] == [
        "four-0",
        "one-0",
        "three-0",
        "three-1",
        "two-0",
    ]
    assert seen.joinpath("three-1").read_bytes() == seen.joinpath("three-0").read_bytes()

    ids = {
        after: id
        for id, after in (line.split() for line in resumed.stdout.splitlines() if " " in line)
    }
    with project.guard():
        back = agent(project, seen, "replay", ids["three"])
    assert back.returncode == 0, back.stderr
    assert seen.joinpath("three-2").read_bytes() == seen.joinpath("three-0").read_bytes()
    assert not seen.joinpath("two-1").exists()

    graphs.saver(project, files=True).restore(thread("agent", id=ids["two"]))
    assert graph_agent.look(project.root) == seen.joinpath("two-0").read_bytes()
    assert project.json("check")["ok"]


def test_what_was_there_is_saved_first(project: Project) -> None:
    """Edits made before a run that is sent back are in a checkpoint, and `gitcp undo` brings them
    back.
    """
    project.write("a.txt", "one")
    saver = graphs.saver(project, files=True)
    first = put(saver, thread(), state(1, n=1))
    project.write("a.txt", "mine, and saved nowhere")
    project.write("b.txt", "new")

    assert saver.restore(first) is None
    saver.restore(first, whole_tree=True)
    assert project.read("a.txt") == b"one"
    assert not project.root.joinpath("b.txt").exists()
    assert saver.restore(first, whole_tree=True) is None

    project.gitcp("undo", "--yes", check=0)
    assert (project.read("a.txt"), project.read("b.txt")) == (b"mine, and saved nowhere", b"new")


@pytest.mark.parametrize("durability", ["async", "sync", "exit"])
@pytest.mark.parametrize("api", ["blocking", "asyncio"])
def test_each_state_has_its_files(project: Project, durability: Any, api: str) -> None:
    """The files of a state are those that its step left, though the next step writes at once while
    the state is being put.
    """

    def node(number: int) -> Any:
        def write(given: Any) -> Any:
            project.write("a.txt", f"{number}")
            return {"n": number}

        async def awrite(given: Any) -> Any:
            return write(given)

        return awrite if api == "asyncio" else write

    saver = graphs.saver(project, files=True)
    graph = builder()
    for number in range(1, 7):
        graph.add_node(f"n{number}", node(number))
        graph.add_edge(f"n{number - 1}" if number > 1 else START, f"n{number}")
    app = graph.compile(checkpointer=saver)
    project.write("a.txt", "0")
    if api == "asyncio":
        asyncio.run(app.ainvoke({"n": 0}, thread(), durability=durability))
    else:
        app.invoke({"n": 0}, thread(), durability=durability)

    found = []
    for each in app.get_state_history(thread()):
        saver.restore(each.config, whole_tree=True)
        found.append((each.values.get("n", 0), int(project.read("a.txt"))))
    expected = range(7) if durability != "exit" else [6]
    assert sorted({step for step, _ in found}) == [*expected]
    assert [step for step, _ in found] == [file for _, file in found]


def test_a_replay_keeps_what_others_did(project: Project) -> None:
    """A run that is sent back takes back what its thread changed, and nothing of another thread's
    or a person's. Where both changed the same lines, it is refused before its first node.
    """
    ran: list[str] = []

    def write(given: Any, config: Any) -> Any:
        name = config["configurable"]["thread_id"]
        ran.append(name)
        project.write(f"{name}.txt", f"{name} {given['n']}\n")
        return {"n": given["n"] + 1}

    write.__annotations__["config"] = RunnableConfig
    saver = graphs.saver(project, files=True)
    app = builder().add_node("write", write).add_edge(START, "write").compile(checkpointer=saver)
    for name in ("a", "b", "a"):
        app.invoke({"n": 1}, thread(name), durability="sync")
        project.write(f"mine-{len(ran)}", "by hand\n")
    project.write("b.txt", "by hand\n")
    before = project.files()

    history = [each for each in app.get_state_history(thread("a")) if each.next == ("write",)]
    app.invoke(None, history[-1].config, durability="sync")

    assert project.files() == before
    assert ran == ["a", "b", "a", "a"]

    project.write("a.txt", "by hand\n")
    with pytest.raises(OthersAffected, match="1 path in conflict, also changed by another session"):
        app.invoke(None, history[-1].config, durability="sync")
    assert project.read("a.txt") == b"by hand\n"


def test_looking_touches_nothing(project: Project) -> None:
    """get_state, its history and update_state leave the files alone; a branch has those of where it
    begins.
    """

    def write(_: Any) -> Any:
        project.write("a.txt", "two")
        return {"n": 2}

    project.write("a.txt", "one")
    saver = graphs.saver(project, files=True)
    app = builder().add_node("write", write).add_edge(START, "write").compile(checkpointer=saver)
    app.invoke({"n": 1}, thread(), durability="sync")
    project.write("a.txt", "three")

    before = next(each for each in app.get_state_history(thread()) if each.next == ("write",))
    assert app.get_state(before.config).next == ("write",)
    branch = app.update_state(before.config, {"n": 5}, as_node="__start__")
    assert project.read("a.txt") == b"three"

    saver.restore(branch, whole_tree=True)
    assert project.read("a.txt") == b"one"


def test_finished_tasks_keep_their_edits(project: Project) -> None:
    """A step of two tasks, one of which waits for a person: going on, the files are as the finished
    one left them.
    """
    project.write("a.txt", "one")

    def done(_: Any) -> Any:
        project.write("done.txt", "done")
        return {}

    def asks(_: Any) -> Any:
        return {"n": interrupt("go on?")}

    saver = graphs.saver(project, files=True)
    graph = builder().add_node("done", done).add_node("asks", asks)
    app = graph.add_edge(START, "done").add_edge(START, "asks").compile(checkpointer=saver)
    app.invoke({"n": 0}, thread(), durability="sync")
    project.remove("done.txt")

    saver.restore(thread(), whole_tree=True)
    assert project.read("done.txt") == b"done"
    assert app.invoke(Command(resume=7), thread(), durability="sync")["n"] == 7


def test_a_run_does_not_begin_on_half_of_its_files(project: Project) -> None:
    """Where something that is not captured stands in the way of a file that the thread changed, the
    run is refused before its first node.
    """
    ran = []

    def node(_: Any) -> Any:
        ran.append(1)
        project.write("a.txt", "two")
        return {}

    project.write("a.txt", "one")
    saver = graphs.saver(project, files=True)
    app = builder().add_node("n", node).add_edge(START, "n").compile(checkpointer=saver)
    app.invoke({"n": 1}, thread(), durability="sync")
    start = next(each for each in app.get_state_history(thread()) if each.next == ("n",))
    project.remove("a.txt")
    os.mkfifo(project.path("a.txt"))

    with pytest.raises(OthersAffected) as refused:
        app.invoke(None, start.config)
    assert refused.value.candidates == ("a.txt  (not captured now (special))",)
    assert ran == [1]


def test_restore_of_nothing(project: Project) -> None:
    """A thread or checkpoint that is not there is an error that says so."""
    saver = graphs.saver(project, files=True)

    with pytest.raises(RevisionNotFound, match="thread t has no checkpoint; nothing was changed"):
        saver.restore(thread())
    with pytest.raises(RevisionNotFound, match="has no checkpoint x"):
        saver.restore(thread(id="x"))


def test_commands_read_threads(project: Project) -> None:
    """log, show, diff, view and restore treat a thread like any session."""
    project.write("a.txt", "one\n")
    saver = graphs.saver(project, files=True)
    config = put(saver, thread(), state(1, messages=["hello"]))
    project.write("a.txt", "two\n")
    put(saver, config, state(2, messages=["hello", "bye"]))

    assert [each["number"] for each in project.json_lines("log", "langgraph-t")] == [2, 1]
    assert "a.txt" in project.gitcp("diff", "langgraph-t@1", "langgraph-t@2", check=0).out
    assert project.json("show", "langgraph-t@2")["agent"]["name"] == "langgraph"
    page = project.gitcp("view", "langgraph-t", "-o", "-", check=0).out
    assert "hello" in page
    assert "a.txt" in page
    project.gitcp("restore", "langgraph-t@1", "--yes", check=0)
    assert project.read("a.txt") == b"one\n"
    assert len(list(saver.list(thread()))) == 2
