"""`Checkpoints.bisect`: the same search for programs."""

from __future__ import annotations

import asyncio

import pytest

import gitcp
from gitcp import BadValue, Refused, RevisionNotFound

from driver import Project

COMMAND = ("grep", "-q", "good", "a.txt")


@pytest.fixture
def broken(project: Project) -> Project:
    """Four checkpoints, of which the third breaks a file."""
    checkpoints = gitcp.open(project.root)
    for number, content in enumerate(("good", "good 2", "bad", "bad 2"), 1):
        project.write("a.txt", content)
        checkpoints.save(f"step {number}", session="work")
    return project


def test_found(broken: Project) -> None:
    """It names the first one that fails, and touches nothing."""
    with broken.guard():
        found = gitcp.open(broken.root).bisect(COMMAND)
        again = asyncio.run(_found_by_async(broken))
    assert isinstance(found, gitcp.Culprit)
    assert (str(found.good.id), str(found.bad.id)) == ("work@2", "work@3")
    assert again == "work@3"
    assert [each.path for each in found.files] == [b"a.txt"]
    assert found.to_json()["bad"] == "work@3"


async def _found_by_async(project: Project) -> str:
    async with await gitcp.aopen(project.root) as checkpoints:
        return str((await checkpoints.bisect(COMMAND, good="1", bad="3")).bad.id)


def test_refused(broken: Project) -> None:
    """Ends that do not differ, ends in the wrong order, and arguments that cannot be meant."""
    checkpoints = gitcp.open(broken.root)
    with pytest.raises(Refused, match="passes on work@1 and on work@2"):
        checkpoints.bisect(COMMAND, bad="2")
    with pytest.raises(RevisionNotFound, match="work@3 is not before work@2"):
        checkpoints.bisect(COMMAND, good="3", bad="2")
    with pytest.raises(BadValue, match="nowhere does not exist"):
        checkpoints.bisect(COMMAND, share="nowhere")
    for arguments in ({"command": ()}, {"command": COMMAND, "repeat": 0}):
        with pytest.raises(BadValue, match="nothing was run"):
            checkpoints.bisect(**arguments)
