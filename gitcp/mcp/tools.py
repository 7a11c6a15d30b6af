"""The table of tools: name, function, arguments, documents, and what a client may assume of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from mcp_types import Tool as Listed
from mcp_types import ToolAnnotations

from gitcp.cli.context import Context
from gitcp.mcp import arguments, documents, reading, writing
from gitcp.mcp.arguments import Arguments
from gitcp.mcp.documents import URI
from gitcp.wire import Json


def _hints(*, reads: bool = False, destroys: bool = False, repeats: bool = False) -> dict[str, Any]:
    return {
        "read_only_hint": reads,
        "destructive_hint": destroys,
        "idempotent_hint": reads or repeats,
        "open_world_hint": False,
    }


READS, ADDS = _hints(reads=True), _hints()
ADDS_ONCE, CHANGES = _hints(repeats=True), _hints(destroys=True)


class Tool(NamedTuple):
    """A tool. `page` is the resource in which a client with MCP Apps shows its result."""

    name: str
    title: str
    run: Callable[[Context, Any], Json]
    arguments: type[Arguments]
    documents: tuple[str, ...]
    hints: dict[str, Any]
    page: str = ""

    def listed(self) -> Listed:
        """Return what clients see."""
        return Listed(
            name=self.name,
            title=self.title,
            description=self.arguments.description(),
            input_schema=self.arguments.schema_of(),
            output_schema=documents.schema_of(*self.documents),
            annotations=ToolAnnotations(title=self.title, **self.hints),
            _meta={"ui": {"resourceUri": self.page}} if self.page else None,
        )


TIMELINE = Tool(
    "timeline",
    "Show the timeline",
    reading.timeline,
    arguments.Timeline,
    ("list",),
    READS,
    URI,
)
"""Only for clients that can show its page."""

TOOLS = (
    Tool("save", "Save a checkpoint", writing.save, arguments.Save, ("save",), ADDS_ONCE),
    Tool(
        "list",
        "List checkpoints",
        reading.list_checkpoints,
        arguments.List,
        ("list",),
        READS,
    ),
    Tool(
        "show",
        "Show a checkpoint",
        reading.show,
        arguments.Show,
        ("checkpoint", "file", "directory"),
        READS,
    ),
    Tool("diff", "Compare", reading.diff, arguments.Diff, ("differences",), READS),
    Tool("find", "Search", reading.find, arguments.Find, ("matches",), READS),
    Tool("why", "Explain a line", reading.why, arguments.Why, ("why",), READS),
    Tool("note", "Note", writing.note, arguments.Note, ("note",), ADDS),
    Tool(
        "restore",
        "Restore a checkpoint",
        writing.restore,
        arguments.Restore,
        ("restore-plan", "restore"),
        CHANGES,
    ),
    Tool(
        "undo",
        "Undo",
        writing.undo,
        arguments.Undo,
        ("restore-plan", "restore", "brought-back"),
        CHANGES,
    ),
    Tool(
        "revert",
        "Revert a checkpoint",
        writing.revert,
        arguments.Revert,
        ("revert-plan", "revert"),
        CHANGES,
    ),
    Tool("fork", "Fork a session", writing.fork, arguments.Fork, ("fork",), ADDS),
)
