"""Real agents that keep notes of a project, offline: after a restore they are told nothing of what
came later, and after an undo they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import scripted_openai
from real_agents import GEMINI, QWEN, QWEN_SETTINGS, gemini, qwen
from scripted_gemini import ScriptedGemini

from driver import Project
from scripted_model import ScriptedModel, Step

pytestmark = pytest.mark.full

KNOWN, LATER = "quillwort grows here", "brambling sang tomorrow"


class Noting(NamedTuple):
    """An agent that keeps notes: its program, where its projects are, the text of a note that it
    reads again, and what the model answers before a turn, asked which notes matter.
    """

    name: str
    program: Path
    turn: Callable[..., str]
    model: type[ScriptedModel]
    notes: str
    text: str
    before: tuple[Step, ...] = ()


AGENTS = (
    Noting("gemini", GEMINI, gemini, ScriptedGemini, ".gemini/tmp/*", "- {}\n"),
    Noting(
        "qwen",
        QWEN,
        qwen,
        scripted_openai.ScriptedOpenAI,
        ".qwen/projects/*",
        "---\nname: note\ndescription: {}\ntype: project\n---\nmore\n",
        ({"text": "none"},),
    ),
)


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_it_does_not_know_tomorrow(agent: Noting, project: Project, tmp_path: Path) -> None:
    """The agent writes a note with its own tool. A restore of the checkpoint before takes it away,
    an undo brings it back: the model is sent it, or not.
    """
    if not agent.program.exists():
        pytest.skip(f"needs {agent.name} (npm) in {agent.program.parents[2]}")
    home = tmp_path / "agent-home"
    settings = home / ".qwen" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({**QWEN_SETTINGS, "memory": {"enableManagedAutoMemory": True}}))
    project.write("a.txt", "one\n")
    project.commit()
    env = {"HOME": str(home)}

    def told(*arguments: str, steps: tuple[Step, ...] = ()) -> tuple[str, str]:
        """Run a turn; the session, and what the model was sent first."""
        with agent.model(*steps, {"text": "Done."}) as model:
            session = agent.turn(home, project.root, model, *arguments)
        return session, json.dumps(model.requests[0])

    session, _ = told("first: begin")
    (place,) = (path / "memory" for path in home.glob(agent.notes) if (path / "chats").is_dir())
    place.mkdir(exist_ok=True)
    index, later = place / "MEMORY.md", place / "later.md"
    first = index if agent.name == "gemini" else place / "note.md"
    first.write_text(agent.text.format(KNOWN))
    project.gitcp("save", "one", env=env, check=0)

    written = first if agent.name == "gemini" else later
    text = agent.text.format(f"{KNOWN}, {LATER}").replace("name: note", "name: later")
    call = {"file_path": str(written), "content": text}
    resume = ("--resume", session)
    told(*resume, "second: note it", steps=(*agent.before, {"tool": "write_file", "input": call}))
    assert LATER in written.read_text()
    _, heard = told("another: what do you know?")
    assert KNOWN in heard
    assert LATER in heard

    report = json.loads(
        project.gitcp("restore", "one", "--yes", "--json", "--whole-tree", env=env).out
    )
    assert report["memory"]["directory"] == str(place)
    _, heard = told(*report["resume"]["command"][1:], "third: go on")
    assert KNOWN in heard
    assert LATER not in heard
    project.gitcp("undo", "--yes", "--whole-tree", env=env, check=0)
    _, heard = told("fourth: what do you know?")
    assert LATER in heard
