"""A client of `gitcp mcp`: the protocol's own, which starts the server as a real process.

Every document is compared with the schema of its tool, and may have nothing that the schema does
not name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self

import anyio
import jsonschema  # type: ignore[import-untyped]
from mcp import Client, StdioServerParameters
from mcp.client.extension import advertise
from mcp.client.stdio import stdio_client

from driver import SOURCE, Project

LIMIT = 240.0
PAGES = advertise("io.modelcontextprotocol/ui", {"mimeTypes": ["text/html;profile=mcp-app"]})


class Called(Exception):
    """A tool said that it failed."""


def closed(schema: Any) -> Any:
    """A schema that allows nothing which it does not name."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    return {"additionalProperties": False, **inner} if "properties" in inner else inner


class Tools:
    """The tools of one running server."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.schemas: dict[str, Any] = {}

    async def listed(self) -> Self:
        """Ask for the schemas of the results."""
        for tool in (await self.client.list_tools()).tools:
            assert tool.output_schema is not None, tool.name
            self.schemas[tool.name] = closed(tool.output_schema)
        return self

    async def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self.client.call_tool(tool, arguments)
        text = result.content[0].text  # type: ignore[union-attr]
        if result.is_error:
            raise Called(text)
        found = result.structured_content
        assert isinstance(found, dict), result
        jsonschema.validate(found, self.schemas[tool])
        return found


def with_tools(
    project: Project,
    work: Callable[[Tools], Awaitable[None]],
    *,
    cwd: Path | None = None,
    pages: bool = False,
    mode: str = "auto",
) -> None:
    """Do some work with the tools of `gitcp mcp`, started in the project. `pages`: the client can
    show them.
    """
    server = StdioServerParameters(
        command=sys.executable,
        args=["-P", "-m", "gitcp", "mcp"],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        cwd=str(cwd or project.root),
    )

    async def run() -> None:
        with anyio.fail_after(LIMIT):
            transport = stdio_client(server, errlog=nowhere)
            extensions = [PAGES] if pages else None
            async with Client(transport, mode=mode, extensions=extensions) as client:
                await work(await Tools(client).listed())

    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        anyio.run(run)
