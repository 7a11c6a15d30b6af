"""What is broken in a git directory: what it is, and a command that repairs it.

Files and conversation can be saved whatever state git is in. What git itself cannot work with is
reported (`Repository.faults`), and what depends on it is recorded as unknown.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from gitcp import regular
from gitcp.errors import IndexUnreadable
from gitcp.git import refs
from gitcp.git.shared import quoted
from gitcp.model import Fault

if TYPE_CHECKING:
    from pathlib import Path

    from gitcp.git.index import OpenRepository


FILE = re.compile(r"(?:in file|access) '?([^']*?)'?(?::|$)")
"""The configuration file that git's message names."""


def of_bare(repo: OpenRepository) -> Fault:
    """Return the fault of a working tree whose repository says that it is bare."""
    file = repo.common_dir / "config"
    own = repo.git_dir / "config.worktree"
    if _mentions(own, b"bare"):
        file = own
    return Fault(
        f"core.bare is true in {file}, so git refuses to work here",
        f"git config --file {quoted(str(file))} --replace-all core.bare false",
    )


def _mentions(path: Path, word: bytes) -> bool:
    try:
        return word in regular.content(path)
    except OSError:
        return False


def of_head(repo: OpenRepository, head: refs.Head) -> Fault:
    """Return the fault of a HEAD whose commit cannot be read."""
    what = f"{head.unknown}: the base commit is unknown"
    if head.ref is None:
        branches = list(repo.refs.list("refs/heads/"))
        # else the one that git would create
        likely = branches[0] if len(branches) == 1 else "refs/heads/main"
        return Fault(what, _write(repo.git_dir / "HEAD", f"ref: {likely}"), True)
    logged = repo.refs.log(head.ref)
    path = repo.common_dir / head.ref
    if logged:
        return Fault(what, _write(path, logged[-1][0]), True)
    return Fault(what, f"rm {quoted(str(path))}", True)


def _write(path: Path, line: str) -> str:
    return f"echo {quoted(line)} > {quoted(str(path))}"


def of_index(repo: OpenRepository, why: str, instead: str) -> Fault:
    """Return the fault of an index that cannot be read."""
    index = quoted(str(repo.index))
    remove = "mv" if repo.index.is_dir() else "rm"
    aside = f" {index}.broken" if remove == "mv" else ""
    return Fault(
        f"git's index cannot be read ({why}): what is staged is unknown, and tracked files are "
        f"those of {instead}",
        f"{remove} {index}{aside} && git reset",
        is_loss=True,
    )


def of_packed(repo: OpenRepository) -> Fault | None:
    """Return the fault of `packed-refs`, None if it is whole."""
    why = refs.packed_problem(repo.common_dir)
    if not why:
        return None
    path = quoted(str(repo.common_dir / "packed-refs"))
    return Fault(
        f"{path} cannot be read ({why}): branches and sessions that only it names are unknown",
        f"mv {path} {path}.broken",
        is_loss=True,
    )


def of_config(repo: OpenRepository, error: Exception) -> Fault:
    """Return the fault of settings that git refuses to read, in git's words."""
    message = str(error).rpartition("fatal: ")[2].strip().replace("\n", " ")
    match = FILE.search(message)
    file = os.path.join(repo.root, match[1]) if match else str(repo.common_dir / "config")
    edit = f'"${{EDITOR:-vi}}" {quoted(file)}'
    hint = edit if os.access(file, os.R_OK) else f"chmod u+r {quoted(file)}"
    return Fault(f"git refuses to work here: {message}", hint)


def unreadable_index(repo: OpenRepository) -> Fault | None:
    """Return the fault of an index that cannot be read, None if it can."""
    from gitcp.git import index

    try:
        index.read(repo)
    except IndexUnreadable as error:
        return of_index(repo, error.what, "HEAD")
    return None


def stops_git(repo: OpenRepository) -> Fault | None:
    """Return what in the files of a repository makes every git command fail, None if nothing does.
    Its configuration is not looked at.
    """
    common = repo.common_dir
    if not refs.head_text(repo.git_dir):
        return of_head(repo, repo.refs.head())
    if not (common / "refs").is_dir():
        path = common / "refs" / "heads"
        return Fault(f"{common / 'refs'} is missing", f"mkdir -p {quoted(str(path))}", True)
    named = repo.git_dir / "commondir"
    if repo.git_dir != common and not _names(named, common):
        return Fault(f"{named} does not name {common}", _write(named, "../.."))
    if not is_shallow_readable(common):
        shallow = quoted(str(common / "shallow"))
        return Fault(f"{shallow} is damaged", f"mv {shallow} {shallow}.broken")
    return of_packed(repo)


def is_shallow_readable(common_dir: Path) -> bool:
    """Return whether git can read the list of commits whose parents a shallow clone lacks."""
    try:
        lines = regular.content(common_dir / "shallow").decode("latin-1").splitlines()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return all(map(refs.HEX.match, lines))


def _names(file: Path, directory: Path) -> bool:
    try:
        return os.path.samefile(
            file.parent / os.fsdecode(regular.content(file)).rstrip("\n"), directory
        )
    except (OSError, ValueError):
        return False
