"""The first stage of `gitcp save`: says "nothing changed" before the command line or JSON is
loaded.

A save that found nothing new writes down everything that decided so: its options, what stat said of
the index, HEAD, the refs, the settings and the transcripts, and a few variables. While all of that
is the same and no file of the working tree changed, the answer is the same. Anything else, and
anything unexpected: `save` itself decides.
"""

from __future__ import annotations

import os
import sys
import time

from gitcp.fastpath import stat_check, trusted_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MEMO = "unchanged"
STATE = "worktree-state"
QUIET = ("-q", "--quiet")
PIPED = ("-", "--conversation=-")
DECIDING = ("CLAUDE", "CODEX", "COPILOT", "GEMINI", "GIT_", "GITCP_", "HOME", "OPENCODE", "XDG_")
TICK_NS = 20_000_000
"""More than a tick of the clock that stamps files: what is not older than the save by this much
could change unseen.
"""
OPERATIONS = (
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "BISECT_LOG",
    "rebase-merge",
    "rebase-apply",
)


started: list[int] = []
"""When this process began to decide; empty where it was not asked to."""


def answered(options: Sequence[str]) -> bool:
    """Whether `gitcp save OPTIONS` is done: nothing changed, and that was said. In any case the
    look has begun.
    """
    where = discover(".")
    started.append(time.time_ns())
    if where is None or where[1] != os.path.join(where[0], ".git"):
        return False
    if any(option in PIPED for option in options):
        # what writes into the pipe may change files until its end: the look comes after that
        return False
    root, git_dir = where
    stat_check.start(os.fsencode(root), os.path.join(git_dir, "gitcp", STATE))
    memo = trusted_cache.load(os.path.join(git_dir, "gitcp", MEMO))
    if (
        memo is None
        or memo[0] != decided(options)
        or any(stamp(p) != found for p, found in memo[1])
    ):
        return False
    if stat_check.answer(os.fsencode(root), memo[2], keep=True) != []:
        return False
    if not any(option in QUIET for option in options):
        try:
            sys.stdout.write(memo[3])
            sys.stdout.flush()
        except OSError:
            return False  # said where errors are
    return True


def begin() -> None:
    """Begin to look, for a command that will scan."""
    where = discover(".")
    if where is not None:
        stat_check.start(os.fsencode(where[0]), os.path.join(where[1], "gitcp", STATE))


def discover(start: str) -> tuple[str, str] | None:
    """The working tree around `start` and its git directory, as far as looking at names tells
    them.
    """
    try:
        directory = os.path.realpath(start)
    except (OSError, ValueError):
        return None
    while True:
        git_dir = os.path.join(directory, ".git")
        if os.path.isdir(git_dir):
            return directory, git_dir
        above = os.path.dirname(directory)
        if os.path.lexists(git_dir):
            return _linked(directory, git_dir)
        if above == directory:
            return None
        directory = above


def _linked(directory: str, file: str) -> tuple[str, str] | None:
    """The same for a linked working tree, whose `.git` is a file that names the git directory."""
    named = os.fsdecode(beginning(file)).removeprefix("gitdir:").strip()
    if not named:
        return None
    git_dir = os.path.realpath(os.path.join(directory, named))
    return (directory, git_dir) if os.path.isdir(git_dir) else None


def common(git_dir: str) -> str:
    """The git directory that a working tree's shares with all others of its repository."""
    return os.path.realpath(
        os.path.join(git_dir, os.fsdecode(beginning(os.path.join(git_dir, "commondir"))).strip())
    )


def beginning(path: str) -> bytes:
    """The first bytes of a small file, none where it cannot be read. A FIFO in its place keeps
    nobody waiting.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return os.read(descriptor, 4096)
        finally:
            os.close(descriptor)
    except OSError:
        return b""


def checksum(text: str) -> str:
    """The SHA-1 of a text. Not by hashlib, which loads OpenSSL: 3 ms of the 25 that an unchanged
    save takes.
    """
    try:
        from _sha1 import sha1  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha1
    digest: str = sha1(text.encode("utf-8", "surrogateescape")).hexdigest()
    return digest


def decided(options: Sequence[str]) -> tuple[str, ...]:
    """What decides besides files: what was asked, and a checksum of our surroundings."""
    return (_surroundings(), *(option for option in options if option not in QUIET))


def _surroundings() -> str:
    """A checksum of the directory, the umask, the user, and the variables that decide. Their values
    are not kept.
    """
    mask = os.umask(0o077)
    os.umask(mask)
    named = (
        f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(DECIDING)
    )
    text = "\0".join((os.getcwd(), oct(mask), str(os.geteuid()), *named))
    return checksum(text)


def stamp(path: str) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return (
        status.st_dev,
        status.st_ino,
        status.st_mode,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )
