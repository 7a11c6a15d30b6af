"""Files that git filters in commits: what leaves is never their plain text without a word."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from kinds import IS_OWN_STORE
from talk import Talk

from gitcp.sharing import push_queue
from gitcp.sharing.push_queue import Timing

from driver import Project
from samples import open_store

PLAIN = "topsecret"
AT_ONCE = Timing(apart=0, wait=0)

pytestmark = pytest.mark.skipif(IS_OWN_STORE, reason="without git, nothing is committed")


def encrypt(project: Project) -> None:
    """Configure a filter that encrypts, as git-crypt does, and commit a file with it."""
    for key in ("clean", "smudge"):
        project.git("config", f"filter.crypt.{key}", "tr a-z n-za-m")
    project.write(".gitattributes", "*.key filter=crypt\n")
    project.write("s.key", f"{PLAIN} one\n")
    project.write("a.txt", "one\n")
    project.commit()
    assert PLAIN not in project.git("show", "HEAD:s.key")


@pytest.fixture
def hub(project: Project, tmp_path: Path) -> Path:
    """A remote of the project, which has an encrypted file that is changed."""
    encrypt(project)
    project.git("init", "--quiet", "--bare", str(tmp_path / "hub.git"))
    project.gitcp("remote", "hub", str(tmp_path / "hub.git"), check=0)
    project.write("s.key", f"{PLAIN} two\n")
    project.gitcp("save", "two", "--session", "alpha", check=0)
    return tmp_path / "hub.git"


def sent(hub: Path) -> bool:
    return subprocess.check_output(["git", "-C", hub, "for-each-ref", "refs/gitcp"]) != b""


def test_push(project: Project, hub: Path) -> None:
    """A push names the file and sends nothing; --allow-filtered sends it, and what was sent stops
    no later push.
    """
    with project.guard():
        refused = project.gitcp("push", "--session", "alpha", check=15)
        planned = project.gitcp("push", "--session", "alpha", "--dry-run", "--json", check=15)
    assert "s.key  (filter crypt)" in refused.err
    assert "--allow-filtered" in refused.err
    assert json.loads(planned.out)["filtered"] == ["s.key"]
    assert not sent(hub)
    project.gitcp("push", "--session", "alpha", "--allow-filtered", check=0)
    assert sent(hub)
    project.write("a.txt", "three\n")
    project.gitcp("save", "three", "--session", "alpha", check=0)
    project.gitcp("push", "--session", "alpha", check=0)
    project.write("s.key", f"{PLAIN} three\n")
    project.gitcp("save", "four", "--session", "alpha", check=0)
    project.gitcp("push", "--session", "alpha", check=15)


def test_redacted_push(project: Project, hub: Path) -> None:
    """A redacted copy has the same files: --redact alone does not let them pass."""
    project.gitcp("push", "--session", "alpha", "--redact", check=15)
    assert not sent(hub)


def test_bundle(project: Project, hub: Path, tmp_path: Path) -> None:
    """A bundle has files, so it is refused; the other formats have the conversation only."""
    file = tmp_path / "x.bundle"
    with project.guard():
        refused = project.gitcp("export", "alpha@1", "-o", str(file), check=15)
    assert "s.key  (filter crypt)" in refused.err
    assert not file.exists()
    project.gitcp("export", "alpha@1", "-o", str(file), "--allow-filtered", check=0)
    Talk(project).say("Hello.", "Hello.")
    project.gitcp("save", "talk", check=0)
    for form in ("json", "markdown", "atif", "transcript"):
        out = project.gitcp("export", "--format", form, check=0).out
        assert PLAIN not in out


def test_in_the_background(project: Project, hub: Path) -> None:
    """Consent to push does not cover it, and `status` says why; it can be given once, with the
    policy.
    """
    project.gitcp("remote", "hub", "--push", "always", check=0)
    project.write("s.key", f"{PLAIN} three\n")
    project.gitcp("save", "three", "--session", "alpha", "--force", check=0)
    store = open_store(project)
    push_queue.drain(store, "hub", AT_ONCE)
    assert not sent(hub)
    shown = project.gitcp("status", check=0).out
    assert "1 file would leave in plain text" in shown
    assert "--allow-filtered" in shown
    assert "needs --push" in project.gitcp("remote", "hub", "--allow-filtered", check=2).err
    project.gitcp("remote", "hub", "--push", "always", "--allow-filtered", check=0)
    push_queue.drain(store, "hub", AT_ONCE)
    assert sent(hub)


@pytest.mark.parametrize(
    "attributes",
    [".gitattributes", ".git/info/attributes", "sub/.gitattributes"],
)
def test_wherever_the_attribute_is(project: Project, tmp_path: Path, attributes: str) -> None:
    """A filter counts wherever attributes name it, by a macro too, configured or not, and also if
    the session removed its attributes: git goes by those of the index then.
    """
    project.write("sub/a.txt", "1\n")
    if attributes.startswith("."):
        project.write(attributes, "[attr]secret filter=crypt\n*.key secret\n")
    else:
        project.write(attributes, "*.key filter=crypt\n")
    project.commit()
    project.write("sub/new.key", f"{PLAIN}\n")
    if not attributes.startswith(".git/"):
        project.remove(attributes)
    project.gitcp("save", "one", "--session", "alpha", check=0)
    refused = project.gitcp("export", "alpha@1", "-o", str(tmp_path / "x.bundle"), check=15)
    assert "sub/new.key  (filter crypt)" in refused.err


def test_what_hides_nothing(project: Project, tmp_path: Path) -> None:
    """These leave as ever: files as a commit has them, empty ones, and those of a filter that only
    changes what is checked out, or is Git LFS.
    """
    encrypt(project)
    project.write(".gitattributes", "*.key filter=crypt\n*.big filter=lfs\n*.out filter=shown\n")
    project.git("config", "filter.shown.smudge", "cat")
    for name in ("empty.key", "movie.big", "x.out"):
        project.write(name, "" if name == "empty.key" else "x\n")
    project.git("config", "filter.crypt.smudge", "cat")
    project.remove("s.key")
    project.git("checkout", "--", "s.key")  # as encrypted, in a clone that is locked
    project.gitcp("save", "one", "--session", "alpha", check=0)
    project.gitcp("export", "alpha@1", "-o", str(tmp_path / "x.bundle"), check=0)


def test_nothing_runs(project: Project, hub: Path, tmp_path: Path) -> None:
    """To ask which files are filtered runs no filter."""
    for key in ("clean", "smudge", "process"):
        project.git("config", f"filter.crypt.{key}", f"touch {tmp_path}/ran; cat")
    project.gitcp("push", "--session", "alpha", check=15)
    project.gitcp("push", "--session", "alpha", "--allow-filtered", check=0)
    assert not tmp_path.joinpath("ran").exists()
