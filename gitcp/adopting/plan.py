"""Plan which conversations to store where. Reads transcripts and repositories; writes nothing but
the memory of what it read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from gitcp import adapters, progress
from gitcp.adapters.base import Listed, Origin, Unlisted, modified
from gitcp.adopting import personal
from gitcp.adopting.emptiness import why_empty
from gitcp.adopting.holdings import Holding, Holdings
from gitcp.adopting.memory import AdoptedBefore
from gitcp.adopting.ownership import OwnedDirectories, Repo, Tree
from gitcp.errors import StoreDamaged
from gitcp.git import worktrees
from gitcp.model import Host
from gitcp.store import Store
from gitcp.value import Value

NEW, GROWN, LIKELY, STORED, EMPTY = "new", "grown", "likely", "stored", "empty"
"""The states of a conversation: not stored; with newer messages than its session; with as many,
which is verified; known to be stored; without anything to store.
"""


class AdoptRequest(Value):
    """What to adopt: the conversations of one repository, or of `everywhere`; of one agent; written
    since a time. `former` are earlier directories of the repository.
    """

    everywhere: bool = False
    agent: str | None = None
    since: datetime | None = None
    former: tuple[str, ...] = ()


class FoundTranscript(NamedTuple):
    """One transcript: where its session ran, why it belongs to its store, and the session that has
    its agent's session already, if any. `empty` is why there is nothing to store.
    """

    listed: Listed
    origin: Origin
    reason: str
    state: str
    session: str | None
    empty: str = ""

    @property
    def is_pending(self) -> bool:
        """Whether there is something to store, as far as the plan can tell."""
        return self.state in (NEW, GROWN)

    @property
    def is_unsure(self) -> bool:
        """Whether only its content tells if there is something to store."""
        return self.state in (NEW, GROWN, LIKELY)


class Share(NamedTuple):
    """The conversations that go to one store. `store` is None for a personal store that does not
    exist yet; `path` is where it is.
    """

    path: Path
    store: Store | None
    is_personal: bool
    items: tuple[FoundTranscript, ...]


class AdoptPlan(NamedTuple):
    """What adopting would do. `unread` are transcripts that no adapter reads, so nothing tells
    where they belong; with `everywhere` they go to the personal store. `unlisted` are files that
    no adapter reads at all. `possible` has the number of
    conversations by directory that may be a former place of this repository.
    """

    shares: tuple[Share, ...]
    unread: tuple[Listed, ...]
    possible: Mapping[str, int]
    unlisted: tuple[Unlisted, ...] = ()

    @property
    def items(self) -> list[FoundTranscript]:
        """The conversations of all stores."""
        return [item for share in self.shares for item in share.items]

    @property
    def unsure(self) -> list[FoundTranscript]:
        """Those that are to be stored, or compared with what is."""
        return [item for item in self.items if item.is_unsure]


def plan(
    host: Host, store: Store | None, request: AdoptRequest, memory: AdoptedBefore
) -> AdoptPlan:
    """Return what to store where. `store` is that of the current repository; it may be None with
    `everywhere`. Raises BadValue for an agent that nobody knows.
    """
    if request.agent is not None:
        adapters.require(request.agent, "nothing was imported")
    since = request.since.timestamp() if request.since is not None else None
    listed = [
        each
        for each in adapters.list_all(host, request.agent)
        if since is None or each.found.modified >= since
    ]
    unread = () if request.everywhere else tuple(each for each in listed if each.unread)
    shown = progress.each(listed, "reading", "conversations", len(listed))
    origins = [(each, _origin(each, memory)) for each in shown if each not in unread]
    memory.save()
    search = _Search(host, store, request, memory)
    search.sort(origins)
    shares = tuple(search.shares(memory))
    memory.save()
    unlisted = tuple(
        each
        for each in adapters.unlisted(host, request.agent)
        if since is None or modified(each.path) >= since
    )
    return AdoptPlan(shares, unread, search.possible, unlisted)


def _origin(listed: Listed, memory: AdoptedBefore) -> Origin:
    origin = memory.origin(listed)
    if origin is None:
        origin = adapters.origin(listed.found)
        memory.learn(listed, origin)
    return origin


class _Search:
    """Sorts conversations by the repository that they belong to."""

    def __init__(
        self, host: Host, store: Store | None, request: AdoptRequest, memory: AdoptedBefore
    ) -> None:
        self.possible: dict[str, int] = {}
        self._host = host
        self._request = request
        self._memory = memory
        self._directories = OwnedDirectories(host)
        self._own = Repo(store) if store else None
        self._repos = {self._own.common_dir: self._own} if self._own else {}
        self._unusable: set[str] = set()
        self._sorted: dict[str, list[tuple[Listed, Origin, str]]] = {}

    def sort(self, origins: list[tuple[Listed, Origin]]) -> None:
        """Find the repository of each conversation: first by directories on disk, which also shows
        which repositories there are.
        """
        homeless = []
        for listed, origin in origins:
            tree = self._directories.of(origin)
            if tree is not None and self._is_ours(tree):
                self._add(tree.common_dir, listed, origin, "its directory")
            elif tree is None or self._request.former or self._request.everywhere:
                homeless.append((listed, origin))
        if self._request.everywhere:
            self._open_homes(listed for listed, _ in homeless)
        for listed, origin in self._claimed(homeless):
            self._leave(listed, origin)

    def _open_homes(self, homeless: Iterable[Listed]) -> None:
        """Open the repositories that have conversations of directories that are gone: they were
        adopted there, as given, or the repository was renamed.
        """
        own = personal.place(self._host)
        for home in {home for listed in homeless for home in self._memory.homes(listed)}:
            if own not in home.parents and os.path.isdir(home):
                root = worktrees.main_root(home) or home.parent
                self._is_ours(Tree(str(root), str(home), str(home)))

    def _is_ours(self, tree: Tree) -> bool:
        """Return whether conversations of a working tree are to be stored in its repository."""
        if tree.common_dir in self._repos:
            return True
        if not self._request.everywhere or tree.common_dir in self._unusable:
            return False
        repo = Repo.open(tree, self._host)
        if repo is None:
            self._unusable.add(tree.common_dir)
            return False
        self._repos[tree.common_dir] = repo
        return True

    def _claimed(self, homeless: list[tuple[Listed, Origin]]) -> list[tuple[Listed, Origin]]:
        """Sort conversations whose directories are in no usable repository by what else tells.
        Return the rest. What is known of one tells of others that ran in the same directory.
        """
        rest = []
        for listed, origin in homeless:
            claims = ((repo, self._claim(repo, listed, origin)) for repo in self._repos.values())
            repo, reason = next((claim for claim in claims if claim[1]), (None, ""))
            if repo is None:
                rest.append((listed, origin))
            else:
                repo.learn(origin)
                self._add(repo.common_dir, listed, origin, reason)
        return self._claimed(rest) if len(rest) < len(homeless) else rest

    def _claim(self, repo: Repo, listed: Listed, origin: Origin) -> str:
        conversation = listed.found
        if repo.holdings.of(conversation.agent, conversation.session_id):
            return "its session"
        return repo.claim(origin, self._request.former if repo is self._own else ())

    def _leave(self, listed: Listed, origin: Origin) -> None:
        """Sort a conversation that no repository claims."""
        if self._request.everywhere:
            self._add("", listed, origin, "no repository")
        elif self._own and (directory := self._own.may_own(origin)):
            self.possible[directory] = self.possible.get(directory, 0) + 1

    def _add(self, common_dir: str, listed: Listed, origin: Origin, reason: str) -> None:
        self._sorted.setdefault(common_dir, []).append((listed, origin, reason))

    def shares(self, memory: AdoptedBefore) -> Iterator[Share]:
        """Yield the share of each store, this repository's first, the personal one last."""
        order = [*self._repos, ""]
        for common_dir in sorted(self._sorted, key=order.index):
            repo = self._repos.get(common_dir)
            store = repo.store if repo else personal.find(self._host)
            path = repo.root if repo else personal.place(self._host)
            holdings = repo.holdings if repo else Holdings(store) if store else None
            sorted_items = sorted(self._sorted[common_dir], key=lambda each: each[0].found.modified)
            items = tuple(_item(holdings, memory, *each) for each in sorted_items)
            yield Share(path, store, repo is None, items)


def _item(
    holdings: Holdings | None, memory: AdoptedBefore, listed: Listed, origin: Origin, reason: str
) -> FoundTranscript:
    conversation = listed.found
    if holdings is None:
        return _unstored(memory, listed, origin, reason)
    known = memory.stored_in(listed, holdings.store.repo.common_dir)
    if known in holdings.sessions:
        return FoundTranscript(listed, origin, reason, STORED, known)
    holding = holdings.of(conversation.agent, conversation.session_id)
    if holding is None:
        return _unstored(memory, listed, origin, reason)
    state = LIKELY if _seems_complete(holdings.store, holding, listed) else GROWN
    return FoundTranscript(listed, origin, reason, state, holding.session)


def _unstored(
    memory: AdoptedBefore, listed: Listed, origin: Origin, reason: str
) -> FoundTranscript:
    """Return a transcript that no session has, with what the beginning tells of it."""
    empty = "" if listed.unread else memory.empty(listed)
    if empty is None:
        empty = why_empty(listed.capture)
        memory.learn_empty(listed, empty)
    return FoundTranscript(listed, origin, reason, EMPTY if empty else NEW, None, empty)


def _seems_complete(store: Store, holding: Holding, listed: Listed) -> bool:
    """Return whether a session's last checkpoint has as much as the agent does; the bytes are not
    compared.
    """
    try:
        checkpoint = store.read(holding.tip)
    except StoreDamaged:
        return False
    if checkpoint.conversation is None:
        return False
    size = sum(stream.bytes + stream.torn for stream in checkpoint.conversation.streams)
    return size >= listed.bytes or checkpoint.created.timestamp() >= int(listed.found.modified)


def pending(items: Iterable[FoundTranscript]) -> list[FoundTranscript]:
    """Return the conversations that have something to store."""
    return [item for item in items if item.is_pending]
