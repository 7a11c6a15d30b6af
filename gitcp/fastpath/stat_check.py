"""Looks which directories are no longer as they were: one lstat for each directory and each name
that was captured.

Nothing is listed, read or matched here. A directory whose ctime and inode are unchanged has the
same entries; a file whose ctime is unchanged has the same bytes and mode, since no user can set it.
Above a few thousand files two processes share the work. `start` begins before anything else is
loaded, in child processes, so that the look costs no time that loading would not have taken;
`changed` takes their answer. This module imports next to nothing, for that reason.
"""

from __future__ import annotations

import marshal
import os
import sys

from gitcp.fastpath import trusted_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import Any

    Place = tuple[bytes, tuple[int, int, bytes, tuple[Any, ...]]]
    """A directory's path and what was seen of it: stamp, inode, names with their stamps
    (marshalled), the rest.
    """

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

FORK_ABOVE = 150_000
"""Bytes of names and stamps from which on a second process pays: some 5,000 files."""

LARGE = 1_000_000
"""Bytes of a state file from which on two children start instead of one: some 6,000 files."""

_loaded: dict[tuple[int, ...], Any] = {}
_begun: list[tuple[int, int]] = []
_answers: dict[tuple[bytes, tuple[int, ...]], list[Change]] = {}


def unpack(data: bytes) -> Any:
    """What a state file holds, None if it is anything else than whole and ours.

    The first part is everything; each further one says what is otherwise: `(head, lines, notes)`
    with None for what is gone.
    """
    try:
        (head, lines, notes), *later = trusted_cache.parts(data)
        for head, changed, said in later:  # noqa: B007 -- the last head holds
            _put(lines, changed)
            _put(notes, said)
    except (ValueError, EOFError, TypeError):
        return None
    return head, lines, notes


def _put(known: dict[bytes, Any], changed: dict[bytes, Any]) -> None:
    for path, value in changed.items():
        if value is None:
            known.pop(path, None)
        else:
            known[path] = value


def start(root: bytes, state: str) -> None:
    """Begin to look at the tree below `root` by the state file at `state`, in child processes.
    Never raises.
    """
    try:
        found, unpacked = load(state, keep=True)
        if unpacked is not None and unpacked[0][0][0] == root and _may_fork():
            places = list(unpacked[1].items())
            count = 2 if found[2] > LARGE else 1
            _begun.extend(_child(root, found, places[number::count]) for number in range(count))
    except OSError:
        return


def load(state: str, *, keep: bool = False) -> tuple[tuple[int, ...], Any]:
    """What tells the state file at `state` from others, and what is in it. Read once if `keep` was
    said the first time.

    Raises OSError if it cannot be read, or another user could have written it.
    """
    with trusted_cache.opened(state) as file:
        found = identity(os.fstat(file.fileno()))
        if found in _loaded:
            return found, _loaded.pop(found)
        unpacked = unpack(file.read())
    if keep:
        _loaded[found] = unpacked
    return found, unpacked


def answer(root: bytes, file: tuple[int, ...] | None, *, keep: bool = False) -> list[Change] | None:
    """What the children found: the directories in which something changed. None unless they looked
    by this very file.

    An answer is good for one scan; `keep` leaves it for the one that follows.
    """
    said = [_ended(*child) for child in _begun]
    _begun.clear()
    if said and None not in said and all(part[:2] == said[0][:2] for part in said):
        _answers[said[0][0], tuple(said[0][1])] = [change for part in said for change in part[2]]
    found = None if file is None else _answers.get((root, file))
    if not keep:
        _answers.clear()
    return found


def forget() -> None:
    """Take no answer of the children any more: files may have changed since they looked."""
    answer(b"", None)


def _child(root: bytes, found: tuple[int, ...], places: Sequence[Place]) -> tuple[int, int]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        for descriptor in (0, 1, 2):
            os.close(descriptor)  # whoever waits for our output must not wait for this one
        _answer(writing, lambda: (root, found, _changed(root, places, alone=True)))
    os.close(writing)
    return child, reading


def _ended(child: int, reading: int) -> Any:
    said = _read_all(reading)
    _, status = os.waitpid(child, 0)
    return marshal.loads(said) if status == 0 else None  # noqa: S302 -- our own child


def identity(status: os.stat_result) -> tuple[int, ...]:
    """What tells one state file from the next: each is a new file."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def changed(root: bytes, places: Sequence[Place]) -> list[Change]:
    """The directories in which something is not as it was."""
    weight = sum(len(line[2]) for _, line in places)
    if weight < FORK_ABOVE or not _may_fork():
        return _changed(root, places)
    half, middle = 0, 0
    while half < weight // 2:
        half += len(places[middle][1][2])
        middle += 1
    return _in_two(root, places[:middle], places[middle:])


def _changed(root: bytes, places: Sequence[Place], *, alone: bool = False) -> list[Change]:
    """The directories in which something is not as it was. A process of its own (`alone`) goes into
    each of them, which takes a tenth less than to look from outside.
    """
    lstat = os.lstat
    found: list[Change] = []
    descriptor = None
    for path, (stamp, inode, seen, _) in places:
        if stamp == GONE:
            continue  # when it comes back, the directory above it says so
        names, stamps = marshal.loads(seen)  # noqa: S302 -- our own file
        place = root + b"/" + path
        try:
            if alone:
                os.chdir(place)
                status = lstat(b".")
            else:
                descriptor = os.open(place, _DIRECTORY)
                status = os.fstat(descriptor)
            same = stamp != UNSETTLED and status.st_ctime_ns == stamp and status.st_ino == inode
            if not same or [lstat(name, dir_fd=descriptor).st_ctime_ns for name in names] != stamps:
                found.append((path, (same, _otherwise(names, stamps, descriptor))))
        except OSError:
            found.append((path, ANYTHING))
        finally:
            if descriptor is not None:
                os.close(descriptor)
                descriptor = None
    return found


def _otherwise(
    names: Sequence[bytes], stamps: Sequence[int], descriptor: int | None
) -> list[bytes]:
    """Those of the entries of a directory that are not as they were."""
    found = []
    for name, stamp in zip(names, stamps, strict=True):
        try:
            if os.lstat(name, dir_fd=descriptor).st_ctime_ns == stamp:
                continue
        except OSError:
            pass
        found.append(name)
    return found


def _may_fork() -> bool:
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


def _in_two(root: bytes, ours: Sequence[Place], theirs: Sequence[Place]) -> list[Change]:
    try:
        reading, writing = os.pipe()
        child = os.fork()
    except OSError:
        return _changed(root, [*ours, *theirs])
    if child == 0:
        _answer(writing, lambda: _changed(root, theirs, alone=True))
    os.close(writing)
    try:
        found = _changed(root, ours)
    finally:
        said = _read_all(reading)
        _, status = os.waitpid(child, 0)
    # our own child
    return found + (marshal.loads(said) if status == 0 else _changed(root, theirs))  # noqa: S302


def _answer(writing: int, look: Callable[[], Any]) -> None:
    """The child's whole life. It must never return: everything above it belongs to the parent."""
    code = 1
    try:
        with open(writing, "wb") as file:
            file.write(marshal.dumps(look()))
        code = 0
    finally:
        os._exit(code)


def _read_all(descriptor: int) -> bytes:
    with open(descriptor, "rb") as file:
        return file.read()
