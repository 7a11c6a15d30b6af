"""Two real agents in one working tree, offline: one goes back alone, the other goes on undisturbed
and is told.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from real_agents import CLAUDE, CODEX
from test_real_recovery import REAL, Story, launcher, tool

from driver import Project
from scripted_model import Step

pytestmark = [
    pytest.mark.skipif(
        not (CLAUDE.exists() and CODEX.exists()),
        reason=f"needs Claude Code and Codex (npm) in {CLAUDE.parents[2].parent}",
    ),
    pytest.mark.usefixtures(launcher.__name__),
]

LINES = "".join(f"line {n}\n" for n in range(20))


def test_one_goes_back(project: Project, tmp_path: Path) -> None:
    """Codex works while a turn of Claude Code is under way, in the same file. In the next turn of
    Codex, going back over its changes is refused, and Claude Code's turn is undone alone: Codex's
    line and file stay, it goes on, and is told which file changed.
    """
    project.write("app", LINES)
    project.commit()
    claude, codex = (Story(REAL[number], project, tmp_path / f"home-{number}") for number in (0, 1))
    session, _ = claude.turn([], "first: look", {"text": "Seen."})
    target = claude.checkpoints()[-1]
    threads: list[str] = []

    def meanwhile(_: dict[str, Any]) -> Step:
        patch = "sed -i 's/line 15/codex 15/' app; echo codex > codex.txt"
        edit = tool("exec_command", cmd=patch)
        threads.append(codex.turn([], "first: line 15", edit, {"text": "Codex is done."})[0])
        return {"text": "Claude is done."}

    edit = tool("Bash", command="sed -i 's/line 3/claude 3/' app; echo claude > claude.txt")
    resume = claude.real.resume.format(session).split()
    claude.turn(resume, "second: line 3", edit, meanwhile)
    both = LINES.replace("line 3", "claude 3").replace("line 15", "codex 15")
    assert project.read("app").decode() == both

    before = project.files()
    given = ("restore", target["id"], "--yes", "--json")
    reports: list[dict[str, Any]] = []

    def at_work(_: dict[str, Any]) -> Step:
        with project.guard():
            refused = json.loads(project.gitcp(*given, env=claude.env, check=12).err)
        assert project.files() == before
        with project.guard():
            done = json.loads(project.gitcp(*given, "--mine", env=claude.env, check=0).out)
        assert project.read("app").decode() == LINES.replace("line 15", "codex 15")
        assert project.read("codex.txt") == b"codex\n"
        assert not project.root.joinpath("claude.txt").exists()
        reports.extend((refused, done))
        return tool("exec_command", cmd="sed -i 's/line 10/codex 10/' app")

    resume = codex.real.resume.format(threads[0]).split()
    codex.turn(resume, "second: line 10", at_work, {"text": "And on."})
    refused, done = reports
    assert [each["paths"] for each in refused["sessions"]] == [["app", "codex.txt"]]
    _, sent = codex.turn(resume, "third: look", {"text": "Seen."})
    heard = json.dumps(sent)
    assert "changed files that you had changed. Read them again first: app" in heard
    assert "gitcp restored checkpoint" not in heard
    went = project.read("app").decode()
    assert went == LINES.replace("line 15", "codex 15").replace("line 10", "codex 10")

    goes_on = done["resume"]["command"][1:]
    _, sent = claude.turn(goes_on, "third: go on", {"text": "Going on."})
    assert f"gitcp restored checkpoint {target['id']}" in json.dumps(sent)
    with project.guard():
        project.gitcp("undo", "--mine", "--yes", env=claude.env, check=0)
    after = both.replace("line 10", "codex 10")
    assert project.read("app").decode() == after
    assert before.keys() == project.files().keys()
