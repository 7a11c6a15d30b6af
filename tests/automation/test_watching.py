"""The journal that `gitcp watch` keeps: no change without its directory in the next answer, and no
claim about what it cannot know.
"""

from __future__ import annotations

import ctypes
import errno
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitcp.automation.watching import inotify
from gitcp.automation.watching.journal import Journal, MountEvents
from gitcp.automation.watching.watcher import WatchServer
from gitcp.fastpath import mounts, watch_ipc, watched

if sys.platform != "linux":
    pytest.skip("the journal is for Linux", allow_module_level=True)


AT_CWD, EXCHANGE = -100, 2


class Watch:
    """A journal of a directory and its server; directories named `ignored` are not entered."""

    def __init__(self, root: Path, own: Path | None = None) -> None:
        self.root = root
        self.own = own or root.joinpath(".git", "gitcp")
        self.own.mkdir(parents=True, exist_ok=True)
        self.told: list[object] = []
        self.journal = Journal(os.fsencode(root), self.enters, [os.fsencode(self.own)])
        self.address = str(self.own / "watch.ipc")
        self.server = WatchServer(self.journal, str(self.own), self.address, self.told.append)
        self.token = b""
        self.since()

    def enters(self, paths: list[bytes]) -> list[bytes]:
        return [path for path in paths if os.path.basename(path) != b"ignored"]

    def ask(self, token: bytes) -> list[bytes] | None:
        """What may have changed since a token, None for everything."""
        answer = watched.parse(watch_ipc.ask(self.address, token))
        assert answer is not None
        self.token = answer.token
        return answer.paths

    def since(self) -> list[bytes] | None:
        """What may have changed since the last time."""
        return self.ask(self.token or watched.NO_TOKEN)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with three levels."""
    root = tmp_path / "root"
    root.joinpath("a/b/c").mkdir(parents=True)
    root.joinpath("other").mkdir()
    return root


@pytest.fixture
def watch(root: Path) -> Iterator[Watch]:
    """It is watched."""
    watch = Watch(root)
    yield watch
    watch.server.close()


def test_what_changed(watch: Watch) -> None:
    """A file that is written, made, removed, or gets other permissions; each directory once, and
    only until the next token.
    """
    assert watch.since() == []
    path = watch.root / "a/b/file"
    path.write_text("one")
    path.write_text("two")
    assert watch.since() == [b"a/b"]
    assert watch.since() == []
    path.chmod(0o755)
    assert watch.since() == [b"a/b"]
    path.unlink()
    watch.root.joinpath("top").write_text("one")
    assert watch.since() == [b"", b"a/b"]


def test_renamed_directory(watch: Watch) -> None:
    """What is edited two levels below a renamed directory is told by its new name."""
    os.rename(watch.root / "a", watch.root / "z")
    paths = watch.since()
    assert paths is not None
    assert {b"", b"z", b"z/b", b"z/b/c"} == {*paths}
    watch.root.joinpath("z/b/c/file").write_text("one")

    assert watch.since() == [b"z/b/c"]


def exchange(one: Path, other: Path) -> None:
    """Exchange two names at once, as `mv --exchange` does."""
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.renameat2(AT_CWD, os.fsencode(one), AT_CWD, os.fsencode(other), EXCHANGE)
    assert done == 0, os.strerror(ctypes.get_errno())


def test_exchanged_directories(watch: Watch) -> None:
    """Two directories that are exchanged are both watched afterwards, with those below them."""
    watch.root.joinpath("other/deep").mkdir()
    watch.since()
    exchange(watch.root / "a", watch.root / "other")
    paths = {*(watch.since() or ())}
    assert {b"", b"a", b"a/deep", b"other", b"other/b", b"other/b/c"} == paths
    watch.root.joinpath("a/deep/file").write_text("one")
    watch.root.joinpath("other/b/c/file").write_text("one")
    assert {*(watch.since() or ())} == {b"a/deep", b"other/b/c"}


@pytest.mark.parametrize("first", ["directory", "other"])
@pytest.mark.parametrize("is_link", [True, False])
def test_exchanged_with_a_file(watch: Watch, first: str, *, is_link: bool) -> None:
    """A directory and a file or a link, each in the place of the other; and back."""
    place, file = watch.root / "a", watch.root / "file"
    if is_link:
        file.symlink_to("other")
    else:
        file.write_text("one")
    pair = (place, file) if first == "directory" else (file, place)
    watch.since()
    for where in (file, place):
        exchange(*pair)
        assert watch.since() is not None
        where.joinpath("b/c/file").write_text(str(where))
        assert watch.since() == [f"{where.name}/b/c".encode()]


def test_moved_away_and_another_in_its_place(watch: Watch) -> None:
    """All before anybody has read an event: what an event says is gone is there."""
    outside = watch.root.with_name("outside")
    outside.joinpath("deep").mkdir(parents=True)
    with watch.server._lock:
        watch.root.joinpath("a").rename(watch.root.with_name("away"))
        outside.rename(watch.root / "a")
        watch.root.joinpath("a").rename(watch.root / "z")
        watch.root.with_name("away").rename(watch.root / "a")
    watch.since()
    watch.root.joinpath("a/b/c/file").write_text("one")
    watch.root.joinpath("z/deep/file").write_text("one")
    assert {*(watch.since() or ())} == {b"a/b/c", b"z/deep"}


def test_another_root(tmp_path: Path) -> None:
    """Another directory where the root was, also if a directory above is another one; while there
    is none, nothing is claimed.
    """
    root, own = tmp_path / "above" / "root", tmp_path / "own"
    root.joinpath("a").mkdir(parents=True)
    shutil.copytree(tmp_path / "above", tmp_path / "copy")
    watch = Watch(root, own)
    assert watch.since() == []
    tmp_path.joinpath("above").rename(tmp_path / "away")
    assert watch.since() is None
    tmp_path.joinpath("away/root/made").mkdir()
    assert watch.since() is None
    tmp_path.joinpath("away").rename(tmp_path / "above")
    assert watch.since() is None
    root.joinpath("made/file").write_text("one")
    assert watch.since() == [b"made"]
    for pair in [(root.parent, tmp_path / "copy"), (root, tmp_path / "copy" / "root")]:
        exchange(*pair)
        assert watch.since() is None
        root.joinpath("a/file").write_text(str(pair))
        assert watch.since() == [b"a"]
    watch.server.close()


def test_mounts(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is mounted inside is not watched, a file neither; after each mount nothing is known."""
    table: set[bytes] = set()
    happened: list[bool] = []
    monkeypatch.setattr(mounts, "below", lambda _: frozenset(table))
    monkeypatch.setattr(MountEvents, "happened", lambda _: bool(happened and happened.pop()))
    table |= {b"a/b", b"other/file"}
    assert watch.since() == []
    happened.append(True)
    assert watch.since() is None
    watch.root.joinpath("a/b/c/file").write_text("one")
    assert {*(watch.since() or ())} == {b"a/b/", b"other/file/"}
    happened.append(True)
    assert watch.since() is not None
    table.clear()
    assert watch.since() is None
    watch.root.joinpath("a/b/c/file").write_text("two")
    assert watch.since() == [b"a/b/c"]


def test_mounted_for_a_moment(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mount that came and went while new directories were looked at: another directory than the
    one that is there may be watched.
    """
    happened = [True]
    monkeypatch.setattr(MountEvents, "happened", lambda _: bool(happened and happened.pop()))
    assert watch.since() == []

    def enters(paths: list[bytes]) -> list[bytes]:
        happened.extend([True] * (paths == [b"a/new"]))
        return paths

    monkeypatch.setattr(watch.journal, "_enters", enters)
    size = watch.journal.size
    watch.root.joinpath("a/new").mkdir()
    until = time.monotonic() + 20
    while watch.journal.size == size and time.monotonic() < until:
        time.sleep(0.01)
    assert watch.since() is None


def test_no_table_of_mounts(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where mounts cannot be known, nothing is claimed."""
    monkeypatch.setattr(mounts, "TABLE", "/proc/self/missing")
    watch = Watch(root)
    assert watch.since() is None
    assert watch.since() is None
    watch.server.close()


MOUNTING = """
import os, subprocess, sys
sys.path[:0] = sys.argv[1].split(os.pathsep)
from pathlib import Path
from automation.test_watching import Watch
root = Path(sys.argv[2])
outside = root.with_name("outside")
outside.joinpath("deep").mkdir(parents=True)
watch = Watch(root)
assert watch.since() == []
subprocess.run(["mount", "--bind", outside, root / "a"], check=True)
assert watch.since() is None
outside.joinpath("deep", "file").write_text("one")
assert watch.since() == [b"a/"]
subprocess.run(["umount", root / "a"], check=True)
assert watch.since() is None
root.joinpath("a/b/file").write_text("one")
assert watch.since() == [b"a/b"]
watch.server.close()
"""


def test_bind_mount(root: Path) -> None:
    """A real mount, where this user may make one, in a namespace of its own."""
    alone = ["unshare", "--map-root-user", "--mount", "--propagation", "private"]
    if subprocess.run([*alone, "mount", "-t", "tmpfs", "none", root], check=False).returncode != 0:
        pytest.skip("this user may not mount, not even in a namespace of its own")
    command = [*alone, sys.executable, "-c", MOUNTING, os.pathsep.join(sys.path), str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_new_directories(watch: Watch) -> None:
    """Directories that come, with what is already in them, and below them; moved in or made."""
    outside = watch.root.with_name("outside")
    outside.joinpath("deep/er").mkdir(parents=True)
    outside.rename(watch.root / "in")
    watch.root.joinpath("made/at/once").mkdir(parents=True)
    assert {*(watch.since() or ())} == {
        b"",
        b"in",
        b"in/deep",
        b"in/deep/er",
        b"made",
        b"made/at",
        b"made/at/once",
    }
    watch.root.joinpath("in/deep/er/file").write_text("one")
    watch.root.joinpath("made/at/once/file").write_text("one")
    assert {*(watch.since() or ())} == {b"in/deep/er", b"made/at/once"}


@pytest.mark.parametrize("below", ["", "new/"])
def test_new_link(watch: Watch, below: str) -> None:
    """A new name of a file: it may have changed where its other names are, also once the new one is
    gone.
    """
    file, link = watch.root / "a/b/file", watch.root / f"a/{below}link"
    file.write_text("one\n")
    assert watch.since() is not None
    link.parent.mkdir(exist_ok=True)
    link.hardlink_to(file)
    assert watch.since() is None
    link.write_text("two\n")
    link.unlink()
    assert watch.since() == [b"a" if not below else b"a/new"]


def test_ignored_directories(watch: Watch) -> None:
    """What is not watched is in every answer, with all below it; nothing is said otherwise."""
    watch.root.joinpath("other/ignored/below").mkdir(parents=True)
    assert {*(watch.since() or ())} == {b"other", b"other/ignored/"}
    watch.root.joinpath("other/ignored/below/file").write_text("one")
    assert watch.since() == [b"other/ignored/"]
    shutil.rmtree(watch.root / "other/ignored")
    assert watch.since() == [b"other"]


def test_unreadable_directory(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that cannot be watched is in every answer; once it can, it is watched."""
    add = inotify.Inotify.add

    def refuse(queue: inotify.Inotify, path: bytes) -> int:
        if path.endswith(b"/closed"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return add(queue, path)

    monkeypatch.setattr(inotify.Inotify, "add", refuse)
    watch.root.joinpath("a").rename(watch.root / "closed")
    assert b"closed/" in (watch.since() or ())
    assert watch.since() == [b"closed/"]
    monkeypatch.setattr(inotify.Inotify, "add", add)
    watch.root.joinpath("closed").chmod(0o755)
    assert b"closed/" not in (watch.since() or ())
    watch.root.joinpath("closed/b/file").write_text("one")
    assert watch.since() == [b"closed/b"]


def test_another_token(watch: Watch) -> None:
    """A token of nobody, of another process, or of the future: everything."""
    name = watch.token.rpartition(b":")[0]
    for token in (watched.NO_TOKEN, b"gitcp:0123:1", name + b":999999", name + b":x", b"", name):
        assert watch.ask(token) is None
        assert watch.since() == []


def test_lost_events(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the system drops events, older tokens are worth nothing; then it goes on."""
    before = watch.token
    limit = int(Path(inotify.LIMITS, "max_queued_events").read_text())
    read, queue = inotify.Inotify.read, watch.journal._queue
    monkeypatch.setattr(inotify.Inotify, "read", lambda self: [] if self is queue else read(self))
    for number in range(limit // 2 + 2):
        watch.root.joinpath(f"a/{number % 2}").touch()
        watch.root.joinpath(f"other/{number % 2}").touch()
    monkeypatch.setattr(inotify.Inotify, "read", read)
    assert watch.ask(before) is None
    assert watch.token.rpartition(b":")[0] != before.rpartition(b":")[0]
    watch.root.joinpath("a/b/file").write_text("one")
    assert watch.since() == [b"a/b"]


def test_another_file_system(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a file system that others may change, nothing is claimed."""
    monkeypatch.setattr(inotify, "is_trusted", lambda _: False)
    watch = Watch(root)
    assert watch.since() is None
    assert watch.since() is None
    watch.server.close()


def test_too_many(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the system's limit it is an error."""

    def add(_: inotify.Inotify, path: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(inotify.Inotify, "add", add)
    with pytest.raises(OSError, match="No space left"):
        Watch(root)


def test_no_cookie(watch: Watch) -> None:
    """If the event of a new file does not come, the answer is worth nothing."""
    shutil.rmtree(watch.own)
    assert watched.parse(watch_ipc.ask(watch.address, watch.token)) is None
    watch.own.mkdir()
    assert watched.parse(watch_ipc.ask(watch.address, watch.token)) is None


def test_who_asks(watch: Watch) -> None:
    """Nonsense, and clients that say nothing, do not end it."""
    for nonsense in (b"", b"zzzz", b"0001", b"0009hello"):
        connection = watch_ipc.connect(watch.address, 1)
        connection.sendall(nonsense)
        connection.close()
    assert watch.since() == []


def test_long_path(tmp_path: Path) -> None:
    """The address of a socket has at most 107 bytes, a path more."""
    root = tmp_path.joinpath("x" * 100, "y" * 100)
    root.mkdir(parents=True)
    watch = Watch(root)
    assert watch.since() == []
    watch.server.close()
    assert os.listdir(watch.own) == []
    assert watch_ipc.ask(watch.address, b"x") is None


def test_another_user(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of another user is not believed."""
    monkeypatch.setattr(watch_ipc, "owner", lambda _: (1, os.geteuid() + 1))
    assert watch_ipc.ask(watch.address, watch.token) is None


def test_other_mounts(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is one that may see other directories by the same paths, as out of a sandbox."""
    monkeypatch.setattr(watch_ipc, "MOUNTS", "/proc/%s/ns/missing")
    assert watch_ipc.ask(watch.address, watch.token) is None
    monkeypatch.setattr(watch_ipc, "MOUNTS", "/proc/%s/exe")  # of another process
    monkeypatch.setattr(watch_ipc, "owner", lambda _: (os.getppid(), os.geteuid()))
    monkeypatch.setattr(os, "readlink", lambda path: path)
    assert watch_ipc.ask(watch.address, watch.token) is None


def listed(root: Path) -> dict[bytes, object]:
    """Each directory with all that a look would see of it."""
    directories: dict[bytes, object] = {}
    for path, _, names in os.walk(os.fsencode(root)):
        relative = os.path.relpath(path, os.fsencode(root))
        if relative.split(b"/")[0] != b".git":
            status = os.lstat(path)
            files = [(name, os.lstat(os.path.join(path, name)).st_ctime_ns) for name in names]
            seen = (status.st_ino, status.st_ctime_ns, sorted(files))
            directories[b"" if relative == b"." else relative] = seen
    return directories


@pytest.mark.parametrize("seed", range(6))
def test_against_a_look(watch: Watch, seed: int) -> None:
    """Random edits, renames and removals of trees, some by another process at the same time: each
    directory in which a look sees a difference is in the answer, or below one that is.
    """
    chance = random.Random(seed)
    before = listed(watch.root)
    for _ in range(25):
        for _ in range(chance.randrange(1, 12)):
            change(watch.root, chance)
        answer = watch.since()
        after = listed(watch.root)
        assert answer is not None
        shallow, deep = watched.directories(answer)
        changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
        assert not {
            path
            for path in changed
            if path in after
            and path not in shallow
            and not any((path + b"/").startswith(top + b"/") for top in deep)
        }
        before = after


def change(root: Path, chance: random.Random) -> None:
    """Do one of what may happen to a directory tree."""
    directories = [path for path in root.rglob("*") if path.is_dir() and ".git" not in path.parts]
    place = chance.choice([root, *directories])
    name = place / chance.choice(["one", "two", "three"])
    act = chance.randrange(6)
    if act == 0 and place != root:
        shutil.rmtree(place)
    elif act == 1 and place != root and not name.is_relative_to(place / "x"):
        target = chance.choice([root, *directories]) / f"moved{chance.randrange(4)}"
        if not target.is_relative_to(place) and not target.exists():
            place.rename(target)
    elif act == 2:
        name.with_name(name.name + ".d").joinpath("deep/er").mkdir(parents=True, exist_ok=True)
    elif act == 3:
        subprocess.run(["sh", "-c", 'mkdir -p "$0/by/another" && echo 1 >"$0/by/f"', place])
    elif not name.is_dir():
        name.write_text(str(chance.random()))
