"""Every figure of docs/reliability.md, found by trying: faults at every call of every changing command, and crowds.

    python tests/faults/run.py                        everything: hours
    python tests/faults/run.py calls --scene restore  one command, at every call, killed and failed in every way
    python tests/faults/run.py calls --kind kill      every command, only killed
    python tests/faults/run.py calls --every 10       at every tenth call
    python tests/faults/run.py crowd --savers 16 --saves 100    many at a time

Prints one row a figure. Ends with 1 if anything that is promised did not hold, and says what.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent)]

from faults import crowd, tracer  # noqa: E402  (only now can they be found)
from faults.scenes import KINDS, SCENES, Stage  # noqa: E402

from driver import Project  # noqa: E402

ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_EDITOR": "false",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
}


def seal() -> None:
    """Nothing of this machine's settings is in the way."""
    for name in set(os.environ) - {"PATH", "TMPDIR"}:
        del os.environ[name]
    os.environ.update(ENVIRONMENT)
    os.umask(0o022)


def say(line: str) -> None:
    """Print a line at once: a run takes long."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory that is gone afterwards."""
    place = Path(os.path.realpath(tempfile.mkdtemp(prefix="gitcp-faults-")))
    try:
        yield place
    finally:
        shutil.rmtree(place)


def calls(scenes: list[str], kinds: list[str], every: int) -> int:
    """Put each kind of fault into each command, at every call. How many times a promise was broken."""
    broken = 0
    for scene in scenes:
        with scratch() as place:
            stage = Stage(place, SCENES[scene])
            for kind in kinds:
                broken += _at_every_call(scene, stage, kind, every)
    return broken


def _at_every_call(scene: str, stage: Stage, kind: str, every: int) -> int:
    ends: Counter[str] = Counter()
    began = time.monotonic()
    for at in range(1, len(stage.calls) + 1, every):
        try:
            ends[stage.attempt(kind, at)] += 1
        except AssertionError as error:
            ends["broken"] += 1
            say(f"BROKEN: {scene}, {kind} at call {at} ({stage.calls[at - 1]}): {str(error)[:2000]}")
    tried = ", ".join(f"{end} {count}" for end, count in sorted(ends.items()))
    say(f"{scene:14} {kind:7} {len(stage.calls):4} calls: {tried}  ({time.monotonic() - began:.0f} s)")
    return ends["broken"]


def crowds(savers: int, saves: int) -> int:
    """Let many save at a time: into one session; then into several beside git, restores, prunes and an agent."""
    with scratch() as place:
        os.environ["HOME"] = str(place)
        project = Project(place / "project")
        talk = crowd.begin(project)
        broken = _crowd("one session", project, ["one"] * savers, saves, [])
        names = ["one", "two", "three", talk.session[:8]] * (savers // 4)
        return broken + _crowd("beside all", project, names, saves, crowd.everything(project, talk, []))


def _crowd(name: str, project: Project, sessions: list[str], saves: int, beside: list[crowd.Beside]) -> int:
    done = crowd.save_all(project, sessions, saves, beside)
    wanted = len(sessions) * saves
    say(f"{name:14} {len(sessions)} processes x {saves}: {len(done.ids)} of {wanted}, longest {done.longest:.1f} s")
    try:
        crowd.insist(project, done, wanted)
    except AssertionError as error:
        say(f"BROKEN: {name}: {str(error)[:2000]}")
        return 1
    return 0


def main() -> int:
    """Parse, try, and say how it went."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=["calls", "crowd"])
    parser.add_argument("--scene", action="append", choices=list(SCENES), default=[])
    parser.add_argument("--kind", action="append", choices=list(KINDS), default=[])
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--savers", type=int, default=16)
    parser.add_argument("--saves", type=int, default=100)
    given = parser.parse_args()
    seal()
    broken = crowds(given.savers, given.saves) if given.part != "calls" else 0
    if given.part == "crowd":
        return 1 if broken else 0
    if tracer.unusable():
        say(f"faults cannot be put in here: {tracer.unusable()}")
        return 1
    broken += calls(given.scene or list(SCENES), given.kind or list(KINDS), given.every)
    say(f"{broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
