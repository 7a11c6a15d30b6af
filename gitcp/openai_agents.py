"""The OpenAI Agents SDK, checkpointed: what was said and the files are one commit, and a
conversation can branch.

    from gitcp.openai_agents import GitSession

    await Runner.run(agent, "…", session=GitSession("chat-42", "/path/to/repository"))

`GitSession` is a session of the SDK: its items are the conversation of a session of gitcp, one line
each. Whenever a run adds items, or finds files that somebody changed since, there is a checkpoint.
A branch begins before a turn; it is a session of its own, forked from the checkpoint that was there
when the turn came.
"""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, Literal, cast

from gitcp.integrations.extras import missing

try:
    from agents.items import TResponseInputItem
    from agents.memory import SessionSettings
    from agents.memory.session import SessionABC
    from agents.memory.session_settings import resolve_session_limit
    from agents.sandbox.errors import SnapshotPersistError, SnapshotRestoreError
    from agents.sandbox.session.dependencies import Dependencies
    from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec
except ImportError as error:
    raise missing("gitcp.openai_agents", "openai", error) from None

from gitcp import api
from gitcp.errors import BadValue, GitcpError, RevisionNotFound
from gitcp.git import refs
from gitcp.integrations import workspace
from gitcp.integrations.thread import (
    Changes,
    Given,
    Held,
    Thread,
    encode,
    leaving,
    parsed,
    session_name,
)
from gitcp.lifecycle import fork
from gitcp.model import Agent, Checkpoint, Host, Trigger
from gitcp.restoring import restore
from gitcp.saving.conversation import MAIN
from gitcp.saving.save import ChangeScope

AGENT = "openai-agents"
TRUNK = "main"
SEPARATOR = "+"
"""Stands between the name of a session and that of its branch."""


class GitSession(SessionABC):
    """A conversation of the SDK in the repository around `path`, the working directory of the
    agent.

    Raises what `gitcp.open` does, and BadValue for a branch that cannot be called so.
    """

    def __init__(
        self,
        session_id: str,
        path: str | os.PathLike[str] = ".",
        *,
        branch: str = TRUNK,
        session_settings: SessionSettings | None = None,
        host: Host | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings
        self.checkpoints = api.open(path, host=host)
        self.branch = _branch(branch)

    @property
    def name(self) -> str:
        """The session of gitcp that holds the current branch."""
        return self._name(self.branch)

    # ------------------------------------------------------------ the SDK's protocol

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items, oldest first; with a limit the last ones. Files that changed since the last
        turn are saved.
        """
        most = resolve_session_limit(limit, self.session_settings)
        items = await asyncio.to_thread(self._begin_turn)
        return items if most is None else items[max(0, len(items) - most) :]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items, in one checkpoint with the files of now."""
        if items:
            await self._change(lambda held: held.read() + encode(items))

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the last item away; None if there is none. Earlier checkpoints still have it."""
        popped: list[TResponseInputItem] = []

        def shortened(held: Held) -> bytes | None:
            lines = held.read().splitlines(keepends=True)
            popped.extend(parsed(b"".join(lines[-1:])))
            return b"".join(lines[:-1]) if lines else None

        await self._change(shortened)
        return popped[0] if popped else None

    async def clear_session(self) -> None:
        """Take every item away; earlier checkpoints still have them."""
        await self._change(lambda held: b"" if held.read() else None)

    # ------------------------------------------------------------ branches

    async def turns(self) -> list[dict[str, Any]]:
        """The turns of the current branch, from 1: `{"turn": 1, "content": …}`, what the user
        said.
        """
        items = await asyncio.to_thread(lambda: parsed(self._thread().held().read()))
        said = [item.get("content") for item in items if _is_user(item)]
        return [{"turn": number, "content": content} for number, content in enumerate(said, 1)]

    async def create_branch_from_turn(
        self, turn: int, branch: str | None = None, *, files: bool = False
    ) -> str:
        """Begin a branch before a turn of the current one, and go on in it; its name.

        With `files` the files go back to when the turn came, after what is there was saved. Raises
        RevisionNotFound for a turn that is not there, Refused for a branch that is; nothing was
        changed then.
        """
        return await asyncio.to_thread(self._create_branch, turn, branch, files)

    async def switch_to_branch(self, branch: str, *, files: bool = False) -> None:
        """Go on in another branch; with `files` they go to where it stands, after what is there was
        saved.
        """
        await asyncio.to_thread(self._switch, branch, files)

    async def list_branches(self) -> list[dict[str, Any]]:
        """The branches: `branch_id`, `message_count`, `user_turns`, `is_current`."""
        return await asyncio.to_thread(lambda: list(self._branches()))

    # ------------------------------------------------------------ the same, blocking

    def _begin_turn(self) -> list[TResponseInputItem]:
        thread = self._thread()
        thread.note(Trigger.PROMPT, {}, change_scope=ChangeScope.FILES)
        return parsed(thread.held().read())

    async def _change(self, decide: Callable[[Held], bytes | None]) -> None:
        def changes(held: Held) -> Changes | None:
            data = decide(held)
            return None if data is None else {MAIN: Given(data)}

        await asyncio.to_thread(self._thread().change, changes)

    def _create_branch(self, turn: int, branch: str | None, files: bool) -> str:
        thread = self._thread()
        before = _before_turn(thread.held(), turn)
        point = next(
            (held.checkpoint for held in thread.history() if before.startswith(held.read())), None
        )
        if point is None:  # it began with this turn, or was given as a whole
            point = list(thread.history())[-1].checkpoint
        assert point is not None
        name = _branch(branch) if branch else self._free_branch()
        store = self.checkpoints.store()
        forked = fork.fork(
            store, fork.Request(point, self.checkpoints.path, self._name(name))
        ).checkpoint
        if files:
            self._bring_files(forked)
        self._thread(name).change(
            lambda held: None if held.read() == before else {MAIN: Given(before)}
        )
        self.branch = name
        return name

    def _switch(self, branch: str, files: bool) -> None:
        last = self._thread(_branch(branch)).held().checkpoint
        if last is None:
            raise RevisionNotFound(
                f"there is no branch {branch} of {self.session_id}", hint="gitcp sessions"
            )
        if files:
            self._bring_files(last)
        self.branch = branch

    def _bring_files(self, checkpoint: Checkpoint) -> None:
        """Restore a checkpoint of another branch. What is there now is saved in the current one."""
        opened = leaving(self.checkpoints, self.name)
        store = opened.store()
        restore.restore(store, opened.request(store, checkpoint))

    def _branches(self) -> Iterator[dict[str, Any]]:
        for name in self.checkpoints.store().sessions():
            trunk, _, branch = name.partition(SEPARATOR)
            if trunk == self._name(TRUNK) and (branch or name == trunk):
                branch = branch or TRUNK
                items = parsed(self._thread(branch).held().read())
                yield {
                    "branch_id": branch,
                    "message_count": len(items),
                    "user_turns": sum(map(_is_user, items)),
                    "is_current": branch == self.branch,
                }

    # ------------------------------------------------------------ names

    def _thread(self, branch: str | None = None) -> Thread:
        return Thread(
            self.checkpoints, self._name(branch or self.branch), Agent(AGENT, self.session_id)
        )

    def _name(self, branch: str) -> str:
        trunk = session_name(self.session_id, SEPARATOR)
        return trunk if branch == TRUNK else f"{trunk}{SEPARATOR}{branch}"

    def _free_branch(self) -> str:
        taken = self.checkpoints.store().sessions()
        return next(branch for n in count(2) if self._name(branch := f"branch-{n}") not in taken)


class GitSnapshot(SnapshotBase):
    """The workspace of a sandbox, kept in the repository around `path` in a session of its own.

    Ordinary files are a tree of git: what did not change since costs nothing, and any command can
    look at it. The archive that comes back has the same members with the same contents, in the same
    order.
    """

    type: Literal["gitcp"] = "gitcp"
    path: Path

    @property
    def name(self) -> str:
        """The session of gitcp that holds the workspace."""
        return session_name(f"sandbox-{self.id}")

    # the SDK's
    async def persist(self, data: io.IOBase, *, dependencies: Dependencies | None = None) -> None:  # noqa: ARG002
        """Save an archive as the next checkpoint. Raises SnapshotPersistError, and saves nothing
        then.
        """
        try:
            agent = Agent(AGENT, self.id)
            await asyncio.to_thread(
                lambda: workspace.keep(api.open(self.path), self.name, agent, cast("Any", data))
            )
        except (GitcpError, OSError, tarfile.TarError) as failed:
            raise SnapshotPersistError(
                snapshot_id=self.id, path=self.path, cause=failed
            ) from failed

    # the SDK's
    async def restore(self, *, dependencies: Dependencies | None = None) -> io.IOBase:  # noqa: ARG002
        """The archive that was saved last. Raises SnapshotRestoreError."""
        try:
            return await asyncio.to_thread(
                lambda: workspace.content(api.open(self.path), self.name)
            )
        except (GitcpError, OSError) as failed:
            raise SnapshotRestoreError(
                snapshot_id=self.id, path=self.path, cause=failed
            ) from failed

    # the SDK's
    async def restorable(self, *, dependencies: Dependencies | None = None) -> bool:  # noqa: ARG002
        """Whether one was saved."""
        return await asyncio.to_thread(
            lambda: api.open(self.path).store().tip(self.name) is not None
        )


class GitSnapshotSpec(SnapshotSpec):
    """Makes a GitSnapshot for each sandbox:
    `SandboxRunConfig(snapshot=GitSnapshotSpec(path=…))`.
    """

    type: Literal["gitcp"] = "gitcp"
    path: Path

    def build(self, snapshot_id: str) -> SnapshotBase:
        """The snapshot of the sandbox with this id."""
        return GitSnapshot(id=snapshot_id, path=self.path)


def _branch(name: str) -> str:
    if len(name) > 40 or SEPARATOR in name:
        raise BadValue(
            f"{name[:80]!r} cannot be a branch: at most 40 characters, and no {SEPARATOR}",
            hint=name[:40],
        )
    return refs.check_name(name, "branch")


def _is_user(item: Any) -> bool:
    return isinstance(item, dict) and item.get("role") == "user"


def _before_turn(held: Held, turn: int) -> bytes:
    """The lines before the message of the user with this number. Raises RevisionNotFound."""
    lines = held.read().splitlines(keepends=True)
    asked = [number for number, line in enumerate(lines) if _is_user(parsed(line)[0])]
    if not 1 <= turn <= len(asked):
        raise RevisionNotFound(
            f"there is no turn {turn}: the branch has {len(asked)}. Nothing was changed"
        )
    return b"".join(lines[: asked[turn - 1]])
