"""Which checkpoints a listing shows, and in which order: newest first. Commits alone are read, no
blob.

Within a session the order is that of the chain, whatever the clocks said; sessions are merged by
time.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice, takewhile
from typing import NamedTuple

from gitcp.errors import GitcpError, GitFailed, StoreDamaged
from gitcp.git import refs
from gitcp.model import Checkpoint, Oid
from gitcp.store import Store, Summary, one_line
from gitcp.value import Value

BLOCK = 1 << 16
SHORT = "%x01%H%x00%s%x00%b"
NAMED = re.compile(
    "\x01([0-9a-f]{40})\0([^\0\x01]*)\0[^\0\x01]*?^Gitcp-Session: (.+)\nGitcp-Number: ([0-9]+)$",
    re.MULTILINE,
)


class Line(NamedTuple):
    """A checkpoint as a list of one-liners names it."""

    commit: str
    subject: str
    session: str
    number: str

    @property
    def id(self) -> str:
        """`SESSION@NUMBER`."""
        return f"{self.session}@{self.number}"


class Selection(Value):
    """What a listing is limited to. `after` is the commit before the first one meant, `limit` how
    many.
    """

    after: Oid | None = None
    limit: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    grep: re.Pattern[str] | None = None
    phase: str | None = None

    @property
    def filters(self) -> bool:
        """Whether some checkpoints in between may be left out."""
        return any(
            value is not None
            for value in (self.since, self.until, self.grep, self.phase, self.after)
        )

    def holds(self, summary: Summary) -> bool:
        """Whether the listing shows this checkpoint."""
        return (
            (self.since is None or summary.created >= self.since)
            and (self.until is None or summary.created <= self.until)
            and (self.grep is None or self.grep.search(summary.subject) is not None)
            and (
                self.phase is None
                or summary.trailers.get("Gitcp-Phase", "") == one_line(self.phase, 100)
            )
        )


def select(store: Store, tips: Iterable[Oid], selection: Selection) -> Iterator[Summary]:
    """The checkpoints behind `tips` that `selection` wants, newest first. Raises StoreDamaged where
    a chain breaks.
    """
    limit = None if selection.filters else selection.limit
    left_out = _behind(store, selection.after) if selection.after else frozenset()
    chains = list(tips)
    merged = store.history(chains[0], limit) if len(chains) == 1 else _merged(store, chains, limit)
    wanted = takewhile(lambda s: s.commit not in left_out, merged) if len(chains) == 1 else merged
    return islice((s for s in wanted if selection.holds(s)), selection.limit)


def lines(store: Store, tips: Iterable[Oid], selection: Selection) -> Iterator[Line]:
    """The same as `select`, with less of each. A whole chain is taken from git's output in one
    go.
    """
    chains = list(tips)
    if len(chains) == 1 and not selection.filters:
        found = _whole(store, chains[0], selection.limit)
        if found is not None:
            return iter(found)
    return map(line, select(store, chains, selection))


def graph(
    store: Store, tips: Iterable[Oid], limit: int | None = None
) -> Iterator[tuple[str, Line | None]]:
    """The chains behind `tips` as git draws them: each line's drawing, and the checkpoint that
    stands there.
    """
    count = () if limit is None else (f"--max-count={limit}",)
    options = (
        "--graph",
        "--date-order",
        "--first-parent",
        "--no-patch",
        "--no-show-signature",
        "--no-color",
    )
    ends = "\n".join(tips).encode("ascii")
    drawn = store.repo.git(
        "log", *options, "--format=%x01%H", *count, "--stdin", input=ends
    ).decode("ascii")
    for row in drawn.splitlines():
        drawing, _, commit = row.partition("\x01")
        yield (
            drawing if commit else drawing.rstrip(),
            line(store.summary(Oid(commit))) if commit else None,
        )


def line(summary: Summary) -> Line:
    """The one-liner of a checkpoint."""
    return Line(summary.commit, summary.subject, summary.id.session, str(summary.id.number))


def _whole(store: Store, tip: Oid, limit: int | None) -> list[Line] | None:
    """The one-liners of a chain; None if some commit is not written the way this version does
    it.
    """
    count = () if limit is None else (f"--max-count={limit}",)
    options = (
        "--first-parent",
        "--no-show-signature",
        "--encoding=UTF-8",
        f"--format={SHORT}",
        *count,
    )
    found: list[Line] = []
    begun, rest = 0, b""
    with store.repo.git_reading("log", *options, tip, "--", input=b"") as out:
        while block := out.read(BLOCK):  # git goes on while these are taken apart
            begun += block.count(b"\x01")
            whole, mark, rest = (rest + block).rpartition(b"\x01")
            found += _named(whole)
            rest = mark + rest
    found += _named(rest)
    return found if len(found) == begun else None


def _named(output: bytes) -> Iterator[Line]:
    return map(Line._make, NAMED.findall(output.decode("utf-8", "replace")))


def tags(store: Store) -> dict[Oid, tuple[str, ...]]:
    """The names of tags by the commit they are on. One that is damaged is left to `check`."""
    found: dict[Oid, tuple[str, ...]] = {}
    for name, oid in refs.list_refs(store.repo.common_dir, refs.TAGS).items():
        try:
            commit = store.peel(oid)
        except StoreDamaged:
            continue
        found[commit] = (*found.get(commit, ()), name.removeprefix(refs.TAGS))
    return found


def later(store: Store, target: Checkpoint) -> list[Summary]:
    """The checkpoints of the target's session that came after it, newest first."""
    tip = store.tip(target.id.session)
    found: list[Summary] = []
    for summary in store.history(tip) if tip else ():
        if summary.id == target.id:
            return found
        found.append(summary)
    return []  # of a session of that name that was deleted


def _behind(store: Store, commit: Oid) -> frozenset[str]:
    return frozenset(
        store.repo.git("rev-list", "--first-parent", commit, "--").decode("ascii").split()
    )


def _merged(store: Store, tips: list[Oid], limit: int | None) -> Iterator[Summary]:
    """Several chains by time. A chain is walked only when its last checkpoint's turn has come.

    Raises StoreDamaged for a chain that breaks, after all that can be read.
    """
    heads = [_turn(order, summary) for order, summary in enumerate(map(store.summary, tips))]
    heapq.heapify(heads)
    broken: list[GitcpError] = []
    walks: dict[int, Iterator[Summary]] = {}
    seen: set[Oid] = set()
    while heads:
        *_, order, summary = heapq.heappop(heads)
        if summary.commit in seen:
            continue  # shared with a session that was forked off, and so is all before it
        seen.add(summary.commit)
        yield summary
        if order not in walks:
            walks[order] = islice(store.history(summary.commit, limit), 1, None)
        try:
            following = next(walks[order], None)
        except (StoreDamaged, GitFailed) as error:
            broken.append(error)
            continue
        if following is not None:
            heapq.heappush(heads, _turn(order, following))
    if broken:
        raise broken[0]


def _turn(order: int, summary: Summary) -> tuple[float, int, int, Summary]:
    """When a checkpoint's turn comes. Of one second's the higher number comes first: it may stand
    on the other.
    """
    return -summary.created.timestamp(), -summary.id.number, order, summary
