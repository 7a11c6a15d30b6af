"""Find and open a repository: its directories, its settings, and HEAD.

A repository is opened by reading its files, as git does: a save with nothing to do has no time to
start git. Formats that gitcp cannot read are refused here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gitcp import discovery
from gitcp.errors import GitFailed, Refused, RepositoryNotFound
from gitcp.git import config, process, records, shared
from gitcp.git.config import ConfigScope
from gitcp.git.fsync import make_own_directory
from gitcp.git.object_format import FORMATS, SHA1, ObjectFormat
from gitcp.model import Base, Fault, Host
from gitcp.value import replace

if TYPE_CHECKING:
    from typing import IO

    from gitcp.fastpath.stat_check import Look
    from gitcp.git.catfile import CatFile
    from gitcp.git.growing import GrowingSum
    from gitcp.git.libgit import LibgitObjects
    from gitcp.git.refs import Refs
    from gitcp.model import Oid

T = TypeVar("T")

OPERATIONS = (
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisect"),
)


FILES, REFTABLE = "files", "reftable"
SCANNED = "worktree-state"
"""The file in which a scan of a working tree is remembered (gitcp.fastpath.answer.STATE)."""

NO_INDEX = "no-index"
"""The name of no file: the index of a git command where git's own cannot be read."""

UNSUPPORTED = ("unknown repository ext", "Expected git repo version", "dubious ownership")
"""In git's messages, if the repository is not broken and this git must not work in it."""

IN_A_PROJECT = "cd PROJECT && git init"
"""What to do where gitcp saves nothing; in a repository, git changes nothing."""

READ_BY_GIT = (
    *("HEAD", "index", "config", "config.worktree", "packed-refs", "shallow"),
    *("info/attributes", "info/grafts", "objects/info/alternates"),
)
"""Files in a git directory that almost every command of git's reads."""

REFTABLE_SINCE = "2.45"


class Repository:
    """An open repository with a working tree.

    `root` is the working tree, `git_dir` its git directory, `common_dir` the git directory shared
    by all linked working trees (equal to `git_dir` in an ordinary repository). `git_options` are
    the options with which `git` finds them from `root`. `look` is a check of the working tree
    already in progress, for the first scan (gitcp.worktree.snapshot.take). `growing_sum` remembers
    the last conversation of a program that saves again and again. `faults` is what was found broken
    of git's so far. A repository that `is_bare` has no working tree: what is stored can be read.
    """

    def __init__(self, root: Path, git_dir: Path, host: Host) -> None:
        self.root = root
        self.git_dir = git_dir
        self.index = git_dir / "index"
        self.common_dir = Path(discovery.common(str(git_dir)))
        self.git_options: tuple[str, ...] = ()
        self.host = host
        self.look: Look | None = None
        self.growing_sum: GrowingSum | None = None
        self.faults: tuple[Fault, ...] = ()
        self.is_bare = False
        self.libgit: LibgitObjects | None = None
        self._stand_in_for = ""
        self._has_index = True

    @classmethod
    def open(cls, start: Path, host: Host) -> Repository:
        """Return the repository that contains `start`. Raises RepositoryNotFound or Refused; writes
        nothing but the empty directories that gitcp's own store has lost.
        """
        repo = cls.at(*_discover(os.path.realpath(start), host.home), host)
        root, git_dir = repo.root, repo.git_dir
        if repo.is_own:
            _complete(git_dir)
        for name in READ_BY_GIT:
            config.refuse_pipe(f"{repo.common_dir}/{name}")
        for name in ("HEAD", "index") if git_dir != repo.common_dir else ():
            config.refuse_pipe(f"{git_dir}/{name}")
        repo._check_owner()
        repo._check_format()
        _check_own(repo)
        worktree = repo.config.get("core.worktree")
        if worktree and git_dir == repo.common_dir and not repo.is_own:
            repo.root = Path(os.path.realpath(git_dir / worktree))
            if root not in (repo.root, *repo.root.parents):
                repo.git_options = (f"--git-dir={git_dir}", f"--work-tree={repo.root}")
        refuse_dangerous(repo.root, host.home)
        return repo

    @classmethod
    def at(cls, root: Path, git_dir: Path, host: Host) -> Repository:
        """Return the repository with this working tree and git directory, unchecked."""
        repo = cls(root, git_dir, host)
        if repo.is_own:
            repo.git_options = (f"--git-dir={git_dir}", f"--work-tree={root}")
        return repo

    def git(
        self,
        *args: str | bytes,
        input: bytes | memoryview = b"",
        accept: Sequence[int] = (0,),
        connects: bool = False,
    ) -> bytes:
        """Run `git ARGS` in the working tree with a scrubbed environment and return its stdout. It
        connects to nothing, unless `connects`. Raises GitFailed.
        """
        try:
            return self.git_once(*args, input=input, accept=accept, connects=connects)
        except GitFailed:
            if not self._is_worked_around():
                raise
        return self.git_once(*args, input=input, accept=accept, connects=connects)

    def git_once(
        self,
        *args: str | bytes,
        input: bytes | memoryview = b"",
        accept: Sequence[int] = (0,),
        connects: bool = False,
    ) -> bytes:
        """Run `git ARGS` as `git` does, and raise GitFailed whatever the reason is."""
        if connects:
            self.require_trusted()
        index = None if self.index == self.git_dir / "index" else self.index
        if self._stand_in_for:
            from gitcp.git import stand_in

            stand_in.check(args, self._stand_in_for)
            index = self.index
        return process.run(
            (*self.git_options, *args),
            cwd=str(self.root),
            env=self.host.env,
            input=input,
            accept=accept,
            index=index if self._has_index else self.git_dir / "gitcp" / NO_INDEX,
            connects=connects,
        )

    def report(self, fault: Fault) -> None:
        """Add a fault, once."""
        if fault not in self.faults:
            self.faults = (*self.faults, fault)

    def lose_index(self, fault: Fault) -> None:
        """Report an index that cannot be read; from now on git is run without one."""
        self.report(fault)
        self._has_index = False

    def _is_worked_around(self) -> bool:
        """Look for what makes git refuse to work, where a command failed, and do without it from
        now on: without the index, or with a git directory of gitcp's own. Return whether there is
        anything.
        """
        from gitcp.git import faults, stand_in  # only where git failed

        lost = faults.unreadable_index(self) if self._has_index else None
        if lost is not None:
            self.lose_index(lost)
        fault = None if self._stand_in_for else faults.stops_git(self)
        if fault is not None:
            self.git_options = stand_in.options(self, {})
            self._stand_in_for = fault.what
            self.report(fault)
            self.close()
            self.__dict__.pop("cat_file", None)  # which was given the options that fail
        return lost is not None or fault is not None

    def git_shown(self, *args: str, input: bytes | IO[bytes]) -> bytes:
        """Run `git ARGS` with a progress option, report its progress, and return its stdout."""
        return process.run_with_progress(
            (*self.git_options, *args), cwd=str(self.root), env=self.host.env, input=input
        )[0]

    def git_reading(self, *args: str, input: bytes) -> AbstractContextManager[IO[bytes]]:
        """Run `git ARGS` and yield its stdout for reading in parts."""
        return process.reading(
            (*self.git_options, *args), cwd=str(self.root), env=self.host.env, input=input
        )

    def read_by_libgit2(self) -> None:
        """Let objects be read by libgit2 where it can: for a process that lives long or has read a
        hundred (gitcp.git.reader).
        """
        if self.object_format is SHA1:
            from gitcp.git.libgit import objects_in  # what is short does not

            self.libgit = objects_in(self.common_dir / "objects")

    @cached_property
    def cat_file(self) -> CatFile:
        """Return the process that reads packed objects, which starts at the first one. A program
        that opens the repository again and again lets all of them use the first's.
        """
        from gitcp.git.catfile import CatFile  # many a save needs none

        return CatFile(self.git_options, str(self.root), self.host.env, self.object_format)

    def read_by_git(self, read: Callable[[CatFile], T]) -> T:
        """Return what `read` reads with the process for it, and work around what makes git refuse,
        as `git` does. Raises as CatFile.
        """
        # Where the settings were remembered, this is the first that git is asked: a linked working
        # tree whose `commondir` was of NULs could not be saved.
        try:
            return read(self.cat_file)
        except GitFailed:
            if not self._is_worked_around():
                raise
        return read(self.cat_file)

    def close(self) -> None:
        """End the process that reads objects, if there is one. The next read starts another."""
        if "cat_file" in self.__dict__:
            self.cat_file.close()

    @cached_property
    def object_format(self) -> ObjectFormat:
        """Return how this repository names its objects."""
        return FORMATS[self._extensions.get("objectformat", SHA1.name)]

    @property
    def ref_format(self) -> str:
        """Return how refs are stored: "files" or "reftable"."""
        return self._extensions.get("refstorage", FILES)

    @cached_property
    def _extensions(self) -> dict[str, str]:
        return config.extensions(self.common_dir)

    @property
    def refs(self) -> Refs:
        # not kept here: they hold a method of this object, which ends its `git cat-file` when freed
        if self.ref_format == REFTABLE:
            from gitcp.git.reftable import TableRefs

            return TableRefs(
                (self.git_dir, self.common_dir), self.git, self.object_format, self._hold
            )
        from gitcp.git.refs import FileRefs  # many a hook needs none

        return FileRefs(self.git_dir, self.common_dir, self.git, self._hold)

    @property
    def borrows(self) -> bool:
        """Return whether objects may be in another repository (`git clone -s`)."""
        return os.path.exists(f"{self.common_dir}/objects/info/alternates")

    def _hold(self, commits: Sequence[Oid]) -> None:
        """Hold what refs are about to name, where another repository could delete it."""
        if self.borrows:
            from gitcp.git import held  # few repositories borrow

            held.hold(self, commits)

    @cached_property
    def config(self) -> dict[str, str]:
        """Return git's settings as git resolves them: section and key in lower case, the last value
        wins.
        """
        try:
            return config.load(self._config_scope)
        except GitFailed as error:
            return self._config_despite(error)

    @property
    def _config_scope(self) -> ConfigScope:
        return ConfigScope(self.root, self.git_dir, self.common_dir, self.host.env, self.git_once)

    def _config_despite(self, error: GitFailed) -> dict[str, str]:
        """Return the settings where git cannot read them: those that were read last, if any. Raises
        RepositoryNotFound for a repository that this git does not support, or if there is no git.
        """
        last = config.last_known(self.git_dir)
        what = str(error)
        is_unsupported = any(words in what for words in UNSUPPORTED)
        if not is_unsupported and self._works_instead(error, last or {}):
            return {**config.asked(self._config_scope), **(last or {}), "core.bare": "false"}
        if is_unsupported or last is None:
            is_too_old = self.ref_format == REFTABLE and UNSUPPORTED[0] in what
            raise RepositoryNotFound(
                f"the repository at {self.root} cannot be opened: {error}",
                hint=f"install git {REFTABLE_SINCE} or later" if is_too_old else error.hint,
            ) from None
        self.report(Fault(f"git does not work, its last known settings are used: {error}"))
        return last

    def _works_instead(self, error: GitFailed, settings: Mapping[str, str]) -> bool:
        """Use a git directory of gitcp's own from now on if git works with it, perhaps without the
        user's settings. Return whether it does.
        """
        from gitcp.git import faults, stand_in  # only where git failed

        fault = faults.stops_git(self) or faults.of_config(self, error)
        before = self.host, self.git_options
        try:
            self.git_options = stand_in.options(self, settings)
        except OSError:
            return False
        self._stand_in_for = fault.what
        alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        for more in ({}, alone):
            self.host = replace(before[0], env={**self.host.env, **more})
            with suppress(GitFailed):
                self.git_once("config", "--list")
                self.report(fault)
                return True
        (self.host, self.git_options), self._stand_in_for = before, ""
        return False

    def personal(self, name: str) -> str | None:
        """Return a setting that names a program: from the user's or the system's configuration
        alone (see gitcp.git.config.personal).
        """
        return config.personal(self.git, name) if config.canonical(name) in self.config else None

    @cached_property
    def is_trusted(self) -> bool:
        """Return whether the settings of this repository may say what is run or connected to when
        the user asks to send or fetch. A store of gitcp's own must be recorded as this user's; a
        git repository is git's, and `git push` follows its settings as well.
        """
        return not self.is_own or records.has(self.git_dir, self.host, records.OWN)

    def require_trusted(self) -> None:
        """Raise Refused unless the repository is trusted: before anything connects."""
        if not self.is_trusted:
            raise Refused(
                f"the store at {self.root} is not recorded as yours: it was unpacked, copied or "
                "moved here, or made by an older gitcp. Its settings could run commands: nothing "
                "was sent or fetched. If you made it, or trust who did, allow it",
                hint="gitcp init --trust",
            )

    def is_set(self, key: str, default: bool) -> bool:
        """Return a boolean setting by git's rules."""
        value = self.config.get(key)
        if value is None:
            return default
        return value.lower() not in ("false", "no", "off", "0", "")

    def inside(self, directory: Path, path: bytes) -> bytes | None:
        """Return a path given relative to `directory` as one relative to the root (b"": the root),
        None if it is outside. Links are resolved in its directory only: the last name may itself be
        a link. If nothing is there, links inside the root are not resolved: what was there may be
        older than they are.
        """
        whole = os.path.join(os.fsencode(directory), path).rstrip(b"/")
        above, name = os.path.split(whole)
        if name in (b"", b".", b".."):
            above, name = whole, b""
        full = os.path.join(os.path.realpath(above), name).rstrip(b"/")
        return self._below_root(full) if os.path.lexists(full) else self.spelled(directory, path)

    def spelled(self, directory: Path, path: bytes) -> bytes | None:
        """Return a path as `inside` does, but resolve no link inside the root, and `..` by its
        spelling, as git does.
        """
        whole = os.path.normpath(os.path.join(os.fsencode(directory), path))
        above, below = whole, b""
        spelled = None
        while True:
            top = self._below_root(os.path.realpath(above))
            if top is not None:
                spelled = os.path.join(top, below).rstrip(b"/")
            above, name = os.path.split(above)
            if not name:
                return spelled
            below = os.path.join(name, below)

    def _below_root(self, full: bytes) -> bytes | None:
        root = os.fsencode(self.root)
        if full != root and not full.startswith(root + b"/"):
            return None
        return full[len(root) + 1 :]

    @cached_property
    def state_dir(self) -> Path:
        """Return `<git dir>/gitcp`: gitcp's files for this working tree.

        Created with mode 0700, or according to `core.sharedRepository`; permissions that exclude
        other members are repaired.
        """
        return _own_directory(self.git_dir / "gitcp")

    @cached_property
    def store_dir(self) -> Path:
        """Return `<common git dir>/gitcp`: gitcp's files for all working trees, such as the
        lock.
        """
        if self.common_dir == self.git_dir:
            return self.state_dir
        return _own_directory(self.common_dir / "gitcp")

    @property
    def is_own(self) -> bool:
        """Return whether this is gitcp's own store in a directory without git."""
        return self.git_dir == self.root / discovery.STORE

    @property
    def git_command_line(self) -> str:
        """Return how a user types `git` for this repository, in a shell in its working tree."""
        import shlex  # for messages alone

        return shlex.join(("git", f"--git-dir={self.git_dir}")) if self.is_own else "git"

    @property
    def worktree_name(self) -> str | None:
        """Return the name of a linked working tree, None for the main one."""
        return None if self.git_dir == self.common_dir else self.git_dir.name

    def head(self) -> Base:
        """Return HEAD's commit and branch, and the operation in progress."""
        head = self.refs.head()
        operation = next(
            (
                name
                for file, name in OPERATIONS
                if file in head.beside or os.access(f"{self.git_dir}/{file}", os.F_OK)
            ),
            None,
        )
        branch = head.ref.removeprefix("refs/heads/") if head.ref else None
        unknown = head.unknown or (head.commit is None and self._lost_ref()) or None
        if head.unknown:
            from gitcp.git import faults  # hardly ever

            self.report(faults.of_head(self, head))
        return Base(head.commit, branch, operation, unknown)

    def _lost_ref(self) -> str:
        """Return why a branch that is in no file may exist, "" if it does not."""
        if self.ref_format == REFTABLE:
            return ""
        from gitcp.git import faults

        fault = faults.of_packed(self)
        if fault is None:
            return ""
        self.report(fault)
        return fault.what

    def _check_owner(self) -> None:
        """Refuse repositories of other users that git refuses (safe.directory), with git's
        message.
        """
        owners = {os.stat(self.git_dir).st_uid, os.stat(self.root).st_uid}
        if owners == {os.geteuid()}:
            return
        try:
            self.git("rev-parse", "--git-dir")
        except GitFailed as error:
            raise Refused(f"git does not trust the repository at {self.root}: {error}") from None

    def _check_extensions(self) -> None:
        """Refuse what gitcp cannot read, before git is asked: an older one only reports an unknown
        extension.
        """
        names, storage = self._extensions.get("objectformat", SHA1.name), self.ref_format
        if names not in FORMATS or "compatobjectformat" in self._extensions:
            raise RepositoryNotFound(
                f"the repository at {self.root} names its objects in a way that gitcp cannot read",
                hint="git rev-parse --show-object-format",
            )
        if storage not in (FILES, REFTABLE):
            raise RepositoryNotFound(
                f"the repository at {self.root} keeps its refs as {storage}, which gitcp cannot "
                "read",
                hint="git refs migrate --ref-format=files",
            )

    def _check_format(self) -> None:
        if not self.common_dir.joinpath("objects").is_dir():
            raise RepositoryNotFound(
                f"{self.common_dir} is not a git directory: it has no objects",
                hint=f"ls -l {shared.quoted(str(self.common_dir))}",
            )
        self._check_extensions()
        is_bare = self.is_set("core.bare", False) and self.git_dir == self.common_dir
        if is_bare and "core.worktree" not in self.config:
            self._use_bare()

    def _use_bare(self) -> None:
        """Use a repository that says it is bare: as the working tree it is, if somebody or gitcp
        has used it as one. Tools that make worktrees write this setting into the wrong file.
        """
        self.is_bare = not (
            os.path.lexists(self.index) or self.git_dir.joinpath("gitcp", SCANNED).exists()
        )
        if not self.is_bare:
            from gitcp.git import faults

            self.git_options = (f"--git-dir={self.git_dir}", f"--work-tree={self.root}")
            self.report(faults.of_bare(self))

    def require_files(self) -> None:
        """Raise RepositoryNotFound for a repository without a working tree."""
        if self.is_bare:
            raise RepositoryNotFound(
                f"{self.git_dir} is a bare repository (core.bare is true): it has no files to "
                "save; run gitcp in one of its worktrees",
                hint="git worktree list",
            )


def _discover(start: str, home: Path) -> tuple[Path, Path]:
    discovered = discovery.discover(start, str(home))
    root = discovered[0] if discovered else ""
    for directory in (Path(start), *Path(start).parents):
        if str(directory) == root:
            break
        if all(directory.joinpath(name).exists() for name in ("HEAD", "objects", "refs")):
            raise RepositoryNotFound(
                f"{directory} is a git directory or a bare repository: it has no files to save",
                hint="run gitcp in a working tree",
            )
        if directory.joinpath(".git").is_file():
            raise _nowhere(directory)
    if discovered is None:
        nowhere = f"no git repository at {start} or above"
        refused = _dangerous(Path(start), home)
        if refused:  # where neither `git init` nor `gitcp init` would help
            raise RepositoryNotFound(f"{nowhere}; {refused}", hint=IN_A_PROJECT)
        raise RepositoryNotFound(f"{nowhere}; without git: gitcp init", hint="git init")
    return Path(root), Path(discovered[1])


def _nowhere(directory: Path) -> RepositoryNotFound:
    """Return the error for a file `.git` that names no git directory, as in a linked worktree whose
    repository was moved or pruned it.
    """
    path = shared.quoted(str(directory))
    named = discovery.named(str(directory))
    main = Path(named).parents[2] if named and "worktrees" in named else None
    is_there = main is not None and main.is_dir()
    hint = f"git -C {shared.quoted(str(main))} worktree repair {path}" if is_there else ""
    what = "does not name a git directory"
    if named:
        what += f" ({named} is none)"
    return RepositoryNotFound(
        f"{directory}/.git {what}: nothing can be saved", hint=hint or f"cat {path}/.git"
    )


def refuse_dangerous(root: Path, home: Path) -> None:
    refused = _dangerous(root, home)
    if refused:
        raise Refused(f"{refused}, nothing was changed", hint=IN_A_PROJECT)


def _dangerous(root: Path, home: Path) -> str:
    """Return why gitcp saves nothing at `root`; "" if it does."""
    home = Path(os.path.realpath(home))
    if root != home and root not in home.parents:
        return ""
    where = "your home directory" if root == home else "above your home directory"
    return f"{root} is {where}: gitcp does not save that"


def _own_directory(path: Path) -> Path:
    with suppress(OSError):  # who only looks needs none; who writes is told then
        make_own_directory(path)
        shared.repair(path)
    return path


def _complete(store: Path) -> None:
    """Make the directories without which git works in no git directory. A synchronizer or an
    archive leaves out empty ones, and `refs` is empty once all refs are packed.
    """
    for name in ("objects", "refs"):
        if not os.path.lexists(store / name):
            with suppress(OSError):  # git says what is missing
                os.mkdir(store / name)


def _check_own(repo: Repository) -> None:
    """Refuse symbolic links in gitcp's directories, which it would write through, and unreadable
    directories.
    """
    for directory in {
        repo.git_dir / "gitcp",
        repo.common_dir / "gitcp",
        repo.common_dir / "refs" / "gitcp",
    }:
        try:
            with os.scandir(directory) as entries:
                # A link in the place of one of these directories was written through.
                links = [entry.path for entry in entries if entry.is_symlink()]
        except PermissionError as error:
            what = f"{directory} cannot be read: {error.strerror}. Nothing was changed"
            raise Refused(what, hint=shared.fix(directory)) from None
        except OSError:
            links = []
        for path in (os.fspath(directory), *links):
            if os.path.islink(path):
                what = f"{path} is a symbolic link: gitcp does not follow it. Nothing was changed"
                raise Refused(what, hint=f"rm {shared.quoted(path)}")
