"""Which ignore rules hold where: finds the files that gitcp.worktree.ignore knows how to read.

`ignored` answers for a list of paths, from any tree or from the disk. `outside` reads the rules
that no tree holds. `Rules` answers during a scan, directory by directory, and notices when the
rules are not those of the scan before.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from gitcp.errors import StoreDamaged
from gitcp.fastpath.stat_check import UNSETTLED
from gitcp.model import Oid
from gitcp.value import EMPTY, Value
from gitcp.worktree.attributes import NAMES, words_in
from gitcp.worktree.basis import excludes
from gitcp.worktree.ignore import Ignore
from gitcp.worktree.reading import Unstable, content, read, settled
from gitcp.worktree.records import Past, PlainLine, Record, is_absent

if TYPE_CHECKING:
    from gitcp.git.objects import Objects
    from gitcp.git.repo import Repository
    from gitcp.worktree.attributes import ConversionHints
    from gitcp.worktree.basis import Basis

GITIGNORE = b".gitignore"
GITATTRIBUTES = b".gitattributes"


class OutsideRules(Value):
    """The ignore rules that were in force beside those in a snapshot: of core.excludesFile, of
    info/exclude, and of `.gitignore` files that are ignored themselves, by their paths.
    """

    excludes_file: bytes | None = None
    info_exclude: bytes | None = None
    files: Mapping[bytes, bytes] = EMPTY

    def root(self, gitignore: bytes | None, *, ignore_case: bool) -> Ignore:
        """Return the rules at the root of the working tree, with this `.gitignore`."""
        outside = {"excludes_file": self.excludes_file, "info_exclude": self.info_exclude}
        return Ignore.root(**outside, gitignore=gitignore, ignore_case=ignore_case)

    def beside(self, read: Callable[[bytes], bytes | None]) -> Callable[[bytes], bytes | None]:
        """Return what reads a `.gitignore` by `read`, and one that it does not have from
        `files`.
        """
        return lambda path: self.files.get(path) if (found := read(path)) is None else found


def outside(
    repo: Repository, lines: Mapping[bytes, PlainLine], stamp: Callable[[bytes], object]
) -> OutsideRules:
    """Return the rules that hold now and that a snapshot does not have. Writes nothing.

    `lines` are the directories that it saw, `stamp` says nothing of what it did not capture.
    """
    files = {}
    for directory, line in lines.items():
        # the names seen there, as they are kept: a fast no for nearly all
        if GITIGNORE not in line[2]:
            continue
        path = directory + b"/" + GITIGNORE if directory else GITIGNORE
        found = content(os.fsencode(repo.root) + b"/" + path) if stamp(path) is None else None
        if found is not None:
            files[path] = found
    return OutsideRules(*excludes(repo), files)


def ignored(
    repo: Repository,
    paths: Iterable[bytes],
    read: Callable[[bytes], bytes | None],
    then: OutsideRules | None = None,
) -> set[bytes]:
    """Those of `paths` that git would ignore if they were untracked. A path that ends in "/" is a
    directory.

    The rules are core.excludesFile, info/exclude, and the `.gitignore` files that `read(path)`
    returns, None where there is none; with `then` those of `read` and these. What lies below an
    ignored directory is ignored. Writes nothing.
    """
    then = OutsideRules(*excludes(repo)) if then is None else then
    read = then.beside(read)
    ignore_case = repo.is_set("core.ignorecase", default=False)
    found: dict[bytes, Ignore | None] = {b"": then.root(read(GITIGNORE), ignore_case=ignore_case)}

    def inside(directory: bytes) -> Ignore | None:
        """The rules in a directory; None if it is ignored."""
        ahead = []
        while directory not in found:
            directory, _, name = directory.rpartition(b"/")
            ahead.append(name)
        for name in reversed(ahead):
            rules = found[directory]
            is_out = rules is None or rules.ignores(name, is_directory=True)
            directory = directory + b"/" + name if directory else name
            found[directory] = (
                None
                if is_out or rules is None
                else rules.enter(name, read(directory + b"/" + GITIGNORE))
            )
        return found[directory]

    def is_ignored(path: bytes) -> bool:
        parent, _, name = path.rstrip(b"/").rpartition(b"/")
        rules = inside(parent)
        return rules is None or rules.ignores(name, is_directory=path.endswith(b"/"))

    return {path for path in paths if is_ignored(path)}


class Rules:
    """The rules of one scan; `past` is what the scan before saw."""

    def __init__(
        self,
        root: bytes,
        basis: Basis,
        objects: Objects,
        hints: ConversionHints,
        past: Past,
    ) -> None:
        self._root = root
        self._basis = basis
        self._objects = objects
        self._hints = hints
        self._past = past
        self._found: dict[bytes, Ignore] = {}

    def ignores(self, record: Record, name: bytes, *, is_directory: bool) -> bool:
        """Whether an entry of this directory is ignored, given that the directory is not."""
        return self._inside(record.path).ignores(name, is_directory)

    def read(
        self, record: Record, names: set[bytes], old: Record | None, started: int
    ) -> tuple[bool, bool]:
        """Take up the rules that this directory brings.

        Whether its ignore rules, and whether its attributes, are other than before: all below is
        then to be judged anew, and no blob made under other attributes can be trusted.
        """
        gitignore = self._special(record, GITIGNORE, names, started)
        if gitignore is None and GITIGNORE not in names:
            gitignore = self._absent_gitignore(record)
        record.rules = _digest(gitignore)
        attributes = self._special(record, GITATTRIBUTES, names, started)
        record.attributes = _digest(attributes)
        if attributes is not None:
            self._hints.words |= words_in(attributes)
        elif GITATTRIBUTES in record.folder.files:
            self._hints.words |= set(NAMES)  # git then takes the version in the index
            record.attributes = record.folder.files[GITATTRIBUTES][0][1]
        if not record.ignored and not record.included:
            if record.path:
                self._inside(record.path.rpartition(b"/")[0])
            self._found[record.path] = self._enter(record.path, gitignore)
        if old is None:
            return False, False
        return record.rules != old.rules, record.attributes != old.attributes

    def _inside(self, path: bytes) -> Ignore:
        ahead = []
        while path not in self._found:
            ahead.append(path)
            if not path:
                break
            path = path.rpartition(b"/")[0]
        for directory in reversed(ahead):
            self._found[directory] = self._enter(directory, self._gitignore(directory))
            path = directory
        return self._found[path]

    def _gitignore(self, path: bytes) -> bytes | None:
        """The `.gitignore` of a directory that this scan was not sent to."""
        gitignore = content(self._root + b"/" + (path + b"/" if path else b"") + GITIGNORE)
        old = self._past.record(path)
        return self._absent_gitignore(old) if gitignore is None and old is not None else gitignore

    def _enter(self, path: bytes, gitignore: bytes | None) -> Ignore:
        """The rules in a directory; those in the one above it are found already."""
        if path:
            parent, _, name = path.rpartition(b"/")
            return self._found[parent].enter(name, gitignore)
        basis = self._basis
        return Ignore.root(
            excludes_file=basis.excludes_file,
            info_exclude=basis.info_exclude,
            gitignore=gitignore,
            ignore_case=basis.ignore_case,
        )

    def _special(
        self, record: Record, name: bytes, names: set[bytes], started: int
    ) -> bytes | None:
        """The content of a file that git reads (never through a link); watched even where it is not
        captured.
        """
        if name not in names:
            return None
        path = self._root + b"/" + record.below(name)
        try:
            status = os.lstat(path)
            data, status = read(path, status) if stat.S_ISREG(status.st_mode) else (None, status)
        except (OSError, Unstable):
            record.watched[name] = UNSETTLED
            return None
        record.watched[name] = (
            status.st_ctime_ns if settled(status.st_ctime_ns, started) else UNSETTLED
        )
        return data

    def _absent_gitignore(self, record: Record) -> bytes | None:
        """The rules of a `.gitignore` that sparse checkout left out: git reads them from the
        index.
        """
        slots = record.folder.files.get(GITIGNORE)
        if not slots or not is_absent(slots):
            return None
        try:
            return self._objects.read_blob(Oid(slots[0][1].hex()))
        except StoreDamaged:
            return None


def _digest(content: bytes | None) -> bytes | None:
    return None if content is None else hashlib.sha1(content, usedforsecurity=False).digest()
