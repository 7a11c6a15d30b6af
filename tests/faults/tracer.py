"""Runs a command and stops every process of it at each system call that changes files: to list,
kill or fail it.

The kernel does it (ptrace, with a seccomp filter that picks the calls), so that nothing escapes:
not a child `git`, not libgit2, not a write from C. Linux on x86-64 only; `unusable` says why where
it cannot be had.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import signal
import struct
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from faults import process

# <sys/ptrace.h>, <linux/seccomp.h>, <linux/prctl.h>
TRACEME, CONT, GETREGS, SETREGS, SETOPTIONS, GETEVENTMSG = 0, 7, 12, 13, 0x4200, 0x4201
FORKED, SECCOMP = (1, 2, 3), 7
OPTIONS = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << SECCOMP | 1 << 20
NO_NEW_PRIVS, SET_SECCOMP = 38, 22
WALL = 0x40000000
UNTRACED = 126
X86_64 = 0xC000003E
ALLOW, TRACE = 0x7FFF0000, 0x7FF00000
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06

AT_CWD = -100
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

# By number: the name, and where its files are among the arguments. "f": an open file; "p": a path;
# "d": a directory followed by a path; "-": neither.
CALLS = {
    1: ("write", "f"),
    2: ("open", "p"),
    18: ("pwrite64", "f"),
    20: ("writev", "f"),
    40: ("sendfile", "f"),
    74: ("fsync", "f"),
    75: ("fdatasync", "f"),
    76: ("truncate", "p"),
    77: ("ftruncate", "f"),
    82: ("rename", "pp"),
    83: ("mkdir", "p"),
    84: ("rmdir", "p"),
    85: ("creat", "p"),
    86: ("link", "pp"),
    87: ("unlink", "p"),
    88: ("symlink", "-p"),
    90: ("chmod", "p"),
    91: ("fchmod", "f"),
    132: ("utime", "p"),
    188: ("setxattr", "p"),
    189: ("lsetxattr", "p"),
    190: ("fsetxattr", "f"),
    235: ("utimes", "p"),
    257: ("openat", "d"),
    258: ("mkdirat", "d"),
    263: ("unlinkat", "d"),
    264: ("renameat", "dd"),
    265: ("linkat", "dd"),
    266: ("symlinkat", "-d"),
    268: ("fchmodat", "d"),
    280: ("utimensat", "d"),
    285: ("fallocate", "f"),
    296: ("pwritev", "f"),
    316: ("renameat2", "dd"),
    326: ("copy_file_range", "--f"),
    452: ("fchmodat2", "d"),
}
FLAGS_AT = {2: 1, 257: 2}
"""Calls that change a file only where these flags say so, and which argument has them."""

FILLING = frozenset(
    "write open pwrite64 writev sendfile mkdir link symlink openat mkdirat linkat symlinkat".split()
)
"""Calls that want room on the disk."""

ARGUMENTS = (14, 13, 12, 7, 9, 8)  # rdi, rsi, rdx, r10, r8, r9 in user_regs_struct
RAX, ORIG_RAX, RDX = 10, 15, 12
SAYING = {1: "stdout", 2: "stderr"}
"""What the command itself says counts among its calls, under these names instead of paths."""

SHORT = -1
"""Instead of an error number: write only half of what was asked for."""


class Call(NamedTuple):
    """One system call that would change something: what it is, and on which paths."""

    name: str
    paths: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name} {' '.join(self.paths)}"


class Fault(NamedTuple):
    """What happens at the `at`-th call that changes something below the roots, counted from 1.

    With `error` None all processes are killed for good; else the call fails with it, or is SHORT.
    `lasting`: so does every later call that wants room.
    """

    at: int
    error: int | None = None
    lasting: bool = False


class Traced(NamedTuple):
    """How a command ended (a negative code is a signal), what it said, and every call that it
    made.
    """

    code: int
    out: str
    err: str
    calls: tuple[Call, ...]


def run(
    become: Callable[[], None],
    cwd: Path,
    roots: Sequence[Path],
    fault: Fault | None = None,
    env: Mapping[str, str] = {},
    input: bytes = b"",
) -> Traced:
    """Run a new process with all its children. Counted are the calls on paths below `roots`, and
    what it says itself.

    `become` is what the process runs; it does not return. Call it from the main thread, with no
    other child around.
    """
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        given.write(input)
        given.seek(0)
        streams = [file.fileno() for file in (given, out, err)]
        pid = process.start(partial(_submit, become), cwd, env, streams)
        os.waitpid(pid, WALL)
        _ptrace(SETOPTIONS, pid, 0, OPTIONS)
        watch = _Watch(pid, tuple(f"{root}/" for root in roots), fault)
        _ptrace(CONT, pid, 0, 0)
        code = watch.until_all_ended()
        return Traced(code, process.text(streams[1]), process.text(streams[2]), tuple(watch.calls))


@cache
def unusable() -> str:
    """Why nothing can be traced here, "" if it can."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "system calls are traced on Linux on x86-64 only"
    try:
        seen = run(
            lambda: os.execvp("mkdir", ["mkdir", "/nowhere/at-all"]), Path("/"), [Path("/nowhere")]
        )
    except OSError as error:
        return f"this system lets nobody trace: {error.strerror}"
    return (
        "" if any(call.name == "mkdir" for call in seen.calls) else "this system lets nobody trace"
    )


class _Watch:
    """The processes under watch, and what they did so far."""

    def __init__(self, first: int, roots: tuple[str, ...], fault: Fault | None) -> None:
        self.calls: list[Call] = []
        self._first, self._alive = first, {first}
        self._roots, self._fault = roots, fault
        self._killed = False

    def until_all_ended(self) -> int:
        """Let them run. The exit code of the first; negative for a signal."""
        code = 0
        while self._alive:
            try:
                pid, status = os.waitpid(-1, WALL)
            except ChildProcessError:  # one ended before its parent's fork was told
                break
            if not os.WIFSTOPPED(status):
                self._alive.discard(pid)
                code = os.waitstatus_to_exitcode(status) if pid == self._first else code
                continue
            event, sent = status >> 16, os.WSTOPSIG(status)
            new = pid not in self._alive
            self._alive.add(pid)
            if event == SECCOMP:
                self._at_call(pid)
            elif event in FORKED:
                self._alive.add(_message(pid))
            self._go_on(pid, 0 if event or new or sent == signal.SIGSTOP else sent)
        return code

    def _go_on(self, pid: int, sent: int) -> None:
        with suppress(ProcessLookupError):  # killed meanwhile: waitpid tells
            _ptrace(CONT, pid, 0, sent)

    def _at_call(self, pid: int) -> None:
        registers = (ctypes.c_ulonglong * 27)()
        try:
            _ptrace(GETREGS, pid, 0, ctypes.addressof(registers))
            number = registers[ORIG_RAX]
            call = _call(pid, number, [registers[place] for place in ARGUMENTS])
        except (ProcessLookupError, FileNotFoundError):
            return
        if pid == self._first and number == 1 and registers[ARGUMENTS[0]] in SAYING:
            call = Call("write", (SAYING[registers[ARGUMENTS[0]]],))
        elif not any(path.startswith(self._roots) for path in call.paths):
            return
        self.calls.append(call)
        fault = self._fault
        if fault is None or self._killed:
            return
        count = len(self.calls)
        if count == fault.at and fault.error is None:
            self._kill()
        elif count == fault.at or (fault.lasting and count > fault.at and _wants_room(call)):
            self._fail(pid, registers, fault.error or 0, call)

    def _kill(self) -> None:
        self._killed = True
        for pid in self._alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _fail(
        self, pid: int, registers: ctypes.Array[ctypes.c_ulonglong], error: int, call: Call
    ) -> None:
        if error == SHORT:
            if call.name in ("write", "pwrite64"):
                registers[RDX] = max(1, registers[RDX] // 2)
        else:
            registers[ORIG_RAX] = 2**64 - 1
            registers[RAX] = 2**64 - error
        _ptrace(SETREGS, pid, 0, ctypes.addressof(registers))


def _wants_room(call: Call) -> bool:
    return call.name in FILLING and call.paths[0] not in SAYING.values()


def _call(pid: int, number: int, arguments: list[int]) -> Call:
    name, form = CALLS[number]
    paths, place = [], 0
    for kind in form:
        if kind == "f":
            paths.append(_open_file(pid, arguments[place]))
        elif kind == "p":
            paths.append(_path(pid, AT_CWD, arguments[place]))
        elif kind == "d":
            paths.append(
                _path(pid, ctypes.c_int(arguments[place] & 0xFFFFFFFF).value, arguments[place + 1])
            )
        place += 2 if kind == "d" else 1
    return Call(name, tuple(paths))


def _open_file(pid: int, descriptor: int) -> str:
    return os.readlink(f"/proc/{pid}/fd/{descriptor & 0xFFFFFFFF}")


def _path(pid: int, directory: int, address: int) -> str:
    path = _text(pid, address)
    if path.startswith("/"):
        return path
    base = os.readlink(f"/proc/{pid}/cwd") if directory == AT_CWD else _open_file(pid, directory)
    return os.path.join(base, path) if path else base


def _text(pid: int, address: int) -> str:
    """The text at an address, read page by page: the one after its last need not be there."""
    found = b""
    if not address:
        return ""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        while b"\0" not in found:
            memory.seek(address + len(found))
            found += memory.read(4096 - (address + len(found)) % 4096)
    return os.fsdecode(found.partition(b"\0")[0])


def _message(pid: int) -> int:
    value = ctypes.c_ulong()
    _ptrace(GETEVENTMSG, pid, 0, ctypes.addressof(value))
    return value.value


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
    return libc


def _ptrace(request: int, pid: int, address: int, data: int) -> None:
    if _libc().ptrace(request, pid, address, data) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _submit(become: Callable[[], None]) -> None:
    """What the new process does before it becomes the command: let itself be traced, and have its
    calls picked.
    """
    libc = _libc()
    code = _filter()
    kept = ctypes.create_string_buffer(code)
    program = ctypes.create_string_buffer(
        struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(kept))
    )
    if libc.ptrace(TRACEME, 0, 0, 0) < 0 or libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0) < 0:
        os._exit(UNTRACED)
    os.kill(os.getpid(), signal.SIGSTOP)  # until it is said what is to be traced
    if libc.prctl(SET_SECCOMP, 2, ctypes.addressof(program), 0, 0) < 0:
        os._exit(UNTRACED)
    become()


def _filter() -> bytes:
    """A BPF program: the calls of CALLS are to be traced, all others go on. Every comparison skips
    over a return.
    """
    lines = [(LOAD, 0, 0, 4), (EQUAL, 1, 0, X86_64), (RETURN, 0, 0, ALLOW)]
    for number in CALLS:
        lines.append((LOAD, 0, 0, 0))
        if number in FLAGS_AT:
            lines += [
                (EQUAL, 0, 4, number),
                (LOAD, 0, 0, 16 + 8 * FLAGS_AT[number]),
                (ANY_BIT, 0, 1, WRITING),
                (RETURN, 0, 0, TRACE),
                (RETURN, 0, 0, ALLOW),
            ]
        else:
            lines += [(EQUAL, 0, 1, number), (RETURN, 0, 0, TRACE)]
    lines.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def named(error: int) -> str:
    """An error's short name."""
    return "SHORT" if error == SHORT else errno.errorcode[error]
