"""Which lines of a commit which agent's session wrote, for tools that keep that with commits.

A line is attributed only if a checkpoint added it that the commit came from, and if it is recorded
that one agent's session, and nobody else, changed the file then. Reads only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import groupby
from typing import NamedTuple

from gitcp.errors import StoreDamaged
from gitcp.history.authors import WorktreeHistory
from gitcp.history.chains import ChainLines, load
from gitcp.model import NOBODY, Agent, Checkpoint, Claim, Oid
from gitcp.review import links, sources
from gitcp.review.links import Commit
from gitcp.review.patches import FilePatch
from gitcp.review.sources import Origins
from gitcp.store import Store, time_of
from gitcp.worktree.paths import display

SHORT = 3
"""Characters of a line up to which it tells nothing of its origin: it belongs to its neighbors."""


class Writer(NamedTuple):
    """Who wrote lines: an agent in a checkpoint, by its commit; `session` is gitcp's."""

    agent: Agent
    session: str
    checkpoint: Oid


class Part(NamedTuple):
    """Lines of one writer: the first and last number of each range, counted from 1."""

    writer: Writer
    ranges: tuple[tuple[int, int], ...]

    @property
    def lines(self) -> int:
        """The number of lines."""
        return sum(last - first + 1 for first, last in self.ranges)


class AttributedCommit(NamedTuple):
    """A commit, its author (`Name <email>`), and what agents wrote of each path."""

    commit: Commit
    author: str
    created: datetime
    files: Mapping[bytes, tuple[Part, ...]]

    @property
    def parts(self) -> list[Part]:
        """The parts of all files."""
        return [part for parts in self.files.values() for part in parts]


def attributed(
    store: Store, base: Oid | None, head: Oid, session: str | None = None
) -> list[AttributedCommit]:
    """Return the commits after `base` up to `head`, oldest first. Only sessions of this repository
    count, unless one that was fetched is named.
    """
    commits = links.commits(store, base, head)
    loaded = load(store, store.base_tree(base), session)
    chains = [chain for chain in loaded if session is not None or "/" not in chain.name]
    lines = ChainLines(store)
    linked = links.find(commits, chains, lines)
    writers = _Writers(store)
    summaries = (summary for chain in chains for summary in chain.summaries)
    named = {str(summary.id): summary.commit for summary in summaries}

    def parts(commit: Commit, path: bytes, patch: FilePatch) -> tuple[Part, ...]:
        linked_here = sources.writers_of(linked.get(commit.oid), chains)
        origins = sources.origins_of(path, linked_here, lines)
        agents = sources.times_written(
            path, linked_here, lines, lambda made: writers.of(made, path) is not None
        )
        for text, times in _times_added(patch).items():
            if times > agents[text]:  # some of them are another's, and nobody knows which
                origins.pop(("+", text), None)
        wrote = {id: writers.of(named[id], path) for id in set(origins.values())}
        told = ((line, wrote[id]) for line, id in _lines(patch, origins))
        return tuple(_parts((line, writer) for line, writer in told if writer))

    shown = sources.diffs(store, commits, linked, chains, lines)
    made = []
    for commit, diff in zip(commits, shown, strict=True):
        paths = {display(change.path): change.path for change in commit.changes if change.new}
        patches = [each.patch for each in diff.files if each.patch.path in paths]
        files = {paths[patch.path]: parts(commit, paths[patch.path], patch) for patch in patches}
        author, created = _author(store, commit.oid)
        kept = {path: each for path, each in files.items() if each}
        made.append(AttributedCommit(commit, author, created, kept))
    return made


class _Writers:
    """Who wrote a path in a checkpoint."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._history = WorktreeHistory(store)
        self.of = cache(self._of)
        self._claims = cache(self._changed_by)

    def _changed_by(self, commit: Oid) -> Mapping[bytes, Claim]:
        return self._history.changed_by(self._history.read(commit))

    def _of(self, commit: Oid, path: bytes) -> Writer | None:
        """Return the one session that wrote a path; None if it is not certain, or was nobody's."""
        claim = self._claims(commit).get(path)
        if claim is None or claim.possible or len(claim.sessions) != 1:
            return None
        (session,) = claim.sessions
        made: Checkpoint | None = self._history.read(commit)
        if session == NOBODY:
            return None
        if made is not None and made.id.session != session:
            tip = self._store.tip(session)
            made = self._store.read(tip) if tip else None
        agent = made.agent if made else None
        return Writer(agent, session, commit) if agent else None


def _times_added(patch: FilePatch) -> Counter[str]:
    runs = (run for hunk in patch.hunks for run in hunk.runs if run.sign == "+")
    return Counter(line for run in runs for line in run.text.split("\n"))


def _lines(patch: FilePatch, origins: Origins) -> Iterator[tuple[int, str]]:
    """Yield each added line by its number, with the checkpoint that it came from."""
    for hunk in patch.hunks:
        number = hunk.new
        for run in hunk.runs:
            texts = run.text.split("\n")
            if run.sign == "+":
                ids = _filled([(text, origins.get(("+", text))) for text in texts])
                yield from ((number + n, id) for n, id in enumerate(ids) if id is not None)
            number += len(texts) if run.sign != "-" else 0


def _filled(lines: Sequence[tuple[str, str | None]]) -> Iterator[str | None]:
    """Yield the origins of lines; a short one has that of its neighbors, if they have the same."""
    for at, (text, id) in enumerate(lines):
        if id is not None or len(text.strip()) > SHORT:
            yield id
            continue
        around = (reversed(lines[:at]), lines[at + 1 :])
        telling = [
            next((each for each in side if len(each[0].strip()) > SHORT), None) for side in around
        ]
        ids = {each[1] for each in telling if each is not None}
        yield ids.pop() if len(ids) == 1 else None


def _parts(lines: Iterable[tuple[int, Writer]]) -> Iterator[Part]:
    numbers: dict[Writer, list[int]] = {}
    for number, writer in lines:
        numbers.setdefault(writer, []).append(number)
    for writer, each in numbers.items():
        groups = (
            [number for _, number in group]
            for _, group in groupby(enumerate(each), lambda pair: pair[1] - pair[0])
        )
        yield Part(writer, tuple((group[0], group[-1]) for group in groups))


def _author(store: Store, commit: Oid) -> tuple[str, datetime]:
    head = store.reader.read_commit(commit).partition(b"\n\n")[0]
    line = next((line for line in head.split(b"\n") if line.startswith(b"author ")), b"")
    name, _, _ = line[7:].rpartition(b"> ")
    try:
        created = time_of(line)
    except StoreDamaged:  # made by another program: its time is no time
        created = datetime.fromtimestamp(0, UTC)
    return f"{name.decode('utf-8', 'replace')}>" if name else "unknown", created
