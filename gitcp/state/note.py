"""The note of the next save: what was said of it before it is made. It waits in `<git
dir>/gitcp/note`, until a save of its session takes it, once.

A save takes it under the store's lock, and lets go of it when its ref has moved. Where a crash
comes in between, the next save finds that all of it is said already.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from gitcp import wire
from gitcp.errors import BadValue, GitcpError, StoreDamaged
from gitcp.git.repo import Repository
from gitcp.model import Handoff, Note
from gitcp.store import Store
from gitcp.value import Value, replace

NAME = "note"


class Waiting(Value):
    """A note that waits for the next save of a session, or of any (None)."""

    session: str | None
    note: Note


def inherit(before: Note, given: Note) -> Note:
    """What holds until it is said otherwise. Decisions and failures add up; a fact given empty is
    dropped.
    """
    both = combine(before, given)
    return replace(both, facts=_filled(both.facts), position=_filled(both.position))


def combine(before: Note, given: Note) -> Note:
    """The same, where a fact given empty stays: it is still to drop one."""
    old, new = before.handoff, given.handoff
    return Note(
        label=given.label,
        phase=given.phase or before.phase,
        objective=given.objective or before.objective,
        facts={**before.facts, **given.facts},
        position={**before.position, **given.position},
        handoff=Handoff(
            task=new.task or old.task,
            decisions=_added(old.decisions, new.decisions),
            failed=_added(old.failed, new.failed),
            next=new.next or old.next,
            active=new.active or old.active,
        ),
        compensations=given.compensations,
    )


def waiting(repo: Repository) -> tuple[Waiting, ...]:
    """The notes that wait here. Raises StoreDamaged if that cannot be told."""
    place = f"{repo.git_dir}/gitcp/{NAME}"
    if not os.access(place, os.F_OK):
        return ()
    from gitcp.state import journal  # rarely: every save asks

    path = Path(place)
    fields = journal.read_fields(path) or {"notes": ()}
    try:
        return tuple(Waiting(each["session"], wire.decode_note(each)) for each in fields["notes"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise journal.damaged(path, repr(error)) from None


def add(store: Store, session: str | None, given: Note) -> Waiting:
    """Say this of the next save of `session` (None: of any), besides what was said of it already.

    Writes one file. Raises GitcpError if it cannot be written; what waited waits still.
    """
    with store.lock():
        others, before = _split(waiting(store.repo), session)
        made = Waiting(session, combine(before, given))
        _write(store.repo, (*others, made))
    return made


def put(store: Store, session: str | None, note: Note) -> Waiting:
    """The same in the place of what was said of it already; an empty note is none."""
    with store.lock():
        others, _ = _split(waiting(store.repo), session)
        made = Waiting(session, note)
        _write(store.repo, (*others, *((made,) if note != Note() else ())))
    return made


def clear(store: Store, session: str | None) -> None:
    """Let no note wait, or none for this session; a file that cannot be read goes as a whole."""
    with store.lock():
        kept: tuple[Waiting, ...] = ()
        with suppress(StoreDamaged):
            kept = tuple(
                each
                for each in waiting(store.repo)
                if session is not None and each.session != session
            )
        _write(store.repo, kept)


def of_next(repo: Repository, session: str) -> Note | None:
    """What was said of the next save of this session, if anything. A save does not fail by a file
    nobody can read.
    """
    found = None
    with suppress(StoreDamaged):
        for each in sorted(waiting(repo), key=lambda each: each.session is not None):
            if each.session in (None, session):
                found = combine(found or Note(), each.note)
    return found


def taken(repo: Repository, session: str) -> None:
    """A save of this session has taken what waited for it. The caller holds the store's lock."""
    with suppress(GitcpError, OSError):
        found = waiting(repo)
        kept = tuple(each for each in found if each.session not in (None, session))
        if kept != found:
            _write(repo, kept)


def _split(found: tuple[Waiting, ...], session: str | None) -> tuple[tuple[Waiting, ...], Note]:
    others = tuple(each for each in found if each.session != session)
    return others, next((each.note for each in found if each.session == session), Note())


def _write(repo: Repository, found: tuple[Waiting, ...]) -> None:
    from gitcp.state import journal

    path = repo.state_dir / NAME
    if not found:
        path.unlink(missing_ok=True)
        return
    notes = [{"session": each.session, **wire.encode_note(each.note)} for each in found]
    journal.write_fields(path, {"schema": "gitcp.waiting/1", "notes": notes})


def _filled(values: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in values.items() if value != ""}


def _added(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    return old + tuple(item for item in new if item not in old)


# ---------------------------------------------------------------- as a person edits it

SINGLE = ("phase", "objective", "task")
LISTS = {"decided": "decisions", "failed": "failed", "next": "next", "active": "active"}
PAIRS = {"fact": "facts", "position": "position"}


def written(note: Note) -> str:
    """A note as lines `KEY: TEXT`, as `read` takes them; a line end in a text is followed by a
    blank.
    """
    lines = [("phase", note.phase), ("objective", note.objective), ("task", note.handoff.task)]
    lines += [
        (key, f"{name}={value}")
        for key, field in PAIRS.items()
        for name, value in getattr(note, field).items()
    ]
    lines += [(key, text) for key, field in LISTS.items() for text in getattr(note.handoff, field)]
    return "".join(f"{key}: " + text.replace("\n", "\n  ") + "\n" for key, text in lines if text)


def read(text: str) -> Note:
    """A note from such lines; those that begin with # and those that are empty say nothing. Raises
    BadValue.
    """
    found: dict[str, list[str]] = {}
    last: list[str] | None = None
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if line.startswith("#") or not line.strip():
            continue
        if line[0] in " \t" and last:
            last[-1] += "\n" + line.removeprefix("  ").rstrip()
            continue
        key, colon, said = line.partition(":")
        if not colon or key.strip() not in (*SINGLE, *LISTS, *PAIRS):
            known = ", ".join((*SINGLE, *PAIRS, *LISTS))
            raise BadValue(
                f"line {number} of the note, {line[:60]!r}, cannot be read",
                hint=f"KEY: TEXT, of {known}",
            )
        last = found.setdefault(key.strip(), [])
        last.append(said.strip())
    return _made({key: [text for text in texts if text] for key, texts in found.items()})


def _made(found: Mapping[str, list[str]]) -> Note:
    one = {key: "\n".join(found.get(key, ())) or None for key in SINGLE}
    return Note(
        phase=one["phase"],
        objective=one["objective"],
        handoff=Handoff(
            one["task"], **{field: tuple(found.get(key, ())) for key, field in LISTS.items()}
        ),
        facts=dict(map(_pair, found.get("fact", ()))),
        position=dict(map(_pair, found.get("position", ()))),
    )


def _pair(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise BadValue(f"{text[:60]!r} in the note is not KEY=VALUE", hint="fact: KEY=VALUE")
    return key.strip(), value.strip()
