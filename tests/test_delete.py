"""Delete: a session goes whole, comes back whole, and what others need of it stays."""

from __future__ import annotations

import pytest
from pruned import grow, holdings, in_trash, own_refs, story, tagged

from gitcp.errors import Refused, RevisionNotFound
from gitcp.model import CheckpointId
from gitcp.ops import delete, journal, oplog, trash
from gitcp.ops import undo as undo_op
from gitcp.ops.check import check

from driver import Project
from samples import open_store


def test_a_session_alone(project: Project) -> None:
    """A session that nobody was forked from goes with its tags, and undo brings back the very same refs."""
    story(project, 4)
    store = open_store(project)
    with store.lock():
        pass
    before, trees = own_refs(project), holdings(project)

    with project.guard():
        done = delete.delete(open_store(project), "gamma")

    assert {id.session for id in holdings(project)} == {"alpha", "beta", "delta"}
    assert done.plan.shared == ()
    assert check(open_store(project)).ok
    trash.bring_back(open_store(project), done.operation)
    assert own_refs(project) == before
    assert holdings(project) == trees


def test_a_session_that_was_forked(project: Project) -> None:
    """What a fork begins with stays reachable through the fork, and so do the tags on it; the rest goes."""
    story(project)
    before, trees, marks = own_refs(project), holdings(project), tagged(project)

    done = delete.delete(open_store(project), "alpha")

    assert "alpha" not in open_store(project).sessions()
    left = [id.number for id in sorted(holdings(project)) if id.session == "alpha"]
    assert left == [1, 2, 3, 4, 5, 6, 7]
    assert [id.number for id in sorted(done.plan.shared)] == left
    assert tagged(project) == marks
    assert {**in_trash(project), **holdings(project)} == trees
    assert check(open_store(project)).ok
    trash.bring_back(open_store(project), done.operation)
    assert own_refs(project) == before


def test_tags_go_along(project: Project) -> None:
    """The tags on what goes are in the trash, and come back; a name that was taken since stays where it is."""
    store = story(project)
    done = delete.delete(store, "gamma")
    assert done.plan.tags == ()
    done = delete.delete(open_store(project), "beta")

    assert done.plan.tags == ("forked",)
    assert "forked" not in tagged(project)
    trash.bring_back(open_store(project), done.operation)
    assert tagged(project)["forked"] == ("beta", 10)


def test_a_session_that_began_anew(project: Project) -> None:
    """A session of the same name that was made since is not mixed with the old one."""
    story(project, 4)
    done = delete.delete(open_store(project), "delta")
    grow(open_store(project), "delta", 1)
    before = own_refs(project)

    with pytest.raises(Refused, match="delta is another one by now") as caught:
        trash.bring_back(open_store(project), done.operation)

    assert own_refs(project) == before
    assert project.git(*caught.value.hint.split()[1:])


def test_no_such_session(project: Project) -> None:
    """A session that is not there is said."""
    with pytest.raises(RevisionNotFound, match="no session nothing"):
        delete.delete(open_store(project), "nothing")


def test_an_unfinished_restore(project: Project) -> None:
    """A session that an unfinished restore goes to is not deleted."""
    store = story(project, 4)
    id = CheckpointId("delta", 1)
    journal.begin(store.repo, journal.Unfinished(id, id, (), journal.Extent()))

    with pytest.raises(Refused, match="not finished"):
        delete.delete(open_store(project), "delta")


def test_changed_since_the_plan(project: Project) -> None:
    """A session that went on since somebody agreed is not deleted."""
    agreed = delete.plan(story(project, 4), "delta")
    grow(open_store(project), "delta", 1)
    before = own_refs(project)

    with pytest.raises(Refused, match="went on meanwhile"):
        delete.delete(open_store(project), "delta", agreed)

    assert own_refs(project) == before


def test_redo(project: Project) -> None:
    """What was deleted, brought back and deleted again comes back again."""
    story(project, 4)
    before = own_refs(project)
    done = delete.delete(open_store(project), "delta")
    trash.bring_back(open_store(project), done.operation)
    store = open_store(project)
    operation = undo_op.to_redo(store)
    assert operation is not None
    assert operation.number == done.operation.number

    delete.delete(store, next(iter(operation.dropped)), of=operation.number)

    operation = undo_op.to_undo(open_store(project))
    assert operation is not None
    trash.bring_back(open_store(project), operation)
    assert own_refs(project) == before
    assert [each.what for each in oplog.entries(store.repo)] == ["delete", "undo", "redo", "undo"]


def test_command(project: Project) -> None:
    """As a user types it; the current session is another one afterwards, and a save goes on."""
    for name in ("first", "second"):
        project.write("a", f"{name}\n")
        project.gitcp("save", name, "--session", name, "--tag", f"tag-{name}", check=0)

    with project.guard():
        shown = project.gitcp("delete", "sec", "--dry-run", check=0).out
        assert project.gitcp("delete", "sec").code == 12
        done = project.gitcp("delete", "sec", "--yes", check=0).out
    assert shown == "delete session second: 1 checkpoint\n  tags that go with it: tag-second\n"
    assert done == "deleted session second: 1 checkpoint\nundo with: gitcp undo\n"
    assert project.gitcp("delete", "sec", "--yes").code == 16
    assert project.gitcp("log", "--oneline", check=0).out == "first@1 (tag: tag-first) first\n"
    assert project.gitcp("check", check=0).out.startswith("whole")
    assert project.gitcp("undo", check=0).out.startswith("brought back 1 checkpoint: second@1\n")
    assert project.json("redo", "--yes")["session"] == "second"
    project.gitcp("undo", check=0)
    assert len(project.json_lines("sessions")) == 2
