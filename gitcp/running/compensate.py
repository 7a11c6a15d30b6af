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
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from gitcp.errors import BadValue, GitcpError, Refused, RevisionNotFound, StoreBusy
from gitcp.git.fsync import (
    create,
    make_own_directory,
    open_shared,
    replace_file,
    sync_directory,
)
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


FUNCTION = "python:"
"""Begins a compensation that is a function of a program: `python:MODULE:NAME`."""

Undo = Callable[[Callable[..., object]], object]
"""Calls the function of a compensation with what it takes."""


def function_name(function: Callable[..., object]) -> str:
    """Return how a function is recorded: by its name, so that it is found again. Raises BadValue
    for one that has none, as a lambda or one that is defined in another.
    """
    name = f"{function.__module__}:{getattr(function, '__qualname__', '')}"
    if _function(f"{FUNCTION}{name}") is not function:
        raise BadValue(
            f"compensate is {name.replace(':', '.')}, which cannot be found again by its name: "
            "nothing was run",
            hint="pass a function of a module, or a shell command",
        )
    return f"{FUNCTION}{name}"


def _function(command: str) -> Callable[..., object] | None:
    """Return the function of a compensation; None if this program has none of that name."""
    module, _, name = command.removeprefix(FUNCTION).partition(":")
    try:
        value: Any = import_module(module)
        for part in name.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError, ValueError):
        return None
    return value if callable(value) else None


def compensate(
    store: Store,
    effect: Effect,
    session: str,
    *,
    limit: float = LIMIT,
    undo: Undo | None = None,
) -> Outcome:
    """Run the compensation of an effect, and record its outcome in `session`.

    A function is called by `undo`, in this process and without a limit. Raises Refused, with
    nothing run, if it is not a function of this program.

    One that was started before is not run again: gitcp waits for it if it is still running, else
    its outcome is "unknown". After `limit` seconds it is killed with its child processes. Runs with
    `sh` in the root of the working tree, without input, with GITCP_COMPENSATION set to the key.
    Raises StoreBusy if another call's does not end in time.
    """
    function = None
    if effect.command.startswith(FUNCTION):
        function = _function(effect.command)
        if function is None or undo is None:
            require_command(effect)
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
        if not started_before and function is not None and undo is not None:
            _call(function, undo, directory)
        elif not started_before:
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


def _call(function: Callable[..., object], undo: Undo, directory: Path) -> None:
    """Call a function as the shell runs a command: begun once, with its end recorded."""
    make_own_directory(directory / "begun")
    sync_directory(directory)
    code, output = "0", b""
    try:
        undo(function)
    except Exception as error:  # noqa: BLE001 -- whatever it raises is how it ended
        code, output = (
            "1",
            "".join(traceback.format_exception_only(error)).encode("utf-8", "replace"),
        )
    with open(create(directory / "output"), "wb") as file:
        file.write(output)
    _write(directory, code)


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


def require_command(effect: Effect) -> None:
    """Raise Refused if an effect is undone by a function, which only its program has."""
    if effect.command.startswith(FUNCTION):
        raise Refused(
            f"compensation {effect.key} is {effect.command}, a function of another program: "
            "nothing was run",
            hint="run the program, or call compensate() in it",
        )


def chosen(recorded: Sequence[Effect], keys: Sequence[str]) -> tuple[Effect, ...]:
    """Return the effects with these keys. Raises RevisionNotFound for an unknown one, and Refused
    for one whose compensation has run.
    """
    by_key = {effect.key: effect for effect in recorded}
    for key in keys:
        if key not in by_key:
            raise RevisionNotFound(
                f"no compensation {key} in this session: nothing was run",
                hint="gitcp run --compensations -l",
            )
        if by_key[key].outcome is not None:
            raise Refused(
                f"compensation {key} has already run: nothing was run",
                hint="gitcp run --compensations -l",
            )
    return tuple(by_key[key] for key in dict.fromkeys(keys))


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
