"""Conversations that agents keep, in the shape that each agent writes: one of each for a
directory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import test_conformance as written

AGENTS = ("claude-code", "codex", "copilot", "gemini", "opencode")
WRITERS: dict[str, Callable[[], Any]] = {
    "claude-code": written.TestClaudeCode,
    "codex": written.TestCodex,
    "copilot": written.TestCopilot,
    "gemini": written.TestGemini,
    "opencode": written.TestOpencode,
}


def begin(agent: str, cwd: Path, *prompts: str, home: Path | None = None) -> None:
    """Let an agent have a conversation in a directory."""
    home = home or Path(os.environ["HOME"])
    WRITERS[agent]().begin(home, cwd, prompts or (f"a question to {agent}",))


def begin_all(cwd: Path, agents: Sequence[str] = AGENTS) -> None:
    """Let every agent have one."""
    for agent in agents:
        begin(agent, cwd)


def transcripts() -> dict[Path, bytes]:
    """The agents' files with their bytes, without databases."""
    home = Path(os.environ["HOME"])
    return {path: path.read_bytes() for path in sorted(home.rglob("*.jsonl"))}
