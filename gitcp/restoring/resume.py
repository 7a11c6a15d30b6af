"""Resume: an agent goes on where a checkpoint has it. What must be put back first is a restore, by
the same road.
"""

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
from gitcp.restoring.restore import Request
from gitcp.saving import session
from gitcp.saving.save import Request as SaveRequest
from gitcp.saving.save import save
from gitcp.store import Store
from gitcp.value import replace
from gitcp.worktree.snapshot import Limits


def request(store: Store, target: Checkpoint, cwd: Path, limits: Limits) -> Request:
    """What brings a checkpoint back so that its agent goes on from there. Looks, and writes
    nothing.
    """
    return Request(target, directory(store, target, cwd), limits=limits)


def request_here(store: Store, last: Checkpoint, cwd: Path, limits: Limits) -> Request:
    """The same for a session as it is: its files stay, and its conversation is put back only where
    it is missing.

    What the conversation has grown by is saved first, so that nothing of it goes back.
    """
    saved = save(store, SaveRequest(cwd, session=last.id.session, limits=limits)).checkpoint
    return Request(saved, directory(store, saved, cwd), files=False, limits=limits)


def check_worktree(store: Store, last: Checkpoint) -> None:
    """Raise Refused if a session ran in another working tree than this one: its files are not
    here.
    """
    ran = last.conversation
    if ran is None or ran.directory is None or ran.worktree == store.repo.worktree_name:
        return
    name = refs.NAME.fullmatch(ran.worktree) and ran.worktree if ran.worktree else None
    place = worktrees.place(store.repo, name) if name or ran.worktree is None else None
    resume = f"gitcp resume --session {last.id.session}"
    if place is not None:
        raise Refused(
            f"session {last.id.session} runs in {place}: the agent was not started, and nothing "
            "changed",
            hint=f"cd {shlex.quote(str(place))} && {resume}",
        )
    raise Refused(
        f"the working tree {ran.worktree!r} of session {last.id.session} is gone, and its files "
        "are not here: "
        "the agent was not started, and nothing changed",
        hint=_remake(store, last, name or "worktree"),
    )


def _remake(store: Store, last: Checkpoint, name: str) -> str:
    """The commands that make a session's working tree again, with its files, and start its agent
    there.
    """
    main = worktrees.place(store.repo, None) or store.repo.root
    free = (main.parent / (name if n == 0 else f"{name}-{n}") for n in count())
    place = shlex.quote(str(next(path for path in free if not os.path.lexists(path))))
    base = last.snapshot.base
    if base.commit is None or not store.objects.exists(base.commit):
        return f"gitcp restore {last.id} --to {place}"
    at = f"--detach {place} {base.commit}"
    if (
        base.branch
        and refs.read_ref(store.repo.common_dir, f"refs/heads/{base.branch}") is not None
    ):
        at = f"{place} {shlex.quote(base.branch)}"
    return f"git worktree prune && git worktree add {at} && cd {place} && gitcp resume {last.id}"


def ongoing(store: Store, last: Checkpoint, placed: Placed, cwd: Path) -> Placed | None:
    """How the agent goes on with the conversation that it has here itself, None if it has none.
    Looks only.
    """
    capture = session.choose(store, cwd, session=last.id.session).capture
    own = capture.agent.session_id if capture and capture.agent else None
    if own is None or placed.session_id is None:
        return None
    command = tuple(part.replace(placed.session_id, own) for part in placed.command)
    return replace(placed, placement=Placement(own, (), command))


def directory(store: Store, target: Checkpoint, cwd: Path) -> Path:
    """Where the agent is to be started: where the session ran. Where that is not known `cwd`, or
    the root of the working tree if only there the agent has a part of the conversation already; the
    root too if it has none of it.
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
        what = (
            "holds no conversation"
            if target.conversation is None
            else "holds a conversation that no agent resumes"
        )
        raise GitcpError(
            f"{target.id} {what}: nothing was started, and nothing changed",
            hint=f"gitcp restore {target.id}",
        )
    return placed
