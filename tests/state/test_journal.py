"""A restore that dies half-way: every file is old or new, the next command says so, and it can be
finished either way.

The process that restores is a real one and is killed for good, at its n-th change to the file
system.
"""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from back import contents, finish, kept, restore, save, undo
from talk import Talk
from thorough import FULL

from gitcp.errors import DiskFull, GitcpError, Refused, StoreDamaged
from gitcp.git import fsync
from gitcp.lifecycle.check import check
from gitcp.restoring import restore as op
from gitcp.state import journal, undo_stack
from gitcp.state.extent import Extent
from gitcp.worktree.paths import is_temporary
from gitcp.worktree.writer import PreparedWrite, Writer

from driver import SOURCE, File, Project
from samples import open_store

FILES = 60
KILLS = 200 if FULL else 14

DYING = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from gitcp.git.repo import Repository
from gitcp.model import Host
from gitcp.restoring import restore as op
from gitcp.store import Store

what, number, last = sys.argv[1], sys.argv[2], int(sys.argv[3])
host = Host(os.environ, Path(os.environ["HOME"]), lambda: datetime.now(UTC))
store = Store(Repository.open(Path.cwd(), host))

def request(id):
    return op.RestoreRequest(store.read(store.find(id)), Path.cwd())

count, openat = 0, os.open

def dying(call):
    def counted(*args, **named):
        global count
        # What is only read counts for nothing: Python reads a file of each installed package.
        if call is not openat or args[1] & (os.O_WRONLY | os.O_RDWR):
            count += 1
            if count == last:
                os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **named)
    return counted

CALLS = "open write fsync fchmod chmod rename replace link unlink rmdir mkdir symlink"
for name in CALLS.split():
    setattr(os, name, dying(getattr(os, name)))
if what == "restore":
    op.restore(store, request(next(s.id for s in store.history(store.tip("e7baae82")) if s.id.number == int(number))))
elif what == "undo":
    op.undo(store, request)
else:
    op.finish(store, request, forward=what == "forward")
print(count)
"""  # noqa: E501


def die(project: Project, what: str, number: int, last: int) -> int:
    """Let a process restore checkpoint `number` ("restore"), undo, or finish ("forward", "back").

    It is killed at its `last` change, counted from 1; 0 lets it live. How many changes it made if
    it lived, else 0.
    """
    command = [sys.executable, "-P", "-c", DYING, what, str(number), str(last)]
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        command, cwd=project.root, env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode in (0, -9), done.stderr
    return int(done.stdout) if done.returncode == 0 else 0


class Story:
    """A project in two states, the first of them saved, with a conversation that went on between
    them.
    """

    def __init__(self, project: Project) -> None:
        self.project = project
        self.talk = Talk(project)
        self.talk.say("one", "two")
        for number in range(FILES):
            project.write(
                f"d{number % 4}/{number}",
                f"old {number}\n" * 50,
                mode=0o600 if number % 7 == 0 else 0o644,
            )
        project.write("file-or-directory", "a file\n")
        project.symlink("link", "d0")
        os.makedirs(project.path("empty/directory"))
        self.old, self.target = contents(project), save(project, None)
        self.talk.say("three", "four")
        for number in range(FILES):
            path = f"d{number % 4}/{number}"
            if number % 5 == 0:
                project.remove(path)
            elif number % 2:
                project.write(path, f"new {number}\n" * 70, mode=0o644)
        for number in range(FILES // 4):
            project.write(f"made/{number}", f"made {number}\n")
        project.remove("file-or-directory")
        project.write("file-or-directory/inside", "now a directory\n")
        project.remove("link")
        project.write("link", "now a file\n")
        project.remove("empty")
        self.new = contents(project)
        self.said = self.talk.path.read_bytes()

    def changes(self) -> int:
        """How many changes to the file system a restore makes. Made and undone twice: the first
        makes more.
        """
        for _ in range(2):
            total = die(self.project, "restore", 1, 0)
            self.is_whole(self.old)
            undo(self.project)
            self.is_whole(self.new)
        return total

    def is_mixed(self) -> None:
        """Insist that every file is the old one, the new one, or not there where one of the two has
        none.
        """
        for path, file in contents(self.project).items():
            if not is_temporary(path.rpartition(b"/")[2]):
                known = (self.old.get(path), self.new.get(path))
                same = [
                    one
                    for one in known
                    if one is not None and (one.kind, one.data) == (file.kind, file.data)
                ]
                assert same, (path, file)

    def is_whole(self, expected: dict[bytes, File]) -> None:
        """Insist on a state to the byte, an intact transcript, nothing left behind and a sound
        store.
        """
        assert contents(self.project) == expected
        assert self.talk.path.read_bytes() == self.said
        names = [path.name for path in self.talk.path.parent.iterdir()]
        assert not [name for name in names if not name.endswith(".jsonl")], names
        store = open_store(self.project)
        assert journal.unfinished(store.repo) is None
        assert check(store).ok


@pytest.fixture
def story(project: Project) -> Story:
    return Story(project)


def test_killed_anywhere(story: Story) -> None:
    """Killed at any of its changes, a restore can be continued and can be aborted, to the byte, and
    then be undone.
    """
    project = story.project
    total = story.changes()
    chance = random.Random(1)
    unfinished = 0
    for turn in range(KILLS):
        die(project, "restore", 1, 1 + total * turn // KILLS + chance.randrange(total // KILLS))
        story.is_mixed()
        if journal.unfinished(open_store(project).repo) is None:
            assert contents(project) in (story.old, story.new)
            restore(project, story.target)
        else:
            unfinished += 1
            forward = bool(turn % 2)
            assert not finish(project, forward=forward).failed
            story.is_whole(story.old if forward else story.new)
            if not forward:
                restore(project, story.target)
        story.is_whole(story.old)
        undo(project)
        story.is_whole(story.new)
    assert unfinished > KILLS // 3


def test_killed_again_and_again(story: Story) -> None:
    """What finishes an interrupted restore may be killed too, and be followed by the other way:
    nothing is lost.
    """
    project = story.project
    total = story.changes()
    chance = random.Random(2)
    for turn in range(6):
        die(project, "restore", 1, total // 2 + chance.randrange(total // 4))
        begun = journal.unfinished(open_store(project).repo)
        assert begun is not None
        for what in ("forward", "back", "forward"):
            assert die(project, what, 0, 30 + chance.randrange(60)) == 0
            story.is_mixed()
            assert journal.unfinished(open_store(project).repo) == begun
        forward = turn % 2 == 0
        finish(project, forward=forward)
        story.is_whole(story.old if forward else story.new)
        if not forward:
            restore(project, story.target)
        undo(project)
        story.is_whole(story.new)


def test_the_next_command_says_so(story: Story) -> None:
    """Every command mentions an interrupted restore; another restore and an undo are refused; a
    save is not.
    """
    project = story.project
    interrupt(story)

    for command in (("status",), ("log",), ("save", "half-way")):
        assert "gitcp restore --continue" in project.gitcp(*command, check=0).err
    for change in (("restore", "1", "--yes"), ("undo", "--yes")):
        refused = project.gitcp(*change, check=12)
        assert "interrupted" in refused.err
        assert "--abort" in refused.err
    done = project.gitcp("restore", "--continue", check=0)
    assert "gitcp undo" in done.out
    story.is_whole(story.old)
    project.gitcp("undo", "--yes", check=0)
    story.is_whole(story.new)


def interrupt(story: Story, what: str = "restore") -> journal.Unfinished:
    """Kill a restore in the middle of its files."""
    die(story.project, what, 1, story.changes() // 2)
    begun = journal.unfinished(open_store(story.project).repo)
    assert begun is not None
    assert contents(story.project) not in (story.old, story.new)
    return begun


def test_edits_after_the_crash(story: Story) -> None:
    """What is edited between the crash and --abort is saved before it is taken back, and undo
    brings it again.
    """
    project = story.project
    interrupt(story)
    project.write("d1/1", "edited after the crash\n")
    project.write("unrelated", "mine\n")

    finish(project, forward=False)
    assert project.read("d1/1") == story.new[b"d1/1"].data
    assert project.read("unrelated") == b"mine\n"
    undo(project)
    assert project.read("d1/1") == b"edited after the crash\n"


def test_edits_before_it_goes_on(story: Story) -> None:
    """What is edited between the crash and --continue is kept, and said; all else comes back."""
    project = story.project
    interrupt(story)
    project.write("d1/1", "edited after the crash\n")
    project.write("unrelated", "mine\n")

    report = finish(project, forward=True)

    assert report.failed
    assert kept(report) == {b"d1/1": "edited since the restore was interrupted"}
    mine = {b"d1/1": project.files()[b"d1/1"], b"unrelated": project.files()[b"unrelated"]}
    assert mine[b"d1/1"].data == b"edited after the crash\n"
    assert contents(project) == story.old | mine
    undo(project)
    assert contents(project) == story.new


def test_edits_of_what_is_to_be_removed(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that the restore was about to remove, and that was edited since, is kept; the others
    go.
    """
    project.write("a", "old\n")
    target = save(project)
    for name in ("a", "edited", "removed"):
        project.write(name, "new\n")
    with monkeypatch.context() as patched:
        patched.setattr(Writer, "remove", interrupted)
        with pytest.raises(KeyboardInterrupt):
            restore(project, target)
    project.write("edited", "edited after the crash\n")

    report = finish(project, forward=True)

    assert report.failed
    assert kept(report) == {b"edited": "edited since the restore was interrupted"}
    assert {path: file.data for path, file in contents(project).items()} == {
        b"a": b"old\n",
        b"edited": b"edited after the crash\n",
    }


def test_what_is_captured_otherwise_is_not_edited(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attributes that the restore brought give a file another blob; its bytes are still those that
    it replaces.
    """
    project.write(".gitattributes", "*.t text eol=crlf\n")
    project.write("file.t", "old\r\n")
    target = save(project)
    project.remove(".gitattributes")
    project.write("file.t", "new\r\n")
    place = Writer.place

    def dying(self: Writer, prepared: PreparedWrite, *admit: Any) -> os.stat_result:
        if prepared.path == b"file.t":
            raise KeyboardInterrupt
        return place(self, prepared, *admit)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):  # noqa: PT012
        patched.setattr(Writer, "place", dying)
        restore(project, target)
    assert os.path.exists(project.path(".gitattributes"))
    assert project.read("file.t") == b"new\r\n"

    report = finish(project, forward=True)

    assert kept(report) == {}
    assert project.read("file.t") == b"old\r\n"


def test_what_is_deleted_after_the_crash(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is gone holds no work: it comes back when the restore goes on."""
    project.write("a", "old\n")
    target = save(project)
    project.write("a", "new\n")
    with monkeypatch.context() as patched:
        patched.setattr(Writer, "place", interrupted)
        with pytest.raises(KeyboardInterrupt):
            restore(project, target)
    project.remove("a")

    assert not finish(project, forward=True).failed
    assert project.read("a") == b"old\n"


@pytest.mark.parametrize("forward", [True, False])
def test_files_made_after_the_crash(
    project: Project, monkeypatch: pytest.MonkeyPatch, forward: bool
) -> None:
    """What is new in a directory that the restore was to make or remove is none of its business."""
    os.makedirs(project.path("comes"))
    target = save(project)
    project.remove("comes")
    project.write("goes/file", "old\n")
    with monkeypatch.context() as patched:
        patched.setattr(Writer, "remove_directory", interrupted)
        with pytest.raises(KeyboardInterrupt):
            restore(project, target)
    project.write("comes/new", "mine\n")
    project.write("goes/new", "mine\n")

    assert not finish(project, forward=forward).failed

    files = {path for path, file in contents(project).items() if file.kind == "file"}
    assert files == {b"comes/new", b"goes/new"} | (set() if forward else {b"goes/file"})


def test_abort_leaves_older_undos(story: Story) -> None:
    """After an abort, undo takes the abort back; then it goes on to the restores before."""
    project = story.project
    project.write("older", "work\n")
    restore(project, story.target, paths=(b"older", b"link"))
    story.new = contents(project)
    before = undo_stack.restores(open_store(project).repo)
    interrupt(story)

    finish(project, forward=False)
    story.is_whole(story.new)
    after = undo_stack.restores(open_store(project).repo)
    assert after.undo[:-1] == before.undo
    undo(project)
    undo(project)
    assert project.read("older") == b"work\n"


def test_interrupted_undo(story: Story) -> None:
    """An interrupted undo that is continued is an undo: it can be redone, and is not there to be
    undone.
    """
    project = story.project
    restore(project, story.target)
    total = die(project, "undo", 1, 0)
    assert contents(project) == story.new
    restore(project, story.target)
    before = undo_stack.restores(open_store(project).repo)
    die(project, "undo", 1, total * 2 // 3)  # it plans and saves first
    assert journal.unfinished(open_store(project).repo) is not None

    finish(project, forward=True)

    story.is_whole(story.new)
    after = undo_stack.restores(open_store(project).repo)
    assert after.undo == before.undo[:-1]
    assert len(after.redo) == len(before.redo) + 1


def test_the_conversation_is_placed_once(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore that is interrupted after it placed the conversation, and continued, places it
    under one new id.
    """
    project = story.project
    for act in (partial(restore, project, story.target), partial(finish, project, forward=True)):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):  # noqa: PT012
            patch.setattr(op, "_save_after", interrupted)
            act()
        assert contents(project) == story.old
        assert len(list(story.talk.path.parent.iterdir())) == 2

    report = finish(project, forward=True)

    story.is_whole(story.old)
    assert report.placed is not None
    assert report.placed.path is not None
    assert sorted(story.talk.path.parent.iterdir()) == sorted([story.talk.path, report.placed.path])
    assert story.said.startswith(report.placed.path.read_bytes())


@pytest.mark.parametrize("forward", [True, False])
def test_names_that_were_not_synced(
    story: Story, monkeypatch: pytest.MonkeyPatch, forward: bool
) -> None:
    """Where the disk failed, and what was written may not last, all of it is synced again, though
    it is there.
    """
    project = story.project

    def failing(self: Writer) -> None:
        raise GitcpError("cannot sync the directory d0")

    with monkeypatch.context() as patch, pytest.raises(GitcpError, match="cannot sync"):  # noqa: PT012
        patch.setattr(Writer, "flushing", failing)
        restore(project, story.target)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))

    finish(project, forward=forward)

    story.is_whole(story.old if forward else story.new)
    places = {project.root, *(project.root / f"d{number}" for number in range(4))}
    assert {path.stat().st_ino for path in places} <= {*synced}


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"target": "x@1"}', '{"target": "x", "safety": "x@1", "paths": []}']
)
def test_the_journal_is_damaged(project: Project, text: str) -> None:
    """A damaged journal is said, with what to do, and is neither followed nor forgotten."""
    project.write("a", "old\n")
    target = save(project)
    project.write("a", "new\n")
    path = Path(open_store(project).repo.state_dir, "restore.json")
    path.write_text(text)

    for act in (partial(restore, project, target), partial(finish, project, forward=True)):
        with pytest.raises(StoreDamaged) as caught:
            act()
        assert str(path) in caught.value.hint
    assert path.read_text() == text
    assert project.read("a") == b"new\n"
    path.unlink()
    restore(project, target)
    assert project.read("a") == b"old\n"


def test_odd_paths_in_the_journal(project: Project) -> None:
    """A journal holds paths of any bytes."""
    repo = open_store(project).repo
    begun = journal.Unfinished(
        target=save(project).id,
        safety=save(project).id,
        paths=(b"\xff/a", b"new\nline", "é".encode()),
        extent=Extent(paths=(b"\xff",), made=(b"\xff/a",)),
        message="m",
        session_id="s",
    )
    journal.begin(repo, begun)

    assert journal.unfinished(repo) == begun
    journal.finish(repo)
    assert journal.unfinished(repo) is None
    with pytest.raises(Refused):
        finish(project, forward=True)


def test_the_journal_keeps_all_of_it(project: Project) -> None:
    """What a process wrote down before it died is what the next one reads, to the last field."""
    repo, first, second = open_store(project).repo, save(project).id, save(project).id
    extent = Extent(False, False, True, (b"limit",), (b"made",), "0a1b", ((b"\xff", 0o600),))
    begun = journal.Unfinished(
        target=first,
        safety=second,
        paths=(b"a", b"d/b/."),
        extent=extent,
        reverted=first,
        markers=True,
        step=journal.RestoreKind.UNDO,
        key="0a1b",
    )

    journal.begin(repo, begun)

    assert journal.unfinished(repo) == begun


def test_running_or_interrupted(project: Project) -> None:
    """A restore runs as long as its process holds the lock; what is left without that was
    interrupted.
    """
    repo, id = open_store(project).repo, save(project).id
    with journal.lock(repo):
        assert not journal.is_running(repo), "it is still planning"
        journal.begin(repo, journal.Unfinished(id, id, (), Extent()))
        assert journal.is_running(repo)
    assert not journal.is_running(repo)
    with journal.lock(repo):
        journal.finish(repo)
        assert not journal.is_running(repo)
        journal.finish(repo)  # somebody may have removed it by hand


@pytest.mark.parametrize(
    ("code", "raised", "said"),
    [
        (errno.ENOSPC, DiskFull, "the disk is full: restore.json was not written"),
        (errno.EDQUOT, DiskFull, "the disk is full: restore.json was not written"),
        (errno.EROFS, GitcpError, "restore.json cannot be written: Read-only file system"),
    ],
)
def test_the_journal_cannot_be_written(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    raised: type[GitcpError],
    said: str,
) -> None:
    """A restore that cannot be written down does not begin."""
    project.write("a", "old\n")
    target = save(project)
    project.write("a", "new\n")
    real = fsync.create

    def failing(path: str | Path, *args: Any) -> int:
        if Path(path).name.startswith(journal.RESTORE):
            raise OSError(code, os.strerror(code))
        return real(path, *args)

    with monkeypatch.context() as patched, pytest.raises(raised, match=said) as caught:  # noqa: PT012
        patched.setattr(fsync, "create", failing)
        restore(project, target)

    assert type(caught.value) is raised
    assert project.read("a") == b"new\n"
    assert journal.unfinished(open_store(project).repo) is None
    restore(project, target)
    assert project.read("a") == b"old\n"


def test_done_for_good(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power loss a restore that was finished is not taken for one that was interrupted."""
    repo, id = open_store(project).repo, save(project).id
    journal.begin(repo, journal.Unfinished(id, id, (), Extent()))
    synced: list[tuple[int, bool]] = []
    left = repo.state_dir / journal.RESTORE
    monkeypatch.setattr(
        os, "fsync", lambda opened: synced.append((os.fstat(opened).st_ino, left.exists()))
    )

    journal.finish(repo)

    assert synced == [(repo.state_dir.stat().st_ino, False)]
