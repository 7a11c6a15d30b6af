"""The rows of a page: a call with its result is one, and agents' own markup is named. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gitcp.adapters.base import Message
from gitcp.value import Value, replace

MARKUP = {
    "bash-input": "Shell command",
    "bash-stderr": "Errors",
    "bash-stdout": "Output",
    "command-args": "Arguments",
    "command-message": "Running",
    "command-name": "Command",
    "ide_opened_file": "Open in the editor",
    "ide_selection": "Selected in the editor",
    "local-command-caveat": "Note",
    "local-command-stderr": "Errors",
    "local-command-stdout": "Output",
    "system-reminder": "Reminder",
    "task-notification": "Notification",
    "user-memory-input": "To remember",
}
"""Elements that Claude Code puts into prompts, and what they are."""

ELEMENT = re.compile(rf"<({'|'.join(MARKUP)})>(.*?)</\1>", re.DOTALL)


class PageRow(Value):
    """A message of the page; for a call of a tool, its `result` if that is on the page too.

    `prompt` numbers the user's prompts of a checkpoint from 1; 0 for other messages.
    """

    message: Message
    result: Message | None = None
    prompt: int = 0


class Part(Value):
    """A part of a message: plain text, or an element of markup with its name in words."""

    name: str
    text: str


def rows(messages: Sequence[Message]) -> list[PageRow]:
    """Return the rows of a checkpoint's messages, in order."""
    made: list[PageRow] = []
    waiting: dict[str, int] = {}
    prompts = 0
    for message in messages:
        at = waiting.pop(message.call, None) if message.role == "tool" and message.call else None
        if at is not None:
            made[at] = replace(made[at], result=message)
            continue
        if message.role == "user":
            prompts += 1
        if message.tool and message.role == "assistant" and message.call:
            waiting[message.call] = len(made)
        made.append(PageRow(message, prompt=prompts if message.role == "user" else 0))
    return made


def prompts(messages: Sequence[Message]) -> list[tuple[int, str]]:
    """Return the number and the text of each prompt of a checkpoint."""
    texts = (message.text for message in messages if message.role == "user")
    return list(enumerate(texts, start=1))


def parts(text: str) -> list[Part]:
    """Return the parts of a message: text has the name ""."""
    return list(_parts(text))


def _parts(text: str) -> Iterator[Part]:
    at = 0
    for match in ELEMENT.finditer(text):
        if before := text[at : match.start()].strip():
            yield Part("", before)
        if match[2].strip():
            yield Part(MARKUP[match[1]], match[2].strip())
        at = match.end()
    if rest := text[at:].strip():
        yield Part("", rest)
