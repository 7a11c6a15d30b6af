"""`gitcp sessions`: which there are, of whom, what about, and only those that were asked for."""

from __future__ import annotations

import re

import pytest
from kinds import in_files
from talk import Talk

from driver import Project

OTHER = "0badcafe-1111-4222-8333-444455556666"


@pytest.fixture
def three(project: Project) -> Project:
    """Two sessions of an agent and one without."""
    project.write("a.txt", "a\n")
    Talk(project).say("Add a migration.", "Added.", "And now test it!", "Tested.")
    project.gitcp("save", check=0)
    Talk(project, OTHER).say("Write the manual.", "Written.")
    project.gitcp("save", "--session", OTHER[:8], check=0)
    project.write("a.txt", "b\n")
    project.gitcp("save", "by hand", "--session", "work", check=0)
    return project


def listed(project: Project, *args: str) -> list[str]:
    return [each["session"] for each in project.json_lines("sessions", *args)]


def test_shown(three: Project) -> None:
    """A row has the agent, what it is about, the last prompt, how many checkpoints there are, and
    how old it is.
    """
    found = three.gitcp("sessions", check=0).out
    heading, *rows, total = found.splitlines()

    assert all(
        word in heading for word in ("session", "agent", "checkpoints", "last saved", "about")
    )
    row = next(row for row in rows if "e7baae82" in row)
    assert "claude-code" in row
    assert "And now test it!" in row
    assert "ago" in row or "just now" in row
    assert total == "3 sessions, 3 checkpoints"
    assert three.gitcp("sessions", "-n", "1", check=0).out.splitlines()[-1] == (
        "1 of 3 sessions, 1 checkpoint"
    )


def test_dates_where_there_is_room(three: Project) -> None:
    """A wide terminal shows when a session was saved last, and not only how long ago."""
    wide = three.gitcp("sessions", env={"COLUMNS": "140"}, check=0).out
    assert len(re.findall(r" \d{4}-\d\d-\d\d \d\d:\d\d ", wide)) == 3
    for env in ({"COLUMNS": "100"}, None):
        narrow = three.gitcp("sessions", env=env, check=0).out
        assert not re.search(r"\d{4}-\d\d-\d\d", narrow)


def test_last_prompt(three: Project) -> None:
    """For programs the last prompt has a key of its own."""
    found = {each["session"]: each for each in three.json_lines("sessions")}

    assert found["e7baae82"]["last_prompt"] == "And now test it!"
    assert (found["work"]["last_prompt"], found["work"]["title"]) == (None, "by hand")


def test_filters(three: Project) -> None:
    """By agent, by time, by words; and only so many."""
    assert sorted(listed(three, "--agent", "claude-code")) == ["0badcafe", "e7baae82"]
    assert listed(three, "--agent", "codex") == []
    assert listed(three, "--grep", "MANUAL") == ["0badcafe"]
    assert listed(three, "--grep", "by h") == ["work"]
    assert len(listed(three, "--since", "1 hour ago")) == 3
    assert len(listed(three, "-n", "1")) == 1
    assert listed(three, "-n", "0") == []


def test_bad_filters(three: Project) -> None:
    """What cannot be a pattern or a time is refused, and said."""
    assert "no regular expression" not in three.gitcp("sessions", "--grep", "(", check=2).out
    assert "is not a regular expression" in three.gitcp("sessions", "--grep", "(").err
    assert three.gitcp("sessions", "--since", "some day").code == 2


@in_files
@pytest.mark.parametrize("garbage", [b"", bytes(41)], ids=["empty", "zeros"])
def test_a_ref_that_is_garbage_is_in_nobodys_way(project: Project, garbage: bytes) -> None:
    """As a power cut leaves what was not synced. All goes on; the session itself once it is saved
    into.
    """
    for name in ("lost", "well"):
        project.write("a.txt", name)
        project.gitcp("save", "one", "--session", name, check=0)
    broken = project.git_dir / "refs/gitcp/sessions/lost"
    broken.write_bytes(garbage)

    for name in ("well", "new"):
        project.write("a.txt", f"{name} again")
        project.gitcp("save", "two", "--session", name, check=0)
    assert "well@2" in project.gitcp("log", "well", check=0).out
    assert "lost cannot be read: its ref does not contain" in project.gitcp("sessions", check=0).err
    project.gitcp("restore", "well@1", "--yes", check=0)
    assert project.read("a.txt") == b"well"
    for command in (("log", "lost"), ("check",)):
        project.gitcp(*command, check=13)
    assert broken.read_bytes() == garbage
    assert (
        "session lost was damaged" in project.gitcp("save", "x", "--session", "lost", check=0).err
    )
    project.gitcp("log", "lost", check=0)
    project.gitcp("check", check=0)
