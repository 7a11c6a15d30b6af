"""The conversions made here: which conversation was converted for which agent, and into which
session. `<git dir>/gitcp/conversions` is shared by all working trees, with one JSON object a line.

The last one from a conversation to an agent lets the next append to the same session.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from gitcp import wire
from gitcp.codec import Codec, Form, number, row, text
from gitcp.git.fsync import read_own, replace_file
from gitcp.git.repo import Repository
from gitcp.value import Value

NAME = "conversions"
MOST = 1000


class Inserted(NamedTuple):
    """A note of gitcp's in a converted conversation, and the number of messages before it."""

    position: int
    text: str


class ConversionRecord(Value):
    """A conversion: from the session `source_session` of the agent `source` to the session
    `session_id` of `agent`. `items` is the number of messages converted, `began` the
    time of the first conversion into that session, `ended` that of the last message converted (None
    in records of older versions), `model` the one it was to continue with.
    """

    source: str
    source_session: str | None
    agent: str
    session_id: str
    began: datetime
    items: int
    notes: tuple[Inserted, ...]
    model: str | None = None
    ended: datetime | None = None


NOTE = row((number(), text()))
CODEC = Codec(
    {
        **wire.FORMS,
        datetime: Form(datetime.isoformat, datetime.fromisoformat),
        Inserted: Form(list, lambda note: Inserted(*NOTE.decode(note))),
    },
    in_full=True,
)


def last(repo: Repository, source: str, session: str | None, agent: str) -> ConversionRecord | None:
    """Return the last conversion of a session to an agent, None if there is none."""
    same = (
        each
        for each in reversed(entries(repo))
        if (each.source, each.source_session, each.agent) == (source, session, agent)
    )
    return next(same, None)


def entries(repo: Repository) -> tuple[ConversionRecord, ...]:
    """Return all conversions, oldest first. Lines that cannot be read are skipped."""
    try:
        lines = read_own(repo.store_dir / NAME).splitlines()
    except OSError:
        return ()
    return tuple(filter(None, map(_decode, lines)))


def record(repo: Repository, conversion: ConversionRecord) -> None:
    """Add a conversion, in place of the earlier one into the same session. Raises OSError."""
    key = (conversion.agent, conversion.session_id)
    others = (each for each in entries(repo) if (each.agent, each.session_id) != key)
    lines = [wire.canonical(CODEC.encode(each)) for each in (*others, conversion)][-MOST:]
    replace_file(repo.store_dir / NAME, b"".join(line + b"\n" for line in lines))


def _decode(line: bytes) -> ConversionRecord | None:
    with suppress(ValueError):
        conversion = CODEC.decode(ConversionRecord, wire.parse_line(line))
        return conversion if conversion.notes else None
    return None
