"""gitcp's own repository for partly fetched checkpoints, beside the user's.

Everything reachable from the user's refs must exist, or git's own `gc` fails, and a partial fetch
turns a repository into a partial clone in its config. So partial fetches go to a bare repository
`<git dir>/gitcp/aside/<remote>`. It borrows the user's objects and settings; nothing in the user's
repository refers to it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from gitcp.errors import GitFailed, Refused, StoreDamaged
from gitcp.git import process, records, refs
from gitcp.git.fsync import make_own_directory
from gitcp.git.reader import ObjectReader
from gitcp.git.repo import Repository
from gitcp.model import Host, Oid

DIRECTORY = "aside"
REMOTE = "partial"
"""The name of the remote in that repository. Its filter is configured there and applies to every
fetch.
"""

SETTINGS = {
    "core.repositoryFormatVersion": "1",
    "extensions.partialClone": REMOTE,
    f"remote.{REMOTE}.promisor": "true",
    f"remote.{REMOTE}.partialCloneFilter": "blob:none",
    "gc.auto": "0",
    "maintenance.auto": "false",
}


class RepositoryAside(Repository):
    """The repository beside another one, with the root of that one. Its refs are files."""

    def __init__(self, root: Path, git_dir: Path, host: Host) -> None:
        super().__init__(root, git_dir, host)
        self.git_options = (f"--git-dir={git_dir}",)

    @property
    def borrows(self) -> bool:
        """Return False: it has the user's own objects as well, but what it lacks is fetched again.
        To hold what its refs need would fetch every file that it is to do without.
        """
        return False

    @cached_property
    def is_trusted(self) -> bool:
        """Return whether gitcp made it here for this user: an archive can bring one, with any URL,
        in a repository of git's as well.
        """
        return records.has(self.git_dir, self.host, records.OWN)

    def git(
        self,
        *args: str | bytes,
        input: bytes | memoryview = b"",
        accept: Sequence[int] = (0,),
        connects: bool = False,
    ) -> bytes:
        """Run `git ARGS` as any repository does. git may fetch what is missing, if gitcp made this
        one for the user.
        """
        connects = connects or self.is_trusted
        return super().git(*args, input=input, accept=accept, connects=connects)

    def require_trusted(self) -> None:
        """Raise Refused unless it is trusted."""
        if not self.is_trusted:
            raise Refused(
                f"what was fetched without files from {self.git_dir.name} is not recorded as "
                "yours: it was unpacked, copied or moved here, or made by an older gitcp. Nothing "
                "more was fetched",
                hint=f"gitcp fetch {self.git_dir.name} --no-files",
            )


class LazyReader(ObjectReader):
    """Reads its objects. git fetches a missing one when it is read."""

    def read(self, oid: Oid) -> tuple[str, bytes]:
        return self._read_loose(oid) or self._read_stored_pack(oid) or self._fetched(oid)

    def _read_stored_pack(self, oid: Oid) -> tuple[str, bytes] | None:
        try:
            return self._read_packed(oid) if self._stored.is_packed(oid) else None
        except StoreDamaged:
            return None  # the remote may have a sound copy

    def _fetched(self, oid: Oid) -> tuple[str, bytes]:
        try:
            kind = self._repo.git("cat-file", "-t", oid, connects=True).decode("ascii").strip()
            data = self._repo.git("cat-file", kind, oid, connects=True)
        except (GitFailed, Refused) as error:
            raise StoreDamaged(f"object {oid} is missing and cannot be fetched: {error}") from None
        if self._format.oid_of(kind, data) != oid:
            raise StoreDamaged(
                f"object {oid} of the remote is damaged: its content does not match its name"
            )
        return kind, data


def find(repo: Repository, name: str) -> RepositoryAside | None:
    """Return the repository for partial fetches from the remote `name`, None if there is none."""
    if not refs.NAME.match(name):
        return None
    path = _place(repo, name)
    return RepositoryAside(repo.root, path, repo.host) if os.path.exists(path / "config") else None


def _place(repo: Repository, name: str) -> Path:
    """Return the path of this user's repository: git does not trust another user's."""
    path = repo.common_dir / "gitcp" / DIRECTORY / name
    try:
        is_foreign = os.stat(path).st_uid != os.geteuid()
    except OSError:
        is_foreign = False
    # not a valid remote name
    return path.with_name(f"{name}..{os.geteuid()}.own") if is_foreign else path


def make(repo: Repository, name: str, url: str) -> RepositoryAside:
    """Return the repository for partial fetches from the remote `name` at `url`, creating it if
    missing.

    Writes below `<git dir>/gitcp/aside`. Raises GitFailed.
    """
    repo.require_trusted()
    aside = find(repo, name)
    if aside is not None and not aside.is_trusted:
        _remove(aside.git_dir)  # it is fetched again
        aside = None
    if aside is None:
        make_own_directory(repo.store_dir / DIRECTORY)
        path = _place(repo, name)
        unfinished = path.with_name(f"{name}..{os.getpid()}")  # not a valid remote name
        try:
            _init(repo, RepositoryAside(repo.root, unfinished, repo.host))
        except BaseException:
            _remove(unfinished)
            raise
        try:
            unfinished.rename(path)
        except OSError:  # another process made it meanwhile
            _remove(unfinished)
        aside = RepositoryAside(repo.root, path, repo.host)
        try:
            records.write(path, repo.host, records.OWN, b"")
        except OSError as error:
            left = f"{error.strerror}; nothing was fetched"
            raise records.unwritable(repo.host, left) from None
    aside.git("config", "--local", "--replace-all", f"remote.{REMOTE}.url", url)
    return aside


def _init(repo: Repository, aside: RepositoryAside) -> None:
    path = aside.git_dir
    _remove(path)
    object_format = f"--object-format={repo.object_format.name}"
    repo.git(*process.INIT, object_format, "--bare", str(path))
    alternate = os.path.relpath(repo.common_dir / "objects", path / "objects")
    (path / "objects" / "info").mkdir(exist_ok=True)
    (path / "objects" / "info" / "alternates").write_bytes(os.fsencode(alternate) + b"\n")
    settings = (path / "config").read_bytes()
    own = os.fsencode(repo.common_dir / "config")
    quoted = own.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    lines = b'[include]\n\tpath = "%s"\n' % quoted
    (path / "config").write_bytes(lines + settings)  # first, so that its own settings win
    for key, value in SETTINGS.items():
        aside.git("config", "--local", key, value)


def bring(aside: RepositoryAside, oids: Iterable[Oid]) -> None:
    """Fetch these objects in one request. Raises GitFailed, also if the remote does not serve
    single objects.
    """
    request = "".join(f"{oid}\n" for oid in oids).encode("ascii")
    options = (
        "--no-tags",
        "--no-write-fetch-head",
        "--no-recurse-submodules",
        "--refmap=",
        "--quiet",
    )
    checked = ("-c", "fetch.fsckObjects=true", "-c", "fetch.negotiationAlgorithm=noop")
    if request:
        aside.git(
            *checked,
            "fetch",
            *options,
            "--filter=blob:none",
            "--stdin",
            REMOTE,
            input=request,
            connects=True,
        )


def forget(repo: Repository, name: str, ref: str) -> None:
    """Delete a partly fetched ref, and the whole repository after the last one."""
    aside = find(repo, name)
    if aside is None:
        return
    aside.git("update-ref", "-d", ref)
    if not any("/sessions/" in ref_name for ref_name in aside.refs.list(refs.REMOTES)):
        _remove(aside.git_dir)


def clear(repo: Repository) -> None:
    """Delete everything that was fetched partly."""
    _remove(repo.common_dir / "gitcp" / DIRECTORY)


def _remove(path: Path) -> None:
    import shutil  # 2 ms

    shutil.rmtree(path, ignore_errors=True)
