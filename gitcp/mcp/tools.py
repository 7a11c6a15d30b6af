"""The table of tools: name, function, arguments, document, and what a client may assume of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from mcp_types import Tool as Listed
from mcp_types import ToolAnnotations

from gitcp.cli.context import Context
from gitcp.mcp import arguments, documents, reading, writing
from gitcp.mcp.arguments import Arguments
from gitcp.mcp.page import URI
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
    document: Any
    hints: dict[str, Any]
    page: str = ""

    def listed(self) -> Listed:
        """Return what clients see."""
        return Listed(
            name=self.name,
            title=self.title,
            description=self.arguments.description(),
            input_schema=self.arguments.schema_of(),
            output_schema=documents.schema_of(self.document),
            annotations=ToolAnnotations(title=self.title, **self.hints),
            _meta={"ui": {"resourceUri": self.page}} if self.page else None,
        )


TIMELINE = Tool(
    "timeline",
    "Show the timeline",
    reading.timeline,
    arguments.Timeline,
    documents.Rows,
    READS,
    URI,
)
"""Only for clients that can show its page."""

TOOLS = (
    Tool("save", "Save a checkpoint", writing.save, arguments.Save, documents.Saved, ADDS_ONCE),
    Tool(
        "list",
        "List checkpoints",
        reading.list_checkpoints,
        arguments.List,
        documents.Rows,
        READS,
    ),
    Tool(
        "show",
        "Show a checkpoint",
        reading.show,
        arguments.Show,
        documents.Checkpoint | documents.FileContent | documents.Directory,
        READS,
    ),
    Tool("diff", "Compare", reading.diff, arguments.Diff, documents.Differences, READS),
    Tool("find", "Search", reading.find, arguments.Find, documents.Matches, READS),
    Tool("why", "Explain a line", reading.why, arguments.Why, documents.Origin, READS),
    Tool("note", "Note", writing.note, arguments.Note, documents.PendingNote, ADDS),
    Tool(
        "restore",
        "Restore a checkpoint",
        writing.restore,
        arguments.Restore,
        documents.RestorePlan | documents.Restored,
        CHANGES,
    ),
    Tool(
        "undo",
        "Undo",
        writing.undo,
        arguments.Undo,
        documents.RestorePlan | documents.Restored | documents.BroughtBack,
        CHANGES,
    ),
    Tool(
        "revert",
        "Revert a checkpoint",
        writing.revert,
        arguments.Revert,
        documents.RevertPlan | documents.Reverted,
        CHANGES,
    ),
    Tool("fork", "Fork a session", writing.fork, arguments.Fork, documents.Forked, ADDS),
)
