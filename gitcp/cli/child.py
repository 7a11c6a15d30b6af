"""Run the user's command transparently (terminal, signals, exit code) and record the end of its
output.

On a terminal the command gets a pseudo-terminal of the same size, and input is forwarded byte by
byte, including ^C. Otherwise its output passes through pipes. It inherits standard input.
"""

from __future__ import annotations

import fcntl
import os
import selectors
import signal
import subprocess
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from gitcp.git.fsync import write_all

KEPT = 1 << 16
CHUNK = 1 << 16
POLL = 0.1
MOMENT = 1.0
NOT_FOUND, NOT_RUNNABLE = 127, 126
PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class CommandResult(NamedTuple):
    """A command's exit code as a shell reports it (128 plus the signal's number), its duration and
    the end of its output.
    """

    code: int
    milliseconds: int
    output: bytes


class Started(NamedTuple):
    """A running command and, for each descriptor to read, the one to write to."""

    process: subprocess.Popen[bytes]
    routes: Mapping[int, int]


def run(
    command: Sequence[str], cwd: Path, env: Mapping[str, str], keep: int, *, out: int = 1
) -> CommandResult:
    """Run a command to its end. It inherits the descriptor `keep`; `out` receives its output."""
    begun = time.monotonic()
    tail = bytearray()
    with ExitStack() as stack:
        to = stack.enter_context(_signals_passed_on())
        try:
            if out == 1 and all(map(os.isatty, (0, 1, 2))):
                started = stack.enter_context(_on_terminal(command, cwd, env, keep))
            else:
                started = stack.enter_context(_on_pipes(command, cwd, env, keep, out))
        except OSError as error:
            sys.stderr.write(f"gitcp: {command[0]}: {error.strerror}\n")
            return CommandResult(
                NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_RUNNABLE, 0, b""
            )
        to.begin(started.process)
        _pump(started, tail)
        code = started.process.wait()
    return CommandResult(
        code if code >= 0 else 128 - code, int((time.monotonic() - begun) * 1000), bytes(tail)
    )


@contextmanager
def _on_pipes(
    command: Sequence[str], cwd: Path, env: Mapping[str, str], keep: int, out: int
) -> Iterator[Started]:
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=(keep,),
        bufsize=0,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout, process.stderr:
        yield Started(process, {process.stdout.fileno(): out, process.stderr.fileno(): 2})


@contextmanager
def _on_terminal(
    command: Sequence[str], cwd: Path, env: Mapping[str, str], keep: int
) -> Iterator[Started]:
    ours, theirs = os.openpty()

    def attach() -> None:
        os.login_tty(theirs)

    before = termios.tcgetattr(0)
    try:
        termios.tcsetattr(theirs, termios.TCSANOW, before)
        _copy_size(ours)
        tty.setraw(0, termios.TCSADRAIN)  # first: what is typed from now on is the command's
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            pass_fds=(keep, theirs),
            preexec_fn=attach,  # noqa: PLW1509 -- no threads here
        )
        os.close(theirs)
        with _on_signal(signal.SIGWINCH, lambda: _copy_size(ours)):
            yield Started(process, {ours: 1, 0: ours})
    finally:
        with suppress(termios.error):
            termios.tcsetattr(0, termios.TCSADRAIN, before)
        os.close(ours)


def _copy_size(ours: int) -> None:
    with suppress(OSError):
        fcntl.ioctl(ours, termios.TIOCSWINSZ, fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8))


def _pump(started: Started, tail: bytearray) -> None:
    """Forward input and output until the command has ended and its output is read. Output of
    processes it left running is read for at most MOMENT seconds.
    """
    gone = None
    with selectors.DefaultSelector() as selector:
        for source in started.routes:
            selector.register(source, selectors.EVENT_READ)
        while any(source != 0 for source in selector.get_map()):
            ready = selector.select(POLL)
            if started.process.poll() is not None:
                gone = gone or time.monotonic()
                if time.monotonic() - gone > MOMENT or not [key for key, _ in ready if key.fd != 0]:
                    return
            for key, _ in ready:
                if not _pass_on(key.fd, started.routes[key.fd], tail):
                    selector.unregister(key.fd)


def _pass_on(source: int, target: int, tail: bytearray) -> bool:
    """Forward the available data; return whether there may be more."""
    try:
        data = os.read(source, CHUNK)
    except OSError:  # Linux: the other end of the terminal was closed
        return False
    if source != 0:
        tail += data
        del tail[:-KEPT]
    with suppress(OSError):  # nobody reads the output; the command continues
        write_all(target, data)
    return bool(data)


class _Receiver:
    """Forwards signals to the command; signals that arrive before it starts are queued."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._waiting: list[int] = []

    def begin(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        for number in self._waiting:
            process.send_signal(number)

    def send(self, number: int) -> None:
        if self._process is None:
            self._waiting.append(number)
        else:
            self._process.send_signal(number)


@contextmanager
def _signals_passed_on() -> Iterator[_Receiver]:
    """Forward our signals to the command. ^C reaches it directly, and is ignored here."""
    receiver = _Receiver()
    with ExitStack() as stack:
        for number in PASSED_ON:
            stack.enter_context(_on_signal(number, partial(receiver.send, number)))
        stack.enter_context(_on_signal(signal.SIGINT, lambda: None))
        yield receiver


@contextmanager
def _on_signal(number: int, do: Callable[[], None]) -> Iterator[None]:
    before = signal.getsignal(number)
    if before is signal.SIG_IGN:  # the command ignores it as well
        yield
        return
    signal.signal(number, lambda *_: do())
    try:
        yield
    finally:
        signal.signal(number, before)
