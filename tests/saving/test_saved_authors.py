"""Who made the changes that a save records: every interleaving of agents and a person is told
right, or as either of several.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from agents_at_work import STARTING
from hypothesis import given, settings
from hypothesis import strategies as st

from gitcp import clock
from gitcp.history.authors import WorktreeHistory
from gitcp.model import NOBODY, Agent, Trigger
from gitcp.policy import events
from gitcp.saving.save import SaveRequest, save
from gitcp.saving.session import Choice
from gitcp.state import tool_log

from driver import Project
from samples import open_store

AGENTS = "abc"
PATHS = ("one", "two", "dir/three", "dir/four")

actions = st.lists(
    st.tuples(
        st.sampled_from(("edit", "command", "write", "write", "delete", "end", "end", "person")),
        st.sampled_from(AGENTS),
        st.sampled_from(PATHS),
        st.booleans(),
    ),
    min_size=4,
    max_size=14,
)


class World:
    """A working tree, agents with at most one tool at a time, a person, and who really did what."""

    def __init__(self, root: Path) -> None:
        self.project = Project(root)
        for path in PATHS:
            self.project.write(path, path)
        self.project.commit()
        self.store = open_store(self.project)
        self.tools: dict[str, tuple[int, str | None]] = {}
        self.truth: dict[str, set[str]] = {}
        self.numbers = count()
        for agent in AGENTS:
            self.save(agent)

    def do(self, action: str, agent: str, path: str, ends_in_save: bool) -> None:
        """Do something, if it can be done now."""
        tool = self.tools.get(agent)
        if action in ("edit", "command") and tool is None:
            self.begin(agent, path if action == "edit" else None)
        elif action in ("write", "delete") and tool is not None:
            named = tool[1]
            self.change(named or path, name(agent), deletes=action == "delete" and named is None)
        elif action == "end" and tool is not None:
            self.end(agent)
            if ends_in_save:
                self.save(agent)
        elif action == "person" and not self.is_claimed(path):
            self.change(path, NOBODY, deletes=ends_in_save)

    def is_claimed(self, path: str) -> bool:
        """Whether what a person changes now would rightly be taken for an agent's."""
        return any(named in (None, path) for _, named in self.tools.values())

    def change(self, path: str, who: str, *, deletes: bool) -> None:
        """Change a file, or delete it."""
        if deletes and os.path.exists(self.project.path(path)):
            self.project.remove(path)
        else:
            self.project.write(path, f"{path} {next(self.numbers)}")
        self.truth.setdefault(path, set()).add(who)

    def begin(self, agent: str, path: str | None) -> None:
        """Begin a tool: an edit of this path, or a command."""
        self.tools[agent] = next(self.numbers), path
        self.hook(agent, "PreToolUse")

    def end(self, agent: str) -> None:
        """End the tool. An edit has changed its path by then."""
        path = self.tools[agent][1]
        if path is not None:
            self.change(path, name(agent), deletes=False)
        self.hook(agent, "PostToolUse")
        del self.tools[agent]

    def hook(self, agent: str, event: str) -> None:
        """Log an event, as its hook does."""
        time.sleep(STARTING)
        number, path = self.tools[agent]
        fields: dict[str, Any] = {"session_id": session_id(agent), "tool_use_id": f"t{number}"}
        if path is None:
            fields |= {"tool_name": "Bash", "tool_input": {"command": "make"}}
        else:
            whole = os.fsdecode(self.project.path(path))
            fields |= {"tool_name": "Edit", "tool_input": {"file_path": whole}}
        read = events.read("claude", event, {**fields, "cwd": str(self.project.root)})
        assert read is not None
        git_dir = str(self.store.repo.git_dir)
        tool_log.note(git_dir, str(self.project.root), read, clock.of_files())

    def save(self, agent: str, unknown: frozenset[str] = frozenset()) -> None:
        """Save, and compare what is recorded with what was done, or is `unknown`."""
        whose = Agent("claude-code", session_id(agent))
        choice = Choice(name(agent), None, "", whose)
        request = SaveRequest(self.project.root, choice=choice, trigger=Trigger.TOOLS, force=True)
        made = save(self.store, request).checkpoint
        step = next(WorktreeHistory(self.store).steps(made.commit))
        for path, claim in step.claims().items():
            truth = self.truth.get(path.decode(), set()) | unknown
            assert claim.sessions <= truth, (path, claim, truth)
            assert claim.sessions or claim.possible & truth, (path, claim, truth)
        self.truth.clear()


def name(agent: str) -> str:
    return agent * 8


def session_id(agent: str) -> str:
    return f"{name(agent)}-2222-4333-8444-555555555555"


@settings(max_examples=15)
@given(actions)
def test_never_wrong(performed: list[tuple[str, str, str, bool]]) -> None:
    """Whoever is named did it; if it is either of several, one of them did."""
    with TemporaryDirectory() as directory:
        world = World(Path(directory, "project"))
        for action in performed:
            world.do(*action)
        for agent in list(world.tools):
            world.end(agent)
        world.save("a")


TORN: list[Callable[[bytes], bytes]] = [
    lambda data: b"",
    lambda data: data[:-20],
    lambda data: data[10:],
    lambda data: data.replace(b"\t", b"\n"),
    lambda data: b"\xff\0" * 1000 + data,
    lambda data: data * 3,
]


@pytest.mark.parametrize("damage", TORN, ids=range(len(TORN)))
def test_torn_log(project: Project, damage: Callable[[bytes], bytes]) -> None:
    """Whatever the log of tool calls contains, a save is made, and names nobody wrongly."""
    world = World(project.root)
    world.do("edit", "a", "one", False)
    world.do("end", "a", "one", False)
    log = project.git_dir / "gitcp" / tool_log.NAME
    log.write_bytes(damage(log.read_bytes()))
    world.save("b", frozenset((NOBODY,)))
