"""What the API returns travels: it is pickled, copied, and written as the JSON that the command
prints. What has open files says that it does not.
"""

from __future__ import annotations

import asyncio
import copy
import pickle
from typing import Any

import pytest

import gitcp
from gitcp import wire

from driver import Project

TALK = b'{"role":"user","content":"hello"}\n'

SHOWN = ("changes", "memory", "tokens")
"""What only the command prints: it is read from the store."""


@pytest.fixture
def checkpoints(project: Project) -> gitcp.Checkpoints:
    """A project of two checkpoints and unsaved changes."""
    project.write("a.txt", "one\n")
    project.commit()
    checkpoints = gitcp.open(project.root)
    checkpoints.save("first", session="s", conversation=TALK, tags="good", facts={"k": "v"})
    project.write("b.txt", "new\n")
    checkpoints.save("second", session="s", compensate="dropdb x")
    project.write("a.txt", "two\n")
    return checkpoints


def printed(project: Project, *command: str, drop: tuple[str, ...] = ()) -> Any:
    """What a command prints for programs, but for `schema` and what only the command looks for."""
    document = project.json(*command)
    return {key: value for key, value in document.items() if key not in {"schema", *drop}}


def test_the_same_json(project: Project, checkpoints: gitcp.Checkpoints) -> None:
    """`to_json` of each result is what `--json` of the command prints of it."""
    plan = checkpoints.plan("s@1")
    assert plan.to_json() == printed(project, "restore", "s@1", "--dry-run")
    assert checkpoints.show("s@1").to_json() == printed(project, "show", "s@1", drop=SHOWN)
    (session,) = checkpoints.sessions()
    assert session.to_json() == printed(project, "sessions", drop=("current", "tokens"))
    assert checkpoints.check().to_json() == printed(
        project, "doctor", "--store", drop=("conversations",)
    )
    pruning = checkpoints.plan_prune(gitcp.Policy(last=1))
    assert pruning.to_json() == printed(project, "delete", "--old", "--keep-last", "1", "--dry-run")
    reverting = checkpoints.plan_revert("s@2")
    assert reverting.to_json() == printed(project, "revert", "s@2", "--dry-run")
    (change,) = checkpoints.diff("s@2")
    assert change.to_json() == printed(project, "diff", "s@2", drop=("tables", "state", "problem"))
    third = checkpoints.save("third", session="s")
    again = printed(project, "save", "--session", "s")
    assert {**third.to_json(), "saved": False, "reason": again["reason"]} == again
    assert third.to_json()["checkpoint"]["tags"] == []


def test_reports(project: Project, checkpoints: gitcp.Checkpoints) -> None:
    """A report says what the command does, with the conversation and what was not undone."""
    report = checkpoints.restore("s@1").to_json()
    checkpoints.undo()
    other = printed(project, "restore", "s@1", "--yes")

    assert report["written"] == other["written"] == ["a.txt"]
    assert report["effects"] == other["effects"] == ["dropdb x"]
    assert report["conversation"] == other["conversation"]
    assert report.keys() == other.keys()
    fork = checkpoints.fork("s@1", name="f").to_json()
    assert (fork["session"], fork["forked_from"]) == ("f", "s@1")


def test_travel(checkpoints: gitcp.Checkpoints, project: Project) -> None:
    """Each is equal to what comes out of a pickle, and to its copy, and is JSON."""
    results: list[Any] = [
        checkpoints.show("s@1"),
        checkpoints.plan("s@1"),
        checkpoints.log()[0],
        checkpoints.diff("s@2")[0],
        checkpoints.sessions()[0],
        checkpoints.check(),
        checkpoints.plan_revert("s@2"),
        checkpoints.plan_prune(),
        checkpoints.restore("s@1"),
        checkpoints.save("more", session="s"),
        checkpoints.fork("s@1", name="f"),
        checkpoints.prune(gitcp.Policy(last=1)),
        checkpoints.session("s").plan(),
        failed(checkpoints),
    ]

    for result in results:
        assert pickle.loads(pickle.dumps(result)) == result
        assert copy.deepcopy(result) == result
        assert wire.loads(wire.dumps(result.to_json())) == result.to_json()


def failed(checkpoints: gitcp.Checkpoints) -> gitcp.Failure:
    transaction = checkpoints.transaction("risky", compensate="true")
    with pytest.raises(RuntimeError), transaction:
        raise RuntimeError
    assert transaction.failure is not None
    assert transaction.failure.to_json()["compensations"][0]["outcome"] == "done"
    return transaction.failure


def test_what_does_not_travel(checkpoints: gitcp.Checkpoints, project: Project) -> None:
    """An open repository says that the other process is to open it; `with` closes it."""
    for opened in (checkpoints, checkpoints.session("s"), gitcp.AsyncCheckpoints(checkpoints)):
        for travel in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError, match=r"call gitcp\.open\(path\) there"):
                travel(opened)
    with gitcp.open(project.root) as opened_here:
        assert opened_here.show("s@1") == checkpoints.show("s@1")

    async def awaited() -> None:
        async with await gitcp.aopen(project.root) as opened:
            assert await opened.show("s@1") == checkpoints.show("s@1")

    asyncio.run(awaited())
