"""Effects of steps outside of the files: undone, newest first, before a step runs again; and
results that are no JSON: known before the step runs where its type says so, else done once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest
from pydantic import BaseModel

import gitcp
from gitcp.api.step import unfit_return
from gitcp.errors import BadValue, GitcpError, Refused

from driver import Project

GRAPH = {"1": (), "5": ("1",), "8": ("1",), "9": ("5",), "12": ("9", "8")}

UNDONE: list[tuple[str, Any]] = []


def refund(key: str, result: Any) -> None:
    """Undo an effect; what it got is in UNDONE."""
    UNDONE.append((key, result))
    if result == "broken":
        raise RuntimeError("no refund")


class Run:
    """A program of the steps of GRAPH, each with an effect that a command undoes."""

    def __init__(self, project: Project) -> None:
        self.session = gitcp.open(project.root).session("plan")
        self.undone_file = project.root.parent / "undone"
        self.price = dict.fromkeys(GRAPH, 0)
        self.ran: list[str] = []

    def __call__(self, failing: str = "") -> list[str]:
        self.ran, results = [], dict[str, int]()
        for name, depends in GRAPH.items():

            def work(name: str = name, depends: tuple[str, ...] = depends) -> int:
                self.ran.append(name)
                if name == failing:
                    raise RuntimeError(name)
                return self.price[name] + sum(results[each] for each in depends)

            results[name] = self.session.step(
                name,
                work,
                inputs=self.price[name],
                depends=depends,
                compensate=f"echo {name} >> ../undone",
            )
        return self.ran

    def undone(self) -> list[str]:
        """What was undone since the last look."""
        if not self.undone_file.exists():
            return []
        lines = self.undone_file.read_text().split()
        self.undone_file.unlink()
        return lines


@pytest.fixture
def run(project: Project) -> Run:
    """The program, which has run once."""
    project.write("a.txt", "a\n")
    project.commit()
    run = Run(project)
    assert run() == list(GRAPH)
    return run


def test_newest_first(run: Run) -> None:
    """A step that changes is undone after what depends on it; the plan shows that before."""
    run.price["5"] = 7

    plan = run.session.plan({"5": 7})
    assert str(plan).splitlines()[:3] == [
        "undo        12: echo 12 >> ../undone",
        "undo        9: echo 9 >> ../undone",
        "undo        5: echo 5 >> ../undone",
    ]
    assert [each["name"] for each in plan.to_json()["compensations"]] == ["12", "9", "5"]
    assert run.undone() == []
    assert (run(), run.undone()) == (["5", "9", "12"], ["12", "9", "5"])
    assert (run(), run.undone()) == ([], [])


def test_after_a_failure(run: Run) -> None:
    """What failed may have had its effect: that is undone before it runs again, once."""
    run.price["9"] = 1
    with pytest.raises(RuntimeError):
        run(failing="12")
    assert (run.ran, run.undone()) == (["9", "12"], ["12", "9"])
    assert str(run.session.plan()).splitlines()[0] == "undo        12: echo 12 >> ../undone"

    assert (run(), run.undone()) == (["12"], ["12"])
    assert (run(), run.undone()) == ([], [])


def test_in_a_transaction(run: Run, project: Project) -> None:
    """A transaction that fails undoes the effects of its steps, and their results are as before."""
    run.price["8"] = 3
    checkpoints = gitcp.open(project.root)
    with pytest.raises(RuntimeError), checkpoints.transaction("again", session="plan"):
        run(failing="12")

    assert run.ran == ["8", "12"]
    assert run.undone() == ["12", "8", "12", "8"]  # the old ones, then those of this run


def test_a_compensation_that_fails(project: Project) -> None:
    """It is told, with what it printed; nothing runs; and it is not tried again."""
    session = gitcp.open(project.root).session("s")
    session.step("a", lambda: 1, compensate="echo no way; exit 3")
    session.invalidate("a")

    with pytest.raises(GitcpError, match=r"exited with 3: step 'a' was not run \(no way\)"):
        session.step("a", lambda: 2, compensate="true")
    assert session.step("a", lambda: 2, compensate="true") == 2


def test_functions(project: Project) -> None:
    """A function is found again by its name, and gets the key and the result; no other is taken."""
    UNDONE.clear()
    checkpoints = gitcp.open(project.root)
    session = checkpoints.session("s")
    for price in (1, 2):
        id = f"id {price}"
        session.step("pay", partial(str, id), key="ada", inputs=price, compensate=refund)
    assert UNDONE == [("ada", "id 1")]
    for other in (lambda key, result: None, Run.undone.__get__(Run)):
        with pytest.raises(BadValue, match="cannot be found again"):
            session.step("other", lambda: 1, compensate=other)

    (effect, *_) = checkpoints.effects(session="s")
    assert effect.command == f"python:{__name__}:refund"
    refused = project.gitcp("run", "--compensations", "--run", effect.key, "--session", "s")
    assert "a function of another program: nothing was run" in refused.err
    (outcome,) = checkpoints.compensate(session="s", keys=effect.key)
    assert (outcome.effect.outcome, UNDONE[1:]) == ("done", [("ada", "id 2")])
    assert checkpoints.compensate(session="s") == ()
    with pytest.raises(Refused, match="has already run"):
        checkpoints.compensate(session="s", keys=effect.key)
    assert session.plan().affected == (("pay", "ada"),)  # its effect is gone

    session.step("bad", lambda: "broken", compensate=refund)
    (failed,) = checkpoints.compensate(session="s")
    assert failed.effect.outcome == "failed"
    assert failed.run is not None
    assert "no refund" in failed.run.output


def test_another_function(project: Project) -> None:
    """A step's own function is called only if the program still passes it."""
    UNDONE.clear()
    session = gitcp.open(project.root).session("s")
    session.step("pay", lambda: 1, inputs=1, compensate=refund)
    last = session.last

    for other in (None, "true"):
        with pytest.raises(Refused, match=r"refund, which the program does not pass"):
            session.step("pay", lambda: 2, inputs=2, compensate=other)
    assert (UNDONE, session.last) == ([], last)
    assert session.step("pay", lambda: 2, inputs=2, compensate=refund) == 2
    assert UNDONE == [("", 1)]


def test_fork(project: Project) -> None:
    """A fork undoes what it did itself, and nothing of the session that it came from."""
    project.write("a.txt", "a\n")
    project.commit()
    checkpoints, undone = gitcp.open(project.root), project.root.parent / "undone"
    parent = checkpoints.session("parent")
    parent.step("deploy", lambda: 1, inputs=1, compensate="echo parent >> ../undone")
    checkpoints.fork(session="parent", name="mine")
    fork = checkpoints.session("mine")

    assert fork.plan({"deploy": 2}).compensations == ()
    assert fork.step("deploy", lambda: 2, inputs=2, compensate="echo fork >> ../undone") == 2
    assert not undone.exists()
    assert [each.command for each in checkpoints.effects(session="mine")] == [
        "echo fork >> ../undone"
    ]
    (outcome,) = checkpoints.compensate(session="mine")
    assert (outcome.effect.id.session, undone.read_text()) == ("mine", "fork\n")
    assert [each.outcome for each in checkpoints.effects(session="parent")] == [None]
    assert parent.step("deploy", lambda: 1 / 0, inputs=1) == 1
    parent.step("deploy", lambda: 3, inputs=3)
    assert undone.read_text() == "fork\nparent\n"


@pytest.mark.parametrize("name", ["mine", "sess"])
def test_fork_of_somebody_else(project: Project, name: str) -> None:
    """A command that another user recorded is not run in a fork, also one of the same name."""
    project.write("a.txt", "a\n")
    project.commit()
    theirs = gitcp.open(project.root)
    theirs.session("sess").step("deploy", lambda: 1, inputs="v1", compensate="touch ran")
    bundle = project.root.parent / "a.bundle"
    project.gitcp("export", "sess", "--output", str(bundle), check=0)
    other = Project(project.root.parent / "other")
    other.gitcp("import", str(bundle), check=0)
    other.gitcp("fork", "imported/sess", "--trust", "--name", name, check=0)
    checkpoints = gitcp.open(other.root)
    session = checkpoints.session(name)

    assert session.plan({"deploy": "v2"}).compensations == ()
    assert session.step("deploy", lambda: 2, inputs="v2") == 2
    assert checkpoints.effects(session=name) == ()
    assert checkpoints.compensate(session=name) == ()
    assert other.json("compensate", "--list", "--session", name)["compensations"] == []
    assert not (other.root / "ran").exists()


def test_asyncio(project: Project) -> None:
    """The same for a coroutine."""
    UNDONE.clear()

    async def pay() -> int:
        return 5

    async def twice() -> None:
        session = (await gitcp.aopen(project.root)).session("s")
        for inputs in (1, 2):
            assert await session.step("pay", pay, inputs=inputs, compensate=refund) == 5

    asyncio.run(twice())
    assert UNDONE == [("", 5)]


# ---------------------------------------------------------------- results that are no JSON


@dataclass
class Point:
    """A record of a program's."""

    x: int
    y: int


class Order(BaseModel):
    """A model, which has types of its own."""

    day: date
    lines: list[str]


CODED: dict[str, tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "date": (date(2026, 2, 3), date.isoformat, date.fromisoformat),
    "path": (Path("a/b"), str, Path),
    "dataclass": (Point(1, 2), asdict, lambda fields: Point(**fields)),
    "model": (
        Order(day=date(2026, 2, 3), lines=["a"]),
        lambda model: model.model_dump(mode="json"),
        Order.model_validate,
    ),
}


@pytest.mark.parametrize("kind", CODED)
def test_coded(project: Project, kind: str) -> None:
    """A result of another type comes back as one, in this call and in later ones."""
    value, encode, decode = CODED[kind]
    session = gitcp.open(project.root).session("s")

    first = session.step("a", lambda: value, encode=encode, decode=decode)
    assert first == session.step("a", lambda: 1 / 0, encode=encode, decode=decode) == value
    assert session.step("a", decode=decode) == value


class _Named(Protocol):
    name: str


HINTS: dict[str, Any] = {
    "date": date,
    "Path": Path,
    "Point": Point,
    "bytes": bytes,
    "list": list[date],
    "dict": dict[int, str],
    "set": set[int],
}


@pytest.mark.parametrize("name", HINTS)
def test_known_before(project: Project, name: str) -> None:
    """A function that says that it returns what is no JSON is not run."""

    def work() -> Any:
        raise AssertionError

    work.__annotations__["return"] = HINTS[name]
    session = gitcp.open(project.root).session("s")

    with pytest.raises(BadValue, match=r"step 'a' returns .* not a JSON value: nothing was run"):
        session.step("a", work)
    assert session.last is None


@pytest.mark.parametrize(
    "hint",
    [
        *(int, str | None, list[int], dict[str, Any], tuple[int, ...], Mapping[str, int]),
        *(Any, object, _Named, date | None, list, None),
    ],
    ids=str,
)
def test_may_be_json(hint: Any) -> None:
    """What may be JSON is run: only the value tells."""

    def work() -> Any: ...

    work.__annotations__["return"] = hint
    assert unfit_return(work) is None


def test_done_once(project: Project) -> None:
    """A step whose value turns out to be no JSON was done: that is recorded, and always told."""
    session, ran = gitcp.open(project.root).session("s"), list[int]()

    def work() -> object:
        ran.append(1)
        return {1: "a key that is a number"}

    with pytest.raises(BadValue, match="the step was done, but its result is not kept"):
        session.step("a", work)
    for read in (work, None):
        with pytest.raises(Refused, match="it is not done again"):
            session.step("a", read)
    with pytest.raises(BadValue, match="encode of step 'b' raised ValueError"):
        session.step("b", work, encode=lambda _: int("x"))
    assert str(session.plan()).splitlines() == [
        "skip        a: it was done, and its result was not kept",
        "skip        b: it was done, and its result was not kept",
    ]
    session.invalidate("a")
    assert session.step("a", work, encode=len) == 1
    assert len(ran) == 3
