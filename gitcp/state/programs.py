"""Which files a running program writes, for each working tree: who changed what, where no agent's
hooks tell.

A program that resumes its session, or is in a transaction, has a file in `<git dir>/gitcp/programs`
as long as it runs: its session, and each path that it opened to write, renamed or removed. Python
reports these itself, before they happen (`sys.addaudithook`). The file is locked while the program
lives, and stays if it is killed: the next save, or the next start, knows what it had begun.

What a command or a library in another language writes is not reported. A program that runs commands
may have changed anything; files that a library writes are those that it has open when it saves, or
that were named as outputs.
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from gitcp import wire
from gitcp.git.fsync import make_own_directory, open_shared, read_own, write_all
from gitcp.git.repo import Repository

NAME = "programs"
RESUMED = "resumed-"
"""Begins the names of the files of programs that resumed a session."""

MOST = 200
"""Programs of one process, such as the threads of a server. Of more, the oldest is forgotten."""

WROTE, SAVED, JOINED, COMMANDS = b"w", b"d", b"s", b"c"
"""What an entry of a file says: a path was written; what was written to it is saved; a session
saved inside; commands were run.
"""

WRITES = os.O_WRONLY | os.O_RDWR | os.O_TRUNC | os.O_APPEND
CHANGES: dict[str, tuple[tuple[int, int | None], ...]] = {
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.truncate": ((0, None),),
    "os.chmod": ((0, 2),),
}
"""Events that change paths: the index of each path among their arguments, and that of the
descriptor of its directory. `os.mkdir` is not among them: files that others put into a directory
that a program had made counted as the program's.
"""

WHOLE = "os.rename"
"""The event that changes everything below a directory."""

RUNS = frozenset(
    ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork")
)
EVENTS = RUNS | CHANGES.keys() | {"open", "sqlite3.connect"}
OURS = ("gitcp.", "subprocess", "multiprocessing.", "pathlib", "tempfile", "contextlib", "_py")
SQLITE = (b"-journal", b"-wal", b"-shm")


class Program:
    """A program at work in a working tree, or one that was killed: its session, the sessions that
    saved inside of it, and what it wrote. `runs_commands`: it may have written anything else.
    """

    def __init__(self, path: Path, session: str, pid: int, *, alive: bool) -> None:
        self.path, self.session, self.pid, self.alive = path, session, pid, alive
        self.paths = set[bytes]()
        self.joined = set[str]()
        self.runs_commands = False

    @property
    def is_here(self) -> bool:
        """Whether this process is the program."""
        return self.alive and self.pid == os.getpid()

    def wrote(self, path: bytes) -> bool:
        """Return whether it wrote a path, or renamed a directory above it, which is in `paths` with
        a slash.
        """
        if path in self.paths:
            return True
        while path := path.rpartition(b"/")[0]:
            if path + b"/" in self.paths:
                return True
        return False

    def read(self, entries: Iterable[bytes]) -> None:
        """Read entries of the file."""
        for entry in entries:
            kind, rest = entry[:1], entry[1:]
            if kind == WROTE:
                self.paths.add(rest)
            elif kind == SAVED:
                self.paths.discard(rest)
            elif kind == JOINED:
                self.joined.add(os.fsdecode(rest))
            elif kind == COMMANDS:
                self.runs_commands = True


class RunningProgram(Program):
    """A program of this process, from its begin to its end. `thread` is the thread that it began
    in, None if its work is done in others; or `owns` tells whether this thread works for it now.
    """

    def __init__(
        self,
        path: Path,
        session: str,
        root: Path,
        descriptor: int,
        owns: Callable[[], bool] | None,
    ) -> None:
        super().__init__(path, session, os.getpid(), alive=True)
        self.owns = owns
        self.written, self.last = 0, dict[bytes, int]()
        self.outputs = frozenset[bytes]()
        self.root = os.fsencode(root)
        self.descriptor = descriptor
        # asyncio begins it in a thread of its pool, and does the work in another one.
        is_pool = threading.current_thread().name.startswith("asyncio_")
        self.thread = None if is_pool else threading.get_ident()

    def note_paths(self, paths: Iterable[bytes]) -> None:
        """Record that it writes these paths. Ignores errors."""
        for path in paths:
            self.written += 1
            self.last[path] = self.written
            if path not in self.paths:
                self._add([WROTE + path])

    def settle(self, mark: int, opened: Collection[bytes]) -> None:
        """Record that what it wrote up to a mark is saved, except to files that are still open."""
        saved = [p for p in self.paths if self.last.get(p, 0) <= mark and p not in opened]
        saved = [path for path in saved if path not in self.outputs]
        self._add(SAVED + path for path in saved)

    def note_session(self, session: str) -> None:
        """Record that a session saved inside of it. Ignores errors."""
        if session != self.session and session not in self.joined:
            self._add([JOINED + os.fsencode(session)])

    def note_commands(self) -> None:
        """Record that it runs commands, which may write anything. Ignores errors."""
        if not self.runs_commands:
            self._add([COMMANDS])

    def _add(self, entries: Iterable[bytes]) -> None:
        new = list(entries)
        self.read(new)
        if new:
            with suppress(OSError):
                write_all(self.descriptor, b"".join(entry + b"\0" for entry in new))


_running: list[RunningProgram] = []
_lock = threading.Lock()
_watching: list[bool] = []


def begin(
    repo: Repository, session: str, name: str = "", owns: Callable[[], bool] | None = None
) -> RunningProgram | None:
    """Record that this process is a program at work in a session. Return None if that cannot be
    written. Without a `name` it goes on where one that was killed ended, whose file is removed.
    """
    if len(_running) >= MOST:
        end(next((each for each in _running if each.path.name.startswith(RESUMED)), None))
    before = [each for each in known(repo) if each.session == session]
    directory = repo.state_dir / NAME
    try:
        make_own_directory(directory)
        path = directory / (name or f"{RESUMED}{os.getpid()}-{os.urandom(4).hex()}")
        descriptor = open_shared(path, os.O_RDWR | os.O_APPEND)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        write_all(descriptor, wire.dumps({"session": session, "pid": os.getpid()}, small=True))
        write_all(descriptor, b"\0")
    except OSError:
        return None
    program = RunningProgram(path, session, repo.root, descriptor, owns)
    mine = threading.get_ident()
    around = _around(lambda each: each.path.parent == directory)
    _join(directory, session, [each for each in around if each.thread == mine])
    for inner in sorted({inner for each in before for inner in each.joined}):
        program.note_session(inner)
    for old in before:
        if not name and not old.alive and old.path.name.startswith(RESUMED):
            old.path.unlink(missing_ok=True)
    with _lock:
        _running.append(program)
    _watch()
    return program


def end(program: RunningProgram | None) -> None:
    """End a program: nothing that it wrote is unsaved, or needs to be known any longer."""
    if program is None:
        return
    with _lock, suppress(ValueError):
        _running.remove(program)
    program.path.unlink(missing_ok=True)
    os.close(program.descriptor)


def forget(repo: Repository, name: str) -> None:
    """Remove the file of a program that was killed, by its name."""
    with suppress(OSError):
        (repo.git_dir / "gitcp" / NAME / name).unlink()


def here(repo: Repository, session: str) -> RunningProgram | None:
    """Return the program of this process that works in a session here, None if there is none."""
    own = (each for each in _running if each.session == session and each.is_here)
    return next((each for each in own if each.path.parent == repo.state_dir / NAME), None)


def known(repo: Repository) -> list[Program]:
    """Return the programs that are at work in this working tree, and those that were killed."""
    directory = repo.git_dir / "gitcp" / NAME
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return []
    own = {each.path: each for each in _running if each.is_here}
    programs: list[Program] = []
    for name in names:
        path = directory / name
        with suppress(OSError, ValueError, KeyError, TypeError):
            program = _read(path)
            if path in own:  # processes that it started may have joined
                own[path].joined |= program.joined
            programs.append(own.get(path, program))
    return programs


def at_work(repo: Repository, session: str) -> bool:
    """Return whether another process is a program that works in a session here."""
    return any(
        each.session == session and each.alive and each.pid != os.getpid() for each in known(repo)
    )


def sessions_inside(repo: Repository, session: str) -> frozenset[str]:
    """Return a session, and those that its programs saved to as a part of their work."""
    programs = [each for each in known(repo) if each.session == session]
    return frozenset((session, *(name for each in programs for name in each.joined)))


def join(repo: Repository, session: str) -> None:
    """Record that a save to a session is a part of the work of the programs around it: those of
    this process, and of the processes that started it.
    """
    directory = repo.git_dir / "gitcp" / NAME
    _join(directory, session, _around(lambda each: each.path.parent == directory))
    others = [each for each in known(repo) if not isinstance(each, RunningProgram) and each.alive]
    above = _ancestors() if others else ()
    for each in others:
        if each.pid in above and each.session != session and session not in each.joined:
            _append(each.path, JOINED + os.fsencode(session))


def _join(directory: Path, session: str, programs: Iterable[RunningProgram]) -> None:
    for program in programs:
        if program.path.parent == directory and program.pid == os.getpid():
            program.note_session(session)


def ran_commands(repo: Repository, name: str) -> None:
    """Record that commands were run for a program, by its name, whether it still runs or not."""
    _append(repo.git_dir / "gitcp" / NAME / name, COMMANDS)
    for program in _running:
        program.runs_commands |= program.path.name == name


def _append(path: Path, entry: bytes) -> None:
    with suppress(OSError):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            write_all(descriptor, entry + b"\0")
        finally:
            os.close(descriptor)


def note_open_files(repo: Repository, session: str, changed: Collection[bytes]) -> None:
    """Record those of the changed paths that this process has open now, if it is a program of the
    session: a library may have opened them without Python.
    """
    program = here(repo, session)
    if program is not None and not all(map(program.wrote, changed)):
        program.note_paths((_open_files(repo) or set()).intersection(changed))


class ProgramMark(NamedTuple):
    """How much the programs of this process had written at the begin of a scan, and which files
    were open then.
    """

    written: tuple[tuple[RunningProgram, int], ...]
    opened: Collection[bytes]


def mark(repo: Repository) -> ProgramMark | None:
    """Return a mark of now for `settle`; None if there is nothing to settle."""
    directory = repo.git_dir / "gitcp" / NAME
    own = [each for each in _running if each.is_here and each.path.parent == directory]
    opened = _open_files(repo) if any(each.paths for each in own) else None
    if opened is None:
        return None
    return ProgramMark(tuple((each, each.written) for each in own), opened)


def settle(at: ProgramMark | None) -> None:
    """Record that what was written up to a mark is saved, and who wrote it: if it changes again
    without having been opened again, another author did that.
    """
    for program, written in at.written if at else ():
        program.settle(written, at.opened if at else ())


def _open_files(repo: Repository) -> set[bytes] | None:
    """Return the files of the working tree that this process has open; None if unknown."""
    root, opened = os.fsencode(repo.root), set[bytes]()
    try:
        descriptors = os.listdir("/proc/self/fd")
    except OSError:
        return None
    for descriptor in descriptors:
        with suppress(OSError):
            opened.add(_relative(root, os.fsencode(os.readlink(f"/proc/self/fd/{descriptor}"))))
    return opened


def _read(path: Path) -> Program:
    """Read a program's file. Raises OSError, ValueError, KeyError and TypeError."""
    head, *entries = read_own(path).split(b"\0")
    fields: dict[str, Any] = wire.loads(head)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        alive = False
    except BlockingIOError:
        alive = True
    finally:
        os.close(descriptor)
    program = Program(path, str(fields["session"]), int(fields["pid"]), alive=alive)
    program.read(entries[:-1])  # the last one is empty, or was not written to its end
    return program


def _ancestors() -> set[int]:
    """Return the processes that started this one, as far as the system tells."""
    pid, above = os.getppid(), set[int]()
    while pid > 1 and pid not in above:
        above.add(pid)
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
            pid = int(stat.rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
    return above


# ---------------------------------------------------------------- what Python reports


def _watch() -> None:
    """Let Python report what this process writes, from now on: it cannot be told to stop."""
    with _lock:
        if _watching:
            return
        _watching.append(True)
    sys.addaudithook(_audit)


def _around(of: Callable[[RunningProgram], bool]) -> list[RunningProgram]:
    """Return those of some programs that this thread works for: those that it began; else all whose
    work may be done in other threads, such as a pool's. One that it began in another repository
    once hid an asynchronous one in this.
    """
    mine, pid = threading.get_ident(), os.getpid()
    programs = [each for each in _running if each.pid == pid and each.owns is None and of(each)]
    return [each for each in programs if each.thread == mine] or programs


def _writing(of: Callable[[RunningProgram], bool]) -> list[RunningProgram]:
    """Return those whose work this thread does, with those that tell that it is."""
    pid = os.getpid()
    telling = (p for p in _running if p.pid == pid and p.owns is not None and of(p) and p.owns())
    return [*_around(of), *telling]


def _audit(event: str, args: tuple[Any, ...]) -> None:
    """Note what an event of Python's changes. It must not fail: the program would."""
    if not _running or event not in EVENTS:
        return
    with suppress(Exception):
        if event == "open":
            path, _, flags = args
            if flags & WRITES and not isinstance(path, int):
                _wrote((path,))
        elif event == "sqlite3.connect":
            _wrote(os.fsencode(args[0]) + suffix for suffix in (b"", *SQLITE))
        elif event in CHANGES:
            paths = [_path(args[at], args[of] if of else -1) for at, of in CHANGES[event]]
            _wrote(paths, whole=event == WHOLE and os.path.isdir(paths[0]))
        elif not _is_ours():
            for program in _writing(lambda _: True):
                program.note_commands()


def _path(given: Any, directory: int) -> bytes:
    """Return a changed path. `directory` is the descriptor that it is relative to, -1 for none.
    `shutil.rmtree` passes one: the names in it were taken for names in the current directory.
    """
    if directory == -1:
        return os.fsencode(given)
    if sys.platform == "darwin":
        above = fcntl.fcntl(directory, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0")
    else:
        above = os.readlink(b"/proc/self/fd/%d" % directory)
    return os.path.join(above, os.fsencode(given))


def _wrote(paths: Iterable[Any], *, whole: bool = False) -> None:
    """Note that paths change; with `whole`, everything below them as well."""
    if _is_ours():
        return
    for given in paths:
        try:
            path = os.path.abspath(os.fsencode(given))
        except (TypeError, ValueError, OSError):
            continue
        inside = {program: _relatives(program.root, path) for program in _running}
        if whole:
            inside = {p: [*names, *(n + b"/" for n in names)] for p, names in inside.items()}
        for program in _writing(lambda each, inside=inside: bool(inside.get(each))):  # type: ignore[misc]
            program.note_paths(inside[program])


def _relatives(root: bytes, path: bytes) -> list[bytes]:
    """Return a path relative to the root, as it was named and through the links above it."""
    parent, name = os.path.split(path)
    named = {path, os.path.join(os.path.realpath(parent), name)}
    inside = {_relative(root, each) for each in named}
    return [each for each in inside if each and each.partition(b"/")[0] not in (b".git", b".gitcp")]


def _relative(root: bytes, path: bytes) -> bytes:
    return path[len(root) + 1 :] if path.startswith(root + b"/") else b""


def _is_ours() -> bool:
    """Return whether gitcp itself caused this event."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("gitcp.") and name != __name__:
            return True
        if name != __name__ and not name.startswith(OURS[1:]):
            return False
        frame = frame.f_back
    return False
