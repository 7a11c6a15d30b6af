"""GitSaver keeps LangGraph's states: the published conformance suite, and what that leaves out."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypedDict

import graphs
import pytest
from graphs import put, state, thread
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from pruned import interrupt, story

from gitcp import installed, wire
from gitcp.errors import BadValue, FormatTooNew, Refused, StoreDamaged
from gitcp.git.reader import ObjectReader
from gitcp.langgraph import GitSaver, keys, pieces, record
from gitcp.langgraph.turns import Turns
from gitcp.lifecycle.check import check
from gitcp.model import Oid
from gitcp.state import rewrite

from driver import SOURCE, Project
from samples import open_store

WRITTEN = ("task", "value")


def test_conformance(project: Project, tmp_path: Path) -> None:
    """The published suite, whole: every capability is there, every test passes, none is skipped."""
    numbers = iter(range(100))

    @checkpointer_test(name="GitSaver")
    async def savers() -> Any:
        yield graphs.saver(Project(tmp_path / f"store-{next(numbers)}"))

    report = asyncio.run(validate(savers))

    results = report.results
    assert set(results) == {capability.value for capability in Capability}
    assert [result.failures for result in results.values() if not result.passed] == []
    assert all(
        result.tests_skipped == 0 and result.tests_failed == 0 for result in results.values()
    )
    assert sum(result.tests_passed for result in results.values()) >= 81


def test_whole_interface() -> None:
    """Nothing of the interface is left to the base class but what it does well for every saver."""
    inherited = {"config_specs", "get", "aget", "with_allowlist", "get_delta_channel_history"}
    inherited |= {"aget_delta_channel_history"}
    public = {
        name for name in vars(BaseCheckpointSaver) if not name.startswith("_") and name != "serde"
    }

    assert public - inherited <= vars(GitSaver).keys()


def test_one_commit_a_put(project: Project) -> None:
    """A put is one checkpoint of the thread's session, as is each task's writes; git's own things
    stay as they are.
    """
    saver = graphs.saver(project)
    with project.guard():
        config = put(saver, thread(), state(1, messages=[HumanMessage("hello", id="1")]))
        saver.put_writes(config, [("messages", [AIMessage("hi")])], "task")
        put(
            saver,
            config,
            state(2, messages=[HumanMessage("hello", id="1"), AIMessage("hi", id="2")]),
        )

    logged = project.json_lines("log", "langgraph-t")
    assert [each["trigger"] for each in logged] == ["turn", "tools", "turn"]
    assert [each["conversation"]["messages"] for each in logged] == [2, 1, 1]
    assert logged[0]["position"]["step"] == "1"
    assert "hi" in project.gitcp("show", "langgraph-t", check=0).out
    assert project.gitcp("check", check=0).code == 0


def test_read_from_memory(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last state and its writes are read from memory after they were put, and are what
    somebody else reads from disk, also where others put them.
    """
    saver, config = graphs.saver(project), thread()
    for step in range(3):
        config = put(saver, config, state(step, n=step, text="x" * 500))
        saver.put_writes(config, [("n", step), ("text", "y" * step)], f"task {step}")
    other = graphs.saver(project)
    monkeypatch.setattr(ObjectReader, "read", None)
    read = saver.get_tuple(thread())
    monkeypatch.undo()
    assert read == other.get_tuple(thread())
    put(other, config, state(7, n=7))
    latest = saver.get_tuple(thread())
    assert latest is not None
    assert latest.checkpoint["channel_values"] == {"n": 7}


def test_reads_do_not_wait(project: Project) -> None:
    """While another thread puts, what is in memory is read: the last states, their large values,
    and writes, recorded or in a commit by now.
    """
    saver, config = graphs.saver(project), thread()
    for step in range(4):
        config = put(saver, config, state(step, n=step, text=f"{step}" * 5000))
        saver.put_writes(config, [("n", step), ("text", "y" * 3000)], f"task {step}")
    with ThreadPoolExecutor() as pool, saver._turns:
        latest = pool.submit(saver.get_tuple, thread()).result(timeout=20)
        listed = pool.submit(lambda: [*saver.list(thread(), limit=3)]).result(timeout=60)
        found = pool.submit(lambda: [*saver.list(thread(), filter={"step": 7})]).result(timeout=60)
        none = pool.submit(saver.get_tuple, thread(id="none")).result(timeout=60)

    other = graphs.saver(project)
    assert latest == other.get_tuple(thread())
    assert listed == [*other.list(thread(), limit=3)]
    assert [len(each.pending_writes or ()) for each in listed] == [2, 2, 2]
    assert (found, none) == ([], None)


@pytest.mark.parametrize(
    "wanted", [{"a": None}, {"missing": None}, {"a": 0}, {"step": 2, "a": None}]
)
def test_a_filter(project: Project, wanted: dict[str, Any]) -> None:
    """A filter finds what LangGraph's saver in memory finds: None also where the key is missing."""
    found = []
    for saver in (graphs.saver(project), InMemorySaver()):
        config = thread()
        config["configurable"]["checkpoint_ns"] = ""
        each_metadata: list[Any] = [{"step": 0, "a": None}, {"step": 1, "a": 0}, {"step": 2}]
        for number, metadata in enumerate(each_metadata):
            checkpoint = empty_checkpoint()
            checkpoint["id"] = f"id{number}"
            config = saver.put(config, checkpoint, metadata, {})
        listed = saver.list(thread(), filter=wanted)
        found.append(sorted(each.config["configurable"]["checkpoint_id"] for each in listed))

    assert found[0] == found[1]


def test_reads_see_what_others_do(project: Project) -> None:
    """What is in memory is read only while the session is where it was: another program's state,
    writes, dropped states and deletion are seen at once.
    """
    saver, other = graphs.saver(project), graphs.saver(project)
    config = put(saver, thread(), state(1, n=1))
    other.put_writes(config, [("n", 1)], "task")
    first = saver.get_tuple(thread())
    assert first is not None
    assert first.pending_writes == [("task", "n", 1)]
    put(other, config, state(2, n=2))
    assert [each.checkpoint["channel_values"]["n"] for each in saver.list(thread())] == [2, 1]
    other.prune(["t"])
    assert [each.checkpoint["channel_values"]["n"] for each in saver.list(thread())] == [2]
    assert saver.get_tuple(config) is None
    project.gitcp("delete", "langgraph-t", "--yes", check=0)
    assert saver.get_tuple(thread()) is None
    assert [*saver.list(thread())] == []
    project.gitcp("undo", "--yes", check=0)
    assert saver.get_tuple(thread()) is not None


def test_readers_beside_a_writer(project: Project) -> None:
    """Threads that read all the time, while one puts, see each state whole, never one older than
    they have seen or than was put before they asked, and each write once.
    """
    saver, put_so_far, ended = graphs.saver(project), [0], threading.Event()

    def check(found: Any, least: int) -> int:
        values = found.checkpoint["channel_values"]
        assert values["text"] == f"{values['n']}" * 3000
        assert values["n"] >= least
        channels = [channel for _, channel, _ in found.pending_writes]
        assert len(channels) == len(set(channels))
        return int(values["n"])

    def read() -> int:
        seen = count = 0
        while not ended.is_set():
            least = max(seen, put_so_far[0])
            seen = check(saver.get_tuple(thread()), least)
            listed = [check(found, 0) for found in saver.list(thread(), limit=3)]
            assert listed == list(range(listed[0], max(0, listed[0] - 3), -1))
            assert listed[0] >= seen
            count += 1
        return count

    config = put(saver, thread(), state(1, n=1, text="1" * 3000))
    with ThreadPoolExecutor() as pool:
        readers = [pool.submit(read) for _ in range(3)]
        try:
            for step in range(2, 60):
                saver.put_writes(config, [("n", step), ("text", "x")], "task")
                config = put(saver, config, state(step, n=step, text=f"{step}" * 3000))
                put_so_far[0] = step
        finally:
            ended.set()
        assert all(reader.result(timeout=60) for reader in readers)


def test_recent_pieces_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pieces used last stay in memory, up to a limit of bytes."""
    monkeypatch.setattr(pieces, "RECENT", 10)
    recent = pieces.RecentPieces()
    for name in "abc":
        recent.add(Oid(name), name.encode() * 3)
    assert recent.get(Oid("a")) == b"aaa"
    recent.add(Oid("d"), b"ddd")
    recent.add(Oid("d"), b"ddd")

    assert [name for name in "abcd" if recent.get(Oid(name))] == ["a", "c", "d"]
    recent.add(Oid("e"), b"e" * 11)
    assert [name for name in "abcde" if recent.get(Oid(name))] == []


def test_restore_leaves_files_that_are_not_held(project: Project) -> None:
    """Going back to a state without files, from the command line, touches no file."""
    project.write("a.txt", "one")
    saver = graphs.saver(project)
    put(saver, thread(), state(1, n=1))
    put(saver, thread(), state(2, n=2))

    before = project.files()
    project.gitcp("restore", "langgraph-t@1", "--yes", check=0)

    assert project.files() == before


def test_list_before(project: Project) -> None:
    """`before` names a checkpoint by its id alone, as graphs that replay pass it; without an id it
    limits nothing.
    """
    saver, config = graphs.saver(project), thread()
    for step in range(3):
        config = put(saver, config, state(step, n=step))
    ids = [each.config["configurable"]["checkpoint_id"] for each in saver.list(thread())]

    def listed(before: Any) -> list[str]:
        found = saver.list(thread(), before=before)
        return [each.config["configurable"]["checkpoint_id"] for each in found]

    assert listed({"configurable": {"checkpoint_id": ids[1]}}) == ids[2:]
    assert listed({"configurable": {}}) == ids


def waiting(turns: Turns, count: int) -> None:
    """Wait until so many threads wait for their turn."""
    while len(turns._waiting) < count:
        time.sleep(0.001)


def test_threads_take_turns() -> None:
    """Who asks first is first: a thread that saves all the time does not keep others out."""
    turns, order = Turns(), list[str]()

    def enter(name: str) -> None:
        with turns:
            order.append(name)

    others = []
    with turns:
        for number, name in enumerate("abc", 1):
            others.append(threading.Thread(target=enter, args=(name,)))
            others[-1].start()
            waiting(turns, number)
    enter("again")
    for other in others:
        other.join()

    assert order == ["a", "b", "c", "again"]


def test_an_interrupted_thread_gives_up_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while it waits, or just when its turn came, leaves the lock to the next."""
    turns = Turns()

    class Interrupted:
        """A lock whose second acquire is interrupted; `came` says that its turn had come."""

        def __init__(self, came: bool) -> None:
            self.came = came
            self.acquired = 0

        def acquire(self) -> None:
            self.acquired += 1
            if self.acquired == 2:
                if self.came:
                    turns.__exit__()
                raise KeyboardInterrupt

        def release(self) -> None: ...

    for came in (False, True):
        turns.__enter__()
        monkeypatch.setattr("gitcp.langgraph.turns.Lock", partial(Interrupted, came))
        with pytest.raises(KeyboardInterrupt):
            turns.__enter__()
        if not came:
            turns.__exit__()
        with turns:
            assert not turns._waiting


def test_values_are_shared(project: Project) -> None:
    """A list that grows costs what is new, and comes back as it was, from this saver and from a new
    one.
    """
    saver, config = graphs.saver(project), thread()
    messages: list[HumanMessage] = []
    for step in range(60):
        messages = [*messages, HumanMessage(f"{step} " * 500, id=str(step))]
        config = put(saver, config, state(step, messages=messages, other={"step": step}))

    stored = sum(
        f.stat().st_size for f in project.git_dir.joinpath("objects").rglob("*") if f.is_file()
    )
    assert stored < 2_000_000
    for one in (saver, graphs.saver(project)):
        found = one.get_tuple(thread())
        assert found is not None
        assert found.checkpoint["channel_values"] == {"messages": messages, "other": {"step": 59}}
    history = list(graphs.saver(project).list(thread()))
    assert [len(each.checkpoint["channel_values"]["messages"]) for each in history] == list(
        range(60, 0, -1)
    )


def test_order_is_that_of_ids(project: Project) -> None:
    """The latest is the one with the greatest id, whenever it was put; one that is put again
    replaces itself.
    """
    saver = graphs.saver(project)
    first, second, third = (state(n, n=n) for n in (1, 2, 3))
    for each in (second, third, first):
        put(saver, thread(), each)
    second["channel_values"] = {"n": "again"}
    put(saver, thread(), second)

    for one in (saver, graphs.saver(project)):
        listed = list(one.list(thread()))
        assert [each.checkpoint["id"] for each in listed] == [
            third["id"],
            second["id"],
            first["id"],
        ]
        assert listed[1].checkpoint["channel_values"] == {"n": "again"}
        latest = one.get_tuple(thread())
        assert latest is not None
        assert latest.checkpoint["id"] == third["id"]


def test_pending_writes(project: Project) -> None:
    """Writes stay with their checkpoint: the first for a place, the last of special ones, ordered
    as they apply.
    """
    saver = graphs.saver(project)
    config = put(saver, thread(), state(1, n=1))
    saver.put_writes(config, [("n", 5), ("m", 6)], "b", "~2")
    saver.put_writes(config, [("n", 7)], "a", "~1")
    saver.put_writes(config, [("n", "ignored")], "a", "~1")
    saver.put_writes(config, [("__interrupt__", 1)], "c")
    saver.put_writes(config, [("__interrupt__", 2)], "c")
    put(saver, config, state(2, n=2))

    for one in (saver, graphs.saver(project)):
        found = one.get_tuple(config)
        assert found is not None
        assert found.pending_writes == [
            ("c", "__interrupt__", 2),
            ("a", "n", 7),
            ("b", "n", 5),
            ("b", "m", 6),
        ]
        latest = one.get_tuple(thread())
        assert latest is not None
        assert latest.pending_writes == []


@pytest.mark.parametrize(
    "name",
    ["ÄÖ/..\n ~^:?*[", "A", "a", ".", "a.lock", "x" * 3000, "a/b", "\ud800", 7, "a-0123456789ab"],
)
def test_any_thread_id(project: Project, name: Any) -> None:
    """A thread may be called anything, and is found, listed and deleted by that name, beside those
    like it.
    """
    saver = graphs.saver(project)
    put(saver, thread("other"), state(1, n=0))
    config = put(saver, thread(name, "a:1|b:2"), state(1, n=1))

    assert config["configurable"]["thread_id"] == str(name)
    found = graphs.saver(project).get_tuple(thread(name, "a:1|b:2"))
    assert found is not None
    assert found.config == config
    assert [each.config["configurable"]["thread_id"] for each in saver.list(None)] == [
        str(name),
        "other",
    ]
    saver.delete_thread(name)
    assert saver.get_tuple(config) is None
    assert (
        project.git("for-each-ref", "--format=%(refname)", "refs/gitcp/sessions")
        == "refs/gitcp/sessions/langgraph-other"
    )


def test_sessions_are_apart() -> None:
    """No two thread ids share a session, not even on file systems that do not tell case."""
    names = [
        "a",
        "A",
        "a b",
        "a-b",
        "a--b",
        "ä",
        "",
        "a/b",
        keys.session_name("A").removeprefix(keys.PREFIX),
    ]

    assert len({keys.session_name(name).lower() for name in names}) == len(names)


def test_unserialisable_state(project: Project) -> None:
    """A value that cannot be serialized is refused by name, nothing of it is stored, and the thread
    goes on.
    """
    saver = graphs.saver(project)
    config = put(saver, thread(), state(1, messages=["x" * 5000]))
    before = project.git("for-each-ref")

    with pytest.raises(BadValue, match=r"cannot serialize broken of thread t.* nothing was saved"):
        put(saver, config, state(2, messages=["x" * 9000], broken=open))
    with pytest.raises(BadValue, match="cannot serialize"):
        saver.put_writes(config, [("n", open)], "task")

    assert project.git("for-each-ref") == before
    put(saver, config, state(3, messages=["x" * 9000]))
    found = graphs.saver(project).get_tuple(thread())
    assert found is not None
    assert found.checkpoint["channel_values"] == {"messages": ["x" * 9000]}
    project.git("fsck", "--strict")


def test_unknown_type(project: Project) -> None:
    """A value of a type that the serialiser does not know is an error that says which."""

    class Odd:
        """A serialiser that knows one type."""

        def dumps_typed(self, value: Any) -> tuple[str, bytes]:
            return "odd", b"x"

        def loads_typed(self, data: tuple[str, bytes]) -> Any:
            return {"channel_versions": {}}

    put(graphs.saver(project, serde=Odd()), thread(), state(1, n=1))

    with pytest.raises(BadValue, match=r"cannot read checkpoint .* stored as 'odd'"):
        graphs.saver(project).get_tuple(thread())


def test_config_without_a_thread(project: Project) -> None:
    """A config that names no thread, or no checkpoint for writes, is refused."""
    saver = graphs.saver(project)

    with pytest.raises(BadValue, match="no thread_id"):
        saver.get_tuple({"configurable": {}})
    with pytest.raises(BadValue, match="no checkpoint_id"):
        saver.put_writes(thread(), [WRITTEN], "task")
    with pytest.raises(BadValue, match="unknown strategy"):
        saver.prune(["t"], strategy="some")


def test_newer_store(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state in a format to come is refused by name; so is damage."""
    with monkeypatch.context() as newer:
        newer.setattr(record, "FORMAT", 2)
        put(graphs.saver(project), thread("new"), state(1, n=1))
    with pytest.raises(FormatTooNew, match="format 2; this gitcp reads up to 1"):
        graphs.saver(project).get_tuple(thread("new"))

    monkeypatch.setattr(wire, "dumps", lambda _: b"[]")
    put(graphs.saver(project), thread("bad"), state(1, n=1))
    with pytest.raises(StoreDamaged, match="is damaged"):
        graphs.saver(project).get_tuple(thread("bad"))


class Log(TypedDict):
    """A state that is made up from what was written."""

    log: Annotated[
        list[int],
        DeltaChannel(lambda held, writes: [*held, *(one for each in writes for one in each)]),
    ]


def test_delta_channels(project: Project, tmp_path: Path) -> None:
    """A channel of which only changes are stored has the history that SqliteSaver has; a prune
    keeps what it needs.
    """

    def histories(store: Any) -> tuple[Any, list[Any]]:
        def node(state: Any) -> Any:
            return {"log": [len(state["log"])]}

        steps = StateGraph(Log).add_sequence([("a", node), ("b", node), ("c", node)])
        graph = steps.add_edge(START, "a").compile(checkpointer=store)
        for number in range(3):
            graph.invoke({"log": [100 + number]}, thread())
        return graph, [state.values["log"] for state in graph.get_state_history(thread())]

    graph, ours = histories(graphs.saver(project))
    with closing(sqlite3.connect(tmp_path / "store.db", check_same_thread=False)) as connection:
        assert ours == histories(SqliteSaver(connection))[1]
    assert ours[0] == [100, 1, 2, 3, 101, 5, 6, 7, 102, 9, 10, 11]
    graphs.saver(project).prune(["t"])
    graph.checkpointer = graphs.saver(project)
    assert graph.get_state(thread()).values["log"] == ours[0]


def test_a_huge_channel(project: Project) -> None:
    """Megabytes in a channel come back as they were, beside small states before and after; what
    grew is shared.
    """
    saver, data = graphs.saver(project), os.urandom(5 << 20)
    config = put(saver, thread(), state(1, data=b""))
    config = put(saver, config, state(2, data=data))
    config = put(saver, config, state(3, data=data + b"more"))
    put(saver, config, state(4, data=b"end"))

    found = [
        each.checkpoint["channel_values"]["data"] for each in graphs.saver(project).list(thread())
    ]
    assert found == [b"end", data + b"more", data, b""]
    assert sum(f.stat().st_size for f in project.git_dir.rglob("*") if f.is_file()) < 7 << 20
    project.gitcp("check", check=0)


def test_deleted_comes_back(project: Project) -> None:
    """What a program deletes or prunes goes to the trash, and `gitcp undo` brings it back."""
    saver = graphs.saver(project)
    config = put(saver, thread(), state(1, n=1))
    put(saver, config, state(2, n=2))

    saver.prune(["t"])
    assert [each.checkpoint["channel_values"] for each in saver.list(thread())] == [{"n": 2}]
    project.gitcp("undo", "--yes", check=0)
    assert len(list(saver.list(thread()))) == 2
    saver.delete_thread("t")
    assert saver.get_tuple(thread()) is None
    project.gitcp("undo", "--yes", check=0)
    assert len(list(saver.list(thread()))) == 2


def test_a_dropped_run_comes_back(project: Project) -> None:
    """The last run of a thread can be brought back after another one, whose checkpoints have
    numbers of their own.
    """
    saver = graphs.saver(project)
    config = put(saver, thread(), state(1, n=1), run_id="first")
    put(saver, config, state(2, n=2), run_id="dropped")
    saver.delete_for_runs(["dropped"])
    put(saver, config, state(3, n=3), run_id="later")

    project.gitcp("undo", "--yes", check=0)

    listed = [each.checkpoint["channel_values"]["n"] for each in saver.list(thread())]
    assert listed == [3, 2, 1]
    project.gitcp("check", check=0)


def test_copies_part(project: Project) -> None:
    """A copy has everything of its source, and neither sees what happens to the other
    afterwards.
    """
    saver = graphs.saver(project)
    config = put(saver, thread("a"), state(1, n=1), run_id="run")
    saver.put_writes(config, [("n", 2)], "task")
    saver.copy_thread("a", "b")
    with pytest.raises(Refused, match="already exists"):
        saver.copy_thread("a", "b")
    saver.delete_for_runs(["run"])

    assert saver.get_tuple(thread("a")) is None
    assert saver.get_tuple(thread("b")) is None  # the run's, too

    put(saver, thread("c"), state(2, n=2))
    saver.copy_thread("c", "d")
    saver.delete_thread("c")
    put(saver, thread("d"), state(3, n=3))
    assert [
        each.checkpoint["channel_values"]["n"] for each in graphs.saver(project).list(thread("d"))
    ] == [3, 2]
    project.gitcp("check", check=0)


def test_missing_extra() -> None:
    """Without LangGraph, importing says what to install."""
    code = "import sys; sys.modules['langgraph'] = None; import gitcp.langgraph"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
    )

    assert installed.install_extra("langgraph") in done.stderr


def test_secrets_are_found(project: Project) -> None:
    """Text in a state stays text: a scan before anything leaves finds a secret in it, small value
    or large.
    """
    saver = graphs.saver(project)
    secret = "ghp_" + "a1B2" * 9
    config = put(saver, thread(), state(1, small=secret))
    put(saver, config, state(2, large=["x" * 3000, secret]))

    for number in ("1", "2"):
        held = project.git(
            "grep",
            "--text",
            "-c",
            secret,
            f"refs/gitcp/sessions/langgraph-t{'~1' if number == '1' else ''}",
        )
        assert held


def test_sixteen_writers(project: Project) -> None:
    """Four processes of four threads each write one thread: every state and every write is
    there.
    """
    code = """
import sys, threading
sys.path.insert(0, sys.argv[1])
import graphs
from driver import Project
from pathlib import Path
saver = graphs.saver(Project(Path(sys.argv[2])))
def work(number):
    for step in range(2):
        name = f"{sys.argv[3]}-{number}-{step}"
        config = graphs.put(saver, graphs.thread(), graphs.state(1, name=name))
        saver.put_writes(config, [("name", name)], "task")
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
[each.start() for each in threads]
[each.join() for each in threads]
"""
    command = [sys.executable, "-c", code, str(SOURCE / "tests/support"), str(project.root)]
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    with project.guard():
        running = [
            subprocess.Popen([*command, str(n)], env=env, stderr=subprocess.PIPE) for n in range(4)
        ]
        said = [each.communicate(timeout=120)[1] for each in running]

    assert [each.returncode for each in running] == [0] * 4, said
    assert not any(said), b"".join(said).decode()
    wanted = {
        f"{process}-{number}-{step}"
        for process in range(4)
        for number in range(4)
        for step in range(2)
    }
    found = list(graphs.saver(project).list(thread()))
    assert {each.checkpoint["channel_values"]["name"] for each in found} == wanted
    assert all(
        each.pending_writes == [("task", "name", each.checkpoint["channel_values"]["name"])]
        for each in found
    )
    assert [each["number"] for each in project.json_lines("log", "langgraph-t")] == list(
        range(64, 0, -1)
    )


def test_a_prune_that_was_killed_is_finished(project: Project) -> None:
    """As by any command, before a state is saved."""
    store = story(project)
    interrupt(store, 1)
    saver = graphs.saver(project)
    assert not rewrite.is_unfinished(store)
    put(saver, thread(), state(1, n=1))
    assert check(open_store(project)).ok
