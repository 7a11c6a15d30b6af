"""The scripted model as Gemini CLI speaks to it: `generateContent`, streamed and whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

from scripted_model import ScriptedModel, Step


class ScriptedGemini(ScriptedModel):
    """Answers each request that offers tools with the next step."""

    @classmethod
    def handler(cls) -> type[BaseHTTPRequestHandler]:
        """What speaks the protocol."""
        return _Handler


def said(body: dict[str, Any]) -> list[str]:
    """What a request tells the model of the conversation: its texts, and the names of the tools
    that were called.
    """
    return [
        text for content in body["contents"] for part in content["parts"] for text in _part(part)
    ]


def _part(part: dict[str, Any]) -> Iterator[str]:
    if "text" in part:
        yield part["text"]
    elif "functionCall" in part:
        yield part["functionCall"]["name"]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the requests are kept."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        if ":countTokens" in self.path:
            self._send("application/json", json.dumps({"totalTokens": 100}))
            return
        answer = json.dumps(_response(self.server.model.answer(body)))  # type: ignore[attr-defined]
        if ":streamGenerateContent" in self.path:
            self._send("text/event-stream", f"data: {answer}\n\n")
        else:
            self._send("application/json", answer)

    def _send(self, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _response(step: Step) -> dict[str, Any]:
    if "tool" in step:
        part: dict[str, Any] = {"functionCall": {"name": step["tool"], "args": step["input"]}}
    else:
        part = {"text": step["text"]}
    content = {"role": "model", "parts": [part]}
    return {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
        "modelVersion": "gemini-2.5-pro",
    }
