"""Delete: a session goes whole, comes back whole, and what others need of it stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from pruned import grow, holdings, in_trash, own_refs, story, tagged
from terminal import on_terminal

import gitcp
from gitcp.errors import NotTrusted, Refused, RevisionNotFound
from gitcp.lifecycle import delete, prune
from gitcp.lifecycle.check import check
from gitcp.model import CheckpointId
from gitcp.restoring import trust
from gitcp.restoring import undo as undo_op
from gitcp.retention import Policy
from gitcp.state import journal, oplog, trash
from gitcp.state.extent import Extent

from driver import Project
from samples import open_store


def ids(project: Project, session: str) -> list[str]:
    """The checkpoints of a session, newest first."""
    return [each["id"] for each in project.json_lines("log", f"{session}@", "--limit", "99")]


def test_a_session_alone(project: Project) -> None:
    """A session that nobody was forked from goes with its tags, and undo brings back the very same
    refs.
    """
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
    """What a fork begins with stays reachable through the fork, and so do the tags on it; the rest
    goes.
    """
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


@pytest.mark.parametrize("conversation", [True, False])
def test_what_a_fork_shares_is_still_ours(project: Project, conversation: bool) -> None:
    """What was forked from comes back once its session is deleted, by its id too; the fork goes on,
    and undo works.
    """
    api = gitcp.open(project.root)
    for number in range(3):
        project.write("file", f"{number}\n")
        api.save(session="old", conversation=b'{"role":"user","content":"hello"}\n')
    api.fork("old@2", name="new")
    delete.delete(open_store(project), "old")
    project.write("file", "unsaved\n")

    with project.guard():
        report = api.restore("new@1", conversation=conversation)

    assert project.read("file") == b"0\n"
    ids = (report.safety, report.checkpoint)
    assert tuple(id.session if id else "" for id in ids) == (
        "new",
        "new",
    )
    assert [session.name for session in api.sessions()] == ["new"]
    assert api.show("new@1").id == CheckpointId("old", 1)
    api.undo()
    assert project.read("file") == b"unsaved\n"
    target = project.root.parent / "target"
    project.gitcp("restore", "new@2", "--to", str(target), check=0)
    assert target.joinpath("file").read_bytes() == b"1\n"
    assert check(open_store(project)).ok


def test_what_somebody_else_made_is_named(project: Project) -> None:
    """What in a checkpoint of others could act is told whoever read it: the store that asks need
    not have.
    """
    api = gitcp.open(project.root)
    project.write("Makefile", "all:\n")
    project.write("below/.envrc", "x\n")
    checkpoint = api.save(session="theirs").checkpoint
    delete.delete(open_store(project), "theirs")

    with pytest.raises(NotTrusted) as refused:
        trust.require(open_store(project), checkpoint, trusted=False)

    assert [line.split()[0] for line in refused.value.candidates] == ["Makefile", "below/.envrc"]


def test_tags_go_along(project: Project) -> None:
    """The tags on what goes are in the trash, and come back; a name that was taken since stays
    where it is.
    """
    store = story(project)
    done = delete.delete(store, "gamma")
    assert done.plan.tags == ()
    done = delete.delete(open_store(project), "beta")

    assert done.plan.tags == ("forked",)
    assert "forked" not in tagged(project)
    trash.bring_back(open_store(project), done.operation)
    assert tagged(project)["forked"] == ("beta", 10)


def test_a_session_that_began_anew(project: Project) -> None:
    """What was saved into the name since, as a live agent's hooks do, comes after what is brought
    back; and what was done before the delete can be undone then.
    """
    api = gitcp.open(project.root)
    for number in range(3):
        project.write("file", f"{number}\n")
        api.save(session="alpha")
    project.gitcp("restore", "alpha@1", "--yes", check=0)
    project.gitcp("delete", "alpha", "--yes", check=0)
    project.write("file", "anew\n")
    anew = project.json("save", "--session", "alpha")["checkpoint"]["id"]

    project.gitcp("undo", "--yes", check=0)

    store = open_store(project)
    chain = [str(each.id) for each in store.history(store.sessions()["alpha"])]
    assert (chain[0], chain[-1]) == (anew, "alpha@1")
    assert len(chain) == 5
    project.gitcp("undo", "--whole-tree", "--yes", check=0)
    assert project.read("file") == b"2\n"
    project.gitcp("check", check=0)


def test_a_fork_of_the_same_name(project: Project) -> None:
    """A fork that took the name since is not mixed with the old session."""
    story(project, 4)
    done = delete.delete(open_store(project), "delta")
    project.gitcp("fork", "alpha@1", "--name", "delta", check=0)
    before = own_refs(project)

    with pytest.raises(Refused, match="delta is another session's now") as caught:
        trash.bring_back(open_store(project), done.operation)

    assert own_refs(project) == before
    assert project.git(*caught.value.hint.split()[1:])


@pytest.mark.parametrize("left", ["trash", "fork", "tag", "fetched", "nothing", "damaged"])
def test_numbers_go_on(project: Project, left: str) -> None:
    """Who saves into the name of a deleted session goes on with its numbers, as long as any ref
    knows them.
    """
    api = gitcp.open(project.root)
    saved = []
    for number in range(4):
        project.write("file", f"{number}\n")
        saved.append(api.save(session="old").checkpoint)
    if left == "fork":
        api.fork("old@2", name="new")
    if left == "damaged":
        api.fork("old@1", name="older")
    delete.delete(open_store(project), "old")
    if left == "damaged":
        lost = saved[2].commit
        project.git_dir.joinpath("objects", lost[:2], lost[2:]).unlink()
    elif left != "trash":
        store = open_store(project)
        with store.lock():
            trash.forget(store, trash.entries(store))
    if left in ("tag", "fetched"):
        name = {"tag": "tags/kept", "fetched": "remotes/other/sessions/old"}[left]
        project.git("update-ref", f"refs/gitcp/{name}", saved[2].commit)
    project.write("file", "later\n")

    made = api.save(session="old").checkpoint

    number = {"trash": 5, "fork": 3, "tag": 4, "fetched": 4, "nothing": 1, "damaged": 5}[left]
    assert made.id == CheckpointId("old", number)
    assert made.parent is None
    assert api.save("again", session="old").checkpoint.id == CheckpointId("old", number + 1)


def test_undo_of_a_prune_after_a_delete(project: Project) -> None:
    """A session that was deleted since, elsewhere, does not come back by halves: that one is undone
    first, and both can be.
    """
    project.write("a.txt", "one\n")
    project.commit()
    project.git("worktree", "add", "--quiet", "../linked")
    linked = project.root.parent / "linked"
    grow(open_store(project), "alpha", 5)
    project.gitcp("prune", "--session", "alpha", "--keep-last", "4", "--yes", check=0)
    grow(open_store(project), "alpha", 1)
    every = [f"alpha@{number}" for number in range(6, 0, -1)]
    for command in (("delete", "alpha"), ("redo",)):
        project.gitcp(*command, "--yes", cwd=linked, check=0)
        before = project.git("for-each-ref")
        for options in (["--dry-run"], []):
            refused = project.gitcp("undo", *options, check=12).err
            assert refused == (
                "error: session alpha was deleted since, by operation 2: nothing was changed\n"
                "hint: gitcp undo 2\n"
            )
        assert project.git("for-each-ref") == before
        project.gitcp("undo", "2", cwd=linked, check=0)

    assert "alpha@1\n" in project.gitcp("undo", check=0).out
    assert ids(project, "alpha") == every
    project.gitcp("check", check=0)


def test_numbers_after_an_earlier_delete_was_undone(project: Project) -> None:
    """A session that comes back while the trash has later checkpoints of it goes on after these."""
    for text in ("one", "two", "three"):
        project.write("file", text)
        project.gitcp("save", "--session", "alpha", check=0)
        if text != "one":
            project.gitcp("delete", "alpha", "--yes", check=0)
    project.gitcp("undo", "1", check=0)
    project.write("file", "four")

    made = project.json("save", "--session", "alpha")["checkpoint"]["id"]

    assert made == "alpha@4"
    assert "alpha@3\n" in project.gitcp("undo", check=0).out
    assert ids(project, "alpha") == [f"alpha@{number}" for number in (4, 3, 2, 1)]
    project.gitcp("check", check=0)


def test_numbers_after_the_last_was_dropped(project: Project) -> None:
    """A session whose last checkpoint was dropped, as a graph's run is, does not give its number
    again.
    """
    store = open_store(project)
    grow(store, "alpha", 3)
    for number in (3, 4):
        dropped = delete.drop(
            open_store(project), "alpha", lambda each: [n.commit for n in each if n.id.number > 2]
        )
        project.write("file", f"{number}\n")
        project.gitcp("save", "--session", "alpha", check=0)
        assert ids(project, "alpha")[0] == f"alpha@{number + 1}"

    assert dropped is not None
    project.gitcp("undo", check=0)
    project.gitcp("undo", check=0)
    assert ids(project, "alpha") == [f"alpha@{number}" for number in (5, 4, 3, 2, 1)]


def test_numbers_of_a_fork_go_on(project: Project) -> None:
    """A fork by the name of a deleted session has none of its numbers either."""
    api = gitcp.open(project.root)
    for number in range(5):
        project.write("file", f"{number}\n")
        api.save(session="old")
    api.save(session="other", label="one")
    delete.delete(open_store(project), "old")

    made = api.fork("other@1", name="old").checkpoint

    assert (made.id, made.forked_from) == (CheckpointId("old", 6), CheckpointId("other", 1))
    assert check(open_store(project)).ok


def test_began_anew_beside_a_fork(project: Project) -> None:
    """What a fork has of a deleted session and what is saved under its name since stay apart, in
    undos too.
    """
    api = gitcp.open(project.root)
    for number in range(4):
        project.write("file", f"{number}\n")
        api.save(session="old")
    api.fork("old@3", name="new")
    project.write("file", "new\n")
    api.save(session="new")
    delete.delete(api.store(), "old")
    operation = api.prune(Policy(last=1)).operation
    project.write("file", "anew\n")
    made = api.save(session="old").checkpoint

    assert api.plan("new@3").later == ()
    report = api.restore("new@3", conversation=False)
    assert project.read("file") == b"2\n"
    assert report.safety == made.id
    assert operation is not None
    trash.bring_back(open_store(project), operation)

    assert [each.id.number for each in api.log("old@")] == [6, 5]
    assert [str(each.id) for each in api.log("new@")] == [
        "new@5",
        "new@4",
        "old@3",
        "old@2",
        "old@1",
    ]
    assert check(open_store(project)).ok


def test_no_such_session(project: Project) -> None:
    """A session that is not there is said."""
    with pytest.raises(RevisionNotFound, match="no session matches 'nothing'"):
        delete.delete(open_store(project), "nothing")


def test_an_unfinished_restore(project: Project) -> None:
    """A session that an unfinished restore goes to is not deleted."""
    store = story(project, 4)
    id = CheckpointId("delta", 1)
    journal.begin(store.repo, journal.Unfinished(id, id, (), Extent()))

    with pytest.raises(Refused, match="unfinished"):
        delete.delete(open_store(project), "delta")


def test_changed_since_the_plan(project: Project) -> None:
    """A session that went on since somebody agreed is not deleted."""
    agreed = delete.plan(story(project, 4), "delta")
    grow(open_store(project), "delta", 1)
    before = own_refs(project)

    with pytest.raises(Refused, match="changed in the meantime"):
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

    delete.delete(store, next(iter(operation.dropped)), of=operation)

    operation = undo_op.to_undo(open_store(project))
    assert operation is not None
    trash.bring_back(open_store(project), operation)
    assert own_refs(project) == before
    assert [each.what for each in oplog.entries(store.repo)] == ["delete", "undo", "redo", "undo"]


def test_redo_leaves_what_was_saved_since(project: Project) -> None:
    """A session that went on after its delete was undone is not deleted again by redo; `delete`
    does so, and undo.
    """
    for content in ("1", "2"):
        project.write("a", content)
        project.gitcp("save", "--session", "only", check=0)
        project.gitcp("delete", "only", "--yes", check=0)
        project.gitcp("undo", check=0)
    project.write("a", "3")
    project.gitcp("save", "--session", "only", check=0)
    before = own_refs(project)

    with project.guard():
        refused = project.gitcp("redo", "--yes", check=12).err
    assert refused == (
        "error: session only has new checkpoints (only@3); nothing was "
        "deleted\nhint: gitcp delete only\n"
    )
    assert own_refs(project) == before

    project.gitcp("delete", "only", "--yes", check=0)
    project.gitcp("undo", check=0)
    assert own_refs(project) == before


def test_redo_of_what_is_gone(project: Project, tmp_path: Path) -> None:
    """Redo of a delete, where another working tree deleted the session meanwhile, changes
    nothing.
    """
    project.write("a", "1")
    project.commit()
    project.git("worktree", "add", "--quiet", str(tmp_path / "side"))
    project.gitcp("save", "--session", "only", check=0)
    project.gitcp("delete", "only", "--yes", check=0)
    project.gitcp("undo", check=0)
    Project(tmp_path / "side").gitcp("delete", "only", "--yes", check=0)
    before = own_refs(project)

    for args in (("--yes",), ()):
        with project.guard():
            refused = project.gitcp("redo", *args, check=16).err
        assert refused == (
            "error: session only is already deleted; nothing was changed\n"
            "hint: gitcp log --operations\n"
        )
    assert own_refs(project) == before


def test_command(project: Project) -> None:
    """As a user types it; the current session is another one afterwards, and a save goes on."""
    for name in ("first", "second"):
        project.write("a", f"{name}\n")
        project.gitcp("save", name, "--session", name, "--tag", f"tag-{name}", check=0)

    with project.guard():
        shown = project.gitcp("delete", "sec", "--dry-run", check=0).out
        assert project.gitcp("delete", "sec").code == 12
        done = project.gitcp("delete", "sec", "--yes", check=0).out
    assert shown == "delete session second: 1 checkpoint\n  tags to delete: tag-second\n"
    assert done == "deleted session second: 1 checkpoint\nundo with: gitcp undo\n"
    assert project.gitcp("delete", "sec", "--yes").code == 16
    assert "is empty" in project.gitcp("delete", "", "--yes", check=2).err
    assert project.gitcp("log", "--oneline", check=0).out == "first@1 (tag: tag-first) first\n"
    assert project.gitcp("check", check=0).out.startswith("OK: ")
    plan = "restore 1 checkpoint from the trash: second@1\nrestore tag tag-second\n"
    assert project.gitcp("undo", "--dry-run", check=0).out == plan
    assert project.json("undo", "--dry-run")["checkpoints"] == ["second@1"]
    asked = on_terminal(project, "undo", typed="n\n").out
    assert f"{plan}Restore? [y/N] error: not restored" in asked
    assert "no undo to redo" in project.gitcp("redo", check=12).err
    assert project.gitcp("undo", check=0).out.startswith(plan.replace("restore", "restored"))
    assert project.json("redo", "--yes")["session"] == "second"
    project.gitcp("undo", check=0)
    assert len(project.json_lines("sessions")) == 2


# ---------------------------------------------------------------- one checkpoint


def test_each_checkpoint_alone(project: Project) -> None:
    """Each is dropped alone, and comes back with the very same refs; or it is needed, and the
    reason is given.
    """
    store = story(project, 6)
    before, trees = own_refs(project), holdings(project)
    reasons: dict[CheckpointId, str] = {}
    for id in trees:
        with project.guard():
            try:
                done = prune.drop_one(open_store(project), id)
            except Refused as refused:
                reasons[id] = str(refused).partition(": ")[2].partition(";")[0]
                assert own_refs(project) == before
                continue
            assert done.operation is not None
            assert holdings(project) == {each: tree for each, tree in trees.items() if each != id}
            assert in_trash(project)[id] == trees[id]
            assert check(open_store(project)).ok
            trash.bring_back(open_store(project), done.operation)
        assert own_refs(project) == before
    said = {reason.partition(" ")[0] for reason in reasons.values()}
    assert {"last", "tag", "start", "safety"} <= said
    assert len(trees) - len(reasons) > 5
    assert all(store.tip(id.session) for id in reasons)


def test_one_by_command(project: Project) -> None:
    """As a user types it: the plan, the deletion, undo and redo; others keep their numbers."""
    for number in range(4):
        project.write("a", f"{number}\n")
        project.gitcp("save", f"label {number}", "--session", "one", check=0)
    before = own_refs(project)
    with project.guard():
        shown = project.gitcp("delete", "one@2", "--dry-run", check=0).out
        plan = project.json("delete", "one@2", "--dry-run")
        assert project.gitcp("delete", "one@2").code == 12
        assert own_refs(project) == before
        done = project.gitcp("delete", "one@2", "--yes", check=0).out
        refused = project.gitcp("delete", "@", "--yes", check=12).err
        missing = project.gitcp("delete", "one@2", "--yes", check=16).err
    assert shown.startswith("delete checkpoint one@2  ")
    assert shown.endswith("  label 1\n")
    assert (plan["session"], plan["checkpoints"], plan["trash"]) == ("one", ["one@2"], None)
    assert done == "deleted checkpoint one@2\nundo with: gitcp undo\n"
    assert refused.startswith("error: one@4 is kept: last of its session; nothing was deleted\n")
    assert "session one has no checkpoint 2" in missing
    log = ["one@4 label 3", "one@3 label 2", "one@1 label 0"]
    assert project.gitcp("log", "--oneline", check=0).out.splitlines() == log
    assert "restored 1 checkpoint from the trash: one@2" in project.gitcp("undo", check=0).out
    assert own_refs(project) == before
    project.gitcp("redo", "--yes", check=0)
    assert project.gitcp("log", "--oneline", check=0).out.splitlines() == log


def test_one_of_another_session(project: Project) -> None:
    """--session is where a checkpoint is counted: `delete @~1` dropped one of the current session,
    whatever was given.
    """
    for session in ("other", "current"):
        for number in range(3):
            project.write("a", f"{session} {number}\n")
            project.gitcp("save", "--session", session, check=0)
    hint = "hint: gitcp delete other@2\n"

    assert project.gitcp("delete", "2", "--session", "other", "--yes", check=16).err.endswith(hint)
    done = project.gitcp("delete", "@~1", "--session", "other", "--yes", check=0).out

    assert done.startswith("deleted checkpoint other@2\n")
    assert len(project.json_lines("log", "--session", "current")) == 3


# ---------------------------------------------------------------- what was fetched


def test_a_fetched_checkpoint(colleague: Project) -> None:
    """A fetched session is deleted whole or not at all, also where an own one has the same."""
    for is_own in (False, True):
        if is_own:
            tip = colleague.git("rev-parse", "refs/gitcp/remotes/hub/sessions/alpha")
            colleague.git("update-ref", "refs/gitcp/sessions/alpha", tip)
        with colleague.guard():
            refused = colleague.gitcp("delete", "hub/alpha@2", "--yes", check=12).err
        assert refused == (
            "error: hub/alpha@2 was fetched: only its whole session can be deleted; nothing was "
            "deleted\nhint: gitcp delete hub/alpha\n"
        )


@pytest.fixture
def colleague(project: Project) -> Project:
    """A repository that fetched two sessions, each with a tag, from this one."""
    store = open_store(project)
    grow(store, "alpha", 3)
    grow(store, "beta", 2)
    project.gitcp("tag", "first", "alpha@1", "-m", "annotated", check=0)
    project.gitcp("tag", "second", "beta@2", check=0)
    other = Project(project.root.parent / "other")
    other.gitcp("remote", "hub", str(project.git_dir), check=0)
    other.gitcp("fetch", check=0)
    return other


def test_fetched(colleague: Project) -> None:
    """A fetched session goes with the tags on it, and comes back; nothing else is touched."""
    before = colleague.git("for-each-ref")

    with colleague.guard():
        shown = colleague.gitcp("delete", "hub/alp", "--dry-run", check=0).out
        colleague.gitcp("delete", "hub/alpha", check=12)
        assert colleague.git("for-each-ref") == before
        done = colleague.gitcp("delete", "hub/alpha", "--yes", check=0).out

    assert "delete session hub/alpha: 3 checkpoints" in shown
    assert "tags to delete: first" in shown
    assert "deleted session hub/alpha: 3 checkpoints" in done
    left = colleague.git("for-each-ref", "--format=%(refname)", "refs/gitcp/remotes").split()
    assert left == ["refs/gitcp/remotes/hub/sessions/beta", "refs/gitcp/remotes/hub/tags/second"]
    assert colleague.gitcp("show", "hub/alpha", check=16).out == ""
    gone = colleague.gitcp("delete", "hub/alpha", "--yes", check=16).err
    assert "no session matches 'hub/alpha'" in gone

    assert (
        "restored 3 checkpoints from the trash: alpha@1-3" in colleague.gitcp("undo", check=0).out
    )
    assert colleague.git("for-each-ref") == before
    colleague.gitcp("redo", "--yes", check=0)
    assert (
        colleague.git("for-each-ref", "--format=%(refname)", "refs/gitcp/remotes").split() == left
    )
    colleague.git("fsck", "--strict")


def test_fetched_again(colleague: Project) -> None:
    """What was fetched again after a delete stays as it was fetched, and the trash is empty after
    the undo.
    """
    colleague.gitcp("delete", "hub/alpha", "--yes", check=0)
    colleague.gitcp("fetch", check=0)
    before = colleague.git("for-each-ref", "refs/gitcp/remotes")

    colleague.gitcp("undo", check=0)

    assert colleague.git("for-each-ref", "refs/gitcp/remotes") == before
    assert colleague.git("for-each-ref", "refs/gitcp/trash") == ""


def test_fetched_in_the_trash(colleague: Project) -> None:
    """What lies in the trash is weighed, left alone by a rename, purged and forgotten like the
    rest.
    """
    colleague.write("a.txt", "mine\n")
    colleague.gitcp("save", "--session", "alpha", check=0)
    colleague.gitcp("delete", "hub/alpha", "--yes", check=0)
    colleague.gitcp("check", check=0)
    kept = colleague.git("for-each-ref", "refs/gitcp/trash")

    assert colleague.json("stats")["trash"]["entries"] == 1
    colleague.gitcp("rename", "alpha", "omega", check=0)
    assert colleague.git("for-each-ref", "refs/gitcp/trash") == kept
    colleague.gitcp("purge", "--text", "3 of alpha", "--yes", check=0)
    tip = next(
        line
        for line in colleague.git("for-each-ref", "refs/gitcp/trash").splitlines()
        if "sessions" in line
    )
    assert colleague.git("show", f"{tip.split()[0]}:a.txt") == "[PURGED]"
    colleague.gitcp("prune", "--keep-last", "10", "--expire", "0h", "--yes", check=0)
    assert colleague.git("for-each-ref", "refs/gitcp/trash") == ""


def test_imported(project: Project) -> None:
    """An import is deleted in the same way."""
    grow(open_store(project), "alpha", 2)
    project.gitcp("export", "--session", "alpha", "-o", "../x.bundle", check=0)
    other = Project(project.root.parent / "other")
    other.gitcp("import", "../x.bundle", check=0)

    other.gitcp("delete", "imported/alpha", "--yes", check=0)
    assert other.git("for-each-ref", "refs/gitcp/remotes") == ""
    other.gitcp("undo", check=0)
    other.gitcp("show", "imported/alpha@2", check=0)


def test_taken_over_again_after_a_delete(colleague: Project) -> None:
    """A session that was deleted and then taken over again from a remote ends, after the undo, with
    its last checkpoint, not where the remote has it; its tags come back as they were.
    """
    colleague.gitcp("restore", "hub/alpha", "--trust", "--yes", check=0)
    colleague.write("a.txt", "mine alone\n")
    saved = colleague.json("save", "--session", "alpha")["checkpoint"]
    colleague.gitcp("tag", "mine", "alpha@2", "-m", "a text of its own", check=0)
    colleague.gitcp("tag", "unwanted", "alpha@3", check=0)
    before = colleague.git("for-each-ref", "refs/gitcp/sessions", "refs/gitcp/tags")
    colleague.gitcp("delete", "alpha", "--yes", check=0)
    colleague.gitcp("restore", "hub/alpha", "--trust", "--yes", "--conversation", check=0)

    planned = colleague.gitcp("undo", "--dry-run", check=0).out
    with colleague.guard():
        done = colleague.gitcp("undo", check=0).out

    assert colleague.git("for-each-ref", "refs/gitcp/sessions", "refs/gitcp/tags") == before
    assert saved["id"].startswith("alpha@")
    assert planned.startswith("restore ")
    for said in (planned, done):
        assert f"from the trash: alpha@4-{saved['id'].partition('@')[2]}\n" in said
        assert "tags mine, unwanted\n" in said
    colleague.gitcp("check", check=0)


def test_numbers_go_on_where_it_was_taken_over_again(colleague: Project) -> None:
    """A deleted session that is taken over again as it was pushed gives none of the numbers that
    are in the trash; undo by number brings these back beside the later ones.
    """
    colleague.gitcp("restore", "hub/alpha", "--trust", "--yes", check=0)
    for number in range(2):
        colleague.write("a.txt", f"mine {number}\n")
        colleague.gitcp("save", "--session", "alpha", check=0)
    before = ids(colleague, "alpha")
    colleague.gitcp("delete", "alpha", "--yes", check=0)
    number = colleague.json_lines("log", "--operations")[0]["number"]
    colleague.write("a.txt", "unsaved\n")

    colleague.gitcp("restore", "hub/alpha", "--trust", "--yes", check=0)
    colleague.write("a.txt", "later\n")
    colleague.gitcp("save", "--session", "alpha", check=0)

    made = [id for id in ids(colleague, "alpha") if id not in ("alpha@1", "alpha@2", "alpha@3")]
    assert made
    assert not {*made} & {*before}
    planned = colleague.gitcp("undo", str(number), "--dry-run", check=0).out
    done = colleague.gitcp("undo", str(number), check=0).out
    assert planned.startswith("restore 4 checkpoints from the trash: alpha@4-7\n")
    assert done.startswith("restored 4 checkpoints from the trash: alpha@4-7\n")
    assert ids(colleague, "alpha") == [*made, *before]
    colleague.gitcp("check", check=0)


def test_fetched_again_as_it_was(colleague: Project) -> None:
    """An undo does not claim that it restored what was fetched again meanwhile."""
    colleague.gitcp("delete", "hub/alpha", "--yes", check=0)
    colleague.gitcp("fetch", check=0)

    for options in (["--dry-run"], []):
        assert colleague.gitcp("undo", *options, check=0).out.splitlines()[0] == (
            "nothing to restore: what operation 1 (delete) dropped is here again"
        )


def test_fetched_again_as_something_else(colleague: Project, project: Project) -> None:
    """What a remote no longer has comes back in the place of what was fetched since, which is in
    the trash then.
    """
    colleague.gitcp("delete", "hub/alpha", "--yes", check=0)
    project.gitcp("prune", "--session", "alpha", "--keep-last", "1", "--expire", "0d", "--yes")
    colleague.gitcp("fetch", check=0)
    fetched = own_refs(colleague)

    for options in (["--dry-run"], []):
        assert "alpha@2\n" in colleague.gitcp("undo", *options, check=0).out

    assert len(colleague.json_lines("log", "hub/alpha")) == 3
    colleague.gitcp("undo", "1", check=0)
    assert fetched.items() <= own_refs(colleague).items()
