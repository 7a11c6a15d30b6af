"""Hold what checkpoints need, where a repository borrows objects from another one (`git clone -s`,
`--reference`, `objects/info/alternates`).

The other repository knows nothing of the refs here: its `gc` removes what only they reach. And
`gc` here drops an object that the other one has as well (`repack -l`). So before a ref moves to a
checkpoint, everything that it needs is in packs of this repository that git leaves alone: each has
a `.keep` file. Not so what HEAD's tree has: git itself relies on the other repository for that, and
a copy of the whole tree is what the user saved by borrowing.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gitcp import clock
from gitcp.errors import GitFailed, StoreDamaged
from gitcp.git import shared
from gitcp.git.fsync import sync_directory, sync_paths
from gitcp.git.packs import FORM, PackIndex
from gitcp.git.refs import PREFIX, Refs

if TYPE_CHECKING:
    from gitcp.git.object_format import ObjectFormat
    from gitcp.model import Base, Oid

HELD = b"gitcp: checkpoints need this; the repository borrows objects from another one\n"

AS_FAR_AS_HERE = "--missing=allow-any"
AS_FAR_AS_PROMISED = "--missing=allow-promisor"
"""As in gitcp.git.promised, which is above Repository."""

MANY = 16
"""Packs from which on they are joined."""

SETTLED = 3600.0
"""Seconds after which the ref that a pack was written for has moved, or never will."""


class HeldRepository(Protocol):
    """What is used of a gitcp.git.repo.Repository, which is above."""

    common_dir: Path

    @property
    def borrows(self) -> bool: ...

    @property
    def refs(self) -> Refs: ...

    @property
    def object_format(self) -> ObjectFormat: ...

    def head(self) -> Base: ...

    def git(self, *args: str | bytes, input: bytes = b"") -> bytes: ...


def hold(repo: HeldRepository, commits: Collection[Oid]) -> None:
    """Hold all that these commits need, to which refs are about to move, and what refs need that is
    not held yet: it was saved before the repository borrowed, or by an older gitcp.

    Raises GitFailed if an object is missing, or cannot be written.
    """
    if not repo.borrows:
        return
    indexes = _held(repo)
    trees = [f"{commit}^{{tree}}" for commit in commits if not _has(indexes, commit)]
    if not trees:
        return
    tips = {*commits, *repo.refs.list(PREFIX).values()}
    known = {tip for tip in tips if _has(indexes, tip)}
    names = {*commits, *_reached(repo, trees, AS_FAR_AS_PROMISED)}
    with suppress(GitFailed):  # damage in older checkpoints stops no save
        earlier = [*(tips - known), *(f"^{tip}" for tip in known)]
        names |= _reached(repo, earlier, AS_FAR_AS_HERE)
    _write(repo, {name for name in names if not _has(indexes, name)})


def are_many(repo: HeldRepository) -> bool:
    """Return whether packs should be joined. Those of the last hour are not: the refs to them may
    not have moved yet.
    """
    return repo.borrows and len(_settled(repo)) >= MANY


def join(repo: HeldRepository, *, settled: bool = True) -> None:
    """Hold what refs need in one pack, and leave the others to git's `gc`; without `settled`, all
    of them, for the holder of the store's lock. Raises GitFailed.
    """
    if not repo.borrows:
        return
    old = _settled(repo) if settled else _packs(repo)
    indexes, tips = _held(repo), set(repo.refs.list(PREFIX).values())
    names = _reached(repo, tips, AS_FAR_AS_HERE)
    everything = _listed(repo, tips, AS_FAR_AS_HERE)
    new = _write(repo, names | {name for name in everything if _has(indexes, name)})
    for pack in old:
        if pack != new:
            pack.with_suffix(".keep").unlink(missing_ok=True)


def _reached(repo: HeldRepository, revisions: Iterable[str], missing: str) -> set[str]:
    """Return the objects that revisions reach, and the tree of HEAD has not."""
    try:
        head = repo.head().commit
    except StoreDamaged:
        head = None
    return _listed(
        repo, [*revisions, *([f"^{head}", f"^{head}^{{tree}}"] if head else ())], missing
    )


def _listed(repo: HeldRepository, revisions: Iterable[str], missing: str) -> set[str]:
    lines = "".join(f"{revision}\n" for revision in revisions).encode("ascii")
    if not lines:
        return set()
    output = repo.git("rev-list", "--objects", "--ignore-missing", missing, "--stdin", input=lines)
    return {line.partition(b" ")[0].decode("ascii") for line in output.splitlines()}


def _write(repo: HeldRepository, names: set[str]) -> Path | None:
    """Write a pack with these objects, and return its path. It is durable, and git leaves it alone
    from the moment that it sees it.
    """
    if not names:
        return None
    import shutil  # few repositories borrow

    directory = repo.common_dir / "objects" / "pack"
    directory.mkdir(exist_ok=True)
    temporary = directory / f"tmp_gitcp_{os.urandom(6).hex()}"
    temporary.mkdir()
    try:
        asked = "".join(f"{name}\n" for name in sorted(names)).encode("ascii")
        base = str(temporary / "pack")
        made = repo.git(*FORM, "pack-objects", "-q", base, input=asked).decode("ascii").strip()
        pack = directory / f"pack-{made}.pack"
        keep = temporary / f"{pack.stem}.keep"
        keep.write_bytes(HELD)
        os.chmod(keep, shared.object_mode(os.stat(keep).st_mode, directory))
        files = [temporary / f"{pack.stem}{suffix}" for suffix in (".keep", ".pack", ".idx")]
        sync_paths([str(file) for file in files])
        for file in files:  # the index last: nobody looks for the pack before
            os.rename(file, directory / file.name)
        sync_directory(directory)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return pack


def _packs(repo: HeldRepository) -> list[Path]:
    packs = []
    for keep in repo.common_dir.glob("objects/pack/pack-*.keep"):
        with suppress(OSError):
            if keep.read_bytes() == HELD:
                packs.append(keep.with_suffix(".pack"))
    return packs


def _settled(repo: HeldRepository) -> list[Path]:
    settled = []
    for pack in _packs(repo):
        with suppress(OSError):
            if clock.seconds() - pack.with_suffix(".keep").stat().st_mtime > SETTLED:
                settled.append(pack)
    return settled


def _held(repo: HeldRepository) -> list[PackIndex]:
    indexes = []
    for pack in _packs(repo):
        with suppress(OSError, ValueError):
            if pack.stat().st_size:
                indexes.append(PackIndex(pack.with_suffix(".idx"), repo.object_format))
    return indexes


def _has(indexes: Iterable[PackIndex], name: str) -> bool:
    raw = bytes.fromhex(name)
    return any(raw in index for index in indexes)
