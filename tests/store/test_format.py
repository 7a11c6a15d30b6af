"""What is on disk, as docs/format.md promises it: the bundles of every format ever shipped, and the
invariants.

The invariants are looked at with plain git wherever git can say it, so that code that writes and
reads the same mistake is found out. A newer gitcp must pass all of this on the bundles as they are:
they are never made again.
"""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from described import described, digest, plain
from talk import Talk

from gitcp import installed, wire
from gitcp.errors import FormatTooNew
from gitcp.git.repo import Repository
from gitcp.model import Checkpoint, CheckpointId, Host, Note, Oid
from gitcp.saving.save import SaveRequest, save
from gitcp.state import tag
from gitcp.store import Store
from gitcp.value import replace

from driver import Project
from samples import open_store
from samples import plain as blank

FORMATS = sorted(Path(__file__).parents[1].joinpath("data/formats").iterdir())
SESSION = "refs/gitcp/sessions/e7baae82"


class Shipped:
    """A bundle, fetched into a new repository by plain git, and what was expected of it when it was
    made.
    """

    def __init__(self, directory: Path, project: Project) -> None:
        self.project = project
        self.expected: dict[str, Any] = json.loads(directory.joinpath("expected.json").read_bytes())
        self.checkpoints: dict[str, Any] = self.expected["checkpoints"]
        project.git(
            "fetch", "--quiet", str(directory / "checkpoints.bundle"), "refs/gitcp/*:refs/gitcp/*"
        )
        self.store = open_store(project)

    def read(self, id: str) -> Checkpoint:
        found = wire.parse_id(id)
        assert found is not None
        commit = self.store.find(found)
        assert commit is not None, f"{id} is not there"
        return self.store.read(commit)


@pytest.fixture(params=FORMATS, ids=lambda path: path.name)
def shipped(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Shipped:
    """A bundle of each format, in a repository with SHA-1 names, as it was made in one."""
    monkeypatch.setenv("GIT_DEFAULT_HASH", "sha1")
    return Shipped(request.param, Project(tmp_path / "shipped"))


@pytest.fixture
def talk(project: Project) -> Talk:
    """A project with a commit, changes and an agent's conversation of two messages."""
    project.write(".gitattributes", "*.crlf text eol=crlf\n")
    project.write("win.crlf", "one\r\ntwo\r\n")
    project.write("app.py", "print('one')\n")
    project.commit()
    project.write("new.txt", "untracked\n")
    talk = Talk(project)
    talk.say("Make it better.", "It is better.")
    return talk


def metadata(project: Project, revision: str) -> dict[str, Any]:
    """`checkpoint.json` as git shows it."""
    found: dict[str, Any] = json.loads(project.git("show", f"{revision}:.gitcp/checkpoint.json"))
    return found


def joined(project: Project, revision: str, stream: str) -> bytes:
    """A stream of the conversation as docs/format.md says to put it together."""
    listed = project.git(
        "ls-tree", "-r", "--full-tree", f"{revision}:.gitcp/conversation/{stream}"
    ).splitlines()
    blobs = [line.split("\t")[0].split(" ")[2] for line in listed]
    return b"".join(
        project.git("cat-file", "blob", blob).encode("utf-8", "surrogateescape") + b"\n"
        for blob in blobs
    )


# ---------------------------------------------------------------- the bundles


def test_every_format_has_its_bundle() -> None:
    """A format that is written has a bundle that is kept; the newest one is among them."""
    assert [path.name for path in FORMATS] == [f"v{number}" for number in wire.READABLE]


def test_shipped_names(shipped: Shipped) -> None:
    """The sessions with all their checkpoints, and the tags, are those that were bundled."""
    found: dict[str, list[str]] = {}
    for name, tip in shipped.store.sessions().items():
        found[name] = [str(s.id) for s in shipped.store.history(tip) if s.id.session == name][::-1]

    assert found == shipped.expected["sessions"]
    assert {name: str(s.id) for name, s in tag.listing(shipped.store)} == shipped.expected["tags"]


def test_shipped_metadata(shipped: Shipped) -> None:
    """Every checkpoint says today what it said when it was made, to the last field."""
    said = {id: plain(shipped.read(id)) for id in shipped.checkpoints}

    assert said == {id: expected["says"] for id, expected in shipped.checkpoints.items()}


def test_shipped_files(shipped: Shipped, tmp_path: Path) -> None:
    """Every checkpoint's files come back byte for byte: content, kinds, modes, empty directories,
    and nothing else.
    """
    for id, expected in shipped.checkpoints.items():
        shipped.project.gitcp("restore", id, "--files", "--to", str(tmp_path / id), check=0)

        assert described(Project(tmp_path / id).files()) == expected["files"], id


def test_shipped_conversations(shipped: Shipped) -> None:
    """Every stream of every conversation comes back byte for byte."""
    for id, expected in shipped.checkpoints.items():
        streams = shipped.read(id).conversation
        found = (
            {stream.name: _shown(shipped.project, id, stream.name) for stream in streams.streams}
            if streams
            else {}
        )

        assert found == expected["streams"], id


def _shown(project: Project, id: str, stream: str) -> dict[str, Any]:
    return digest(
        project.gitcp("show", id, "--stream", stream, check=0).out.encode(
            "utf-8", "surrogateescape"
        )
    )


def test_shipped_is_whole(shipped: Shipped) -> None:
    """`check` finds nothing to say of a bundle, and git neither."""
    report = shipped.project.json("check")

    assert (report["ok"], report["checkpoints"]) == (True, len(shipped.checkpoints))
    assert shipped.project.git("fsck", "--strict", "--no-dangling", "--no-progress") == ""


def test_shipped_goes_on(shipped: Shipped) -> None:
    """A session that an older gitcp began is carried on by this one, with its numbers and its
    words.
    """
    last = shipped.expected["sessions"]["e7baae82"][-1]
    shipped.project.write("now.txt", "now\n")

    made = shipped.project.json("save", "--session", "e7baae82")["checkpoint"]

    assert made["number"] == CheckpointId("", int(last.partition("@")[2])).number + 1
    assert made["facts"] == shipped.checkpoints[last]["says"]["note"]["facts"]


# ---------------------------------------------------------------- other versions


def test_newer_format(project: Project) -> None:
    """A checkpoint in a format of the future is refused by name, and nothing is taken for something
    else.
    """
    made = save(open_store(project), SaveRequest(project.root, session="alpha")).checkpoint
    data = wire.encode_checkpoint(made).replace(b'"format": 1', b'"format": 7777', 1)
    _rewrite(project, "refs/gitcp/sessions/alpha", data)

    with pytest.raises(FormatTooNew, match=f"format 7777; this gitcp reads up to {wire.FORMAT}"):
        _last(project, "alpha")
    shown = project.gitcp("restore", "alpha@1", "--yes", check=13)
    assert "format 7777" in shown.err
    assert f"hint: {installed.upgrade()}\n" in shown.err


def test_unknown_field(project: Project) -> None:
    """A field that this version does not know is kept as it is when the checkpoint is written
    again.
    """
    made = save(open_store(project), SaveRequest(project.root, session="alpha")).checkpoint
    fields = {**json.loads(wire.encode_checkpoint(made)), "weather": {"wind": [1, "north"]}}
    _rewrite(project, "refs/gitcp/sessions/alpha", wire.dumps(fields))

    again = wire.encode_checkpoint(_last(project, "alpha"))

    assert json.loads(again) == fields


def _last(project: Project, session: str) -> Checkpoint:
    store = open_store(project)
    tip = store.tip(session)
    assert tip is not None
    return store.read(tip)


def _rewrite(project: Project, ref: str, data: bytes) -> None:
    """Put another `checkpoint.json` into the last checkpoint, by plain git."""
    blob = project.git("hash-object", "-w", "--stdin", input=data)
    inside = re.sub(
        r"[0-9a-f]+(\tcheckpoint\.json)",
        rf"{blob}\1",
        project.git("ls-tree", f"{ref}:.gitcp") + "\n",
    )
    holder = project.git("mktree", input=inside.encode())
    root = re.sub(r"[0-9a-f]+(\t\.gitcp)", rf"{holder}\1", project.git("ls-tree", ref) + "\n")
    tree = project.git("mktree", input=root.encode())
    commit = project.git(
        "commit-tree", tree, input=project.git("log", "-1", "--format=%B", ref).encode()
    )
    project.git("update-ref", ref, commit)


# ---------------------------------------------------------------- invariants


def test_ref_moves_last(project: Project, talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a ref is about to move, everything that its new commit needs is stored already, and
    sound.
    """
    storage: Any = type(open_store(project).repo.refs)
    real, seen = storage.update, []

    def checked(self: Any, name: str, new: Oid, old: Oid | None, *promise: Any) -> Any:
        project.git("fsck", "--strict", "--no-dangling", "--no-progress", new)
        seen.append((name, old))
        return real(self, name, new, old, *promise)

    monkeypatch.setattr(storage, "update", checked)
    made = save(open_store(project), SaveRequest(project.root)).checkpoint

    assert seen == [(SESSION, None)]
    assert project.git("rev-parse", SESSION) == made.commit


def test_chain(project: Project, talk: Talk) -> None:
    """A session is a line: a root commit, then one parent each, numbers from 1 without a gap, no
    project history.
    """
    for number in range(3):
        project.write("app.py", f"print({number})\n")
        project.gitcp("save", check=0)
    project.gitcp("restore", "1", "--yes", check=0)

    listed = project.git(
        "log", "--reverse", "--format=%P|%(trailers:key=Gitcp-Number,valueonly,separator=)", SESSION
    )
    parents, numbers = zip(*(line.split("|") for line in listed.splitlines()), strict=True)

    assert [len(each.split()) for each in parents] == [0, 1, 1, 1]
    assert numbers == ("1", "2", "3", "4")


def test_only_gitcps_own_is_written(project: Project, talk: Talk) -> None:
    """Save, tag, restore and undo write objects, refs/gitcp and `<git dir>/gitcp`: nothing else of
    git's changes.
    """
    with project.guard():
        project.gitcp("save", "one", "--tag", "first", check=0)
        project.write("app.py", "print('two')\n")
        project.gitcp("restore", "first", "--yes", check=0)
        project.gitcp("undo", "--yes", check=0)

    assert project.read("app.py") == b"print('two')\n"


def test_nothing_is_rewritten(project: Project, talk: Talk) -> None:
    """Whatever is done, a checkpoint that was there stays behind the session's last one: a restore
    appends.
    """
    tips = []
    for step in (
        ("save",),
        ("save", "--force"),
        ("restore", "1", "--yes"),
        ("undo", "--yes"),
        ("redo", "--yes"),
    ):
        if step[0] == "restore":
            project.write("app.py", "print('two')\n")
        project.gitcp(*step, check=0)
        tips.append(project.git("rev-parse", SESSION))

    assert len(set(tips)) == 5
    for earlier, later in pairwise(tips):
        project.git("merge-base", "--is-ancestor", earlier, later)


def test_restore_saves_first(project: Project, talk: Talk) -> None:
    """What a restore takes away is in the checkpoint before it, and plain git finds it there."""
    project.gitcp("save", check=0)
    project.write("app.py", "print('precious')\n")
    project.write("never_saved.txt", "precious too\n")

    report = project.json("restore", "1", "--yes")

    assert b"precious" not in project.read("app.py")
    safety = f"{SESSION}~1"
    assert metadata(project, safety)["trigger"] == "before-restore"
    assert report["safety"] == f"e7baae82@{metadata(project, safety)['number']}"
    assert (
        project.git("show", f"{safety}:app.py", f"{safety}:never_saved.txt")
        == "print('precious')\nprecious too"
    )


def test_streams_joined(project: Project, talk: Talk) -> None:
    """The segments of a stream, joined in path order by plain git, are the agent's file."""
    for round in range(4):
        talk.say(*(f"{round}.{number} " + "x" * 2000 for number in range(200)))
        project.gitcp("save", check=0)

        assert joined(project, SESSION, "main") == talk.path.read_bytes()


def test_segments_stay(project: Project, talk: Talk) -> None:
    """When a conversation grows, what is stored of it keeps its names: only a small last segment
    may be cut anew.
    """
    trees = []
    for _ in range(3):
        talk.say(*("x" * 5000 for _ in range(150)))
        project.gitcp("save", check=0)
        trees.append(
            project.git("ls-tree", "-r", f"{SESSION}:.gitcp/conversation/main").splitlines()
        )

    assert len(trees[0]) > 2
    for before, after in pairwise(trees):
        assert after[: len(before) - 1] == before[:-1]


def test_files_are_gits_own(project: Project, talk: Talk) -> None:
    """A committed file that did not change differs from HEAD for nobody: what git converts, it
    converts here too.
    """
    project.gitcp("save", check=0)

    assert (
        project.git("diff", "--name-status", "HEAD", SESSION, "--", ".", ":!.gitcp") == "A\tnew.txt"
    )
    assert metadata(project, SESSION)["files"]["converted"] == [{"path": "win.crlf", "eol": "crlf"}]


def test_left_out_is_listed(project: Project, talk: Talk) -> None:
    """A path that is neither in the tree nor ignored is in the metadata with its reason."""
    project.git("config", "gitcp.maxFileSize", "1k")
    project.write("large.bin", bytes(5000))
    os.mkfifo(project.path("pipe"))
    project.write("ignored.log", "x")
    project.write(".gitignore", "*.log\n")
    project.gitcp("save", check=0)

    stored = set(project.git("ls-tree", "-r", "--name-only", SESSION).splitlines())
    listed = {
        skip["path"]: skip["reason"] for skip in metadata(project, SESSION)["files"]["skipped"]
    }
    lying = set(project.git("ls-files", "--cached", "--others", "--exclude-standard").splitlines())
    assert lying - stored == {"large.bin"}  # git does not list a FIFO at all
    assert listed == {"large.bin": "too-large", "pipe": "special"}


def test_reserved_directory(project: Project, talk: Talk) -> None:
    """A `.gitcp` in the working tree is never taken for a checkpoint's own, and never touched."""
    project.write(".gitcp/checkpoint.json", "mine\n")
    project.gitcp("save", check=0)

    (skip,) = metadata(project, SESSION)["files"]["skipped"]
    assert (skip["path"], skip["reason"]) == (".gitcp", "reserved")
    project.remove("new.txt")
    project.gitcp("restore", "1", "--yes", check=0)
    assert project.read(".gitcp/checkpoint.json") == b"mine\n"


def test_trailers_agree(project: Project, talk: Talk) -> None:
    """The commit, the metadata and the ref say the same of a checkpoint."""
    project.gitcp("save", "a label", "--phase", "one", check=0)

    body = project.git("log", "-1", "--format=%B", SESSION)
    said = dict(re.findall(r"^(Gitcp-[A-Za-z-]+): (.*)$", body, re.MULTILINE))
    found = metadata(project, SESSION)
    assert said == {
        "Gitcp-Format": str(found["format"]),
        "Gitcp-Session": found["session"],
        "Gitcp-Number": str(found["number"]),
        "Gitcp-Trigger": found["trigger"],
        "Gitcp-Agent": found["agent"]["name"],
        "Gitcp-Agent-Session": found["agent"]["session_id"],
        "Gitcp-Phase": found["phase"],
        "Gitcp-Base": found["base"]["commit"],
        "Gitcp-Messages": str(found["conversation"]["messages"]),
        "Gitcp-Files": f"{found['files']['total']} ({found['changed']} changed)",
    }
    assert body.splitlines()[0] == found["label"]
    assert SESSION.endswith("/" + found["session"])


def test_same_content_same_bytes(tmp_path: Path) -> None:
    """The same files, words and time give the same commit, wherever they are saved."""
    made = []
    for place in ("here", "there"):
        project = Project(tmp_path / place)
        project.write("a.txt", "a\n")
        project.write("empty/.keep", "")
        host = Host(
            dict(os.environ), Path(os.environ["HOME"]), lambda: datetime(2026, 1, 5, tzinfo=UTC)
        )
        note = Note("label", facts={"b": "2", "a": "1"})
        request = SaveRequest(project.root, note=note, session="alpha")
        made.append(save(Store(Repository.open(project.root, host)), request).checkpoint.commit)

    assert made[0] == made[1]


def test_first_key_is_the_format(project: Project) -> None:
    """`format` is the first key, so that any reader knows what it reads; the others are sorted."""
    keys = list(
        json.loads(
            wire.encode_checkpoint(replace(blank(), note=Note("label", phase="x", objective="y")))
        )
    )

    assert keys[0] == "format"
    assert keys[1:] == sorted(keys[1:])
    assert len(keys) > 5


def test_plain_push_carries_nothing(project: Project, talk: Talk, tmp_path: Path) -> None:
    """A push, with tags or without, and a clone leave every checkpoint at home."""
    project.gitcp("save", "--tag", "first", check=0)
    project.git("init", "--quiet", "--bare", str(tmp_path / "bare"))
    for options in ((), ("--all",), ("--tags",)):
        project.git(
            "push", "--quiet", *options, str(tmp_path / "bare"), *(() if options else ("main",))
        )
    project.git("clone", "--quiet", str(project.root), str(tmp_path / "clone"))

    for place in ("bare", "clone"):
        listed = project.git("-C", str(tmp_path / place), "for-each-ref", "--format=%(refname)")
        assert "refs/heads/main" in listed
        assert "gitcp" not in listed
