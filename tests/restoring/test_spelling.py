"""File systems that take two spellings of a name for one: upper and lower case, composed and
decomposed accents.

That of macOS is one, and none that a test could count on elsewhere: what finds a name is made to
find it so here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from back import contents, redo, restore, save, undo

from gitcp.worktree.paths import folded

from driver import Project

COMPOSED, DECOMPOSED = "caf\u00e9.txt", "cafe\u0301.txt"


@pytest.fixture(autouse=True)
def folding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the calls by which files are changed find a name by any spelling of it."""

    def spelled(name: Any, directory: int | None) -> Any:
        if directory is None or not isinstance(name, bytes):
            return name
        names = [os.fsencode(each) for each in os.listdir(directory)]
        return next(
            (each for each in names if name not in names and folded(each) == folded(name)), name
        )

    def folds(call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda path, *args, **named: call(spelled(path, named.get("dir_fd")), *args, **named)

    for call in ("open", "stat", "unlink", "rmdir", "mkdir", "readlink"):
        monkeypatch.setattr(os, call, folds(getattr(os, call)))


def respell(project: Project, old: str, new: str) -> None:
    """Rename by the spelling alone."""
    place = project.root
    for before, after in zip(Path(old).parts, Path(new).parts, strict=True):
        if before != after:
            os.rename(place / before, place / after)
        place /= after


@pytest.mark.parametrize("content", ["the same\n", "another\n"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("readme", "README"),
        (COMPOSED, DECOMPOSED),
        (DECOMPOSED, COMPOSED),
        ("src/deep/file", "Src/deep/file"),
        ("src/file", "Src/File"),
    ],
)
def test_a_file_that_was_respelled(project: Project, old: str, new: str, content: str) -> None:
    """It comes back under the name that it had, and goes again by undo: one file, whatever is in
    it.
    """
    project.write(old, "the same\n")
    before, target = contents(project), save(project)
    respell(project, old, new)
    project.write(new, content)
    after = contents(project)
    assert before.keys() != after.keys()

    with project.guard():
        assert not restore(project, target).failed
        assert contents(project) == before
        assert not undo(project).failed
        assert contents(project) == after
        assert not redo(project).failed
    assert contents(project) == before


def test_an_empty_directory_that_was_respelled(project: Project) -> None:
    """The same for what holds nothing."""
    os.makedirs(project.path("empty/directory"))
    before, target = contents(project), save(project)
    respell(project, "empty", "Empty")
    after = contents(project)

    assert not restore(project, target).failed
    assert contents(project) == before
    assert not undo(project).failed
    assert contents(project) == after


def test_what_is_ignored_stays(project: Project) -> None:
    """A directory that cannot be emptied keeps its spelling; nothing in it is lost."""
    project.write(".gitignore", "*.log\n")
    project.write("src/file", "mine\n")
    target = save(project)
    respell(project, "src", "Src")
    project.write("Src/x.log", "ignored\n")

    restore(project, target)

    assert project.read("Src/file") == b"mine\n"
    assert project.read("Src/x.log") == b"ignored\n"
