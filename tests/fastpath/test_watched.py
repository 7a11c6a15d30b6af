"""Scans by the word of a watcher: nothing is missed, and one that does not tell the truth is not
believed.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from capturing import git_tree

from gitcp import trusted_cache
from gitcp.automation import hook
from gitcp.automation.watching.watcher import Stop, watcher
from gitcp.fastpath import mounts, stat_check, watch_ipc, watched
from gitcp.fastpath.stat_check import Look
from gitcp.fastpath.watched import Watched, WatcherAnswer
from gitcp.model import Trigger
from gitcp.saving.save import Saved, SaveRequest, save
from gitcp.worktree import snapshot
from gitcp.worktree.snapshot import Limits

from driver import SOURCE, Project
from samples import open_store

if sys.platform != "linux":
    pytest.skip("nothing is asked over a socket elsewhere", allow_module_level=True)


def saved(project: Project) -> Saved:
    """A save, by a process's own store."""
    return save(open_store(project), SaveRequest(cwd=project.root, watched=True))


def known(project: Project) -> Watched:
    """What is remembered of who watches."""
    remembered = watched.load(str(project.git_dir))
    assert remembered is not None
    return remembered


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[frozenset[bytes] | None]:
    """The directories that each scan compares, None for all."""
    looks: list[frozenset[bytes] | None] = []
    compare = snapshot._Snapshotter._compare

    def note(self: object, memory: object, only: frozenset[bytes] | None) -> object:
        looks.append(only)
        return compare(self, memory, only)  # type: ignore[arg-type]

    monkeypatch.setattr(snapshot._Snapshotter, "_compare", note)
    return looks


@pytest.fixture
def project_(project: Project) -> Project:
    """A project with a hundred and twenty directories."""
    for number in range(40):
        project.write(f"d{number}/s/deep/file", "one\n")
    project.write(".gitignore", "ignored/\n")
    project.commit()
    return project


class Fake:
    """Something that answers as it is told to, at the address of `gitcp watch`."""

    def __init__(self, git_dir: Path) -> None:
        import socket

        self.answer: bytes | None = b"fake:1:1\0"
        self.asked: list[bytes] = []
        self.path = git_dir / watched.SOCKET
        self.path.parent.mkdir(exist_ok=True)
        self.socket = socket.socket(socket.AF_UNIX)
        with watch_ipc.WatchAddress(str(self.path)) as address:
            self.socket.bind(address)
        self.socket.listen()
        self.is_closing = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            if self.is_closing:
                connection.close()
                return
            with connection, suppress(OSError):  # a client that waited no longer
                token = watch_ipc.receive(connection, time.monotonic() + 5)
                self.asked.append(token or b"")
                if self.answer is not None:
                    answer = b"fake:1:1\0/\0" if token == watched.NO_TOKEN else self.answer
                    connection.sendall(b"".join(watch_ipc.lines(answer)))

    def close(self) -> None:
        """End the thread first: one that still accepts on a closed descriptor took the connections
        of another test's server, which had got its number.
        """
        import socket

        self.is_closing = True
        with (
            socket.socket(socket.AF_UNIX) as last,
            watch_ipc.WatchAddress(str(self.path)) as address,
        ):
            last.connect(address)
        self.thread.join()
        self.socket.close()
        self.path.unlink()


@pytest.fixture
def fake(project_: Project) -> Iterator[Fake]:
    """It watches the project, and says that nothing changes."""
    fake = Fake(project_.git_dir)
    yield fake
    fake.close()


def test_only_what_was_reported(
    project_: Project, fake: Fake, compared: list[frozenset[bytes] | None]
) -> None:
    """The first save looks at everything, the next at what is reported and at one per cent."""
    saved(project_)
    project_.write("d7/s/deep/file", "two\n")
    fake.answer = b"fake:1:2\0d7/s/deep\0"
    second = saved(project_)
    assert second.checkpoint.changed == 1
    assert compared[-1] is not None
    assert b"d7/s/deep" in compared[-1]
    assert len(compared[-1]) < 10
    saved(project_)
    assert fake.asked[-1] == b"fake:1:2"


def test_linked_file(project_: Project, fake: Fake) -> None:
    """A file with two names is looked at whatever is reported: who writes through one of them is
    seen only there.
    """
    outside = project_.root.parent / "outside"
    outside.hardlink_to(project_.root / "d3/s/deep/file")
    saved(project_)
    for content in ("through the other name\n", "and again\n"):
        outside.write_text(content)
        assert saved(project_).checkpoint.changed == 1
        assert not known(project_).missed

    outside.unlink()
    assert not saved(project_).saved
    look = Look(os.fsencode(project_.root), str(project_.git_dir / "gitcp/worktree-state"))
    assert stat_check.always(look.load()) == []


def test_new_link(project_: Project, fake: Fake) -> None:
    """Where a link is made, its directory is reported; the other names of the file are looked
    for.
    """
    saved(project_)
    project_.root.joinpath("d5/link").hardlink_to(project_.root / "d3/s/deep/file")
    project_.root.joinpath("d5/link").write_text("two\n")
    fake.answer = b"fake:1:2\0d5/link\0"
    assert saved(project_).checkpoint.changed == 2
    assert not known(project_).missed

    project_.root.joinpath("d5/link").write_text("three\n")
    assert saved(project_).checkpoint.changed == 2


@pytest.mark.parametrize(
    "answer",
    [None, b"", b"\0d7/s\0", b"fake:1:2\0/\0", b"fake:1:2\0d7", b"fake:1:2\0../x\0", b"x"],
    ids=["none", "empty", "no-token", "everything", "cut-off", "outside", "nonsense"],
)
def test_no_answer(project_: Project, fake: Fake, answer: bytes | None) -> None:
    """An answer that does not come, is damaged, or says so: everything is looked at."""
    saved(project_)
    project_.write("d3/s/deep/file", "two\n")
    fake.answer = answer
    assert saved(project_).checkpoint.changed == 1


def test_slow_answer(project_: Project, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for longer than a limit."""
    saved(project_)
    project_.write("d3/s/deep/file", "two\n")
    monkeypatch.setattr(watch_ipc, "SECONDS", 0.2)
    monkeypatch.setattr(watch_ipc.ask, "__defaults__", (0.2,))
    receive = watch_ipc.receive

    def stuck(connection: object, until: float) -> bytes | None:
        if until > time.monotonic() + 1:
            time.sleep(1)
        return receive(connection, until)

    monkeypatch.setattr(watch_ipc, "receive", stuck)
    assert saved(project_).checkpoint.changed == 1


def test_doctor_asks_who_watches(project_: Project) -> None:
    """It says that something watches only as long as it answers, whatever is remembered of it."""
    fake = Fake(project_.git_dir)
    saved(project_)
    saved(project_)
    assert known(project_).token
    assert "the files are watched by gitcp watch\n" in project_.gitcp("doctor").out
    fake.close()
    assert "are watched" not in project_.gitcp("doctor").out


def test_another_scan(project_: Project, fake: Fake) -> None:
    """A token is worth something for the scan that was stored with it, and no other."""
    saved(project_)
    project_.write("d3/s/deep/file", "two\n")
    remembered = known(project_)
    remembered.scan = (1, 2, 3)
    watched.store(str(project_.git_dir), remembered)
    assert saved(project_).checkpoint.changed == 1


def test_who_does_not_tell(
    project_: Project,
    fake: Fake,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The part that is looked at all the same shows a change that was not reported: this watcher is
    not believed again until it is another process, and the user is told once.
    """
    saved(project_)
    time.sleep(0.05)
    project_.write("d3/s/deep/file", "two\n")
    with monkeypatch.context() as patch:
        patch.setattr(watched, "PARTS", 1)
        assert saved(project_).checkpoint.changed == 1
    assert known(project_).missed == b"d3/s/deep"
    assert project_.json("status")["watched"] == {"by": "gitcp watch", "trusted": False}
    assert "not trusted: it did not report a change in d3/s/deep" in project_.gitcp("status").out
    assert "gitcp watch, not trusted: it did not report a change" in project_.gitcp("doctor").out
    note = "gitcp watch is not trusted: it did not report a change in d3/s/deep"
    assert note in project_.gitcp("save", "x", "--force").err
    assert "trusted" not in project_.gitcp("save", "y", "--force").err
    project_.write("d9/s/deep/file", "two\n")
    assert saved(project_).checkpoint.changed == 1
    fake.answer = b"fake:2:1\0/\0"
    saved(project_)
    assert known(project_).missed is None


@pytest.mark.parametrize("is_reported", [True, False])
@pytest.mark.parametrize("is_link", [True, False])
def test_renamed_during_the_look(
    project_: Project,
    fake: Fake,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_reported: bool,
    is_link: bool,
) -> None:
    """Of a directory that is gone, the one above it is reported; also if it goes after the answer,
    so that only the second one has it.
    """
    saved(project_)
    time.sleep(0.05)
    project_.root.joinpath("d3/s/deep").rename(project_.root / "d3/s/other")
    if is_link:
        project_.root.joinpath("d3/s/deep").symlink_to("other")
    monkeypatch.setattr(watched, "PARTS", 1)
    answers = [WatcherAnswer(b"fake:1:2", [])]
    answers.append(WatcherAnswer(b"fake:1:3", [b"d3/s", b"d3/s/other"] if is_reported else []))
    monkeypatch.setattr(watched, "ask", lambda *_: answers.pop(0))

    assert saved(project_).checkpoint.changed == 2 + is_link
    assert answers == []
    assert known(project_).missed in ({None} if is_reported else {b"d3/s", b"d3/s/deep"})


@pytest.mark.parametrize("is_reported", [True, False])
def test_behind_a_link(
    project_: Project, fake: Fake, monkeypatch: pytest.MonkeyPatch, *, is_reported: bool
) -> None:
    """Below a link in the place of a directory nothing is reported, but where the link leads to."""
    saved(project_)
    time.sleep(0.05)
    project_.root.joinpath("d3/s").rename(project_.root / "d3/other")
    project_.root.joinpath("d3/s").symlink_to("other")
    project_.write("d3/other/deep/file", "two\n")
    monkeypatch.setattr(watched, "PARTS", 1)
    reported = b"d3\0d3/other\0d3/other/deep\0d3/other/deep/file\0" if is_reported else b""
    fake.answer = b"fake:1:2\0" + reported

    assert saved(project_).checkpoint.changed == 3
    missed = known(project_).missed
    assert missed is None if is_reported else missed is not None


def test_changed_just_before_the_answer(project_: Project, fake: Fake) -> None:
    """It is no change after it, although a file's times can be ahead of the system's clock by a
    tick: from 6.13 on, Linux gives those that were looked at exact ones.
    """
    file = project_.root / "d3/file"
    look = Look(os.fsencode(project_.root), str(project_.git_dir / "gitcp/worktree-state"))
    for number in range(300):
        file.write_text(str(number))
        file.stat()
        file.write_text("again")
        watched.narrow(look)
        assert file.stat().st_ctime_ns <= look.watch.asked


def test_paranoid(project_: Project, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the variable, everything is looked at, and compared with what was reported."""
    saved(project_)
    time.sleep(0.05)
    monkeypatch.setenv(watched.PARANOID, "1")
    assert not saved(project_).saved
    assert known(project_).missed is None
    project_.write("d3/s/deep/file", "two\n")
    assert saved(project_).checkpoint.changed == 1
    assert known(project_).missed == b"d3/s/deep"


def test_scan_that_was_not_stored(
    project_: Project, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the scan cannot be stored, nor can its token: the older scan does not have the change."""
    saved(project_)
    before = known(project_).plain()
    project_.write("d3/s/deep/file", "two\n")
    fake.answer = b"fake:1:2\0d3/s/deep\0"
    monkeypatch.setattr("gitcp.worktree.state.save", lambda *_: None)
    saved(project_)
    assert known(project_).plain() == before


@pytest.mark.parametrize("is_begun", [False, True])
def test_an_older_scan_is_stored_meanwhile(
    project_: Project, fake: Fake, monkeypatch: pytest.MonkeyPatch, *, is_begun: bool
) -> None:
    """A process that began to scan earlier may end later. What the watcher then told this one is
    not all that changed since that scan.
    """
    state = project_.git_dir / "gitcp/worktree-state"
    saved(project_)
    older = state.read_bytes()
    project_.write("d3/s/deep/file", "two\n")
    fake.answer = b"fake:1:2\0d3/s/deep\0"
    saved(project_)
    project_.write("d5/s/deep/file", "two\n")
    fake.answer = b"fake:1:3\0d5/s/deep\0"
    narrow = watched.Watch.narrow

    def overtaken(watch: watched.Watch, look: Look, *, whole: bool) -> None:
        narrow(watch, look, whole=whole)
        assert watch.is_narrow
        state.with_name("new").write_bytes(older)
        state.with_name("new").chmod(0o600)
        state.with_name("new").rename(state)

    monkeypatch.setattr(watched.Watch, "narrow", overtaken)
    store = open_store(project_)
    if is_begun:
        store.repo.look = Look(os.fsencode(project_.root), str(state))
        watched.begin(store.repo.look)
    commit = save(store, SaveRequest(cwd=project_.root, watched=True)).checkpoint.commit
    for path in ("d3/s/deep/file", "d5/s/deep/file"):
        assert project_.git("show", f"{commit}:{path}") == "two"


def test_begun_again(project_: Project, fake: Fake) -> None:
    """A hook looks whether anything changed, and again in another process, by another answer."""
    saved(project_)
    project_.write("d3/s/deep/file", "two\n")
    fake.answer = b"fake:1:2\0d3/s/deep\0"
    store = open_store(project_)
    look = store.repo.look = Look(
        os.fsencode(project_.root), str(project_.git_dir / "gitcp/worktree-state")
    )
    watched.begin(look)
    assert look.answer(None) is None
    assert look.only is not None
    project_.write("d5/s/deep/file", "two\n")
    fake.answer = b"fake:1:3\0/\0"
    watched.begin(look)
    assert save(store, SaveRequest(cwd=project_.root, watched=True)).checkpoint.changed == 2


# ---------------------------------------------------------------- what relies on no watcher


PRECIOUS = "d5/s/deep/file"
DAMAGE = f"echo lost >{PRECIOUS}; false"
LOOKING = {
    "restore": ("restore", "s@1", "--yes"),
    "restore of paths": ("restore", "s@1", "--yes", "--", "d5", "d3"),
    "restore --mine": ("restore", "s@1", "--mine", "--yes"),
    "rollback": ("rollback", "--session", "s", "--yes"),
    "revert": ("revert", "s@2", "--yes"),
    "run": ("run", "risky", "--rollback", "--session", "s", "--", "sh", "-c", DAMAGE),
    "hint": ("save", "--session", "s", "--trigger", "before-risky-change"),
}


def is_in_a_checkpoint(project: Project, path: str, content: str) -> bool:
    """Return whether a checkpoint has a file with this content."""
    commits = project.git("rev-list", "--glob=refs/gitcp/sessions/*").split()
    there = (commit for commit in commits if project.git("ls-tree", commit, path))
    return any(project.git("show", f"{commit}:{path}") == content for commit in there)


@pytest.mark.parametrize("command", LOOKING)
def test_commands_that_look_themselves(project_: Project, fake: Fake, command: str) -> None:
    """What overwrites files looks at all of them, whatever a watcher says: a change that it did not
    report is saved before, and is in the plan.
    """
    project_.gitcp("save", "--session", "s")
    project_.write("d3/s/deep/file", "two\n")
    fake.answer = b"fake:1:2\0d3/s/deep\0"
    project_.gitcp("save", "--session", "s")
    time.sleep(0.05)
    project_.write(PRECIOUS, "precious\n")
    fake.answer = b"fake:1:2\0"
    assert "nothing changed" in project_.gitcp("save", "--session", "s").out

    done = project_.gitcp(*LOOKING[command], check=None)
    assert is_in_a_checkpoint(project_, PRECIOUS, "precious"), done
    restored = command.startswith("restore") or command == "rollback"
    assert project_.read(PRECIOUS) == (b"one\n" if restored else b"precious\n"), done


@pytest.mark.parametrize("command", ["undo", "redo"])
def test_undo_and_redo_look_themselves(project_: Project, fake: Fake, command: str) -> None:
    """So do an undo and a redo: what the watcher has not seen is refused, or saved first."""
    project_.gitcp("save", "--session", "s")
    project_.write(PRECIOUS, "two\n")
    fake.answer = b"fake:1:2\0d5/s/deep\0"
    project_.gitcp("restore", "s@1", "--yes")
    if command == "redo":
        project_.gitcp("undo", "--yes")
    fake.answer = b"fake:1:2\0"
    project_.gitcp("save", "--session", "s")
    time.sleep(0.05)
    project_.write(PRECIOUS, "precious\n")
    assert "nothing changed" in project_.gitcp("save", "--session", "s").out

    project_.gitcp(command, "--yes", check=12)
    assert project_.read(PRECIOUS) == b"precious\n"
    project_.gitcp(command, "--whole-tree", "--yes")
    assert is_in_a_checkpoint(project_, PRECIOUS, "precious")
    assert project_.read(PRECIOUS) == (b"two\n" if command == "undo" else b"one\n")


def test_removed_worktree(project_: Project, tmp_path: Path) -> None:
    """Before a worktree is removed, everything in it is looked at."""
    project_.git("worktree", "add", "-q", str(tmp_path / "topic"))
    topic = Project(tmp_path / "topic")
    fake = Fake(project_.git_dir / "worktrees" / "topic")
    topic.gitcp("save", "--session", "s")
    topic.gitcp("save", "--session", "s")
    topic.write(PRECIOUS, "precious\n")
    assert "nothing changed" in topic.gitcp("save", "--session", "s").out
    project_.gitcp("worktree", "remove", str(topic.root))
    fake.socket.close()
    assert not topic.root.exists()
    assert is_in_a_checkpoint(project_, PRECIOUS, "precious")


def test_hook_before_a_risky_change(project_: Project, fake: Fake) -> None:
    """The save before a risky change looks itself, whoever asks for it; others do not."""
    store = open_store(project_)
    for trigger in (Trigger.TURN, Trigger.BEFORE_RISKY_CHANGE):
        saved(project_)
        project_.write(PRECIOUS, "precious\n")
        event = hook.HookEvent(project_.root, "", "", trigger)
        hook.record(store, event)
        is_found = is_in_a_checkpoint(project_, PRECIOUS, "precious")
        assert is_found == (trigger is Trigger.BEFORE_RISKY_CHANGE)


BY_A_WATCHER = {
    *("api/opened.py", "api/step.py", "automation/hook.py", "mcp/writing.py"),
    *("cli/save.py", "history/diff_now.py", "history/status.py", "history/worktrees.py"),
    *("integrations/thread.py", "langgraph/thread_store.py", "saving/save.py"),
}
"""What may rely on a watcher: saves after which gitcp removes and overwrites nothing, and what only
shows.
"""


def test_who_relies_on_a_watcher() -> None:
    """A snapshot looks at everything unless its caller says otherwise, and these alone do."""
    package = SOURCE / "gitcp"
    sources = {path.relative_to(package): path.read_text("utf-8") for path in package.rglob("*.py")}
    assert {str(path) for path, text in sources.items() if "watched=True" in text} == BY_A_WATCHER
    assert SaveRequest(cwd=package).watched is False


# ---------------------------------------------------------------- what the scan does not enter


def test_changes_in_what_is_skipped(project_: Project) -> None:
    """Changes in a directory of dependencies that is too large, and in a repository inside, are no
    misses of the watcher, which does not enter them either; when they are entered, they are saved.
    """
    for number in range(6):
        project_.write(f"d1/node_modules/{number}", "")
    project_.git("init", "-q", "d2/inside")
    limits = Limits(max_dependency_files=4)

    def save_all() -> Saved:
        request = SaveRequest(cwd=project_.root, watched=True, limits=limits)
        return save(open_store(project_), request)

    watch = watcher(open_store(project_).repo, 4, lambda: (), Stop())
    save_all()
    time.sleep(0.05)
    project_.root.joinpath("d1/node_modules/0").unlink()
    project_.write("d2/inside/file", "one\n")
    assert not save_all().saved
    assert known(project_).missed is None
    project_.root.joinpath("d1/node_modules/1").unlink()
    assert save_all().checkpoint.changed == 4
    shutil.rmtree(project_.root / "d2/inside/.git")
    assert save_all().checkpoint.changed == 1
    assert known(project_).missed is None
    watch.close()


# ---------------------------------------------------------------- what is asked again


@pytest.mark.parametrize(
    "again", [None, WatcherAnswer(b"fake:2:1", None)], ids=["silent", "everything"]
)
def test_no_second_answer(
    project_: Project, fake: Fake, monkeypatch: pytest.MonkeyPatch, again: WatcherAnswer | None
) -> None:
    """A watcher that reported too little and cannot be asked again, or has begun anew: everything
    is looked at, since it may have missed more. It is not blamed.
    """
    saved(project_)
    time.sleep(0.05)
    project_.write("d3/s/deep/file", "two\n")
    project_.write("d30/s/deep/file", "two\n")
    monkeypatch.setattr(stat_check, "sample", lambda *_: [b"d3/s/deep"])
    answers = [WatcherAnswer(b"fake:1:2", []), again]
    monkeypatch.setattr(watched, "ask", lambda *_: answers.pop(0))
    assert saved(project_).checkpoint.changed == 2
    assert answers == []
    assert known(project_).missed is None


# ---------------------------------------------------------------- mounts


def test_mounts_inside(project_: Project, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is or was mounted inside is looked at whatever is reported."""
    saved(project_)
    remembered = known(project_)
    for table in (frozenset({b"d3/s"}), frozenset[bytes]()):
        monkeypatch.setattr(mounts, "below", lambda _, table=table: table)
        look = Look(os.fsencode(project_.root), str(project_.git_dir / "gitcp/worktree-state"))
        watch = watched.Watch(remembered, WatcherAnswer(b"fake:1:2", []), 0)
        watch.narrow(look, whole=False)
        assert watch.missed is None
        assert b"d3/s/" in (look.only or ())
        remembered = watch.after(remembered.scan)
        assert remembered.mounts == table


# ---------------------------------------------------------------- gitcp watch


def edit(root: Path, chance: random.Random) -> None:
    """Do one of what an agent or a user does."""
    directories = sorted(
        path for path in root.rglob("*") if path.is_dir() and ".git" not in path.parts
    )
    place = chance.choice(directories) if directories else root
    act = chance.randrange(7)
    if act == 0:
        shutil.rmtree(place)
    elif act == 1:
        target = chance.choice([root, *directories]) / f"moved{chance.randrange(9)}"
        if not target.is_relative_to(place) and not target.exists():
            place.rename(target)
    elif act == 2:
        place.joinpath(".gitignore").write_text(chance.choice(["new*\n", "*.d/\n", "", "s/\n"]))
    elif act == 3:
        place.joinpath("x.d", "deep").mkdir(parents=True, exist_ok=True)
        place.joinpath("x.d", "deep", "file").write_text(str(chance.random()))
    else:
        name = place / chance.choice(["file", "new1", "new2"])
        if not name.is_dir():
            name.write_text(str(chance.random()))


@pytest.mark.parametrize("seed", range(3))
def test_every_save_is_what_git_sees(
    project_: Project, seed: int, compared: list[frozenset[bytes] | None]
) -> None:
    """Beside random edits, renames, and changes of ignore rules, watched by `gitcp watch`, which is
    ended and begun again: each checkpoint has the tree that `git add --all` makes.
    """
    chance = random.Random(seed)
    watch = watcher(open_store(project_).repo, 1000, lambda: (), Stop())
    for _ in range(12):
        for _ in range(chance.randrange(1, 6)):
            edit(project_.root, chance)
        if chance.random() < 0.1:
            watch.close()
            watch = watcher(open_store(project_).repo, 1000, lambda: (), Stop())
        assert str(saved(project_).taken.snapshot.tree) == git_tree(project_)
    watch.close()
    assert any(only is not None for only in compared)
    assert known(project_).missed is None


# ---------------------------------------------------------------- the first stage


def test_first_stage(project_: Project, fake: Fake) -> None:
    """`gitcp save` that finds nothing new asks, and remembers what it was told."""
    for _ in range(3):
        project_.gitcp("save", "--session", "s")
    assert "nothing changed" in project_.gitcp("save", "--session", "s").out
    part = known(project_).part
    look = Look(os.fsencode(project_.root), str(project_.git_dir / "gitcp/worktree-state"))
    watched.begin(look)
    look.answer(None)  # nothing of it outlives the test
    assert look.only is not None
    fake.answer = b"fake:1:9\0d2\0"
    assert "nothing changed" in project_.gitcp("save", "--session", "s").out
    assert (known(project_).token, known(project_).part) == (b"fake:1:9", part + 1)
    project_.write("d2/new", "new\n")
    assert "1 file changed" in project_.gitcp("save", "--session", "s").out


def test_a_forged_address(project: Project, tmp_path: Path) -> None:
    """Nothing is written to a socket of the user's that a link in the git directory names, whatever
    is remembered.
    """
    project.write("a", "one\n")
    project.gitcp("save", "one", "--session", "s", check=0)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "agent"))
    listening.listen(5)
    listening.setblocking(False)
    path = str(project.git_dir / "gitcp" / watched.NAME)
    forged = Watched((1, 2, 3, 4, 5, 6), b"\nKILL\n").plain()
    Path(path).write_bytes(trusted_cache.sealed(path, forged))
    Path(path).chmod(0o600)
    project.git_dir.joinpath(watched.SOCKET).symlink_to(tmp_path / "agent")
    project.gitcp("status")
    project.gitcp("hook", "claude", "Stop", input="{}")

    with pytest.raises(BlockingIOError):
        listening.accept()
    listening.close()
