"""Who changed what, read back: the line of all sessions' checkpoints, and its transitions."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import gitcp
from gitcp import clock
from gitcp import store as store_module
from gitcp.errors import Refused
from gitcp.history import authors
from gitcp.history.live import is_live
from gitcp.model import NOBODY, Authors, Checkpoint, CheckpointId, Claim, Trigger
from gitcp.policy import events
from gitcp.saving import save as saving
from gitcp.state import latest, tool_log

from driver import Project
from samples import START, open_store, save

BY_BETA = Claim(frozenset({"beta"}))
EITHER = Claim(possible=frozenset({"alpha", "beta"}))


def test_transitions(project: Project) -> None:
    """alpha and beta take turns: each step says what alpha did, what beta, and what either."""
    store = open_store(project)
    first = save(store, "alpha", {b"a": b"1"}, authors=Authors(own=1))
    other = Authors(own=1, previous=first.id)
    second = save(store, "beta", {b"a": b"1", b"b": b"1"}, authors=other)
    claims = {b"c": BY_BETA, b"d/": EITHER, b"e": Claim(frozenset({NOBODY}))}
    mixed = Authors(own=1, claims=claims, previous=second.id)
    files = {b"a": b"2", b"b": b"1", b"c": b"1", b"d/x/y": b"1", b"d/z": b"1", b"e": b"1"}
    third = save(store, "alpha", files, authors=mixed)
    latest.write(store.repo, latest.Latest(third.id, 0))

    two, three = authors.transitions(store, "alpha", first.commit)
    assert (two.checkpoint, three.checkpoint) == (second.id, third.id)
    assert (two.before.tree, two.after.tree) == (first.snapshot.tree, second.snapshot.tree)
    assert (two.own, two.others, two.uncertain) == (frozenset(), {b"b": ("beta",)}, frozenset())
    assert three.own == {b"a"}
    assert three.others == {b"c": ("beta",), b"e": (NOBODY,)}
    assert three.uncertain == {b"d/x/y", b"d/z"}
    assert authors.transitions(store, "beta", second.commit)[0].others[b"a"] == ("alpha",)
    assert authors.transitions(store, "alpha", third.commit) == []


def test_changed_since_parent(project: Project) -> None:
    """A checkpoint's changes since its parent are those of all transitions in between."""
    store = open_store(project)
    first = save(store, "alpha", {b"a": b"1", b"b": b"1"}, authors=Authors(own=2))
    second = save(store, "beta", {b"a": b"2", b"b": b"2"}, authors=Authors(2, previous=first.id))
    files = {b"a": b"2", b"b": b"3", b"c": b"1"}
    third = save(store, "alpha", files, authors=Authors(2, previous=second.id))

    assert authors.changed_by(store, third) == {
        b"a": BY_BETA,
        b"b": Claim(frozenset({"alpha", "beta"})),
        b"c": Claim(frozenset({"alpha"})),
    }


def test_not_recorded(project: Project) -> None:
    """Of a checkpoint by an older gitcp, and where one in between is gone, nothing is claimed."""
    store = open_store(project)
    first = save(store, "alpha", {b"a": b"1"})
    second = save(store, "alpha", {b"a": b"2"})
    latest.write(store.repo, latest.Latest(second.id, 0))
    assert authors.changed_by(store, second) == {}
    (only,) = authors.transitions(store, "alpha", first.commit)
    assert only.uncertain == {b"a"}
    assert not only.own
    assert not only.others

    gone = Authors(own=1, previous=CheckpointId("beta", 7))
    third = save(store, "alpha", {b"a": b"3"}, authors=gone)
    latest.write(store.repo, latest.Latest(third.id, 0))
    assert authors.transitions(store, "alpha", second.commit)[0].uncertain == {b"a"}
    (step,) = authors.steps_since(store, "alpha", second)
    assert step.claims() == {b"a": Claim(possible=frozenset({"alpha", "beta", NOBODY}))}
    with pytest.raises(Refused, match="was not made in this working tree"):
        authors.transitions(store, "alpha", save(store, "beta").commit)


def test_brought_by_a_restore(project: Project) -> None:
    """What a session changed elsewhere, before a restore brought it here whole, is its own; what
    came after is told apart as ever. A session that was handed over could not be rewound where
    another one had worked: the state before the restore was saved in that one.
    """
    store = open_store(project)
    first = save(store, "alpha", {b"a": b"1"}, authors=Authors(own=1))
    save(store, "alpha", {b"a": b"2"}, authors=Authors(own=1))
    last = save(store, "alpha", {b"a": b"3", b"b": b"1"}, authors=Authors(own=2))
    safety = save(store, "beta", {b"mine": b"1"}, authors=Authors(own=1))
    brought: dict[str, Any] = {"trigger": Trigger.RESTORE, "restored_from": last.id}
    whole = Authors(own=3, previous=safety.id)
    made = save(store, "alpha", {b"a": b"3", b"b": b"1"}, authors=whole, **brought)
    then = Authors(own=1, previous=made.id)
    other = save(store, "beta", {b"a": b"3", b"b": b"2"}, authors=then)
    latest.write(store.repo, latest.Latest(other.id, 0))

    two, three, after = authors.transitions(store, "alpha", first.commit)
    assert [each.own for each in (two, three, after)] == [{b"a"}, {b"a", b"b"}, frozenset()]
    assert after.others == {b"b": ("beta",)}
    since_last = authors.transitions(store, "alpha", last.commit)
    assert [each.checkpoint for each in since_last] == [other.id]


def test_brought_where_nothing_was(project: Project) -> None:
    """In a clone that is empty, the removal of every file before the restore and its return are
    nobody's changes. `rewind` took the restore for the session's and removed a person's file.
    """
    store = open_store(project)
    by_a_person = Authors(own=1, claims={b"theirs": Claim(frozenset({NOBODY}))})
    first = save(store, "alpha", {b"a": b"1"}, authors=Authors(own=1))
    last = save(store, "alpha", {b"a": b"2", b"theirs": b"1"}, authors=by_a_person)
    removed = {path: Claim(frozenset({NOBODY})) for path in (b"a", b"theirs")}
    save(store, "alpha", {}, authors=Authors(claims=removed))
    brought: dict[str, Any] = {"trigger": Trigger.RESTORE, "restored_from": last.id}
    made = save(store, "alpha", {b"a": b"2", b"theirs": b"1"}, authors=Authors(own=2), **brought)
    latest.write(store.repo, latest.Latest(made.id, 0))

    two, *rest = authors.transitions(store, "alpha", first.commit)
    assert two.checkpoint == last.id
    assert two.own == {b"a"}
    assert two.others == {b"theirs": (NOBODY,)}
    for each in (*rest, *authors.transitions(store, "alpha", last.commit)):
        assert not each.own
        assert not each.others
        assert not each.uncertain


def test_brought_by_an_undo(project: Project) -> None:
    """What alpha removed by a restore and brought back by an undo is beta's as before, although
    the undo kept what was added since. It counted as alpha's, and `--mine` removed it.
    """
    store = open_store(project)
    first = save(store, "alpha", {b"a": b"1"}, authors=Authors(own=1))
    then = Authors(own=1, previous=first.id)
    theirs = save(store, "beta", {b"a": b"1", b"b": b"1"}, authors=then)
    files = {b"a": b"2", b"b": b"1"}
    safety = save(store, "alpha", files, authors=Authors(own=1, previous=theirs.id))
    back: dict[str, Any] = {"trigger": Trigger.RESTORE, "restored_from": first.id}
    save(store, "alpha", {b"a": b"1"}, authors=Authors(own=2), **back)
    save(store, "alpha", {b"a": b"1", b"c": b"1"}, authors=Authors(own=1))
    back["restored_from"] = safety.id
    undone = save(store, "alpha", files | {b"c": b"1"}, authors=Authors(own=2), **back)
    latest.write(store.repo, latest.Latest(undone.id, 0))

    line = authors.transitions(store, "alpha", first.commit)
    assert [each.own for each in line] == [set(), {b"a"}, set(), {b"c"}, set()]
    assert [dict(each.others) for each in line] == [{b"b": ("beta",)}, {}, {}, {}, {}]
    assert not any(each.uncertain for each in line)


def test_brought_from_a_fork(project: Project) -> None:
    """What beta wrote is beta's also if a restore took it from a fork, which has the same files
    as a checkpoint here.
    """
    store = open_store(project)
    first = save(store, "alpha", {b"a": b"1"}, authors=Authors(own=1))
    files = {b"a": b"1", b"b": b"1"}
    theirs = save(store, "beta", files, authors=Authors(own=1, previous=first.id))
    fork = save(store, "fork", files)
    back: dict[str, Any] = {"trigger": Trigger.RESTORE, "restored_from": first.id}
    removed = save(store, "alpha", {b"a": b"1"}, authors=Authors(own=1, previous=theirs.id), **back)
    save(store, "alpha", {b"a": b"2"}, authors=Authors(own=1, previous=removed.id))
    back["restored_from"] = fork.id
    made = save(store, "alpha", {b"a": b"2", b"b": b"1"}, authors=Authors(own=1), **back)
    latest.write(store.repo, latest.Latest(made.id, 0))

    line = authors.transitions(store, "alpha", first.commit)
    assert [each.own for each in line] == [set(), set(), {b"a"}, set()]
    assert line[0].others == {b"b": ("beta",)}


def test_many_restores(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no restore brought a session here, that is found out by reading each step once."""
    store = open_store(project)
    elsewhere = save(store, "beta", {b"b": b"1"})
    made = save(store, "alpha", {b"a": b"1"}, authors=Authors(own=1))
    for number in range(10):
        save(store, "alpha", {b"a": b"2 %d" % number}, authors=Authors(own=1))
        back: dict[str, Any] = {"trigger": Trigger.RESTORE, "restored_from": made.id}
        made = save(store, "alpha", {b"a": b"1"}, authors=Authors(own=1), **back)
    latest.write(store.repo, latest.Latest(made.id, 0))
    read: list[CheckpointId] = []
    read_step = authors.WorktreeHistory._step

    def counted(line: authors.WorktreeHistory, after: Checkpoint) -> authors.Step:
        read.append(after.id)
        return read_step(line, after)

    monkeypatch.setattr(authors.WorktreeHistory, "_step", counted)
    with pytest.raises(Refused, match="was not made in this working tree"):
        authors.transitions(store, "alpha", elsewhere.commit)
    assert len(read) <= 21 + 10


def test_undone_since(project: Project) -> None:
    """Who changed something between two checkpoints does not include those whose changes a restore
    undid in between, also if it kept other files.
    """
    store = open_store(project)
    first = save(store, "alpha", {b"a": b"1", b"b": b"1"}, authors=Authors(own=2))
    both = Authors(own=2, previous=first.id)
    theirs = save(store, "beta", {b"a": b"2", b"b": b"2"}, authors=both)
    back: dict[str, Any] = {"trigger": Trigger.RESTORE, "restored_from": first.id}
    then = Authors(own=1, previous=theirs.id)
    save(store, "beta", {b"a": b"1", b"b": b"2"}, authors=then, **back)
    last = Authors(own=1, previous=CheckpointId("beta", 2))
    made = save(store, "alpha", {b"a": b"1", b"b": b"2", b"c": b"1"}, authors=last)
    latest.write(store.repo, latest.Latest(made.id, 0))

    wanted = {b"b": BY_BETA, b"c": Claim(frozenset({"alpha"}))}
    assert authors.changed_by(store, made) == wanted
    assert authors.between(store, first, made) == wanted


def test_merged_by_a_restore(project: Project) -> None:
    """Of a restore that wrote other files than the checkpoint has, nothing follows."""
    store = open_store(project)
    first = save(store, "alpha", {b"a": b"1"}, authors=Authors(own=1))
    last = save(store, "alpha", {b"a": b"2"}, authors=Authors(own=1))
    safety = save(store, "beta", {b"mine": b"1"}, authors=Authors(own=1))
    brought: dict[str, Any] = {"trigger": Trigger.RESTORE, "restored_from": last.id}
    merged = Authors(own=1, previous=safety.id)
    mixed = save(store, "alpha", {b"a": b"2", b"mine": b"1"}, authors=merged, **brought)
    latest.write(store.repo, latest.Latest(mixed.id, 0))

    with pytest.raises(Refused, match="was not made in this working tree"):
        authors.transitions(store, "alpha", first.commit)


class Killed(BaseException):
    """What ends a save at once, as a signal does."""


@pytest.mark.parametrize(("owner", "name"), [(store_module.Store, "advance"), (saving, "_finish")])
def test_killed_between_two_records(
    project: Project, monkeypatch: pytest.MonkeyPatch, owner: object, name: str
) -> None:
    """A save that was killed just before its session has the checkpoint, or just after, is followed
    by one that names the right one before it; a program goes on from its position. Once it could
    not resume: its newest checkpoint was none of this working tree's.
    """
    program, other = gitcp.open(project.root).session("p"), gitcp.open(project.root).session("o")
    project.write("a", "0")
    first = program.save(position={"at": 0}).checkpoint
    project.write("c", "1")
    other.save(position={"at": 1})

    def killed(*_: object, **__: object) -> None:
        raise Killed

    project.write("a", "2")
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, killed)
        with pytest.raises(Killed):
            program.save(position={"at": 2})
    project.write("b", "half of a file")

    again = gitcp.open(project.root).session("p")
    again.resume()
    assert again.position == {"at": 2 if name == "_finish" else 0}
    assert project.files().keys() == {b"a", b"c"}
    store = open_store(project)
    newest = store.sessions()["p"]
    line = [step.after.id for step in authors.WorktreeHistory(store).steps(newest)]
    assert line[-2:] == [CheckpointId("o", 1), first.id]
    assert line[0] == store.read(newest).id
    assert all(each.session == "p" for each in line[:-2])
    assert authors.transitions(store, "p", first.commit)


def test_two_saves_at_once(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two sessions that are saved at once in one working tree, the later one names the other: a
    batch could not resume when both had named the same checkpoint.
    """
    first = gitcp.open(project.root).session("a")
    project.write("a", "0")
    first.save()
    others: list[threading.Thread] = []
    announce = saving._announce

    def save_other() -> None:
        gitcp.open(project.root).session("b").save(force=True)

    def announced(*args: Any) -> None:
        if not others:
            others.append(threading.Thread(target=save_other))
            others[0].start()
            others[0].join(1)
        announce(*args)

    monkeypatch.setattr(saving, "_announce", announced)
    project.write("a", "1")
    first.save()
    others[0].join()

    line = authors.WorktreeHistory(open_store(project))
    newest = line.newest()
    assert newest is not None
    ids = [step.after.id for step in line.steps(newest)]
    assert ids == [CheckpointId("b", 1), CheckpointId("a", 2), CheckpointId("a", 1)]


def test_live(project: Project) -> None:
    """A session is live for ten minutes after its last checkpoint."""
    store = open_store(project)
    save(store, "alpha", created=START)
    assert is_live(store, "alpha", START + timedelta(minutes=9))
    assert not is_live(store, "alpha", START + timedelta(minutes=11))
    assert not is_live(store, "beta", START)


def test_live_by_hooks(project: Project) -> None:
    """A hook's event makes a session live, until its agent reports its end, however long
    the save of that takes.
    """
    store, now = open_store(project), datetime.now(UTC)
    made = save(store, "alpha", streams={"main": b""}, created=START)
    assert made.agent is not None
    (project.git_dir / "gitcp").mkdir(exist_ok=True)
    assert not is_live(store, "alpha", now)
    for name, live in (("UserPromptSubmit", True), ("SessionEnd", False)):
        event = events.read("claude", name, {"session_id": made.agent.session_id})
        assert event is not None
        tool_log.note(str(store.repo.git_dir), str(project.root), event, clock.of_files())
        assert is_live(store, "alpha", now) is live
    for trigger, live in ((Trigger.SESSION_END, False), (Trigger.TURN, True)):
        later = now + timedelta(seconds=30)
        save(store, "alpha", streams={"main": b""}, trigger=trigger, created=later)
        assert is_live(store, "alpha", later) is live


def test_rename_and_purge(project: Project) -> None:
    """Claims follow a session's new name, and lose what is purged."""
    store = open_store(project)
    claims = {b"hush-hush/a": BY_BETA, b"b": BY_BETA}
    first = save(store, "alpha", {b"x": b"1"}, authors=Authors(1))
    files = {b"hush-hush/a": b"1", b"b": b"1", b"x": b"2"}
    save(store, "beta", files, authors=Authors(1, claims, first.id))
    project.gitcp("rename", "alpha", "gamma", check=0)
    project.gitcp("rename", "beta", "delta", check=0)
    project.gitcp("purge", "--text", "hush-hush", "--yes", check=0)

    store = open_store(project)
    tip = store.tip("delta")
    assert tip is not None
    known = store.read(tip).authors
    assert known is not None
    assert known.previous == CheckpointId("gamma", 1)
    assert len(known.claims) == 2
    assert {claim.sessions for claim in known.claims.values()} == {frozenset({"delta"})}
    assert not any(b"hush-hush" in path for path in known.claims)


def test_restores_are_transparent(project: Project) -> None:
    """Of what a restore wrote, the author is who wrote it at first; of what it merged, its own
    session. Files that it removed are nobody's work.
    """
    store = open_store(project)
    first = save(store, "alpha", {b"a": b"1", b"m": b"1"}, authors=Authors(2))
    by_beta = Authors(2, previous=first.id)
    second = save(store, "beta", {b"a": b"2", b"b": b"1", b"m": b"1"}, authors=by_beta)
    gone: dict[str, Any] = {"trigger": Trigger.RESTORE, "restored_from": first.id}
    files = {b"a": b"1", b"m": b"1"}
    third = save(store, "gamma", files, authors=Authors(2, previous=second.id), **gone)
    back: dict[str, Any] = {"trigger": Trigger.RESTORE, "restored_from": second.id}
    files = {b"a": b"2", b"b": b"1", b"m": b"merged"}
    fourth = save(store, "gamma", files, authors=Authors(3), **back)

    assert authors.between(store, second, third) == {b"a": Claim(frozenset({"alpha"}))}
    by_gamma = Claim(frozenset({"gamma"}))
    assert authors.changed_by(store, fourth) == {b"a": BY_BETA, b"b": BY_BETA, b"m": by_gamma}
