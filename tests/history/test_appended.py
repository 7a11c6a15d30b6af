"""Files that are only appended to: lists and patches speak of their lines, not of the pointer that
git has.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import gitcp
from gitcp.git import segmented
from gitcp.git.trees import TreeEntry
from gitcp.history import appended, diff, diffstat, rows
from gitcp.history.appended import AppendedLines
from gitcp.history.folding import FoldedRow
from gitcp.model import Oid
from gitcp.store import Store
from gitcp.worktree import blobs

from driver import Project
from samples import open_store, save

NAME = "out.log"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of 1000 bytes, for files of more than 2000."""
    monkeypatch.setattr(segmented, "SEGMENT", 1000)
    monkeypatch.setattr(blobs, "SEGMENT_ABOVE", 2000)


class Work:
    """A project whose program appends to a file, and saves."""

    def __init__(self, project: Project) -> None:
        project.write("a.txt", "one\n")
        project.commit()
        self.project, self.session = project, gitcp.open(project.root).session("work")

    @property
    def path(self) -> Path:
        return self.project.root / NAME

    def append(self, data: bytes) -> None:
        """Append, and save."""
        with self.path.open("ab") as out:
            out.write(data)
        self.session.save(appends=[NAME])

    def roots(self) -> tuple[Store, list[Oid]]:
        """The tree of each checkpoint, the oldest first."""
        store = open_store(self.project)
        tip = store.tip("work")
        assert tip is not None
        return store, [each.root for each in store.history(tip)][::-1]

    def last(self) -> AppendedLines | None:
        """How many lines the last checkpoint added and removed."""
        store, roots = self.roots()
        found = appended.between(store, *roots[-2:])
        assert [*found] == [NAME.encode()]
        return found[NAME.encode()]


@pytest.fixture
def work(project: Project, small: None) -> Work:
    """Three checkpoints: 300 lines, seven more, and half of one."""
    made = Work(project)
    made.append(b"a line\n" * 300)
    made.append(b"another line\n" * 7)
    made.append(b"half")
    return made


def test_lines_appended(work: Work) -> None:
    """As git counts them: a line that goes on is one removed and one added."""
    store, roots = work.roots()
    base = store.repo.object_format.empty_tree
    pairs = list(zip([base, *roots], roots, strict=False))
    assert [appended.between(store, *pair)[NAME.encode()] for pair in pairs] == [
        (300, 0),
        (7, 0),
        (1, 0),
    ]
    work.append(b" of it\nand more\n")
    assert work.last() == (2, 1)
    work.append(b"many\n" * 1000)
    assert work.last() == (1000, 0)


def test_not_counted(work: Work) -> None:
    """Bytes that are no text, more than a few segments, and a file that was whole before."""
    work.append(b"\0\n")
    assert work.last() is None
    work.append(b"much\n" * 2000)
    assert work.last() is None
    other = work.project.root / "small.log"
    other.write_bytes(b"small\n")
    work.session.save(appends=["small.log"])
    other.write_bytes(b"small\n" * 400)
    work.session.save(appends=["small.log"])
    store, roots = work.roots()
    assert appended.between(store, *roots[-2:]) == {b"small.log": None}


def test_totals(work: Work) -> None:
    """A row of `log` and a step of a review have these lines, with those that git counts."""
    work.project.write("a.txt", "one\ntwo\n")
    work.append(b" of it\nmore\n")
    store, roots = work.roots()
    pair = (roots[-2], roots[-1])
    tip = store.tip("work")
    assert tip is not None
    summaries = [*store.history(tip)][::-1]
    (row,) = rows.counted(store, [FoldedRow(summaries[-1])])
    assert row.total == diffstat.Total(2, 3, 1)

    changes = diff.compare(store, *pair).changes
    stats = diffstat.file_stats(store, [(summaries[-1], changes)], None)
    assert [(each.path, each.added, each.removed) for each in stats[0]] == [
        (b"a.txt", 1, 0),
        (NAME.encode(), 2, 1),
    ]


def test_trees_of_others_are_not_read(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit tells whether a checkpoint has such files; no other is looked into."""
    store, roots = work.roots()
    for number in range(3):
        save(store, "plain", {b"a.txt": b"%d\n" % number})
    ends = store.tip("plain"), store.tip("work")
    listed = [FoldedRow(each) for tip in ends if tip for each in store.history(tip)]
    plain = [row.newest.root for row in listed if row.newest.id.session == "plain"]
    read: list[Oid] = []
    read_tree = store.reader.read_tree

    def look(oid: Oid) -> list[TreeEntry]:
        read.append(oid)
        return read_tree(oid)

    monkeypatch.setattr(store.reader, "read_tree", look)

    added = [counted.total and counted.total.added for counted in rows.counted(store, listed)]
    assert added[:3] == [1, 1, 1]
    assert added[-2] == 7
    assert not {*plain} & {*read}
    assert {*roots} & {*read}


def test_patch(work: Work) -> None:
    """git's patch of all others, and a line about it; in a table, too."""
    work.project.write("a.txt", "one\ntwo\n")
    work.append(b" of it\nmore\n")
    store, roots = work.roots()
    compared = diff.compare(store, roots[-2], roots[-1])
    text = compared.text().decode()
    assert "gitcp segments" not in text
    assert text.startswith("diff --git a/a.txt b/a.txt\n")
    assert text.endswith(
        "\ndiff --git a/out.log b/out.log\n"
        "stored as segments, 2,195 -> 2,207 bytes, 2 lines appended\n"
    )
    assert compared.text("--stat").decode().split("\n")[-2] == (
        " out.log | stored as segments, 2,195 -> 2,207 bytes, 2 lines appended"
    )


def test_becomes_segments_and_ends(work: Work) -> None:
    """One that was small before, and one that is gone."""
    store, roots = work.roots()
    first = diff.compare(store, None, roots[0]).text().decode()
    assert first.endswith(" b/out.log\nnow stored as segments, 2,100 bytes\n")
    work.path.unlink()
    work.session.save("without")
    store, roots = work.roots()
    text = diff.compare(store, roots[-2], roots[-1]).text().decode()
    assert text.endswith("\nwas stored as segments, 2,195 bytes\n")


def test_commands(project: Project) -> None:
    """`log` counts the lines that were appended, `diff` says so, and what is new since as well."""
    project.write("a.txt", "one\n")
    project.commit()
    out = project.root / NAME
    out.write_bytes(b"0123456789\n" * 200_000)
    project.gitcp("save", "first", "--session", "work", "--appends", NAME, check=0)
    with out.open("ab") as more:
        more.write(b"more\n" * 300)
    project.gitcp("save", "second", "--session", "work", "--appends", NAME, check=0)
    with out.open("ab") as more:
        more.write(b"more\n" * 20)

    logged = project.gitcp("log", check=0).out
    assert "out.log +300" in logged
    assert "-2" not in logged
    told = "stored as segments, 2,200,000 -> 2,201,500 bytes, 300 lines appended\n"
    assert project.gitcp("diff", "1", "2", check=0).out.endswith(told)
    now = project.gitcp("diff", check=0).out
    assert now.endswith("2,201,500 -> 2,201,600 bytes, 20 lines appended\n")
