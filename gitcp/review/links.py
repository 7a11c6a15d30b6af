"""Which commits came from which checkpoints: found out from both, so that neither is touched and
nothing can be lost.

A commit is known by a trailer in its message, by the content it gave each path, or by the lines
that came and went. The last two are those of a commit however often it was amended, rebased or
squashed. Reads only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from gitcp.errors import BadValue
from gitcp.git.repo import Repository
from gitcp.history import history
from gitcp.history.chains import Chain, Lines
from gitcp.model import FileChange, Oid
from gitcp.store import Store
from gitcp.value import Value

TRAILER = "Gitcp-Checkpoint"
TRAILERS = re.compile(rf"^{TRAILER}: *([^\s@]+)@([1-9][0-9]*)\s*$", re.MULTILINE)
HALF = 0.5
MOST_VERSIONS = 200


class How(StrEnum):
    """How a commit was known: the surest first."""

    TRAILER = "trailer"
    TREE = "tree"
    PATCH = "patch"
    PART = "part"
    BASE = "base"


class Commit(NamedTuple):
    """A commit of the branch, and what it changed."""

    oid: Oid
    parents: tuple[Oid, ...]
    message: str
    changes: tuple[FileChange, ...]

    @property
    def subject(self) -> str:
        """The first line of its message."""
        return self.message.partition("\n")[0]


class Link(Value):
    """The checkpoints in which a commit came about, and how that is known. At the last it was all
    there.
    """

    how: How
    checkpoints: tuple[Oid, ...]


class _Found(NamedTuple):
    """Where in a chain a change came about: after one place, up to another."""

    how: How
    places: tuple[int, ...]


def commits(store: Store, after: Oid | None, head: Oid) -> list[Commit]:
    """The commits after one up to another, the oldest first."""
    ends = [head, *([f"^{after}"] if after else [])]
    listed = store.repo.git(
        "rev-list", "--topo-order", "--reverse", "--stdin", input="\n".join(ends).encode("ascii")
    )
    changes = {found.commit: found.changes for found in history.of(store, listed)} if listed else {}
    return [_read(store, Oid(oid), changes) for oid in listed.decode("ascii").split()]


def _read(store: Store, oid: Oid, changes: dict[Oid, tuple[FileChange, ...]]) -> Commit:
    head, _, message = store.objects.read_commit(oid).partition(b"\n\n")
    parents = tuple(
        Oid(line[7:].decode("ascii")) for line in head.split(b"\n") if line.startswith(b"parent ")
    )
    return Commit(
        oid,
        parents,
        message.decode("utf-8", "replace"),
        changes.get(oid, ()) if len(parents) < 2 else (),
    )


def merge_base(repo: Repository, one: Oid, other: Oid) -> Oid | None:
    """Where two lines of commits part; None where they have nothing in common."""
    said = repo.git("merge-base", one, other, accept=(0, 1)).decode("ascii").strip()
    return Oid(said) if said else None


def find(found: Sequence[Commit], chains: Sequence[Chain], lines: Lines) -> dict[Oid, Link]:
    """The link of every commit that has one. Of several sessions, the surest; of those, the
    first.
    """
    links = {}
    for commit in found:
        candidates = [
            link for chain in chains if (link := _in_chain(commit, chain, lines)) is not None
        ]
        if candidates:
            links[commit.oid] = min(candidates, key=lambda link: list(How).index(link.how))
    return links


def _in_chain(commit: Commit, chain: Chain, lines: Lines) -> Link | None:
    content = _by_content(commit, chain, lines)
    named = {(name, int(number)) for name, number in TRAILERS.findall(commit.message)}
    places = tuple(
        place
        for place, each in enumerate(chain.summaries)
        if (each.id.session, each.id.number) in named
    )
    if places:
        before = tuple(p for p in content.places if p < places[0]) if content else ()
        return _link(chain, How.TRAILER, (*before, *places))
    if content is not None:
        return _link(chain, content.how, content.places)
    places = _by_base(commit, chain)
    return _link(chain, How.BASE, places) if places else None


def _link(chain: Chain, how: How, places: Sequence[int]) -> Link:
    return Link(how, tuple(chain.summaries[place].commit for place in sorted(set(places))))


def _by_base(commit: Commit, chain: Chain) -> tuple[int, ...]:
    """The checkpoint after which HEAD moved to this commit, which was made between it and the next
    one.
    """
    bases = [summary.trailers.get("Gitcp-Base") for summary in chain.summaries]
    return tuple(n - 1 for n in range(1, len(bases)) if bases[n] == commit.oid != bases[n - 1])[:1]


def _by_content(commit: Commit, chain: Chain, lines: Lines) -> _Found | None:
    """All of it, or at least one half of its paths."""
    found = [_path(change, chain, lines) for change in commit.changes]
    known = [each for each in found if each is not None]
    whole = [each for each in known if each.how is not How.PART]
    if not known or len(known) < len(found) * HALF:
        return None
    places = tuple(place for each in known for place in each.places)
    if len(whole) < len(found):
        return _Found(How.PART, places)
    return _Found(How.PATCH if any(each.how is How.PATCH for each in whole) else How.TREE, places)


def _path(change: FileChange, chain: Chain, lines: Lines) -> _Found | None:
    versions = chain.versions.get(change.path, [])[-MOST_VERSIONS:]
    for last in range(1, len(versions)):
        if versions[last].entry == change.new:
            first = next((n for n in range(last - 1, -1, -1) if versions[n].entry == change.old), 0)
            return _Found(How.TREE, tuple(each.place for each in versions[first + 1 : last + 1]))
    wanted = lines.change(change.old, change.new)
    sums = [lines.sum(version.entry) for version in versions] if wanted else []
    for last in range(1, len(sums)):
        for first in range(last - 1, -1, -1):
            a, b = sums[first], sums[last]
            if a is not None and b is not None and (b - a) & (2**64 - 1) == wanted:
                return _Found(
                    How.PATCH, tuple(each.place for each in versions[first + 1 : last + 1])
                )
    return _partly(change, chain, lines)


def _partly(change: FileChange, chain: Chain, lines: Lines) -> _Found | None:
    """Half of the lines that came came from the session."""
    wanted = set(lines.added(change.old, change.new))
    versions, missing, places = (
        chain.versions.get(change.path, [])[-MOST_VERSIONS:],
        set(wanted),
        [],
    )
    for before, version in pairwise(versions):
        come = missing.intersection(lines.added(before.entry, version.entry))
        if come:
            missing -= come
            places.append(version.place)
    return (
        _Found(How.PART, tuple(places)) if wanted and len(missing) <= len(wanted) * HALF else None
    )


# ---------------------------------------------------------------- which commits


LIKELY = (
    "@{upstream}",
    "refs/remotes/origin/HEAD",
    "origin/main",
    "origin/master",
    "main",
    "master",
)


def between(repo: Repository, text: str | None) -> tuple[Oid | None, Oid]:
    """The ends of `BASE..HEAD`, or of `BASE`: where the branch leaves BASE, and its last commit.

    Without a text, BASE is the branch's upstream, or the main branch. Raises BadValue for what
    names no commit.
    """
    base, _, head = (text or "").partition("..")
    tip = commit(repo, head or "HEAD")
    if tip is None:
        raise BadValue(
            f"{head or 'HEAD'} names no commit: there is nothing to review", hint="git log"
        )
    if not base:
        likely = (commit(repo, name) for name in LIKELY)
        start = next((found for found in likely if found is not None), None)
    else:
        start = commit(repo, base)
        if start is None:
            raise BadValue(
                f"{base} names no commit here", hint="git fetch  (in CI: with all of the history)"
            )
    return (merge_base(repo, start, tip) or start if start else None), tip


def commit(repo: Repository, name: str) -> Oid | None:
    """The commit that a name means to git, None if it means none."""
    said = repo.git(
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        f"{name}^{{commit}}",
        accept=(0, 1, 128),
    )
    return Oid(said.decode("ascii").strip()) if said.strip() else None
