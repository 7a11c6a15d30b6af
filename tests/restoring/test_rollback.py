"""`gitcp rollback`: the state before the damage, with hooks on and without."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest
from test_hook import Claude, triggers

from gitcp.model import CheckpointId, Oid
from gitcp.restoring.planned import Point, RollbackChoice
from gitcp.restoring.rollback import BEFORE_PROMPT, LAST, TURN_END, choose

from driver import Project

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def chain(*made: str, prompted: int | None = None) -> tuple[Point, ...]:
    """Points from the oldest to the newest, numbered from 1, returned newest first. "!": it has a
    label.
    """
    points = [
        Point(
            CheckpointId("s", number),
            Oid(f"{number:040x}"),
            trigger.removesuffix("!"),
            "a label" if trigger.endswith("!") else trigger,
            NOON + timedelta(minutes=number),
            number == prompted,
        )
        for number, trigger in enumerate(made, 1)
    ]
    return tuple(reversed(points))


def chosen(points: tuple[Point, ...], same: Iterable[int]) -> tuple[int, str, list[int]] | None:
    """What is chosen where the checkpoints `same` have the files that are here."""
    like = set(same)
    found: RollbackChoice | None = choose(points, lambda point: point.id.number not in like)
    return found and (found.point.id.number, found.why, [each.id.number for each in found.others])


@pytest.mark.parametrize(
    ("made", "same", "expected"),
    [
        # The wreck is in the last checkpoints: back to the prompt.
        ("prompt tools turn session-end", {3, 4}, (1, BEFORE_PROMPT, [])),
        ("prompt tools turn prompt tools turn", {6}, (4, BEFORE_PROMPT, [3, 1])),
        # The prompt found nothing new: the end of the turn before it stands for it.
        ("prompt tools turn tools turn session-end", {5, 6}, (3, TURN_END, [1])),
        ("prompt tools turn session-end tools turn", {6}, (4, TURN_END, [1])),
        ("prompt tools turn turn", {4}, (3, TURN_END, [1])),
        # Changes after the last checkpoint are of the same emergency.
        ("prompt tools turn", {}, (1, BEFORE_PROMPT, [])),
        ("prompt tools before-risky-change", {}, (1, BEFORE_PROMPT, [])),
        # A prompt after which nothing changed is no state to go back to.
        ("prompt tools turn prompt turn", {3, 4, 5}, (1, BEFORE_PROMPT, [])),
        # What an agent saves in the middle of a turn is half done; what a person saves after it is
        # not.
        ("prompt tools manual tools turn", {5}, (1, BEFORE_PROMPT, [])),
        ("prompt tools turn manual", {}, (4, LAST, [3, 1])),
        ("prompt tools turn manual", {4}, (3, TURN_END, [1])),
        # Without an agent: the last one that differs.
        ("manual manual manual", {3}, (2, LAST, [1])),
        ("manual manual manual", {}, (3, LAST, [2, 1])),
        ("manual before-risky-change! manual", {3}, (2, LAST, [1])),
        ("prompt tools turn before-risky-change tools turn", {6}, (3, TURN_END, [1])),
        ("tools tools tools", {3}, (2, LAST, [1])),
        ("manual restore", {}, (2, LAST, [1])),
        ("manual manual", {1, 2}, None),
        ("", {}, None),
    ],
)
def test_choice(made: str, same: set[int], expected: tuple[int, str, list[int]] | None) -> None:
    """The state before the last prompt that differs, else the last one that does."""
    assert chosen(chain(*made.split()), same) == expected


def test_choice_by_the_mark() -> None:
    """Nothing was saved since the prompt, which made no checkpoint: the hook wrote down which one
    stood then.
    """
    made = ("prompt", "tools", "turn")
    assert chosen(chain(*made, prompted=3), {}) == (3, BEFORE_PROMPT, [1])
    assert chosen(chain(*made), {}) == (1, BEFORE_PROMPT, [])


def test_candidates_are_few() -> None:
    """At most three further candidates, and no more are looked at than needed."""
    asked = []

    def differs(point: Point) -> bool:
        asked.append(point.id.number)
        return True

    found = choose(chain(*["manual"] * 100), differs)
    assert found is not None
    assert [each.id.number for each in found.others] == [99, 98, 97]
    assert asked == [100, 99, 98, 97]


@pytest.fixture
def agent(project: Project) -> Claude:
    """An agent with hooks, two good turns and one that wrecked everything, and saved that."""
    project.write("a.txt", "one\n")
    project.commit()
    claude = Claude(project)
    claude.turn("begin", edit=lambda: project.write("a.txt", "two\n"))
    project.write("by-hand.txt", "mine\n")
    claude.turn("go on", edit=lambda: project.write("a.txt", "three\n"))
    return claude


def wreck(project: Project) -> None:
    """What no one wants."""
    project.remove("by-hand.txt")
    project.write("a.txt", "WRECK\n")


def test_after_the_end(project: Project, agent: Claude) -> None:
    """The turn and the session's end saved the wreck: rollback goes to before the prompt, undo and
    redo walk.
    """
    good = project.files()
    agent.turn("clean up", edit=lambda: wreck(project))
    agent.calls("SessionEnd", reason="exit")
    wrecked = project.files()
    assert triggers(project)[-2:] != ["prompt", "prompt"]

    with project.guard():
        plan = project.gitcp("rollback", check=12).err
        document = project.json("rollback", "--dry-run")
        assert project.files() == wrecked
        done = project.gitcp("rollback", "--yes", check=0).out
        assert project.files() == good
        project.gitcp("undo", "--yes", check=0)
        assert project.files() == wrecked
        project.gitcp("redo", "--yes", check=0)
        assert project.files() == good

    assert "nothing was restored" not in done
    assert BEFORE_PROMPT in plan or TURN_END in plan
    assert document["target"] in plan
    assert document["reason"] in plan
    assert [each["id"] for each in document["candidates"]] != []
    assert all(each["id"] in plan for each in document["candidates"])


def test_back_and_back(project: Project, agent: Claude) -> None:
    """Each rollback goes further back, to a prompt or to before an edit by hand, until nothing is
    left.
    """
    agent.turn("clean up", edit=lambda: wreck(project))
    seen = []
    for _ in range(4):
        project.gitcp("rollback", "--yes", check=0)
        seen.append((project.read("a.txt"), b"by-hand.txt" in project.files()))
    refused = project.gitcp("rollback", "--yes", check=12)

    assert seen == [(b"three\n", True), (b"two\n", True), (b"two\n", False), (b"one\n", False)]
    assert "differs from the files here: nothing was changed" in refused.err
    assert refused.out == ""


def test_back_after_undo(project: Project, agent: Claude) -> None:
    """After an undo the wreck is here again, and rollback goes where it went before."""
    agent.turn("clean up", edit=lambda: wreck(project))
    first = project.json("rollback", "--yes")["target"]
    project.gitcp("undo", "--yes", check=0)
    assert project.json("rollback", "--dry-run")["target"] == first


def test_interrupted_turn(project: Project, agent: Claude) -> None:
    """Nothing was saved since the prompt, which found nothing new: the state of the prompt comes
    back.
    """
    agent.calls("UserPromptSubmit", prompt="clean up")
    good = project.files()
    wreck(project)
    project.gitcp("rollback", "--yes", check=0)
    assert project.files() == good


def test_the_slash_command_is_a_prompt(project: Project, agent: Claude) -> None:
    """The prompt that asks for the rollback saves the wreck too; that is not where it goes."""
    good = project.files()
    agent.turn("clean up", edit=lambda: wreck(project))
    agent.calls("UserPromptSubmit", prompt="/gitcp:rollback")
    agent.says("user", "/gitcp:rollback")
    project.gitcp("rollback", "--yes", check=0)
    assert project.files() == good


def test_some_paths_restored(project: Project) -> None:
    """A restore of one path does not hide what was there before it."""
    for text in ("one", "two", "three"):
        project.write("a.txt", text)
        project.write("b.txt", text)
        project.write("c.txt", text)
        project.gitcp("save", text, check=0)
    project.gitcp("restore", "1", "--yes", "--", "b.txt", check=0)
    project.gitcp("rollback", "--yes", check=0)
    assert (project.read("a.txt"), project.read("b.txt")) == (b"three", b"three")


def test_damaged_candidate(project: Project) -> None:
    """A checkpoint that cannot be read is passed over."""
    for text in ("one", "two", "three"):
        project.write("a.txt", text)
        project.gitcp("save", text, check=0)
    project.gitcp("save", "again", check=0)
    project.loosen()
    session = project.git("for-each-ref", "--format=%(refname)", "refs/gitcp/sessions")
    metadata = project.git("rev-parse", f"{session}~2:.gitcp/checkpoint.json")
    project.git_dir.joinpath("objects", metadata[:2], metadata[2:]).unlink()
    project.gitcp("rollback", "--yes", check=0)
    assert project.read("a.txt") == b"one"
