"""What hooks remember from one event to the next, so that an event with nothing to do ends at once.

Two small files in `<git dir>/gitcp/`: `policy`, the settings, and `hooked/<agent>.<session>`, the
last save of an agent's session. Both are caches: with every answer goes what stat said of the files
it came from, and anything unexpected means that the whole road is taken. Reading loads nothing.
"""

from __future__ import annotations

import os
import time

from gitcp.fastpath import answer, stat_check, trusted_cache
from gitcp.policy import events
from gitcp.policy.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Stamps = list[tuple[str, tuple[int, ...] | None]]
    """Paths of files and what stat said of each; None where there was none."""

POLICY = "policy"
TEAM = ".gitcp.toml"
SETTLING = ("GIT_ATTR", "GIT_CONFIG", "HOME", "XDG_")
SETTLED_NS = 2_000_000_000
FORGOTTEN = 30 * 86400
BEHIND = 5
MISSING = (-1,)
TAIL = 1 << 16


class Last:
    """The last save of an agent's session, as far as hooks remember it.

    `created` is when its last checkpoint was made, `tip` that commit and the file of its ref,
    `files` the stamps of what decides besides the working tree, `state` the scan it goes by (None:
    none). `transcript` is the agent's file, `written` its size and time when all of it was saved
    (None: it was not there; (): not all was saved; MISSING: it was waited for, and did not come).
    `settled_by` are the variables that decided over git's settings.
    """

    __slots__ = ("created", "files", "settled_by", "state", "tip", "transcript", "written")

    def __init__(
        self,
        created: float,
        tip: tuple[str, str],
        files: Stamps,
        state: tuple[int, ...] | None,
        transcript: str,
        written: tuple[int, ...] | None,
        settled_by: str,
    ) -> None:
        self.settled_by = settled_by
        self.created, self.tip, self.files = created, tip, files
        self.state, self.transcript, self.written = state, transcript, written

    @property
    def seen(self) -> int:
        """How much of the transcript was saved."""
        return self.written[0] if self.written and self.written != MISSING else 0

    @property
    def is_missing(self) -> bool:
        """Whether the transcript was waited for in vain, and is not there now either."""
        return self.written == MISSING and size_and_time(self.transcript) is None


def settings(git_dir: str) -> Settings | None:
    """The settings in force, None if they must be asked for."""
    known = trusted_cache.load(os.path.join(git_dir, "gitcp", POLICY))
    if (
        known is None
        or known[0] != variables()
        or any(short_stamp(path) != found for path, found in known[1])
    ):
        return None
    return Settings(**known[2])


def last(git_dir: str, agent: str, session_id: str) -> Last | None:
    """What is remembered of the last save of this session."""
    known = trusted_cache.load(place(git_dir, agent, session_id)) if session_id else None
    return Last(*known) if known is not None else None


def is_unchanged(root: str, git_dir: str, remembered: Last, *, files_alone: bool) -> bool:
    """Whether a save would find nothing new. What was looked at is not looked at again by this
    process.
    """
    if remembered.settled_by != variables():
        return False
    if remembered.state is None or _first_line(remembered.tip[0]) != remembered.tip[1]:
        return False
    if (
        not files_alone
        and not remembered.is_missing
        and size_and_time(remembered.transcript) != remembered.written
    ):
        return False
    if any(answer.stamp(path) != found for path, found in remembered.files):
        return False
    stat_check.start(os.fsencode(root), os.path.join(git_dir, "gitcp", answer.STATE))
    return stat_check.answer(os.fsencode(root), remembered.state, keep=True) == []


def behind(git_dir: str, agent: str) -> list[tuple[str, str]]:
    """The agent's sessions of which something was written since it was last saved: their ids and
    transcripts.
    """
    found = []
    for name in _names(git_dir):
        if name.startswith(f"{agent}."):
            session_id = name.removeprefix(f"{agent}.")
            known = last(git_dir, agent, session_id)
            now = size_and_time(known.transcript) if known is not None else None
            if known is not None and now is not None and now != known.written:
                found.append((now[-1], session_id, known.transcript))
    return [
        (session_id, transcript)
        for _, session_id, transcript in sorted(found, reverse=True)[:BEHIND]
    ]


def ends_with(path: str, text: bytes) -> bool:
    """Whether the end of a transcript has this."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            return text in file.read()
    except OSError:
        return False


def variables() -> str:
    """A checksum of the variables by which git finds its settings, or that hold some. Their values
    are not kept.
    """
    named = (
        f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(SETTLING)
    )
    return answer.checksum("\0".join(named))


def forget_old(git_dir: str) -> None:
    """Remove what is remembered of sessions that were not heard of for a month."""
    for name in _names(git_dir):
        path = os.path.join(git_dir, "gitcp", events.HOOKED, name)
        try:
            if os.stat(path).st_mtime < time.time() - FORGOTTEN:
                os.unlink(path)
        except OSError:
            continue


def _names(git_dir: str) -> Iterator[str]:
    try:
        names = os.listdir(os.path.join(git_dir, "gitcp", events.HOOKED))
    except OSError:
        names = []
    return iter(sorted(names))


def place(git_dir: str, agent: str, session_id: str) -> str:
    return os.path.join(git_dir, "gitcp", events.HOOKED, f"{agent}.{session_id}")


def size_and_time(path: str) -> tuple[int, ...] | None:
    found = answer.stamp(path) if path else None
    return found and (found[3], found[4])


def short_stamp(path: str) -> tuple[int, ...] | None:
    """As gitcp.git.config remembers it."""
    found = answer.stamp(path)
    return found and (*found[:2], *found[3:])


def _first_line(path: str) -> str:
    return answer.beginning(path).partition(b"\n")[0].decode("ascii", "replace").strip()
