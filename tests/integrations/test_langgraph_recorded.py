"""What tasks of a graph write is recorded in the log, and in commits later: for every reader it is
there at once, and nothing loses it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import graphs
import pytest
from dying import die, shrink
from faults import tracer
from faults.durable import Disk, everything
from faults.tracer import Call
from graphs import put, state, thread
from kinds import in_files

from gitcp.errors import GitcpError
from gitcp.git import write_ahead_log
from gitcp.git.write_ahead_log import LoggedWrite, decode, encode
from gitcp.langgraph import GitSaver
from gitcp.saving import recorded

from driver import SOURCE, Project
from samples import open_store

SESSION = "langgraph-t"
REF = f"refs/gitcp/sessions/{SESSION}"

if write_ahead_log.running() is None:
    pytest.skip("nothing here tells one run of the system from another", allow_module_level=True)


def file(project: Project) -> Path:
    return project.root / ".git/gitcp" / write_ahead_log.NAME


def waiting(project: Project) -> list[LoggedWrite]:
    """What is recorded and in no commit, as a new program reads it."""
    return [*write_ahead_log.WriteAheadLog(open_store(project).repo).writes(REF)]


def commits(project: Project) -> int:
    return int(project.git("rev-list", "--count", REF))


def pending(saver: GitSaver, config: Any) -> list[tuple[str, str, Any]]:
    found = saver.get_tuple(config)
    assert found is not None
    assert found.pending_writes is not None
    return found.pending_writes


def triggers(project: Project) -> list[str]:
    return [each["trigger"] for each in project.json_lines("log", SESSION)][::-1]


def sound(project: Project) -> None:
    """Nothing is recorded any more, and git and gitcp have nothing to say against the store."""
    assert project.json("check")["ok"]
    project.git("fsck", "--strict", "--no-dangling")
    assert not waiting(project)


def two_tasks(project: Project) -> tuple[GitSaver, Any]:
    """A state with what two tasks wrote, one of it larger than what a record has itself."""
    saver = graphs.saver(project)
    config = put(saver, thread(), state(1, n=1))
    saver.put_writes(config, [("n", 1), ("text", "long " * 1000)], "a")
    saver.put_writes(config, [("__resume__", "first")], "b")
    saver.put_writes(config, [("__resume__", "second")], "b")
    return saver, config


WRITTEN = [("a", "n", 1), ("a", "text", "long " * 1000), ("b", "__resume__", "second")]


def test_everybody_reads_what_is_recorded(project: Project) -> None:
    """No commit is made, and both the writer and another process read it, in the order in which it
    applies.
    """
    saver, config = two_tasks(project)

    assert commits(project) == 1
    assert len(waiting(project)) == 3
    assert pending(saver, config) == pending(graphs.saver(project), config) == WRITTEN
    assert commits(project) == 1


def test_the_next_state_commits_it(project: Project) -> None:
    """Before its own commit, in order, with the time at which it was written."""
    saver, config = two_tasks(project)
    written = [recorded.decode(each.content).created for each in waiting(project)]
    with project.guard():
        later = put(saver, config, state(2, n=2))

    assert commits(project) == 5
    assert triggers(project) == ["turn", "tools", "tools", "tools", "turn"]
    store = open_store(project)
    tip = store.tip(SESSION)
    assert tip is not None
    times = [store.read(each.commit).created for each in store.history(tip)][::-1]
    assert times[1:4] == [each.replace(microsecond=0) for each in written]
    for each in (saver, graphs.saver(project)):
        assert pending(each, config) == WRITTEN
        assert pending(each, later) == []
    sound(project)


def test_any_command_commits_it(project: Project) -> None:
    """Whoever opens the store has a commit for each; the writer goes on from there."""
    saver, config = two_tasks(project)
    with project.guard():
        assert triggers(project) == ["turn", "tools", "tools", "tools"]
    assert not file(project).read_bytes()

    assert pending(saver, config) == WRITTEN
    saver.put_writes(config, [("n", 9)], "c")
    assert pending(saver, config) == [*WRITTEN, ("c", "n", 9)]
    put(saver, config, state(2, n=2))
    assert triggers(project)[-2:] == ["tools", "turn"]
    sound(project)


def test_another_process_puts(project: Project) -> None:
    """Its state follows what others recorded, once."""
    saver, config = two_tasks(project)
    other = graphs.saver(project)
    later = put(other, config, state(2, n=2))
    saver.put_writes(later, [("n", 3)], "d")
    put(saver, later, state(3, n=3))

    assert triggers(project) == ["turn", *["tools"] * 3, "turn", "tools", "turn"]
    assert pending(other, later) == [("d", "n", 3)]
    sound(project)


def test_threads_are_apart(project: Project) -> None:
    """A state of one thread leaves what is recorded for another; a program that only saves, too."""
    saver, config = two_tasks(project)
    put(saver, thread("other"), state(1, n=1))
    with open_store(project).lock():
        assert waiting(project)

    assert len(waiting(project)) == 3
    assert pending(saver, config) == WRITTEN
    assert commits(project) == 1
    sound(project)


def test_deleted_with_its_thread(project: Project) -> None:
    """What was recorded for a thread goes into the trash with it, and comes back with it."""
    saver, config = two_tasks(project)
    saver.delete_thread("t")

    assert saver.get_tuple(config) is None
    assert project.json_lines("sessions") == []
    project.gitcp("undo", "--yes", check=0)
    assert pending(saver, config) == WRITTEN
    sound(project)


def test_a_copy_has_it(project: Project) -> None:
    """A copied thread has what was written to its last state."""
    saver, _ = two_tasks(project)
    saver.copy_thread("t", "u")
    assert pending(saver, thread("u")) == WRITTEN


def test_writes_before_the_first_state(project: Project) -> None:
    """Nothing else of the thread may be there yet."""
    saver = graphs.saver(project)
    saver.put_writes(thread(id="1"), [("n", 1)], "a")
    assert triggers(project) == ["tools"]
    sound(project)


def test_much_is_committed_at_once(project: Project) -> None:
    """What would make the log long, and what has files, is a commit when the call returns."""
    saver = graphs.saver(project)
    config = put(saver, thread(), state(1, n=1))
    saver.put_writes(config, [("text", "x" * 300_000)], "a")
    graphs.saver(project, files=True).put_writes(config, [("n", 2)], "b")

    assert commits(project) == 3
    assert [channel for _, channel, _ in pending(saver, config)] == ["text", "n"]
    sound(project)


@in_files
def test_a_damaged_session(project: Project) -> None:
    """What cannot become a commit stays recorded, and commands that only read go on."""
    saver, config = two_tasks(project)
    ref = project.root / ".git" / REF
    whole = ref.read_text()
    ref.write_text("0" * 39 + "1\n")

    project.gitcp("sessions", check=0)

    assert len(waiting(project)) == 3
    ref.write_text(whole)
    assert triggers(project) == ["turn", "tools", "tools", "tools"]
    assert pending(saver, config) == WRITTEN
    sound(project)


def test_who_may_not_write(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader who may not write reads the commits that there are."""
    two_tasks(project)

    def refuse(*_: object) -> int:
        raise PermissionError(13, "no")

    with monkeypatch.context() as patch:
        patch.setattr("gitcp.store.open_shared", refuse)
        recorded.commit_all(open_store(project))
    assert commits(project) == 1
    assert len(waiting(project)) == 3


def test_after_a_restart(project: Project) -> None:
    """What an earlier run of the system recorded is there, before one that was cut off."""
    two_tasks(project)
    entries = list(decode(file(project).read_bytes()))
    torn = encode(entries[-1])[:-5]
    file(project).write_bytes(
        b"".join(encode(each._replace(boot="before")) for each in entries) + torn
    )

    assert pending(graphs.saver(project), thread()) == WRITTEN
    assert triggers(project) == ["turn", "tools", "tools", "tools"]
    sound(project)


# ---------------------------------------------------------------- killed, and without power


def command(project: Project, count: int) -> list[str]:
    script = SOURCE / "tests/support/graph_writes.py"
    return [sys.executable, "-P", str(script), str(project.root), str(count)]


def test_killed_at_any_moment(project: Project) -> None:
    """What a call reported before `kill -9` is there, in order."""
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    for wait in (0.0, 0.01, 0.03):
        before = len(waiting(project))
        writing = command(project, 10_000)
        with subprocess.Popen(writing, env=env, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            told = [process.stdout.readline()]
            time.sleep(wait)
            process.kill()
            told += process.stdout.readlines()
        positions = [recorded.decode(each.content).position["task"] for each in waiting(project)]
        tasks = [f"task {number}" for number in range(len(positions) - before)]
        assert positions[before:] == tasks
        assert len(tasks) >= len([line for line in told if line.endswith(b"\n")])
    assert len(triggers(project)) == len(positions)
    sound(project)


@pytest.mark.parametrize("what", ["commit", "put"])
def test_killed_while_it_becomes_commits(what: str, project: Project, tmp_path: Path) -> None:
    """At whichever change a command or the next state dies, each write is a commit once."""
    _, config = two_tasks(project)
    shrink(project, packed=False)
    copies = tmp_path / "copies"
    assert die(project, what, copies, 20) > 15
    for copy in sorted(copies.iterdir()):
        left = Project(copy)
        made = triggers(left)
        assert made[:4] == ["turn", "tools", "tools", "tools"], copy.name
        assert made[4:] in ([], ["turn"]), copy.name
        assert pending(graphs.saver(left), config) == WRITTEN
        sound(left)


@pytest.mark.skipif(bool(tracer.unusable()), reason=tracer.unusable() or "")
def test_durable_when_it_returns(project: Project) -> None:
    """On the strictest disk: when a call reports, a power cut loses nothing of the log. Without its
    sync it would.
    """
    put(graphs.saver(project), thread(), state(1, n=1))
    before = everything(project.root)
    disk, careless = Disk(before), Disk(before)
    become = partial(os.execv, sys.executable, command(project, 5))
    done = tracer.run(become, project.root, [project.root], None, {"PYTHONPATH": str(SOURCE)})
    assert done.code == 0, done
    told = 0
    for call in done.calls:
        if call == Call("write", ("stdout",)):
            told += 1
            assert not disk.would_lose(file(project))
            assert str(file(project)) not in disk.bytes
            assert str(file(project)) in careless.bytes
        disk.play(call)
        if call.name != "fdatasync":
            careless.play(call)
    assert told == 5


# ---------------------------------------------------------------- many threads


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Each sync takes a while; when each began."""
    began: list[float] = []
    sync = os.fdatasync

    def slow(descriptor: int) -> None:
        began.append(time.monotonic())
        time.sleep(0.02)
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", slow)
    return began


def test_threads_sync_together(project: Project, slow_disk: list[float]) -> None:
    """Tasks that write at once wait for few syncs, and each for one that began after its write."""
    saver = graphs.saver(project)
    config = put(saver, thread(), state(1, n=1))
    slow_disk.clear()
    late: list[int] = []

    def task(number: int) -> None:
        for step in range(4):
            begun = time.monotonic()
            saver.put_writes(config, [("n", number)], f"{number}-{step}")
            if not any(begun < began for began in slow_disk):
                late.append(number)

    threads = [threading.Thread(target=task, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert not late
    assert len(slow_disk) <= 16
    assert len(pending(graphs.saver(project), config)) == 32
    put(saver, config, state(2, n=2))
    sound(project)


def test_a_sync_that_fails(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call says so and nothing is recorded; the next one is."""
    saver = graphs.saver(project)
    config = put(saver, thread(), state(1, n=1))

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(GitcpError, match="Input/output error"):
            saver.put_writes(config, [("n", 1)], "a")
    assert pending(saver, config) == []
    saver.put_writes(config, [("n", 2)], "a")
    assert pending(saver, config) == [("a", "n", 2)]
    sound(project)
