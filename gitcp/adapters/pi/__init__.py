"""Pi: a file for each session below `~/.pi/agent/sessions`, in a directory for each working
directory; directly in that of PI_CODING_AGENT_SESSION_DIR.

    <sessions>/--<directory>--/<time>_<session>.jsonl     append-only

The first line has the id and the `cwd`, where Pi runs the session wherever it is resumed; one that
does not exist is refused. The other lines form a tree by `id` and `parentId`. As tried with 1.5.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gitcp import wire
from gitcp.adapters import base
from gitcp.adapters.base import Image, Message
from gitcp.adapters.session_files import SessionFiles
from gitcp.model import Digest, Host
from gitcp.value import replace

SUMMARIES = ("compaction", "branch_summary")
NAMED = "{time}_{session}.jsonl"
ROLES = {"user": "user", "assistant": "assistant", "toolResult": "tool", "bashExecution": "tool"}


class Pi(SessionFiles):
    """Pi's sessions."""

    NAME = "pi"
    id_field = "id"
    in_each_line = False
    latest: tuple[str, ...] = ("pi", "--continue")
    pattern = "*_*.jsonl"
    kinds = frozenset(
        (
            *(*SUMMARIES, "custom", "custom_message", "label", "message", "model_change"),
            *("session", "session_info", "thinking_level_change"),
        )
    )

    def directory(self, cwd: str, host: Host) -> Path:
        """Return the directory of a working directory."""
        if chosen := host.env.get("PI_CODING_AGENT_SESSION_DIR"):
            return Path(chosen)
        name = cwd.removeprefix("/")
        for separator in "/\\:":
            name = name.replace(separator, "-")
        return _sessions(host) / f"--{name}--"

    def files(self, host: Host) -> Iterable[Path]:
        """Return all transcripts."""
        if chosen := host.env.get("PI_CODING_AGENT_SESSION_DIR"):
            return base.glob(Path(chosen), self.pattern)
        return base.glob(_sessions(host), f"*/{self.pattern}")

    def session_of(self, path: Path) -> str:
        """Return the id behind the time."""
        return path.stem.partition("_")[2]

    def name_of(self, session_id: str, host: Host) -> str:
        """Return a name with the current time."""
        now = host.now()
        time = f"{now:%Y-%m-%dT%H-%M-%S}-{now.microsecond // 1000:03}Z"
        return NAMED.format(time=time, session=session_id)

    def command(self, session_id: str) -> tuple[str, ...]:
        """Return the command that resumes a session."""
        return ("pi", "--session", session_id)

    def recognise(self, fields: Mapping[str, Any]) -> str | None:
        """Return the session that the first line of a transcript names."""
        is_ours = fields.get("type") == "session" and "cwd" in fields
        return fields.get("id") if is_ours else None

    def described(self, before: Digest, fields: dict[str, Any]) -> Digest:
        """Take the model of the last answer, and the name that the user gave."""
        model = base.string(base.message_of(fields), "model")
        title = base.string(fields, "name") if fields.get("type") == "session_info" else None
        return replace(before, model=model or before.model, title=title or before.title)

    def parts(self, fields: dict[str, Any]) -> Iterator[Message]:
        """Yield what an entry shows."""
        kind, id = fields.get("type"), base.string(fields, "id")
        time = base.string(fields, "timestamp")
        if kind in SUMMARIES:
            yield Message("summary", base.string(fields, "summary") or "", id, time)
        elif kind == "custom_message":
            yield Message("system", base.text_of(fields.get("content")), id, time)
        elif kind == "message":
            message = base.message_of(fields)
            role = ROLES.get(str(message.get("role")))
            if role == "tool":
                yield _result(Message(role, "", id, time), message)
            elif role is not None:
                yield from _blocks(Message(role, "", id, time), message.get("content"))


def _sessions(host: Host) -> Path:
    home = host.env.get("PI_CODING_AGENT_DIR") or host.home / ".pi" / "agent"
    return Path(home) / "sessions"


def _result(message: Message, result: dict[str, Any]) -> Message:
    text = base.text_of(result.get("content")) or base.string(result, "output") or ""
    tool, call = base.string(result, "toolName") or "bash", base.string(result, "toolCallId")
    message = replace(message, text=text, tool=tool, call=call or message.id)
    failed = result.get("isError") is True
    return base.with_images(replace(message, failed=failed), _images(result.get("content")))


def _blocks(message: Message, content: Any) -> Iterator[Message]:
    if isinstance(content, str):
        yield replace(message, text=content)
    for block in base.objects(content):
        match block.get("type"):
            case "text":
                yield replace(message, text=base.string(block, "text") or "")
            case "thinking":
                text = base.string(block, "thinking") or ""
                yield replace(message, role="thinking", text=text)
            case "toolCall":
                arguments = wire.dumps(block.get("arguments")).decode().strip()
                tool, call = base.string(block, "name") or "?", base.string(block, "id")
                yield replace(message, text=arguments, tool=tool, call=call)
            case "image":
                yield base.with_images(message, _images([block]))


def _images(blocks: Any) -> Iterator[Image]:
    for block in base.objects(blocks):
        if block.get("type") == "image":
            yield Image(base.string(block, "mimeType") or "image", base.string(block, "data"))


ADAPTER = Pi()
