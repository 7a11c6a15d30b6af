"""Decide which repository a conversation belongs to, by what its transcript names.

A directory that exists decides. Where it is gone, the repository does that still knows it: the
removed working tree, the commit, the remote. A directory with the same name is only a hint, which
the user is offered.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from gitcp import discovery
from gitcp.adapters.base import Origin
from gitcp.adopting.holdings import Holdings
from gitcp.errors import GitcpError
from gitcp.git import refs, worktrees
from gitcp.git.repo import Repository
from gitcp.model import Host, Oid
from gitcp.store import Store

REMOTE = re.compile(
    r"(?:[a-z+]+://)?(?:[^@/]*@)?(?P<host>[^/:]+)(?::[0-9]+(?=/))?[:/]+(?P<path>.+?)(?:\.git)?/*"
)
SHORT = re.compile(r"[^/:@]+/[^/:@]+")


class Tree(NamedTuple):
    """A working tree on disk: its root, its git directory, and that of all its working trees."""

    root: str
    git_dir: str
    common_dir: str


class OwnedDirectories:
    """Finds the working trees around directories; each is looked for once."""

    def __init__(self, host: Host) -> None:
        self._home = str(host.home)
        self._trees: dict[str, Tree | None] = {}

    def tree(self, directory: str) -> Tree | None:
        """Return the working tree that contains a directory, or contained it before it was removed;
        None if there is none, or only the home directory's.
        """
        path = directory
        while path and not os.path.isdir(path):
            path = os.path.dirname(path) if os.path.dirname(path) != path else ""
        if not path:
            return None
        if path not in self._trees:
            discovered = discovery.discover(path, self._home)
            usable = discovered is not None and not discovery.is_above_home(
                discovered[0], self._home
            )
            common_dir = os.path.realpath(discovery.common(discovered[1])) if discovered else ""
            self._trees[path] = Tree(*discovered, common_dir) if discovered and usable else None
        return self._trees[path]

    def of(self, origin: Origin) -> Tree | None:
        """Return the working tree of a session: that of the first directory that exists, else of
        the first that was inside one.
        """
        existing = [path for path in origin.directories if os.path.isdir(path)]
        removed = [path for path in origin.directories if path not in existing]
        trees = (self.tree(path) for path in (*existing, *removed) if os.path.isabs(path))
        return next(filter(None, trees), None)


class Repo:
    """A repository that conversations may belong to, with what tells whether one does."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.common_dir = os.path.realpath(store.repo.common_dir)
        # of the main working tree, if there is one
        self.root = worktrees.main_root(store.repo.common_dir) or store.repo.root
        self._learned: set[str] = set()

    @cached_property
    def holdings(self) -> Holdings:
        """The agents' sessions that it has."""
        return Holdings(self.store)

    def learn(self, origin: Origin) -> None:
        """Note where a session of this repository started, if that is gone."""
        self._learned.update(each for each in origin.directories[:1] if not os.path.isdir(each))

    @classmethod
    def open(cls, tree: Tree, host: Host) -> Repo | None:
        """Return the repository of a working tree, opened in its main one if that exists; None if
        gitcp cannot work there.
        """
        main = worktrees.main_root(Path(tree.common_dir))
        for root in filter(None, (main, Path(tree.root))):
            try:
                repo = cls(Store(Repository.open(root, host)))
            except (GitcpError, OSError):
                continue
            if repo.common_dir == tree.common_dir:
                return repo
        return None

    def claim(self, origin: Origin, former: Sequence[str] = ()) -> str:
        """Return why a session belongs here although no directory that it names is on disk, ""
        if nothing says so. `former` are earlier places of this repository.
        """
        if any(_within(path, former) for path in origin.directories):
            return "as given"
        if not self._hashes.isdisjoint(origin.hashed):
            return "its directory"
        if any(_within(path, self._removed_worktrees) for path in origin.directories):
            return "a removed working tree"
        if any(self.store.reader.exists(Oid(oid)) for oid in origin.commits if refs.HEX.match(oid)):
            return "its commit"
        if not self._remotes.isdisjoint(_normalised(origin.remotes)):
            return "its remote"
        if not self._learned.isdisjoint(origin.directories[:1]):
            return "the directory of another conversation"
        if self._is_sibling(origin):
            return "its directory and branch"
        same_name = any(Path(path).name == self.root.name for path in origin.directories)
        if same_name and any(root in self._roots for root in origin.roots):
            return "its root commit and directory"
        return ""

    def may_own(self, origin: Origin) -> str:
        """Return a directory that is gone and has this repository's name, or was below one that
        has; "" if there is none.
        """
        gone = (path for path in origin.directories if not os.path.isdir(path))
        return next((path for path in gone if self.root.name in Path(path).parts), "")

    def _is_sibling(self, origin: Origin) -> bool:
        """Return whether a session ran beside this repository, in a directory named after it, on
        one of its branches.
        """
        beside = f"{self.root}-"
        is_beside = any(
            path.startswith(beside) and "/" not in path[len(beside) :]
            for path in origin.directories
        )
        return is_beside and not self._branches.isdisjoint(origin.branches)

    @cached_property
    def _hashes(self) -> frozenset[str]:
        """The SHA-256 sums of the roots, here and of its linked working trees."""
        paths = (str(self.root), *self._removed_worktrees)
        return frozenset(sha256(os.fsencode(path)).hexdigest() for path in paths)

    @cached_property
    def _removed_worktrees(self) -> tuple[str, ...]:
        """The roots of linked working trees that git still lists."""
        listed = []
        for path in Path(self.common_dir).glob("worktrees/*/gitdir"):
            text = os.fsdecode(discovery.beginning(str(path))).strip()
            listed.append(os.path.dirname(os.path.join(path.parent, text)))
        return tuple(listed)

    @cached_property
    def _remotes(self) -> frozenset[str]:
        listed = self.store.repo.git(
            "config", "-z", "--get-regexp", r"^remote\..*\.url$", accept=(0, 1)
        )
        settings = listed.decode("utf-8", "surrogateescape").split("\0")
        return frozenset(_normalised(setting.partition("\n")[2] for setting in settings))

    @cached_property
    def _branches(self) -> frozenset[str]:
        """Every branch but the current one, deleted ones as far as HEAD was ever on them."""
        repo = self.store.repo
        names = {name.removeprefix("refs/heads/") for name in repo.refs.list("refs/heads/")}
        log = repo.git("reflog", "show", "--format=%gs", "HEAD", accept=(0, 128))
        moves = re.findall(
            r"^checkout: moving from (\S+) to (\S+)$", log.decode("utf-8", "replace"), re.MULTILINE
        )
        current = repo.head().branch or ""
        return frozenset({*names, *(name for move in moves for name in move)} - {current})

    @cached_property
    def _roots(self) -> frozenset[str]:
        try:
            output = self.store.repo.git("rev-list", "--max-parents=0", "--branches", "HEAD")
        except GitcpError:
            return frozenset()
        return frozenset(output.decode("ascii").split())


def _within(path: str, tops: Iterable[str]) -> bool:
    return any(path == top or path.startswith(top.rstrip("/") + "/") for top in tops)


def same_remote(one: str, other: str) -> bool:
    """Return whether two URLs name one remote."""
    return not set(_normalised([one])).isdisjoint(_normalised([other]))


def _normalised(remotes: Iterable[str]) -> Iterator[str]:
    """Yield each remote without protocol, user and `.git`: `example.org/owner/name`. A path of a
    file system has no host and is left out; `owner/name` is one at GitHub.
    """
    for remote in remotes:
        text = f"github.com/{remote}" if SHORT.fullmatch(remote) else remote
        match = REMOTE.fullmatch(text.lower())
        if match and not text.startswith(("/", ".", "file:")):
            yield f"{match['host']}/{match['path'].strip('/')}"
