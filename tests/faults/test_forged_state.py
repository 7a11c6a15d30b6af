"""What lies in gitcp's own directories may come from anybody: links, garbage, files of other
kinds.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import pytest
from thorough import sample

from faults import process

from driver import Project

LINKED = [
    "gitcp",
    "gitcp/lock",
    "gitcp/locks",
    "gitcp/queue",
    "gitcp/oplog",
    "gitcp/current",
    "gitcp/worktree-state",
    "gitcp/runs",
    "gitcp/hooked",
    "refs/gitcp",
    "refs/gitcp/sessions",
    "refs/gitcp/sessions/work",
    "refs/gitcp/tags",
]

SHARED = {"gitcp/lock", "gitcp/locks", "gitcp/queue"}
"""Of these all worktrees have one."""


@pytest.mark.parametrize("linked_tree", [False, True])
@pytest.mark.parametrize("name", LINKED)
def test_links(project: Project, tmp_path: Path, name: str, *, linked_tree: bool) -> None:
    """A symbolic link in the place of anything of gitcp's is refused, named, and not written
    through.
    """
    project.write("file", "1\n")
    project.commit()
    tree = tmp_path / "linked"
    if linked_tree:
        project.git("worktree", "add", "-q", str(tree))
    cwd = tree if linked_tree else project.root
    project.gitcp("save", "--session", "work", cwd=cwd, check=0)
    own = linked_tree and name.startswith("gitcp") and name not in SHARED
    path = (project.git_dir / "worktrees/linked" if own else project.git_dir) / name
    target = tmp_path / "target"
    if path.exists():
        path.rename(target)
    else:
        target.mkdir()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    before = everything(target)

    cwd.joinpath("file").write_text("2\n")
    for command in (
        ("save", "--session", "work"),
        ("tag", "kept", "work@1"),
        ("restore", "work@1", "--yes"),
    ):
        failed = project.gitcp(*command, cwd=cwd, check=12)
        assert f"{path} is a symbolic link" in failed.err
        assert f"rm {path}" in failed.err
    assert everything(target) == before
    path.unlink()
    if name not in ("refs/gitcp", "refs/gitcp/sessions", "refs/gitcp/sessions/work"):
        project.gitcp("restore", "work@1", "--yes", cwd=cwd, check=0)
        assert cwd.joinpath("file").read_text() == "1\n"


def everything(path: Path) -> list[tuple[str, int, bytes]]:
    """A file, or a directory with all that is below it."""
    found = [path, *sorted(path.rglob("*"))]
    return [
        (str(each), os.stat(each).st_mode, b"" if each.is_dir() else each.read_bytes())
        for each in found
    ]


NAMES = (
    "current manual note untold worktree-id restore.json moves.json limits.json "
    "oplog scanned unchanged config "
    "policy worktree-state ahead hook.log prompted runs/one.json packs/left "
    "hooked/claude-code.e7baae82 lock "
    "runs packs steps compensations restored hooked aside damaged dropped notice written hook.busy "
    "outputs appends latest numbers tools tools.old worktrees verified search locks queue "
    "search/words-2.sqlite"
).split()

JSON = [
    b"null",
    b"[]",
    b"7",
    b'"text"',
    b'{"schema": 7}',
    b'{"undo": 7, "redo": {"a": 1}, "extents": []}',
    b'{"undo": [7, null, "work@1"], "extents": {"work@1": 7}}',
    b'{"next": 7}',
    b'{"next": [7, null, "work", "work@0", {"work@9": 7}]}',
    b'{"notes": 7, "limits": [], "sessions": 7, "looked": 7, "paths": 7, "refs": 7, "moves": 7}',
    b'{"notes": [7, null, {"session": [], "note": 7}], "paths": [7, null], "refs": {"a": 7}, "steps": [7]}',  # noqa: E501
    b'{"target": "work@1", "safety": "work@1", "paths": ["../../etc"], "files": 1, "conversation": 1, "index": 1}',  # noqa: E501
    b'{"target": "work@' + b"9" * 5000 + b'", "safety": [], "number": 1e999, "order": "x"}',
    b'{"number": '
    + b"9" * 5000
    + b', "time": "2026-01-01T00:00:00+00:00", "what": "prune", "said": "x"}\n',
    b'{"number": 1, "time": "9999-12-31T23:59:59-23:59", "what": [], "said": {}, "checkpoints": 7, "dropped": 7}\n',  # noqa: E501
    b'{"number": 1, "time": "2026-01-01T00:00:00+00:00", "what": "prune", "said": "x", "names": 7, "trash": 7}\n',  # noqa: E501
]
OTHER = [
    b"",
    b"\0" * 4096,
    b"\xff\xfe\x80 no UTF-8 \xc3",
    b"[" * 100_000,
    b"work@1\nwork",
    b"../../../x",
    b"9" * 5000,
]
OTHER += [
    b"gitcp-ahead 1 a refs/heads/main - " + b"0" * 40 + b" 9+9,x " + b"0" * 40 + b"\n",
    b"gitcp-ahead 9 ",
]
KINDS: list[bytes | str] = [*JSON, *OTHER, "directory", "fifo", "socket"]

COMMANDS = (
    "save --force",
    "save",
    "status",
    "log",
    "undo --yes",
    "restore 1 --yes",
    "note",
    "oplog",
    "doctor",
    "check",
    "find first",
    "sessions --worktrees",
    "adopt --yes",
    "why file",
    "save --force --produces file",
)

NEWER = (
    ("search/words-2.sqlite", "find first"),
    *((name, "save --force") for name in ("tools", "latest", "numbers", "outputs", "appends")),
    *((name, "sessions --worktrees") for name in ("worktrees", "worktree-id")),
    ("verified", "check"),
)
"""What is read by few commands only, with one that does."""

PROMPT = 'hook claude UserPromptSubmit {"session_id":"e7baae82","prompt":"on"}'
"""An agent's event at which it is told what waits for it."""


def limited(command: str) -> Callable[[], None]:
    """What becomes this command, and is killed if it hangs."""
    become = process.forked(command.split())

    def run() -> None:
        signal.alarm(5)
        become()

    return run


def forge(path: Path, kind: bytes | str) -> None:
    """Put something else at `path`."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    if isinstance(kind, bytes):
        path.write_bytes(kind)
    elif kind == "directory":
        path.joinpath("inside").mkdir(parents=True)
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(os.fspath(path))


DOCUMENTS = (
    "restore.json",
    "moves.json",
    "limits.json",
    "note",
    "untold",
    "oplog",
)


def attempts() -> Iterator[tuple[str, bytes | str, str]]:
    """What lies in whose place, and what is typed then: every command comes to every kind, not each
    to each file.
    """
    commands = cycle(COMMANDS)
    for name in NAMES:
        yield from ((name, kind, next(commands)) for kind in ("fifo", "directory", OTHER[2]))
    for name, command in NEWER:
        yield from ((name, kind, command) for kind in KINDS)
    yield from (
        (name, "fifo", command) for name in ("damaged", "notice") for command in ("save", PROMPT)
    )
    for name in DOCUMENTS:
        yield from ((name, kind, next(commands)) for kind in JSON)


def test_forged(tmp_path: Path) -> None:
    """Whatever lies in the place of a state file: no traceback, no hang, and every checkpoint stays
    whole.
    """
    process.load()
    project = process.Forking(tmp_path / "p")
    project.write("file", "1\n")
    project.gitcp("save", "--session", "work", check=0)
    project.write("file", "2\n")
    project.gitcp("restore", "work@1", "--yes", check=0)
    own, kept = project.git_dir / "gitcp", tmp_path / "kept"
    shutil.copytree(own, kept)
    wrong = []
    for name, kind, command in sample(attempts(), 150):
        shutil.rmtree(own)
        shutil.copytree(kept, own)
        forge(own / name, kind)
        done = process.run(limited(command), project.root)
        if "Traceback" in done.err or "internal error" in done.err or done.code < 0:
            wrong.append(f"{name}, {str(kind)[:60]}, {command}: {done.code} {done.err[-300:]}")
    assert not wrong, "\n".join(wrong)
    shutil.rmtree(own)
    project.gitcp("check", check=0)
