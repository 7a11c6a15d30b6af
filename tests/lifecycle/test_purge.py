"""`gitcp purge`: what is purged is in no object and no file of gitcp's any more, and everything
else is as it was.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from dying import die, finish, is_whole, shrink
from hypothesis import given, settings
from hypothesis import strategies as st
from pruned import all_refs, holdings, story
from tokens import tokens

from gitcp.conversation import segments
from gitcp.errors import Refused
from gitcp.git.trees import TreeEntry
from gitcp.git.writer import MOST_LOOSE
from gitcp.lifecycle import prune, purge
from gitcp.lifecycle.check import check
from gitcp.lifecycle.edit import Edit, Editor
from gitcp.model import FILE, Handoff, Note, Run, SkipReason, Source, State, StepName
from gitcp.retention import Policy
from gitcp.saving import conversation
from gitcp.secrets.scan import fingerprint
from gitcp.state import steps, tag
from gitcp.store import Store

from driver import Project
from samples import START, open_store, plain, save

TEXT = 'pa"ss/wörd <1>'
"""JSON writes it in many ways."""

TOKEN = tokens()["github-token"]
ID = fingerprint("github-token", TOKEN.encode())


def held(project: Project, *wanted: str) -> list[str]:
    """The objects, refs and files of the git directory that hold a text in any of the ways JSON
    knows.
    """
    names = project.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
    data = {name: project.git("cat-file", "-p", name) for name in names}
    for place, _, files in os.walk(project.git_dir):
        if "objects" not in Path(place).parts:
            data |= {
                f: Path(place, f).read_bytes().decode("utf-8", "surrogateescape") for f in files
            }
    once = [json.dumps(t, ensure_ascii=a)[1:-1] for t in wanted for a in (True, False)]
    forms = {*wanted, *once, *(json.dumps(t)[1:-1] for t in once)}
    return [name for name, text in data.items() if any(form in text for form in forms)]


def forgotten(project: Project) -> None:
    """Let git be rid of what nothing names."""
    project.git("reflog", "expire", "--expire=now", "--all")
    project.git("gc", "--quiet", "--prune=now")


def everywhere(project: Project) -> Store:
    """A store that holds TEXT in every place where a checkpoint can hold one, and an old chain of
    it in the trash.
    """
    store = open_store(project)
    lines = [
        json.dumps({"role": "user", "content": f"{n} {TEXT}"}).encode() + b"\n" for n in range(4)
    ]
    save(
        store,
        "alpha",
        {b"a.txt": TEXT.encode(), b"b.txt": b"b\n"},
        {"main": lines[0], "agents/one": b"none\n"},
    )
    found = steps.add(store, None, steps.encode(StepName(TEXT, "key"), {TEXT: [TEXT]}))
    note = Note(
        label=f"label {TEXT}",
        phase=f"phase {TEXT}",
        objective=TEXT,
        facts={TEXT: "x", "y": TEXT},
        handoff=Handoff(TEXT, (TEXT,), (TEXT,), (TEXT,), (TEXT,)),
        position={"p": TEXT},
        compensations=(f"echo {TEXT}",),
    )
    run = Run(("echo", TEXT), 0, 5, f"said {TEXT}\n")
    made = save(
        store,
        "alpha",
        {
            b"a.txt": TEXT.encode(),
            f"x {TEXT.replace('/', '')}".encode(): b"a name\n",
            b"b.txt": b"b\n",
        },
        {"main": b"".join(lines[:2]), "agents/one": b"none\n"},
        note=note,
        run=run,
        step=StepName(TEXT, TEXT),
        steps=found,
        extra={"later": [TEXT, {TEXT: 1}]},
    )
    tag.create(store, "mark", made, text=f"about {TEXT}", force=False, now=START)
    save(store, "alpha", {b"b.txt": b"b\n"}, {"main": b"".join(lines), "agents/one": b"none\n"})
    save(store, "beta", {b"c.txt": b"clean\n"})
    project.gitcp("prune", "--keep-last", "1", "--session", "alpha", "--yes", check=0)
    return open_store(project)


def test_everywhere(project: Project) -> None:
    """From whatever place of a checkpoint: once git has forgotten the old objects, the text is
    nowhere.
    """
    everywhere(project)
    clean = project.git("rev-parse", "refs/gitcp/sessions/beta")
    ids = [c["id"] for c in project.json_lines("log", "--all")]
    assert held(project, TEXT)
    with project.guard():
        done = project.gitcp("purge", "--text", "-", "--yes", input=f"{TEXT}\n", check=0)
    assert TEXT not in done.out + done.err
    assert "purged a text from 3 checkpoints" in done.out
    forgotten(project)

    assert held(project, TEXT) == []
    assert project.gitcp("check").code == 0
    assert [c["id"] for c in project.json_lines("log", "--all")] == ids
    assert project.git("rev-parse", "refs/gitcp/sessions/beta") == clean
    shown = project.json("show", "alpha@2")
    assert shown["label"] == "label [PURGED]"
    assert shown["facts"] == {"[PURGED]": "x", "y": "[PURGED]"}
    assert shown["run"]["output"] == "said [PURGED]\n"
    assert "no match" in project.gitcp("purge", "--text", TEXT, "--yes", check=0).out


def test_undo_of_a_prune(project: Project) -> None:
    """What an undo brings back of an earlier prune is purged as well."""
    store = open_store(project)
    for number in range(3):
        save(
            store,
            "alpha",
            {b"a.txt": b"%d %s" % (number, TEXT.encode())},
            {"main": b'{"t":"%d"}\n' % number},
        )
    save(store, "alpha", {b"a.txt": b"clean"}, {"main": TEXT.encode()})
    project.gitcp("prune", "--keep-last", "1", "--yes", check=0)
    project.gitcp("purge", "--text", TEXT, "--yes", check=0)

    assert "restored 3 checkpoints" in project.gitcp("undo", check=0).out
    forgotten(project)

    assert held(project, TEXT) == []
    assert [c["id"] for c in project.json_lines("log", "alpha")] == [
        f"alpha@{n}" for n in (4, 3, 2, 1)
    ]
    assert project.gitcp("show", "alpha@2:a.txt", check=0).out == "1 [PURGED]"
    project.gitcp("check", check=0)


def test_path(project: Project) -> None:
    """A purged path is in no checkpoint, and a restore to one that had it leaves the user's file
    where it is.
    """
    project.write(".env", "KEY=1\n", mode=0o600)
    project.write("keys/a/b", "1\n")
    project.write("a.txt", "one\n")
    project.commit()
    project.write("keys/a/b", "staged\n")
    project.git("add", "keys/a/b")
    project.write("keys/a/b", "2\n")
    project.gitcp("save", "one", "--session", "alpha", check=0)
    project.write("a.txt", "two\n")
    project.remove("keys")
    project.gitcp("save", "two", "--session", "alpha", check=0)
    with project.guard():
        project.gitcp("purge", "--path", ".env", "--path", "keys/", "--yes", check=0)
    project.gitcp("check", check=0)

    assert [s["reason"] for s in project.json("show", "alpha@1")["files"]["skipped"]] == [
        "purged",
        "purged",
    ]
    assert project.json("show", "alpha@2")["files"]["total"] == 1
    listed = project.git("ls-tree", "-r", "--name-only", "refs/gitcp/sessions/alpha~1").splitlines()
    assert listed == [".gitcp/README.md", ".gitcp/checkpoint.json", "a.txt"]
    project.write("keys/a/new", "mine\n")
    project.gitcp("restore", "alpha@1", "--yes", check=0)
    assert project.read("a.txt") == b"one\n"
    assert project.read(".env") == b"KEY=1\n"
    assert project.read("keys/a/new") == b"mine\n"


def test_one_secret(project: Project) -> None:
    """By the ID of a finding the secret goes wherever it stands, also where no rule would know
    it.
    """
    project.write("env", f"KEY={TOKEN}\n")
    project.gitcp("save", f"odd x{TOKEN}", "--session", "alpha", check=0)
    project.gitcp("purge", "--secret", ID, "--yes", check=0)
    forgotten(project)

    assert held(project, TOKEN) == []
    assert project.gitcp("show", "@:env", check=0).out == "KEY=[PURGED]\n"
    assert project.gitcp("purge", "--secret", ID, "--yes").code == 16


def test_beside(project: Project) -> None:
    """What gitcp keeps beside the checkpoints is edited or dropped: outputs, conversations put
    back, logs, caches.
    """
    project.write("a.txt", "1\n")
    project.gitcp("save", "one", "--session", "alpha", "--compensate", f"echo '{TOKEN}'", check=0)
    project.gitcp("compensate", "--run", "alpha@1:0", check=0)
    kept = project.git_dir / "gitcp/restored/x.jsonl"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps({"t": TOKEN}))
    project.git_dir.joinpath("gitcp/view.html").write_text(f"&lt;{TOKEN}")
    assert len(held(project, TOKEN)) > 2
    planned = project.json("purge", "--text", TOKEN, "--dry-run")
    assert {"output", "x.jsonl"} <= set(planned["files"])
    project.gitcp("purge", "--text", TOKEN, "--yes", check=0)
    forgotten(project)

    assert held(project, TOKEN) == []
    assert kept.read_text() == '{"t": "[PURGED]"}'
    assert not project.git_dir.joinpath("gitcp/worktree-state").exists()
    assert not project.git_dir.joinpath("gitcp/view.html").exists()
    project.gitcp("save", "two", check=0)
    project.gitcp("check", check=0)


def test_pushed(project: Project, tmp_path: Path) -> None:
    """What was pushed is named with its remote, and a push --force replaces it there."""
    subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / "hub.git"], check=True)
    project.write("a.txt", f"{TEXT}\n")
    project.gitcp("save", "one", "--session", "alpha", "--tag", "good", check=0)
    project.gitcp("remote", "hub", str(tmp_path / "hub.git"), check=0)
    project.gitcp("push", check=0)

    done = project.gitcp("purge", "--text", TEXT, "--yes", check=0).out
    assert "still at hub: session alpha" in done
    assert "still at hub: tag good" in done
    assert "have diverged" in project.gitcp("push", check=12).err
    project.gitcp("push", "--force", check=0)
    forgotten(project)
    assert held(project, TEXT) == []
    assert "still at" not in project.gitcp("purge", "--text", TEXT, "--yes", check=0).out


def test_plan(project: Project) -> None:
    """The plan says where it stands and shows no secret; nothing is changed by it, nor without a
    yes.
    """
    everywhere(project)
    refs = project.git("for-each-ref")
    with project.guard():
        said = project.gitcp("purge", "--text", TEXT, "--dry-run", check=0)
        planned = project.json("purge", "--text", TEXT, "--dry-run")
        refused = project.gitcp("purge", "--text", TEXT, check=12)
    assert project.git("for-each-ref") == refs
    assert project.git("count-objects", "-v").splitlines()[-1] == "size-garbage: 0"
    assert TEXT not in said.out + said.err + refused.out + refused.err
    assert planned["schema"] == "gitcp.purge-plan/1"
    assert planned["checkpoints"] == ["alpha@1", "alpha@2", "alpha@3"]
    assert planned["tags"] == ["mark"]
    assert len(planned["trash"]) == 1
    places = {(place["place"], place["path"]) for place in planned["places"]}
    assert {
        ("file", "a.txt"),
        ("conversation", "main"),
        ("words", None),
        ("results of steps", None),
    } <= places
    assert "file a.txt" in said.out
    assert "--yes" in refused.err


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), 2),
        (("--text", "abc"), 2),
        (("--text", "   a   "), 2),
        (("--text", "long enough", "--path", "x"), 2),
        (("--path", "."), 2),
        (("--path", ".gitcp"), 2),
        (("--path", "../x"), 2),
        (("--secret", "0" * 12), 16),
        (("--text", "alpha"), 12),
        (("--text", "rele"), 12),
        (("--text", "no such text", "--yes"), 0),
        (("--path", "nowhere", "--yes"), 0),
        (("--path", "a.txt", "--session", "alpha", "--yes"), 2),
    ],
)
def test_bad_input(project: Project, options: tuple[str, ...], code: int) -> None:
    """What is too short, outside, unknown, or in a name that stays is said, and nothing is
    changed.
    """
    save(open_store(project), "alpha", {b"a.txt": b"1\n"})
    project.gitcp("tag", "release", "--session", "alpha", check=0)
    before = project.git("for-each-ref")

    done = project.gitcp("purge", *options, check=code)

    assert "Traceback" not in done.err
    assert project.git("for-each-ref") == before


def test_state(project: Project) -> None:
    """The state of a graph that holds the text goes, in one piece or across two; another stays."""
    store = open_store(project)
    for number, pieces in enumerate((("xx se", "cret"), ("no", "thing"))):
        blobs = [store.writer.write_blob(piece.encode()) for piece in pieces]
        tree = store.writer.write_tree(
            [TreeEntry(b"%d" % n, FILE, oid) for n, oid in enumerate(blobs)]
        )
        save(store, "alpha", {b"a.txt": b"%d" % number}, state=State(tree, "put/t//1//"))
    purge.purge(store, purge.of_text(b"secret"))

    made = open_store(project)
    tip = made.tip("alpha")
    assert tip is not None
    last, first = made.history(tip)
    assert made.read(last.commit).state is not None
    assert made.read(first.commit).state is None
    assert "Gitcp-State" not in first.trailers
    assert check(made).ok


def test_unfinished(project: Project) -> None:
    """While a restore is unfinished nothing is purged: it goes by what the checkpoints say."""
    store = open_store(project)
    save(store, "alpha", {b"a.txt": TEXT.encode()})
    (store.repo.store_dir / "runs").mkdir()
    (store.repo.store_dir / "runs" / "x.json").write_text("{}")

    with pytest.raises(Refused, match="run is open"):
        purge.purge(store, purge.of_text(TEXT.encode()))


def test_killed(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed at each of its changes: every chain is whole, all or nothing after the next command,
    and again does it.
    """
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # no power fails here
    story(project, 6)
    prune.prune(open_store(project), prune.PruneRequest(Policy(last=3)))
    ids = holdings(project).keys()
    shrink(project, packed=True)
    before = all_refs(project)
    assert die(project, "purge", tmp_path / "copies", 10) > 20
    after = all_refs(Project(tmp_path / "copies/0"))
    assert before.keys() == after.keys()
    assert before != after

    done = set()
    for copy in sorted(tmp_path.joinpath("copies").iterdir()):
        dying = Project(copy)
        is_whole(dying)
        finish(dying)
        done.add(all_refs(dying) == after)
        if all_refs(dying) != after:
            purge.purge(open_store(dying), purge.of_text(b"the same"))
            is_whole(dying)
        assert all_refs(dying) == after
        assert holdings(dying).keys() == ids
    assert done == {False, True}
    forgotten(dying)
    assert held(dying, "the same") == []


def test_what_a_killed_save_held(project: Project) -> None:
    """A pack that was held for a checkpoint that never came is git's to remove, and the text with
    it.
    """
    save(open_store(project), "alpha", {b"a": b"the word\n"})
    objects = open_store(project).objects
    blob = objects.writer.write_blob(b"the word, again\n")
    for number in range(MOST_LOOSE):
        objects.writer.write_blob(b"%d\n" % number)
    objects.writer.flush(keep=True)
    assert list(project.git_dir.glob("objects/pack/*.keep"))

    project.gitcp("purge", "--text", "-", "--yes", input="the word", check=0)
    project.git("gc", "--quiet", "--prune=now")

    assert not open_store(project).reader.exists(blob)


def test_names_that_become_the_same(project: Project) -> None:
    """Two names that would be one are told apart, and a conversation's stream keeps a name that it
    can have.
    """
    store = open_store(project)
    files = {b"k-aaaa": b"1\n", b"k-[PURGED]": b"2\n"}
    save(store, "alpha", files, {"main": b"x\n", "agents/aaaa": b"y\n"})

    purge.purge(store, purge.of_text(b"aaaa"))

    made = open_store(project)
    tip = made.tip("alpha")
    assert tip is not None
    listed = project.git("ls-tree", "--name-only", tip).splitlines()
    assert listed == [".gitcp", "k-[PURGED]", "k-[PURGED]-2"]
    known = made.read(tip).conversation
    assert known is not None
    assert [stream.name for stream in known.streams] == ["main", "agents/PURGED"]
    assert check(made).ok


def test_staged_and_reason(project: Project) -> None:
    """The staged version of a file is purged too, and a reader knows the reason of a path that is
    not there.
    """
    project.write("a.txt", f"{TEXT} staged\n")
    project.git("add", "a.txt")
    project.write("a.txt", f"{TEXT} now\n")
    project.gitcp("save", "one", "--session", "alpha", check=0)
    project.git("rm", "--cached", "--quiet", "-f", "a.txt")
    project.gitcp("purge", "--text", TEXT, "--yes", check=0)
    forgotten(project)

    assert held(project, TEXT) == []
    project.gitcp("check", check=0)
    assert SkipReason("purged") is SkipReason.PURGED


@settings(max_examples=25)
@given(
    st.lists(
        st.sampled_from([b"a" * 1500, b"secret", b"\n", b'{"k":1}\n', b"sec", b"ret"]), max_size=600
    ),
    st.data(),
)
def test_streams(sealed_project: Project, parts: list[bytes], data: st.DataObject) -> None:
    """Whatever a stream holds and however it grew: edited it is what an editor makes of the whole,
    and checks out.
    """
    store = open_store(sealed_project)
    whole = b"".join(parts)
    end = data.draw(st.integers(0, len(whole)))
    known: tuple[segments.Segment, ...] = ()
    editor = Editor(store, Edit(purge.replacing(b"secret")))
    for grown in (whole[:end], whole):
        cut = segments.cut(store.objects, Source("main", data=grown), known)
        known = cut.segments
        edited = editor._stream(known)
        assert b"".join(segments.content(store.reader, edited)) == grown.replace(
            b"secret", b"[PURGED]"
        )
        found = segments.read_segments(
            store.reader, segments.write_tree(store.writer, edited), sum(edited[-1][1:])
        )
        assert found == edited


@pytest.fixture(scope="module")
def sealed_project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """One repository for all examples: nothing in it is named."""
    return Project(tmp_path_factory.mktemp("streams") / "project")


def test_digest_follows(project: Project) -> None:
    """What a listing says comes from the edited conversation: no beginning of the text stays where
    it was cut off.
    """
    store = open_store(project)
    talk = b""
    for number in range(3):
        prompt = "x" * 170 + "long-secret-" + "y" * 60
        talk += json.dumps(
            {"type": "user", "uuid": f"u{number}", "message": {"role": "user", "content": prompt}}
        ).encode()
        talk += b"\n"
        project.write("t.jsonl", talk)
        project.gitcp(
            "save",
            "--session",
            "alpha",
            "--conversation",
            "t.jsonl",
            "--agent",
            "claude-code",
            check=0,
        )
    purge.purge(store, purge.of_text(("long-secret-" + "y" * 60).encode()))
    forgotten(project)

    assert held(project, "long-secret") == []
    made = open_store(project)
    for id in ("alpha@1", "alpha@3"):
        found = made.read(
            next(
                n.commit
                for n in made.history(made.tip("alpha") or plain().commit)
                if str(n.id) == id
            )
        )
        assert found.conversation is not None
        assert found.conversation.digest.messages == found.id.number
        main = conversation.stored(made, found.conversation, "main")
        assert b"[PURGED]" in b"".join(conversation.lines(made, main))


@pytest.mark.parametrize(
    "spelt", ["geh\\u00f6im+7", "geh\\u00F6im+7", "geh\\u00F6im\\u002B7", "geh\u00f6im\\u002b7"]
)
def test_spellings(project: Project, spelt: str) -> None:
    """However a writer of JSON escapes a text, with large letters or small ones, more or less of
    it: it goes.
    """
    for text in (spelt, spelt.replace("\\", "\\\\")):
        assert (
            purge.replacing("geh\u00f6im+7".encode())(f'{{"x": "{text}"}}'.encode())
            == b'{"x": "[PURGED]"}'
        )
