"""Housekeeping puts loose objects and small packs of gitcp's together, loses nothing, leaves what
is others' alone.
"""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from kinds import FORMAT
from pruned import holdings, story

from gitcp.errors import GitFailed
from gitcp.git import repack
from gitcp.git.loose import write_loose
from gitcp.git.packs import PackWriter
from gitcp.git.writer import MOST_LOOSE
from gitcp.lifecycle.check import check
from gitcp.model import CheckpointId, Oid

from driver import Project
from samples import open_store, save

DEADLINE = 60


def loose(project: Project) -> set[str]:
    """The names of all loose objects."""
    return {f"{p.parent.name}{p.name}" for p in (project.git_dir / "objects").glob("??/*")}


def stored(project: Project, name: str) -> bytes:
    """The file of a loose object."""
    return (project.git_dir / "objects" / name[:2] / name[2:]).read_bytes()


def ours(project: Project) -> set[str]:
    """The names of the loose objects that checkpoints reach."""
    return loose(project) & set(
        project.git("rev-list", "--objects", "--no-object-names", "--glob=refs/gitcp/*").split()
    )


def packs(project: Project) -> dict[str, bytes]:
    """Every file of a pack."""
    return {path.name: path.read_bytes() for path in (project.git_dir / "objects/pack").iterdir()}


def sound(project: Project, before: dict[CheckpointId, Oid]) -> None:
    """Every checkpoint is as it was, and `check` finds nothing."""
    assert holdings(project) == before
    report = check(open_store(project))
    assert not report.problems


def probed(count: int) -> list[bytes]:
    """So many contents whose blobs lie in the directory by which git judges."""
    found: list[bytes] = []
    number = 0
    while len(found) < count:
        data = b"%d\n" % number
        if FORMAT.oid_of("blob", data).startswith(repack.PROBED):
            found.append(data)
        number += 1
    return found


def test_loose_objects_of_checkpoints_are_packed_and_no_others(project: Project) -> None:
    """What only a commit or nobody reaches stays loose, to the byte."""
    project.write("mine.txt", "mine\n")
    project.commit()
    orphan = project.git("hash-object", "-w", "--stdin", input=b"nobody's\n")
    story(project)
    before, packed = holdings(project), set(packs(project))
    others = {name: stored(project, name) for name in loose(project) - ours(project)}
    assert ours(project)

    with project.guard():
        repack.repack(open_store(project).repo)

    assert {name: stored(project, name) for name in loose(project)} == others
    assert {orphan, project.git("rev-parse", "HEAD:mine.txt")} <= others.keys()
    assert len([name for name in set(packs(project)) - packed if name.endswith(".pack")]) == 1
    sound(project, before)


def test_what_is_packed_is_not_packed_again(project: Project) -> None:
    """Of a large tree with one new file that file goes into the new pack, and the trees on the way
    to it.
    """
    for number in range(100):
        project.write(f"dir/{number}", f"{number}\n")
    project.commit()
    project.git("repack", "-adq")
    project.gitcp("save", check=0)
    project.write("new", "new\n")
    project.gitcp("save", check=0)
    fresh, packed = ours(project), set(packs(project))
    assert 0 < len(fresh) <= 2 * MOST_LOOSE

    repack.repack(open_store(project).repo)

    (index,) = (name for name in set(packs(project)) - packed if name.endswith(".idx"))
    with (project.git_dir / "objects/pack" / index).open("rb") as file:
        listed = subprocess.run(
            ["git", "show-index", f"--object-format={FORMAT.name}"],
            stdin=file,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    assert {line.split()[1] for line in listed.splitlines()} == fresh


def test_small_packs_become_one(project: Project) -> None:
    """Of ours alone: one of git's, and one that is to be kept, stay."""
    project.write("mine.txt", "mine\n")
    project.commit()
    project.git("repack", "-adq")
    theirs = packs(project)
    for number in range(repack.PACKS + 1):
        save(
            open_store(project),
            "alpha",
            {b"file%d" % n: b"%d of %d\n" % (n, number) for n in range(70)},
        )
    notes = project.git_dir / "gitcp/packs"
    kept = min(notes.glob("*.pack")).with_suffix(".keep").name
    project.write(project.git_dir / f"objects/pack/{kept}", "")
    before = holdings(project)
    assert repack.is_due(open_store(project).repo)

    with project.guard():
        repack.repack(open_store(project).repo)

    after = packs(project)
    assert theirs.items() <= after.items()
    assert len([name for name in after if name.endswith(".pack")]) == 3
    assert {name.removesuffix(".idx") for name in after if name.endswith(".idx")} >= {
        kept.removesuffix(".keep")
    }
    assert not repack.is_due(open_store(project).repo)
    sound(project, before)


def test_a_damaged_store_is_kept_in_order_too(project: Project) -> None:
    """Where an old commit cannot be read, packs are put together nevertheless."""
    for _ in range(2):
        save(open_store(project), "beta")
    old = project.git("rev-parse", "refs/gitcp/sessions/beta~1")
    (project.git_dir / "objects" / old[:2] / old[2:]).unlink()
    for number in range(repack.PACKS):
        save(
            open_store(project),
            "alpha",
            {b"file%d" % n: b"%d of %d\n" % (n, number) for n in range(MOST_LOOSE)},
        )
    repo = open_store(project).repo
    assert repack.is_due(repo)

    with suppress(GitFailed):  # newer versions of git list what they can read
        repack.repack(repo)

    assert not repack.is_due(repo)
    project.git("cat-file", "-e", "refs/gitcp/sessions/alpha~3:file3")


def test_it_is_due_once(project: Project) -> None:
    """What stays loose because it is others' does not call for the next time."""
    repo = open_store(project).repo
    contents = probed(2 * repack.LOOSE)
    assert not repack.is_due(repo)
    for data in contents[: repack.LOOSE]:
        project.git("hash-object", "-w", "--stdin", input=data)
    assert repack.is_due(repo)
    repack.repack(repo)
    assert not repack.is_due(repo)
    for data in contents[repack.LOOSE :]:
        project.git("hash-object", "-w", "--stdin", input=data)
    assert repack.is_due(repo)


def test_a_save_begins_it_and_does_not_wait(project: Project) -> None:
    """It runs in the background, and what was saved is there all the time."""
    for number, data in enumerate(probed(repack.LOOSE)):
        project.write(f"file{number}", data)
    project.gitcp("save", "one", check=0)
    (commit,) = open_store(project).sessions().values()
    deadline = time.monotonic() + DEADLINE
    while ours(project):
        assert time.monotonic() < deadline
        assert project.git("cat-file", "-t", commit) == "commit"
        time.sleep(0.05)
    project.gitcp("check", check=0)
    assert project.git("fsck", "--strict", "--no-dangling", "--no-progress") == ""


def test_two_at_once(project: Project) -> None:
    """The second leaves it to the first."""
    story(project)
    repo = open_store(project).repo
    before = ours(project)
    with repack.alone(repo) as alone:
        assert alone
        repack.repack(repo)
        assert ours(project) == before
    repack.repack(repo)
    assert before
    assert not ours(project)


def test_a_damaged_object_ends_it(project: Project) -> None:
    """Nothing goes, and the next save does not try again at once."""
    for data in probed(repack.LOOSE):
        save(open_store(project), "alpha", {b"a": data})
    repo = open_store(project).repo
    broken = next(name for name in sorted(loose(project)) if name.startswith(repack.PROBED))
    path = project.git_dir / "objects" / broken[:2] / broken[2:]
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-4])
    before = loose(project)
    assert repack.is_due(repo)
    with pytest.raises(GitFailed):
        repack.repack(repo)
    assert loose(project) >= before
    assert not repack.is_due(repo)


def test_cut_off_at_every_removal(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it is killed, everything is there, and the next time goes on."""
    for number in range(repack.PACKS):
        save(
            open_store(project),
            "alpha",
            {b"file%d" % n: b"%d of %d\n" % (n, number) for n in range(70)},
        )
    story(project)
    before = holdings(project)
    unlink = Path.unlink
    left = [0]

    def cut(path: Path, missing_ok: bool = False) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        unlink(path, missing_ok)

    ended = False
    for number in range(0, 500, 7):
        left[0] = number
        with monkeypatch.context() as patched:
            patched.setattr(Path, "unlink", cut)
            try:
                repack.repack(open_store(project).repo)
                ended = True
            except KeyboardInterrupt:
                pass
        assert holdings(project) == before
        if ended:
            break
    assert ended
    sound(project, before)
    for path in (project.git_dir / "objects").glob("??/*"):
        os.utime(path, (0, 0))
    repack.repack(open_store(project).repo)
    sound(project, before)
    assert not ours(project)


def test_a_copy_that_was_touched_stays(project: Project) -> None:
    """git may be about to let go of an old pack, and somebody of naming what it holds."""
    save(open_store(project), "alpha", {b"file%d" % n: b"%d\n" % n for n in range(70)})
    blob = project.git("rev-parse", "refs/gitcp/sessions/alpha:file7")
    again = project.git_dir / "objects" / blob[:2] / blob[2:]
    again.parent.mkdir(exist_ok=True)
    write_loose(again, "blob", b"7\n")

    repack.repack(open_store(project).repo)

    assert again.exists()


def test_a_pack_that_a_crash_left_held(project: Project) -> None:
    """It is held no longer an hour later; one that somebody is writing, or that the user keeps,
    stays as it is.
    """
    objects = open_store(project).objects
    for place in range(3):
        for number in range(MOST_LOOSE + 1):
            objects.writer.write("blob", b"%d of %d\n" % (number, place))
        objects.writer.flush(keep=True)
    young, old, theirs = sorted(project.git_dir.glob("objects/pack/*.keep"))
    theirs.chmod(0o600)
    theirs.write_text("mine\n")
    for keep in (old, theirs):
        os.utime(keep, (0, 0))

    repack.repack(open_store(project).repo)

    assert sorted(project.git_dir.glob("objects/pack/*.keep")) == sorted((young, theirs))
    objects.writer.discard()
    assert list(project.git_dir.glob("objects/pack/*.keep")) == [theirs]


def test_a_pack_that_is_gone_is_forgotten(project: Project) -> None:
    """git's own repack took it away: its note goes, and nothing else happens."""
    save(open_store(project), "alpha", {b"file%d" % n: b"%d\n" % n for n in range(70)})
    repo = open_store(project).repo
    for number in range(repack.PACKS):
        writer = PackWriter(project.git_dir / "objects/pack", FORMAT)
        data = b"%d\n" % number
        writer.add(bytes.fromhex(FORMAT.oid_of("blob", data)), "blob", data)
        pack = writer.close()
        repack.note(repo, pack)
        for path in (pack, pack.with_suffix(".idx")):
            os.unlink(path)
    before = packs(project)
    assert repack.is_due(repo)
    repack.repack(repo)
    assert not repack.is_due(repo)
    assert packs(project) == before


@pytest.mark.parametrize("setting", ["pack.indexVersion=1", "pack.packSizeLimit=1m"])
def test_whatever_git_is_told_about_packs(project: Project, setting: str) -> None:
    """A form of index that gitcp does not read, packs that are to stay small: nothing is lost, and
    little is left.
    """
    project.git("config", *setting.split("="))
    for number in range(repack.PACKS + 1):
        save(
            open_store(project), "alpha", {b"file": os.urandom(100_000), b"again": b"%d\n" % number}
        )
        before = holdings(project)
        repack.repack(open_store(project).repo)
        sound(project, before)
    assert len(list((project.git_dir / "objects/pack").glob("*.pack"))) < repack.PACKS
    assert project.git("fsck", "--strict", "--no-dangling", "--no-progress") == ""


@pytest.mark.parametrize("bitmap", [(), ("--bitmap",)], ids=["plain", "bitmap"])
def test_packs_in_an_index_of_many_are_left_to_git(
    project: Project, bitmap: tuple[str, ...]
) -> None:
    """What `git maintenance` finds objects by still holds afterwards, and a fetch from here is
    answered.
    """
    for number in range(repack.PACKS + 1):
        save(
            open_store(project),
            "alpha",
            {b"file%d" % n: b"%d of %d\n" % (n, number) for n in range(70)},
        )
    project.git("multi-pack-index", "write", *bitmap)
    before = holdings(project)
    assert repack.is_due(open_store(project).repo)

    repack.repack(open_store(project).repo)

    project.git("multi-pack-index", "verify")
    assert project.git("fsck", "--strict", "--no-dangling", "--no-progress") == ""
    assert project.git("rev-list", "--objects", "--use-bitmap-index", "--count", "--all")
    assert not repack.is_due(open_store(project).repo)
    sound(project, before)
