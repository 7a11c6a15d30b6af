"""LangGraph graphs and states for tests, and a saver in a project's repository."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

from gitcp.langgraph import GitSaver
from gitcp.langgraph.keys import requested
from gitcp.langgraph.thread_store import Put, drafted
from gitcp.model import Host

from driver import Project


def saver(project: Project, *, files: bool = False, **given: Any) -> GitSaver:
    """A saver as a program would make it, with the sealed environment of the test."""
    host = Host(os.environ, Path(os.environ["HOME"]), lambda: datetime.now().astimezone())
    return GitSaver(project.root, worktree=project.root if files else None, host=host, **given)


def thread(name: Any = "t", ns: str = "", id: str | None = None) -> Any:
    """A config."""
    return {
        "configurable": {
            "thread_id": name,
            "checkpoint_ns": ns,
            **({"checkpoint_id": id} if id else {}),
        }
    }


def state(step: int, **channels: Any) -> Any:
    """A checkpoint with these channels, each at version `step`; ids rise with every call."""
    made = empty_checkpoint()
    made["id"] = str(uuid6(clock_seq=step))
    made["channel_values"] = dict(channels)
    made["channel_versions"] = dict.fromkeys(channels, f"{step:032}.1")
    return made


def put(store: Any, config: Any, made: Any, **metadata: Any) -> Any:
    """Put a state whose channels are all new; the config that names it."""
    return store.put(
        config,
        made,
        {"source": "loop", "step": 1, "parents": {}, **metadata},
        made["channel_versions"],
    )


def put_together(saver: GitSaver, *names: str, step: int) -> list[Put]:
    """Put a state into each of these threads of the graph, as one turn does with those that wait.
    What became of each.
    """
    puts = []
    for name in names:
        made = state(step, n=step, text=f"{name} {step} " * 300)
        metadata = {"source": "loop", "step": step, "parents": {}}
        asked = requested(thread(name))
        versions = made["channel_versions"]
        puts.append(Put(saver.serde, drafted(saver.serde, asked, made, metadata, versions)))
    saver.threads.put_all(puts)
    return puts
