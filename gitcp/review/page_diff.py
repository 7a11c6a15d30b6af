"""The diffs of a page: parsed, and limited in number and size. Reads only.

A page of many checkpoints costs three git commands, however many there are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from gitcp.history.diff import compare
from gitcp.model import Oid
from gitcp.review.patches import FilePatch, parse
from gitcp.store import Store
from gitcp.value import Value

MOST_FILES = 200
LARGEST_FILE = 1 << 20
LARGEST_DIFF = 8 << 20
"""Limits of one diff; sizes in bytes, of the old and the new content together."""

PAIR = re.compile(rb"^([0-9a-f]+) ([0-9a-f]+)\n", re.MULTILINE)
"""What git prints before the diff of two trees. Within a diff no line begins like this."""

RAW = re.compile(
    rb"([0-9a-f]+) ([0-9a-f]+)\n|:[0-7]+ [0-7]+ ([0-9a-f]+) ([0-9a-f]+) [A-Z]\0([^\0]*)\0",
    re.DOTALL,
)
"""The same, or a changed path with the ids of its contents. With `-z` no line end is before a pair,
so they are told apart only by reading one after the other.
"""

PLAIN = ("--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short")
NOT_OURS = ("--", ":/", ":(top,exclude).gitcp")

Pair = tuple[Oid, Oid]


class PageDiff(Value):
    """A diff as a page shows it: the `files` whose changes are shown, and the paths of those that
    are withheld, too large or too many.
    """

    files: tuple[FilePatch, ...] = ()
    others: tuple[bytes, ...] = ()


class _Change(Value):
    """A changed path, and the ids of its contents; a missing side has an id of zeros."""

    path: bytes
    blobs: tuple[bytes, bytes]


def page_diffs(
    store: Store,
    pairs: Iterable[tuple[Oid | None, Oid]],
    withheld: Collection[bytes] = frozenset(),
) -> list[PageDiff]:
    """Return what a page shows of the differences between two trees each, without gitcp's own
    files. Of `withheld` only the paths are shown. None stands for an empty tree. Raises GitFailed
    if an object is missing.
    """
    whole = [(old or store.repo.object_format.empty_tree, new) for old, new in pairs]
    distinct = list(dict.fromkeys(whole))
    changes = _changes(store, distinct)
    sizes = _sizes(store, changes.values())
    split = {pair: _split(changes.get(pair, ()), sizes, withheld) for pair in distinct}
    patches = _patches(store, [pair for pair, (_, others) in split.items() if not others])
    diffs = {}
    for pair, (shown, others) in split.items():
        patch = patches.get(pair, b"")
        if others and shown:
            patch = compare(store, *pair, shown).text()
        diffs[pair] = PageDiff(parse(patch), others)
    return [diffs[pair] for pair in whole]


def _changes(store: Store, pairs: Sequence[Pair]) -> dict[Pair, list[_Change]]:
    raw = _diffed(store, pairs, "-r", "-z", "--raw", "--no-abbrev", "--no-renames")
    changes: dict[Pair, list[_Change]] = {}
    pair = (Oid(""), Oid(""))
    for match in RAW.finditer(raw):
        if match[1]:
            pair = _pair(match[1], match[2])
        else:
            changes.setdefault(pair, []).append(_Change(match[5], (match[3], match[4])))
    return changes


def _patches(store: Store, pairs: Sequence[Pair]) -> dict[Pair, bytes]:
    parts = PAIR.split(_diffed(store, pairs, "-p", "-M"))
    texts = zip(parts[1::3], parts[2::3], parts[3::3], strict=True)
    return {_pair(old, new): text for old, new, text in texts}


def _diffed(store: Store, pairs: Sequence[Pair], *options: str) -> bytes:
    """Return git's output for pairs, each followed by its difference if there is one."""
    if not pairs:
        return b""
    listed = "".join(f"{old} {new}\n" for old, new in pairs).encode("ascii")
    command = ("--no-literal-pathspecs", "diff-tree", "--stdin", *PLAIN, *options, *NOT_OURS)
    return store.repo.git(*command, input=listed)


def _pair(old: bytes, new: bytes) -> Pair:
    return Oid(old.decode("ascii")), Oid(new.decode("ascii"))


def _sizes(store: Store, changes: Iterable[Sequence[_Change]]) -> dict[bytes, int]:
    """Return the size in bytes of every changed blob by its id, without reading the blobs."""
    oids = {oid for each in changes for change in each for oid in change.blobs}
    request = b"".join(oid + b"\n" for oid in sorted(oids))
    listed = store.repo.git("cat-file", "--batch-check=%(objectname) %(objectsize)", input=request)
    rows = (line.split(b" ") for line in listed.splitlines())
    return {row[0]: int(row[1]) for row in rows if row[1].isdigit()}


def _split(
    changes: Iterable[_Change], sizes: Mapping[bytes, int], withheld: Collection[bytes]
) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Split the changed paths into those to show and those withheld, too large or too many."""
    shown: list[bytes] = []
    others: list[bytes] = []
    total = 0
    for change in changes:
        size = sum(sizes.get(oid, 0) for oid in change.blobs)
        is_shown = change.path not in withheld and len(shown) < MOST_FILES
        if is_shown and size <= LARGEST_FILE and total + size <= LARGEST_DIFF:
            shown.append(change.path)
            total += size
        else:
            others.append(change.path)
    return tuple(shown), tuple(others)
