"""Runs a compensation: at most once, whoever is killed meanwhile, and exactly once unless the
machine itself goes down.

What decides is a directory that the running shell makes as its first act: who finds it there does
not run. The shell goes on when gitcp is killed, and writes down by itself how it ended; whoever
comes later finds that, or waits for it. It holds a lock as its standard input, so that one who died
can be told from one who is slow.
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
"""Seconds after which a compensation is taken for hanging, unless it is said otherwise."""

GRACE = 2.0
POLL = 0.02

SHELL = """mkdir "$1/begun" 2>/dev/null || exit 0
sync "$1" 2>/dev/null
sh -c "$2" </dev/null
echo $? >"$1/code.new" && mv "$1/code.new" "$1/code"
"""


class Outcome(Value):
    """How a compensation ended: the effect with its outcome, and what was run, None if that was in
    an earlier call.
    """

    effect: Effect
    run: Run | None = None


def compensate(store: Store, effect: Effect, session: str, *, limit: float = LIMIT) -> Outcome:
    """Run the compensation of an effect, and record in `session` how it ended.

    One that was begun before is not run again: if it is running still it is waited for, if it was
    cut off its outcome is "unknown". After `limit` seconds it is ended, with all that it started.
    Runs in the root of the working tree, by `sh`, without input, with GITCP_COMPENSATION set to the
    key. Raises StoreBusy if another one's does not end.
    """
    directory = effects.directory(store, effect)
    try:
        make_own_directory(directory.parent)
        make_own_directory(directory)
    except OSError as error:
        raise GitcpError(f"{directory} cannot be made: {error.strerror}. Nothing was run") from None
    started = time.monotonic()
    with _lock(directory, started + limit) as descriptor:
        known = effects.ended(directory)
        begun = directory.joinpath("begun").exists()
        if not begun:
            _spawn(store, effect, directory, descriptor, limit)
        outcome = known or effects.ended(directory) or _write(directory, UNKNOWN)
    run = None
    if not begun:
        took = int((time.monotonic() - started) * 1000)
        run = Run(
            (effect.command,), _code(directory), took, tail(_output(directory), store.repo.host.env)
        )
    _record(store, session, effect, outcome, run)
    return Outcome(replace(effect, outcome=outcome), run)


def _spawn(store: Store, effect: Effect, directory: Path, lock: int, limit: float) -> None:
    """Start the shell and wait for its end, or for the limit."""
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
    """End the shell and what it started; the shell first, so that it does not write down what it
    does not know.
    """
    shell.kill()
    for how in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + GRACE
        with suppress(ProcessLookupError, PermissionError):  # nobody is left (macOS: but the dead)
            os.killpg(shell.pid, how)
            while time.monotonic() < deadline:
                shell.poll()
                os.killpg(shell.pid, 0)
                time.sleep(POLL)
    shell.wait()


def _record(store: Store, session: str, effect: Effect, outcome: str, run: Run | None) -> None:
    request = save.Request(
        cwd=store.repo.root,
        note=Note(label=f"compensation {outcome}: {effect.command}") if run else Note(),
        limits=settings.limits(store.repo),
        choice=Choice(session, None, GIVEN),
        run=run,
        compensated={effect.key: outcome},
    )
    save.save(store, request)


@contextmanager
def _lock(directory: Path, deadline: float) -> Iterator[int]:
    """Hold a compensation, which the shell goes on holding. Raises StoreBusy if another process
    does not let go.
    """
    descriptor = open_shared(directory / "lock", os.O_RDWR)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    what = (
                        f"the compensation in {directory} is still running: it was not begun again"
                    )
                    raise StoreBusy(what, hint="look at it; end it, or wait") from None
                time.sleep(POLL)
        yield descriptor
    finally:
        os.close(descriptor)


def _write(directory: Path, text: str) -> str:
    replace_file(directory / "code", f"{text}\n".encode("ascii"), sync=False)
    return text


def _code(directory: Path) -> int | None:
    text = directory.joinpath("code").read_text("ascii").strip()
    return int(text) if text.isdecimal() else None


def _output(directory: Path) -> bytes:
    with directory.joinpath("output").open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - (1 << 16)))
        return file.read()
