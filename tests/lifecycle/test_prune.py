"""Prune, its undo and redo: what stays is the same to the byte, what goes is in the trash, and
nothing else changes.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from back import contents, last, numbered, restore, save, undo
from kinds import FORMAT
from pruned import ONE, fork, grow, holdings, in_trash, interrupt, own_refs, story, tagged

import gitcp
from gitcp.errors import BadValue, Refused, RevisionNotFound, StoreDamaged
from gitcp.git import refs
from gitcp.lifecycle import prune
from gitcp.lifecycle.check import check
from gitcp.lifecycle.prune import PruneReport, PruneRequest
from gitcp.model import Checkpoint, CheckpointId, Host
from gitcp.restoring import undo as undo_op
from gitcp.retention import Policy
from gitcp.state import oplog, rewrite, tag, trash
from gitcp.store import Store
from gitcp.value import replace

from driver import Project
from samples import START, open_store

KEPT = [17, 15, 7, 3]
"""What `ONE` keeps of alpha: its last one, those of a restore, of a fork and of a tag."""


def run(project: Project, request: PruneRequest = ONE) -> PruneReport:
    """Prune, without a question; the store must be sound afterwards."""
    with project.guard():
        done = prune.prune(open_store(project), request)
    report = check(open_store(project))
    assert report.ok, report.problems
    return done


def back(project: Project, number: int | None = None) -> trash.RestoredEntry:
    """Undo the last prune or delete, or the one with this number."""
    store = open_store(project)
    operation = undo_op.to_undo(store, number)
    assert operation is not None
    with project.guard():
        done = trash.bring_back(store, operation)
    report = check(open_store(project))
    assert report.ok, report.problems
    return done


def at(project: Project, later: timedelta) -> Store:
    """The store as it is opened later."""
    store = open_store(project)
    host = store.repo.host
    store.repo.host = Host(host.env, host.home, lambda: START + later)
    return store


def whole(project: Project) -> dict[CheckpointId, Checkpoint]:
    """Every checkpoint of the sessions, as it is read, but for where it is stored."""
    store = open_store(project)
    found = [
        store.read(node.commit) for tip in store.sessions().values() for node in store.history(tip)
    ]
    return {c.id: replace(c, commit=c.root, parent=None) for c in found}


def test_what_stays(project: Project) -> None:
    """The kept have their ids, trees, words, times and tags; the others are gone from their
    sessions.
    """
    story(project)
    before, trees, marks = whole(project), holdings(project), tagged(project)

    done = run(project)

    numbers = {
        s: [n for t, n in sorted(holdings(project)) if t == s]
        for s in open_store(project).sessions()
    }
    assert numbers == {
        "alpha": [3, 7, 15, 17],
        "beta": [8, 10, 12, 14],
        "delta": [2],
        "gamma": [13, 16],
    }
    assert whole(project).items() <= before.items()
    assert tagged(project) == marks
    assert in_trash(project).items() <= trees.items()
    assert {**in_trash(project), **holdings(project)} == trees
    assert {node.id for node, _ in done.plan.dropped} == trees.keys() - holdings(project).keys()
    assert all(v.reason == "no rule keeps it" for _, v in done.plan.dropped)


def test_undo(project: Project) -> None:
    """Undo puts every ref back to the very commit it was on, and the trash is empty; redo drops the
    same again.
    """
    story(project)
    refs_before, trees = own_refs(project), holdings(project)
    run(project)
    pruned, left = own_refs(project), holdings(project)

    done = back(project)

    assert own_refs(project) == refs_before
    assert set(done.checkpoints) == trees.keys() - left.keys()
    assert trash.entries(open_store(project)) == ()
    store = open_store(project)
    operation = undo_op.to_redo(store)
    assert operation is not None
    prune.redo(store, operation)
    assert own_refs(project) == pruned
    assert back(project).checkpoints == done.checkpoints
    assert own_refs(project) == refs_before
    assert [each.what for each in oplog.entries(store.repo)] == ["prune", "undo", "redo", "undo"]


def test_undo_after_more_was_saved(project: Project) -> None:
    """What was saved, tagged and forked since the prune comes after what is brought back."""
    store = story(project)
    trees = holdings(project)
    run(project)
    store = open_store(project)
    grow(store, "alpha", 3)
    point = numbered(store, CheckpointId("alpha", 7))
    fork(store, "late", point)
    tag.create(store, "new", point, text=None, force=False, now=START)
    tag.delete(store, "works")
    added = holdings(project)

    back(project)

    assert holdings(project) == {**trees, **added}
    assert tagged(project) == {"also": ("alpha", 3), "forked": ("beta", 10), "new": ("alpha", 7)}
    store = open_store(project)
    tip = store.tip("alpha")
    assert tip is not None
    assert [node.id.number for node in store.history(tip)] == list(range(20, 0, -1))


def test_two_prunes_undone_in_the_wrong_order(project: Project) -> None:
    """The older of two prunes is undone by its number: what both dropped is there again or in the
    newer's trash.
    """
    story(project)
    trees = holdings(project)
    run(project, PruneRequest(Policy(last=5)))
    run(project)
    assert [each.number for each in oplog.entries(open_store(project).repo)] == [1, 2]

    back(project, 1)

    assert holdings(project).items() <= trees.items()
    assert {**holdings(project), **in_trash(project)} == trees
    back(project)
    assert holdings(project) == trees


def test_one_session(project: Project) -> None:
    """A prune of one session leaves the checkpoints of the others, though forks of it are written
    anew.
    """
    story(project)
    before = holdings(project)

    run(project, PruneRequest(Policy(last=1), "alpha"))

    left = holdings(project)
    assert {id for id in before if id.session != "alpha"} == {
        id for id in left if id.session != "alpha"
    }
    assert [id.number for id in sorted(left) if id.session == "alpha"] == [3, 7, 15, 17]


def test_nothing_to_drop(project: Project) -> None:
    """Where every checkpoint is kept nothing is written: no commit, no trash, no operation."""
    story(project, 4)
    before = own_refs(project)

    done = run(project, PruneRequest(Policy(last=100)))

    assert done.operation is None
    assert own_refs(project) == before
    assert trash.entries(open_store(project)) == ()
    assert oplog.entries(open_store(project).repo) == ()


def test_a_policy_that_keeps_nothing(project: Project) -> None:
    """A policy without a rule is refused, by plan and by prune."""
    story(project, 4)
    before = own_refs(project)
    for call in (prune.plan, prune.prune):
        with pytest.raises(BadValue, match="keeps nothing"):
            call(open_store(project), PruneRequest(Policy(last=0)))
    assert own_refs(project) == before


def test_no_checkpoints(project: Project) -> None:
    """A repository without a checkpoint is pruned of nothing."""
    assert run(project).operation is None
    assert (
        project.gitcp("prune", "--yes", check=0).out
        == "nothing was dropped: every checkpoint is kept\n"
    )


def test_changed_since_the_plan(project: Project) -> None:
    """What was saved or tagged after the plan was shown stays; the rest of the plan is done."""
    store = story(project)
    agreed = prune.plan(store, ONE)
    store = open_store(project)
    five = numbered(store, CheckpointId("alpha", 5))
    tag.create(store, "mine", five, text=None, force=False, now=START)
    grow(store, "alpha", 2)

    done = prune.prune(open_store(project), ONE, agreed)

    left = [id.number for id in sorted(holdings(project)) if id.session == "alpha"]
    assert left == [3, 5, 7, 15, 17, 18, 19]
    assert {node.id for node, _ in done.plan.dropped} < {node.id for node, _ in agreed.dropped}


def test_restores_can_still_be_undone(project: Project) -> None:
    """What undo and redo go back to is kept, however old."""
    for number in range(4):
        project.write("a", f"{number}\n")
        save(project)
    was = contents(project)
    store = open_store(project)
    commit = store.find(CheckpointId("work", 1))
    assert commit is not None
    restore(project, store.read(commit))
    for number in range(9):
        project.write("b", f"{number}\n")
        first = save(project)

    later = at(project, timedelta(days=400))
    prune.prune(later, ONE)

    assert first.id in holdings(project)
    assert len(holdings(project)) < 8
    # undo steps over the prune first: it is the last operation
    back(project)
    prune.prune(at(project, timedelta(days=400)), ONE)
    with pytest.raises(Refused, match="a prune, not a restore"):
        undo(project)
    back(project)
    undo(project)
    assert project.read("a") == b"3\n"
    assert was[b"a"].data == b"3\n"


def test_an_unreadable_journal(project: Project) -> None:
    """Where it cannot be told what undo needs nothing is dropped."""
    story(project, 4)
    before = own_refs(project)
    project.write(f"{project.git_dir}/gitcp/restore.json", "{")

    with pytest.raises(Refused, match="nothing was dropped"):
        prune.prune(open_store(project), ONE)

    assert own_refs(project) == before


def test_a_damaged_store(project: Project) -> None:
    """A chain that cannot be read is not pruned, and is said to be left; the prune of the others is
    undone and redone.
    """
    store = story(project, 4)
    tip = store.find(CheckpointId("alpha", 2))
    assert tip is not None
    path = project.git_dir / "objects" / tip[:2] / tip[2:]
    path.chmod(0o644)
    path.write_bytes(b"damaged")
    before = own_refs(project)

    done = prune.prune(open_store(project), ONE)

    assert done.plan.damaged == ("alpha", "beta", "gamma")  # the forks need what is damaged
    after = own_refs(project)
    assert {name for name in before if after.get(name) != before[name]} == {
        "refs/gitcp/sessions/delta"
    }
    project.gitcp("undo", check=0)
    assert own_refs(project) == before
    project.gitcp("redo", "--yes", check=0)
    assert own_refs(project) == after


def test_packed_refs(project: Project) -> None:
    """Refs that git has packed are pruned, brought back and forgotten all the same."""
    story(project)
    trees = holdings(project)
    project.git("pack-refs", "--all")
    before = own_refs(project)
    run(project)
    project.git("pack-refs", "--all")

    back(project)

    assert own_refs(project) == before
    assert holdings(project) == trees
    assert trash.entries(open_store(project)) == ()


def test_expiry(project: Project) -> None:
    """What was dropped is forgotten after 14 days, and not a second before; then undo says so, and
    git frees space.
    """
    story(project)
    run(project)
    name = trash.entries(open_store(project))[0].name

    assert prune.plan(at(project, timedelta(days=14, seconds=-1)), ONE).expired == ()
    done = prune.prune(at(project, timedelta(days=14)), ONE)

    assert done.expired == (name,)
    assert name not in [entry.name for entry in trash.entries(open_store(project))]
    assert not open_store(project).repo.refs.list(f"{refs.TRASH}{name}/")
    with pytest.raises(RevisionNotFound, match="no longer in the trash"):
        back(project, 1)
    lost = project.git("fsck", "--unreachable", "--no-reflogs", "--no-progress")
    assert "commit" in lost
    project.git("gc", "--quiet", "--prune=now")
    assert project.git("fsck", "--unreachable", "--no-reflogs", "--no-progress") == ""
    assert check(open_store(project)).ok


def test_the_trash_of_another_time(project: Project) -> None:
    """An entry from the future or whose name is no time never expires; two of one second have two
    names.
    """
    store = story(project)
    tip = store.tip("delta")
    assert tip is not None
    for name in ("20991231T000000Z", "99999999T999999Z", "kept"):
        assert store.move_ref(f"{refs.TRASH}{name}/sessions/delta", None, tip)
    run(project, PruneRequest(Policy(last=3)))
    run(project)

    names = [entry.name for entry in trash.entries(open_store(project))]
    assert names[:2] == ["20261102T090000Z", "20261102T090000Z-2"]
    expired = trash.expired(open_store(project), START + timedelta(days=4000))
    assert [entry.name for entry in expired] == names[:2]


def test_an_interrupted_prune_is_finished_by_any_command(project: Project) -> None:
    """A journal that is there says which refs are to move; the next command moves them and says
    so.
    """
    store = story(project)
    trees = holdings(project)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewrite, "_move_all", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            prune.prune(store, ONE)
    assert holdings(project) == trees

    with project.guard():
        told = project.gitcp("log", "--oneline", "--session", "delta", check=0)

    assert told.out.splitlines() == ["delta@2 (no label)"]
    assert "an interrupted prune was finished: dropped alpha@1-2,4-6" in told.err
    assert not rewrite.is_unfinished(open_store(project))
    assert project.gitcp("log", check=0).err == ""


@pytest.mark.parametrize("moved", [0, 1, 5, 1000])
def test_an_interrupted_prune_is_finished_by_a_program(project: Project, moved: int) -> None:
    """Python goes on as the command line does, wherever the prune was killed."""
    store, trees = story(project), holdings(project)
    interrupt(store, moved)

    told = gitcp.open(project.root).log(session="alpha")

    assert [each.id.number for each in told] == KEPT
    assert not rewrite.is_unfinished(open_store(project))
    assert {**in_trash(project), **holdings(project)} == trees
    assert check(open_store(project)).ok


@pytest.mark.parametrize("moved", [0, 1, 5, 1000])
def test_a_save_of_a_program_after_an_interrupted_prune(project: Project, moved: int) -> None:
    """What was pruned stays in the trash, and the save comes after what was kept."""
    store, trees = story(project), holdings(project)
    interrupt(store, moved)
    project.write("a", "new\n")

    saved = gitcp.open(project.root).save("new", session="alpha")

    assert str(saved.checkpoint.id) == "alpha@18"
    told = gitcp.open(project.root).log(session="alpha")
    assert [each.id.number for each in told] == [18, *KEPT]
    assert trees.items() <= {**in_trash(project), **holdings(project)}.items()
    back(project)
    assert trees.items() <= holdings(project).items()
    assert check(open_store(project)).ok


def test_an_interrupted_prune_beside_a_save(project: Project) -> None:
    """A session that went on before the prune was finished stays whole; the others are pruned."""
    store = story(project)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewrite, "_move_all", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            prune.prune(store, ONE)
    grow(open_store(project), "alpha", 1)
    trees = holdings(project)

    store = open_store(project)
    with store.lock():
        rewrite.finish(store)

    assert {id for id in holdings(project) if id.session == "alpha"} == {
        id for id in trees if id.session == "alpha"
    }
    assert {**in_trash(project), **holdings(project)} == trees
    assert check(open_store(project)).ok
    back(project)
    assert holdings(project) == trees


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"operation": {}, "moves": []}'])
def test_a_damaged_journal(project: Project, text: str) -> None:
    """A journal that cannot be read is said, with what to do; looking goes on, and nothing is
    pruned.
    """
    story(project, 4)
    path = project.git_dir / "gitcp/moves.json"
    path.write_text(text)
    before = own_refs(project)

    told = project.gitcp("log", "--session", "alpha", check=0)
    done = project.gitcp("prune", "--keep-last", "1", "--yes")

    assert "moves.json is damaged" in told.err
    assert done.code == 13
    assert f"rm {path}" in done.err
    assert own_refs(project) == before


@pytest.mark.parametrize(
    ("ref", "new", "said"),
    [
        ("refs/heads/main", None, "not gitcp's"),
        ("refs/gitcp/../heads/main", None, "not gitcp's"),
        ("refs/gitcp/sessions/../../../HEAD", None, "not gitcp's"),
        ("refs/gitcp//etc/passwd", None, "not gitcp's"),
        ("refs/gitcp/sessions/s", "ref: refs/heads/main", "an invalid object id"),
        ("refs/gitcp/sessions/s", "1" * FORMAT.digits, "object 1111111111, which does not exist"),
    ],
)
def test_a_journal_that_reaches_out(project: Project, ref: str, new: str | None, said: str) -> None:
    """A journal can move no ref but gitcp's own, and to nothing but an object that is there."""
    commit = project.commit()
    operation = {"number": 0, "time": "2026-11-02T09:00:00+00:00", "what": "prune", "said": ""}
    moves = {"operation": operation, "moves": [[ref, commit, new]]}
    Path(project.git_dir, "gitcp").mkdir(exist_ok=True)
    Path(project.git_dir, "gitcp/moves.json").write_text(json.dumps(moves))

    store = open_store(project)
    with project.guard(), store.lock(), pytest.raises(StoreDamaged, match=said):
        rewrite.finish(store)


def test_command(project: Project) -> None:
    """As a user types it: the plan, a refusal without a terminal, the prune, undo, redo, undo by
    number.
    """
    for number in range(13):
        project.write("a", f"{number}\n")
        project.gitcp("save", f"label {number}", "--session", "work", check=0)

    with project.guard():
        shown = project.gitcp("prune", "--dry-run", "--keep-last", "3", check=0).out.splitlines()
        refused = project.gitcp("prune", "--keep-last", "3")
        done = project.gitcp("prune", "--keep-last", "3", "--yes", check=0).out
    assert shown[1].split()[0] == "work@13"
    assert "keep  last of its session" in shown[1]
    assert "drop  no rule keeps it" in shown[-2]
    assert shown[-1] == "work: drop 10, keep 3"
    assert refused.code == 12
    assert "hint: gitcp delete --old --keep-last 3 --yes" in refused.err
    assert done == "dropped 10 checkpoints, kept 3\nundo with: gitcp undo\n"
    assert project.gitcp("show", "5").code == 16
    assert project.gitcp("log", "--oneline", check=0).out.split("\n")[0] == "work@13 label 12"
    with project.guard():
        assert (
            project.gitcp("undo", check=0).out
            == "restored 10 checkpoints from the trash: work@1-10\nredo with: gitcp redo\n"
        )
        assert project.gitcp("redo").code == 12
        assert project.gitcp("redo", "--yes", check=0).out.startswith(
            "dropped 10 checkpoints, kept 3\n"
        )
        assert project.json("undo", "1")["checkpoints"] == [
            f"work@{number}" for number in range(1, 11)
        ]
    assert project.gitcp("undo", "1").code == 16
    assert project.gitcp("undo", "99").code == 16
    assert project.gitcp("undo", "2").code == 12
    assert project.gitcp("undo").code == 12
    assert last(project).id.number == 13


def test_json(project: Project) -> None:
    """For programs: every checkpoint with its reason, and the name of the trash."""
    story(project, 4)

    plan = project.json("prune", "--dry-run", "--keep-last", "1")
    done = project.json("prune", "--keep-last", "1", "--yes")

    assert plan["schema"] == "gitcp.prune-plan/1"
    assert plan["trash"] is None
    assert done["schema"] == "gitcp.prune/1"
    assert {each["id"] for each in done["dropped"]} == {each["id"] for each in plan["dropped"]}
    assert {"id": "alpha@3", "reason": "tag also, works"} in done["kept"]
    assert project.git("for-each-ref", f"refs/gitcp/trash/{done['trash']}")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--keep-last", "-1"), 2),
        (("--keep-within", "soon"), 2),
        (("--keep-last", "0"), 2),
        (("--session", "no"), 16),
        (("--session", "", "--keep-last", "1"), 2),
    ],
)
def test_bad_input(project: Project, options: tuple[str, ...], code: int) -> None:
    """What cannot be meant is refused, with nothing dropped."""
    story(project, 4)
    before = own_refs(project)

    done = project.gitcp("prune", "--yes", *options)

    assert done.code == code
    assert own_refs(project) == before


def test_what_runs_and_effects_need(project: Project) -> None:
    """A checkpoint whose compensation was not run stays, and so does the one that an open run goes
    back to.
    """
    project.write("a.txt", "0\n")
    project.gitcp("save", "--session", "s", "--compensate", "true", "--compensate", "true", check=0)
    script = f"for n in 1 2 3 4; do echo $n > a.txt; {sys.executable} -P -m gitcp save -q; done"
    prune = f"{sys.executable} -P -m gitcp delete --old --keep-last 1 --session s --yes"
    project.gitcp(
        "run", "work", "--session", "s", "--", "sh", "-c", f"{script}; {prune} --json >&2", check=0
    )
    kept = [each["number"] for each in project.json_lines("log", "s")]

    assert kept == [7, 6, 2, 1]
    project.gitcp("compensate", "--session", "s", "--run", "s@1:0", "--run", "s@1:1", check=0)
    project.gitcp("prune", "--keep-last", "1", "--session", "s", "--yes", check=0)
    assert [each["number"] for each in project.json_lines("log", "s")] == [9]
