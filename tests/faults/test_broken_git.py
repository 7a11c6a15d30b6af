"""Whatever state git is in, files and conversation are saved, or it is said what is broken.

Each case breaks one thing of git's in a repository with checkpoints, and then runs the commands
that somebody would type next. None ends with a traceback, none is silent, and files that were in
the last checkpoint are in the next one.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from test_hook import Claude
from thorough import cases

from driver import Project

GIT = Path(".git")
NULS = bytes(1024)


def put(name: str, data: bytes) -> Callable[[Path], None]:
    """Replace a file of the git directory."""

    def breaks(git_dir: Path) -> None:
        git_dir.joinpath(name).write_bytes(data)

    return breaks


def change(name: str, edit: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Change a file of the git directory."""

    def breaks(git_dir: Path) -> None:
        path = git_dir / name
        path.write_bytes(edit(path.read_bytes()))

    return breaks


def add(name: str, text: str) -> Callable[[Path], None]:
    """Add to a file of the git directory."""
    return change(name, lambda data: data + text.encode())


def gone(name: str) -> Callable[[Path], None]:
    """Remove a file or a directory of the git directory."""

    def breaks(git_dir: Path) -> None:
        path = git_dir / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return breaks


def directory(name: str) -> Callable[[Path], None]:
    """Put a directory in the place of a file."""

    def breaks(git_dir: Path) -> None:
        git_dir.joinpath(name).unlink(missing_ok=True)
        git_dir.joinpath(name, "inside").mkdir(parents=True)

    return breaks


def locked(name: str) -> Callable[[Path], None]:
    """Take the permission to read a file."""

    def breaks(git_dir: Path) -> None:
        if os.geteuid() == 0:
            pytest.skip("root may read everything")
        git_dir.joinpath(name).chmod(0)

    return breaks


def worktree_config(git_dir: Path) -> None:
    """As `git worktree` and tools beside it leave it in a repository with sparse worktrees."""
    add("config", "[extensions]\n\tworktreeConfig = true\n")(git_dir)
    put("config.worktree", b"[core]\n\tbare = true\n")(git_dir)


def packed(damage: Callable[[Path], None]) -> Callable[[Path], None]:
    """Break `packed-refs` after git has packed the branch."""

    def breaks(git_dir: Path) -> None:
        head = git_dir / "refs" / "heads" / "main"
        line = f"{head.read_text().strip()} refs/heads/main\n"
        head.unlink()
        git_dir.joinpath("packed-refs").write_text(f"# pack-refs with: peeled sorted \n{line}")
        damage(git_dir)

    return breaks


def missing_commit(git_dir: Path) -> None:
    """HEAD is detached at a commit that is gone."""
    put("HEAD", b"1234567890" * 4 + b"\n")(git_dir)


def loses(kind: str) -> Callable[[Path], None]:
    """Remove the object of HEAD's commit, or of its tree."""

    def breaks(git_dir: Path) -> None:
        project = Project(git_dir.parent)
        oid = project.git("rev-parse", f"HEAD{kind}")
        git_dir.joinpath("objects", oid[:2], oid[2:]).unlink()

    return breaks


def below_a_branch(git_dir: Path) -> None:
    """HEAD names a branch below another one."""
    put("HEAD", b"ref: refs/heads/main/more\n")(git_dir)


def conflicted(git_dir: Path) -> None:
    add("config", "<<<<<<< ours\n")(git_dir)


def garbage_caches(git_dir: Path) -> None:
    """A power cut left what gitcp remembers without its content."""
    for path in (git_dir / "gitcp").iterdir():
        if path.is_file():
            path.write_bytes(NULS)


class Case(NamedTuple):
    """How git is broken. `says`: what a save must say; "" if nothing is unknown."""

    breaks: Callable[[Path], None]
    says: str = ""


BROKEN = {
    "bare": Case(add("config", "[core]\n\tbare = true\n"), "core.bare is true"),
    "bare by worktree config": Case(worktree_config, "core.bare is true"),
    "index missing": Case(gone("index"), "git's index cannot be read (it is missing)"),
    "index empty": Case(put("index", b""), "git's index cannot be read"),
    "index of NULs": Case(put("index", NULS), "git's index cannot be read"),
    "index cut": Case(change("index", lambda data: data[:-30]), "git's index cannot be read"),
    "index with a wrong checksum": Case(
        change("index", lambda data: data[:-20] + bytes([1] * 20)), "git's index cannot be read"
    ),
    "index with a wrong entry": Case(
        change("index", lambda data: data[:80] + b"\xff" * 8 + data[88:]),
        "git's index cannot be read",
    ),
    "index of an unknown version": Case(
        change("index", lambda data: data[:7] + b"\x09" + data[8:-20] + bytes(20)),
        "git's index cannot be read",
    ),
    "index unreadable": Case(locked("index"), "git's index cannot be read"),
    "index a directory": Case(directory("index"), "git's index cannot be read"),
    "index.lock": Case(put("index.lock", b"")),
    "HEAD empty": Case(put("HEAD", b""), "the base commit is unknown"),
    "HEAD of NULs": Case(put("HEAD", NULS), "the base commit is unknown"),
    "HEAD garbage": Case(put("HEAD", b"garbage\n"), "the base commit is unknown"),
    "HEAD bytes": Case(put("HEAD", b"\xff\xfe\n"), "the base commit is unknown"),
    "HEAD short": Case(put("HEAD", b"1234abcd\n"), "the base commit is unknown"),
    "HEAD names nothing": Case(put("HEAD", b"ref: \n"), "the base commit is unknown"),
    "HEAD missing": Case(gone("HEAD"), "the base commit is unknown"),
    "HEAD a directory": Case(directory("HEAD"), "the base commit is unknown"),
    "HEAD unborn": Case(put("HEAD", b"ref: refs/heads/other\n")),
    "HEAD at a missing commit": Case(missing_commit),
    "HEAD below a branch": Case(below_a_branch),
    "branch empty": Case(put("refs/heads/main", b""), "the base commit is unknown"),
    "branch of NULs": Case(put("refs/heads/main", bytes(41)), "the base commit is unknown"),
    "branch short": Case(put("refs/heads/main", b"1234abcd\n"), "the base commit is unknown"),
    "branch garbage": Case(put("refs/heads/main", b"\xff\xfe"), "the base commit is unknown"),
    "branch a loop": Case(
        put("refs/heads/main", b"ref: refs/heads/main\n"), "the base commit is unknown"
    ),
    "branch unreadable": Case(locked("refs/heads/main"), "the base commit is unknown"),
    "branch a directory": Case(directory("refs/heads/main")),
    "refs/heads missing": Case(gone("refs/heads")),
    "packed-refs cut": Case(packed(change("packed-refs", lambda d: d[:-10])), "packed-refs"),
    "packed-refs of NULs": Case(packed(put("packed-refs", NULS)), "packed-refs"),
    "packed-refs garbage": Case(packed(put("packed-refs", b"garbage\n")), "packed-refs"),
    "packed-refs a directory": Case(packed(directory("packed-refs")), "packed-refs"),
    "packed-refs unreadable": Case(packed(locked("packed-refs")), "packed-refs"),
    "config in conflict": Case(conflicted, "bad config line"),
    "config of NULs": Case(put("config", NULS), ""),
    "config empty": Case(put("config", b"")),
    "config missing": Case(gone("config")),
    "config cut": Case(put("config", b"[core]\n\trepositoryformatversion = 0\n\tfilem"), ""),
    "config garbage": Case(put("config", b"\xff\xfe[["), "bad config line"),
    "config with a wrong value": Case(add("config", "[core]\n\tbare = perhaps\n"), "bad boolean"),
    "config a directory": Case(directory("config"), ""),
    "config unreadable": Case(locked("config"), "git refuses to work here"),
    "HEAD's commit missing": Case(loses("")),
    "HEAD's tree missing": Case(loses("^{tree}")),
    "alternates of NULs": Case(put("objects/info/alternates", NULS)),
    "alternates a directory": Case(directory("objects/info/alternates")),
    "shallow empty": Case(put("shallow", b"")),
    "shallow garbage": Case(put("shallow", b"garbage\n")),
    "MERGE_HEAD garbage": Case(put("MERGE_HEAD", b"garbage\n")),
    "info/exclude a directory": Case(directory("info/exclude")),
    "info/exclude of NULs": Case(put("info/exclude", NULS)),
    "info/exclude unreadable": Case(locked("info/exclude")),
    "info/attributes garbage": Case(put("info/attributes", b"\xff" * 5000)),
    "info a file": Case(lambda git_dir: (gone("info")(git_dir), put("info", b"")(git_dir))[0]),
    "logs gone": Case(gone("logs")),
    "logs/HEAD garbage": Case(put("logs/HEAD", NULS)),
    "hooks a file": Case(lambda git_dir: (gone("hooks")(git_dir), put("hooks", b"")(git_dir))[0]),
    "gitcp's caches garbage": Case(garbage_caches),
}
"""By name."""


class Shop:
    """A project with an agent at work: a tracked file that is ignored, and one checkpoint."""

    def __init__(self, root: Path) -> None:
        self.project = Project(root, own_store=False)
        self.claude = Claude(self.project)
        self.project.write(".gitignore", "*.log\n")
        self.project.write("a.txt", "one\n")
        self.project.write("src/tracked.log", "ignored and tracked\n")
        self.project.git("add", "--force", ".")
        self.project.git("commit", "--quiet", "--message", "first")
        self.claude.says("user", "hello")
        self.claude.says("assistant", "yes")
        self.project.gitcp("save", "base", check=0)

    def tree(self, revision: str) -> set[str]:
        """The paths of a checkpoint."""
        listed = self.project.gitcp("show", revision, "--files", check=0)
        return set(listed.out.split())


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "shop")


@pytest.mark.parametrize("name", cases(BROKEN, 22))
def test_saves_whatever_is_broken(shop: Shop, name: str) -> None:
    """A hook and a save by hand work, so do a restore and its undo, and commands that read."""
    case, project = BROKEN[name], shop.project
    case.breaks(project.git_dir)
    project.write("a.txt", "by the agent\n")
    project.write("new.txt", "new\n")
    shop.claude.says("assistant", "changed it")
    shop.claude.calls("Stop", check=False)
    log = project.gitcp("log", "--oneline", "--all-steps")
    assert (log.code, log.out.count("\n")) == (0, 2), f"the hook saved nothing: {log}"

    project.write("a.txt", "by hand\n")
    saved = project.gitcp("save", "after")
    assert saved.code in (0, 3), saved.err
    assert case.says in saved.err, saved.err
    assert (saved.code == 0) or "note: " in saved.err
    assert project.gitcp("show", "@:a.txt", check=0).out == "by hand\n"
    assert project.gitcp("show", "@:src/tracked.log").out == "ignored and tracked\n"
    for command in (("status",), ("sessions",), ("show",), ("diff",), ("log",), ("find", "hand")):
        done = project.gitcp(*command)
        assert (done.code, "Traceback" in done.err) == (0, False), f"{command}: {done}"
    assert case.says in project.gitcp("status").out
    for command in (("doctor",), ("check",)):
        done = project.gitcp(*command)
        assert not {"Traceback", "internal"} & {*done.err.split()}, done

    force = ["--force"] if "MERGE_HEAD" in name else []
    restored = project.gitcp("restore", "base", "--yes", *force)
    assert restored.code in (0, 3), restored.err
    assert project.read("a.txt") == b"one\n"
    assert project.read("src/tracked.log") == b"ignored and tracked\n"
    undo = ["undo", "--yes"] if not force else ["restore", "@-", "--yes", *force]
    undone = project.gitcp(*undo)
    assert undone.code in (0, 3), undone.err
    assert project.read("a.txt") == b"by hand\n"
    assert project.read("new.txt") == b"new\n"
    assert project.read("src/tracked.log") == b"ignored and tracked\n"
    assert stat.S_ISREG(os.lstat(project.path("a.txt")).st_mode)


LINKED = {
    "commondir empty": Case(put("commondir", b"")),
    "commondir of NULs": Case(put("commondir", NULS)),
    "commondir garbage": Case(put("commondir", b"nowhere\n")),
    "commondir missing": Case(gone("commondir")),
    "gitdir empty": Case(put("gitdir", b"")),
    "gitdir of NULs": Case(put("gitdir", NULS)),
    "gitdir missing": Case(gone("gitdir")),
    "HEAD empty": Case(put("HEAD", b""), "the base commit is unknown"),
    "HEAD missing": Case(gone("HEAD"), "the base commit is unknown"),
    "index empty": Case(put("index", b""), "git's index cannot be read"),
    "branch empty": Case(put("../../refs/heads/side", b""), "the base commit is unknown"),
    "main's HEAD empty": Case(put("../../HEAD", b"")),
    "main's index of NULs": Case(put("../../index", NULS)),
    "main bare": Case(add("../../config", "[core]\n\tbare = true\n")),
    "config in conflict": Case(add("../../config", "<<<<<<< ours\n"), "bad config line"),
}
"""By name, in the git directory of a linked working tree."""


@pytest.mark.parametrize("name", cases(LINKED, 8))
def test_saves_in_a_broken_linked_worktree(shop: Shop, name: str) -> None:
    """The same in a linked working tree, from a directory below it."""
    shop.project.git("worktree", "add", "--quiet", "-b", "side", "../side")
    case, side = LINKED[name], Project(shop.project.root.parent / "side")
    below = side.root / "src"
    side.gitcp("save", "base", "--session", "side", check=0)
    case.breaks(shop.project.git_dir / "worktrees" / "side")
    side.write("a.txt", "changed\n")

    saved = side.gitcp("save", "after", "--session", "side", cwd=below)
    assert saved.code in (0, 3), saved.err
    assert case.says in saved.err, saved.err
    assert side.gitcp("show", "@:a.txt", "--session", "side", check=0).out == "changed\n"
    assert side.gitcp("show", "@:src/tracked.log", "--session", "side", check=0).out
    for command in (("status",), ("log",), ("sessions", "--worktrees"), ("doctor",)):
        done = side.gitcp(*command, cwd=below)
        assert not {"Traceback", "internal"} & {*done.err.split()}, done
    restored = side.gitcp("restore", "base", "--session", "side", "--yes", cwd=below)
    assert restored.code in (0, 3), restored.err
    assert side.read("a.txt") == b"one\n"
    assert side.read("src/tracked.log") == b"ignored and tracked\n"


def repository_format(git_dir: Path) -> None:
    change("config", lambda data: data.replace(b"version = 0", b"version = 99"))(git_dir)


def names_nowhere(git_dir: Path) -> None:
    """The repository of a linked working tree was moved."""
    shutil.move(git_dir, git_dir.parent.parent / "moved.git")
    git_dir.write_text("gitdir: /nowhere/.git/worktrees/shop\n")


def fake_git(script: str) -> Callable[[Path], None]:
    """Put another program in the place of git."""

    def breaks(git_dir: Path) -> None:
        directory = git_dir.parent.parent / "bin"
        directory.mkdir()
        path = directory / "git"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        os.environ["PATH"] = f"{directory}:{os.environ['PATH']}"
        git_dir.joinpath("gitcp", "config").unlink(missing_ok=True)

    return breaks


REFUSED = {
    "no objects": Case(gone("objects"), "it has no objects"),
    "another format": Case(repository_format, "Expected git repo version <= 1, found 99"),
    "an unknown extension": Case(
        change(
            "config",
            lambda data: (
                data.replace(b"version = 0", b"version = 1") + b"[extensions]\n\tnew = true\n"
            ),
        ),
        "unknown repository extension",
    ),
    ".git names nowhere": Case(
        names_nowhere, "does not name a git directory (/nowhere/.git/worktrees/shop is none)"
    ),
    ".git empty file": Case(
        lambda git_dir: (gone(".")(git_dir), git_dir.write_bytes(b""))[0],
        ".git does not name a git directory",
    ),
    "git always fails": Case(fake_git("echo fatal: no memory >&2; exit 128"), "no memory"),
    "git is killed": Case(fake_git("kill -9 $$"), "failed with exit code -9"),
}
"""Where nothing can be saved, and what is said then."""


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_saved_is_told(
    shop: Shop, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody is told what is broken: who saves, the agent, the user at the next start, and who
    asks `status` or `doctor`.
    """
    monkeypatch.setenv("PATH", os.environ["PATH"])
    case, project = REFUSED[name], shop.project
    case.breaks(project.git_dir)
    project.write("a.txt", "by the agent\n")
    for command in (("save",), ("status",)):
        done = project.gitcp(*command)
        assert done.code not in (0, 3)
        assert case.says in done.err
        assert "Traceback" not in done.err
    for _ in range(2):
        shop.claude.says("assistant", "changed it")
        assert shop.claude.calls("Stop", check=False) == ""

    prompt = shop.claude.calls("UserPromptSubmit", check=False, prompt="go on")
    context = json.loads(prompt)["hookSpecificOutput"]["additionalContext"]
    assert case.says in context
    assert "hooks could not save " in context
    start = json.loads(shop.claude.calls("SessionStart", check=False, source="resume"))
    assert case.says in start["systemMessage"]
    assert shop.claude.calls("UserPromptSubmit", check=False, prompt="and on") == ""
    doctor = project.gitcp("doctor")
    assert doctor.code == 1
    assert doctor.out.count(case.says) >= 2, doctor  # what is broken, and since when


def test_failed_saves_are_told_until_one_succeeds(shop: Shop) -> None:
    """Whatever the reason is. What hooks say of it ends with the next save that succeeds."""
    project, tags = shop.project, shop.project.git_dir / "refs" / "gitcp"
    moved = tags.with_name("moved")
    tags.rename(moved)
    tags.write_bytes(b"")
    project.write("a.txt", "by the agent\n")
    shop.claude.says("assistant", "changed it")
    shop.claude.calls("Stop", check=False)
    tags.unlink()
    moved.rename(tags)

    lines = project.gitcp("status", check=0).out.splitlines()
    told = next(line for line in lines if line.startswith("Hooks "))
    assert "hooks could not save 1 time since " in told
    assert project.json("status")["failing"]["count"] == 1
    start = shop.claude.calls("SessionStart", check=False, source="resume")
    assert told.removeprefix("Hooks").strip() in json.loads(start)["systemMessage"]

    project.gitcp("save", check=0)
    assert "Hooks " not in project.gitcp("status", check=0).out
    assert project.json("status")["failing"] is None
    assert shop.claude.calls("SessionStart", check=False, source="resume") == ""


def test_what_is_broken_is_told_once(shop: Shop) -> None:
    """Where a save works around it, the next prompt tells the agent, and no later one."""
    conflicted(shop.project.git_dir)
    for number in range(2):
        shop.project.write("a.txt", f"{number}\n")
        shop.claude.says("assistant", f"changed it {number}")
        shop.claude.calls("Stop", check=False)
    prompt = shop.claude.calls("UserPromptSubmit", check=False, prompt="go on")
    assert "bad config line" in json.loads(prompt)["hookSpecificOutput"]["additionalContext"]
    assert shop.claude.calls("UserPromptSubmit", check=False, prompt="and on") == ""


def test_show_says_that_the_base_is_unknown(shop: Shop) -> None:
    """A checkpoint whose base could not be read says so, and one made after a repair has it."""
    branch = shop.project.git_dir / "refs" / "heads" / "main"
    before = branch.read_bytes()
    branch.write_bytes(b"")
    shop.project.write("a.txt", "changed\n")
    saved = shop.project.gitcp("save", "without", check=3)
    hint = next(line for line in saved.err.splitlines() if line.startswith("hint: "))
    assert "Base:     unknown (the ref refs/heads/main" in shop.project.gitcp("show").out
    status = shop.project.json("status")
    assert status["base"] is None
    assert [fault["hint"] for fault in status["faults"]] == [hint.removeprefix("hint: ")]

    subprocess.run(hint.removeprefix("hint: "), shell=True, check=True)
    assert branch.read_bytes() == before
    assert shop.project.gitcp("save", "repaired", "--force", check=0).err == ""
    assert f"Base:     {before.decode()[:10]}" in shop.project.gitcp("show").out


@pytest.mark.parametrize("name", ["bare", "index empty", "HEAD empty", "branch of NULs"])
def test_the_hint_repairs_it(shop: Shop, name: str) -> None:
    """What is printed as a hint can be pasted, and git works afterwards."""
    project = shop.project
    BROKEN[name].breaks(project.git_dir)
    project.write("a.txt", "changed\n")
    (hint,) = (fault["hint"] for fault in project.json("status")["faults"])
    subprocess.run(hint, shell=True, check=True, cwd=project.root, capture_output=True)
    assert project.git("status", "--porcelain") == " M a.txt"
    assert project.gitcp("save", check=0).err == ""


def test_nothing_of_gits_is_changed(shop: Shop) -> None:
    """A save, a restore and an undo with a broken configuration write gitcp's files alone."""
    before = shop.project.git_dir.joinpath("config").read_bytes()
    with shop.project.guard():
        conflicted(shop.project.git_dir)
        shop.project.write("a.txt", "changed\n")
        shop.project.gitcp("save", check=0)
        shop.project.gitcp("restore", "base", "--yes", check=0)
        shop.project.gitcp("undo", "--yes", check=0)
        shop.project.git_dir.joinpath("config").write_bytes(before)
    assert shop.project.gitcp("save", check=0).err == ""


def test_settings_read_before_are_used(shop: Shop) -> None:
    """A configuration that cannot be read any more still says which files are left out."""
    project = shop.project
    project.git("config", "gitcp.maxFileSize", "10")
    old = time.time() - 60
    os.utime(project.git_dir / "config", (old, old))
    time.sleep(2.1)  # settings younger than that are not remembered
    project.gitcp("save", "--force", check=0)
    conflicted(project.git_dir)
    project.write("large", "x" * 100)
    saved = project.gitcp("save", "--force", check=0)
    assert "not saved: large" in saved.out
