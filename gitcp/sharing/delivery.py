"""Send refs to a remote within the limits of hosts, and keep its catalogue right.

A push moves at most 100 refs and about 2 GiB, each ref only from the value that was listed. The
catalogue moves in the same push. If another push moved it meanwhile, that one is fetched and the
entries of both are written, so two people who push at once lose nothing.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from gitcp.errors import GitcpError, StoreDamaged
from gitcp.git import promised, remote
from gitcp.git.remote import FEW, RemoteUpdate
from gitcp.model import Oid
from gitcp.secrets.checkpoint_scan import Sieve
from gitcp.sharing import catalogue, host_checks, remote_refs
from gitcp.sharing.catalogue import CatalogueEntry, Lines
from gitcp.sharing.remote_refs import RemoteRefs
from gitcp.sharing.remotes import Remote
from gitcp.store import Store
from gitcp.value import Value, replace

LARGEST = (2 << 30) * 9 // 10
"""Maximum bytes of a push, as stored here: hosts take 2 GiB, and what is sent is packed anew."""

MOST, WITHIN = 6, 60.0
"""Hosts recommend at most this many pushes in so many seconds."""

TRIES = 5
"""Number of times that the catalogue is written again because another push moved it."""

Pace = Callable[[], None]
"""Called before each push; waits as long as the host wants."""


class Delivered(Value):
    """The refs that the remote refused, with its reasons, and why its catalogue was not updated, ""
    if it was.
    """

    refused: Mapping[str, str]
    catalogue: str = ""


def within_rate() -> Pace:
    """Return a pace that allows six pushes a minute, and waits only before a seventh."""
    times = deque[float](maxlen=MOST)

    def pace() -> None:
        if len(times) == MOST:
            time.sleep(max(0.0, times[0] + WITHIN - time.monotonic()))
        times.append(time.monotonic())

    return pace


class Delivery:
    """Pushes to one remote, whose refs were listed as `refs`. `sieve` is for the texts in the
    catalogue.
    """

    def __init__(
        self, store: Store, to: Remote, refs: RemoteRefs, sieve: Sieve, pace: Pace
    ) -> None:
        self._store, self._to, self._refs, self._sieve, self._pace = store, to, refs, sieve, pace
        self._lines: Lines | None = None

    def send(self, sessions: Mapping[str, RemoteUpdate], tags: Sequence[RemoteUpdate]) -> Delivered:
        """Push sessions, by name, and tags, and write the catalogue. Without either, only the
        catalogue is repaired.

        Writes objects that no ref names, held until `store.writer.release`. Raises GitFailed if the
        remote cannot be reached.
        """
        names = {update.ref: name for name, update in sessions.items()}
        return self._send([*sessions.values(), *tags], names)

    def delete(
        self, sessions: Mapping[str, Iterable[RemoteUpdate]], tags: Sequence[RemoteUpdate]
    ) -> Delivered:
        """Delete all refs of sessions, by name, and tags, with what the catalogue says of them.
        Raises GitFailed if the remote cannot be reached.
        """
        names = {update.ref: name for name, updates in sessions.items() for update in updates}
        return self._send([*itertools.chain(*sessions.values()), *tags], names)

    def _send(self, updates: Sequence[RemoteUpdate], names: Mapping[str, str]) -> Delivered:
        refused: dict[str, str] = {}
        problem = ""
        for start in range(0, max(len(updates), 1), remote.AT_ONCE - 1):
            for batch in self._sized(updates[start : start + remote.AT_ONCE - 1]):
                delivered = self._batch(batch, names)
                refused |= delivered.refused
                problem = delivered.catalogue
        return Delivered(refused, problem)

    def _sized(self, updates: Sequence[RemoteUpdate]) -> Iterator[list[RemoteUpdate]]:
        """Yield the updates of each push: in halves while they are too large together, and a single
        session in several steps.
        """
        if self._is_small(updates):
            yield list(updates)
        elif len(updates) > 1:
            half = len(updates) // 2
            yield from self._sized(updates[:half])
            yield from self._sized(updates[half:])
        else:
            yield from ([step] for step in self._steps(updates[0]))

    def _is_small(self, updates: Sequence[RemoteUpdate]) -> bool:
        """Return whether a push of these is within the limit. A tag adds nothing to its session,
        which is sent before it, and what is deleted is not sent.
        """
        repo = self._store.repo
        large = [each for each in updates if each.new and not each.ref.startswith(self._to.tags)]
        if not large or promised.is_partial(repo):  # a measurement would fetch what is missing
            return True
        return remote.size_of(repo, large) <= LARGEST

    def _steps(self, update: RemoteUpdate) -> Iterator[RemoteUpdate]:
        """Yield moves of one ref along its chain, each as far as the limit allows, but at least by
        one checkpoint.
        """
        tip, old, last = update.new, update.old, None
        chain = [node.commit for node in self._store.history(tip)][::-1] if tip else []
        for commit in chain[chain.index(old) + 1 if old in chain else 0 :]:
            if last and not self._is_small([RemoteUpdate(update.ref, commit, old)]):
                yield RemoteUpdate(update.ref, last, old)
                old = last
            last = commit
        yield RemoteUpdate(update.ref, update.new, old)

    def _batch(self, updates: Sequence[RemoteUpdate], names: Mapping[str, str]) -> Delivered:
        """Push one batch with the catalogue that describes it."""
        moved = {names[each.ref]: each for each in updates if each.ref in names and each.new}
        deleted = {names[each.ref] for each in updates if each.ref in names and not each.new}
        entries: dict[str, CatalogueEntry] = {}
        for name, update in moved.items():
            if update.new:
                with suppress(StoreDamaged):
                    entries[name] = catalogue.describe(self._store, name, update.new, self._sieve)
        reason, listing = "", tuple[RemoteUpdate, ...]()
        try:
            listing = self._catalogue(entries, deleted)
        except GitcpError as error:
            reason = str(error)
        refused = self._push([*updates, *listing])
        left = {names[ref] for ref in refused if names.get(ref) in deleted}
        sent = {name: each for name, each in moved.items() if each.ref not in refused}
        self._note(sent, deleted - left, listing, refused)
        reason = refused.pop(self._to.catalogue, reason)
        if reason or left:
            current = {name: entry for name, entry in entries.items() if name in sent}
            reason = self._again(current, reason)
        return Delivered(refused, reason)

    def _push(self, updates: Sequence[RemoteUpdate]) -> dict[str, str]:
        """Push; if a host refuses all of many refs, try a few: it may allow no more at once."""
        if not updates:
            return {}
        repo, url = self._store.repo, self._to.destination
        self._pace()
        refused = self._without_bad(updates, remote.send(repo, url, updates))
        if len(updates) <= FEW or len(refused) < len(updates):
            return refused
        for start in range(0, len(updates), FEW):
            few = updates[start : start + FEW]
            self._pace()
            answers = remote.send(repo, url, few)
            if start == 0 and len(answers) == len(few):
                return refused
            refused = {ref: why for ref, why in refused.items() if ref not in _refs(few)} | answers
        return refused

    def _without_bad(
        self, updates: Sequence[RemoteUpdate], refused: dict[str, str]
    ) -> dict[str, str]:
        """Push again without the refs that have an object which the host's checks refuse: it
        refuses all others with them.
        """
        left, bad = list(updates), host_checks.refused(refused.values())
        while bad and len(refused) == len(updates) and left:
            holders = host_checks.holders(self._store, left, bad)
            left = [u for u in left if u.ref not in holders and u.ref != self._to.catalogue]
            refused |= holders
            if not holders or not left:
                break
            self._pace()
            answers = remote.send(self._store.repo, self._to.destination, left)
            refused = {r: why for r, why in refused.items() if r not in _refs(left)} | answers
            bad = host_checks.refused(answers.values()) if len(answers) == len(left) else None
        return refused

    def _note(
        self,
        sent: Mapping[str, RemoteUpdate],
        deleted: Collection[str],
        listing: Sequence[RemoteUpdate],
        refused: Mapping[str, str],
    ) -> None:
        """Remember what the remote has now, for the next batch."""
        moved = {name: (each.ref, each.new) for name, each in sent.items() if each.new}
        others = _without(self._refs.sessions, deleted)
        self._refs = replace(self._refs, sessions={**others, **moved})
        for each in listing:
            if each.ref not in refused:
                self._took(each)

    def _took(self, listing: RemoteUpdate) -> None:
        self._refs = replace(self._refs, catalogue=listing.new)
        self._lines = None
        if listing.new:
            catalogue.remember(self._store, self._to, listing.new)

    # ------------------------------------------------------------ the catalogue

    def _catalogue(
        self,
        sent: Mapping[str, CatalogueEntry],
        deleted: Collection[str] = (),
        *,
        descends: bool = False,
    ) -> tuple[RemoteUpdate, ...]:
        """Return how the catalogue has to move, () if it is right. `descends`: the host takes only
        a commit whose parent is the one that it has. What cannot be read is replaced.
        """
        refs = replace(self._refs, sessions=_without(self._refs.sessions, deleted))
        old = self._refs.catalogue
        if self._lines is None and old:
            with suppress(StoreDamaged):
                self._lines = catalogue.fetch(self._store, self._to, self._to.destination, old)
        base = old if self._lines is not None else None
        lines = self._lines or {}
        changes = catalogue.changed(self._store, lines, refs, sent)
        if not changes and (base or not old):
            return ()
        parent = base if descends else None
        new = catalogue.write(self._store, lines, changes, base, self._sieve, parent=parent)
        return (RemoteUpdate(self._to.catalogue, new, old),)

    def _again(self, sent: Mapping[str, CatalogueEntry], reason: str) -> str:
        """Write the catalogue after it failed for a reason: on top of what is there now, if that
        moved. Return why that failed, too, "" if it did not.
        """
        descends = False
        for number in range(TRIES):
            time.sleep(random.uniform(0, 0.2 * number))
            before, self._lines = self._refs.catalogue, None
            try:
                self._refs = remote_refs.read(self._store, self._to, self._to.destination)
                if self._refs.catalogue == before and descends:
                    break
                descends = bool(reason) and self._refs.catalogue == before
                current = {n: each for n, each in sent.items() if self._refs.tip(n) == each.tip}
                listing = self._catalogue(current, descends=descends)
                reason = self._push(listing).get(self._to.catalogue, "")
            except GitcpError as error:
                reason = str(error)
                continue
            if not reason:
                for each in listing:
                    self._took(each)
                break
        return reason


def _without(
    sessions: Mapping[str, tuple[str, Oid]], deleted: Collection[str]
) -> dict[str, tuple[str, Oid]]:
    return {name: value for name, value in sessions.items() if name not in deleted}


def _refs(updates: Sequence[RemoteUpdate]) -> frozenset[str]:
    return frozenset(update.ref for update in updates)
