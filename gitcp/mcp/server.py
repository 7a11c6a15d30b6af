"""The server: answers requests on standard input and output, one call at a time.

Each call opens the repository again, like a command. A call that is cancelled while it waits never
begins; one that has begun runs to its end, so that nothing is left half done. Whatever fails is an
error of this call only.

Requests that the protocol's library cannot read are repaired, or answered with an error: it drops
them, and the client waits for ever. A model that cuts an emoji in two sends half a surrogate pair,
which is valid JSON.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    CallToolRequestParams,
    CallToolResult,
    ErrorData,
    GetPromptRequestParams,
    GetPromptResult,
    JSONRPCError,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
    TextResourceContents,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from gitcp import __version__, wire
from gitcp.cli.context import Context
from gitcp.errors import BadValue, GitcpError, StoreDamaged
from gitcp.git import damage
from gitcp.mcp import documents, prompts, resources
from gitcp.mcp.arguments import nearest
from gitcp.mcp.hints import message
from gitcp.mcp.tools import TIMELINE, TOOLS, Tool

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')
"""A text, or a bracket."""

UNREADABLE = "this is no request of the protocol: nothing was changed"


class Incoming:
    """The messages of a stream, each one read or answered (on the stream `answers`)."""

    def __init__(self, messages: Any, answers: Any) -> None:
        self._messages, self._answers = messages, answers

    @property
    def last_context(self) -> Any:
        """The context in which the last message was sent."""
        return self._messages.last_context

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message. Raises EndOfStream."""
        return await self._read(await self._messages.receive())

    async def aclose(self) -> None:
        """Close the stream."""
        await self._messages.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return await self._read(await self._messages.__anext__())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _read(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        if not isinstance(item, ValidationError):
            return item
        fields = _fields(item)
        try:
            text = json.dumps(fields, ensure_ascii=False)
            whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            return SessionMessage(jsonrpc_message_adapter.validate_json(whole, by_name=False))
        except (ValueError, TypeError, RecursionError):
            if answer := _answer(fields):
                await self._answers.send(SessionMessage(answer))
            return item


def _fields(error: ValidationError) -> object:
    """Return what was sent, as far as it is JSON. An error is about a part of it, or about the
    whole; about the line if it cannot be parsed.
    """
    inputs = [each["input"] for each in error.errors(include_url=False)]
    whole = next((each for each in inputs if isinstance(each, dict) and "jsonrpc" in each), None)
    line = next((each for each in inputs if isinstance(each, str)), None)
    if whole is None and line is not None:
        return _parsed(line)
    return whole if whole is not None else inputs[0]


def _parsed(line: str) -> object:
    try:
        return json.loads(line)
    except RecursionError:
        outermost = _parsed(_outermost(line))
        if isinstance(outermost, dict) and "id" in outermost:
            return {"id": outermost["id"]}  # an error: it lacks what was nested
        return None
    except ValueError:
        return None


def _outermost(line: str) -> str:
    """Return an object without what is nested in it: one whose id can be read, to answer it."""
    kept, depth, start = [], 0, 0
    for token in TOKEN.finditer(line):
        if token[0] in "[{":
            depth += 1
            if depth == 2:
                kept.append(line[start : token.start()])
        elif token[0] in "]}":
            depth -= 1
            if depth == 1:
                kept.append("null")
                start = token.end()
    return "".join((*kept, line[start:]))


def _answer(fields: object) -> JSONRPCError | None:
    """Return the error for a request that cannot be read, None for what wants no answer."""
    if not isinstance(fields, dict):
        error = ErrorData(code=PARSE_ERROR, message=UNREADABLE)
        return JSONRPCError(jsonrpc="2.0", id=None, error=error)
    id = fields.get("id")
    if "id" not in fields or "result" in fields or "error" in fields:
        return None
    error = ErrorData(code=INVALID_REQUEST, message=UNREADABLE)
    valid = isinstance(id, str) or type(id) is int
    return JSONRPCError(jsonrpc="2.0", id=id if valid else None, error=error)


R = TypeVar("R")
Request = ServerRequestContext[Any]

INSTRUCTIONS = (
    "gitcp keeps checkpoints of the working tree and of the conversation, each one commit in the "
    "user's repository. Save before something risky and after something works. Write down "
    "decisions, what failed and what comes next with save or note. restore, undo and revert return "
    "a plan and its digest, and change nothing; call them again with the digest to carry the plan "
    "out. A hint in an error is the call to make next."
)


def serve(directory: str) -> None:
    """Serve the repository around a directory until standard input ends."""
    logging.disable()  # what fails is answered; standard error is for the notes of gitcp
    anyio.run(_serve, CheckpointServer(directory).server())


async def _serve(server: Server[Any]) -> None:
    async with stdio_server() as (read, write):
        await server.run(Incoming(read, write), write, server.create_initialization_options())


class CheckpointServer:
    """The answers to requests, for the repository around one directory."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._one = anyio.Lock()

    def server(self) -> Server[Any]:
        """Return a server with these answers."""
        server: Server[Any] = Server(
            "gitcp",
            title="gitcp",
            version=__version__,
            instructions=INSTRUCTIONS,
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_list_resources=self.list_resources,
            on_list_resource_templates=self.list_templates,
            on_read_resource=self.read_resource,
            on_list_prompts=self.list_prompts,
            on_get_prompt=self.read_prompt,
        )
        server.extensions[documents.EXTENSION] = {}
        return server

    async def _alone(self, work: Callable[[Context], R]) -> R:
        """Run `work` in a thread, after the calls before it."""
        async with self._one:
            return await anyio.to_thread.run_sync(self._run, work)

    def _run(self, work: Callable[[Context], R]) -> R:
        context = Context(("mcp",))
        context.lives_long = True
        context.directory = self._directory
        try:
            return work(context)
        except StoreDamaged as error:
            with suppress(GitcpError):  # the next save stores them again
                damage.record(context.store.repo, error.objects)
            raise

    # ------------------------------------------------------------ tools

    async def list_tools(
        self, request: Request, _: PaginatedRequestParams | None
    ) -> ListToolsResult:
        """List the tools; the timeline only if the client can show it."""
        return ListToolsResult(tools=[tool.listed() for tool in _tools(request)])

    async def call_tool(self, request: Request, given: CallToolRequestParams) -> CallToolResult:
        """Call a tool. Every failure is a result with `is_error`."""
        arguments = given.arguments or {}
        try:
            tool = _tool(given.name, _tools(request))
            read = tool.arguments.read(arguments)
            result = await self._alone(lambda context: tool.run(context, read))
        except Exception as error:  # noqa: BLE001 -- a server outlives whatever one call meets
            return _result(message(error, given.name, arguments), is_error=True)
        return _result(wire.dumps(result).decode(), structured_content=result)

    # ------------------------------------------------------------ resources

    async def list_resources(
        self, request: Request, given: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """List checkpoints, differences and conversations, page by page."""
        cursor = given.cursor if given else None
        listed, following = await self._answer(lambda context: resources.page(context, cursor), {})
        first = [documents.listed()] if cursor is None and _shows_pages(request) else []
        return ListResourcesResult(resources=[*first, *listed], next_cursor=following)

    async def list_templates(
        self, _: Request, __: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """List the forms of URIs."""
        return ListResourceTemplatesResult(resource_templates=list(resources.TEMPLATES))

    async def read_resource(
        self, _: Request, given: ReadResourceRequestParams
    ) -> ReadResourceResult:
        uri = str(given.uri)
        if uri == documents.URI:
            return ReadResourceResult(contents=[documents.content()])
        content = await self._answer(lambda context: resources.read(context, uri), {"uri": uri})
        text = wire.dumps(content).decode()
        contents = TextResourceContents(uri=uri, mime_type=resources.JSON, text=text)
        return ReadResourceResult(contents=[contents])

    # ------------------------------------------------------------ prompts

    async def list_prompts(
        self, _: Request, __: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        return ListPromptsResult(prompts=prompts.listed())

    async def read_prompt(self, _: Request, given: GetPromptRequestParams) -> GetPromptResult:
        """Return the text of a prompt."""
        name, arguments = given.name, given.arguments or {}
        text = await self._answer(lambda context: prompts.text(context, name, arguments), {})
        content = TextContent(type="text", text=text)
        return GetPromptResult(messages=[PromptMessage(role="user", content=content)])

    async def _answer(self, work: Callable[[Context], R], data: Mapping[str, str]) -> R:
        """Run `work`. A failure is an error of the protocol, which has no other for these."""
        try:
            return await self._alone(work)
        except Exception as error:  # noqa: BLE001 -- as in call_tool
            raise MCPError(INVALID_PARAMS, message(error, "", {}), dict(data)) from None


def _shows_pages(request: Request) -> bool:
    capabilities = request.session.client_capabilities
    return documents.is_supported(capabilities.extensions if capabilities else None)


def _tools(request: Request) -> tuple[Tool, ...]:
    return (*TOOLS, TIMELINE) if _shows_pages(request) else TOOLS


def _tool(name: str, known: tuple[Tool, ...]) -> Tool:
    for tool in known:
        if tool.name == name:
            return tool
    names = [tool.name for tool in known]
    raise BadValue(f"there is no tool {name[:100]!r}{nearest(name, names)}; nothing was changed")


def _result(text: str, **fields: Any) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], **fields)
