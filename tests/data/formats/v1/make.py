"""Makes the test bundle of format 1: `checkpoints.bundle`, and `expected.json`, which says what is
in it.

Run once by whoever fixed the format, from the root of a checkout:

    PYTHONPATH=.:tests python tests/data/formats/v1/make.py

It is kept to show how the bundle came about. A bundle that was shipped is never made again: what
was written in format 1 stays as it was, and every later gitcp must read it.

What is expected is said from outside: files and streams as they lay on disk when they were saved.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from described import described, digest, plain

from gitcp import readme
from gitcp.adapters import claude_code
from gitcp.git import refs
from gitcp.git.repo import Repository
from gitcp.model import Checkpoint, CheckpointId, Handoff, Host, Note, Trigger
from gitcp.restoring import restore
from gitcp.saving.save import SaveRequest, save
from gitcp.state import tag
from gitcp.store import Store
from gitcp.value import replace
from gitcp.worktree.snapshot import Limits

from driver import Project

HERE = Path(__file__).parent
SESSION = "e7baae82-5d1c-4f0a-9b3e-2c6d8f1a7b90"
START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
LIMITS = Limits(max_untracked_file=1 << 10, include=("wanted.log",))
LEFT_OUT = (b".git/", b"vendor", b"pipe", b"large.bin", b"debug.log")
"""What lies in the working tree and in no checkpoint."""

CONVERTED = "*.crlf text eol=crlf\n*.id ident\n*.u16 text working-tree-encoding=UTF-16\n"
CONFLICT = "100644 {} 1\tconflict.txt\n100644 {} 2\tconflict.txt\n100644 {} 3\tconflict.txt\n"


@dataclass
class Maker:
    """The project, its agent, and what is expected of the checkpoints made so far."""

    project: Project
    home: Path
    minutes: int = 0
    lines: int = 0
    expected: dict[str, Any] = field(default_factory=dict)

    def store(self) -> Store:
        return Store(
            Repository.open(self.project.root, Host(dict(os.environ), self.home, self.now))
        )

    def now(self) -> datetime:
        self.minutes += 1
        return START + timedelta(minutes=self.minutes)

    @property
    def transcript(self) -> Path:
        return claude_code.transcript(self.project.root, SESSION, self.store().repo.host)

    def talk(self, path: Path, *texts: str, torn: str = "") -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.writelines(self._line(text) for text in texts)
            file.write(torn)

    def _line(self, text: str) -> str:
        self.lines += 1
        role = "user" if self.lines % 2 else "assistant"
        record = {
            "type": role,
            "uuid": f"00000000-0000-4000-8000-{self.lines:012d}",
            "sessionId": SESSION,
            "cwd": "/home/ada/shop",
            "version": "2.1.197",
            "message": {
                "role": role,
                "model": "a-model",
                "content": [{"type": "text", "text": text}],
            },
        }
        return json.dumps(record, ensure_ascii=False) + "\n"

    def save(self, **given: Any) -> Checkpoint:
        request = SaveRequest(self.project.root, limits=LIMITS, **given)
        made = save(self.store(), request).checkpoint
        self.expect(made)
        return made

    def expect(self, made: Checkpoint) -> None:
        """Note what lies on disk now as what `made` must hold."""
        self.expected[str(made.id)] = {
            "says": plain(made),
            "files": on_disk(self.project),
            "streams": {name: digest(data) for name, data in self._streams(made)},
        }

    def _streams(self, made: Checkpoint) -> Iterator[tuple[str, bytes]]:
        for stream in made.conversation.streams if made.conversation else ():
            place = stream.place.replace("{session}", SESSION)
            data = (self.transcript.parent / place).read_bytes()
            yield stream.name, data[: len(data) - stream.torn]


def on_disk(project: Project) -> dict[str, Any]:
    """What lies in the working tree and belongs in a checkpoint."""
    return described(
        {path: file for path, file in project.files().items() if not path.startswith(LEFT_OUT)}
    )


def first(maker: Maker) -> None:
    """Checkpoint 1: everything that git has a way of its own with, a conversation of two streams,
    every note.
    """
    project = maker.project
    project.write(".gitattributes", CONVERTED)
    project.write(".gitignore", "*.log\n")
    project.write("app.py", "print('one')\n")
    project.write("run.sh", "#!/bin/sh\nexec python3 app.py\n", mode=0o755)
    project.write("win.crlf", "one\r\ntwo\r\n")
    project.write("stamp.id", "$Id$\n")
    project.write("wide.u16", "häßlich\n".encode("utf-16"))
    project.write("staged.txt", "committed\n")
    project.write("far/away.txt", "outside the sparse checkout\n")
    project.symlink("latest", "app.py")
    project.commit("A shop")
    project.remove("stamp.id")
    project.git("checkout", "--", "stamp.id")
    project.git("update-index", "--skip-worktree", "far/away.txt")
    project.remove("far")
    project.write("staged.txt", "staged\n")
    project.git("add", "staged.txt")
    project.write("staged.txt", "on disk\n")
    project.write("later.txt", "to be added later\n")
    project.git("add", "--intent-to-add", "later.txt")
    blobs = [
        project.git("hash-object", "-w", "--stdin", input=side)
        for side in (b"base\n", b"ours\n", b"theirs\n")
    ]
    project.git("update-index", "--index-info", input=CONFLICT.format(*blobs).encode())
    project.write("conflict.txt", "<<<<<<< ours\nours\n=======\ntheirs\n>>>>>>> theirs\n")
    project.git("update-index", "--add", "--cacheinfo", f"160000,{'5' * 40},module")
    _untracked(project)
    maker.talk(maker.transcript, "Add an e-mail column.", "I will write it first.")
    maker.talk(
        maker.transcript.with_suffix("") / "subagents/agent-7f3.jsonl",
        "Look for users of the table.",
        "Two.",
    )
    handoff = Handoff(
        "an e-mail column",
        ("one file per change",),
        ("a trigger",),
        ("the migration",),
        ("app.py",),
    )
    maker.save(
        note=Note(
            "before migration",
            "schema",
            "e-mail",
            {"database": "sqlite"},
            handoff,
            {"record": "7000000"},
        ),
        tags=("start",),
    )


def _untracked(project: Project) -> None:
    project.write(b"caf\xe9.txt", "a name that is not UTF-8\n")
    project.write("mixed.crlf", "one\r\ntwo\n")
    project.write("key.pem", "not a key\n", mode=0o600)
    project.write("wanted.log", "ignored, and included\n")
    project.write("debug.log", "ignored\n")
    project.write("large.bin", bytes(2048))
    os.makedirs(project.path("empty/inside"))
    os.mkfifo(project.path("pipe"))
    Project(project.root / "vendor/tool").commit("A tool")


def more(maker: Maker) -> None:
    """Checkpoints 2 to 4 of the session, one of another, and one that was forked off."""
    project = maker.project
    project.write("app.py", "print('two')\n", mode=0o755)
    project.remove("latest")
    project.write("latest/readme.txt", "a directory where a link was\n")
    project.remove("run.sh")
    maker.talk(maker.transcript, "Now Postgres.", "Rewriting. " * 40, torn='{"type":"user","mess')
    second = maker.save(
        note=Note(None, "rewrite", compensations=("dropdb shop",)),
        trigger=Trigger.BEFORE_RISKY_CHANGE,
        tags=("works",),
    )
    project.write("app.py", "print('three')\n", mode=0o644)
    _restore(maker, CheckpointId("e7baae82", 1))
    _fork(maker, second)
    maker.save(note=Note("by hand"), session="manual-000001", conversation=None)


def _restore(maker: Maker, id: CheckpointId) -> None:
    """A restore of the files: the safety checkpoint before it, and the one that says so."""
    store = maker.store()
    commit = store.find(id)
    assert commit is not None
    before = on_disk(maker.project)
    request = restore.RestoreRequest(
        store.read(commit), maker.project.root, conversation=False, limits=LIMITS
    )
    report = restore.restore(store, request)
    assert report.checkpoint is not None
    assert not report.failed, report
    for made in (report.checkpoint, report.safety):
        assert made is not None
        found = store.find(made)
        assert found is not None
        maker.expect(store.read(found))
    safety = maker.expected[str(report.safety)]
    safety["files"] = before


def _fork(maker: Maker, second: Checkpoint) -> None:
    """A session that goes on from checkpoint 2 under a name of its own."""
    store = maker.store()
    second = store.read(second.commit)
    number = CheckpointId("fork", second.id.number + 1)
    draft = replace(
        second,
        id=number,
        parent=second.commit,
        created=maker.now(),
        changed=0,
        forked_from=second.id,
        note=Note(),
    )
    made = store.commit(draft, readme.render(draft, ()))
    assert refs.update_ref(store.repo.common_dir, refs.SESSIONS + "fork", made.commit, None)
    maker.expected[str(number)] = {**maker.expected[str(second.id)], "says": plain(made)}


def main() -> None:
    """Make both files anew."""
    with tempfile.TemporaryDirectory() as scratch:
        _seal(Path(scratch))
        maker = Maker(Project(Path(scratch, "shop")), Path(scratch, "home"))
        first(maker)
        more(maker)
        store = maker.store()
        tags = {name: str(summary.id) for name, summary in tag.listing(store)}
        maker.project.git("gc", "--quiet")
        maker.project.git(
            "bundle", "create", "--quiet", str(HERE / "checkpoints.bundle"), "--glob=refs/gitcp/*"
        )
    document = {"tags": tags, "sessions": _sessions(maker.expected), "checkpoints": maker.expected}
    HERE.joinpath("expected.json").write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")


def _sessions(ids: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for id in ids:
        found.setdefault(id.partition("@")[0], []).append(id)
    return {name: sorted(each) for name, each in found.items()}


def _seal(scratch: Path) -> None:
    home = scratch / "home"
    home.mkdir()
    home.joinpath(".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    for name in [name for name in os.environ if name.startswith(("GIT_", "CLAUDE"))]:
        del os.environ[name]
    os.environ |= {
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
        "GIT_AUTHOR_DATE": "2026-01-05T08:00:00Z",
        "GIT_COMMITTER_DATE": "2026-01-05T08:00:00Z",
        "TZ": "UTC",
    }
    os.umask(0o022)


if __name__ == "__main__":
    main()
