"""The Microsoft Agent Framework, checkpointed: each checkpoint of a workflow is a commit with the
files of then.

    from gitcp.agent_framework import GitCheckpointStorage

    WorkflowBuilder(start_executor=…,
    checkpoint_storage=GitCheckpointStorage("/path/to/repository"))

The checkpoints of a workflow are the conversation of one session of gitcp, a line each, in the
framework's own encoding. Values that JSON cannot hold are pickled by it; when they are read, its
list of allowed types decides what is made of them.
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
from gitcp.integrations.thread import Changes, Given, Held, Thread, encode, parsed, session_name
from gitcp.model import Agent, Host
from gitcp.saving.conversation import MAIN

AGENT = "agent-framework"


class GitCheckpointStorage:
    """Keeps workflow checkpoints in the repository around `path`, each with the files as they were.

    `allowed_checkpoint_types` are types of your own that may be made when a checkpoint is read, as
    "module:qualname". Raises what `gitcp.open` does.
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
        """Keep a checkpoint; one with the same id is replaced. Its id.

        Raises WorkflowCheckpointException, and keeps nothing, for one that could not be read back.
        """
        return await asyncio.to_thread(self._save, checkpoint)

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        """The checkpoint with this id. Raises WorkflowCheckpointException if there is none."""
        return await asyncio.to_thread(self._load, checkpoint_id)

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """The checkpoints of a workflow, in the order in which they were saved."""
        return await asyncio.to_thread(lambda: list(map(self._decode, self._lines(workflow_name))))

    async def delete(self, checkpoint_id: str) -> bool:
        """Take a checkpoint away; whether it was there. Earlier checkpoints of gitcp still have
        it.
        """
        return await asyncio.to_thread(self._delete, checkpoint_id)

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        """The checkpoint of a workflow with the latest time, None if it has none."""
        found = await self.list_checkpoints(workflow_name=workflow_name)
        return max(found, key=lambda each: datetime.fromisoformat(each.timestamp), default=None)

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """The ids of a workflow's checkpoints, in the order in which they were saved."""
        found = await asyncio.to_thread(self._lines, workflow_name)
        return [line["checkpoint_id"] for line in found]

    # ------------------------------------------------------------ the same, blocking

    def _save(self, checkpoint: WorkflowCheckpoint) -> str:
        line = self._encode(checkpoint)

        def added(held: Held) -> Changes:
            lines = [
                each
                for each in parsed(held.read())
                if each["checkpoint_id"] != checkpoint.checkpoint_id
            ]
            return {MAIN: Given(encode([*lines, line]))}

        self._thread(checkpoint.workflow_name).change(added)
        return checkpoint.checkpoint_id

    def _load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        found = (line for name in self._workflows() for line in self._lines(name))
        line = next((line for line in found if line["checkpoint_id"] == checkpoint_id), None)
        if line is None:
            raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}")
        return self._decode(line)

    def _delete(self, checkpoint_id: str) -> bool:
        def without(held: Held) -> Changes | None:
            lines = parsed(held.read())
            kept = [line for line in lines if line["checkpoint_id"] != checkpoint_id]
            return {MAIN: Given(encode(kept))} if len(kept) < len(lines) else None

        return any(self._thread(name).change(without) is not None for name in self._workflows())

    def _lines(self, workflow_name: str) -> list[Any]:
        return parsed(self._thread(workflow_name).held().read())

    def _workflows(self) -> list[str]:
        """The names of the workflows that have checkpoints here."""
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
            what = (
                f"checkpoint {checkpoint.checkpoint_id} could not be read back: it was not saved "
                f"({error})"
            )
            raise WorkflowCheckpointException(what) from error
        return line

    def _decode(self, line: Any) -> WorkflowCheckpoint:
        return WorkflowCheckpoint.from_dict(
            decode_checkpoint_value(line, allowed_types=self._allowed)
        )
