"""Checkpoints for the OpenAI Agents SDK: conversation and files in one commit, with branches.

    from gitcp.openai_agents import GitSession

    await Runner.run(agent, "…", session=GitSession("chat-42", "/path/to/repository"))

`GitSession` is a session of the SDK, whose items are the conversation of a gitcp session, one line
each. A checkpoint is made whenever a run adds items, or starts with files that changed in between.
A branch starts before a turn; it is a session of its own, forked from the checkpoint at that turn.
"""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
from collections.abc import Awaitable, Callable, Iterator
from itertools import count, dropwhile
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from gitcp.integrations.extras import missing

try:
    from agents.items import TResponseInputItem
    from agents.memory import SessionSettings
    from agents.memory.session import SessionABC
    from agents.memory.session_settings import coerce_session_settings, resolve_session_limit
    from agents.sandbox.errors import SnapshotPersistError, SnapshotRestoreError
    from agents.sandbox.session.dependencies import Dependencies
    from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec
except ImportError as error:
    raise missing("gitcp.openai_agents", "openai", error) from None

from gitcp import api
from gitcp.errors import BadValue, GitcpError, Refused, RevisionNotFound
from gitcp.git import refs
from gitcp.integrations import workspace
from gitcp.integrations.thread import (
    Changes,
    StreamContent,
    Thread,
    ThreadContents,
    encode,
    open_for_restore,
    parsed,
    session_name,
)
from gitcp.lifecycle import fork
from gitcp.model import MAIN, Agent, Checkpoint, Host, Trigger
from gitcp.restoring import others, restore
from gitcp.saving.save import ChangeScope, Saved
from gitcp.value import replace

AGENT = "openai-agents"
TRUNK = "main"
SEPARATOR = "+"
"""Separates the name of a session from that of its branch."""

T = TypeVar("T")


class SessionClosed(Refused, RuntimeError):
    """The session was closed by this program. What it saved is still there."""


class GitSession(SessionABC):
    """A session of the SDK, saved to the repository around `path`, the agent's working directory.

    Raises what `gitcp.open` raises, and BadValue for an invalid branch name.
    """

    def __init__(
        self,
        session_id: str,
        path: str | os.PathLike[str] = ".",
        *,
        branch: str = TRUNK,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        host: Host | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = coerce_session_settings(session_settings or {})
        self._is_closed = False
        self.checkpoints = api.open(path, host=host)
        self.branch = _branch(branch)

    @property
    def name(self) -> str:
        """The gitcp session of the current branch."""
        return self._name(self.branch)

    # ------------------------------------------------------------ the SDK's protocol

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items, oldest first; with a limit, the last ones (negative: all). Saves files
        that changed since the last turn.
        """
        most = resolve_session_limit(limit, self.session_settings)
        items = await asyncio.to_thread(self._start_turn)
        return items if most is None or most < 0 else items[max(0, len(items) - most) :]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items, in one checkpoint with the current files."""
        self._thread()
        if items:
            await self._change(lambda contents: contents.read() + encode(items))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove and return the last item; None if there is none. Earlier checkpoints still have
        it.
        """
        popped: list[TResponseInputItem] = []

        def shortened(contents: ThreadContents) -> bytes | None:
            lines = _lines(contents)
            popped.extend(parsed(b"".join(lines[-1:])))
            return b"".join(lines[:-1]) if lines else None

        await self._change(shortened)
        return popped[0] if popped else None

    async def clear_session(self) -> None:
        """Remove all items. Earlier checkpoints still have them."""
        await self._change(lambda contents: b"" if contents.read() else None)

    def close(self) -> None:
        """Refuse every later call with SessionClosed. Nothing has to be released."""
        self._is_closed = True

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[TResponseInputItem], bool] | None = None
    ) -> Any:
        """Return the last items, and how to replace a part of them at once, as the SDK's automatic
        compaction asks its own sessions; None for a subclass that reads items differently.

        `prune_prefix` tells which of the first items of all are dropped then.
        """
        from agents.memory.session import _CompactionSnapshot

        if type(self).get_items is not GitSession.get_items:
            return None
        lines = await asyncio.to_thread(lambda: _lines(self._thread().contents()))
        last = lines[-limit:]

        async def replace_suffix(start: int, items: list[TResponseInputItem]) -> bool:
            def replaced(contents: ThreadContents) -> bytes | None:
                before, expected = _lines(contents), last[start:]
                if not expected or before[-len(expected) :] != expected:
                    return None
                kept = before[: -len(expected)]
                if prune_prefix is not None:
                    kept = list(dropwhile(lambda line: prune_prefix(parsed(line)[0]), kept))
                return b"".join(kept) + encode(items)

            return await self._change(replaced) is not None

        return _CompactionSnapshot(parsed(b"".join(last)), len(lines) <= limit, replace_suffix)

    # ------------------------------------------------------------ branches

    async def turns(self) -> list[dict[str, Any]]:
        """Return the turns of the current branch, from 1: `{"turn": 1,
        "content": …}` with the user's message.
        """
        items = await asyncio.to_thread(lambda: parsed(self._thread().contents().read()))
        prompts = [item.get("content") for item in items if _is_user(item)]
        return [{"turn": number, "content": content} for number, content in enumerate(prompts, 1)]

    async def create_branch_from_turn(
        self,
        turn: int,
        branch: str | None = None,
        *,
        files: bool = False,
        whole_tree: bool = False,
    ) -> str:
        """Start a branch before a turn of the current one and switch to it. Return its name.

        With `files`, the files are restored to that turn, after the current ones were
        saved: what this session changed since, on any branch, is undone, and what others changed
        stays (with `whole_tree`, it is undone too). Raises RevisionNotFound for an unknown turn,
        Refused for an existing branch, and OthersAffected if others changed the same lines; nothing
        was changed then.
        """
        return await asyncio.to_thread(
            self._create_branch, turn, branch, files, whole_tree=whole_tree
        )

    async def switch_to_branch(
        self, branch: str, *, files: bool = False, whole_tree: bool = False
    ) -> None:
        """Switch to another branch; with `files`, restore its files, after the current ones were
        saved, as `create_branch_from_turn` does. Raises OthersAffected.
        """
        await asyncio.to_thread(self._switch, branch, files, whole_tree=whole_tree)

    async def list_branches(self) -> list[dict[str, Any]]:
        """Return the branches: `branch_id`, `message_count`, `user_turns`, `is_current`."""
        return await asyncio.to_thread(lambda: list(self._branches()))

    # ------------------------------------------------------------ synchronous

    def _start_turn(self) -> list[TResponseInputItem]:
        thread = self._thread()
        thread.note(Trigger.PROMPT, {}, change_scope=ChangeScope.FILES)
        return parsed(thread.contents().read())

    async def _change(self, decide: Callable[[ThreadContents], bytes | None]) -> Saved | None:
        def changes(contents: ThreadContents) -> Changes | None:
            data = decide(contents)
            return None if data is None else {MAIN: StreamContent(data)}

        return await _settled(asyncio.to_thread(self._thread().change, changes))

    def _create_branch(
        self, turn: int, branch: str | None, files: bool, *, whole_tree: bool
    ) -> str:
        thread = self._thread()
        before = _before_turn(thread.contents(), turn)
        point = next(
            (
                contents.checkpoint
                for contents in thread.history()
                if before.startswith(contents.read())
            ),
            None,
        )
        if point is None:  # the session started with this turn, or with all items
            point = list(thread.history())[-1].checkpoint
        assert point is not None
        name = _branch(branch) if branch else self._free_branch()
        if files:
            self._restore_files(point, whole_tree=whole_tree, dry=True)
        store = self.checkpoints.store()
        forked = fork.fork(
            store, fork.ForkRequest(point, self.checkpoints.path, self._name(name))
        ).checkpoint
        if files:
            self._restore_files(forked, whole_tree=whole_tree)
        self._thread(name).change(
            lambda contents: None if contents.read() == before else {MAIN: StreamContent(before)}
        )
        self.branch = name
        return name

    def _switch(self, branch: str, files: bool, *, whole_tree: bool) -> None:
        last = self._thread(_branch(branch)).contents().checkpoint
        if last is None:
            raise RevisionNotFound(
                f"session {self.session_id} has no branch {branch!r}", hint="gitcp sessions"
            )
        if files:
            self._restore_files(last, whole_tree=whole_tree)
        self.branch = branch

    def _restore_files(
        self, checkpoint: Checkpoint, *, whole_tree: bool, dry: bool = False
    ) -> None:
        """Restore a checkpoint of another branch. The current state is saved in the current one.
        Raises OthersAffected; `dry` does nothing else.
        """
        opened = open_for_restore(self.checkpoints, self.name)
        store = opened.store()
        request = opened.request(store, checkpoint, whole_tree=whole_tree, program=self.name)
        branches = frozenset(self._name(each["branch_id"]) for each in self._branches())
        request = replace(request, together=branches)
        if not dry:
            restore.restore(store, request)
            return
        plan = restore.plan(store, request)
        others.require_merged(request, plan.conflicts, plan.conflicting)

    def _branches(self) -> Iterator[dict[str, Any]]:
        for name in self.checkpoints.store().sessions():
            trunk, _, branch = name.partition(SEPARATOR)
            if trunk == self._name(TRUNK) and (branch or name == trunk):
                branch = branch or TRUNK
                items = parsed(self._thread(branch).contents().read())
                yield {
                    "branch_id": branch,
                    "message_count": len(items),
                    "user_turns": sum(map(_is_user, items)),
                    "is_current": branch == self.branch,
                }

    # ------------------------------------------------------------ names

    def _thread(self, branch: str | None = None) -> Thread:
        if self._is_closed:
            raise SessionClosed(f"{type(self).__name__} is closed", hint="make a new one")
        return Thread(
            self.checkpoints, self._name(branch or self.branch), Agent(AGENT, self.session_id)
        )

    def _name(self, branch: str) -> str:
        trunk = session_name(self.session_id, SEPARATOR)
        return trunk if branch == TRUNK else f"{trunk}{SEPARATOR}{branch}"

    def _free_branch(self) -> str:
        existing = self.checkpoints.store().sessions()
        return next(branch for n in count(2) if self._name(branch := f"branch-{n}") not in existing)


class GitSnapshot(SnapshotBase):
    """A sandbox's workspace, saved to the repository around `path` in a session of its own.

    Regular files are stored as a git tree: unchanged files cost nothing, and every command can show
    them. The restored archive has the same members in the same order.
    """

    type: Literal["gitcp"] = "gitcp"
    path: Path

    @property
    def name(self) -> str:
        """The gitcp session of the workspace."""
        return session_name(f"sandbox-{self.id}")

    # ARG002: the SDK's signature
    async def persist(self, data: io.IOBase, *, dependencies: Dependencies | None = None) -> None:  # noqa: ARG002
        """Save an archive as the next checkpoint. On failure, raises
        SnapshotPersistError and saves nothing.
        """
        try:
            agent = Agent(AGENT, self.id)
            await asyncio.to_thread(
                lambda: workspace.save(api.open(self.path), self.name, agent, cast("Any", data))
            )
        except (GitcpError, OSError, tarfile.TarError) as failed:
            raise SnapshotPersistError(
                snapshot_id=self.id, path=self.path, cause=failed
            ) from failed

    # ARG002: the SDK's signature
    async def restore(self, *, dependencies: Dependencies | None = None) -> io.IOBase:  # noqa: ARG002
        """Return the archive saved last. Raises SnapshotRestoreError."""
        try:
            return await asyncio.to_thread(
                lambda: workspace.content(api.open(self.path), self.name)
            )
        except (GitcpError, OSError) as failed:
            raise SnapshotRestoreError(
                snapshot_id=self.id, path=self.path, cause=failed
            ) from failed

    # ARG002: the SDK's signature
    async def restorable(self, *, dependencies: Dependencies | None = None) -> bool:  # noqa: ARG002
        """Return whether an archive was saved."""
        return await asyncio.to_thread(
            lambda: api.open(self.path).store().tip(self.name) is not None
        )


class GitSnapshotSpec(SnapshotSpec):
    """Creates a GitSnapshot for each sandbox:
    `SandboxRunConfig(snapshot=GitSnapshotSpec(path=…))`.
    """

    type: Literal["gitcp"] = "gitcp"
    path: Path

    def build(self, snapshot_id: str) -> SnapshotBase:
        """Return the snapshot of the sandbox with this id."""
        return GitSnapshot(id=snapshot_id, path=self.path)


def _branch(name: str) -> str:
    if len(name) > 40 or SEPARATOR in name:
        raise BadValue(
            f"invalid branch name {name[:80]!r}: at most 40 characters, without {SEPARATOR}",
            hint=f"use a name such as {name[:40].replace(SEPARATOR, '-')}",
        )
    return refs.check_name(name, "branch")


async def _settled(change: Awaitable[T]) -> T:
    """Return what a change returns. A caller that is cancelled meanwhile learns so only when the
    change is made: it would not know otherwise whether to make it again.
    """
    task = asyncio.ensure_future(change)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        task.exception()  # read, so that asyncio does not report it
        raise cancelled
    return task.result()


def _lines(contents: ThreadContents) -> list[bytes]:
    return contents.read().splitlines(keepends=True)


def _is_user(item: Any) -> bool:
    return isinstance(item, dict) and item.get("role") == "user"


def _before_turn(contents: ThreadContents, turn: int) -> bytes:
    """Return the lines before the user message with this number. Raises RevisionNotFound."""
    lines = _lines(contents)
    prompt_lines = [number for number, line in enumerate(lines) if _is_user(parsed(line)[0])]
    if not 1 <= turn <= len(prompt_lines):
        raise RevisionNotFound(
            f"no turn {turn}: the branch has {len(prompt_lines)}; nothing was changed"
        )
    return b"".join(lines[: prompt_lines[turn - 1]])
