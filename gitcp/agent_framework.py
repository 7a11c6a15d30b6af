"""Checkpoints for the Microsoft Agent Framework: one commit per workflow checkpoint, with files.

    from gitcp.agent_framework import GitCheckpointStorage

    WorkflowBuilder(start_executor=…,
    checkpoint_storage=GitCheckpointStorage("/path/to/repository"))

The checkpoints of a workflow are the conversation of one gitcp session, one line each, in the
framework's own encoding. It pickles values that JSON cannot represent, and only unpickles types
that it allows.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from gitcp.integrations.extras import missing

try:
    from agent_framework import WorkflowCheckpoint, WorkflowCheckpointException
    from agent_framework._workflows._checkpoint_encoding import (
        decode_checkpoint_value,
        encode_checkpoint_value,
    )
except ImportError as error:
    raise missing("gitcp.agent_framework", "agent-framework", error) from None

from gitcp import api
from gitcp.integrations.thread import (
    Changes,
    StreamContent,
    Thread,
    ThreadContents,
    encode,
    parsed,
    session_name,
)
from gitcp.model import MAIN, Agent, Host

AGENT = "agent-framework"


class GitCheckpointStorage:
    """Stores workflow checkpoints in the repository around `path`, each with the files.

    `allowed_checkpoint_types` are your own types that may be unpickled, as "module:qualname".
    Raises what `gitcp.open` raises.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = ".",
        *,
        allowed_checkpoint_types: Iterable[str] = (),
        host: Host | None = None,
    ) -> None:
        self.checkpoints = api.open(path, host=host)
        self._allowed = frozenset(allowed_checkpoint_types)

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        """Save a checkpoint, replacing one with the same id. Return its id.

        Raises WorkflowCheckpointException, and saves nothing, if it could not be loaded again.
        """
        return await asyncio.to_thread(self._save, checkpoint)

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        """Return the checkpoint with this id. Raises
        WorkflowCheckpointException if there is none.
        """
        return await asyncio.to_thread(self._load, checkpoint_id)

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """Return the checkpoints of a workflow, in the order they were saved."""
        return await asyncio.to_thread(lambda: list(map(self._decode, self._lines(workflow_name))))

    async def delete(self, checkpoint_id: str) -> bool:
        """Remove a checkpoint; return whether it existed. Earlier gitcp checkpoints still have
        it.
        """
        return await asyncio.to_thread(self._delete, checkpoint_id)

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        """Return a workflow's checkpoint with the latest timestamp, None if there is none."""
        checkpoints = await self.list_checkpoints(workflow_name=workflow_name)
        return max(
            checkpoints, key=lambda each: datetime.fromisoformat(each.timestamp), default=None
        )

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """Return the ids of a workflow's checkpoints, in the order they were saved."""
        lines = await asyncio.to_thread(self._lines, workflow_name)
        return [line["checkpoint_id"] for line in lines]

    # ------------------------------------------------------------ synchronous

    def _save(self, checkpoint: WorkflowCheckpoint) -> str:
        line = self._encode(checkpoint)

        def added(contents: ThreadContents) -> Changes:
            lines = [
                each
                for each in parsed(contents.read())
                if each["checkpoint_id"] != checkpoint.checkpoint_id
            ]
            return {MAIN: StreamContent(encode([*lines, line]))}

        self._thread(checkpoint.workflow_name).change(added)
        return checkpoint.checkpoint_id

    def _load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        lines = (line for name in self._workflows() for line in self._lines(name))
        line = next((line for line in lines if line["checkpoint_id"] == checkpoint_id), None)
        if line is None:
            raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}")
        return self._decode(line)

    def _delete(self, checkpoint_id: str) -> bool:
        def without(contents: ThreadContents) -> Changes | None:
            lines = parsed(contents.read())
            remaining = [line for line in lines if line["checkpoint_id"] != checkpoint_id]
            return {MAIN: StreamContent(encode(remaining))} if len(remaining) < len(lines) else None

        return any(self._thread(name).change(without) is not None for name in self._workflows())

    def _lines(self, workflow_name: str) -> list[Any]:
        return parsed(self._thread(workflow_name).contents().read())

    def _workflows(self) -> list[str]:
        """Return the names of the workflows with checkpoints in this repository."""
        store = self.checkpoints.store()
        agents = [store.read(tip).agent for tip in store.sessions().values()]
        return [
            agent.session_id
            for agent in agents
            if agent and agent.name == AGENT and agent.session_id
        ]

    def _thread(self, workflow_name: str) -> Thread:
        return Thread(self.checkpoints, session_name(workflow_name), Agent(AGENT, workflow_name))

    # ------------------------------------------------------------ the framework's encoding

    def _encode(self, checkpoint: WorkflowCheckpoint) -> Any:
        try:
            line = encode_checkpoint_value(checkpoint.to_dict())
            self._decode(line)
        except WorkflowCheckpointException:
            raise
        except Exception as error:
            message = (
                f"checkpoint {checkpoint.checkpoint_id} could not be loaded again: {error}; it was "
                "not saved"
            )
            raise WorkflowCheckpointException(message) from error
        return line

    def _decode(self, line: Any) -> WorkflowCheckpoint:
        return WorkflowCheckpoint.from_dict(
            decode_checkpoint_value(line, allowed_types=self._allowed)
        )
