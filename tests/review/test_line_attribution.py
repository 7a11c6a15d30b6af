"""`gitcp export --as git-ai` and `--as agent-trace`: which lines of commits agents wrote, in the
formats of other tools.
"""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from gitcp.model import NOBODY, Authors, Claim, Oid
from gitcp.review import attribution, git_ai
from gitcp.review.attribution import AttributedCommit

from driver import Project
from samples import open_store, save

TALK = {"main": b'{"type":"user","message":{"content":"go"}}\n'}
OWN, NOBODYS = Authors(own=9), {b"hand.py": Claim(frozenset((NOBODY,)))}
SHOP = b"def total(prices):\n    return sum(prices)\n\n}\n"
SESSION = "s_9ac6ea777065e1"


@pytest.fixture
def worked(project: Project) -> Project:
    """A branch with one commit: an agent wrote two files, a person a third one and a line."""
    project.write("base.py", "base = 1\n")
    project.commit("begin")
    project.git("checkout", "--quiet", "-b", "topic")
    store, base = open_store(project), b"base = 1\n"
    save(store, "alpha", {b"base.py": base}, TALK, authors=OWN)
    files = {b"base.py": base, b"shop.py": SHOP, b"a file.py": b"import shop\n"}
    save(store, "alpha", files, TALK, authors=OWN)
    files[b"hand.py"] = b"written by hand\n"
    save(store, "alpha", files, TALK, authors=Authors(claims=NOBODYS))
    for path, data in files.items():
        project.write(path, data)
    project.write("shop.py", SHOP + b"# later, by hand\n")
    project.commit("a shop")
    return project


def attributed(project: Project) -> list[AttributedCommit]:
    base, head = (Oid(project.git("rev-parse", name)) for name in ("main", "topic"))
    return attribution.attributed(open_store(project), base, head)


def lines(commit: AttributedCommit) -> dict[bytes, list[tuple[int, int]]]:
    return {path: [*parts[0].ranges] for path, parts in commit.files.items()}


def test_lines(worked: Project) -> None:
    """Only what the agent's session wrote; a bracket belongs to its neighbors if they agree."""
    (commit,) = attributed(worked)
    assert lines(commit) == {b"a file.py": [(1, 1)], b"shop.py": [(1, 2)]}
    assert {part.writer.session for part in commit.parts} == {"alpha"}


@pytest.mark.parametrize("saved", [False, True])
def test_a_line_that_a_person_wrote_too(worked: Project, *, saved: bool) -> None:
    """Of two equal lines, the agent wrote one: which one is not recorded, and neither is its."""
    text = SHOP + b"    return sum(prices)\n"
    if saved:
        claims = {b"shop.py": Claim(frozenset((NOBODY,)))}
        files = {b"base.py": b"base = 1\n", b"shop.py": text, b"a file.py": b"import shop\n"}
        files[b"hand.py"] = b"written by hand\n"
        store = open_store(worked)
        save(store, "alpha", files, TALK, authors=Authors(claims=claims))
        files[b"shop.py"] = text + b"# the agent went on\n"
        save(store, "alpha", files, TALK, authors=OWN)
    worked.write("shop.py", text)
    worked.git("add", "-A")
    worked.git("commit", "--quiet", "--amend", "-m", "a shop")
    (commit,) = attributed(worked)
    assert lines(commit)[b"shop.py"] == [(1, 1)]


def test_a_line_that_the_agent_wrote_twice(worked: Project) -> None:
    """In two checkpoints: both are its own."""
    text = SHOP + b"    return sum(prices)\n"
    files = {b"base.py": b"base = 1\n", b"shop.py": text, b"a file.py": b"import shop\n"}
    save(open_store(worked), "alpha", files | {b"hand.py": b"written by hand\n"}, TALK, authors=OWN)
    worked.write("shop.py", text)
    worked.git("add", "-A")
    worked.git("commit", "--quiet", "--amend", "-m", "a shop")
    (commit,) = attributed(worked)
    assert lines(commit)[b"shop.py"] == [(1, 5)]


def test_note(worked: Project) -> None:
    """The note is in git's notes, and says what the lines above say; nothing else changed."""
    with worked.guard():
        said = worked.gitcp("export", "--as", "git-ai", "--dry-run", check=0).out
    assert said.startswith("would write 1 note to refs/notes/ai\n")
    before = worked.git("for-each-ref", "--format=%(refname) %(objectname)")
    said = worked.gitcp("export", "--as", "git-ai", check=0).out
    assert "  3 lines in 2 files, claude-code\n" in said
    text, _, metadata = worked.git("notes", "--ref=ai", "show", "topic").partition("\n---\n")
    tip = open_store(worked).tip("alpha")
    assert tip
    second = worked.git("rev-parse", f"{tip}^")
    assert text == (
        f'"a file.py"\n  {SESSION}::t_{second[:14]} 1\nshop.py\n  {SESSION}::t_{second[:14]} 1-2'
    )
    fields = json.loads(metadata)
    assert fields["schema_version"] == "authorship/3.0.0"
    assert fields["base_commit_sha"] == worked.git("rev-parse", "topic")
    assert [*fields["sessions"]] == [SESSION]
    assert fields["sessions"][SESSION]["agent_id"] == {
        "tool": "claude",
        "id": "5e55",
        "model": "model",
    }
    undo = said.partition("undo with: ")[2].partition("\n")[0]
    subprocess.run(undo.split(), cwd=worked.root, check=True)
    assert worked.git("for-each-ref", "--format=%(refname) %(objectname)") == before


def test_others_notes(worked: Project) -> None:
    """A note that is there is kept, and a second export writes nothing."""
    worked.git("notes", "--ref=ai", "add", "-m", "somebody's", "topic")
    worked.git("notes", "--ref=ai", "add", "-m", "old", "main")
    done = worked.gitcp("export", "--as", "git-ai", "main^{}..topic", check=0)
    assert done.out == "wrote 0 notes to refs/notes/ai\n"
    assert "kept the notes that 1 commit already had" in done.err
    assert worked.git("notes", "--ref=ai", "show", "topic") == "somebody's"
    worked.git("notes", "--ref=ai", "remove", "topic")
    worked.gitcp("export", "--as", "git-ai", check=0)
    assert SESSION in worked.git("notes", "--ref=ai", "show", "topic")
    assert worked.git("notes", "--ref=ai", "show", "main") == "old"


def test_trace(worked: Project) -> None:
    """Agent Trace has a record for each commit, the same each time."""
    written = [worked.gitcp("export", "--as", "agent-trace", check=0).out for _ in range(2)]
    assert written[0] == written[1]
    record: dict[str, Any] = json.loads(written[0])
    assert (record["version"], record["vcs"]["type"]) == ("0.1.0", "git")
    assert record["vcs"]["revision"] == worked.git("rev-parse", "topic")
    assert [(each["path"], each["conversations"]) for each in record["files"]] == [
        (
            path,
            [
                {
                    "contributor": {"type": "ai", "model_id": "model"},
                    "ranges": [{"start_line": 1, "end_line": last}],
                }
            ],
        )
        for path, last in (("a file.py", 1), ("shop.py", 2))
    ]
    worked.gitcp("export", "--as", "agent-trace", "-o", "../trace.jsonl", check=0)
    assert (worked.root.parent / "trace.jsonl").read_text() == written[0]


def test_refused(worked: Project) -> None:
    """Nothing is written for options that mean something else, and without new commits."""
    for options in (("-o", "../x"), ("-f", "json"), ("--redact",)):
        worked.gitcp("export", "--as", "git-ai", *options, check=2)
    for directory in ("..", "../traces/"):
        to = ("--as", "agent-trace", "--force", "-o", directory)
        refused = worked.gitcp("export", *to, check=2)
        assert f"writes one file, and {directory} names a directory" in refused.err
        assert "hint: gitcp export --as agent-trace -o FILE\n" in refused.err
    assert not (worked.root.parent / "traces").exists()
    worked.git("checkout", "--quiet", "main")
    assert "HEAD~1.." in worked.gitcp("export", "--as", "git-ai", check=2).err
    for ends in ("main..none", "none..main"):
        error = worked.gitcp("export", "--as", "git-ai", ends, check=2).err
        assert "nothing was written" in error
        assert "review" not in error
    assert "refs/notes" not in worked.git("for-each-ref")


@pytest.mark.parametrize("path", [b"\xff.py", b'a"b', b"a\nb", b"---", b" a", b"a\tb"])
def test_unnamed(path: bytes) -> None:
    """What a note cannot name is left out."""
    assert git_ai.name_of(path) is None
