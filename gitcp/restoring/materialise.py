"""`restore --to DIR`: write the files of a checkpoint into a separate directory.

Nothing else is touched, so no safety checkpoint is needed.
"""

from __future__ import annotations

from pathlib import Path

from gitcp.errors import AlreadyExists, BadValue
from gitcp.git import trees
from gitcp.model import GITLINK, Snapshot
from gitcp.restoring import placing, trust
from gitcp.restoring.apply import apply_files
from gitcp.restoring.contents import Contents
from gitcp.restoring.plan import FilePlan, FileStep, Kept, Permission, Side, absence, within
from gitcp.restoring.restore import Report, RestoreRequest
from gitcp.store import Store, require_files
from gitcp.worktree.given import encoded
from gitcp.worktree.paths import display
from gitcp.worktree.writer import Writer


def materialise(store: Store, request: RestoreRequest, directory: Path) -> Report:
    """Write the checkpoint's files into `directory`, which must be empty, missing, or a new git
    worktree, and return what was written.

    The conversation goes where the agent resumes it in that directory, unless a conversation with
    its id is there already. Makes no checkpoint. Raises Refused if the directory is not empty.
    """
    trust.require(store, request.target, trusted=request.trust)
    plan = planned(store, request, directory)
    contents = Contents(store)
    contents.require(plan.write, str(request.target.id))
    directory.mkdir(parents=True, exist_ok=True)
    root = directory.resolve()
    with Writer(root) as tree:
        done = apply_files(contents, plan, tree, lambda _: None)
        tree.flush()
    conversation, agent = request.stored
    placed = failure = None
    if request.conversation and conversation is not None:
        placed = placing.plan(store, conversation, agent, root, root=root)
        failure = placing.write(placed)
    kept = (*plan.kept, *done.failed, *((failure,) if failure else ()))
    return Report(
        target=request.target,
        safety=None,
        checkpoint=None,
        written=tuple(done.written),
        removed=(),
        kept=kept,
        placed=placed if failure is None else None,
        failed=any(one.missing for one in kept),
        conversation=conversation,
    )


def planned(store: Store, request: RestoreRequest, directory: Path) -> FilePlan:
    """Return what `materialise` would write. Raises what it does for the directory and the paths,
    and writes nothing.
    """
    require_empty(directory)
    if request.files:
        require_files(request.target)
    _check_paths(store, request)
    return whole(store, request.target.snapshot, request.paths) if request.files else FilePlan()


def whole(store: Store, snapshot: Snapshot, scope: tuple[bytes, ...]) -> FilePlan:
    """Return the plan that writes a snapshot, limited to `scope`, into an empty directory."""
    conversions = {c.path: c for c in snapshot.converted}
    is_absent = absence(snapshot)
    contents = Contents(store)
    writes, kept = [], []
    for path, entry in trees.walk(store.reader, snapshot.tree):
        conversion = conversions.get(path)
        if not within(path, scope):
            continue
        if entry.mode == GITLINK:
            kept.append(Kept(path, "a submodule: kept as it is"))
        elif is_absent(path):
            kept.append(Kept(path, "outside the sparse checkout"))
        elif conversion and conversion.lfs and (missing_lfs := contents.lacks_lfs(entry)):
            kept.append(
                Kept(
                    path,
                    f"its LFS object {missing_lfs[:12]} is missing (git lfs fetch --all)",
                    missing=True,
                )
            )
        else:
            writes.append(FileStep(path, None, entry, conversion, snapshot.modes.get(path)))
    directories = tuple(path for path in snapshot.empty_directories if within(path, scope))
    side = Side(store.reader, snapshot)
    permissions = tuple(
        Permission(path, bits, is_directory=True)
        for path, bits in snapshot.modes.items()
        if within(path, scope) and side.has_directory(path)
    )
    return FilePlan(
        write=tuple(writes),
        make_directories=directories,
        permissions=permissions,
        kept=tuple(kept),
    )


def _check_paths(store: Store, request: RestoreRequest) -> None:
    target = Side(store.reader, request.target.snapshot)
    for path in request.paths:
        if not target.may_have(path):
            raise BadValue(f"{display(path)} is not in {request.target.id}: nothing was written")


def require_empty(directory: Path) -> None:
    """Raise Refused if the directory contains anything but a `.git`, BadValue for a name that none
    can have.
    """
    encoded(directory, "the directory", "nothing was written")
    if not directory.exists() and not directory.is_symlink():
        return
    if not directory.is_dir() or any(name.name != ".git" for name in directory.iterdir()):
        raise AlreadyExists(
            f"{directory} is not an empty directory: nothing was written",
            hint="pass a directory that does not exist yet",
        )
