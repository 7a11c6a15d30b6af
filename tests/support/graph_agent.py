"""A LangGraph agent that edits files, as a process of its own: `graph_agent.py REPOSITORY SEEN VERB
[CHECKPOINT]`.

Each of its four nodes first writes down, in the directory SEEN, what it finds; then it edits. The
third one is killed in the middle of its work the first time.
"""

from __future__ import annotations

import operator
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.graph import START, StateGraph

from gitcp.langgraph import GitSaver

NODES = ("one", "two", "three", "four")
CONFIG: Any = {"configurable": {"thread_id": "agent"}}


class State(TypedDict):
    """What the graph goes on from."""

    messages: Annotated[list[str], operator.add]


def look(root: Path) -> bytes:
    """Every file of the working tree, as one text."""
    files = sorted(path for path in root.rglob("*") if path.is_file() and ".git" not in path.parts)
    return b"".join(
        b"%s:%r\n" % (os.fsencode(path.relative_to(root)), path.read_bytes()) for path in files
    )


def node(name: str, root: Path, seen: Path) -> Callable[[State], State]:
    """A node that edits: a file of its own, one that all write to, and one that is there every
    second step only.
    """

    def work(state: State) -> State:
        number = NODES.index(name)
        runs = len(list(seen.glob(f"{name}-*")))
        seen.joinpath(f"{name}-{runs}").write_bytes(look(root))
        root.joinpath(f"{name}.txt").write_bytes(os.urandom(20) + b"\r\n\0")
        if name == "three" and runs == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        with root.joinpath("all.txt").open("ab") as file:
            file.write(name.encode() + os.urandom(4))
        if number % 2:
            root.joinpath("odd.sh").unlink()
        else:
            root.joinpath("odd.sh").write_text("#!/bin/sh\n")
            root.joinpath("odd.sh").chmod(0o755)
        return {"messages": [name]}

    return work


def main(repository: str, seen: str, verb: str, checkpoint: str = "") -> None:
    """Run it: `start`, `resume` after a crash, or `replay` from a checkpoint."""
    root = Path(repository)
    graph: Any = StateGraph(State)
    graph.add_sequence([(name, node(name, root, Path(seen))) for name in NODES])
    graph.add_edge(START, "one")
    saver = GitSaver(worktree=root)
    app = graph.compile(checkpointer=saver)
    if verb == "resume":
        saver.restore(CONFIG)
    config: Any = (
        {"configurable": {**CONFIG["configurable"], "checkpoint_id": checkpoint}}
        if checkpoint
        else CONFIG
    )
    app.invoke({"messages": ["go"]} if verb == "start" else None, config, durability="sync")
    states = (
        (state.config["configurable"]["checkpoint_id"], *state.next)
        for state in app.get_state_history(CONFIG)
    )
    sys.stdout.writelines(" ".join(state) + "\n" for state in states)


if __name__ == "__main__":
    main(*sys.argv[1:])
