"""Housekeeping: pack the loose objects of checkpoints, and join gitcp's small packs.

A save leaves up to a dozen loose objects, or a pack. Without housekeeping, git's own `gc --auto`
would start during a user's `git commit` after some four hundred saves, or fifty. Objects that only
other refs reach and packs made by others are not touched, and nothing is deleted before git has
verified the new pack.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gitcp import clock
from gitcp.git import loose
from gitcp.git.fsync import make_own_directory, open_shared, read_own, replace_file, sync_directory
from gitcp.git.packs import FORM, LARGE, PackIndex, is_kept, release

if TYPE_CHECKING:
    from gitcp.git.repo import Repository

PROBED = "17"
"""From this directory git estimates the number of loose objects. Its `gc --auto` starts above 27 in
it, or 50 packs.
"""

LOOSE = 10
"""Packing starts when it contains this many more than the last run left: about 2,500 in all."""

PACKS = 16
"""Joining starts at this number of packs."""

SETTLED = 3600.0
"""Seconds after which no process is still about to reference an object it found stored."""

NOTES = "packs"
LEFT = "left"


def note(repo: Repository, pack: Path) -> None:
    """Record a pack as written by gitcp."""
    with suppress(OSError):
        notes = repo.store_dir / NOTES
        make_own_directory(notes)
        os.close(open_shared(notes / pack.name, os.O_WRONLY))


def is_due(repo: Repository) -> bool:
    """Return whether enough loose objects or packs have accumulated. Reads two directories."""
    probed = _probed(repo)
    return (probed >= LOOSE and probed >= _left(repo) + LOOSE) or len(_noted(repo)) >= PACKS


def is_running(repo: Repository) -> bool:
    """Return whether another process is doing housekeeping. Writes nothing."""
    if not (repo.common_dir / "gitcp" / NOTES).is_dir():
        return False
    with alone(repo) as nobody:
        return not nobody


def repack(repo: Repository) -> None:
    """Pack what has accumulated, unless another process is doing so. Raises GitFailed, StoreDamaged
    or OSError; then nothing was deleted.
    """
    with alone(repo) as nobody:
        if not nobody:
            return
        try:
            release_packs(repo, settled=True)
            _forget_gone(repo)
            _join_packs(repo)  # needs no old commit to be sound
            _pack_loose(repo)
        finally:
            replace_file(repo.store_dir / NOTES / LEFT, b"%d" % _probed(repo), durable=False)


def release_packs(repo: Repository, *, settled: bool = False) -> None:
    """Release packs held by processes that were killed before a ref reached them.

    The holder of the store's lock knows that no process is about to; others release only `settled`
    ones.
    """
    for keep in _objects(repo).glob("pack/pack-*.keep"):
        if not settled or _is_settled(keep):
            release(keep)


def _forget_gone(repo: Repository) -> None:
    """Forget packs without an index: git deleted them, or gitcp was interrupted while deleting."""
    # Killed while it removed a pack, housekeeping failed ever after: the index was gone, the note
    # was not.
    for name in _noted(repo):
        pack = _objects(repo) / "pack" / name
        if not pack.with_suffix(".idx").exists():
            _remove(pack)
            repo.store_dir.joinpath(NOTES, name).unlink(missing_ok=True)


def _remove(pack: Path) -> None:
    for suffix in (".idx", ".rev", ".pack"):  # the index first: nobody then looks for the pack
        pack.with_suffix(suffix).unlink(missing_ok=True)


def _pack_loose(repo: Repository) -> None:
    from gitcp.git.promised import AS_FAR_AS_HERE

    listed = repo.git("rev-list", "--objects", "--unpacked", AS_FAR_AS_HERE, "--glob=refs/gitcp/*")
    # Of a commit that is loose git lists what is packed as well.
    small = {bytes.fromhex(name) for name, path in _loose(repo) if not _is_large(path)}
    names = [
        name
        for line in listed.splitlines()
        if (name := bytes.fromhex(line.partition(b" ")[0].decode("ascii"))) in small
    ]
    _drop_copies(repo, set(_index(repo, _packed(repo, names)).names()) if names else set())


def _drop_copies(repo: Repository, fresh: set[bytes]) -> None:
    """Remove the loose copies of newly packed objects (`fresh`), and those that an interrupted run
    left.

    A recently touched copy of an object in an older pack stays: another process may be about to
    reference it, and git may be about to delete the pack.
    """
    directory = _objects(repo)
    indexes = [_index(repo, directory / "pack" / name) for name in _noted(repo)]
    for name, path in _loose(repo):
        oid = bytes.fromhex(name)
        with suppress(FileNotFoundError):  # git packed it just now
            if oid in fresh or (any(oid in index for index in indexes) and _is_settled(path)):
                path.unlink(missing_ok=True)


def _loose(repo: Repository) -> Iterator[tuple[str, Path]]:
    """Yield the id and the file of every loose object."""
    for oid in loose.listed(_objects(repo)):
        yield oid, _objects(repo) / oid[:2] / oid[2:]


def _is_large(path: Path) -> bool:
    try:
        return path.stat().st_size > LARGE
    except FileNotFoundError:  # git packed it just now
        return False


def _is_settled(path: Path) -> bool:
    return clock.seconds() - path.stat().st_mtime > SETTLED


def _join_packs(repo: Repository) -> None:
    """Join those of gitcp's packs that are smaller than all smaller ones together."""
    directory = _objects(repo) / "pack"
    noted = [name for name in _noted(repo) if not is_kept(directory / name)]
    if len(noted) < PACKS:
        return
    sizes = {path: path.stat().st_size for path in map(directory.joinpath, noted) if _may_go(path)}
    joined: list[Path] = []
    for path in sorted(sizes, key=sizes.__getitem__):
        if len(joined) < 2 or sizes[path] <= sum(map(sizes.__getitem__, joined)):
            joined.append(path)
    try:
        if len(joined) > 1:
            _replace(repo, joined)
    finally:  # what could not be put together is not tried again
        for name in noted:
            if directory / name not in sizes or directory / name in joined:
                repo.store_dir.joinpath(NOTES, name).unlink(missing_ok=True)


def _may_go(pack: Path) -> bool:

    from gitcp.git import multipack  # every save loads this module, and few keep house

    if pack.with_suffix(".keep").exists() or pack.name in multipack.listed(pack.parent):
        return False
    return pack.exists()


def _index(repo: Repository, pack: Path) -> PackIndex:
    return PackIndex(pack.with_suffix(".idx"), repo.object_format)


def _replace(repo: Repository, packs: list[Path]) -> None:
    """Join these packs; delete each once the new one contains all its objects."""
    names = {path: set(_index(repo, path).names()) for path in packs}
    new = _packed(repo, set().union(*names.values()))
    index = _index(repo, new)
    for path in packs:
        if path != new and all(name in index for name in names[path]) and _may_go(path):
            _remove(path)


def _packed(repo: Repository, names: Iterable[bytes]) -> Path:
    """Return the path of a new, verified pack with these objects. Raises GitFailed."""
    base = _objects(repo) / "pack" / "pack"
    asked = "".join(f"{name.hex()}\n" for name in names).encode("ascii")
    made = repo.git(*FORM, "pack-objects", "-q", str(base), input=asked).decode("ascii").strip()
    pack = base.with_name(f"pack-{made}.pack")
    repo.git("verify-pack", str(pack.with_suffix(".idx")))
    sync_directory(pack.parent)
    note(repo, pack)
    return pack


@contextmanager
def alone(repo: Repository) -> Iterator[bool]:
    """Yield whether no other process is doing housekeeping; none starts before the block ends."""
    notes = repo.store_dir / NOTES
    make_own_directory(notes)
    descriptor = os.open(notes, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            nobody = True
        except BlockingIOError:
            nobody = False
        yield nobody
    finally:
        os.close(descriptor)


def _objects(repo: Repository) -> Path:
    return repo.common_dir / "objects"


def _probed(repo: Repository) -> int:
    try:
        return len(os.listdir(_objects(repo) / PROBED))
    except OSError:
        return 0


def _left(repo: Repository) -> int:
    try:
        return int(read_own(repo.common_dir / "gitcp" / NOTES / LEFT))
    except (OSError, ValueError):
        return 0


def _noted(repo: Repository) -> list[str]:
    try:
        return [
            name for name in os.listdir(repo.common_dir / "gitcp" / NOTES) if name.endswith(".pack")
        ]
    except OSError:
        return []
