"""Run `git` for the few tasks that only git can do: without a shell, hooks or locks, in a scrubbed
environment. What git prints as its progress is reported as gitcp's.

A repository may be a stranger's, delivered in an archive with its settings, and many of git's
settings name a program or an address. So git runs as if they named none, and without any transport:
in a partial clone even `git log` would connect to the URL that the settings name, or run the
command `ext::` there. Only what the user asked to send or fetch is run with `connects`: then git
follows the repository's settings, as `git push` does.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from gitcp import progress
from gitcp.errors import DiskFull, GitcpError, GitFailed

LINE = re.compile(
    r"(?:remote: )?(?P<name>[A-Z][a-z]+ [a-z]+): +\d+% \((?P<done>\d+)/(?P<total>\d+)\)"
    r"(?:, (?P<size>[\d.]+ [A-Za-z]+)(?: \| (?P<rate>[\d.]+ [A-Za-z]+/s))?)?"
)
"""Matches `Writing objects:  45% (450/1000), 10.00 MiB | 2.00 MiB/s`."""


class ProgressStep(NamedTuple):
    """One of git's progress lines; `detail` is the amount transferred and its rate."""

    name: str
    done: int
    total: int
    detail: str


def parse(line: str) -> ProgressStep | None:
    """Return the progress in a line of git's stderr, None if the line is a message."""
    match = LINE.match(line)
    if match is None:
        return None
    detail = ", ".join(filter(None, (match["size"], match["rate"])))
    return ProgressStep(match["name"].lower(), int(match["done"]), int(match["total"]), detail)


def report(stderr: IO[bytes]) -> bytes:
    """Read all of git's stderr, report its progress, and return everything else."""
    messages = []
    task: progress.Task | None = None
    name, done = "", 0
    for line in _lines(stderr):
        step = parse(line.decode("utf-8", "replace"))
        if step is None:
            messages.append(line + b"\n")
            continue
        if task is None or step.name != name:
            if task is not None:
                task.end()
            task, name, done = progress.begin(step.name, "objects", step.total), step.name, 0
        task.advance(step.done - done)
        task.detail(step.detail)
        done = step.done
    if task is not None:
        task.end()
    return b"".join(messages)


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield lines as they arrive; git ends overwritten ones with a carriage return."""
    rest = b""
    while chunk := stream.read1(4096):  # type: ignore[attr-defined]
        *lines, rest = re.split(rb"[\r\n]", rest + chunk)
        yield from filter(None, lines)
    if rest:
        yield rest


TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from typing import IO

KEPT = ("GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_COUNT")
KEPT_PREFIXES = ("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "GIT_SSH", "GIT_ASKPASS")
LIMITING = ("GIT_ALLOW_PROTOCOL", "GIT_PROTOCOL_FROM_USER")
"""The user's variables that restrict transports."""

READ = 1 << 18
"""Bytes read at a time."""

EVENTS = (
    "post-checkout",
    "post-index-change",
    "pre-auto-gc",
    "pre-push",
    "reference-transaction",
)
"""The events of the commands that gitcp runs for which git runs hooks. Since git 2.54, settings can
name a hook as well as a file in `core.hooksPath` can.
"""

OFF = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    *(f"hook.{event}.enabled=false" for event in EVENTS),
    "diff.external=",
    "diff.orderFile=/dev/null",  # git fails where the file that it names does not exist
    "log.showSignature=false",
)
"""Settings that name programs, set to run none, and one that names a file. Those of one driver
(`diff.*.textconv`, `filter.*.clean`, …) have no common switch: the commands that would run them
have an option each.
"""

SAFE = (
    "--no-optional-locks",
    "--literal-pathspecs",
    *(word for setting in OFF for word in ("-c", setting)),
)

OFFLINE = (
    *SAFE,
    "-c",
    "core.alternateRefsCommand=true",  # an empty one would run the path that it is given
    "-c",
    "fetch.bundleURI=",
)
"""The options of a command that connects to nothing: `git fetch` would start a download from the
last address without asking whether its transport is allowed.
"""

NO_TRANSPORT = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}
"""No transport is allowed, and git before 2.45 learns only from that to fetch nothing by itself."""

INIT = (
    "-c",
    "init.defaultRefFormat=files",
    "init",
    "--quiet",
    "--object-format=sha1",
    "--template=",
)
"""Creates a repository with SHA-1 names, unless another format follows, and with refs in files:
whatever this git's defaults.
"""

FULL = ("No space left on device", "Out of diskspace", "Disk quota exceeded")
"""git's messages for a full disk."""


def scrubbed(env: Mapping[str, str]) -> dict[str, str]:
    """Return `env` without the variables by which an outer git (a hook, an alias) would redirect
    ours.
    """
    remaining = {
        name: value
        for name, value in env.items()
        if not name.startswith("GIT_")
        or name in KEPT
        or name in LIMITING
        or name.startswith(KEPT_PREFIXES)
    }
    return {
        **remaining,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_FLUSH": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "LC_ALL": "C",
    }


def configured(env: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Return `env` with settings for git, which override those in its files."""
    count = int(env.get("GIT_CONFIG_COUNT") or 0)
    pairs: dict[str, str] = {}
    for number, (key, value) in enumerate(settings.items(), count):
        pairs |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return {**env, **pairs, "GIT_CONFIG_COUNT": str(count + len(settings))}


def offline(env: Mapping[str, str]) -> dict[str, str]:
    """Return `env` as `scrubbed` does, without any transport."""
    return {**scrubbed(env), **NO_TRANSPORT}


def run(
    args: Sequence[str | bytes],
    *,
    cwd: str,
    env: Mapping[str, str],
    input: bytes | memoryview = b"",
    accept: Sequence[int] = (0,),
    index: Path | None = None,
    extra: Mapping[str, str] | None = None,
    connects: bool = False,
) -> bytes:
    """Run `git ARGS` in `cwd` and return its stdout; `index` replaces git's index, and `extra`
    variables those of the scrubbed environment. It connects to nothing, unless `connects`.

    Raises GitFailed on an exit code not in `accept`, DiskFull if git reports a full disk.
    """
    return run_with_stderr(
        args,
        cwd=cwd,
        env=env,
        input=input,
        accept=accept,
        index=index,
        extra=extra,
        connects=connects,
    )[0]


def run_with_stderr(
    args: Sequence[str | bytes],
    *,
    cwd: str,
    env: Mapping[str, str],
    input: bytes | memoryview = b"",
    accept: Sequence[int] = (0,),
    index: Path | None = None,
    extra: Mapping[str, str] | None = None,
    connects: bool = False,
) -> tuple[bytes, bytes]:
    """Run `git ARGS` as `run` does, and return its stdout and stderr, which includes messages of a
    remote.
    """
    import subprocess  # 4 ms, and most saves need no git command

    try:
        done = subprocess.run(
            ["git", *(SAFE if connects else OFFLINE), *args],
            cwd=cwd,
            env={
                **(scrubbed(env) if connects else offline(env)),
                **({"GIT_INDEX_FILE": str(index)} if index else {}),
                **(extra or {}),
            },
            input=input,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        raise _not_found() from None
    if done.returncode not in accept:
        raise failed(args, done.returncode, done.stderr)
    return done.stdout, done.stderr


def run_with_progress(
    args: Sequence[str | bytes],
    *,
    cwd: str,
    env: Mapping[str, str],
    input: bytes | IO[bytes] = b"",
    accept: Sequence[int] = (0,),
    connects: bool = False,
) -> tuple[bytes, bytes]:
    """Run `git ARGS` with a progress option, and report git's progress as gitcp's.

    `input` is sent to stdin, or is an open file to read from its current position. Returns stdout,
    and stderr without the progress. Raises as `run`.
    """
    import subprocess

    with scratch() as given, scratch() as out:
        if isinstance(input, bytes):
            given.write(input)
            given.seek(0)
        try:
            git = subprocess.Popen(
                ["git", *(SAFE if connects else OFFLINE), *args],
                cwd=cwd,
                env=scrubbed(env) if connects else offline(env),
                stdin=given if isinstance(input, bytes) else input,
                stdout=out,
                stderr=subprocess.PIPE,
            )
        except FileNotFoundError:
            raise _not_found() from None
        with git:
            assert git.stderr is not None
            try:
                messages = report(git.stderr)
            except BaseException:
                git.kill()
                raise
        if git.returncode not in accept:
            raise failed(args, git.returncode, messages)
        out.seek(0)
        return out.read(), messages


@contextmanager
def reading(
    args: Sequence[str], *, cwd: str, env: Mapping[str, str], input: bytes
) -> Iterator[IO[bytes]]:
    """Run `git ARGS` in `cwd` and yield its stdout for reading in parts. git is stopped if output
    is left unread.

    Raises GitFailed or DiskFull if all was read and git failed.
    """
    import subprocess

    with scratch() as given, scratch() as errors:
        given.write(input)
        given.seek(0)
        command, env = ["git", *OFFLINE, *args], offline(env)
        try:
            git = subprocess.Popen(
                command,
                cwd=cwd,
                env=env,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=READ,
            )
        except FileNotFoundError:
            raise _not_found() from None
        with git:
            assert git.stdout is not None
            yield git.stdout
        if git.returncode > 0:  # negative: killed by SIGPIPE while output was left unread
            errors.seek(0)
            raise failed(args, git.returncode, errors.read())


def start(
    args: Sequence[str], *, cwd: str, env: Mapping[str, str], messages: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start `git ARGS` in `cwd`, with pipes for what it reads and writes, unbuffered, and a file
    for its messages. It connects to nothing.
    """
    import subprocess

    try:
        return subprocess.Popen(
            ["git", *OFFLINE, *args],
            cwd=cwd,
            env=offline(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=messages,
            bufsize=0,
        )
    except FileNotFoundError:
        raise _not_found() from None


def scratch() -> IO[bytes]:
    """Return an anonymous temporary file."""
    if sys.platform == "linux":
        return open(os.memfd_create("gitcp"), "w+b")
    import tempfile  # 3 ms

    return tempfile.TemporaryFile()


def _not_found() -> GitFailed:
    return GitFailed("the command `git` was not found", hint="install git and put it on PATH")


def failed(args: Sequence[str | bytes], code: int, stderr: bytes) -> GitcpError:
    """Return the error for a git command that ended with `code` and these messages."""
    message = stderr.decode("utf-8", "replace").strip()
    what = f"`git {_verb(args)}` failed with exit code {code}: {message or 'no message'}"
    # a remote's disk is not ours
    ours = (line for line in message.splitlines() if "remote: " not in line)
    if any(words in line for line in ours for words in FULL):
        return DiskFull(f"the disk is full: {what}", hint="free some space")
    return GitFailed(what)


def _verb(args: Sequence[str | bytes]) -> str:
    """Return the git command, without the options before it."""
    index = 0
    while index < len(args) - 1 and os.fsencode(args[index]).startswith(b"-"):
        index += 2 if args[index] == "-c" else 1
    return os.fsdecode(args[index])
