"""What was fetched, in a fresh clone: every command that looks shows it, and every id that one
prints can be typed into another.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from driver import Project


@pytest.fixture
def origin(tmp_path: Path, project: Project) -> Project:
    """Two checkpoints of session `shop`, one with a tag, pushed; and the remote."""
    project.write("app.py", "0\n")
    project.commit()
    project.git("init", "--quiet", "--bare", str(tmp_path / "hub.git"))
    project.git("remote", "add", "origin", str(tmp_path / "hub.git"))
    project.git("push", "--quiet", "origin", "main")
    for number, label in enumerate(("first", "before migration"), 1):
        project.write("app.py", f"{number}\n")
        project.gitcp("save", label, "--session", "shop", "--phase", "plan", check=0)
    project.gitcp("tag", "works", "1", check=0)
    project.gitcp("remote", "origin", check=0)
    project.gitcp("push", check=0)
    return project


@pytest.fixture
def clone(tmp_path: Path, origin: Project) -> Project:
    """A fresh clone of it, with nothing saved, that fetched."""
    origin.git("clone", "--quiet", str(tmp_path / "hub.git"), str(tmp_path / "clone"))
    made = Project(tmp_path / "clone")
    made.gitcp("remote", "origin", check=0)
    made.gitcp("fetch", check=0)
    return made


def test_the_first_hour_of_a_reviewer(tmp_path: Path, origin: Project) -> None:
    """In a clone in which nothing was fetched, the first command names what fetches; then review
    finds the checkpoint of each commit, and what it shows can be looked at and restored.
    """
    origin.git("checkout", "--quiet", "-b", "topic")
    origin.commit("migrate")
    origin.git("push", "--quiet", "origin", "topic")
    origin.git("clone", "--quiet", "-b", "topic", str(tmp_path / "hub.git"), str(tmp_path / "new"))
    reviewer = Project(tmp_path / "new")

    fetch = "gitcp remote origin && gitcp fetch origin"
    refused = reviewer.gitcp("log", check=16).err
    assert f"to fetch those of the remote: {fetch}\n" in refused
    assert f"those of the remote: {fetch}\n" in reviewer.gitcp("review", check=0).err
    for line in fetch.split(" && "):
        reviewer.gitcp(*line.split()[1:], check=0)
    review = reviewer.gitcp("review", check=0)
    assert review.err == ""
    row = next(line for line in review.out.splitlines() if "`migrate`" in line)
    assert "`shop@2` (exact match)" in row
    assert "+2" in reviewer.gitcp("show", "shop@2", "-p", check=0).out
    reviewer.gitcp("view", "shop@2", "-o", "talk.html", check=0)
    assert "--trust" in reviewer.gitcp("restore", "shop@1", "--yes", check=14).err
    reviewer.gitcp("restore", "shop@1", "--yes", "--trust", check=0)
    assert reviewer.read("app.py") == b"1\n"
    reviewer.gitcp("undo", "--yes", check=0)
    assert reviewer.read("app.py") == b"2\n"


SHOWN = {
    ("log", "--oneline"): "shop@1 (tag: origin/works) first",
    ("log", "--all", "--oneline"): "shop@2 before migration",
    ("log", "--graph", "--all"): "* shop@1 (tag: origin/works) first",
    ("log", "--session", "sho", "-n", "1"): "shop@2  before migration",
    ("list",): "shop@2",
    ("list", "--all"): "origin/works",
    ("sessions",): "origin/shop",
    ("tag",): "origin/works  shop@1",
    ("find", "migration"): "shop@2  before migration",
    ("show",): "checkpoint shop@2",
    ("show", "works"): "checkpoint shop@1 (tag: origin/works)",
    ("show", "origin/works"): "checkpoint shop@1",
    ("show", "before migration"): "checkpoint shop@2",
    ("show", ":/migration"): "checkpoint shop@2",
    ("show", "sho"): "checkpoint shop@2",
    ("show", "shop@{now}"): "checkpoint shop@2",
    ("show", "2:app.py"): "2\n",
    ("diff", "1", "2"): "+2",
    ("why", "app.py"): "shop@2",
    ("view", "--no-open"): "(2 checkpoints",
    ("restore", "--phase", "plan", "--trust", "-n"): "restore shop@2",
    ("restore", "shop@1", "--trust", "-n"): "restore shop@1",
    ("fork", "works", "--trust"): "forked",
}


def test_in_a_fresh_clone(clone: Project) -> None:
    """An empty store with fetched sessions is not nothing: each command looks at them."""
    assert "is not from this repository" in clone.gitcp("restore", "--yes", check=14).err
    with clone.guard():
        for args, expected in SHOWN.items():
            assert expected in clone.gitcp(*args, check=0).out, args


def test_ids_after_two_went_their_own_ways(origin: Project, clone: Project) -> None:
    """Where an id means one's own checkpoint, the fetched one is shown with its remote; each id
    that is printed leads to what it was printed for.
    """
    clone.gitcp("restore", "shop@2", "--trust", "--yes", check=0)
    for project in (origin, clone):
        project.write("app.py", f"{project.root.name}\n")
        project.gitcp("save", f"by {project.root.name}", "--session", "shop", check=0)
    origin.gitcp("save", "another", "--session", "shop", "--force", check=0)
    origin.gitcp("push", check=0)
    clone.gitcp("fetch", check=0)

    ours = clone.gitcp("log", "--oneline", check=0).out
    theirs = clone.gitcp("log", "origin/shop", "--oneline", check=0).out
    assert theirs.splitlines()[-3].startswith("origin/shop@3 by project")
    assert theirs.splitlines()[-1].startswith("shop@1 ")
    for line in (*ours.splitlines(), *theirs.splitlines()):
        id, subject = line.split(" ", 1)
        assert subject == clone.gitcp("log", id, "-n", "1", "--oneline").out[len(id) + 1 : -1], line
    listed = clone.gitcp("list", "--all", "--all-steps", check=0).out
    assert "origin/shop@3" in listed
    assert "\nshop@3 " in listed
    assert "origin/shop@3" in clone.gitcp("find", "by project", check=0).out
    assert "origin/shop" in clone.gitcp("sessions", check=0).out
