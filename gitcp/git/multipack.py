"""The packs that git's multi-pack index refers to (`git multi-pack-index`, `git maintenance`).

Only git may delete such a pack: the index, and its bitmap, depend on all of them.
"""

from __future__ import annotations

import os
import struct
from itertools import pairwise
from pathlib import Path

HEADER = struct.Struct(">4s4BI")
CHUNK = struct.Struct(">4sQ")
NAMES = b"PNAM"


def listed(directory: Path) -> set[str]:
    """Return the names of the packs, as `pack-….pack`, that a multi-pack index in this directory
    refers to.
    """
    chain = directory / "multi-pack-index.d"
    paths = [directory / "multi-pack-index", *sorted(chain.glob("*.midx"))]
    return {
        os.fsdecode(name).removesuffix(".idx") + ".pack" for path in paths for name in _names(path)
    }


def _names(path: Path) -> list[bytes]:
    try:
        with path.open("rb") as file:
            signature, _, _, chunks, _, _ = HEADER.unpack(file.read(HEADER.size))
            table = [CHUNK.unpack(file.read(CHUNK.size)) for _ in range(chunks + 1)]
            for (chunk, start), (_, end) in pairwise(table):
                if signature == b"MIDX" and chunk == NAMES:
                    file.seek(start)
                    return [name for name in file.read(max(0, end - start)).split(b"\0") if name]
    except (FileNotFoundError, NotADirectoryError, struct.error):
        pass  # missing, or not readable for git either
    return []
