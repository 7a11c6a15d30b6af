"""Find the checkpoints that each commit came from. Neither is modified. Reads only.

A commit is matched by a trailer in its message, by the resulting content of each path, or by the
lines it adds and removes. The last two survive amend, rebase and squash.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from gitcp.errors import BadValue
from gitcp.git.repo import Repository
from gitcp.history import history
from gitcp.history.authors import is_restore
from gitcp.history.chains import Chain, ChainLines
from gitcp.model import FileChange, Oid
from gitcp.store import Store
from gitcp.value import Value

TRAILER = "Gitcp-Checkpoint"
TRAILERS = re.compile(rf"^{TRAILER}: *([^\s@]+)@([1-9][0-9]*)\s*$", re.MULTILINE)
HALF = 0.5
MOST_VERSIONS = 200


class How(StrEnum):
    """How a commit was matched, from the most to the least certain."""

    TRAILER = "trailer"
    TREE = "tree"
    PATCH = "patch"
    PART = "part"
    BASE = "base"


class Commit(NamedTuple):
    """A commit of the branch, with its changes."""

    oid: Oid
    parents: tuple[Oid, ...]
    message: str
    changes: tuple[FileChange, ...]

    @property
    def subject(self) -> str:
        """The first line of its message."""
        return self.message.partition("\n")[0]


class Link(Value):
    """The checkpoints a commit came from, and how they were matched. The last one has all of the
    change.
    """

    how: How
    checkpoints: tuple[Oid, ...]


class _Match(NamedTuple):
    """The indexes of the checkpoints in a chain that made a change."""

    how: How
    indexes: tuple[int, ...]


def commits(store: Store, after: Oid | None, head: Oid) -> list[Commit]:
    """Return the commits after `after` up to `head`, oldest first."""
    ends = [head, *([f"^{after}"] if after else [])]
    listed = store.repo.git(
        "rev-list", "--topo-order", "--reverse", "--stdin", input="\n".join(ends).encode("ascii")
    )
    changes = (
        {each.commit: each.changes for each in history.changes_of(store, listed)} if listed else {}
    )
    return [_read(store, Oid(oid), changes) for oid in listed.decode("ascii").split()]


def _read(store: Store, oid: Oid, changes: dict[Oid, tuple[FileChange, ...]]) -> Commit:
    head, _, message = store.reader.read_commit(oid).partition(b"\n\n")
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
    """Return the merge base of two commits, or None if they have no common history."""
    output = repo.git("merge-base", one, other, accept=(0, 1)).decode("ascii").strip()
    return Oid(output) if output else None


def find(commits: Sequence[Commit], chains: Sequence[Chain], lines: ChainLines) -> dict[Oid, Link]:
    """Return the link of every commit that has one. Of several sessions, the most certain match
    wins, then the first.
    """
    links = {}
    summaries = (summary for chain in chains for summary in chain.summaries)
    restores = {summary.commit for summary in summaries if is_restore(summary)}
    for commit in commits:
        candidates = [
            link for chain in chains if (link := _in_chain(commit, chain, lines)) is not None
        ]
        if candidates:
            links[commit.oid] = min(candidates, key=lambda link: _doubt(link, restores))
    return links


def _doubt(link: Link, restores: Container[Oid]) -> tuple[int, bool]:
    """Return the order of links, the best first. A session that only restored the files of another
    one did not write them.
    """
    return list(How).index(link.how), all(each in restores for each in link.checkpoints)


def _in_chain(commit: Commit, chain: Chain, lines: ChainLines) -> Link | None:
    content = _by_content(commit, chain, lines)
    named_ids = {(name, int(number)) for name, number in TRAILERS.findall(commit.message)}
    indexes = tuple(
        index
        for index, each in enumerate(chain.summaries)
        if (each.id.session, each.id.number) in named_ids
    )
    if indexes:
        before = tuple(p for p in content.indexes if p < indexes[0]) if content else ()
        return _link(chain, How.TRAILER, (*before, *indexes))
    if content is not None:
        return _link(chain, content.how, content.indexes)
    indexes = _by_base(commit, chain)
    return _link(chain, How.BASE, indexes) if indexes else None


def _link(chain: Chain, how: How, indexes: Sequence[int]) -> Link:
    return Link(how, tuple(chain.summaries[index].commit for index in sorted(set(indexes))))


def _by_base(commit: Commit, chain: Chain) -> tuple[int, ...]:
    """Return the checkpoint during which this commit was made: the next one has it as its base."""
    bases = [summary.trailers.get("Gitcp-Base") for summary in chain.summaries]
    return tuple(n - 1 for n in range(1, len(bases)) if bases[n] == commit.oid != bases[n - 1])[:1]


def _by_content(commit: Commit, chain: Chain, lines: ChainLines) -> _Match | None:
    """Match all changed paths of a commit, or at least half of them."""
    matches = [_path(change, chain, lines) for change in commit.changes]
    matched = [each for each in matches if each is not None]
    complete = [each for each in matched if each.how is not How.PART]
    if not matched or len(matched) < len(matches) * HALF:
        return None
    indexes = tuple(index for each in matched for index in each.indexes)
    if len(complete) < len(matches):
        return _Match(How.PART, indexes)
    return _Match(
        How.PATCH if any(each.how is How.PATCH for each in complete) else How.TREE, indexes
    )


def _path(change: FileChange, chain: Chain, lines: ChainLines) -> _Match | None:
    versions = chain.versions.get(change.path, [])[-MOST_VERSIONS:]
    for last in range(1, len(versions)):
        if versions[last].entry == change.new:
            first = next((n for n in range(last - 1, -1, -1) if versions[n].entry == change.old), 0)
            return _Match(How.TREE, tuple(each.place for each in versions[first + 1 : last + 1]))
    target_sum = lines.change(change.old, change.new)
    sums = [lines.sum(version.entry) for version in versions] if target_sum else []
    for last in range(1, len(sums)):
        for first in range(last - 1, -1, -1):
            a, b = sums[first], sums[last]
            if a is not None and b is not None and (b - a) & (2**64 - 1) == target_sum:
                return _Match(
                    How.PATCH, tuple(each.place for each in versions[first + 1 : last + 1])
                )
    return _partly(change, chain, lines)


def _partly(change: FileChange, chain: Chain, lines: ChainLines) -> _Match | None:
    """Match a path if at least half of its added lines came from the session."""
    added = set(lines.added(change.old, change.new))
    versions, missing, indexes = (
        chain.versions.get(change.path, [])[-MOST_VERSIONS:],
        set(added),
        [],
    )
    for before, version in pairwise(versions):
        matching = missing.intersection(lines.added(before.entry, version.entry))
        if matching:
            missing -= matching
            indexes.append(version.place)
    return _Match(How.PART, tuple(indexes)) if added and len(missing) <= len(added) * HALF else None


# ---------------------------------------------------------------- which commits


LIKELY = (
    "@{upstream}",
    "refs/remotes/origin/HEAD",
    "origin/main",
    "origin/master",
    "main",
    "master",
)


class Ends(NamedTuple):
    """The commits of a review: after `base`, up to `head`. `branch` and `onto` name what they were
    compared as; "" if that is no branch.
    """

    base: Oid | None
    head: Oid
    branch: str = ""
    onto: str = ""


def between(repo: Repository, text: str | None, outcome: str = "nothing to review") -> Ends:
    """Return the ends of `BASE..HEAD` or `BASE`: their merge base, and the last commit.

    BASE defaults to the upstream or the default branch, of the remote or here: the first one that
    lacks commits of HEAD. The branch of a remote can be named without the remote. Raises BadValue
    if a name is not a commit; its message ends with the `outcome` for the command that was typed.
    """
    base, _, head = (text or "").partition("..")
    tip = commit(repo, head or "HEAD")
    if tip is None:
        raise BadValue(f"{head or 'HEAD'} is no commit: {outcome}", hint="git log --oneline")
    branch = _named(repo, head or "HEAD")
    if base:
        start = commit(repo, base) or _of_a_remote(repo, base)
        if start is None:
            raise BadValue(
                f"there is no commit {base} here (in CI, check out the full history): {outcome}",
                hint="git fetch",
            )
        return Ends(merge_base(repo, start, tip) or start, tip, branch, base)
    nothing_new = Ends(None, tip, branch)
    for name in LIKELY:
        start = commit(repo, name)
        if start is None:
            continue
        base_commit = merge_base(repo, start, tip) or start
        if base_commit != tip:  # not the branch's own upstream, where all of it was pushed
            return Ends(base_commit, tip, branch, _named(repo, name))
        if nothing_new.base is None:
            nothing_new = Ends(base_commit, tip, branch)
    return nothing_new


def _named(repo: Repository, name: str) -> str:
    """Return the branch that a name means, as git shortens it; "" if it is none."""
    if name.startswith("-"):  # git would print it as an option
        return ""
    output = repo.git("rev-parse", "--abbrev-ref", name, accept=(0, 1, 128))
    short = output.decode("utf-8", "replace").strip()
    return "" if short == "HEAD" else short


def _of_a_remote(repo: Repository, branch: str) -> Oid | None:
    """Return the commit of this branch of a remote, if only one commit is named so."""
    ending = f"/{branch}"
    oids = {oid for name, oid in repo.refs.list("refs/remotes/").items() if name.endswith(ending)}
    return oids.pop() if len(oids) == 1 else None


def commit(repo: Repository, name: str) -> Oid | None:
    """Return the commit that git resolves a name to, or None."""
    output = repo.git(
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        f"{name}^{{commit}}",
        accept=(0, 1, 128),
    )
    return Oid(output.decode("ascii").strip()) if output.strip() else None
