"""Repositories of each kind beside each other: SHA-1 or SHA-256 names, refs in files or in
reftable. The other tests run in one kind at a time (`GITCP_TEST_KIND`).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from itertools import permutations
from pathlib import Path

import pytest
from capturing import host
from kinds import has_reftable

from gitcp.git import config
from gitcp.git.object_format import FORMATS, ObjectFormat, format_of
from gitcp.git.repo import Repository

from driver import Project

PAIRS = list(permutations(FORMATS, 2))


@pytest.fixture(params=[(o, r) for o in FORMATS for r in ("files", "reftable")], ids="-".join)
def kind(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Project:
    """A repository of each kind, that git can make here."""
    names, storage = request.param
    if storage == "reftable" and not has_reftable():
        pytest.skip("this git has no reftable")
    monkeypatch.setenv("GIT_DEFAULT_HASH", names)
    monkeypatch.setenv("GIT_DEFAULT_REF_FORMAT", storage)
    return Project(tmp_path / "project")


@pytest.mark.parametrize("each", FORMATS.values(), ids=FORMATS)
def test_constants(tmp_path: Path, each: ObjectFormat) -> None:
    """Each format names what git names so."""
    project = made(tmp_path / "a", each.name)
    assert project.git("hash-object", "-t", "tree", "--stdin") == each.empty_tree
    assert project.git("hash-object", "--stdin") == each.empty_blob == each.oid_of("blob", b"")
    assert len(each.null) == len(each.empty_tree) == each.digits == 2 * each.raw
    assert format_of(each.empty_tree) is format_of(each.null) is each


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("[extensions]\n\tobjectFormat = SHA256\n", {"objectformat": "sha256"}),
        ('[Extensions] refStorage = "reftable" ; why\n', {"refstorage": "reftable"}),
        ("[other]\n\trefStorage = reftable\n", {}),
        ("[extensions]\n\tnoop\n[core]\n\tobjectFormat = sha256\n", {}),
    ],
)
def test_extensions(tmp_path: Path, text: str, expected: dict[str, str]) -> None:
    """What a repository's own config says, however it is written, and nothing else."""
    (tmp_path / "config").write_text(text)
    assert config.extensions(tmp_path) == expected


def test_a_life(kind: Project) -> None:
    """Saved, shown, restored, undone, forked, tagged, dropped and checked, beside git's own work:
    sound for git after each step, and nothing of the user's moved.
    """
    kind.write("a.txt", "one\n")
    kind.commit()
    kind.write("b/c.txt", "new\n")
    with kind.guard():
        kind.gitcp("save", "first", check=0)
    kind.write("a.txt", "two\n")
    kind.gitcp("save", "second", check=0)
    assert "+two" in kind.gitcp("diff", "1", "2", check=0).out
    kind.gitcp("restore", "1", "--yes", check=0)
    assert kind.read("a.txt") == b"one\n"
    kind.gitcp("undo", "--yes", check=0)
    assert kind.read("a.txt") == b"two\n"
    kind.gitcp("tag", "v1", check=0)
    kind.git("pack-refs", "--all")
    kind.git("gc", "--quiet")
    session = kind.json("show")["session"]
    kind.gitcp("rename", session, "renamed", check=0)
    kind.gitcp("delete", "renamed", "--yes", check=0)
    assert kind.json_lines("sessions") == []
    kind.gitcp("undo", "--yes", check=0)
    kind.gitcp("prune", "--keep-last", "1", "--yes", check=0)
    assert len(kind.json_lines("log", "renamed")) >= 1
    kind.gitcp("check", check=0)
    assert kind.git("fsck", "--strict", "--no-dangling") == ""


def test_an_operation_is_seen(kind: Project) -> None:
    """A cherry-pick in progress, whose mark is a file in one kind and a ref in the other, at a
    detached HEAD; and a branch without a commit.
    """
    kind.gitcp("save", "unborn", check=0)
    assert base(kind) == {"branch": "main"}
    kind.write("a.txt", "one\n")
    first = kind.commit()
    kind.git("switch", "--quiet", "--create", "side")
    kind.write("a.txt", "side\n")
    side = kind.commit()
    kind.git("switch", "--quiet", "--detach", first)
    kind.write("a.txt", "other\n")
    kind.commit()
    kind.git("cherry-pick", side, check=False)
    kind.gitcp("save", "picking", check=0)
    commit = kind.git("rev-parse", "HEAD")
    assert base(kind) == {"commit": commit, "operation": "cherry-pick"}


def test_shared_within_a_kind(kind: Project, tmp_path: Path) -> None:
    """Pushed, fetched, exported and imported in repositories of one kind."""
    kind.write("a.txt", "one\n")
    kind.gitcp("save", "first", check=0)
    kind.git("init", "--quiet", "--bare", str(tmp_path / "hub.git"))
    kind.gitcp("remote", "hub", str(tmp_path / "hub.git"), check=0)
    kind.gitcp("push", check=0)
    kind.gitcp("export", "-o", str(tmp_path / "all.bundle"), check=0)
    session = kind.json("show")["session"]
    other = Project(tmp_path / "other")
    other.gitcp("remote", "hub", str(tmp_path / "hub.git"), check=0)
    other.gitcp("fetch", check=0)
    other.gitcp("restore", f"hub/{session}", "--trust", "--yes", check=0)
    assert other.read("a.txt") == b"one\n"
    third = Project(tmp_path / "third")
    third.gitcp("import", str(tmp_path / "all.bundle"), check=0)
    third.gitcp("check", check=0)


def test_a_repository_inside(kind: Project, tmp_path: Path) -> None:
    """The commit that a submodule is at is seen when it moves, however its refs are stored."""
    library = Project(tmp_path / "library")
    library.write("file", "one\n")
    library.commit()
    allowed = ("-c", "protocol.file.allow=always")
    kind.git(*allowed, "submodule", "--quiet", "add", str(library.root), "sub")
    kind.commit()
    kind.gitcp("save", "first", check=0)
    inside = Project(kind.root / "sub")
    inside.write("file", "two\n")
    moved = inside.commit()
    kind.gitcp("save", "second", check=0)
    assert moved in kind.git("ls-tree", kind.json("show")["commit"], "sub")


def test_a_setting_of_one_branch(kind: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """What git includes on one branch alone is asked for again on another, though no file of the
    settings changed.
    """
    monkeypatch.setattr(config, "SETTLED_NS", 0)
    kind.commit()
    (kind.root / ".git/side").write_text("[gitcp]\n\tx = side\n")
    kind.git("config", "includeIf.onbranch:side.path", "side")
    assert "gitcp.x" not in Repository.open(kind.root, host()).config
    assert (kind.root / ".git/gitcp" / config.NAME).exists()
    kind.git("switch", "--quiet", "--create", "side")
    assert Repository.open(kind.root, host()).config["gitcp.x"] == "side"


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
@pytest.mark.parametrize("is_empty", [False, True])
def test_a_remote_with_other_names(
    tmp_path: Path, ours: str, theirs: str, *, is_empty: bool
) -> None:
    """Refused with the reason and a command that helps, whether it has anything or not; nothing is
    sent or fetched.
    """
    project, hub = made(tmp_path / "a", ours), tmp_path / "hub.git"
    project.git("init", "--quiet", "--bare", f"--object-format={theirs}", str(hub))
    if not is_empty:
        other = made(tmp_path / "b", theirs)
        other.gitcp("save", "theirs", check=0)
        other.gitcp("remote", "hub", str(hub), check=0)
        other.gitcp("push", check=0)
    project.write("a.txt", "one\n")
    project.gitcp("save", "first", check=0)
    project.gitcp("remote", "hub", str(hub), check=0)
    before = project.git("for-each-ref"), at(hub)

    commands = ("push",) if is_empty else ("push", "fetch")
    for command in commands:
        done = project.gitcp(command)
        assert done.code != 0
        assert "SHA-256" in done.err
        assert "SHA-1" in done.err
        assert f"hint: git init --bare --object-format={ours} " in done.err
    assert (project.git("for-each-ref"), at(hub)) == before


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_a_bundle_with_other_names(tmp_path: Path, ours: str, theirs: str) -> None:
    """Refused before git reads it; nothing is imported."""
    other, project = made(tmp_path / "a", theirs), made(tmp_path / "b", ours)
    other.write("a.txt", "one\n")
    other.gitcp("save", "first", check=0)
    other.gitcp("export", "-o", str(tmp_path / "all.bundle"), check=0)
    done = project.gitcp("import", str(tmp_path / "all.bundle"))
    assert "nothing was imported" in done.err
    (hint,) = re.findall(r"^hint: (.*)$", done.err, re.MULTILINE)
    subprocess.run(hint, shell=True, cwd=project.root, check=True, capture_output=True)
    assert project.git("for-each-ref") == ""
    assert not list(project.root.glob(".git/objects/pack/*.pack"))


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_a_submodule_with_other_names(tmp_path: Path, ours: str, theirs: str) -> None:
    """Its commit cannot be in our trees: the index's is, and the repository stays sound."""
    project = made(tmp_path / "a", ours)
    inner = made(project.root / "inner", theirs)
    inner.write("x", "x")
    inner.commit()
    named = "5" * FORMATS[ours].digits
    project.git("update-index", "--add", "--cacheinfo", f"160000,{named},inner")
    project.gitcp("save", "first", check=0)
    commit = project.json("show")["commit"]
    assert named in project.git("ls-tree", commit, "inner")
    project.gitcp("check", check=0)


def test_an_old_git_is_told(tmp_path: Path) -> None:
    """A repository with reftable, and a git that does not know it: which one does."""
    project = made(tmp_path / "a", "sha1")
    project.git("config", "core.repositoryFormatVersion", "1")
    with (project.root / ".git/config").open("a") as file:
        file.write("[extensions]\n\trefStorage = reftable\n")
    if has_reftable():
        pytest.skip("this git knows reftable")
    done = project.gitcp("save")
    assert done.code != 0
    assert "hint: install git 2.45 or later" in done.err


def test_defaults_of_git_3(tmp_path: Path, sealed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SHA-256 names, reftable where this git has it, and no bare repository that is not named:
    remotes, partial fetches and the own store work.
    """
    monkeypatch.setenv("GIT_DEFAULT_HASH", "sha256")
    monkeypatch.setenv("GIT_DEFAULT_REF_FORMAT", "reftable" if has_reftable() else "files")
    (sealed / ".gitconfig").write_text("[safe]\n\tbareRepository = explicit\n")
    ours, theirs = (Project(tmp_path / name, own_store=False) for name in ("ours", "theirs"))
    hub = tmp_path / "hub.git"
    ours.git("init", "--quiet", "--bare", str(hub))
    ours.git(f"--git-dir={hub}", "config", "uploadpack.allowFilter", "true")
    ours.write("a.txt", "one\n")
    ours.gitcp("save", "first", "--session", "s", check=0)
    for project in (ours, theirs):
        project.gitcp("remote", "hub", str(hub), check=0)

    ours.gitcp("push", "hub", check=0)
    theirs.gitcp("fetch", "hub", "s", "--no-files", check=0)
    assert (theirs.git_dir / "gitcp/aside/hub").is_dir()
    assert theirs.gitcp("show", "hub/s@1:a.txt", check=0).out == "one\n"
    theirs.gitcp("fetch", "hub", "s", check=0)
    theirs.gitcp("restore", "hub/s", "--trust", "--yes", check=0)
    assert theirs.read("a.txt") == b"one\n"
    ours.gitcp("push", "hub", "--delete", "s", "--yes", check=0)
    theirs.gitcp("check", check=0)

    own = tmp_path / "own"
    own.mkdir()
    for command in (("init",), ("save", "--force"), ("log",), ("check",)):
        ours.gitcp(*command, cwd=own, check=0)


def made(root: Path, names: str) -> Project:
    """A repository with this object format."""
    before = os.environ.get("GIT_DEFAULT_HASH")
    os.environ["GIT_DEFAULT_HASH"] = names
    try:
        return Project(root)
    finally:
        if before is not None:
            os.environ["GIT_DEFAULT_HASH"] = before


def base(project: Project) -> dict[str, str]:
    """What the last checkpoint records of HEAD."""
    commit = project.json("show")["commit"]
    document = json.loads(project.git("show", f"{commit}:.gitcp/checkpoint.json"))
    return {key: value for key, value in document["base"].items() if value}


def at(hub: Path) -> str:
    """The refs of a bare repository."""
    listed = subprocess.run(
        ["git", f"--git-dir={hub}", "for-each-ref"], check=True, capture_output=True, text=True
    )
    return listed.stdout
