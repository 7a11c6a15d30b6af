"""Find the ignore rules that apply to a path; gitcp.worktree.ignore parses them.

`ignored` answers for a list of paths, from any tree or from disk. `outside` reads the rules that
are not in a tree. `Rules` answers during a scan, directory by directory, and detects rules changed
since the previous scan.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from gitcp.errors import GitcpError, StoreDamaged
from gitcp.fastpath.nodes import Damaged
from gitcp.fastpath.stat_check import UNSETTLED
from gitcp.model import Oid
from gitcp.value import EMPTY, Value
from gitcp.worktree.attributes import NAMES, conversion_words
from gitcp.worktree.basis import excludes
from gitcp.worktree.ignore import Ignore
from gitcp.worktree.reading import Unstable, content, read, settled_ctime
from gitcp.worktree.records import GITIGNORE, LOOSE_RULES, PreviousScan, ScannedDirectory, is_absent

if TYPE_CHECKING:
    from gitcp.git.reader import ObjectReader
    from gitcp.git.repo import Repository
    from gitcp.worktree.attributes import ConversionHints
    from gitcp.worktree.basis import ScanInputs
    from gitcp.worktree.state import ScanMemory

GITATTRIBUTES = b".gitattributes"


class OutsideRules(Value):
    """The ignore rules in force besides those in a snapshot: of core.excludesFile, of info/exclude,
    and of `.gitignore` files that are ignored themselves, by path.
    """

    excludes_file: bytes | None = None
    info_exclude: bytes | None = None
    files: Mapping[bytes, bytes] = EMPTY

    def root(self, gitignore: bytes | None, *, ignore_case: bool) -> Ignore:
        """Return the rules at the root of the working tree, with this `.gitignore`."""
        outside = {"excludes_file": self.excludes_file, "info_exclude": self.info_exclude}
        return Ignore.root(**outside, gitignore=gitignore, ignore_case=ignore_case)

    def beside(self, read: Callable[[bytes], bytes | None]) -> Callable[[bytes], bytes | None]:
        """Return a reader of `.gitignore` files that uses `read`, then falls back to `files`."""
        return lambda path: self.files.get(path) if (data := read(path)) is None else data


def outside(repo: Repository, memory: ScanMemory | None) -> OutsideRules:
    """Return the current rules that a snapshot does not contain; `memory` is its scan. Writes
    nothing. Raises GitcpError.
    """
    files = {}
    for path in _loose_rules(memory) if memory is not None else ():
        data = content(os.fsencode(repo.root) + b"/" + path)
        if data is not None:
            files[path] = data
    # Undo removed a file from before the restore: the rule that had hidden it was gone by then.
    return OutsideRules(*excludes(repo), files)


def _loose_rules(memory: ScanMemory) -> list[bytes]:
    """Return the paths of the `.gitignore` files that are not captured. Raises GitcpError."""
    try:
        return [
            directory + b"/" + GITIGNORE if directory else GITIGNORE
            for directory, line in memory.flagged(LOOSE_RULES)
            if line.flags & LOOSE_RULES
        ]
    except Damaged:
        raise GitcpError(
            "the state of the last scan cannot be read; nothing was changed",
            hint="run the command again: it scans everything anew",
        ) from None


def ignored(
    repo: Repository,
    paths: Iterable[bytes],
    read: Callable[[bytes], bytes | None],
    then: OutsideRules | None = None,
) -> set[bytes]:
    """Return those of `paths` that git would ignore if they were untracked. A trailing "/" marks a
    directory.

    The rules are core.excludesFile, info/exclude, and the `.gitignore` files that `read(path)`
    returns (None if missing); with `then`, those of `then` and `read`. Everything below an ignored
    directory is ignored. Writes nothing.
    """
    then = OutsideRules(*excludes(repo)) if then is None else then
    read = then.beside(read)
    ignore_case = repo.is_set("core.ignorecase", default=False)
    rules_by_directory: dict[bytes, Ignore | None] = {
        b"": then.root(read(GITIGNORE), ignore_case=ignore_case)
    }

    def rules_in(directory: bytes) -> Ignore | None:
        """Return the rules in a directory, None if it is ignored."""
        names = []
        while directory not in rules_by_directory:
            directory, _, name = directory.rpartition(b"/")
            names.append(name)
        for name in reversed(names):
            rules = rules_by_directory[directory]
            is_excluded = rules is None or rules.ignores(name, is_directory=True)
            directory = directory + b"/" + name if directory else name
            rules_by_directory[directory] = (
                None
                if is_excluded or rules is None
                else rules.enter(name, read(directory + b"/" + GITIGNORE))
            )
        return rules_by_directory[directory]

    def is_ignored(path: bytes) -> bool:
        parent, _, name = path.rstrip(b"/").rpartition(b"/")
        rules = rules_in(parent)
        return rules is None or rules.ignores(name, is_directory=path.endswith(b"/"))

    return {path for path in paths if is_ignored(path)}


class Rules:
    """The rules of one scan; `past` is the previous scan."""

    def __init__(
        self,
        root: bytes,
        basis: ScanInputs,
        reader: ObjectReader,
        hints: ConversionHints,
        past: PreviousScan,
    ) -> None:
        self._root = root
        self._basis = basis
        self._reader = reader
        self._hints = hints
        self._past = past
        self._rules_by_directory: dict[bytes, Ignore] = {}

    def forget(self, paths: Iterable[bytes]) -> None:
        """Forget the rules in directories below which nothing is asked any more."""
        for path in paths:
            self._rules_by_directory.pop(path, None)

    def ignores(self, record: ScannedDirectory, name: bytes, *, is_directory: bool) -> bool:
        """Return whether an entry of this directory is ignored, given that the directory is not."""
        return self._rules_in(record.path).ignores(name, is_directory)

    def read(
        self,
        record: ScannedDirectory,
        names: set[bytes],
        old: ScannedDirectory | None,
        started: int,
    ) -> tuple[bool, bool]:
        """Read the rules in this directory.

        Return whether its ignore rules and whether its attributes changed since the previous scan.
        Then everything below must be checked again, and blobs made under other attributes cannot be
        reused.
        """
        gitignore = self._read_special(record, GITIGNORE, names, started)
        if gitignore is None and GITIGNORE not in names:
            gitignore = self._absent_gitignore(record)
        record.rules = _digest(gitignore)
        attributes = self._read_special(record, GITATTRIBUTES, names, started)
        record.attributes = _digest(attributes)
        if attributes is not None:
            self._hints.words |= conversion_words(attributes)
        elif GITATTRIBUTES in record.folder.files:
            self._hints.words |= set(NAMES)  # git then reads the version in the index
            record.attributes = record.folder.files[GITATTRIBUTES][0][1]
        if not record.ignored and not record.included:
            if record.path:
                self._rules_in(record.path.rpartition(b"/")[0])
            self._rules_by_directory[record.path] = self._enter(record.path, gitignore)
        if old is None:
            return False, False
        return record.rules != old.rules, record.attributes != old.attributes

    def _rules_in(self, path: bytes) -> Ignore:
        missing = []
        while path not in self._rules_by_directory:
            missing.append(path)
            if not path:
                break
            path = path.rpartition(b"/")[0]
        for directory in reversed(missing):
            self._rules_by_directory[directory] = self._enter(directory, self._gitignore(directory))
            path = directory
        return self._rules_by_directory[path]

    def _gitignore(self, path: bytes) -> bytes | None:
        """Return the `.gitignore` of a directory that this scan does not visit."""
        gitignore = content(self._root + b"/" + (path + b"/" if path else b"") + GITIGNORE)
        old = self._past.record(path)
        return self._absent_gitignore(old) if gitignore is None and old is not None else gitignore

    def _enter(self, path: bytes, gitignore: bytes | None) -> Ignore:
        """Return the rules in a directory; those of its parent must be known already."""
        if path:
            parent, _, name = path.rpartition(b"/")
            return self._rules_by_directory[parent].enter(name, gitignore)
        basis = self._basis
        return Ignore.root(
            excludes_file=basis.excludes_file,
            info_exclude=basis.info_exclude,
            gitignore=gitignore,
            ignore_case=basis.ignore_case,
        )

    def _read_special(
        self, record: ScannedDirectory, name: bytes, names: set[bytes], started: int
    ) -> bytes | None:
        """Return the content of a file that git reads, never through a link. It is watched even if
        it is not captured.
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
        record.watched[name] = settled_ctime(status, started)
        return data

    def _absent_gitignore(self, record: ScannedDirectory) -> bytes | None:
        """Return the content of a `.gitignore` removed by sparse checkout: git reads it from the
        index.
        """
        slots = record.folder.files.get(GITIGNORE)
        if not slots or not is_absent(slots):
            return None
        try:
            return self._reader.read_blob(Oid(slots[0][1].hex()))
        except StoreDamaged:
            return None


def _digest(content: bytes | None) -> bytes | None:
    return None if content is None else hashlib.sha1(content, usedforsecurity=False).digest()
