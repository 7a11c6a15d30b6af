"""Move the checkpoints of gitcp's own store into the git repository that its directory became.

Objects are fetched and checked by git, then the refs are created; nothing that the repository has
is changed. The store gets another name when all of it has arrived, and is not deleted. A session
that the repository has as well, because an agent went on after `git init`, is renamed in the store
first.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from gitcp import discovery, humanize
from gitcp.errors import AlreadyExists, RepositoryNotFound, StoreBusy
from gitcp.git import refs, remote
from gitcp.git.fsync import make_own_directory, read_own, replace_file
from gitcp.git.repo import Repository
from gitcp.lifecycle.rename import rename
from gitcp.model import Oid
from gitcp.state import numbers, oplog
from gitcp.store import Store
from gitcp.value import Value

JOINED = "joined.git"
FILES = tuple("current manual note outputs appends prompted untold oplog restore.json".split())
DIRECTORIES = ("written", "restored", "runs", "compensations")
"""What is copied of gitcp's files, where the repository has none yet. The rest is made again."""


class Joined(Value):
    """The sessions that were moved, with their new names where they were renamed, the number of
    tags, and where the old store is now.
    """

    sessions: tuple[str, ...]
    renamed: Mapping[str, str]
    tags: int
    store: Path


def join(store: Store) -> Joined:
    """Move everything from the own store beside `.git` into the repository.

    Writes objects, refs below `refs/gitcp/`, files in `<git dir>/gitcp/`, and renames the store.
    Raises RepositoryNotFound if there is none, and AlreadyExists if a tag has the name of another;
    nothing was changed then.
    """
    own = _open(store.repo)
    sessions, theirs, tags = store.sessions(), own.sessions(), own.tags()
    _refuse_tags(store.tags(), tags)
    with own.lock():  # what a framework wrote last is settled
        pass
    clashes = [name for name, tip in theirs.items() if sessions.get(name, tip) != tip]
    renamed = {name: rename(own, name, _free(name, {*sessions, *theirs})).new for name in clashes}
    with store.lock():
        numbers.reserve(store, numbers.reserved(own))
        _transfer(store, own.repo.refs.list(refs.PREFIX), own.repo.git_dir)
        _copy_files(own.repo.git_dir / "gitcp", store.repo.store_dir)
        moved = _set_aside(own.repo.git_dir)
    names = sorted(renamed.get(name, name) for name in theirs)
    done = Joined(tuple(names), renamed, len(tags), moved)
    oplog.record(store.repo, "join", f"{humanize.count(len(names), 'session')} of {moved}")
    return done


def _open(repo: Repository) -> Store:
    location = discovery.own_store(str(repo.root))
    if location is None or repo.is_own:
        what = f"{repo.root} has no store of its own to join; nothing was changed"
        raise RepositoryNotFound(what, hint="gitcp sessions")
    return Store(Repository.at(Path(location[0]), Path(location[1]), repo.host))


def _refuse_tags(tags: Mapping[str, Oid], theirs: Mapping[str, Oid]) -> None:
    for name, value in theirs.items():
        if tags.get(name, value) != value:
            what = f"tag {name} exists in the repository and in the store; nothing was changed"
            raise AlreadyExists(what, hint=f"gitcp tag --delete {name}")


def _free(name: str, taken: set[str]) -> str:
    """Return a new name for a session whose name is taken."""
    candidates = (f"{name}-before-git{suffix}" for suffix in ("", *(f"-{n}" for n in range(2, 99))))
    return next(each for each in candidates if each not in taken)


def _transfer(store: Store, wanted: Mapping[str, Oid], source: Path) -> None:
    missing = {name: oid for name, oid in wanted.items() if store.repo.refs.read(name) != oid}
    remote.receive(store.repo, str(source), list(missing))
    store.writer.flush(keep=True)  # forget what was not there: it is now
    for name, oid in missing.items():
        if not store.move_ref(name, None, oid):
            raise StoreBusy(f"{name} appeared in the meantime", hint="gitcp init --join")


def _copy_files(source: Path, target: Path) -> None:
    """Copy what the repository does not have yet, each file as a whole: a crash leaves none that
    the next attempt would take for complete. Links are not followed.
    """
    for name in FILES:
        _copy(source / name, target / name)
    for name in DIRECTORIES:
        for folder, _, names in os.walk(source / name):
            there = target / Path(folder).relative_to(source)
            make_own_directory(there)
            for each in names:
                _copy(Path(folder, each), there / each)


def _copy(source: Path, target: Path) -> None:
    if not os.path.lexists(target) and source.is_file() and not source.is_symlink():
        replace_file(target, read_own(source))


def _set_aside(path: Path) -> Path:
    numbered = (path.with_name(f"joined-{number}.git") for number in range(2, 99))
    new = next(each for each in (path.with_name(JOINED), *numbered) if not each.exists())
    return path.rename(new)
