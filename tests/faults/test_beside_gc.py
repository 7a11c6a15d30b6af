"""git looks at one directory of refs after the other. A ref that moves from one to the other
meanwhile, as into the trash, may be in neither when git looks; what it names must be there
nevertheless once git's `gc` is done.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from kinds import in_files
from pruned import holdings, in_trash

from gitcp.git.gathering import MANY, Gathering
from gitcp.integrations.fast_store import FastStore
from gitcp.lifecycle import delete, prune, purge, rename
from gitcp.lifecycle.check import check
from gitcp.lifecycle.prune import PruneRequest
from gitcp.model import Checkpoint
from gitcp.retention import Policy
from gitcp.state import oplog, rewrite, trash
from gitcp.store import Store

from driver import Project
from samples import open_store, save

MONTH, WEEK = (timedelta(days=days).total_seconds() for days in (30, 7))
CRUFT = ("true", "false")
"""What `gc` makes of what nothing names but is young: a pack of its own as from git 2.41 on, or
loose objects.
"""


def age(project: Project, seconds: float = MONTH) -> None:
    """All objects are so old."""
    then = time.time() - seconds
    for directory, _, files in os.walk(project.git_dir / "objects"):
        for name in files:
            os.utime(os.path.join(directory, name), (then, then))


@contextmanager
def unseen(project: Project) -> Iterator[None]:
    """No ref of gitcp's is there: all moved at the wrong moment."""
    place, aside = (project.git_dir / name for name in ("refs/gitcp", "aside"))
    place.rename(aside)
    try:
        yield
    finally:
        aside.rename(place)


def tidy(project: Project, cruft: str) -> None:
    """git's housekeeping as it runs by itself."""
    settings = "-c", f"gc.cruftPacks={cruft}", "-c", "gc.writeCommitGraph=false"
    project.git(*settings, "gc", "--quiet", "--prune=2.weeks.ago")


def pruned(store: Store) -> None:
    prune.prune(store, PruneRequest(Policy(last=1)))


def deleted(store: Store) -> None:
    delete.delete(store, "alpha")


def renamed(store: Store) -> None:
    rename.rename(store, "alpha", "omega")


def brought_back(store: Store) -> None:
    trash.bring_back(store, oplog.entries(store.repo)[-1])


def finished(store: Store) -> None:
    """A prune that was cut off before the first ref moved, a month ago, is brought to its end."""
    with store.lock():
        assert rewrite.finish(store)


def cut_off(store: Store) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewrite, "_move_all", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            pruned(store)


def nothing(_: Store) -> None:
    pass


@in_files  # git reads all of reftable at once
@pytest.mark.parametrize("cruft", CRUFT)
@pytest.mark.parametrize("packed", [False, True], ids=["loose", "packed"])
@pytest.mark.parametrize(
    ("before", "move"),
    [
        (nothing, pruned),
        (nothing, deleted),
        (nothing, renamed),
        (pruned, brought_back),
        (deleted, brought_back),
        (cut_off, finished),
    ],
)
def test_refs_that_move_while_git_looks(
    project: Project,
    before: Callable[[Store], None],
    move: Callable[[Store], None],
    *,
    packed: bool,
    cruft: str,
) -> None:
    """Whatever moves the refs, and however the old objects lie: every checkpoint is there, in its
    session or the trash.
    """
    store = open_store(project)
    for _ in range(4):
        save(store, "alpha")
    before(store)
    if packed:
        tidy(project, cruft)
    age(project)
    known = {**in_trash(project), **holdings(project)}

    move(open_store(project))
    with unseen(project):
        tidy(project, cruft)

    now = {**in_trash(project), **holdings(project)}
    assert len(now) == len(known)
    assert check(open_store(project)).ok
    assert project.git("fsck", "--strict", "--no-dangling", "--no-progress") == ""


@pytest.mark.parametrize("cruft", CRUFT)
def test_what_nobody_names_is_stored_again(project: Project, cruft: str) -> None:
    """An object that is found stored, among what git is about to let go, is as young afterwards as
    a new one.
    """
    blob = project.git("hash-object", "-w", "--stdin", input=b"nobody's\n")
    age(project, WEEK)
    tidy(project, cruft)
    assert bool(list(project.git_dir.glob("objects/pack/*.mtimes"))) == (cruft == "true")

    objects = open_store(project).objects
    assert objects.writer.write("blob", b"nobody's\n") == blob
    objects.writer.flush()
    project.git("-c", f"gc.cruftPacks={cruft}", "gc", "--quiet", "--prune=6.days.ago")

    assert project.git("cat-file", "blob", blob) == "nobody's"


def test_who_lives_long_looks_again(project: Project) -> None:
    """What a process found stored a month ago may be about to go now: it is found, and touched,
    once more.
    """
    blob = project.git("hash-object", "-w", "--stdin", input=b"nobody's\n")
    names = f"{blob}\n".encode()
    project.git("pack-objects", "--quiet", str(project.git_dir / "objects/pack/pack"), input=names)
    project.git("prune-packed")
    objects = open_store(project).objects
    for _ in range(2):
        age(project)
        objects.writer.write("blob", b"nobody's\n")
        objects.writer.flush()

    tidy(project, "false")

    assert project.git("cat-file", "blob", blob) == "nobody's"


def repacked(project: Project) -> None:
    """What many run by hand or by night: all packs become one, and what no ref reaches is left
    out.
    """
    project.git("repack", "-a", "-d", "-q")


def test_a_pack_that_no_ref_names_yet(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large save writes a pack, then moves the ref. A repack in between leaves that pack
    alone.
    """
    project.write("mine.txt", "mine\n")
    project.commit()
    advance = Store.advance

    def late(store: Store, checkpoint: Checkpoint) -> None:
        repacked(project)
        advance(store, checkpoint)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "advance", late)
        for number in range(2):
            save(
                open_store(project),
                "alpha",
                {b"file%d" % n: b"%d of %d\n" % (n, number) for n in range(70)},
            )

    assert check(open_store(project)).ok
    assert not list(project.git_dir.glob("objects/pack/*.keep"))
    repacked(project)
    assert len(list(project.git_dir.glob("objects/pack/*.pack"))) == 1


def test_a_small_pack_that_no_ref_names_yet(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who saves at every step writes a pack each time, and puts sixteen of them together."""
    project.write("mine.txt", "mine\n")
    project.commit()
    store = FastStore(open_store(project).repo, Gathering())
    advance = Store.advance

    def late(store: Store, checkpoint: Checkpoint) -> None:
        if checkpoint.id.number % 5 == 1:  # the sixteenth pack too
            repacked(project)
        advance(store, checkpoint)

    monkeypatch.setattr(Store, "advance", late)
    for number in range(2 * MANY):
        save(store, "alpha", {b"a.txt": b"%d\n" % number})

    assert check(open_store(project)).ok
    assert not list(project.git_dir.glob("objects/pack/*.keep"))


def test_chains_that_no_ref_names_yet(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A purge writes every checkpoint anew before the refs move."""
    store = open_store(project)
    for number in range(40):
        save(store, "alpha", {b"a.txt": b"%d and a secret\n" % number})
    carry_out = rewrite.carry_out

    def late(
        store: Store, wanted: Iterable[rewrite.RefMove], operation: oplog.Operation
    ) -> oplog.Operation:
        repacked(project)
        return carry_out(store, wanted, operation)

    monkeypatch.setattr(rewrite, "carry_out", late)
    purge.purge(open_store(project), purge.of_text(b"a secret"))

    assert (
        b"a secret"
        not in project.git("cat-file", "blob", "refs/gitcp/sessions/alpha:a.txt").encode()
    )
    assert check(open_store(project)).ok
    assert not list(project.git_dir.glob("objects/pack/*.keep"))
