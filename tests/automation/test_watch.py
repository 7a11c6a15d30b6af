"""`gitcp watch`: saves by itself, as a real process beside whoever works; and costs nothing while
nobody does.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from talk import Talk

from gitcp import installed
from gitcp.automation.watching import saves as op
from gitcp.automation.watching.saves import Pace, SaveTask
from gitcp.automation.watching.watcher import Relevance, Stop, Watcher, WatchfilesWatcher, watcher
from gitcp.errors import GitcpError
from gitcp.git.repo import Repository
from gitcp.model import Host, Trigger
from gitcp.saving.save import Saved
from gitcp.store import Store

from driver import SOURCE, Project
from samples import open_store

DEADLINE = 60.0
IDLE = 4.0


class Running:
    """`gitcp watch` beside a project; what it saved is read as it comes."""

    def __init__(self, project: Project, *args: str) -> None:
        self.project = project
        self.said = project.root.with_name("said")
        with self.said.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "gitcp", "watch", "--json", *args],
                cwd=project.root,
                env={**os.environ, "PYTHONPATH": str(SOURCE)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=err,
                # the tests may run where ^C is ignored
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
            )

    def saved(self) -> dict[str, Any]:
        """The next checkpoint that it made; waits for it."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.said.read_text()
        found = json.loads(line)["checkpoint"]
        assert isinstance(found, dict)
        return found

    def end(self, number: signal.Signals = signal.SIGTERM) -> list[dict[str, Any]]:
        """End it, well; what it saved since the last look."""
        self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=DEADLINE)
        assert self.process.returncode == 0, self.said.read_text()
        return [json.loads(line)["checkpoint"] for line in out.splitlines()]

    def processor_time(self) -> float:
        """Seconds that all of its threads have run so far."""
        tasks = Path(f"/proc/{self.process.pid}/task")
        total = 0.0
        for task in tasks.iterdir():
            with suppress(OSError):
                total += int(task.joinpath("schedstat").read_text().split()[0]) / 1e9
        return total

    def settled(self) -> float:
        """The same, once it has done what it was about to do."""
        deadline = time.monotonic() + DEADLINE
        before = -1.0
        while (now := self.processor_time()) - before > 0.005:
            assert time.monotonic() < deadline
            before = now
            time.sleep(0.5)
        return now


Start = Callable[..., Running]


@pytest.fixture
def start(project: Project) -> Iterator[Start]:
    """Starts it in the project; ends it whatever happens."""
    running: list[Running] = []

    def begin(*args: str) -> Running:
        running.append(Running(project, *args))
        return running[-1]

    yield begin
    for each in running:
        if each.process.poll() is None:
            each.process.kill()
        each.process.communicate()


@pytest.fixture
def watched(project: Project) -> Project:
    """A project with files, ignored ones, and a directory."""
    project.write(".gitignore", "*.log\nbuild/\n")
    project.write("a.txt", "one\n")
    project.write("src/deep/b.txt", "one\n")
    project.write("build/out", "made\n")
    project.commit()
    return project


def until_saved(project: Project, path: str, content: str) -> None:
    """Wait until the last checkpoint holds the file with this content, or, where it is empty, no
    such file.
    """
    deadline = time.monotonic() + DEADLINE
    while project.gitcp("show", f"@:{path}").out != content:
        assert time.monotonic() < deadline, path
        time.sleep(0.1)


def test_saves_what_changes(watched: Project, start: Start) -> None:
    """What is there is saved at once, then each change after a quiet moment; in directories that
    come, too.
    """
    with watched.guard():
        running = start("--quiet", "0.3")
        assert running.saved()["number"] == 1
        watched.write("src/deep/b.txt", "two\n")
        second = running.saved()
        assert (second["number"], second["trigger"], second["files"]["changed"]) == (2, "turn", 1)
        watched.write("new/below/c.txt", "new\n")
        until_saved(watched, "new/below/c.txt", "new\n")
        watched.write("new/below/c.txt", "newer\n")
        until_saved(watched, "new/below/c.txt", "newer\n")
        watched.remove("new")
        until_saved(watched, "new/below/c.txt", "")
        running.end()


def test_conversation(watched: Project, start: Start) -> None:
    """What is said between the user and the agent is seen as well, from the first line of a new
    session on.
    """
    running = start("--quiet", "0.3")
    assert running.saved()["agent"] is None
    talk = Talk(watched)
    talk.say("hello", "yes?")
    found = running.saved()
    while found["conversation"]["messages"] < 2:
        found = running.saved()
    assert (found["session"], found["conversation"]["messages"]) == ("e7baae82", 2)
    talk.say("go on", "gone on")
    while found["conversation"]["messages"] < 4:
        found = running.saved()
    assert found["files"]["changed"] == 0
    running.end()


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name
)
def test_ends_with_a_save(watched: Project, start: Start, number: signal.Signals) -> None:
    """Ended while something is not saved, it saves that first, says so, and ends well."""
    running = start("--quiet", "3600", "--every", "0")
    running.saved()
    watched.write("a.txt", "two\n")

    ended = running.end(number)

    assert [each["trigger"] for each in ended] == ["session-end"]
    assert watched.gitcp("show", "@:a.txt", check=0).out == "two\n"


def test_ignored_signal(watched: Project) -> None:
    """As a background job of a shell, which ignores ^C, it goes on."""
    script = 'trap "" INT; exec "$0" -P -m gitcp watch --json --quiet 0.2'
    process = subprocess.Popen(
        ["/bin/sh", "-c", script, sys.executable],
        cwd=watched.root,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        watched.write("a.txt", "two\n")
        assert process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) == 0
    finally:
        process.kill()
        process.communicate()


def test_idle(watched: Project, start: Start) -> None:
    """While nothing changes, it takes less than 0.5 % of one core, and what git ignores is
    nothing.
    """
    if sys.platform != "linux":
        pytest.skip(
            "no other system tells the processor time of another process's threads so finely"
        )
    for number in range(300):
        watched.write(f"many/{number % 20}/{number}.txt", "x\n")
    running = start("--quiet", "0.2")
    running.saved()
    settled = running.settled()
    begun = time.monotonic()
    time.sleep(IDLE)
    spent, passed = running.processor_time() - settled, time.monotonic() - begun

    assert spent / passed < 0.005, f"{spent:.4f} s in {passed:.1f} s"
    assert running.end() == []


def by_watchfiles(repo: Repository) -> Watcher:
    return WatchfilesWatcher(repo, Relevance(repo, 1000, lambda: ()), Stop())


def by_this_system(repo: Repository) -> Watcher:
    return watcher(repo, 1000, lambda: (), Stop())


@pytest.mark.parametrize("watch", [by_watchfiles, by_this_system])
def test_what_counts(watched: Project, watch: Callable[[Repository], Watcher]) -> None:
    """What git ignores is no change; nor is what happens in `.git`, in `.gitcp`, and to the
    writer's own files. A directory that comes is watched.
    """
    watched.write(".gitcp/x", "")
    watching = watch(open_store(watched).repo)
    for name in (
        "run.log",
        "build/out",
        "build/more/out",
        ".git/x",
        ".gitcp/x",
        "src/.gitcp-tmp-0123456789abcdef",
        "src/deep/x.log",
    ):
        watched.write(name, "other\n")

    assert not watching.wait(1)
    watched.write("src/deep/b.txt", "two\n")
    assert watching.wait(DEADLINE)
    watched.write("new/below/c.txt", "new\n")
    assert watching.wait(DEADLINE)
    while watching.wait(0.5):
        pass
    watched.write("new/below/c.txt", "newer\n")
    assert watching.wait(DEADLINE)
    watching.close()


def test_tracked_though_ignored(watched: Project, start: Start) -> None:
    """A tracked file counts, whatever the ignore rules say, and so does a `.gitignore`."""
    watched.git("add", "--force", "build/out")
    watched.commit()
    running = start("--quiet", "0.2")
    running.saved()
    watched.write("build/out", "other\n")
    assert running.saved()["number"] == 2
    watched.write("run.log", "wanted\n")
    watched.write(".gitignore", "build/\n")
    until_saved(watched, "run.log", "wanted\n")
    running.end()


def test_lines(watched: Project) -> None:
    """For people: one line a save, talk apart from it."""
    watch = subprocess.Popen(
        [sys.executable, "-P", "-m", "gitcp", "watch", "--quiet", "0.2"],
        cwd=watched.root,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert watch.stdout is not None
    line = watch.stdout.readline().decode()
    watch.terminate()
    out, err = watch.communicate(timeout=DEADLINE)

    assert line.rstrip().endswith("turn  (0 files changed)")
    assert "  saved manual-" in line
    assert (out, watch.returncode) == (b"", 0)
    assert b"watching " in err


def test_repository_goes(watched: Project, start: Start) -> None:
    """When the repository is removed it says so, and ends."""
    running = start("--quiet", "0.2")
    running.saved()
    shutil.rmtree(watched.root)

    assert running.process.wait(DEADLINE) == 10
    said = running.said.read_text()
    assert "no longer exists" in said or "no git repository" in said


def test_bad_values(project: Project) -> None:
    """No repository, no number: said before anything is watched."""
    assert project.gitcp("watch", "--quiet", "-1").code == 2
    assert project.gitcp("watch", "--every", "soon").code == 2
    refused = project.gitcp("watch", "--session", "a b", check=2)
    assert refused.err.endswith("hint: gitcp watch --session a-b\n")
    assert project.gitcp("watch", cwd=project.root.parent).code == 10


def test_not_installed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where gitcp does not watch by itself, it says what to install."""
    monkeypatch.setitem(sys.modules, "watchfiles._rust_notify", None)
    with pytest.raises(GitcpError, match="needs the package watchfiles") as error:
        by_watchfiles(open_store(project).repo)

    assert error.value.hint == installed.install_extra("watch")


# ---------------------------------------------------------------- the pace


def test_pace() -> None:
    """Quiet comes first, unless changes go on for longer than the interval."""
    assert Pace(10, 60).due(0, 5) == (15, Trigger.TURN)
    assert Pace(10, 60).due(0, 50) == (60, Trigger.TURN)
    assert Pace(10, 60).due(0, 51) == (60, Trigger.INTERVAL)
    assert Pace(10, 0).due(0, 5000) == (5010, Trigger.TURN)


class Script:
    """Changes as they are told to be: each `wait` does the next thing."""

    def __init__(self, *acts: Callable[[], bool]) -> None:
        self.acts = list(acts)
        self.waited: list[float | None] = []

    def wait(self, seconds: float | None) -> bool:
        self.waited.append(seconds)
        return self.acts.pop(0)()

    def is_stopped(self) -> bool:
        return not self.acts


def changed(project: Project, text: str) -> Callable[[], bool]:
    def act() -> bool:
        project.write("a.txt", text)
        return True

    return act


def run(
    project: Project, script: Script, pace: Pace, opened: Callable[[], Store] | None = None
) -> list[str]:
    opened = opened or (lambda: open_store(project))
    found = op.watch(opened, SaveTask(project.root), pace, script.wait, script.is_stopped)
    return [
        each.checkpoint.trigger.value if isinstance(each, Saved) else str(each) for each in found
    ]


def test_changes_that_go_on(project: Project) -> None:
    """While there is no quiet moment, the interval saves; and the end saves what is left."""
    project.write("a.txt", "one\n")
    acts = [changed(project, f"{number}\n") for number in range(3)]
    script = Script(*acts, changed(project, "last\n"))

    assert run(project, script, Pace(1000, 0.000001)) == [
        "turn",
        "interval",
        "interval",
        "interval",
        "session-end",
    ]
    assert script.waited == [None] * 4


def test_no_change_no_scan(project: Project) -> None:
    """Nothing is opened, looked at or saved while nothing changes."""
    project.write("a.txt", "one\n")
    opened = []

    def open_counted() -> Store:
        opened.append(1)
        return open_store(project)

    script = Script(*[lambda: False] * 20)

    assert run(project, script, Pace(0.01, 10), open_counted) == ["turn"]
    assert len(opened) == 2  # at the beginning and at the end
    assert script.waited == [None] * 20


def test_goes_on_after_an_error(project: Project) -> None:
    """A save that failed is said, and tried again later; nothing is lost by it."""
    project.write("a.txt", "one\n")
    troubles = iter([GitcpError("the disk is full")])

    def opened() -> Store:
        for trouble in troubles:
            raise trouble
        return open_store(project)

    script = Script(lambda: False, lambda: False)

    assert run(project, script, Pace(0.01, 0), opened) == ["the disk is full", "session-end"]
    assert 0 < (script.waited[0] or 0) <= op.AGAIN


def test_elsewhere(project: Project, sealed: Path) -> None:
    """An agent's own directory is waited for where it is not there; then what it keeps of this
    directory is watched.
    """
    host = Host(os.environ, sealed, open_store(project).repo.host.now)
    assert sealed / ".claude" in op.elsewhere(project.root, host)
    talk = Talk(project)
    talk.say("hello")

    found = op.elsewhere(talk.cwd, host)

    assert talk.path in found
    assert sealed / ".claude" not in found


def test_worktrees_come_and_go(watched: Project, start: Start, tmp_path: Path) -> None:
    """Changes in other worktrees are saved, also in one that is added meanwhile; one that is
    removed is no longer watched, and the others are.
    """
    watched.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "early"))
    running = start("--quiet", "0.2")
    early, late = Project(tmp_path / "early"), tmp_path / "late"
    assert running.saved()["session"] != running.saved()["session"]
    early.write("a.txt", "of early\n")
    until_saved(early, "a.txt", "of early\n")
    watched.git("worktree", "add", "--quiet", "--detach", str(late))
    Project(late).write("new.txt", "of late\n")
    until_saved(Project(late), "new.txt", "of late\n")
    watched.git("worktree", "remove", "--force", str(late))
    watched.write("a.txt", "of the main one\n")
    until_saved(watched, "a.txt", "of the main one\n")
    running.end()

    assert "late is gone" in running.said.read_text()
    gone = [x for x in watched.json_lines("sessions", "--worktrees") if x["state"] == "removed"]
    assert [each["path"] for each in gone] == [str(late)]
    saved = gone[0]["sessions"][0]["last"]
    assert watched.gitcp("show", f"{saved}:new.txt", check=0).out == "of late\n"
