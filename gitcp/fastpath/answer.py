"""The first stage of `gitcp save`: print "nothing changed" before the command line or JSON is
loaded.

A save with no changes records everything its result depended on: its options, fingerprints of the
index, HEAD, the refs, the settings and the transcripts, and some variables. While these are the
same and no file of the working tree changed, the result is the same. In any other case `save`
itself decides.
"""

from __future__ import annotations

import os
import sys

from gitcp import discovery, fingerprint, trusted_cache
from gitcp.fastpath import watched
from gitcp.fastpath.stat_check import Look

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MEMO = "unchanged"
PARTS = 5
"""Of the memo: what decided, fingerprints, that of the scan, what was said, more variables."""
STATE = "worktree-state"
QUIET = ("-q", "--quiet")
PIPED = ("-", "--conversation=-")
RISKY = "before-risky-change"
"""The trigger of a save that looks at everything, whatever a watcher says: it may be the last."""

DECIDING = tuple(
    "CLAUDE CLINE_ CODEX COPILOT GEMINI GIT_ GITCP_ HOME KILO_ KIMI_ OPENCLAW OPENCODE PI_ QWEN "
    "XDG_".split()
)


def begin(options: Sequence[str]) -> Look | None:
    """Begin to check the working tree for a command with these options that will scan it. Return
    None if there is none, or if files may change before the scan, while a pipe is read.
    """
    where = discovery.discover(".")
    if where is None or any(option in PIPED for option in options):
        return None
    look = look_at(*where)
    watched.begin(look, whole=any(option.endswith(RISKY) for option in options))
    return look


def look_at(root: str, git_dir: str) -> Look:
    """Return a check of a working tree, not begun yet."""
    return Look(os.fsencode(root), os.path.join(git_dir, "gitcp", STATE))


def answered(look: Look, options: Sequence[str]) -> bool:
    """Whether `gitcp save OPTIONS` is done: nothing changed, and that was said."""
    memo = trusted_cache.load(os.path.join(os.path.dirname(look.state), MEMO))
    if memo is None or len(memo) != PARTS or memo[0] != decided(options, memo[4]):
        return False
    if not fingerprint.are_unchanged(memo[1]):
        return False
    if not watched.is_unchanged(look, memo[2]):
        return False
    if not any(option in QUIET for option in options):
        try:
            sys.stdout.write(memo[3])
            sys.stdout.flush()
        except (OSError, UnicodeError):
            return False  # said where errors are
    return True


def checksum(text: str) -> str:
    """Return the SHA-1 of a text in hex. Not with hashlib, which loads OpenSSL: 3 of the 25 ms of
    an unchanged save.
    """
    try:
        from _sha1 import sha1  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha1
    digest: str = sha1(text.encode("utf-8", "surrogateescape")).hexdigest()
    return digest


def decided(options: Sequence[str], more: Sequence[str] = ()) -> tuple[str, ...]:
    """Return what the result depends on besides files: the options, and a checksum of the
    environment, with `more` variables that decide.
    """
    return (_surroundings(more), *(option for option in options if option not in QUIET))


def _surroundings(more: Sequence[str]) -> str:
    """Return a checksum of the directory, the umask, the user, and the relevant variables. Their
    values are not stored.
    """
    mask = os.umask(0o077)
    os.umask(mask)
    named = (
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith(DECIDING) or name in more
    )
    text = "\0".join((os.getcwd(), oct(mask), str(os.geteuid()), *named))
    return checksum(text)
