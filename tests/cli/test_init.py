"""`gitcp init`: a store of its own where there is no git, and the way into a repository later."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gitcp.git import shared

from driver import OWN, Project


class Directory(Project):
    """A directory without git, and without a store yet."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root, self.git_dir, self.where = root, root / OWN, ()

    def store_git(self, *args: str) -> str:
        """Run plain git on the store."""
        return self.git(f"--git-dir={self.git_dir}", *args)


def _skipped(directory: Directory) -> list[object]:
    directory.write("new", "1\n")
    skipped: list[object] = directory.json("save")["checkpoint"]["files"]["skipped"]
    return skipped


def _typed(directory: Directory, command: str) -> None:
    subprocess.run(command, shell=True, cwd=directory.root / "sub", check=True, capture_output=True)


@pytest.fixture
def directory(tmp_path: Path, sealed: Path) -> Directory:
    return Directory(tmp_path / "notes")


def test_a_store_that_lost_its_empty_directories(directory: Directory) -> None:
    """A synchronizer or an archive leaves out empty directories: git knows no repository without
    `refs`, which is empty once all refs are packed.
    """
    directory.write("a", "one\n")
    directory.gitcp("init", check=0)
    directory.gitcp("save", "first", check=0)
    directory.store_git("pack-refs", "--all")
    for _ in range(4):
        for path, below, files in os.walk(directory.git_dir, topdown=False):
            if not below and not files:
                os.rmdir(path)
    assert not directory.git_dir.joinpath("refs").exists()
    directory.write("a", "two\n")

    assert "no unsaved changes" not in directory.gitcp("status", check=0).out
    saved = directory.gitcp("save", "second", check=0)
    assert saved.err == ""
    assert directory.gitcp("log", "--oneline", check=0).out.count("\n") == 2
    directory.gitcp("check", check=0)
    directory.gitcp("restore", "1", "--yes", check=0)
    assert directory.read("a") == b"one\n"


def test_a_directory_without_git_says_how_to_begin(directory: Directory) -> None:
    """The hint names both ways, and nothing is written."""
    done = directory.gitcp("save", check=10)
    assert done.err.splitlines()[-1] == "hint: git init"
    assert os.listdir(directory.root) == []


def test_every_step_of_a_life_without_git(directory: Directory) -> None:
    """Save, look, restore, undo and check, byte for byte."""
    directory.write("a", "one\n")
    directory.write("sub/b", "two\n")
    store = directory.root / ".gitcp" / "store.git"
    assert directory.gitcp("init", check=0).out.splitlines()[0] == f"created {store}"
    assert sorted(os.listdir(directory.root)) == [".gitcp", "a", "sub"]
    first = directory.files()

    saved = json.loads(directory.gitcp("save", "one", "--json", check=0).out)
    assert saved["checkpoint"]["files"]["skipped"] == []
    directory.write("a", "changed\n")
    directory.remove("sub/b")
    second = directory.files()
    directory.gitcp("save", "two", cwd=directory.root / "sub", check=0)
    assert "no unsaved changes" in directory.gitcp("status", check=0).out

    directory.gitcp("restore", "1", "--yes", check=0)
    assert directory.files() == first
    directory.gitcp("undo", "--yes", check=0)
    assert directory.files() == second
    assert "two" in directory.gitcp("log", check=0).out
    assert directory.gitcp("check", check=0).out.startswith("OK")
    directory.store_git("fsck", "--strict")


def test_git_takes_no_notice_of_it(directory: Directory) -> None:
    """Neither before nor after `git init`."""
    directory.write("a", "one\n")
    directory.gitcp("init", check=0)
    directory.gitcp("save", check=0)
    outside = directory.git("rev-parse", "--git-dir", check=False)
    assert outside == ""
    directory.git("init", "--quiet")
    assert directory.git("status", "--porcelain", "--untracked-files=all") == "?? a"


def test_hints_name_the_store(directory: Directory) -> None:
    """Commands that gitcp prints work as they are typed, in a directory below too."""
    directory.gitcp("init", check=0)
    directory.write("sub/a", "old secret\n")
    directory.gitcp("save", "one", "--session", "s", check=0)
    purged = directory.gitcp("purge", "--text", "old secret", "--yes", check=0).out
    (typed,) = (line.partition(" now: ")[2] for line in purged.splitlines() if " now: " in line)
    _typed(directory, typed)

    directory.write("sub/a", "")
    os.truncate(directory.root / "sub/a", 60 << 20)
    refused = directory.gitcp("save", "--session", "s", "--position", "record=1", check=12).err
    _typed(directory, refused[refused.index("echo ") :].splitlines()[0])
    directory.gitcp("save", "--session", "s", "--position", "record=1", check=0)
    assert directory.gitcp("check", check=0).out.startswith("OK")


def test_it_is_made_once(directory: Directory) -> None:
    """A second `init` changes nothing."""
    directory.gitcp("init", check=0)
    directory.write("a", "one\n")
    directory.gitcp("save", check=0)
    again = json.loads(directory.gitcp("init", "--json", check=0).out)
    assert again["created"] is False
    assert "1" in directory.gitcp("log", "--oneline", check=0).out


def test_in_a_repository_there_is_nothing_to_do(project: Project) -> None:
    """gitcp saves into the repository around."""
    project.write("sub/a", "one\n")
    output = project.gitcp("init", cwd=project.root / "sub", check=0).out
    assert output == f"nothing to do: gitcp saves into the git repository at {project.root}\n"
    assert sorted(os.listdir(project.root)) == [".git", "sub"]


def test_a_repository_comes_before_a_store_that_was_checked_out_with_it(project: Project) -> None:
    """A stranger's commit can bring a `.gitcp/store.git`, whose settings must not count."""
    inner = Directory(project.root / "sub")
    other = Directory(project.root.parent / "other")
    other.write("x", "1\n")
    other.gitcp("init", check=0)
    other.gitcp("save", check=0)
    other.root.joinpath(".gitcp").rename(inner.root / ".gitcp")
    saved = json.loads(inner.gitcp("save", "--json", check=0).out)
    assert project.git("rev-parse", f"refs/gitcp/sessions/{saved['checkpoint']['session']}")


def test_a_link_is_no_store(directory: Directory) -> None:
    """A link to somebody else's store is not followed."""
    other = Directory(directory.root.parent / "other")
    other.gitcp("init", check=0)
    directory.symlink(".gitcp", os.fsencode(other.root / ".gitcp"))
    directory.gitcp("save", check=10)


def test_home_and_root_are_refused(sealed: Path) -> None:
    """As they are with git."""
    home = Directory(sealed)
    for where in (sealed, Path("/")):
        done = home.gitcp("init", cwd=where, check=12)
        assert "gitcp does not save that, nothing was changed" in done.err
    assert not sealed.joinpath(".gitcp").exists()


def test_below_a_home_that_is_a_repository(sealed: Path) -> None:
    """Dotfiles in git must not keep the directories below from having a store."""
    Project(sealed)
    notes = Directory(sealed / "notes")
    notes.write("a", "one\n")
    notes.gitcp("init", check=0)
    notes.gitcp("save", "one", check=0)
    assert "one" in notes.gitcp("log", check=0).out


def test_a_directory_that_cannot_be_written(directory: Directory) -> None:
    """The message names the store, without a traceback."""
    if os.geteuid() == 0:
        directory.write(".gitcp", "a file\n")
    else:
        directory.root.chmod(0o500)
    done = directory.gitcp("init", check=1)
    assert "cannot be created" in done.err
    assert "Traceback" not in done.err


def test_a_kill_leaves_no_half_store(directory: Directory) -> None:
    """An unfinished store has another name."""
    program = (
        "import os, sys; from gitcp.git import own_store; "
        "own_store.SETTINGS = property(); "
        "own_store._init.__globals__['SETTINGS'] = iter(lambda: os.kill(os.getpid(), 9), 0); "
        "from gitcp.__main__ import main; sys.argv[1:] = ['init']; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=directory.root)
    assert done.returncode == -9
    directory.gitcp("save", check=10)
    directory.gitcp("init", check=0)
    directory.gitcp("save", check=0)


def test_the_directory_is_the_main_worktree(directory: Directory) -> None:
    """Named as such, also in a linked one."""
    directory.write("a", "one\n")
    directory.gitcp("init", check=0)
    directory.store_git(f"--work-tree={directory.root}", "add", "a")
    directory.store_git("commit", "--quiet", "--message", "one")
    directory.gitcp("save", "one", "--session", "work", check=0)
    main = directory.json_lines("sessions", "--worktrees")[0]
    assert main["path"] == str(directory.root)
    assert "worktree:" not in directory.gitcp("log", "--graph", "--all", check=0).out

    linked = directory.root.parent / "linked"
    directory.gitcp("fork", "1", "--worktree", str(linked), "--name", "side", check=0)
    assert linked.joinpath("a").read_text() == "one\n"
    directory.gitcp("save", "two", "--force", cwd=linked, check=0)
    there = directory.gitcp("log", "--graph", "--all", cwd=linked, check=0).out
    assert "work@1 (worktree: ../notes) one" in there


def test_nothing_changed_is_answered_at_once(directory: Directory) -> None:
    """Without loading the command line, as with git."""
    directory.write("a", "one\n")
    directory.gitcp("init", check=0)
    directory.gitcp("save", "--session", "work", check=0)
    for _ in range(5):
        time.sleep(0.05)
        directory.gitcp("save", check=0)
    assert directory.git_dir.joinpath("gitcp/unchanged").exists()
    directory.write("a", "two\n")
    assert directory.gitcp("save", check=0).out.startswith("saved work@2")


# ---------------------------------------------------------------- join


def test_the_history_moves_into_the_repository(directory: Directory) -> None:
    """Checkpoints, tags and undo are what they were."""
    directory.write("a", "one\n")
    directory.gitcp("init", check=0)
    directory.gitcp("save", "one", check=0)
    directory.gitcp("tag", "good", check=0)
    first = directory.files()
    directory.write("a", "two\n")
    directory.gitcp("save", "two", check=0)
    directory.gitcp("restore", "1", "--yes", check=0)
    before = directory.gitcp("log", "--all", "--json", check=0).out

    directory.git("init", "--quiet", "--initial-branch=main")
    assert "gitcp init --join" in directory.gitcp("status", check=0).err
    joined = json.loads(directory.gitcp("init", "--join", "--json", check=0).out)
    assert (len(joined["sessions"]), joined["tags"], joined["renamed"]) == (1, 1, {})

    assert directory.gitcp("log", "--all", "--json", check=0).out == before
    assert "--join" not in directory.gitcp("status", check=0).err
    directory.gitcp("undo", "--yes", check=0)
    assert directory.read("a") == b"two\n"
    directory.gitcp("restore", "good", "--yes", check=0)
    assert directory.files() == first
    assert directory.gitcp("check", check=0).out.startswith("OK")
    assert _skipped(directory) == []
    assert Path(joined["store"]).is_dir()  # and nothing of it was deleted


def test_a_session_of_both_is_renamed(directory: Directory) -> None:
    """Both can be restored."""
    directory.write("a", "one\n")
    directory.gitcp("init", check=0)
    directory.gitcp("save", "one", "--session", "work", check=0)
    directory.git("init", "--quiet", "--initial-branch=main")
    directory.write("a", "two\n")
    directory.gitcp("save", "two", "--session", "work", check=0)
    done = directory.gitcp("init", "--join", check=0)
    assert "  work is work-before-git here" in done.out
    directory.gitcp("restore", "work-before-git@1", "--yes", check=0)
    assert directory.read("a") == b"one\n"
    directory.gitcp("restore", "work@1", "--yes", check=0)
    assert directory.read("a") == b"two\n"


def test_a_tag_of_both_is_refused_whole(directory: Directory) -> None:
    """No ref and no store is touched."""
    directory.write("a", "one\n")
    directory.gitcp("init", check=0)
    directory.gitcp("save", "--tag", "good", check=0)
    directory.git("init", "--quiet", "--initial-branch=main")
    directory.gitcp("save", "--tag", "good", check=0)
    before = directory.git("for-each-ref")
    done = directory.gitcp("init", "--join", check=12)
    assert "tag good exists in the repository and in the store" in done.err
    assert directory.git("for-each-ref") == before
    assert directory.root.joinpath(".gitcp/store.git").is_dir()


def test_nothing_to_join(project: Project) -> None:
    """The message says so."""
    done = project.gitcp("init", "--join", check=10)
    assert "has no store of its own to join; nothing was changed" in done.err


def test_a_join_that_was_cut_off_is_done_again(directory: Directory) -> None:
    """Refs that arrived before are no obstacle."""
    directory.write("a", "one\n")
    directory.gitcp("init", check=0)
    directory.gitcp("save", "one", check=0)
    directory.git("init", "--quiet", "--initial-branch=main")
    ref = directory.store_git("for-each-ref", "--format=%(refname)", "refs/gitcp/sessions")
    directory.git("fetch", "--quiet", ".gitcp/store.git", f"{ref}:{ref}")
    done = directory.gitcp("init", "--join", check=0)
    assert done.out.splitlines()[0] == "joined 1 session and 0 tags"
    assert directory.gitcp("check", check=0).out.startswith("OK")


def test_what_is_copied_is_shared(directory: Directory) -> None:
    """In a repository that others use, they can use what was copied; a link is not copied, and a
    file that was named as an output stays one.
    """
    directory.write("a", "one\n")
    directory.gitcp("init", check=0)
    directory.write("log", "1\n")
    directory.gitcp("save", "--session", "work", "--produces", "log", check=0)
    directory.write("a", "two\n")
    directory.gitcp("restore", "1", "--yes", check=0)
    directory.gitcp("run", "check", "--", "true", check=0)
    directory.git_dir.joinpath("gitcp/note").symlink_to(directory.root / "a")
    directory.git("init", "--quiet", "--shared=group")
    assert directory.git_dir.joinpath("gitcp/outputs").exists()

    directory.gitcp("init", "--join", check=0)

    state = directory.root / ".git/gitcp"
    assert {"oplog", "outputs", "written"} <= set(os.listdir(state))
    assert not os.path.lexists(state / "note")
    shared.learn(directory.root / ".git", "group")
    assert not list(shared.unshared(state))
    directory.gitcp("undo", "--yes", check=0)
    assert directory.read("a") == b"two\n"


def test_what_is_saved_is_the_same_with_git_and_without(tmp_path: Path, sealed: Path) -> None:
    """The same entries, whatever the store."""
    listings = []
    for kind in (Directory, Project):
        project = kind(tmp_path / kind.__name__)
        project.write(".gitignore", "*.o\n/build/\n")
        project.write("a.o", "left out\n")
        project.write("build/b", "left out\n")
        project.write(b"sub/\xff name", b"\0binary")
        project.write("sub/tool", "#!/bin/sh\n", 0o755)
        project.symlink("link", "sub/tool")
        if kind is Directory:
            project.gitcp("init", check=0)
        commit = project.json("save")["checkpoint"]["commit"]
        listed = project.git(f"--git-dir={project.git_dir}", "ls-tree", "-r", "-z", commit)
        listings.append([line for line in listed.split("\0") if "\t.gitcp/" not in line])
    assert listings[0] == listings[1]
    assert len(listings[0]) == 5  # and an empty name after the last NUL
