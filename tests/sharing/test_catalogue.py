"""The catalogue of a remote, and where sessions are there."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from git_server import GitServer, serving
from kinds import in_files
from test_share import ALPHA, CATALOGUE, TOKEN, refs_of

from gitcp import wire
from gitcp.errors import RevisionNotFound
from gitcp.git import remote
from gitcp.git.remote import RemoteUpdate
from gitcp.git.repo import Repository
from gitcp.history import revisions
from gitcp.lifecycle.check import check
from gitcp.model import Oid
from gitcp.saving import quarantine
from gitcp.secrets.checkpoint_scan import Sieve
from gitcp.sharing import catalogue, delivery, fetch, push, remote_refs, remotes
from gitcp.sharing.fetch import Fetched
from gitcp.sharing.push import PushReport
from gitcp.sharing.remotes import Remote
from gitcp.state import numbers
from gitcp.store import Store, Summary
from gitcp.value import replace

from driver import Project
from samples import open_store, save


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    """A git server over HTTP with the empty repository hub.git."""
    with serving(tmp_path / "served") as running:
        running.create("hub.git")
        yield running


@pytest.fixture
def hub(server: GitServer) -> Path:
    """The server's repository."""
    return server.root / "hub.git"


@pytest.fixture
def ada(project: Project, server: GitServer) -> Store:
    """A store with the session alpha, and the remote."""
    store = with_remote(project, server)
    save(store, "alpha", {b"a.txt": b"one\n"}, label="the first try")
    return store


@pytest.fixture
def bob(tmp_path: Path, server: GitServer) -> Store:
    """A second store with the same remote."""
    return with_remote(Project(tmp_path / "bob"), server)


def with_remote(project: Project, server: GitServer) -> Store:
    """The store of a project that has the server's repository as the remote hub."""
    store = open_store(project)
    remotes.enable(store.repo, "hub", server.url("hub.git"), as_branches=False)
    return store


def hub_of(store: Store) -> Remote:
    """The remote hub."""
    return remotes.choose(store.repo, "hub")


def send(store: Store, *sessions: str, force: bool = False) -> PushReport:
    """Push sessions."""
    return push.push(store, push.plan(store, hub_of(store), sessions, (), force=force))


def listed(store: Store) -> dict[str, Fetched]:
    """What a list of the remote shows."""
    return {one.session: one for one in fetch.listing(store, hub_of(store))}


def titles(store: Store) -> dict[str, str]:
    """The titles in a list of the remote; "?" where the catalogue says nothing."""
    return {name: one.entry.title if one.entry else "?" for name, one in listed(store).items()}


def in_hub(hub: Path, *args: str) -> str:
    """What git prints in the remote repository."""
    done = subprocess.run(["git", *args], cwd=hub, capture_output=True, check=True, text=True)
    return done.stdout.strip()


def test_a_list_fetches_one_ref(ada: Store, bob: Store, server: GitServer) -> None:
    """It shows what a colleague pushed, without their checkpoints; seen again, it fetches
    nothing.
    """
    made = save(ada, "beta", {b"b.txt": b"two\n"}, label="the second")
    send(ada, "alpha", "beta")

    assert titles(bob) == {"alpha": "the first try", "beta": "the second"}
    entry = listed(bob)["beta"].entry
    assert entry is not None
    assert (entry.tip, entry.time) == (made.commit, wire.encode_time(made.created))
    assert not bob.reader.exists(made.commit)

    before = len(server.requests)
    listed(bob)
    assert not any(
        "upload-pack" in path and "info" not in path for path in server.requests[before + 2 :]
    )


def test_one_session_is_fetched(ada: Store, bob: Store) -> None:
    """Its objects come, and no others."""
    other = save(ada, "beta", {b"b.txt": b"two\n"})
    send(ada, "alpha", "beta")

    (one,) = fetch.fetch(bob, hub_of(bob), ["alpha"])

    assert (one.session, one.checkpoints) == ("alpha", 1)
    assert not bob.reader.exists(other.commit)


def test_a_clone_gets_nothing(ada: Store, server: GitServer, tmp_path: Path) -> None:
    """Neither sessions nor the catalogue."""
    send(ada, "alpha")

    subprocess.run(["git", "clone", "--quiet", server.url("hub.git"), tmp_path / "c"], check=True)

    assert refs_of(tmp_path / "c") == {}
    assert in_hub(tmp_path / "c", "count-objects").startswith("0 objects")


def test_an_older_gitcp(ada: Store, bob: Store, hub: Path) -> None:
    """What it pushed is listed, fetched, and continued where it is."""
    first = ada.tip("alpha")
    ada.repo.git("push", "--quiet", str(hub), "refs/gitcp/sessions/alpha", connects=True)
    assert titles(bob) == {"alpha": "?"}
    assert fetch.fetch(bob, hub_of(bob))[0].tip == first

    second = save(ada, "alpha", {b"a.txt": b"two\n"}, label="second")
    send(ada, "alpha")

    assert refs_of(hub)["refs/gitcp/sessions/alpha"] == second.commit
    assert ALPHA not in refs_of(hub)
    assert titles(bob) == {"alpha": "second"}


def test_two_at_once(ada: Store, bob: Store, server: GitServer, hub: Path) -> None:
    """Both push at the same time, again and again: each session is listed with its title."""
    stores = {"ada": ada, "bob": bob}
    failures: list[str] = []

    def work(name: str) -> None:
        project = Project(stores[name].repo.root)
        try:
            for number in range(4):
                store = open_store(project)
                save(store, f"{name}{number}", {b"a.txt": name.encode()}, label=f"{name} {number}")
                failures.append(send(store, f"{name}{number}").catalogue)
        except BaseException as error:
            failures.append(repr(error))
            raise

    threads = [threading.Thread(target=work, args=(name,)) for name in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert set(failures) == {""}
    assert titles(ada) == {f"{n}{i}": f"{n} {i}" for n in stores for i in range(4)}


def test_somebody_was_first(ada: Store, bob: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalogue moved between the list and the push: both are in it."""
    save(bob, "beta", {b"b.txt": b"two\n"}, label="bob's")
    plan = push.plan(ada, hub_of(ada), ["alpha"], ())
    send(bob, "beta")

    assert push.push(ada, plan).catalogue == ""

    assert titles(bob) == {"alpha": "the first try", "beta": "bob's"}


def test_deleted_there(ada: Store, bob: Store, hub: Path) -> None:
    """A session whose ref is gone is not listed, and the next push drops its entry."""
    save(ada, "beta", {b"b.txt": b"two\n"})
    send(ada, "alpha", "beta")
    in_hub(hub, "update-ref", "-d", ALPHA)

    assert list(listed(bob)) == ["beta"]
    save(ada, "beta", {b"b.txt": b"three\n"})
    send(ada, "beta")
    tip = remote_refs.read(ada, hub_of(ada), hub_of(ada).url).catalogue
    assert tip is not None
    assert list(catalogue.read(ada, tip)) == ["beta"]


@pytest.mark.parametrize("how", ["missing", "not a commit", "forged", "stale"])
def test_a_catalogue_that_lies(ada: Store, bob: Store, hub: Path, how: str) -> None:
    """The list has the sessions of the refs whatever the catalogue says, and the next push repairs
    it.
    """
    send(ada, "alpha")
    if how == "missing":
        in_hub(hub, "update-ref", "-d", CATALOGUE)
    elif how == "not a commit":
        in_hub(hub, "update-ref", CATALOGUE, f"{ALPHA}^{{tree}}")
    elif how == "forged":
        forge(ada, hub)
    else:
        made = save(ada, "alpha", {b"a.txt": b"two\n"}, label="later")
        ada.repo.git("push", "--quiet", str(hub), f"{made.commit}:{ALPHA}", connects=True)
    assert titles(bob) == {"alpha": "?"}

    send(ada, "alpha")

    later = "later" if how == "stale" else "the first try"
    assert titles(bob) == {"alpha": later}


def forge(store: Store, hub: Path) -> None:
    """Push a catalogue that has a session of its own, a wrong tip, and lines that are none."""
    lines = [
        {"session": "alpha", "tip": "0" * 40, "title": "evil\x1b[2J"},
        {"session": "ghost", "tip": "0" * 40},
        {"session": 1, "tip": 2},
        {"session": "../../x", "tip": "zz"},
    ]
    text = b"\n".join([*map(wire.dumps, lines), b"no json", b'{"a":' * 9999])
    blob = store.writer.write_blob(text)
    store.writer.flush()
    tree = store.repo.git("mktree", input=f"100644 blob {blob}\t8e\n".encode()).decode().strip()
    content = f"tree {tree}\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\nx\n"
    commit = store.writer.write("commit", content.encode())
    store.writer.flush()
    store.repo.git("push", "--quiet", "--force", str(hub), f"{commit}:{CATALOGUE}", connects=True)


def test_a_catalogue_that_is_too_large(
    ada: Store, bob: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not read."""
    send(ada, "alpha")
    monkeypatch.setattr(catalogue, "LARGEST", 10)

    assert titles(bob) == {"alpha": "?"}


def test_no_secret_in_a_title(ada: Store, bob: Store) -> None:
    """What is not sent is not listed either; a redacted copy is listed with its own title."""
    save(ada, "beta", {b"a.txt": b"one\n"}, label=f"use {TOKEN}")
    plan = push.plan(ada, hub_of(ada), ["beta"], (), redacted=True)
    push.push(ada, plan)

    assert titles(bob) == {"beta": "use [REDACTED:github-token]"}
    tip = ada.tip("beta")
    assert tip is not None
    assert TOKEN not in catalogue.describe(ada, "beta", tip, Sieve()).title


def test_only_forward(ada: Store, bob: Store, hub: Path) -> None:
    """A host that lets no ref go back gets catalogues that have a parent."""
    in_hub(hub, "config", "receive.denyNonFastForwards", "true")
    send(ada, "alpha")
    save(bob, "beta", {b"b.txt": b"two\n"}, label="bob's")

    assert send(bob, "beta").catalogue == ""

    assert titles(ada) == {"alpha": "the first try", "beta": "bob's"}


def test_a_host_that_takes_no_catalogue(ada: Store, bob: Store, hub: Path) -> None:
    """The session is sent, and the reason told."""
    hook = hub / "hooks/update"
    hook.write_text('#!/bin/sh\ncase "$1" in */catalogue) echo not here >&2; exit 1; esac\n')
    hook.chmod(0o755)

    report = send(ada, "alpha")

    assert [item.name for item in report.sent] == ["alpha"]
    assert "not here" in report.catalogue
    assert titles(bob) == {"alpha": "?"}


def test_large_pushes_are_split(
    ada: Store, server: GitServer, hub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions that are too large together are sent apart, one that is too large in steps."""
    for number in range(3):
        save(ada, "alpha", {b"a.txt": bytes(str(number), "ascii") * 3000})
    save(ada, "beta", {b"b.txt": b"b" * 3000})
    tips = {name: ada.tip(name) for name in ("alpha", "beta")}
    updates = [RemoteUpdate("x", tip, None) for tip in tips.values() if tip]
    monkeypatch.setattr(delivery, "LARGEST", remote.size_of(ada.repo, updates[1:]) + 100)

    report = send(ada, "alpha", "beta")

    assert [item.name for item in report.sent] == ["alpha", "beta"]
    assert remote_refs.read(ada, hub_of(ada), hub_of(ada).url).tip("alpha") == tips["alpha"]
    assert server.pushes() > 3
    assert sorted(titles(ada)) == ["alpha", "beta"]


def test_six_pushes_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seventh waits until the first is a minute ago."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    pace = delivery.within_rate()
    for _ in range(7):
        pace()

    assert len(slept) == 1
    assert 50 < slept[0] <= 60


def test_many_refs(ada: Store, server: GitServer) -> None:
    """A hundred refs go in one push, with the catalogue."""
    names = [f"s{number}" for number in range(120)]
    for name in names:
        save(ada, name, {b"a.txt": name.encode()})
    server.requests.clear()

    send(ada, *names)

    assert server.pushes() == 2
    assert sorted(listed(ada)) == sorted(names)


def test_shards(ada: Store) -> None:
    """The directory of a session is from the SHA-256 of its name; a session that is elsewhere is
    nobody's.
    """
    to = hub_of(ada)
    assert remote_refs.session_ref(to, "alpha") == ALPHA
    ada.repo.git(
        "push",
        "--quiet",
        to.url,
        "refs/gitcp/sessions/alpha:refs/gitcp/shared/00/alpha",
        connects=True,
    )

    assert remote_refs.read(ada, to, to.url).sessions == {}


def test_over_ssh(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hub: Path
) -> None:
    """A session is sent, listed and fetched over ssh, with a script in ssh's place."""
    program = tmp_path / "ssh"
    program.write_text('#!/bin/sh\nwhile [ "$1" = -o ]; do shift 2; done\nshift\nexec sh -c "$*"\n')
    program.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(program))
    stores = [open_store(project), open_store(Project(tmp_path / "other"))]
    for store in stores:
        remotes.enable(store.repo, "hub", f"ssh://somewhere{hub}", as_branches=False)
    made = save(stores[0], "alpha", {b"a.txt": b"one\n"}, label="over ssh")

    send(stores[0], "alpha")

    assert titles(stores[1]) == {"alpha": "over ssh"}
    assert fetch.fetch(stores[1], hub_of(stores[1]), ["alpha"])[0].tip == made.commit


@pytest.fixture
def copy(ada: Store, hub: Path, tmp_path: Path) -> Store:
    """A mirror clone of the remote, which has the catalogue and two checkpoints of alpha."""
    save(ada, "alpha", {b"a.txt": b"two\n"}, label="the second try")
    send(ada, "alpha")
    subprocess.run(["git", "clone", "--quiet", "--mirror", hub, tmp_path / "m.git"], check=True)
    assert set(refs_of(tmp_path / "m.git")) == {ALPHA, CATALOGUE}
    return Store(Repository.at(tmp_path / "m.git", tmp_path / "m.git", ada.repo.host))


def test_a_catalogue_is_no_tip(copy: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """All checkpoints of a mirror are read at once, none is reached from the catalogue, and its
    commit cannot be restored.
    """
    listing = copy.repo.refs.read(CATALOGUE)
    assert listing is not None
    with pytest.raises(RevisionNotFound):
        revisions.resolve(copy, listing[:12], current=None)

    read_alone: list[Oid | None] = []
    readable = copy.readable

    def noted(tip: Oid | None) -> Iterator[Summary]:
        read_alone.append(tip)
        return readable(tip)

    monkeypatch.setattr(copy, "readable", noted)
    assert numbers.highest(copy) == {"alpha": 2}
    assert numbers.first(copy, "alpha") == 3
    assert read_alone == []
    assert len(quarantine._reached(copy, "alpha")) == 2
    assert read_alone == [copy.repo.refs.read(ALPHA)]


@in_files  # git refuses to put a ref in reftable on nothing
def test_a_lost_catalogue_slows_nothing(copy: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers are read at once where the catalogue's objects are missing."""
    listing = copy.repo.refs.read(CATALOGUE)
    assert listing is not None
    assert copy.repo.refs.update(CATALOGUE, Oid("1" * len(listing)), listing)
    monkeypatch.setattr(copy, "readable", lambda _: pytest.fail("a chain was read by itself"))
    assert (numbers.first(copy, "alpha"), numbers.first(copy, "beta")) == (3, 1)


def objects_of(store: Store) -> list[Oid]:
    """The catalogue's objects: its commit, its tree and its blobs."""
    listed = store.repo.git("rev-list", "--objects", CATALOGUE).decode().splitlines()
    return [Oid(line.partition(" ")[0]) for line in listed]


def damage_each(store: Store) -> Iterator[Oid]:
    """Damage one object of the catalogue after the other, and repair it."""
    directory = store.repo.common_dir / "objects"
    for pack in directory.glob("pack/*.pack"):
        data = pack.read_bytes()
        for path in directory.glob(f"pack/{pack.stem}.*"):
            path.unlink()
        store.repo.git("unpack-objects", "-q", input=data)
    for oid in objects_of(store):
        path = directory / oid[:2] / oid[2:]
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data[:-1])
        yield oid
        path.write_bytes(data)


def test_check_reads_the_catalogue(copy: Store) -> None:
    """Each of its objects is counted, and damage in it is reported, though no checkpoint is
    affected, by the first check and by later ones.
    """
    copy.repo.git("repack", "-adq")
    report = check(copy)
    assert report.ok
    assert report.checkpoints == 2
    listed = copy.repo.git("rev-list", "--objects", "--all").splitlines()
    assert report.objects == len(set(listed))
    assert check(Store(copy.repo)).unchanged == report.objects

    for oid in damage_each(copy):
        for everything in (False, True):
            (problem,) = check(Store(copy.repo), everything=everything).problems
            assert (problem.object, problem.checkpoints) == (oid, ())
            assert problem.what.endswith("; the catalogue of sessions needs it")
    assert check(Store(copy.repo)).ok


def test_check_reads_earlier_catalogues(copy: Store) -> None:
    """A host that lets refs move only forward has the history of the catalogue."""
    before = copy.repo.refs.read(CATALOGUE)
    assert before is not None
    lines = catalogue.read(copy, before)
    changes = {"alpha": replace(lines["alpha"], title="later")}
    after = catalogue.write(copy, lines, changes, before, Sieve(), parent=before)
    assert copy.repo.refs.update(CATALOGUE, after, before)
    for oid in damage_each(copy):
        assert [each.object for each in check(Store(copy.repo)).problems] == [oid]


def test_check_of_a_catalogue_that_is_none(copy: Store) -> None:
    """Its ref names a tree."""
    copy.repo.git("update-ref", CATALOGUE, f"{CATALOGUE}^{{tree}}")
    (problem,) = check(copy).problems
    assert "is a tree instead of a commit" in problem.what


def test_renamed_in_a_hub(ada: Store, bob: Store, hub: Path, tmp_path: Path) -> None:
    """A session of a hub that has a worktree, which an older gitcp pushed there: it is listed under
    its new name, beside the others, and no other session is hidden by it.
    """
    save(ada, "beta", {b"b.txt": b"two\n"}, label="the second")
    send(ada, "beta")
    ada.repo.git("push", "--quiet", str(hub), "refs/gitcp/sessions/alpha", connects=True)
    Project(ada.repo.root).commit()
    ada.repo.git("push", "--quiet", str(hub), "HEAD:refs/heads/main", connects=True)
    in_hub(hub, "worktree", "add", "--quiet", str(tmp_path / "tree"), "main")
    worktree = Project(tmp_path / "tree")

    refused = worktree.gitcp("rename", "alpha", "beta", check=12)
    assert "session beta of another repository is here; nothing was renamed" in refused.err
    worktree.gitcp("rename", "alpha", "gamma", check=0)

    assert titles(bob) == {"beta": "the second", "gamma": "?"}
    assert {one.session: one.refused for one in fetch.fetch(bob, hub_of(bob))} == {
        "beta": "",
        "gamma": "",
    }
    assert worktree.gitcp("check", check=0).out.startswith("OK: 2 checkpoints")
    send(ada, "alpha")
    assert titles(bob) == {"alpha": "the first try", "beta": "the second", "gamma": "?"}
