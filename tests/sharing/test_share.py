"""`gitcp remote`, `push` and `fetch`: two homes' repositories and a remote between them, and
remotes that lie.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import shlex
import subprocess
import time
from pathlib import Path

import pytest
from kinds import FORMAT
from tokens import tokens

from gitcp.errors import StoreDamaged
from gitcp.git.trees import TreeEntry
from gitcp.model import FILE, RESERVED, SYMLINK, TREE, Oid
from gitcp.secrets.scan import fingerprint
from gitcp.sharing import remotes, verify_incoming
from gitcp.sharing.remote_refs import shard
from gitcp.state import tag
from gitcp.store import Store

from driver import Project
from samples import START, open_store, save

TOKEN = tokens()["github-token"]
ID = fingerprint("github-token", TOKEN.encode())
ALPHA = "refs/gitcp/shared/8e/alpha"
"""Where session alpha is on a remote."""

CATALOGUE = "refs/gitcp/shared/catalogue"


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """An empty bare repository that everybody can push to."""
    subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / "hub.git"], check=True)
    return tmp_path / "hub.git"


@pytest.fixture
def ada(project: Project, hub: Path) -> Project:
    """A project with one commit and two checkpoints of session alpha, and a remote for
    checkpoints.
    """
    project.write("a.txt", "one\n")
    project.commit()
    project.write("a.txt", "two\n")
    store = open_store(project)
    save(store, "alpha", {b"a.txt": b"one\n"})
    tag.create(
        store, "good", save(store, "alpha", {b"a.txt": b"two\n"}), text=None, force=False, now=START
    )
    remotes.enable(store.repo, "hub", str(hub), as_branches=False)
    return project


@pytest.fixture
def bob(tmp_path: Path, hub: Path) -> Project:
    """A second repository, with the same remote."""
    other = Project(tmp_path / "bob")
    other.write("b.txt", "bob's\n")
    other.commit()
    remotes.enable(open_store(other).repo, "hub", str(hub), as_branches=False)
    return other


def refs_of(repository: Path) -> dict[str, str]:
    """Every ref of a repository."""
    listed = subprocess.run(
        ["git", "for-each-ref", "--format=%(refname) %(objectname)"],
        cwd=repository,
        capture_output=True,
        check=True,
    ).stdout.decode()
    return dict(line.split(" ") for line in listed.splitlines())


def hook(hub: Path, script: str) -> None:
    """Give the remote a hook that judges each ref."""
    path = hub / "hooks" / "update"
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)


def test_there_and_back(ada: Project, bob: Project, hub: Path) -> None:
    """A session with its tag goes to the remote and arrives whole; both sides keep everything of
    git's as it was.
    """
    with ada.guard():
        sent = ada.gitcp("push", "--session", "alpha", check=0).out
        again = ada.gitcp("push", "--session", "alpha", check=0).out
    assert "sent session alpha to hub  (2 new checkpoints)" in sent
    assert "sent tag good" in sent
    assert again == "session alpha is up to date\n"
    assert set(refs_of(hub)) == {ALPHA, CATALOGUE, "refs/gitcp/tags/good"}

    before = bob.files()
    with bob.guard():
        assert "hub/alpha" in bob.gitcp("fetch", "--list", check=0).out
        assert "refs/gitcp" not in bob.git("for-each-ref")
        assert "fetched hub/alpha  (2 new checkpoints)" in bob.gitcp("fetch", check=0).out
        assert [
            (s["session"], s["checkpoints"]) for s in bob.json_lines("sessions", "--fetched")
        ] == [("hub/alpha", 2)]
        assert [s["session"] for s in bob.json_lines("sessions")] == ["hub/alpha"]
        assert [c["id"] for c in bob.json_lines("log", "hub/alpha")] == ["alpha@2", "alpha@1"]
        assert bob.gitcp("show", "hub/alpha@1:a.txt", check=0).out == "one\n"
        bob.gitcp("check", check=0)
    assert bob.files() == before
    assert bob.git("rev-parse", "refs/gitcp/remotes/hub/sessions/alpha") == ada.git(
        "rev-parse", "refs/gitcp/sessions/alpha"
    )
    assert not bob.git_dir.joinpath("FETCH_HEAD").exists()


def test_what_a_fetch_drops(ada: Project, bob: Project) -> None:
    """Checkpoints that were fetched before and that the remote no longer has are in the trash. An
    undo restores them and moves what was fetched since to the trash; the next does the reverse.
    """
    ada.gitcp("push", "--session", "alpha", check=0)
    bob.gitcp("fetch", check=0)
    before = bob.git("rev-parse", "refs/gitcp/remotes/hub/sessions/alpha")
    ada.gitcp("save", "three", "--session", "alpha", "--force", check=0)
    ada.gitcp("delete", "alpha@1", "--yes", check=0)
    ada.gitcp("push", "hub", "alpha", "--force", check=0)
    with bob.guard():
        said = bob.gitcp("fetch", check=0).out
        assert said.endswith("; 1 checkpoint fetched before is in the trash: gitcp undo 1\n")
    after = bob.git("rev-parse", "refs/gitcp/remotes/hub/sessions/alpha")
    assert "fetched before" not in bob.gitcp("fetch", check=0).out
    assert bob.json_lines("fetch")[0]["dropped"] == 0
    assert bob.gitcp("undo", check=12).err.startswith("error: no restore to undo")

    for wanted, id in ((before, "alpha@1"), (after, "alpha@3"), (before, "alpha@1")):
        said = bob.gitcp("undo", "1", check=0).out
        assert said == f"restored 1 checkpoint from the trash: {id}\n"
        assert bob.git("rev-parse", "refs/gitcp/remotes/hub/sessions/alpha") == wanted
        assert id in {each["id"] for each in bob.json_lines("log", "hub/alpha")}
    bob.gitcp("check", check=0)


def test_a_list_of_one_session(ada: Project, bob: Project) -> None:
    """`--list` lists the sessions that are named, and says which one the remote has not."""
    ada.gitcp("save", "--session", "beta", "--force", check=0)
    ada.gitcp("push", "--all", check=0)
    listed = bob.json_lines("fetch", "hub", "beta", "--list")
    assert [each["session"] for each in listed] == ["beta"]
    refused = bob.gitcp("fetch", "hub", "beta", "gamma", "--list", check=16)
    assert "hub has no session 'gamma'" in refused.err


def test_the_hint_for_what_no_agent_resumes(ada: Project, bob: Project) -> None:
    """It is allowed what it needs, and names what was meant if there is an own one of that name."""
    ada.gitcp("push", "--session", "alpha", check=0)
    bob.gitcp("fetch", check=0)
    bob.gitcp("save", "--session", "alpha", "mine", check=0)
    refused = bob.gitcp("resume", "hub/alpha", "--trust", "--yes", check=1)
    tip = bob.git("rev-parse", "refs/gitcp/remotes/hub/sessions/alpha")
    assert f"hint: gitcp restore {tip[:10]} --trust\n" in refused.err
    bob.gitcp("restore", tip[:10], "--trust", "--dry-run", check=0)


def test_trust(ada: Project, bob: Project, tmp_path: Path) -> None:
    """What comes from somebody else is restored, forked and written anywhere only with --trust, and
    goes on then.
    """
    ada.write(".vscode/tasks.json", "{}")
    ada.write("sub/HEAD", "ref: refs/heads/main\n")
    ada.write("sub/config", "[core]\n")
    ada.gitcp("save", "three", "--session", "alpha", check=0)
    ada.gitcp("push", "--session", "alpha", check=0)
    bob.gitcp("fetch", check=0)
    before = bob.files()

    for command in (
        ("restore", "hub/alpha", "--yes"),
        ("fork", "hub/alpha"),
        ("restore", "hub/alpha", "--to", "../x"),
    ):
        refused = bob.gitcp(*command, check=14)
        assert ".vscode/tasks.json  settings of an agent, editor or hook" in refused.err
        assert "sub  a git repository without a working tree" in refused.err
        assert "with --trust: these of its files can run code here\n" in refused.err  # no talk
    plain = bob.gitcp("restore", "hub/alpha@1", "--yes", check=14)
    assert "repeat the command with --trust\n" in plain.err
    assert bob.files() == before
    assert not tmp_path.joinpath("x").exists()
    bob.gitcp("restore", "hub/alpha", "--dry-run", check=0)

    with bob.guard():
        bob.gitcp("restore", "hub/alpha@2", "--yes", "--trust", check=0)
    assert bob.read("a.txt") == b"two\n"
    assert [c["id"] for c in bob.json_lines("log", "alpha")][-4:] == [
        "alpha@4",
        "alpha@3",
        "alpha@2",
        "alpha@1",
    ]
    bob.gitcp("undo", "--yes", check=0)
    assert bob.files() == before
    bob.gitcp("check", check=0)


def test_grown_on_both_sides(ada: Project, bob: Project, hub: Path) -> None:
    """Nobody's checkpoints are replaced: the later one is told, fetches, and can fork."""
    ada.gitcp("push", "--session", "alpha", check=0)
    bob.gitcp("fetch", check=0)
    bob.gitcp("restore", "hub/alpha", "--yes", "--trust", check=0)
    bob.gitcp("push", "--session", "alpha", check=0)
    held = refs_of(hub)
    ada.write("a.txt", "three\n")
    ada.gitcp("save", "three", "--session", "alpha", check=0)

    for options in ((), ("--force",)):
        refused = ada.gitcp("push", "--session", "alpha", *options, check=12)
        assert "have diverged" in refused.err
        assert ": gitcp push hub alpha --force\n" in refused.err
        assert ": gitcp push hub alpha --redact\n" in refused.err
    assert "diverged from yours" in ada.gitcp("fetch", check=0).out
    refused = ada.gitcp("push", "--session", "alpha", "--force", check=12)
    assert refs_of(hub) == held
    assert "gitcp fork" in ada.gitcp("restore", "hub/alpha", "--yes", "--trust", check=12).err
    ada.gitcp("fork", "hub/alpha", "--trust", "--name", "beta", check=0)
    ada.gitcp("push", "--session", "beta", check=0)
    assert ada.gitcp("check").code == 0


def test_same_number_was_dropped_here(ada: Project, bob: Project, hub: Path) -> None:
    """A checkpoint that only the remote has is not taken for one dropped here that had its number:
    --force does not replace it. Nor for one that was only fetched, and deleted here.
    """
    ada.gitcp("push", "--session", "alpha", check=0)
    bob.gitcp("fetch", check=0)
    bob.git("update-ref", "refs/gitcp/sessions/alpha", "refs/gitcp/remotes/hub/sessions/alpha")
    for each in ("three", "four"):
        bob.gitcp("save", each, "--session", "alpha", "--force", check=0)
    bob.gitcp("delete", "alpha@3", "--yes", check=0)
    time.sleep(1.1)  # a checkpoint's time has whole seconds
    ada.gitcp("save", "three", "--session", "alpha", "--force", check=0)
    ada.gitcp("push", "--session", "alpha", check=0)
    bob.gitcp("fetch", check=0)
    held = refs_of(hub)

    refused = bob.gitcp("push", "hub", "alpha", "--force", check=12)
    bob.gitcp("delete", "hub/alpha", "--yes", check=0)
    bob.gitcp("push", "hub", "alpha", "--force", check=12)

    assert "have diverged" in refused.err
    assert refs_of(hub) == held


def test_a_tag_that_a_fetch_moves(ada: Project, bob: Project) -> None:
    """A tag on a checkpoint that the remote no longer has comes back with it, in the place of the
    one that was fetched.
    """
    ada.gitcp("tag", "good", "alpha@1", "-m", "first", "--force", check=0)
    ada.gitcp("push", "--session", "alpha", check=0)
    bob.gitcp("fetch", check=0)
    ref = "refs/gitcp/remotes/hub/tags/good"
    before = bob.git("rev-parse", ref)
    ada.gitcp("tag", "good", "alpha@2", "-m", "second", "--force", check=0)
    ada.gitcp("delete", "alpha@1", "--yes", check=0)
    ada.gitcp("push", "hub", "alpha", "--force", check=0)
    bob.gitcp("fetch", check=0)
    after = bob.git("rev-parse", ref)
    assert after != before

    for wanted in (before, after):
        assert "restored tag hub/good\n" in bob.gitcp("undo", "1", check=0).out
        assert bob.git("rev-parse", ref) == wanted
    bob.gitcp("check", check=0)


def test_what_a_push_drops(ada: Project, bob: Project) -> None:
    """A fetched session that its remote no longer has is in the trash once a session of its name is
    pushed there; one's own that was pruned here is not.
    """
    ada.gitcp("push", "--session", "alpha", check=0)
    bob.gitcp("fetch", check=0)
    before = bob.git("rev-parse", "refs/gitcp/remotes/hub/sessions/alpha")
    ada.gitcp("push", "hub", "--delete", "alpha", "--yes", check=0)
    for each in ("own", "more"):
        bob.gitcp("save", each, "--session", "alpha", "--force", check=0)

    said = bob.gitcp("push", "hub", "alpha", check=0).err
    assert "what was fetched of hub/alpha before is in the trash: gitcp undo 1\n" in said
    bob.gitcp("delete", "alpha@3", "--yes", check=0)
    bob.gitcp("push", "hub", "--delete", "alpha", "--yes", check=0)
    assert "undo" not in bob.gitcp("push", "hub", "alpha", check=0).err

    assert "alpha@1-2\n" in bob.gitcp("undo", "1", check=0).out
    assert bob.git("rev-parse", "refs/gitcp/remotes/hub/sessions/alpha") == before
    bob.gitcp("check", check=0)


def test_pushed_meanwhile(ada: Project, hub: Path) -> None:
    """A ref that moved since it was looked at is not moved: the lease is what was seen."""
    from gitcp.sharing import push

    store = open_store(ada)
    plan = push.plan(store, remotes.choose(store.repo, "hub"), ["alpha"], ())
    first = ada.git("rev-parse", "refs/gitcp/sessions/alpha~1")
    ada.git("push", "--quiet", str(hub), f"{first}:{ALPHA}")

    report = push.push(store, plan)

    assert [item.name for item, _ in report.refused] == ["alpha"]
    assert [item.name for item in report.sent] == ["good"]
    assert refs_of(hub)[ALPHA] == first


def test_secrets_stop_a_push(ada: Project, hub: Path) -> None:
    """With a secret nothing is sent, not even what is clean; it is shown masked, and goes only when
    it is allowed.
    """
    ada.write("env", f"KEY={TOKEN}\n")
    ada.gitcp("save", "three", "--session", "alpha", check=0)

    for options in ((), ("--force",), ("--allow", "0" * 12)):
        done = ada.gitcp("push", "--session", "alpha", *options, check=15)
        assert ID in done.err
        assert TOKEN not in done.out + done.err
    assert refs_of(hub) == {}
    planned = ada.gitcp("push", "--session", "alpha", "--dry-run", "--json", check=15)
    assert [f["id"] for f in json.loads(planned.out)["findings"]] == [ID]

    ada.gitcp("push", "--session", "alpha", "--allow", ID, check=0)
    ada.gitcp("save", "four", "--force", "--session", "alpha", check=0)
    ada.gitcp("push", "--session", "alpha", check=0)


def test_secret_in_a_tag(ada: Project, hub: Path) -> None:
    """The message of a tag is scanned like everything else."""
    ada.gitcp("tag", "leak", "--session", "alpha", "-m", f"with {TOKEN}", check=0)

    assert ID in ada.gitcp("push", "--session", "alpha", check=15).err
    assert refs_of(hub) == {}


def test_remotes(ada: Project, hub: Path) -> None:
    """Checkpoints go only where the user said, a password in a URL is not shown, and nonsense is
    refused.
    """
    ada.git("remote", "add", "origin", "https://ada:" + "hunter2@git.invalid/x.git")
    assert (
        "origin  https://ada:…@git.invalid/x.git  (no checkpoints)"
        in ada.gitcp("remote", check=0).out
    )
    assert "is not enabled" in ada.gitcp("push", "origin", check=12).err
    assert "no remote" in ada.gitcp("push", "nowhere", check=2).err
    for name, url in (
        ("a b", "x"),
        ("-x", "x"),
        ("n", "ext::sh -c touch% /tmp/x"),
        ("n", "-u"),
        ("n", "a\nb"),
        ("n", ""),
    ):
        ada.gitcp("remote", "--", name, url, check=2)
    assert "choose another" in ada.gitcp("remote", "hub", "elsewhere", check=12).err
    assert (
        json.loads(ada.gitcp("remote", "hub", "--off", "--json", check=0).out)["enabled"] is False
    )
    assert "no remote is enabled" in ada.gitcp("push", check=12).err
    ada.gitcp("remote", "hub", check=0)
    ada.git("push", "--quiet", "--all", "hub")
    ada.git("fetch", "--quiet", "--all", check=False)
    assert not any(name.startswith("refs/gitcp") for name in refs_of(hub))


def test_remote_that_is_not_there(ada: Project, hub: Path) -> None:
    """A remote that cannot be reached, or dies, is an error of one line, and nothing is changed
    here.
    """
    hub.rename(hub.with_name("gone"))
    before = refs_of(ada.git_dir)

    for command in (("push", "--session", "alpha"), ("fetch",), ("fetch", "--list")):
        done = ada.gitcp(*command, check=1)
        assert "error: " in done.err
        assert "Traceback" not in done.err
    assert refs_of(ada.git_dir) == before


def test_interrupted(ada: Project, hub: Path) -> None:
    """A push of which the remote took a part is told so, and finished by the next one."""
    hook(hub, 'case "$1" in refs/gitcp/shared/*) exit 0;; *) exit 1;; esac\n')
    done = ada.gitcp("push", "--session", "alpha", check=3)
    assert "sent session alpha" in done.out
    assert "refused tag good" in done.out
    hub.joinpath("hooks/update").unlink()

    assert "sent tag good" in ada.gitcp("push", "--session", "alpha", check=0).out


def test_branches_only(ada: Project, bob: Project, hub: Path) -> None:
    """A host that takes only branches and tags is explained, and works with --as-branches."""
    hook(
        hub, 'case "$1" in refs/heads/*|refs/tags/*) exit 0;; *) echo not allowed; exit 1;; esac\n'
    )
    assert "--as-branches" in ada.gitcp("push", "--session", "alpha", check=1).err

    for one in (ada, bob):
        one.gitcp("remote", "hub", "--as-branches", check=0)
    ada.gitcp("push", "--session", "alpha", check=0)
    assert set(refs_of(hub)) == {
        "refs/heads/gitcp/shared/8e/alpha",
        "refs/heads/gitcp/shared/catalogue",
        "refs/tags/gitcp/good",
    }
    assert "fetched hub/alpha" in bob.gitcp("fetch", check=0).out


def lose(project: Project, revision: str) -> None:
    """Remove an object, as a failing disk does."""
    project.loosen()
    oid = project.git("rev-parse", revision)
    project.git_dir.joinpath("objects", oid[:2], oid[2:]).unlink()


@pytest.mark.parametrize("lost", ["~1", "~1^{tree}", "~1:a.txt", ""])
@pytest.mark.parametrize("is_own", [False, True])
def test_a_fetch_repairs(ada: Project, bob: Project, lost: str, *, is_own: bool) -> None:
    """What was lost of a session, as fetched or taken over, is fetched again if the remote has it:
    what a save met is known, as is a broken chain. Other sessions arrive in any case.
    """
    ada.write("a.txt", "three\n")
    ada.gitcp("save", "--session", "beta", check=0)
    ada.gitcp("push", "--all", check=0)
    bob.gitcp("fetch", check=0)
    if is_own:
        tip = bob.git("rev-parse", "refs/gitcp/remotes/hub/sessions/alpha")
        bob.git("update-ref", "refs/gitcp/sessions/alpha", tip)
    bob.git("pack-refs", "--all")
    lose(bob, "refs/gitcp/remotes/hub/sessions/alpha" + lost)
    bob.gitcp("doctor", "--store", check=13)

    with bob.guard():
        bob.gitcp("fetch", check=0)

    bob.gitcp("doctor", "--store", check=0)
    assert [each["id"] for each in bob.json_lines("log", "hub/alpha")] == ["alpha@2", "alpha@1"]


def test_a_damaged_session_alone_is_refused(ada: Project, bob: Project, hub: Path) -> None:
    """A fetched session of which something is lost, on the remote as well, keeps no other from
    being fetched, and can be deleted.
    """
    ada.gitcp("push", "--session", "alpha", check=0)
    bob.gitcp("fetch", check=0)
    ada.write("a.txt", "three\n")
    ada.gitcp("save", "--session", "beta", check=0)
    ada.gitcp("push", "--session", "beta", check=0)
    oid = bob.git("rev-parse", "refs/gitcp/remotes/hub/sessions/alpha~1")
    lose(bob, oid)
    hub.joinpath("objects", oid[:2], oid[2:]).unlink()

    done = bob.gitcp("fetch", check=3).out

    assert "refused hub/alpha: " in done
    assert "fetched hub/beta  (1 new checkpoint)" in done
    assert bob.gitcp("delete", "hub/alpha", "--yes", check=0).out.startswith("deleted session hub/")
    assert [each["session"] for each in bob.json_lines("sessions")] == ["hub/beta"]


def test_taken_over_with_the_same_files(ada: Project, bob: Project) -> None:
    """A session that is taken over is the current one, also if the files need no change: the next
    save continues it.
    """
    ada.gitcp("push", "--session", "alpha", check=0)
    bob.gitcp("save", "mine", "--session", "beta", check=0)
    bob.remove("b.txt")
    bob.write("a.txt", "two\n")
    bob.gitcp("save", "the same", check=0)
    bob.gitcp("fetch", check=0)

    with bob.guard():
        done = bob.gitcp("restore", "hub/alpha", "--trust", "--yes", check=0).out
        again = bob.gitcp("restore", "hub/alpha", "--trust", "--yes", check=0).out

    assert done == (
        "nothing to restore: everything already matches alpha@2\nthe current session is now alpha\n"
    )
    assert again == "nothing to restore: everything already matches alpha@2\n"
    bob.write("a.txt", "three\n")
    assert bob.json("save")["checkpoint"]["id"] == "alpha@3"


def test_two_remotes_with_one_name(ada: Project, bob: Project, hub: Path, tmp_path: Path) -> None:
    """Where two remotes continue a session differently, the hint names one, and works."""
    other = tmp_path / "second.git"
    subprocess.run(["git", "init", "--quiet", "--bare", other], check=True)
    for project in (ada, bob):
        remotes.enable(open_store(project).repo, "second", str(other), as_branches=False)
    ada.gitcp("push", "second", "alpha", check=0)
    ada.write("a.txt", "three\n")
    ada.gitcp("save", "here", "--session", "alpha", check=0)
    ada.gitcp("push", "hub", "alpha", check=0)
    bob.gitcp("fetch", "second", check=0)
    bob.gitcp("restore", "second/alpha", "--trust", "--yes", check=0)
    bob.gitcp("save", "there", "--session", "alpha", "--force", check=0)
    bob.gitcp("push", "second", "alpha", check=0)
    eve = Project(tmp_path / "eve")
    for name, url in (("hub", hub), ("second", other)):
        remotes.enable(open_store(eve).repo, name, str(url), as_branches=False)
        eve.gitcp("fetch", name, check=0)

    assert eve.json("show", "alpha@2")["id"] == "alpha@2"  # both have it
    for command in (("show", "alpha@3"), ("log", "alpha"), ("diff", "alpha~1", "alpha@1")):
        said = eve.gitcp(*command, check=16).err
        assert "'alpha' matches more than one " in said
        hint = said.splitlines()[-1].removeprefix("hint: gitcp ")
        eve.gitcp(*shlex.split(hint), check=0)


def test_another_tag_of_the_name(ada: Project, hub: Path) -> None:
    """A tag that the remote has on something else stays there, and a push says so; the command that
    it prints replaces it, whichever session is the current one.
    """
    ada.gitcp("push", "--session", "alpha", check=0)
    there = refs_of(hub)["refs/gitcp/tags/good"]
    ada.gitcp("tag", "--force", "good", "alpha@1", check=0)
    ada.write("a.txt", "three\n")
    ada.gitcp("save", "--session", "beta", check=0)

    dry = ada.gitcp("push", "hub", "alpha", "--dry-run", check=0).out
    done = ada.gitcp("push", "hub", "alpha", check=3)

    line = "tag good: hub has another tag of this name: gitcp push hub alpha --force\n"
    assert line in dry
    assert line in done.out
    assert refs_of(hub)["refs/gitcp/tags/good"] == there
    command = line.rpartition(": ")[2].split()
    assert "sent tag good to hub" in ada.gitcp(*command[1:], check=0).out
    assert refs_of(hub)["refs/gitcp/tags/good"] == ada.git("rev-parse", "refs/gitcp/tags/good")


def test_what_the_remote_says(ada: Project, hub: Path) -> None:
    """Why a remote refuses is passed on in its own words, without what would act on the
    terminal.
    """
    hook(
        hub,
        "printf '\\033[2J\\033]0;pwned\\007\\342\\200\\256too many refs, \\nask ops\\n' >&2; exit "
        "1\n",
    )

    refused = ada.gitcp("push", check=1)

    assert "hook declined" in refused.err
    assert "too many refs,; ask ops" in refused.err
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", refused.out + refused.err)


def test_hidden_refs(ada: Project, hub: Path) -> None:
    """A host that hides our refs is explained."""
    subprocess.run(["git", "config", "transfer.hideRefs", "refs/gitcp"], cwd=hub, check=True)

    assert "--as-branches" in ada.gitcp("push", "--session", "alpha", check=1).err


def test_no_limit_of_refs(ada: Project, hub: Path) -> None:
    """A host that lets a push change five refs at most gets no more at once."""
    path = hub / "hooks" / "pre-receive"
    path.parent.mkdir(exist_ok=True)
    path.write_text('#!/bin/sh\ntest "$(wc -l)" -le 5\n')
    path.chmod(0o755)
    store = open_store(ada)
    tip = store.tip("alpha")
    assert tip is not None
    for number in range(12):
        tag.create(store, f"t{number}", store.read(tip), text=None, force=False, now=START)

    ada.gitcp("push", "--session", "alpha", check=0)
    assert len(refs_of(hub)) == 15


def test_sends_what_is_new(project: Project, hub: Path, tmp_path: Path) -> None:
    """31 checkpoints of a growing conversation send at most 1.2 times their packed size; one more
    sends what is new.
    """
    store = open_store(project)
    source, talk = random.Random(3), b""
    for number in range(31):
        talk += b"".join(
            json.dumps({"n": source.random(), "t": "word " * 9}).encode() + b"\n"
            for _ in range(300)
        )
        save(store, "alpha", {b"a.txt": b"%d\n" % number}, {"main": talk})
    project.gitcp("remote", "hub", str(hub), check=0)
    project.git("config", "fetch.unpackLimit", "1")
    subprocess.run(["git", "config", "receive.unpackLimit", "1"], cwd=hub, check=True)

    def packed() -> int:
        return sum(path.stat().st_size for path in hub.glob("objects/pack/*.pack"))

    project.gitcp("push", "--session", "alpha", check=0)
    sent = packed()
    listed = project.git("rev-list", "--objects", "refs/gitcp/sessions/alpha").encode(
        "utf-8", "surrogateescape"
    )
    whole = subprocess.run(
        ["git", "pack-objects", "--stdout", "-q"],
        cwd=project.git_dir,
        input=listed,
        capture_output=True,
        check=True,
    ).stdout
    assert sent <= 1.2 * len(whole), (sent, len(whole))

    new = json.dumps({"n": source.random()}).encode() + b"\n"
    save(store, "alpha", {b"a.txt": b"31\n"}, {"main": talk + new})
    project.gitcp("push", "--session", "alpha", check=0)
    assert packed() - sent < 64 * 1024


def test_shallow_and_partial(ada: Project, hub: Path, tmp_path: Path) -> None:
    """In a shallow clone of the code, and in one without blobs, push and fetch do what they do
    elsewhere.
    """
    ada.git("push", "--quiet", "hub", "main")
    subprocess.run(["git", "config", "uploadpack.allowFilter", "true"], cwd=hub, check=True)
    ada.gitcp("push", "--session", "alpha", check=0)
    for name, options in (("shallow", ("--depth=1",)), ("partial", ("--filter=blob:none",))):
        place = tmp_path / name
        subprocess.run(
            ["git", "clone", "--quiet", *options, hub.as_uri(), place],
            check=True,
            capture_output=True,
        )
        clone = Project(place)
        clone.gitcp("remote", "origin", check=0)
        assert "fetched origin/alpha" in clone.gitcp("fetch", check=0).out
        clone.gitcp("save", "mine", "--session", name, check=0)
        clone.gitcp("push", "--session", name, check=0)
    assert f"refs/gitcp/shared/{shard('partial')}/partial" in refs_of(hub)


# ---------------------------------------------------------------- a remote that lies

EMPTY = FORMAT.empty_blob
BAD_ENTRIES = [
    *(
        TreeEntry(name, FILE, EMPTY)
        for name in (
            b".git",
            b".GIT",
            b"git~1",
            b".git.",
            b".git ",
            b".git::$INDEX_ALLOCATION",
            b".g\xe2\x80\x8cit",
            b".git\xe2\x80\x8c",
            b"..",
            b".",
            b"a/b",
            b"/abs",
            b"",
            b"a.txt",
        )
    ),
    TreeEntry(b"run", 0o104755, EMPTY),
    TreeEntry(b"run", 0o177777, EMPTY),
    TreeEntry(b"a.txt", SYMLINK, EMPTY),
]


@pytest.fixture
def store(project: Project) -> Store:
    """A store with two checkpoints of session alpha."""
    made = open_store(project)
    made.objects.writer.write_blob(b"")
    for number in range(2):
        save(made, "alpha", {b"a.txt": b"%d\n" % number})
    return made


def recommitted(store: Store, root: Oid | None = None, old: bytes = b"", new: bytes = b"") -> Oid:
    """The last checkpoint of alpha with another tree, or other words in its commit; no ref names
    it.
    """
    tip = store.tip("alpha")
    assert tip is not None
    raw = store.reader.read_commit(tip)
    raw = raw if root is None else raw.replace(store.reader.tree_of(tip).encode(), root.encode(), 1)
    made = store.writer.write("commit", raw.replace(old, new) if old else raw)
    store.writer.flush()
    return made


def with_entry(store: Store, entry: TreeEntry, *, below: bool) -> Oid:
    """The last checkpoint with one more entry in its tree or in a directory, as git itself would
    never write it.
    """
    tip = store.tip("alpha")
    assert tip is not None
    if below:
        entry = TreeEntry(
            b"d", TREE, store.writer.write_tree([TreeEntry(b"a.txt", FILE, EMPTY), entry])
        )
    return recommitted(
        store,
        store.writer.write_tree([*store.reader.read_tree(store.summary(tip).root), entry]),
    )


def with_metadata(store: Store, text: bytes) -> Oid:
    """The last checkpoint with other metadata."""
    tip = store.tip("alpha")
    assert tip is not None
    entries = store.reader.read_tree(store.summary(tip).root)
    holder = next(e.oid for e in entries if e.name == RESERVED)
    inside = [e for e in store.reader.read_tree(holder) if e.name != b"checkpoint.json"]
    blob = TreeEntry(b"checkpoint.json", FILE, store.writer.write_blob(text))
    rest = [e for e in entries if e.name != RESERVED]
    reserved = TreeEntry(RESERVED, TREE, store.writer.write_tree([*inside, blob]))
    return recommitted(store, store.writer.write_tree([*rest, reserved]))


def validated(project: Project, tip: Oid) -> int:
    """How many checkpoints a fetch would take, seen by a process of its own."""
    return len(verify_incoming.validate(open_store(project), "alpha", tip, frozenset()))


def test_bad_entries(project: Project, store: Store) -> None:
    """A tree that would write where it must not is refused, at its root and below."""
    taken = []
    for entry in BAD_ENTRIES:
        for below in (False, True):
            try:
                validated(project, with_entry(store, entry, below=below))
            except StoreDamaged:
                continue
            taken.append((entry, below))
    assert taken == []
    assert validated(project, recommitted(store)) == 2


def test_checksum(project: Project, store: Store) -> None:
    """A conversation that is not what its checksum says is refused; so is one that did not come
    along, unless a remote has promised it.
    """
    talk = save(store, "alpha", {}, {"main": b"one line\n"}).commit
    assert validated(project, talk) == 3
    metadata = project.git("show", f"{talk}:.gitcp/checkpoint.json").encode()
    good = hashlib.sha256(b"one line\n").hexdigest().encode()
    assert good in metadata
    with pytest.raises(StoreDamaged, match="does not match its checksum"):
        validated(project, with_metadata(store, metadata.replace(good, b"0" * 64)))
    blob = project.git("rev-parse", f"{talk}:.gitcp/conversation/main/a/000000000000.jsonl")
    project.remove(f"{project.git_dir}/objects/{blob[:2]}/{blob[2:]}")
    with pytest.raises(StoreDamaged, match="did not send blob"):
        validated(project, talk)
    project.write(f"{project.git_dir}/objects/pack/pack-of-a-partial-clone.promisor", "")
    assert validated(project, talk) == 3


def test_another_url_for_pushing(ada: Project, hub: Path, tmp_path: Path) -> None:
    """What is pushed goes where git's own push goes: to the pushurl."""
    other = tmp_path / "other.git"
    subprocess.run(["git", "init", "--quiet", "--bare", other], check=True)
    ada.git("config", "remote.hub.pushurl", str(other))

    ada.gitcp("push", "--session", "alpha", check=0)

    assert ALPHA in refs_of(other)
    assert refs_of(hub) == {}


def test_lies(project: Project, store: Store) -> None:
    """What is not what its ref and its trailers say is refused."""
    other = save(store, "omega", {b"a.txt": b"1\n"}).commit
    words = (
        (b"Gitcp-Number: 2", b"Gitcp-Number: 1"),
        (b"Gitcp-Number: 2", b"Gitcp-Number: 7"),
        (b"Gitcp-Session: alpha", b"Gitcp-Session: omega"),
        (b"Gitcp-Session: alpha", b"Gitcp-Session: ../../heads/main"),
    )
    texts = (b"{", b'{"format": 99}', b"[" * 100_000, b"", b'{"format": 1}')
    lies = [other, *(recommitted(store, old=old, new=new) for old, new in words)]
    for tip in (*lies, *(with_metadata(store, text) for text in texts)):
        with pytest.raises(StoreDamaged):
            validated(project, tip)


def test_sizes(project: Project, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A blob larger than can be meant is refused unread; billions of paths in a few trees are
    counted, not walked.
    """
    tree = store.writer.write_tree([TreeEntry(b"x", FILE, EMPTY)])
    for _ in range(10):
        tree = store.writer.write_tree([TreeEntry(b"%d" % n, TREE, tree) for n in range(10)])
    bomb = with_entry(store, TreeEntry(b"bomb", TREE, tree), below=False)

    with pytest.raises(StoreDamaged, match="has more than"):
        validated(project, bomb)
    monkeypatch.setattr(verify_incoming, "LARGEST", 1)
    with pytest.raises(StoreDamaged, match=r"has \d+ bytes"):
        validated(project, recommitted(store))


@pytest.mark.parametrize("name", [b".gitcp/store.git", b".GitCP/STORE.git."], ids=["exact", "odd"])
def test_a_store_inside(ada: Project, bob: Project, name: bytes) -> None:
    """A checkpoint that would bring gitcp's own store, and with it settings of git, is refused."""
    save(open_store(ada), "alpha", {b"sub/" + name + b"/config": b"[core]\n"})
    ada.gitcp("push", "--session", "alpha", check=0)
    with bob.guard():
        done = bob.gitcp("fetch", check=13)
    assert "refused hub/alpha: remote path .gitcp" in done.out.lower()
    assert bob.git("for-each-ref", "refs/gitcp/remotes") == ""


def test_bad_session(ada: Project, bob: Project, hub: Path) -> None:
    """A bad session on the remote gets no ref here, and keeps no good one back; odd names are
    passed over.
    """
    store = open_store(ada)
    store.writer.write_blob(b"")
    bad = with_entry(store, TreeEntry(b".git", FILE, EMPTY), below=False)
    commit = ada.git("rev-parse", "HEAD")
    places = (
        f"{bad}:alpha",
        f"{commit}:plain",
        "refs/gitcp/sessions/alpha:-x",
        "refs/gitcp/sessions/alpha:a/b",
    )
    specs = [f"{where.replace(':', ':refs/gitcp/sessions/')}" for where in places]
    ada.gitcp("save", "good", "--force", "--session", "honest", check=0)
    ada.git("push", "--quiet", str(hub), *specs, "refs/gitcp/sessions/honest")

    with bob.guard():
        done = bob.gitcp("fetch", check=3)
    assert "fetched hub/honest" in done.out
    assert [f"refused hub/{name}:" in done.out for name in ("alpha", "plain", "-x", "a/b")] == [
        True
    ] * 4
    assert (
        bob.git("for-each-ref", "--format=%(refname)", "refs/gitcp")
        == "refs/gitcp/remotes/hub/sessions/honest"
    )
