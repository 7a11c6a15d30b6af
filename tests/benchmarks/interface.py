"""Times the terminal interface on a terminal of its own, and the steps of its event loop."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from measure import command, processed

COLUMNS, ROWS = 120, 40
TICK = os.sysconf("SC_CLK_TCK")
KEYS: tuple[str, ...] = ("j",) * 20 + (
    "G",
    "g",
    "pagedown",
    "pagedown",
    "slash",
    *"number 77",
    "escape",
)
START = 1_700_000_000


class Painted(NamedTuple):
    """The start of the interface up to its first rows: seconds, seconds of processor time; and the
    largest resident set in bytes, after everything was read.
    """

    seconds: float
    processor: float
    memory: int


def furnish(repo: Path, checkpoints: int, sessions: int, env: Mapping[str, str]) -> None:
    """Make a repository with one session of so many checkpoints, and so many sessions of three."""
    repo.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", repo], check=True, env=env)
    stream = b"".join(
        part
        for name, count in [("long", checkpoints), *((f"s{n:03}", 3) for n in range(sessions - 1))]
        for part in _session(name, count)
    )
    subprocess.run(["git", "fast-import", "--quiet"], cwd=repo, input=stream, check=True, env=env)


def _session(name: str, count: int) -> Iterator[bytes]:
    for number in range(1, count + 1):
        trailers = {
            "Format": "1",
            "Session": name,
            "Number": str(number),
            "Trigger": "turn",
            "Agent": "claude-code",
            "Phase": f"phase {number // 1000}",
            "Messages": "",
            "Files": "1 (1 changed)",
        }
        listed = "".join(f"Gitcp-{key}: {value}\n" for key, value in trailers.items())
        message = f"turn: prompt number {number} of {name}\n\n{listed}".encode()
        yield f"commit refs/gitcp/sessions/{name}\n".encode()
        yield f"committer A <a@b> {START + 600 * number} +0000\n".encode()
        yield b"data %d\n%s\n" % (len(message), message)
        yield from _file(
            "notes.py", "".join(f"line = {n}\n" for n in range(number % 50, number % 50 + 9))
        )
        yield from _file(".gitcp/checkpoint.json", json.dumps(_metadata(name, number)))


def _file(path: str, text: str) -> Iterator[bytes]:
    data = text.encode()
    yield b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(data), data)


def _metadata(name: str, number: int) -> dict[str, object]:
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(START + 600 * number))
    return {
        "format": 1,
        "session": name,
        "number": number,
        "created": created,
        "trigger": "turn",
        "changed": 1,
        "agent": {"name": "claude-code"},
        "base": {},
        "files": {"total": 1},
    }


def first_paint(program: list[str], repo: Path, env: Mapping[str, str], shown: bytes) -> Painted:
    """Start the interface, wait until a row is painted that has the words `shown`, and quit."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    start = time.perf_counter()
    process = subprocess.Popen(
        [*program, "ui"],
        cwd=repo,
        env={**env, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    _read_until(ours, shown)
    seconds, processor = time.perf_counter() - start, _processor(process.pid)
    _drain(ours, 3.0)
    memory = _peak(process.pid)
    os.write(ours, b"q")
    _drain(ours, 2.0)
    os.close(ours)
    process.wait(10)
    return Painted(seconds, processor, memory)


def _read_until(descriptor: int, words: bytes) -> None:
    seen = b""
    while words not in seen:
        if not select.select([descriptor], [], [], 30)[0]:
            raise SystemExit(f"{words!r} was not painted")
        seen += os.read(descriptor, 1 << 16)


def _drain(descriptor: int, quiet: float) -> None:
    """Read until nothing was written for so many seconds."""
    try:
        while select.select([descriptor], [], [], quiet)[0] and os.read(descriptor, 1 << 16):
            pass
    except OSError:  # how Linux says that the other end was closed
        pass


def _processor(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def _peak(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


class Steps(NamedTuple):
    """The longest time between two turns of the event loop, in seconds, and the same in the
    processor time of its thread.
    """

    seconds: float
    processor: float


def steps(repo: Path) -> Steps:
    """Scroll, filter and search in a repository, and return the longest step."""
    from gitcp.cli import ui
    from gitcp.cli.context import Context
    from gitcp.tui.app import Interface

    longest = [0.0, 0.0]

    async def watch() -> None:
        while True:
            wall, own = time.perf_counter(), time.thread_time()
            await asyncio.sleep(0.002)
            longest[0] = max(longest[0], time.perf_counter() - wall - 0.002)
            longest[1] = max(longest[1], time.thread_time() - own)

    async def main() -> None:
        context = Context(())
        context.directory = os.fspath(repo)
        app = Interface(ui.given_by(context, "long"))
        async with app.run_test(size=(COLUMNS, ROWS)) as pilot:
            while not app.screen_stack[0].idle:  # type: ignore[attr-defined]
                await pilot.pause(0.05)
            watcher = asyncio.create_task(watch())
            await asyncio.sleep(0.1)
            longest[:] = [0.0, 0.0]
            for key in KEYS:
                await pilot.press("space" if key == " " else key)
                await pilot.pause(0.05)
            watcher.cancel()

    asyncio.run(main())
    return Steps(*longest)


def imported(module: str, env: Mapping[str, str]) -> float:
    """Return the processor time of a Python process that imports a module, in seconds."""
    return processed(command([sys.executable, "-c", f"import {module}"], Path.cwd(), env))
