"""Stats: what is counted agrees with git, and what is said would be freed is freed."""

from __future__ import annotations

import os

from pruned import story

from gitcp.lifecycle import prune
from gitcp.lifecycle.stats import stats

from driver import Project
from samples import open_store


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
        "checkpoints    0 checkpoints in 0 sessions, 0 tags\n"
    )
