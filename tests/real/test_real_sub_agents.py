"""Sub-agents of real agents are saved with the session: in an empty home at another path, after a
restore, there is what only the sub-agent has seen. Those of Claude Code and Codex go on in
`test_real_mending`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import scripted_openai
import test_real_recovery as recovery
from real_agents import KIMI, clone, kilo, kimi, opencode, restore, save
from test_real_recovery import Real, tool

from driver import Project
from scripted_model import Step

OUTER, INNER, REPORT = "ask somebody to look", "look what is there", "The sub-agent saw it."
SEEN = "seen by nobody else"

SPAWNING = {
    "copilot": tool("task", description="look", prompt=INNER, agent_type="task", name="looker"),
    "gemini": tool("invoke_agent", agent_name="generalist", prompt=INNER),
    "kilo": tool("task", description="look", prompt=INNER, subagent_type="general"),
    "kimi": tool("Agent", description="look", prompt=INNER),
    "opencode": tool("task", description="look", prompt=INNER, subagent_type="general"),
    "qwen": tool("agent", description="look", prompt=INNER, subagent_type="general-purpose"),
}
"""How each is told to begin a sub-agent."""

OTHER = Real(
    "kimi",
    KIMI,
    (),
    kimi,
    "--session {}",
    lambda path: tool("Write", path=path, content="by the tool\n"),
    tool("Bash", command=""),
    scripted_openai.ScriptedOpenAI,
    scripted_openai.said,
)
CASES = [each for each in (*recovery.REAL, OTHER) if each.name in SPAWNING]


@pytest.mark.full
@pytest.mark.parametrize("real", [pytest.param(each, id=each.name) for each in CASES])
def test_a_sub_agent_is_saved(real: Real, project: Project, tmp_path: Path) -> None:
    """What it saw in its shell is in none of its parent's requests, and back with the session."""
    if not real.program.exists():
        pytest.skip(f"needs {real.name} (npm) in {real.program.parents[2]}")
    project.write("seen.txt", f"{SEEN}\n")
    project.commit()
    home, there = tmp_path / "first-home", tmp_path / "second-home"
    shell: Step = {**real.shell, "input": {**real.shell["input"], "command": "cat seen.txt"}}

    def answer(body: dict[str, Any]) -> Step:
        texts = real.said(body)
        if any(INNER in text for text in texts) and not any(OUTER in text for text in texts):
            if shell["tool"] not in texts:
                return shell
            ends = "complete_task" in str(body["tools"])  # how Gemini's say that they are done
            return tool("complete_task", result=REPORT) if ends else {"text": REPORT}
        spawn = SPAWNING[real.name]
        return {"text": "Done."} if spawn["tool"] in texts else spawn

    with real.model(*[answer] * 9) as model:
        session = real.turn(home, project.root, model, OUTER)
    of_parent = [each for each in model.requests if OUTER in str(real.said(each))]
    assert of_parent
    assert SEEN not in str(of_parent)
    assert SEEN in str(model.requests)

    saved = save(project, home, "first")
    other = clone(project, tmp_path / "elsewhere")
    there.mkdir()
    resume = restore(other, there, saved["id"])["resume"]
    assert session in (resume["session_id"], f"session_{resume['session_id']}")
    with real.model() as model:
        for command in resume.get("prepare", []):
            run = kilo if command[0] == "kilo" else opencode
            run(there, other.root, model, *command[1:])
    back = [path.read_bytes() for path in there.rglob("*") if path.is_file()]
    assert any(SEEN.encode() in data for data in back)
