"""Stats: what is counted agrees with git, and what is said would be freed is freed."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from pruned import story

from gitcp import humanize
from gitcp.lifecycle import prune
from gitcp.lifecycle.stats import SizeShare, stats
from gitcp.review.pages.stats import columns

from driver import Project
from samples import START, open_store, save


def test_counts(project: Project) -> None:
    """Sessions, checkpoints and tags are counted, and what a prune would drop is what it drops."""
    story(project)
    found = stats(open_store(project))

    assert (found.sessions, found.checkpoints, found.tags, found.trash) == (4, 30, 3, 0)
    done = prune.prune(open_store(project), prune.PruneRequest())
    assert found.prune == len(done.plan.dropped)
    after = stats(open_store(project))
    assert after.bytes == found.bytes - found.prune_bytes
    assert after.trash == 1
    assert after.trash_bytes == found.prune_bytes > 0


def test_bytes(project: Project) -> None:
    """A large file counts once for all checkpoints that have it, and not at all where the project
    has it.
    """
    noise = os.urandom(300_000)
    project.write("committed", noise)
    project.commit()
    project.write("large", os.urandom(200_000))
    for text in ("one", "two", "three"):
        project.write("small", text)
        project.gitcp("save", text, check=0)
    with project.guard():
        found = project.json("stats")

    assert 200_000 < found["bytes"] < 220_000
    assert 300_000 < found["shared"] < 310_000
    assert found["largest"][0]["path"] == "large"
    assert found["largest"][0]["versions"] == 1
    assert 200_000 < found["largest"][0]["bytes"] < 201_000
    assert next(each for each in found["largest"] if each["path"] == "small")["versions"] == 3
    assert found["recent"] == {"checkpoints": 3, "bytes": found["bytes"]}
    assert found["prune"] == {"checkpoints": 0, "bytes": 0}


def test_odd_paths(project: Project) -> None:
    """Paths with blanks, line ends and bytes that are no text do not confuse the counting."""
    project.write(b"a b\xff", os.urandom(5000))
    project.write(b"line\nend", os.urandom(9000))
    project.gitcp("save", check=0)

    found = project.gitcp("stats", check=0).out

    assert "a b" in found
    assert "largest" in found


def test_nothing(project: Project) -> None:
    """Without a checkpoint everything is nothing."""
    found = project.json("stats")

    assert found["bytes"] == found["shared"] == found["checkpoints"] == 0
    assert found["largest"] == []
    assert project.gitcp("stats", check=0).out.startswith(
        "checkpoints         0 checkpoints in 0 sessions, 0 tags\n"
    )


def test_growth(project: Project) -> None:
    """Each day and session is counted with what no earlier checkpoint has; together they are the
    whole.
    """
    store = open_store(project)
    noise = [os.urandom(size) for size in (10_000, 20_000, 40_000)]
    for day, session in ((0, "a"), (0, "b"), (1, "a"), (2, "b")):
        files = {b"f%d" % n: data for n, data in enumerate(noise[: day + 1])}
        save(store, session, files, None, created=START + timedelta(days=day))
    found = stats(store)

    assert sum(each.bytes for each in found.days) == found.bytes
    assert sum(each.bytes for each in found.by_session) == found.bytes
    assert [each.checkpoints for each in found.days] == [2, 1, 1]
    for share, size in zip(found.days, (10_000, 20_000, 40_000), strict=True):
        assert size < share.bytes < size + 3000
    assert [each.name for each in found.by_session] == ["b", "a"]
    assert 40_000 < found.by_session[0].bytes < 44_000


def test_page(project: Project, tmp_path: Path) -> None:
    """The page has a column for each day and a bar for each session and path; it loads and runs
    nothing, and is not written over another file.
    """
    project.write("<b>&.txt", os.urandom(3000))
    project.gitcp("save", check=0)
    with project.guard():
        project.gitcp("stats", "-o", "../s.html", check=0)
    made = (tmp_path / "s.html").read_text("utf-8")

    assert "&lt;b&gt;&amp;.txt" in made
    assert "<b>" not in made
    assert "default-src 'none'" in made
    assert made.count("<polyline") == 1
    assert not re.search(r"<script|src=|https?:", made)
    assert project.gitcp("stats", "-o", "../s.html").code == 12
    assert project.gitcp("stats", "-o", "-", check=0).out.startswith("<!DOCTYPE html>")
    assert project.gitcp("sessions", "--tokens", "-o", "-", check=0).out.startswith(
        "<!DOCTYPE html>"
    )
    assert not project.root.joinpath("-").exists()


def test_one_day(project: Project, tmp_path: Path) -> None:
    """Of one day the page has a column for each checkpoint; what `gitcp enable` wrote is counted
    apart from the largest paths.
    """
    project.gitcp("enable", "claude", "--yes", check=0)
    for number in range(3):
        project.write("a.txt", os.urandom(3000 * number + 1))
        project.gitcp("save", "--session", "a", check=0)
    found = stats(open_store(project))
    project.gitcp("stats", "-o", "../s.html", check=0)
    made = (tmp_path / "s.html").read_text("utf-8")

    assert [each.name for each in found.steps] == ["a@1", "a@2", "a@3"]
    assert sum(each.bytes for each in found.steps) == found.bytes
    assert [each.path for each in found.largest] == [b"a.txt"]
    assert found.installed > 1000
    assert project.json("stats")["installed"] == found.installed
    said = project.gitcp("stats", check=0).out
    assert "  in files that gitcp enable writes\n" in said
    assert "gitcp delete --old  nothing to drop\n" in said
    assert made.count('<rect class="hover"') == 3
    assert "Bars: added by each checkpoint." in made


def test_plot_of_a_year() -> None:
    """Days without a checkpoint have a column; older ones count for the total alone."""
    days = (
        SizeShare("2020-01-01", 1, 500),
        SizeShare("2026-11-01", 2, 300),
        SizeShare("2026-11-04", 1, 200),
    )
    made = columns(days)

    assert len(made) == 366
    assert [each.share.bytes for each in made[-4:]] == [300, 0, 0, 200]
    assert (made[0].total, made[-1].total) == (500, 1000)
    assert (made[-4].height, made[-1].y) == (180, 0)
    assert columns(()) == []


@given(st.integers(0, 10**9), st.integers(1, 10**9))
def test_bars(value: int, most: int) -> None:
    """A bar is as wide as its share, to an eighth; nothing is empty, anything is not."""
    value = min(value, most)
    drawn = humanize.bar(value, most, 24)
    assert len(drawn) == 24
    eighths = sum(" ▏▎▍▌▋▊▉█".index(each) for each in drawn)
    assert abs(eighths - 192 * value / most) <= 1
    assert bool(drawn.strip()) == (value > 0)
