"""Sessions of a team on a remote: how long a list takes, and fetching one of them.

The remote is a real one, over HTTP (`git http-backend`) and over ssh (a script in ssh's place), and
holds so many sessions of three checkpoints. Processor time is that of gitcp and all git processes,
the server's included: on a machine with nothing else to do, the command takes about as long. The
bounds are held against it.

Run it with `PYTHONPATH=tests/support python tests/benchmarks/sharing.py` (`--sessions 10000`).
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from git_server import serving
from interface import furnish

from gitcp.sharing.remote_refs import shard

LIST, FETCH = 2.0, 3.0
"""Seconds that a list and one session may take."""

SSH = """#!/bin/sh
while [ "$1" = -o ]; do shift 2; done
shift  # the host
exec sh -c "$*"
"""


def main() -> None:
    """Print a row for each command."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--sessions", type=int, default=10_000)
    count = parser.parse_args().sessions
    with tempfile.TemporaryDirectory() as scratch:
        for row in rows(Path(scratch), count):
            sys.stdout.write(row + "\n")
            sys.stdout.flush()


def rows(scratch: Path, count: int) -> Iterator[str]:
    """Yield what each command took."""
    env = environment(scratch)
    with serving(scratch / "served") as server:
        hub = server.create("hub.git")
        owner = scratch / "owner"
        furnish(owner, 3, count, env)
        share(owner, hub, env)
        gitcp(owner, env, "remote", "hub", server.url("hub.git"))
        yield row(
            "write the catalogue of all", gitcp(owner, env, "push", "hub", "--session", "long")
        )
        for name, url in (("HTTP", server.url("hub.git")), ("ssh", f"ssh://somewhere{hub}")):
            yield from reading(scratch / f"from {name}", name, url, env)


def reading(repo: Path, name: str, url: str, env: Mapping[str, str]) -> Iterator[str]:
    """Yield what a list and a fetch take over one protocol."""
    subprocess.run(["git", "init", "-q", repo], check=True, env=env)
    gitcp(repo, env, "remote", "hub", url)
    for what, most, args in (
        ("list, the first", LIST, ("--list", "--json")),
        ("list, again", LIST, ("--list", "--json")),
        ("one session", FETCH, ("s007",)),
    ):
        yield row(f"{what}, {name}", gitcp(repo, env, "fetch", "hub", *args), most)


def share(owner: Path, hub: Path, env: Mapping[str, str]) -> None:
    """Put the owner's sessions on the remote, where gitcp puts them: pushed by gitcp, they take ten
    minutes for each thousand.
    """
    listed = git(owner, env, "for-each-ref", "--format=%(objectname) %(refname)")
    git(hub, env, "fetch", "--quiet", str(owner), "refs/gitcp/sessions/*:refs/x/*")
    lines = [f"delete refs/x/{name}" for _, name in names(listed)]
    lines += [f"create refs/gitcp/shared/{shard(name)}/{name} {oid}" for oid, name in names(listed)]
    text = "\n".join([*lines, ""])
    subprocess.run(
        ["git", "update-ref", "--stdin"], cwd=hub, env=env, input=text, text=True, check=True
    )
    git(hub, env, "pack-refs", "--all")


def names(listed: str) -> list[tuple[str, str]]:
    """Return the tip and the name of each session."""
    return re.findall(r"^(\S+) refs/gitcp/sessions/(\S+)$", listed, re.MULTILINE)


def environment(scratch: Path) -> dict[str, str]:
    """Return an environment with an empty home and the ssh of this benchmark."""
    ssh, home = scratch / "ssh", scratch / "home"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    home.mkdir()
    return {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_SSH_COMMAND": str(ssh)}


def git(repo: Path, env: Mapping[str, str], *args: str) -> str:
    """Return what git prints."""
    return subprocess.run(
        ["git", *args], cwd=repo, env=env, check=True, capture_output=True, text=True
    ).stdout


def gitcp(repo: Path, env: Mapping[str, str], *args: str) -> tuple[float, float]:
    """Run gitcp. Return the seconds that passed, and those of the processor."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "gitcp", *args], cwd=repo, env=env, check=True, capture_output=True
    )
    passed, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return passed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def row(name: str, taken: tuple[float, float], most: float | None = None) -> str:
    """Return a line of the table."""
    passed, processor = taken
    verdict = (
        "" if most is None else f"  bound {most:.0f} s" + ("" if processor <= most else "  MISSED")
    )
    return f"{name:30} {passed:7.2f} s, processor {processor:6.2f} s{verdict}"


if __name__ == "__main__":
    main()
