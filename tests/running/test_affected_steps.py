"""Which steps run again after a change: exactly those it affects."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from collections.abc import Callable, Mapping
from contextvars import copy_context
from pathlib import Path
from typing import Any

import affected_steps
import injected_faults
import programs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from thorough import FULL

import gitcp
from gitcp.errors import BadValue, Refused, RevisionNotFound
from gitcp.model import StepName
from gitcp.running.steps import StepPlan, plan
from gitcp.state.steps import StepResult

from driver import SOURCE, Project


@pytest.fixture
def session(project: Project) -> gitcp.Session:
    """A session of a project with one commit."""
    project.write("a.txt", "one\n")
    project.commit()
    return gitcp.open(project.root).session("work")


class Pipeline:
    """Steps that add up their input and the results of the steps they depend on; `ran` lists those
    that ran.
    """

    def __init__(self, session: gitcp.Session, graph: Mapping[str, list[str]]) -> None:
        self.session = session
        self.graph = graph
        self.inputs = dict.fromkeys(graph, 1)
        self.ran: list[str] = []

    def run(self) -> list[str]:
        """Run the program from its start; return the steps that ran."""
        self.ran = []
        results: dict[str, int] = {}
        for name, depends in self.graph.items():
            results[name] = self.session.step(
                name, self.work(name, results), inputs=self.inputs[name], depends=depends
            )
        return self.ran

    def work(self, name: str, results: Mapping[str, int]) -> Callable[[], int]:
        def add() -> int:
            self.ran.append(name)
            return self.inputs[name] + sum(results[each] for each in self.graph[name])

        return add


def twenty() -> dict[str, list[str]]:
    """Twenty steps: 9 depends on 5, and 12 on 9."""
    names = {str(number): list[str]() for number in range(1, 21)}
    return names | {"9": ["5"], "12": ["9", "3"], "8": ["7"], "20": ["8", "19"]}


def by_name(made: StepPlan) -> dict[str, str]:
    """The verdicts of a plan that are not to skip."""
    return {
        each.step.name: f"{each.verdict.value}: {'; '.join(each.reasons)}"
        for each in made.steps
        if each.verdict.value != "skip"
    }


def test_twenty_steps(session: gitcp.Session, project: Project) -> None:
    """Of twenty steps, one with another input: it runs again, and what depends on it. The plan says
    so before.
    """
    pipeline = Pipeline(session, twenty())
    assert len(pipeline.run()) == 20
    assert pipeline.run() == []

    pipeline.inputs["5"] = 7
    with project.guard():
        made = session.plan({"5": 7})
    assert by_name(made) == {
        "5": "run: its inputs changed",
        "9": "if-changed: it depends on step '5'",
        "12": "if-changed: it depends on step '9'",
    }
    assert pipeline.run() == ["5", "9", "12"]
    assert by_name(session.plan()) == {}


def test_diamond(session: gitcp.Session) -> None:
    """In a diamond the change goes both ways, and the last step runs once."""
    pipeline = Pipeline(session, {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"], "e": []})
    pipeline.run()
    pipeline.inputs["a"] = 2

    assert pipeline.run() == ["a", "b", "c", "d"]
    pipeline.inputs["c"] = 2
    assert pipeline.run() == ["c", "d"]


def test_same_result(session: gitcp.Session) -> None:
    """A step that gets the result it had affects nothing else."""
    pipeline = Pipeline(session, {"a": [], "b": ["a"], "c": ["b"]})
    pipeline.run()

    session.invalidate("a")
    assert by_name(session.plan()) == {
        "a": "run: it was invalidated",
        "b": "if-changed: it depends on step 'a'",
        "c": "if-changed: it depends on step 'b'",
    }
    assert pipeline.run() == ["a"]
    assert pipeline.run() == []


def test_back_and_forth(session: gitcp.Session) -> None:
    """What failed before a step ran leaves that step as it was: if the change is taken back, it is
    current again.
    """
    pipeline = Pipeline(session, {"a": [], "b": ["a"]})
    pipeline.run()
    session.step("a", lambda: 5, inputs=2)
    assert by_name(session.plan()) == {"b": "run: step 'a' has another result"}
    assert by_name(session.plan({"a": 1})) == {
        "a": "run: its inputs changed",
        "b": "if-changed: it depends on step 'a'",
    }

    assert pipeline.run() == ["a"]


def test_files(session: gitcp.Session, project: Project) -> None:
    """A file that is missing or altered makes its step run again; the dependents only if it comes
    out different.
    """
    words = ["one"]
    ran: list[str] = []

    def write() -> None:
        ran.append("write")
        project.write("out/one.txt", words[0])

    def run() -> list[str]:
        ran.clear()
        session.step("write", write, files="out/one.txt")
        session.step("read", lambda: ran.append("read"), depends="write")
        return [*ran]

    assert run() == ["write", "read"]
    assert run() == []
    project.remove("out/one.txt")
    assert by_name(session.plan())["write"] == "run: out/one.txt is missing"
    assert run() == ["write"]
    project.write("out/one.txt", "bad")
    assert by_name(session.plan())["write"] == "run: out/one.txt was altered"
    assert run() == ["write"]
    assert project.read("out/one.txt") == b"one"
    words[0] = "two"
    session.invalidate("write")
    assert run() == ["write", "read"]


@pytest.mark.parametrize("name", ["no.txt", "../no.txt", "", "."])
def test_file_not_written(session: gitcp.Session, name: str) -> None:
    """A file that the step did not write, or that cannot be its own, is an error; nothing is
    recorded.
    """
    with pytest.raises(BadValue, match=r"did not write|is not a file in"):
        session.step("write", lambda: 1, files=[name])
    with pytest.raises(RevisionNotFound, match="has not run yet"):
        session.step("write")


def test_found_dependencies(session: gitcp.Session) -> None:
    """A step that a step reads while it runs is a dependency, also from another thread that runs in
    its context.
    """
    inputs = {"a": 1, "b": 1}
    ran: list[str] = []

    def note(name: str, value: int) -> int:
        ran.append(name)
        return value

    def outer() -> int:
        ran.append("outer")
        thread = threading.Thread(target=copy_context().run, args=(session.step, "b"))
        thread.start()
        thread.join()
        return session.step("a", lambda: note("a", inputs["a"]), inputs=inputs["a"])

    def run() -> list[str]:
        ran.clear()
        for name in ("b", "other"):
            session.step(name, lambda: note(name, inputs["b"]), inputs=inputs["b"])  # noqa: B023
        session.step("outer", outer, inputs=inputs["a"])
        return [*ran]

    assert run() == ["b", "other", "outer", "a"]
    assert run() == []
    inputs["b"] = 2
    assert run() == ["b", "other", "outer"]
    session.invalidate("a")
    assert run() == ["outer", "a"]


def test_threads_do_not_mix(session: gitcp.Session) -> None:
    """Steps that run at one time in several threads have each their own dependencies."""
    barrier = threading.Barrier(4)
    for number in range(4):
        session.step(f"in {number}", lambda: 1)

    def branch(number: int) -> None:
        def work() -> int:
            barrier.wait(60)
            return session.step(f"in {number}")  # type: ignore[no-any-return]

        session.step(f"out {number}", work)

    threads = [threading.Thread(target=branch, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    session.invalidate("in 2")

    assert list(by_name(session.plan())) == ["in 2", "out 2"]


def test_asyncio(project: Project, session: gitcp.Session) -> None:
    """The same for coroutines."""
    ran: list[str] = []

    async def one() -> int:
        ran.append("one")
        return 1

    async def main() -> None:
        work = (await gitcp.aopen(project.root)).session("work")

        async def two() -> int:
            ran.append("two")
            return 1 + await work.step("one", one)

        assert await work.step("two", two, inputs=1) == 2
        assert await work.step("two", two, inputs=1) == 2
        await work.invalidate("one")
        assert by_name(await work.plan()) == {
            "one": "run: it was invalidated",
            "two": "if-changed: it depends on step 'one'",
        }
        assert await work.step("two", two, inputs=1) == 2

    asyncio.run(main())
    assert ran == ["two", "one"] * 2


def test_order(session: gitcp.Session) -> None:
    """A step whose named dependency has not run, or would run again, is refused with its name; a
    step inside itself is, too.
    """
    with pytest.raises(Refused, match=r"'b' depends on step 'a', which has to run first \(it has"):
        session.step("b", lambda: 1, depends="a")
    session.step("a", lambda: 1)
    session.step("b", lambda: 1, depends=[("a", "")])
    session.invalidate("a")
    with pytest.raises(Refused, match=r"has to run first \(it was invalidated\): nothing was run"):
        session.step("b", lambda: 1, depends=["a"])
    with pytest.raises(RevisionNotFound, match="has to run again: it depends on step 'a'"):
        session.step("b")
    with pytest.raises(BadValue, match="runs inside itself"):
        session.step("c", lambda: session.step("c", lambda: 1))


@pytest.mark.parametrize("value", [b"x", {1: 2}, {"a": {1}}, float("inf"), Path("x")])
def test_inputs_that_are_not_json(session: gitcp.Session, value: Any) -> None:
    """Inputs without canonical JSON are refused before anything runs."""
    with pytest.raises(BadValue, match="the inputs of step 'a' are not a JSON value: nothing"):
        session.step("a", lambda: 1 / 0, inputs=value)
    with pytest.raises(BadValue, match="the inputs of step 'a' are not a JSON value"):
        session.plan({"a": value})


def test_equal_inputs(session: gitcp.Session) -> None:
    """Inputs are compared as values: the order of keys does not matter, nor do lists and tuples
    differ. A key makes another step.
    """
    ran: list[int] = []
    for inputs in ({"a": 1, "b": (1, 2)}, {"b": [1, 2], "a": 1}):
        session.step("a", lambda: ran.append(1), inputs=inputs)
    assert ran == [1]
    session.step("a", lambda: ran.append(2), inputs={"a": 1}, key="k")
    session.step("a", lambda: ran.append(3))
    assert ran == [1, 2, 3]

    session.invalidate("a", key="k")
    assert session.step("a") is None
    assert session.plan().affected == (StepName("a", "k"),)
    session.invalidate("a")
    assert len(session.plan().affected) == 2
    with pytest.raises(RevisionNotFound, match="session work has no step 'b': nothing was changed"):
        session.invalidate("b")


def test_plan_as_text_and_json(session: gitcp.Session) -> None:
    """A plan is a value: it is printed as lines, and is JSON."""
    assert str(session.plan()) == "session work has no steps"
    session.step("10", lambda: 1)
    session.step("9", lambda: 1, key="k", depends=["10"])
    session.invalidate("10")

    made = session.plan()
    assert str(made).splitlines() == [
        "run         10: it was invalidated",
        "if-changed  9 (k): it depends on step '10'",
    ]
    assert made.to_json() == {
        "session": "work",
        "steps": [
            {"name": "10", "key": "", "verdict": "run", "reasons": ["it was invalidated"]},
            {
                "name": "9",
                "key": "k",
                "verdict": "if-changed",
                "reasons": ["it depends on step '10'"],
            },
        ],
        "compensations": [],
    }
    assert made == session.plan()


def test_shown(session: gitcp.Session, project: Project) -> None:
    """The name and the key are what log, list, show and view call the checkpoint."""
    session.step("send", lambda: 1, key="ada\nSecond: line")
    session.step("plain", lambda: 1)

    assert [each["step"] for each in project.json_lines("log", "--session", "work")] == [
        {"name": "plain", "key": ""},
        {"name": "send", "key": "ada\nSecond: line"},
    ]
    for command in (("log",), ("list",), ("show",)):
        assert "step plain" in project.gitcp(*command, "work", check=0).out
    shown = project.gitcp("show", "work@1", check=0).out
    assert "Step:     send (ada Second: line)" in shown
    project.gitcp("view", "work", "-o", "page.html", "--no-open", check=0)
    assert b"step send (ada Second: line)" in project.read("page.html")


def test_parallel_processes(session: gitcp.Session, project: Project) -> None:
    """Branches in processes of their own: each changed branch runs again in its own, and what joins
    them once.
    """
    program = """
        import pathlib
        branch, value = sys.argv[1], int(sys.argv[2])
        def work():
            with open("../ran", "a") as ran:
                ran.write(branch + "\\n")
            pathlib.Path(branch + ".txt").write_text(str(value))
            return value
        checkpoints.session("work").step(branch, work, inputs=value, files=branch + ".txt")
    """
    ran = project.root.parent / "ran"

    def join() -> None:
        with ran.open("a") as file:
            file.write("join\n")

    def run(values: Mapping[str, int]) -> list[str]:
        ran.write_text("")
        processes = [programs.start(project, program, name, str(v)) for name, v in values.items()]
        for process in processes:
            programs.ended(process)
        session.step("join", join, depends=values)
        return sorted(ran.read_text().split())

    values = {"one": 1, "two": 2, "three": 3}
    assert run(values) == ["join", "one", "three", "two"]
    assert run(values) == []
    assert run(values | {"two": 5}) == ["join", "two"]
    project.remove("one.txt")
    assert run(values | {"two": 5}) == ["one"]


def test_failure_in_the_middle(session: gitcp.Session, project: Project) -> None:
    """In a transaction, a step that fails takes back what ran again, newest first: files, results
    and effects. The steps that were skipped keep theirs.
    """
    checkpoints = gitcp.open(project.root)
    effects = project.root.parent / "effects"
    graph = {"1": [], "5": ["1"], "9": ["5"], "12": ["9"], "13": ["1"]}
    ran: list[str] = []

    def run(value: int, *, fail: bool = False) -> list[str]:
        ran.clear()
        with checkpoints.transaction("pipeline", session="work") as transaction:

            def work(name: str) -> int:
                ran.append(name)
                transaction.compensate(f"echo {name} >> ../effects")
                project.write(f"{name}.txt", f"{value}\n")
                if fail and name == "12":
                    raise ValueError("12 failed")
                return value

            for name, depends in graph.items():
                session.step(
                    name,
                    lambda: work(name),  # noqa: B023
                    inputs=value if name == "5" else None,
                    depends=depends,
                    files=f"{name}.txt",
                )
        return [*ran]

    assert run(1) == list(graph)
    with pytest.raises(ValueError, match="12 failed"):
        run(2, fail=True)
    assert ran == ["5", "9", "12"]
    assert effects.read_text().split() == ["12", "9", "5"]
    assert [project.read(f"{name}.txt") for name in graph] == [b"1\n"] * 5
    assert run(1) == []
    assert run(2) == ["5", "9", "12"]


def test_long_chain() -> None:
    """A chain of any length is planned without recursion; a cycle, which two versions of a program
    can leave, ends.
    """
    names = [StepName(str(number)) for number in range(5000)]
    first = StepResult(names[0], b"1", invalidated=True)
    results = {names[0]: first}
    for before, name in itertools.pairwise(names):
        results[name] = StepResult(name, b"1", depends={before: results[before].checksum})
    made = plan("s", results.get, {names[-1]: None}, lambda _: None, known_inputs=())
    assert len(made.affected) == 5000

    loop = {
        n: StepResult(n, b"1", depends={m: first.checksum}) for n, m in (names[:2], names[1::-1])
    }
    assert not plan("s", loop.get, dict.fromkeys(loop), lambda _: None, known_inputs=()).affected


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[list[int]], list[int], list[tuple[int, ...]]]:
    """Dependencies on earlier steps; the number of different results of each; changes."""
    size = draw(st.integers(2, 7))
    depends = [draw(st.lists(st.integers(0, n - 1), unique=True, max_size=3)) if n else []
               for n in range(size)]  # fmt: skip
    kinds = draw(st.lists(st.integers(1, 3), min_size=size, max_size=size))
    change = st.tuples(st.integers(0, size - 1), st.integers(0, 4))
    return depends, kinds, draw(st.lists(change, min_size=1, max_size=3))


def evaluated(depends: list[list[int]], kinds: list[int], inputs: list[int]) -> list[int]:
    """The results of all steps: what running everything from scratch gives."""
    results: list[int] = []
    for number, before in enumerate(depends):
        total = inputs[number] + sum((each + 1) * results[each] for each in before)
        results.append(total % kinds[number])
    return results


@given(graphs())
@settings(
    max_examples=300 if FULL else 15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_exactly_the_affected(
    project: Project, case: tuple[list[list[int]], list[int], list[tuple[int, int]]]
) -> None:
    """In any graph and after any change, exactly the affected steps run: those that changed
    themselves, and those that use a result which is another one than before. Compared with what
    running everything from scratch gives.
    """
    depends, kinds, changes = case
    name = f"random-{len(list(Path(project.root).iterdir()))}-{os.urandom(4).hex()}"
    session = gitcp.open(project.root).session(name)
    inputs, ran = [0] * len(depends), list[int]()

    def run() -> set[int]:
        ran.clear()
        for number, before in enumerate(depends):

            def work(number: int = number, before: list[int] = before) -> int:
                ran.append(number)
                used = [(each + 1) * session.step(str(each)) for each in before]
                result = (inputs[number] + sum(used)) % kinds[number]
                project.write(f"{name}-{number}.txt", str(result))
                return result  # type: ignore[no-any-return]

            session.step(
                str(number),
                work,
                inputs=inputs[number],
                depends=[str(each) for each in before if each % 2],
                files=f"{name}-{number}.txt",
            )
        return set(ran)

    assert run() == set(range(len(depends)))
    for number, what in changes:
        old, changed = evaluated(depends, kinds, inputs), {number}
        if what == 0:
            session.invalidate(str(number))
        elif what == 1:
            project.root.joinpath(f"{name}-{number}.txt").write_text("altered")
        else:
            changed = {number} if inputs[number] != what else set()
            inputs[number] = what
        new = evaluated(depends, kinds, inputs)
        affected = changed | {
            n for n, before in enumerate(depends) if any(old[each] != new[each] for each in before)
        }
        made = session.plan({str(n): value for n, value in enumerate(inputs)})
        assert {int(each.name) for each in made.affected} >= affected
        assert {int(p.step.name) for p in made.steps if p.verdict.value == "run"} == changed
        assert run() == affected
        assert [session.step(str(n)) for n in range(len(depends))] == new


def test_figures() -> None:
    """The figures in docs/pipelines.md are those of the graphs of the benchmark."""
    page = SOURCE.joinpath("docs/pipelines.md").read_text("utf-8")
    for title, graph in affected_steps.graphs().items():
        counts = [len(affected_steps.affected(graph, name)) for name in graph]
        assert affected_steps.row(title, graph, counts) in page
    assert injected_faults.row() in page


def test_injected_faults(tmp_path: Path) -> None:
    """A real session runs the steps that the benchmark counts."""
    real = injected_faults.measured(injected_faults.Program(*injected_faults.plan(1), 0), tmp_path)

    counted = injected_faults.predicted(injected_faults.Program(*injected_faults.plan(1), 0))
    assert real.ran == counted.ran
    assert len(real.ran) < len(
        injected_faults.restarted(injected_faults.Program(*injected_faults.plan(1), 0)).ran
    )
