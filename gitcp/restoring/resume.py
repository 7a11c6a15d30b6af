"""Resume: start an agent from a checkpoint, after an ordinary restore of what it needs."""

from __future__ import annotations

import os
import shlex
from itertools import count
from pathlib import Path

from gitcp.adapters.base import Placement
from gitcp.errors import GitcpError, Refused
from gitcp.git import refs, worktrees
from gitcp.model import Checkpoint
from gitcp.restoring import placing
from gitcp.restoring.placing import Placed
from gitcp.restoring.restore import RestoreRequest
from gitcp.saving import session
from gitcp.saving.save import SaveRequest, save
from gitcp.store import Store
from gitcp.value import replace
from gitcp.worktree.snapshot import Limits


def request(store: Store, target: Checkpoint, cwd: Path, limits: Limits) -> RestoreRequest:
    """Return the restore after which the agent can continue from a checkpoint. Writes nothing."""
    return RestoreRequest(target, directory(store, target, cwd), limits=limits)


def request_here(store: Store, last: Checkpoint, cwd: Path, limits: Limits) -> RestoreRequest:
    """Return the restore for the current state of a session: its conversation only, where missing.

    Saves first, so that no new messages are lost.
    """
    saved = save(store, SaveRequest(cwd, session=last.id.session, limits=limits)).checkpoint
    return RestoreRequest(saved, directory(store, saved, cwd), files=False, limits=limits)


def check_worktree(store: Store, last: Checkpoint) -> None:
    """Raise Refused if the session ran in another working tree, where its files are."""
    conversation = last.conversation
    if (
        conversation is None
        or conversation.directory is None
        or conversation.worktree == store.repo.worktree_name
    ):
        return
    name = (
        refs.NAME.fullmatch(conversation.worktree) and conversation.worktree
        if conversation.worktree
        else None
    )
    path = worktrees.place(store.repo, name) if name or conversation.worktree is None else None
    resume = f"gitcp resume --session {last.id.session}"
    if path is not None:
        raise Refused(
            f"session {last.id.session} belongs to {path}: the agent was not started, and nothing "
            "was changed",
            hint=f"cd {shlex.quote(str(path))} && {resume}",
        )
    raise Refused(
        f"the worktree {conversation.worktree!r} of session {last.id.session} no longer exists: "
        "the agent was not started, and nothing was changed",
        hint=_recreate(store, last, name or "worktree"),
    )


def _recreate(store: Store, last: Checkpoint, name: str) -> str:
    """Return the commands that recreate a session's worktree with its files and start its agent."""
    main = worktrees.place(store.repo, None) or store.repo.root
    free = (main.parent / (name if n == 0 else f"{name}-{n}") for n in count())
    path = shlex.quote(str(next(path for path in free if not os.path.lexists(path))))
    base = last.snapshot.base
    if base.commit is None or not store.reader.exists(base.commit):
        return f"gitcp restore {last.id} --to {path}"
    arguments = f"--detach {path} {base.commit}"
    if base.branch and store.repo.refs.read(f"refs/heads/{base.branch}") is not None:
        arguments = f"{path} {shlex.quote(base.branch)}"
    return (
        f"git worktree prune && git worktree add {arguments} && cd {path} && gitcp resume {last.id}"
    )


def ongoing(store: Store, last: Checkpoint, placed: Placed, cwd: Path) -> Placed | None:
    """Return how the agent resumes the conversation that it already has; None if it has none."""
    capture = session.choose(store, cwd, session=last.id.session).capture
    session_id = capture.agent.session_id if capture and capture.agent else None
    if session_id is None or placed.session_id is None:
        return None
    command = tuple(part.replace(placed.session_id, session_id) for part in placed.command)
    return replace(placed, placement=Placement(session_id, (), command))


def directory(store: Store, target: Checkpoint, cwd: Path) -> Path:
    """Return the directory in which to start the agent: the one that the session ran in.

    If unknown, it is the first of `cwd` and the root that has a part of the conversation, else the
    root.
    """
    root = store.repo.root
    if target.conversation is None or target.agent is None:
        return root
    ran_in = placing.directory(store, target.conversation, target.agent)
    if ran_in is not None:
        return ran_in
    for candidate in dict.fromkeys((cwd, root)):
        files = placing.plan(store, target.conversation, target.agent, candidate).placement.files
        if files and files[0].how != "create":
            return candidate
    return root


def continuing(placed: Placed | None, target: Checkpoint) -> Placed:
    """Return `placed`. Raises GitcpError if no agent can resume the checkpoint."""
    if placed is None or not placed.command:
        problem = (
            "has no conversation"
            if target.conversation is None
            else "has a conversation that no agent can resume"
        )
        raise GitcpError(
            f"{target.id} {problem}: no agent was started, and nothing was changed",
            hint=f"gitcp restore {target.id}",
        )
    return placed
