"""Real agents at work in a subdirectory: what is restored from the root is resumed where they
ran, by the command that the report has, and the wrecked conversation is not what they go on with.
"""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path

import pytest
from real_agents import copilot, in_order, kilo, opencode
from test_real_recovery import REAL, Real

from driver import Project
from scripted_model import Step

pytestmark = pytest.mark.full

each = pytest.mark.parametrize(
    "real",
    [
        pytest.param(
            real,
            marks=pytest.mark.skipif(not real.program.exists(), reason=f"needs {real.program}"),
        )
        for real in REAL
    ],
    ids=lambda real: real.name,
)


class Work:
    """An agent at work in one directory."""

    def __init__(self, real: Real, home: Path, directory: Path) -> None:
        self.real, self.home, self.directory = real, home, directory

    def turn(self, arguments: list[str], prompt: str, *steps: Step) -> tuple[str, list[str]]:
        """One turn: the id of the session, and what the model was told of the conversation."""
        with self.real.model(*(steps or ({"text": f"Heard {prompt}."},))) as model:
            session = self.real.turn(self.home, self.directory, model, *arguments, prompt)
        assert session is not None
        return session, self.real.said(model.requests[0])

    def type(self, line: str, root: Path, prompt: str, *steps: Step) -> tuple[str, list[str]]:
        """Do what a report said to type in `root`, with a prompt, headless."""
        *before, last = [shlex.split(part) for part in line.split(" && ")]
        self.directory = root
        for command in before:
            if command[0] == "cd":
                self.directory = root / command[1]
            else:
                with self.real.model() as model:
                    run = kilo if command[0] == "kilo" else opencode
                    run(self.home, self.directory, model, *command[1:])
        return self.turn(last[1:], prompt, *steps)


@each
def test_restored_from_the_root(real: Real, project: Project, tmp_path: Path) -> None:
    """A session in web, wrecked there; restored from the root, it goes on in web with what it knew
    then.
    """
    project.write("web/page", "good\n")
    project.commit()
    env = {"HOME": str(tmp_path / "home")}
    work = Work(real, tmp_path / "home", project.root / "web")
    session, _ = work.turn([], "first: a page")
    saved = json.loads(
        project.gitcp("save", "good", "--json", cwd=work.directory, env=env, check=0).out
    )["checkpoint"]
    work.turn(real.resume.format(session).split(), "second: wreck it")
    project.write("web/page", "wrecked\n")
    project.gitcp("save", "wreck", cwd=work.directory, env=env, check=0)

    done = project.gitcp("restore", saved["id"], "--yes", env=env, check=0)

    line = next(text for text in done.out.splitlines() if text.startswith("continue with: "))
    command = line.removeprefix("continue with: ")
    assert command.startswith("cd web && ")
    again, heard = work.type(
        command, project.root, "third: another page", {**real.shell, **pwd(real)}, {"text": "On."}
    )
    assert again != session
    assert project.read("web/where.txt") == f"{project.root}/web\n".encode()
    assert in_order(["first: a page", "Heard first: a page.", "third: another page"], heard), heard
    assert not any("second: wreck it" in text for text in heard)
    assert project.read("web/page") == b"good\n"


def pwd(real: Real) -> Step:
    """The agent's shell tool, told to write down where it is."""
    name = "cmd" if "cmd" in real.shell["input"] else "command"
    return {"input": {**real.shell["input"], name: "pwd > where.txt"}}


LATEST = {
    "claude": ["--continue"],
    "codex": ["resume", "--last"],
    "gemini": ["--resume", "latest"],
    "opencode": ["--continue"],
    "copilot": ["--continue"],
    "kilo": ["--continue"],
    "pi": ["--continue"],
    "qwen": ["--continue"],
}


@each
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
def test_what_the_agent_takes_for_its_latest(
    real: Real, project: Project, tmp_path: Path, *, beside: bool
) -> None:
    """After a restore, the agent's own command for its latest session goes on with what was
    restored, or else the report says with what.
    """
    project.write("page", "good\n")
    project.commit()
    env = {"HOME": str(tmp_path / "home")}
    work = Work(real, tmp_path / "home", project.root)
    session, _ = work.turn([], "first: a page")
    saved = json.loads(project.gitcp("save", "good", "--json", env=env, check=0).out)["checkpoint"]
    work.turn(real.resume.format(session).split(), "second: wreck it")
    if beside:
        time.sleep(1.1)
        work.turn([], "something else")
    # Gemini CLI 0.61 begins a second, empty file when a session goes on in another minute than it
    # began in, and deletes both at its next start.
    chats = work.home / ".gemini/tmp"
    deleted = real.name == "gemini" and not list(chats.rglob(f"*-{session[:8]}.jsonl"))
    resume = json.loads(
        project.gitcp("restore", saved["id"], "--yes", "--json", env=env, check=0).out
    )["resume"]
    assert (resume["session_id"] == session) == deleted
    for command in resume["prepare"]:
        with real.model() as model:
            run = kilo if command[0] == "kilo" else opencode
            run(work.home, project.root, model, *command[1:])

    with real.model({"text": "On."}) as model:
        program = copilot if real.name == "copilot" else real.turn
        program(work.home, project.root, model, *LATEST[real.name], "third: go on")

    heard = real.said(model.requests[0])
    wrecked, other = (
        any(prompt in text for text in heard) for prompt in ("second: wreck it", "something else")
    )
    latest = resume["latest"]
    if latest is None:
        assert not wrecked
        assert in_order(["first: a page", "third: go on"], heard)
    else:
        assert latest["command"][1:] == LATEST[real.name]
        assert (wrecked, other) == (
            latest["session_id"] == session,
            latest["session_id"] != session,
        )
    if real.name != "gemini" or beside:  # alone it depends on whether both turns were in one minute
        assert (latest is None) == (real.name in {"claude", "copilot", "pi", "qwen"})
