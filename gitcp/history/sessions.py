"""Every session, with what a list says of it. Reads only."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from gitcp.errors import GitFailed, StoreDamaged
from gitcp.git import refs
from gitcp.history import log
from gitcp.model import Checkpoint, Oid
from gitcp.store import Store
from gitcp.value import Value


class Session(Value):
    """One session: its last checkpoint, how many are its own, the tags on them, and where it was
    forked from.
    """

    name: str
    last: Checkpoint
    count: int
    tags: tuple[str, ...]
    forked_from: str | None = None

    @property
    def last_prompt(self) -> str:
        """What the user said last; "" where nothing was said."""
        digest = self.last.conversation.digest if self.last.conversation else None
        return (digest.last_prompt or "") if digest else ""

    @property
    def title(self) -> str:
        """The conversation's title, else its last prompt, else the objective; "" where nothing was
        said.
        """
        digest = self.last.conversation.digest if self.last.conversation else None
        said = (digest.title, digest.last_prompt) if digest else ()
        return next(
            (text for text in (*said, self.last.note.objective, self.last.note.label) if text), ""
        )


class Selection(Value):
    """Which sessions are meant: of which agent, saved since when, whose name, title, last prompt or
    label matches.
    """

    agent: str | None = None
    since: datetime | None = None
    grep: re.Pattern[str] | None = None

    def takes(self, session: Session) -> bool:
        """Whether a session is one of them."""
        last = session.last
        texts = (session.name, session.title, session.last_prompt, last.note.label or "")
        return (
            self.agent in (None, last.agent.name if last.agent else None)
            and (self.since is None or last.created >= self.since)
            and (self.grep is None or any(self.grep.search(text) for text in texts))
        )


def fetched(store: Store) -> dict[str, Oid]:
    """Every session that was fetched or imported, as `REMOTE/SESSION`, and the commit of its last
    checkpoint.
    """
    listed = refs.list_refs(store.repo.common_dir, refs.REMOTES)
    parts = ((name.removeprefix(refs.REMOTES).split("/"), tip) for name, tip in listed.items())
    return {
        f"{place[0]}/{place[2]}": tip
        for place, tip in parts
        if len(place) == 3 and place[1] == "sessions"
    }


def listing(
    store: Store, tips: Mapping[str, Oid] | None = None
) -> tuple[tuple[Session, ...], tuple[tuple[str, StoreDamaged], ...]]:
    """Every session, or those that end at `tips`: the one saved last first; and those that cannot
    be read, with why.
    """
    tips = store.sessions() if tips is None else tips
    parents, begins = _parents(store, tips.values()), _forks(store, tips.values())
    tags = log.tags(store)
    found, damaged = [], []
    for name, tip in tips.items():
        chain = _chain(parents, begins, tip)
        try:
            last = store.read(tip)
        except StoreDamaged as error:
            damaged.append((name, error))
            continue
        named = tuple(tag for commit in chain for tag in tags.get(commit, ()))
        fork = chain[-1] if chain and chain[-1] in begins else None
        origin = store.summary(fork).trailers.get("Gitcp-Forked-From") if fork else None
        found.append(Session(name, last, len(chain), named, origin))
    found.sort(key=lambda session: session.last.created, reverse=True)
    return tuple(found), tuple(damaged)


def _parents(store: Store, tips: Iterable[Oid]) -> dict[Oid, Oid | None]:
    """Every commit behind the tips, and the one before it: one command for all sessions."""
    options = ("--first-parent", "--parents", "--ignore-missing", "--stdin")
    try:
        listed = store.repo.git("rev-list", *options, input="\n".join(tips).encode("ascii"))
    except GitFailed:  # a chain is damaged below its last commit
        return {each.commit: each.parent for tip in tips for each in store.readable(tip)}
    rows = (line.split(" ") for line in listed.decode("ascii").splitlines())
    return {Oid(row[0]): Oid(row[1]) if len(row) > 1 else None for row in rows}


def _forks(store: Store, tips: Iterable[Oid]) -> frozenset[Oid]:
    """The commits with which forked sessions begin."""
    options = ("--first-parent", "--ignore-missing", "--grep=^Gitcp-Forked-From: ", "--stdin")
    try:
        listed = store.repo.git("rev-list", *options, input="\n".join(tips).encode("ascii"))
    except GitFailed:
        chains = (each for tip in tips for each in store.readable(tip))
        return frozenset(each.commit for each in chains if "Gitcp-Forked-From" in each.trailers)
    return frozenset(map(Oid, listed.decode("ascii").split()))


def _chain(parents: Mapping[Oid, Oid | None], begins: Collection[Oid], tip: Oid) -> list[Oid]:
    """The checkpoints of a session, the last one first, down to where it was forked off."""
    found: list[Oid] = []
    commit: Oid | None = tip
    while commit is not None and commit in parents:
        found.append(commit)
        commit = None if commit in begins else parents.get(commit)
    return found
