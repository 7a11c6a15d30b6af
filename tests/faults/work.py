"""What people do in a repository between two runs of gitcp: edits, ignore rules, their own git, an
agent that talks.

All of it follows from one seed. Each step is written down, to be done again by hand.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from faults import witness
from faults.witness import Git, Seen

LIMIT = 20_000
"""gitcp.maxFileSize, in bytes."""

GROUP = 1003
MEMBERS = (1001, 1002)
"""Two users of the system, and the group that owns what they share."""

UMASKS = (0o002, 0o022, 0o027, 0o077)
PATHS = (
    *(
        b"a",
        b"b.txt",
        b"c",
        b"-rf",
        b"\xc3\xbc \n",
        b"\xff",
        b"sp ace/q u",
        b"x.log",
        b".env",
        b"#x",
    ),
    *(
        b"d/e",
        b"d/f",
        b"d/g",
        b"d/g/h",
        b"d/g/i/j",
        b"d/x.log",
        b"d/g/x.log",
        b"d/b.txt",
        b"e",
        b"e/k",
        b"e/k/z",
    ),
    *(
        b"build/out.o",
        b"build/keep.txt",
        b"build/deep/k",
        b"logs/1",
        b"logs/x.log",
        b"gitcp/x",
        b".gitcp-tmp-1",
    ),
    *(b"sub/main.py", b"sub/data.bin", b"sub/pkg/data.bin", b"sub/pkg/k", b"sub/x.log"),
)
RULE_FILES = (b".gitignore", b".gitignore", b"d/.gitignore", b"sub/.gitignore", b"build/.gitignore")
RULES = (
    *(
        "*.log",
        "!x.log",
        "build/",
        "build/*",
        "!build/keep.txt",
        "/e",
        "e/",
        "d/*",
        "!d/e",
        "!d/g",
        "*.o",
        ".env",
        "k",
    ),
    *(
        "sub/**/data.*",
        "**/k",
        "\\#x",
        "# nothing",
        "?",
        "!?",
        "logs",
        "/d/g/",
        "x.*",
        "*",
        "!*/",
        "!*.txt",
        "sp ace",
    ),
    "\\-rf",
)
CONTENTS = (
    b"",
    b"one\n",
    b"two\n",
    b"one\r\ntwo\r\n",
    b"\0\xff",
    b"no end",
    b"#!/bin/sh\n",
    b"long\n" * 999,
)
MODES = (0o644, 0o644, 0o644, 0o755, 0o600, 0o640, 0o444, 0o700, 0o664, 0o775)
TARGETS = (b"a", b"d/e", b"nowhere", b"..", b"/etc/passwd", b"d")
EDITS = {
    "write": 30,
    "append": 8,
    "remove": 12,
    "chmod": 6,
    "rename": 6,
    "ignore": 14,
    "link": 6,
    "directory": 7,
    "large": 2,
}
GITS = (
    *(
        "add --all",
        "add --all",
        "add --force -- PATH",
        "add --force -- PATH",
        "add --intent-to-add -- PATH",
    ),
    *(
        "rm -r --cached --quiet -- PATH",
        "commit --quiet --all --message more",
        "reset --quiet",
        "status --short",
    ),
    *(
        "commit --quiet --all --allow-empty --message more",
        "update-index --assume-unchanged -- PATH",
    ),
    *("switch --quiet --create NEW", "switch --quiet main", "switch --quiet -"),
    *("stash --quiet", "stash --quiet --include-untracked", "stash pop --quiet"),
    *(
        "gc --quiet --prune=now",
        "gc --quiet --prune=now",
        "repack -a -d --quiet",
        "pack-refs --all",
    ),
    *("prune --expire=now", "reflog expire --expire=now --all"),
)


TIDYING = frozenset(("gc", "repack", "pack-refs", "prune"))
"""What any member does, in whichever working tree."""


class User(NamedTuple):
    """Somebody who works here: who (None: whoever runs this), with which umask, and where the home
    is.
    """

    number: int | None
    umask: int
    home: Path

    def become(self) -> None:
        """Let this process be that user's for good."""
        os.umask(self.umask)
        if self.number is not None:
            os.setgroups([GROUP])
            os.setresgid(self.number, self.number, self.number)
            os.setresuid(self.number, self.number, self.number)

    @contextmanager
    def acting(self) -> Iterator[None]:
        """For a moment, what is made is that user's."""
        mask, groups = os.umask(self.umask), os.getgroups()
        if self.number is not None:
            os.setgroups([GROUP])
            os.setegid(self.number)
            os.seteuid(self.number)
        try:
            yield
        finally:
            os.umask(mask)
            if self.number is not None:
                os.seteuid(0)
                os.setegid(0)
                os.setgroups(groups)

    @property
    def env(self) -> dict[str, str]:
        """Where the settings are."""
        config = {
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "GIT_CONFIG_GLOBAL": str(self.home / ".gitconfig"),
        }
        return {"HOME": str(self.home), **config}


class Tree:
    """A working tree, whose it is, and what its `undo` and `redo` go to: each with its kind."""

    def __init__(self, root: Path, user: User) -> None:
        self.root, self.user = root, user
        self.git = Git(root, user.home)
        self.done: list[tuple[str, Any]] = []
        self.undone: list[tuple[str, Any]] = []
        self.is_known = True
        """Whether these are all. A kill may have come before or after what it interrupted was
        noted.
        """

    def look(self) -> Seen:
        """What is there."""
        disk = witness.look(self.root)
        return Seen(disk, self.git.visible(disk), self.user.umask)

    def full(self, path: bytes) -> bytes:
        """Where a path is."""
        return os.path.join(os.fsencode(self.root), path)

    def directory(self, name: str) -> Path:
        """A directory of this name, else the root."""
        place = self.root / name
        return place if place.is_dir() and not place.is_symlink() else self.root

    def reachable(self, path: bytes) -> bool:
        """Whether something is there, and no link leads to it."""
        links = any(os.path.islink(self.full(place)) for place in witness.parents(path))
        return os.path.lexists(self.full(path)) and not links


class Agent:
    """A session of Claude Code in a directory: a transcript that grows."""

    def __init__(self, user: User, cwd: Path, id: str) -> None:
        self.user, self.cwd, self.id = user, cwd, id
        slug = re.sub(r"[^A-Za-z0-9]", "-", str(cwd))
        self.path = user.home / ".claude/projects" / slug / f"{id}.jsonl"
        self.count = 0

    @property
    def env(self) -> dict[str, str]:
        """What its commands are started with."""
        return {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": self.id}

    def say(self, *, torn: bool) -> None:
        """A prompt and an answer; perhaps one that is being written."""
        lines = self._turn() + self._turn()
        with self.user.acting():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            old = self.path.read_bytes() if self.path.exists() else b""
            with self.path.open("ab") as file:
                file.write(
                    b"\n" * (not old.endswith(b"\n") and bool(old))
                    + (lines[:-9] if torn else lines)
                )

    def _turn(self) -> bytes:
        self.count += 1
        role = "user" if self.count % 2 else "assistant"
        text = f"turn {self.count} " + "ü" * (self.count % 7)
        turn = {
            "type": role,
            "uuid": f"{self.id[:8]}-{self.count}",
            "timestamp": f"2026-11-02T09:{self.count % 60:02d}:00Z",
            "cwd": str(self.cwd),
            "sessionId": self.id,
            "version": "2.1.0",
            "message": {
                "role": role,
                "content": text if role == "user" else [{"type": "text", "text": text}],
            },
        }
        return json.dumps(turn).encode() + b"\n"


class Work:
    """One repository with its users, working trees and agents; `ends` counts what was done."""

    def __init__(self, place: Path, seed: int, *, shared: bool) -> None:
        self.chance = random.Random(seed)
        self.place, self.shared = place, shared
        self.ends: Counter[str] = Counter()
        self.steps: list[str] = []
        self.agents: list[Agent] = []
        self.count = 0
        place.chmod(0o755)
        self.users = [self._user(number) for number in range(2 if shared else 1)]
        self.trees = [Tree(place / "p", self.users[0])]
        self._begin(self.trees[0])

    def did(self, tree: Tree, step: str) -> None:
        """Write down a step."""
        self.steps.append(f"[{tree.root.name}] {step}")

    def _user(self, number: int) -> User:
        home = self.place / f"home{number}"
        home.mkdir()
        settings = (
            f"[user]\n name = U{number}\n email = u@example.org\n[safe]\n directory = *\n"
            f"[core]\n excludesFile = {home}/excludes\n[gc]\n auto = 0\n writeCommitGraph = false\n"
        )
        home.joinpath(".gitconfig").write_text(settings)
        if not self.shared:
            return User(None, 0o022, home)
        for path in (home, home / ".gitconfig"):
            os.chown(path, MEMBERS[number], MEMBERS[number])
        return User(MEMBERS[number], self.chance.choice(UMASKS), home)

    def _begin(self, main: Tree) -> None:
        main.root.mkdir()
        beside = self.place / "trees"
        beside.mkdir()
        beside.chmod(0o777)
        if self.shared:
            os.chown(main.root, MEMBERS[0], GROUP)
            main.root.chmod(0o2775)
        self.sh(
            main,
            "git",
            "init",
            "--quiet",
            "--initial-branch=main",
            *["--shared=group"] * self.shared,
        )
        self.sh(main, "git", "config", "gitcp.maxFileSize", str(LIMIT))
        for path in (b"a", b"d/e", b"sub/main.py"):
            self.write(main, path, b"one\n")
        if self.chance.random() < 0.5:
            self.write(main, b".gitattributes", b"*.txt text eol=crlf\n")
        self.sh(main, "git", "add", "--all")
        self.sh(main, "git", "commit", "--quiet", "--message", "first")
        if self.shared:
            self.add_tree(self.users[1])

    def add_tree(self, user: User) -> None:
        """A linked working tree of this user's."""
        self.count += 1
        beside = Tree(self.place / f"trees/{self.count}", user)
        main = Tree(self.trees[0].root, user)
        if self.sh(main, "git", "worktree", "add", "--quiet", "--detach", str(beside.root)):
            self.trees.append(beside)

    def some_tree(self) -> Tree:
        """One of the working trees."""
        return self.chance.choice(self.trees)

    # ------------------------------------------------------------ files

    def sh(self, tree: Tree, *args: str | bytes, check: bool = True) -> bool:
        """The user types a command. Whether it went well."""
        user = tree.user
        self.did(tree, " ".join(repr(os.fsdecode(arg)) for arg in args))
        done = subprocess.run(
            [
                "setpriv",
                f"--reuid={user.number}",
                f"--regid={user.number}",
                f"--groups={GROUP}",
                *args,
            ]
            if user.number
            else args,
            cwd=tree.root,
            env={**os.environ, **user.env},
            capture_output=True,
            umask=user.umask,
        )
        assert not check or done.returncode == 0, (args, done)
        return done.returncode == 0

    def write(
        self, tree: Tree, path: bytes, data: bytes, mode: int | None = None, how: str = "wb"
    ) -> None:
        """The user writes a file."""
        full = tree.full(path)
        with tree.user.acting():
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, how) as file:
                file.write(data)
            if mode is not None:
                os.chmod(full, mode)
        self.did(tree, f"write {path!r} {len(data)} {data[:20]!r} {how} {mode and oct(mode)}")

    def remove(self, tree: Tree, path: bytes) -> None:
        """The user removes a file or a directory."""
        full = tree.full(path)
        with tree.user.acting():
            if os.path.isdir(full) and not os.path.islink(full):
                shutil.rmtree(full)
            else:
                os.unlink(full)
        self.did(tree, f"rm -r {path!r}")

    def clear(self, tree: Tree, path: bytes) -> None:
        """Make room for a file."""
        for place in (*reversed(witness.parents(path)), path):
            full = tree.full(place)
            if os.path.lexists(full) and (
                place == path or os.path.islink(full) or not os.path.isdir(full)
            ):
                self.remove(tree, place)

    def edit(self, tree: Tree) -> None:
        """One edit."""
        path = self.chance.choice(PATHS)
        how = self.chance.choices(list(EDITS), list(EDITS.values()))[0]
        with suppress(PermissionError):  # what is another user's, or read-only
            if how in {"write", "large", "link", "directory"}:
                self.clear(tree, path)
                self._make(tree, how, path)
            elif how == "ignore":
                self._ignore(tree)
            elif how == "rename":
                self._rename(tree, path, self.chance.choice(PATHS))
            elif tree.reachable(path):
                self._change(tree, how, path)
        self.ends[f"{how} (edit)"] += 1

    def _make(self, tree: Tree, how: str, path: bytes) -> None:
        full, chance = tree.full(path), self.chance
        if how == "write":
            data = chance.choice(CONTENTS) + b"%d\n" % chance.randrange(20) * chance.randrange(2)
            self.write(tree, path, data, chance.choice(MODES))
        elif how == "large":
            self.write(tree, path, b"%d" % chance.randrange(10, 99) * LIMIT)
        else:
            with tree.user.acting():
                os.makedirs(os.path.dirname(full), exist_ok=True)
                os.symlink(chance.choice(TARGETS), full) if how == "link" else os.mkdir(full)
            self.did(tree, f"{how} {path!r}")

    def _change(self, tree: Tree, how: str, path: bytes) -> None:
        full = tree.full(path)
        if how == "remove":
            self.remove(tree, path)
        elif os.path.isfile(full) and not os.path.islink(full):
            if how == "append":
                self.write(tree, path, b"more %d\n" % self.chance.randrange(99), how="ab")
            else:
                with tree.user.acting():
                    os.chmod(full, mode := self.chance.choice(MODES))
                self.did(tree, f"chmod {mode:o} {path!r}")

    def _rename(self, tree: Tree, path: bytes, other: bytes) -> None:
        if {path, other} & {*witness.parents(other), *witness.parents(path)} or path == other:
            return
        if tree.reachable(path):
            self.clear(tree, other)
        if tree.reachable(path):
            with tree.user.acting():
                os.makedirs(os.path.dirname(tree.full(other)), exist_ok=True)
                os.rename(tree.full(path), tree.full(other))
            self.did(tree, f"mv {path!r} {other!r}")

    def _ignore(self, tree: Tree) -> None:
        """Other ignore rules: in the tree, in the repository, or of the user."""
        lines = "".join(
            f"{self.chance.choice(RULES)}\n" for _ in range(self.chance.randrange(4))
        ).encode()
        where = self.chance.randrange(8)
        if where < 6:
            path = self.chance.choice(RULE_FILES)
            self.clear(tree, path)
            self.write(tree, path, lines)
        else:
            place = (
                self.trees[0].root / ".git/info/exclude"
                if where == 6
                else tree.user.home / "excludes"
            )
            place.write_bytes(lines)
            self.did(tree, f"rules {place} {lines!r}")

    def gits(self, tree: Tree) -> None:
        """The user's own git."""
        words: dict[str, str | bytes] = {"PATH": self.chance.choice(PATHS), "NEW": f"b{self.count}"}
        self.count += 1
        what = self.chance.choice(GITS)
        user = self.chance.choice(self.users) if what.split()[0] in TIDYING else tree.user
        if what.split()[0] in TIDYING and not self._sees_every_head(user):
            return  # git itself would lose what only a HEAD that this user may not read has
        self.sh(
            Tree(tree.root, user),
            "git",
            *(words.get(word, word) for word in what.split()),
            check=False,
        )
        self.ends[f"git {what.split()[0]}"] += 1

    def _sees_every_head(self, user: User) -> bool:
        """Whether the working trees of others are not private to them."""
        found = [path.stat() for path in (self.trees[0].root / ".git/worktrees").glob("*")]
        return user.number is None or all(
            s.st_uid == user.number or s.st_mode & 0o050 == 0o050 for s in found
        )

    def agent(self, tree: Tree) -> Agent:
        """An agent that works in this tree, perhaps in a directory of it."""
        here = [
            agent
            for agent in self.agents
            if agent.cwd.is_dir() and agent.cwd.is_relative_to(tree.root)
        ]
        if not here or (len(here) < 3 and self.chance.random() < 0.15):
            id = f"{self.chance.getrandbits(32):08x}-5d1c-4f0a-9b3e-{self.chance.getrandbits(48):012x}"  # noqa: E501
            here.append(Agent(tree.user, tree.directory(self.chance.choice(("", "", "sub"))), id))
            self.agents.append(here[-1])
        return self.chance.choice(here)
