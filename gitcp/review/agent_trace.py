"""Attributed commits as records of Agent Trace 0.1.0, one for each commit: https://agent-trace.dev.

The same commits and checkpoints always give the same records. Pure.
"""

from __future__ import annotations

import uuid

from gitcp import wire
from gitcp.review.attribution import AttributedCommit, Part
from gitcp.wire import Json

VERSION = "0.1.0"
IDS = uuid.UUID("6f0e4f39-0cb1-5d0f-9b54-6e1a5a6cbd57")
"""The namespace of the records' ids."""

MAKERS = {"claude": "anthropic", "gpt": "openai", "gemini": "google"}
"""Whose a model is, by the first word of its name, as models.dev names them."""

LONGEST_MODEL = 250


def record(commit: AttributedCommit, version: str) -> Json:
    """Return the record of a commit, made by this version of gitcp."""
    files = [
        {
            "path": path.decode("utf-8"),
            "conversations": [_conversation(part) for part in parts],
        }
        for path, parts in commit.files.items()
        if is_text(path)
    ]
    return {
        "version": VERSION,
        "id": str(uuid.uuid5(IDS, commit.commit.oid)),
        "timestamp": wire.encode_time(commit.created),
        "vcs": {"type": "git", "revision": commit.commit.oid},
        "tool": {"name": "gitcp", "version": version},
        "files": files,
    }


def is_text(path: bytes) -> bool:
    """Return whether the format can name a path."""
    try:
        return bool(path.decode("utf-8"))
    except UnicodeDecodeError:
        return False


def _conversation(part: Part) -> Json:
    contributor = {"type": "ai"}
    if part.writer.agent.model:
        contributor["model_id"] = _model(part.writer.agent.model)
    return {
        "contributor": contributor,
        "ranges": [{"start_line": first, "end_line": last} for first, last in part.ranges],
    }


def _model(name: str) -> str:
    maker = MAKERS.get(name.partition("-")[0])
    return (f"{maker}/{name}" if maker else name)[:LONGEST_MODEL]
