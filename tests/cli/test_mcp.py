"""`gitcp mcp`: the tools, called by the protocol's own client in a real process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from mcp_client import Called, Tools, with_tools
from talk import Talk

import gitcp
from gitcp import installed
from gitcp.mcp import hints

from driver import SOURCE, Project

TOOLS = set("diff find fork list note restore revert save show undo why".split())
READING = {"diff", "find", "list", "show", "why"}
DESTROYING = {"restore", "revert", "undo"}


@pytest.fixture
def talk(project: Project) -> Talk:
    """A project with a commit, and an agent that has said something."""
    project.write("app.py", "one\n")
    project.write("b.txt", "b\n")
    project.commit()
    talk = Talk(project)
    talk.say("begin", "begun")
    return talk


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_tools(project: Project, talk: Talk, mode: str) -> None:
    """Each tool says what it does and what a client may assume of it, in both eras of the
    protocol.
    """

    async def work(tools: Tools) -> None:
        found = {tool.name: tool for tool in (await tools.client.list_tools()).tools}
        assert set(found) == TOOLS
        hints = {name: tool.annotations for name, tool in found.items()}
        assert {name for name, hint in hints.items() if hint and hint.read_only_hint} == READING
        assert {
            name for name, hint in hints.items() if hint and hint.destructive_hint
        } == DESTROYING
        assert all(hint and hint.open_world_hint is False for hint in hints.values())
        assert all(tool.title and len(tool.description or "") > 40 for tool in found.values())
        assert tools.client.instructions is not None
        assert "digest" in tools.client.instructions

    with_tools(project, work, mode=mode)


def fields(schema: Any) -> list[dict[str, Any]]:
    """Every part of a schema of arguments that has a type."""
    if isinstance(schema, list):
        return [part for each in schema for part in fields(each)]
    if not isinstance(schema, dict):
        return []
    here = [schema] if isinstance(schema.get("type"), str) else []
    return here + [part for value in schema.values() for part in fields(value)]


BOUNDS = {
    "string": {"maxLength", "enum", "pattern"},
    "array": {"maxItems"},
    "integer": {"maximum"},
    "object": {"additionalProperties"},
    "boolean": {"type"},
}


def test_arguments_are_described(project: Project, talk: Talk) -> None:
    """Every argument has a description, a type and a bound; nothing else is allowed."""

    async def work(tools: Tools) -> None:
        for tool in (await tools.client.list_tools()).tools:
            schema = tool.input_schema
            assert schema["additionalProperties"] is False, tool.name
            for name, field in schema["properties"].items():
                assert len(field["description"]) > 10, (tool.name, name)
                assert "type" in field, (tool.name, name)
            for part in fields(schema):
                assert BOUNDS[part["type"]] & part.keys(), (tool.name, part)

    with_tools(project, work)


WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "a misspelled label": ("save", {"lable": "x"}, "no argument 'lable' (did you mean 'label'?)"),
    "one path for paths": ("restore", {"revision": "1", "path": ["a"]}, "did you mean 'paths'"),
    "an unlike name": ("list", {"zzzzz": 1}, "there are: limit, revision, every_session, session"),
    "no path": ("restore", {"revision": "1", "paths": []}, "'paths' is invalid"),
    "too many": ("list", {"limit": 10_000}, "'limit' is invalid: input should be less than"),
    "too long": ("save", {"label": "x" * 2000}, "'label' is invalid: string should have at most"),
    "a wrong type": (
        "save",
        {"decided": "one"},
        "'decided' is invalid: input should be a valid list",
    ),
    "nothing where it must be": ("restore", {}, "the argument 'revision' is missing"),
    "no such choice": ("restore", {"revision": "1", "what": "all"}, "'what' is invalid"),
    "two at once": ("save", {"lable": "x", "fact": {}}, "'fact' (did you mean 'facts'?)"),
    "no such tool": ("restor", {"revision": "1"}, "no tool 'restor' (did you mean 'restore'"),
}


def test_unknown_arguments(project: Project, talk: Talk) -> None:
    """A call that is not understood is refused whole: nothing is saved, nothing is planned."""
    project.gitcp("save", check=0)
    project.write("app.py", "two\n")

    async def work(tools: Tools) -> None:
        for name, (tool, arguments, said) in WRONG.items():
            with pytest.raises(Called) as raised:
                await tools(tool, **arguments)
            assert said in str(raised.value), (name, str(raised.value))
            assert "nothing was changed" in str(raised.value), name
        assert (await tools("save", label=None, phase=None))["saved"]  # null is: left out
        assert (await tools("show", revision=1))["id"] == "e7baae82@1"

    with project.guard():
        with_tools(project, work)

    assert [line["id"] for line in listed(project)] == ["e7baae82@2", "e7baae82@1"]


def listed(project: Project) -> list[Any]:
    """The checkpoints, newest first."""
    return [json.loads(line) for line in project.gitcp("log", "--json", check=0).out.splitlines()]


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
        assert saved["warning"] is None
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


def test_states(project: Project, talk: Talk) -> None:
    """A difference has the states outside the files, and the plan of a restore those that stay."""
    rows = Path(os.environ["HOME"]) / "rows"
    project.git("config", "--global", "gitcp.state.db.save", "cat ~/rows")
    project.git("config", "--global", "gitcp.state.db.restore", "cat > ~/rows")
    for data in ("row 1\n", "row 22\n"):
        rows.write_text(data)
        project.gitcp("save", check=0)
    project.write("app.py", "two\n")

    async def work(tools: Tools) -> None:
        (change,) = (await tools("diff", old="1", new="2"))["changes"]
        assert (change["path"], change["kind"]) == (".gitcp/states/db", "modified")
        state = change["state"]
        assert (state["name"], state["old"]["bytes"], state["new"]["bytes"]) == ("db", 6, 7)
        assert (await tools("diff", old="1", new="2", paths=["app.py"]))["changes"] == []
        (change,) = (await tools("diff"))["changes"]
        assert (change["path"], change["state"]) == ("app.py", None)
        plan = await tools("restore", revision="1")
        assert (plan["states"], plan["offered_states"]) == ([], ["db"])

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


def test_find_and_why(project: Project, talk: Talk) -> None:
    """Where a text first appeared, who added a line, and why a path is missing."""
    project.gitcp("save", check=0)
    project.write("app.py", "one\nneedle here\n")
    project.write(".gitignore", "*.log\n")
    project.write("run.log", "x\n")
    talk.say("add the needle", "added")

    async def work(tools: Tools) -> None:
        await tools("save", label="second")
        found = await tools("find", text="needle")
        kinds = [(each["id"], each["kind"]) for each in found["matches"]]
        assert sorted(kinds) == [("e7baae82@2", "file"), ("e7baae82@2", "prompt")]
        assert not found["cut"]
        few = await tools("find", text="NEEDLE", ignore_case=True, places=["files"], limit=1)
        assert [(each["where"], each["line"]) for each in few["matches"]] == [("app.py", 2)]
        assert (await tools("find", text="needle", limit=1))["cut"]
        origin = await tools("why", path="app.py", line=2)
        assert (origin["checkpoint"], origin["prompt"]) == ("e7baae82@2", "add the needle")
        assert (await tools("why", path="app.py"))["changed"] == ["e7baae82@2", "e7baae82@1"]
        assert (await tools("why", path="run.log"))["missing"] == "ignored"

    with project.guard():
        with_tools(project, work)


def test_undo(project: Project, talk: Talk) -> None:
    """A restore is undone and redone, each with the plan first."""
    project.gitcp("save", check=0)
    project.write("app.py", "two\n")

    async def work(tools: Tools) -> None:
        with pytest.raises(Called, match="no restore to undo: nothing was changed"):
            await tools("undo")
        assert (await follow(tools, await tools("restore", revision="1")))["written"] == ["app.py"]
        assert project.read("app.py") == b"one\n"
        plan = await tools("undo")
        assert (plan["written"], project.read("app.py")) == (["app.py"], b"one\n")
        with pytest.raises(Called, match="hint: call undo and review the plan"):
            await tools("undo", digest="0" * 64)
        await follow(tools, plan)
        assert project.read("app.py") == b"two\n"
        await follow(tools, await tools("undo", redo=True))
        assert project.read("app.py") == b"one\n"

    with project.guard():
        with_tools(project, work)


async def follow(tools: Tools, plan: dict[str, Any]) -> dict[str, Any]:
    """Make the call that a plan names."""
    return await tools(plan["next"]["tool"], **plan["next"]["arguments"])


def test_undo_of_a_prune(project: Project, talk: Talk) -> None:
    """What a prune dropped is brought back at once; dropping it again is for the user."""
    for text in ("one", "two", "three"):
        project.write("app.py", text)
        project.gitcp("save", check=0)
    project.gitcp("prune", "--keep-last", "1", "--yes", check=0)

    async def work(tools: Tools) -> None:
        back = await tools("undo")
        assert back["schema"] == "gitcp.brought-back/1"
        assert len(back["checkpoints"]) == 2
        with pytest.raises(Called, match="hint: ask the user to run: gitcp redo"):
            await tools("undo", redo=True)

    with_tools(project, work)

    assert len(listed(project)) == 3


def test_undo_of_a_delete_after_it_was_taken_over(project: Project) -> None:
    """A session that was deleted and taken over again, as it had been pushed, has all its
    checkpoints after both are undone.
    """
    for text in ("one", "two", "three"):
        project.write("app.py", text)
        project.gitcp("save", "--session", "alpha", check=0)
    project.git(
        "update-ref", "refs/gitcp/remotes/hub/sessions/alpha", "refs/gitcp/sessions/alpha~1"
    )
    project.gitcp("delete", "alpha", "--yes", check=0)
    project.write("app.py", "unsaved")
    project.gitcp("restore", "hub/alpha", "--yes", "--trust", check=0)

    async def work(tools: Tools) -> None:
        await follow(tools, await tools("undo"))
        assert (await tools("undo"))["checkpoints"] == ["alpha@3"]

    with_tools(project, work)

    assert project.read("app.py") == b"unsaved"
    ids = [each["id"] for each in project.json_lines("log", "alpha@")]
    assert len(ids) == len({*ids})
    assert ids[-4:] == ["alpha@4", "alpha@3", "alpha@2", "alpha@1"]


def test_revert(project: Project, talk: Talk) -> None:
    """One step is taken back, later ones stay; what conflicts is refused until it is decided."""
    project.gitcp("save", check=0)
    project.write("app.py", "wrong\n")
    project.gitcp("save", check=0)
    project.write("b.txt", "later\n")
    project.gitcp("save", check=0)

    async def work(tools: Tools) -> None:
        plan = await tools("revert", revision="2")
        assert (plan["written"], project.read("app.py")) == (["app.py"], b"wrong\n")
        assert (await follow(tools, plan))["schema"] == "gitcp.revert/1"
        assert (project.read("app.py"), project.read("b.txt")) == (b"one\n", b"later\n")
        project.write("app.py", "other\n")
        plan = await tools("revert", revision="2")
        assert [each["path"] for each in plan["conflicts"]] == ["app.py"]
        with pytest.raises(Called, match='pass conflicts="keep" or conflicts="markers"'):
            await follow(tools, plan)
        assert project.read("app.py") == b"other\n"
        await follow(tools, await tools("revert", revision="2", conflicts="markers"))
        assert b"<<<<<<<" in project.read("app.py")

    with project.guard():
        with_tools(project, work)


def test_fork(project: Project, talk: Talk, tmp_path: Path) -> None:
    """A new session from a checkpoint; with a working tree, there are its files."""
    project.gitcp("save", check=0)

    async def work(tools: Tools) -> None:
        assert (await tools("fork", name="other"))["session"] == "other"
        with pytest.raises(Called, match=r'hint: call fork with .*"name":"NAME"'):
            await tools("fork", revision="e7baae82@1", name="other")
        made = await tools("fork", revision="e7baae82@1", worktree=str(tmp_path / "tree"))
        assert made["worktree"] == str(tmp_path / "tree")
        with pytest.raises(Called, match="'name' is invalid"):
            await tools("fork", name="../x")

    with_tools(project, work)

    assert (tmp_path / "tree" / "app.py").read_text() == "one\n"


def test_long_results(project: Project, talk: Talk) -> None:
    """A long list or text is cut, and the document says how much is missing."""
    project.gitcp("save", check=0)
    for number in range(620):
        project.write(f"many/{number:03}", f"{number}\n" * 60)
    long = ["--objective", "o" * 120_000, *(f"--fact=f{number}=x" for number in range(600))]

    async def work(tools: Tools) -> None:
        found = await tools("diff")
        assert (len(found["changes"]), found["omitted"]) == (500, {"changes": 120})
        assert found["cut"]
        assert len(found["patch"]) <= 100_000
        await tools("save", facts={f"{n:03}": "x" for n in range(90)}, objective="o" * 9_000)
        assert (await tools("show", path="many"))["omitted"] == {"names": 120}
        project.gitcp("save", "--force", *long, check=0)
        found = await tools("show")
        assert found["omitted"] == {"facts": 600 - 410, "objective": 20_000}
        assert (len(found["facts"]), len(found["objective"])) == (500, 100_000)

    with_tools(project, work)


def test_errors(project: Project, talk: Talk) -> None:
    """What cannot be done is said, with the call to make next, and the server goes on."""

    async def work(tools: Tools) -> None:
        with pytest.raises(Called, match=r"no checkpoints yet\nhint: call save\Z"):
            await tools("show")
        await tools("save", label="first light")
        with pytest.raises(Called, match="has no checkpoint 99"):
            await tools("show", revision="99")
        with pytest.raises(Called, match=re.escape('hint: call show with {"revision":"@"}')):
            await tools("show", revision="HEAD")
        for path in ("../outside", "/etc/passwd"):
            with pytest.raises(Called, match=r"is outside .*: nothing was changed"):
                await tools("show", path=path)
        with pytest.raises(Called, match=r'hint: call show with .*"revision":"e7baae82@1"'):
            await tools("show", path="nowhere")
        assert (await tools("show", path=str(project.root / "app.py")))["text"] == "one\n"
        with pytest.raises(Called):
            await tools("save", tags=["a b"])
        with pytest.raises(Called):
            await tools("restore", revision="1", paths=["nowhere"])
        with pytest.raises(Called, match="the path '' is empty: nothing was changed"):
            await tools("restore", revision="1", paths=[""])
        with pytest.raises(Called):
            await tools("save", session="../x")
        assert (await tools("list"))["checkpoints"]

    with project.guard():
        with_tools(project, work)


def test_damage(project: Project, talk: Talk) -> None:
    """A missing object is an error of the call, without a traceback; the next call is answered."""
    project.gitcp("save", check=0)
    oid = project.git("rev-parse", "refs/gitcp/sessions/e7baae82:app.py")
    project.remove(project.git_dir / f"objects/{oid[:2]}/{oid[2:]}")

    async def work(tools: Tools) -> None:
        with pytest.raises(Called) as raised:
            await tools("show", path="app.py")
        assert "Traceback" not in str(raised.value)
        assert "hint: ask the user to run: gitcp doctor --store" in str(raised.value)
        assert (await tools("show", path="b.txt"))["text"] == "b\n"

    with_tools(project, work)


def test_two_at_once(project: Project, talk: Talk) -> None:
    """Calls at once are each answered."""
    project.gitcp("save", check=0)

    async def work(tools: Tools) -> None:
        seen: list[str] = []

        async def look(tool: str) -> None:
            await tools(tool)
            seen.append(tool)

        async with anyio.create_task_group() as group:
            for tool in ("list", "diff", "show", "list"):
                group.start_soon(look, tool)
        assert sorted(seen) == ["diff", "list", "list", "show"]

    with_tools(project, work)


def test_cancelled(project: Project, talk: Talk) -> None:
    """A call that is cancelled while it waits never begins; the one before it is done whole. What
    is no message disturbs none of them.
    """
    client = {"capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    messages = (
        request(1, "initialize", {"protocolVersion": "2025-06-18", **client}),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request(2, "tools/call", {"name": "note", "arguments": {"task": "waits for the lock"}}),
        request(3, "tools/call", {"name": "save", "arguments": {"label": "cancelled"}}),
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}},
        request(4, "tools/call", {"name": "save", "arguments": {"label": "after it"}}),
    )
    lines = [*map(json.dumps, messages), "not JSON", '{"jsonrpc":"2.0"}']
    lines.append(json.dumps(request(5, "ping", {})))  # is answered at once, after all was read
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "gitcp", "mcp"],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        with gitcp.open(project.root).store().lock():  # so that the first call cannot end
            server.stdin.write("\n".join(lines) + "\n")
            server.stdin.flush()
            answered: dict[Any, Any] = {}
            while 5 not in answered:
                answer = json.loads(server.stdout.readline())
                answered[answer.get("id")] = answer
            assert answered.keys() & {2, 3, 4} == set()
        while 4 not in answered:
            answer = json.loads(server.stdout.readline())
            answered[answer.get("id")] = answer
        server.stdin.close()
        errors = server.stderr.read() if server.stderr else ""

    assert server.returncode == 0
    assert "Traceback" not in errors
    assert answered[2]["result"]["structuredContent"]["handoff"]["task"] == "waits for the lock"
    assert 3 not in answered
    saved = answered[4]["result"]["structuredContent"]["checkpoint"]
    assert (saved["number"], saved["label"]) == (1, "after it")
    assert saved["handoff"]["task"] == "waits for the lock"


def request(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """A request of the protocol."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


HINTS = {
    "gitcp save": "call save",
    "gitcp log": "call list",
    "gitcp log --oneline": "call list",
    "gitcp sessions": 'call list with {"every_session":true}',
    "gitcp show --files a@1": 'call show with {"path":"","revision":"a@1"}',
    "gitcp restore a@1 -- 'my file'": 'call restore with {"revision":"a@1","paths":["my file"]}',
    "gitcp undo": "call undo",
    "gitcp redo": 'call undo with {"redo":true}',
    "gitcp find 'two words'": 'call find with {"text":"two words"}',
    "gitcp fork a@1 --name NAME": 'call fork with {"revision":"a@1","name":"NAME"}',
    "gitcp save --tag v2": 'call save with {"tags":["v2"]}',
    "gitcp fork a@1 --trust": "ask the user to run: gitcp fork a@1 --trust",
    "gitcp restore --continue": "ask the user to run: gitcp restore --continue",
    "gitcp doctor --store": "ask the user to run: gitcp doctor --store",
    "git init": "ask the user to run: git init",
    "rm .git/x.lock": "ask the user to run: rm .git/x.lock",
    "choose another name with --branch": "choose another name with branch",
    "gitcp works in repositories with SHA-1": "gitcp works in repositories with SHA-1",
    "free some space": "free some space",
    "don't": "don't",
    "": "",
}


@pytest.mark.parametrize("command", HINTS)
def test_hints(command: str) -> None:
    """A command becomes a call of a tool; what no tool does is for the user."""
    assert hints.in_tools(command) == HINTS[command]


def test_without_a_repository(project: Project, tmp_path: Path) -> None:
    """A client may start it anywhere: each call then says that there is no repository."""
    outside = tmp_path / "outside"
    outside.mkdir()

    async def work(tools: Tools) -> None:
        with pytest.raises(Called, match="repository"):
            await tools("list")

    with_tools(project, work, cwd=outside)


def test_requests_that_the_library_cannot_read(project: Project) -> None:
    """Each request is answered: half a surrogate pair is replaced, and what is no request of the
    protocol is an error.
    """
    project.gitcp("save", check=0)
    call = '{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"%s","arguments":%s}}'
    start = (
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
        '"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}'
    )
    lines = (
        *(start, '{"jsonrpc":"2.0","method":"notifications/initialized"}'),
        call % (2, "find", r'{"text":"half \ud83d"}'),
        call % (3, "note", r'{"facts":{"half \udc00":"whole \ud83d\ude00, half \ud83d"}}'),
        call % (4, "find", '{"text":' + "[" * 300 + "]" * 300 + "}"),
        call % ('"five"', "find", '{"text":1e999}'),
        '{"jsonrpc":"2.0","id":6,"params":3}',
        '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":5}',
        call % (8, "find", '{"text":"] }","more":' + "[" * 5000 + "]" * 5000 + "}"),
        '{"jsonrpc":"2.0","params":3}',
        '{"half": ',
    )
    answers: dict[Any, Any] = {}
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "gitcp", "mcp"],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin
        assert server.stdout
        server.stdin.write("\n".join(lines) + "\n")
        server.stdin.flush()
        while len(answers) < 9:
            answer = json.loads(server.stdout.readline())
            answers[answer["id"]] = answer
        server.stdin.close()

    assert answers[2]["result"]["isError"] is False
    facts = answers[3]["result"]["structuredContent"]["facts"]
    assert facts == {"half \ufffd": "whole \U0001f600, half \ufffd"}
    assert answers[4]["error"]["code"] == answers[6]["error"]["code"] == -32600
    assert answers[7]["error"]["code"] == answers[8]["error"]["code"] == -32600
    assert answers["five"]["result"]["isError"] is False
    assert answers[None]["error"]["code"] == -32700


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
    assert f"hint: {installed.install_extra('mcp')}\n" in done.stderr


@pytest.mark.parametrize("missing", ["anyio", "mcp", "pydantic"])
def test_without_the_extra(project: Project, missing: str) -> None:
    """It is said which one is missing, and how to install it, whichever package is looked for
    first.
    """
    program = f"import sys; sys.modules[{missing!r}] = None; sys.argv = ['gitcp', 'mcp']\n"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program + "from gitcp.__main__ import main; main()"],
        cwd=project.root,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: gitcp mcp needs the package mcp, which is not installed\n"
        f"hint: {installed.install_extra('mcp')}\n"
    )
