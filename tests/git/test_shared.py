"""A repository that several users share: what one saves, every `git gc` keeps, and all others can
go on with.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from members import GROUP, Member, meet, needs_root

from gitcp.errors import Refused
from gitcp.git import refs, shared
from gitcp.model import Oid

from driver import Project


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every user can get to; pytest's own are for its user alone."""
    with tempfile.TemporaryDirectory(prefix="gitcp-members-") as name:
        os.chmod(name, 0o755)
        yield Path(os.path.realpath(name))


def prune(member: Member) -> None:
    """What may be deleted is deleted at once: objects that no ref names, as far as this user sees
    refs.
    """
    member.run("git", "repack", "-q", "-A", "-d")
    member.run("git", "prune", "--expire=now")


def numbers(member: Member, cwd: Path | None = None) -> list[str]:
    """The checkpoints that a member sees."""
    listed = member.gitcp("log", "--all", "--json", cwd=cwd).out.splitlines()
    return sorted(json.loads(line)["id"] for line in listed)


def whole(member: Member) -> int:
    """The number of checkpoints, all of which can be read."""
    return int(json.loads(member.gitcp("check", "--json").out)["checkpoints"])


@needs_root
@pytest.mark.parametrize("umask", [0o077, 0o027, 0o022])
@pytest.mark.parametrize("setting", ["group", "all", "0660"])
def test_others_keep_it(place: Path, umask: int, setting: str) -> None:
    """Whatever the umask of who saves, the `git gc` of another member deletes no checkpoint."""
    one, two = meet(place, setting, umask)
    for number in range(3):
        one.write("file", f"{number}\n")
        one.gitcp("save", f"save {number}", "--session", "work")
    one.gitcp("tag", "kept", "work@2")

    prune(two)

    assert whole(one) == whole(two) == 3
    assert numbers(two) == ["work@1", "work@2", "work@3"]


@needs_root
def test_both_work_in_it(place: Path) -> None:
    """Both save, restore, undo and prune by turns, with umasks that let nobody else in."""
    one, two = meet(place, "group", 0o077, 0o077)
    file = one.root / "file"
    one.write("file", "first\n")
    one.gitcp("save", "--session", "work")
    two.write("file", "second\n")
    two.gitcp("save", "--session", "work")
    two.gitcp("restore", "work@1", "--yes")
    assert file.read_text() == "first\n"
    prune(one)
    two.gitcp("undo", "--yes")
    assert file.read_text() == "second\n"
    one.gitcp("restore", "work@1", "--yes")
    two.gitcp("undo", "--yes")
    assert file.read_text() == "second\n"
    two.gitcp("tag", "here")
    one.gitcp("tag", "there")
    for number in range(6):
        one.write("more", f"{number}\n")
        (one, two)[number % 2].gitcp("save", "--session", "work")
    two.gitcp("prune", "--keep-last", "2", "--yes")
    prune(one)
    one.gitcp("undo", "--yes")
    prune(two)
    one.write("file", "last\n")
    one.gitcp("save", "--session", "work")
    assert whole(one) == whole(two) >= 12


@needs_root
def test_linked_working_trees(place: Path) -> None:
    """Each in a linked working tree of its own."""
    one, two = meet(place, "group", 0o077, 0o027)
    one.write("file", "first\n")
    one.run("git", "add", "file")
    one.run("git", "commit", "-q", "-m", "first")
    trees = [place / "shared" / "trees" / name for name in ("one", "two")]
    for member, tree in zip((one, two), trees, strict=True):
        member.run("git", "worktree", "add", "-q", "-b", tree.name, str(tree))
        member.write("file", f"{tree.name}\n", cwd=tree)
        member.gitcp("save", "--session", tree.name, cwd=tree)
        member.write("file", "wrong\n", cwd=tree)
        member.gitcp("save", "--session", tree.name, cwd=tree)
        member.gitcp("restore", f"{tree.name}@1", "--yes", cwd=tree)
        assert tree.joinpath("file").read_text() == f"{tree.name}\n"
    prune(one)
    prune(two)
    assert whole(one) == whole(two) == 6
    one.gitcp("restore", "two@2", "--yes", cwd=trees[0])
    assert trees[0].joinpath("file").read_text() == "wrong\n"
    one.gitcp("undo", "--yes", cwd=trees[0])
    assert trees[0].joinpath("file").read_text() == "one\n"


@needs_root
def test_a_private_working_tree(place: Path) -> None:
    """git makes a linked working tree for its owner alone under umask 077: what its undo needs
    cannot be read by others, who drop nothing, and are not told to remove a file of its owner.
    """
    one, two = meet(place, "group", 0o077, 0o077)
    one.write("file", "first\n")
    one.run("git", "add", "file")
    one.run("git", "commit", "-q", "-m", "first")
    one.gitcp("save", "--session", "work")
    tree = place / "shared" / "trees" / "two"
    two.run("git", "worktree", "add", "-q", "-b", "two", str(tree))
    two.write("file", "other\n", cwd=tree)
    two.gitcp("restore", "work@1", "--yes", cwd=tree)
    (one.root / ".git/worktrees/two").chmod(0o700)
    before = one.run("git", "for-each-ref")

    failed = one.gitcp("delete", "work", "--yes", check=12)

    told = failed.err
    assert "cannot be read: Permission denied; nothing was dropped" in told
    assert "damaged" not in told
    assert "remove" not in told
    fix = f"chmod -R ug+rwX {one.root}/.git/worktrees/two"
    assert f"hint: sudo {fix}\n" in told
    assert one.run("git", "for-each-ref") == before

    two.run(*fix.split())
    one.gitcp("delete", "work", "--yes")
    one.gitcp("undo", "--yes")
    two.write("file", "third\n", cwd=tree)
    two.gitcp("save", "--session", "work", cwd=tree)
    two.run("chmod", "600", ".git/worktrees/two/commondir")
    safety = json.loads(one.gitcp("prune", "--keep-last", "1", "--dry-run", "--json").out)
    kept = {each["id"]: each["reason"] for each in safety["kept"]}
    assert "target of the next undo" in kept.values(), safety


@needs_root
@pytest.mark.parametrize("umask", [0o077, 0o027, 0o002])
@pytest.mark.parametrize("setting", ["group", "all", "0640", "0660", "0664"])
def test_as_git_does(place: Path, setting: str, umask: int) -> None:
    """Refs, objects and directories have the permissions that git gives its own, setgid and group
    included.
    """
    one, _ = meet(place, setting, umask)
    one.write("file", "of git\n")
    one.run("git", "add", "file")
    one.run("git", "commit", "-q", "-m", "by git")
    git = one.root / ".git"
    head = one.run("git", "rev-parse", "HEAD").strip()
    one.write("file", "of gitcp\n")
    one.gitcp("save", "--session", "work")
    one.gitcp("tag", "kept")
    tip = one.run("git", "rev-parse", "refs/gitcp/sessions/work").strip()

    def bits(path: Path) -> str:
        found = path.stat()
        return f"{stat.S_IMODE(found.st_mode):o} {found.st_gid}"

    ref, directory = bits(git / "refs/heads/main"), bits(git / "refs/heads")
    assert bits(git / "refs/gitcp/sessions/work") == bits(git / "refs/gitcp/tags/kept") == ref
    assert {bits(git / "refs/gitcp" / name) for name in ("", "sessions", "tags")} == {directory}
    assert bits(git / "objects" / tip[:2] / tip[2:]) == bits(git / "objects" / head[:2] / head[2:])
    assert bits(git / "objects" / tip[:2]) == bits(git / "objects" / head[:2])


@needs_root
def test_large_saves(place: Path) -> None:
    """Packs, their indexes and what goes loose in a stream, too."""
    one, two = meet(place, "0640", 0o077)
    for number in range(100):
        one.write(f"file{number}", f"{number}\n")
    one.write("large", "x" * (3 << 20))
    one.gitcp("save", "--session", "work")
    objects = one.root / ".git" / "objects"
    files = [path for path in objects.rglob("*") if path.is_file()]
    assert any(path.suffix == ".pack" for path in files)
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o440}
    assert {stat.S_IMODE(path.stat().st_mode) for path in objects.rglob("*") if path.is_dir()} == {
        0o2750
    }
    assert two.run("git", "fsck", "--strict", "--no-dangling") == ""


@needs_root
def test_state_of_others(place: Path) -> None:
    """Everything that gitcp keeps is the group's, and nobody else's; only caches are their owner's
    alone.
    """
    one, two = meet(place, "group", 0o077, 0o077)
    one.write("file", "first\n")
    one.gitcp("save", "--session", "work")
    one.write("file", "second\n")
    one.gitcp("restore", "work@1", "--yes")
    one.gitcp("run", "check", "--", "true")
    call = {"tool_name": "Bash", "tool_use_id": "t1", "tool_input": {"command": "make"}}
    one.gitcp("hook", "claude", "PreToolUse", input=event(one, **call))  # it may save
    one.gitcp("note", "--task", "later")
    state = one.root / ".git" / "gitcp"
    private = {"worktree-state", "unchanged", "config", "policy"}
    private |= set(os.listdir(state / "hooked"))
    found = {path.name: path.stat() for path in (state, *state.rglob("*"))}
    assert {"lock", "current", "oplog", "note", "worktree-state", "tools"} <= found.keys()
    for name, status in found.items():
        usual = 0o2770 if stat.S_ISDIR(status.st_mode) else 0o600 if name in private else 0o660
        assert (name, stat.S_IMODE(status.st_mode), status.st_gid) == (name, usual, GROUP)
    two.gitcp("hook", "claude", "PreToolUse", input=event(two, **call))
    assert all(
        f"{member.uid}-5d1c".encode() in (state / "tools").read_bytes() for member in (one, two)
    )


def event(member: Member, **fields: object) -> bytes:
    """What an agent of a member's tells a hook."""
    about = {"session_id": f"{member.uid}-5d1c-4f0a", "cwd": str(member.root)}
    return json.dumps({**about, **fields}).encode()


@needs_root
def test_purge_beside_others(place: Path) -> None:
    """A purge deletes the caches of other members, which it cannot read; what it could not look
    through otherwise, it refuses, with nothing changed.
    """
    one, two = meet(place, "group", 0o077, 0o077)
    one.write("file", "first\n")
    for member in (one, two):
        member.write("file", f"secret of {member.uid}\n")
        member.gitcp("hook", "claude", "UserPromptSubmit", input=event(member, prompt="go on"))
    hooked = one.root / ".git/gitcp/hooked"
    assert {path.stat().st_uid for path in hooked.iterdir()} == {one.uid, two.uid}

    two.gitcp("purge", "--text", f"secret of {one.uid}", "--yes")

    assert not list(hooked.iterdir())
    assert "[PURGED]" in one.run("git", "log", "-p", "--all")
    closed = one.root / ".git/gitcp/restored"
    one.run("mkdir", "-m", "700", str(closed))
    before = one.run("git", "for-each-ref", "refs/gitcp")

    failed = two.gitcp("purge", "--text", f"secret of {two.uid}", "--yes", check=1)

    assert f"cannot purge {closed}: Permission denied; no checkpoint was changed" in failed.err
    assert one.run("git", "for-each-ref", "refs/gitcp") == before


@needs_root
def test_made_before(place: Path) -> None:
    """What was made for its owner alone is named, with what to type, and repaired by its owner's
    next save.
    """
    one, two = meet(place, "group", 0o077)
    for session in ("work", "other"):
        one.write("file", f"{session}\n")
        one.gitcp("save", "--session", session)
    git = one.root / ".git"
    mine = [git / "gitcp", *git.glob("gitcp/*"), git / "refs/gitcp", *git.glob("refs/gitcp/**/*")]
    for path in mine:
        os.chmod(path, 0o700 if path.is_dir() else 0o600)

    failed = two.gitcp("save", "--session", "two", check=12)
    assert "Nothing was changed" in failed.err
    fix = f"sudo chmod -R ug+rwX {git}/"
    assert fix in failed.err
    assert fix in two.gitcp("check", check=12).err
    assert fix in one.gitcp("doctor", check=1).out
    assert "git gc" in one.gitcp("check", check=13).out

    one.gitcp("save", "again", "--session", "work")

    assert not [path for root in ("gitcp", "refs/gitcp") for path in unshared(git / root)]
    prune(two)
    assert whole(two) == 3
    two.gitcp("save", "--session", "two")
    assert "refs/gitcp" not in one.gitcp("doctor", check=None).out


def unshared(directory: Path) -> list[str]:
    """What is for its owner alone."""
    shared.learn(directory.parent if directory.name == "gitcp" else directory, "group")
    return list(shared.unshared(directory))


def test_directories_made_before(project: Project) -> None:
    """A ref is written where others can reach it: directories that were for their owner alone are
    opened to them.
    """
    common, head = project.root / ".git", Oid(project.commit())
    above = [common / "refs/gitcp", common / "refs/gitcp/sessions"]
    for path in above:
        path.mkdir(mode=0o700)
    shared.learn(common, "group")

    assert refs.update_ref(common, "refs/gitcp/sessions/work", head, None)
    assert [stat.S_IMODE(path.stat().st_mode) for path in above] == [0o2770] * 2


def test_not_readable(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where permissions cannot be changed, no ref is made that others would not see; who may not
    write is no danger.
    """
    common, head = project.root / ".git", Oid(project.commit())
    project.git("config", "core.sharedRepository", "group")
    os.umask(0o077)

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    for name in ("chmod", "fchmod"):
        monkeypatch.setattr(os, name, refuse)
    shared.learn(common, "group")
    for name in ("sessions/new", "new"):
        with pytest.raises(Refused, match="cannot be read by the other members") as raised:
            refs.update_ref(common, f"refs/gitcp/{name}", head, None)
        assert raised.value.hint.startswith("sudo chmod -R ug+rwX ")
        assert not refs.list_refs(common, refs.PREFIX)
    shared.learn(common, "0640")
    assert refs.update_ref(common, "refs/gitcp/new", head, None)


def test_a_lock_that_a_crash_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mode of our lock files says whose they are; who makes refs readable leaves it to them."""
    monkeypatch.setenv("GIT_DEFAULT_REF_FORMAT", "files")
    project = Project(tmp_path / "project")
    project.git("config", "core.sharedRepository", "group")
    project.write("a", "1\n")
    project.gitcp("save", "--session", "work", check=0)
    lock = project.git_dir / "refs/gitcp/sessions/work.lock"
    os.close(os.open(lock, os.O_WRONLY | os.O_CREAT, refs.LOCK_MODE))
    project.gitcp("save", "--session", "other", "--force", check=0)
    project.write("a", "2\n")

    project.gitcp("save", "--session", "work", check=0)

    assert not lock.exists()


@needs_root
def test_after_a_crash(place: Path) -> None:
    """What a killed process of another member left is in nobody's way."""
    one, two = meet(place, "group", 0o077)
    one.write("file", "first\n")
    one.gitcp("save", "--session", "work")
    sessions = one.root / ".git" / "refs" / "gitcp" / "sessions"
    for name, mode in (("work.lock", 0o200), ("work..gitcp.lock", 0o600)):
        sessions.joinpath(name).touch(mode)
        os.chown(sessions / name, one.uid, GROUP)
    two.write("file", "second\n")
    two.gitcp("save", "--session", "work")
    assert sorted(os.listdir(sessions)) == ["work"]


@needs_root
def test_objects_of_others(place: Path) -> None:
    """An old object of another member, which nothing names any more, is not relied upon: its age
    cannot be changed.
    """
    one, two = meet(place, "group")
    one.run("git", "config", "gc.pruneExpire", "2.weeks.ago")
    one.write("lost", "nobody names it\n")
    oid = one.run("git", "hash-object", "-w", "lost").strip()
    path = one.root / ".git" / "objects" / oid[:2] / oid[2:]
    os.utime(path, (1, 1))
    two.gitcp("save", "--session", "two")
    assert path.stat().st_mtime > 1


@pytest.mark.parametrize(
    ("setting", "granted"),
    [
        (None, 0),
        ("umask", 0),
        ("false", 0),
        ("0", 0),
        ("group", 0o660),
        ("true", 0o660),
        ("1", 0o660),
        ("all", 0o664),
        ("world", 0o664),
        ("everybody", 0o664),
        ("2", 0o664),
        ("0640", -0o640),
        ("0777", -0o666),
        ("0440", 0),
        ("nonsense", 0),
    ],
)
def test_settings(setting: str | None, granted: int) -> None:
    """Every form that git knows; what git refuses grants nothing."""
    assert shared.parse(setting) == granted


def test_not_shared(tmp_path: Path) -> None:
    """Where nothing is shared, permissions are left alone."""
    file = tmp_path / "file"
    file.touch(0o600)
    shared.learn(tmp_path, "umask")
    shared.adjust(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not list(shared.unshared(tmp_path))


class Root(Member):
    """Root, as in a container, in somebody's repository."""

    def _become(self) -> None:
        os.umask(self.umask)


@needs_root
def test_root_gives_what_it_makes(place: Path) -> None:
    """What root saves and restores in somebody's repository belongs to that user, but for caches:
    the user can go on, whatever root did before.
    """
    owner = Member(1, place / "project")
    owner.root.mkdir()
    os.chown(owner.root, owner.uid, owner.uid)
    owner.run("git", "init", "-q")
    owner.write("file", "1\n")
    owner.run("git", "add", "-A")
    owner.run("git", "commit", "-qm", "first")
    root = Root(2, owner.root)

    root.gitcp("save", "--session", "s")
    owner.run("sh", "-c", "mkdir -p sub/below; for n in $(seq 60); do echo $n > sub/below/$n; done")
    root.gitcp("save", "--session", "s")
    root.gitcp("tag", "kept", "s@2")
    root.gitcp("restore", "s@1", "--yes")
    root.gitcp("undo", "--yes")

    left = [
        path
        for path in (owner.root, *owner.root.rglob("*"))
        if path.lstat().st_uid != owner.uid and not shared._is_private(str(path))
    ]
    assert not left, left
    owner.write("file", "2\n")
    owner.gitcp("save", "--session", "s")
    owner.gitcp("restore", "s@1", "--yes")
    owner.gitcp("undo", "--yes")
    assert "another user" not in owner.gitcp("doctor", check=None).out


@needs_root
def test_what_another_user_left_is_named(place: Path) -> None:
    """Where root's files shut the owner out, the error of a save and doctor have the command that
    repairs it.
    """
    owner = Member(1, place / "project")
    owner.root.mkdir()
    os.chown(owner.root, owner.uid, owner.uid)
    owner.run("git", "init", "-q")
    owner.write("file", "1\n")
    owner.gitcp("save", "--session", "s")
    for path in (owner.root / ".git/gitcp").rglob("*"):
        os.chown(path, 0, 0)
    os.chown(owner.root / ".git/gitcp", 0, 0)
    owner.write("file", "2\n")

    done = owner.gitcp("save", "--session", "s", check=None)

    assert done.code != 0
    assert f"sudo chown -R {owner.uid} {owner.root}/.git" in done.err, done.err
    assert f"sudo chown -R {owner.uid} {owner.root}/.git" in owner.gitcp("doctor", check=None).out
