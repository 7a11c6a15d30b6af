"""Count the tokens that conversations used, each request once: those in the conversation as it is,
and those of turns that a restore took back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

from gitcp import wire
from gitcp.adapters.base import Usage
from gitcp.errors import StoreDamaged
from gitcp.history.folding import FoldedRow
from gitcp.history.usage import ToCount, UsageReader
from gitcp.model import MAIN, Checkpoint, Conversation, Oid, Trigger
from gitcp.store import Store

BY = ("session", "day", "phase", "agent", "model", "branch")
"""What tokens can be counted by."""

UNKNOWN = "unknown"


class Tokens(NamedTuple):
    """Numbers of tokens, as in Usage, and of requests. `abandoned` are those of all kinds that only
    turns used which a restore took back.
    """

    requests: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    abandoned: int = 0

    @property
    def total(self) -> int:
        """All tokens, whatever their kind."""
        return self.input + self.output + self.cache_read + self.cache_write

    def to_json(self) -> wire.Json:
        """Return the fields that `--json` prints of a conversation."""
        kinds = ("requests", "input", "output", "cache_read", "cache_write", "total")
        return {kind: getattr(self, kind) for kind in kinds}

    def document(self) -> wire.Json | None:
        """Return the same, null if no request is recorded."""
        return self.to_json() if self.requests else None

    def plus(self, other: Tokens) -> Tokens:
        """Return the sums."""
        return Tokens(*(a + b for a, b in zip(self, other, strict=True)))


class Request(NamedTuple):
    """The tokens of one request, and where it belongs."""

    usage: Usage
    session: str
    agent: str
    branch: str
    phase: str
    is_abandoned: bool

    @property
    def tokens(self) -> Tokens:
        """Its tokens as a count of one request."""
        spent = self.usage
        count = Tokens(1, spent.input, spent.output, spent.cache_read, spent.cache_write)
        return count._replace(abandoned=count.total if self.is_abandoned else 0)

    def under(self, by: str) -> str:
        """Return what it is counted under, `by` one of BY."""
        named = {
            "session": self.session,
            "day": (self.usage.time or "")[:10],
            "agent": self.agent,
            "model": self.usage.model,
            "branch": self.branch,
            "phase": self.phase,
        }
        return named[by] or UNKNOWN


Requests = dict[tuple[str, str], Request]
"""By agent and key: one that two sessions have, as after a fork, counts once."""


def context(store: Store, conversation: Conversation) -> int:
    """Return how many tokens the last request of a stored conversation read: as many as the agent
    reads again when it resumes; 0 if that is not recorded.
    """
    requests = UsageReader(store).of_stream(conversation, MAIN)
    return requests[-1].read if requests else 0


def of_conversation(store: Store, conversation: Conversation | None) -> Tokens:
    """Return the sums of a stored conversation, sub-agents' included; nothing without one."""
    return added(UsageReader(store), conversation, None)


def added(
    reader: UsageReader, conversation: Conversation | None, before: Conversation | None
) -> Tokens:
    """Return the tokens of the requests that a conversation has, and the one before it has not."""
    if conversation is None:
        return Tokens()
    known = reader.of_conversation(before) if before else {}
    now = reader.of_conversation(conversation)
    return summed(usage for key, usage in now.items() if key not in known)


LISTED = 4 << 20
"""Bytes of conversations that a listing reads at most to count tokens: 0.15 seconds."""

MOST_ROWS = 100
"""Rows of a listing whose tokens are counted: at most 0.1 seconds of a long session."""


class TokenCounter:
    """Counts the tokens of what a listing shows: None where more would have to be read for the
    first time than a listing may, if it is limited.
    """

    def __init__(self, store: Store, *, is_limited: bool = True) -> None:
        self._store = store
        self._reader = UsageReader(store, LISTED if is_limited else None)
        self._rows = MOST_ROWS if is_limited else None

    def of_conversation(self, conversation: Conversation | None) -> Tokens | None:
        """Return the sums of a conversation, sub-agents' included."""
        return self._counted(conversation, None)

    def of_row(self, row: FoldedRow) -> Tokens | None:
        """Return the sums of the requests that the checkpoints of a row have, and the one before
        them has not; None also where one of them is damaged, and after MOST_ROWS.
        """
        if self._rows is not None:
            if not self._rows:
                return None
            self._rows -= 1
        with suppress(StoreDamaged):
            parent = row.oldest.parent
            before = self._store.read(parent).conversation if parent else None
            return self._counted(self._store.read(row.newest.commit).conversation, before)
        return None

    def _counted(
        self, conversation: Conversation | None, before: Conversation | None
    ) -> Tokens | None:
        with suppress(ToCount):
            return added(self._reader, conversation, before)
        return None


def summed(usages: Iterable[Usage]) -> Tokens:
    """Return the sums of requests of one conversation."""
    total = Tokens()
    for each in usages:
        total = total.plus(Request(each, "", "", "", "", is_abandoned=False).tokens)
    return total


def of_sessions(store: Store, tips: Mapping[str, Oid]) -> Requests:
    """Return every request of these sessions once, under the session whose first checkpoint is the
    oldest; one that is in a session's last conversation is not abandoned.
    """
    chains = sorted(
        (list(store.readable(tip)) for tip in tips.values()), key=lambda each: each[-1].created
    )
    return of_chains(UsageReader(store), (list(store.read_all(chain)) for chain in chains))


def of_chains(reader: UsageReader, chains: Iterable[list[Checkpoint]]) -> Requests:
    """Return every request in these checkpoints once; each chain is of one session, newest first,
    the oldest chain first.
    """
    requests: Requests = {}
    kept: set[tuple[str, str]] = set()
    for chain in chains:
        for checkpoint, is_rewound in _telling(chain):
            is_last = checkpoint is chain[0]
            for key, request in of_checkpoint(reader, checkpoint):
                known = requests.get(key, request)
                is_abandoned = not is_last and (is_rewound or known.is_abandoned)
                requests[key] = known._replace(
                    usage=request.usage, is_abandoned=is_abandoned and key not in kept
                )
                if is_last:
                    kept.add(key)
    return requests


def _telling(chain: list[Checkpoint]) -> Iterator[tuple[Checkpoint, bool]]:
    """Yield the checkpoints that together have every message of a chain, and tell on which branch
    and in which phase each came, oldest first: the last one, those before another branch, phase or
    conversation, and those before which a restore went back (then True).
    """
    before_restores = Trigger.BEFORE_RESTORE, Trigger.RESTORE
    for older, newer in pairwise(reversed(chain)):
        is_rewound = newer.trigger in before_restores or older.trigger in before_restores
        if is_rewound or _place(newer) != _place(older):
            yield older, is_rewound
    yield chain[0], False


def _place(checkpoint: Checkpoint) -> tuple[str | None, ...]:
    agent = checkpoint.agent
    return (
        *(checkpoint.snapshot.base.branch, checkpoint.note.phase),
        *((agent.name, agent.session_id) if agent else ()),
    )


def of_checkpoint(
    reader: UsageReader, checkpoint: Checkpoint
) -> Iterator[tuple[tuple[str, str], Request]]:
    """Yield every request of a checkpoint's conversation, with its key."""
    conversation = checkpoint.conversation
    if conversation is None:
        return
    agent = checkpoint.agent.name if checkpoint.agent else conversation.format
    branch, phase = checkpoint.snapshot.base.branch or UNKNOWN, checkpoint.note.phase or UNKNOWN
    for key, usage in reader.of_conversation(conversation).items():
        yield (
            (agent, key),
            Request(usage, checkpoint.id.session, agent, branch, phase, is_abandoned=False),
        )


def counted(requests: Iterable[Request], by: str) -> dict[str, Tokens]:
    """Return the sums by session, day, …; days in order, anything else by its total."""
    sums: dict[str, Tokens] = {}
    for each in requests:
        name = each.under(by)
        sums[name] = sums.get(name, Tokens()).plus(each.tokens)
    names = sorted(sums, key=lambda name: (0 if by == "day" else -sums[name].total, name))
    return {name: sums[name] for name in names}
