"""What hooks remember between events, so that an event with nothing to do exits at once.

Two small files in `<git dir>/gitcp/`: `policy`, the settings, and `hooked/<agent>.<session>`, the
last save of an agent's session. Both are caches with fingerprints of the files they come from; in
any doubt the full save runs. Reading them loads nothing.
"""

from __future__ import annotations

import os

from gitcp import discovery, fingerprint, regular, trusted_cache
from gitcp.fastpath import answer, watched
from gitcp.policy import events
from gitcp.policy.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from gitcp.fastpath.stat_check import Look
    from gitcp.fingerprint import Fingerprint

    Fingerprints = list[tuple[str, Fingerprint | None]]
    """Paths of files and the fingerprint of each; None where there was none."""

POLICY = "policy"
LATEST = "latest"
# With GIT_CONFIG* set, nothing was remembered: every event took six times as long.
SETTLING = ("GIT_ATTR", "GIT_CONFIG", "HOME", "XDG_")
BEHIND = 5
MISSING = (-1,)
TAIL = 1 << 16


class Last:
    """The last save of an agent's session, as remembered by hooks.

    `created` is the time of its last checkpoint, `tip` the file of its ref and that commit, `files`
    the fingerprints of what it depends on besides the working tree, `state` that of its scan (None:
    none). `transcript` is the agent's file, `written` its size and time when all of it was saved
    (None: missing; (): not all was saved; MISSING: it did not appear in time). `settled_by` is a
    checksum of the variables that affect git's settings.
    """

    __slots__ = ("created", "files", "settled_by", "state", "tip", "transcript", "written")

    def __init__(
        self,
        created: float,
        tip: tuple[str, str],
        files: Fingerprints,
        state: Fingerprint | None,
        transcript: str,
        written: tuple[int, ...] | None,
        settled_by: str,
    ) -> None:
        self.settled_by = settled_by
        self.created, self.tip, self.files = created, tip, files
        self.state, self.transcript, self.written = state, transcript, written

    @property
    def seen(self) -> int:
        """Return how many bytes of the transcript were saved."""
        return self.written[0] if self.written and self.written != MISSING else 0

    @property
    def is_missing(self) -> bool:
        """Return whether the transcript did not appear in time, and is still missing."""
        return self.written == MISSING and size_and_time(self.transcript) is None


def settings(git_dir: str) -> Settings | None:
    """Return the current settings, None if they must be read again."""
    known = trusted_cache.load(os.path.join(git_dir, "gitcp", POLICY))
    if known is None or known[0] != variables() or not fingerprint.are_unchanged(known[1]):
        return None
    return Settings(**known[2])


def last(git_dir: str, agent: str, session_id: str) -> Last | None:
    """Return what is remembered of the last save of this session, None if nothing."""
    known = trusted_cache.load(place(git_dir, agent, session_id)) if session_id else None
    return Last(*known) if known is not None else None


def is_unchanged(look: Look, remembered: Last, *, files_alone: bool, whole: bool = False) -> bool:
    """Return whether a save would find nothing new, using a check of the working tree that begins
    here, and looks at the `whole` of it whatever a watcher says.
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
    if not fingerprint.are_unchanged(remembered.files):
        return False
    watched.begin(look, whole=whole)
    return watched.is_unchanged(look, remembered.state)


def scanned(git_dir: str) -> int:
    """Return when the scan for the last checkpoint of this working tree began, in nanoseconds; 0 if
    that is not known. Files with an earlier ctime are as that checkpoint has them.
    """
    time = discovery.beginning(os.path.join(git_dir, "gitcp", LATEST)).partition(b" ")[2].strip()
    return int(time) if time.isdigit() and len(time) <= 20 else 0


def is_as_scanned(look: Look) -> bool:
    """Return whether the files are those of the last checkpoint of this working tree, whatever
    session made it, using a check of the working tree that begins here.
    """
    watched.begin(look)
    try:
        return watched.is_unchanged(look, look.load().fingerprint)
    except (OSError, ValueError):
        return False


def behind(git_dir: str, agent: str) -> list[tuple[str, str]]:
    """Return the ids and transcripts of the agent's sessions that were written to since their last
    save.
    """
    written = []
    for name in names(git_dir):
        if name.startswith(f"{agent}."):
            session_id = name.removeprefix(f"{agent}.")
            known = last(git_dir, agent, session_id)
            now = size_and_time(known.transcript) if known is not None else None
            if known is not None and now is not None and now != known.written:
                written.append((now[-1], session_id, known.transcript))
    return [
        (session_id, transcript)
        for _, session_id, transcript in sorted(written, reverse=True)[:BEHIND]
    ]


def ends_with(path: str, text: bytes) -> bool:
    """Return whether the end of a transcript contains `text`."""
    try:
        with regular.opened(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            return text in file.read()
    except OSError:
        return False


def variables() -> str:
    """Return a checksum of the variables that affect git's settings. Their values are not
    stored.
    """
    named = (
        f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(SETTLING)
    )
    return answer.checksum("\0".join(named))


def names(git_dir: str) -> Iterator[str]:
    """Return the names of the files in which sessions are remembered."""
    try:
        names = os.listdir(os.path.join(git_dir, "gitcp", events.HOOKED))
    except OSError:
        names = []
    return iter(sorted(names))


def place(git_dir: str, agent: str, session_id: str) -> str:
    """Return the file in which a session is remembered."""
    return os.path.join(git_dir, "gitcp", events.HOOKED, f"{agent}.{session_id}")


def size_and_time(path: str) -> tuple[int, ...] | None:
    """Return the size and mtime of a transcript, which show whether it grew."""
    status = fingerprint.at(path) if path else None
    return status and (status[fingerprint.SIZE], status[fingerprint.MTIME])


def _first_line(path: str) -> str:
    return discovery.beginning(path).partition(b"\n")[0].decode("ascii", "replace").strip()
