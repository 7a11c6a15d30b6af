"""Convert a stored conversation for another agent: read as a dialogue, with gitcp's note at its
head, and written as a transcript that the other agent resumes.

The stored conversation is never changed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4, uuid5

from gitcp import adapters, wire
from gitcp.adapters import conversion
from gitcp.adapters.base import Stored
from gitcp.adapters.conversion import SPACE, Target, parse_time
from gitcp.agents import SAVED
from gitcp.dialogue import Dialogue, Item, Text
from gitcp.errors import Refused, RevisionNotFound
from gitcp.model import Agent, Checkpoint, CheckpointId, Note
from gitcp.restoring import placing, trust
from gitcp.restoring.placing import Placed
from gitcp.restoring.restore_notice import handoff_lines
from gitcp.state import conversions, oplog
from gitcp.state.conversions import ConversionRecord, Inserted
from gitcp.store import Store
from gitcp.value import Value, replace
from gitcp.worktree.paths import display

CONVERT = "convert"
"""The operation as the log names it."""


class Handover(NamedTuple):
    """A checkpoint's conversation, converted, and where it goes."""

    checkpoint: CheckpointId
    converted: Converted
    placed: Placed


class Converted(Value):
    """A converted conversation: where it comes from (`source`), the agent that it is for, its
    transcript, the number of its messages, and what is not in it, by description. `record` is what
    a later conversion needs to append to it.
    """

    source: Agent
    agent: Agent
    stored: Stored
    messages: int
    omitted: Mapping[str, int]
    record: ConversionRecord

    def to_json(self) -> wire.Json:
        """Return the fields that `gitcp export --as AGENT --json` prints of the conversion."""
        return {
            "from": {"agent": self.source.name, "session_id": self.source.session_id},
            "to": {"agent": self.agent.name, "session_id": self.agent.session_id},
            "messages": self.messages,
            "omitted": dict(self.omitted),
        }


def plan(store: Store, checkpoint: Checkpoint, agent: str, cwd: Path) -> Handover:
    """Return a checkpoint's conversation as another agent's, and where it would go. Writes nothing.

    What was converted before is appended to. If the agent has continued that session, a new one is
    made. Raises what `check` and the adapter's `place` raise.
    """
    source = check(store, checkpoint, agent)
    assert checkpoint.conversation is not None
    path = placing.directory(store, checkpoint.conversation, source) or cwd
    before = conversions.last(store.repo, source.name, source.session_id, agent)
    first = convert(store, checkpoint, agent, path, before)
    handover = _placed(store, checkpoint, first, path)
    if handover.placed.session_id != handover.converted.agent.session_id:
        again = convert(store, checkpoint, agent, path, session_id=str(uuid4()))
        handover = _placed(store, checkpoint, again, path)
    return handover


def _placed(store: Store, checkpoint: Checkpoint, converted: Converted, path: Path) -> Handover:
    adapter = adapters.load(converted.agent.name)
    placement = adapter.place(converted.stored, path, store.repo.host, new_id=str(uuid4()))
    placed = Placed(adapter.NAME, converted.messages, placement, path)
    return Handover(checkpoint.id, converted, placed)


def write(store: Store, handover: Handover) -> None:
    """Write the transcript and record the conversion. Raises Refused if a file cannot be written,
    or changed since the plan was made.
    """
    unwritten = placing.write(handover.placed)
    if unwritten is not None:
        raise Refused(f"{display(unwritten.path)}: {unwritten.reason}")
    session_id = handover.placed.session_id or handover.converted.record.session_id
    record = replace(handover.converted.record, session_id=session_id)
    conversions.record(store.repo, record)
    if handover.placed.changes:
        source = f"{record.source} session {record.source_session}"
        summary = f"from {source} to {record.agent} session {session_id}"
        oplog.record(store.repo, CONVERT, summary, checkpoints=(handover.checkpoint,))


def check(store: Store, checkpoint: Checkpoint, agent: str) -> Agent:
    """Return the agent whose conversation a checkpoint has. Raises RevisionNotFound if it has none,
    BadValue if either agent has no converter, and Refused if it is the same.
    """
    adapters.converter(agent)
    if checkpoint.conversation is None or checkpoint.agent is None:
        raise RevisionNotFound(
            f"checkpoint {checkpoint.id} has no conversation of an agent; nothing was converted",
            hint=f"gitcp show {checkpoint.id}",
        )
    adapters.reader(checkpoint.agent.name)
    if checkpoint.agent.name == agent:
        raise Refused(
            f"the conversation of {checkpoint.id} is {SAVED[agent].title}'s already; "
            "nothing was converted",
            hint=trust.command("resume", store, checkpoint),
        )
    return checkpoint.agent


def convert(
    store: Store,
    checkpoint: Checkpoint,
    agent: str,
    cwd: Path,
    before: ConversionRecord | None = None,
    session_id: str | None = None,
) -> Converted:
    """Return a checkpoint's conversation as a transcript of another agent, for the directory `cwd`.

    With the conversion `before`, the result begins with what that one wrote, as far as the
    conversation still does. `session_id` is the new session's id (default: always the same for the
    same conversation and agent). Writes nothing. Raises what `check` raises.
    """
    source = check(store, checkpoint, agent)
    assert checkpoint.conversation is not None
    content = placing.content(store, checkpoint.conversation, source)
    dialogue = adapters.reader(source.name).read(content)
    if not dialogue.items:
        raise RevisionNotFound(
            f"the conversation of {checkpoint.id} has no messages; nothing was converted",
            hint=f"gitcp show {checkpoint.id}",
        )
    record = _record(store, source, agent, checkpoint, dialogue, before)
    if before is None:
        model = adapters.model(agent, cwd, store.repo.host)
        record = replace(record, model=model, session_id=session_id or record.session_id)
    whole = replace(dialogue, items=_with_notes(dialogue.items, record.notes))
    target = Target(record.session_id, os.path.realpath(cwd), record.began, record.model)
    written = adapters.converter(agent).write(whole, target)
    result = replace(conversion.stored(written.capture), aside=content.aside)
    omitted = {**dialogue.omitted}
    for what, count in written.omitted.items():
        omitted[what] = omitted.get(what, 0) + count
    return Converted(source, result.agent, result, len(dialogue.items), omitted, record)


def main_file(store: Store, converted: Converted) -> bytes:
    """Return the file that the agent resumes, or imports."""
    adapter = adapters.load(converted.agent.name)
    session_id = converted.record.session_id
    nowhere = replace(store.repo.host, home=store.repo.state_dir / "nowhere", env={})
    placement = adapter.place(converted.stored, store.repo.root, nowhere, new_id=session_id)
    return b"".join(placement.files[0].content())


def _record(
    store: Store,
    source: Agent,
    agent: str,
    checkpoint: Checkpoint,
    dialogue: Dialogue,
    before: ConversionRecord | None,
) -> ConversionRecord:
    """Return the record of this conversion. A note that changed since `before` goes behind what
    that one had.
    """
    text = "\n".join(_head(source, checkpoint.note))
    if before is None:
        identity = (source.name, source.session_id or str(checkpoint.id), agent)
        session_id = str(uuid5(SPACE, "\0".join(identity)))
        began = store.repo.host.now()
        notes: tuple[Inserted, ...] = (Inserted(0, text),)
    else:
        session_id, began, notes = before.session_id, before.began, before.notes
        if notes[-1].text != text:
            notes = (*notes, Inserted(before.items, text))
    return ConversionRecord(
        source=source.name,
        source_session=source.session_id,
        agent=agent,
        session_id=session_id,
        began=began,
        items=len(dialogue.items),
        notes=notes,
        model=before.model if before else None,
        ended=max(filter(None, (parse_time(item.time) for item in dialogue.items)), default=began),
    )


def _head(source: Agent, note: Note) -> list[str]:
    """Return the first message for the other agent. It has no checkpoint's number, so that it stays
    the same while the note does.
    """
    session = f", session {source.session_id}" if source.session_id else ""
    begun = f"[gitcp] This conversation was begun with {SAVED[source.name].title}{session}"
    return [
        f"{begun}, and is continued with you.",
        "Its tool calls name that agent's tools, not yours. Read files again before changing them.",
        *handoff_lines(note),
    ]


def _with_notes(items: Sequence[Item], notes: Sequence[Inserted]) -> tuple[Item, ...]:
    """Return the items with each note before the item at its position, at that item's time."""
    result: list[Item] = []
    for index in range(len(items) + 1):
        at = items[min(index, len(items) - 1)].time
        here = (note for note in notes if min(note.position, len(items)) == index)
        result += [Item("user", (Text(note.text),), at) for note in here]
        result += items[index : index + 1]
    return tuple(result)
