"""`gitcp view`: the story of a session as one file. What the page does in a browser is tried beside
this.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinds import IS_OWN_STORE
from talk import Talk
from tokens import tokens

from gitcp.model import CheckpointId
from gitcp.review.pages.text import blocks
from gitcp.review.pages.view import render
from gitcp.review.patches import FilePatch, parse
from gitcp.review.view import ViewStory, mapped, story, texts

from driver import Project
from samples import open_store, save

PAGE = "gitcp/view.html"


@pytest.fixture
def worked(project: Project) -> Project:
    """Three checkpoints of an agent's session."""
    project.write("app.py", "one\n")
    project.commit()
    talk = Talk(project)
    for number, answer in enumerate(("first answer", "second answer", "third answer"), 1):
        talk.say(f"prompt {number}", answer)
        project.write("app.py", f"version {number}\n")
        project.gitcp("save", f"step {number}", "--fact", f"n={number}", check=0)
    return project


def told(project: Project, session: str) -> ViewStory:
    """The whole story of a session."""
    store = open_store(project)
    tip = store.tip(session)
    assert tip is not None
    return story(store, None, tip)


# ---------------------------------------------------------------- the command


def test_page(worked: Project) -> None:
    """It holds every checkpoint, what was said before it and what changed, and touches nothing but
    its own file.
    """
    with worked.guard():
        said = worked.gitcp("view", check=0)

    page = worked.read(worked.git_dir / PAGE).decode()
    assert said.out.startswith(f"wrote {worked.git_dir.resolve()}/{PAGE}")
    assert said.err == ""
    assert "<title>prompt 1 · gitcp</title>" in page
    assert re.findall(r'<section class="step" id="c(\d+)"', page) == ["1", "2", "3"]
    first, second = page.index('id="c1"'), page.index('id="c2"')
    assert (
        first
        < page.index("first answer")
        < page.index("+version 1")
        < second
        < page.index("second answer")
    )
    assert stat.S_IMODE(os.stat(worked.path(worked.git_dir / PAGE)).st_mode) == 0o600
    worked.gitcp("view", check=0)
    assert worked.read(worked.git_dir / PAGE).decode() == page


def test_what_enable_wrote_is_folded(project: Project) -> None:
    """The files of `gitcp enable` are one folded entry; a user's own command beside them is not in
    it, and neither are settings that the user changed without it.
    """
    project.gitcp("enable", "claude", "--yes", check=0)
    project.write(".claude/commands/mine.md", "mine\n")
    project.write("app.py", "one\n")
    talk = Talk(project)
    project.gitcp("save", "--session", "e7baae82", "--trigger", "prompt", check=0)
    talk.say("the first prompt", "an answer")
    project.gitcp("save", check=0)
    project.write(".claude/settings.json", '{"model": "mine"}\n')
    project.gitcp("save", check=0)
    project.gitcp("view", check=0)
    page = project.read(project.git_dir / PAGE).decode()

    start, end = page.index('<details class="own">'), page.index('id="c2"')
    shown, folded = page[page.index('id="c1"') : start], page[start:end]
    assert re.findall(r'class="path">([^<]+)', shown) == [".claude/commands/mine.md", "app.py"]
    assert "that <code>gitcp enable</code> writes" in folded
    assert ".claude/settings.json" in folded
    assert ".claude/skills/gitcp/SKILL.md" in folded
    assert page.count('<details class="own">') == 1
    assert ".claude/settings.json" in page[end:]


def test_noise(project: Project) -> None:
    """A checkpoint of the same prompt has no name in the timeline, an empty one no body, and notes
    are shown where they changed; paths are relative.
    """
    talk = Talk(project)
    talk.say("one prompt", "an answer")
    project.gitcp("save", "--trigger", "turn", "--task", "the task", check=0)
    project.write("app.py", "one\n")
    project.gitcp("save", "--trigger", "turn", check=0)
    project.gitcp("save", "a label", check=0)
    project.gitcp("view", check=0)
    page = project.read(project.git_dir / PAGE).decode()

    assert re.findall(r'class="name">([^<]+)', page) == ["one prompt", "a label"]
    assert re.findall(r'<section class="(step[^"]*)"', page) == [
        "step",
        "step",
        "step quiet",
    ]
    assert page.count("<summary>Notes</summary>") == 1
    assert "app.py</small>" in page


def test_which(worked: Project) -> None:
    """Up to a checkpoint, a session by its name, or a range: of what was said before, too, only
    what is new.
    """
    assert worked.json("view", "2")["checkpoints"] == ["e7baae82@1", "e7baae82@2"]
    assert worked.json("view", "e7baae82")["messages"] == 6
    only = worked.json("view", "2..3")
    assert only["checkpoints"] == ["e7baae82@3"]
    assert only["messages"] == 2
    assert b"second answer" not in worked.read(worked.git_dir / PAGE)
    assert worked.gitcp("view", "3..3").code == 16
    assert worked.gitcp("view", "nothing").code == 16


def test_file(worked: Project, tmp_path: Path) -> None:
    """A file of its own, relative to where one is; stdout; never through what is no file, nor over
    another one: a page named like a source file replaced it.
    """
    os.mkdir(worked.path("sub"))
    worked.gitcp("view", "-o", "page.html", cwd=worked.root / "sub", check=0)
    page = worked.read("sub/page.html")

    assert worked.gitcp("view", "-o", "-", check=0).out.encode() == page
    assert worked.gitcp("view", "HEAD", "-o", "-", check=0).out.encode() == page
    assert not os.path.exists(worked.path(worked.git_dir / PAGE))
    os.mkfifo(tmp_path / "pipe")
    for file in (tmp_path, tmp_path / "pipe", tmp_path / "missing/x", "/dev/null", "missing/"):
        for force in ((), ("--force",)):
            done = worked.gitcp("view", "-o", str(file), *force)
            assert done.code == 2, done
            assert "nothing was written" in done.err
    assert worked.gitcp("view", "-o", "sub/page.html").code == 12
    assert worked.read("sub/page.html") == page
    worked.gitcp("view", "1", "-o", "sub/page.html", "--force", check=0)
    assert worked.read("sub/page.html") != page
    assert worked.gitcp("view", "-o", "-", "--json").code == 2
    assert os.listdir(worked.path("sub")) == [b"page.html"]


def test_nothing_to_view(project: Project) -> None:
    """Without a checkpoint it says what to type."""
    done = project.gitcp("view")

    assert done.code == 16
    assert "gitcp save" in done.err


def test_every_text_is_scanned(worked: Project) -> None:
    """What is scanned are the texts that redaction would change, each of them."""
    store = open_store(worked)
    made = story(store, None, next(iter(store.sessions().values())))
    changed: list[str] = []
    mapped(made, lambda text: changed.append(text) or text)  # type: ignore[func-returns-value]
    assert len(changed) > 50
    assert sorted(texts(made).decode().split("\n")) == sorted(
        "\n".join(filter(None, changed)).split("\n")
    )


def test_secrets(worked: Project, tmp_path: Path) -> None:
    """With a secret in file, conversation or note nothing is written to a file; --redact and
    --allow let it.
    """
    secret = tokens()["npm-token"]
    worked.write("key.txt", f"a\n{secret}\nb\n")
    Talk(worked).say(f"use {secret}")
    worked.gitcp("save", f"with {secret}", "--fact", f"key={secret}", check=0)
    file = tmp_path / "page.html"

    done = worked.gitcp("view", "-o", str(file))
    assert done.code == 15
    assert not file.exists()
    assert secret not in done.err
    assert all(f", {place}" in done.err for place in ("file", "conversation", "metadata"))
    id = re.findall(r"^  ([0-9a-f]{12})  npm-token", done.err, re.MULTILINE)[0]

    assert worked.gitcp("view", "-o", str(file), "--redact", check=0).err == "1 secret redacted\n"
    assert secret not in file.read_text()
    assert file.read_text().count("[REDACTED:npm-token]") >= 4
    assert "+a\n+[REDACTED:npm-token]\n+b<" in file.read_text()

    worked.gitcp("view", "-o", str(file), "--force", "--allow", id, check=0)
    assert secret in file.read_text()

    worked.gitcp("secrets", "--revoke", id, check=0)
    mine = worked.gitcp("view", check=0)
    assert "1 secret" in mine.err
    assert b"do not share it" in worked.read(worked.git_dir / PAGE)
    assert {f["place"] for f in worked.json("view")["findings"]} == {
        "file",
        "conversation",
        "metadata",
    }


def test_names(worked: Project, tmp_path: Path) -> None:
    """The session's name, and a list in a program's position, are texts too."""
    secret = tokens()["npm-token"]
    worked.gitcp("save", "--session", secret, check=0)
    file = tmp_path / "page.html"
    for revision in (("--session", secret), (f"{secret}@1",)):
        assert (
            "metadata" in worked.gitcp("view", "-o", str(file), "--force", *revision, check=15).err
        )
        worked.gitcp("view", "-o", str(file), "--force", *revision, "--redact", check=0)
        assert secret not in file.read_text()
    assert mapped({"at": ["a", CheckpointId("a", 1)]}, str.upper) == {
        "AT": ["A", CheckpointId("A", 1)]
    }


@pytest.mark.skipif(IS_OWN_STORE, reason="without git, nothing is committed")
def test_filtered(worked: Project, tmp_path: Path) -> None:
    """A page that leaves names the files that git would encrypt, also where one is removed, and
    shows none of them; the page that stays does.
    """
    worked.write(".gitattributes", "*.key filter=crypt\n")
    worked.write("s.key", "topsecret one\n")
    worked.write("same.key", "topsecret two\n")
    worked.gitcp("save", "a key", check=0)
    worked.remove("s.key")
    worked.gitcp("save", "no key", check=0)
    file = tmp_path / "page.html"
    done = worked.gitcp("view", "-o", str(file), check=0)
    assert "  s.key  (filter crypt)" in done.err
    assert "topsecret" not in file.read_text()
    assert "s.key" in file.read_text()
    assert "topsecret" not in worked.gitcp("view", "-o", "-", check=0).out
    worked.gitcp("view", "-o", str(file), "--force", "--allow-filtered", check=0)
    assert "topsecret" in file.read_text()
    worked.gitcp("view", check=0)
    assert b"topsecret" in worked.read(worked.git_dir / PAGE)


# ---------------------------------------------------------------- the story


def test_back(worked: Project) -> None:
    """Where a restore took the conversation back, what was said on both ways is there, each message
    once.
    """
    worked.gitcp("restore", "1", "--yes", check=0)
    Talk(worked).say("another way")

    steps = told(worked, "e7baae82").steps
    texts = [message.text for step in steps for message in step.turn.messages]

    assert texts == [
        "prompt 1",
        "first answer",
        "prompt 2",
        "second answer",
        "prompt 3",
        "third answer",
    ]
    assert [step.turn.back for step in steps] == [0, 0, 0, 4]


def test_rewritten(project: Project) -> None:
    """A conversation that was written anew is compared by what was said."""
    store = open_store(project)
    for lines in (("a", "b"), ("a", "x", "y"), ("a", "x", "y", "z")):
        data = "".join(
            f'{{"type":"user","uuid":"{n}","message":{{"content":"{t}"}}}}\n'
            for n, t in enumerate(lines)
        )
        save(store, "s", None, {"main": data.encode(), "agents/one": data.encode()})

    turns = [step.turn for step in told(project, "s").steps]

    assert [[m.text for m in turn.messages] for turn in turns] == [["a", "b"], ["x", "y"], ["z"]]
    assert [turn.back for turn in turns] == [0, 1, 0]
    assert [[(a.name, len(a.messages)) for a in turn.asides] for turn in turns] == [
        [("agents/one", 4)],
        [],
        [],
    ]


def test_torn(project: Project) -> None:
    """A last line without its end belongs to the checkpoint that has it, whole or not."""
    store = open_store(project)
    data = b"".join(b'{"type":"user","message":{"content":"%d"}}\n' % n for n in range(3))
    save(store, "s", None, {"main": data[: len(data) // 3 - 1]})
    save(store, "s", None, {"main": data})

    assert [len(step.turn.messages) for step in told(project, "s").steps] == [1, 2]


def test_large_files(project: Project) -> None:
    """A file that is too large, and files that are too many, are named and not shown."""
    store = open_store(project)
    files = {b"large": b"x\n" * 600_000, **{b"f%03d" % n: b"%d\n" % n for n in range(250)}}
    save(store, "s", files)

    step = told(project, "s").steps[0]

    assert len(step.patches) == 200
    assert "large" in step.others
    assert len(step.patches) + len(step.others) == 251
    assert b"<li>large</li>" in render(told(project, "s"))
    save(store, "s", {**files, b"later": b"x\n" * 600_000, b"small": b"x\n"})
    later = told(project, "s").steps[1]
    assert later.others == ("later",)
    assert [patch.path for patch in later.patches] == ["small"]


def test_cut(project: Project) -> None:
    """What is too long for a page is cut, and the page says by how much."""
    store = open_store(project)
    said = b'{"type":"user","message":{"content":"%s"}}\n' % (b"w" * 50_000)
    save(store, "s", {b"f": b"line\n" * 2000, b"g": b"m" * 9000}, {"main": said})

    page = render(told(project, "s")).decode()

    assert "10,000 characters more in the checkpoint" in page
    assert "500 lines more in the checkpoint" in page
    assert page.count("+line\n") + page.count("+line<") == 1500
    assert "7,000 characters more" in page


def test_cut_more(project: Project) -> None:
    """Where a story has more than 60,000 changed lines, each file shows only a hundred."""
    store = open_store(project)
    save(store, "s", {b"f%d" % n: b"x\n" * 2000 for n in range(31)})

    page = render(told(project, "s")).decode()

    assert page.count("1,900 lines more in the checkpoint") == 31


# ---------------------------------------------------------------- patches


def test_patches(project: Project) -> None:
    """Every kind of change, and every odd name, is as git has it."""
    store = open_store(project)
    same = b"".join(b"%d\n" % n for n in range(30))
    before = {
        b"gone": b"1\n",
        b"moved from": same,
        b"binary": b"\0\1",
        b"edited": b"a\nb\nc\n",
        b"empty": b"",
    }
    after = {
        b"moved to": same + b"more\n",
        b"binary": b"\0\2",
        b"edited": b"a\n-- b\ndiff --git a/x b/x\n@@ -1 +1 @@\nc",
        'ü "quoted"\ttab\n'.encode(): b"new\n",
        b"b/a b/a": b"x\n",
        b"a b/a b": b"",
        b"\xff\xfe": b"\xff\n",
        b"empty": b"",
    }
    save(store, "s", before)
    save(store, "s", after)

    found = {patch.path: patch for patch in told(project, "s").steps[1].patches}

    assert found.keys() == {
        "gone",
        "moved to",
        "binary",
        "edited",
        'ü "quoted"\\ttab\\n',
        "b/a b/a",
        "a b/a b",
        "\\xff\\xfe",
    }
    assert found["moved to"].kind == "moved"
    assert found["moved to"].origin == "moved from"
    assert found["binary"].notes == ("binary",)
    assert [(run.sign, run.text) for run in found["edited"].hunks[0].runs] == [
        (" ", "a"),
        ("-", "b\nc"),
        ("+", "-- b\ndiff --git a/x b/x\n@@ -1 +1 @@\nc"),
    ]
    assert found["gone"].kind == "deleted"
    assert found["a b/a b"].kind == "added"
    assert (found["edited"].added, found["edited"].removed) == (4, 2)


@given(st.binary(max_size=200))
def test_any_patch(text: bytes) -> None:
    """Whatever is taken for a patch, something is made of it."""
    found = parse(b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n" + text)

    assert all(isinstance(patch, FilePatch) for patch in found)
    assert (
        found[0].path == "x"
        or b"diff --git" in text
        or b"---" in text
        or b"+++" in text
        or b"to" in text
    )


@given(st.text(alphabet="ab `*|#\n~\\", max_size=200))
def test_prose_keeps_words(text: str) -> None:
    """No word of a message is lost, whatever is taken for Markdown in it."""
    shown = "".join(
        block.text + "".join(piece.text for piece in block.pieces) for block in blocks(text)
    )

    assert re.sub(r"[^a]", "", shown) == re.sub(r"[^a]", "", without_fence_names(text))


def without_fence_names(text: str) -> str:
    """`text` without the words that name the language of a fenced block."""
    kept, fence = [], ""
    for line in text.strip("\n").split("\n"):
        opened = re.match(r" {0,3}(`{3,}|~{3,})[ \t]*([^`\n]*)$", line)
        if not fence and opened:
            fence = opened[1]
        elif fence and re.fullmatch(rf" {{0,3}}{re.escape(fence)}+[ \t]*", line):
            fence = ""
        else:
            kept.append(line)
    return "\n".join(kept)
