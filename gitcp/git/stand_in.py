"""A git directory with which git works where the repository's own is broken.

git refuses every command in a repository whose HEAD or configuration it cannot read, and there is
no option to pass over either. So there is a second directory, `<git dir>/gitcp/stand-in`, with a
HEAD and a configuration of gitcp's, and links to the repository's objects and refs. git is given
that one to read with; what would write settings, branches or worktrees into it is refused.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gitcp.errors import Refused
from gitcp.git import faults, refs
from gitcp.git.fsync import make_own_directory, replace_file

if TYPE_CHECKING:
    from gitcp.git.index import OpenRepository

NAME = "stand-in"
LINKED = ("info", "logs", "objects", "packed-refs", "refs", "reftable", "shallow")
WRITTEN = re.compile(r"(HEAD|config)(\.[0-9]+)?\Z")
"""The files that gitcp writes there, another process perhaps at this moment."""
NO_BRANCH = "ref: refs/heads/unknown"

CONVERTING = ("autocrlf", "eol", "safecrlf", "filemode", "ignorecase", "symlinks")
"""Settings of `core` that git needs to see files as before, where they are known."""

WRITING = ("add", "branch", "fetch", "push", "read-tree", "update-index", "update-ref", "worktree")


def options(repo: OpenRepository, settings: Mapping[str, str]) -> tuple[str, ...]:
    """Make the directory, and return the options with which git uses it. Raises OSError."""
    path = repo.state_dir / NAME
    if path.is_symlink():
        path.unlink(missing_ok=True)
    make_own_directory(path)
    links = {name for name in LINKED if (repo.common_dir / name).exists()}
    links -= {"packed-refs"} if refs.packed_problem(repo.common_dir) else set()
    links -= set() if faults.is_shallow_readable(repo.common_dir) else {"shallow"}
    for name in os.listdir(path):  # git believes whatever else is there
        if name not in links and not WRITTEN.match(name):
            _remove(path / name)
    for name in links:
        _link(path / name, repo.common_dir / name)
    if "refs" not in links:
        (path / "refs").mkdir(exist_ok=True)
    head = refs.head_text(repo.git_dir) or NO_BRANCH
    replace_file(path / "HEAD", os.fsencode(f"{head}\n"), durable=False)
    replace_file(path / "config", _config(repo, settings).encode(), durable=False)
    return (f"--git-dir={path}", f"--work-tree={repo.root}")


def check(args: Sequence[str | bytes], why: str) -> None:
    """Raise Refused for a git command that writes more than objects."""
    is_writing = args[0] in WRITING or (args[0] == "config" and "--local" in args)
    if is_writing:
        raise Refused(f"git cannot work in this repository: {why}. Nothing was changed")


def _config(repo: OpenRepository, settings: Mapping[str, str]) -> str:
    extensions = {
        "objectformat": repo.object_format.name,
        "refstorage": repo.ref_format,
    }
    known = {name: settings[f"core.{name}"] for name in CONVERTING if f"core.{name}" in settings}
    lines = ["[core]", "repositoryformatversion = 1", "bare = false"]
    lines += [f'{name} = "{_escaped(value)}"' for name, value in known.items()]
    lines.append("[extensions]")
    lines += [
        f"{name} = {value}"
        for name, value in extensions.items()
        if value not in ("sha1", "files")  # an older git knows neither name
    ]
    return "\n".join([*lines, ""])


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _link(path: Path, target: Path) -> None:
    if path.is_symlink() and os.readlink(path) == str(target):
        return
    if os.path.lexists(path):
        _remove(path)
    with suppress(FileExistsError):  # another process was faster
        path.symlink_to(target)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
