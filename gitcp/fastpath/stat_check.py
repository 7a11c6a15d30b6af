"""Find changed directories: one lstat for each directory and each captured name.

Nothing is listed, read or matched here. A directory with unchanged ctime and inode has the same
entries; a file with unchanged ctime has the same bytes and mode, since no user can set the ctime.
A Look begins before anything else is loaded: in a child process, so that it runs while modules
load, in two above a few thousand files, and in none where there is little to compare. The scan then
uses its result. For that reason this module imports almost nothing.
"""

from __future__ import annotations

import marshal
import os
import sys

from gitcp import clock, fingerprint
from gitcp.fastpath import nodes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import Any

    from gitcp.fastpath.nodes import Node, ScanFile
    from gitcp.fingerprint import Fingerprint

    Place = tuple[bytes, Node]
    """A directory's path and its node."""

    Touched = tuple[bool, Collection[bytes] | None]
    """Of a directory, whether it has the entries that it had, and the names of those that were
    there and are otherwise now, or gone; None for any of them.
    """
    Change = tuple[bytes, Touched]

GONE = -1
"""The stamp of a directory that is not on disk; the index has something in it."""

UNSETTLED = 0
"""The stamp of what may have changed in the tick in which it was looked at: never equal to what a
disk says.
"""

ANYTHING = (False, None)
"""What is said of a directory of which nothing is known."""

_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW

SMALL = 2_000
"""Names to compare up to which no child is started. One costs 2 ms of the 17 of an unchanged save
of 1,000 files, and there is nothing else to do meanwhile.
"""

LARGE = 6_000
"""Names to compare from which on two children start instead of one."""


class Look:
    """A look at the tree below `root` by the state file at `state`: begun by the first stage, and
    handed on to the first scan. Files may change after that, so it is good for one scan.

    `only` are the directories that may have changed (see `places`), None for all; set it before
    `begin`. It holds for the state file that `load` has returned: if another process replaces that,
    all are looked at. `watch` is what a watcher answered (gitcp.fastpath.watched).
    """

    __slots__ = ("_answer", "_children", "_loaded", "only", "root", "started", "state", "watch")

    def __init__(self, root: bytes, state: str) -> None:
        self.root, self.state = root, state
        self.only: frozenset[bytes] | None = None
        self.watch: Any = None
        self.started = clock.of_files()
        self._children: list[tuple[int, int]] = []
        self._answer: tuple[Fingerprint, list[Change]] | None = None
        self._loaded: ScanFile | None = None

    def begin(self) -> None:
        """Begin to look in child processes; look at a small tree at once. Never raises."""
        self._answer = None
        try:
            state = self.load()
            if state.head[0][0] != self.root:
                return
            if state.root[3] <= SMALL:
                changes = compared(self.root, places(state, self.only))
                self._answer = state.fingerprint, changes
            elif may_fork():
                count = 2 if self.only is None and state.root[3] > LARGE else 1
                for part in range(count):
                    self._children.append(child(state, self.root, self.only, part, count))
        except (OSError, nodes.Damaged):
            # Half a look is none: where the second fork failed, what had changed in that half was
            # taken for unchanged.
            while self._children:
                ended(*self._children.pop())

    def load(self) -> ScanFile:
        """Return the state file, opened; it is not opened twice while it stays the same.

        Raises OSError if it cannot be read, or another user could have written it; Damaged if it is
        nothing of ours.
        """
        known = self._loaded
        if known is not None and fingerprint.at(self.state) != known.fingerprint:
            known, self.only = None, None  # it is about that scan, not about the new one
            if self.watch is not None:
                self.watch.is_narrow = False
        if known is None:
            self._loaded = known = nodes.opened(self.state)
        return known

    def answer(self, file: Fingerprint | None) -> list[Change] | None:
        """What the children found: the directories in which something changed. None unless they
        looked by this very file.
        """
        ends = [ended(*process) for process in self._children]
        self._children.clear()
        parts = [part for part in ends if part is not None]
        if parts and len(parts) == len(ends) and all(part[0] == parts[0][0] for part in parts):
            self._answer = parts[0][0], [change for part in parts for change in part[1]]
        return self._answer[1] if self._answer is not None and self._answer[0] == file else None


def places(
    state: ScanFile, only: Collection[bytes] | None, part: int = 0, parts: int = 1
) -> Iterator[Place]:
    """Yield the directories to compare, with their nodes: one of `parts` equal parts of all, or
    those of `only`. Raises Damaged.

    There `b"dir"` is that directory alone, `b"dir/"` all that is below it as well; of one that is
    not known, the nearest known above it is compared.
    """
    if only is None:
        weight = state.root[3]
        yield from state.walk(weight * part // parts, weight * (part + 1) // parts)
        return
    for path in only:
        if path.endswith(b"/"):
            yield from state.subtree(path.rstrip(b"/"))
        else:
            yield state.nearest(path)


def sample(state: ScanFile, part: int, parts: int) -> list[bytes]:
    """Return the paths in one of `parts` equal parts of all directories. Raises Damaged."""
    return [path for path, _ in places(state, None, part, parts)]


def always(state: ScanFile) -> list[bytes]:
    """Return the paths of directories to compare even if nothing reported a change in them. Raises
    Damaged.
    """
    return [path for path, _ in state.flagged(nodes.ALWAYS)]


def child(
    state: ScanFile, root: bytes, only: Collection[bytes] | None, part: int, parts: int
) -> tuple[int, int]:
    """Start a child process that compares these `places`; return it, and where `ended` reads what
    it finds. Raises OSError.
    """
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.closerange(0, 3)  # whoever waits for our output must not wait for this one
        chosen = places(state, only, part, parts)
        _answer(writing, lambda: (state.fingerprint, compared(root, chosen, alone=True)))
    os.close(writing)
    return process, reading


def ended(process: int, reading: int) -> tuple[Fingerprint, list[Change]] | None:
    """Wait for a child process; return the fingerprint of its state file and the directories in
    which something changed. None if it failed.
    """
    with open(reading, "rb") as file:
        answer = file.read()
    _, status = os.waitpid(process, 0)
    return marshal.loads(answer) if status == 0 else None  # noqa: S302 -- our own child


def compared(root: bytes, chosen: Iterable[Place], *, alone: bool = False) -> list[Change]:
    """Return those of these directories in which something is not as it was. A process of its own
    (`alone`) goes into each of them, which takes a tenth less than to look from outside.
    """
    lstat = os.lstat
    changes: list[Change] = []
    descriptor = None
    for path, (stamp, inode, names, stamps, _, _) in chosen:
        if stamp == GONE:
            continue  # when it comes back, the directory above it says so
        directory = root + b"/" + path
        try:
            if alone:
                os.chdir(directory)
                status = lstat(b".")
            else:
                descriptor = os.open(directory, _DIRECTORY)
                status = os.fstat(descriptor)
            same = stamp != UNSETTLED and status.st_ctime_ns == stamp and status.st_ino == inode
            if not same or [lstat(name, dir_fd=descriptor).st_ctime_ns for name in names] != stamps:
                changes.append((path, (same, _otherwise(names, stamps, descriptor))))
        except OSError:
            changes.append((path, ANYTHING))
        finally:
            if descriptor is not None:
                os.close(descriptor)
                descriptor = None
    return changes


def _otherwise(
    names: Sequence[bytes], stamps: Sequence[int], descriptor: int | None
) -> list[bytes]:
    """Those of the entries of a directory that are not as they were."""
    differing = []
    for name, stamp in zip(names, stamps, strict=True):
        try:
            if os.lstat(name, dir_fd=descriptor).st_ctime_ns == stamp:
                continue
        except OSError:
            pass
        differing.append(name)
    return differing


def may_fork() -> bool:
    """Whether a child process may run Python: there is a core for it, and no other thread that
    could hold a lock.
    """
    try:
        return (
            sys.platform == "linux"
            and len(os.sched_getaffinity(0)) > 1
            and len(os.listdir("/proc/self/task")) == 1
        )
    except OSError:
        return False


def _answer(writing: int, look: Callable[[], Any]) -> None:
    """The child's whole life. It must never return: everything above it belongs to the parent."""
    code = 1
    try:
        with open(writing, "wb") as file:
            file.write(marshal.dumps(look()))
        code = 0
    finally:
        os._exit(code)
