"""Two stores that a busy team fills, and what commands cost on them, in processor time.

Store A: 1,600 checkpoints of 850 files, with a conversation that grows. Store B: 10,000 checkpoints
in 300 sessions, of one small file each.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import interface
from measure import command, processed

import gitcp


class Figure(NamedTuple):
    """What a command took, and may take, in seconds of processor time."""

    name: str
    seconds: float
    limit: float


def furnish_a(repo: Path, env: Mapping[str, str], checkpoints: int = 1600) -> None:
    """Make store A with the library: three files change between two checkpoints, and two messages
    are added.
    """
    repo.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", repo], check=True, env=dict(env))
    rng = random.Random(5)
    files = [repo / f"part{number % 40}" / f"file{number}.py" for number in range(850)]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(f"line = {rng.randrange(10**6)}\n" for _ in range(40)))
    (repo / "notes.py").write_text("line = 1\n")
    words = [rng.randbytes(rng.randrange(2, 6)).hex() for _ in range(2000)]
    opened, talk = gitcp.open(repo), b""
    for number in range(checkpoints):
        for file in rng.sample(files, 3):
            with file.open("a") as out:
                out.write(f"line = {number}\n")
        for role in ("user", "assistant"):
            said = {"role": role, "content": " ".join(rng.choices(words, k=60))}
            talk += json.dumps(said).encode() + b"\n"
        opened.save(session="long", conversation=talk, agent="made-up")


def figures(program: list[str], repo: Path, name: str, env: Mapping[str, str]) -> Iterator[Figure]:
    """Time the commands on one of the stores."""

    def taken(*args: str) -> float:
        return processed(command([*program, *args], repo, env))

    whole = processed(command(["git", "fsck", "--connectivity-only"], repo, env))
    everything = ["git", "cat-file", "--batch-all-objects", "--batch"]
    whole = 2 * whole + processed(command(everything, repo, env))
    yield Figure(f"{name}: check / 2 git fsck and each object", taken("check"), whole)
    yield Figure(f"{name}: check again / the same", taken("check"), whole)
    for label in ("first", "again"):
        limit = 4.0 if label == "first" else 1.0
        yield Figure(f"{name}: secrets --all, {label}", taken("secrets", "--all"), limit)
    tracked = "notes.py"
    (repo / tracked).write_text(_last(repo, tracked, env))
    yield Figure(f"{name}: why FILE:LINE", taken("why", f"{tracked}:1", "--session", "long"), 1.0)
    yield Figure(f"{name}: prune --dry-run", taken("prune", "--dry-run"), 1.0)
    page = os.fspath(repo / ".git" / "page")
    yield Figure(f"{name}: view", taken("view", "--session", "long", "-o", page), 5.0)
    for args in (("stats",), ("sessions",), ("find", "quillwort"), ("log", "-n", "20"), ("log",)):
        yield Figure(f"{name}: {' '.join(args)}", taken(*args), 0.5)
    complete = {**env, "_GITCP_COMPLETE": "bash_complete", "COMP_WORDS": "gitcp show "}
    completion = command(program, repo, {**complete, "COMP_CWORD": "2"})
    yield Figure(f"{name}: completion of show", processed(completion), 0.5)


def _last(repo: Path, path: str, env: Mapping[str, str]) -> str:
    """The file as the last checkpoint has it, so that `why` has a line to explain."""
    done = subprocess.run(
        ["git", "cat-file", "blob", f"refs/gitcp/sessions/long:{path}"],
        cwd=repo,
        env=dict(env),
        capture_output=True,
        check=True,
        text=True,
    )
    return done.stdout


def furnished(scratch: Path, env: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Make the stores."""
    furnish_a(scratch / "store-a", env)
    yield "store A", scratch / "store-a"
    interface.furnish(scratch / "store-b", 10_000, 300, env)
    yield "store B", scratch / "store-b"
