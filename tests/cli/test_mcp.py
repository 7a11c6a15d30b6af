"""`gitcp mcp`: the tools, called by the protocol's own client in a real process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from talk import Talk

from driver import SOURCE, Project

LIMIT = 240.0


class Called(Exception):
    """A tool said that it failed."""


class Tools:
    """The tools of one running server."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self.client.call_tool(tool, arguments)
        if result.is_error:
            raise Called(result.content[0].text)  # type: ignore[union-attr]
        found = result.structured_content
        assert isinstance(found, dict), result
        return found


def with_tools(
    project: Project, work: Callable[[Tools], Awaitable[None]], *, cwd: Path | None = None
) -> None:
    """Do some work with the tools of `gitcp mcp`, started in the project."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-P", "-m", "gitcp", "mcp"],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        cwd=str(cwd or project.root),
    )

    async def run() -> None:
        with anyio.fail_after(LIMIT):
            async with Client(stdio_client(server, errlog=nowhere)) as client:
                await work(Tools(client))

    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        anyio.run(run)


@pytest.fixture
def talk(project: Project) -> Talk:
    """A project with a commit, and an agent that has said something."""
    project.write("app.py", "one\n")
    project.write("b.txt", "b\n")
    project.commit()
    talk = Talk(project)
    talk.say("begin", "begun")
    return talk


def test_tools(project: Project, talk: Talk) -> None:
    """There are six, each says what it does, and which of them change something."""

    async def work(tools: Tools) -> None:
        found = {tool.name: tool for tool in (await tools.client.list_tools()).tools}
        assert sorted(found) == ["diff", "list", "note", "restore", "save", "show"]
        assert all(tool.description for tool in found.values())
        looking = [
            name
            for name, tool in found.items()
            if tool.annotations and tool.annotations.read_only_hint
        ]
        assert sorted(looking) == ["diff", "list", "show"]
        assert "digest" in found["restore"].input_schema["properties"]

    with_tools(project, work)


def test_save_and_look(project: Project, talk: Talk) -> None:
    """What is saved can be listed and shown; a second save finds nothing new; files come as they
    were.
    """

    async def work(tools: Tools) -> None:
        saved = await tools(
            "save",
            label="first",
            facts={"db": "sqlite"},
            decided=["one"],
            next=["two"],
            tags=["v1"],
        )
        assert (saved["schema"], saved["saved"], saved["checkpoint"]["id"]) == (
            "gitcp.save/1",
            True,
            "e7baae82@1",
        )
        assert not (await tools("save"))["saved"]
        project.write("app.py", "two\n")
        second = await tools("save")
        assert second["checkpoint"]["facts"] == {"db": "sqlite"}
        listed = (await tools("list"))["checkpoints"]
        assert [(each["id"], each["tags"]) for each in listed] == [
            ("e7baae82@2", []),
            ("e7baae82@1", ["v1"]),
        ]
        assert len((await tools("list", limit=1))["checkpoints"]) == 1
        shown = await tools("show", revision="v1")
        assert (shown["label"], shown["handoff"]["decisions"]) == ("first", ["one"])
        assert (await tools("show", revision="1", path="app.py"))["text"] == "one\n"
        assert (await tools("show", revision="1", path=""))["names"] == [
            ".gitcp/",
            "app.py",
            "b.txt",
        ]

    with project.guard():
        with_tools(project, work)


def test_the_first_save_of_a_session(
    project: Project, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent that calls has not written its conversation yet: it is waited for. Where none
    comes, that is said.
    """
    session = "99999999-2222-4333-8444-555555555555"
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", session)
    transcript = talk.path.with_name(f"{session}.jsonl")

    async def late() -> None:
        await anyio.sleep(1.0)
        transcript.write_bytes(
            talk.path.read_bytes().replace(talk.path.stem.encode(), session.encode())
        )

    async def work(tools: Tools) -> None:
        alone = await tools("save", label="no words")
        assert alone["checkpoint"]["conversation"] is None
        assert alone["warning"].startswith(
            "no conversation was saved, only the files: claude-code has written none"
        )
        async with anyio.create_task_group() as group:
            group.start_soon(late)
            saved = await tools("save", label="first")
        assert "warning" not in saved
        assert saved["checkpoint"]["conversation"]["messages"] == 2
        assert saved["checkpoint"]["agent"]["session_id"] == session

    with project.guard():
        with_tools(project, work)


def test_diff(project: Project, talk: Talk) -> None:
    """Between two checkpoints, or to now; the paths and git's patch."""

    async def work(tools: Tools) -> None:
        await tools("save", label="first")
        project.write("app.py", "two\n")
        project.write("b.txt", "c\n")
        now = await tools("diff")
        assert [each["path"] for each in now["changes"]] == ["app.py", "b.txt"]
        assert "-one\n+two\n" in now["patch"]
        assert [each["path"] for each in (await tools("diff", paths=["b.txt"]))["changes"]] == [
            "b.txt"
        ]
        await tools("save", label="second")
        assert "+two" in (await tools("diff", old="1", new="2"))["patch"]
        assert (await tools("diff"))["patch"] == ""

    with_tools(project, work)


def test_note(project: Project, talk: Talk) -> None:
    """What is noted is in the next checkpoint, whoever makes it."""

    async def work(tools: Tools) -> None:
        waiting = await tools("note", failed=["threads"], task="docs")
        assert (waiting["session"], waiting["handoff"]["failed"]) == (None, ["threads"])

    with_tools(project, work)
    project.gitcp("save", check=0)

    assert project.json("show")["handoff"]["failed"] == ["threads"]


def test_restore_needs_the_plan(project: Project, talk: Talk) -> None:
    """The first call changes nothing and gives a plan; the second does that plan and no other."""
    project.gitcp("save", check=0)
    project.write("app.py", "two\n")
    project.write("new.txt", "new\n")

    async def work(tools: Tools) -> None:
        plan = await tools("restore", revision="1")
        assert (plan["schema"], plan["written"]) == ("gitcp.restore-plan/1", ["app.py"])
        assert project.read("app.py") == b"two\n"
        with pytest.raises(
            Called, match="the digest does not match the current plan: nothing was changed"
        ):
            await tools("restore", revision="1", digest="0" * 64)
        project.write("app.py", "three\n")
        with pytest.raises(Called, match="review the plan"):
            await tools("restore", revision="1", digest=plan["digest"])
        assert project.read("app.py") == b"three\n"
        again = await tools("restore", revision="1")
        with pytest.raises(Called):
            await tools(
                "restore", revision="1", digest=again["digest"], what="files", paths=["app.py"]
            )
        done = await tools("restore", revision="1", digest=again["digest"])
        assert (done["schema"], done["written"]) == ("gitcp.restore/1", ["app.py"])
        assert done["resume"]["command"][0] == "claude"

    with project.guard():
        with_tools(project, work)

    assert project.read("app.py") == b"one\n"
    project.gitcp("undo", "--yes", check=0)
    assert project.read("app.py") == b"three\n"


def test_restore_parts(project: Project, talk: Talk) -> None:
    """Only files, only some of them."""
    project.gitcp("save", check=0)
    project.write("app.py", "two\n")
    project.write("b.txt", "c\n")
    talk.say("more", "done")

    async def work(tools: Tools) -> None:
        plan = await tools("restore", revision="1", paths=["b.txt"])
        assert (plan["written"], plan["conversation"]) == (["b.txt"], None)
        await tools("restore", revision="1", paths=["b.txt"], digest=plan["digest"])

    with_tools(project, work)

    assert (project.read("app.py"), project.read("b.txt")) == (b"two\n", b"b\n")


def test_errors(project: Project, talk: Talk) -> None:
    """What cannot be done is said, with what to do, and the server goes on."""

    async def work(tools: Tools) -> None:
        with pytest.raises(Called, match="no checkpoints yet\nhint: gitcp save"):
            await tools("show")
        await tools("save")
        with pytest.raises(Called, match="no checkpoint matches '99'"):
            await tools("show", revision="99")
        with pytest.raises(Called, match=r"has no \.\./outside"):
            await tools("show", path="../outside")
        with pytest.raises(Called):
            await tools("save", tags=["a b"])
        with pytest.raises(Called):
            await tools("list", limit=-1)
        with pytest.raises(Called):
            await tools("restore", revision="1", paths=["nowhere"])
        with pytest.raises(Called):
            await tools("save", session="../x")
        assert (await tools("list"))["checkpoints"]

    with project.guard():
        with_tools(project, work)


def test_without_a_repository(project: Project, tmp_path: Path) -> None:
    """A client may start it anywhere: each call then says that there is no repository."""
    outside = tmp_path / "outside"
    outside.mkdir()

    async def work(tools: Tools) -> None:
        with pytest.raises(Called, match="repository"):
            await tools("list")

    with_tools(project, work, cwd=outside)


def test_ends(project: Project) -> None:
    """It ends when its client closes standard input; nothing but the protocol is on standard
    output.
    """
    done = project.gitcp("mcp", input='not JSON\n{"jsonrpc":"2.0","id":1,"method":"ping"}\n')

    assert done.code == 0, done.err
    assert all(line.startswith("{") for line in done.out.splitlines())


def test_not_installed(project: Project, tmp_path: Path) -> None:
    """Without the package it says what to install."""
    tmp_path.joinpath("pydantic.py").write_text("raise ImportError('no', name='pydantic')\n")
    path = f"{tmp_path}{os.pathsep}{SOURCE}"
    done = subprocess.run(
        [sys.executable, "-P", "-m", "gitcp", "mcp"],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
    )

    assert done.returncode == 1
    assert "gitcp mcp needs the package mcp" in done.stderr
    assert "hint: pip install 'gitcp-checkpoints[mcp]'" in done.stderr
