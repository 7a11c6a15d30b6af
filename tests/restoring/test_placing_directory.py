"""A conversation goes back to the directory its session ran in, wherever in the working tree the
restore is typed.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from back import save
from talk import SESSION, Talk

from gitcp import wire
from gitcp.adapters import claude_code
from gitcp.model import Checkpoint
from gitcp.restoring import placing
from gitcp.value import replace

from driver import Project
from samples import open_store


@pytest.fixture
def talk(project: Project) -> Talk:
    """A session in the directory web, saved there with a file, which then went on and wrecked
    it.
    """
    project.write("web/page", "old\n")
    project.commit()
    talk = Talk(project, below="web")
    talk.say("one", "two")
    project.gitcp("save", "good", cwd=talk.cwd, check=0)
    talk.say("three", "wrecked")
    project.write("web/page", "wrecked\n")
    return talk


def resumed(project: Project, *args: str, cwd: Path | None = None) -> Any:
    """What a restore says of resuming."""
    done = project.gitcp("restore", *args, "--yes", "--json", cwd=cwd, check=0)
    return json.loads(done.out)["resume"]


def test_the_directory_is_recorded(project: Project, talk: Talk) -> None:
    """The metadata name it relative to the working tree, and nothing of the machine."""
    metadata = json.loads(
        project.git("show", "refs/gitcp/sessions/e7baae82:.gitcp/checkpoint.json")
    )

    assert metadata["conversation"]["directory"] == "web"
    assert str(project.root) not in json.dumps(metadata)


def test_restored_from_the_root(project: Project, talk: Talk) -> None:
    """It goes beside the wrecked one, under a new id, and the report has the way there."""
    project.gitcp("save", "wreck", cwd=talk.cwd, check=0)

    with project.guard():
        done = project.gitcp("restore", "1", "--yes", check=0)

    (new,) = [path for path in talk.path.parent.glob("*.jsonl") if path != talk.path]
    assert new.stem != SESSION
    assert f"continue with: cd web && claude --resume {new.stem}\n" in done.out
    assert not Talk(project).path.exists()
    assert project.read("web/page") == b"old\n"


def test_restored_from_below(project: Project) -> None:
    """A session of the root stays one, though the restore is typed elsewhere."""
    project.write("web/page", "old\n")
    talk = Talk(project)
    talk.say("one", "two")
    project.gitcp("save", check=0)
    talk.path.unlink()

    done = project.gitcp("restore", "1", "--yes", cwd=project.root / "web", check=0)

    assert talk.path.exists()
    assert f"continue with: cd {talk.cwd} && claude --resume {SESSION}\n" in done.out


def test_json_has_the_directory(project: Project, talk: Talk) -> None:
    """For programs it is a key of its own."""
    resume = resumed(project, "1")

    assert resume["directory"] == str(talk.cwd)
    assert Path(resume["path"]).parent == talk.path.parent


def test_another_place(project: Project, talk: Talk, tmp_path: Path) -> None:
    """In a directory of its own, and in a fork's working tree, it is the directory of that name."""
    done = project.gitcp("restore", "1", "--to", "../copy", check=0)
    forked = project.gitcp("fork", "1", "--worktree", "../tree", check=0)

    assert f"continue with: cd ../copy/web && claude --resume {SESSION}\n" in done.out
    assert "continue with: cd ../tree/web && claude --resume " in forked.out
    named = claude_code.directory_name(os.path.realpath(project.root.parent / "copy" / "web"))
    assert (talk.path.parent.parent / named / talk.path.name).exists()


def test_a_directory_that_is_gone(project: Project, talk: Talk) -> None:
    """The report says how to make it; pasted, the agent is started in it."""
    shutil.rmtree(talk.cwd)
    talk.path.unlink()

    done = project.gitcp("restore", "1", "--conversation", "--yes", check=0)

    assert f"continue with: mkdir -p web && cd web && claude --resume {SESSION}\n" in done.out
    assert talk.path.exists()


@pytest.mark.parametrize("directory", [b"../x", b"/etc", b".git/x", b"a\x1b[2Jb", b"link"])
def test_a_directory_that_leads_elsewhere(project: Project, talk: Talk, directory: bytes) -> None:
    """What a checkpoint names is not followed out of the working tree."""
    project.symlink("link", "..")
    target = saved_in(project, directory)
    assert target.conversation is not None

    assert placing.directory(open_store(project), target.conversation, target.agent) is None


def saved_in(project: Project, directory: bytes) -> Checkpoint:
    """The last checkpoint, as if its session had run there."""
    made = save(project, None)
    assert made.conversation is not None
    lying = replace(made, conversation=replace(made.conversation, directory=directory))
    fields = {b"conversation": made.conversation.tree}
    return wire.decode_checkpoint(
        wire.encode_checkpoint(lying),
        commit=made.commit,
        root=made.root,
        parent=None,
        tree=made.root,
        reserved=fields,
    )


@pytest.mark.parametrize("there", [True, False], ids=["transcript", "no transcript"])
def test_an_older_checkpoint(project: Project, talk: Talk, *, there: bool) -> None:
    """Where the metadata do not say it, the transcript's own lines do, whether or not the agent
    still has it.
    """
    made = save(project, None)
    assert made.conversation is not None
    if not there:
        talk.path.unlink()
    older = replace(made.conversation, directory=None)

    assert placing.directory(open_store(project), older, made.agent) == talk.cwd


def test_it_is_kept_until_the_agent_says_another(
    project: Project, talk: Talk, tmp_path: Path
) -> None:
    """In a clone the restored transcript names the old path; what is saved next still knows the
    directory.
    """
    other = Project(tmp_path / "clone")
    other.write("web/page", "old\n")
    other.git("fetch", "--quiet", str(project.root), "refs/gitcp/*:refs/gitcp/*")
    resumed(other, "1", "--trust")
    other.write("web/page", "new\n")

    saved = json.loads(other.gitcp("save", "--json", cwd=other.root / "web", check=0).out)[
        "checkpoint"
    ]

    metadata = json.loads(other.git("show", f"{saved['commit']}:.gitcp/checkpoint.json"))
    assert metadata["conversation"]["directory"] == "web"
