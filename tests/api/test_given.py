"""Paths, names and sessions that programs pass: as on the command line, or refused whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from mcp_client import Called, Tools, with_tools

import gitcp
from gitcp.errors import BadValue

from driver import Project

CHANGES = ("written", "removed", "kept")
NUL, LONE = "a\0b", "\ud800"


@pytest.fixture
def work(project: Project) -> Project:
    """Two checkpoints, and changes since."""
    project.write("a.txt", "one\n")
    project.write("src/x.py", "one\n")
    project.commit()
    project.gitcp("save", "first", "--session", "work", "--phase", "plan", check=0)
    project.write("src/x.py", "two\n")
    project.gitcp("save", "second", "--session", "work", check=0)
    project.write("a.txt", "unsaved\n")
    project.write("new.txt", "unsaved\n")
    return project


@pytest.mark.parametrize(
    ("path", "changed"),
    [
        ("./a.txt", [b"a.txt"]),
        ("src/../a.txt", [b"a.txt"]),
        ("src/", [b"src/x.py"]),
        (b"src//x.py", [b"src/x.py"]),
        (".", [b"a.txt", b"src/x.py"]),
        ("", None),
        ("..", None),
        ("../a.txt", None),
        ("/etc/passwd", None),
        (NUL, None),
        (LONE, None),
        (Path(LONE), None),
    ],
)
def test_paths(work: Project, path: str | bytes | Path, changed: list[bytes] | None) -> None:
    """A path means the same in each method, however it is spelled. One outside, or that no file can
    have, is refused.
    """
    with gitcp.open(work.root) as checkpoints:
        acts: list[Callable[[], object]] = [
            lambda: [each.path for each in checkpoints.diff("work@1", "work@2", paths=[path])],
            lambda: checkpoints.plan("work@1", paths=path).files,
            lambda: checkpoints.plan_revert("work@2", paths=path),
            lambda: checkpoints.restore("work@1", files=True, paths=[path]),
            lambda: checkpoints.why(path),
        ]
        if changed is None:
            with work.guard():
                for act in acts:
                    with pytest.raises(BadValue, match=r": nothing was changed\Z"):
                        act()
            return
        assert acts[0]() == [each for each in changed if each != b"a.txt"]
        report = checkpoints.restore("work@1", paths=[path])
        assert list(report.written) == changed
        assert report.removed == ((b"new.txt",) if path == "." else ())
        assert report.placed is None


def test_a_listing(work: Project) -> None:
    """A directory is one with or without a slash; the root is "" or its own path."""
    with gitcp.open(work.root) as checkpoints:
        assert checkpoints.file("@", "./src/x.py") == b"two\n"
        assert checkpoints.file("@", "src/") == checkpoints.file("@", "src")
        assert checkpoints.file("@", "") == checkpoints.file("@", ".")
        assert checkpoints.file("@", "") == checkpoints.file("@", work.root)
        for path in (NUL, LONE, "../a.txt"):
            with pytest.raises(BadValue):
                checkpoints.file("@", path)


def test_no_path_at_all(work: Project) -> None:
    """A list that turned out empty is refused: it restored everything."""
    with gitcp.open(work.root) as checkpoints, work.guard():
        acts: list[Callable[[], object]] = [
            lambda: checkpoints.restore("work@1", paths=[]),
            lambda: checkpoints.restore("work@1", paths=iter(())),
            lambda: checkpoints.plan("work@1", paths=()),
            lambda: checkpoints.plan_revert("work@2", paths=[]),
            lambda: checkpoints.diff("work@1", paths=[]),
        ]
        for act in acts:
            with pytest.raises(BadValue, match="paths is empty: nothing was changed"):
                act()
        for command, revision in (("restore", "1"), ("revert", "2")):
            refused = work.gitcp(command, revision, "--yes", "--", check=2)
            assert refused.err == (
                "error: there is no path after --: nothing was changed\n"
                f"hint: gitcp {command} {revision} --dry-run\n"
            )
        with pytest.raises(BadValue, match="the phase is empty: nothing was changed"):
            checkpoints.restore(phase="")
        assert "the phase is empty" in work.gitcp("restore", "--phase", "", "--yes", check=2).err
    assert work.gitcp("diff", "1", "--name-only", "--", check=0).out == "a.txt\nnew.txt\nsrc/x.py\n"


@pytest.mark.parametrize("name", [NUL, LONE])
def test_names_that_no_file_can_have(work: Project, name: str) -> None:
    """Each method refuses them before it writes anything."""
    with gitcp.open(work.root) as checkpoints, work.guard():
        acts: list[Callable[[], object]] = [
            lambda: gitcp.open(name),
            lambda: checkpoints.save("x", session="work", outputs=[name]),
            lambda: checkpoints.save("x", session="work", appends=name),
            lambda: checkpoints.save("x", session="work", include=[name]),
            lambda: checkpoints.session("work").resume(outputs=name),
            lambda: checkpoints.restore("work@1", to=name),
            lambda: checkpoints.fork("work@1", worktree=name),
            lambda: checkpoints.fork("work@1", branch=name),
            lambda: checkpoints.export(f"{name}.bundle"),
            lambda: checkpoints.import_(name),
            lambda: checkpoints.bisect("true", share=[name]),
        ]
        for act in acts:
            with pytest.raises(BadValue):
                act()


def test_a_working_tree_beside(
    work: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fork's directory is relative to the one that was opened, as is every path: it was half
    made, and looked for in the process's own directory.
    """
    monkeypatch.chdir(tmp_path)
    with gitcp.open(work.root / "src") as checkpoints:
        forked = checkpoints.fork("work@1", name="beside", worktree="../../beside")
        assert forked.worktree == work.root.parent / "beside"
        assert (forked.worktree / "a.txt").read_text() == "one\n"
        with work.guard(), pytest.raises(BadValue, match="is empty: nothing was changed"):
            checkpoints.fork("work@1", worktree="")


def test_an_empty_session(work: Project) -> None:
    """The name of a session is not empty: it meant the current one, or whoever saves."""
    with gitcp.open(work.root) as checkpoints, work.guard():
        for act in (
            lambda: checkpoints.note(session="", phase="x"),
            lambda: checkpoints.save("x", session=""),
        ):
            with pytest.raises(BadValue):
                act()


def test_agents(work: Project) -> None:
    """MCP refuses them, too, and takes a path of the checkpoint for that path, whatever link is
    there now.
    """

    async def call(tools: Tools) -> None:
        for tool, arguments in (
            ("save", {"session": ""}),
            ("note", {"session": "", "phase": "x"}),
            ("find", {"session": "", "text": "one"}),
            ("show", {"path": NUL}),
            ("diff", {"paths": [NUL]}),
            ("restore", {"revision": "1", "paths": [NUL]}),
            ("restore", {"revision": "1", "paths": []}),
            ("why", {"path": NUL}),
            ("fork", {"worktree": NUL}),
            ("fork", {"branch": NUL}),
        ):
            with pytest.raises(Called) as caught:
                await tools(tool, **arguments)
            assert "nothing was" in str(caught.value), (tool, arguments)
            assert "internal error" not in str(caught.value), (tool, arguments)
        linked = await tools("restore", revision="work@1", paths=["src/x.py"])
        assert [linked[name] for name in CHANGES] == [typed[name] for name in CHANGES]
        whole = await tools("restore", revision="work@1", paths=["."])
        assert whole["conversation"] is None

    work.git("rm", "-rq", "--cached", "src")
    (work.root / "src").rename(work.root / "real")
    (work.root / "src").symlink_to("real")
    typed = work.json("restore", "work@1", "src/x.py", "--dry-run")
    with_tools(work, call)
