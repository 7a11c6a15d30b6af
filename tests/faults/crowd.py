"""Many processes at one store: gitcp saving, restoring and pruning, git tidying and committing, an
agent writing.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from talk import Talk

from gitcp.lifecycle.check import check

from driver import Project, Result
from samples import open_store

Beside = Callable[[int], object]
"""Something that goes on beside the saves, over and over; it is told how often it was done before.
"""


class Saves(NamedTuple):
    """What a crowd of savers was told: the ids that were reported, and what failed. `longest` is in
    seconds.
    """

    ids: list[str]
    failed: list[Result]
    longest: float


def save_all(
    project: Project, sessions: Sequence[str], count: int, beside: Sequence[Beside] = ()
) -> Saves:
    """Let one process a session named (a name may come often) save `count` times, while the rest
    goes on.
    """
    stop = threading.Event()
    others = [threading.Thread(target=_go_on, args=(one, stop)) for one in beside]
    for other in others:
        other.start()
    try:
        with ThreadPoolExecutor(len(sessions)) as pool:
            parts = list(
                pool.map(
                    lambda saver: _save(project, saver, sessions[saver], count),
                    range(len(sessions)),
                )
            )
    finally:
        stop.set()
        for other in others:
            other.join()
    return Saves(
        [id for part in parts for id in part.ids],
        [result for part in parts for result in part.failed],
        max(part.longest for part in parts),
    )


def _save(project: Project, saver: int, session: str, count: int) -> Saves:
    ids, failed, longest = [], [], 0.0
    for number in range(count):
        project.write(f"of/{saver}", f"{saver} has saved {number} times\n")
        began = time.monotonic()
        done = project.gitcp("save", f"{saver}.{number}", "--session", session, "--force", "--json")
        longest = max(longest, time.monotonic() - began)
        if done.code == 0:
            ids.append(json.loads(done.out)["checkpoint"]["id"])
        else:
            failed.append(done)
    return Saves(ids, failed, longest)


def _go_on(one: Beside, stop: threading.Event) -> None:
    turn = 0
    while not stop.is_set():
        one(turn)
        turn += 1
        stop.wait(0.1)  # beside the saves, not instead of them


def tidying(project: Project) -> list[Beside]:
    """git's own housekeeping."""
    commands = ("gc", "--quiet"), ("repack", "-a", "-d", "--quiet"), ("pack-refs", "--all")
    return [lambda turn: project.git(*commands[turn % len(commands)], check=False)]


def committing(project: Project) -> list[Beside]:
    """A user who commits, switches branches and rebases, in the same working tree."""

    def work(turn: int) -> None:
        project.write("own", f"the user's {turn}\n")
        project.git("add", "own", check=False)
        project.git("commit", "--quiet", "--message", f"of {turn}", check=False)
        project.git("switch", "--quiet", "--force-create", f"side-{turn % 3}", check=False)
        project.git("rebase", "--quiet", "main", check=False)
        project.git("switch", "--quiet", "main", check=False)

    return [work]


def talking(talk: Talk) -> list[Beside]:
    """An agent that writes its transcript, a line at a time and sometimes half of one."""

    def write(turn: int) -> None:
        talk.say(f"turn {turn}")
        with talk.path.open("ab") as file:
            file.write(b'{"type": "half of')
            file.flush()
            file.write(b' a line"}\n')

    return [write]


def going_back(project: Project, allowed: list[Result]) -> list[Beside]:
    """Restores and prunes; what they said is kept in `allowed`."""
    commands = (
        ("restore", "kept@1", "--yes", "--files", "--", "of"),
        ("prune", "--keep-last", "3", "--session", "kept", "--yes"),
    )
    return [lambda turn: allowed.append(project.gitcp(*commands[turn % len(commands)]))]


def begin(project: Project) -> Talk:
    """A project with some files, a session `kept` to go back to, and an agent that begins to
    talk.
    """
    for number in range(10):
        project.write(f"d/{number}", f"{number}\n")
    project.commit()
    for name in ("first", "second"):
        project.gitcp("save", name, "--session", "kept", "--force", check=0)
    talk = Talk(project)
    talk.say("one", "two")
    return talk


def everything(project: Project, talk: Talk, allowed: list[Result]) -> list[Beside]:
    """All that may go on beside saves."""
    return [*tidying(project), *committing(project), *talking(talk), *going_back(project, allowed)]


def insist(project: Project, saves: Saves, expected: int) -> None:
    """Every save was done, got a number of its own, and none is missing; the store is sound."""
    assert not saves.failed, saves.failed[:3]
    assert len(saves.ids) == len(set(saves.ids)) == expected
    store = open_store(project)
    found = check(store)
    assert found.ok, found
    said = project.git("fsck", "--strict", "--no-dangling", "--no-progress")
    assert not said, said


def numbers(project: Project, session: str) -> list[int]:
    """The numbers of a session's checkpoints, from the first."""
    store = open_store(project)
    tip = store.tip(session)
    assert tip is not None
    return [one.id.number for one in store.history(tip)][::-1]
