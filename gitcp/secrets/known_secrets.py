"""Which secrets a receiver already has in its commits: sending them again is no leak.

A test key that the branches of a project contain is in every checkpoint of it. A finding is known
if the same secret, by its ID, is in the commits: in the same file or another, edited or not, or in
a conversation. It is looked for where it probably is, and only if there is a finding: in the files
of the commit that the checkpoints are based on, then in everything that the commits ever had at the
paths of the findings. What is not found there is not known. Reads only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from gitcp.errors import GitFailed, StoreDamaged
from gitcp.git import trees
from gitcp.model import GITLINK, RESERVED, TREE, Oid
from gitcp.secrets import checkpoint_scan
from gitcp.secrets.checkpoint_scan import Finding, Search
from gitcp.store import Store
from gitcp.value import Value

MOST = 500
"""Maximum number of commits on one git command line."""

SHORTEST = 8
"""Minimum length in bytes of a text that is searched for."""


class Haves(Value):
    """What a receiver has, as far as it is here: commits, and tips of sessions. `is_whole`: it has
    no other branches.
    """

    commits: tuple[Oid, ...] = ()
    checkpoints: tuple[Oid, ...] = ()
    is_whole: bool = True


def split(
    findings: Iterable[Finding], known: Collection[str]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Return the findings that are not known, and those that are."""
    findings = tuple(findings)
    return (
        tuple(each for each in findings if each.id not in known),
        tuple(each for each in findings if each.id in known),
    )


def ids(store: Store, search: Search, checkpoints: Iterable[Oid], has: Haves) -> frozenset[str]:
    """Return the IDs of the secrets, found in these checkpoints, that a receiver already has.
    What cannot be read is not known.
    """
    look = _Look(store, search, has)
    for places in (look.in_same_files(checkpoints), look.by_text(), look.in_history()):
        look.scan(places)
    return frozenset(look.known)


class _Look:
    """A search for known secrets in what a receiver has."""

    def __init__(self, store: Store, search: Search, has: Haves) -> None:
        self.store, self.search, self.has = store, search, has
        self.wanted = {finding.id for finding in search.findings}
        self.known: set[str] = set()
        self.points: tuple[Oid, ...] = ()
        self._scanned: set[Oid] = set()

    @property
    def left(self) -> tuple[Finding, ...]:
        """The findings that are not known yet."""
        return tuple(each for each in self.search.findings if each.id not in self.known)

    def scan(self, blobs: Iterable[Oid]) -> None:
        """Note what is in these blobs, as far as they can be read."""
        new = [oid for oid in dict.fromkeys(blobs) if oid not in self._scanned]
        self._scanned.update(new)
        for _, content in self.store.reader.read_each(new):
            if not isinstance(content, StoreDamaged) and content[0] == "blob":
                self.known |= checkpoint_scan.ids(content[1], self.search.sieve) & self.wanted

    def in_same_files(self, checkpoints: Iterable[Oid]) -> Iterator[Oid]:
        """Yield what is at the paths of the findings where the checkpoints come from, and in the
        sessions.
        """
        if not self.left:
            return
        self.points = (*self._origins(checkpoints), *self.has.checkpoints)
        for point in self.points:
            for path in self._paths():
                yield from self._at(point, path)

    def by_text(self) -> Iterator[Oid]:
        """Yield the files of the same commits that have the text of a finding, and what sessions
        have beside files.
        """
        texts = [
            max(text.split(b"\n"), key=len)
            for finding in self.left
            for text in self.search.texts.get(finding.id, ())
            if b"\0" not in text
        ]
        patterns = b"\n".join(text for text in texts if len(text) >= SHORTEST)
        if not patterns:
            return
        sessions = self.has.checkpoints
        commits = [point for point in self.points if point not in sessions]
        for point, path in self._with_text(patterns, commits):
            yield from self._at(point, path)
        for point, path in self._with_text(patterns, sessions, "--", RESERVED):
            yield from self._at(point, path)

    def in_history(self) -> Iterator[Oid]:
        """Yield what was ever at the paths of the findings."""
        paths = self._paths()
        tips = (*self.has.commits, *self.has.checkpoints)
        if not (paths and tips):
            return
        options = ("--format=", "--raw", "-z", "--no-abbrev", "--no-renames", "--full-history")
        shown = ("-c", "log.showRoot=true", "-c", "log.follow=false", "--literal-pathspecs")
        output = self._git(
            *shown,
            "log",
            *options,
            "--no-show-signature",
            "--stdin",
            "--",
            *paths,
            input="".join(f"{tip}\n" for tip in tips).encode("ascii"),
        )
        for line in output.split(b"\0"):
            fields = line.split(b" ")
            if line.startswith(b":") and len(fields) > 3 and fields[3].strip(b"0"):
                yield Oid(fields[3].decode("ascii"))

    def _origins(self, checkpoints: Iterable[Oid]) -> tuple[Oid, ...]:
        """Return the commits that the checkpoints come from and that the receiver has."""
        if not self.has.commits:
            return ()
        summaries = (self.store.summary(commit) for commit in checkpoints)
        bases = dict.fromkeys(each.trailers.get("Gitcp-Base", "") for each in summaries)
        tips = self.has.commits[:MOST]
        there = [base for base in bases if base and self.store.reader.exists(Oid(base))]
        origins = (self._git("merge-base", base, *tips).split() for base in there)
        common = [Oid(output[0].decode("ascii")) for output in origins if output]
        return tuple(dict.fromkeys(common or tips[:1]))

    def _paths(self) -> tuple[bytes, ...]:
        """Return the paths of the findings that are not known yet."""
        places = ("file", "conversation", "metadata")
        return tuple(dict.fromkeys(f.path for f in self.left if f.path and f.place in places))

    def _at(self, point: Oid, path: bytes) -> Iterator[Oid]:
        try:
            tree = self.store.reader.tree_of(point)
            entry = trees.lookup(self.store.reader, tree, path)
        except StoreDamaged:
            return
        if entry is not None and entry.mode not in (TREE, GITLINK):
            yield entry.oid

    def _with_text(
        self, patterns: bytes, points: Collection[Oid], *below: str | bytes
    ) -> Iterator[tuple[Oid, bytes]]:
        if not points:
            return
        options = ("-l", "-z", "-a", "-F", "--full-name", "--no-recurse-submodules", "-f", "-")
        output = self._git("grep", *options, *list(points)[:MOST], *below, input=patterns)
        for line in output.split(b"\0")[:-1]:
            point, _, path = line.partition(b":")
            yield Oid(point.decode("ascii")), path

    def _git(self, *args: str | bytes, input: bytes = b"") -> bytes:
        """Return git's output, b"" if it fails: then nothing is known."""
        try:
            return self.store.repo.git(*args, input=input, accept=(0, 1))
        except GitFailed:
            return b""
