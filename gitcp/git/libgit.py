"""Read packed objects with libgit2, where a process lives long or has read a hundred: through a
store, an object takes 20 to 35 µs instead of 170 (3,000 files, one at a time), and no process.

Short commands do not: to import pygit2 takes 45 ms. Nor is anything else of libgit2 used: its
checkout, ignore rules and index are not git's, and a loose object that is cut off keeps libgit2
1.9.7 busy for ever. What it does not read (SHA-256, a multi-pack-index, an object that is missing
or damaged) is read by git, which also says what is wrong.
"""

from __future__ import annotations

import array
import hashlib
import mmap
import os
import struct
import sys
import threading
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from gitcp import fingerprint
from gitcp.git.loose import with_alternates
from gitcp.git.object_format import MOST_WHOLE
from gitcp.model import Oid

if TYPE_CHECKING:
    from types import ModuleType

    from pygit2 import Odb

KINDS = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}

MOST_CHECKED = 256 << 20
"""Bytes of pack indexes up to which they are checked: larger stores are read by git."""

HEADER = struct.Struct(">4sI256I")
MAGIC = (b"\xfftOc", 2)
CHECKSUM = 20
LARGE = 1 << 31
"""Bytes of a pack from which on an index has its offsets in two tables: git's to read."""


@lru_cache(maxsize=8)
def objects_in(directory: Path) -> LibgitObjects:
    """Return the objects in an objects directory, the same ones for whoever opens the repository
    again: its indexes are checked once.
    """
    return LibgitObjects(directory)


class LibgitObjects:
    """The packed objects of a repository with SHA-1 names. `directory` is its objects directory.

    Threads may share it: each has an object of libgit2's, as has a forked child.
    """

    def __init__(self, directory: Path) -> None:
        self._directories = with_alternates(directory)
        self._here = threading.local()

    def read(self, oid: Oid) -> tuple[str, bytes] | None:
        """Return an object's kind and content, whose hash is right; None if git has to read it."""
        odb = self._odb()
        if odb is None:
            return None
        try:
            kind, data = odb.read(oid)
        except Exception:  # noqa: BLE001 -- git reads it, or says what is wrong
            return None
        return KINDS[kind], data

    def small_blob(self, oid: Oid) -> bytes | None:
        """Return the content of a blob, None if git has to read it, or to stream it: libgit2 holds
        a blob as a whole.
        """
        odb = self._odb()
        try:
            if odb is None or odb.read_header(oid)[1] > MOST_WHOLE:
                return None
            kind, data = odb.read(oid)
        except Exception:  # noqa: BLE001 -- as above
            return None
        return data if KINDS[kind] == "blob" else None

    def _odb(self) -> Odb | None:
        """Return libgit2's object of this thread, anew whenever packs were written or deleted: it
        would list them itself, without the check.
        """
        packs = (fingerprint.at(f"{directory}/pack") for directory in self._directories)
        key = (os.getpid(), *packs)
        if getattr(self._here, "key", None) != key:
            self._here.odb, self._here.key = self._opened(), key
        odb: Odb | None = self._here.odb
        return odb

    def _opened(self) -> Odb | None:
        try:
            if not all(map(_is_sound, self._directories)):
                return None
            pygit2 = _imported()
            odb: Odb = pygit2.Odb()
            for directory in self._directories:
                if (directory / "pack").is_dir():
                    odb.add_backend(pygit2.OdbBackendPack(str(directory)), 1)
            return odb
        except Exception:  # noqa: BLE001 -- git reads
            return None


def _imported() -> ModuleType:
    """Import pygit2. It raises if OpenSSL finds no certificates, which an image of a container need
    not have: then it is shown a directory without any, since nothing here connects.
    """
    try:
        import pygit2
    except Exception:  # noqa: BLE001 -- GitError, which it has not exported yet
        env = os.environ  # noqa: TID251 -- where OpenSSL looks
        before = {name: env.pop(name, None) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")}
        env["SSL_CERT_DIR"] = os.path.dirname(__file__)
        try:
            import pygit2
        finally:
            del env["SSL_CERT_DIR"]
            env.update({name: value for name, value in before.items() if value is not None})
    return pygit2


def _is_sound(directory: Path) -> bool:
    """Return whether libgit2 may open the packs of an objects directory.

    libgit2 1.9.7 crashed on 6 of 210 indexes with an offset that points behind the pack, and on
    none of 540 that were damaged otherwise.
    """
    pack, size = directory / "pack", 0
    for path in pack.glob("*.idx"):
        size += path.stat().st_size
        if size > MOST_CHECKED or not _is_sound_index(path):
            return False
    return not (pack / "multi-pack-index").exists()


def _is_sound_index(path: Path) -> bool:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        magic, version, *fan_out = HEADER.unpack_from(data)
        if (magic, version) != MAGIC:
            return False
        if hashlib.sha1(data[:-CHECKSUM], usedforsecurity=False).digest() != data[-CHECKSUM:]:
            return False
        count, at = fan_out[-1], HEADER.size + fan_out[-1] * (CHECKSUM + 4)
        offsets = array.array("I", data[at : at + 4 * count])
        if sys.byteorder == "little":
            offsets.byteswap()
        end = path.with_suffix(".pack").stat().st_size - CHECKSUM
        return len(offsets) == count and end < LARGE and max(offsets, default=0) < end
