"""The names by which people call the agents."""

from __future__ import annotations

ALIASES = {
    "claude-code": "claude",
    "claudecode": "claude",
    "codex-cli": "codex",
    "openai-codex": "codex",
    "gemini-cli": "gemini",
    "google-gemini": "gemini",
    "open-code": "opencode",
    "copilot-cli": "copilot",
    "github-copilot": "copilot",
    "github-copilot-cli": "copilot",
    "cursor-agent": "cursor",
    "agents.md": "agents-md",
}
"""Other names of the agents that `enable` knows."""

RECORDED = {"claude": "claude-code"}
"""Agents whose name in a checkpoint differs from the one that `enable` prints."""


def canonical(name: str) -> str:
    """Return the name by which `enable` knows an agent, `name` itself if it does not know it."""
    known = name.lower()
    if known in ALIASES:
        return ALIASES[known]
    return known if known in ALIASES.values() else name


def recorded(name: str) -> str:
    """Return the name by which checkpoints record an agent, given any of its names."""
    known = canonical(name)
    return RECORDED.get(known, known)
