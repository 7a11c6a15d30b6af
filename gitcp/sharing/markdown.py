"""Render a conversation as Markdown that is safe on any forge.

Messages are escaped completely: no HTML, links, images or mentions. Tool input, tool output and
thinking go into collapsed fenced blocks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

from gitcp import wire
from gitcp.adapters.base import Message
from gitcp.model import Checkpoint
from gitcp.readme import code, fence, printable
from gitcp.restoring.restore_notice import handoff_lines
from gitcp.store import subject
from gitcp.value import EMPTY, replace

NAMES = {
    "user": "User",
    "human": "User",
    "assistant": "Agent",
    "model": "Agent",
    "summary": "Summary",
    "system": "System",
}
FOLDED = 20_000
"""Maximum characters of a collapsed block."""

SIGNS = str.maketrans({sign: f"\\{sign}" for sign in r"\`*_{}[]<>#|~&@$^"})
GUESSED = re.compile(r"(?i)(?<=[a-z])(?=://)|(?<=\bwww)(?=\.)")
"""Where forges autolink."""
OPENS = re.compile(r"^(\s*)(\d+)([.)])|^(\s*)([-+=:])")
FENCE = re.compile(r"^\s*(`{3,}|~{3,})")


Remembered = Mapping[str, str]
"""The files of the agent's memory, by path."""


def texts(
    checkpoint: Checkpoint, messages: Iterable[Message], remembered: Remembered = EMPTY
) -> Iterator[bytes]:
    """Yield all text of a page in lines, unescaped, for a scanner: escaping would hide secrets from
    it.
    """
    note, agent = checkpoint.note, checkpoint.agent
    parts = [subject(checkpoint), note.label, note.phase, note.objective]
    parts += [agent.name, agent.version, agent.model] if agent else []
    parts += _noted(checkpoint)
    spoken = ((message.role, message.tool, message.text) for message in messages)
    for each in chain([parts], spoken, remembered.items()):
        yield "".join(f"{part}\n" for part in each if part).encode("utf-8", "surrogatepass")


def title(checkpoint: Checkpoint, clean: Callable[[str], str] = str) -> str:
    """Return the subject of a checkpoint. Its parts are cleaned before they are truncated."""
    note, conversation = checkpoint.note, checkpoint.conversation
    label = clean(note.label) if note.label else None
    if conversation is not None and conversation.digest.last_prompt:
        conversation = replace(
            conversation,
            digest=replace(conversation.digest, last_prompt=clean(conversation.digest.last_prompt)),
        )
    return clean(
        subject(replace(checkpoint, note=replace(note, label=label), conversation=conversation))
    )


def cleaned(message: Message, clean: Callable[[str], str]) -> Message:
    """Return a message with `clean` applied to its texts."""
    tool = None if message.tool is None else clean(message.tool)
    return replace(message, role=clean(message.role), text=clean(message.text), tool=tool)


def render(
    checkpoint: Checkpoint,
    messages: Iterable[Message],
    clean: Callable[[str], str] = str,
    remembered: Remembered = EMPTY,
) -> Iterator[bytes]:
    """Yield the page: the checkpoint's description, its conversation, and what its agent remembers
    of the project. `clean` is applied to
    every text before it is escaped.
    """
    note, agent = checkpoint.note, checkpoint.agent
    parts = (agent.name, agent.version, agent.model) if agent else ()
    agent_line = " ".join(code(clean(part)) for part in parts if part)
    fields = (("Phase", note.phase), ("Objective", note.objective))
    head = [
        f"# {code(title(checkpoint, clean))}",
        "  \n".join(
            [
                f"Checkpoint {code(str(checkpoint.id))}, {wire.encode_time(checkpoint.created)}",
                *([f"Agent: {agent_line}"] if agent_line else []),
                *(f"{name}: {code(clean(value))}" for name, value in fields if value),
            ]
        ),
    ]
    noted = [_listed(clean(line)) for line in _noted(checkpoint)]
    head += ["\n".join(noted).strip("\n")] if noted else []
    yield "\n\n".join(head).encode("utf-8", "backslashreplace")
    for block in body(cleaned(message, clean) for message in messages):
        yield b"\n\n" + block.encode("utf-8", "backslashreplace")
    for number, (path, text) in enumerate(remembered.items()):
        head_line = "" if number else "## Memory\n\n"
        block = f"{head_line}{code(clean(path))}\n\n{fence(clean(text), FOLDED, FOLDED)}"
        yield b"\n\n" + block.encode("utf-8", "backslashreplace")
    yield b"\n"


def _noted(checkpoint: Checkpoint) -> Iterator[str]:
    """Yield the facts and the handoff, but for what the head has already."""
    return handoff_lines(replace(checkpoint.note, phase=None, objective=None))


def _listed(line: str) -> str:
    """Return a line of a handoff: a paragraph, or an item of a list, with its text verbatim."""
    text = escaped(" ".join(line.removeprefix("- ").split()))
    return f"- {text}" if line.startswith("- ") else f"\n{text}\n"


def body(messages: Iterable[Message]) -> Iterator[str]:
    """Yield the Markdown blocks of a conversation, each safe by itself."""
    speaker = ""
    for message in messages:
        name = _speaker(message)
        if name != speaker:
            yield f"## {name}"
            speaker = name
        yield _block(message)


def _speaker(message: Message) -> str:
    if message.tool is not None or message.role in ("tool", "thinking"):
        return "Agent"
    return NAMES.get(message.role) or code(message.role)


def _block(message: Message) -> str:
    if message.role == "thinking":
        return _folded("thinking", message.text)
    if message.tool is not None:
        kind = "result of" if message.role == "tool" else "call of"
        return _folded(f"{kind} {message.tool}", message.text)
    if message.role == "tool":
        return _folded("tool result", message.text)
    return "\n\n".join(_paragraphs(message.text))


def _folded(title: str, text: str) -> str:
    shown = printable(re.sub(r"\s+", " ", title[:100]))
    for char, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("@", "&#64;")):
        shown = shown.replace(char, entity)
    return f"<details><summary>{shown}</summary>\n\n{fence(text, FOLDED, FOLDED)}\n\n</details>"


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a text, escaped, and its fenced blocks as code."""
    pending: list[str] = []
    opening = ""
    for line in text.replace("\r\n", "\n").expandtabs(4).split("\n"):
        match = FENCE.match(line)
        if opening:
            if line.strip().startswith(opening) and not line.strip().strip(opening[0]):
                yield fence("\n".join(pending), FOLDED, FOLDED)
                pending, opening = [], ""
            else:
                pending.append(line)
        elif match:
            yield from _text_paragraphs(pending)
            pending, opening = [], match[1]
        else:
            pending.append(line)
    if opening:
        yield fence("\n".join(pending), FOLDED, FOLDED)
    else:
        yield from _text_paragraphs(pending)


def _text_paragraphs(lines: list[str]) -> Iterator[str]:
    """Yield lines as escaped paragraphs, with their line breaks."""
    whole = "\n".join(map(escaped, lines)).strip("\n")
    yield from (part.replace("\n", "  \n") for part in re.split(r"\n\s*\n", whole) if part.strip())


def escaped(line: str) -> str:
    """Escape one line so that Markdown shows it verbatim."""
    text = printable(line.rstrip())
    indent = len(text) - len(text.lstrip(" "))
    body = text[indent:].translate(SIGNS)
    if "://" in body or "www" in body.lower():
        body = GUESSED.sub(r"\\", body)
    if not body[:1].isalpha():
        body = OPENS.sub(lambda m: f"{m[2]}\\{m[3]}" if m[2] else f"\\{m[5]}", body)
    return "&nbsp;" * indent + body
