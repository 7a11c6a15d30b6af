"""Saving and going back through the library, as the command line does it, with each step in one
call.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gitcp.model import Checkpoint, CheckpointId
from gitcp.restoring import restore as op
from gitcp.restoring.plan import FilePlan
from gitcp.restoring.restore import Report, RestoreRequest
from gitcp.saving import save as save_op
from gitcp.store import Store

from driver import File, Project
from samples import open_store

SESSION = "work"


def save(project: Project, session: str | None = SESSION, **fields: Any) -> Checkpoint:
    """Save what is there, always as a new checkpoint."""
    request = save_op.SaveRequest(project.root, session=session, force=True, **fields)
    return save_op.save(open_store(project), request).checkpoint


def restore(project: Project, target: Checkpoint, **fields: Any) -> Report:
    """Restore a checkpoint, without a question."""
    return op.restore(open_store(project), RestoreRequest(target, project.root, **fields))


def plan(project: Project, target: Checkpoint, **fields: Any) -> FilePlan:
    """What a restore would do to the files."""
    return op.plan(open_store(project), RestoreRequest(target, project.root, **fields)).files


def undo(project: Project, **fields: Any) -> Report:
    """Undo the last restore."""
    store = open_store(project)
    return op.undo(store, lambda id: RestoreRequest(numbered(store, id), project.root, **fields))


def redo(project: Project, **fields: Any) -> Report:
    """Take back the last undo."""
    store = open_store(project)
    return op.redo(store, lambda id: RestoreRequest(numbered(store, id), project.root, **fields))


def finish(project: Project, *, forward: bool) -> Report:
    """Go on with an interrupted restore, or take it back."""
    store = open_store(project)
    return op.finish(
        store, lambda id: RestoreRequest(numbered(store, id), project.root), forward=forward
    )


def numbered(store: Store, id: CheckpointId) -> Checkpoint:
    """The checkpoint with this id, which must be there."""
    commit = store.find(id)
    assert commit is not None, id
    return store.read(commit)


def last(project: Project, session: str = SESSION) -> Checkpoint:
    """The last checkpoint of a session."""
    store = open_store(project)
    tip = store.tip(session)
    assert tip is not None
    return store.read(tip)


def kept(report: Report | FilePlan) -> dict[bytes, str]:
    """The paths that were left alone, and why."""
    return {one.path: one.reason for one in report.kept}


def contents(project: Project) -> dict[bytes, File]:
    """The working tree without the permissions of its directories, which no checkpoint holds."""
    return {
        path: file._replace(mode=0) if file.kind == "directory" else file
        for path, file in project.files().items()
    }


def identities(project: Project) -> dict[bytes, tuple[int, int]]:
    """Inode and mtime of every file and link: what shows that something was not touched."""
    found = {}
    for path, file in project.files().items():
        if file.kind != "directory":
            status = os.lstat(project.path(path))
            found[path] = (status.st_ino, status.st_mtime_ns)
    return found


def outside(project: Project, name: str, content: str = "outside\n") -> Path:
    """A file beside the project, which nothing may touch."""
    path = project.root.parent / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path
