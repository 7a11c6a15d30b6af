"""Which packs git finds objects of by an index of many packs (`git multi-pack-index`, `git
maintenance`).

Such a pack is not to be taken away by anybody but git: the index, and the bitmap that belongs to
it, go by all of them.
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
    """The names of the packs, as `pack-….pack`, that an index of many in this directory goes by."""
    chain = directory / "multi-pack-index.d"
    places = [directory / "multi-pack-index", *sorted(chain.glob("*.midx"))]
    return {
        os.fsdecode(name).removesuffix(".idx") + ".pack"
        for place in places
        for name in _names(place)
    }


def _names(place: Path) -> list[bytes]:
    try:
        with place.open("rb") as file:
            signature, _, _, chunks, _, _ = HEADER.unpack(file.read(HEADER.size))
            table = [CHUNK.unpack(file.read(CHUNK.size)) for _ in range(chunks + 1)]
            for (chunk, start), (_, end) in pairwise(table):
                if signature == b"MIDX" and chunk == NAMES:
                    file.seek(start)
                    return [name for name in file.read(max(0, end - start)).split(b"\0") if name]
    except (FileNotFoundError, NotADirectoryError, struct.error):
        pass  # there is none, or it is none that git reads
    return []
