"""Every figure of docs/reliability.md, found by trying. Each takes long; parts of them are in
tests/faults/test_faults.py.

    python tests/faults/run.py PART

    calls                        every command, killed and failed at every call
    calls --kind kill            only killed
    calls --scene push --every 5 one command, at every fifth call
    restores --kills 500         kills inside restores of 500 files
    kills --saves 5000 --kills 1000         kills at any moment
    disk                         a disk that is full, or cannot be written to
    damage                       every object damaged in turn
    crowd --savers 16 --saves 100           many at a time
    life --saves 20000           a long life
    differential --operations 10000 --seed 1    random operations, judged from outside
    fleet --savers 50 --worktrees 20 --saves 4  many agents at once
    worktrees --worktrees 20 --saves 10000      worktrees come and go
    soak --saves 1000 --files 10000         watched, beside edits and kills
    soak --tree DIR --saves 10000 --per-kill 150   the same in a tree that exists
    churn --saves 10000 --seed 1            watched, directories exchanged, moved, mounted over

GITCP_TEST_KIND is the kind of repository (tests/support/kinds.py).
Prints one row a figure. Ends with 1 if anything that is promised did not hold, and says what.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parents[1]
sys.path[:0] = [str(HERE / "support"), str(HERE), str(HERE.parent)]

# only now can they be found
from kinds import DEFAULTS  # noqa: E402

from faults import (  # noqa: E402
    churn,
    crowd,
    damage,
    differential,
    disk,
    fleet,
    kills,
    life,
    process,
    soak,
    tracer,
)
from faults.commands import LARGE, SCENES  # noqa: E402
from faults.scenes import KINDS, Stage, can_happen  # noqa: E402
from faults.tracer import Call  # noqa: E402

from driver import Project  # noqa: E402

STOPS = (1000, 5000, 10_000)
DAMAGED = "save many"
"""Whose project's objects are damaged."""

CHANGING_NOTHING = ("utimensat", "fsync", "fdatasync")
"""After these no byte and no name is other than before."""

ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_EDITOR": "false",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
}


def seal() -> None:
    """Nothing of this machine's settings is in the way. Repositories are of the kind that
    GITCP_TEST_KIND names.
    """
    for name in set(os.environ) - {"GITCP_TEST_KIND", "PATH", "TMPDIR"}:
        del os.environ[name]
    os.environ.update(ENVIRONMENT | DEFAULTS)
    os.umask(0o022)


def say(line: str) -> None:
    """Print a line at once: a run takes long."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory that is home meanwhile, and gone afterwards; one in which something went wrong
    stays.
    """
    place = Path(os.path.realpath(tempfile.mkdtemp(prefix="gitcp-faults-")))
    os.environ["HOME"] = str(place)
    try:
        yield place
    except BaseException:
        say(f"left to be looked at: {place}")
        raise
    shutil.rmtree(place)


# ---------------------------------------------------------------- what is done to one scene


class Task(NamedTuple):
    """One scene and what is to be done to it: `how` is a name of HOW."""

    name: str
    how: str
    kind: str = ""
    every: int = 1
    most: int = 0
    touching: str = ""
    until: float = math.inf
    share: tuple[int, int] = (0, 1)


class Tried(NamedTuple):
    """How often each end was seen, and what was broken; nothing more is tried after a time."""

    ends: Counter[str]
    broken: list[str]
    until: float = math.inf

    def note(self, what: str, attempt: Callable[[], str]) -> None:
        """Attempt something, and note how it ended."""
        if time.monotonic() > self.until:
            self.ends["out of time"] += 1
            return
        try:
            self.ends[attempt()] += 1
        except AssertionError as error:
            self.ends["broken"] += 1
            self.broken.append(f"BROKEN: {what}: {str(error)[:2000]}")


def _at_calls(task: Task, place: Path, tried: Tried) -> None:
    """A kind of fault at every `every`-th call."""
    stage = Stage(place, SCENES[task.name], forking=True)
    for at, call in list(enumerate(stage.calls, 1))[:: task.every]:
        if (
            can_happen(stage.scene, task.kind, call)
            and task.touching in call.paths[-1]
            and not _is_same(task, stage.calls, at)
        ):
            tried.note(
                f"{task.name}, {task.kind} at call {at} ({call})",
                partial(stage.attempt, task.kind, at),
            )


def _is_same(task: Task, calls: Sequence[Call], at: int) -> bool:
    """Whether a kill would leave what a kill one call before leaves, which was tried too."""
    return (
        task.kind == "kill"
        and task.every == 1
        and at > 1
        and calls[at - 2].name in CHANGING_NOTHING
    )


def _at_some_calls(task: Task, place: Path, tried: Tried) -> None:
    """Kills and other faults by turns, at `most` calls, evenly spread; always the same ones."""
    stage = Stage(place, SCENES[task.name], forking=True)
    chance = random.Random(task.name)
    for number in range(task.most):
        first, end = (len(stage.calls) * n // task.most for n in (number, number + 1))
        at = chance.randint(first + 1, max(first + 1, end))
        possible = [
            kind
            for kind in KINDS
            if kind != "kill" and can_happen(stage.scene, kind, stage.calls[at - 1])
        ]
        kind = chance.choice(possible) if number % 2 else "kill"
        what = f"{task.name}, {kind} at call {at} ({stage.calls[at - 1]})"
        tried.note(what, partial(stage.attempt, kind, at))


def _among_files(task: Task, place: Path, tried: Tried) -> None:
    """A restore of many files, killed `most` times evenly among the calls that change files; our
    share of them.
    """
    stage = Stage(place, LARGE, forking=True)
    inside = [
        at
        for at, call in enumerate(stage.calls, 1)
        if "/project/" in call.paths[0] and "/.git/" not in call.paths[0]
    ]
    at_each = [inside[len(inside) * number // task.most] for number in range(task.most)]
    for at in at_each[task.share[0] :: task.share[1]]:
        tried.note(f"killed at call {at}", partial(stage.attempt, "kill", at))


def _on_a_disk(task: Task, place: Path, tried: Tried) -> None:
    """On a disk that is full, with some room more each time; and on one that cannot be written
    to.
    """
    with disk.small(place):
        stage = Stage(place, SCENES[task.name], forking=True)
        tried.note(f"{task.name}, read-only", partial(disk.read_only, stage, place))
        for room in disk.rooms(stage, task.every):
            tried.note(f"{task.name}, {room} blocks left", partial(disk.full, stage, place, room))


HOW = {"calls": _at_calls, "some": _at_some_calls, "restores": _among_files, "disk": _on_a_disk}


def _try(task: Task) -> Tried:
    tried = Tried(Counter(), [], task.until)
    with scratch() as place:
        HOW[task.how](task, place, tried)
    return tried


def every(tasks: list[Task], given: argparse.Namespace) -> int:
    """Do all of it in so many processes, in so many minutes. How many times a promise was
    broken.
    """
    process.load()
    broken, until = 0, time.monotonic() + 60 * given.minutes
    with ProcessPoolExecutor(given.jobs, multiprocessing.get_context("fork")) as pool:
        todo = {pool.submit(_try, task._replace(until=until)): task for task in tasks}
        for done in as_completed(todo):
            task, tried = todo[done], done.result()
            for line in tried.broken:
                say(line)
            ends = ", ".join(f"{end} {count}" for end, count in sorted(tried.ends.items()))
            say(
                f"{task.name:15} {task.kind:7} {tried.ends.total() - tried.ends['out of time']:4} "
                f"tried: {ends}"
            )
            broken += len(tried.broken)
    return broken


# ---------------------------------------------------------------- the parts


def calls(given: argparse.Namespace) -> int:
    """Put faults into commands. How many times a promise was broken, as with all that follow."""
    if tracer.unusable():
        say(f"faults cannot be put in here: {tracer.unusable()}")
        return 1
    names = given.scene or list(SCENES)
    if given.most:
        return every([Task(name, "some", most=given.most) for name in names], given)
    kinds = given.kind or list(KINDS)
    tasks = [
        Task(name, "calls", kind, given.every, touching=given.touching)
        for kind in kinds
        for name in names
    ]
    return every(tasks, given)


def restores(given: argparse.Namespace) -> int:
    """Kill restores of many files."""
    shares = [(job, given.jobs) for job in range(given.jobs)]
    tasks = [
        Task("many files", "restores", "kill", most=given.kills, share=share) for share in shares
    ]
    return every(tasks, given)


def disks(given: argparse.Namespace) -> int:
    """Use a file system of our own. In a namespace of our own, where we may make one."""
    if not given.alone:
        sys.exit(subprocess.call([*disk.ALONE, sys.executable, *sys.argv, "--alone"]))
    return every(
        [Task(name, "disk", every=given.every) for name in given.scene or list(SCENES)], given
    )


def killings(given: argparse.Namespace) -> int:
    """Kill saves at any moment."""
    process.load()
    with scratch() as place:
        one = kills.Killing(place, given.seed)
        try:
            one.go_on(given.saves, given.kills, time.monotonic() + 60 * given.minutes)
            one.insist()
        except AssertionError as error:
            say(f"BROKEN: {str(error)[:2000]}")
            return 1
        finally:
            say(
                f"{one.saves} saves, {one.kills} killed, {len(one.reported)} reported; "
                f"the next took {one.longest:.1f} s at most, usually {one.usual:.1f} s"
            )
    return 0


def damages(given: argparse.Namespace) -> int:
    """Damage every object of a store, loose and packed."""
    process.load()
    missed = 0
    with scratch() as place:
        stage = Stage(place, SCENES[DAMAGED], forking=True)
        for name, found in (
            ("loose", damage.loose(stage, given.every)),
            ("packed", damage.packed(stage, given.every)),
        ):
            for line in found.missed:
                say(f"BROKEN: {line[:2000]}")
            tried = ", ".join(f"{way} {count}" for way, count in sorted(found.tried.items()))
            say(f"{name:8} {found.tried.total()} tried: {tried}; missed {len(found.missed)}")
            missed += len(found.missed)
    return missed


def crowds(given: argparse.Namespace) -> int:
    """Let many save at a time: into one session; then into several beside git, restores, prunes and
    an agent.
    """
    with scratch() as place:
        project = Project(place / "project")
        talk = crowd.begin(project)
        broken = _crowd("one session", project, ["one"] * given.savers, given.saves, [])
        names = ["one", "two", "three", talk.session[:8]] * (given.savers // 4)
        return broken + _crowd(
            "beside all", project, names, given.saves, crowd.everything(project, talk, [])
        )


def _crowd(
    name: str, project: Project, sessions: list[str], saves: int, beside: list[crowd.Beside]
) -> int:
    done = crowd.save_all(project, sessions, saves, beside)
    wanted = len(sessions) * saves
    say(
        f"{name:14} {len(sessions)} processes x {saves}: {len(done.ids)} of {wanted}, longest "
        f"{done.longest:.1f} s"
    )
    try:
        crowd.insist(project, done, wanted)
        assert beside or crowd.numbers(project, sessions[0]) == list(range(1, wanted + 1))
    except AssertionError as error:
        say(f"BROKEN: {name}: {str(error)[:2000]}")
        return 1
    return 0


def lives(given: argparse.Namespace) -> int:
    """Let agents save for a long time, and look now and then."""
    process.load()
    try:
        with scratch() as place:
            _live(life.Life(place), given.saves)
    except AssertionError as error:
        say(f"BROKEN: {str(error)[:2000]}")
        return 1
    return 0


def _live(one: life.Life, saves: int) -> None:
    for row in one.live(saves, tuple(stop for stop in STOPS if stop < saves)):
        say(
            f"{row.saves:6} saves: {row.held:5} held, {row.kib:6} KiB; processor time: save "
            f"{row.save:.0f} ms, "
            f"list {row.listing:.0f} ms, python {row.python:.0f} ms"
        )
    say(f"{len(one.saves())} of {saves} saves were done")
    one.insist()


def fleets(given: argparse.Namespace) -> int:
    """Let many agents in many worktrees save at once."""
    process.load()
    with scratch() as place:
        many = fleet.Fleet(place)
        began = time.monotonic()
        waits = many.save_at_once(given.savers, given.worktrees, given.saves)
        say(
            f"{given.savers} agents, {given.worktrees} worktrees: {waits.saves} saves in "
            f"{time.monotonic() - began:.1f} s; waited for others: median {waits.median:.3f} s, "
            f"95 of 100 {waits.usual:.3f} s, longest {waits.longest:.3f} s"
        )
        return _judge(many)


def worktrees(given: argparse.Namespace) -> int:
    """Let worktrees come and go."""
    process.load()
    with scratch() as place:
        many = fleet.Fleet(place)
        began = time.monotonic()
        many.come_and_go(given.worktrees, given.saves, given.minutes)
        saved, gone = many.lines("saves"), time.monotonic() - began
        trees = len({id.partition("@")[0] for id in saved})
        say(
            f"{len(saved)} saves in {trees} worktrees, {given.worktrees} at a time, in {gone:.0f} s"
        )
        return _judge(many)


def _judge(many: fleet.Fleet) -> int:
    try:
        many.insist()
    except AssertionError as error:
        say(f"BROKEN: {str(error)[:2000]}")
        return 1
    return 0


def soaks(given: argparse.Namespace) -> int:
    """Save beside edits in a watched tree, and compare each checkpoint with what git sees."""
    process.load()
    broken, began = 0, time.monotonic()
    with scratch() as place:
        project = given.tree or place / "project"
        one = soak.Soak(
            project, given.files, given.seed, paranoid=given.paranoid, per_kill=given.per_kill
        )
        for wrong in one.run(given.saves, say, 60 * given.minutes):
            broken += 1
            say(f"BROKEN: {wrong}")
            if given.tree:
                break  # what it looks like is kept
        say(
            f"{one.saves} saves of {len(one.directories)} directories in "
            f"{time.monotonic() - began:.0f} s, {one.watched} by the word of the same watcher, "
            f"which was killed {one.kills} times"
        )
    return broken


def churns(given: argparse.Namespace) -> int:
    """Let directories of a watched tree change places, and compare each checkpoint with what git
    sees. In a mount namespace of our own, where we may make one.
    """
    alone = ["unshare", "--map-root-user", "--mount", "--propagation", "private"]
    if not given.alone and subprocess.call([*alone, "true"]) == 0:
        sys.exit(subprocess.call([*alone, sys.executable, *sys.argv, "--alone"]))
    if not given.alone:
        say("mounts: not tried, this user may not make any")
    broken, began = 0, time.monotonic()
    with scratch() as place:
        one = churn.Churn(place, given.seed, mounting=given.alone)
        for wrong in one.run(given.saves, say, 60 * given.minutes):
            broken += 1
            say(f"BROKEN: {wrong}")
        say(
            f"seed {given.seed}: {one.saves} saves after {one.acts} changes in "
            f"{time.monotonic() - began:.0f} s, {one.narrow} by the word of the watcher, which was "
            f"killed {one.kills} times"
        )
    return broken


def differentials(given: argparse.Namespace) -> int:
    """Let one seed after another live, and judge every operation from outside."""
    lives = math.ceil(given.operations / differential.OPERATIONS)
    until = time.monotonic() + 60 * given.minutes
    process.load()
    broken, ends = 0, Counter[str]()
    with ProcessPoolExecutor(given.jobs, multiprocessing.get_context("fork")) as pool:
        seeds = range(given.seed, given.seed + lives)
        for lived in pool.map(
            differential.lived, seeds, [until] * lives, [given.operations] * lives
        ):
            ends += lived.ends
            broken += bool(lived.broken)
            say(f"seed {lived.seed}: {lived.broken or 'whole'}")
    say(differential.table(ends))
    return broken


PARTS: dict[str, Callable[[argparse.Namespace], int]] = {
    "calls": calls,
    "restores": restores,
    "kills": killings,
    "disk": disks,
    "damage": damages,
    "crowd": crowds,
    "life": lives,
    "differential": differentials,
    "fleet": fleets,
    "worktrees": worktrees,
    "soak": soaks,
    "churn": churns,
}


def main() -> int:
    """Parse, try, and say how it went."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=list(PARTS))
    parser.add_argument("--scene", action="append", choices=list(SCENES), default=[])
    parser.add_argument("--kind", action="append", choices=list(KINDS), default=[])
    parser.add_argument(
        "--every", type=int, default=1, help="only every so many calls, objects, blocks"
    )
    parser.add_argument(
        "--most", type=int, default=0, help="only so many calls, with faults of all kinds"
    )
    parser.add_argument("--touching", default="", help="only calls on a path with this text")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="try nothing more after so long"
    )
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--operations", type=int, default=10_000, help="of gitcp, in lives of fifty"
    )
    parser.add_argument("--savers", type=int, default=16)
    parser.add_argument("--saves", type=int, default=100)
    parser.add_argument("--worktrees", type=int, default=20)
    parser.add_argument("--files", type=int, default=10_000, help="of a soak")
    parser.add_argument("--tree", type=Path, help="a repository to soak, which is edited and kept")
    parser.add_argument(
        "--per-kill", type=int, default=soak.PER_KILL, help="saves of a soak for one kill"
    )
    parser.add_argument("--paranoid", action="store_true", help="a soak compares all looks")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    seal()
    broken = PARTS[given.part](given)
    say(f"{broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
