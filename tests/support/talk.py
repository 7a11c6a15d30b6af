"""An agent's conversation for tests: a Claude Code transcript, written by hand where that agent
keeps its own.
"""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path

from gitcp.adapters import claude_code
from gitcp.model import Host

from driver import Project

SESSION = "e7baae82-5d1c-4f0a-9b3e-2c6d8f1a7b90"


class Talk:
    """One session of the agent in a project's directory, or in one `below` it; `say` goes on with
    it.
    """

    def __init__(self, project: Project, session: str = SESSION, below: str = "") -> None:
        self.cwd = Path(os.path.realpath(project.root / below))
        self.session = session
        self.count = 0
        host = Host(env=os.environ, home=Path(os.environ["HOME"]), now=_no_clock)
        self.path = claude_code.transcript(self.cwd, session, host)
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def say(self, *texts: str, at: datetime | None = None) -> None:
        """Append turns, the user's and the agent's by turns; a message's id is `u1`, `u2`, …"""
        time = {"timestamp": f"{at:%FT%TZ}"} if at else {}
        with self.path.open("a", encoding="utf-8") as file:
            for text in texts:
                self.count += 1
                file.write(json.dumps({**self._turn(text), **time}) + "\n")

    def think(self, thought: str) -> None:
        """Append a thought of the agent's and an answer."""
        self.count += 2 - self.count % 2
        parts = [{"type": "thinking", "thinking": thought}, {"type": "text", "text": "Done."}]
        message = {"role": "assistant", "content": parts}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**self._turn(""), "message": message}) + "\n")

    def run(self, command: str, output: str | None, call: str = "") -> None:
        """Append a call of the shell, with what it printed; None: it has not ended yet. `call` ends
        an earlier one.
        """
        self.count += 1
        call = call or f"call{self.count}"
        used = (
            [{"type": "tool_use", "id": call, "name": "Bash", "input": {"command": command}}]
            if command
            else []
        )
        given = (
            [{"type": "tool_result", "tool_use_id": call, "content": output}]
            if output is not None
            else []
        )
        with self.path.open("a", encoding="utf-8") as file:
            for role, content in (("assistant", used), ("user", given)):
                if content:
                    turn = {**self._turn(""), "type": role, "uuid": f"{role[0]}{self.count}"}
                    file.write(
                        json.dumps({**turn, "message": {"role": role, "content": content}}) + "\n"
                    )
        self.count += self.count % 2

    def append(self, role: str, content: list[dict[str, object]]) -> None:
        """Append a message with these parts."""
        self.count += 1
        turn = {**self._turn(""), "type": role, "uuid": f"{role[0]}{self.count}"}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**turn, "message": {"role": role, "content": content}}) + "\n")

    def _turn(self, text: str) -> dict[str, object]:
        role = "user" if self.count % 2 else "assistant"
        return {
            "type": role,
            "uuid": f"u{self.count}",
            "timestamp": f"2026-11-02T09:{self.count:02d}:00Z",
            "cwd": str(self.cwd),
            "sessionId": self.session,
            "version": "2.1.0",
            "message": {
                "role": role,
                "content": text if role == "user" else [{"type": "text", "text": text}],
            },
        }


def _no_clock() -> datetime:
    raise AssertionError("nobody needs the time here")
