"""A save that began to scan earlier than another of its session ends later: its checkpoint is not
older than the one it follows.
"""

from __future__ import annotations

import pytest

from gitcp.saving import save as saving
from gitcp.saving.save import SaveRequest, save

from driver import Project
from samples import open_store


@pytest.mark.parametrize("session", ["s", "other"])
def test_files_are_those_of_the_later_scan(
    project: Project, monkeypatch: pytest.MonkeyPatch, session: str
) -> None:
    """Another process edits and saves, between this one's scan and its lock."""
    project.write("a.txt", "one\n")
    project.commit()
    project.gitcp("save", "--session", "s", check=0)
    project.write("a.txt", "two\n")
    take, taken = saving._take, list[int]()

    def overtaken(*given: object) -> object:
        made = take(*given)  # type: ignore[arg-type]
        taken.append(1)
        if len(taken) == 1:
            project.write("a.txt", "three\n")
            project.gitcp("save", "by the other", "--session", session, check=0)
        return made

    monkeypatch.setattr(saving, "_take", overtaken)
    request = SaveRequest(cwd=project.root, session="s", force=True)
    made = save(open_store(project), request).checkpoint

    assert project.git("show", f"{made.commit}:a.txt") == ("three" if session == "s" else "two")
    assert len(taken) == (2 if session == "s" else 1)
    project.git("fsck", "--strict")
    assert project.json("check")["ok"]
