"""Automatic retention: off until it is set, spares what matters, looks seldom, and is undone by its
number.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest
from kinds import FORMAT
from pruned import fork, holdings, in_trash, own_refs

import gitcp
from gitcp.api.checkpoints import Checkpoints
from gitcp.integrations.thread import Thread
from gitcp.lifecycle import auto_retention
from gitcp.lifecycle.check import check
from gitcp.lifecycle.stats import stats
from gitcp.model import Agent, CheckpointId, Host, State, Trigger
from gitcp.state import oplog, rewrite, tag, trash
from gitcp.store import Store

from driver import Project
from samples import START, open_store, save

DAY = timedelta(days=1)
DEADLINE = 60


def at(project: Project, time: datetime) -> Store:
    """The store as it is opened at a time."""
    store = open_store(project)
    store.repo.host = Host(store.repo.host.env, store.repo.host.home, lambda: time)
    return store


def daily(project: Project, count: int, *, size: int = 10, **fields: Any) -> Store:
    """A checkpoint a day, the last one of now; the store as it is opened then."""
    for number in range(count):
        created = START + number * DAY
        save(open_store(project), "alpha", {b"a": os.urandom(size)}, created=created, **fields)
    return at(project, START + (count - 1) * DAY)


def numbers(project: Project) -> list[int]:
    """What is left of alpha."""
    return [id.number for id in sorted(holdings(project))]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No power fails here."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def eventually(found: Callable[[], object], wanted: object) -> bool:
    """Whether what is found becomes what is wanted, which a process in the background sees to."""
    deadline = time.monotonic() + DEADLINE
    while found() != wanted:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def last(store: Store) -> CheckpointId:
    """The last checkpoint."""
    tip = store.tip("alpha")
    assert tip is not None
    return store.summary(tip).id


def test_off(project: Project) -> None:
    """Without a setting nothing is dropped and nothing is written."""
    store = daily(project, 5)

    assert auto_retention.after_save(store, last(store)) is None
    assert len(numbers(project)) == 5
    assert not project.git_dir.joinpath("gitcp/limits.json").exists()


def test_count(project: Project) -> None:
    """What is beyond the number goes, but for what has a tag or a label; undo brings it back by its
    number alone.
    """
    save(open_store(project), "alpha", label="mine", created=START - 3 * DAY)
    save(open_store(project), "alpha", label="manual: mine", created=START - 2 * DAY)
    first = save(open_store(project), "alpha", created=START - DAY)
    tag.create(open_store(project), "works", first, text=None, force=False, now=START)
    store = daily(project, 9)
    project.git("config", "gitcp.maxCheckpoints", "4")
    store = at(project, START + 8 * DAY)

    with project.guard():
        done = auto_retention.after_save(store, last(store))

    assert done is not None
    assert done.operation is not None
    assert done.operation.automatic
    assert numbers(project) == [1, 2, 3, 9, 10, 11, 12]
    assert check(open_store(project)).ok
    assert len({**in_trash(project), **holdings(project)}) == 12
    assert project.gitcp("undo").code == 12
    project.gitcp("undo", str(done.operation.number), check=0)
    assert len(numbers(project)) == 12


def test_age(project: Project) -> None:
    """What is older goes; what is younger than a day never does, whatever the limit."""
    daily(project, 9)
    project.git("config", "gitcp.maxAge", "3d")
    store = at(project, START + 8 * DAY)

    auto_retention.after_save(store, last(store))
    assert numbers(project) == [6, 7, 8, 9]

    project.git("config", "gitcp.maxAge", "1m")
    store = at(project, START + 8 * DAY)
    save(store, "alpha", created=START + 8 * DAY)
    auto_retention.after_save(at(project, START + 8 * DAY), last(store))
    assert numbers(project) == [9, 10]


def test_size(project: Project) -> None:
    """The oldest go until the rest fits, and no more than that."""
    daily(project, 8, size=20_000)
    project.git("config", "gitcp.maxSize", "75k")
    store = at(project, START + 7 * DAY)

    done = auto_retention.after_save(store, last(store))

    assert done is not None
    assert done.operation is not None
    assert numbers(project) == [6, 7, 8]
    assert stats(open_store(project)).bytes < 75 * 1024


def test_seldom(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is looked at once an hour at most, and then only if something may be beyond a
    limit.
    """
    daily(project, 3)
    project.git("config", "gitcp.maxCheckpoints", "4")
    looks: list[Store] = []
    real = rewrite.read

    def looking(store: Store, **options: Any) -> rewrite.Forest:
        looks.append(store)
        return real(store, **options)

    monkeypatch.setattr(rewrite, "read", looking)

    def saved(after: timedelta, count: int) -> int:
        looks.clear()
        for _ in range(count):
            save(open_store(project), "alpha", created=START + 2 * DAY + after)
            store = at(project, START + 2 * DAY + after)
            auto_retention.after_save(store, last(store))
        return len(looks)

    assert saved(timedelta(0), 1) == 1
    assert saved(timedelta(minutes=1), 3) == 0
    # and what is beyond a limit is judged again under the lock
    assert saved(timedelta(minutes=61), 1) == 2
    assert saved(timedelta(minutes=62), 1) == 0
    assert numbers(project) == [3, 4, 5, 6, 7, 8, 9]


def test_an_hour_later_nothing_is_beyond(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where by what was seen last nothing can be beyond a limit, an hour later nothing is looked at
    either.
    """
    daily(project, 3)
    project.git("config", "gitcp.maxCheckpoints", "100")
    project.git("config", "gitcp.maxAge", "30d")
    store = at(project, START + 2 * DAY)
    auto_retention.after_save(store, last(store))
    monkeypatch.setattr(rewrite, "read", lambda *_, **__: pytest.fail("looked"))

    store = at(project, START + 3 * DAY)
    assert auto_retention.after_save(store, last(store)) is None


@pytest.mark.parametrize("limit", ["gitcp.maxCheckpoints=2", "gitcp.maxSize=70000"])
@pytest.mark.parametrize("what", ["commit", "tree", "blob", "metadata"])
def test_a_damaged_session(project: Project, what: str, limit: str) -> None:
    """A session of which something is missing is left out, with where it was forked from; the
    others keep to the limits.
    """
    daily(project, 6, size=20_000)
    point = open_store(project).find(CheckpointId("alpha", 2))
    assert point is not None
    fork(open_store(project), "beta", open_store(project).read(point))
    for number in range(3, 7):
        beta = save(
            open_store(project), "beta", {b"b": b"%d" % number}, created=START + number * DAY
        )
    tag.create(open_store(project), "tagged", beta, text=None, force=False, now=START)
    names = {
        "commit": f"{beta.commit}~2",
        "tree": f"{beta.commit}~2^{{tree}}",
        "blob": f"{beta.commit}~2:b",
        "metadata": f"{beta.commit}~2:.gitcp/checkpoint.json",
    }
    lost = project.git("rev-parse", names[what])
    before = own_refs(project)["refs/gitcp/sessions/beta"]
    project.git_dir.joinpath("objects", lost[:2], lost[2:]).unlink()
    project.git("config", *limit.split("="))
    store = at(project, START + 6 * DAY)

    done = auto_retention.after_save(store, last(store))

    assert done is not None
    if what == "tree" and "Size" in limit:  # a newer git computes sizes without it
        assert done.plan.damaged in ((), ("beta",))
    else:  # or nothing of beta was to go
        is_noticed = "Checkpoints" in limit or what == "commit"
        assert done.plan.damaged == (("beta",) if is_noticed else ())
    sessions = open_store(project).sessions()
    left = {
        name: [n.id.number for n in open_store(project).readable(tip) if n.id.session == name]
        for name, tip in sessions.items()
    }
    if what == "commit":  # where the fork began cannot be told then, nor what it takes
        assert left["alpha"] == ([6, 5, 4] if "Size" in limit else [6, 5])
        assert sessions["beta"] == before
    else:
        assert left["alpha"] == [6, 5, 2]
        assert left["beta"] == [7, 6, 5, 4, 3]


def test_a_damaged_memo(project: Project) -> None:
    """What the last look saw may be lost or garbage: then there is a look."""
    daily(project, 5)
    project.git("config", "gitcp.maxCheckpoints", "2")
    project.write(project.git_dir / "gitcp/limits.json", '{"limits": 7, "looked": []}')
    store = at(project, START + 4 * DAY)

    auto_retention.after_save(store, last(store))

    assert numbers(project) == [4, 5]


def test_safety_and_expiry(project: Project) -> None:
    """Young safety checkpoints stay, and what was dropped long ago is forgotten on the way."""
    daily(project, 6, trigger=Trigger.BEFORE_RESTORE)
    project.git("config", "gitcp.maxCheckpoints", "1")
    store = at(project, START + 10 * DAY)
    auto_retention.after_save(store, last(store))
    assert numbers(project) == [5, 6]

    later = at(project, START + 30 * DAY)
    save(later, "alpha", created=START + 30 * DAY)
    auto_retention.after_save(at(project, START + 30 * DAY), last(later))

    assert numbers(project) == [7]
    assert len(trash.entries(open_store(project))) == 1


def test_save_says_it(project: Project) -> None:
    """What was dropped the next save says, once; a setting that cannot be read is said, and the
    save stands.
    """
    daily(project, 5)
    project.git("config", "gitcp.maxCheckpoints", "2")
    project.write("new", "file\n")

    with project.guard():
        told = project.gitcp("save", "--session", "alpha", check=0)
        assert "dropped" not in told.err
        assert eventually(lambda: numbers(project), [5, 6])

    assert oplog.entries(open_store(project).repo)[0].automatic
    project.git("config", "gitcp.maxAge", "old")
    project.write("new", "other\n")
    told = project.gitcp("save", "--session", "alpha", check=0)
    assert "saved alpha@7" in told.out
    assert "maxAge is 'old'" in told.err
    assert "dropped alpha@1-4; restore with: gitcp undo 1" in told.err
    project.write("new", "a third\n")
    assert "dropped alpha" not in project.gitcp("save", "--session", "alpha", check=0).err


def test_a_program_that_saves(project: Project) -> None:
    """`gitcp.open().save()` keeps to the limits as the command does; a limit that cannot be read
    costs no save.
    """
    store = daily(project, 9)
    checkpoints = gitcp.open(project.root, host=store.repo.host)
    project.git("config", "gitcp.maxCheckpoints", "many")
    assert checkpoints.save("unread", session="alpha", force=True).saved
    assert len(numbers(project)) == 10

    project.git("config", "gitcp.maxCheckpoints", "4")
    assert checkpoints.save("read", session="alpha", force=True).saved
    assert eventually(lambda: len(numbers(project)) < 9, True)
    assert {10, 11} <= set(numbers(project))


def test_a_look_at_damage(project: Project) -> None:
    """It is reported once, by the next save; nothing is dropped, and not every save tries again."""
    daily(project, 5)
    project.git("config", "gitcp.maxCheckpoints", "2")
    second = project.git("rev-parse", "refs/gitcp/sessions/alpha~3")
    (project.git_dir / "objects" / second[:2] / second[2:]).unlink()
    report = project.git_dir / "gitcp/dropped"
    project.write("new", "file\n")
    project.gitcp("save", "--session", "alpha", check=0)
    assert eventually(report.exists, True)

    project.write("new", "other\n")
    told = project.gitcp("save", "--session", "alpha", check=0).err
    assert "nothing was dropped from damaged sessions: alpha; run: gitcp doctor --store" in told

    assert not report.exists()
    store = open_store(project)
    store.repo.host = Host(
        store.repo.host.env, store.repo.host.home, lambda: datetime.now().astimezone()
    )
    assert not auto_retention.is_due_after(store, last(store))


WAYS: dict[str, Callable[[Project, Checkpoints], object]] = {
    "save": lambda _, opened: opened.save("new", session="alpha"),
    "session": lambda _, opened: opened.session("alpha").save("new"),
    "step": lambda _, opened: opened.session("alpha").step("work", lambda: 1),
    "transaction": lambda _, opened: transaction(opened, None),
    "failed transaction": lambda _, opened: transaction(opened, ValueError()),
    "framework": lambda _, opened: Thread(opened, "alpha", Agent("some", "x")).note(
        Trigger.TURN, {"step": "1"}
    ),
    "run": lambda project, _: project.gitcp(
        "run", "work", "--session", "alpha", "--", "true", check=0
    ),
    "failed run": lambda project, _: project.gitcp(
        "run", "work", "--session", "alpha", "--", "false", check=1
    ),
}


def transaction(opened: Checkpoints, error: Exception | None) -> None:
    """A transaction that ends so."""
    with suppress(ValueError), opened.transaction("work", session="alpha"):
        if error is not None:
            raise error


@pytest.mark.parametrize("way", WAYS)
def test_whoever_saves(project: Project, way: str) -> None:
    """What saves by another way than `gitcp save` keeps the store within the limits as well."""
    for _ in range(8):
        save(open_store(project), "alpha", created=START.replace(year=2020))
    project.git("config", "gitcp.maxCheckpoints", "4")
    project.write("a.txt", "new\n")

    WAYS[way](project, gitcp.open(project.root))

    newest = numbers(project)[-1]
    assert newest > 8
    assert eventually(lambda: numbers(project), [*range(newest - 3, newest + 1)])
    assert check(open_store(project)).ok


def test_a_state_of_a_graph(project: Project) -> None:
    """It never goes by a limit of number, age or size, nor by a rule: another one may be made up
    from it.
    """
    for _ in range(8):
        save(
            open_store(project),
            "alpha",
            created=START.replace(year=2020),
            state=State(FORMAT.empty_tree, "put/t"),
        )
    for name, limit in (
        ("gitcp.maxCheckpoints", "2"),
        ("gitcp.maxAge", "2d"),
        ("gitcp.maxSize", "1k"),
    ):
        project.git("config", name, limit)
    store = at(project, START)

    done = auto_retention.after_save(store, last(store))
    assert done is not None
    assert done.operation is None
    told = project.gitcp("prune", "--keep-last", "1", "--yes", check=0).out
    assert "every checkpoint is kept" in told
    assert numbers(project) == [*range(1, 9)]
