"""Finds and opens a repository: its directories, its settings, where HEAD stands.

A repository is opened by looking at its files, as git does: a save that finds nothing to do has no
time to start git. Formats that gitcp cannot read are refused here, by name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from pathlib import Path

from gitcp.errors import GitFailed, Refused, RepositoryNotFound
from gitcp.git import config, process, shared
from gitcp.git.fsync import make_own_directory
from gitcp.model import Base, Host, Oid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

OPERATIONS = (
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisect"),
)


class Repository:
    """An open repository with a working tree.

    `root` is the working tree, `git_dir` the git directory of this working tree, `common_dir` the
    one that all linked working trees share (equal to `git_dir` in an ordinary repository). `told`
    is what `git` must be told to find them from `root`.
    """

    def __init__(self, root: Path, git_dir: Path, host: Host) -> None:
        self.root = root
        self.git_dir = git_dir
        self.index = git_dir / "index"
        self.common_dir = _common_dir(git_dir)
        self.told: tuple[str, ...] = ()
        self.host = host

    @classmethod
    def open(cls, start: Path, host: Host) -> Repository:
        """The repository that holds `start`. Raises RepositoryNotFound or Refused; writes
        nothing.
        """
        root, git_dir = _discover(Path(os.path.realpath(start)))
        repo = cls(root, git_dir, host)
        repo._check_owner()
        repo._check_format()
        _check_own(repo)
        worktree = repo.config.get("core.worktree")
        if worktree and git_dir == repo.common_dir:
            repo.root = Path(os.path.realpath(git_dir / worktree))
            if root not in (repo.root, *repo.root.parents):
                repo.told = (f"--git-dir={git_dir}", f"--work-tree={repo.root}")
        _refuse_dangerous(repo.root, host.home)
        return repo

    def git(
        self, *args: str | bytes, input: bytes | memoryview = b"", accept: Sequence[int] = (0,)
    ) -> bytes:
        """Run `git ARGS` in the working tree, scrubbed; its stdout. Raises GitFailed."""
        index = None if self.index == self.git_dir / "index" else self.index
        return process.run(
            (*self.told, *args),
            cwd=str(self.root),
            env=self.host.env,
            input=input,
            accept=accept,
            index=index,
        )

    def git_reading(self, *args: str, input: bytes) -> AbstractContextManager[IO[bytes]]:
        """The same, with its stdout to be read bit by bit."""
        return process.reading(
            (*self.told, *args), cwd=str(self.root), env=self.host.env, input=input
        )

    @cached_property
    def config(self) -> dict[str, str]:
        """git's settings as git itself resolves them: lower-case section and key, the last value
        wins.
        """
        try:
            return config.load(
                config.Place(self.root, self.git_dir, self.common_dir, self.host.env, self.git)
            )
        except GitFailed as error:
            raise RepositoryNotFound(
                f"the repository at {self.root} cannot be opened: {error}"
            ) from None

    def is_set(self, key: str, default: bool) -> bool:
        """A boolean setting, by git's own rules."""
        value = self.config.get(key)
        if value is None:
            return default
        return value.lower() not in ("false", "no", "off", "0", "")

    @cached_property
    def state_dir(self) -> Path:
        """`<git dir>/gitcp`: what gitcp keeps for this working tree besides refs and objects.

        Made with mode 0700, or as `core.sharedRepository` says; what others cannot use of ours is
        repaired.
        """
        return _own_directory(self.git_dir / "gitcp")

    @cached_property
    def store_dir(self) -> Path:
        """`<common git dir>/gitcp`: what all working trees of this repository share (the lock)."""
        return _own_directory(self.common_dir / "gitcp")

    @property
    def worktree_name(self) -> str | None:
        """The name of a linked working tree, None in the main one."""
        return None if self.git_dir == self.common_dir else self.git_dir.name

    def head(self) -> Base:
        """Where HEAD stands, and which operation is in progress. Reads files only."""
        text = _read_text(f"{self.git_dir}/HEAD") or ""
        operation = next(
            (name for file, name in OPERATIONS if os.access(f"{self.git_dir}/{file}", os.F_OK)),
            None,
        )
        if not text.startswith("ref:"):
            return Base(Oid(text.strip()) if text.strip() else None, None, operation)
        ref = text[4:].strip()
        from gitcp.git.refs import read_ref

        return Base(read_ref(self.common_dir, ref), ref.removeprefix("refs/heads/"), operation)

    def _check_owner(self) -> None:
        """git refuses repositories of other users (safe.directory); so do we, and git says it
        best.
        """
        owners = {os.stat(self.git_dir).st_uid, os.stat(self.root).st_uid}
        if owners == {os.geteuid()}:
            return
        try:
            self.git("rev-parse", "--git-dir")
        except GitFailed as error:
            raise Refused(f"git does not trust the repository at {self.root}: {error}") from None

    def _check_refs(self) -> None:
        """Asked of the file itself: a git that does not know reftable only says that it knows no
        such extension.
        """
        text = _read_text(self.common_dir / "config") or ""
        if "refstorage" not in text.lower():
            return
        storage = re.search(r"^\s*refstorage\s*=\s*(\w+)", text, re.IGNORECASE | re.MULTILINE)
        if storage is not None and storage[1].lower() != "files":
            raise RepositoryNotFound(
                f"the repository at {self.root} keeps its refs as {storage[1]}, which gitcp cannot "
                "read",
                hint="git refs migrate --ref-format=files",
            )

    def _check_format(self) -> None:
        if not self.common_dir.joinpath("objects").is_dir():
            raise RepositoryNotFound(f"{self.common_dir} is not a git directory: it has no objects")
        self._check_refs()
        if self.config.get("extensions.objectformat", "sha1").lower() != "sha1":
            raise RepositoryNotFound(
                f"the repository at {self.root} uses SHA-256 object names, which gitcp cannot read",
                hint="gitcp works in repositories with SHA-1 object names, git's default",
            )
        if (
            self.is_set("core.bare", False)
            and "core.worktree" not in self.config
            and self.git_dir == self.common_dir
        ):
            raise RepositoryNotFound(
                f"{self.git_dir} is a bare repository: it has no files to save"
            )


def _discover(start: Path) -> tuple[Path, Path]:
    for directory in (start, *start.parents):
        dot_git = directory / ".git"
        if dot_git.is_dir() and dot_git.joinpath("HEAD").exists():
            return directory, dot_git
        if dot_git.is_file():
            return directory, _follow(dot_git)
        if _is_git_directory(directory):
            raise RepositoryNotFound(
                f"{directory} is a git directory or a bare repository: it has no files to save",
                hint="run gitcp in a working tree",
            )
    raise RepositoryNotFound(f"no git repository at {start} or above", hint="git init")


def _follow(dot_git: Path) -> Path:
    """The git directory that a `.git` file names (linked working trees, submodules)."""
    text = _read_text(dot_git) or ""
    target = Path(os.path.realpath(dot_git.parent / text.removeprefix("gitdir:").strip()))
    if not text.startswith("gitdir:") or not target.joinpath("HEAD").exists():
        raise RepositoryNotFound(f"{dot_git} does not name a git directory")
    return target


def _is_git_directory(directory: Path) -> bool:
    return all(directory.joinpath(name).exists() for name in ("HEAD", "objects", "refs"))


def _common_dir(git_dir: Path) -> Path:
    text = _read_text(git_dir / "commondir")
    return Path(os.path.realpath(git_dir / text.strip())) if text else git_dir


def _refuse_dangerous(root: Path, home: Path) -> None:
    home = Path(os.path.realpath(home))
    if root == home or root in home.parents:
        raise Refused(
            f"{root} is {'your home directory' if root == home else 'above your home directory'}: "
            "gitcp does not save that, nothing was changed",
            hint="run gitcp in a project of its own (git init there)",
        )


def _own_directory(path: Path) -> Path:
    with suppress(OSError):  # who only looks needs none; who writes is told then
        make_own_directory(path)
        shared.repair(path)
    return path


def _check_own(repo: Repository) -> None:
    """Refuse what gitcp could not use of its own: a symbolic link, which it would write through, or
    what is shut.
    """
    for directory in {
        repo.git_dir / "gitcp",
        repo.common_dir / "gitcp",
        repo.common_dir / "refs" / "gitcp",
    }:
        try:
            with os.scandir(directory) as found:
                links = [entry.path for entry in found if entry.is_symlink()]
        except PermissionError as error:
            what = f"{directory} cannot be read: {error.strerror}. Nothing was changed"
            raise Refused(what, hint=shared.fix(directory)) from None
        except OSError:
            links = []
        for path in (os.fspath(directory), *links):
            if os.path.islink(path):
                what = f"{path} is a symbolic link: gitcp does not follow it. Nothing was changed"
                raise Refused(what, hint=f"rm {shared.quoted(path)}")


def _read_text(path: Path | str) -> str | None:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read().decode("utf-8", "surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return None
