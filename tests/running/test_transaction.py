"""`with checkpoints.transaction(…)`: a block that fails leaves the files as they were, wherever it
is killed.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import programs
import pytest
from thorough import cases, sample

import gitcp
from gitcp.api.checkpoints import Checkpoints
from gitcp.errors import GitcpError, RevisionNotFound

from driver import Project

"""So far apart are the places where it is killed; 1 tries them all, 0 some five."""


@pytest.fixture
def checkpoints(project: Project) -> Checkpoints:
    """The API of a project with a commit and an untracked file."""
    project.write("a.txt", "one\n")
    project.commit()
    project.write("b.txt", "two\n")
    return gitcp.open(project.root)


def lines(project: Project, name: str) -> list[str]:
    """The lines of a file outside of the project."""
    path = project.root.parent / name
    return path.read_text().splitlines() if path.exists() else []


def effects(project: Project) -> list[str]:
    """What compensations wrote."""
    return lines(project, "effects")


def test_success(checkpoints: Checkpoints, project: Project) -> None:
    """A block that ends well is one checkpoint before and one after."""
    with (
        project.guard(),
        checkpoints.transaction("work", session="s", compensate=["echo no >> ../effects"]),
    ):
        project.write("a.txt", "done\n")

    assert [s.subject for s in checkpoints.log("s")] == ["work", "before work"]
    assert project.read("a.txt") == b"done\n"
    assert effects(project) == []


def test_failure(checkpoints: Checkpoints, project: Project) -> None:
    """The exception goes on; the files are back, the compensations were run, and what failed is
    written down.
    """
    files = project.files()
    block = checkpoints.transaction("work", session="s", compensate=["echo first >> ../effects"])

    def work() -> None:
        with block as transaction:
            project.write("a.txt", "half\n")
            project.write("new/c.txt", "new\n")
            project.remove("b.txt")
            transaction.compensate("echo second >> ../effects")
            raise ValueError("the disk is on fire")

    with project.guard(), pytest.raises(ValueError, match="on fire"):
        work()

    assert project.files() == files
    assert effects(project) == ["second", "first"]
    assert block.failure is not None
    assert [outcome.effect.outcome for outcome in block.failure.outcomes] == ["done", "done"]
    last = checkpoints.show("s")
    assert last.note.handoff.failed == ("work failed: ValueError: the disk is on fire",)
    assert checkpoints.show(":/failed").run is not None


def test_failure_kept(checkpoints: Checkpoints, project: Project) -> None:
    """Without rollback the files stay, and nothing is compensated."""

    def work() -> None:
        with checkpoints.transaction("work", rollback=False, compensate=["echo x >> ../effects"]):
            project.write("a.txt", "half\n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()

    assert project.read("a.txt") == b"half\n"
    assert effects(project) == []
    assert checkpoints.show("@").note.handoff.failed == ("work failed: KeyboardInterrupt",)


def test_nested(checkpoints: Checkpoints, project: Project) -> None:
    """An inner failure goes back to the inner beginning; an outer one takes what succeeded inside
    along.
    """

    def inner(name: str) -> None:
        with checkpoints.transaction(name, session="s", compensate=[f"echo {name} >> ../effects"]):
            project.write(f"{name}.txt", name)
            if name == "bad":
                raise ValueError(name)

    def outer() -> None:
        with checkpoints.transaction("outer", session="s"):
            inner("good")
            with pytest.raises(ValueError, match="bad"):
                inner("bad")
            assert project.read("good.txt") == b"good"
            assert not project.root.joinpath("bad.txt").exists()
            raise OSError("late")

    files = project.files()
    with pytest.raises(OSError, match="late"):
        outer()

    assert project.files() == files
    assert effects(project) == ["bad", "good"]


@pytest.mark.parametrize("name", ["s", None, "other"])
def test_results_go_back(checkpoints: Checkpoints, project: Project, name: str | None) -> None:
    """Results and positions recorded in a block that fails go back with its files, whichever
    session the block belongs to: a retry does these steps again. Those from before stay.
    """
    session = checkpoints.session("s")
    session.step("early", lambda: project.write("early.txt", "1\n"))
    session.save(position={"record": 1})
    done: list[str] = []

    def late() -> None:
        done.append("late")
        project.write("late.txt", "2\n")

    def work(*, fail: bool) -> None:
        with checkpoints.transaction("work", session=name):
            session.step("early", lambda: done.append("early"))
            session.step("late", late)
            session.save(position={"record": 2})
            if fail:
                raise ValueError("it broke")

    with pytest.raises(ValueError, match="it broke"):
        work(fail=True)
    assert not project.root.joinpath("late.txt").exists()
    assert session.position == {"record": 1}
    work(fail=False)

    assert done == ["late", "late"]
    assert project.read("late.txt") == b"2\n"
    assert session.position == {"record": 2}
    assert not list(Path(project.git_dir, "gitcp/runs").iterdir())


def test_new_session_goes_back(checkpoints: Checkpoints, project: Project) -> None:
    """A session that began in a block that fails has no results afterwards; inner blocks that
    succeeded go back with the outer one.
    """
    session = checkpoints.session("new")

    def work() -> None:
        with checkpoints.transaction("outer", session="s"):
            with checkpoints.transaction("inner", session="s"):
                session.step("one", lambda: project.write("one.txt", "1\n"))
            raise ValueError("late")

    with pytest.raises(ValueError, match="late"):
        work()

    assert not project.root.joinpath("one.txt").exists()
    with pytest.raises(RevisionNotFound):
        session.step("one")


CHILD = """
import gitcp
from pathlib import Path
gitcp.open(".").session("steps").step("one", lambda: Path("one.txt").write_text("1"))
"""

KILLED_WITH_CHILD = """
    import subprocess
    with checkpoints.transaction("work", session="s"):
        subprocess.run([sys.executable, "-P", "-c", sys.argv[1]], check=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_results_go_back_after_a_kill(checkpoints: Checkpoints, project: Project) -> None:
    """A program that is killed in a block finds neither its files nor its results, also where a
    child process recorded them.
    """
    programs.run(project, KILLED_WITH_CHILD, CHILD, code=-9)
    assert checkpoints.session("steps").step("one") == 1

    with checkpoints.transaction("next", session="s"):
        pass

    assert not project.root.joinpath("one.txt").exists()
    with pytest.raises(RevisionNotFound):
        checkpoints.session("steps").step("one")


@pytest.mark.faults
def test_failing_compensation(checkpoints: Checkpoints, project: Project) -> None:
    """A compensation that fails or hangs is reported; the others are run and the files go back all
    the same.
    """
    files = project.files()
    commands = ["echo last >> ../effects", "sleep 100", "echo x > a.txt; exit 3"]
    block = checkpoints.transaction("work", session="s", compensate=commands, limit=4)

    def work() -> None:
        with block:
            raise ValueError("it broke")

    with pytest.raises(ValueError, match="it broke"):
        work()

    assert block.failure is not None
    assert [outcome.effect.outcome for outcome in block.failure.outcomes] == [
        "failed",
        "timeout",
        "done",
    ]
    assert effects(project) == ["last"]
    assert project.files() == files, "what a compensation did to the files stayed"


def test_not_begun(checkpoints: Checkpoints) -> None:
    """A transaction that is not used with `with` says so."""
    with pytest.raises(GitcpError, match="has not started"):
        checkpoints.transaction("x").compensate("true")


def test_asyncio(checkpoints: Checkpoints, project: Project) -> None:
    """The same around awaited things, when it is cancelled too."""
    files, begun = project.files(), asyncio.Event()

    async def work() -> None:
        found = await gitcp.aopen(project.root)
        async with found.transaction("work", session="s") as transaction:
            await transaction.compensate("echo undone >> ../effects")
            project.write("a.txt", "half\n")
            begun.set()
            await asyncio.sleep(100)

    async def main() -> None:
        task = asyncio.create_task(work())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert project.files() == files
    assert effects(project) == ["undone"]


KILLED = """
    at, seen = int(sys.argv[1]), 0

    def counted(name):
        plain = getattr(os, name)
        def call(*args, **named):
            global seen
            # What is only read changes nothing: that was half of the places.
            if name != "open" or args[1] & (os.O_WRONLY | os.O_RDWR):
                seen += 1
                if seen == at:
                    os.kill(os.getpid(), signal.SIGKILL)
            return plain(*args, **named)
        setattr(os, name, call)

    for name in ("fsync", "replace", "rename", "unlink", "open", "mkdir", "link", "close"):
        counted(name)
    try:
        with checkpoints.transaction("work", session="s", compensate=["echo outer >> ../effects"]) as outer:
            Path("../begun").write_text("outer\\n")
            Path("a.txt").write_text("half")
            with checkpoints.transaction("inner", session="s", compensate=["echo inner >> ../effects"]):
                Path("../begun").write_text("outer\\ninner\\n")
                Path("new.txt").write_text("new")
                Path("b.txt").unlink()
            checkpoints.session("steps").step("one", lambda: Path("one.txt").write_text("1"))
            raise ValueError("it failed")
    except ValueError:
        pass
    print(seen)
"""  # noqa: E501


PARTS = 16
"""All places take longer than one test may."""


@pytest.mark.faults
@pytest.mark.parametrize("part", cases(map(str, range(PARTS)), 2))
def test_killed_anywhere(checkpoints: Checkpoints, project: Project, part: str) -> None:
    """Killed at any place, finished by the next: the files are as they were, no result is left of
    the step that wrote one, each compensation was run exactly once, and the store is whole. What
    recovers is killed as well.
    """
    assert checkpoints.save(session="s", force=True).saved
    files = project.files()
    places = int(programs.run(project, KILLED, "0"))
    killed = 0
    assert places > 100
    tried = sample(range(3 + int(part), places, PARTS), 3)
    for place in tried:
        for name in ("effects", "begun"):
            project.root.parent.joinpath(name).unlink(missing_ok=True)
        process = programs.start(project, KILLED, str(place))
        programs.ended(process, code=None)
        # no two runs are quite alike: the last may be through before
        killed += process.returncode == -9
        programs.ended(programs.start(project, RECOVERED, str(place)), code=None)
        programs.run(project, RECOVERED, "0")

        begun = lines(project, "begun")
        assert project.files() == files, place
        assert not checkpoints.session("steps").plan().steps, place
        # Killed between the beginning and the first thing that is done, it is compensated without
        # need.
        assert lines(project, "effects") in (
            [*reversed(begun)],
            ["inner", *reversed(begun)],
            ["outer"],
        ), place
    assert killed > len(tried) // 2
    assert checkpoints.check().ok
    assert not list(Path(project.git_dir, "gitcp/runs").iterdir())


RECOVERED = (
    KILLED.partition("    try:")[0]
    + """
    from gitcp.running import transaction
    transaction.recover(checkpoints.store())
"""
)
