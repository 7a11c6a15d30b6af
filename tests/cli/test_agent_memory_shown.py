"""The memory of an agent in what commands print, send and remove."""

from __future__ import annotations

from pathlib import Path

import pytest
from talk import Talk

from gitcp.adapters import claude_code
from gitcp.model import Oid
from gitcp.restoring import trust
from gitcp.secrets import checkpoint_scan
from gitcp.store import Store

from driver import Project
from samples import open_store

NOTES = "- the port is 8000\n"
PLACE = ".gitcp/memory/claude-code/MEMORY.md"
TOKEN = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z5A"


@pytest.fixture
def notes(project: Project) -> Path:
    """The file with the notes that the agent of a project keeps."""
    project.write("a", "1\n")
    Talk(project).say("one", "two")
    path = claude_code.memory(project.root, open_store(project).repo.host) / "MEMORY.md"
    path.parent.mkdir()
    path.write_text(NOTES)
    return path


def test_shown_and_restored(project: Project, notes: Path) -> None:
    """`show` lists it, `diff` compares it, the plan of a restore has it, and `--no-memory` leaves
    it.
    """
    project.gitcp("save", "first", check=0)
    notes.write_text(f"{NOTES}- the tests fail\n")
    notes.with_name("new.md").write_text("new\n")

    assert "Memory (1)\n  claude-code/MEMORY.md  19 bytes\n" in project.gitcp("show", check=0).out
    listed = {"agent": "claude-code", "path": "MEMORY.md", "bytes": 19, "problem": ""}
    assert project.json("show")["memory"] == [listed]
    assert project.gitcp("diff", check=0).out == (
        "memory claude-code/MEMORY.md\n+ - the tests fail\nmemory claude-code/new.md\n+ new\n"
    )
    changes = [(each["path"], each["kind"]) for each in project.json_lines("diff")]
    assert changes == [(PLACE, "modified"), (PLACE.replace("MEMORY", "new"), "added")]

    plan = project.json("restore", "--dry-run")["memory"]
    assert (plan["agent"], plan["directory"]) == ("claude-code", str(notes.parent))
    assert (plan["written"], plan["removed"], plan["kept"]) == (["MEMORY.md"], ["new.md"], [])
    left = project.gitcp("restore", "--no-memory", "--yes", check=0)
    assert "everything already matches" in left.out
    done = project.gitcp("restore", "--yes", check=0).out
    assert f"claude-code memory in {notes.parent}: 1 file written, 1 file removed" in done
    assert notes.read_text() == NOTES
    project.gitcp("undo", "--yes", check=0)
    assert notes.with_name("new.md").read_text() == "new\n"


def test_leaves_only_when_clean(project: Project, notes: Path) -> None:
    """A secret in it is found before anything leaves, replaced by a redaction, and purged; a page
    in Markdown has it.
    """
    project.gitcp("save", "first", check=0)
    page = project.gitcp("export", "--format", "markdown", "-o", "-", check=0)
    assert "## Memory" in page.out
    assert NOTES in page.out

    notes.write_text(f"token {TOKEN}\n")
    project.gitcp("save", "second", check=0)
    store = open_store(project)
    found = checkpoint_scan.findings(store, [tip(store)])
    assert {(each.place, each.path) for each in found} == {("memory", PLACE.encode())}
    refused = project.gitcp("export", "--format", "markdown", "-o", "-", check=15)
    assert TOKEN not in refused.out
    project.gitcp("purge", "--text", "-", "--yes", input=TOKEN, check=0)
    held = project.git("show", f"{tip(open_store(project))}:{PLACE}")
    assert TOKEN not in held


def tip(store: Store) -> Oid:
    (commit,) = store.sessions().values()
    return commit


def test_of_a_stranger(project: Project, notes: Path) -> None:
    """The refusal to restore a stranger's checkpoint names the memory that it would write."""
    project.gitcp("save", "first", check=0)
    store = open_store(project)
    checkpoint = store.read(store.sessions().popitem()[1])
    assert (PLACE.encode(), trust.REMEMBERED) in trust.acting(store, checkpoint)
