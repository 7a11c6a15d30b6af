"""The documents that tools return, from which the schemas are made that clients see.

Most are those of `gitcp.cli.objects`. Long lists and texts are bounded here, and what was left out
is counted. The timeline is a page that clients with MCP Apps show in the chat: one file, which asks
for nothing outside and calls show, diff and restore through its host.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from itertools import islice
from typing import Any

from mcp_types import Resource, TextResourceContents

from gitcp import documents
from gitcp.documents import PRINTED, document
from gitcp.value import Value
from gitcp.wire import Json

EXTENSION = "io.modelcontextprotocol/ui"
URI = "ui://gitcp/timeline.html"
MIME_TYPE = "text/html;profile=mcp-app"

META: dict[str, Any] = {"ui": {"csp": {}, "prefersBorder": True}}
"""No domain is allowed: the host's sandbox blocks every request."""


def is_supported(extensions: dict[str, dict[str, Any]] | None) -> bool:
    """Return whether a client with these extensions shows such pages."""
    types = (extensions or {}).get(EXTENSION, {}).get("mimeTypes")
    return isinstance(types, list) and MIME_TYPE in types


def listed() -> Resource:
    """Return the page as clients list it."""
    return Resource(
        uri=URI,
        name="timeline",
        title="Timeline",
        description="The page of the tool timeline",
        mime_type=MIME_TYPE,
        _meta=META,
    )


def content() -> TextResourceContents:
    """Return the page."""
    text = files("gitcp.mcp").joinpath("timeline.html").read_text("utf-8")
    return TextResourceContents(uri=URI, mime_type=MIME_TYPE, text=text, _meta=META)


MOST_ITEMS = 500
MOST_BYTES = 100_000


class Tokens(Value):
    """Numbers of tokens and of requests that a conversation records. `input` are those that were
    neither read from a cache nor written to one.
    """

    requests: int
    input: int
    output: int
    cache_read: int
    cache_write: int
    total: int


class ShownCheckpoint(documents.Checkpoint):
    """A checkpoint, from `show`, with the tokens of its conversation up to there; null if none are
    recorded.
    """

    tokens: Tokens | None


class FileContent(Value):
    """The text of a file, from `show`. `cut`: only the beginning of its `bytes`."""

    id: str
    path: str
    text: str
    bytes: int
    cut: bool


class Directory(Value):
    """The names in a directory, from `show`; those of directories end with a slash."""

    id: str
    path: str
    names: tuple[bytes, ...]


class Saved(Value):
    """The result of `save`. `saved` is false if nothing changed; `reason` says so."""

    saved: bool
    reason: str | None
    warning: str | None
    checkpoint: documents.Checkpoint


class ListedRow(documents.Row):
    """A checkpoint in a list."""

    tags: tuple[str, ...]


class Rows(Value):
    """Checkpoints, newest first."""

    checkpoints: tuple[ListedRow, ...]


class PathChange(documents.Change):
    """A path that differs. `state` is null unless it is that of a state outside the files, of which
    the patch has nothing.
    """

    state: documents.ChangedState | None


class Differences(Value):
    """The result of `diff`. `cut`: the patch has only its beginning."""

    changes: tuple[PathChange, ...]
    patch: str
    cut: bool


class Matches(Value):
    """The result of `find`. `cut`: there are more matches than were asked for."""

    matches: tuple[documents.Match, ...]
    cut: bool


class CallDocument(Value):
    """A call of a tool."""

    tool: str
    arguments: Mapping[str, Any]


class RestorePlan(documents.Restored):
    """What a restore would do. `next` is the call that does it."""

    digest: str
    next: CallDocument


class RevertPlan(documents.Reverted):
    """What a revert would do. `next` is the call that does it."""

    digest: str
    next: CallDocument


class BroughtBack(Value):
    """Checkpoints and tags that were brought back from the trash, or removed again."""

    operation: int
    checkpoints: tuple[str, ...]
    tags: tuple[str, ...]


DOCUMENTS: Mapping[str, type[Value]] = {
    "checkpoint": ShownCheckpoint,
    "file": FileContent,
    "directory": Directory,
    "save": Saved,
    "list": Rows,
    "differences": Differences,
    "note": documents.Waiting,
    "matches": Matches,
    "why": documents.Origin,
    "restore-plan": RestorePlan,
    "restore": documents.Restored,
    "brought-back": BroughtBack,
    "revert-plan": RevertPlan,
    "revert": documents.Reverted,
    "fork": documents.Forked,
}
"""By the names of their schemas."""

OMITTED = {"type": "object", "additionalProperties": {"type": "integer"}}


def schema_of(*names: str) -> Json:
    """Return the JSON schema of documents with these names."""
    schemas = {name: PRINTED.schema(DOCUMENTS[name]) for name in names}
    parts: Json = {}
    for name, schema in schemas.items():
        parts |= schema.pop("$defs", {})
        of_document = {"schema": {"const": f"gitcp.{name}/1"}, "omitted": OMITTED}
        schema["properties"] = {**of_document, **schema["properties"]}
        schema["required"] = [*of_document, *schema["required"]]
    if documents.Encoded.__name__ in str([schemas, parts]):
        parts[documents.Encoded.__name__] = PRINTED.schema(documents.Encoded)
    if len(names) == 1:
        return {**schemas[names[0]], "$defs": parts}
    return {"type": "object", "anyOf": [*schemas.values()], "$defs": parts}


def bounded(name: str, fields: Json) -> Json:
    """Return a document with at most MOST_ITEMS in a list, and MOST_BYTES characters in a text."""
    omitted: dict[str, int] = {}
    short = _short(fields, "", omitted)
    return {**document(name, short), "omitted": omitted}


def _short(value: Any, name: str, omitted: dict[str, int]) -> Any:
    most = MOST_BYTES if isinstance(value, str) else MOST_ITEMS
    if isinstance(value, str | list | dict) and len(value) > most:
        omitted[name] = omitted.get(name, 0) + len(value) - most
    if isinstance(value, dict):
        within = f"{name}." if name else ""
        some = islice(value.items(), most)
        return {key: _short(each, within + key, omitted) for key, each in some}
    if isinstance(value, list):
        return [_short(each, name, omitted) for each in value[:most]]
    return value[:most] if isinstance(value, str) else value
