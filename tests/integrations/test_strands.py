"""Strands Agents with its storage kept in git: a real agent with a session manager, and odd
keys.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from strands import Agent, tool
from strands.models import Model
from strands.session import SnapshotSessionManager
from strands.storage import InMemoryStorage, Storage
from strands.storage.storage import _resolve_namespace
from strands.types.exceptions import StorageError

from gitcp import installed
from gitcp.strands import GitStorage

from driver import Project


@pytest.fixture
def storage(project: Project) -> GitStorage:
    """A storage in a repository with one commit."""
    project.write("a.txt", "one\n")
    project.commit()
    return GitStorage(project.root)


def test_as_in_memory(project: Project, storage: GitStorage) -> None:
    """Writing, overwriting, listing, deleting: what the framework's own storage says, this one
    says.
    """

    async def told(each: Any) -> list[Any]:
        for key, data in (
            ("s/b", b"1"),
            ("s/a", b"\0\xff\r\n"),
            ("t", b""),
            ("s/b", b"2"),
            ("s/b", b"2"),
        ):
            await each.write(key, data)
        seen = [await each.read(key) for key in ("s/a", "s/b", "t", "s", "nope")]
        seen += [await each.list(prefix) for prefix in ("", "s/", "x")]
        for key in ("s/b", "s/b", "nope"):
            await each.delete(key)
        return [*seen, await each.read("s/b"), await each.list("")]

    assert isinstance(storage, Storage)
    with project.guard():
        ours = asyncio.run(told(storage))

    assert ours == asyncio.run(told(InMemoryStorage()))
    assert [summary.id.number for summary in storage.checkpoints.log()] == [5, 4, 3, 2, 1]
    project.gitcp("check", check=0)


def test_keys(storage: GitStorage) -> None:
    """Keys are those of the framework's own storages: slashes are collapsed, none leads up or is
    empty; else any text. A lost repository is said.
    """
    keys = ["a/b", "ü\n\0", "x" * 5000, "\ud83d", ".gitcp", "main", "a/...b"]
    for key in keys:
        asyncio.run(storage.write(key, key.encode("utf-8", "surrogatepass")))

    assert asyncio.run(storage.list()) == sorted(keys)
    assert [asyncio.run(storage.read(key)) for key in keys] == [
        key.encode("utf-8", "surrogatepass") for key in keys
    ]
    assert asyncio.run(storage.read("//a///b/")) == b"a/b"
    assert asyncio.run(storage.list("//a//")) == ["a/...b", "a/b"]
    for wrong in ("", "//", "../a", "a/../b", "a\\b"):
        for call in (storage.write(wrong, b"x"), storage.read(wrong), storage.delete(wrong)):
            with pytest.raises(StorageError):
                asyncio.run(call)
    with pytest.raises(StorageError):
        asyncio.run(storage.list("../"))
    storage.checkpoints.path.joinpath(".git").rename(storage.checkpoints.path / "gone")
    with pytest.raises(StorageError):
        asyncio.run(storage.read("a/b"))


def test_views(storage: GitStorage) -> None:
    """A view of a prefix reads, lists, searches and clears what is below it, as the framework's
    own; a clear is one checkpoint.
    """

    async def told(each: Any) -> list[Any]:
        view = each.namespace("memory//").namespace("/agent")
        await each.write("notes.md", b"dark mode")
        for key in ("deploy.md", "theme.md"):
            await view.write(key, key.encode() + b": dark mode")
        seen = [await view.read("theme.md"), await view.list(), await each.list("memory/")]
        seen += [[found.key for found in await view.search("deploy dark")]]
        seen += [sorted(found.key for found in await each.search("dark mode"))]
        view.clear()
        seen += [await view.list(), await each.list(), await each.namespace("").list()]
        with pytest.raises(StorageError):
            each.namespace("../x")
        return seen

    ours = asyncio.run(told(storage))

    assert ours == asyncio.run(told(InMemoryStorage()))
    assert len(storage.checkpoints.log()) == 4
    manager = SnapshotSessionManager("chat", storage=storage.namespace("mine"))
    assert manager is not None
    scoped = _resolve_namespace(storage.namespace("mine"), "other")
    asyncio.run(scoped.write("k", b"v"))
    assert asyncio.run(storage.list()) == ["mine/k", "notes.md"]


def test_search_strategy(project: Project) -> None:
    """A strategy indexes what is written, and answers searches; that it fails is said."""

    class Strategy:
        """Remembers what it is asked; cannot index `bad`."""

        def __init__(self) -> None:
            self.seen: list[Any] = []

        async def index(self, storage: Any, key: str, data: bytes) -> None:
            self.seen.append((storage, key, data))
            if data == b"bad":
                raise ValueError(data)

        async def search(self, storage: Any, query: str) -> list[Any]:
            self.seen.append((storage, query))
            return []

    strategy: Any = Strategy()
    view = GitStorage(project.root, search_strategy=strategy).namespace("a")

    asyncio.run(view.write("/k", b"v"))
    asyncio.run(view.search("q"))
    with pytest.raises(StorageError, match="indexing failed"):
        asyncio.run(view.write("k", b"bad"))

    assert strategy.seen == [(view, "k", b"v"), (view, "q"), (view, "k", b"bad")]
    assert asyncio.run(view.read("k")) == b"bad"


class Scripted(Model):
    """Writes a file by a tool each time something is asked, then says that it is done."""

    heard: list[Any]

    def update_config(self, **model_config: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        self.heard = [
            part["text"] for message in messages for part in message["content"] if "text" in part
        ]
        last = messages[-1]["content"][0]
        yield {"messageStart": {"role": "assistant"}}
        if "text" in last:
            use = {"name": "write", "toolUseId": f"t{len(messages)}"}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            yield {
                "contentBlockDelta": {
                    "delta": {"toolUse": {"input": json.dumps({"text": last["text"]})}}
                }
            }
        else:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "Done."}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if "text" in last else "end_turn"}}


def ask(project: Project, prompt: str) -> list[Any]:
    """Run an agent in a new process's place: all that it knows comes from the storage. What it
    heard.
    """

    @tool
    def write(text: str) -> str:
        """Write a text."""
        project.write("a.txt", text)
        return "written"

    model = Scripted()
    manager = SnapshotSessionManager("chat-42", storage=GitStorage(project.root))
    Agent(
        model=model,
        tools=[write],
        session_manager=manager,
        callback_handler=None,
        agent_id="writer",
    )(prompt)
    return model.heard


def test_an_agent_goes_back_with_its_files(project: Project, storage: GitStorage) -> None:
    """Each turn of a real agent is saved with its files; after a restore it knows the earlier turn
    and no other.
    """
    for prompt in ("first", "second"):
        ask(project, prompt)
    found = [str(summary.id) for summary in storage.checkpoints.log()]
    first = next(id for id in found if storage.checkpoints.file(id, "a.txt") == b"first")

    storage.checkpoints.restore(first)

    assert project.read("a.txt") == b"first"
    assert ask(project, "third") == ["first", "Done.", "third"]
    storage.checkpoints.restore(found[0])
    assert ask(project, "fourth") == ["first", "Done.", "second", "Done.", "fourth"]


def test_missing_extra() -> None:
    """Without the framework, the import says what to install."""
    program = "import sys; sys.modules['strands'] = None; import gitcp.strands"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.stderr.splitlines()[-1].endswith(f"strands: {installed.install_extra('strands')}")
