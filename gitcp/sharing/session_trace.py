"""Write a conversation as a session trace, which the Hugging Face Hub shows (Session Trace Simple
Format, https://huggingface.co/docs/hub/session-traces-format): a line for the session, then one for
each message. Made from the trajectory, which has thinking, calls and results in their places.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from gitcp import wire
from gitcp.wire import Json


def lines(trajectory: Json, title: str | None) -> Iterator[Json]:
    """Yield the lines of a trajectory (gitcp.sharing.trajectory). Pure."""
    agent, extra = trajectory["agent"], trajectory["extra"]
    yield {
        "type": "session",
        "harness": agent["name"],
        "id": trajectory["session_id"],
        **({"name": title} if title else {}),
        "checkpoint": extra["checkpoint"],
        "commit": extra["commit"],
    }
    for step in trajectory["steps"]:
        for message in _messages(step, agent.get("model_name")):
            yield {"type": "message", "message": message}


def _messages(step: Json, model: str | None) -> Iterator[Json]:
    time = step.get("timestamp")
    known: Json = {"timestamp": _milliseconds(time)} if time else {}
    calls = [
        {
            "id": call["tool_call_id"],
            "function": {
                "name": call["function_name"],
                "arguments": wire.dumps(call["arguments"]).decode("utf-8"),
            },
        }
        for call in step.get("tool_calls", ())
    ]
    spoken: Json = {"content": _text(step["message"])}
    if step["source"] == "agent":
        spoken |= {"toolCalls": calls} if calls else {}
        thought, by = step.get("reasoning_content"), step.get("model_name") or model
        spoken |= {"reasoningContent": thought} if thought else {}
        known |= {"model": by} if by else {}
        yield {"role": "assistant", **spoken, **known}
    elif spoken["content"] or "observation" not in step:
        yield {"role": step["source"], **spoken, **known}
    for result in step.get("observation", {}).get("results", ()):
        answered = result.get("source_call_id")
        named = {"toolCallId": answered} if answered else {}
        yield {"role": "tool", "content": _text(result["content"]), **named}


def _text(content: Any) -> str:
    """Return the text of a message; images are named by their paths."""
    if isinstance(content, str):
        return content
    return "\n".join(
        part["text"] if part["type"] == "text" else f"[image: {part['source']['path']}]"
        for part in content
    )


def _milliseconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000)
