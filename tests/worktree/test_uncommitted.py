"""Work in submodules and nested repositories is not saved: it is named at save and in status."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from driver import Project


@pytest.fixture
def inner(project: Project, tmp_path: Path) -> Project:
    """A project with a nested repository `lib` that is clean, and ignores some of its files."""
    project.write("app.py", "0\n")
    project.commit()
    made = Project(project.root / "lib")
    made.write("a.c", "int a;\n")
    made.write("src/b.c", "int b;\n")
    made.write(".gitignore", "*.o\n")
    made.symlink("link", "a.c")
    made.commit()
    made.write("a.o", "object\n")
    return made


def said(project: Project) -> list[str]:
    """What a save and status say is not saved."""
    project.write("app.py", f"{time.time_ns()}\n")
    status = project.gitcp("status", check=0).out.partition("Not captured")[2]
    saved = project.gitcp("save", check=0).out
    lines = [line for line in saved.splitlines() if line.startswith("not saved: ")]
    assert [line.removeprefix("not saved: ") for line in lines] == [
        line.strip() for line in status.splitlines()[1:] if line.startswith("  lib")
    ]
    return lines


CHANGES = {
    "edited": ("a.c", "int a2;\n"),
    "edited to the same size": ("src/b.c", "int x;\n"),
    "untracked": ("new.c", "int n;\n"),
    "in a new directory": ("new/c.c", "int n;\n"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_nested_repository(project: Project, inner: Project, change: str) -> None:
    """Named while it has work that no commit of its own has, and no longer."""
    assert said(project) == []
    path, content = CHANGES[change]
    inner.write(path, content)
    with project.guard():
        (line,) = said(project)
    assert "lib" in line
    assert "repository with uncommitted changes: " + path.split("/c.c")[0] in line

    inner.git("add", "--all")
    assert len(said(project)) == 1
    inner.commit()
    assert said(project) == []


def test_deleted_and_touched(project: Project, inner: Project) -> None:
    """A deleted file is work too; one whose time alone changed is none."""
    os.utime(inner.path("a.c"), (1, 1))
    assert said(project) == []
    inner.remove("src/b.c")
    assert "src/b.c" in said(project)[0]


def test_a_submodule(project: Project, inner: Project, tmp_path: Path) -> None:
    """The same for a submodule, also where nothing else changed; nothing of it is changed."""
    project.git("add", "lib")
    project.commit()
    project.gitcp("save", check=0)
    inner.write("a.c", "int later;\n")
    before = inner.git("status", "--porcelain")
    for _ in range(2):
        saved = project.gitcp("save", check=0).out
        assert "submodule with uncommitted changes: a.c" in saved
    assert inner.git("status", "--porcelain") == before
    skipped = project.json("status")["skipped"]
    assert [(each["path"], each["reason"]) for each in skipped] == [("lib", "nested-repository")]


def test_also_after_a_save_of_nothing(project: Project, inner: Project) -> None:
    """Where nothing of the outer repository changed, and for programs."""
    project.gitcp("save", check=0)
    for args in (("save",), ("save", "--json")):
        assert "uncommitted changes" not in project.gitcp(*args, check=0).out
    inner.write("a.c", "int later;\n")
    assert "uncommitted changes: a.c" in project.gitcp("save", check=0).out
    (found,) = project.json("save")["uncommitted"]
    assert (found["path"], found["reason"]) == ("lib", "nested-repository")
    assert found["detail"] == "repository with uncommitted changes: a.c"


def test_none_of_its_programs_run(project: Project, inner: Project, tmp_path: Path) -> None:
    """A repository that somebody else made runs nothing of its own: no filter, monitor or hook."""
    trap = tmp_path / "trap"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {trap}\ncat\n")
    program.chmod(0o755)
    inner.write(".gitattributes", "*.c filter=evil diff=evil\n")
    inner.commit()
    for key in ("filter.evil.clean", "filter.evil.process", "core.fsmonitor", "diff.evil.textconv"):
        inner.git("config", key, str(program))
    os.utime(inner.path("a.c"))
    inner.write("src/b.c", "int y;\n")

    assert "src/b.c" in said(project)[0]
    assert not trap.exists()


def test_one_that_cannot_be_read(project: Project, inner: Project) -> None:
    """It is named, with why; the save stands."""
    inner.path(inner.git_dir / "index")
    Path(os.fsdecode(inner.path(inner.git_dir / "index"))).write_bytes(b"garbage")

    assert "repository that cannot be looked into" in said(project)[0]
