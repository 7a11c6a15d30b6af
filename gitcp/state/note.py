"""The pending note: what the next save should record. It is stored in `<git dir>/gitcp/note` until
a save of its session includes it, once.

A save includes it under the store's lock and removes it after its ref has moved. After a crash in
between, the next save finds it already recorded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from gitcp import wire
from gitcp.errors import BadValue, GitcpError, StoreDamaged
from gitcp.git.repo import Repository
from gitcp.model import Checkpoint, Handoff, Note
from gitcp.store import Store
from gitcp.value import Value, replace

NAME = "note"


class PendingNote(Value):
    """A note for the next save of a session, or of any session (None)."""

    session: str | None
    note: Note

    def to_json(self) -> wire.Json:
        """Return the fields that `gitcp note --json` prints."""
        from gitcp import documents  # only for programs

        note, position = self.note, wire.position_texts(self.note.position)
        return documents.encode(
            documents.Waiting(
                self.session, note.phase, note.objective, note.facts, note.handoff, position
            )
        )


def inherit(inherited: Note, given: Note) -> Note:
    """Return the note of a checkpoint: inherited values, updated by the given ones. Decisions and
    failures accumulate; an empty fact deletes one, an empty entry of the handoff those before it.
    """
    combined = combine(inherited, given)
    handoff = combined.handoff
    entries = {name: tuple(filter(None, getattr(handoff, name))) for name in LISTS.values()}
    return replace(
        combined,
        facts=_filled(combined.facts),
        position=_filled(combined.position),
        handoff=Handoff(handoff.task or None, **entries),
    )


def inherited(checkpoint: Checkpoint) -> Note:
    """Return the note of a checkpoint as one with other files inherits it."""
    note = checkpoint.note
    return (
        replace(note, position_from=note.position_from or checkpoint.id) if note.position else note
    )


def combine(earlier: Note, given: Note) -> Note:
    """Merge two notes, keeping empty facts and entries as deletions."""
    old, new = earlier.handoff, given.handoff
    return Note(
        label=given.label,
        phase=given.phase or earlier.phase,
        objective=given.objective or earlier.objective,
        facts={**earlier.facts, **given.facts},
        position={**earlier.position, **given.position},
        position_from=None if given.position else earlier.position_from,
        handoff=Handoff(
            task=old.task if new.task is None else new.task,
            decisions=_added(old.decisions, new.decisions),
            failed=_added(old.failed, new.failed),
            next=new.next or old.next,
            active=new.active or old.active,
        ),
        compensations=given.compensations,
    )


def is_pending(repo: Repository) -> bool:
    """Return whether there is a pending note in this working tree, readable or not."""
    return os.access(f"{repo.git_dir}/gitcp/{NAME}", os.F_OK)


def pending(repo: Repository) -> tuple[PendingNote, ...]:
    """Return the pending notes. Raises StoreDamaged if they are unreadable."""
    if not is_pending(repo):
        return ()
    from gitcp.state import documents  # rarely needed, while every save calls this

    path = repo.git_dir / "gitcp" / NAME
    fields = documents.read(path) or {"notes": ()}
    try:
        return tuple(
            PendingNote(entry["session"], wire.decode(Note, entry)) for entry in fields["notes"]
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise documents.damaged(path, repr(error)) from None


def add(store: Store, session: str | None, given: Note) -> PendingNote:
    """Add to the pending note of `session` (None for any session). Return the result.

    Writes one file. Raises GitcpError if it cannot be written; the earlier note is then unchanged.
    """
    with store.lock():
        others, earlier = _split(pending(store.repo), session)
        note = PendingNote(session, combine(earlier, given))
        _write(store.repo, (*others, note))
    return note


def put(store: Store, session: str | None, note: Note) -> PendingNote:
    """Replace the pending note of `session`. An empty note removes it."""
    with store.lock():
        others, _ = _split(pending(store.repo), session)
        pending_note = PendingNote(session, note)
        _write(store.repo, (*others, *((pending_note,) if note != Note() else ())))
    return pending_note


def clear(store: Store, session: str | None) -> None:
    """Discard the pending note of `session`, or all of them for None. An unreadable file is
    removed.
    """
    with store.lock():
        remaining: tuple[PendingNote, ...] = ()
        with suppress(StoreDamaged):
            remaining = tuple(
                entry
                for entry in pending(store.repo)
                if session is not None and entry.session != session
            )
        _write(store.repo, remaining)


def clear_handoff(store: Store, session: str) -> None:
    """Replace the pending note of a session by one with which its next checkpoint inherits no
    handoff. Writes nothing if its last checkpoint has none.
    """
    tip = store.tip(session)
    last = store.read(tip) if tip else None
    if last is None or last.note.handoff == Handoff():
        return
    nothing = ("",)
    handoff = Handoff(task="", decisions=nothing, failed=nothing, next=nothing, active=nothing)
    put(store, session, Note(handoff=handoff))


def pending_for(repo: Repository, session: str) -> Note | None:
    """Return the pending note for the next save of this session, if any. An unreadable file counts
    as none: it must not fail a save.
    """
    combined = None
    with suppress(StoreDamaged):
        for entry in sorted(pending(repo), key=lambda entry: entry.session is not None):
            if entry.session in (None, session):
                combined = combine(combined or Note(), entry.note)
    return combined


def discard_saved(repo: Repository, session: str) -> None:
    """Remove the pending notes that a save of this session has recorded. The caller holds the
    store's lock.
    """
    with suppress(GitcpError, OSError):
        notes = pending(repo)
        remaining = tuple(entry for entry in notes if entry.session not in (None, session))
        if remaining != notes:
            _write(repo, remaining)


def _split(
    notes: tuple[PendingNote, ...], session: str | None
) -> tuple[tuple[PendingNote, ...], Note]:
    others = tuple(entry for entry in notes if entry.session != session)
    return others, next((entry.note for entry in notes if entry.session == session), Note())


def _write(repo: Repository, pending_notes: tuple[PendingNote, ...]) -> None:
    from gitcp.state import documents

    path = repo.state_dir / NAME
    if not pending_notes:
        path.unlink(missing_ok=True)
        return
    notes = [{"session": entry.session, **wire.encode(entry.note)} for entry in pending_notes]
    documents.write(path, {"schema": "gitcp.waiting/1", "notes": notes})


def _filled(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value != ""}


def _added(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    return new if "" in new else old + tuple(item for item in new if item not in old)


# ---------------------------------------------------------------- as a person edits it

SINGLE = ("phase", "objective", "task")
LISTS = {"decided": "decisions", "failed": "failed", "next": "next", "active": "active"}
PAIRS = {"fact": "facts", "position": "position"}


def format_lines(note: Note) -> str:
    """Return a note as lines `KEY: TEXT`, as `read` parses them. Continuation lines are
    indented.
    """
    lines = [("phase", note.phase), ("objective", note.objective), ("task", note.handoff.task)]
    lines += [
        (key, f"{name}={value}")
        for key, field in PAIRS.items()
        for name, value in getattr(note, field).items()
    ]
    lines += [(key, text) for key, field in LISTS.items() for text in getattr(note.handoff, field)]
    return "".join(f"{key}: " + text.replace("\n", "\n  ") + "\n" for key, text in lines if text)


def removed(note: Note) -> list[str]:
    """Return the keys of the handoff whose earlier entries the note removes."""
    handoff = note.handoff
    keys = [key for key, field in LISTS.items() if "" in getattr(handoff, field)]
    return [*(["task"] if handoff.task == "" else []), *keys]


def read(text: str) -> Note:
    """Return the note in such lines; empty lines and those that begin with # are ignored. Raises
    BadValue.
    """
    texts_by_key: dict[str, list[str]] = {}
    last: list[str] | None = None
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if line.startswith("#") or not line.strip():
            continue
        if line[0] in " \t" and last:
            last[-1] += "\n" + line.removeprefix("  ").rstrip()
            continue
        key, colon, value = line.partition(":")
        if not colon or key.strip() not in (*SINGLE, *LISTS, *PAIRS):
            keys = ", ".join((*SINGLE, *PAIRS, *LISTS))
            raise BadValue(
                f"line {number} of the note, {line[:60]!r}, cannot be read",
                hint=f"write KEY: TEXT, where KEY is one of {keys}",
            )
        last = texts_by_key.setdefault(key.strip(), [])
        last.append(value.strip())
    return _note_from(
        {key: [text for text in texts if text] for key, texts in texts_by_key.items()}
    )


def _note_from(texts: Mapping[str, list[str]]) -> Note:
    single = {key: "\n".join(texts.get(key, ())) or None for key in SINGLE}
    return Note(
        phase=single["phase"],
        objective=single["objective"],
        handoff=Handoff(
            single["task"], **{field: tuple(texts.get(key, ())) for key, field in LISTS.items()}
        ),
        facts=dict(map(_pair, texts.get("fact", ()))),
        position=dict(map(_pair, texts.get("position", ()))),
    )


def _pair(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise BadValue(f"{text[:60]!r} in the note is not KEY=VALUE", hint="fact: KEY=VALUE")
    return key.strip(), value.strip()
