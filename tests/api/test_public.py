"""What `import gitcp` offers: every public name, loaded when it is asked for; errors that are also
Python's own; paths as `str` and as bytes.
"""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gitcp
from gitcp import errors
from gitcp.api.opened import Opened, SaveOptions

from driver import SOURCE, Project


def test_names() -> None:
    """Each name is listed, is what a type checker takes it for, and is there."""
    tree = ast.parse(SOURCE.joinpath("gitcp/__init__.py").read_bytes())
    checked = {
        name.asname or name.name: f"{node.module}.{name.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module != "importlib"
        for name in node.names
    }

    assert gitcp.__all__ == sorted(gitcp._PUBLIC)
    assert dir(gitcp) == sorted([*gitcp.__all__, "__version__"])
    assert checked.keys() == gitcp._PUBLIC.keys()
    for name, whole in checked.items():
        module, _, other = whole.rpartition(".")
        assert getattr(gitcp, name) is getattr(sys.modules[module], other), name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(gitcp, "nothing")  # noqa: B009 -- a type checker refuses the other way
    everything: dict[str, Any] = {}
    exec("from gitcp import *", everything)
    assert everything.keys() >= set(gitcp.__all__)


def test_loaded_when_asked_for() -> None:
    """The package itself, and a look at what it has, load nothing."""
    code = "import gitcp, sys; dir(gitcp); print([m for m in sys.modules if m[:6] == 'gitcp.'])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
    )

    assert done.stdout.strip() == b"[]"


def test_complete() -> None:
    """Whatever a public method takes or returns has a public name, and so has every error."""
    public = {getattr(gitcp, name) for name in gitcp.__all__}
    named = {
        kind
        for cls in (gitcp.Checkpoints, Opened, gitcp.Session, gitcp.TransactionBlock)
        for name, member in vars(cls).items()
        if not name.startswith("_") and name not in {"request", "repository", "with_housekeeping"}
        for kind in annotated(member)
    }

    assert {kind.__name__ for kind in named - public} == set()
    assert {cls for cls in vars(errors).values() if isinstance(cls, type)} <= public


def annotated(member: Any) -> Iterator[type]:
    """The classes of gitcp's in the annotations of a method or property."""
    function = member.fget if isinstance(member, property) else member
    if not inspect.isfunction(function):
        return
    pending = list(typing.get_type_hints(function).values())
    while pending:
        hint = pending.pop()
        pending += [each for each in typing.get_args(hint) if not isinstance(each, str)]
        if isinstance(hint, type) and hint.__module__.startswith("gitcp."):
            yield hint


def test_options_of_a_session() -> None:
    """A session's save takes what a save takes, but for the session."""
    own = set(inspect.signature(Opened.save).parameters) - {"self", "label", "session"}

    assert set(typing.get_type_hints(SaveOptions)) == own


BUILTINS = {
    gitcp.BadValue: ValueError,
    gitcp.RepositoryNotFound: LookupError,
    gitcp.RevisionNotFound: LookupError,
    gitcp.RevisionAmbiguous: LookupError,
    gitcp.AlreadyExists: FileExistsError,
}


def test_errors_are_pythons_too() -> None:
    """Each says in the tree which of Python's errors it is; its message is whole, and its hint."""
    for cls, other in BUILTINS.items():
        error = cls("what happened", hint="gitcp log")
        assert isinstance(error, other)
        assert isinstance(error, gitcp.GitcpError)
        assert (str(error), error.hint) == ("what happened", "gitcp log")
        assert f"(a {other.__name__})" in (errors.__doc__ or "")
    assert issubclass(gitcp.AlreadyExists, gitcp.Refused)


def test_errors_as_they_are_met(project: Project) -> None:
    """A program catches them without knowing gitcp's."""
    project.write("a.txt", "one\n")
    project.commit()
    checkpoints = gitcp.open(project.root)
    checkpoints.save("first", session="s", tags=["good"])
    project.write("a.txt", "two\n")
    checkpoints.save("second", session="s")

    with pytest.raises(ValueError, match="cannot be the name of a session"):
        checkpoints.session("../x")
    with pytest.raises(LookupError, match="has no checkpoint 99"):
        checkpoints.show("99")
    with pytest.raises(LookupError, match="no git repository"):
        gitcp.open("/")
    with pytest.raises(FileExistsError, match="tag good already exists"):
        checkpoints.tag("good", "s@2")
    with pytest.raises(FileExistsError, match="tag good already exists"):
        checkpoints.save("third", session="s", tags=["good"])
    with pytest.raises(FileExistsError, match="session s already exists"):
        checkpoints.fork("s@1", name="s")


GIVEN: dict[str, Any] = {
    "record": 7_000_000,
    "file": "part-07.csv",
    "number in a text": "1",
    "share": 0.25,
    "whole": 1.0,
    "done": False,
    "zero": 0,
    "nothing": None,
    "ids": [1, "two", None],
    "by name": {"ä": [{}]},
    "large": 2**70,
}


def test_positions(project: Project) -> None:
    """A position comes back as it was given, in this program and the next; a shell sees text."""
    session = gitcp.open(project.root).session("s")
    saved = session.save(position={**GIVEN, "pair": (1, 2)})

    expected = {**GIVEN, "pair": [1, 2]}
    for found in (saved.checkpoint.note.position, gitcp.open(project.root).session("s").position):
        assert found == expected
        assert [type(found[name]) for name in expected] == list(map(type, expected.values()))
    shown = {name: project.gitcp("show", "s", "--position", name).out.strip() for name in GIVEN}
    assert (shown["record"], shown["file"], shown["done"]) == ("7000000", "part-07.csv", "false")
    assert (shown["ids"], shown["nothing"]) == ('[1,"two",null]', "null")
    assert project.json("show", "s")["position"]["record"] == "7000000"
    assert session.save(position={"zero": False}).saved  # not the same, though equal
    assert session.position["zero"] is False
    project.gitcp("save", "--session", "s", "--position", "record=8", "--force", check=0)
    assert session.position["record"] == "8"


@pytest.mark.parametrize("value", [b"bytes", {1: 2}, {1}, float("nan"), Path("a"), [b""]], ids=str)
def test_positions_that_json_does_not_have(project: Project, value: object) -> None:
    """They are refused whole: they would come back as something else."""
    session = gitcp.open(project.root).session("s")

    with pytest.raises(ValueError, match=r"position 'at' is a .*; nothing was saved"):
        session.save(position={"at": value})
    assert session.last is None


def test_paths(project: Project) -> None:
    """A path is given as `str` or bytes, and comes back as both."""
    project.write("a.txt", "one\n")
    project.write(b"\xff.txt", "one\n")
    project.commit()
    checkpoints = gitcp.open(project.root)
    checkpoints.save("first", session="s")
    project.write("a.txt", "two\n")
    project.write(b"\xff.txt", "two\n")

    changes = checkpoints.diff("s")
    assert [change.path for change in changes] == [b"a.txt", b"\xff.txt"]
    assert [change.path_text for change in changes] == ["a.txt", "\udcff.txt"]
    listing = checkpoints.file("s", "")
    assert isinstance(listing, gitcp.Listing)
    assert listing.names_text == (".gitcp/", "a.txt", "\udcff.txt")
    plan = checkpoints.plan("s", paths=["a.txt", b"\xff.txt"])
    assert [step.path_text for step in plan.files.write] == ["a.txt", "\udcff.txt"]
    report = checkpoints.restore("s", paths=[changes[1].path_text], agreed=None)
    assert (report.written, report.written_text) == ((b"\xff.txt",), ("\udcff.txt",))
    assert project.read("a.txt") == b"two\n"
    for one in ("a.txt", b"a.txt", Path("a.txt"), project.root / "a.txt"):
        (step,) = checkpoints.plan("s@1", paths=one).files.write
        assert step.path_text == "a.txt"
