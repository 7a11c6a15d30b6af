"""Fork: a new session that begins at a checkpoint of another. Both go on, and neither is ever
merged into the other.

The first checkpoint of the fork says what the fork point says. Its conversation is a copy under an
id of its own, so that the agent can continue both. Files are written only into a working tree that
is made for it.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from gitcp import readme
from gitcp.errors import Refused, StoreDamaged
from gitcp.git import refs, worktrees
from gitcp.model import Checkpoint, CheckpointId, Oid, State, Trigger
from gitcp.restoring import placing, trust
from gitcp.restoring.contents import Contents
from gitcp.restoring.materialise import materialise, require_empty, whole
from gitcp.restoring.placing import Placed
from gitcp.restoring.plan import Kept
from gitcp.restoring.restore import Request as RestoreRequest
from gitcp.restoring.restore import know_files
from gitcp.saving import session
from gitcp.state import numbers, oplog
from gitcp.store import Store
from gitcp.value import Value, replace


class Request(Value):
    """Where to fork, and how: the session's `name`, a new working tree of git's, a new branch.

    `cwd` is where the agent continues if no working tree is made.
    """

    point: Checkpoint
    cwd: Path
    name: str | None = None
    worktree: Path | None = None
    branch: str | None = None
    trust: bool = False


class Forked(Value):
    """What a fork made: its first checkpoint, and where its conversation and its files are.

    `kept` is what could not be written; `placed` is None where no agent can continue the
    conversation.
    """

    checkpoint: Checkpoint
    worktree: Path | None
    branch: str | None
    placed: Placed | None
    kept: tuple[Kept, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether some of it is missing."""
        return any(one.missing for one in self.kept)


def fork(store: Store, request: Request) -> Forked:
    """Begin a new session at a checkpoint.

    Writes one ref under `refs/gitcp/sessions/`, a copy of the conversation where its agent resumes
    it, and the working tree or the branch that was asked for. HEAD, the index and the files of this
    working tree stay as they are. Raises Refused for a session, branch or directory that exists
    already, with nothing changed.
    """
    trust.require(store, request.point, trusted=request.trust)
    know_files(store, request.point)
    placed = _copy(store, request)
    name = _name(store, request, placed)
    base = _check_base(store, request)
    kept = (
        _add_worktree(store, request, base)
        if request.worktree is not None and base is not None
        else ()
    )
    if request.worktree is None and request.branch is not None and base is not None:
        worktrees.add_branch(store.repo, request.branch, base)
    made = begin(store, _moved(store, request), name, placed.session_id if placed else None)
    oplog.record(
        store.repo,
        "fork",
        f"{made.id} from {request.point.id}",
        checkpoints=(made.id, request.point.id),
    )
    unplaced = placing.write(placed) if placed is not None else None
    if request.worktree is not None:
        _enter(store, request.worktree, made)
    kept = (*kept, *((unplaced,) if unplaced else ()))
    return Forked(
        made, request.worktree, request.branch, placed if unplaced is None else None, kept
    )


def _moved(store: Store, request: Request) -> Checkpoint:
    """The fork point, as of a session that goes on in the fork's working tree."""
    there = (
        store.repo
        if request.worktree is None
        else type(store.repo).open(request.worktree, store.repo.host)
    )
    conversation = request.point.conversation
    return replace(
        request.point,
        conversation=conversation and replace(conversation, worktree=there.worktree_name),
    )


def _copy(store: Store, request: Request) -> Placed | None:
    """Where the copy of the conversation goes; None where there is none, or no agent to continue
    it.
    """
    conversation, agent = request.point.conversation, request.point.agent
    if conversation is None or agent is None:
        return None
    where, new_id = request.worktree or request.cwd, str(uuid.uuid4())
    return placing.plan_copy(store, conversation, agent, where, new_id, request.worktree)


def _name(store: Store, request: Request, placed: Placed | None) -> str:
    """The name of the new session: as given, else from the agent's new id, else like that of the
    old one.
    """
    if request.name is None:
        session_id = placed.session_id if placed else None
        old = request.point.id.session
        return session.new_name(store, session_id) if session_id else session.free_name(store, old)
    name = refs.check_name(request.name, "session")
    if store.tip(name) is not None:
        raise Refused(
            f"there is a session {name} already: nothing was changed",
            hint="give another name: --name",
        )
    return name


def _check_base(store: Store, request: Request) -> Oid | None:
    """The commit that a working tree or a branch begins at; None if neither is wanted. Everything
    that can be known to stand in the way is found here, before anything is made.
    """
    if request.worktree is None and request.branch is None:
        return None
    point, base = request.point, request.point.snapshot.base.commit
    if base is None:
        raise Refused(
            f"{point.id} was made before the first commit, and git makes no working tree or branch "
            "without one: "
            "nothing was changed",
            hint=f"gitcp restore {point.id} --to DIR",
        )
    try:
        store.objects.read_commit(base)
    except StoreDamaged:
        raise Refused(
            f"the commit {base[:10]} that {point.id} stands on is not in the repository any more: "
            "nothing was changed",
            hint=f"gitcp restore {point.id} --to DIR",
        ) from None
    if request.branch is not None:
        worktrees.check_branch(store.repo, request.branch)
    if request.worktree is not None:
        require_empty(request.worktree)
        Contents(store).require(whole(store, point.snapshot, ()).write, str(point.id))
    return base


def _add_worktree(store: Store, request: Request, base: Oid) -> tuple[Kept, ...]:
    """Make the working tree with the files of the fork point; what of them could not be written."""
    assert request.worktree is not None
    worktrees.add_worktree(store.repo, request.worktree, base, request.branch)
    files = RestoreRequest(request.point, request.cwd, conversation=False)
    return materialise(store, files, request.worktree).kept


def begin(
    store: Store,
    point: Checkpoint,
    name: str,
    agent_session: str | None,
    state: State | None = None,
) -> Checkpoint:
    """The first checkpoint of the new session: what the fork point says, and where it came from.

    Writes its commit and one ref. Raises Refused if there is such a session.
    """
    agent = point.agent and replace(point.agent, session_id=agent_session)
    draft = replace(
        point,
        id=CheckpointId(name, point.id.number + 1),
        parent=point.commit,
        created=store.repo.host.now(),
        trigger=Trigger.MANUAL,
        agent=agent,
        note=replace(point.note, label=None, compensations=()),
        changed=0,
        restored_from=None,
        reverted=None,
        forked_from=point.id,
        run=None,
        state=state,
    )
    with store.lock():
        number = max(draft.id.number, numbers.first(store, name))
        draft = replace(draft, id=draft.id._replace(number=number))
        made = store.commit(draft, readme.render(draft, ()))
        store.begin(made)
    return made


def _enter(store: Store, directory: Path, made: Checkpoint) -> None:
    """In the new working tree the new session is the current one."""
    there = Store(type(store.repo).open(Path(os.path.realpath(directory)), store.repo.host))
    if made.agent is None or made.agent.session_id is None:
        session.begin_here(there, made.id.session)
    else:
        session.set_current(there, made.id.session)
