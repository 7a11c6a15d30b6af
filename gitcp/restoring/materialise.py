"""`restore --to DIR`: a checkpoint's files in a directory of their own. The safest restore: it
touches nothing else.
"""

from __future__ import annotations

from pathlib import Path

from gitcp.errors import BadValue, Refused
from gitcp.git import trees
from gitcp.model import GITLINK, Snapshot
from gitcp.restoring import placing, trust
from gitcp.restoring.apply import apply_files
from gitcp.restoring.contents import Contents
from gitcp.restoring.plan import FilePlan, Kept, Side, Step, within
from gitcp.restoring.restore import Report, Request, know_files
from gitcp.store import Store
from gitcp.worktree.paths import display
from gitcp.worktree.writer import Writer


def materialise(store: Store, request: Request, directory: Path) -> Report:
    """Write the checkpoint's files into `directory`, which must be empty, absent, or a new working
    tree of git's.

    The conversation is put where the agent resumes it in that directory, unless it has one of the
    same id already. Makes no checkpoint, needs none. Raises Refused if anything is in the
    directory.
    """
    trust.require(store, request.target, trusted=request.trust)
    require_empty(directory)
    know_files(store, request.target)
    plan = whole(store, request.target.snapshot, request.paths) if request.files else FilePlan()
    _check_paths(store, request)
    contents = Contents(store)
    contents.require(plan.write, str(request.target.id))
    directory.mkdir(parents=True, exist_ok=True)
    root = directory.resolve()
    with Writer(root) as tree:
        done = apply_files(contents, plan, tree, lambda _: None)
        tree.flush()
    conversation, agent = request.stored
    placed = unplaced = None
    if request.conversation and conversation is not None:
        placed = placing.plan(store, conversation, agent, root, root=root)
        unplaced = placing.write(placed)
    kept = (*plan.kept, *done.failed, *((unplaced,) if unplaced else ()))
    return Report(
        target=request.target,
        safety=request.target.id,
        checkpoint=None,
        written=tuple(done.written),
        removed=(),
        kept=kept,
        placed=placed if unplaced is None else None,
        failed=any(one.missing for one in kept),
    )


def whole(store: Store, snapshot: Snapshot, scope: tuple[bytes, ...]) -> FilePlan:
    """The plan that writes a snapshot, or what of it is in `scope`, into an empty directory."""
    conversions = {c.path: c for c in snapshot.converted}
    absent = set(snapshot.absent)
    contents = Contents(store)
    steps, kept = [], []
    for path, entry in trees.walk(store.objects, snapshot.tree):
        conversion = conversions.get(path)
        if not within(path, scope):
            continue
        if entry.mode == GITLINK:
            kept.append(Kept(path, "a submodule; it is left where it is"))
        elif path in absent:
            kept.append(Kept(path, "outside the sparse checkout"))
        elif conversion and conversion.lfs and (lacking := contents.lacks_lfs(entry)):
            kept.append(
                Kept(
                    path,
                    f"its LFS object {lacking[:12]} is not here (git lfs fetch --all)",
                    missing=True,
                )
            )
        else:
            steps.append(Step(path, None, entry, conversion, snapshot.modes.get(path)))
    directories = tuple(path for path in snapshot.empty_directories if within(path, scope))
    return FilePlan(write=tuple(steps), make_directories=directories, kept=tuple(kept))


def _check_paths(store: Store, request: Request) -> None:
    target = Side(store.objects, request.target.snapshot)
    for path in request.paths:
        if not target.holds(path):
            raise BadValue(f"{display(path)} is not in {request.target.id}: nothing was written")


def require_empty(directory: Path) -> None:
    """Raise Refused if anything is in the directory but a `.git`."""
    if not directory.exists() and not directory.is_symlink():
        return
    if not directory.is_dir() or any(name.name != ".git" for name in directory.iterdir()):
        raise Refused(
            f"{directory} is not an empty directory: nothing was written",
            hint="name a directory that does not exist yet",
        )
