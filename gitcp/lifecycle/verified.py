"""What the last `check` read and found intact, so that the next one reads only the rest.

Recorded are the checkpoints, and for each pack its checksum and the objects in it that they need.
What is below a commit never changes, so a checkpoint is intact as long as its objects are. An
object is, while its pack has the checksum that it had and the bytes match it. Loose objects are
few, and are read each time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from gitcp import fingerprint, trusted_cache
from gitcp.errors import StoreDamaged
from gitcp.git import verify
from gitcp.git.fsync import replace_cache
from gitcp.git.object_format import ObjectFormat
from gitcp.git.packs import PackIndex, indexes
from gitcp.git.repo import Repository
from gitcp.value import Value

NAME = "verified"


class Verified(Value):
    """The commits (raw names) of checkpoints that were found intact. Of their objects, `intact` are
    in `packs` that have not changed since, and `stale` must be read again.
    """

    commits: frozenset[bytes] = frozenset()
    intact: frozenset[bytes] = frozenset()
    stale: frozenset[bytes] = frozenset()
    packs: frozenset[Path] = frozenset()


def load(repo: Repository) -> Verified:
    """Return what was recorded, and is still true. Reads the packs that were touched since."""
    known = trusted_cache.load(str(repo.store_dir / NAME))
    try:
        commits, loose, packs = known
        return _judged(repo.object_format, commits, loose, packs)
    except (TypeError, ValueError):
        return Verified()


def save(
    repo: Repository,
    directories: Iterable[Path],
    objects: Collection[bytes],
    commits: Iterable[bytes],
) -> None:
    """Record that these objects in the objects directories, and these checkpoints, are intact (raw
    names). A failure is ignored: all of it is read again next time.
    """
    left, packs = set(objects), []
    for directory in directories:
        for index in indexes(directory, repo.object_format):
            with suppress(OSError, StoreDamaged):
                names = left.intersection(index.names())
                left -= names
                packs.append(_described(index, names, repo.object_format))
    with suppress(OSError, ValueError):
        value = (_joined(commits), _joined(left), packs)
        replace_cache(repo.store_dir / NAME, value)


def _described(
    index: PackIndex, names: Iterable[bytes], object_format: ObjectFormat
) -> tuple[str, fingerprint.Fingerprint | None, bytes, bytes]:
    path = index.pack
    return str(path), fingerprint.at(str(path)), _checksum(path, object_format), _joined(names)


def _judged(
    object_format: ObjectFormat,
    commits: bytes,
    loose: bytes,
    packs: list[tuple[str, fingerprint.Fingerprint, bytes, bytes]],
) -> Verified:
    intact, stale, unchanged = set[bytes](), set(_split(loose, object_format)), set[Path]()
    for name, stamp, checksum, names in packs:
        path = Path(name)
        is_untouched = stamp is not None and fingerprint.at(name) == stamp
        is_same = is_untouched or _has_same_bytes(path, checksum, object_format)
        if is_same and path.with_suffix(".idx").exists():
            unchanged.add(path)
            intact.update(_split(names, object_format))
        else:
            stale.update(_split(names, object_format))
    return Verified(
        frozenset(_split(commits, object_format)),
        frozenset(intact),
        frozenset(stale - intact),
        frozenset(unchanged),
    )


def _has_same_bytes(path: Path, checksum: bytes, object_format: ObjectFormat) -> bool:
    """Return whether a pack was only touched, as those are whose objects a save uses again. A
    missing file is no pack.
    """
    try:
        return _checksum(path, object_format) == checksum and verify.is_sound(path, object_format)
    except OSError:
        return False


def _checksum(path: Path, object_format: ObjectFormat) -> bytes:
    with path.open("rb") as file:
        file.seek(-object_format.raw, 2)
        return file.read()


def _joined(names: Iterable[bytes]) -> bytes:
    return b"".join(sorted(names))


def _split(names: bytes, object_format: ObjectFormat) -> Iterator[bytes]:
    size = object_format.raw
    return (names[start : start + size] for start in range(0, len(names), size))
