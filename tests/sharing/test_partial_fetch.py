"""`gitcp fetch --no-files`: log and show work from a part, which makes no partial clone of the
user's repository.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from talk import Talk

from driver import Project
from samples import open_store, save

BALLAST = 400_000


@pytest.fixture
def hub(project: Project) -> Path:
    """A remote with three checkpoints of a session, whose files are large and whose conversation is
    not.
    """
    path = project.root.parent / "hub.git"
    subprocess.run(["git", "init", "--quiet", "--bare", path], check=True)
    subprocess.run(["git", "-C", path, "config", "uploadpack.allowFilter", "true"], check=True)
    talk = Talk(project)
    for number in range(3):
        talk.say(f"Step {number}.", f"Did {number}.")
        project.write(f"d/{number}.bin", noise(number))
        project.write("a.txt", f"{number}\n")
        project.gitcp("save", f"step {number}", check=0)
    project.gitcp("remote", "hub", str(path), check=0)
    project.gitcp("push", check=0)
    return path


@pytest.fixture
def other(project: Project, hub: Path) -> Project:
    """A colleague's repository."""
    found = Project(project.root.parent / "other")
    found.gitcp("remote", "hub", str(hub), check=0)
    return found


def noise(seed: int) -> bytes:
    """Bytes that do not compress."""
    import random

    return random.Random(seed).randbytes(BALLAST)


def everything(directory: Path) -> dict[str, bytes]:
    """What is in a git directory, without what gitcp keeps there."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.relative_to(directory).parts[0] != "gitcp"
    }


def taken(project: Project) -> int:
    """The bytes of the objects that a part consists of."""
    return sum(path.stat().st_size for path in (project.git_dir / "gitcp/aside").rglob("*.pack"))


def test_look(other: Project) -> None:
    """Listing, showing and the conversation work; nothing of the user's repository changes, its
    config neither.
    """
    before = everything(other.git_dir)

    fetched = other.gitcp("fetch", "--no-files", check=0).out

    assert "fetched hub/e7baae82  (3 new checkpoints, without their files)" in fetched
    assert "gitcp fetch hub e7baae82" in fetched
    assert everything(other.git_dir) == before
    assert taken(other) < BALLAST / 10
    assert [
        line.split()[0]
        for line in other.gitcp("log", "--oneline", "hub/e7baae82", check=0).out.splitlines()
    ] == [
        "e7baae82@3",
        "e7baae82@2",
        "e7baae82@1",
    ]
    assert "Did 2." in other.gitcp("show", "hub/e7baae82", check=0).out
    assert "d/1.bin" in other.gitcp("show", "hub/e7baae82@2", check=0).out
    assert "Did 0." in other.gitcp("show", "hub/e7baae82@1", "--conversation", check=0).out
    assert other.json("show", "hub/e7baae82@2")["files"]["total"] == 3
    assert len(other.json_lines("log", "hub/e7baae82@1..hub/e7baae82")) == 2
    assert taken(other) < BALLAST / 10
    assert everything(other.git_dir) == before
    other.git("fsck", "--strict")


def test_one_file(other: Project) -> None:
    """A file that is asked for is fetched alone."""
    other.gitcp("fetch", "--no-files", check=0)

    assert other.gitcp("show", "hub/e7baae82@2:a.txt", check=0).out == "1\n"
    assert taken(other) < BALLAST / 10
    assert "a.txt" in other.gitcp("log", "--stat", "hub/e7baae82", check=0).out


def test_all_of_it(other: Project) -> None:
    """Who wants to go on is told what to type; then it is whole, in the user's repository, and the
    part is gone.
    """
    other.gitcp("fetch", "--no-files", check=0)

    for command in (
        ("restore", "hub/e7baae82", "--yes"),
        ("fork", "hub/e7baae82"),
        ("diff", "hub/e7baae82@1"),
    ):
        assert "gitcp fetch hub e7baae82" in other.gitcp(*command, check=16).err
    assert other.files() == {}
    other.gitcp("fetch", "hub", "e7baae82", check=0)
    assert not (other.git_dir / "gitcp/aside/hub").exists()
    other.gitcp("restore", "hub/e7baae82", "--trust", "--yes", check=0)
    assert other.read("d/2.bin") == noise(2)
    other.gitcp("check", check=0)


def test_again(project: Project, other: Project) -> None:
    """The next one gets what is new, and what is in the user's repository is not fetched at all."""
    other.gitcp("fetch", "--no-files", check=0)
    before = taken(other)
    project.write("d/9.bin", noise(9))
    project.gitcp("save", "step 9", check=0)
    project.gitcp("push", check=0)

    assert (
        "(1 new checkpoint, without their files)" in other.gitcp("fetch", "--no-files", check=0).out
    )
    assert taken(other) - before < BALLAST / 20
    assert "step 9" in other.gitcp("show", "hub/e7baae82@4", check=0).out

    project.gitcp("fetch", "--no-files", check=0)
    assert taken(project) < 2000


def test_no_filter(hub: Path, other: Project) -> None:
    """From a server that knows no filter everything comes, and the user's repository still has
    nothing of it.
    """
    subprocess.run(["git", "-C", hub, "config", "uploadpack.allowFilter", "false"], check=True)
    before = everything(other.git_dir)

    other.gitcp("fetch", "--no-files", check=0)

    assert taken(other) > 3 * BALLAST
    assert "Did 2." in other.gitcp("show", "hub/e7baae82", check=0).out
    assert everything(other.git_dir) == before


def test_remote_is_gone(hub: Path, other: Project) -> None:
    """What was fetched is shown without the remote; what was not is an error that says so."""
    other.gitcp("fetch", "--no-files", check=0)
    hub.rename(hub.with_name("moved.git"))

    assert "Did 2." in other.gitcp("show", "hub/e7baae82", check=0).out
    refused = other.gitcp("show", "hub/e7baae82@2:a.txt", check=13)
    assert "is missing and cannot be fetched" in refused.err
    assert "Traceback" not in refused.err
    assert "Traceback" not in other.gitcp("fetch", "--no-files", check=1).err


def test_bad_session(project: Project, hub: Path, other: Project) -> None:
    """What does not pass the checks is refused in part as it is whole, and keeps nothing else
    back.
    """
    store = open_store(project)
    made = save(store, "beta", {b"a": b"1"})
    project.git("update-ref", "refs/gitcp/sessions/gamma", made.commit)
    project.git("push", "--quiet", str(hub), "refs/gitcp/*:refs/gitcp/*")

    out = other.gitcp("fetch", "--no-files", check=3).out

    assert "refused hub/gamma: remote session gamma contains beta@1" in out
    assert "fetched hub/beta" in out
    other.gitcp("show", "hub/gamma", check=16)


def test_settings_are_lent(hub: Path, other: Project) -> None:
    """The user's own settings hold there too: how a URL is rewritten, say."""
    other.git("config", f"url.{hub}.insteadOf", "hub://it")
    other.git("config", "remote.hub.url", "hub://it")

    other.gitcp("fetch", "--no-files", check=0)
    assert "step 2" in other.gitcp("log", "hub/e7baae82", check=0).out


def test_killed_while_it_was_made(other: Project) -> None:
    """A place that was made half is made again."""
    left = other.git_dir / "gitcp/aside/hub..1"
    left.mkdir(parents=True)
    (left / "config").write_text("[core]\n")

    other.gitcp("fetch", "--no-files", check=0)
    assert taken(other) < BALLAST / 10


def test_purged(other: Project) -> None:
    """A purge lets go of what was fetched in part: the text could stand there."""
    other.gitcp("fetch", "--no-files", check=0)
    other.write("a.txt", "some words\n")
    other.gitcp("save", "--session", "mine", check=0)

    other.gitcp("purge", "--text", "some words", "--yes", check=0)

    assert not (other.git_dir / "gitcp/aside").exists()
    assert "gitcp fetch" in other.gitcp("show", "hub/e7baae82", check=16).err


def test_json(other: Project) -> None:
    """Programs are told that the files are not there; both options at once are refused."""
    (said,) = other.json_lines("fetch", "--no-files")
    assert (said["schema"], said["session"], said["files"]) == (
        "gitcp.fetched/1",
        "e7baae82",
        False,
    )
    (said,) = other.json_lines("fetch")
    assert said["files"] is True
    other.gitcp("fetch", "--no-files", "--list", check=2)
