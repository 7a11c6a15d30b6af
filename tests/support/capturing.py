"""Takes snapshots of a project as a save does, and checks at each one what must hold of every
snapshot.

Held each time: nothing of git's was written and no file changed; the index can be told from the
snapshot; what was remembered makes no difference to a scan that knows nothing.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from gitcp.git import index, trees
from gitcp.git.objects import Objects
from gitcp.git.repo import Repository
from gitcp.model import Entry, Host, Oid, Skip, Snapshot
from gitcp.worktree.snapshot import Limits, Taken, take
from gitcp.worktree.state import NAME

from driver import Project


def host() -> Host:
    """The sealed environment of the test."""
    return Host(os.environ, Path(os.environ["HOME"]), lambda: datetime.now(UTC))


class Shot:
    """One snapshot, and the files in it."""

    def __init__(self, objects: Objects, taken: Taken) -> None:
        self.objects = objects
        self.taken = taken
        self.snapshot: Snapshot = taken.snapshot
        self.entries = dict(trees.walk(objects.reader, taken.snapshot.tree))

    def blob(self, path: bytes) -> bytes:
        """The blob of a captured path."""
        return self.objects.reader.read_blob(self.entries[path].oid)

    @property
    def skipped(self) -> dict[bytes, Skip]:
        """What was left out, by path."""
        return {skip.path: skip for skip in self.snapshot.skipped}


class Camera:
    """Takes one snapshot after the other of a project, as the checkpoints of one session would."""

    def __init__(self, project: Project, limits: Limits | None = None) -> None:
        self.project = project
        self.limits = limits or Limits()
        self.live: frozenset[Oid] = frozenset()

    @property
    def repo(self) -> Repository:
        """The repository, opened anew as every command does."""
        return Repository.open(self.project.root, host())

    @property
    def state(self) -> Path:
        """The state file."""
        return self.repo.git_dir / "gitcp" / NAME

    def take(self, *, remember: bool = True) -> Shot:
        """A snapshot of now, stored; `remember` says whether a checkpoint of it came about."""
        files = self.project.files()
        with self.project.guard():
            repo = self.repo
            objects = Objects(repo)
            taken = take(repo, objects, self.limits, self.live)
            objects.writer.flush()
            if remember:
                taken.remember()
                self.live = frozenset({taken.snapshot.tree})
            shot = Shot(objects, taken)
        assert self.project.files() == files, "a file was changed"
        self._check(shot)
        return shot

    def _check(self, shot: Shot) -> None:
        whole = tuple(path for path in shot.snapshot.absent if path.endswith(b"/"))
        told = [path for path in shot.entries if not path.startswith(whole)]
        assert shot.snapshot.total == len(told) + len(whole)
        entries = {
            (entry.path, entry.stage): Entry(entry.mode, entry.oid)
            for entry in index.read_index(self.repo)
        }
        assert index_of(shot) == entries, "the index is not what the snapshot says"
        afresh = self.afresh().snapshot
        differing = [
            name
            for name in Snapshot.fields
            if getattr(afresh, name) != getattr(shot.snapshot, name)
        ]
        assert not differing, f"a scan that remembers nothing says otherwise: {differing}"

    def afresh(self) -> Taken:
        """A snapshot by a scan that remembers nothing, and that writes nothing."""
        aside = self.state.with_name("aside")
        remembers = self.state.exists()
        if remembers:
            self.state.rename(aside)
        before = everything(self.repo.git_dir)
        taken = take(self.repo, Objects(self.repo, dry=True), self.limits, frozenset())
        assert everything(self.repo.git_dir) == before, "a dry snapshot wrote something"
        if remembers:
            aside.rename(self.state)
        return taken


def everything(directory: Path) -> dict[str, bytes]:
    """Every file below a directory, but for what git's settings are remembered in."""
    paths = (
        path
        for path in directory.rglob("*")
        if path.is_file() and path.parts[-2:] != ("gitcp", "config")
    )
    return {str(path): path.read_bytes() for path in paths}


def index_of(shot: Shot) -> dict[tuple[bytes, int], Entry]:
    """The index as a snapshot tells it: its files without the untracked ones, and what was staged
    instead.
    """
    untracked = set(shot.snapshot.untracked)
    directories = tuple(path for path in untracked if path.endswith(b"/"))
    entries = {
        (path, 0): entry
        for path, entry in shot.entries.items()
        if path not in untracked and not path.startswith(directories)
    }
    for entry in shot.snapshot.staged:
        entries[entry.path, 0] = Entry(entry.mode, entry.oid)
    for entry in shot.snapshot.conflicts:
        entries.pop((entry.path, 0), None)
        entries[entry.path, entry.stage] = Entry(entry.mode, entry.oid)
    return entries


def git_tree(project: Project) -> str:
    """The tree that `git add --all` makes, in an index that knows nothing of the files' stat
    data.
    """
    listed = project.git("ls-files", "--stage", "-z").encode("utf-8", "surrogateescape")
    other = {"GIT_INDEX_FILE": str(project.git_dir / "other-index")}
    try:
        os.environ.update(other)
        project.git("update-index", "-z", "--index-info", input=listed)
        project.git("add", "--all")
        return project.git("write-tree")
    finally:
        del os.environ["GIT_INDEX_FILE"]
        (project.git_dir / "other-index").unlink(missing_ok=True)


def untracked(project: Project) -> set[bytes]:
    """The untracked files that git sees."""
    listed = project.git("ls-files", "--others", "--exclude-standard", "-z").encode(
        "utf-8", "surrogateescape"
    )
    return set(listed.split(b"\0")) - {b""}
