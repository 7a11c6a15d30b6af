"""A model on loopback that says what a script tells it to, so that a real agent can be run without
a network.

Speaks as much as agents need of Anthropic Messages (Claude Code, Copilot), streamed and whole, and
of OpenAI Responses (Codex), streamed. Keeps every request.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Step = dict[str, Any]
"""{"text": …} or {"tool": name, "input": {…}}. For Codex's free-form tools the input is a text, and
a tool that it found by `tool_search` has the "namespace" that it was found in.
"""

Reader = Callable[[dict[str, Any]], Step | None]
"""A step that depends on what the request tells the model; None leaves the answer to the next."""


class ScriptedModel:
    """Answers each request that offers tools with the next step; whatever else is asked (titles)
    gets "ok".

    `requests` holds the bodies of the requests that were answered by a step, in order.
    """

    def __init__(self, *steps: Step | Reader) -> None:
        self._steps = iter(steps)
        self._lock = threading.Lock()
        self.requests: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self._server.daemon_threads = True
        self._server.model = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @classmethod
    def handler(cls) -> type[BaseHTTPRequestHandler]:
        """What speaks the protocol."""
        return _Handler

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, body: dict[str, Any]) -> Step:
        """The step that answers this request."""
        if not body.get("tools"):
            return {"text": "ok"}
        with self._lock:
            self.requests.append(body)
            answers = (step if isinstance(step, dict) else step(body) for step in self._steps)
            return next(filter(None, answers), {"text": "There is nothing left to say."})


def said(body: dict[str, Any]) -> list[str]:
    """What a request tells the model of the conversation: its texts, and the names of the tools
    that were called.
    """
    if "input" in body:
        return [text for item in body["input"] for text in _parts(item.get("content") or [item])]
    return [text for message in body["messages"] for text in _parts(message["content"])]


def _parts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
        return
    for part in content:
        if part["type"] in {"text", "input_text", "output_text"}:
            yield part["text"]
        elif part["type"] in {"tool_use", "function_call", "custom_tool_call"}:
            yield part["name"]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the requests are kept."""

    def do_GET(self) -> None:
        self._send({"data": [], "has_more": False})

    def do_HEAD(self) -> None:
        self._send({})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        path = self.path.partition("?")[0]
        if path.endswith("/responses"):
            self._stream(_responses(_response(body, self.server.model.answer(body))))  # type: ignore[attr-defined]
            return
        if not path.endswith("/messages"):
            self._send({"input_tokens": 100})
            return
        step = self.server.model.answer(body)  # type: ignore[attr-defined]
        if body.get("stream"):
            self._stream(_events(_message(body, step)))
        else:
            self._send(_message(body, step))

    def _send(self, value: dict[str, Any]) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _stream(self, events: Iterator[dict[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for event in events:
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())


def _message(body: dict[str, Any], step: Step) -> dict[str, Any]:
    number = id(step) % 10**9
    if "tool" in step:
        content = {
            "type": "tool_use",
            "id": f"toolu_{number}",
            "name": step["tool"],
            "input": step["input"],
        }
    else:
        content = {"type": "text", "text": step["text"]}
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "scripted"),
        "content": [content],
        "stop_reason": "tool_use" if "tool" in step else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 10},
    }


def _events(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    (block,) = message["content"]
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    if block["type"] == "text":
        yield {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": ""},
        }
        delta = {"type": "text_delta", "text": block["text"]}
    else:
        yield {"type": "content_block_start", "index": 0, "content_block": {**block, "input": {}}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 10}}
    yield {"type": "message_stop"}


# ---------------------------------------------------------------- OpenAI Responses


def _response(body: dict[str, Any], step: Step) -> dict[str, Any]:
    number = id(step) % 10**9
    item: dict[str, Any] = {"id": f"item_{number}", "status": "completed"}
    if "text" in step:
        item |= {"type": "message", "role": "assistant"}
        item |= {"content": [{"type": "output_text", "text": step["text"], "annotations": []}]}
    elif isinstance(step["input"], str):
        item |= {
            "type": "custom_tool_call",
            "call_id": f"call_{number}",
            "name": step["tool"],
            "input": step["input"],
        }
    elif step["tool"] == "tool_search":
        item |= {"type": "tool_search_call", "call_id": f"call_{number}", "execution": "client"}
        item |= {"arguments": step["input"]}
    else:
        item |= {"type": "function_call", "call_id": f"call_{number}", "name": step["tool"]}
        item |= {key: step[key] for key in ("namespace",) if key in step}
        item |= {"arguments": json.dumps(step["input"])}
    usage = {"input_tokens": 10, "output_tokens": 10, "total_tokens": 20}
    return {
        "id": f"resp_{number}",
        "object": "response",
        "model": body.get("model", "scripted"),
        "status": "completed",
        "output": [item],
        "usage": usage,
    }


def _responses(response: dict[str, Any]) -> Iterator[dict[str, Any]]:
    (item,) = response["output"]
    yield {
        "type": "response.created",
        "response": {**response, "status": "in_progress", "output": [], "usage": None},
    }
    yield {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {**item, "status": "in_progress"},
    }
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield {"type": "response.completed", "response": response}
