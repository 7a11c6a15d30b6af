"""States that threads of a program put at once are saved together: with one pack and one sync, each
in exactly one commit, whatever happens to the others.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import graphs
import pytest
from dying import die, shrink
from graphs import put, put_together, state, thread
from kinds import in_files

from gitcp.errors import BadValue, GitcpError
from gitcp.git import write_ahead_log
from gitcp.git.refs import FileRefs
from gitcp.git.write_ahead_log import decode, encode
from gitcp.langgraph import GitSaver
from gitcp.langgraph.thread_store import ThreadStore
from gitcp.store import Store

from driver import Project
from samples import open_store, save

THREADS = ("t", "u", "v")

if write_ahead_log.running() is None:
    pytest.skip("nothing here tells one run of the system from another", allow_module_level=True)


def steps(saver: GitSaver, name: str) -> list[int]:
    """The states of a thread, the newest first."""
    listed = saver.list(thread(name))
    return [found.checkpoint["channel_values"]["n"] for found in listed]


def commits(project: Project, name: str) -> int:
    return int(project.git("rev-list", "--count", f"refs/gitcp/sessions/langgraph-{name}"))


def sound(project: Project) -> None:
    """git and gitcp have nothing to say against the store, and nothing is left over."""
    assert project.json("check")["ok"]
    project.git("fsck", "--strict", "--no-dangling")
    assert not [*project.git_dir.rglob("*.lock"), *project.git_dir.rglob("*.keep")]


class Waiting:
    """Threads that put while the saver is busy, and so wait until `go`."""

    def __init__(self, saver: GitSaver) -> None:
        self.saver, self.threads, self.errors = saver, list[threading.Thread](), list[Exception]()

    def put(self, name: str, step: int, **channels: Any) -> None:
        """Let a thread put a state, and wait until it waits for its turn."""
        self.do(lambda: put(self.saver, thread(name), state(step, n=step, **channels)))

    def do(self, work: Callable[[], object]) -> None:
        """Let a thread do something in its turn, and wait until it waits for that."""

        def run() -> None:
            try:
                work()
            except Exception as error:
                self.errors.append(error)

        self.threads.append(threading.Thread(target=run))
        self.threads[-1].start()
        deadline = time.monotonic() + 60
        while len(self.saver._turns._waiting) < len(self.threads):
            assert time.monotonic() < deadline
            time.sleep(0.001)

    def __enter__(self) -> Self:
        self.saver._turns.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.saver._turns.__exit__()
        for each in self.threads:
            each.join(60)
            assert not each.is_alive()


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The descriptors that were synced."""
    seen: list[int] = []
    sync = os.fdatasync

    def count(descriptor: int) -> None:
        seen.append(descriptor)
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", count)
    return seen


def test_those_who_wait_share_a_sync(project: Project, syncs: list[int]) -> None:
    """Eight threads, five of the graph: one sync, one pack; each sees its own, and so do others."""
    saver = graphs.saver(project)
    packs = {*project.git_dir.glob("objects/pack/*.pack")}
    syncs.clear()
    with Waiting(saver) as waiting:
        for number in range(8):
            waiting.put(f"w{number % 5}", number)

    assert not waiting.errors
    assert len(syncs) == 1
    assert len({*project.git_dir.glob("objects/pack/*.pack")} - packs) == 1
    for each in (saver, graphs.saver(project)):
        assert [steps(each, f"w{n}") for n in range(5)] == [[5, 0], [6, 1], [7, 2], [3], [4]]
    assert [commits(project, f"w{n}") for n in range(5)] == [2, 2, 2, 1, 1]
    sound(project)


def test_with_what_their_tasks_wrote(project: Project) -> None:
    """The writes of each thread become commits before its first state, once, and what is written
    meanwhile with the next.
    """
    saver = graphs.saver(project)
    configs = {name: put(saver, thread(name), state(1, n=1)) for name in THREADS}
    for name in THREADS[:2]:
        saver.put_writes(configs[name], [("n", 2)], "task")
    assert all(each.is_done for each in put_together(saver, "t", "u", "v", "t", step=2))
    saver.put_writes(configs["t"], [("n", 3)], "late")
    put_together(saver, *THREADS, step=3)

    triggers = {
        name: [each["trigger"] for each in project.json_lines("log", f"langgraph-{name}")][::-1]
        for name in THREADS
    }
    assert triggers == {
        "t": ["turn", "tools", "turn", "turn", "tools", "turn"],
        "u": ["turn", "tools", "turn", "turn"],
        "v": ["turn", "turn", "turn"],
    }
    for each in (saver, graphs.saver(project)):
        found = each.get_tuple(configs["t"])
        assert found is not None
        assert found.pending_writes == [("late", "n", 3), ("task", "n", 2)]
        assert [steps(each, name) for name in THREADS] == [[3, 2, 2, 1], [3, 2, 1], [3, 2, 1]]
    sound(project)


def test_not_seen_before_it_is_durable(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the states wait for the disk, the saver and another process read those before them."""
    saver = graphs.saver(project)
    put_together(saver, *THREADS, step=1)
    seen: list[list[list[int]]] = []
    sync = os.fdatasync

    def look(descriptor: int) -> None:
        for each in (saver, graphs.saver(project)):
            view = each.threads.view_in_memory if each is saver else each.threads.view
            refs = [[*view(f"langgraph-{name}").thread.puts] for name in THREADS]
            seen.append([[len(found) for found in refs]])
        sync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", look)
        put_together(saver, *THREADS, step=2)

    assert seen == [[[1, 1, 1]]] * 2
    assert [steps(saver, name) for name in THREADS] == [[2, 1]] * 3


def test_new_threads_with_names_used_before(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each session continues its own numbers. Git is not asked for what this process saved, and
    once for what others did.
    """
    saver = graphs.saver(project)
    for step in (1, 2):
        put_together(saver, *THREADS[:step], step=step)
    for name in THREADS[:2]:
        saver.delete_thread(name)
    asked: list[int] = []
    forest = Store.forest

    def count(*given: Any) -> Any:
        asked.append(1)
        return forest(*given)

    monkeypatch.setattr(Store, "forest", count)
    assert all(each.is_done for each in put_together(saver, *THREADS, "t", step=3))
    assert asked == []

    store = open_store(project)
    save(store, "langgraph-others")
    put_together(saver, "w", "x", step=4)
    assert asked == [1]
    tips = [store.tip(f"langgraph-{name}") for name in THREADS]
    assert [store.read(tip).id.number for tip in tips if tip] == [4, 2, 1]
    sound(project)


# ---------------------------------------------------------------- when one of them fails


def test_one_cannot_be_saved(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """It alone gets the error, and the others are saved, each once."""
    saver = graphs.saver(project)
    put_together(saver, *THREADS, step=1)
    save = ThreadStore._put

    def failing(store: ThreadStore, fast: Any, view: Any, given: Any) -> Any:
        if given.session == "langgraph-u":
            raise BadValue("not this one")
        return save(store, fast, view, given)

    with monkeypatch.context() as patch:
        patch.setattr(ThreadStore, "_put", failing)
        with Waiting(saver) as waiting:
            for name in THREADS:
                waiting.put(name, 2)

    assert [str(error) for error in waiting.errors] == ["not this one"]
    for each in (saver, graphs.saver(project)):
        assert [steps(each, name) for name in THREADS] == [[2, 1], [1], [2, 1]]
    assert [commits(project, name) for name in THREADS] == [2, 1, 2]
    put_together(saver, *THREADS, step=3)
    assert [steps(saver, name)[0] for name in THREADS] == [3, 3, 3]
    sound(project)


def test_a_session_that_moves_meanwhile(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its state follows what another program has done there; the others' are saved once."""
    saver = graphs.saver(project)
    for step in (1, 2):
        put_together(saver, *THREADS, step=step)
    update_all = type(open_store(project).repo.refs).update_all
    ref = "refs/gitcp/sessions/langgraph-u"

    def late(refs: Any, updates: Any, promise: Any) -> bool:
        if len(updates) > 1:
            project.git("update-ref", ref, f"{ref}~1")
        return update_all(refs, updates, promise)

    with monkeypatch.context() as patch:
        patch.setattr(type(open_store(project).repo.refs), "update_all", late)
        assert all(each.is_done for each in put_together(saver, *THREADS, step=3))

    for each in (saver, graphs.saver(project)):
        assert [steps(each, name) for name in THREADS] == [[3, 2, 1], [3, 1], [3, 2, 1]]
    assert [commits(project, name) for name in THREADS] == [3, 2, 3]
    sound(project)


@pytest.mark.parametrize("failures", [1, 99])
def test_a_ref_that_cannot_be_moved(
    failures: int, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has moved before is saved, and not again; what could not be moved even by itself is
    not, and says so.
    """
    if not isinstance(open_store(project).repo.refs, FileRefs):
        pytest.skip("git moves these, all or none")
    saver = graphs.saver(project)
    put_together(saver, *THREADS, step=1)
    rename, left, is_saved = os.rename, [failures], failures == 1

    def fail(old: Any, new: Any) -> None:
        if os.fspath(new).endswith("sessions/langgraph-u") and left[0]:
            left[0] -= 1
            raise OSError(errno.EIO, "Input/output error")
        rename(old, new)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", fail)
        made = put_together(saver, *THREADS, step=2)

    assert [each.is_done for each in made] == [True, is_saved, True]
    assert isinstance(made[1].error, GitcpError) is not is_saved
    for each in (saver, graphs.saver(project)):
        assert [len(steps(each, name)) for name in THREADS] == [2, 1 + is_saved, 2]
    assert [commits(project, name) for name in THREADS] == [2, 1 + is_saved, 2]
    put_together(saver, *THREADS, step=3)
    assert [commits(project, name) for name in THREADS] == [3, 2 + is_saved, 3]
    sound(project)


def test_a_pending_note(project: Project) -> None:
    """It needs the whole store, and goes into one checkpoint."""
    saver = graphs.saver(project)
    put_together(saver, *THREADS, step=1)
    project.gitcp("note", "--objective", "ship it", check=0)
    assert all(each.is_done for each in put_together(saver, *THREADS, step=2))
    assert [commits(project, name) for name in THREADS] == [2, 2, 2]
    assert not (project.git_dir / "gitcp/note").exists()
    sound(project)


def test_one_is_interrupted(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who was interrupted leaves the others to do their own."""
    saver, interrupted = graphs.saver(project), list[bool]()
    put_all = ThreadStore.put_all

    def interrupt(store: ThreadStore, puts: Any) -> None:
        if not interrupted:
            interrupted.append(True)
            raise KeyboardInterrupt
        put_all(store, puts)

    def first() -> None:
        with pytest.raises(KeyboardInterrupt):
            put(saver, thread("t"), state(1, n=1))

    monkeypatch.setattr(ThreadStore, "put_all", interrupt)
    with Waiting(saver) as waiting:
        waiting.do(first)
        for name in ("u", "v"):
            waiting.put(name, 1)

    assert not waiting.errors
    assert [steps(saver, name) for name in THREADS] == [[], [1], [1]]
    assert not saver._waiting
    sound(project)


def test_with_files_each_by_itself(project: Project) -> None:
    """Each has the files as they are in its turn."""
    saver = graphs.saver(project, files=True)
    project.write("a.txt", "one\n")
    with Waiting(saver) as waiting:
        for name in THREADS:
            waiting.put(name, 1)
    assert not waiting.errors
    for name in THREADS:
        assert project.git("show", f"refs/gitcp/sessions/langgraph-{name}:a.txt") == "one"
    sound(project)


# ---------------------------------------------------------------- killed, and without power


def test_killed_at_any_change(project: Project, tmp_path: Path) -> None:
    """At whichever change a program dies that saves four states in three threads: each thread has
    all of its states or none, and each write is a commit once.
    """
    saver = graphs.saver(project)
    configs = {name: put(saver, thread(name), state(1, n=1)) for name in THREADS}
    saver.put_writes(configs["t"], [("n", 1)], "task")
    shrink(project, packed=False)
    copies = tmp_path / "copies"
    assert die(project, "puts", copies, 25) > 25
    for copy in sorted(copies.iterdir()):
        left = Project(copy)
        reader = graphs.saver(left)
        assert steps(reader, "t") in ([1], [2, 2, 1]), copy.name
        assert [steps(reader, name) in ([1], [2, 1]) for name in "uv"] == [True, True], copy.name
        found = reader.get_tuple(configs["t"])
        assert found is not None
        assert found.pending_writes == [("task", "n", 1)]
        triggers = [each["trigger"] for each in left.json_lines("log", "langgraph-t")][::-1]
        assert triggers in (["turn", "tools"], ["turn", "tools", "turn", "turn"]), copy.name
        assert left.json("check")["ok"]
        left.git("fsck", "--strict", "--no-dangling")


@in_files
def test_a_power_cut(project: Project) -> None:
    """One record has the pack of all; each state is there after a restart, though the disk kept
    neither packs nor refs.
    """
    saver = graphs.saver(project)
    put_together(saver, *THREADS, step=1)
    put_together(saver, "t", "v", step=2)
    log = project.git_dir / "gitcp" / write_ahead_log.NAME
    records = list(decode(log.read_bytes()))
    log.write_bytes(b"".join(encode(each._replace(boot="before")) for each in records))
    for path in project.git_dir.glob("objects/pack/pack-*"):
        path.unlink()
    for name in THREADS:
        (project.git_dir / f"refs/gitcp/sessions/langgraph-{name}").unlink()

    reader = graphs.saver(project)
    assert [steps(reader, name) for name in THREADS] == [[2, 1], [1], [2, 1]]
    sound(project)
