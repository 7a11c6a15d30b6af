"""A conversation in a file from somebody else: whose it is, what it says of itself, and the
checkpoint made of it.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

from gitcp import adapters, readme, wire
from gitcp.adapters import generic
from gitcp.adapters.base import Found, place_parts
from gitcp.errors import BadValue
from gitcp.model import (
    Agent,
    Capture,
    Checkpoint,
    CheckpointId,
    Digest,
    Handoff,
    Note,
    Oid,
    Trigger,
)
from gitcp.saving import conversation
from gitcp.saving.conversation import MAIN
from gitcp.saving.save import UNKNOWN, changes_between, live_trees
from gitcp.store import Store
from gitcp.value import Value, replace
from gitcp.worktree.snapshot import Limits, take

HEAD_LINES = 50
LONGEST_LINE = 16 << 20
LARGEST_DOCUMENT = generic.LARGEST_DOCUMENT
LARGEST = 1 << 30
MOST_ITEMS = 1000


class Brought(Value):
    """What a file holds: a conversation, what to call its session, what it says about itself, and
    its SHA-256.
    """

    capture: Capture
    session: str
    note: Note
    sha256: str


def read(path: Path, name: str, agent: str | None) -> Brought:
    """A conversation in a file of this `name`. `agent` says whose it is, else it is found out.

    Reads only. Raises BadValue for a file that holds none.
    """
    if path.stat().st_size > LARGEST:
        raise BadValue(f"{name} is larger than a conversation can be: nothing was imported")
    with path.open("rb") as file:
        known = adapters.recognise(
            islice(iter(lambda: file.readline(LONGEST_LINE), b""), HEAD_LINES)
        )
        file.seek(0)
        digest = _sha256(file)
    if agent is None and known is not None:
        agent = known.agent
    label = Note(label=f"imported from {name}")
    if agent not in (None, generic.NAME):
        capture = _of_agent(
            path, name, agent or "", known.session_id if known and known.agent == agent else None
        )
        session = (capture.agent and capture.agent.session_id) or Path(name).stem
        return Brought(capture, session, label, digest)
    capture = replace(generic.from_file(path), agent=None)
    capture = replace(
        capture, sources=tuple(replace(s, place=_place(name)) for s in capture.sources)
    )
    document = _document(path) if capture.format == "json" else None
    if document is not None:
        return Brought(capture, _named(document) or Path(name).stem, _note(document, label), digest)
    _require_messages(capture, path, name)
    return Brought(capture, Path(name).stem, label, digest)


def checkpoint(
    store: Store, brought: Brought, id: CheckpointId, parent: Oid | None, limits: Limits
) -> Oid | None:
    """The commit of a checkpoint of this conversation, beside the files as they are; no ref names
    it yet.

    None if `parent`, the one before it, has this conversation already. Raises what a save raises.
    """
    before = store.read(parent) if parent else None
    try:
        taken = take(store.repo, store.objects, limits, live_trees(store, id.session))
        kept, agent = conversation.keep(store, brought.capture, before)
        if (
            before is not None
            and before.conversation
            and kept
            and before.conversation.streams == kept.streams
        ):
            store.objects.discard()
            return None
        draft = Checkpoint(
            id=CheckpointId(id.session, before.id.number + 1 if before else id.number),
            commit=UNKNOWN,
            root=UNKNOWN,
            parent=parent,
            created=store.repo.host.now(),
            trigger=Trigger.MANUAL,
            agent=agent,
            note=brought.note,
            snapshot=taken.snapshot,
            conversation=kept,
            changed=0,
        )
        changes = changes_between(store, before.snapshot.tree, taken.snapshot) if before else ()
        made = store.commit(replace(draft, changed=len(changes)), readme.render(draft, changes))
    except BaseException:
        store.objects.discard()
        raise
    return made.commit


def _of_agent(path: Path, name: str, agent: str, session_id: str | None) -> Capture:
    """An agent's transcript as it lies: one stream, whatever else its agent would look for beside
    it.
    """
    adapter = adapters.load(agent)
    found = adapter.capture(Found(agent, session_id or Path(name).stem, path, 0.0))
    main = next(source for source in found.sources if source.name == MAIN)
    place = main.place if main.place != path.name else _place(name)
    held = replace(found, sources=(replace(main, live=False, place=place),))
    held = replace(held, agent=Agent(agent, session_id))
    _require_messages(held, path, name)
    return held


def _require_messages(capture: Capture, path: Path, name: str) -> None:
    with path.open("rb") as file:
        found = adapters.for_format(capture.format).digest(
            Digest(), (line.rstrip(b"\n") for line in file)
        )
    if not found.messages:
        raise BadValue(
            f"{name} is no bundle, no JSON with messages, and no transcript that is known: nothing "
            "was imported",
            hint="--agent NAME says whose it is",
        )


def _sha256(file: Any) -> str:
    digest = sha256()
    while chunk := file.read(1 << 20):
        digest.update(chunk)
    return digest.hexdigest()


def _place(name: str) -> str:
    """Under which name the file is put back, where no agent has one for it."""
    return name if place_parts(name) else ""


# ---------------------------------------------------------------- JSON


def _document(path: Path) -> dict[str, Any] | None:
    """The JSON document in a file, if it is an object with messages. Raises BadValue for messages
    that are none.
    """
    if path.stat().st_size > LARGEST_DOCUMENT:
        raise BadValue(f"{path.name} is larger than a JSON document may be: nothing was imported")
    try:
        document = wire.loads(path.read_bytes())
    except ValueError:
        return None
    if not isinstance(document, dict) or not isinstance(document.get("messages"), list):
        return None
    for message in document["messages"]:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise BadValue("one of the messages has no role: nothing was imported")
    return document


def _named(document: dict[str, Any]) -> str | None:
    name = document.get("session")
    return name if isinstance(name, str) else None


def _note(document: dict[str, Any], label: Note) -> Note:
    """What the document says about itself, as far as it is text. No command is taken over."""
    metadata = document.get("metadata")
    said = {**(metadata if isinstance(metadata, dict) else {}), **document}
    handoff = document.get("handoff")
    told = handoff if isinstance(handoff, dict) else {}
    return replace(
        label,
        phase=_text(said.get("phase")),
        objective=_text(said.get("objective")),
        facts=_pairs(document.get("facts")),
        position=_pairs(document.get("position")),
        handoff=Handoff(
            task=_text(told.get("task")),
            decisions=_texts(told.get("decisions")),
            failed=_texts(told.get("failed")),
            next=_texts(told.get("next")),
            active=_texts(told.get("active")),
        ),
    )


def _text(value: Any) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return None
    return value.encode("utf-8", "replace").decode("utf-8").replace("\0", "")


def _texts(value: Any) -> tuple[str, ...]:
    items = value[:MOST_ITEMS] if isinstance(value, list) else []
    return tuple(text for item in items if (text := _text(item)) is not None)


def _pairs(value: Any) -> dict[str, str]:
    items = list(value.items())[:MOST_ITEMS] if isinstance(value, dict) else []
    return {
        key: text
        for name, item in items
        if (key := _text(name)) and (text := _text(item)) is not None
    }
