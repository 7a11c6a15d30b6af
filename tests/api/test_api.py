"""The Python API: what a program does through it is what the command line does, for threads and
asyncio too.
"""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import programs
import pytest

import gitcp
from gitcp.api.checkpoints import Checkpoints
from gitcp.api.opened import Opened
from gitcp.errors import BadValue, Refused, RepositoryNotFound, RevisionNotFound
from gitcp.git import process
from gitcp.model import Agent, Handoff, Kind
from gitcp.retention import Policy
from gitcp.store import LISTED, READ_DIRECTLY
from gitcp.value import replace

from driver import Project

LINE = b'{"role":"user","content":"hello"}\n'


@pytest.fixture
def checkpoints(project: Project) -> Checkpoints:
    """The API of a project with one commit."""
    project.write("a.txt", "one\n")
    project.commit()
    return gitcp.open(project.root)


def test_prints_nothing(project: Project) -> None:
    """Saving, looking and restoring print nothing, and ask nothing."""
    project.write("a.txt", "one\n")
    project.commit()

    program = """
        checkpoints.save("one", session="s", conversation=b"hello")
        Path("a.txt").write_text("two")
        checkpoints.log(), checkpoints.show(), checkpoints.diff(), checkpoints.sessions(), checkpoints.check()
        checkpoints.restore("s")
    """  # noqa: E501
    with project.guard():
        assert programs.run(project, program) == ""


def test_results_travel(checkpoints: Checkpoints, project: Project) -> None:
    """What the API returns can be sent to another process, and copied: of a save all but what the
    scan knows, which is in an open file.
    """
    saved = checkpoints.save("one", session="s", conversation=LINE, facts={"tests": "green"})
    project.write("a.txt", "two\n")
    results = (
        saved.checkpoint,
        checkpoints.show(),
        *checkpoints.log(),
        *checkpoints.sessions(),
        checkpoints.plan_prune(Policy(last=1)),
        checkpoints.check(),
    )
    for result in results:
        assert pickle.loads(pickle.dumps(result)) == copy.deepcopy(result) == result
    plan, report = checkpoints.plan("s"), checkpoints.restore("s")
    for result in (plan, report):
        assert result.placed is not None
        other = pickle.loads(pickle.dumps(result))
        assert replace(other, placed=None) == replace(copy.deepcopy(result), placed=None)
        assert other.placed is not None
        assert other.placed.command == result.placed.command
    for travelled in (pickle.loads(pickle.dumps(saved)), copy.deepcopy(saved)):
        assert (str(travelled), travelled.checkpoint) == (str(saved), saved.checkpoint)
        assert travelled.taken.snapshot == saved.taken.snapshot


def test_no_repository(tmp_path: Path) -> None:
    """Where there is no repository, that is said at once."""
    with pytest.raises(RepositoryNotFound):
        gitcp.open(tmp_path)


def test_save_and_look(checkpoints: Checkpoints, project: Project) -> None:
    """What is saved with all its words is what `show`, `log` and the command line say."""
    with project.guard():
        saved = checkpoints.save(
            "first",
            session="nightly",
            phase="load",
            objective="all of it",
            facts={"tables": 3},
            position={"record": 7_000_000},
            handoff=Handoff("go on", decisions=("one file",)),
            compensate=["drop it"],
            tags=["start"],
            trigger="before-risky-change",
        )

    assert saved.saved
    assert checkpoints.show("start") == checkpoints.show("nightly@1")
    assert checkpoints.show("start").commit == saved.checkpoint.commit
    assert [s.subject for s in checkpoints.log()] == ["first"]
    shown = project.json("show", "start")
    assert (shown["id"], shown["position"], shown["facts"]) == (
        "nightly@1",
        {"record": "7000000"},
        {"tables": "3"},
    )
    assert (shown["phase"], shown["objective"], shown["trigger"]) == (
        "load",
        "all of it",
        "before-risky-change",
    )
    assert project.gitcp("show", "@", "--position", "record", check=0).out == "7000000\n"
    assert not checkpoints.save(session="nightly").saved


def test_what_a_save_did_is_one_line(checkpoints: Checkpoints, project: Project) -> None:
    """`print(saved)`: the id and the label, or why nothing was saved; then what was left out."""
    first = checkpoints.save("two\nlines", session="work")
    again = checkpoints.save(session="work")

    assert str(first) == 'saved work@1 "two lines"'
    assert str(again) == again.reason
    assert str(again).startswith("nothing changed")
    assert len(str(again).splitlines()) == 1
    assert again.skipped == ()
    project.write("large.bin", b"x" * (11 << 20))
    left_out = checkpoints.save(session="work", force=True)
    assert [(skip.path, skip.reason.value) for skip in left_out.skipped] == [
        (b"large.bin", "too-large")
    ]
    assert str(left_out).splitlines()[1].startswith("not saved: large.bin  (too-large")


def test_very_name(checkpoints: Checkpoints) -> None:
    """A program's session is the one it names, even where that is the beginning of another's
    name.
    """
    checkpoints.save(session="thread-10", force=True)

    assert checkpoints.save(session="thread-1", force=True).checkpoint.id == ("thread-1", 1)
    assert checkpoints.show("thread-1").id.session == "thread-1"


@pytest.mark.parametrize("name", ["", "a/b", "..", "-x", "a b", "x" * 101])
def test_bad_session(checkpoints: Checkpoints, name: str) -> None:
    """A name that can be no session's is refused before anything is written."""
    with pytest.raises(BadValue):
        checkpoints.save(session=name)
    with pytest.raises(BadValue):
        checkpoints.session(name)
    assert checkpoints.sessions() == ()


def test_pushed_conversation(checkpoints: Checkpoints, project: Project) -> None:
    """A conversation is pushed as bytes, a file, or streams by name, and comes back byte for
    byte.
    """
    file = project.root.parent / "talk.jsonl"
    file.write_bytes(LINE * 2)
    who = Agent("langgraph", "thread 1")
    streams = {"agents/one": b"\x00\xff", "main": LINE}

    one = checkpoints.save(session="s", conversation=LINE, agent="robot").checkpoint
    two = checkpoints.save(session="s", conversation=file).checkpoint
    three = checkpoints.save(
        session="s", conversation=streams, agent=who, format="jsonl"
    ).checkpoint

    assert [checkpoints.conversation(str(c.id)) for c in (one, two, three)] == [
        LINE,
        LINE * 2,
        LINE,
    ]
    assert checkpoints.conversation("s", "agents/one") == b"\x00\xff"
    assert (one.agent, two.agent, three.agent) == (Agent("robot"), None, who)
    assert three.conversation is not None
    assert [stream.name for stream in three.conversation.streams] == ["main", "agents/one"]
    assert checkpoints.check().ok


@pytest.mark.parametrize(
    "streams", [{}, {"other": b""}, {"main": b"", "../x": b""}, {"main": b"", "a/b/c": b""}]
)
def test_bad_streams(checkpoints: Checkpoints, streams: dict[str, bytes]) -> None:
    """Streams without a main one, or under names that lead elsewhere, are refused."""
    with pytest.raises(BadValue):
        checkpoints.save(session="s", conversation=streams)


def test_conversation_needs_its_session(checkpoints: Checkpoints) -> None:
    """A conversation that is pushed is not put where some agent's happens to go."""
    with pytest.raises(BadValue, match="requires session="):
        checkpoints.save(conversation=LINE)
    with pytest.raises(BadValue, match="unknown trigger"):
        checkpoints.save(trigger="boredom")


def test_restore(checkpoints: Checkpoints, project: Project) -> None:
    """A plan writes nothing; what was agreed to is done, or nothing is; undo and redo walk back and
    forth.
    """
    checkpoints.save("one", session="s")
    project.write("a.txt", "two\n")
    project.write("new.txt", "new\n")
    kinds = {change.path: change.kind for change in checkpoints.diff("s@1")}
    plan = checkpoints.plan("s@1")

    assert kinds == {b"a.txt": Kind.MODIFIED, b"new.txt": Kind.ADDED}
    assert plan
    assert project.read("a.txt") == b"two\n"
    project.write("a.txt", "three\n")
    project.write("more.txt", "more\n")
    with pytest.raises(Refused):
        checkpoints.restore("s@1", agreed=plan)
    assert project.read("a.txt") == b"three\n"
    with project.guard():
        report = checkpoints.restore("s@1", agreed=checkpoints.plan("s@1"))
        assert report.written == (b"a.txt",)
        assert project.read("a.txt") == b"one\n"
        checkpoints.undo()
        assert project.read("a.txt") == b"three\n"
        checkpoints.redo()
        assert project.read("a.txt") == b"one\n"


def test_restore_paths(checkpoints: Checkpoints, project: Project) -> None:
    """With paths, no other file changes."""
    project.write("b.txt", "one\n")
    checkpoints.save("one", session="s")
    project.write("a.txt", "two\n")
    project.write("b.txt", "two\n")

    checkpoints.restore("s@1", paths=[b"a.txt"])

    assert (project.read("a.txt"), project.read("b.txt")) == (b"one\n", b"two\n")


def test_look_inside(checkpoints: Checkpoints) -> None:
    """Files and their differences can be read without restoring anything."""
    checkpoints.save("one", session="s")
    checkpoints.root.joinpath("a.txt").write_text("two\n")
    checkpoints.save("two", session="s")

    assert checkpoints.file("s@1", "a.txt") == b"one\n"
    assert [change.path for change in checkpoints.diff("s@1", "s@2")] == [b"a.txt"]
    assert checkpoints.diff("s@2") == ()
    assert [str(s.id) for s in checkpoints.log("s@1..s@2")] == ["s@2"]
    with pytest.raises(RevisionNotFound):
        checkpoints.show("s@3")


def test_nothing_yet(checkpoints: Checkpoints) -> None:
    """Without a checkpoint a listing is empty, and what needs one says so."""
    assert (checkpoints.log(), checkpoints.sessions()) == ((), ())
    with pytest.raises(RevisionNotFound):
        checkpoints.show()
    with pytest.raises(Refused):
        checkpoints.undo()


def test_undo_after_a_delete(checkpoints: Checkpoints, project: Project) -> None:
    """The restore before a delete is not undone in its place, nor redone; the hint undoes the
    delete, and then it is.
    """
    checkpoints.save(session="gone")
    checkpoints.save(session="s")
    project.write("a.txt", "two\n")
    checkpoints.restore("s@1")
    project.gitcp("delete", "gone", "--yes", check=0)

    with pytest.raises(Refused, match="a delete, not a restore") as refused:
        checkpoints.undo()
    assert project.read("a.txt") == b"one\n"
    project.gitcp(*str(refused.value.hint).split()[1:], check=0)
    checkpoints.undo()
    assert project.read("a.txt") == b"two\n"
    checkpoints.redo()
    assert project.read("a.txt") == b"one\n"

    project.gitcp("delete", "gone", "--yes", check=0)
    project.gitcp("undo", check=0)
    with pytest.raises(Refused, match="a delete, not a restore"):
        checkpoints.redo()


def test_threads(checkpoints: Checkpoints, project: Project) -> None:
    """Threads that save into one session and into sessions of their own lose nothing."""
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(5):
                checkpoints.save(
                    f"{number}.{turn}", session="shared", position={f"p{number}": turn}
                )
                checkpoints.save(f"{number}.{turn}", session=f"own-{number}")
        except BaseException as error:
            errors.append(error)

    with project.guard():
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert errors == []
    assert sorted(s.subject for s in checkpoints.log("shared")) == sorted(
        f"{n}.{t}" for n in range(4) for t in range(5)
    )
    assert checkpoints.show("shared").note.position == {f"p{number}": 4 for number in range(4)}
    assert [len(checkpoints.log(f"own-{number}")) for number in range(4)] == [5] * 4
    assert checkpoints.check().ok


def test_asyncio(project: Project) -> None:
    """The same calls, awaited; a step's coroutine runs in the caller's loop."""
    project.write("a.txt", "one\n")
    project.commit()

    async def main() -> None:
        checkpoints = await gitcp.aopen(project.root)
        loop = asyncio.get_running_loop()

        async def add() -> list[int]:
            assert asyncio.get_running_loop() is loop
            await asyncio.sleep(0)
            return [1]

        async with checkpoints.session("s") as session:
            assert [await session.step("add", add), await session.step("add")] == [[1], [1]]
            await session.save("one", position={"p": 1})
            assert await session.position() == {"p": 1}
            assert await session.last() == session.blocking.last
        project.write("a.txt", "two\n")
        assert (await checkpoints.show("s")).note.position == {"p": 1}
        assert [change.path for change in await checkpoints.diff("s")] == [b"a.txt"]
        assert (await checkpoints.plan("s")).files
        await checkpoints.restore("s@2")
        await checkpoints.undo()
        await checkpoints.redo()
        await checkpoints.tag("good", "s@2")
        assert (await checkpoints.check()).ok
        assert [s.name for s in await checkpoints.sessions()] == ["s"]
        assert len(await checkpoints.log("good")) == 2
        saved = await checkpoints.save("talk", session="t", conversation=LINE)
        assert saved.saved
        assert await checkpoints.conversation("t") == LINE

    asyncio.run(main())
    assert project.read("a.txt") == b"one\n"


def test_async_is_complete() -> None:
    """What the blocking API has and may take long, the other has too."""
    names = {
        name for cls in (Checkpoints, Opened) for name in vars(cls) if not name.startswith("_")
    }

    assert names - set(vars(gitcp.AsyncCheckpoints)) == {"store", "request", "repository"}
    own = {name for name in vars(gitcp.Session) if not name.startswith("_")}
    assert own <= set(vars(gitcp.AsyncSession))


# ---------------------------------------------------------------- forks, reverts, prunes


def test_fork(checkpoints: Checkpoints, project: Project) -> None:
    """A fork goes on from a checkpoint under a name of its own; the session it left stays as it
    is.
    """
    project.write("a.txt", "one\n")
    first = checkpoints.save("one", session="work").checkpoint

    forked = checkpoints.fork("work@1", name="other")

    assert str(forked.checkpoint.id) == "other@2"
    assert forked.checkpoint.forked_from == first.id
    assert [summary.id for summary in checkpoints.log("work@1")] == [first.id]


def test_revert(checkpoints: Checkpoints, project: Project) -> None:
    """One step is taken back and what came later stays; where both cannot be, nothing is done
    without `keep`.
    """
    for number, content in enumerate(("one\n", "two\n", "two\n")):
        project.write("a.txt", content)
        project.write("b.txt", f"{number}\n")
        checkpoints.save(session="work")

    plan = checkpoints.plan_revert("2", session="work", paths=[b"a.txt"])
    assert not plan.conflicts
    checkpoints.revert(plan)
    assert (project.read("a.txt"), project.read("b.txt")) == (b"one\n", b"2\n")

    conflicting = checkpoints.plan_revert("work@2", paths=[b"b.txt"])
    with pytest.raises(Refused, match=r"b\.txt"):
        checkpoints.revert(conflicting)
    assert project.read("b.txt") == b"2\n"


def test_prune(checkpoints: Checkpoints, project: Project) -> None:
    """What no rule keeps is dropped, ids stay, and of an agreed plan no more is dropped than it
    says.
    """
    for number in range(6):
        project.write("a.txt", f"{number}\n")
        checkpoints.save(session="work")

    plan = checkpoints.plan_prune(Policy(last=2))
    report = checkpoints.prune(Policy(last=1), agreed=plan)

    assert len(plan.dropped) == len(report.dropped) == 4
    assert [summary.id.number for summary in checkpoints.log("work")] == [6, 5]
    with pytest.raises(BadValue):
        checkpoints.prune(Policy(last=0))
    for unknown in ("", "wrk"):
        with pytest.raises(RevisionNotFound):
            checkpoints.plan_prune(session=unknown)
        with pytest.raises(RevisionNotFound):
            checkpoints.prune(session=unknown)
    assert checkpoints.plan_prune(session="wor").verdicts


def test_a_number_far_back(
    checkpoints: Checkpoints, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked for once in a program: the next call finds it without asking git, and without
    reading commits, also after other programs have saved, and have deleted it.
    """
    for number in range(READ_DIRECTLY + 6):
        project.write("file", f"{number}\n")
        checkpoints.save(session="s")
    assert checkpoints.file("s@1", "file") == b"0\n"
    project.write("file", "by another program\n")
    project.gitcp("save", "--session", "s", check=0)

    run = process.run
    asked: list[str | bytes] = []

    def noted(args: Sequence[str | bytes], **more: Any) -> bytes:
        asked.extend(args)
        return run(args, **more)

    with monkeypatch.context() as watched:
        watched.setattr(process, "run", noted)
        assert checkpoints.show("s@2").id.number == 2
        assert checkpoints.show("s").id.number == READ_DIRECTLY + 7
    assert not {*LISTED} & {*asked}

    project.gitcp("prune", "--keep-last", "5", "--session", "s", "--yes", check=0)
    with pytest.raises(RevisionNotFound):
        checkpoints.show("s@2")
    project.gitcp("delete", "s", "--yes", check=0)
    with pytest.raises(RevisionNotFound):
        checkpoints.show(f"s@{READ_DIRECTLY + 7}")


def test_one_text_is_one(project: Project) -> None:
    """Where several texts are meant, one is that one: it is not split into letters. Anything but
    texts is refused before a checkpoint is made.
    """
    project.write(".gitignore", ".env\n*.log\n")
    project.write(".env", "TOKEN=secret\n")
    project.write("x.log", "a line\n")
    api = gitcp.open(project.root)
    words = {name: f"the {name}" for name in ("decisions", "failed", "next", "active")}
    handoff = gitcp.Handoff(**words)  # type: ignore[arg-type]

    made = api.save(
        "x", session="s", include="*.log", tags="abc", compensate="true", handoff=handoff
    ).checkpoint

    assert api.file("s", "x.log") == b"a line\n"
    with pytest.raises(gitcp.GitcpError):
        api.file("s", ".env")
    tags = project.git("for-each-ref", "--format=%(refname)", "refs/gitcp/tags")
    assert tags.split() == ["refs/gitcp/tags/abc"]
    assert made.note.compensations == ("true",)
    assert [getattr(made.note.handoff, name) for name in words] == [(t,) for t in words.values()]
    with (
        pytest.raises(ValueError, match="no"),
        api.transaction("t", session="t", compensate="exit 3") as transaction,
    ):
        raise ValueError("no")
    assert transaction.failure is not None
    (outcome,) = transaction.failure.outcomes
    assert outcome.effect.command == "exit 3"
    before = project.git("for-each-ref")
    wrong: list[Any] = [None, 3, [3], [b"x"], {"a": [1]}.values()]
    for given in wrong:
        for name in ("include", "tags", "compensate"):
            named: Any = {name: given}
            with pytest.raises(BadValue, match=rf"^{name} is .*: nothing was saved"):
                api.save("y", session="s", **named)
        with pytest.raises(BadValue, match=r"^handoff\.next is .*: nothing was saved"):
            api.save("y", session="s", handoff=gitcp.Handoff(next=given))
    for name, value in (("facts", None), ("position", [1]), ("handoff", {"next": "x"})):
        other: Any = {name: value}
        with pytest.raises(BadValue, match=rf"^{name} is .*: nothing was saved"):
            api.save("y", session="s", **other)
    assert project.git("for-each-ref") == before
