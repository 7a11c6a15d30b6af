"""Which checkpoint stood when an agent was last given a prompt here.

A prompt makes a checkpoint only if something changed since the last one. `rollback` must know where
the turn began all the same, so the hook writes down the commit. The file is a hint: without it the
order of the checkpoints tells.
"""

from __future__ import annotations

from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitcp.git.repo import Repository
    from gitcp.model import Oid

NAME = "prompted"


def write(git_dir: str, commit: str) -> None:
    """Write down the last checkpoint, by its commit, when a prompt is given. Never raises."""
    from gitcp.git.fsync import replace_file

    with suppress(OSError):
        replace_file(f"{git_dir}/gitcp/{NAME}", f"{commit}\n".encode("ascii"), sync=False)


def last(repo: Repository) -> Oid | None:
    """The commit that was written down, None if there is none that can be read."""
    from gitcp.git.fsync import read_own
    from gitcp.git.refs import HEX
    from gitcp.model import Oid

    try:
        text = read_own(repo.git_dir / "gitcp" / NAME).decode("ascii").strip()
    except (OSError, ValueError):
        return None
    return Oid(text) if HEX.match(text) else None
