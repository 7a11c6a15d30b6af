"""Settings are git's own, remembered, and asked for again as soon as anything that decides them
changes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gitcp.errors import Refused, RepositoryNotFound
from gitcp.git import config
from gitcp.git.repo import Repository
from gitcp.model import Host

from driver import Project


def opened(project: Project) -> Repository:
    """The project, opened afresh as a new process would."""
    host = Host(
        dict(os.environ), Path(os.environ["HOME"]), lambda: datetime(2026, 1, 1, tzinfo=UTC)
    )
    return Repository.open(project.root, host)


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every file were old enough to be remembered."""
    monkeypatch.setattr(config, "SETTLED_NS", -(10**18))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often git was asked."""
    calls: list[str] = []
    real = Repository.git_once

    def counting(self: Repository, *args: str, **options: object) -> bytes:
        calls.append(args[0])
        return real(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Repository, "git_once", counting)
    return calls


@pytest.mark.usefixtures("settled")
def test_git_is_asked_once(project: Project, asked: list[str]) -> None:
    """The second opening starts no git."""
    project.git("config", "user.name", "First")
    assert opened(project).config["user.name"] == "First"
    assert asked == ["config"]
    assert opened(project).config["user.name"] == "First"
    assert asked == ["config"]


def own(project: Project, value: str) -> None:
    project.git("config", "gitcp.y", value)


def user(project: Project, value: str) -> None:
    project.git("config", "--global", "gitcp.y", value)


def included(project: Project, value: str) -> None:
    project.git("config", "include.path", str(project.root / "more"))
    (project.root / "more").write_text(f"[gitcp]\n\ty = {value}\n")


def on_branch(project: Project, value: str) -> None:
    project.git("symbolic-ref", "HEAD", f"refs/heads/{value}")
    (project.root / value).write_text(f"[gitcp]\n\ty = {value}\n")
    project.git("config", f"includeIf.onbranch:{value}.path", str(project.root / value))


def xdg(project: Project, value: str) -> None:
    directory = Path(os.environ["XDG_CONFIG_HOME"]) / "git"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config").write_text(f"[gitcp]\n\ty = {value}\n")


@pytest.mark.parametrize("change", [own, user, included, on_branch, xdg])
@pytest.mark.usefixtures("settled")
def test_a_change_is_noticed(
    project: Project, change: Callable[[Project, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever file a setting comes from, a new value is the one that counts."""
    monkeypatch.delenv("GIT_CONFIG_GLOBAL")
    assert "gitcp.y" not in opened(project).config
    for value in ("one", "two"):
        change(project, value)
        assert opened(project).config["gitcp.y"] == value


@pytest.mark.parametrize("place", ["../later", "~/later", "{root}/later"])
@pytest.mark.parametrize("key", ["include.path", "includeIf.onbranch:main.path"])
@pytest.mark.usefixtures("settled")
def test_an_included_file_that_comes_later_is_noticed(
    project: Project, key: str, place: str
) -> None:
    """What a setting includes need not be there when the settings are read."""
    place = place.format(root=project.root)
    project.git("config", key, place)
    assert "gitcp.y" not in opened(project).config
    directory = os.environ["HOME"] if place.startswith("~") else project.root
    Path(directory, "later").write_text("[gitcp]\n\ty = later\n")
    assert project.git("config", "gitcp.y") == "later"
    assert opened(project).config["gitcp.y"] == "later"


def test_a_young_file_is_not_remembered(project: Project) -> None:
    """What was written just now may be written again within the same tick."""
    project.git("config", "gitcp.y", "one")
    opened(project)
    assert not (project.git_dir / "gitcp" / config.NAME).exists()


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("garbage", [b"", b"garbage", b"\xfb\x00"])
def test_garbage_in_the_cache_means_asking_again(project: Project, garbage: bytes) -> None:
    """The cache can be damaged or gone at any time."""
    project.git("config", "gitcp.y", "one")
    opened(project)
    (project.git_dir / "gitcp" / config.NAME).write_bytes(garbage)
    assert opened(project).config["gitcp.y"] == "one"


def test_a_broken_config_is_reported(project: Project) -> None:
    """git's own message comes through, and git works with a configuration of gitcp's."""
    project.commit()
    with (project.git_dir / "config").open("a") as file:
        file.write("[broken\n")
    repo = opened(project)
    (fault,) = repo.faults
    assert "bad config line" in fault.what
    assert repo.git("rev-parse", "refs/heads/main")
    with pytest.raises(Refused, match="bad config line"):
        repo.git("branch", "other")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("extensions.objectFormat", "sha512", "names its objects"),
        ("extensions.compatObjectFormat", "sha256", "names its objects"),
        ("extensions.refStorage", "reftable://elsewhere", "reftable://elsewhere"),
    ],
)
def test_a_format_that_cannot_be_read_is_refused(
    project: Project, key: str, value: str, said: str
) -> None:
    """By name, before anything is read or written."""
    project.git("config", "core.repositoryFormatVersion", "1")
    path = project.git_dir / "config"
    section, _, name = key.partition(".")
    path.write_text(path.read_text() + f"[{section}]\n\t{name} = {value}\n")
    with pytest.raises(RepositoryNotFound, match=said):
        opened(project)


def test_a_working_tree_elsewhere(project: Project) -> None:
    """Where `core.worktree` leads out of the directory with `.git`, git is told so whenever it is
    asked.
    """
    files = project.root.with_name("files")
    files.mkdir()
    project.git("config", "core.worktree", "../../files")
    (files / ".gitattributes").write_text("*.txt text eol=crlf\n")
    (files / "a.txt").write_bytes(b"one\r\n")
    project.commit()

    for number in range(2):
        (files / "b.txt").write_bytes(b"%d\r\n" % number)
        project.gitcp("save", f"save {number}", check=0)

    assert "save 1" in project.gitcp("log", "--stat", check=0).out
    assert "+1" in project.gitcp("diff", "1", "2", check=0).out
    assert project.git("show", f"{project.json('show')['commit']}:b.txt") == "1"
    project.gitcp("restore", "1", "--yes", check=0)
    assert (files / "b.txt").read_bytes() == b"0\r\n"
    assert os.listdir(project.root) == [".git"]
