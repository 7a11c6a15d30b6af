"""Resume: an agent goes on where a checkpoint has it. What must be put back first is a restore, by the same road."""

from __future__ import annotations

from pathlib import Path

from gitcp.adapters.base import Placement
from gitcp.errors import GitcpError
from gitcp.model import Checkpoint
from gitcp.ops import placing, session
from gitcp.ops.placing import Placed
from gitcp.ops.restore import Request
from gitcp.ops.save import Request as SaveRequest
from gitcp.ops.save import save
from gitcp.store import Store
from gitcp.value import replace
from gitcp.worktree.snapshot import Limits


def request(store: Store, target: Checkpoint, cwd: Path, limits: Limits) -> Request:
    """What brings a checkpoint back so that its agent goes on from there. Looks, and writes nothing."""
    return Request(target, directory(store, target, cwd), limits=limits)


def request_here(store: Store, last: Checkpoint, cwd: Path, limits: Limits) -> Request:
    """The same for a session as it is: its files stay, and its conversation is put back only where it is missing.

    What the conversation has grown by is saved first, so that nothing of it goes back.
    """
    saved = save(store, SaveRequest(cwd, session=last.id.session, limits=limits)).checkpoint
    return Request(saved, directory(store, saved, cwd), files=False, limits=limits)


def ongoing(store: Store, last: Checkpoint, placed: Placed, cwd: Path) -> Placed | None:
    """How the agent goes on with the conversation that it has here itself, None if it has none. Looks only."""
    capture = session.choose(store, cwd, session=last.id.session).capture
    own = capture.agent.session_id if capture and capture.agent else None
    if own is None or placed.session_id is None:
        return None
    command = tuple(part.replace(placed.session_id, own) for part in placed.command)
    return replace(placed, placement=Placement(own, (), command))


def directory(store: Store, target: Checkpoint, cwd: Path) -> Path:
    """Where the agent is to be started: where the session ran. Where that is not known `cwd`, or the root of the
    working tree if only there the agent has a part of the conversation already; the root too if it has none of it.
    """
    root = store.repo.root
    if target.conversation is None or target.agent is None:
        return root
    ran_in = placing.directory(store, target.conversation, target.agent)
    if ran_in is not None:
        return ran_in
    for place in dict.fromkeys((cwd, root)):
        files = placing.plan(store, target.conversation, target.agent, place).placement.files
        if files and files[0].how != "create":
            return place
    return root


def continuing(placed: Placed | None, target: Checkpoint) -> Placed:
    """`placed`, where an agent can continue it. Raises GitcpError where none can."""
    if placed is None or not placed.command:
        what = "holds no conversation" if target.conversation is None else "holds a conversation that no agent resumes"
        raise GitcpError(
            f"{target.id} {what}: nothing was started, and nothing changed", hint=f"gitcp restore {target.id}"
        )
    return placed
