"""After a restore, the old conversation and the restored one may both go on: two sessions."""

from __future__ import annotations

import json

from agents_at_work import ALPHA, AgentAtWork

from driver import Project


def restored(project: Project, *options: str) -> AgentAtWork:
    """Go back to the first checkpoint, and continue the conversation that was put there."""
    done = project.gitcp("restore", *options, "--yes", "--json", check=0)
    agent = AgentAtWork(project, json.loads(done.out)["resume"]["session_id"])
    agent.name = ALPHA[:8]
    starts(agent)
    return agent


def starts(agent: AgentAtWork) -> None:
    """Start an agent. Its hook prints the notice of the restore."""
    known = {"session_id": agent.session, "cwd": str(agent.project.root), "source": "resume"}
    call = ("hook", "claude", "SessionStart")
    assert "restored" in agent.project.gitcp(*call, input=json.dumps(known), check=0).out


def works(agent: AgentAtWork, name: str) -> None:
    """A turn in which an agent writes a file."""
    agent.prompt(name)
    agent.edits(name, f"{name}\n")
    agent.stop()


def old(project: Project) -> AgentAtWork:
    """An agent that wrote two files in two turns."""
    agent = AgentAtWork(project, ALPHA)
    for name in ("one", "two"):
        works(agent, name)
    return agent


def sessions(project: Project) -> dict[str, str]:
    """The agent's session of each session's last checkpoint."""
    listed = (project.json("show", each["session"]) for each in project.json_lines("sessions"))
    return {each["session"]: each["agent"]["session_id"] for each in listed}


def first(project: Project) -> str:
    """The checkpoint with the file of the first turn alone."""
    ids: list[str] = [each["id"] for each in project.json_lines("log", "--all-steps")]
    return next(
        id for id in reversed(ids) if project.gitcp("show", id, "--files").out.split() == ["one"]
    )


def test_both_go_on(project: Project) -> None:
    """The session follows the restored conversation; the old one has a session of its own from
    then on, and `--mine` of either spares the other's files.
    """
    agent = old(project)
    new = restored(project, first(project))
    assert new.session != ALPHA
    works(new, "three")
    works(agent, "four")
    works(new, "five")
    (other,) = sessions(project).keys() - {new.name}
    assert sessions(project) == {new.name: new.session, other: ALPHA}
    with project.guard():
        project.gitcp("restore", first(project), "--mine", "--files", "--yes", check=0)
    assert set(project.files()) == {b"one", b"four"}
    project.gitcp("undo", "--yes", check=0)
    assert set(project.files()) == {b"one", b"three", b"four", b"five"}


def test_only_the_old_one_goes_on(project: Project) -> None:
    """Somebody who stays in the old conversation stays in its session."""
    agent = old(project)
    restored(project, first(project))
    project.gitcp("save", "restored", check=0)
    works(agent, "four")
    assert sessions(project) == {agent.name: ALPHA}


def test_the_old_one_was_first(project: Project) -> None:
    """Where the old conversation went on first, the restored one has its own session."""
    agent = old(project)
    new = restored(project, first(project))
    agent.prompt("four")
    agent.stop()
    new.prompt("five")
    new.stop()
    agent.prompt("six")
    agent.stop()
    assert sessions(project)[agent.name] == ALPHA
    assert sorted(sessions(project).values()) == sorted((ALPHA, new.session))


def test_the_end_of_the_old_one(project: Project) -> None:
    """An old conversation that ends without a further message makes no session."""
    agent = old(project)
    new = restored(project, first(project))
    works(new, "three")
    agent.calls("SessionEnd", reason="exit")
    assert list(sessions(project)) == [new.name]


def test_undo_after_both_went_on(project: Project) -> None:
    """The old conversation stays in the session that it got."""
    agent = old(project)
    new = restored(project, first(project))
    works(new, "three")
    agent.prompt("four")
    agent.stop()
    (other,) = sessions(project).keys() - {new.name}
    project.gitcp("undo", "--yes", check=0)
    works(agent, "five")
    assert sessions(project)[other] == ALPHA
    assert len(sessions(project)) == 2


def test_undo_before_the_old_one_goes_on(project: Project) -> None:
    """After an undo the session has the old conversation again."""
    agent = old(project)
    new = restored(project, first(project))
    works(new, "three")
    project.gitcp("undo", "--yes", check=0)
    starts(agent)
    agent.prompt("four")
    agent.stop()
    assert sessions(project) == {agent.name: ALPHA}
