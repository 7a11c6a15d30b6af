"""What lies in gitcp's own directories may come from anybody: links, garbage, files of other kinds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from driver import Project

LINKED = [
    "gitcp",
    "gitcp/lock",
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


@pytest.mark.parametrize("linked_tree", [False, True])
@pytest.mark.parametrize("name", LINKED)
def test_links(project: Project, tmp_path: Path, name: str, *, linked_tree: bool) -> None:
    """A symbolic link in the place of anything of gitcp's is refused, named, and not written through."""
    project.write("file", "1\n")
    project.commit()
    tree = tmp_path / "linked"
    if linked_tree:
        project.git("worktree", "add", "-q", str(tree))
    cwd = tree if linked_tree else project.root
    project.gitcp("save", "--session", "work", cwd=cwd, check=0)
    own = linked_tree and name.startswith("gitcp") and name != "gitcp/lock"
    path = (project.root / ".git/worktrees/linked" if own else project.root / ".git") / name
    target = tmp_path / "target"
    if path.exists():
        path.rename(target)
    else:
        target.mkdir()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    before = everything(target)

    cwd.joinpath("file").write_text("2\n")
    for command in (("save", "--session", "work"), ("tag", "kept", "work@1"), ("restore", "work@1", "--yes")):
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
    return [(str(each), os.stat(each).st_mode, b"" if each.is_dir() else each.read_bytes()) for each in found]
