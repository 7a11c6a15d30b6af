"""Write a conversation as an ATIF trajectory (Agent Trajectory Interchange Format 1.7), and read
one.

https://github.com/harbor-framework/harbor/blob/main/rfcs/0001-trajectory-format.md. A
step is a message of the user or the system, or one of the agent with its thinking,
its tool calls and their results.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from gitcp import wire
from gitcp.adapters import base, conversion
from gitcp.adapters.base import IMAGE, IMAGES, Image, Message, Usage
from gitcp.dialogue import NOTICES, Aside, Assembler, Call, Content, Dialogue, Result, Thinking
from gitcp.history import tool_results
from gitcp.model import Agent, Checkpoint
from gitcp.wire import Json

FAMILY = "ATIF-v1."
VERSION = f"{FAMILY}7"
USERS = ("user", "human")
AGENTS = ("assistant", "model", "thinking", "agent")


def render(
    checkpoint: Checkpoint, messages: Iterable[Message], spent: Spending | None = None
) -> Json:
    """Return the trajectory of a checkpoint's conversation, which used the tokens `spent`; None if
    they are not known. Pure.
    """
    steps = _Steps()
    for message in messages:
        steps.add(message)
    steps.close()
    _add_metrics(steps.done, spent.requests if spent else ())
    agent, note = checkpoint.agent, checkpoint.note
    agent_fields: Json = {
        "name": agent.name if agent else "unknown",
        "version": (agent and agent.version) or "unknown",
    }
    if agent and agent.model:
        agent_fields["model_name"] = agent.model
    return {
        "schema_version": VERSION,
        "session_id": (agent and agent.session_id) or checkpoint.id.session,
        "agent": agent_fields,
        "steps": steps.done,
        "final_metrics": {"total_steps": len(steps.done), **_metrics(spent)},
        "extra": {
            "checkpoint": str(checkpoint.id),
            "commit": checkpoint.commit,
            "tree": checkpoint.root,
            "base": checkpoint.snapshot.base.commit,
            "created": wire.encode_time(checkpoint.created),
            "label": note.label,
            "phase": note.phase,
            "objective": note.objective,
        },
    }


def _metrics(spent: Spending | None) -> Json:
    """Return the sums of all requests, also those of sub-agents, which are in no step."""
    sums = _summed([*spent.requests, *spent.asides]) if spent else {}
    return {f"total_{name}": number for name, number in sums.items()}


def _summed(requests: Collection[Usage]) -> Json:
    """Return tokens as the format counts them: cached ones are a part of the prompt's. The cost is
    what the agent reported, if it did for each.
    """
    if not requests:
        return {}
    sums: Json = {
        "prompt_tokens": sum(each.read for each in requests),
        "completion_tokens": sum(each.output for each in requests),
        "cached_tokens": sum(each.cache_read for each in requests),
    }
    costs = [each.cost for each in requests if each.cost is not None]
    return {**sums, "cost_usd": sum(costs)} if len(costs) == len(requests) else sums


def _add_metrics(steps: Iterable[Json], requests: Iterable[Usage]) -> None:
    """Add the tokens of each request to the step that it made: the last one of the agent that had
    begun when the request ended. A request without a time is in the sums alone.
    """
    begun = sorted(
        (
            (datetime.fromisoformat(step["timestamp"]).astimezone(), step["step_id"], step)
            for step in steps
            if step["source"] == "agent" and "timestamp" in step
        ),
        key=lambda each: each[:2],
    )
    made: dict[int, list[Usage]] = {}
    for request in requests:
        if request.time and _is_time(request.time):
            ended = datetime.fromisoformat(request.time).astimezone()
            index = bisect_right(begun, ended, key=lambda each: each[0]) - 1
            if index >= 0:
                made.setdefault(index, []).append(request)
    for index, each in made.items():
        step = begun[index][-1]
        step["metrics"] = _summed(each)
        if each[-1].model:
            step["model_name"] = each[-1].model


class Spending(NamedTuple):
    """The requests that a conversation records, each once: its own, and those of sub-agents."""

    requests: Sequence[Usage]
    asides: Sequence[Usage]


class _PendingCall(NamedTuple):
    """A tool call without a result: the tool, its id in the trajectory, the agent's id, and its
    step.
    """

    tool: str
    id: str
    call: str | None
    step: Json


class _Steps:
    """The steps so far, and pending tool calls.

    A result goes to its call, however late it comes. A second result, or one without a call,
    becomes a system step. A call without a result gets an empty one, marked missing.
    """

    def __init__(self) -> None:
        self.done: list[Json] = []
        self.open: list[_PendingCall] = []
        self.ids: set[str] = set()

    def add(self, message: Message) -> None:
        if message.role == "tool":
            self._result(message)
        elif message.role in AGENTS:
            self._agent_message(message)
        else:
            self._step("user" if message.role in USERS else "system", message)["message"] = (
                _content(message)
            )

    def _agent_message(self, message: Message) -> None:
        """Add a message, thought or call of the agent. Anything after a tool call starts a new
        step.
        """
        step = self.done[-1] if self.done else {}
        is_call = message.role != "thinking" and message.tool is not None
        is_new_step = (
            "observation" in step if is_call else "tool_calls" in step or bool(step.get("message"))
        )
        if step.get("source") != "agent" or is_new_step:
            step = self._step("agent", message)
        if is_call:
            self._call(step, message)
        elif message.role == "thinking":
            step["reasoning_content"] = "\n".join(
                filter(None, (step.get("reasoning_content"), message.text))
            )
        else:
            step["message"] = _content(message)

    def _call(self, step: Json, message: Message) -> None:
        name = message.tool or "?"
        id = message.call or f"call-{len(self.ids) + 1}"
        while id in self.ids:  # ids are unique in a trajectory, which an agent's need not be
            id += "-again"
        self.ids.add(id)
        arguments = wire.parse_line(message.text.encode("utf-8", "replace"))
        call = {
            "tool_call_id": id,
            "function_name": name,
            "arguments": arguments or {"input": message.text},
        }
        step.setdefault("tool_calls", []).append(call)
        self.open.append(_PendingCall(name, id, message.call, step))

    def _result(self, message: Message) -> None:
        """Add a tool's result to the call that it names."""
        call = tool_results.pop_call(self.open, message)
        if call is None:
            step = self._step("system", message)
            step["observation"] = {"results": [{"content": _content(message)}]}
            return
        self._answer(call, _content(message), {"error": True} if message.failed else {})

    def _answer(self, call: _PendingCall, content: Any, extra: Json) -> None:
        results = call.step.setdefault("observation", {"results": []})["results"]
        results.append(
            {"source_call_id": call.id, "content": content, **({"extra": extra} if extra else {})}
        )

    def close(self) -> None:
        """Add an empty result to each pending call."""
        for call in self.open:
            self._answer(call, "", {"missing": True})
        self.open.clear()

    def _step(self, source: str, message: Message) -> Json:
        step: Json = {"step_id": len(self.done) + 1, "source": source, "message": ""}
        if message.time and _is_time(message.time):
            step["timestamp"] = message.time
        self.done.append(step)
        return step


def _content(message: Message) -> str | list[Json]:
    """Return the content of a message without image bytes: parts if it has
    images with a path, else text.
    """
    parts = [_part(image) for image in message.images]
    if not parts or message.text != IMAGE:
        parts.insert(0, {"type": "text", "text": message.text})
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts if part["text"])
    return parts


def _part(image: Image) -> Json:
    if image.place is not None and image.media in IMAGES.values():
        return {"type": "image", "source": {"media_type": image.media, "path": image.place}}
    size = image.size()
    detail = f"{size:,} bytes" if size is not None else image.place
    return {"type": "text", "text": f"[image: {', '.join(filter(None, (image.media, detail)))}]"}


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        return False
    return True


# ---------------------------------------------------------------- reading


def read(document: Json) -> Dialogue:
    """Return a trajectory as a dialogue. A system message at the beginning is the first agent's
    prompt and is left out. An error is one only if our export marked it: the format has no field.
    """
    fields = document.get("agent")
    fields = fields if isinstance(fields, dict) else {}
    agent = Agent(
        base.string(fields, "name") or "unknown",
        _session_id(document),
        base.string(fields, "version"),
        base.string(fields, "model_name"),
    )
    assembler = _assembled(document)
    children = base.objects(document.get("subagent_trajectories"))
    asides = [
        Aside(base.string(child, "trajectory_id") or f"agent{n}", _assembled(child).done())
        for n, child in enumerate(children)
    ]
    items = assembler.done()
    return Dialogue(
        agent, items, tuple(a for a in asides if a.items), omitted=dict(assembler.omitted)
    )


def _session_id(document: Json) -> str | None:
    id = base.string(document, "session_id") or ""
    return id if base.SESSION_ID.fullmatch(id) else None


def _assembled(document: Json) -> Assembler:
    assembler = Assembler()
    for step in base.objects(document.get("steps")):
        time, content = base.string(step, "timestamp"), _parts(step.get("message"))
        if step.get("source") == "agent":
            _read_answer(assembler, step, content, time)
        elif step.get("source") == "user" or assembler.items:
            assembler.user(content, time)
        else:
            assembler.omit(NOTICES)
    return assembler


def _read_answer(
    assembler: Assembler, step: Json, content: tuple[Content, ...], time: str | None
) -> None:
    thinking = Thinking(base.string(step, "reasoning_content") or "")
    calls = [
        Call(
            str(call.get("tool_call_id")),
            base.string(call, "function_name") or "tool",
            conversion.arguments(call.get("arguments")),
        )
        for call in base.objects(step.get("tool_calls"))
    ]
    assembler.assistant([thinking, *content, *calls], time, base.string(step, "model_name"))
    observation = step.get("observation")
    for result in base.objects(observation.get("results") if isinstance(observation, dict) else ()):
        extra = result.get("extra")
        extra = extra if isinstance(extra, dict) else {}
        if not extra.get("missing"):
            failed = extra.get("error") is True
            id = base.string(result, "source_call_id")
            assembler.result(id, Result(_parts(result.get("content")), failed))


def _parts(content: Any) -> tuple[Content, ...]:
    """Return a text, or parts of text and images, of which the format has the paths only."""
    parts: list[Content] = []
    for part in content if isinstance(content, list) else [content]:
        source = part.get("source") if isinstance(part, dict) else None
        if isinstance(source, dict):
            path = base.string(source, "path") or ""
            parts.append(conversion.file_at(path, base.string(source, "media_type")))
        else:
            parts += conversion.texts(part)
    return tuple(parts)
