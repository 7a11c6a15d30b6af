"""The last checkpoint at the time of the most recent prompt in this working tree.

A prompt makes a checkpoint only if something changed since the last one. `rollback` still needs the
start of the turn, so the hook records the commit. The file is a hint: without it the order of
checkpoints is used.
"""

from __future__ import annotations

from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitcp.git.repo import Repository
    from gitcp.model import Oid

NAME = "prompted"


def write(git_dir: str, commit: str) -> None:
    """Record the commit of the last checkpoint at a prompt. Never raises."""
    from gitcp.git.fsync import replace_file

    with suppress(OSError):
        replace_file(f"{git_dir}/gitcp/{NAME}", f"{commit}\n".encode("ascii"), durable=False)


def last(repo: Repository) -> Oid | None:
    """Return the recorded commit, None if there is none or it is unreadable."""
    from gitcp.git.refs import HEX
    from gitcp.model import Oid
    from gitcp.state import documents

    text = documents.read_line(repo.git_dir / "gitcp" / NAME) or ""
    return Oid(text) if HEX.match(text) else None
