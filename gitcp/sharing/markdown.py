"""A conversation as Markdown for people, safe to display on any forge, whatever was said in it.

What was said is shown as text: every sign that Markdown knows is escaped, so that there is no HTML,
no link, no image and no mention. What a tool was given, what it gave back and what was thought is
folded, in fenced blocks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from gitcp import wire
from gitcp.adapters.base import Message
from gitcp.model import Checkpoint
from gitcp.readme import code, fence, printable
from gitcp.store import subject
from gitcp.value import replace

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


def texts(checkpoint: Checkpoint, messages: Iterable[Message]) -> bytes:
    """All that a page of these would say, as it was said, for a scanner: what is escaped hides from
    it.
    """
    note, agent = checkpoint.note, checkpoint.agent
    words = [subject(checkpoint), note.label, note.phase, note.objective]
    words += [agent.name, agent.version, agent.model] if agent else []
    said = (part for message in messages for part in (message.role, message.tool, message.text))
    return "\n".join(filter(None, [*words, *said])).encode("utf-8", "surrogatepass")


def called(checkpoint: Checkpoint, clean: Callable[[str], str] = str) -> str:
    """Its subject, made of words that were cleaned before they were cut."""
    note, talk = checkpoint.note, checkpoint.conversation
    label = clean(note.label) if note.label else None
    if talk is not None and talk.digest.last_prompt:
        talk = replace(
            talk, digest=replace(talk.digest, last_prompt=clean(talk.digest.last_prompt))
        )
    return clean(subject(replace(checkpoint, note=replace(note, label=label), conversation=talk)))


def worded(message: Message, clean: Callable[[str], str]) -> Message:
    """A message with its words as they may be shown."""
    tool = None if message.tool is None else clean(message.tool)
    return replace(message, role=clean(message.role), text=clean(message.text), tool=tool)


def render(
    checkpoint: Checkpoint, messages: Iterable[Message], clean: Callable[[str], str] = str
) -> str:
    """The whole page: what the checkpoint is, and its conversation; `clean` sees every text before
    it is escaped.
    """
    note, agent = checkpoint.note, checkpoint.agent
    parts = (agent.name, agent.version, agent.model) if agent else ()
    who = " ".join(code(clean(part)) for part in parts if part)
    named = (("Phase", note.phase), ("Objective", note.objective))
    head = [
        f"# {code(called(checkpoint, clean))}",
        "  \n".join(
            [
                f"Checkpoint {code(str(checkpoint.id))}, {wire.encode_time(checkpoint.created)}",
                *([f"Agent: {who}"] if who else []),
                *(f"{name}: {code(clean(value))}" for name, value in named if value),
            ]
        ),
    ]
    return "\n\n".join([*head, *told(worded(message, clean) for message in messages)]) + "\n"


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
