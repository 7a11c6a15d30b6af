"""List sessions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from gitcp import adapters, wire
from gitcp.errors import GitFailed, StoreDamaged
from gitcp.model import Agent, Checkpoint, Oid
from gitcp.state import tag
from gitcp.store import Store
from gitcp.value import Value, replace


class Session(Value):
    """One session: its last checkpoint, the number of its own ones, their tags, and where it was
    forked from.
    """

    name: str
    last: Checkpoint
    count: int
    tags: tuple[str, ...]
    forked_from: str | None = None

    @property
    def last_prompt(self) -> str:
        """The last prompt of the user; "" if there is none."""
        digest = self.last.conversation.digest if self.last.conversation else None
        return (digest.last_prompt or "") if digest else ""

    @property
    def title(self) -> str:
        """The conversation's title, else its last prompt, the objective or the label; "" if there
        is none.
        """
        digest = self.last.conversation.digest if self.last.conversation else None
        candidates = (digest.title, digest.last_prompt) if digest else ()
        return next(
            (
                text
                for text in (*candidates, self.last.note.objective, self.last.note.label)
                if text
            ),
            "",
        )

    def to_json(self) -> dict[str, Any]:
        """Return the fields that `gitcp sessions --json` prints, but for `current`."""
        from gitcp import documents  # only for programs

        return {
            "session": self.name,
            "agent": documents.agent(self.last.agent),
            "title": self.title or None,
            "last_prompt": self.last_prompt or None,
            "checkpoints": self.count,
            "last": str(self.last.id),
            "saved": wire.encode_time(self.last.created),
            "tags": list(self.tags),
            "forked_from": self.forked_from,
        }


class SessionSelection(Value):
    """The limits of a list: the agent, the time of the last save, and a pattern for name, title,
    last prompt or label.
    """

    agent: str | None = None
    since: datetime | None = None
    grep: re.Pattern[str] | None = None

    def matches(self, session: Session) -> bool:
        """Return whether a session is included."""
        last = session.last
        texts = (session.name, session.title, session.last_prompt, last.note.label or "")
        return (
            self.agent in (None, last.agent.name if last.agent else None)
            and (self.since is None or last.created >= self.since)
            and (self.grep is None or any(self.grep.search(text) for text in texts))
        )


def all_sessions(store: Store) -> dict[str, Oid]:
    """Return every own session with its last commit, and the fetched ones that have checkpoints
    which the own session of that name lacks.
    """
    own, fetched = store.sessions(), store.fetched()
    shared_names = {name.partition("/")[2] for name in fetched} & own.keys()
    own_commits = {s.commit for name in shared_names for s in store.readable(own[name])}
    return {**own, **{name: tip for name, tip in fetched.items() if tip not in own_commits}}


class UnknownRecords(Value):
    """The kinds of records of an agent that its adapter does not know, and in how many sessions
    they are, as these were saved last. `agent` is that of the newest one.
    """

    agent: Agent
    kinds: tuple[str, ...]
    sessions: int

    def __str__(self) -> str:
        return adapters.unknown(self.agent, self.kinds)

    def to_json(self) -> wire.Json:
        """Return the fields that `gitcp doctor --json` prints."""
        fields: wire.Json = {"agent": self.agent.name, "version": self.agent.version}
        return {**fields, "kinds": list(self.kinds), "sessions": self.sessions}


def unknown(store: Store) -> Iterator[UnknownRecords]:
    """Yield what agents wrote that their adapters do not know, by agent."""
    by_agent: dict[str, UnknownRecords] = {}
    for session in listing(store)[0]:
        agent, conversation = session.last.agent, session.last.conversation
        kinds = conversation.digest.unknown if conversation else ()
        if agent is not None and kinds:
            before = by_agent.get(agent.name, UnknownRecords(agent, (), 0))
            every = tuple(dict.fromkeys(before.kinds + kinds))
            by_agent[agent.name] = replace(before, kinds=every, sessions=before.sessions + 1)
    yield from by_agent.values()


def listing(
    store: Store, tips: Mapping[str, Oid] | None = None
) -> tuple[tuple[Session, ...], tuple[tuple[str, StoreDamaged], ...]]:
    """Return the sessions that end at `tips` (default: all own ones), the last saved first, and
    those that cannot be read, with the error.
    """
    tips = store.sessions() if tips is None else tips
    parents, fork_starts = _parent_map(store, tips.values()), _fork_starts(store, tips.values())
    tags = tag.by_commit(store)
    sessions, damaged = [], []
    for name, tip in tips.items():
        chain = _chain(parents, fork_starts, tip)
        try:
            last = store.read(tip)
        except StoreDamaged as error:
            damaged.append((name, error))
            continue
        session_tags = tuple(each for commit in chain for each in tags.get(commit, ()))
        fork = chain[-1] if chain and chain[-1] in fork_starts else None
        origin = store.summary(fork).trailers.get("Gitcp-Forked-From") if fork else None
        sessions.append(Session(name, last, len(chain), session_tags, origin))
    sessions.sort(key=lambda session: session.last.created, reverse=True)
    return tuple(sessions), tuple(damaged)


def _parent_map(store: Store, tips: Iterable[Oid]) -> dict[Oid, Oid | None]:
    """Return every commit behind the tips with its parent, by one git command."""
    options = ("--first-parent", "--parents", "--ignore-missing", "--stdin")
    try:
        listed = store.repo.git("rev-list", *options, input="\n".join(tips).encode("ascii"))
    except GitFailed:  # a chain is damaged before its last commit
        return {each.commit: each.parent for tip in tips for each in store.readable(tip)}
    rows = (line.split(" ") for line in listed.decode("ascii").splitlines())
    return {Oid(row[0]): Oid(row[1]) if len(row) > 1 else None for row in rows}


def _fork_starts(store: Store, tips: Iterable[Oid]) -> frozenset[Oid]:
    """Return the commits that forked sessions begin with."""
    options = ("--first-parent", "--ignore-missing", "--grep=^Gitcp-Forked-From: ", "--stdin")
    try:
        listed = store.repo.git("rev-list", *options, input="\n".join(tips).encode("ascii"))
    except GitFailed:
        chains = (each for tip in tips for each in store.readable(tip))
        return frozenset(each.commit for each in chains if "Gitcp-Forked-From" in each.trailers)
    return frozenset(map(Oid, listed.decode("ascii").split()))


def _chain(parents: Mapping[Oid, Oid | None], fork_starts: Collection[Oid], tip: Oid) -> list[Oid]:
    """Return the checkpoints of a session, newest first, down to its fork point."""
    commits: list[Oid] = []
    commit: Oid | None = tip
    while commit is not None and commit in parents:
        commits.append(commit)
        commit = None if commit in fork_starts else parents.get(commit)
    return commits
