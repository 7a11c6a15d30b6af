"""Count the tokens that conversations used, each request once: those in the conversation as it is,
and those of turns that a restore took back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from gitcp import adapters
from gitcp.adapters.base import Usage
from gitcp.model import MAIN, Checkpoint, Conversation, Oid, Trigger
from gitcp.saving.conversation import lines, stored
from gitcp.store import Store, Summary

BY = ("session", "day", "agent", "model", "branch")
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

    def plus(self, other: Tokens) -> Tokens:
        """Return the sums."""
        return Tokens(*(a + b for a, b in zip(self, other, strict=True)))


class Request(NamedTuple):
    """The tokens of one request, and where it belongs."""

    usage: Usage
    session: str
    agent: str
    branch: str
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
        }
        return named[by] or UNKNOWN


Requests = dict[tuple[str, str], Request]
"""By agent and key: one that two sessions have, as after a fork, counts once."""


def of_conversation(store: Store, conversation: Conversation) -> dict[str, Usage]:
    """Return the tokens of a stored conversation by request, sub-agents' included."""
    return {
        usage.key: usage
        for stream in conversation.streams
        for usage in adapters.usage(
            conversation.format, lines(store, stored(store, conversation, stream.name))
        )
    }


def context(store: Store, conversation: Conversation) -> int:
    """Return how many tokens the last request of a stored conversation read: as many as the agent
    reads again when it resumes; 0 if that is not recorded.
    """
    main = lines(store, stored(store, conversation, MAIN))
    last = next(iter(deque(adapters.usage(conversation.format, main), 1)), None)
    return last.input + last.cache_read + last.cache_write if last else 0


def summed(usages: Iterable[Usage]) -> Tokens:
    """Return the sums of requests of one conversation."""
    total = Tokens()
    for each in usages:
        total = total.plus(Request(each, "", "", "", is_abandoned=False).tokens)
    return total


def of_sessions(store: Store, tips: Mapping[str, Oid]) -> Requests:
    """Return every request of these sessions once, under the session whose first checkpoint is the
    oldest; one that is in a session's last conversation is not abandoned.
    """
    chains = sorted(
        (list(store.readable(tip)) for tip in tips.values()), key=lambda each: each[-1].created
    )
    requests: Requests = {}
    for chain in chains:
        for summary in _telling(chain):
            checkpoint = store.read(summary.commit)
            _add(store, checkpoint, requests, is_last=summary is chain[0])
    return requests


def _telling(chain: list[Summary]) -> list[Summary]:
    """Return the checkpoints that together have every message of a chain: the last one, and those
    before which a restore went back, oldest first.
    """
    before_restores = Trigger.BEFORE_RESTORE.value, Trigger.RESTORE.value
    rewound = [
        older
        for newer, older in pairwise(chain)
        if newer.trailers.get("Gitcp-Trigger") in before_restores
        or older.trailers.get("Gitcp-Trigger") in before_restores
    ]
    return [*reversed(rewound), chain[0]]


def _add(store: Store, checkpoint: Checkpoint, requests: Requests, *, is_last: bool) -> None:
    conversation, base = checkpoint.conversation, checkpoint.snapshot.base
    if conversation is None:
        return
    agent = checkpoint.agent.name if checkpoint.agent else conversation.format
    for key, usage in of_conversation(store, conversation).items():
        known = requests.get((agent, key))
        session, branch = (
            (known.session, known.branch)
            if known
            else (checkpoint.id.session, base.branch or UNKNOWN)
        )
        is_abandoned = not is_last and (known is None or known.is_abandoned)
        requests[agent, key] = Request(usage, session, agent, branch, is_abandoned)


def counted(requests: Iterable[Request], by: str) -> dict[str, Tokens]:
    """Return the sums by session, day, …; days in order, anything else by its total."""
    sums: dict[str, Tokens] = {}
    for each in requests:
        name = each.under(by)
        sums[name] = sums.get(name, Tokens()).plus(each.tokens)
    names = sorted(sums, key=lambda name: (0 if by == "day" else -sums[name].total, name))
    return {name: sums[name] for name in names}
