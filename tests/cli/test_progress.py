"""Progress: on a terminal, after a while, and nowhere else."""

from __future__ import annotations

import io
import re
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from talk import Talk
from terminal import on_terminal

from gitcp import progress
from gitcp.cli.progress import delay, extent, rate
from gitcp.git import process

from driver import Project

AT_ONCE = {"GITCP_PROGRESS_DELAY": "0"}
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def shared(project: Project) -> Project:
    """Three checkpoints with a conversation, and a remote that may have them."""
    talk = Talk(project)
    for number in range(3):
        project.write("app.py", f"{number}\n" * 100)
        project.write(f"new{number}.py", f"{number}\n")
        talk.say(f"step {number}", "done")
        project.gitcp("save", f"step {number}", check=0)
    hub = project.root.parent / "hub.git"
    project.git("init", "--quiet", "--bare", str(hub))
    project.git("remote", "add", "origin", str(hub))
    project.gitcp("remote", "origin", check=0)
    return project


COMMANDS = {
    ("save", "more"): "scanning",
    ("restore", "1", "--yes"): "restoring",
    ("push", "origin"): "scanning for secrets 0 of 3 checkpoints",
    ("check",): "checking 0 of 3 checkpoints",
    ("export", "--format", "bundle", "-o", "out.bundle"): "counting objects",
    ("view", "--no-open", "-o", "page.html"): "comparing 0 of 3 checkpoints",
    ("prune", "--keep-last", "1", "--yes"): "rewriting 0 of 3 checkpoints",
    ("purge", "--path", "new1.py", "--yes"): "rewriting",
}
"""Commands that may take long, and what their first report begins with."""


@pytest.mark.parametrize("args", COMMANDS, ids=lambda args: args[0])
def test_long_commands_report(shared: Project, args: tuple[str, ...]) -> None:
    """Shown on a terminal, without a bar on a narrow one; nothing of it is left when they end."""
    if args[0] == "save":
        (shared.git_dir / "gitcp/worktree-state").unlink()
    done = on_terminal(shared, *args, env=AT_ONCE, columns=70)

    assert done.code == 0, done.out
    drawn = [" ".join(line.split()) for line in re.split(r"[\r\n]", ESCAPES.sub("", done.out))]
    assert any(line.startswith(COMMANDS[args]) for line in drawn), drawn
    assert "━" not in done.out
    assert done.out.rpartition("\x1b[?25l")[2].count("\x1b[?25h") == 1  # the cursor is back


def test_fetch_and_import_report(shared: Project, tmp_path: Path) -> None:
    """What comes in is counted too."""
    shared.gitcp("push", "origin", check=0)
    shared.gitcp("export", "--format", "bundle", "-o", "out.bundle", check=0)
    other = Project(tmp_path / "other")
    other.git("remote", "add", "origin", str(shared.root.parent / "hub.git"))
    other.gitcp("remote", "origin", check=0)
    fetched = on_terminal(other, "fetch", "origin", env=AT_ONCE)
    imported = on_terminal(other, "import", str(shared.root / "out.bundle"), env=AT_ONCE)

    assert fetched.code == imported.code == 0, imported.out
    assert "verifying" in fetched.out
    assert "verifying" in imported.out
    assert "━" in fetched.out


@pytest.mark.parametrize("env", [{}, {"TERM": "dumb", **AT_ONCE}], ids=["quick", "dumb"])
def test_nothing_is_drawn(shared: Project, env: dict[str, str]) -> None:
    """Not for what is done at once, and not on a terminal that cannot."""
    assert "checking" not in on_terminal(shared, "check", env=env).out


def test_a_pipe_gets_no_progress(shared: Project) -> None:
    """Programs read what they always did."""
    done = shared.gitcp("check", env=AT_ONCE, check=0)

    assert "checking" not in done.out + done.err


def test_interrupted(shared: Project) -> None:
    """After ^C the cursor is back, the message is alone on its line, and git has ended too."""
    hub = shared.root.parent / "hub.git"
    begun = hub / "begun"
    hook = hub / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n: > {begun}\nexec sleep 5 >/dev/null 2>&1\n")
    hook.chmod(0o755)
    done = on_terminal(shared, "push", "origin", env=AT_ONCE, interrupt=begun)

    assert done.code == 128 + signal.SIGINT
    assert "error: interrupted: no partial result was left behind" in done.out.splitlines()
    assert "\x1b[?25l" not in done.out.rpartition("\x1b[?25h")[2]
    assert not shared.git("ls-remote", str(hub))


# ---------------------------------------------------------------- pure


def test_extent() -> None:
    """Counts and sizes."""
    assert extent(1200, 4000, "files") == "1,200 of 4,000 files"
    assert extent(1, None, "checkpoints") == "1 checkpoint"
    assert extent(0, 1, "checkpoints") == "0 of 1 checkpoint"
    assert extent(1 << 20, 10 << 20, progress.BYTES) == "1.0 MiB of 10.0 MiB"
    assert (rate(None, "files"), rate(300.7, "files")) == ("", "300/s")
    assert rate(float(25 << 20), progress.BYTES) == "25.0 MiB/s"
    assert [delay({"GITCP_PROGRESS_DELAY": text}) for text in ("0", "2", "x", "-1")] == [
        0,
        2,
        0.5,
        0,
    ]


@pytest.mark.parametrize(
    ("line", "step"),
    [
        (
            "Writing objects:  45% (450/1000), 10.00 MiB | 2.00 MiB/s",
            ("writing objects", 450, 1000, "10.00 MiB, 2.00 MiB/s"),
        ),
        ("remote: Counting objects: 100% (5/5), done.", ("counting objects", 5, 5, "")),
        ("Receiving objects: 100% (9/9), 1.2 KiB", ("receiving objects", 9, 9, "1.2 KiB")),
        ("remote: error: 100% (no) objects", None),
        ("fatal: the remote end hung up", None),
    ],
)
def test_git_progress(line: str, step: tuple[str, int, int, str] | None) -> None:
    """git's own lines, and its messages."""
    assert process.parse(line) == step


class _Task:
    def __init__(self, name: str, total: int | None, ended: list[tuple[str, int]]) -> None:
        self.name, self.total, self.done, self.ended = name, total, 0, ended

    def advance(self, amount: int) -> None:
        self.done += amount

    def detail(self, text: str) -> None:
        self.text = text

    def end(self) -> None:
        self.ended.append((self.name, self.done))


class _Meter:
    def __init__(self) -> None:
        self.ended: list[tuple[str, int]] = []

    def begin(self, name: str, unit: str, total: int | None) -> progress.Task:
        assert unit
        return _Task(name, total, self.ended)


def test_git_report() -> None:
    """Progress is reported, messages come back as they were, whatever pieces they are read in."""
    stderr = (
        b"Counting objects:  50% (1/2)\rCounting objects: 100% (2/2), done.\n"
        b"remote: no such thing\nWriting objects:  10% (1/10)\rfatal: gone"
    )
    meter = _Meter()
    with progress.shown_by(meter):
        messages = process.report(io.BytesIO(stderr))

    assert messages == b"remote: no such thing\nfatal: gone\n"
    assert meter.ended == [("counting objects", 2), ("writing objects", 1)]


@given(st.lists(st.integers(), max_size=20), st.integers(0, 20))
def test_each(items: list[int], stop: int) -> None:
    """The same items; what was taken and done with counts; a task ends however the work ends."""
    meter = _Meter()
    with progress.shown_by(meter):
        counted = progress.each(items, "counting", "numbers", len(items))
        taken = [item for item, _ in zip(counted, range(stop), strict=False)]
        counted.close()  # type: ignore[attr-defined]

    assert taken == items[:stop]
    assert meter.ended == [("counting", min(len(items), stop))]
    assert not progress.is_shown()
