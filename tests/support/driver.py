"""A project as its user has it: a real repository, real files, and `gitcp` run as a real process.

No mocks and no shortcuts into the library: what a test does here, a person could do in a terminal.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import launch
from kinds import IS_OWN_STORE
from launch import SOURCE, Result

from gitcp.git import own_store as made
from gitcp.model import Host

__all__ = ["SOURCE", "File", "Name", "Project", "Result"]

IDENTITY = (
    "-c",
    "user.name=A U Thor",
    "-c",
    "user.email=author@example.org",
    "-c",
    "commit.gpgSign=false",
)

KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFLNK: "symlink",
    stat.S_IFDIR: "directory",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
}

GITCP_OWNS = tuple(map(Path, ("gitcp", "objects", "packed-refs", "refs/gitcp", "logs/refs/gitcp")))
"""What `guard` does not compare file by file, below a git directory: ours, named by content, or
compared as refs.
"""


OWN = ".gitcp/store.git"
"""The git directory of a directory without git."""

MADE: dict[Path, bytes | None] = {}
"""What `gitcp init` made in this process of tests, below `.gitcp`; None is a directory."""


REMARKED = re.compile(r"^hint: (?:gitcp|git) [^'\"\n]*\s\(", re.MULTILINE)
"""A command with a remark behind it: a shell that it is pasted into does not run it."""

Name = str | bytes | Path
"""A path below the root of a project, or an absolute one."""


class File(NamedTuple):
    """One entry of a working tree: its kind, its permission bits, and its bytes (a symlink's: where
    it points).
    """

    kind: str
    mode: int
    data: bytes


class Project:
    """A repository and its working tree at `root`; made (git init, branch main) unless there is
    one. With `own_store`, a directory without git that has gitcp's own store, whose git directory
    each command of git is given.
    """

    def __init__(self, root: Path, *, own_store: bool = IS_OWN_STORE) -> None:
        is_own = own_store and not root.joinpath(".git").exists()
        self.root = root
        self.git_dir = root / (OWN if is_own else ".git")
        self.where = (f"--git-dir={self.git_dir}", f"--work-tree={root}") if is_own else ()
        if self.git_dir.exists():
            return
        root.mkdir(parents=True, exist_ok=True)
        if is_own:
            self._make_own_store()
        else:
            self.git("init", "--quiet", "--initial-branch=main")

    def _make_own_store(self) -> None:
        """As `gitcp init` made the first one: to run it for each test would take minutes."""
        if not MADE:
            self.gitcp("init", check=0)
            self.git("symbolic-ref", "HEAD", "refs/heads/main")
            MADE.update(_bytes_below(self.git_dir.parent))
        for name, content in MADE.items():
            path = self.git_dir.parent / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                path.mkdir(exist_ok=True)
            else:
                path.write_bytes(content)
        made.trust(self.git_dir, Host(os.environ, Path(os.environ["HOME"]), datetime.now))

    def path(self, name: Name) -> bytes:
        """The absolute path of `name`."""
        return os.path.join(os.fsencode(self.root), os.fsencode(name))

    def write(self, name: Name, content: str | bytes, mode: int | None = None) -> None:
        """Write a file, with its parents; `mode` are its permission bits."""
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        if mode is not None:
            os.chmod(path, mode)

    def read(self, name: Name) -> bytes:
        """A file's bytes."""
        with open(self.path(name), "rb") as file:
            return file.read()

    def symlink(self, name: Name, target: str | bytes) -> None:
        """Make a symbolic link to `target`, which need not exist."""
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(os.fsencode(target), path)

    def remove(self, name: Name) -> None:
        """Remove a file, a symlink or a whole directory."""
        path = self.path(name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)

    def git(self, *args: str | bytes, input: bytes = b"", check: bool = True) -> str:
        """Run the user's git here, and return what it printed, without the last line end.

        Takes no optional lock, so that looking (`status`, `diff`) does not rewrite the index.
        """
        env = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
        done = subprocess.run(
            ["git", *IDENTITY, *self.where, *args],
            cwd=self.root,
            env=env,
            input=input,
            capture_output=True,
        )
        if check:
            assert done.returncode == 0, f"git {args!r}: {done.stderr.decode(errors='replace')}"
        return done.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")

    def commit(self, message: str = "a commit") -> str:
        """Add everything and commit it; the commit's oid."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")

    def gitcp(
        self,
        *args: str | bytes,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        input: str | bytes = b"",
        check: int | None = None,
    ) -> Result:
        """Run `gitcp ARGS` as a process of its own, without a terminal, in `cwd` (the root of the
        project).

        `env` is added to the sealed environment. `check` is the exit code that the test insists on.
        """
        data = input.encode() if isinstance(input, str) else input
        done = launch.run_gitcp(args, cwd or self.root, env or {}, data)
        assert not REMARKED.search(done.err), f"a hint that cannot be pasted: {done.err}"
        assert check in (None, done.code), (
            f"gitcp {args!r} ended with {done.code}\n{done.out}\n{done.err}"
        )
        return done

    def json(self, *args: str | bytes) -> Any:
        """Run `gitcp ARGS --json`, which must succeed, and return the one document that it
        prints.
        """
        return json.loads(self.gitcp(*args, "--json", check=0).out)

    def json_lines(self, *args: str | bytes) -> list[Any]:
        """The same for a command that prints one document a line (`log`, `diff`)."""
        return [json.loads(line) for line in self.gitcp(*args, "--json", check=0).out.splitlines()]

    def files(self) -> dict[bytes, File]:
        """The whole working tree by path, directories too; of the git directory nothing."""
        found: dict[bytes, File] = {}
        self._collect(b"", found)
        return found

    def _collect(self, directory: bytes, found: dict[bytes, File]) -> None:
        for name in sorted(os.listdir(self.path(directory))):
            path = os.path.join(directory, name)
            if path in (b".git", os.fsencode(self.git_dir.relative_to(self.root).parts[0])):
                continue
            found[path] = _file(self.path(path))
            if found[path].kind == "directory":
                self._collect(path, found)

    @contextmanager
    def guard(self) -> Iterator[None]:
        """What runs inside must leave alone everything of git's that is not gitcp's, and a sound
        store behind.

        Compared are every ref outside refs/gitcp, and every file of the git directory that is
        neither an object nor gitcp's: HEAD, the index, the stash and all reflogs, config,
        info/exclude, hooks, locks, and the same of linked working trees. Then `git fsck --strict`
        must have nothing to say.
        """
        before = self.held_by_git()
        yield
        after = self.held_by_git()
        changed = sorted(
            name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
        )
        assert not changed, f"not gitcp's to change: {changed}"
        said = self.git("fsck", "--strict", "--no-dangling", "--no-progress")
        assert not said, f"git fsck: {said}"

    def loosen(self) -> None:
        """Give each object a file of its own."""
        for pack in self.git_dir.glob("objects/pack/*.pack"):
            data = pack.read_bytes()
            for path in pack.parent.glob(f"{pack.stem}.*"):
                path.unlink()
            self.git("unpack-objects", "-q", input=data)

    def held_by_git(self) -> dict[str, bytes]:
        """Everything of git's that is not gitcp's: see `guard`."""
        common = self.git_dir
        if not common.is_dir():  # a linked working tree
            common = Path(os.path.realpath(self.root / self.git("rev-parse", "--git-common-dir")))
        held = {"refs": self._foreign_refs().encode("utf-8", "surrogateescape")}
        for directory, below, names in os.walk(common):
            place = Path(directory).relative_to(common)
            below[:] = [name for name in below if not _is_ours(place / name)]
            files = [name for name in names if not _is_ours(place / name)]
            held |= {str(place / name): Path(directory, name).read_bytes() for name in files}
        return held

    def _foreign_refs(self) -> str:
        # HEAD and others like it are in no file then
        roots = ["--include-root-refs"] if (self.git_dir / "reftable").is_dir() else []
        listed = self.git("for-each-ref", *roots, "--format=%(refname) %(objectname) %(symref)")
        return "\n".join(line for line in listed.splitlines() if not line.startswith("refs/gitcp/"))


def _is_ours(place: Path) -> bool:
    """Whether a path of the git directory (or of a linked working tree's, below `worktrees/<name>`)
    is not compared. The tables of reftable hold gitcp's refs among git's, so refs are compared.
    """
    if "reftable" in place.parts and place.suffix != ".lock":
        return place.name != "reftable"
    return place in GITCP_OWNS or (
        place.parts[0] == "worktrees" and Path(*place.parts[2:]) in GITCP_OWNS
    )


def _bytes_below(directory: Path) -> dict[Path, bytes | None]:
    return {
        path.relative_to(directory): None if path.is_dir() else path.read_bytes()
        for path in sorted(directory.rglob("*"))
    }


def _file(path: bytes) -> File:
    status = os.lstat(path)
    kind = KINDS.get(stat.S_IFMT(status.st_mode), "other")
    if kind == "symlink":
        # Their permission bits mean nothing, and differ between systems.
        return File(kind, 0, os.readlink(path))
    return File(kind, stat.S_IMODE(status.st_mode), _bytes(path) if kind == "file" else b"")


def _bytes(path: bytes) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except PermissionError:
        return b"(unreadable)"
