"""`restore --worktree DIR`: create a git worktree anew, as a checkpoint recorded it.

Base commit, branch, files, index and conversation are those of the checkpoint, and its session
continues there. Nothing of other worktrees is touched. A plan is made first; it finds all
foreseeable problems before anything is created.
"""

from __future__ import annotations

import os
import shlex
from itertools import count
from pathlib import Path

from gitcp.errors import Refused, StoreDamaged
from gitcp.git import worktrees
from gitcp.history.worktrees import Presence, Worktree, of_session, was_in_gone_one
from gitcp.model import Checkpoint, Oid, Trigger
from gitcp.restoring import index, placing, trust
from gitcp.restoring.contents import Contents
from gitcp.restoring.materialise import materialise, require_empty, whole
from gitcp.restoring.placing import Placed
from gitcp.restoring.plan import Kept
from gitcp.restoring.restore import Report, RestoreRequest
from gitcp.saving import session
from gitcp.saving.save import Carried, Records, SaveRequest, save
from gitcp.saving.session import Choice
from gitcp.state import oplog
from gitcp.store import Store
from gitcp.value import Value, replace
from gitcp.worktree.paths import display


class WorktreePlan(Value):
    """The worktree that would be created: at `base`, on `branch` (None: detached), which is `new`
    or exists there. `why` says why it is not the recorded branch, "" if it is. `registered`: git
    still lists the directory, which is gone.
    """

    target: Checkpoint
    directory: Path
    session: str
    base: Oid
    branch: str | None
    new: bool
    why: str = ""
    registered: bool = False


class Recreated(Value):
    """The new worktree, and the report of what was written to it."""

    plan: WorktreePlan
    report: Report


def plan(
    store: Store, request: RestoreRequest, directory: Path, branch: str | None = None
) -> WorktreePlan:
    """Return the worktree that `recreate` would create for the target. Writes nothing.

    `branch` names a new branch; by default it is the recorded one, or another name if that one is
    elsewhere by now. Raises Refused if the session is in use in another worktree, the base commit
    or a file is missing, or the directory is not empty.
    """
    target = request.target
    trust.require(store, target, trusted=request.trust)
    directory = Path(os.path.realpath(directory))
    name = session.owner(store, target)
    at = of_session(store, name)
    base = base_commit(store, target)
    require_empty(directory)
    registered = _check_gone(store, at, target, directory)
    Contents(store).require(whole(store, target.snapshot, ()).write, str(target.id))
    if branch is not None:
        worktrees.check_branch(store.repo, branch)
        return WorktreePlan(target, directory, name, base, branch, new=True, registered=registered)
    chosen, new, why = _branch(store, target.snapshot.base.branch, base, directory)
    return WorktreePlan(target, directory, name, base, chosen, new, why, registered)


def recreate(store: Store, request: RestoreRequest, agreed: WorktreePlan) -> Recreated:
    """Create the worktree and continue the session there.

    Writes the worktree, a branch if one is needed, the conversation for the agent, and a checkpoint
    that records the restore. `gitcp fork --remove` undoes it.
    """
    worktrees.add_worktree(
        store.repo,
        agreed.directory,
        agreed.base,
        agreed.branch,
        new=agreed.new,
        force=agreed.registered,
    )
    there = Store(type(store.repo).open(agreed.directory, store.repo.host))
    files = replace(request, cwd=agreed.directory, conversation=False)
    report = materialise(store, files, agreed.directory)
    failures = index.restore(there, request.target, ())
    session.set_current(there, agreed.session)
    saved, placed, unwritten = _continue(there, request, agreed)
    kept = (*report.kept, *failures, *((unwritten,) if unwritten else ()))
    oplog.record(
        there.repo,
        "worktree",
        f"{display(os.fsencode(agreed.directory))} from {request.target.id}",
        checkpoints=(request.target.id, saved.id),
    )
    report = replace(
        report,
        checkpoint=saved.id,
        kept=kept,
        placed=placed if unwritten is None else None,
        failed=any(each.missing for each in kept),
    )
    return Recreated(agreed, report)


def base_commit(store: Store, target: Checkpoint) -> Oid:
    """Return the commit that a checkpoint was saved on. Raises Refused if there is none, or it is
    no longer in the repository.
    """
    base = target.snapshot.base.commit
    hint = f"{trust.command('restore', store, target)} --to DIR"
    if base is None:
        raise Refused(
            f"{target.id} was saved before the first commit, so git cannot create a working tree "
            "or branch from it; nothing was changed",
            hint=hint,
        )
    try:
        store.reader.read_commit(base)
    except StoreDamaged:
        raise Refused(
            f"{target.id} is based on commit {base[:10]}, which is no longer in the repository; "
            "nothing was changed",
            hint=hint,
        ) from None
    return base


def _check_gone(store: Store, at: Worktree | None, target: Checkpoint, directory: Path) -> bool:
    """Return whether git still lists `directory`, which is gone. Raises Refused unless the worktree
    of the session is gone.
    """
    if at is None or at.presence is Presence.REMOVED:
        return False
    path = shlex.quote(str(at.path))
    if at.name is None and was_in_gone_one(store, target.id.session):
        return False  # it went on in the main one, for want of its own
    if at.presence is Presence.THERE:
        raise Refused(
            f"session {target.id.session} is in use in {at.path}; nothing was changed",
            hint=f"{trust.command('fork', store, target)} --worktree {shlex.quote(str(directory))}",
        )
    if at.locked:
        raise Refused(
            f"the worktree {at.path} is locked, and may be on a disk that is not mounted; nothing "
            "was changed",
            hint=f"git worktree unlock {path}",
        )
    if at.path is not None and os.path.realpath(at.path) != str(directory):
        raise Refused(
            f"git still lists the worktree {at.path}, which is not there; nothing was changed. If "
            "it was moved: git worktree repair NEW-PATH",
            hint="git worktree prune",
        )
    return True


def _branch(
    store: Store, recorded: str | None, base: Oid, directory: Path
) -> tuple[str | None, bool, str]:
    """Return the branch to check out, whether it is to be created, and why it is not the recorded
    one.
    """
    if recorded is None or not worktrees.is_branch_name(store.repo, recorded):
        return None, False, ""
    tip = worktrees.branch_tip(store.repo, recorded)
    if tip is None:
        return recorded, True, ""
    at = worktrees.checked_out_at(store.repo, recorded)
    if at is not None and at != directory:
        why = f"branch {recorded} is checked out in {at}"
    elif tip != base:
        why = f"branch {recorded} has other commits by now"
    else:
        return recorded, False, ""
    names = (f"{recorded}-{number}" for number in count(2))
    free = next(name for name in names if worktrees.branch_tip(store.repo, name) is None)
    return free, True, why


def _continue(
    there: Store, request: RestoreRequest, agreed: WorktreePlan
) -> tuple[Checkpoint, Placed | None, Kept | None]:
    """Save the checkpoint with which the session continues in the new worktree, and place its
    conversation.

    If the session's last checkpoint is restored, what its agent has written since is included.
    """
    target = request.target
    note = replace(target.note, label=None, compensations=())
    carried = Carried(note=note, steps_of=target)
    restoring = SaveRequest(
        cwd=agreed.directory,
        session=agreed.session,
        trigger=Trigger.RESTORE,
        limits=request.scan_limits,
        force=True,
        records=Records(restored_from=target.id),
        carried=carried,
    )
    if there.tip(agreed.session) != target.commit:
        conversation = target.conversation
        conversation = conversation and replace(conversation, worktree=there.repo.worktree_name)
        choice = Choice(agreed.session, None, "restored")
        carried = replace(carried, conversation=(conversation, target.agent))
        restoring = replace(restoring, session=None, choice=choice, carried=carried)
    saved = save(there, restoring).checkpoint
    if saved.conversation is None:
        return saved, None, None
    root = agreed.directory
    placed = placing.plan(there, saved.conversation, saved.agent, root, root=root)
    unwritten = placing.write(placed)
    return saved, placed, unwritten
