"""One bit turned, one file cut or gone, at every object of a store in turn: `check` says so, and
whom it affects.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from faults.scenes import Stage

from driver import Project

WAYS = ("bit", "cut", "gone")
PLACES = 3
"""At so many places a bit is turned in each object of a pack."""


class Found(NamedTuple):
    """How often each way was tried, and what was not found or not named."""

    tried: Counter[str]
    missed: list[str]


def needs(project: Project) -> dict[str, set[str]]:
    """Every object that a checkpoint is made of, as git lists them, with the checkpoints."""
    found: dict[str, set[str]] = {}
    format = (
        "--format=%H %(trailers:key=Gitcp-Session,valueonly,separator=) @ "
        "%(trailers:key=Gitcp-Number,valueonly)"
    )
    for line in project.git("log", "--glob=refs/gitcp/*", format).split("\n\n"):
        commit, session, _, number = line.split()
        for below in project.git("rev-list", "--objects", "--no-walk", commit).splitlines():
            found.setdefault(below.split()[0], set()).add(f"{session}@{number}")
    return found


def loose(stage: Stage, every: int) -> Found:
    """Damage every `every`-th object in each way, all of them loose."""
    stage.project.loosen()
    found, chance = Found(Counter(), []), random.Random(1)
    for oid, needed in sorted(needs(stage.project).items())[::every]:
        path = stage.project.git_dir / "objects" / oid[:2] / oid[2:]
        for way in WAYS:
            _try(stage, path, way, chance.randrange(path.stat().st_size), found, needed)
    return found


def packed(stage: Stage, every: int) -> Found:
    """Turn bits in every `every`-th object of a pack, and cut it there; the same with its index;
    let both be gone.
    """
    stage.project.git("repack", "-a", "-d", "--quiet")
    found, chance, needed = Found(Counter(), []), random.Random(1), needs(stage.project)
    [index] = (stage.project.git_dir / "objects/pack").glob("*.idx")
    pack = index.with_suffix(".pack")
    listed = [
        line.split() for line in stage.project.git("verify-pack", "-v", str(index)).splitlines()
    ]
    rows = [(row[0], int(row[3]), int(row[4])) for row in listed if row[0] in needed]
    for oid, size, start in rows[::every]:
        for way in ("bit",) * PLACES + ("cut",):
            _try(stage, pack, way, start + chance.randrange(size), found, needed[oid])
    for place in range(0, index.stat().st_size, 97 * every):
        _try(stage, index, "bit", place, found, set())
    for path in (pack, index):
        _try(stage, path, "gone", 0, found, set().union(*needed.values()))
    return found


def _try(stage: Stage, path: Path, way: str, place: int, found: Found, needed: set[str]) -> None:
    found.tried[way] += 1
    with damaged(path, way, place):
        said = stage.project.gitcp("check", "--json")
    problems = json.loads(said.out)["problems"] if said.code == 13 else []
    named = {id for problem in problems for id in problem["checkpoints"]}
    # Of a session whose last commit cannot be read nobody knows the number.
    missing = {id for id in needed if id not in named and id.partition("@")[0] + "@" not in named}
    if not problems or missing:
        found.missed.append(f"{way} at {place} of {path.name}, needed by {sorted(needed)}: {said}")


@contextmanager
def damaged(path: Path, way: str, place: int) -> Iterator[None]:
    """A file that is damaged, and whole again afterwards."""
    data, mode = path.read_bytes(), path.stat().st_mode
    path.unlink()
    if way != "gone":
        turned = bytes([data[place] ^ 1 << place % 8])
        path.write_bytes(
            data[:place] if way == "cut" else data[:place] + turned + data[place + 1 :]
        )
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        os.chmod(path, mode)
