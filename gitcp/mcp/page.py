"""The timeline: a page that clients with MCP Apps show in the chat.

The page is one file and asks for nothing outside. It gets the checkpoints as the result of the
tool `timeline`, calls show, diff and restore through its host, and shows what it gets as text.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from mcp_types import Resource, TextResourceContents

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
