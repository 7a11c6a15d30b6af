"""Which repository a conversation belongs to: by its directory, and where that is gone by what else
the transcript names.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import kept_talks
import pytest
import test_adapter_codex as codex_lines
import test_adapter_copilot as copilot_lines
import test_adapter_opencode as opencode_rows
from hypothesis import given
from hypothesis import strategies as st
from talk import Talk

from gitcp.adopting.ownership import same_remote

from driver import Project

OTHER = "11111111-5d1c-4f0a-9b3e-2c6d8f1a7b90"


def reasons(project: Project, *options: str) -> list[str]:
    """Why each conversation belongs to the repository of `project`."""
    document = project.json("adopt", "--dry-run", *options)
    root = str(project.root)
    shares = [each for each in document["stores"] if each["path"] == root]
    return [item["reason"] for share in shares for item in share["conversations"]]


def stores(project: Project, *options: str) -> dict[str, int]:
    """The number of conversations by store, as a dry run prints them."""
    document = project.json("adopt", "--dry-run", *options)
    return {each["path"]: len(each["conversations"]) for each in document["stores"]}


def codex(home: Path, cwd: str, **git: str) -> None:
    """Let Codex have a thread that names a directory and a repository."""
    thread = "22222222-5d1c-4f0a-9b3e-2c6d8f1a7b90"
    head = codex_lines.meta(thread, cwd, git=git) if git else codex_lines.meta(thread, cwd)
    codex_lines.put(home, thread, head, codex_lines.said("user", "hello", "m1"))


def test_subdirectories_and_worktrees(project: Project) -> None:
    """What ran below the root or in a linked working tree belongs to the repository, even when that
    was removed or moved.
    """
    project.commit()
    linked = project.root.parent / "feature"
    project.git("worktree", "add", "--quiet", str(linked))
    inner = project.root / ".claude/worktrees/fix"
    project.git("worktree", "add", "--quiet", str(inner))
    for number, directory in enumerate((project.root / "src", linked, inner)):
        directory.mkdir(exist_ok=True)
        Talk(Project(linked) if directory == linked else project, f"{number}{OTHER[1:]}")
        talk = Talk(project, f"{number}{OTHER[1:]}", str(os.path.relpath(directory, project.root)))
        talk.say("hello", "Hello.")

    assert reasons(project) == ["its directory"] * 3
    shutil.rmtree(linked)
    shutil.rmtree(inner)
    shutil.rmtree(project.root / "src")
    assert sorted(reasons(project)) == ["a removed working tree", *["its directory"] * 2]


def test_a_linked_worktree_is_recorded(project: Project) -> None:
    """A session of a linked working tree names it, as a save there would; it is found from any."""
    project.commit()
    linked = project.root.parent / "feature"
    project.git("worktree", "add", "--quiet", str(linked))
    Talk(project, below="../feature").say("hello", "Hello.")

    project.gitcp("adopt", "--yes", check=0)

    metadata = json.loads(
        project.git("show", "refs/gitcp/sessions/e7baae82:.gitcp/checkpoint.json")
    )
    assert metadata["conversation"]["worktree"] == "feature"
    assert metadata["conversation"]["directory"] == "."
    assert project.json_lines("log", "e7baae82")[0]["base"] == project.git("rev-parse", "HEAD")


def test_a_sibling_on_a_branch(project: Project) -> None:
    """A removed directory beside the repository, named after it, on one of its branches."""
    project.commit()
    project.git("branch", "fix")
    talk = Talk(project, below="../project-fix")
    talk.say("hello", "Hello.")
    assert reasons(project) == []
    text = talk.path.read_text().replace('"cwd"', '"gitBranch": "fix", "cwd"')
    talk.path.write_text(text)

    assert reasons(project) == ["its directory and branch"]


def test_a_commit(project: Project, sealed: Path) -> None:
    """A thread that names a commit of this repository."""
    commit = project.commit()
    codex(sealed, "/gone/elsewhere", commit_hash=commit)

    assert reasons(project) == ["its commit"]


def test_a_remote(project: Project, sealed: Path) -> None:
    """A thread that names the remote, in another way of writing it."""
    project.git("remote", "add", "origin", "git@example.org:ada/shop.git")
    codex(sealed, "/gone/elsewhere", repository_url="https://example.org/ada/shop")

    assert reasons(project) == ["its remote"]


def test_copilots_remote(project: Project, sealed: Path) -> None:
    """Copilot names `owner/name` at GitHub."""
    project.git("remote", "add", "origin", "https://github.com/Ada/shop.git")
    context = {"cwd": "/gone", "repository": "ada/shop", "branch": "main"}
    start = copilot_lines.event("session.start", "s", sessionId=OTHER, context=context)
    said = copilot_lines.event("user.message", "u", content="hello")
    copilot_lines.put(sealed, OTHER, start, said)

    assert reasons(project) == ["its remote"]


def test_opencodes_root_commit(project: Project, sealed: Path) -> None:
    """opencode names the root commit; clones share it, so the directory's name must agree."""
    root = project.commit()
    database = opencode_rows.Database(sealed)
    for number, name in enumerate(("project", "another")):
        session = f"ses_{number}aaaaaaaaaaaaaaaaaaaaaaaaa"
        database.session(Path("/gone") / name, session, project_id=root)
        database.say("user", opencode_rows.text("hello"), session_id=session)

    assert reasons(project) == ["its root commit and directory"]


def test_another_repository(project: Project, tmp_path: Path) -> None:
    """A directory that is another repository's decides, whatever else agrees."""
    commit = project.commit()
    other = Project(tmp_path / "other")
    codex(Path(os.environ["HOME"]), str(other.root), commit_hash=commit)

    assert reasons(project) == []
    assert reasons(other) == ["its directory"]


def test_a_moved_repository(project: Project, tmp_path: Path) -> None:
    """A directory with this name that is gone is offered, and taken if it is named."""
    former = Project(tmp_path / "former" / "project")
    Talk(former).say("hello", "Hello.")
    shutil.rmtree(former.root)

    document = project.json("adopt", "--dry-run")

    assert document["stores"] == []
    assert document["possible"] == [{"directory": str(former.root), "conversations": 1}]
    assert f"gitcp import --from {former.root}" in project.gitcp("adopt", "--yes", check=0).err
    assert reasons(project, "--from", str(former.root)) == ["as given"]


def test_a_directory_that_another_agent_names(project: Project, sealed: Path) -> None:
    """Where a thread of this repository ran, other agents' conversations are this repository's."""
    project.git("remote", "add", "origin", "git@example.org:ada/shop.git")
    former = Project(project.root.parent / "former")
    talk = Talk(former)
    talk.say("hello", "Hello.")
    shutil.rmtree(former.root)
    assert reasons(project) == []

    codex(sealed, str(talk.cwd), repository_url="https://example.org/ada/shop")

    assert sorted(reasons(project)) == ["its remote", "the directory of another conversation"]


# ---------------------------------------------------------------- every repository


def test_all(project: Project, sealed: Path, tmp_path: Path) -> None:
    """Each conversation goes to its repository, and what has none to the personal store."""
    other = Project(tmp_path / "other")
    project.commit()
    kept_talks.begin_all(project.root)
    kept_talks.begin("codex", other.root)
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir()
    kept_talks.begin("copilot", nowhere)
    kept_talks.begin("codex", sealed)
    personal = sealed / ".local/share/gitcp/conversations"

    with project.guard():
        done = project.gitcp("adopt", "--all", "--yes", cwd=nowhere, check=0)

    assert f"gitcp -C {personal} log --all" in done.out
    assert len(project.json_lines("sessions")) == 5
    assert len(other.json_lines("sessions")) == 1
    assert len(Project(personal, own_store=True).json_lines("sessions")) == 2
    assert stat_mode(personal) == 0o700
    again = project.gitcp("adopt", "--all", "--yes", cwd=nowhere, check=0)
    assert "nothing new: 8 conversations stored already" in again.out


def stat_mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_what_is_stored_stays_there(project: Project, tmp_path: Path, sealed: Path) -> None:
    """What a repository was given by hand does not go to the personal store as well."""
    former = Project(tmp_path / "former")
    Talk(former).say("hello", "Hello.")
    shutil.rmtree(former.root)
    project.gitcp("adopt", "--from", str(former.root), "--yes", check=0)

    assert stores(project, "--all") == {str(project.root): 1}


def test_all_by_claims(project: Project, sealed: Path) -> None:
    """A conversation whose directory is gone finds its repository among those of the others."""
    project.git("remote", "add", "origin", "git@example.org:ada/shop.git")
    kept_talks.begin("gemini", project.root)
    codex(sealed, "/gone/elsewhere", repository_url="https://example.org/ada/shop")

    assert stores(project, "--all") == {str(project.root): 2}


def test_a_repository_that_gitcp_refuses(project: Project, tmp_path: Path, sealed: Path) -> None:
    """A repository that gitcp does not work in does not lose its conversations."""
    shutil.rmtree(Project(tmp_path / "new").root / ".git/objects")
    kept_talks.begin("codex", tmp_path / "new")

    assert stores(project, "--all") == {str(sealed / ".local/share/gitcp/conversations"): 1}


def test_personal_conversations_are_restored(project: Project, sealed: Path) -> None:
    """What is in the personal store is restored where it ran, and can be searched there."""
    nowhere = project.root.parent / "nowhere"
    nowhere.mkdir()
    kept_talks.begin("codex", nowhere)
    kept_talks.begin("claude-code", nowhere)
    before = kept_talks.transcripts()
    project.gitcp("adopt", "--all", "--yes", check=0)
    personal = Project(sealed / ".local/share/gitcp/conversations", own_store=True)
    for path in before:
        path.unlink()

    assert "a question to codex" in personal.gitcp("find", "codex", check=0).out
    for session in personal.json_lines("sessions"):
        restored = personal.json("restore", session["session"], "--yes")
        assert restored["resume"]["directory"] == str(nowhere)

    assert kept_talks.transcripts() == before


# ---------------------------------------------------------------- remotes


@pytest.mark.parametrize(
    "remote",
    [
        "https://example.org/ada/shop",
        "https://token@example.org/ada/shop.git",
        "ssh://git@example.org:22/ada/shop.git",
        "git@example.org:ada/shop.git",
        "HTTPS://Example.org/Ada/Shop/",
    ],
)
def test_one_remote(remote: str) -> None:
    """The ways of writing a remote are one remote."""
    assert same_remote(remote, "git://example.org/ada/shop")


@pytest.mark.parametrize("remote", ["/srv/ada/shop", "../shop", "https://example.com/ada/shop", ""])
def test_other_remotes(remote: str) -> None:
    """Another host is another remote, and a path on this machine is none."""
    assert not same_remote(remote, "https://example.org/ada/shop")


@given(st.text())
def test_any_text_as_remote(text: Any) -> None:
    """A transcript may name anything as its remote."""
    assert same_remote(text, "https://example.org/a/b") in (True, False)
