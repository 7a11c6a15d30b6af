"""The refs under `refs/gitcp/`: read, list, and update by compare-and-swap. No other refs are ever
written.

Files are read and written as git does it (an exclusive `.lock` file, a comparison with the old
value, a rename), so git and gitcp can run concurrently. git's own changes to our refs (pack-refs,
gc) are handled by retrying.
"""

from __future__ import annotations

import builtins
import errno
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from gitcp import clock, discovery
from gitcp.errors import BadValue, DiskFull, GitcpError, Refused, StoreBusy, StoreDamaged
from gitcp.git import shared
from gitcp.git.fsync import FULL, make_directories, sync_directory, sync_paths, write_new
from gitcp.git.object_format import FORMATS, FULL_NAME, SHA1
from gitcp.model import Oid

PREFIX = "refs/gitcp/"
SESSIONS = PREFIX + "sessions/"
TAGS = PREFIX + "tags/"
TRASH = PREFIX + "trash/"
REMOTES = PREFIX + "remotes/"
SHARED = PREFIX + "shared/"
"""Sessions on a remote. Nothing is here in the repository that pushes them."""
CATALOGUE_NAME = "catalogue"
CATALOGUE = SHARED + CATALOGUE_NAME
"""What a list of a remote's sessions shows: no checkpoint, and written anew by any push."""

HEX = re.compile(FULL_NAME + r"\Z")
LOGGED = re.compile(
    rb"^[0-9a-f]+ (%s) [^\n]*> ([0-9]{1,12}) [+-][0-9]{4}(?:\t|$)" % FULL_NAME.encode("ascii"),
    re.MULTILINE,
)
LISTED = re.compile(rb"%s [^\n]" % FULL_NAME.encode("ascii"))
"""How a line of `packed-refs` begins."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}\Z")
UNREADABLE_REF = SHA1.null
"""An id that no object has, in a repository of either format. Never passed to git."""

LONGEST = 1 << 13
"""Maximum bytes of a ref's file: an object id, or `ref: ` and a path."""

TRIES = 160
PAUSE = 0.025
LOCK_MODE = 0o200
"""The mode of our lock files, which git never uses for its own. Only the holder of the store's lock
makes one, so the next holder may delete a leftover: its owner died.
"""

TEMPORARY_SUFFIX = "..gitcp.lock"
"""Suffix of the file that becomes a ref: not a valid ref name, and ignored by git."""

DIGITS = frozenset(each.digits for each in FORMATS.values())
GIT_LOCK_SIZES = (0, *(each.digits + 1 for each in FORMATS.values()))
STALE = 60.0
"""Seconds after which an unchanged lock of git counts as left by a crash. git holds one for
milliseconds, but may be delayed on a busy machine; if it continued after we took its lock, it would
undo our write.
"""


class Head(NamedTuple):
    """HEAD: its commit, the full name of the ref that it points to, None each if there is none, and
    the names of git's refs beside HEAD (CHERRY_PICK_HEAD) that exist and are no files. `unknown` is
    why the commit cannot be read, "" if it can.
    """

    commit: Oid | None
    ref: str | None
    beside: frozenset[str] = frozenset()
    unknown: str = ""


class Update(NamedTuple):
    """A ref moves from `old` (None: does not exist) to `new`."""

    name: str
    new: Oid
    old: Oid | None


class Refs(Protocol):
    """The refs of a repository, however they are stored (`Repository.refs`)."""

    def read(self, name: str) -> Oid | None:
        """Return the value of a ref, None if it does not exist. Follows symbolic refs. Raises
        StoreDamaged for invalid content.
        """

    def list(self, prefix: str, garbage: Oid | None = None) -> dict[str, Oid]:
        """Return every ref below `prefix` by full name, sorted. Invalid ones are omitted, or have
        the value `garbage`.
        """

    def head(self) -> Head:
        """Return what HEAD is, as far as it can be read: nothing that gitcp saves depends on it."""

    def update(self, name: str, new: Oid, old: Oid | None) -> bool:
        """Point `name` at `new` if it still points at `old` (None: does not exist). Return False if
        it moved meanwhile.

        The new value is durable when this returns. Raises StoreBusy if the ref stays locked,
        DiskFull.
        """

    def update_all(self, updates: Sequence[Update], make_durable: Callable[[], None]) -> bool:
        """Move several refs if each is still where it was. Return False, with none moved, if one
        is not.

        `make_durable` is called before any of them moves, and ensures that the new values survive a
        power loss. Raises StoreBusy if a ref stays locked, DiskFull; then some may have moved.
        """

    def delete(self, name: str, old: Oid) -> bool:
        """Delete `name` if it still points at `old`. Return False if it moved."""

    def sync(self, names: Iterable[str]) -> None:
        """Make the current values of these refs durable."""

    def log(self, name: str) -> builtins.list[tuple[Oid, int]]:
        """Return the values that git's reflog has for a ref, oldest first, each with its time in
        seconds since 1970; none if there is no reflog.
        """

    def file(self, name: str) -> str:
        """Return the path of the file whose first line is the value of a ref since it last moved,
        "" if its value is in no line.
        """

    def files(self, *names: str) -> tuple[str, ...]:
        """Return the paths of files, existing or not, one of which differs once HEAD or one of
        these refs does.
        """


class FileRefs:
    """Refs in a file each, and in `packed-refs`. `git` runs a command in the repository, `hold` is
    called with what refs are about to name (gitcp.git.held).
    """

    def __init__(
        self,
        git_dir: Path,
        common_dir: Path,
        git: Callable[..., bytes],
        hold: Callable[[Sequence[Oid]], object] = list,
    ) -> None:
        self._git_dir = git_dir
        self._common = common_dir
        self._git = git
        self._hold = hold

    def read(self, name: str) -> Oid | None:
        return read_ref(self._common, name)

    def list(self, prefix: str, garbage: Oid | None = None) -> dict[str, Oid]:
        return list_refs(self._common, prefix, garbage)

    def head(self) -> Head:
        text = head_text(self._git_dir)
        if HEX.match(text):
            return Head(Oid(text), None)
        name = text.removeprefix("ref:").strip()
        if not name:
            return Head(None, None, unknown="HEAD names neither a branch nor a commit")
        try:
            return Head(read_ref(self._common, name), name)
        except StoreDamaged as error:
            return Head(None, name, unknown=str(error))

    def update(self, name: str, new: Oid, old: Oid | None) -> bool:
        self._hold([new])
        return update_ref(self._common, name, new, old)

    def update_all(self, updates: Sequence[Update], make_durable: Callable[[], None]) -> bool:
        def ready() -> None:
            make_durable()
            self._hold([update.new for update in updates])

        return _update_all(self._common, updates, ready)

    def delete(self, name: str, old: Oid) -> bool:
        if delete_ref(self._common, name, old):
            return True
        if old == UNREADABLE_REF or read_ref(self._common, name) != old:
            return False
        self._git("update-ref", "-d", name, old)  # packed: only git rewrites packed-refs
        return True

    def sync(self, names: Iterable[str]) -> None:
        paths = [self._common / name for name in names]
        sync_paths([*paths, *{path.parent for path in paths}])  # what git has packed is gone

    def log(self, name: str) -> builtins.list[tuple[Oid, int]]:
        directory = self._common if name.startswith("refs/") else self._git_dir
        try:
            data = directory.joinpath("logs", name).read_bytes()
        except OSError:
            return []
        return [(Oid(oid.decode("ascii")), int(time)) for oid, time in LOGGED.findall(data)]

    def file(self, name: str) -> str:
        return f"{self._common}/{name}"

    def files(self, *names: str) -> tuple[str, ...]:
        shared_files = (f"{self._common}/{name}" for name in ("packed-refs", *names))
        return f"{self._git_dir}/HEAD", *shared_files


def head_text(git_dir: Path) -> str:
    """Return what the file HEAD says, "" if that is nothing git accepts."""
    data = discovery.beginning(f"{git_dir}/HEAD", LONGEST)
    text = data.decode("utf-8", "surrogateescape").strip()
    names_ref = text.startswith("ref:") and text[4:].lstrip().startswith("refs/")
    return text if (names_ref and not {"\0", "\n"} & {*text}) or HEX.match(text) else ""


def packed_problem(common_dir: Path) -> str:
    """Return what is wrong with `packed-refs`, "" if nothing is, or if it does not exist. Looks at
    its beginning and its end, which a power cut or a full disk damages.
    """
    try:
        with open(f"{common_dir}/packed-refs", "rb") as file:
            start = file.read(LONGEST)
            file.seek(max(0, os.fstat(file.fileno()).st_size - LONGEST))
            end = file.read()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or str(error)
    is_listed = not start or start.startswith(b"#") or LISTED.match(start)
    return "" if is_listed and b"\0" not in end and end[-1:] in (b"", b"\n") else "it is damaged"


def read_ref(common_dir: Path, name: str) -> Oid | None:
    """Return the value of a ref, None if it does not exist. Follows symbolic refs. Raises
    StoreDamaged for invalid content.
    """
    for _ in range(5):
        try:
            text = (
                _content(f"{common_dir}/{name}", ours=name.startswith(PREFIX))
                .decode("ascii")
                .strip()
            )
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return _packed(common_dir).get(name)
        except PermissionError as error:
            what = f"the ref {name} cannot be read: {error.strerror}. Nothing was changed"
            raise StoreDamaged(what, hint=shared.fix(f"{common_dir}/{name}")) from None
        except (OSError, ValueError) as error:
            raise StoreDamaged(f"the ref {name} cannot be read: {error}") from None
        if not text.startswith("ref:"):
            break
        name = text[4:].strip()
    if not HEX.match(text):
        raise StoreDamaged(
            f"the ref {name} does not contain an object name", hint="gitcp doctor --store"
        )
    return Oid(text)


def list_refs(common_dir: Path, prefix: str, garbage: Oid | None = None) -> dict[str, Oid]:
    """Return every ref below `prefix` by full name, sorted. Invalid ones are omitted, or have the
    value `garbage`.
    """
    loose, root_length = {}, len(os.path.join(common_dir, ""))

    def refuse(error: OSError) -> None:
        if isinstance(error, PermissionError):  # a session that is not seen would be taken for none
            what = f"{error.filename} cannot be read: {error.strerror}. Nothing was changed"
            raise Refused(what, hint=shared.fix(common_dir / PREFIX.rstrip("/")))

    for directory, _, files in os.walk(common_dir / prefix, onerror=refuse):
        for file in files:
            name = os.path.join(directory, file)[root_length:]
            if not name.endswith(".lock") and (oid := _read(common_dir, name, garbage)) is not None:
                loose[name] = oid
    # Read last: what git packs while we look is in one place or the other, and never in neither.
    packed = {name: oid for name, oid in _packed(common_dir).items() if name.startswith(prefix)}
    return dict(sorted({**packed, **loose}.items()))


def _read(common_dir: Path, name: str, garbage: Oid | None) -> Oid | None:
    try:
        return read_ref(common_dir, name)
    except StoreDamaged:
        return garbage


def update_ref(common_dir: Path, name: str, new: Oid, old: Oid | None) -> bool:
    """Point `name` at `new` if it still points at `old` (None: does not exist). Return False if it
    moved meanwhile.

    An invalid ref counts as pointing at UNREADABLE_REF.

    The new value is durable when this returns. Raises StoreBusy if the ref stays locked, DiskFull.
    """
    if not _update_all(common_dir, [Update(name, new, old)], None):
        return False
    _sync((common_dir / name).parent, name)
    return True


def _update_all(
    common_dir: Path, updates: Sequence[Update], make_durable: Callable[[], None] | None
) -> bool:
    """Move the refs together. Without `make_durable` their new values are synced, their names are
    not.
    """
    with suppress(_HasMoved), ExitStack() as prepared:
        moves = [
            prepared.enter_context(_prepared(common_dir, update, durable=make_durable is None))
            for update in updates
        ]
        if make_durable is not None:
            make_durable()
        for move in moves:
            move()
        return True
    return False


class _HasMoved(Exception):
    """A ref is not where it was."""


@contextmanager
def _prepared(common_dir: Path, update: Update, *, durable: bool) -> Iterator[Callable[[], None]]:
    """Lock a ref and write its new value to a file beside it. Yield what renames that. Raises
    _HasMoved.
    """
    name = update.name
    lock = _acquire(common_dir, name)
    path, temporary = f"{common_dir}/{name}", f"{common_dir}/{name}{TEMPORARY_SUFFIX}"

    def move() -> None:
        with _failures_named(name):
            os.rename(temporary, path)

    try:
        if _read(common_dir, name, UNREADABLE_REF) != update.old:
            raise _HasMoved
        with _failures_named(name):
            write_new(temporary, update.new.encode("ascii") + b"\n", 0o666, durable=durable)
        yield move
    except BaseException:
        _remove(temporary)
        raise
    finally:
        _remove(lock)


def delete_ref(common_dir: Path, name: str, old: Oid) -> bool:
    """Delete `name` if it still points at `old`. Return False if it moved. Packed refs are left to
    git.

    For an invalid ref (`old` is UNREADABLE_REF) the file is deleted, which may uncover a packed
    ref.
    """
    lock = _acquire(common_dir, name)
    try:
        if _read(common_dir, name, UNREADABLE_REF) != old or (
            old != UNREADABLE_REF and name in _packed(common_dir)
        ):
            return False
        (common_dir / name).unlink(missing_ok=True)
        sync_directory(Path(lock).parent)
        return True
    finally:
        _remove(lock)


def tips(listed: Mapping[str, Oid]) -> dict[str, Oid]:
    """Return those of gitcp's refs, by full name, that lead to checkpoints: all except the
    catalogue, which a repository has that others push to, and a mirror of it.
    """
    return {name: oid for name, oid in listed.items() if name != CATALOGUE}


def check_name(name: str, what: str) -> str:
    """Return `name` if it is valid as the last part of our refs. Raises BadValue with a valid name
    as hint.
    """
    if NAME.match(name) and ".." not in name and not name.endswith((".lock", ".")):
        return name
    better = re.sub(r"[^A-Za-z0-9._+-]+|\.\.+|(?:\.lock)+\Z", "-", name)[:100].strip("-._+")
    error = BadValue(
        f"{name!r} cannot be the name of a {what}: letters, digits and . _ + - only, beginning "
        "with a letter or digit",
        hint=better,
    )
    error.argument, error.suggestion = name, better
    raise error


def _content(path: str, *, ours: bool) -> bytes:
    """Return the first bytes of a ref's file.

    Refs of gitcp are never links. Raises Refused for a link; never blocks on a FIFO.
    """
    try:
        descriptor = os.open(
            path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (os.O_NOFOLLOW if ours else 0)
        )
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise _link(path) from None
    try:
        return os.read(descriptor, LONGEST)
    finally:
        os.close(descriptor)


def _link(path: str) -> Refused:
    what = f"{path} is a symbolic link: gitcp does not follow it. Nothing was changed"
    return Refused(what, hint=f"rm {shared.quoted(path)}")


def _packed(common_dir: Path) -> dict[str, Oid]:
    try:
        with open(
            f"{common_dir}/packed-refs", encoding="utf-8", errors="surrogateescape", newline="\n"
        ) as file:
            lines = file.read().split("\n")
    except OSError:  # `packed_problem` says why
        return {}
    # a comment names no ref, a peeled value nothing at all
    pairs = (line.split(" ", 1) for line in lines)
    return {pair[1]: Oid(pair[0]) for pair in pairs if len(pair) == 2 and len(pair[0]) in DIGITS}


def _acquire(common_dir: Path, name: str) -> str:
    """Create the ref's lock file. The caller holds the store's lock, so a persistent lock file was
    left by a crash.
    """
    lock = f"{common_dir}/{name}.lock"
    _look_above(common_dir, name)
    for attempt in range(TRIES):
        try:
            os.close(os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, LOCK_MODE))
            return lock
        except FileExistsError:
            _heal(lock)
        # the first of its kind, or pack-refs removed the directory just now
        except FileNotFoundError:
            _make_directories(Path(lock).parent, name)
            continue
        except OSError as error:
            raise _named(error, name) from None
        time.sleep(PAUSE * (1 + attempt % 4))
    raise StoreBusy(
        f"the ref {name} stays locked by another process: it was not changed",
        hint=f"ls -l {shared.quoted(lock)}",
    )


def _look_above(common_dir: Path, name: str) -> None:
    """Refuse to write through a link below refs/gitcp, or where other members of a shared
    repository cannot read.
    """
    parts = name.split("/")
    for count in range(2, len(parts) + 1):
        path = "/".join((str(common_dir), *parts[:count]))
        try:
            if stat.S_ISLNK(os.lstat(path).st_mode):
                raise _link(path)
            if count < len(parts):
                shared.adjust(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise _named(error, name) from None


def _make_directories(path: Path, name: str) -> None:
    try:
        make_directories(path)
    except OSError as error:
        raise _named(error, name) from None


def _sync(directory: Path, name: str) -> None:
    try:
        sync_directory(directory)
    except FileNotFoundError:
        pass  # git has packed the ref already, and removed the directory
    except OSError as error:
        raise GitcpError(
            f"the ref {name} was moved, but may not survive a power failure: {error.strerror}"
        ) from None


def _heal(lock: str) -> None:
    with suppress(FileNotFoundError, NotADirectoryError):
        status = os.lstat(lock)
        # A lock that git still held was broken after a second: git then undid later writes.
        lost = clock.seconds() - status.st_mtime > STALE and status.st_size in GIT_LOCK_SIZES
        if stat.S_IMODE(status.st_mode) == LOCK_MODE or lost:
            os.unlink(lock)


def _remove(path: str) -> None:
    """Remove one of our files. If that fails, the next holder of the store's lock removes it."""
    with suppress(OSError):
        os.unlink(path)


@contextmanager
def _failures_named(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _named(error, name) from None


def _named(error: OSError, name: str) -> GitcpError:
    if isinstance(error, shared.NotShared):
        return Refused(
            f"{error.filename} cannot be read by the other members of this shared repository, and "
            "its permissions "
            f"cannot be changed: a `git gc` of theirs would delete what {name} names. It was not "
            "changed",
            hint=shared.fix(error.filename),
        )
    if error.errno in FULL:
        return DiskFull(
            f"the disk is full: {name} was not changed", hint="free some space and try again"
        )
    return StoreBusy(f"the ref {name} could not be written ({error.strerror}): it was not changed")
