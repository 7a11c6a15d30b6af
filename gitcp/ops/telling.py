"""A conversation as Markdown for people, safe to display on any forge, whatever was said in it.

What was said is shown as text: every sign that Markdown knows is escaped, so that there is no HTML, no link, no image
and no mention. What a tool was given, what it gave back and what was thought is folded, in fenced blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gitcp import wire
from gitcp.adapters.base import Message
from gitcp.model import Checkpoint
from gitcp.readme import code, fence, printable
from gitcp.store import subject

NAMES = {
    "user": "User",
    "human": "User",
    "assistant": "Agent",
    "model": "Agent",
    "summary": "Summary",
    "system": "System",
}
FOLDED = 20_000
"""Characters of a folded block that are shown."""

SIGNS = re.compile(r"([\\`*_{}\[\]<>#|~&@$^])")
GUESSED = re.compile(r"(?i)(?<=[a-z])(?=://)|(?<=\bwww)(?=\.)")
"""Where a forge would guess a link."""
OPENS = re.compile(r"^(\s*)(\d+)([.)])|^(\s*)([-+=:])")
FENCE = re.compile(r"^\s*(`{3,}|~{3,})")


def render(checkpoint: Checkpoint, messages: Iterable[Message]) -> str:
    """The whole page: what the checkpoint is, and its conversation."""
    note, agent = checkpoint.note, checkpoint.agent
    who = " ".join(code(part) for part in (agent.name, agent.version, agent.model) if part) if agent else ""
    named = (("Phase", note.phase), ("Objective", note.objective))
    head = [
        f"# {code(subject(checkpoint))}",
        "  \n".join(
            [
                f"Checkpoint {code(str(checkpoint.id))}, {wire.encode_time(checkpoint.created)}",
                *([f"Agent: {who}"] if who else []),
                *(f"{name}: {code(value)}" for name, value in named if value),
            ]
        ),
    ]
    return "\n\n".join([*head, *told(messages)]) + "\n"


def told(messages: Iterable[Message]) -> Iterator[str]:
    """The blocks of a conversation, each safe by itself."""
    before = ""
    for message in messages:
        name = _speaker(message)
        if name != before:
            yield f"## {name}"
            before = name
        yield _block(message)


def _speaker(message: Message) -> str:
    if message.tool is not None or message.role in ("tool", "thinking"):
        return "Agent"
    return NAMES.get(message.role) or code(message.role)


def _block(message: Message) -> str:
    if message.role == "thinking":
        return _folded("thinking", message.text)
    if message.tool is not None:
        what = "result of" if message.role == "tool" else "call of"
        return _folded(f"{what} {message.tool}", message.text)
    if message.role == "tool":
        return _folded("result of a tool", message.text)
    return "\n\n".join(_paragraphs(message.text))


def _folded(title: str, text: str) -> str:
    shown = printable(re.sub(r"\s+", " ", title[:100]))
    for sign, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("@", "&#64;")):
        shown = shown.replace(sign, name)
    return f"<details><summary>{shown}</summary>\n\n{fence(text, FOLDED, FOLDED)}\n\n</details>"


def _paragraphs(text: str) -> Iterator[str]:
    """Text as text, and what stands between fences in it as code."""
    held: list[str] = []
    mark = ""
    for line in text.replace("\r\n", "\n").expandtabs(4).split("\n"):
        found = FENCE.match(line)
        if mark:
            if line.strip().startswith(mark) and not line.strip().strip(mark[0]):
                yield fence("\n".join(held), FOLDED, FOLDED)
                held, mark = [], ""
            else:
                held.append(line)
        elif found:
            yield from _said(held)
            held, mark = [], found[1]
        else:
            held.append(line)
    if mark:
        yield fence("\n".join(held), FOLDED, FOLDED)
    else:
        yield from _said(held)


def _said(lines: list[str]) -> Iterator[str]:
    """Lines as paragraphs of escaped text; a line of its own stays one."""
    whole = "\n".join(map(escaped, lines)).strip("\n")
    yield from (part.replace("\n", "  \n") for part in re.split(r"\n\s*\n", whole) if part.strip())


def escaped(line: str) -> str:
    """One line of text that Markdown shows as it is."""
    text = printable(line.rstrip())
    indent = len(text) - len(text.lstrip(" "))
    body = GUESSED.sub(r"\\", SIGNS.sub(r"\\\1", text[indent:]))
    body = OPENS.sub(lambda m: f"{m[2]}\\{m[3]}" if m[2] else f"\\{m[5]}", body)
    return "&nbsp;" * indent + body
