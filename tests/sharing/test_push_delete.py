"""Sessions that are deleted on a remote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from git_server import GitServer, serving
from test_share import ALPHA, CATALOGUE, TOKEN, refs_of

from gitcp.errors import Refused, RevisionAmbiguous, RevisionNotFound, StoreDamaged
from gitcp.git import refs, remote
from gitcp.git.remote import RemoteUpdate
from gitcp.lifecycle import delete, rename
from gitcp.lifecycle.fork import ForkRequest, fork
from gitcp.model import Oid
from gitcp.sharing import catalogue, fetch, push, push_delete, push_queue, remote_refs, remotes
from gitcp.sharing.push_delete import RemoteDeletePlan
from gitcp.sharing.push_queue import QueuedRef, Timing
from gitcp.sharing.remotes import Remote
from gitcp.state import push_policy, tag
from gitcp.state.push_policy import PushPolicy
from gitcp.store import Store

from driver import Project
from samples import START, open_store, save

AT_ONCE = Timing(apart=0, wait=0)


class Team(NamedTuple):
    """Two stores with the same remote `hub`, and its repository, which a real server serves."""

    ada: Store
    bob: Store
    server: GitServer
    hub: Path


@pytest.fixture(params=[False, True], ids=["refs", "branches"])
def team(project: Project, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Team]:
    """Ada pushed alpha, with the tag good, and beta; where the host takes only branches, too."""
    with serving(tmp_path / "served") as server:
        hub = server.create("hub.git")
        ada, bob = open_store(project), open_store(Project(tmp_path / "bob"))
        for store in (ada, bob):
            url = server.url("hub.git")
            remotes.enable(store.repo, "hub", url, as_branches=request.param)
        first = save(ada, "alpha", {b"a.txt": b"one\n"}, label="by mistake")
        save(ada, "alpha", {b"a.txt": b"two\n"}, label="by mistake")
        tag.create(ada, "good", first, text=None, force=False, now=START)
        save(ada, "beta", {b"b.txt": b"three\n"}, label="on purpose")
        send(ada, "alpha", "beta")
        yield Team(ada, bob, server, hub)


def hub_of(store: Store) -> Remote:
    """The remote hub."""
    return remotes.choose(store.repo, "hub")


def send(store: Store, *sessions: str) -> None:
    """Push sessions."""
    assert not push.push(store, push.plan(store, hub_of(store), sessions, ())).refused


def planned(store: Store, *sessions: str, force: bool = False) -> RemoteDeletePlan:
    """The plan to delete sessions on the remote."""
    return push_delete.plan(store, hub_of(store), sessions, force=force)


def there(store: Store) -> set[str]:
    """The sessions and tags on the remote."""
    listed = remote_refs.read(store, hub_of(store), hub_of(store).url)
    return {*listed.sessions, *listed.tags}


def titles(store: Store) -> dict[str, str]:
    """The titles in a list of the remote; "?" where the catalogue says nothing."""
    listed = fetch.listing(store, hub_of(store))
    return {one.session: one.entry.title if one.entry else "?" for one in listed}


def entries(store: Store) -> set[str]:
    """The sessions in the remote's catalogue, listed or not."""
    to = hub_of(store)
    commit = remote_refs.read(store, to, to.url).catalogue
    assert commit
    return set(catalogue.fetch(store, to, to.url, commit))


def consent(store: Store) -> None:
    """Let gitcp push to the remote by itself."""
    remotes.allow_pushes(store.repo, hub_of(store), PushPolicy.ALWAYS)


def waiting(store: Store) -> dict[str, QueuedRef]:
    """What waits for the remote, by ref."""
    (state,) = push_queue.states(store)
    return {item.ref: item for item in state.queue.items}


def test_deleted(team: Team) -> None:
    """The session, its tag and its entry are gone after one push; the plan said so, and nothing is
    other than before in the repository.
    """
    before = team.ada.repo.refs.list(refs.PREFIX)
    plan = planned(team.ada, "al")
    (deletion,) = plan.deletions
    assert (deletion.session, deletion.shared, set(deletion.tags)) == ("alpha", 0, {"good"})
    assert [str(node.id) for node in deletion.chain] == ["alpha@2", "alpha@1"]
    assert there(team.bob) == {"alpha", "beta", "good"}
    pushes = team.server.pushes()

    report = push_delete.delete(team.ada, plan)

    assert (report.deleted, dict(report.refused), report.catalogue) == (("alpha",), {}, "")
    assert team.server.pushes() == pushes + 1
    assert there(team.bob) == {"beta"}
    assert titles(team.bob) == {"beta": "on purpose"}
    assert entries(team.bob) == {"beta"}
    assert team.ada.repo.refs.list(refs.PREFIX) == before

    send(team.ada, "alpha")
    assert there(team.bob) == {"alpha", "beta", "good"}


def test_all_of_them(team: Team) -> None:
    """The last one leaves an empty list, and git has nothing to say."""
    report = push_delete.delete(team.ada, planned(team.ada, "alpha", "beta", "alpha"))
    assert report.deleted == ("alpha", "beta")
    assert (there(team.bob), titles(team.bob)) == (set(), {})
    fsck = ("--git-dir", str(team.hub), "fsck", "--strict", "--no-dangling")
    assert Project(team.ada.repo.root).git(*fsck) == ""


def test_shared_with_a_fork(team: Team) -> None:
    """What a fork there has stays, with its tags; what no fork has goes."""
    second, first = team.ada.history(_tip(team.ada, "alpha"))
    point = team.ada.read(first.commit)
    fork(team.ada, ForkRequest(point, team.ada.repo.root, "branched"))
    late = team.ada.read(second.commit)
    tag.create(team.ada, "late", late, text=None, force=False, now=START)
    send(team.ada, "alpha", "branched")

    plan = planned(team.ada, "alpha")

    assert plan.deletions[0].shared == 1
    assert set(plan.deletions[0].tags) == {"late"}
    push_delete.delete(team.ada, plan)
    assert there(team.bob) == {"beta", "branched", "good"}
    assert {one.session: one.refused for one in fetch.fetch(team.bob, hub_of(team.bob))} == {
        "beta": "",
        "branched": "",
    }


def _tip(store: Store, session: str) -> Oid:
    tip = store.tip(session)
    assert tip
    return tip


@pytest.mark.parametrize("is_at_both", [False, True])
def test_where_an_older_gitcp_put_it(team: Team, *, is_at_both: bool) -> None:
    """The flat ref goes, too, or the session would appear again."""
    to = hub_of(team.ada)
    old = RemoteUpdate(to.flat_sessions + "alpha", _tip(team.ada, "alpha"), None)
    assert not remote.send(team.ada.repo, to.destination, [old])
    if not is_at_both:
        ref = remote_refs.session_ref(to, "alpha")
        gone = RemoteUpdate(ref, None, _tip(team.ada, "alpha"))
        assert not remote.send(team.ada.repo, to.destination, [gone])

    plan = planned(team.ada, "alpha")

    assert len(plan.deletions[0].refs) == 1 + is_at_both
    assert push_delete.delete(team.ada, plan).deleted == ("alpha",)
    assert there(team.bob) == {"beta"}


def test_saved_there_meanwhile(team: Team) -> None:
    """What a colleague pushed after the plan is not deleted; the other session is."""
    plan = planned(team.ada, "alpha", "beta")
    save(team.ada, "alpha", {b"a.txt": b"later\n"}, label="later")
    send(team.ada, "alpha")

    report = push_delete.delete(team.ada, plan)

    assert report.deleted == ("beta",)
    assert ["stale info" in why for why in report.refused.values()] == [True]
    assert there(team.bob) == {"alpha"}
    assert titles(team.bob) == {"alpha": "later"}


def test_another_push_meanwhile(team: Team) -> None:
    """Who pushes another session at the same time is in the list, and the deleted one is not."""
    plan = planned(team.ada, "alpha")
    save(team.bob, "gamma", {b"c.txt": b"bob\n"}, label="bob's")
    send(team.bob, "gamma")

    report = push_delete.delete(team.ada, plan)

    assert (report.deleted, report.catalogue) == (("alpha",), "")
    assert titles(team.bob) == {"beta": "on purpose", "gamma": "bob's"}
    assert entries(team.bob) == {"beta", "gamma"}


def test_deleted_by_somebody_else(team: Team) -> None:
    """The second of two deletions is refused, and a name that is not there is an error."""
    plan = planned(team.ada, "alpha")
    push_delete.delete(team.ada, plan)
    assert push_delete.delete(team.ada, plan).deleted == ()
    for name in ("alpha", ""):
        with pytest.raises(RevisionNotFound, match=f"hub has no session '{name}'"):
            planned(team.ada, name)
    save(team.ada, "beta-2", {b"b.txt": b"x\n"})
    send(team.ada, "beta-2")
    with pytest.raises(RevisionAmbiguous):
        planned(team.ada, "be")
    assert [each.session for each in planned(team.ada, "beta").deletions] == ["beta"]


def test_a_host_that_deletes_nothing(team: Team) -> None:
    """The reason is printed, and the session is listed as before."""
    _refuse(team.hub, '*" to 0"*', what="$1 to $3")
    report = push_delete.delete(team.ada, planned(team.ada, "alpha"))
    assert report.deleted == ()
    assert {"not here" in why for why in report.refused.values()} == {True}
    assert titles(team.bob) == {"alpha": "by mistake", "beta": "on purpose"}


def test_not_in_this_repository(team: Team) -> None:
    """Nobody deletes what only the remote has, before it was fetched, unless forced. The trash,
    which is emptied by itself, does not count.
    """
    with pytest.raises(Refused, match="are not in this repository; nothing was deleted") as error:
        planned(team.bob, "alpha")
    assert error.value.hint == "gitcp fetch hub alpha"

    (forced,) = planned(team.bob, "alpha", force=True).deletions
    assert (forced.chain, forced.tags) == ((), {})
    assert forced.entry is not None
    assert forced.entry.title == "by mistake"

    fetch.fetch(team.bob, hub_of(team.bob), ["alpha"])
    assert len(planned(team.bob, "alpha").deletions[0].chain) == 2
    delete.delete(team.bob, "hub/alpha")
    with pytest.raises(Refused):
        planned(team.bob, "alpha")
    assert push_delete.delete(team.bob, planned(team.bob, "alpha", force=True)).deleted == (
        "alpha",
    )
    assert there(team.ada) == {"beta", "good"}


def test_a_redacted_copy(team: Team) -> None:
    """It is here, as the copy that was pushed."""
    save(team.ada, "gamma", {b"c.txt": TOKEN.encode()})
    plan = push.plan(team.ada, hub_of(team.ada), ["gamma"], (), redacted=True)
    push.push(team.ada, plan)
    assert push_delete.delete(team.ada, planned(team.ada, "gamma")).deleted == ("gamma",)
    assert there(team.bob) == {"alpha", "beta", "good"}


# ---------------------------------------------------------------- background pushes


def test_not_pushed_again(team: Team) -> None:
    """Later saves and tags of the session stay here and are told; other sessions are sent. Pushed
    by hand, it is sent by itself again.
    """
    consent(team.ada)
    push_delete.delete(team.ada, planned(team.ada, "alpha"))
    later = save(team.ada, "alpha", {b"a.txt": b"later\n"})
    tag.create(team.ada, "late", later, text=None, force=False, now=START)
    save(team.ada, "beta", {b"b.txt": b"later\n"})

    push_queue.drain(team.ada, "hub", AT_ONCE)

    assert there(team.bob) == {"beta"}
    told = waiting(team.ada)
    assert set(told) == {refs.SESSIONS + "alpha", refs.TAGS + "late"}
    assert {(item.is_held, item.reason) for item in told.values()} == {
        (True, "deleted on hub; to push it again: gitcp push hub alpha")
    }

    send(team.ada, "alpha")
    save(team.ada, "alpha", {b"a.txt": b"last\n"})
    push_queue.drain(team.ada, "hub", AT_ONCE)
    assert there(team.bob) == {"alpha", "beta", "good", "late"}
    assert waiting(team.ada) == {}


def test_deleted_while_it_is_pushed(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleted after a background push has chosen what to send: it is not sent again."""
    consent(team.ada)
    save(team.ada, "alpha", {b"a.txt": b"later\n"})
    read = remote_refs.read

    def deleting(*args: object) -> object:
        monkeypatch.setattr(remote_refs, "read", read)
        push_delete.delete(team.ada, planned(team.ada, "alpha"))
        return read(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(remote_refs, "read", deleting)
    push_queue.drain(team.ada, "hub", AT_ONCE)
    assert there(team.bob) == {"beta"}


def test_renamed(team: Team) -> None:
    """A session that was deleted there does not return under another name; other remotes are not
    concerned.
    """
    consent(team.ada)
    push_delete.delete(team.ada, planned(team.ada, "alpha"))
    rename.rename(team.ada, "alpha", "renamed")
    assert push_policy.deleted(team.ada.repo, "hub") == {"renamed"}
    assert push_policy.deleted(team.ada.repo, "other") == frozenset()
    push_queue.drain(team.ada, "hub", AT_ONCE)
    assert there(team.bob) == {"beta"}


def test_a_damaged_record(team: Team) -> None:
    """Nothing is sent by itself or by hand before it is repaired: a session could be pushed that
    somebody deleted.
    """
    consent(team.ada)
    push_delete.delete(team.ada, planned(team.ada, "alpha"))
    save(team.ada, "alpha", {b"a.txt": b"later\n"})
    (path,) = team.ada.repo.common_dir.glob("gitcp/push/*.deleted")
    path.write_bytes(b"{")

    push_queue.drain(team.ada, "hub", AT_ONCE)
    with pytest.raises(StoreDamaged, match="damaged"):
        send(team.ada, "alpha")

    assert there(team.bob) == {"beta"}
    assert "is damaged" in waiting(team.ada)[refs.SESSIONS + "alpha"].reason


# ---------------------------------------------------------------- the command


def test_command(project: Project, tmp_path: Path) -> None:
    """It asks, shows what it would delete, deletes it, and says how to push it again."""
    project.gitcp("save", "one", "--session", "alpha", check=0)
    project.gitcp("tag", "good", check=0)
    with serving(tmp_path / "served") as server:
        hub = server.create("hub.git")
        project.gitcp("remote", "hub", server.url("hub.git"), check=0)
        project.gitcp("push", "hub", "al", check=0)
        before = refs_of(hub)
        assert ALPHA in before

        asked = project.gitcp("push", "hub", "--delete", "alpha", check=12)
        assert "delete session alpha on hub: 1 checkpoint, last saved" in asked.err
        assert "  tags to delete: good\n" in asked.err
        assert asked.err.endswith("hint: gitcp push hub --delete alpha --yes\n")
        (dry,) = project.json("push", "hub", "--delete", "alpha", "-n")["sessions"]
        assert (dry["session"], dry["checkpoints"], dry["deleted"]) == ("alpha", 1, False)
        assert (dry["tags"], dry["author"]) == (["good"], "gitcp")
        assert refs_of(hub) == before

        done = project.gitcp("push", "hub", "--delete", "alpha", "--yes", check=0)
        assert (
            done.out == "deleted session alpha on hub\npush it again with: gitcp push hub alpha\n"
        )
        assert "the host may keep the objects for a while" in done.err
        assert set(refs_of(hub)) == {CATALOGUE}
        project.gitcp("push", "hub", "alpha", check=0)
        assert set(refs_of(hub)) == set(before)


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["--delete"], "name the sessions to delete; nothing was deleted"),
        (["", "--delete", "--yes"], "the name of a session is empty"),
        (["alpha", "--delete", "--all"], "--delete and --all cannot be used together"),
        (["alpha", "--delete", "--redact"], "--delete and --redact cannot be used together"),
        (["alpha", "--all"], "--all, --session and names of sessions cannot be used together"),
    ],
)
def test_options(project: Project, tmp_path: Path, args: list[str], problem: str) -> None:
    """What makes no sense together is refused."""
    project.gitcp("save", "one", "--session", "alpha", check=0)
    project.git("init", "--quiet", "--bare", str(tmp_path / "hub.git"))
    project.gitcp("remote", "hub", str(tmp_path / "hub.git"), check=0)
    assert problem in project.gitcp("push", "hub", *args, check=2).err


def test_in_part(project: Project, tmp_path: Path) -> None:
    """Where a host refuses one of two, the exit code is that of a push in part; of both, an
    error.
    """
    for name in ("alpha", "beta"):
        project.gitcp("save", "one", "--session", name, "--force", check=0)
    hub = tmp_path / "hub.git"
    project.git("init", "--quiet", "--bare", str(hub))
    project.gitcp("remote", "hub", str(hub), check=0)
    project.gitcp("push", "hub", "--all", check=0)
    _refuse(hub, "*/alpha")

    done = project.gitcp("push", "hub", "--delete", "alpha", "beta", "--yes", check=3)
    assert "deleted session beta on hub\n" in done.out
    assert f"refused {ALPHA}: " in done.out
    failed = project.gitcp("push", "hub", "--delete", "alpha", "--yes", check=1)
    assert f"hub refused to delete {ALPHA}" in failed.err
    assert set(refs_of(hub)) == {ALPHA, CATALOGUE}


def _refuse(hub: Path, pattern: str, what: str = "$1") -> None:
    """Let a hub refuse each update of which `what` matches a pattern of the shell."""
    hook = hub / "hooks/update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\ncase "{what}" in {pattern}) echo not here >&2; exit 1; esac\n')
    hook.chmod(0o755)
