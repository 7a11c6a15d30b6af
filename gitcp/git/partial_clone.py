"""A repository of gitcp's own beside the user's, for what was fetched in part.

Whatever a ref of the user's repository reaches must be there, or git's own `gc` fails; and to fetch
a part makes of a repository a partial clone, in its config. So a part goes into a bare repository
`<git dir>/gitcp/aside/<remote>`. It borrows the user's objects and settings, and gives nothing
back: nothing of the user's looks into it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from gitcp.errors import GitFailed, StoreDamaged
from gitcp.git import process, refs
from gitcp.git.fsync import make_own_directory
from gitcp.git.objects import Objects
from gitcp.git.packs import oid_of
from gitcp.git.repo import Repository
from gitcp.model import Oid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

DIRECTORY = "aside"
REMOTE = "partial"
"""What the remote is called in there. Its filter is in the config, and goes with every fetch."""

SETTINGS = {
    "core.repositoryFormatVersion": "1",
    "extensions.partialClone": REMOTE,
    f"remote.{REMOTE}.promisor": "true",
    f"remote.{REMOTE}.partialCloneFilter": "blob:none",
    "gc.auto": "0",
    "maintenance.auto": "false",
}


class Aside(Repository):
    """The repository beside another one; it has that one's root, for want of its own."""

    def git(
        self, *args: str | bytes, input: bytes | memoryview = b"", accept: Sequence[int] = (0,)
    ) -> bytes:
        return super().git(f"--git-dir={self.git_dir}", *args, input=input, accept=accept)

    def git_reading(self, *args: str, input: bytes) -> AbstractContextManager[IO[bytes]]:
        return super().git_reading(f"--git-dir={self.git_dir}", *args, input=input)


class Lazy(Objects):
    """Its objects. One that is not there is fetched by git when it is read."""

    def read(self, oid: Oid) -> tuple[str, bytes]:
        return self._read_loose(oid) or self._read_packed(oid) or self._fetched(oid)

    def _fetched(self, oid: Oid) -> tuple[str, bytes]:
        try:
            kind = self._repo.git("cat-file", "-t", oid).decode("ascii").strip()
            data = self._repo.git("cat-file", kind, oid)
        except GitFailed as error:
            raise StoreDamaged(
                f"object {oid} was not fetched, and cannot be now: {error}"
            ) from None
        if oid_of(kind, data) != oid:
            raise StoreDamaged(f"object {oid} of the remote does not hold what its name says")
        return kind, data


def find(repo: Repository, name: str) -> Aside | None:
    """What was fetched in part from the remote `name`; None if nothing was."""
    if not refs.NAME.match(name):
        return None
    place = _place(repo, name)
    return Aside(repo.root, place, repo.host) if os.path.exists(place / "config") else None


def _place(repo: Repository, name: str) -> Path:
    """Where this user's is: git trusts nobody else's."""
    place = repo.common_dir / "gitcp" / DIRECTORY / name
    try:
        foreign = os.stat(place).st_uid != os.geteuid()
    except OSError:
        foreign = False
    # no remote is called so
    return place.with_name(f"{name}..{os.geteuid()}.own") if foreign else place


def make(repo: Repository, name: str, url: str) -> Aside:
    """A place for what is fetched in part from the remote `name`, which is at `url`; the one that
    is there, if one is.

    Writes below `<git dir>/gitcp/aside`. Raises GitFailed.
    """
    found = find(repo, name)
    if found is None:
        make_own_directory(repo.store_dir / DIRECTORY)
        place = _place(repo, name)
        unfinished = place.with_name(f"{name}..{os.getpid()}")  # no remote is called so
        try:
            _init(repo, Aside(repo.root, unfinished, repo.host))
        except BaseException:
            _remove(unfinished)
            raise
        try:
            unfinished.rename(place)
        except OSError:  # another process made it meanwhile
            _remove(unfinished)
        found = Aside(repo.root, place, repo.host)
    found.git("config", "--local", "--replace-all", f"remote.{REMOTE}.url", url)
    return found


def _init(repo: Repository, made: Aside) -> None:
    place = made.git_dir
    _remove(place)
    repo.git(*process.INIT, "--bare", str(place))
    lent = os.path.relpath(repo.common_dir / "objects", place / "objects")
    (place / "objects" / "info").mkdir(exist_ok=True)
    (place / "objects" / "info" / "alternates").write_bytes(os.fsencode(lent) + b"\n")
    settings = (place / "config").read_bytes()
    lines = b'[include]\n\tpath = "%s"\n' % _quoted(repo.common_dir / "config")
    (place / "config").write_bytes(lines + settings)  # before its own, which win
    for key, value in SETTINGS.items():
        made.git("config", "--local", key, value)


def bring(found: Aside, oids: Iterable[Oid]) -> None:
    """Get these objects, in one go. Raises GitFailed, where the remote gives out no single objects
    too.
    """
    asked = "".join(f"{oid}\n" for oid in oids).encode("ascii")
    options = (
        "--no-tags",
        "--no-write-fetch-head",
        "--no-recurse-submodules",
        "--refmap=",
        "--quiet",
    )
    checked = ("-c", "fetch.fsckObjects=true", "-c", "fetch.negotiationAlgorithm=noop")
    if asked:
        found.git(*checked, "fetch", *options, "--filter=blob:none", "--stdin", REMOTE, input=asked)


def forget(repo: Repository, name: str, ref: str) -> None:
    """Let go of a ref that was fetched in part; of the whole place when it was the last one."""
    found = find(repo, name)
    if found is None:
        return
    found.git("update-ref", "-d", ref)
    if not any("/sessions/" in each for each in refs.list_refs(found.common_dir, refs.REMOTES)):
        _remove(found.git_dir)


def _quoted(path: Path) -> bytes:
    return os.fsencode(path).replace(b"\\", b"\\\\").replace(b'"', b'\\"')


def clear(repo: Repository) -> None:
    """Let go of everything that was fetched in part."""
    _remove(repo.common_dir / "gitcp" / DIRECTORY)


def _remove(place: Path) -> None:
    import shutil  # two milliseconds

    shutil.rmtree(place, ignore_errors=True)
