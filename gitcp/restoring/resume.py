"""Resume: start an agent from a checkpoint, after an ordinary restore of what it needs."""

from __future__ import annotations

import os
import shlex
from itertools import count, islice
from pathlib import Path

from gitcp.adapters.base import Placement
from gitcp.agents import SAVED
from gitcp.errors import GitcpError, Refused
from gitcp.git import refs, worktrees
from gitcp.history.worktrees import Presence, Worktree, of_session
from gitcp.model import Checkpoint
from gitcp.restoring import placing, trust
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
    tree = of_session(store, last.id.session)
    if tree is not None and tree.presence is Presence.THERE:
        raise Refused(
            f"session {last.id.session} belongs to {tree.path}: the agent was not started, and "
            "nothing was changed",
            hint=f"cd {shlex.quote(str(tree.path))} && gitcp resume --session {last.id.session}",
        )
    raise Refused(
        f"the worktree {conversation.worktree!r} of session {last.id.session} no longer exists: "
        "the agent was not started, and nothing was changed",
        hint=_recreate(store, last, tree),
    )


def _recreate(store: Store, last: Checkpoint, tree: Worktree | None) -> str:
    """Return the command that recreates a session's worktree and starts its agent: where it was, or
    beside the main one if there is something else now.
    """
    main = worktrees.place(store.repo, None) or store.repo.root
    old = tree.path if tree else None
    name = old.name if old else (tree and refs.NAME.fullmatch(tree.name or "") and tree.name)
    beside = (main.parent / f"{name or 'worktree'}{(n and f'-{n}') or ''}" for n in count())
    places = (*([old] if old else []), *islice(beside, 100))
    free = (path for path in places if not os.path.lexists(path))
    path = next(free, main.parent / "worktree")
    base = last.snapshot.base.commit
    if base is None or not store.reader.exists(base):
        return f"gitcp restore {last.id} --to {shlex.quote(str(path))}"
    moved = tree is not None and tree.presence is Presence.MISSING and path != old
    prune = "git worktree prune && " if moved else ""
    return f"{prune}gitcp resume {last.id} --worktree {shlex.quote(str(path))}"


def planned_in(store: Store, target: Checkpoint, directory: Path) -> Placed:
    """Return how the agent will resume a checkpoint in a worktree that does not exist yet. Raises
    GitcpError if no agent can.
    """
    conversation = target.conversation
    if conversation is None:
        return continuing(store, None, target)
    placed = placing.plan(store, conversation, target.agent, directory, root=directory)
    return continuing(store, placed, target)


def ongoing(store: Store, last: Checkpoint, placed: Placed, cwd: Path) -> Placed | None:
    """Return how the agent resumes the conversation that it already has; None if it has none, or
    only the beginning of what `placed` completes.
    """
    capture = session.choose(store, cwd, session=last.id.session).capture
    session_id = capture.agent.session_id if capture and capture.agent else None
    if session_id is None or placed.session_id is None:
        return None
    if session_id == placed.session_id and any(f.how == "append" for f in placed.placement.files):
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


def continuing(store: Store, placed: Placed | None, target: Checkpoint) -> Placed:
    """Return `placed`. Raises GitcpError if no agent can resume the checkpoint."""
    if placed is None or not placed.command:
        problem, hint = "has no conversation", trust.command("restore", store, target)
        if target.conversation is not None:
            problem = "has a conversation that no agent can resume"
        known = SAVED.get(target.agent.name) if target.agent else None
        if known is not None and not known.transcripts.resumes:
            problem = f"is of {known.title}, into which no conversation is restored"
            hint = f"{trust.command('resume', store, target)} --with claude-code"
        raise GitcpError(
            f"{target.id} {problem}: no agent was started, and nothing was changed", hint=hint
        )
    return placed
