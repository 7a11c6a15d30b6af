"""Runs `git` itself, for the few things that only git knows. No shell, no hooks, no locks, a
scrubbed environment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from gitcp.errors import DiskFull, GitcpError, GitFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

KEPT = ("GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_COUNT")
KEPT_PREFIXES = ("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "GIT_SSH", "GIT_ASKPASS")

READ = 1 << 18
"""Bytes that are read at once."""

SAFE = (
    "--no-optional-locks",
    "--literal-pathspecs",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "diff.external=",
)

INIT = (
    "-c",
    "init.defaultRefFormat=files",
    "init",
    "--quiet",
    "--object-format=sha1",
    "--template=",
)
"""Makes a repository that gitcp can read, whatever this git makes by itself: from 3.0 on another
kind.
"""

FULL = ("No space left on device", "Out of diskspace", "Disk quota exceeded")
"""What git says of a full disk."""


def scrubbed(env: Mapping[str, str]) -> dict[str, str]:
    """`env` without the variables by which an outer git (a hook, an alias) would redirect ours."""
    kept = {
        name: value
        for name, value in env.items()
        if not name.startswith("GIT_") or name in KEPT or name.startswith(KEPT_PREFIXES)
    }
    return {
        **kept,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_FLUSH": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "LC_ALL": "C",
    }


def run(
    args: Sequence[str | bytes],
    *,
    cwd: str,
    env: Mapping[str, str],
    input: bytes | memoryview = b"",
    accept: Sequence[int] = (0,),
    index: Path | None = None,
) -> bytes:
    """Run `git ARGS` in `cwd` and return its stdout; `index` takes the place of git's index.

    Raises GitFailed on any other exit code than `accept`, DiskFull where git says that it is why.
    """
    return talk(args, cwd=cwd, env=env, input=input, accept=accept, index=index)[0]


def talk(
    args: Sequence[str | bytes],
    *,
    cwd: str,
    env: Mapping[str, str],
    input: bytes | memoryview = b"",
    accept: Sequence[int] = (0,),
    index: Path | None = None,
) -> tuple[bytes, bytes]:
    """The same with what it said on stderr: a remote says there what it thinks."""
    import subprocess  # 4 ms, and most saves need no git command

    try:
        done = subprocess.run(
            ["git", *SAFE, *args],
            cwd=cwd,
            env={**scrubbed(env), **({"GIT_INDEX_FILE": str(index)} if index else {})},
            input=input,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        raise _not_found() from None
    if done.returncode not in accept:
        raise _failed(args, done.returncode, done.stderr)
    return done.stdout, done.stderr


@contextmanager
def reading(
    args: Sequence[str], *, cwd: str, env: Mapping[str, str], input: bytes
) -> Iterator[IO[bytes]]:
    """Run `git ARGS` in `cwd`, and give its stdout to be read bit by bit. What is left unread ends
    with it.

    Raises GitFailed, or DiskFull, if all was read and it failed.
    """
    import subprocess

    with _scratch() as given, _scratch() as said:
        given.write(input)
        given.seek(0)
        command, env = ["git", *SAFE, *args], scrubbed(env)
        try:
            git = subprocess.Popen(
                command,
                cwd=cwd,
                env=env,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=said,
                bufsize=READ,
            )
        except FileNotFoundError:
            raise _not_found() from None
        with git:
            assert git.stdout is not None
            yield git.stdout
        if git.returncode > 0:  # below 0: it was writing what nobody reads
            said.seek(0)
            raise _failed(args, git.returncode, said.read())


def _scratch() -> IO[bytes]:
    """A file without a name."""
    if sys.platform == "linux":
        return open(os.memfd_create("gitcp"), "w+b")
    import tempfile  # three milliseconds

    return tempfile.TemporaryFile()


def _not_found() -> GitFailed:
    return GitFailed("the command `git` was not found", hint="install git and put it on PATH")


def _failed(args: Sequence[str | bytes], code: int, stderr: bytes) -> GitcpError:
    said = stderr.decode("utf-8", "replace").strip()
    what = f"`git {_verb(args)}` ended with {code}: {said or 'no message'}"
    # a remote's disk is not ours
    ours = (line for line in said.splitlines() if "remote: " not in line)
    if any(words in line for line in ours for words in FULL):
        return DiskFull(f"the disk is full: {what}", hint="free some space")
    return GitFailed(what)


def _verb(args: Sequence[str | bytes]) -> str:
    """The command, behind the settings and git's own options."""
    place = 0
    while place < len(args) - 1 and os.fsencode(args[place]).startswith(b"-"):
        place += 2 if args[place] == "-c" else 1
    return os.fsdecode(args[place])
