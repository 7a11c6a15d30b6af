"""Run a compensation at most once, whatever is killed, and exactly once unless the machine goes
down.

The running shell first creates a directory; if it exists already, nothing is run. The shell
survives gitcp and records its own exit code; a later call reads it or waits for it. The shell has a
lock open as its standard input, which distinguishes a dead shell from a slow one.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gitcp.errors import GitcpError, StoreBusy
from gitcp.git.fsync import create, make_own_directory, open_shared, replace_file
from gitcp.model import Note, Run
from gitcp.saving import save
from gitcp.saving.session import GIVEN, Choice
from gitcp.state import effects, settings
from gitcp.state.effects import TIMEOUT, UNKNOWN, Effect
from gitcp.state.masking import tail
from gitcp.store import Store
from gitcp.value import Value, replace

LIMIT = 600.0
"""Default timeout of a compensation in seconds."""

GRACE = 2.0
POLL = 0.02

SHELL = """mkdir "$1/begun" 2>/dev/null || exit 0
sync "$1" 2>/dev/null
sh -c "$2" </dev/null
echo $? >"$1/code.new" && mv "$1/code.new" "$1/code"
"""


class Outcome(Value):
    """How a compensation ended. `run` is None if it ran in an earlier call."""

    effect: Effect
    run: Run | None = None


def compensate(store: Store, effect: Effect, session: str, *, limit: float = LIMIT) -> Outcome:
    """Run the compensation of an effect, and record its outcome in `session`.

    One that was started before is not run again: gitcp waits for it if it is still running, else
    its outcome is "unknown". After `limit` seconds it is killed with its child processes. Runs with
    `sh` in the root of the working tree, without input, with GITCP_COMPENSATION set to the key.
    Raises StoreBusy if another call's does not end in time.
    """
    directory = effects.directory(store, effect)
    try:
        make_own_directory(directory.parent)
        make_own_directory(directory)
    except OSError as error:
        raise GitcpError(f"cannot create {directory}: {error.strerror}; nothing was run") from None
    started = time.monotonic()
    with _lock(directory, started + limit) as descriptor:
        previous = effects.ended(directory)
        started_before = directory.joinpath("begun").exists()
        if not started_before:
            _spawn(store, effect, directory, descriptor, limit)
        outcome = previous or effects.ended(directory) or _write(directory, UNKNOWN)
    run = None
    if not started_before:
        milliseconds = int((time.monotonic() - started) * 1000)
        run = Run(
            (effect.command,),
            _code(directory),
            milliseconds,
            tail(_output(directory), store.repo.host.env),
        )
    _record(store, session, effect, outcome, run)
    return Outcome(replace(effect, outcome=outcome), run)


def _spawn(store: Store, effect: Effect, directory: Path, lock: int, limit: float) -> None:
    """Start the shell and wait for its end or the timeout."""
    env = {**store.repo.host.env, "GITCP_COMPENSATION": effect.key}
    with open(create(directory / "output"), "wb") as output:
        shell = subprocess.Popen(
            ["sh", "-c", SHELL, "sh", directory, effect.command],
            cwd=store.repo.root,
            env=env,
            stdin=lock,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        shell.wait(limit)
    except subprocess.TimeoutExpired:
        _end(shell)
        if effects.ended(directory) is None:
            _write(directory, TIMEOUT)


def _end(shell: subprocess.Popen[bytes]) -> None:
    """Kill the shell, then its children: the shell first, so that it cannot record a wrong exit
    code.
    """
    shell.kill()
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + GRACE
        with suppress(ProcessLookupError, PermissionError):  # none left (macOS: only zombies)
            os.killpg(shell.pid, signal_number)
            while time.monotonic() < deadline:
                shell.poll()
                os.killpg(shell.pid, 0)
                time.sleep(POLL)
    shell.wait()


def _record(store: Store, session: str, effect: Effect, outcome: str, run: Run | None) -> None:
    request = save.SaveRequest(
        cwd=store.repo.root,
        note=Note(label=f"compensation {outcome}: {effect.command}") if run else Note(),
        limits=settings.limits(store.repo),
        choice=Choice(session, None, GIVEN),
        records=save.Records(run=run, compensated={effect.key: outcome}),
    )
    save.save(store, request)


@contextmanager
def _lock(directory: Path, deadline: float) -> Iterator[int]:
    """Hold the lock of a compensation, which the shell inherits. Raises StoreBusy
    if it is not released in time.
    """
    descriptor = open_shared(directory / "lock", os.O_RDWR)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    message = (
                        f"the compensation in {directory} is still running; it was not run again"
                    )
                    raise StoreBusy(message, hint="wait for it to end, or kill it") from None
                time.sleep(POLL)
        yield descriptor
    finally:
        os.close(descriptor)


def _write(directory: Path, text: str) -> str:
    replace_file(directory / "code", f"{text}\n".encode("ascii"), durable=False)
    return text


def _code(directory: Path) -> int | None:
    text = directory.joinpath("code").read_text("ascii").strip()
    return int(text) if text.isdecimal() else None


def _output(directory: Path) -> bytes:
    with directory.joinpath("output").open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - (1 << 16)))
        return file.read()
