"""The files of open transactions: written, held, found abandoned, swept."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gitcp.errors import StoreDamaged
from gitcp.git.repo import Repository
from gitcp.model import CheckpointId
from gitcp.state import run_journal
from gitcp.state.run_journal import Transaction

from driver import Project
from samples import open_store

RUN = Transaction("0a1b", "migrate", CheckpointId("alpha", 3), True, ("make", "db"), 2)


@pytest.fixture
def repo(project: Project) -> Repository:
    return open_store(project).repo


def directory(repo: Repository) -> Path:
    return repo.git_dir / "gitcp" / "runs"


def test_a_transaction_is_read_as_written(repo: Repository) -> None:
    """All its fields; its name is that of the file."""
    lock = run_journal.write(repo, RUN)

    assert list(run_journal.transactions(repo)) == [RUN]
    (path,) = run_journal.files(repo)
    path.rename(path.with_name("other.json"))
    assert [each.name for each in run_journal.transactions(repo)] == ["other"]
    os.close(lock)


def test_who_holds_it(repo: Repository) -> None:
    """One process holds the lock at a time; closing a transaction removes its files."""
    lock = run_journal.write(repo, RUN)
    assert run_journal.lock_abandoned(repo, RUN) is None

    os.close(lock)
    taken = run_journal.lock_abandoned(repo, RUN)
    assert taken is not None
    run_journal.enlist(repo, "alpha", RUN.before)
    run_journal.close(repo, RUN)
    assert list(directory(repo).iterdir()) == []
    assert run_journal.lock_abandoned(repo, RUN) is None
    os.close(taken)


def test_sessions_are_enlisted_once(repo: Repository) -> None:
    """The first checkpoint counts; a line that was cut off while it was written does not."""
    lock = run_journal.write(repo, RUN)
    for session, before in (("alpha", 3), ("alpha", 4), ("new", None)):
        id = CheckpointId(session, before) if before else None
        run_journal.enlist(repo, session, id)
    with directory(repo).joinpath("0a1b.sessions").open("ab") as file:
        file.write(b'["torn","alpha@')

    assert run_journal.enlisted(repo, RUN) == {"alpha": CheckpointId("alpha", 3), "new": None}
    os.close(lock)


@pytest.mark.parametrize("name", ["0a1b.json", "0a1b.sessions"])
def test_a_damaged_file_is_named(repo: Repository, name: str) -> None:
    """And the command that removes it, which is all that can be done."""
    lock = run_journal.write(repo, RUN)
    path = directory(repo) / name
    path.write_bytes(b"{}\n")

    with pytest.raises(StoreDamaged, match="is damaged") as raised:
        _ = [*run_journal.transactions(repo), run_journal.enlisted(repo, RUN)]
    assert raised.value.hint == f"rm {path}"
    os.close(lock)


def test_sweep(repo: Repository) -> None:
    """What a killed program left of a closed transaction goes, what is open stays."""
    lock = run_journal.write(repo, RUN)
    run_journal.enlist(repo, "alpha", None)
    directory(repo).joinpath("gone.sessions").write_bytes(b"")
    ended = subprocess.Popen(["true"])
    ended.wait()
    directory(repo).joinpath(f"half.json.{ended.pid}").write_bytes(b"")
    begun = directory(repo) / f"other.json.{os.getpid()}"
    begun.write_bytes(b"")

    run_journal.sweep(repo)

    begun.unlink()  # another transaction of this process is about to begin
    assert {path.name for path in directory(repo).iterdir()} == {"0a1b.json", "0a1b.sessions"}
    os.close(lock)
