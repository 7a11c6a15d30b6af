"""Housekeeping after a save: automatic retention and repacking, in a process of their own that
nobody waits for.

A save only looks whether something is due: at three directories and one small file. Those who save
may be programs that run for days, with threads, descriptors and locks of their own, so nothing is
forked here that would go on in Python: a shell starts the very same Python anew and leaves it to
init, with no descriptor of ours and nothing to wait for. One process at a time keeps house in a
repository; if it fails or is killed, everything is as it was.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from gitcp.errors import GitcpError
from gitcp.git import repack

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gitcp.git.repo import Repository
    from gitcp.model import CheckpointId
    from gitcp.store import Store

LIMITS = ("gitcp.maxcheckpoints", "gitcp.maxage", "gitcp.maxsize")
TEAM_FILE = ".gitcp.toml"
REPORT = "dropped"
"""A file that holds what the next `gitcp save` or `run` is to say."""

ROUNDS = 3
"""How often at most it packs: others may have saved a lot meanwhile."""

PYTHON = re.compile(r"(python|pypy)[0-9.]*t?d?")
"""Names of an interpreter. A program with Python inside may give its own, which would start it a
second time.
"""

PROGRAM = """import ast, os, sys
task = ast.literal_eval(sys.argv[1])
sys.path[:] = task["modules"]
from gitcp.lifecycle.housekeeping import work
work(task, os.environ)
"""


def after_save(store: Store, saved: CheckpointId) -> None:
    """Begin what is due now that `saved` was made; wait for nothing. The caller holds no lock.

    Writes nothing itself. Raises BadValue for a limit that cannot be read; what else is due has
    begun then.
    """
    due = repack.is_due(store.repo)
    try:
        due = _is_beyond_limits(store, saved) or due
    finally:
        if due and not repack.is_running(store.repo):
            _begin(store.repo, saved)


def _is_beyond_limits(store: Store, saved: CheckpointId) -> bool:
    repo = store.repo
    if not any(name.startswith(LIMITS) for name in repo.config) and not os.path.lexists(
        repo.root / TEAM_FILE
    ):
        return False
    from gitcp.lifecycle import auto_retention  # most have set no limit

    return auto_retention.is_due_after(store, saved)


def take_report(repo: Repository) -> str | None:
    """What retention dropped since this was last asked, or why it could not; None where there is
    nothing to say.
    """
    if not os.path.exists(f"{repo.common_dir}/gitcp/{REPORT}"):
        return None
    from gitcp.state import journal  # hardly ever

    path = repo.common_dir / "gitcp" / REPORT
    fields: dict[str, Any] = {}
    with suppress(GitcpError, OSError):
        fields = journal.read_fields(path) or {}
    with suppress(OSError):
        path.unlink(missing_ok=True)
    said = fields.get("said")
    return said if isinstance(said, str) else None


def _begin(repo: Repository, saved: CheckpointId) -> None:
    """Start the process; where no interpreter is known, or it cannot be started, the next `gitcp`
    command does it.
    """
    python = interpreter()
    if python is None:
        return
    import subprocess  # once in a dozen saves or more

    task = {
        "python": sys.version,
        "modules": [path for path in sys.path if os.path.isabs(path)],
        "root": str(repo.root),
        "git_dir": str(repo.git_dir),
        "home": str(repo.host.home),
        "now": repo.host.now().isoformat(),
        "session": saved.session,
        "number": saved.number,
    }
    with suppress(OSError):
        subprocess.run(
            ["/bin/sh", "-c", '"$@" &', "sh", python, "-I", "-c", PROGRAM, ascii(task)],
            cwd="/",  # a directory that somebody wants to remove is not kept busy
            env=dict(repo.host.env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            check=False,
        )


def interpreter() -> str | None:
    """The Python that runs this program, None where that is not a program of its own."""
    found = sys.executable or ""
    known = PYTHON.fullmatch(os.path.basename(found)) and not getattr(sys, "frozen", False)
    return found if known and os.access(found, os.X_OK) else None


def work(task: Mapping[str, Any], env: Mapping[str, str]) -> None:
    """What the process does: retention first, since what it drops need not be packed. Nobody hears
    of errors here; those of retention are written down.
    """
    if task["python"] != sys.version:
        return
    from datetime import datetime
    from pathlib import Path

    from gitcp.git.repo import Repository
    from gitcp.model import CheckpointId, Host
    from gitcp.store import Store

    os.nice(10)
    now = datetime.fromisoformat(task["now"])
    repo = Repository(
        Path(task["root"]), Path(task["git_dir"]), Host(env, Path(task["home"]), lambda: now)
    )
    repo.told = (f"--git-dir={repo.git_dir}", f"--work-tree={repo.root}")
    with suppress(GitcpError, OSError), repack.alone(repo) as nobody:
        if nobody:
            _retain(Store(repo), CheckpointId(task["session"], task["number"]))
    with suppress(GitcpError, OSError):
        for _ in range(ROUNDS):
            if repack.is_due(repo):
                repack.repack(repo)


def _retain(store: Store, saved: CheckpointId) -> None:
    from gitcp.lifecycle import auto_retention
    from gitcp.state import journal

    try:
        done = auto_retention.after_save(store, saved)
        said = done and f"{done.said}; gitcp undo {done.number} brings it back"
    except GitcpError as error:
        said = f"nothing was dropped: {error}"
    if said:
        journal.write_fields(
            store.repo.store_dir / REPORT, {"schema": "gitcp.dropped/1", "said": said}
        )
