"""Real agents, set up by `gitcp enable` and nothing else: their hooks save, a restore takes
them back a turn.

Offline, against a scripted model. Each session has a turn that edits with a tool and one that uses
the shell; then everything is wrecked, and the first turn is restored, in place and in an empty home
at another path. There the agent's own resume must send every earlier message, none of the later
ones, and say which checkpoint it stands on.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import scripted_gemini
import scripted_openai
from real_agents import (
    CLAUDE,
    CODEX,
    COPILOT,
    GEMINI,
    KILO,
    OPENCODE,
    PI,
    QWEN,
    claude,
    clone,
    codex,
    copilot_run,
    gemini,
    in_order,
    kilo,
    kilo_run,
    opencode,
    opencode_run,
    pi,
    qwen,
)

import scripted_model
from driver import SOURCE, File, Project
from scripted_model import Reader, ScriptedModel, Step

REWOUND = ("kilo", "pi", "qwen")
"""The agents that go back by a message here; the others do so in tests of their own."""

SHELL = "printf 'by the shell\\n' > by_shell.txt; chmod 755 by_shell.txt; rm a.txt"
PATCH = "*** Begin Patch\n*** Add File: by_tool.txt\n+by the tool\n*** End Patch\n"
FIRST, SECOND = "Written by tool.", "Done in the shell."

Turn = Callable[..., str | None]


class Real(NamedTuple):
    """A real agent: how it is set up and run, what its tools are called, and how it is told to
    resume a session.
    """

    name: str
    program: Path
    scope: tuple[str, ...]
    turn: Turn
    resume: str
    edit: Callable[[str], Step]
    shell: Step
    model: type[ScriptedModel] = ScriptedModel
    said: Callable[[dict[str, Any]], list[str]] = scripted_model.said


def tool(name: str, /, **input: str) -> Step:
    """A call of a tool."""
    return {"tool": name, "input": input}


REAL = (
    Real(
        "claude",
        CLAUDE,
        (),
        claude,
        "--resume {}",
        lambda path: tool("Write", file_path=path, content="by the tool\n"),
        tool("Bash", command=SHELL),
    ),
    Real(
        "codex",
        CODEX,
        ("--user",),
        codex,
        "resume {}",
        lambda _: {"tool": "apply_patch", "input": PATCH},
        tool("exec_command", cmd=SHELL),
    ),
    Real(
        "gemini",
        GEMINI,
        (),
        gemini,
        "--resume {}",
        lambda path: tool("write_file", file_path=path, content="by the tool\n"),
        tool("run_shell_command", command=SHELL),
        scripted_gemini.ScriptedGemini,
        scripted_gemini.said,
    ),
    Real(
        "opencode",
        OPENCODE,
        ("--user",),
        opencode_run,
        "--session {}",
        lambda path: tool("write", filePath=path, content="by the tool\n"),
        tool("bash", command=SHELL, description="files"),
        scripted_openai.ScriptedOpenAI,
        scripted_openai.said,
    ),
    Real(
        "kilo",
        KILO,
        ("--user",),
        kilo_run,
        "--session {}",
        lambda path: tool("write", filePath=path, content="by the tool\n"),
        tool("bash", command=SHELL, description="files"),
        scripted_openai.ScriptedOpenAI,
        scripted_openai.said,
    ),
    Real(
        "copilot",
        COPILOT,
        ("--user",),
        copilot_run,
        "--resume={}",
        lambda path: tool("create", path=path, file_text="by the tool\n"),
        tool("bash", command=SHELL, description="files"),
    ),
    Real(
        "pi",
        PI,
        (),
        pi,
        "--session {}",
        lambda path: tool("write", path=path, content="by the tool\n"),
        tool("bash", command=SHELL),
        scripted_openai.ScriptedOpenAI,
        scripted_openai.said,
    ),
    Real(
        "qwen",
        QWEN,
        (),
        qwen,
        "--resume {}",
        lambda path: tool("write_file", file_path=path, content="by the tool\n"),
        tool("run_shell_command", command=SHELL, description="files"),
        scripted_openai.ScriptedOpenAI,
        scripted_openai.said,
    ),
)


class Story:
    """One agent at work in one project."""

    def __init__(self, real: Real, project: Project, home: Path) -> None:
        self.real, self.project, self.home = real, project, home
        self.env = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")}
        home.mkdir()
        enabled = project.gitcp(
            "enable", real.name, *real.scope, "--yes", "--json", env=self.env, check=0
        )
        assert json.loads(enabled.out)["agents"][0]["left"] == []

    def turn(
        self, arguments: list[str], prompt: str, *steps: Step | Reader
    ) -> tuple[str, dict[str, Any]]:
        """One turn; the id of the session, and what the model was sent first."""
        with self.real.model(*steps) as model:
            session = self.real.turn(self.home, self.project.root, model, *arguments, prompt)
        assert session is not None
        return session, model.requests[0]

    def checkpoints(self) -> list[Any]:
        """Every checkpoint, the oldest first."""
        listed = self.project.gitcp("log", "--all", "--json", env=self.env, check=0).out
        return [json.loads(line) for line in reversed(listed.splitlines())]

    def talk(self, checkpoint: Any) -> str:
        """The conversation of a checkpoint, as it is shown."""
        if checkpoint["conversation"] is None:
            return ""
        return self.project.gitcp(
            "show", checkpoint["id"], "--conversation", env=self.env, check=0
        ).out

    def names(self, checkpoint: Any) -> set[str]:
        """The files of a checkpoint."""
        return set(
            self.project.git("ls-tree", "-r", "--name-only", checkpoint["commit"]).splitlines()
        )

    def go_back(self, prompt: str, *place: str) -> tuple[list[str], str]:
        """Restore, and go on as the report says; what the model was told, and all that it was
        sent.
        """
        done = self.project.gitcp("restore", *place, "--yes", "--json", env=self.env, check=0)
        resume = json.loads(done.out)["resume"]
        with self.real.model({"text": "Going on."}) as model:
            for command in resume.get("prepare", []):
                run = kilo if command[0] == "kilo" else opencode
                run(self.home, self.project.root, model, *command[1:])
            went = self.real.turn(
                self.home, self.project.root, model, *resume["command"][1:], prompt
            )
        assert went in (None, resume["session_id"])
        return self.real.said(model.requests[0]), json.dumps(model.requests[0])

    def go_on(self, session: str, prompt: str) -> list[str]:
        """Another turn of this session; what the model was told."""
        _, sent = self.turn(self.real.resume.format(session).split(), prompt, {"text": "And on."})
        return self.real.said(sent)


@pytest.fixture(autouse=True)
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`gitcp` on the PATH, for the agents' hooks."""
    bin = tmp_path / "bin"
    bin.mkdir()
    bin.joinpath("gitcp").write_text(
        f'#!/bin/sh\nPYTHONPATH="{SOURCE}" exec "{sys.executable}" -P -m gitcp "$@"\n'
    )
    bin.joinpath("gitcp").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin}{os.pathsep}{os.environ['PATH']}")


# Kilo is opencode under another name, and takes a minute and a half.
SLOW = {"kilo": pytest.mark.full}
CASES = [pytest.param(real, marks=SLOW.get(real.name, ()), id=real.name) for real in REAL]


@pytest.mark.parametrize("real", CASES)
def test_back_to_the_first_turn(real: Real, project: Project, tmp_path: Path) -> None:
    """Enable, two turns, automatic checkpoints, a wreck; the first turn in place, and in an empty
    home elsewhere.
    """
    if not real.program.exists():
        pytest.skip(f"needs {real.name} (npm) in {real.program.parents[2]}")
    project.write("a.txt", "one\n")
    project.commit()
    story = Story(real, project, tmp_path / "first-home")
    edit = real.edit(str(project.root / "by_tool.txt"))
    session, _ = story.turn([], "first: write a file", edit, {"text": FIRST})
    first = project.files()
    resume = real.resume.format(session).split()
    story.turn(resume, "second: use the shell", real.shell, {"text": SECOND})
    second = project.files()

    made = story.checkpoints()
    assert all(checkpoint["trigger"] not in {"manual", "restore"} for checkpoint in made)
    assert len({checkpoint["session"] for checkpoint in made}) == 1
    assert made[-1]["agent"]["session_id"] == session
    # What a new version writes shows here first, and in docs/agents.md.
    assert made[-1]["conversation"]["unknown"] == []
    before = [each for each in made if "second: use the shell" not in story.talk(each)]
    assert "by_tool.txt" not in story.names(before[0]), "before the first prompt"
    target = before[-1]
    assert FIRST in story.talk(target)
    assert {"a.txt", "by_tool.txt"} <= story.names(target)
    assert SECOND in story.talk(made[-1])
    assert {"by_shell.txt", "by_tool.txt"} <= story.names(made[-1])
    assert "a.txt" not in story.names(made[-1])

    project.write("by_tool.txt", "wrecked\n")
    project.remove("by_shell.txt")
    other = clone(project, tmp_path / "elsewhere")
    _is_back(story, target, first)
    going = story.checkpoints()[-1]
    heard = story.go_on(going["agent"]["session_id"], "fourth: and on")
    assert in_order(
        ["first: write a file", FIRST, "third: another way", "Going on.", "fourth: and on"], heard
    ), heard
    assert [each["session"] for each in story.checkpoints()] == [going["session"]] * len(
        story.checkpoints()
    )
    for each in story.checkpoints()[going["number"] :]:
        assert "Going on." in story.talk(each)
    if real.name in REWOUND:
        _is_rewound(story)
    elsewhere = Story(real, other, tmp_path / "second-home")
    _is_back(elsewhere, target, first)
    assert second != first
    assert not project.git("fsck", "--strict", "--no-dangling", "--no-progress")
    said = json.loads(project.gitcp("doctor", "--json", env=story.env).out)
    assert said["log"] == []
    assert [
        agent["last_hook"] is None for agent in said["agents"] if agent["agent"] == real.name
    ] == [False]


def _is_back(story: Story, target: Any, files: dict[bytes, File]) -> None:
    """Restored, the files are as they were, and the agent goes on from there, and knows where it
    stands.
    """
    heard, sent = story.go_back("third: another way", target["id"])

    assert story.project.files() == files
    assert in_order(["first: write a file", FIRST, "third: another way"], heard), heard
    assert not any("second: use the shell" in text or SECOND in text for text in heard), heard
    assert f"gitcp restored checkpoint {target['id']}" in sent


def _is_rewound(story: Story) -> None:
    """To before a prompt by its id, as the conversation shows it: it is not sent, nor what followed
    it.
    """
    shown = story.talk(story.checkpoints()[-1]).splitlines()
    (head,) = [
        before
        for before, line in pairwise(shown)
        if line.strip().strip('"') == "third: another way" and before.startswith("user")
    ]
    heard, _ = story.go_back("fifth: yet another", "--message", head.split()[-1])
    assert in_order(["first: write a file", FIRST, "fifth: yet another"], heard), heard
    assert not any("third: another way" in text or "Going on." in text for text in heard), heard


@pytest.mark.skipif(not CLAUDE.exists(), reason=f"needs Claude Code (npm) in {CLAUDE.parents[2]}")
def test_the_plugin_is_valid(tmp_path: Path) -> None:
    """Claude Code finds nothing wrong with what is shipped, as a plugin and as a marketplace, nor
    with the repository as a marketplace.
    """
    shipped = SOURCE / "hooks" / "claude"
    for what in (shipped, shipped / ".claude-plugin" / "plugin.json", SOURCE):
        done = subprocess.run(
            [CLAUDE, "plugin", "validate", what],
            env={**os.environ, "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        found = re.findall(r"\(([A-Z]+_[A-Z_]+)\)", done.stdout)
        assert set(found) <= {"ICON_MISSING"}, done.stdout  # there is no icon yet


@pytest.mark.skipif(not CLAUDE.exists(), reason=f"needs Claude Code (npm) in {CLAUDE.parents[2]}")
def test_a_slash_command(project: Project, tmp_path: Path) -> None:
    """`/gitcp:checkpoint "note"` asks the agent to save with what it knows; the skill is offered to
    it.
    """
    project.write("a.txt", "one\n")
    story = Story(REAL[0], project, tmp_path / "home")
    save = tool(
        "Bash", command="gitcp save 'half of it works' --fact port=5433 --next 'the other half'"
    )

    _, sent = story.turn([], '/gitcp:checkpoint "half of it works"', save, {"text": "Saved."})

    assert 'may be empty: "half of it works"' in json.dumps(sent, ensure_ascii=False).replace(
        '\\"', '"'
    )
    assert "Save points for this work" in json.dumps(sent)
    (saved,) = [each for each in story.checkpoints() if each["label"] == "half of it works"]
    assert saved["facts"] == {"port": "5433"}
    assert saved["agent"]["name"] == "claude-code"


COMMANDS = {
    "claude": ["/restore 1"],
    "codex": ["$gitcp restore 1"],
    "gemini": ["/restore 1"],
    "kilo": ["--command", "restore", "1"],
    "opencode": ["--command", "gitcp/restore", "1"],
    "pi": ["/restore 1"],
    "qwen": ["/gitcp:restore 1"],
}
"""A slash command of gitcp's as each agent is given it: without the prefix where it needs none."""


@pytest.mark.parametrize(
    "real",
    [
        pytest.param(real, marks=() if real.name == "claude" else pytest.mark.full, id=real.name)
        for real in REAL
        if real.name in COMMANDS
    ],
)
def test_a_slash_command_with_a_number(real: Real, project: Project, tmp_path: Path) -> None:
    """`/restore 1` is gitcp's command: the agent is told what it does, and which checkpoint is
    meant.
    """
    if not real.program.exists():
        pytest.skip(f"needs {real.name} (npm) in {real.program.parents[2]}")
    project.write("a.txt", "one\n")
    story = Story(real, project, tmp_path / "home")
    *options, typed = COMMANDS[real.name]

    _, sent = story.turn(options, typed, {"text": "Restore it?"})

    # Codex has the skill alone, which comes with what was typed.
    told = ["# Checkpoints with gitcp", "restore 1"]
    if real.name != "codex":
        told = ["wants to restore this checkpoint: 1"]
    assert all(each in json.dumps(sent) for each in told)
