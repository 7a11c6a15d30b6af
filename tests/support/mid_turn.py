"""A day on which two agents and a person work in one tree, as the hooks of the agents see it: the
person edits before calls, between them, and while they run. `together.Tree` knows who did what.
"""

from __future__ import annotations

import os
import random
from typing import Any

from hooked import Hooks
from together import MINE, Files, Tree

from gitcp.model import EXECUTABLE, SYMLINK

from driver import Project

IDS = {
    MINE: "aaaaaaaa-2222-4333-8444-555555555555",
    "second": "bbbbbbbb-2222-4333-8444-555555555555",
}
PERSON = "person"


class Day:
    """What two agents and a person do in one tree. `unsure` are paths that a person changed while a
    call ran that may change them, or which two calls may have changed at once.
    """

    def __init__(self, project: Project, call: Hooks, seed: int) -> None:
        self.project, self.call = project, call
        self.dice = random.Random(seed)
        self.tree = Tree(self.dice)
        self.unsure: set[bytes] = set()
        self.calls = 0
        put(project, {}, self.tree.files())
        project.commit()
        for agent in IDS:
            self.hook(agent, "UserPromptSubmit", prompt="Go on.")
            project.write("note", f"{agent}\n")
            self.hook(agent, "Stop")

    def hook(self, agent: str, event: str, **fields: Any) -> None:
        """An event of an agent."""
        self.call(IDS[agent], event, **fields)

    def acts(self, author: str, path: bytes | None = None) -> set[bytes]:
        """Somebody changes lines of a path, or anything; the paths that changed."""
        before = self.tree.files()
        tree = self.tree
        changed = tree.edit(author, path) if path else tree.act(author, modes=False)
        put(self.project, before, tree.files())
        return changed

    def path(self) -> bytes:
        """Any path with lines."""
        return self.dice.choice(sorted(self.tree.lines) or [b""])

    def step(self) -> None:
        """Something happens."""
        agent = self.dice.choice((MINE, MINE, "second"))
        doing = (*[self.edits] * 5, self.runs, self.runs, self.refused, self.turns)
        self.dice.choice(doing)(agent)
        if self.dice.random() < 0.3:
            self.acts(PERSON)

    def edits(self, agent: str) -> None:
        """An edit tool. A person may have edited the file before, or does so meanwhile."""
        path = self.path()
        if not path:
            return
        if self.dice.random() < 0.4:
            self.acts(PERSON, path)
        call = self.edit_of(agent, path)
        self.hook(agent, "PreToolUse", **call.fields)
        if self.dice.random() < 0.05:
            self.unsure |= self.acts(PERSON, path)
        call.apply()
        if self.dice.random() < 0.05:
            self.unsure |= self.acts(PERSON, path)
        self.hook(agent, "PostToolUse", **call.fields, tool_response="ok")

    def edit_of(self, agent: str, path: bytes) -> Edit:
        self.calls += 1
        return Edit(self, agent, path, f"toolu_{self.calls}")

    def runs(self, agent: str) -> None:
        """A command, which may change anything."""
        if self.dice.random() < 0.4:
            self.acts(PERSON)
        self.calls += 1
        fields = {"tool_name": "Bash", "tool_input": {"command": "make"}}
        fields["tool_use_id"] = f"toolu_{self.calls}"
        self.hook(agent, "PreToolUse", **fields)
        for _ in range(self.dice.randint(1, 2)):
            self.acts(agent)
        self.hook(agent, "PostToolUse", **fields, tool_response="ok")

    def refused(self, agent: str) -> None:
        """An edit that the user refuses, and makes by hand."""
        path = self.path()
        if path:
            self.hook(agent, "PreToolUse", **self.edit_of(agent, path).fields)
            self.unsure |= self.acts(PERSON, path)

    def turns(self, agent: str) -> None:
        """The end of a turn, and the begin of the next."""
        self.hook(agent, "Stop")
        if self.dice.random() < 0.5:
            self.acts(PERSON)
        self.hook(agent, "UserPromptSubmit", prompt="Go on.")


class Edit:
    """A change of one line by an agent's tool."""

    def __init__(self, day: Day, agent: str, path: bytes, id: str) -> None:
        self._day, self._agent, self._path = day, agent, path
        tree = day.tree
        lines = [line for line in tree.lines[path] if line.text is not None]
        self._line = day.dice.choice(lines) if lines else None
        old = self._line.text if self._line else b""
        assert old is not None
        self._new = b"%s %d by a tool\n" % (agent.encode(), tree.count)
        place = os.fsdecode(day.project.path(path))
        given = {"file_path": place, "old_string": old.decode(), "new_string": self._new.decode()}
        self.fields: dict[str, Any] = {"tool_name": "Edit", "tool_input": given, "tool_use_id": id}

    def apply(self) -> None:
        """Change the line, if it is still there."""
        if self._line is not None and self._line.text is not None:
            tree = self._day.tree
            before = tree.files()
            tree.replace_line(self._agent, self._path, self._line, self._new)
            put(self._day.project, before, tree.files())


def put(project: Project, before: Files, after: Files) -> None:
    """Turn the files of a tree into others."""
    for path in before.keys() - after.keys():
        project.remove(path)
    for path, (mode, data) in after.items():
        if before.get(path) == (mode, data):
            continue
        if before.get(path):
            project.remove(path)
        if mode == SYMLINK:
            project.symlink(path, data)
        else:
            project.write(path, data, mode=0o755 if mode == EXECUTABLE else 0o644)


def on_disk(project: Project) -> Files:
    """The files of the working tree, as the model has them."""
    return {
        path: (SYMLINK if file.kind == "symlink" else 0o100000 | file.mode, file.data)
        for path, file in project.files().items()
        if file.kind != "directory"
    }
