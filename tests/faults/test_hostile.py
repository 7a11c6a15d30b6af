"""A repository, a checkpoint, an environment or a neighbour that means harm: it is neither run nor
obeyed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from thorough import FULL

from gitcp.git.trees import TreeEntry
from gitcp.model import FILE, TREE, Oid
from gitcp.store import Store

from driver import Project
from samples import open_store

RUN_BY_GIT = (
    *(
        "core.fsmonitor",
        "core.sshCommand",
        "core.askPass",
        "core.editor",
        "core.pager",
        "core.gitProxy",
    ),
    *(
        "core.alternateRefsCommand",
        "diff.external",
        "diff.trap.textconv",
        "diff.trap.command",
        "merge.trap.driver",
    ),
    *(
        "filter.trap.clean",
        "filter.trap.smudge",
        "filter.trap.process",
        "gpg.program",
        "gpg.ssh.program",
    ),
    *(
        "gpg.x509.program",
        "credential.helper",
        "sequence.editor",
        "interactive.diffFilter",
        "gc.recentObjectsHook",
    ),
    *(
        "uploadpack.packObjectsHook",
        "trailer.trap.command",
        "trailer.trap.cmd",
        "pager.log",
        "pager.diff",
        "pager.show",
    ),
)
"""Settings by which a repository's config names a command."""

HOOKS = (
    *(
        "reference-transaction",
        "post-index-change",
        "pre-commit",
        "post-commit",
        "post-checkout",
        "post-rewrite",
    ),
    *("pre-auto-gc", "prepare-commit-msg", "fsmonitor-watchman"),
)
ALIASES = (
    "blame",
    "config",
    "diff",
    "diff-tree",
    "for-each-ref",
    "log",
    "ls-files",
    "merge-file",
    "rev-list",
    "status",
)

COMMANDS = (
    ("save", "again", "--session", "s"),
    ("status",),
    ("log", "--stat"),
    ("log", "-p", "--all"),
    ("log", "--graph"),
    ("list",),
    ("show",),
    ("show", "@~1"),
    ("diff",),
    ("diff", "@~1", "@"),
    ("sessions",),
    ("stats",),
    ("find", "one"),
    ("why", "file.txt:1"),
    ("secrets",),
    ("check",),
    ("oplog",),
    ("tag",),
    ("tag", "mark"),
    ("compensate", "--list"),
    ("restore", "@~2", "--dry-run"),
    ("restore", "@~2", "--yes"),
    ("undo", "--yes"),
    ("redo", "--yes"),
    ("revert", "@~2", "--yes"),
    ("fork", "@", "--name", "other"),
    ("note", "--task", "x"),
    ("export", "@", "--allow-filtered", "--format", "bundle", "-o", "../out.bundle"),
    ("review", "HEAD~1..HEAD"),
    ("prune", "--keep-last", "1", "--yes"),
    ("delete", "other", "--yes"),
    ("doctor",),
)
"""What looks, saves and goes back."""

SHOWING = tuple(
    command
    for command in COMMANDS
    if command[0] not in {"check", "secrets", "export", "prune", "doctor"}
)

DEEP = (
    ("log", "--stat"),
    ("show",),
    ("diff",),
    ("find", "one"),
    ("secrets",),
    ("check",),
    ("restore", "@", "--dry-run"),
)


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A program that leaves a mark beside itself when it is run."""
    path = tmp_path / "trap"
    path.write_text(f'#!/bin/sh\necho "$0 $*" >> {tmp_path}/sprung\ncat\n')
    path.chmod(0o755)
    return path


def grow(project: Project) -> None:
    """Some commits and checkpoints, each with another file.txt."""
    for number in range(3):
        project.write("file.txt", f"one {number}\n" * 5)
        project.commit(f"commit {number}")
        project.write("file.txt", f"one {number} more\n" * 5)
        project.gitcp("save", f"label {number}", "--session", "s", check=0)


def sprung(trap: Path) -> str:
    """What ran."""
    mark = trap.with_name("sprung")
    return mark.read_text() if mark.exists() else ""


def set_traps(project: Project, trap: Path) -> None:
    """Everything by which a repository could have a program run names the trap."""
    for name in RUN_BY_GIT:
        project.git("config", name, str(trap))
    for alias in ALIASES:
        project.git("config", f"alias.{alias}", f"!{trap}")
    for name in (
        "commit.gpgSign",
        "tag.gpgSign",
        "log.showSignature",
        "filter.trap.required",
        "push.gpgSign",
    ):
        project.git("config", name, "true")
    for hook in HOOKS:
        project.git_dir.joinpath("hooks", hook).write_bytes(trap.read_bytes())
        project.git_dir.joinpath("hooks", hook).chmod(0o755)


def outer(other: Project, trap: Path) -> dict[str, str]:
    """Variables that would lead git elsewhere, or have it run or write something."""
    aside = str(trap.with_name("aside"))
    return {
        "GIT_DIR": str(other.git_dir),
        "GIT_WORK_TREE": str(other.root),
        "GIT_INDEX_FILE": aside,
        "GIT_OBJECT_DIRECTORY": str(other.git_dir / "objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(other.git_dir / "objects"),
        "GIT_COMMON_DIR": str(other.git_dir),
        "GIT_NAMESPACE": "evil",
        "GIT_REPLACE_REF_BASE": "refs/heads/",
        "GIT_SHALLOW_FILE": str(trap),
        "GIT_GRAFT_FILE": str(trap),
        "GIT_EXTERNAL_DIFF": str(trap),
        "GIT_DIFF_OPTS": "--unified=0",
        "GIT_PAGER": str(trap),
        "GIT_EDITOR": str(trap),
        "GIT_TRACE": aside,
        "GIT_TRACE2_EVENT": aside,
        "GIT_TEMPLATE_DIR": str(other.root),
        "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor={trap}'",
        "GIT_CONFIG": str(trap),
        "GIT_EXEC_PATH": str(trap.parent),
        "GIT_LITERAL_PATHSPECS": "0",
        "GIT_CEILING_DIRECTORIES": str(other.root.parent / "project"),
        "GIT_QUARANTINE_PATH": aside,
        "PYTHONINSPECT": "1",
        "PYTHONOPTIMIZE": "2",
        "PYTHONWARNINGS": "error",
    }


def test_nothing_is_run_and_nobody_obeyed(project: Project, trap: Path, tmp_path: Path) -> None:
    """Whatever the repository's config and hooks name stays asleep, and what an outer git says by
    variables leads nowhere: no other repository is touched, and nothing is written aside.
    """
    project.write(".gitattributes", "* filter=trap diff=trap merge=trap\n")
    grow(project)
    other = Project(tmp_path / "other")
    other.write("x", "x\n")
    other.commit()
    before = other.git("for-each-ref")
    set_traps(project, trap)

    for command in COMMANDS:
        done = project.gitcp(*command, env=outer(other, trap))

        assert done.code in (0, 1, 12), (command, done)
        assert "Traceback" not in done.err, (command, done.err)
        assert not sprung(trap), (command, sprung(trap))
    assert [each["session"] for each in project.json_lines("log", "-n", "1", "s")] == ["s"]
    assert other.git("for-each-ref") == before
    assert not tmp_path.joinpath("aside").exists()


# ---------------------------------------------------------------- what is shown

ESCAPES = "\x1b[2J\x1b]0;x\x07\x9b31m\u202e\u2066\u200f\x08\r[red]x[/red]"
BAD = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def test_every_field_is_shown_safely(project: Project) -> None:
    """Whatever text a field holds, a terminal gets no control of it; and markup is shown as it was
    written.
    """
    project.git("config", "user.name", "A\u202e U Thor")
    project.write(f"file{ESCAPES}".encode(), f"one {ESCAPES}\n")
    project.write("file.txt", f"one {ESCAPES}\n")
    project.git("checkout", "-q", "-b", "branch\u202e")
    project.commit(f"subject {ESCAPES}")
    talk = json.dumps({"role": "user", "content": f"one {ESCAPES}"}) + "\n"
    words = [
        f"--{name}={ESCAPES}"
        for name in ("phase", "objective", "task", "decided", "failed", "next", "active")
    ]
    pairs = [
        f"--fact=a{ESCAPES}=b{ESCAPES}",
        f"--position=a{ESCAPES}=b{ESCAPES}",
        f"--compensate=echo {ESCAPES}",
    ]
    given = ("--session", "s", "--conversation", "-", "--agent", "generic")
    for number in range(3):
        project.write("file.txt", f"one {number} {ESCAPES}\n")
        project.gitcp(
            "save",
            f"{number} {ESCAPES}",
            *words,
            *pairs,
            *given,
            input=talk * (number + 1),
            check=0,
        )
    project.gitcp(
        "run",
        f"label {ESCAPES}",
        "--",
        "sh",
        "-c",
        f"echo '{ESCAPES.replace(chr(39), '')}' >> other",
        check=0,
    )

    for command in (
        *SHOWING[1:20],
        ("show", f"@{ESCAPES}"),
        (f"x{ESCAPES}",),
        ("diff", "--", f"x{ESCAPES}"),
    ):
        done = project.gitcp(*command, env={"FORCE_COLOR": "1", "COLUMNS": "60"})

        assert "Traceback" not in done.err, (command, done.err)
        for said in (done.out, done.err):
            left = BAD.search(COLOUR.sub("", said).replace("\n", "").replace("\t", ""))
            assert left is None, (command, said[max(0, said.find(left[0]) - 80) :][:200])


# ----------------------------------------------------------- what is deep, or says that it is large


def deep_tree(store: Store, depth: int) -> Oid:
    """A tree with one file that many directories down."""
    entry = TreeEntry(b"file", FILE, store.writer.write_blob(b"deep\n"))
    for _ in range(depth):
        entry = TreeEntry(b"d", TREE, store.writer.write_tree([entry]))
    return store.writer.write_tree([entry])


def test_a_deep_tree(project: Project) -> None:
    """A checkpoint whose tree is as deep as somebody could make it is looked at, and restored or
    refused, in words.
    """
    grow(project)
    store = open_store(project)
    tip = store.read(store.sessions()["s"])
    holder = next(entry for entry in store.reader.read_tree(tip.root) if entry.name == b".gitcp")
    deep = store.reader.read_tree(deep_tree(store, 10_000))
    root = store.writer.write_tree([*deep, holder])
    head = store.reader.read_commit(tip.commit)
    commit = store.writer.write("commit", head.replace(tip.root.encode(), root.encode(), 1))
    store.writer.flush()
    project.git("update-ref", "refs/gitcp/sessions/s", commit)

    for command in (
        *DEEP,
        ("restore", "@", "--to", "../out"),
        ("restore", "@", "--yes"),
        ("save", "after"),
    ):
        done = project.gitcp(*command)

        assert "Traceback" not in done.err, (command, done.err[-2000:])
        assert "internal error" not in done.err, (command, done.err[-2000:])
        assert done.code in (0, 1, 2, 3, 12, 13), (command, done)
    assert project.git("rev-parse", "HEAD")


@pytest.fixture
def shallow_again(project: Project) -> Iterator[None]:
    """Remove what pytest cannot: it goes down by calling itself."""
    yield
    subprocess.run(["rm", "-rf", "--", project.root], check=True)


def deep_file(project: Project, depth: int, data: bytes | None = None) -> bytes | None:
    """Read, or write with `data`, the file that many directories down in a working tree."""
    here = os.open(project.root, os.O_RDONLY)
    try:
        for _ in range(depth):
            if data is not None:
                with suppress(FileExistsError):
                    os.mkdir("d", dir_fd=here)
            above, here = here, os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(above)
        flags = os.O_RDWR | (os.O_CREAT | os.O_TRUNC if data is not None else 0)
        with open(os.open("leaf", flags, dir_fd=here), "r+b", buffering=0) as file:
            return file.read() if data is None else b"%d" % file.write(data)
    except FileNotFoundError:
        return None
    finally:
        os.close(here)


@pytest.mark.usefixtures("shallow_again")
def test_a_deep_working_tree(project: Project) -> None:
    """Directories nested deeper than Python may call itself are saved, compared, checked, removed
    and restored, also by a hook. Once, none below the 485th could be saved.
    """
    depth = 1_100
    project.write("file", "1\n")
    project.gitcp("save", "--session", "s", check=0)
    deep_file(project, depth, b"one\n")
    project.gitcp("save", "--session", "s", check=0)
    deep_file(project, depth, b"two\n")

    for command in (
        ("save", "--session", "s"),
        ("status",),
        ("diff", "@~1"),
        ("log", "--stat"),
        ("check",),
        ("secrets",),
        ("restore", "@~2", "--yes"),
    ):
        done = project.gitcp(*command)
        assert done.code == 0, (command, done.err[-2000:])
    assert deep_file(project, depth) is None
    project.gitcp("undo", "--yes", check=0)
    assert deep_file(project, depth) == b"two\n"


@pytest.mark.usefixtures("shallow_again")
def test_a_directory_below_the_longest_path(project: Project) -> None:
    """What is too deep for the system's paths is listed as not saved, and left alone."""
    project.write("file", "1\n")
    project.gitcp("save", "--session", "s", check=0)
    deep_file(project, 2_100, b"one\n")

    done = project.gitcp("save", "--session", "s")
    assert done.code == 0
    assert "not saved: d/d/" in done.out + done.err
    project.gitcp("restore", "@~1", "--yes")
    assert deep_file(project, 2_100) == b"one\n"


def test_deep_input(project: Project) -> None:
    """JSON that is nested 100,000 deep stops no hook, is kept as a conversation, and imported or
    refused in words.
    """
    grow(project)
    text = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    project.write("../given.json", text)

    assert project.gitcp("hook", "claude", "Stop", input=text).code == 0
    assert (
        project.gitcp("save", "--session", "s", "--conversation", "-", "--force", input=text).code
        == 0
    )
    for command in (
        ("show",),
        ("log",),
        ("find", "a"),
        ("import", "../given.json"),
        ("export", "@", "--format", "json"),
    ):
        done = project.gitcp(*command)

        assert "Traceback" not in done.err, (command, done.err[-2000:])
    assert project.gitcp("show", "--conversation", "@").code in (0, 2)
    assert project.gitcp("check").code == 0


# ---------------------------------------------------------------- a neighbour that swaps

SWAPPER = """
import ctypes, os, sys
libc, root, outside = ctypes.CDLL(None), sys.argv[1], sys.argv[2]
os.chdir(root)
for name in ("d", "e"):
    os.symlink(outside, name + ".link")
print("ready", flush=True)
while True:
    for name in ("d", "e"):
        libc.renameat2(-100, name.encode(), -100, (name + ".link").encode(), 2)
"""


@contextmanager
def swapping(root: Path, outside: Path) -> Iterator[None]:
    """A process that exchanges directories and links to `outside`, as fast as it can."""
    code = [sys.executable, "-c", SWAPPER, str(root), str(outside)]
    with subprocess.Popen(code, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield
        finally:
            process.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="exchanging two names at once is Linux's")
def test_restores_beside_a_swapper(project: Project, tmp_path: Path) -> None:
    """While directories become links and directories again, restores write nothing outside,
    whatever they can do.
    """
    outside = tmp_path / "outside"
    outside.mkdir()
    outside.joinpath("kept").write_text("outside\n")
    os.link(outside / "kept", tmp_path / "second")
    for number in range(2):
        for name in ("d", "e"):
            for each in range(8):
                project.write(f"{name}/{number * 4 + each}", f"{number} {each}\n")
            if number:
                for each in range(4):
                    project.remove(f"{name}/{each}")
        project.gitcp("save", f"label {number}", "--session", "s", check=0)
    project.root.joinpath("d", "hard").hardlink_to(outside / "kept")

    with swapping(project.root, outside):
        for number in range(500 if FULL else 8):
            done = project.gitcp("restore", f"s@{1 + number % 2}", "--yes")
            assert "Traceback" not in done.err, done.err
            if done.code == 12 and "not finished" in done.err:
                project.gitcp("restore", "--abort", "--yes")
            assert os.listdir(outside) == ["kept"], (number, done)
            assert outside.joinpath("kept").read_text() == "outside\n"

    assert tmp_path.joinpath("second").read_text() == "outside\n"
    assert project.gitcp("check").code == 0
