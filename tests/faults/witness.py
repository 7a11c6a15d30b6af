"""An independent witness: what lies on the disk, what git says must be saved, and what a checkpoint
holds.

It shares nothing with gitcp, nor with the other tests' models of it. Files are walked and read;
which of them git would add is asked of git; checkpoints are read with plain git and with
docs/format.md.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import stat
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

KINDS = {stat.S_IFREG: "file", stat.S_IFLNK: "link", stat.S_IFDIR: "directory"}
RESERVED = b".gitcp"
UNFINISHED = re.compile(rb"(.*/)?\.gitcp-tmp-[0-9a-f]{16}", re.DOTALL)
"""What a restore that was killed leaves until it is continued or aborted."""

FILES = ("file", "link")
OBJECT = b"%s %d\0%s"


class Item(NamedTuple):
    """One name in a working tree: what it is, its permission bits, its bytes (of a link, where it
    points).
    """

    kind: str
    mode: int
    data: bytes


class Disk(NamedTuple):
    """Everything below a directory; and of each name its inode and when it was last written to."""

    items: dict[bytes, Item]
    stamps: dict[bytes, tuple[int, int]]


class Visible(NamedTuple):
    """What git says: the files that a checkpoint must have, tracked ones that are ignored, empty
    directories.
    """

    wanted: frozenset[bytes]
    tracked: frozenset[bytes]
    ignored: frozenset[bytes]
    hollow: frozenset[bytes]


class Seen(NamedTuple):
    """A working tree at one moment, and the umask of the user who works there."""

    disk: Disk
    visible: Visible
    umask: int


class Commit(NamedTuple):
    """One checkpoint, as `git log` lists it."""

    id: str
    commit: str
    tree: str
    trigger: str


class Stored(NamedTuple):
    """What plain git reads of a checkpoint: its entries (mode, blob), its metadata, the streams of
    its conversation.
    """

    entries: dict[bytes, tuple[str, str]]
    meta: dict[str, Any]
    talk: dict[str, bytes]


def look(root: Path) -> Disk:
    """Everything below `root`, without the repository's own `.git`."""
    seen = Disk({}, {})
    _look(os.fsencode(root), b"", seen)
    return seen


def _look(root: bytes, below: bytes, seen: Disk) -> None:
    for name in os.listdir(os.path.join(root, below)):
        path = os.path.join(below, name)
        if path == b".git":
            continue
        full = os.path.join(root, path)
        status = os.lstat(full)
        kind = KINDS.get(stat.S_IFMT(status.st_mode), "other")
        mode = 0 if kind == "link" else stat.S_IMODE(status.st_mode)
        seen.items[path] = Item(kind, mode, _bytes(full, kind))
        seen.stamps[path] = status.st_ino, status.st_mtime_ns
        if kind == "directory":
            _look(root, path, seen)


def _bytes(full: bytes, kind: str) -> bytes:
    if kind == "link":
        return os.readlink(full)
    if kind != "file":
        return b""
    with open(full, "rb") as file:
        return file.read()


class Git:
    """Plain git in one working tree, with the settings of the user whose home this is."""

    def __init__(self, root: Path, home: Path) -> None:
        self.root = root
        safe = {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
        }
        self.env = {
            **os.environ,
            **safe,
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / ".config"),
            "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
            "GIT_OPTIONAL_LOCKS": "0",
        }

    def run(self, *args: str | bytes, input: bytes = b"", codes: Sequence[int] = (0,)) -> bytes:
        """What git prints. Anything but one of `codes` is a fault."""
        done = subprocess.run(
            ["git", *args], cwd=self.root, env=self.env, input=input, capture_output=True
        )
        assert done.returncode in codes, f"git {args!r}: {done.returncode} {done.stderr!r}"
        return done.stdout

    def visible(self, disk: Disk) -> Visible:
        """What a checkpoint of this disk must hold."""
        tracked = names(self.run("ls-files", "-z", "--cached"))
        others = names(self.run("ls-files", "-z", "--others", "--exclude-standard"))
        there = {
            path
            for path, item in disk.items.items()
            if item.kind in FILES and not UNFINISHED.fullmatch(path)
        }
        wanted = frozenset(
            path for path in (tracked | others) & there if path.split(b"/")[0] != RESERVED
        )
        ignored = names(self.run("ls-files", "-z", "--cached", "--ignored", "--exclude-standard"))
        return Visible(wanted, tracked, ignored & there, self._hollow(disk, wanted))

    def _hollow(self, disk: Disk, wanted: Collection[bytes]) -> frozenset[bytes]:
        """The innermost directories without anything that is saved; ignored ones are not looked
        into.
        """
        directories = {path for path, item in disk.items.items() if item.kind == "directory"} - {
            RESERVED
        }
        plain = directories - above(wanted)
        plain -= self.ignored(plain)
        return frozenset(plain - above(plain))

    def ignored(self, paths: Iterable[bytes]) -> frozenset[bytes]:
        """Those of `paths` that git would ignore, tracked or not; a directory must be there."""
        given = b"".join(path + b"\0" for path in paths)
        if not given:
            return frozenset()
        said = self.run("check-ignore", "--no-index", "-z", "--stdin", input=given, codes=(0, 1))
        return names(said)

    def refs(self) -> dict[str, str]:
        """Every ref, and what it names."""
        listed = self.run("for-each-ref", "--format=%(refname) %(objectname)").decode().splitlines()
        return dict(line.split(" ") for line in listed)

    def history(self, tips: Iterable[str]) -> dict[str, Commit]:
        """Every checkpoint that one of `tips` reaches, by its id."""
        given = "".join(f"{tip}\n" for tip in tips).encode()
        if not given:
            return {}
        words = (
            f"%(trailers:key=Gitcp-{name},valueonly,separator=%x2c)"
            for name in ("Session", "Number", "Trigger")
        )
        form = "%x1f".join(("%H", "%T", *words))
        found: dict[str, Commit] = {}
        for line in (
            self.run("log", "--stdin", f"--format={form}", input=given).decode().splitlines()
        ):
            commit, tree, session, number, trigger = line.split("\x1f")
            id = f"{session}@{number}"
            assert found.setdefault(id, Commit(id, commit, tree, trigger)).tree == tree, (
                f"two checkpoints are {id}"
            )
        return found

    def read(self, commit: str) -> Stored:
        """A checkpoint, by plain git."""
        entries: dict[bytes, tuple[str, str]] = {}
        ours: dict[bytes, tuple[str, str]] = {}
        for row in self.run("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]:
            about, _, path = row.partition(b"\t")
            mode, _, oid = about.decode().split(" ")
            (ours if path.split(b"/")[0] == RESERVED else entries)[path] = (mode, oid)
        blobs = self.blobs([oid for _, oid in ours.values()])
        meta = json.loads(blobs[ours[b".gitcp/checkpoint.json"][1]])
        talk = {stream["name"]: b"" for stream in meta.get("conversation", {}).get("streams", ())}
        for path in sorted(ours):
            for name in talk:
                if path.startswith(b".gitcp/conversation/%s/" % name.encode()) and re.search(
                    rb"/[abc]/", path
                ):
                    talk[name] += blobs[ours[path][1]]
        for stream in meta.get("conversation", {}).get("streams", ()):
            data = talk[stream["name"]]
            assert (len(data), hashlib.sha256(data).hexdigest()) == (
                stream["bytes"],
                stream["sha256"],
            ), stream
        return Stored(entries, meta, talk)

    def blobs(self, oids: Sequence[str]) -> dict[str, bytes]:
        """The bytes of blobs."""
        said = self.run("cat-file", "--batch", input="".join(f"{oid}\n" for oid in oids).encode())
        found, at = {}, 0
        for oid in oids:
            head, _, _ = said[at:].partition(b"\n")
            assert head.split()[:2] == [oid.encode(), b"blob"], head
            start = at + len(head) + 1
            at = start + int(head.split()[2]) + 1
            found[oid] = said[start : at - 1]
        return found

    def fsck(self) -> None:
        """Nothing is missing, nothing is damaged."""
        said = self.run("fsck", "--strict", "--no-dangling", "--no-progress")
        assert not said, said


def names(listed: bytes) -> frozenset[bytes]:
    """The paths of a list that ends each with NUL."""
    return frozenset(listed.split(b"\0")[:-1])


def blob(data: bytes) -> str:
    """git's name for a blob."""
    return hashlib.sha1(OBJECT % (b"blob", len(data), data)).hexdigest()


def above(paths: Iterable[bytes]) -> set[bytes]:
    """Every directory above one of these paths."""
    return {parent for path in paths for parent in parents(path)}


def parents(path: bytes) -> list[bytes]:
    """The directories above a path, the nearest first."""
    found = []
    while path := os.path.dirname(path):
        found.append(path)
    return found


def path_of(given: object) -> bytes:
    """A path as JSON has it."""
    if isinstance(given, dict):
        return base64.b64decode(given["base64"])
    assert isinstance(given, str), given
    return given.encode()


def owned(git_dir: Path) -> dict[str, bytes]:
    """Everything of git's that is not gitcp's: HEAD, indexes, config, reflogs, locks, other
    refs.
    """
    found = {}
    for directory, below, there in os.walk(git_dir):
        place = Path(directory).relative_to(git_dir)
        below[:] = [name for name in below if not _is_gitcps(place / name)]
        for name in there:
            if not _is_gitcps(place / name):
                found[str(place / name)] = Path(directory, name).read_bytes()
    packed = found.pop("packed-refs", b"").splitlines()
    found["packed"] = b"\n".join(
        line for line in packed if b" refs/gitcp/" not in line and line[:1] not in b"#^"
    )
    return found


def _is_gitcps(place: Path) -> bool:
    parts = place.parts
    if parts[0] == "worktrees":
        parts = parts[2:]
    return (
        parts[:1] in {("objects",), ("gitcp",)}
        or parts[:2] == ("refs", "gitcp")
        or parts[:3]
        == (
            "logs",
            "refs",
            "gitcp",
        )
    )


def talks(home: Path) -> dict[str, bytes]:
    """Every transcript that an agent keeps in this home."""
    return {
        str(path): path.read_bytes() for path in (home / ".claude").rglob("*") if path.is_file()
    }


def differing(old: Mapping[bytes, Item], new: Mapping[bytes, Item]) -> set[bytes]:
    """The paths that are not the same in both."""
    return {path for path in old.keys() | new.keys() if old.get(path) != new.get(path)}
