"""Fork: start a new session at a checkpoint of another. Sessions are never merged.

The first checkpoint has the content of the fork point. Its conversation is a copy under a new id,
so that the agent can continue both. Files are only written into a new working tree.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

from gitcp import readme
from gitcp.errors import AlreadyExists, BadValue
from gitcp.git import worktrees
from gitcp.model import Checkpoint, CheckpointId, Oid, State, Trigger
from gitcp.restoring import placing, trust
from gitcp.restoring.contents import Contents
from gitcp.restoring.materialise import materialise, require_empty, whole
from gitcp.restoring.placing import Placed
from gitcp.restoring.plan import Kept
from gitcp.restoring.recreate import base_commit
from gitcp.restoring.restore import RestoreRequest
from gitcp.saving import session
from gitcp.state import numbers, oplog
from gitcp.store import Store
from gitcp.value import Value, replace
from gitcp.worktree.given import encoded


class ForkRequest(Value):
    """Where to fork, and the new session's `name`, working tree and branch.

    `cwd` is where the agent continues if no working tree is created.
    """

    point: Checkpoint
    cwd: Path
    name: str | None = None
    worktree: Path | None = None
    branch: str | None = None
    trust: bool = False


class Forked(Value):
    """The new session's first checkpoint, and where its conversation and files are.

    `kept` is what could not be written; `placed` is None if no agent can continue the conversation.
    """

    checkpoint: Checkpoint
    worktree: Path | None
    branch: str | None
    placed: Placed | None
    kept: tuple[Kept, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether some of it is missing."""
        return any(each.missing for each in self.kept)

    def to_json(self) -> dict[str, Any]:
        """Return the fields that `gitcp fork --json` prints."""
        from gitcp import documents  # only for programs
        from gitcp.restoring import printed

        return documents.encode(
            documents.Forked(
                session=self.checkpoint.id.session,
                checkpoint=self.checkpoint.id,
                forked_from=self.checkpoint.forked_from,
                worktree=self.worktree,
                branch=self.branch,
                kept=printed.kept(self.kept),
                resume=self.placed.document() if self.placed else None,
            )
        )


def new_directory(cwd: Path, name: str | os.PathLike[str] | None) -> Path | None:
    """Return the directory of a new working tree, as named in `cwd`; None if none is wanted. Raises
    BadValue for a name that no directory can have.
    """
    if name is None:
        return None
    given = os.fsdecode(encoded(name, "the directory", "nothing was changed"))
    if not given:
        raise BadValue("--worktree is empty: nothing was changed", hint="gitcp fork --worktree DIR")
    return Path(os.path.realpath(os.path.join(cwd, given)))


def fork(store: Store, request: ForkRequest) -> Forked:
    """Start a new session at a checkpoint.

    Writes one ref under `refs/gitcp/sessions/`, a copy of the conversation for the agent, and the
    requested working tree or branch. HEAD, the index and the files of this working tree are not
    touched. Raises Refused, with nothing changed, if the session, branch or directory exists.
    """
    trust.require(store, request.point, trusted=request.trust)
    placed = _copy(store, request)
    name = _name(store, request, placed)
    base = _check_base(store, request)
    unwritten = (
        _add_worktree(store, request, base)
        if request.worktree is not None and base is not None
        else ()
    )
    if request.worktree is None and request.branch is not None and base is not None:
        worktrees.add_branch(store.repo, request.branch, base)
    first = begin(
        store, _point_in_worktree(store, request), name, placed.session_id if placed else None
    )
    oplog.record(
        store.repo,
        "fork",
        f"{first.id} from {request.point.id}",
        checkpoints=(first.id, request.point.id),
    )
    not_written = placing.write(placed) if placed is not None else None
    if request.worktree is not None:
        _set_current(store, request.worktree, first)
    unwritten = (*unwritten, *((not_written,) if not_written else ()))
    return Forked(
        first, request.worktree, request.branch, placed if not_written is None else None, unwritten
    )


def _point_in_worktree(store: Store, request: ForkRequest) -> Checkpoint:
    """Return the fork point with the conversation assigned to the fork's working tree."""
    repo = (
        store.repo
        if request.worktree is None
        else type(store.repo).open(request.worktree, store.repo.host)
    )
    conversation = request.point.conversation
    return replace(
        request.point,
        conversation=conversation and replace(conversation, worktree=repo.worktree_name),
    )


def _copy(store: Store, request: ForkRequest) -> Placed | None:
    """Plan the copy of the conversation; None if there is none, or no agent to continue it."""
    conversation, agent = request.point.conversation, request.point.agent
    if conversation is None or agent is None:
        return None
    directory, new_id = request.worktree or request.cwd, str(uuid.uuid4())
    return placing.plan_copy(store, conversation, agent, directory, new_id, request.worktree)


def _name(store: Store, request: ForkRequest, placed: Placed | None) -> str:
    """Return the new session's name: as given, else from the agent's new id,
    else derived from the old name.
    """
    if request.name is None:
        session_id = placed.session_id if placed else None
        old = request.point.id.session
        return session.new_name(store, session_id) if session_id else session.free_name(store, old)
    name = session.check_name(store, request.name)
    if store.tip(name) is not None:
        raise AlreadyExists(
            f"session {name} already exists; nothing was changed",
            hint=f"gitcp fork {request.point.id} --name NAME",
        )
    return name


def _check_base(store: Store, request: ForkRequest) -> Oid | None:
    """Return the commit for the new working tree or branch; None if neither is requested. Finds all
    foreseeable problems before anything is created.
    """
    if request.worktree is None and request.branch is None:
        return None
    point, base = request.point, base_commit(store, request.point)
    if request.branch is not None:
        worktrees.check_branch(store.repo, request.branch)
    if request.worktree is not None:
        require_empty(request.worktree)
        Contents(store).require(whole(store, point.snapshot, ()).write, str(point.id))
    return base


def _add_worktree(store: Store, request: ForkRequest, base: Oid) -> tuple[Kept, ...]:
    """Create the working tree with the files of the fork point; return what could not be
    written.
    """
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
    """Write the first checkpoint of the new session, with the content of the fork point.

    Writes a commit and one ref. Raises Refused if the session exists.
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
        step=None,
        state=state,
    )
    with store.lock():
        number = max(draft.id.number, numbers.first(store, name))
        draft = replace(draft, id=draft.id._replace(number=number))
        first = store.commit(draft, readme.render(draft, ()))
        store.begin(first)
    return first


def _set_current(store: Store, directory: Path, first: Checkpoint) -> None:
    """Make the new session the current one of the new working tree."""
    store_there = Store(type(store.repo).open(Path(os.path.realpath(directory)), store.repo.host))
    if first.agent is None or first.agent.session_id is None:
        session.set_manual(store_there, first.id.session)
    else:
        session.set_current(store_there, first.id.session)
