"""Select the checkpoints of a listing, newest first. Reads commits, no blobs.

Within a session the order is that of the chain, whatever the clocks were; sessions are merged by
time.
"""

from __future__ import annotations

import heapq
import re
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice, takewhile
from typing import NamedTuple

from gitcp.errors import GitcpError, GitFailed, StoreDamaged
from gitcp.history import history
from gitcp.model import RESERVED, Checkpoint, Oid
from gitcp.store import Store, Summary, one_line
from gitcp.value import Value

BLOCK = 1 << 16
SHORT = "%x01%H%x00%s%x00%b"
LINE = re.compile(
    "\x01([0-9a-f]+)\0([^\0\x01]*)\0[^\0\x01]*?^Gitcp-Session: (.+)\nGitcp-Number: ([0-9]+)$",
    re.MULTILINE,
)


class LogRow(NamedTuple):
    """A checkpoint on one line."""

    commit: str
    subject: str
    session: str
    number: str

    @property
    def id(self) -> str:
        """`SESSION@NUMBER`."""
        return f"{self.session}@{self.number}"


class Selection(Value):
    """The limits of a listing.

    `after` is the commit before the oldest one, `limit` a number of checkpoints. `paths`: only
    checkpoints that changed one of these or something below it. `containing`: only those that
    changed how often a file contains this text.
    """

    after: Oid | None = None
    limit: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    grep: re.Pattern[str] | None = None
    phase: str | None = None
    paths: tuple[bytes, ...] = ()
    author: str | None = None
    containing: str | None = None

    @property
    def filters(self) -> bool:
        """Whether checkpoints within the range may be excluded."""
        limits = (self.since, self.until, self.grep, self.phase, self.after, self.author)
        limited = any(value is not None for value in (*limits, self.containing))
        return bool(self.paths) or limited

    def matches(self, summary: Summary) -> bool:
        """Return whether the listing includes this checkpoint."""
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
    """Yield the checkpoints behind `tips` that match, newest first. Raises StoreDamaged where a
    chain is damaged.
    """
    limit = None if selection.filters else selection.limit
    excluded: frozenset[str] = frozenset()
    if selection.after:
        listed = store.repo.git("rev-list", "--first-parent", selection.after, "--")
        excluded = frozenset(listed.decode("ascii").split())
    chains = list(tips)
    all_summaries = (
        store.history(chains[0], limit) if len(chains) == 1 else _merged(store, chains, limit)
    )
    wanted = (
        takewhile(lambda s: s.commit not in excluded, all_summaries)
        if len(chains) == 1
        else all_summaries
    )
    matching = (summary for summary in wanted if selection.matches(summary))
    if selection.paths:
        changing = _changing(store, chains, selection.paths)
        matching = (summary for summary in matching if summary.commit in changing)
    if selection.author is not None:
        author = selection.author.casefold()
        matching = (summary for summary in matching if author in _author(store, summary))
    if selection.containing is not None:
        containing = _containing(store, chains, selection.containing)
        matching = (summary for summary in matching if summary.commit in containing)
    most = selection.limit
    return islice(matching, None if most is None else min(most, sys.maxsize))


def _author(store: Store, summary: Summary) -> str:
    """Return who made a checkpoint, in lower case: the author of its commit, and its agent."""
    head = store.reader.read_commit(summary.commit).partition(b"\n\n")[0]
    lines = (line for line in head.split(b"\n") if line.startswith(b"author "))
    author = next(lines, b"").partition(b" ")[2].rpartition(b"> ")[0]
    return f"{author.decode('utf-8', 'replace')} {summary.trailers.get('Gitcp-Agent')}".casefold()


def _containing(store: Store, tips: list[Oid], text: str) -> frozenset[str]:
    """Return the commits that changed how often a file contains a text."""
    options = ("--first-parent", "--format=%H", "--no-patch", "--no-ext-diff", "--no-textconv")
    files = ("--", ".", f":(exclude,top){RESERVED.decode()}")
    listed = store.repo.git("log", *options, "--no-show-signature", "-S", text, *tips, *files)
    return frozenset(listed.decode("ascii").split())


def _changing(store: Store, tips: list[Oid], paths: tuple[bytes, ...]) -> frozenset[Oid]:
    """Return the checkpoints that changed one of the paths, or something below one."""
    below = tuple(path + b"/" for path in paths)
    return frozenset(
        commit
        for commit, changes in history.changed(store, tips)
        if any(change.path in paths or change.path.startswith(below) for change in changes)
    )


def lines(store: Store, tips: Iterable[Oid], selection: Selection) -> Iterator[LogRow]:
    """Yield the lines of the checkpoints that `select` returns.

    A single chain without filters is read from one git command.
    """
    chains = list(tips)
    if len(chains) == 1 and not selection.filters:
        fast_lines = _fast_lines(store, chains[0], selection.limit)
        if fast_lines is not None:
            return iter(fast_lines)
    return map(line, select(store, chains, selection))


def graph(
    store: Store, tips: Iterable[Oid], limit: int | None = None
) -> Iterator[tuple[str, LogRow | None]]:
    """Yield the chains behind `tips` as git draws them: the drawing of each row, and its
    checkpoint, if any.
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
    try:
        drawn = store.repo.git(
            "log", *options, "--format=%x01%H", *count, "--stdin", input=ends
        ).decode("ascii")
    except GitFailed as error:
        raise StoreDamaged(
            f"the graph cannot be drawn: {error}", hint="gitcp doctor --store"
        ) from None
    for row in drawn.splitlines():
        drawing, _, commit = row.partition("\x01")
        yield (
            drawing if commit else drawing.rstrip(),
            line(store.summary(Oid(commit))) if commit else None,
        )


def line(summary: Summary) -> LogRow:
    """Return the line of a checkpoint."""
    return LogRow(summary.commit, summary.subject, summary.id.session, str(summary.id.number))


def _fast_lines(store: Store, tip: Oid, limit: int | None) -> list[LogRow] | None:
    """Return the lines of a chain; None if a commit is damaged, or does not match the pattern."""
    count = () if limit is None else (f"--max-count={limit}",)
    options = (
        "--first-parent",
        "--no-show-signature",
        "--encoding=UTF-8",
        f"--format={SHORT}",
        *count,
    )
    lines_read: list[LogRow] = []
    started, rest = 0, b""
    try:
        with store.repo.git_reading("log", *options, tip, "--", input=b"") as out:
            while block := out.read(BLOCK):  # git continues while these are parsed
                started += block.count(b"\x01")
                complete, mark, rest = (rest + block).rpartition(b"\x01")
                lines_read += _parse_lines(complete)
                rest = mark + rest
    except GitFailed:  # read one by one instead, up to the damaged commit
        return None
    lines_read += _parse_lines(rest)
    return lines_read if len(lines_read) == started else None


def _parse_lines(output: bytes) -> Iterator[LogRow]:
    return map(LogRow._make, LINE.findall(output.decode("utf-8", "replace")))


def later(store: Store, target: Checkpoint) -> list[Summary]:
    """Return the checkpoints of the target's session that came after it, newest first."""
    tip = store.tip(target.id.session)
    summaries: list[Summary] = []
    for summary in store.history(tip) if tip else ():
        if summary.id == target.id:
            return summaries
        summaries.append(summary)
    return []  # the target's session was deleted, and its name was used again


def _merged(store: Store, tips: list[Oid], limit: int | None) -> Iterator[Summary]:
    """Yield several chains by time. A chain is walked only when its last checkpoint is due.

    Raises StoreDamaged for a damaged chain, after everything readable.
    """
    heads = [_sort_key(order, summary) for order, summary in enumerate(map(store.summary, tips))]
    heapq.heapify(heads)
    broken: list[GitcpError] = []
    walks: dict[int, Iterator[Summary]] = {}
    seen: set[Oid] = set()
    while heads:
        *_, order, summary = heapq.heappop(heads)
        if summary.commit in seen:
            continue  # shared with a fork, like everything before it
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
            heapq.heappush(heads, _sort_key(order, following))
    if broken:
        raise broken[0]


def _sort_key(order: int, summary: Summary) -> tuple[float, int, int, Summary]:
    """Return the sort key of a checkpoint. Within one second the higher number comes first: it may
    be a child of the other.
    """
    return -summary.created.timestamp(), -summary.id.number, order, summary
