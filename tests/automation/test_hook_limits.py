"""Whatever hangs, a hook of an agent or of git ends within its limit, with exit code 0, and what it
began goes on.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from gitcp import agents
from gitcp.automation.install import shipped
from gitcp.cli import background
from gitcp.hooks import limits

from driver import SOURCE, Project

SESSION = "11111111-2222-4333-8444-555555555555"
STARTING = 4.0
"""Seconds that Python may need to start on a machine that is busy with other tests."""

AT_MOST_AT_END = limits.LIMIT_AT_END + limits.GRACE + STARTING


@pytest.fixture
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory at the head of the PATH, with `gitcp` in it."""
    bin = tmp_path / "bin"
    bin.mkdir()
    program(bin / "gitcp", f'PYTHONPATH="{SOURCE}" exec "{sys.executable}" -P -m gitcp "$@"')
    monkeypatch.setenv("PATH", f"{bin}{os.pathsep}{os.environ['PATH']}")
    return bin


@pytest.fixture
def ready(project: Project, launcher: Path) -> Project:
    """A project with a commit and a checkpoint, and a change that is not saved."""
    project.write("a.txt", "one\n")
    project.commit()
    assert called(project, "UserPromptSubmit", prompt="x")[:2] == (0, b"")
    project.write("a.txt", "two\n")
    return project


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def command_of(event: str) -> str:
    """The command line that is installed for an event of Claude Code."""
    (group,) = json.loads(shipped.read("claude/hooks/hooks.json"))["hooks"][event]
    command: str = group["hooks"][0]["command"]
    return command


def called(project: Project, event: str, **fields: Any) -> tuple[int, bytes, float]:
    """Call the installed hook of an event; its exit code, what it printed, and the seconds that it
    took.
    """
    payload = json.dumps({"session_id": SESSION, "cwd": str(project.root), **fields}).encode()
    begun = time.monotonic()
    done = subprocess.run(
        ["sh", "-c", command_of(event)], cwd=project.root, input=payload, stdout=subprocess.PIPE
    )
    return done.returncode, done.stdout, time.monotonic() - begun


def forget(project: Project) -> None:
    """Let the next event be one of another turn."""
    (project.git_dir / "gitcp/failing").unlink(missing_ok=True)


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def checkpoints(project: Project) -> int:
    return int(project.git("rev-list", "--count", "refs/gitcp/sessions/11111111"))


@contextmanager
def gone_afterwards(pids: Path) -> Iterator[None]:
    """End the processes that wrote down their numbers in this file."""
    try:
        yield
    finally:
        for pid in pids.read_text().split() if pids.exists() else ():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def end_all(launcher: Path, pids: Path) -> None:
    """End what hangs until no process is left that was called with this directory on its `PATH`."""
    mine = f"PATH={launcher}{os.pathsep}".encode()

    def gone() -> bool:
        with gone_afterwards(pids):
            return not any(mine in environ(process) for process in Path("/proc").glob("[0-9]*"))

    until(gone)


def environ(process: Path) -> bytes:
    with suppress(OSError):
        return (process / "environ").read_bytes()
    return b""


def hanging_git(launcher: Path, script: str) -> Path:
    """Put a `git` on the PATH that runs this and hangs; the file in which it and its caller note
    their numbers.
    """
    pids = launcher.parent / "pids"
    program(launcher / "git", f'echo $$ $PPID >> "{pids}"\n{script}\nexec sleep 600')
    return pids


def fifo(path: Path) -> None:
    """Put a FIFO, which nobody writes to, in place of a file."""
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)


# ---------------------------------------------------------------- agents


def test_every_event_has_the_limit_that_is_documented() -> None:
    """Each event before a tool and at the end is known as such by its name; what agents are told
    leaves time for it.
    """
    for kinds in (known.hooks.events for known in agents.KNOWN):
        for name, kind in kinds.items():
            assert limits.KINDS[name] == kind, name
    for source, unit in (
        ("claude/hooks/hooks.json", 1),
        ("codex/hooks.json", 1),
        ("gemini/hooks.json", 1000),
        ("qwen/hooks.json", 1000),
    ):
        for name, (group,) in json.loads(shipped.read(source))["hooks"].items():
            # which is all that Codex gives
            most = 3 if source.startswith("codex") and name == "SessionEnd" else None
            assert group["hooks"][0]["timeout"] in ([most] if most else allowed(name, unit)), (
                source,
                name,
            )
    for name, (hook,) in json.loads(shipped.read("copilot/gitcp.json"))["hooks"].items():
        assert hook["timeoutSec"] in allowed(name, 1), name
    for name, (hook,) in json.loads(shipped.read("cursor/hooks.json"))["hooks"].items():
        assert hook["timeout"] in allowed(name, 1), name
    assert len(agents.KNOWN) == 11


def allowed(name: str, unit: int) -> range:
    """The time limits that an agent may be given for the hook of an event: it ends by itself
    before, but not long.
    """
    own = limits.LIMIT_AT_END if limits.KINDS[name] == agents.END else limits.LIMIT
    own = limits.LIMIT_BEFORE_TOOL if limits.KINDS[name] == agents.BEFORE_TOOL else own
    return range(int(own + limits.GRACE) * unit + 1, int(own + limits.GRACE + 3) * unit + 1)


def test_a_program_that_hangs(ready: Project, launcher: Path) -> None:
    """`git` never answers: the hook ends in time, before a tool and after a turn too, and keeps no
    stream open.
    """
    took = {}
    with gone_afterwards(hanging_git(launcher, "")):
        for event in ("PreToolUse", "Stop", "SessionEnd"):
            fields = {"tool_name": "Bash", "tool_input": {"command": "rm a.txt"}}
            took[event] = called(ready, event, **fields)
            forget(ready)

    allowed = {
        "PreToolUse": limits.LIMIT_BEFORE_TOOL,
        "Stop": limits.LIMIT,
        "SessionEnd": limits.LIMIT_AT_END,
    }
    for event, (code, said, seconds) in took.items():
        assert (code, said) == (0, b"")
        assert allowed[event] <= seconds < allowed[event] + STARTING, event


def test_work_that_is_stopped_goes_on_later(ready: Project, launcher: Path) -> None:
    """The process that saves is stopped: the agent goes on. Continued, it makes the checkpoint."""
    before = checkpoints(ready)
    real = shutil.which("git", path=os.environ["PATH"].partition(os.pathsep)[2])
    pids = launcher.parent / "pids"
    script = (
        f'[ -e "{pids}" ] || {{ echo $PPID >> "{pids}"; kill -STOP $PPID; }}\nexec "{real}" "$@"'
    )
    program(launcher / "git", script)
    with gone_afterwards(pids):
        code, said, seconds = called(ready, "SessionEnd")
        assert (code, said) == (0, b"")
        assert limits.LIMIT_AT_END <= seconds < AT_MOST_AT_END
        assert checkpoints(ready) == before
        os.kill(int(pids.read_text()), signal.SIGCONT)
        until(lambda: checkpoints(ready) == before + 1)


def test_a_lock_that_is_held(ready: Project) -> None:
    """Another process holds the lock of the store: the save waits for it, the agent does not."""
    before = checkpoints(ready)
    with ready.git_dir.joinpath("gitcp/lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, _, seconds = called(ready, "SessionEnd")
        assert code == 0
        assert seconds < AT_MOST_AT_END
        assert checkpoints(ready) == before
    until(lambda: checkpoints(ready) == before + 1)


@pytest.mark.parametrize(
    "name",
    [
        "{git_dir}/gitcp/worktree-state",
        "{git_dir}/gitcp/policy",
        "{git_dir}/gitcp/hooked/claude-code." + SESSION,
        "{git_dir}/gitcp/hook.log",
        "{git_dir}/gitcp/hook.busy",
        "{git_dir}/gitcp/lock",
        "{git_dir}/gitcp/untold",
        "{git_dir}/refs/gitcp/sessions/11111111",
        "{git_dir}/HEAD",
        ".gitcp.toml",
        "transcript",
    ],
)
def test_a_fifo_in_place_of_a_file(ready: Project, name: str) -> None:
    """Whatever is read is a FIFO: nothing waits for a writer that never comes."""
    place = Path(os.environ["HOME"]) / f".claude/projects/x/{SESSION}.jsonl"
    path = place if name == "transcript" else ready.root / name.format(git_dir=ready.git_dir)
    fifo(path)
    code, said, seconds = called(ready, "SessionEnd", transcript_path=str(place))

    with path.open("r+b", buffering=0):  # whoever waits there for a writer goes on
        path.unlink()
    assert (code, said) == (0, b"")
    assert seconds < AT_MOST_AT_END
    if path.name in {"hook.log", "hook.busy", "policy", place.name}:
        until(lambda: checkpoints(ready) == 2)


def test_standard_input_that_stays_open(ready: Project) -> None:
    """Nothing comes, or a byte now and then for ever: the hook takes what it has."""
    for script in ("exec sleep 600", "while :; do printf ' '; sleep 0.1; done"):
        writer = subprocess.Popen(
            ["sh", "-c", f"exec 2>/dev/null; {script}"], stdout=subprocess.PIPE
        )
        begun = time.monotonic()
        done = subprocess.run(
            ["sh", "-c", command_of("SessionEnd")], cwd=ready.root, stdin=writer.stdout
        )
        took = time.monotonic() - begun
        writer.kill()
        writer.communicate()
        assert done.returncode == 0
        assert took < AT_MOST_AT_END


def test_a_module_that_never_loads(ready: Project, launcher: Path, tmp_path: Path) -> None:
    """Even what is decided in the process that the agent waits for cannot keep it: the kernel ends
    it.
    """
    shutil.copytree(SOURCE / "gitcp", tmp_path / "slow/gitcp")
    with (tmp_path / "slow/gitcp/policy/events.py").open("a") as file:
        file.write("\nwhile True:\n    open('/dev/zero', 'rb').read(1 << 20)\n")
    program(
        launcher / "gitcp", f'PYTHONPATH="{tmp_path}/slow" exec "{sys.executable}" -P -m gitcp "$@"'
    )

    code, said, seconds = called(ready, "SessionEnd")

    assert (code, said) == (0, b"")
    assert limits.LIMIT_AT_END <= seconds < AT_MOST_AT_END


def test_signals_that_whoever_calls_ignores_or_blocks(
    ready: Project, launcher: Path, tmp_path: Path
) -> None:
    """An agent that ignores and blocks SIGALRM, which its hooks inherit, is freed all the same."""
    shutil.copytree(SOURCE / "gitcp", tmp_path / "slow/gitcp")
    with (tmp_path / "slow/gitcp/policy/events.py").open("a") as file:
        file.write("\nimport time\ntime.sleep(600)\n")
    deaf = (
        "import os, signal, sys; signal.signal(14, signal.SIG_IGN); "
        "signal.pthread_sigmask(signal.SIG_BLOCK, {14})"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "slow")}
    script = (
        f"{deaf}; os.execv(sys.executable, [sys.executable, '-P', '-m', 'gitcp', 'hook', 'claude', "
        "'SessionEnd'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ready.root, env=env, input=b"{}", timeout=30
    )

    assert done.returncode == -signal.SIGALRM


def test_behind_a_hook_that_hangs(ready: Project, launcher: Path) -> None:
    """Where a hook has been at work for too long, the next ones are not waited for as long as that
    one was.
    """
    busy = ready.git_dir / "gitcp/hook.busy"
    old = time.time() - limits.OVERDUE - 5
    with busy.open("r+b") as file, gone_afterwards(hanging_git(launcher, "")):
        fcntl.lockf(file, fcntl.LOCK_EX)
        os.utime(busy, (old, old))
        behind = called(ready, "Stop")
        os.utime(busy)
        forget(ready)
        beside = called(ready, "Stop")

    assert behind[0] == beside[0] == 0
    assert background.SHORT <= behind[2] < limits.LIMIT
    assert limits.LIMIT <= beside[2] < limits.LIMIT + STARTING


def test_a_turn_waits_once(ready: Project, launcher: Path) -> None:
    """After a save that did not finish in time, the events of the turn do not wait for theirs; a
    save that finishes ends that.
    """
    tool = {"tool_name": "Write", "tool_input": {"file_path": str(ready.root / "b")}}
    pids = hanging_git(launcher, "")
    first = called(ready, "UserPromptSubmit", prompt="y")
    rest = [
        called(ready, event, tool_calls=[tool], **tool)
        for event in ("PreToolUse", "PostToolBatch", "PreToolUse", "PostToolBatch", "Stop")
    ]
    end_all(launcher, pids)
    assert {code for code, *_ in (first, *rest)} == {0}
    assert first[2] >= limits.LIMIT
    assert all(seconds < limits.LIMIT for *_, seconds in rest)

    (launcher / "git").unlink()
    assert b"has not finished" in called(ready, "UserPromptSubmit", prompt="z")[1]
    until(lambda: not (ready.git_dir / "gitcp/failing").exists())


def test_it_is_busy_only_while_it_saves(ready: Project) -> None:
    """The mark goes with the process: two events one after the other do not meet it."""
    assert called(ready, "Stop")[0] == 0
    busy = ready.git_dir / "gitcp/hook.busy"
    assert busy.stat().st_size == 0
    with busy.open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


# ---------------------------------------------------------------- git


def test_a_commit_does_not_wait_for_long(ready: Project, launcher: Path) -> None:
    """A commit with our hook, where gitcp hangs as a whole, and where what it calls hangs: made,
    with its message.
    """
    ready.gitcp("enable", "git", "--yes", check=0)
    real = shutil.which("git", path=os.environ["PATH"].partition(os.pathsep)[2])
    assert real is not None
    ready.git("add", "--all")
    commit = [
        real,
        *ready.where,
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@example.org",
        "commit",
        "--quiet",
        "--allow-empty",
    ]
    begun = time.monotonic()
    with gone_afterwards(hanging_git(launcher, "")):
        done = subprocess.run([*commit, "-m", "first"], cwd=ready.root, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert time.monotonic() - begun < limits.LIMIT + limits.GRACE + STARTING

    launcher.joinpath("git").unlink()
    pids = launcher.parent / "pids"
    program(launcher / "gitcp", f'echo $$ >> "{pids}"\nexec sleep 600')
    begun = time.monotonic()
    with gone_afterwards(pids):
        done = subprocess.run([*commit, "-m", "second"], cwd=ready.root, capture_output=True)
    assert done.returncode == 0
    assert time.monotonic() - begun < 8 + STARTING
    assert ready.git("log", "--format=%s", "-n", "2").split() == ["second", "first"]
