"""Find text in the prompts, answers, tools, notes, paths and files of all checkpoints.

A hit is where text first appeared: the first checkpoint whose file has this line, or whose
conversation has this message. So each distinct blob is read once, however many checkpoints contain
it, and git determines which are new where.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing, suppress
from itertools import chain, groupby
from typing import NamedTuple

from gitcp.errors import GitFailed, StoreDamaged
from gitcp.git.promised import is_partial
from gitcp.git.trees import is_content
from gitcp.history import history
from gitcp.history.matching import (
    PLACES,
    STREAM,
    Hit,
    Key,
    Matcher,
    Matches,
    Needle,
    searched_text,
    stream_of,
)
from gitcp.history.text_index import MANY, WORD, TextIndex
from gitcp.model import RESERVED, Oid
from gitcp.store import Store

MOST_WORDS = 16
"""Words of a message that are looked for in older ones, to see whether they have it."""


class _NewBlob(NamedTuple):
    """A blob that no earlier checkpoint had, and where it was added."""

    commit: Oid
    path: bytes
    oid: Oid


class Page(NamedTuple):
    """The newest hits, and how many checkpoints may have more: 0 if these are all."""

    hits: list[Hit]
    more: int


def find(
    store: Store,
    tips: Iterable[Oid],
    needle: Needle,
    places: Sequence[str] = PLACES,
    index: TextIndex | None = None,
    limit: int | None = None,
) -> Page:
    """Return the hits behind `tips`, newest first, at most `limit`. Of several chains, a damaged
    one is skipped. With an index, segments of conversations that cannot contain the text are not
    read, nor are older ones once there are enough hits.

    Raises StoreDamaged or GitFailed if the only chain is damaged.
    """
    search = _Search(store, Matcher(store, needle, places))
    new = list(search.new_blobs(tips))
    if index is not None:
        segments = [blob.oid for blob in new if STREAM.fullmatch(blob.path)]
        without = index.without(needle.words, segments)
        if without:
            new = _complete(new, {blob.oid for blob in new} - without)
    search.positions = {_place(blob): number for number, blob in enumerate(new)}
    talks = [blob for blob in new if STREAM.fullmatch(blob.path)]
    search.read([blob for blob in new if not STREAM.fullmatch(blob.path)])
    unread: set[Oid] = set()
    if index is None or index.missing > MANY or limit is None:
        search.read(talks)
    else:
        unread = search.read_newest(talks, index, limit)
    hits = search.hits()
    cut = hits[limit:] if limit is not None else []
    return Page(hits[:limit], len(unread.union(hit.summary.commit for hit in cut)))


def _readable_changes(store: Store, tips: list[Oid]) -> Iterable[history.Changed]:
    try:
        return list(history.changed(store, tips))
    except (StoreDamaged, GitFailed):
        if len(tips) == 1:
            raise
    readable = []
    for tip in tips:
        with suppress(StoreDamaged, GitFailed):
            list(history.changed(store, [tip]))
            readable.append(tip)
    return history.changed(store, readable) if readable else ()


def index_conversations(store: Store, index: TextIndex) -> None:
    """Index all segments of conversations that are not indexed yet, of every session."""
    tips = [*store.sessions().values(), *store.fetched().values()]
    blobs: dict[Oid, _NewBlob] = {}
    for commit, changes in _readable_changes(store, tips):
        for path, entry in ((change.path, change.new) for change in changes):
            if entry is not None and is_content(entry.mode) and STREAM.fullmatch(path):
                blobs.setdefault(entry.oid, _NewBlob(commit, path, entry.oid))
    index.add(_indexed(store, [blobs[oid] for oid in index.lacking(blobs)]))


def _indexed(store: Store, blobs: Sequence[_NewBlob]) -> Iterator[tuple[Oid, bytes]]:
    """Yield segments with the text that a search looks at, as the first checkpoint that has them
    reads them.
    """
    formats: dict[Oid, str | None] = {}
    for blob, data in _read(store, blobs):
        if blob.commit not in formats:
            conversation = store.read(blob.commit).conversation
            formats[blob.commit] = conversation.format if conversation else None
        text = searched_text(formats[blob.commit], stream_of(blob.path), data)
        if text is not None:
            yield blob.oid, text


def _complete(blobs: list[_NewBlob], wanted: AbstractSet[Oid]) -> list[_NewBlob]:
    """Return the blobs of all places that have one of these. All segments that a checkpoint added
    to a stream are read, or none: a message may begin in one and end in the next.
    """
    places = {_place(blob) for blob in blobs if blob.oid in wanted}
    return [blob for blob in blobs if _place(blob) in places]


def _place(blob: _NewBlob) -> tuple[Oid, bytes]:
    """Return the checkpoint and the stream or path that a blob was added to."""
    return blob.commit, stream_of(blob.path)


def _read(store: Store, new: Sequence[_NewBlob]) -> Iterator[tuple[_NewBlob, bytes]]:
    """Yield the content of the blobs in order; in a partial clone, of those that are present."""
    if is_partial(store.repo):
        new = [item for item in new if store.reader.exists(item.oid)]
    names = "".join(item.oid + "\n" for item in new).encode("ascii")
    with store.repo.git_reading("cat-file", "--batch", "--buffer", input=names) as out:
        for item in new:
            size = out.readline().rpartition(b" ")[2].strip()
            # Else it is missing: `gitcp doctor --store` reports it, and the rest is searched.
            if size.isdigit():
                yield item, out.read(int(size))
                out.read(1)


class _Found(NamedTuple):
    """A hit, and its position: the number of its checkpoint, and within that."""

    position: tuple[int, int]
    hit: Hit


class _Search:
    """One search: the order of the checkpoints, of what they added, and the first of equal hits."""

    def __init__(self, store: Store, matcher: Matcher) -> None:
        self.positions: dict[tuple[Oid, bytes], int] = {}
        self._order: dict[Oid, int] = {}
        self._found: dict[Key, _Found] = {}
        self._store = store
        self._matcher = matcher

    def new_blobs(self, tips: Iterable[Oid]) -> Iterator[_NewBlob]:
        """Yield the blobs that are to be searched, oldest first. Searches the paths."""
        seen: set[Oid] = set()
        for commit, changes in _readable_changes(self._store, list(tips)):
            self._order[commit] = len(self._order)
            for path, old, entry in ((change.path, change.old, change.new) for change in changes):
                if entry is None:
                    continue
                if old is None and not path.startswith(RESERVED + b"/"):
                    self._add(commit, -1, self._matcher.in_path(commit, path))
                if is_content(entry.mode) and entry.oid not in seen and self._matcher.wants(path):
                    seen.add(entry.oid)
                    yield _NewBlob(commit, path, entry.oid)

    def hits(self) -> list[Hit]:
        """Return the hits, those of the newest checkpoint first."""
        ordered = sorted(self._found.values(), key=lambda each: each.position[1])
        ordered.sort(key=lambda each: -each.position[0])
        return [each.hit for each in ordered]

    def read(self, blobs: Sequence[_NewBlob]) -> None:
        """Search blobs, and add what matches to the hits."""
        for blob, data in self._contents(blobs):
            self._add_from(blob, data)

    def read_newest(self, talks: Sequence[_NewBlob], index: TextIndex, limit: int) -> set[Oid]:
        """Search conversations, newest first, until there are `limit` hits. Return the checkpoints
        that were not searched.

        A conversation may repeat older messages, and the first one is the hit. So what was found is
        looked for in the older ones that have the same words.
        """
        commits = [list(group) for _, group in groupby(talks, key=lambda blob: blob.commit)]
        words: dict[Key, tuple[bytes, ...]] = {}
        enough = limit
        while commits:
            self._read_until(commits, enough, words)
            older = list(chain.from_iterable(commits))
            if not older:
                break
            possible = index.possible(words.values(), [blob.oid for blob in older])
            for blob, data in self._contents(_complete(older, possible)):
                matches = self._matcher.in_content(blob.commit, blob.path, data)
                for key in matches.keys() & words.keys():
                    del words[key], self._found[key]
            if len(words) >= limit:
                break
            enough *= 2
        return {blobs[0].commit for blobs in commits}

    def _read_until(
        self, commits: list[list[_NewBlob]], enough: int, words: dict[Key, tuple[bytes, ...]]
    ) -> None:
        """Search the last of these checkpoints until there are enough hits, and remove them from
        the list. Adds some words of each hit.
        """
        newest = list(chain.from_iterable(reversed(commits)))
        with closing(self._contents(newest)) as contents:
            for blob, data in contents:
                while commits[-1][0].commit != blob.commit:
                    commits.pop()
                    if len(words) >= enough:
                        return
                matches = self._add_from(blob, data)
                is_oldest = len(commits) == 1
                words.update(dict.fromkeys(matches, ()) if is_oldest else _words(matches, data))
        commits.clear()

    def _contents(self, blobs: Sequence[_NewBlob]) -> Generator[tuple[_NewBlob, bytes]]:
        """Yield what each checkpoint added to each file, note or stream, with its first blob."""
        for _, group in groupby(_read(self._store, blobs), key=lambda item: _place(item[0])):
            parts = list(group)
            yield parts[0][0], b"".join(data for _, data in parts)

    def _add_from(self, blob: _NewBlob, data: bytes) -> Matches:
        matches = self._matcher.in_content(blob.commit, blob.path, data)
        self._add(blob.commit, self.positions[_place(blob)], matches)
        return matches

    def _add(self, commit: Oid, position: int, matches: Matches) -> None:
        """Add hits; of equal ones, the first stays."""
        for key, hit in matches.items():
            match = _Found((self._order[commit], position), hit)
            if key not in self._found or match.position < self._found[key].position:
                self._found[key] = match


def _words(keys: Iterable[Key], content: bytes) -> dict[Key, tuple[bytes, ...]]:
    """Return for each hit words that whatever has the same hit also has, in lower case: those of
    its id, else of its time and the longest of its text, as far as they are words in the content it
    is from.

    The content is gone through once: in a conversation of 45 MB that had 23,000 hits, each of which
    was looked for in all of it, a search took ten minutes.
    """
    named = {key: _named(key) for key in keys}
    wanted = frozenset(chain.from_iterable(chain.from_iterable(named.values())))
    whole = {word for part in WORD.finditer(content) if (word := part[0].lower()) in wanted}
    chosen = {}
    for key, groups in named.items():
        some = ([word for word in words if word in whole][:MOST_WORDS] for words in groups)
        chosen[key] = tuple(next(filter(None, some), ()))
    return chosen


def _named(key: Key) -> list[list[bytes]]:
    """Return the words of a hit's id, then those of its time and, longest first, of its text."""
    *ids, time, text = ("" if part is None else str(part) for part in ("", *key[2:]))
    return [
        [
            word
            for part in parts
            for word in sorted(
                set(WORD.findall(part.encode("utf-8", "replace").lower())), key=len, reverse=True
            )
        ]
        for parts in (ids, [time, text])
    ]
