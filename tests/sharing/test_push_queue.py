"""Pushes in the background: what waits, what is sent, and what a server can do to it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from git_server import GitServer, serving
from test_share import ID, TOKEN, refs_of

from gitcp.errors import GitFailed
from gitcp.git import records, refs
from gitcp.sharing import push_queue, push_worker, remotes
from gitcp.sharing.push_queue import QueuedRef, Timing
from gitcp.state import allowed, push_policy, tag
from gitcp.state.push_policy import PushPolicy
from gitcp.store import Store

from driver import Project
from samples import START, open_store, save

AT_ONCE = Timing(apart=0, wait=0)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    """A git server over HTTP with the empty repositories hub.git and second.git."""
    with serving(tmp_path / "served") as running:
        running.create("hub.git")
        running.create("second.git")
        yield running


@pytest.fixture
def store(project: Project, server: GitServer) -> Store:
    """A store with an old session, and with consent to push to `hub` since then."""
    store = open_store(project)
    save(store, "old", {b"a.txt": b"old\n"}, created=START.replace(year=2025))
    consent(store, server, "hub")
    return store


def consent(
    store: Store, server: GitServer, name: str, policy: PushPolicy = PushPolicy.ALWAYS
) -> None:
    """Enable a remote of the server, and let gitcp push there."""
    to = remotes.enable(store.repo, name, server.url(f"{name}.git"), as_branches=False)
    remotes.allow_pushes(store.repo, to, policy)


def shared(server: GitServer, name: str = "hub.git") -> dict[str, str]:
    """The sessions and tags on a remote, by the last part of their names."""
    return {
        ref.rpartition("/")[2]: oid
        for ref, oid in refs_of(server.root / name).items()
        if not ref.endswith("/catalogue")
    }


def waiting(store: Store) -> tuple[QueuedRef, ...]:
    """What waits for `hub`."""
    (state,) = push_queue.states(store)
    return state.queue.items


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for what another process does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


# ---------------------------------------------------------------- what is sent


def test_sends_what_is_newer_than_the_consent(store: Store, server: GitServer) -> None:
    """A session that was saved since, with its tags; not an older one."""
    made = save(store, "alpha", {b"a.txt": b"one\n"})
    tag.create(store, "good", made, text=None, force=False, now=START)
    assert [item.ref for item in waiting(store)] == [
        refs.SESSIONS + "alpha",
        refs.TAGS + "good",
    ]

    push_queue.drain(store, "hub", AT_ONCE)

    assert shared(server) == {
        "alpha": made.commit,
        "good": store.repo.refs.read(refs.TAGS + "good"),
    }
    assert waiting(store) == ()
    asked = len(server.requests)
    push_queue.drain(store, "hub", AT_ONCE)
    assert len(server.requests) == asked


def test_on_tag(store: Store, server: GitServer) -> None:
    """A session is sent up to the checkpoint that was named, and only then."""
    consent(store, server, "hub", PushPolicy.ON_TAG)
    named = save(store, "alpha", {b"a.txt": b"one\n"})
    save(store, "alpha", {b"a.txt": b"two\n"})
    push_queue.drain(store, "hub", AT_ONCE)
    assert shared(server) == {}

    tag.create(store, "good", named, text=None, force=False, now=START)
    push_queue.drain(store, "hub", AT_ONCE)

    assert shared(server)["alpha"] == named.commit
    assert waiting(store) == ()


def test_consent_is_never_committed(project: Project, server: GitServer) -> None:
    """Neither the team's file nor git's config makes gitcp push; `never` and `--off` take the
    consent back, and another URL needs another one.
    """
    project.write(".gitcp.toml", '[push]\nhub = "always"\n')
    project.commit()
    store = open_store(project)
    hub = remotes.enable(store.repo, "hub", server.url("hub.git"), as_branches=False)
    project.git("config", "remote.hub.gitcppush", "always")
    project.git("config", "gitcp.push", "always")
    save(store, "alpha", {b"a.txt": b"one\n"})
    push_queue.drain(store, "hub", AT_ONCE)
    assert push_queue.states(store) == ()

    for take_back in (
        lambda: remotes.allow_pushes(store.repo, hub, PushPolicy.NEVER),
        lambda: remotes.disable(store.repo, "hub"),
        lambda: project.git("config", "remote.hub.url", server.url("second.git")),
    ):
        remotes.enable(store.repo, "hub", None, as_branches=False)
        remotes.allow_pushes(store.repo, hub, PushPolicy.ALWAYS)
        take_back()
        assert remotes.policy_of(store.repo, remotes.listing(store.repo)[0]) is PushPolicy.NEVER
        push_queue.drain(store, "hub", AT_ONCE)
    assert server.requests == []
    assert "its URL changed" in push_queue.states(store)[0].problem


@pytest.mark.parametrize("how", ["rename", "remove"])
@pytest.mark.parametrize("is_copy", [False, True])
def test_a_remote_that_git_renamed(
    project: Project, store: Store, server: GitServer, how: str, *, is_copy: bool
) -> None:
    """Pushes to a remote that was renamed or removed stop: `status` and `doctor` say so, and name a
    command after which they have nothing to say.
    """
    project.git("remote", how, "hub", *(["team"] if how == "rename" else []))
    if is_copy:
        records.remove(store.repo.common_dir, store.repo.host, "push/hub.json")
    save(store, "alpha", {b"a.txt": b"one\n"})

    assert "hub: not pushed, it was renamed or removed: " in project.gitcp("status", check=0).out
    said = project.gitcp("doctor")
    assert "no checkpoints are pushed to hub: it was renamed or removed" in said.out
    with project.guard():
        done = project.gitcp(*push_queue.states(store)[0].command.split()[1:], check=0).out

    assert done == "hub  no such remote any more  (no checkpoints)\n"
    assert "Pushes" not in project.gitcp("status", check=0).out
    assert "renamed or removed" not in project.gitcp("doctor").out
    assert project.gitcp("remote", "hub", "--off", check=2).err.startswith("error: no remote 'hub'")


def test_somebody_elses_consent(store: Store) -> None:
    """What is in the repository is no consent: a state says so, and how to give it."""
    records.remove(store.repo.common_dir, store.repo.host, "push/hub.json")

    assert push_policy.path(store.repo, "hub", push_policy.CONSENT).exists()
    assert push_policy.listing(store.repo) == ()
    assert push_policy.read(store.repo, "hub") is None
    (state,) = push_queue.states(store)
    assert "gitcp remote hub --push always" in state.problem


def test_a_secret_holds_back_its_session_only(store: Store, server: GitServer) -> None:
    """Findings are told, and the other sessions are sent. Once the secret is allowed, so is its
    session.
    """
    save(store, "alpha", {b"a.txt": TOKEN.encode()})
    other = save(store, "beta", {b"a.txt": b"one\n"})
    push_queue.drain(store, "hub", AT_ONCE)

    assert shared(server) == {"beta": other.commit}
    (held,) = waiting(store)
    assert held.is_held
    assert held.reason == "1 secret found: gitcp push hub --session alpha"
    assert TOKEN not in held.reason

    allowed.allow(store.repo, [ID])
    push_queue.drain(open_store(Project(store.repo.root)), "hub", AT_ONCE)
    assert sorted(shared(server)) == ["alpha", "beta"]


def test_a_diverged_session_is_held_back(store: Store, server: GitServer, tmp_path: Path) -> None:
    """It is not overwritten, and told."""
    theirs = open_store(Project(tmp_path / "theirs"))
    consent(theirs, server, "hub")
    first = save(theirs, "alpha", {b"a.txt": b"theirs\n"})
    push_queue.drain(theirs, "hub", AT_ONCE)
    save(store, "alpha", {b"a.txt": b"ours\n"})

    push_queue.drain(store, "hub", AT_ONCE)

    assert shared(server) == {"alpha": first.commit}
    assert waiting(store)[0].reason == "it has diverged: gitcp push hub --session alpha"


# ---------------------------------------------------------------- servers


def test_a_server_that_fails(store: Store, server: GitServer) -> None:
    """After five failures nothing is tried until the next save; nothing is lost."""
    server.status = 503
    save(store, "alpha", {b"a.txt": b"one\n"})
    push_queue.drain(store, "hub", AT_ONCE)

    (item,) = waiting(store)
    assert item.failures == 5
    assert "503" in item.reason
    assert not item.is_held

    server.status = 0
    push_queue.drain(store, "hub", AT_ONCE)
    assert sorted(shared(server)) == ["alpha"]


def test_failures_are_capped_by_time(store: Store, server: GitServer) -> None:
    """A process does not try for longer than it may."""
    server.status = 503
    save(store, "alpha", {b"a.txt": b"one\n"})

    push_queue.drain(store, "hub", Timing(apart=0, wait=0.2, longest=0.1))

    assert waiting(store)[0].failures == 2


def test_a_bad_session_keeps_no_others_back(store: Store, server: GitServer) -> None:
    """A host that refuses a whole push for one of its refs gets the others."""
    hook = server.root / "hub.git/hooks/pre-receive"
    hook.write_text("#!/bin/sh\n! grep -q /bad$\n")
    hook.chmod(0o755)
    for name in ("bad", "one", "two", "zero"):
        save(store, name, {b"a.txt": name.encode()})

    for _ in range(3):
        push_queue.drain(store, "hub", AT_ONCE)

    assert sorted(shared(server)) == ["one", "two", "zero"]
    (item,) = waiting(store)
    assert (item.ref, item.is_held) == (refs.SESSIONS + "bad", False)
    assert "pre-receive hook declined" in item.reason


def test_two_remotes(store: Store, server: GitServer) -> None:
    """One that is gone does not disturb the other."""
    consent(store, server, "second")
    server.root.joinpath("hub.git").rename(server.root / "gone.git")
    save(store, "alpha", {b"a.txt": b"one\n"})

    for name in ("hub", "second"):
        push_queue.drain(store, name, AT_ONCE)

    assert sorted(shared(server, "second.git")) == ["alpha"]
    first, second = push_queue.states(store)
    assert (len(first.queue.items), len(second.queue.items)) == (1, 0)


def test_pushes_are_apart(store: Store, server: GitServer) -> None:
    """A push waits until the last one is long enough ago, that of an earlier process, too."""
    save(store, "alpha", {b"a.txt": b"one\n"})
    push_queue.drain(store, "hub", Timing(apart=2))
    begun = time.time()
    save(store, "alpha", {b"a.txt": b"two\n"})

    push_queue.drain(store, "hub", Timing(apart=2))

    tried = push_queue.states(store)[0].queue.tried
    assert tried - begun > 1
    assert server.pushes() == 2


def test_only_one_process_pushes(store: Store, server: GitServer) -> None:
    """The second one leaves it to the first."""
    save(store, "alpha", {b"a.txt": b"one\n"})
    with push_policy.alone(store.repo, "hub") as nobody:
        assert nobody
        assert push_policy.is_pushing(store.repo, "hub")
        push_queue.drain(open_store(Project(store.repo.root)), "hub", AT_ONCE)

    assert server.requests == []
    assert not push_policy.is_pushing(store.repo, "hub")


def test_a_damaged_queue(store: Store, server: GitServer) -> None:
    """What is to be sent follows from the refs."""
    save(store, "alpha", {b"a.txt": b"one\n"})
    push_policy.path(store.repo, "hub", push_policy.QUEUE).write_bytes(b'{"items": [{"x": 1}]}')

    push_queue.drain(store, "hub", AT_ONCE)

    assert sorted(shared(server)) == ["alpha"]


def test_a_server_that_says_nothing() -> None:
    """An attempt ends after its time, with the programs that it started."""
    program = (
        "import subprocess, sys\n"
        "from gitcp.errors import GitFailed\n"
        "from gitcp.sharing.push_worker import limited\n"
        "try:\n"
        "    with limited(0.5):\n"
        "        subprocess.run(['sh', '-c', 'sleep 600 & wait'])\n"
        "except GitFailed as error:\n"
        "    print(error)\n"
    )
    begun = time.monotonic()

    done = subprocess.run(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,  # open as long as anything lives that it started
        start_new_session=True,
        check=True,
    )

    assert done.stdout == b"the remote did not answer within 0 seconds\n"
    assert time.monotonic() - begun < 60
    with pytest.raises(GitFailed), push_worker.limited(60):
        raise GitFailed("another failure")


def test_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """git gives up silent connections, and ssh asks nothing; an ssh of the user's own stays."""
    given = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "a.b", "GIT_CONFIG_VALUE_0": "c"}
    for name, value in push_worker.unattended(given, has_ssh=False).items():
        monkeypatch.setenv(name, value)

    listed = subprocess.run(["git", "config", "--list"], capture_output=True, check=True).stdout

    assert b"a.b=c" in listed
    assert b"http.lowspeedtime=120" in listed
    assert push_worker.unattended({}, has_ssh=False)["GIT_SSH_COMMAND"] == push_worker.SSH
    assert "GIT_SSH_COMMAND" not in push_worker.unattended({"GIT_SSH": "x"}, has_ssh=False)
    assert "GIT_SSH_COMMAND" not in push_worker.unattended({}, has_ssh=True)


# ---------------------------------------------------------------- the command line


def test_a_save_waits_for_nothing(project: Project, server: GitServer) -> None:
    """While the server says nothing, a save ends, and status tells; a worker that is killed for
    good loses nothing: the next save sends everything.
    """
    project.write("a.txt", "one\n")
    url = server.url("hub.git")
    done = project.gitcp("remote", "add", "hub", url, "--push", "always", check=0)
    assert done.out == f"hub  {url}  (checkpoints, pushed after each save)\n"
    server.release.clear()
    project.gitcp("save", "first", "--session", "alpha", check=0)
    until(lambda: bool(server.requests))

    assert "hub: pushing 1 session" in project.gitcp("status", check=0).out
    (pushing,) = project.json("status")["pushes"]
    assert (pushing["pushing"], pushing["waiting"][0]["ref"]) == (True, "refs/gitcp/sessions/alpha")
    worker = subprocess.run(
        ["pgrep", "-f", f"push_worker.*{project.root}"], capture_output=True, check=True
    ).stdout.split()
    assert len(worker) == 1
    subprocess.run(["kill", "-9", worker[0]], check=True)
    server.release.set()
    until(lambda: not push_policy.is_pushing(open_store(project).repo, "hub"))
    assert "hub: 1 session not pushed yet" in project.gitcp("status", check=0).out

    project.write("a.txt", "two\n")
    project.gitcp("save", "second", "--session", "beta", check=0)
    until(lambda: sorted(shared(server)) == ["alpha", "beta"])
    until(lambda: "hub: pushed" in project.gitcp("status", check=0).out)


def test_a_tag_is_sent(project: Project, server: GitServer) -> None:
    """With `on-tag`, `gitcp tag` starts the push; `--push never` ends it."""
    project.write("a.txt", "one\n")
    project.gitcp("remote", "hub", server.url("hub.git"), "--push", "on-tag", check=0)
    project.gitcp("save", "--session", "alpha", check=0)
    time.sleep(0.5)
    assert shared(server) == {}

    project.gitcp("tag", "good", check=0)

    until(lambda: sorted(shared(server)) == ["alpha", "good"])
    assert project.json("remote", "hub", "--push", "never")["push"] == "never"
    assert project.json("status")["pushes"] == []
    for wrong in (("--push", "always"), ("hub", "--push", "sometimes"), ("hub", "a", "b")):
        project.gitcp("remote", *wrong, check=2)
