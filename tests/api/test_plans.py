"""A plan that a person approves: a page, a digest, and another process that carries out exactly
that, or refuses.
"""

from __future__ import annotations

import programs
import pytest

import gitcp
from gitcp.api.checkpoints import Checkpoints
from gitcp.errors import Refused

from driver import Project

TALK = b'{"role":"user","content":"hello"}\n'


@pytest.fixture
def checkpoints(project: Project) -> Checkpoints:
    """A project whose files have changed since its checkpoint."""
    for name in ("a.txt", "b.txt", "link"):
        project.write(name, "one\n")
    project.commit()
    checkpoints = gitcp.open(project.root)
    checkpoints.save("good", session="s", conversation=TALK, compensate="dropdb x")
    project.write("a.txt", "two\n")
    project.write("new.txt", "new\n")
    project.remove("b.txt")
    return checkpoints


def test_page(checkpoints: Checkpoints, project: Project) -> None:
    """Each path with what becomes of it, what is not undone, and the digest."""
    project.write("big.txt", "x\n")
    checkpoints.save("more", session="s", compensate="dropdb y")
    plan = checkpoints.plan("s@1")

    lines = str(plan).splitlines()
    assert lines[0].startswith('restore s@1 "good"  (2')
    assert lines[1:] == [
        "  would be written: a.txt",
        "  would be written: b.txt",
        "  would be removed: big.txt",
        "  would be removed: new.txt",
        "  the generic conversation would return to 1 message",
        "  not undone: dropdb y",
        f"plan {plan.digest}",
    ]
    checkpoints.restore("s@1")
    assert "  nothing to restore" in str(checkpoints.plan("s@1", conversation=False))


class Printer(list[str]):
    """What IPython passes to `_repr_pretty_`."""

    text = list.append


def test_in_a_notebook(checkpoints: Checkpoints) -> None:
    """The last value of a cell is shown as `print` shows it."""
    plan, shown = checkpoints.plan("s@1"), Printer()
    plan._repr_pretty_(shown, cycle=False)
    assert shown == [str(plan)]


PROGRAM = """
report = checkpoints.restore("s@1", plan_digest=sys.argv[1])
print(report.written_text, report.removed_text)
"""


def test_carried_out_elsewhere(checkpoints: Checkpoints, project: Project) -> None:
    """Another process makes the same plan and carries it out; if anything changed, it refuses."""
    digest = checkpoints.plan("s@1").digest
    assert len(digest) == 64
    project.write("c.txt", "three\n")

    with pytest.raises(Refused, match="the plan is not the one with digest"):
        checkpoints.restore("s@1", plan_digest=digest)
    assert (project.read("a.txt"), project.read("c.txt")) == (b"two\n", b"three\n")
    project.remove("c.txt")
    assert checkpoints.plan("s@1").digest == digest
    assert checkpoints.plan("s@1", paths="a.txt").digest != digest
    done = programs.run(project, PROGRAM, digest)
    assert done == "('a.txt', 'b.txt') ('new.txt',)\n"
    assert project.read("a.txt") == b"one\n"
