"""Render `.gitcp/README.md`, which describes a checkpoint to readers on a forge.

Pure and deterministic. Text from people and agents is only put in code spans and fenced blocks,
where no forge interprets HTML, links, images, mentions or references. Kept small, since every save
writes one: long lists are truncated; `checkpoint.json` has everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gitcp.model import (
    Checkpoint,
    Conversation,
    FileChange,
    Handoff,
    Kind,
    Skip,
    Snapshot,
    Unlocked,
)
from gitcp.safe import is_joiner
from gitcp.store import subject
from gitcp.wire import encode_time, position_texts

MOST_PATHS = 20
MOST_SKIPS = 10
MOST_ITEMS = 8
MOST_FACTS = 30
LONGEST_ITEM = 160
LONGEST_PATH = 255
LONGEST_QUOTE = 400
MOST_LINES = 12

BLANKS = re.compile(r"[ \t\r\n]+")
FILES = re.compile(
    r"\n\n(## Files\n\n.*?)\n\n(?:Not captured \(|## Conversation\n|To go back: )", re.DOTALL
)
TOTAL = re.compile(r"(?<= changed of )\d+")


def render(checkpoint: Checkpoint, changes: Sequence[FileChange]) -> str:
    """Return the README of a checkpoint. `changes` are its changed files. Safe to
    display, whatever the content.
    """
    return _page(checkpoint, _changes(changes, checkpoint.snapshot.total))


def revised(checkpoint: Checkpoint, before: str) -> str:
    """Return the README of an edited checkpoint, with the list of changes of the old one."""
    match = FILES.search(before)
    return _page(
        checkpoint, TOTAL.sub(str(checkpoint.snapshot.total), match[1], count=1) if match else ""
    )


def _page(checkpoint: Checkpoint, changes: str) -> str:
    note = checkpoint.note
    sections = [
        f"# {code(subject(checkpoint))}",
        _origin(checkpoint),
        _lines(
            _field("Phase", note.phase),
            _field("Objective", note.objective),
            _pairs("Position", position_texts(note.position)),
        ),
        _facts(note.facts),
        *_handoff(note.handoff),
        changes,
        _skipped(checkpoint.snapshot.skipped),
        _unlocked(checkpoint.snapshot.unlocked),
        *_conversation(checkpoint.conversation),
        f"To go back: {code(f'gitcp restore {checkpoint.id}')}",
    ]
    return "\n\n".join(filter(None, sections)) + "\n"


def _origin(checkpoint: Checkpoint) -> str:
    agent = checkpoint.agent
    agent_parts = (
        [code(part) for part in (agent.name, agent.version, agent.model) if part] if agent else []
    )
    parts = [
        f"Checkpoint {code(str(checkpoint.id))}",
        encode_time(checkpoint.created),
        checkpoint.trigger.value,
    ]
    ids = (
        ("Restored from", checkpoint.restored_from),
        ("Forked from", checkpoint.forked_from),
        ("Reverted", checkpoint.reverted),
    )
    return _lines(
        ", ".join([*parts, *_base(checkpoint.snapshot)]),
        f"Agent: {' '.join(agent_parts)}" if agent_parts else "",
        *(_field(title, str(id)) for title, id in ids if id),
    )


def _base(snapshot: Snapshot) -> Iterator[str]:
    if snapshot.base.branch:
        yield f"on {code(snapshot.base.branch)}"
    if snapshot.base.commit:
        yield f"at {code(snapshot.base.commit[:10])}"
    if snapshot.base.unknown:
        yield "at an unknown commit"
    if snapshot.base.operation:
        yield f"in the middle of a {code(snapshot.base.operation)}"


def _facts(facts: Mapping[str, str]) -> str:
    if not facts:
        return ""
    lines = [f"- {code(name)}: {code(value)}" for name, value in sorted(facts.items())[:MOST_FACTS]]
    return "## Facts\n\n" + _list(lines, len(facts))


def _handoff(handoff: Handoff) -> Iterator[str]:
    if not handoff:
        return
    yield "## Handoff"
    yield _field("Task", handoff.task)
    # Decisions and failures accumulate, newest last.
    lists = (
        ("Decided", handoff.decisions, handoff.decisions[-MOST_ITEMS:]),
        ("Tried and failed", handoff.failed, handoff.failed[-MOST_ITEMS:]),
        ("Next", handoff.next, handoff.next[:MOST_ITEMS]),
        ("Active files", handoff.active, handoff.active[:MOST_ITEMS]),
    )
    for title, items, shown in lists:
        if items:
            yield f"{title}:\n\n" + _list([f"- {code(item)}" for item in shown], len(items))


def _changes(changes: Sequence[FileChange], total: int) -> str:
    head = f"## Files\n\n{len(changes)} changed of {total}."
    order = list(Kind)
    first = sorted(changes, key=lambda change: (order.index(change.kind), change.path))[:MOST_PATHS]
    lines = [f"- {change.kind.value}: {_path(change.path)}" for change in first]
    return f"{head}\n\n{_list(lines, len(changes))}" if changes else head


def _skipped(skipped: Sequence[Skip]) -> str:
    if not skipped:
        return ""
    lines = [
        f"- {_path(skip.path)}: {skip.reason.value}"
        + (f", {code(skip.detail)}" if skip.detail else "")
        for skip in skipped[:MOST_SKIPS]
    ]
    return f"Not captured ({len(skipped)}):\n\n" + _list(lines, len(skipped))


def _unlocked(databases: Sequence[Unlocked]) -> str:
    if not databases:
        return ""
    lines = [f"- {_path(each.path)}: {code(each.holder)} held its locks" for each in databases]
    return f"Captured without a lock ({len(databases)}):\n\n" + _list(lines, len(databases))


def _conversation(conversation: Conversation | None) -> Iterator[str]:
    if conversation is None:
        return
    digest = conversation.digest
    yield f"## Conversation\n\n{digest.messages} messages, {conversation.bytes} bytes."
    if digest.last_prompt:
        yield f"Last prompt:\n\n{fence(digest.last_prompt)}"
    if digest.last_message and digest.last_message.text:
        yield (
            "Last message, from "
            f"{code(digest.last_message.role)}:\n\n{fence(digest.last_message.text)}"
        )


# ---------------------------------------------------------------- Markdown


def _lines(*lines: str) -> str:
    """Join lines into one paragraph with line breaks."""
    return "  \n".join(filter(None, lines))


def _field(name: str, value: str | None) -> str:
    return f"{name}: {code(value)}" if value else ""


def _pairs(name: str, pairs: Mapping[str, str]) -> str:
    return (
        f"{name}: " + ", ".join(code(f"{key}={value}") for key, value in sorted(pairs.items()))
        if pairs
        else ""
    )


def _list(lines: Sequence[str], total: int) -> str:
    """Format a list that shows some of `total` items."""
    return "\n".join([*lines, f"- and {total - len(lines)} more"] if total > len(lines) else lines)


def _path(path: bytes) -> str:
    return code(path.decode("utf-8", "backslashreplace"), LONGEST_PATH)


def code(text: str, longest: int = LONGEST_ITEM) -> str:
    """Format text as a code span on one line, delimited by more backticks than it contains."""
    text = _truncate(text, longest)
    flat = (
        text
        if text.isprintable() and "  " not in text
        else printable(BLANKS.sub(" ", text).strip(" "))
    )
    flat = flat.strip(" ")
    if not flat:
        return "(empty)"
    if "`" not in flat:  # as most are
        return f"`{flat}`"
    marks = "`" * (_longest_run(flat) + 1)
    pad = " " if flat[0] == "`" or flat[-1] == "`" else ""
    return f"{marks}{pad}{flat}{pad}{marks}"


def fence(text: str, longest: int = LONGEST_QUOTE, most: int = MOST_LINES) -> str:
    """Format text as a fenced block, delimited by more backticks than it contains."""
    lines = _truncate(text, longest).replace("\r\n", "\n").expandtabs(4).split("\n")
    body = [printable(line) for line in lines[:most]] + ["…"] * (len(lines) > most)
    marks = "`" * max(3, _longest_run("\n".join(body)) + 1)
    return "\n".join([f"{marks}text", *body, marks])


def _truncate(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[:longest] + "…"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def printable(text: str) -> str:
    """Escape control, invisible and bidi characters, except joiners."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or is_joiner(text, at) else c.encode("unicode_escape").decode("ascii")
        for at, c in enumerate(text)
    )
