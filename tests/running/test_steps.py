"""Steps and positions: what was done once is not done again, whoever crashes, and however many come
at once.
"""

from __future__ import annotations

import signal
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import programs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gitcp
from gitcp.errors import BadValue, Refused, RevisionNotFound
from gitcp.model import StepName
from gitcp.state import steps

from driver import Project

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture
def session(project: Project) -> gitcp.Session:
    """A session of a project with one commit."""
    project.write("a.txt", "one\n")
    project.commit()
    return gitcp.open(project.root).session("work")


@given(JSON)
def test_results_come_back(value: Any) -> None:
    """Any JSON value is given back as it was, the first time as every other."""
    assert steps.decode(steps.encode(StepName("a", "b"), value)) == value


@pytest.mark.parametrize(
    "value", [b"bytes", {1: 2}, float("nan"), {"a": {1, 2}}, [object()], Path("x")]
)
def test_no_json(session: gitcp.Session, value: Any) -> None:
    """A result that JSON would not give back is refused, and the step counts as done."""
    with pytest.raises(BadValue, match="is not a JSON value: the step was done"):
        session.step("odd", lambda: value)
    with pytest.raises(Refused, match="was done, and its result was not kept"):
        session.step("odd")


def test_done_once(session: gitcp.Session, project: Project) -> None:
    """A step is done the first time; its result and the files it wrote are in one checkpoint."""
    calls: list[int] = []

    def work() -> dict[str, int]:
        calls.append(1)
        project.write("made.txt", "made\n")
        return {"rows": 3}

    with project.guard():
        first = session.step("load", work, key="2026-11-21")
    again = gitcp.open(project.root).session("work")

    assert [
        first,
        again.step("load", work, key="2026-11-21"),
        again.step("load", key="2026-11-21"),
    ] == [{"rows": 3}] * 3
    assert calls == [1]
    assert again.opened.store().tip("work")
    assert gitcp.open(project.root).file("work@1", "made.txt") == b"made\n"
    assert again.step("load", work, key="other") == {"rows": 3}
    assert len(calls) == 2


def test_names_and_keys(session: gitcp.Session) -> None:
    """Name and key are told apart, and so are sessions."""
    for number, (name, key) in enumerate(
        [("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc"), ("a\0b", "c"), ("é", "/")]
    ):
        assert session.step(name, partial(int, number), key=key) == number
    assert session.step("a", key="bc") == 1
    with pytest.raises(RevisionNotFound):
        gitcp.open(session.opened.root).session("other").step("a", key="bc")


def test_results_in_the_tree(session: gitcp.Session, project: Project) -> None:
    """Plain git finds a result where docs/format.md says that it is."""
    session.step("load", lambda: [1, "two"], key="k")
    digest = steps.place(StepName("load", "k"))
    path = f"refs/gitcp/sessions/work:.gitcp/steps/{digest[0]}/{digest[1]}/{digest[2]}/{digest[3:]}.json"  # noqa: E501

    assert project.git("show", path) == '{"name":"load","key":"k","result":[1,"two"]}'
    assert project.json("check")["ok"]


def test_failed_step_is_not_recorded(session: gitcp.Session) -> None:
    """What raised an error is done again."""
    with pytest.raises(ZeroDivisionError):
        session.step("divide", lambda: 1 / 0)

    assert session.step("divide", lambda: 1) == 1
    assert list(session.opened.store().repo.store_dir.joinpath("steps").iterdir()) == []


def test_steps_go_back(session: gitcp.Session, project: Project) -> None:
    """A restore brings back the results of its checkpoint with the words; one of files alone leaves
    them.
    """
    checkpoints = gitcp.open(project.root)
    session.step("one", lambda: 1)
    session.step("two", lambda: 2)

    checkpoints.restore("work@1", conversation=False)
    assert session.step("two") == 2
    project.write("a.txt", "changed\n")
    checkpoints.restore("work@1")
    assert session.step("one") == 1
    with pytest.raises(RevisionNotFound):
        session.step("two")
    checkpoints.undo()
    assert session.step("two") == 2


def test_threads_share_a_step(session: gitcp.Session) -> None:
    """Of threads that come to one step, one does it; different steps get along; a step may have
    steps inside.
    """
    calls: list[int] = []
    found: list[Any] = []

    def slow() -> int:
        calls.append(1)
        time.sleep(0.1)
        return session.step("inner", lambda: 5)

    def work(number: int) -> None:
        found.append(session.step("slow", slow))
        found.append(session.step("own", lambda: number, key=str(number)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert calls == [1]
    assert sorted(found) == sorted([5] * 6 + list(range(6)))
    assert gitcp.open(session.opened.root).check().ok


def test_processes_share_a_step(session: gitcp.Session, project: Project) -> None:
    """The same between processes; one that is killed while it does the step leaves it to the
    next.
    """
    log = project.root.parent / "log"
    program = """
        def work():
            with open(sys.argv[1], "a") as log:
                log.write("begun\\n")
            time.sleep(float(sys.argv[2]))
            return os.getpid()
        print(checkpoints.session("work").step("shared", work))
    """
    first = programs.start(project, program, str(log), "100")
    deadline = time.monotonic() + 60
    while not log.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    others = [programs.start(project, program, str(log), "0") for _ in range(3)]
    first.send_signal(signal.SIGKILL)
    first.communicate()
    results = {programs.ended(process) for process in others}

    assert len(results) == 1
    assert log.read_text() == "begun\n" * 2


def test_position(session: gitcp.Session, project: Project) -> None:
    """A position is read back by the program and by the command line, and stays until it is said
    anew.
    """
    assert session.position == {}
    with session:
        session.save("here", position={"record": 7_000_000, "file": "part-07.csv"})
        project.write("a.txt", "two\n")

    assert session.position == {"record": 7000000, "file": "part-07.csv"}
    assert session.last is not None
    assert session.last.id.number == 2
    assert project.gitcp("show", "@", "--position", "record", check=0).out == "7000000\n"


def test_block_that_fails(session: gitcp.Session, project: Project) -> None:
    """A session's block that fails saves nothing and changes nothing."""

    def block() -> None:
        with session:
            project.write("a.txt", "two\n")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        block()

    assert session.last is None
    assert project.read("a.txt") == b"two\n"


def test_resume(session: gitcp.Session, project: Project) -> None:
    """Resuming brings the files to the last position; what a crash left is saved, and passed over
    the next time.
    """
    assert session.resume() is None
    session.save("at 1", position={"record": 1})
    project.write("a.txt", "half\n")
    project.write("half.txt", "half\n")
    # Killed right after the safety checkpoint of the first attempt:
    gitcp.open(project.root).save(session="work", trigger="before-restore")
    project.write("a.txt", "half again\n")

    with project.guard():
        report = session.resume()

    assert report is not None
    assert str(report.target.id) == "work@2"
    assert project.read("a.txt") == b"one\n"
    assert not Path(project.root, "half.txt").exists()
    assert session.position == {"record": 1}
    again = session.resume()
    assert again is not None
    assert again.checkpoint is None
