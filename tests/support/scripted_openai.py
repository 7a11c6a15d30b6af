"""The scripted model as opencode speaks to it: chat completions, streamed and whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

from scripted_model import ScriptedModel, Step


class ScriptedOpenAI(ScriptedModel):
    """Answers each request that offers tools with the next step."""

    @classmethod
    def handler(cls) -> type[BaseHTTPRequestHandler]:
        """What speaks the protocol."""
        return _Handler


def said(body: dict[str, Any]) -> list[str]:
    """What a request tells the model of the conversation: its texts, and the names of the tools
    that were called.
    """
    return [text for message in body["messages"] for text in _parts(message)]


def _parts(message: dict[str, Any]) -> Iterator[str]:
    content = message.get("content") or ()
    if message["role"] in {"user", "assistant"}:
        yield from (
            [content]
            if isinstance(content, str)
            else (part["text"] for part in content if "text" in part)
        )
    yield from (call["function"]["name"] for call in message.get("tool_calls") or ())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the requests are kept."""

    def do_GET(self) -> None:
        self._send("application/json", json.dumps({"object": "list", "data": []}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        step = self.server.model.answer(body)  # type: ignore[attr-defined]
        if body.get("stream"):
            events = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in _chunks(step))
            self._send("text/event-stream", f"{events}data: [DONE]\n\n")
        else:
            self._send("application/json", json.dumps(_whole(step)))

    def _send(self, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def _message(step: Step) -> tuple[dict[str, Any], str]:
    """What the model says, and why it stops there."""
    if "tool" not in step:
        return {"role": "assistant", "content": step["text"]}, "stop"
    function = {"name": step["tool"], "arguments": json.dumps(step["input"])}
    call = {"index": 0, "id": f"call_{id(step) % 10**9}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"


def _whole(step: Step) -> dict[str, Any]:
    message, stop = _message(step)
    choice = {"index": 0, "message": message, "finish_reason": stop}
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": USAGE,
    }


def _chunks(step: Step) -> Iterator[dict[str, Any]]:
    message, stop = _message(step)
    chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    yield {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}
    yield {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": stop}], "usage": USAGE}
