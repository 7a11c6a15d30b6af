"""Agents that work in one tree at the same time, as their hooks see it: real payloads through real
`gitcp hook` processes.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from gitcp.adapters import claude_code

from driver import Project

ALPHA = "aaaaaaaa-2222-4333-8444-555555555555"
BETA = "bbbbbbbb-2222-4333-8444-555555555555"
GAMMA = "cccccccc-2222-4333-8444-555555555555"
CALLS = count(1)
STARTING = 0.011
"""Seconds between a hook and what its agent does: the clock that stamps files lags by a tick."""


class AgentAtWork:
    """One session of an agent. `name` is the session's in gitcp."""

    agent = "claude"
    after = "PostToolBatch"

    def __init__(self, project: Project, session: str) -> None:
        self.project, self.session, self.name = project, session, session[:8]

    def calls(self, event: str, **fields: Any) -> None:
        """Call the hook of an event."""
        known = {"session_id": self.session, "cwd": str(self.project.root)}
        known["transcript_path"] = str(self.transcript())
        payload = json.dumps({**known, "hook_event_name": event, **fields})
        done = self.project.gitcp("hook", self.agent, event, input=payload, check=0)
        assert (done.out, done.err) == ("", "")

    def transcript(self) -> Path:
        """The session's transcript."""
        home = Path(os.environ["HOME"])
        place = claude_code.directory_name(str(self.project.root))
        return home / ".claude/projects" / place / f"{self.session}.jsonl"

    def prompt(self, text: str = "Go on.") -> None:
        """Start a turn."""
        self.calls("UserPromptSubmit", prompt=text)
        self.says("user", text)

    def says(self, role: str, text: str) -> None:
        """Add a line to the transcript."""
        message = {"role": role, "content": [{"type": "text", "text": text}]}
        fields = {"type": role, "uuid": f"u{next(CALLS)}", "sessionId": self.session}
        path = self.transcript()
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps({**fields, "message": message}) + "\n")

    def stop(self) -> None:
        """End the turn."""
        self.says("assistant", "Done.")
        self.calls("Stop", last_assistant_message="Done.")

    @contextmanager
    def tool(self, name: str, fields: dict[str, Any]) -> Iterator[None]:
        """Run a tool: what is done meanwhile, it does."""
        call = {"tool_name": name, "tool_input": fields, "tool_use_id": f"toolu_{next(CALLS)}"}
        self.calls("PreToolUse", **call)
        time.sleep(STARTING)
        yield
        self.ends(call)

    def ends(self, call: dict[str, Any]) -> None:
        """Report the end of a tool."""
        self.calls("PostToolBatch", tool_calls=[call])

    def edits(self, path: str, text: str) -> None:
        """Change a file with the edit tool."""
        with self.tool("Edit", self.replacing(path, text)):
            self.project.write(path, text)

    def replacing(self, path: str, text: str) -> dict[str, str]:
        """The input of an edit that replaces all of a file."""
        place = self.project.root / path
        old = place.read_text() if place.exists() else ""
        return {"file_path": str(place), "old_string": old, "new_string": text}

    def shell(self, command: str = "make") -> Any:
        """Run a command: what is done meanwhile, it does."""
        return self.tool("Bash", {"command": command})


class Codex(AgentAtWork):
    """A session of Codex."""

    agent = "codex"

    def transcript(self) -> Path:
        """The session's rollout."""
        home = Path(os.environ["HOME"])
        return home / f".codex/sessions/2026/11/23/rollout-{self.session}.jsonl"

    def says(self, role: str, text: str) -> None:
        """Leave the rollout as it is: the files are what matters here."""

    def ends(self, call: dict[str, Any]) -> None:
        """Report the end of a tool."""
        self.calls("PostToolUse", **call, tool_response="ok")

    def edits(self, path: str, text: str) -> None:
        """Change a file with a patch."""
        with self.tool("apply_patch", {"command": self.patch(path, text)}):
            self.project.write(path, text)

    def patch(self, path: str, text: str) -> str:
        """A patch that replaces all of a file, or adds it."""
        place = self.project.root / path
        old = [f"-{line}" for line in place.read_text().splitlines()] if place.exists() else []
        head = [f"*** Update File: {path}", "@@", *old] if old else [f"*** Add File: {path}"]
        new = [f"+{line}" for line in text.splitlines()]
        return "\n".join(("*** Begin Patch", *head, *new, "*** End Patch"))
