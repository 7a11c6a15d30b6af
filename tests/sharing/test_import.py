"""`gitcp import`: bundles, JSON and transcripts from somebody else, checked whole, and trusted only
when told so.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import transcripts
from dialogues import AGENTS
from kinds import FORMAT
from real_agents import in_order
from talk import SESSION, Talk
from test_share import BAD_ENTRIES, recommitted, with_entry, with_metadata

from gitcp.errors import BadValue, GitcpError, StoreDamaged
from gitcp.git import bundle
from gitcp.git.trees import TreeEntry
from gitcp.model import FILE, SYMLINK, TREE, Oid
from gitcp.sharing import importing
from gitcp.value import replace

from driver import Project
from samples import open_store, save


@pytest.fixture
def bob(tmp_path: Path) -> Project:
    """A repository of somebody else's."""
    other = Project(tmp_path / "bob")
    other.write("b.txt", "bob's\n")
    other.commit()
    return other


@pytest.fixture
def sent(project: Project) -> Project:
    """A project with session e7baae82 of two checkpoints, exported in every form beside it."""
    project.write("a.txt", "one\n")
    project.commit()
    talk = Talk(project)
    talk.say("Make it work.", "It works.")
    project.gitcp("save", "one", "--tag", "good", check=0)
    project.write("a.txt", "two\n")
    project.write(".vscode/tasks.json", "{}")
    talk.say("Faster.", "It is faster.")
    project.gitcp(
        "save", "two", "--phase", "build", "--fact", "db=postgres", "--decided", "no cache", check=0
    )
    for form in ("bundle", "json", "transcript"):
        project.gitcp("export", "--format", form, "-o", f"../talk.{form}", check=0)
    return project


def refs_of(project: Project) -> list[str]:
    """The names of gitcp's refs."""
    return project.git("for-each-ref", "--format=%(refname)", "refs/gitcp").split()


def test_bundle(sent: Project, bob: Project) -> None:
    """A bundle arrives whole under a name of its own; it is looked at freely and restored with
    --trust alone.
    """
    before = bob.files()
    with bob.guard():
        said = bob.gitcp("import", "../talk.bundle", check=0).out
        again = bob.gitcp("import", "../talk.bundle", check=0).out
    assert said.startswith("imported imported/e7baae82  (2 new checkpoints)\n")
    assert again.startswith("imported imported/e7baae82  (0 new checkpoints)\n")
    assert refs_of(bob) == [
        "refs/gitcp/remotes/imported/sessions/e7baae82",
        "refs/gitcp/remotes/imported/tags/good",
    ]
    assert [c["label"] for c in bob.json_lines("log", "imported/e7baae82")] == ["two", "one"]
    assert bob.files() == before

    refused = bob.gitcp("restore", "imported/e7baae82", "--yes", check=14)
    assert ".vscode/tasks.json  settings of an agent, editor or hook" in refused.err
    for command in ("fork", "resume"):
        assert "--trust" in bob.gitcp(command, "imported/e7baae82", "--json", check=14).err
    bob.gitcp("resume", "imported/e7baae82", "--print", check=0)
    assert bob.files() == before
    restored = bob.gitcp("restore", "imported/e7baae82", "--yes", "--trust", check=0).out
    assert f"claude --resume {SESSION}" in restored
    assert bob.read("a.txt") == b"two\n"
    bob.gitcp("check", check=0)
    assert ("import", "imported/e7baae82 from talk.bundle") in [
        (done["operation"], done["said"]) for done in bob.json_lines("oplog")
    ]
    assert [
        name for name in os.listdir(bob.path(bob.git_dir / "gitcp")) if name.startswith(b"incoming")
    ] == []


def test_bundle_with_annotated_tags(sent: Project, bob: Project) -> None:
    """A tag with a message arrives with it, as it does by a fetch."""
    sent.gitcp("tag", "why", "e7baae82@1", "-m", "a text of its own", check=0)
    sent.gitcp("export", "-o", "../tagged.bundle", check=0)

    with bob.guard():
        bob.gitcp("import", "../tagged.bundle", check=0)

    ref = "refs/gitcp/remotes/imported/tags/why"
    assert bob.git("rev-parse", ref) == sent.git("rev-parse", "refs/gitcp/tags/why")
    assert "a text of its own" in bob.git("cat-file", "tag", ref)


def test_bundle_that_grew(sent: Project, bob: Project) -> None:
    """What goes on is taken on top; what went another way gets a place of its own, and nothing is
    replaced.
    """
    bob.gitcp("import", "../talk.bundle", check=0)
    sent.write("a.txt", "three\n")
    sent.gitcp("save", "three", "--session", "e7baae82", check=0)
    sent.gitcp("export", "-o", "../more.bundle", check=0)
    assert (
        "imported/e7baae82  (1 new checkpoint)"
        in bob.gitcp("import", "../more.bundle", check=0).out
    )
    sent.gitcp("export", "e7baae82@2", "-o", "../old.bundle", check=0)
    old = bob.json("import", "../old.bundle")
    assert bob.json("show", old["revision"])["id"] == "e7baae82@2"

    sent.git(
        "update-ref",
        "refs/gitcp/sessions/e7baae82",
        sent.git("rev-parse", "refs/gitcp/sessions/e7baae82~1"),
    )
    sent.gitcp("save", "elsewhere", "--force", "--session", "e7baae82", check=0)
    sent.gitcp("export", "-o", "../other.bundle", check=0)
    other = bob.json("import", "../other.bundle")
    assert other["revision"] != "imported/e7baae82"
    assert bob.json("show", other["revision"])["label"] == "elsewhere"
    assert bob.json("show", "imported/e7baae82")["label"] == "three"


@pytest.mark.parametrize("name", ["talk.transcript", "talk.json"])
def test_conversation(sent: Project, bob: Project, name: str) -> None:
    """A transcript or JSON becomes a checkpoint beside the files that are here, marked with where
    it came from.
    """
    before = bob.files()
    with bob.guard():
        made = bob.json("import", f"../{name}")
        again = bob.json("import", f"../{name}")
    assert made["revision"] == "imported/e7baae82"
    assert (made["checkpoints"], again["checkpoints"], made["commit"]) == (1, 0, again["commit"])
    assert refs_of(bob) == ["refs/gitcp/remotes/imported/sessions/e7baae82"]
    assert bob.files() == before
    shown = bob.json("show", "imported/e7baae82")
    assert shown["label"] == f"imported from {name}"
    assert shown["conversation"]["messages"] == 4
    assert bob.gitcp("show", "imported/e7baae82:b.txt", check=0).out == "bob's\n"
    said = json.loads(bob.gitcp("export", "imported/e7baae82", "-f", "json", check=0).out)[
        "messages"
    ]
    assert [m["content"] for m in said] == [
        "Make it work.",
        "It works.",
        "Faster.",
        "It is faster.",
    ]
    if name == "talk.json":
        assert (shown["phase"], shown["facts"], shown["handoff"]["decisions"]) == (
            "build",
            {"db": "postgres"},
            ["no cache"],
        )

    bob.gitcp("restore", "imported/e7baae82", "--yes", check=14)
    if name == "talk.transcript":
        resumed = bob.json("resume", "imported/e7baae82", "--yes", "--trust")
        assert resumed["resume"]["command"] == ["claude", "--resume", SESSION]
    restored = bob.gitcp("restore", "imported/e7baae82", "--yes", "--trust", check=0).out
    assert (f"claude --resume {SESSION}" in restored) == (name == "talk.transcript")
    assert bob.files() == before
    bob.gitcp("check", check=0)


def test_transcript_goes_on(sent: Project, bob: Project) -> None:
    """A longer transcript of the same session is the next checkpoint of it."""
    bob.gitcp("import", "../talk.transcript", check=0)
    bob.write("../talk.transcript", bob.read("../talk.transcript") * 2)
    assert bob.json("import", "../talk.transcript")["revision"] == "imported/e7baae82"

    assert [c["id"] for c in bob.json_lines("log", "imported/e7baae82")] == [
        "e7baae82@2",
        "e7baae82@1",
    ]


def test_numbers_of_a_deleted_session(sent: Project) -> None:
    """What is imported under the name of a deleted session has none of its ids, so that both can be
    here: it goes on after them, and the delete can be undone.
    """
    sent.gitcp("delete", "e7baae82", "--yes", check=0)
    made = sent.json("import", "../talk.transcript")
    sent.gitcp("restore", made["revision"], "--yes", "--trust", check=0)

    assert sent.json("show", made["revision"])["id"] == "e7baae82@3"
    sent.gitcp("undo", "1", check=0)
    ids = [each["id"] for each in sent.json_lines("log", "e7baae82@")]
    assert ids[-3:] == ["e7baae82@3", "e7baae82@2", "e7baae82@1"]
    sent.gitcp("check", check=0)


def test_own_session_stays(sent: Project) -> None:
    """What has the name of a session here is taken beside it."""
    tip = sent.git("rev-parse", "refs/gitcp/sessions/e7baae82")
    made = sent.json("import", "../talk.transcript")

    assert made["session"] != "e7baae82"
    assert sent.git("rev-parse", "refs/gitcp/sessions/e7baae82") == tip


def test_codex_transcript(bob: Project) -> None:
    """A rollout of Codex is known by its first line, and goes where Codex resumes it."""
    thread = "019dc0d3-6b22-7052-b168-4487a38e0f4d"
    lines = [
        {
            "timestamp": "2026-11-02T09:00:00Z",
            "type": "session_meta",
            "payload": {"id": thread, "cwd": "/x"},
        },
        {
            "timestamp": "2026-11-02T09:01:00Z",
            "type": "response_item",
            "payload": {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "Go."}],
            },
        },
    ]
    bob.write("../rollout", "".join(json.dumps(line) + "\n" for line in lines))
    made = bob.json("import", "../rollout")

    assert bob.json("show", made["revision"])["agent"]["session_id"] == thread
    done = bob.gitcp("restore", made["revision"], "--conversation", "--yes", "--trust", check=0)
    assert f"codex resume {thread}" in done.out


@pytest.mark.parametrize("indent", [None, 2])
def test_gemini_document(bob: Project, indent: int | None) -> None:
    """A chat of an older Gemini CLI is one document, over lines or not: it is known by its fields,
    although its messages have no role.
    """
    session = "5f0d3e1a-9c2b-4d7e-8f61-0a1b2c3d4e5f"
    chat = {
        "sessionId": session,
        "projectHash": "0" * 64,
        "startTime": "2026-11-02T05:37:00.000Z",
        "lastUpdated": "2026-11-02T05:40:00.000Z",
        "messages": [
            {"id": "1", "timestamp": "2026-11-02T05:37:22.009Z", "type": "user", "content": "Go."},
            {"id": "2", "timestamp": "2026-11-02T05:37:29.955Z", "type": "gemini", "content": "OK"},
        ],
    }
    bob.write("../session-2026-11-02T05-37-5f0d3e1a.json", json.dumps(chat, indent=indent))
    made = bob.json("import", "../session-2026-11-02T05-37-5f0d3e1a.json")

    shown = bob.json("show", made["revision"])
    assert (shown["agent"]["name"], shown["agent"]["session_id"]) == ("gemini", session)
    assert "Go." in bob.gitcp("show", made["revision"], "--conversation", check=0).out


def test_no_remote_of_that_name(bob: Project) -> None:
    """No remote can be called so that a fetch would replace what was imported."""
    for name in ("imported", "imported-2"):
        assert "imports" in bob.gitcp("remote", name, "../hub", check=2).err


# ---------------------------------------------------------------- what is refused

HEAD = b"# v3 git bundle\n@object-format=%s\n" % FORMAT.name.encode()
"""How a bundle of the tests' kind of repository begins; v2 can only be one of SHA-1."""

NOT_OURS: dict[str, bytes] = {
    "nothing": b"",
    "text": b"hello\n",
    "binary": bytes(range(256)) * 9,
    "other JSON": b'{"a": 1}',
    "a list": b"[1, 2]",
    "messages that are none": b'{"messages": [1]}',
    "messages without a role": b'{"messages": [{"content": "x"}]}',
    "deep JSON": b'{"messages":' + b"[" * 100_000,
    "zip": b"PK\x03\x04" + bytes(100),
    "a head alone": HEAD,
    "another head": b"# v9 git bundle\n\nPACK",
    "a bundle of nothing": HEAD
    + b"\nPACK\x00\x00\x00\x02\x00\x00\x00\x00"
    + FORMAT.hasher().digest(),
    "a cut bundle": HEAD
    + b"1" * FORMAT.digits
    + b" refs/gitcp/sessions/x\n\nPACK\x00\x00\x00\x02\x00\x00\x00\x09",
    "a bundle with an odd ref": HEAD
    + b"1" * FORMAT.digits
    + b" refs/gitcp/sessions/../../heads/main\n\nPACK",
}


def test_not_ours(bob: Project) -> None:
    """What is none of ours is refused in a line, and nothing is named."""
    with bob.guard():
        for what, data in NOT_OURS.items():
            assert refused(bob, data), what
        bob.write("../file", NOT_OURS["text"])
        done = bob.gitcp("import", "../file", check=2)
    assert done.err.startswith("error: file: unrecognized format")
    assert done.err.endswith("\nhint: gitcp import ../file --agent NAME\n")


def test_no_file(bob: Project) -> None:
    """What cannot be read is refused."""
    os.mkfifo(bob.path("pipe"))
    for name in ("nothing", ".", "pipe", "\0"):
        with pytest.raises(BadValue):
            importing.import_file(open_store(bob), importing.ImportRequest(bob.root / name))


def test_hostile_json(bob: Project) -> None:
    """Whatever types and names JSON has, it is text or left out, and never a path or a command."""
    document = {
        "session": "../../../heads/main",
        "id": 7,
        "label": {"a": 1},
        "phase": ["x"],
        "facts": {"a": "\x1b[31m", "b": 1, "": "x", "c": "\ud800"},
        "handoff": {"task": "\x00x", "decisions": "no list", "next": [None, "go"]},
        "position": [],
        "compensations": ["rm -rf /"],
        "agent": {"name": "../../x", "session_id": "../../../../x"},
        "messages": [
            {"role": "user", "content": "\x1b]0;x\x07 hi"},
            {"role": "x" * 9999, "content": [1, {"text": 3}]},
        ],
    }
    bob.write("../evil \x1b[31m.json", json.dumps(document))
    made = bob.json("import", "../evil \x1b[31m.json")
    shown = bob.json("show", made["revision"])

    assert made["session"] == "headsmai"
    assert shown["agent"] is None
    assert shown["compensations"] == []
    assert shown["facts"]["a"] == "\x1b[31m"
    assert shown["handoff"]["next"] == ["go"]
    assert "\x1b" not in bob.gitcp("show", made["revision"], check=0).out
    assert all(ref.startswith("refs/gitcp/remotes/imported/sessions/") for ref in refs_of(bob))


def bundled(project: Project, tip: Oid) -> bytes:
    """A bundle of session alpha with this end, as somebody could make it by hand."""
    names = project.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)").encode()
    pack = subprocess.run(
        ["git", "pack-objects", "--stdout", "-q"],
        cwd=project.root,
        input=names,
        capture_output=True,
    )
    return HEAD + b"%s refs/gitcp/sessions/alpha\n\n" % tip.encode() + pack.stdout


def refused(bob: Project, data: bytes) -> str:
    """Import a file that must be refused, with nothing named, and nothing written but objects; why
    it was.
    """
    path = bob.root.parent / "evil"
    path.write_bytes(data)
    try:
        found = importing.import_file(open_store(bob), importing.ImportRequest(path))
    except GitcpError as error:
        return str(error)
    finally:
        path.unlink()
        assert refs_of(bob) == []
    assert found
    return next(one.refused for one in found)


@pytest.fixture
def mallory(project: Project) -> Project:
    """A repository with session alpha of two checkpoints."""
    store = open_store(project)
    for number in range(2):
        save(
            store,
            "alpha",
            {b"a.txt": b"%d\n" % number},
            {"main": b'{"type":"user"}\n' * (number + 1)},
        )
    return project


def test_malicious_trees(mallory: Project, bob: Project) -> None:
    """Every entry that would write where it must not is refused whole, and no ref names what held
    it.
    """
    store = open_store(mallory)
    store.writer.write_blob(b"")
    before, outside = bob.files(), sorted(os.listdir(bob.root.parent))
    for number, entry in enumerate(BAD_ENTRIES):
        assert refused(bob, bundled(mallory, with_entry(store, entry, below=bool(number % 2)))), (
            entry
        )
    assert bob.files() == before
    assert sorted(os.listdir(bob.root.parent)) == outside
    good = bundle.write(store.repo, {"refs/gitcp/sessions/alpha": recommitted(store)})
    bob.root.parent.joinpath("good").write_bytes(good)
    assert "2 new checkpoints" in bob.gitcp("import", "../good", check=0).out


def test_objects_that_git_refuses(mallory: Project, bob: Project) -> None:
    """git checks every object of a bundle, as it does those of a fetch: no `fsck` finds fault with
    what is taken.
    """
    store = open_store(mallory)
    tip = store.tip("alpha")
    assert tip is not None
    head, blank, body = store.reader.read_commit(tip).partition(b"\n\n")
    for worse in (
        head.replace(b" <", b" ", 1),
        head.replace(b"author ", b"author a <b> 1 +0000\nauthor ", 1),
    ):
        bad = store.writer.write("commit", worse + blank + body)
        store.writer.flush()
        assert "git rejects the bundle" in refused(bob, bundled(mallory, bad))
    said = bob.git("cat-file", "--batch-all-objects", "--batch-check=%(objecttype)").split()
    assert said.count("commit") == 1


def test_left_over(mallory: Project, bob: Project) -> None:
    """The copy of an import that was killed goes with the next import."""
    mallory.gitcp("export", "alpha", "-o", "../good.bundle", check=0)
    open_store(bob)
    left = bob.git_dir / "gitcp/incoming.99999999"
    left.parent.mkdir(exist_ok=True)
    left.write_bytes(b"x")
    bob.gitcp("import", "../good.bundle", check=0)
    assert not left.exists()


def test_malicious_metadata(mallory: Project, bob: Project) -> None:
    """Metadata and trailers that lie are refused whole."""
    store = open_store(mallory)
    lies = [
        recommitted(store, old=b"Gitcp-Number: 2", new=b"Gitcp-Number: 1"),
        recommitted(store, old=b"Gitcp-Session: alpha", new=b"Gitcp-Session: ../../heads/main"),
        *(
            with_metadata(store, text)
            for text in (b"{", b'{"format": 99}', b"[" * 100_000, b'{"format": 1}')
        ),
    ]
    with bob.guard():
        for tip in lies:
            assert refused(bob, bundled(mallory, tip))


def test_links_in_a_bundle_lead_nowhere(mallory: Project, bob: Project) -> None:
    """A link in one checkpoint and a file below it in the next write nothing outside, in either
    order.
    """
    store = open_store(mallory)
    target = bob.root.parent / "outside"
    target.mkdir()
    link = store.writer.write_tree(
        [TreeEntry(b"lib", SYMLINK, store.writer.write_blob(os.fsencode(target)))]
    )
    below = store.writer.write_tree([TreeEntry(b"keep", FILE, store.writer.write_blob(b"evil\n"))])
    inside = store.writer.write_tree([TreeEntry(b"lib", TREE, below)])
    for tree in (link, inside):
        tip = store.tip("alpha")
        assert tip is not None
        parent = store.read(tip)
        save(store, "alpha", snapshot=replace(parent.snapshot, tree=tree, total=1))
    mallory.gitcp("export", "alpha", "-o", "../links.bundle", check=0)
    bob.gitcp("import", "../links.bundle", check=0)
    for number in (3, 4, 3):
        bob.gitcp("restore", f"imported/alpha@{number}", "--yes", "--trust", "--files", check=0)
    bob.gitcp("restore", "imported/alpha@4", "--yes", "--trust", "--files", check=0)

    assert list(target.iterdir()) == []
    assert bob.read("lib/keep") == b"evil\n"


# ---------------------------------------------------------------- sizes


def packed(*objects: tuple[int, int, bytes]) -> bytes:
    """A bundle of objects: kind, the size that it says, and its data before compression."""
    body = b"PACK" + struct.pack(">II", 2, len(objects))
    for kind, size, data in objects:
        head, rest = [kind << 4 | size & 15], size >> 4
        while rest:
            head[-1] |= 128
            head.append(rest & 127)
            rest >>= 7
        body += bytes(head) + (b"\1" * FORMAT.raw if kind == 7 else b"") + zlib.compress(data, 9)
    return (
        HEAD
        + b"1" * FORMAT.digits
        + b" refs/gitcp/sessions/x\n\n"
        + body
        + FORMAT.hasher(body).digest()
    )


BOMBS: dict[str, Callable[[], bytes]] = {
    "an object that is too large": lambda: packed((3, 1 << 40, b"")),
    "more than it says": lambda: packed((3, 10, bytes(1 << 24))),
    "less than it says": lambda: packed((3, 10, b""))[: -FORMAT.raw - 10],
    "a delta that unfolds": lambda: packed(
        (7, 12, b"\xff\xff\xff\xff\x0f" + b"\xff\xff\xff\xff\xff\x0f" + b"\1")
    ),
    "no end": lambda: packed((3, 1 << 28, bytes(1 << 28)))[:60_000],
}
"""Made when they are wanted: to compress a quarter of a gigabyte takes seconds."""


@pytest.mark.parametrize("what", BOMBS)
def test_bombs(tmp_path: Path, what: str) -> None:
    """A bundle that says, or turns out, to be larger than can be meant is refused before git opens
    it.
    """
    path = tmp_path / "bomb"
    path.write_bytes(BOMBS[what]())

    with pytest.raises(StoreDamaged):
        bundle.check_sizes(path, largest=1 << 30, most=1 << 34)


def test_bomb_of_many(tmp_path: Path) -> None:
    """Many objects that are each small enough are counted together."""
    path = tmp_path / "bomb"
    path.write_bytes(packed(*((3, 1 << 20, bytes(1 << 20)),) * 20))

    bundle.check_sizes(path, largest=1 << 30, most=1 << 30)
    with pytest.raises(StoreDamaged, match="more than"):
        bundle.check_sizes(path, largest=1 << 30, most=10 << 20)


def test_sizes_of_gits_own(sent: Project) -> None:
    """What git and gitcp write is read to its end, whichever way it is packed."""
    for name in ("../talk.bundle", "../git.bundle", "../v3.bundle"):
        if name != "../talk.bundle":
            version = ("--version=3",) if "v3" in name else ()
            sent.git("bundle", "create", *version, name, "--all")
        bundle.check_sizes(Path(os.fsdecode(sent.path(name))), largest=1 << 20, most=1 << 24)
    subprocess.run(
        ["git", "bundle", "verify", "../v3.bundle"], cwd=sent.root, check=True, capture_output=True
    )


# ---------------------------------------------------------------- trajectories


@pytest.mark.parametrize("agent", AGENTS)
def test_a_trajectory_goes_on(project: Project, tmp_path: Path, agent: str) -> None:
    """Exported by one, imported by another for any agent: each text, call and result, in order."""
    home = tmp_path / "agents-home"
    transcripts.write("claude-code", home, project.root)
    project.gitcp("save", "one", env={"HOME": str(home)}, check=0)
    project.gitcp("export", "-f", "atif", "-o", "../it.json", env={"HOME": str(home)}, check=0)
    other = Project(tmp_path / "other")
    with other.guard():
        done = other.gitcp("import", "../it.json", "--agent", agent, "--json", check=0).out
    revision = json.loads(done)["revision"]
    shown = json.loads(other.gitcp("export", revision, "-f", "json", check=0).out)

    texts = [message["content"] for message in shown["messages"]]
    told = [text for text in transcripts.TOLD if text != transcripts.SUMMARY]
    assert in_order(told, texts), texts
    results = {m["call"]: m["content"] for m in shown["messages"] if m["role"] == "tool"}
    assert results == dict(transcripts.CALLS)
    assert shown["agent"]["name"] == agent


def test_a_trajectory_names_its_agent(project: Project, tmp_path: Path) -> None:
    """Without --agent, it is that one's if gitcp can write it; else it is refused whole."""
    steps = [
        {"step_id": 1, "source": "system", "message": "You are."},
        {"step_id": 2, "source": "user", "message": "hello"},
        {"step_id": 3, "source": "agent", "message": "hi"},
    ]
    document = {"schema_version": "ATIF-v1.7", "agent": {"name": "codex"}, "steps": steps}
    path = tmp_path / "it.json"
    path.write_text(json.dumps(document), "utf-8")
    with project.guard():
        project.gitcp("import", str(path), check=0)
        path.write_text(json.dumps({**document, "agent": {"name": "mine"}}), "utf-8")
        refused = project.gitcp("import", str(path), check=2)
        assert "a trajectory of 'mine', whose transcripts gitcp cannot write" in refused.err
        assert f"gitcp import {path} --agent codex" in refused.err
        path.write_text(json.dumps({**document, "steps": []}), "utf-8")
        project.gitcp("import", str(path), check=2)
