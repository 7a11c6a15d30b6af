"""Refs in reftable, git's binary format for all refs of a repository (git 2.45).

Read and moved by git alone. Each update is one transaction of git's, which compares the old value
and is all or nothing. git locks every ref for it, for milliseconds, and ends by itself: it is never
killed, or it would leave a lock that stops the user's own commits.
"""

from __future__ import annotations

import builtins
import re
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from gitcp.errors import DiskFull, GitcpError, GitFailed, StoreBusy
from gitcp.git.fsync import sync_paths
from gitcp.git.object_format import ObjectFormat
from gitcp.git.refs import Head, Update
from gitcp.git.shared import quoted
from gitcp.model import Oid

LOGGED = re.compile(r"^([0-9a-f]+) .*@\{([0-9]+)\}$", re.MULTILINE)
TABLES = "reftable/tables.list"
"""The file that is another one after each change, in each working tree's git directory."""

LOCKED = "cannot lock references"
"""In git's message, if another process has the lock."""

TRIES = 20
"""How often tables are synced again because another git has joined some meanwhile."""

# Where a crash had left git's lock, a save waited for five minutes.
PATIENCE = 10.0
PAUSE = 0.1
"""Seconds for which gitcp tries while another process has the refs locked, and between attempts."""

DURABLE = ("-c", "core.fsync=committed,reference", "-c", "reftable.lockTimeout=5000")
"""git itself waits for five seconds in each attempt, from 2.47 on."""
LISTED = ("for-each-ref", "--format=%(objectname) %(refname)")
ROOTS = (
    "for-each-ref",
    "--include-root-refs",
    "--format=%(refname) %(objectname) %(symref)",
    *("HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"),
)


class TableRefs:
    """The refs of a repository. `git` runs a command in it, `hold` is as for FileRefs."""

    def __init__(
        self,
        directories: tuple[Path, Path],
        git: Callable[..., bytes],
        object_format: ObjectFormat,
        hold: Callable[[Sequence[Oid]], object] = list,
    ) -> None:
        self._git_dir, self._common = directories
        self._git = git
        self._null = object_format.null
        self._hold = hold

    def read(self, name: str) -> Oid | None:
        return self._listed(name).get(name)

    def list(self, prefix: str, garbage: Oid | None = None) -> dict[str, Oid]:  # noqa: ARG002 -- git writes none
        return self._listed(prefix)

    def head(self) -> Head:
        lines = self._git(*ROOTS).decode("utf-8", "surrogateescape").split("\n")
        roots = {name: (oid, ref) for name, oid, ref in (line.split(" ") for line in lines if line)}
        commit, ref = roots.pop("HEAD", ("", ""))
        if not commit:  # none yet
            output = self._git("symbolic-ref", "--quiet", "HEAD", accept=(0, 1))
            ref = output.decode("utf-8", "surrogateescape").strip()
        return Head(Oid(commit) if commit else None, ref or None, frozenset(roots))

    def update(self, name: str, new: Oid, old: Oid | None) -> bool:
        self._hold([new])
        return self._move_durably(Update(name, new, old))

    def update_all(self, updates: Sequence[Update], make_durable: Callable[[], None]) -> bool:
        if not self._are_there(updates):
            return False
        make_durable()
        self._hold([update.new for update in updates])
        return self._move(updates)

    def delete(self, name: str, old: Oid) -> bool:
        return self._move_durably(Update(name, self._null, old))

    def sync(self, names: Iterable[str]) -> None:
        """Sync the tables and their directory: git 2.47 syncs a table before it writes the end of
        it, and no git syncs the names.
        """
        # A power failure took back a checkpoint that was reported as saved: git had synced neither
        # the end of its table (2.47) nor its name.
        path = self._common / TABLES
        try:
            for _ in range(TRIES):
                listed = path.read_text("ascii")
                sync_paths([*map(path.with_name, listed.split()), path.parent])
                if path.read_text("ascii") == listed:
                    return
        except OSError as error:
            raise GitcpError(
                f"{', '.join(names)} was moved, but may not survive a power failure: "
                f"{error.strerror}"
            ) from None

    def log(self, name: str) -> builtins.list[tuple[Oid, int]]:
        command = ("reflog", "show", "--date=unix", "--format=%H %gd", name, "--")
        lines = self._git(*command, accept=(0, 128)).decode("utf-8", "replace")
        return [(Oid(oid), int(time)) for oid, time in LOGGED.findall(lines)][::-1]

    def file(self, name: str) -> str:  # noqa: ARG002 -- not in lines
        return ""

    def files(self, *names: str) -> tuple[str, ...]:  # noqa: ARG002 -- one file for all
        return f"{self._git_dir}/{TABLES}", f"{self._common}/{TABLES}"

    def _listed(self, prefix: str) -> dict[str, Oid]:
        lines = self._git(*LISTED, prefix).decode("utf-8", "surrogateescape").split("\n")
        pairs = (line.split(" ", 1) for line in lines if line)
        return {name: Oid(oid) for oid, name in pairs}

    def _are_there(self, updates: Sequence[Update]) -> bool:
        """Return whether each ref is where it is to be moved from."""
        return all(self.read(update.name) == update.old for update in updates)

    def _are_moved(self, updates: Sequence[Update]) -> bool:
        """Return whether each ref is where it is to be moved to."""
        return all((self.read(update.name) or self._null) == update.new for update in updates)

    def _move_durably(self, update: Update) -> bool:
        has_moved = self._move([update])
        if has_moved:
            self.sync([update.name])
        return has_moved

    def _move(self, updates: Sequence[Update]) -> bool:
        """Move or delete refs, all or none. Return False if one is not at its old value."""
        lines = b"".join(
            b"update %s\0%s\0%s\0"
            % (name.encode("utf-8", "surrogateescape"), new.encode(), (old or self._null).encode())
            for name, new, old in updates
        )
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self._git(*DURABLE, "update-ref", "--no-deref", "--stdin", "-z", input=lines)
                return True
            except (GitFailed, DiskFull) as error:
                if self._are_moved(updates):  # git failed later: it joins tables then
                    return True
                if not self._are_there(updates):
                    return False
                if isinstance(error, DiskFull):
                    raise
                problem = error
            if LOCKED not in str(problem) or time.monotonic() > end:
                break
            time.sleep(PAUSE)
        what = f"the ref {updates[0].name} could not be moved: it was not changed ({problem})"
        if LOCKED in str(problem):
            raise StoreBusy(what, hint=f"ls {self._common}/{TABLES}.lock")
        raise GitFailed(what, hint=f"df {quoted(str(self._common))}")  # git does not say why
